//! `dpopt train --dry-run`: the plan of a run, and no run.

use dpopt::nonconvex::{Budget, PublicFacts};
use dpopt::privacy::{Delta, Epsilon};

use super::records::{Reading, private_data};
use super::{DELTA, EPSILON, TrainArgs};
use crate::error::CliError;
use crate::fit::Fit;
use crate::plan;
use crate::source::Source;
use crate::summary::print;

impl TrainArgs {
    /// Shows the plan for the number of records that the flags or the table tell. `saddle`: it is of another objective than the mean loss.
    pub(super) fn show_plan(
        &self,
        source: &Source,
        fit: Fit,
        saddle: bool,
    ) -> Result<(), CliError> {
        if saddle {
            let problem = "it plans for the mean loss; `dpopt plan --objective` shows the plans of the others";
            return Err(CliError::flag("--dry-run", problem));
        }
        let schema = &source.schema;
        let records = match self.public_records {
            Some(records) => records,
            None => {
                let how = Reading {
                    in_place: self.in_place,
                    adjacency: self.adjacency,
                    public_records: None,
                };
                private_data(how, source)?.public_records()
            }
        };
        let (epsilon, delta) = (self.epsilon, self.delta);
        let budget = Budget {
            epsilon: epsilon.map_or_else(|| Epsilon::new(EPSILON), Ok)?,
            delta: delta.map_or_else(|| Delta::new(DELTA), Ok)?,
        };
        let held = self
            .hold_out
            .planned((records, schema.label()), self.adjacency, &budget)?;
        let row_norm = schema.row_norm();
        let facts = PublicFacts::glm(
            held.as_ref().map_or(records, |(rest, _)| *rest),
            fit.dim(schema.dim()),
            self.adjacency,
            row_norm,
            // A schema's labels are -1 and 1, or between.
            fit.constants(row_norm, Some(1.0)),
        )?;
        let chosen = self.how.choose(self.solver, &fit, &facts, &budget)?;
        self.check_extras(chosen.solver)?;
        plan::show(&chosen, &fit, (budget.delta, None), self.json)?;
        if self.json {
            return Ok(());
        }
        let mut text = String::new();
        if let Some((_, words)) = held {
            text.push_str(&format!("{:<30} {words}\n", "evaluation"));
        }
        text.push_str(&format!(
            "{:<30} nothing was charged, released or written\n",
            "dry run"
        ));
        print(&text)
    }
}
