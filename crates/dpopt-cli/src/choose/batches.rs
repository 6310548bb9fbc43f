//! How a solver on samples draws its batches.

use clap::Args;
use dpopt::nonconvex::{Batches, SOLVERS};

use crate::args::SolverArg;
use crate::error::CliError;

/// Flags for batches.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct BatchArgs {
    /// How dp-sgd, dp-sgd-decay, dp-adam and dp-mf-sampled draw their batches: Poisson samples, or a random allocation of the records to the
    /// batches of each epoch, as if they were shuffled
    #[arg(long, value_name = "HOW", default_value = "poisson", value_parser = ["poisson", "allocation"])]
    batches: String,
    /// Keep at most so many records of a Poisson sample, so that the memory of a step is known in advance, for dp-sgd, dp-sgd-decay and
    /// dp-adam; at least the mean batch
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..), allow_hyphen_values = true)]
    largest_batch: Option<u32>,
}

impl BatchArgs {
    fn allocates(&self) -> bool {
        self.batches == "allocation"
    }

    /// A flag that was given, if one was.
    pub(super) fn given(&self) -> Option<&'static str> {
        let limited = self.largest_batch.map(|_| "--largest-batch");
        limited.or(self.allocates().then_some("--batches"))
    }

    /// Refuses flags that the solver has no use for, and both together.
    pub(super) fn check(&self, solver: SolverArg) -> Result<(), CliError> {
        let samples = matches!(solver, SolverArg::Named(solver) if solver.needs.samples);
        if let (Some(flag), false) = (self.given(), samples) {
            let users = SOLVERS.iter().filter(|solver| solver.needs.samples);
            let users: Vec<&str> = users.map(|solver| solver.name).collect();
            let problem = format!("only {} have a use for it", users.join(", "));
            return Err(CliError::flag(flag, problem));
        }
        if let (true, Some(most)) = (self.allocates(), self.largest_batch) {
            let problem =
                format!("limits Poisson samples, and --batches is allocation (got {most})");
            return Err(CliError::flag("--largest-batch", problem));
        }
        Ok(())
    }

    /// What was chosen.
    pub(super) fn choice(&self) -> Batches {
        match self.largest_batch {
            _ if self.allocates() => Batches::Allocated,
            Some(most) => Batches::AtMost(most),
            None => Batches::Poisson,
        }
    }
}
