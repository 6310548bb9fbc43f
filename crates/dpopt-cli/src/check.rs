//! `dpopt check`: lines of a table that a schema does not foresee. Not private.

use std::path::PathBuf;

use clap::Args;
use dpopt::oracle::tabular::{Schema, check};

use crate::error::CliError;
use crate::source::readable;
use crate::summary::print;

/// Flags of `dpopt check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Table to read, CSV or gzipped CSV with a header
    file: PathBuf,
    /// Schema to compare it with
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
}

pub(crate) fn run(args: &CheckArgs) -> Result<(), CliError> {
    let schema = Schema::load(&args.schema)?;
    readable(&args.file)?;
    let report = check(&args.file, &schema)?;
    eprintln!("warning: this report shows what the records hold; it is not private");
    print(&report.to_string())
}
