//! `dpopt schema`: a first schema of a table. Not private.

use std::path::PathBuf;

use clap::Args;
use dpopt::oracle::tabular::draft_schema;

use crate::error::CliError;
use crate::source::readable;
use crate::summary::print;

/// Flags of `dpopt schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Table to read, CSV or gzipped CSV with a header
    file: PathBuf,
}

pub(crate) fn run(args: &SchemaArgs) -> Result<(), CliError> {
    readable(&args.file)?;
    let draft = draft_schema(&args.file)?;
    eprintln!(
        "warning: this draft was read from the data and is not private: before a private run, \
         replace its ranges, categories and values by public knowledge"
    );
    print(&draft)
}
