//! What is printed of a tuning.

use dpopt::privacy::Delta;
use serde::Serialize;

use super::told::TuningTold;
use crate::artefacts::OutDir;
use crate::evaluated::Evaluated;
use crate::model::Model;
use crate::statement::{Statement, rounded_up, scientific};
use crate::summary::paragraph;

/// What is printed as JSON.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    pub(super) tuning: &'a TuningTold,
    pub(super) epsilon: f64,
    pub(super) delta: Delta,
    pub(super) records: u64,
    pub(super) evaluation: &'a Evaluated,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget_left: Option<&'a str>,
    pub(super) warnings: &'a [String],
    /// Where no folder holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a Model>,
}

pub(super) fn summary(
    table: &str,
    shown: &Shown<'_>,
    statement: &Statement,
    out: Option<&OutDir>,
) -> String {
    let mut text = format!("Table      {table}\n           {} records\n", shown.records);
    let mut lines = text.into_bytes();
    lines.extend(b"Tuning\n");
    // Writing to a `Vec` can't fail.
    let _ = paragraph(&mut lines, &shown.tuning.words());
    let found = shown.evaluation;
    lines.extend(found.evaluation.lines(&found.classes).into_bytes());
    let _ = paragraph(&mut lines, &found.of());
    let head = format!(
        "Privacy    epsilon {} at delta {}, {}\n",
        rounded_up(statement.epsilon),
        scientific(statement.delta),
        statement.adjacency
    );
    lines.extend(head.into_bytes());
    for sentence in &statement.words {
        let _ = paragraph(&mut lines, sentence);
    }
    if let Some(left) = shown.budget_left {
        lines.extend(format!("Budget     {left}\n").into_bytes());
    }
    let place = match out {
        Some(out) => format!("{} in {}", out.written().join(", "), out.path().display()),
        None => "nothing written (--out DIR keeps the model)".to_owned(),
    };
    lines.extend(format!("Output     {place}\n").into_bytes());
    text = String::from_utf8_lossy(&lines).into_owned();
    text
}
