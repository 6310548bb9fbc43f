//! `cargo xtask fuzz`: mutants of valid files against one parser, for a given time.
//!
//! The mutants and the checks are those of the test `mutations` of `dpopt-data`, which runs a
//! fixed number of them each time. This runs them for longer.

use std::path::Path;
use std::process::Command;

use crate::cargo::{cargo, succeed};

/// A parser and a time.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(value_parser = ["npy", "idx", "libsvm", "rows", "csv", "schema", "draft", "parquet"])]
    parser: String,
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Runs the test of one parser.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let test = match options.parser.as_str() {
        name @ ("csv" | "schema" | "draft" | "parquet") => format!("tables::{name}"),
        name => name.to_owned(),
    };
    let mut command = Command::new(cargo());
    command
        .args(["test", "-p", "dpopt-data", "--all-features"])
        .args(["--test", "mutations", "--", "--exact", &test])
        .env("DPOPT_FUZZ_SECONDS", options.seconds.to_string())
        .current_dir(root);
    let failed = "a mutant was not handled; the message above has its number";
    succeed(&mut command, failed)
}
