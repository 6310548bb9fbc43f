//! The `dpopt` command: private models from a CSV file, a schema and an epsilon.
//!
//! Each subcommand is a file of its own. Results go to standard output, warnings and errors to
//! standard error; an error is one sentence. Exit codes: 0 done, 2 the request can't be met as
//! written (a flag, a file, a schema), 1 anything else (of `ledger verify`: a damaged ledger).
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]
#![expect(
    clippy::print_stderr,
    reason = "warnings and errors are for the terminal"
)]

mod account;
mod args;
mod artefacts;
mod attack;
mod calibrate;
mod check;
mod checkpoints;
mod choose;
mod clock;
mod convert;
mod error;
mod evaluate;
mod input;
mod interrupt;
mod ledger;
mod model;
mod outputs;
mod plan;
mod predict;
mod progress;
mod report;
mod schema;
mod source;
mod statement;
mod summary;
mod trace;
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::CliError;

/// Differentially private models of tabular data, with an honest statement of what they cost.
#[derive(Debug, Parser)]
#[command(name = "dpopt", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a private model; without --data, on the built-in sample of Census-Income
    Train(Box<train::TrainArgs>),
    /// Show what a solver would do and how good theory says it would be; reads no data
    Plan(plan::PlanArgs),
    /// Compute the epsilon of releases, given by parameters or in a file of events
    Account(account::AccountArgs),
    /// Find the noise, the number of steps or the sampling rate that just meets a budget
    Calibrate(calibrate::CalibrateArgs),
    /// Draft a schema from a table (NOT PRIVATE: the draft holds what the records hold)
    Schema(schema::SchemaArgs),
    /// List the lines of a table that a schema does not foresee (NOT PRIVATE)
    Check(check::CheckArgs),
    /// Convert records to a file of rows, for data larger than memory
    Convert(convert::ConvertArgs),
    /// Apply a trained model to a table
    Predict(predict::PredictArgs),
    /// Show or verify a ledger, which holds the budget of several runs
    Ledger(ledger::LedgerCommand),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = match cli.command {
        Command::Train(args) => train::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Account(args) => account::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Ledger(command) => ledger::run(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough: no fault of ours.
        Err(CliError::Stdout(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Help as clap writes it; an error cut down to its one sentence.
fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if asked {
        // A closed pipe is no fault of ours.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.render().to_string();
    let sentence = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = sentence.split_whitespace().collect();
    eprintln!("{} (see --help)", words.join(" "));
    ExitCode::from(2)
}
