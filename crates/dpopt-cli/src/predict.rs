//! `dpopt predict`: a model applied to a table, through the model's own schema.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use dpopt::data::formats::Format;
use dpopt::oracle::Glm;

use crate::artefacts::{Readers, may_write, write_file};
use crate::classes::predictions;
use crate::error::CliError;
use crate::field::field;
use crate::input::{self, Input};
use crate::model::Model;
use crate::paths::Paths;

use crate::summary::print;

/// Flags of `dpopt predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// Model written by `dpopt train --out`
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Records to score; the label column of a table may be absent. `-`: a table on standard input
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Where to write the predictions, a line for each record; default: standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file at --out
    #[arg(long, requires = "out")]
    force: bool,
}

/// One line per record: the score, the probability of the positive value (for the logistic loss,
/// the only one that models it), and the predicted value. Of several classes, the predicted one and the
/// probability of each. Of a label that is a number, the predicted number.
pub(crate) fn run(args: &PredictArgs) -> Result<(), CliError> {
    let out = args.out.as_deref();
    Paths::new()
        .reads("--model", Some(&args.model))
        .reads("--data", Some(&args.data))
        .writes("--out", out)
        .check()?;
    if let Some(out) = out {
        may_write(out, "--out", args.force)?;
    }
    let model = Model::load(&args.model)?;
    let design =
        Input::new(&args.data, None, args.format, ["--data", ""])?.features(&model.schema)?;
    let label = model.schema.label();
    if let Some(range) = label.range() {
        let mut text = String::from("prediction\n");
        for score in model.scores(&design) {
            // Writing to a `String` can't fail.
            let _ = writeln!(text, "{}", range.number(score));
        }
        return finish(args, &text);
    }
    if let (Some(several), Some(fit)) = (label.several(), model.fit()) {
        return finish(args, &predictions(&fit, several, &design, &model.point()));
    }
    let (positive, negative) = label.classes().map_or(("", ""), |classes| {
        (&classes.positive[..], classes.negative())
    });
    let logistic = model.loss.scalar() == Some(Glm::Logistic);
    let mut text = String::from(if logistic {
        "score,probability,prediction\n"
    } else {
        "score,prediction\n"
    });
    for score in model.scores(&design) {
        let prediction = field(if score > 0.0 { positive } else { negative });
        // Writing to a `String` can't fail.
        let _ = if logistic {
            let probability = 1.0 / (1.0 + (-score).exp());
            writeln!(text, "{score},{probability},{prediction}")
        } else {
            writeln!(text, "{score},{prediction}")
        };
    }
    finish(args, &text)
}

fn finish(args: &PredictArgs, text: &str) -> Result<(), CliError> {
    match &args.out {
        Some(path) => write_file(path, text.as_bytes(), "--out", Readers::Owner),
        None => print(text),
    }
}
