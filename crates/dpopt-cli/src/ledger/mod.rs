//! `dpopt ledger`: what a shared ledger holds, and whether it is whole.

mod flags;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dpopt::privacy::{Checkpoint, Ledger};

use crate::error::CliError;
use crate::summary::{print, print_json};

pub(crate) use flags::{LedgerArgs, Made, Shared, left_in_words, resume_in_words};

/// Flags of `dpopt ledger`.
#[derive(Debug, Args)]
pub(crate) struct LedgerCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the terms, what is used and left, and every run
    Show(ShowArgs),
    /// Recompute the chain of lines, every cost and every settlement. Exit code 0: whole; 2: damaged,
    /// with the first line that is wrong, not the ledger of the checkpoint, or no ledger at all
    Verify(VerifyArgs),
}

/// Flags of `dpopt ledger show`.
#[derive(Debug, Args)]
struct ShowArgs {
    /// Ledger, as given to `dpopt train --ledger`
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Flags of `dpopt ledger verify`.
#[derive(Debug, Args)]
struct VerifyArgs {
    /// Ledger, as given to `dpopt train --ledger`
    file: PathBuf,
    /// Also check that the ledger continues the one of this checkpoint: whole lines cut from its
    /// end are found by nothing else
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

pub(crate) fn run(command: &LedgerCommand) -> Result<(), CliError> {
    match &command.what {
        What::Show(args) => {
            let report = Ledger::report(&args.file).map_err(CliError::LedgerFile)?;
            if args.json {
                print_json(&report)
            } else {
                print(&show::table(&args.file, &report))
            }
        }
        What::Verify(args) => verify(&args.file, args.checkpoint.as_deref()),
    }
}

fn verify(path: &Path, checkpoint: Option<&Path>) -> Result<(), CliError> {
    let checkpoint = checkpoint
        .map(|path| Checkpoint::read(path).map_err(CliError::Checkpoint))
        .transpose()?;
    let report = Ledger::verify(path, checkpoint.as_ref()).map_err(CliError::LedgerFile)?;
    let mut text = format!(
        "{}: whole: {} lines, {}, {} of {} {} used; head {}\n",
        path.display(),
        report.head.lines,
        flags::runs(report.runs.len()),
        report.used,
        report.capacity,
        report.unit,
        report.head.hash
    );
    text.push_str(&show::torn(&report));
    print(&text)
}
