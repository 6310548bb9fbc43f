//! Plans that make no more passes over the data than were asked for.

use dpopt::nonconvex::{Access, Budget, PublicFacts};

use super::ChooseArgs;
use crate::args::SolverArg;
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::fit::Fit;
use crate::tell::with_patience;

/// Plans that are made until one is short enough: each has a lower cap on the steps.
const TRIES: u32 = 40;

impl ChooseArgs {
    /// Plans, within --max-passes where that is given: then with as many steps as make so many passes, and the bound that such a plan has.
    /// Only public facts come in, so nothing else can decide.
    pub(crate) fn choose(
        &self,
        solver: SolverArg,
        fit: &Fit,
        facts: &PublicFacts,
        budget: &Budget,
    ) -> Result<Chosen, CliError> {
        with_patience("still planning: the noise is being searched for", || {
            self.within_passes(solver, fit, facts, budget)
        })
    }

    fn within_passes(
        &self,
        solver: SolverArg,
        fit: &Fit,
        facts: &PublicFacts,
        budget: &Budget,
    ) -> Result<Chosen, CliError> {
        let mut chosen = self.planned(solver, fit, facts, budget)?;
        let Some(most) = self.max_passes else {
            return Ok(chosen);
        };
        let why = match chosen.plan.access() {
            // Fewer of them cost noise, which a cap on the steps does not weigh.
            Access::Epochs { .. }
            | Access::SampledEpochs { .. }
            | Access::AllocatedEpochs { .. } => {
                Some("plans its epochs with its noise; take dp-sgd")
            }
            _ if chosen.plan.gradients() <= 0.0 => Some(
                "asks for values of the loss, and passes are counted in gradients; cap its --max-steps instead",
            ),
            _ => None,
        };
        if let Some(why) = why {
            let problem = format!("{} {why}", chosen.solver);
            return Err(CliError::flag("--max-passes", problem));
        }
        let mut shorter = self.clone();
        for _ in 0..TRIES {
            let passes = chosen.plan.gradients() / facts.records as f64;
            if passes <= most {
                return Ok(chosen);
            }
            // A planner may make each step dearer when it has fewer of them.
            let steps = chosen
                .plan
                .steps()
                .min(shorter.max_steps.unwrap_or(u64::MAX));
            let cap = (steps as f64 * most / passes) as u64;
            if steps <= 1 {
                let (passes, solver) = (passes.ceil(), chosen.solver);
                let problem = format!(
                    "one step of {solver} is {passes:.0} passes over the data, more than {most}; give at least that, or a solver that reads a \
                     sample in each step, such as dp-sgd"
                );
                return Err(CliError::flag("--max-passes", problem));
            }
            shorter.max_steps = Some(cap.clamp(1, steps - 1));
            chosen = shorter.planned(solver, fit, facts, budget)?;
        }
        let problem = format!(
            "no plan of {} was found that makes at most {most}; cap its --max-steps instead",
            chosen.solver
        );
        Err(CliError::flag("--max-passes", problem))
    }
}
