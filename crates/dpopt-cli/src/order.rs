//! The public order in which a solver that reads slices meets the records.

use std::str::FromStr;

use clap::Args;
use dpopt::nonconvex::{Access, SOLVERS, names};
use dpopt::oracle::{PrivateData, PublicOrder};

use crate::args::AnySolver;
use crate::error::CliError;
use crate::ranks;

/// Flag of the order.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OrderArgs {
    /// Seed of the pseudo-random order in which solvers that read each record once, or in slices, meet the records: public, and chosen
    /// without looking at them; default: drawn from the operating system, and named in the report. In a file the order is of runs of
    /// neighbours, and within them. none keeps the order of the table: what is said of the population is then said if that tells nothing
    #[arg(long, value_name = "S|none", allow_hyphen_values = true)]
    order_seed: Option<OrderSeed>,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderSeed {
    Seed(u64),
    TableOrder,
}

impl FromStr for OrderSeed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self::TableOrder),
            number => number
                .parse()
                .map(Self::Seed)
                .map_err(|_| "a seed is a whole number below 2^64, or none".to_owned()),
        }
    }
}

impl std::fmt::Display for OrderSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Seed(seed) => seed.fmt(f),
            Self::TableOrder => f.write_str("none"),
        }
    }
}

impl OrderArgs {
    /// Refuses the flag for a solver that reads no slices.
    pub(crate) fn check(self, solver: AnySolver) -> Result<(), CliError> {
        let Some(seed) = self.order_seed.filter(|_| !solver.needs_positions()) else {
            return Ok(());
        };
        let all = SOLVERS.iter().copied();
        let of_use: Vec<_> = all.filter(|solver| solver.needs.positions).collect();
        let problem = format!(
            "{solver} reads no slices; it is of use with {} (got {seed})",
            names(&of_use)
        );
        Err(CliError::flag("--order-seed", problem))
    }

    /// Whether records are put in a random order for this solver.
    pub(crate) fn draws(self, solver: AnySolver) -> bool {
        solver.needs_positions() && self.order_seed != Some(OrderSeed::TableOrder)
    }

    /// These records, in a pseudo-random order if this solver takes slices of them: a table that is sorted in any way is no sample of its
    /// population from place to place, and nobody is asked whether theirs is.
    pub(crate) fn put(self, data: PrivateData, solver: AnySolver) -> Result<PrivateData, CliError> {
        if !solver.needs_positions() {
            return Ok(data);
        }
        let seed = match self.order_seed {
            Some(OrderSeed::TableOrder) => return Ok(data),
            Some(OrderSeed::Seed(seed)) => seed,
            None => ranks::draw_seed()?,
        };
        data.in_random_order(seed)
            .map_err(|error| CliError::flag("--order-seed", error.to_string()))
    }
}

/// Runs of neighbours that a slice of a file should have at least. A choice: a share of one half varies by .18 over samples of 8 runs.
const FEW: u64 = 8;

/// A warning of slices that hold few of the runs of neighbours that an order of a file of so many records keeps together. Public facts
/// alone. Where all records are one run they are shuffled one by one.
pub(crate) fn few_runs(order: Option<PublicOrder>, access: Access, records: u64) -> Option<String> {
    let (slice, run) = (access.shortest_slice()?, order?.run);
    let neighbours = run > 1 && run < records;
    (neighbours && slice < run.saturating_mul(FEW)).then(|| {
        format!(
            "the shortest slice has {slice} records, and in a file the order keeps runs of {run} neighbours together: a slice comes from few \
             places of the file, and where that is sorted or grouped it is a poor sample, and the model may be far off. Give a table that is \
             read into memory, or shuffle the file before and use --order-seed none"
        )
    })
}

/// The order that a solver of slices met the records in; nothing for other solvers.
pub(crate) fn in_words(order: Option<PublicOrder>, solver: AnySolver) -> Option<String> {
    match order {
        Some(order) => Some(order.to_string()),
        None => solver.needs_positions().then(|| {
            "that of the table; what is said of the population is said if that tells nothing of the records"
                .to_owned()
        }),
    }
}
