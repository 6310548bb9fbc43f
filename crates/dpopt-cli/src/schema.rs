//! `dpopt schema`: a first schema of a table. Not private.

use std::path::PathBuf;

use clap::Args;
use dpopt::data::formats::Format;
use dpopt::data::tabular::draft_warnings;

use crate::error::CliError;
use crate::input::{self, Input};
use crate::summary::print;
use crate::tell::warn;

/// Flags of `dpopt schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    #[cfg_attr(
        feature = "parquet",
        doc = "Records to read: CSV, Parquet, NPY, IDX or LIBSVM"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Records to read: CSV, NPY, IDX or LIBSVM"
    )]
    file: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// The column to predict; default: the last one, if it has two values or a few texts
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
}

pub(crate) fn run(args: &SchemaArgs) -> Result<(), CliError> {
    let labels = args.labels.as_deref();
    let input = Input::new(&args.file, labels, args.format, ["FILE", "--labels"])?;
    let draft = input.draft(args.label.as_deref())?;
    warn(
        "this draft was read from the data and is not private: before a private run, \
         replace its ranges, categories and values with those of a codebook, and remove its line `draft = true`",
    );
    for warning in draft_warnings(&draft) {
        warn(warning);
    }
    print(&draft)
}
