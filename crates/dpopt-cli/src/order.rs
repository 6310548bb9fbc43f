//! The public order in which a solver that reads slices meets the records.

use clap::Args;
use dpopt::nonconvex::{SOLVERS, names};
use dpopt::oracle::PrivateData;

use crate::args::AnySolver;
use crate::error::CliError;

/// The seed where none is given: public, from nowhere.
const SEED: u64 = 0;

/// Flag of the order.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OrderArgs {
    /// Seed of the random order in which solvers that read each record once, or in slices, meet the records: public, and chosen without
    /// looking at them; default 0. In a file the order is of runs of neighbours, and within them
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    order_seed: Option<u64>,
}

impl OrderArgs {
    /// These records, in a random order if this solver takes slices of them: a table that is sorted in any way is no sample of its
    /// population from place to place, and nobody is asked whether theirs is.
    pub(crate) fn put(self, data: PrivateData, solver: AnySolver) -> Result<PrivateData, CliError> {
        if solver.needs_positions() {
            let ordered = data.in_random_order(self.order_seed.unwrap_or(SEED));
            return ordered.map_err(|error| CliError::flag("--order-seed", error.to_string()));
        }
        match self.order_seed {
            None => Ok(data),
            Some(seed) => {
                let all = SOLVERS.iter().copied();
                let of_use: Vec<_> = all.filter(|solver| solver.needs.positions).collect();
                let problem = format!(
                    "{solver} reads no slices; it is of use with {} (got {seed})",
                    names(&of_use)
                );
                Err(CliError::flag("--order-seed", problem))
            }
        }
    }
}
