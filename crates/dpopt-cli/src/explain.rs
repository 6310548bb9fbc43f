//! `dpopt explain`: what a model promises and to whom, in words for those who did not train it.
//!
//! Everything comes from `model.json`. Sentences of the statement are those of the run; a file whose sentences are not those of its
//! numbers is refused.

mod card;
mod contents;
mod document;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::args;
use crate::error::CliError;
use crate::model::Model;
use crate::summary::print;

/// Flags of `dpopt explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Model written by `dpopt train --out`
    #[arg(value_name = "MODEL", value_parser = args::model())]
    model: PathBuf,
    /// text, markdown, or card: Markdown under a YAML header, as model cards have it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Markdown,
    Card,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<(), CliError> {
    let model = stated(&args.model)?;
    let document = contents::document(&model);
    print(&match args.format {
        Form::Text => document.text(),
        Form::Markdown => document.markdown(),
        Form::Card => card::front_matter(&model) + &document.markdown(),
    })
}

/// A model whose statements can be repeated.
pub(crate) fn stated(path: &Path) -> Result<Model, CliError> {
    let model = Model::load(path)?;
    let evaluation = model.evaluation.as_ref().map(|found| &found.privacy);
    let statements = std::iter::once(&model.privacy).chain(evaluation);
    match statements
        .into_iter()
        .find_map(crate::statement::Statement::problem)
    {
        None => Ok(model),
        Some(problem) => Err(CliError::Content {
            path: path.to_owned(),
            problem: format!("its privacy statement can't be repeated: {problem}"),
        }),
    }
}
