//! `dpopt budget`: what a shared budget has left.

use std::path::PathBuf;

use clap::Args;
use dpopt::privacy::{Adjacency, BudgetFile, Delta, Epsilon};
use serde::Serialize;

use crate::args::filter_name;
use crate::error::CliError;
use crate::ledger::left_in_words;
use crate::summary::{print, print_json};

/// Flags of `dpopt budget`.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Budget file, as given to `dpopt train --ledger`
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json {
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
    filter: &'static str,
    used: f64,
    capacity: f64,
    runs: u64,
    unsettled: u64,
    epsilon_left: f64,
}

pub(crate) fn run(args: &BudgetArgs) -> Result<(), CliError> {
    let unreadable = |error: dpopt::privacy::BudgetError| CliError::Content {
        path: args.file.clone(),
        problem: error.to_string(),
    };
    crate::source::readable(&args.file)?;
    let file = BudgetFile::open(&args.file).map_err(unreadable)?;
    if args.json {
        let state = file.state().map_err(unreadable)?;
        return print_json(&Json {
            epsilon: file.epsilon(),
            delta: file.delta(),
            adjacency: file.adjacency(),
            filter: filter_name(file.filter()),
            used: state.used,
            capacity: state.capacity,
            runs: state.runs,
            unsettled: state.open,
            epsilon_left: file.epsilon_left(&state),
        });
    }
    let words = left_in_words(&file).map_err(unreadable)?;
    print(&format!("{}: {words}\n", args.file.display()))
}
