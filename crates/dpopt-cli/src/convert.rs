//! `dpopt convert`: records to a file of rows, from which `train` reads in blocks.

use std::path::PathBuf;

use clap::Args;
use dpopt::data::formats::Format;
use dpopt::data::tabular::Schema;

use crate::artefacts::{Taken, failed, may_write, not_a_file};
use crate::error::CliError;
use crate::input::{self, Input};
use crate::paths::{Paths, end_of_links};

/// Flags of `dpopt convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    #[cfg_attr(
        feature = "parquet",
        doc = "Records to convert: CSV, Parquet, NPY, IDX or LIBSVM, all but Parquet also gzipped"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Records to convert: CSV, NPY, IDX or LIBSVM, also gzipped"
    )]
    file: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Public schema of the records; it is written into the file of rows
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// File of rows to write, by custom `.dpr`. It holds the records, without protection
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace a file at --out
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &ConvertArgs) -> Result<(), CliError> {
    let labels = args.labels.as_deref();
    Paths::new()
        .reads("FILE", Some(&args.file))
        .reads("--labels", labels)
        .reads("--schema", Some(&args.schema))
        .writes("--out", Some(&args.out))
        .check()?;
    if may_write(&args.out, "--out", args.force)? == Taken::Device {
        return Err(failed("--out", &args.out, not_a_file(&args.out)));
    }
    let schema = Schema::load(&args.schema)?;
    let input = Input::new(&args.file, labels, args.format, ["FILE", "--labels"])?;
    input.convert(&schema, &end_of_links(&args.out))
}
