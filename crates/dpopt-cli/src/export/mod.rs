//! `dpopt export`: a model for those who don't have dpopt, as one flat JSON file or as ONNX.
//!
//! Both hold what `dpopt predict` computes and nothing of the run but its privacy statement.

mod flat;
mod onnx;
mod protobuf;
mod score;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args;
use crate::artefacts::{Readers, may_write, write_file};
use crate::error::CliError;
use crate::explain::stated;
use crate::outputs::json_text;
use crate::paths::Paths;

/// Flags of `dpopt export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Model written by `dpopt train --out`
    #[arg(long, value_name = "FILE", value_parser = args::model())]
    model: PathBuf,
    /// json: weights, and how each feature is encoded; onnx: a graph whose input is the encoded row
    #[arg(long, value_name = "FORMAT")]
    format: ExportFormat,
    /// Where to write it
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace a file at --out
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Json,
    Onnx,
}

pub(crate) fn run(args: &ExportArgs) -> Result<(), CliError> {
    Paths::new()
        .reads("--model", Some(&args.model))
        .writes("--out", Some(&args.out))
        .check()?;
    may_write(&args.out, "--out", args.force)?;
    let model = stated(&args.model)?;
    let bad = |problem: String| CliError::Content {
        path: args.model.clone(),
        problem,
    };
    let score = score::Score::of(&model).map_err(|error| bad(error.to_string()))?;
    let bytes = match args.format {
        ExportFormat::Json => {
            let flat = flat::Flat::new(&model, &score);
            json_text(&flat)?.into_bytes()
        }
        ExportFormat::Onnx => {
            onnx::encoded(&model, &score).map_err(|error| bad(error.to_string()))?
        }
    };
    write_file(&args.out, &bytes, "--out", Readers::Mask)
}
