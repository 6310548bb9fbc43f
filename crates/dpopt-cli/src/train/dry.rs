//! `dpopt train --dry-run`: the plan of a run, and no run.

use dpopt::nonconvex::Budget;
use dpopt::privacy::{Delta, Epsilon};

use super::records::{Reading, private_data};
use super::{DELTA, OF_SAMPLE, TrainArgs};
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::fit::Fit;
use crate::ledger::Shared;
use crate::no_bound::NoBound;
use crate::plan;
use crate::ranks;
use crate::source::Source;

impl TrainArgs {
    /// Shows the plan for the number of records that the flags or the table tell. `saddle`: it is of another objective than the mean loss.
    pub(super) fn show_plan(
        &self,
        source: &Source,
        fit: &Fit,
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
                let data = private_data(how, source)?;
                ranks::joined(data, &source.name(), None)?.public_records()
            }
        };
        let (epsilon, delta) = (self.epsilon, self.delta);
        let budget = Budget {
            epsilon: epsilon.map_or_else(|| Epsilon::new(OF_SAMPLE), Ok)?,
            delta: delta.map_or_else(|| Delta::new(DELTA), Ok)?,
        };
        let in_a_file = source.stays_in_a_file(self.in_place);
        self.hold_out.check_memory(in_a_file, records)?;
        let held = self
            .hold_out
            .planned((records, schema.label()), self.adjacency, &budget)?;
        let row_norm = schema.row_norm();
        let records = held.as_ref().map_or(records, |(rest, _)| *rest);
        // A schema's labels are -1 and 1, or between.
        let facts = fit.facts(
            (records, self.adjacency),
            (schema.dim(), row_norm),
            Some(1.0),
        )?;
        let mut chosen = self.how.choose(self.solver, fit, &facts, &budget)?;
        self.check_extras(chosen.solver)?;
        self.check_memory(in_a_file, chosen.solver)?;
        let mut notes: Vec<(&'static str, String)> = Vec::new();
        notes.extend(held.map(|(_, words)| ("evaluation", words)));
        if !ranks::is_first() {
            return Ok(());
        }
        chosen.no_sample = self.no_sample(&chosen, in_a_file)?;
        notes.push((
            "dry run",
            "nothing was charged, released or written".to_owned(),
        ));
        plan::show(&chosen, fit, (budget, None), &notes, self.json)
    }

    /// The reason for which slices of these records may be no fresh sample of the population, as in a run.
    fn no_sample(&self, chosen: &Chosen, in_a_file: bool) -> Result<Option<NoBound>, CliError> {
        if in_a_file && self.order.draws(chosen.solver) {
            return Ok(Some(NoBound::Clusters));
        }
        let ledger = Shared::check(&self.ledger, self.adjacency, None)?;
        let Some(Shared::Open(mut file)) = ledger else {
            return Ok(None);
        };
        let runs = file.state().map_err(CliError::Ledger)?.runs;
        Ok((runs > 0).then_some(NoBound::MaybeRead))
    }
}
