//! `dpopt check`: lines of a table that a schema does not foresee. Not private.

use std::path::PathBuf;

use clap::Args;
use dpopt::data::formats::Format;
use dpopt::data::tabular::Schema;

use crate::error::CliError;
use crate::input::{self, Input};
use crate::summary::print;
use crate::tell::warn;

/// Flags of `dpopt check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Records to read: CSV, Parquet, NPY, IDX or LIBSVM
    file: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Schema to compare it with
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
}

pub(crate) fn run(args: &CheckArgs) -> Result<(), CliError> {
    let schema = Schema::load(&args.schema)?;
    let labels = args.labels.as_deref();
    let input = Input::new(&args.file, labels, args.format, ["FILE", "--labels"])?;
    let report = input.check(&schema)?;
    warn("this report shows what the records hold; it is not private");
    print(&report)
}
