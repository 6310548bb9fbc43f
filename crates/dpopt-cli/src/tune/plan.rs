//! `dpopt plan tune`: what a tuning would cost and plan, by a schema and a number of records.

use std::path::PathBuf;

use clap::Args;
use dpopt::data::tabular::Schema;
use dpopt::nonconvex::Budget;
use dpopt::privacy::{Delta, Epsilon};

use super::dry;
use super::settings::TuningSettings;
use crate::args;
use crate::error::CliError;
use crate::tell::warn;
use crate::weak::weak;

/// Flags of `dpopt plan tune`.
#[derive(Debug, Args)]
pub(crate) struct PlanTuneArgs {
    /// Public schema of a table, which says how many features its rows have and how long they are; no table is read
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// Number of records, the ones that are held out too
    #[arg(long, visible_alias = "public-records", value_name = "N", value_parser = args::count, allow_hyphen_values = true)]
    records: u64,
    #[command(flatten)]
    settings: TuningSettings,
    /// Privacy budget epsilon of everything: all runs, their scores and the choice
    #[arg(long, value_name = "E", value_parser = args::epsilon, allow_hyphen_values = true)]
    epsilon: Epsilon,
    /// Privacy budget delta of the same
    #[arg(long, value_name = "D", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Delta,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &PlanTuneArgs) -> Result<(), CliError> {
    let schema = Schema::load(&args.schema)?;
    let candidates = args.settings.candidates.all(&schema)?;
    let label = schema.label();
    args.settings.check(label)?;
    let (epsilon, delta) = (args.epsilon, args.delta);
    // Who is held out changes nothing in the costs.
    let records = (args.records, 0);
    let total = Budget { epsilon, delta };
    let settled = args.settings.settle(label, candidates, records, total)?;
    for warning in &settled.warnings {
        warn(warning);
    }
    for warning in weak(Some(epsilon), delta, args.records) {
        warn(&warning);
    }
    dry::show(
        args.json,
        &settled.terms(),
        &settled.searched,
        &settled.told,
    )
}
