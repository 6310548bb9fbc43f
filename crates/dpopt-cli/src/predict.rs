//! `dpopt predict`: a model applied to a table, through the model's own schema, a block of records after the other.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dpopt::certify::largest;
use dpopt::data::formats::Format;
use dpopt::data::tabular::{Fields, LabelRange};
use dpopt::linalg::Row;
use dpopt::oracle::{Glm, Softmax};
use serde_json::{Map, Value};

use crate::args;
use crate::artefacts::{Growing, Readers, failed, may_write};
use crate::error::CliError;
use crate::field::field;
use crate::fit::Fit;
use crate::input::{self, Input};
use crate::model::{Model, weighted_chances};
use crate::paths::Paths;
use crate::tell::tell;

/// Flags of `dpopt predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// Model written by `dpopt train --out`
    #[arg(long, value_name = "FILE", value_parser = args::model())]
    model: PathBuf,
    /// Records to score; the label column of a table may be absent. `-`: a table on standard input
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Columns of the table that stand before the predictions, as they are; a name with a comma in double quotes. The schema need not
    /// name them
    #[arg(long, value_name = "COL[,COL]")]
    keep: Option<String>,
    /// csv, or jsonl: one JSON object for each record
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    out_format: OutFormat,
    /// Predict the positive value where its probability is above T; default 0.5. For logistic loss. T is used as it is: take it from what
    /// errors cost, or from a released evaluation, and not from protected records
    #[arg(long, value_name = "T", value_parser = args::probability, allow_hyphen_values = true)]
    threshold: Option<f64>,
    /// Where to write the predictions, a line for each record; default: standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file at --out
    #[arg(long, requires = "out")]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutFormat {
    Csv,
    Jsonl,
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
    let input = Input::new(&args.data, None, args.format, ["--data", ""])?;
    let mut answers = Answers::new(&model).ok_or_else(|| CliError::Content {
        path: args.model.clone(),
        problem: "its loss predicts nothing".to_owned(),
    })?;
    if let Some(threshold) = args.threshold {
        answers.set_threshold(threshold, &model)?;
    }
    let kept = kept(args.keep.as_deref(), &answers.columns)?;
    if let Some(words) = weighted_chances(&model) {
        tell(&format!("note: {words}"));
    }
    let Some(path) = out else {
        let mut sink = BufWriter::new(io::stdout().lock());
        write(
            &mut sink,
            args.out_format,
            &input,
            &model,
            &answers,
            &kept,
            CliError::Stdout,
        )?;
        return sink.flush().map_err(CliError::Stdout);
    };
    let failed = |source| failed("--out", path, source);
    let mut sink = BufWriter::new(Growing::at(path, "--out", Readers::Owner, args.force)?);
    write(
        &mut sink,
        args.out_format,
        &input,
        &model,
        &answers,
        &kept,
        failed,
    )?;
    let whole = sink
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    whole.finish().map_err(failed)
}

/// Names of columns, which may stand in double quotes.
fn kept(names: Option<&str>, answers: &[String]) -> Result<Vec<String>, CliError> {
    let Some(names) = names else {
        return Ok(Vec::new());
    };
    let mut fields = Fields::new();
    fields.split(names.as_bytes(), b',', usize::MAX);
    let name = |i| String::from_utf8_lossy(fields.get(i).unwrap_or_default()).into_owned();
    let names: Vec<String> = (0..fields.len()).map(name).collect();
    let problem = |problem: String| Err(CliError::flag("--keep", problem));
    if names.is_empty() || names.iter().any(String::is_empty) {
        return problem("names of columns are needed, with commas between them".to_owned());
    }
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            return problem(format!("{name:?} is there twice"));
        }
        if answers.contains(name) {
            return problem(format!("{name:?} is a column of the predictions"));
        }
    }
    Ok(names)
}

/// Writes everything, by blocks.
fn write(
    out: &mut impl Write,
    format: OutFormat,
    input: &Input,
    model: &Model,
    answers: &Answers<'_>,
    kept: &[String],
    failed: impl Fn(io::Error) -> CliError,
) -> Result<(), CliError> {
    let mut header = format == OutFormat::Csv;
    input.visit_features(&model.schema, kept, |rows, fields| {
        if std::mem::take(&mut header) {
            let names = kept.iter().chain(&answers.columns).map(|name| field(name));
            writeln!(out, "{}", names.collect::<Vec<_>>().join(",")).map_err(&failed)?;
        }
        for (i, fields) in fields.iter().enumerate() {
            let cells = answers.of(rows.row(i));
            match format {
                OutFormat::Csv => csv(out, fields, &cells),
                OutFormat::Jsonl => jsonl(out, (kept, fields), (&answers.columns, &cells)),
            }
            .map_err(&failed)?;
        }
        Ok(())
    })
}

fn csv(out: &mut impl Write, fields: &[Vec<u8>], cells: &[Cell<'_>]) -> io::Result<()> {
    for bytes in fields {
        // Bytes that are no text are passed on as they are.
        if bytes.iter().any(|byte| b",\"\r\n".contains(byte)) {
            out.write_all(b"\"")?;
            for byte in bytes {
                out.write_all(if *byte == b'"' {
                    b"\"\""
                } else {
                    std::slice::from_ref(byte)
                })?;
            }
            out.write_all(b"\"")?;
        } else {
            out.write_all(bytes)?;
        }
        out.write_all(b",")?;
    }
    for (i, cell) in cells.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        match cell {
            Cell::Number(number) => write!(out, "{comma}{number}")?,
            Cell::Text(text) => write!(out, "{comma}{}", field(text))?,
        }
    }
    writeln!(out)
}

fn jsonl(
    out: &mut impl Write,
    (kept, fields): (&[String], &[Vec<u8>]),
    (columns, cells): (&[String], &[Cell<'_>]),
) -> io::Result<()> {
    let mut object = Map::new();
    for (name, bytes) in kept.iter().zip(fields) {
        object.insert(name.clone(), String::from_utf8_lossy(bytes).into());
    }
    for (name, cell) in columns.iter().zip(cells) {
        let value = match cell {
            Cell::Number(number) => Value::from(*number),
            Cell::Text(text) => Value::from(*text),
        };
        object.insert(name.clone(), value);
    }
    writeln!(out, "{}", Value::Object(object))
}

enum Cell<'a> {
    Number(f64),
    Text(&'a str),
}

/// What is said of a record.
struct Answers<'a> {
    columns: Vec<String>,
    point: Vec<f64>,
    fit: Fit,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Number(LabelRange),
    Several(&'a [String]),
    Two {
        positive: &'a str,
        negative: &'a str,
        logistic: bool,
        /// The positive value is predicted above it.
        least: f64,
    },
}

impl<'a> Answers<'a> {
    fn new(model: &'a Model) -> Option<Self> {
        let label = model.schema.label();
        let (columns, kind) = match (label.range(), label.several()) {
            (Some(range), _) => (vec!["prediction".to_owned()], Kind::Number(range)),
            (None, Some(several)) => {
                let chances = several.values.iter().map(|value| format!("p({value})"));
                let columns = std::iter::once("prediction".to_owned()).chain(chances);
                (columns.collect(), Kind::Several(&several.values))
            }
            (None, None) => {
                let classes = label.classes()?;
                let logistic = model.loss.scalar() == Some(Glm::Logistic);
                let columns = ["score", "probability", "prediction"].into_iter();
                let columns = columns.filter(|name| logistic || *name != "probability");
                let kind = Kind::Two {
                    positive: &classes.positive,
                    negative: classes.negative(),
                    logistic,
                    least: 0.0,
                };
                (columns.map(str::to_owned).collect(), kind)
            }
        };
        Some(Self {
            columns,
            point: model.point(),
            fit: model.fit()?,
            kind,
        })
    }

    /// Refuses a model that has no probability of one value.
    fn set_threshold(&mut self, threshold: f64, model: &Model) -> Result<(), CliError> {
        let problem = match &mut self.kind {
            Kind::Two {
                logistic: true,
                least,
                ..
            } => {
                // The score of that probability.
                *least = threshold.ln() - (-threshold).ln_1p();
                return Ok(());
            }
            Kind::Two { .. } => format!(
                "{} has scores and no probabilities; compare the column score with a number of your own",
                model.loss
            ),
            Kind::Several(_) => {
                "a label of several values has a probability for each, and the most probable is \
                                 predicted; compare the columns of probabilities"
                    .to_owned()
            }
            Kind::Number(_) => {
                "the label is a number, and so is its prediction; leave it out".to_owned()
            }
        };
        Err(CliError::flag("--threshold", problem))
    }

    fn of(&self, row: Row<'_>) -> Vec<Cell<'a>> {
        let score = || self.fit.score(row, &self.point);
        match self.kind {
            Kind::Number(range) => vec![Cell::Number(range.number(self.fit.predicted(score())))],
            Kind::Several(values) => {
                let outputs = self.fit.outputs(row, &self.point).unwrap_or_default();
                let class = values.get(largest(&outputs)).map_or("", String::as_str);
                let chances = Softmax::probabilities(&outputs);
                let chances = chances.into_iter().map(Cell::Number);
                std::iter::once(Cell::Text(class)).chain(chances).collect()
            }
            Kind::Two {
                positive,
                negative,
                logistic,
                least,
            } => {
                let score = score();
                let chance = logistic.then(|| Cell::Number(1.0 / (1.0 + (-score).exp())));
                let class = if score > least { positive } else { negative };
                std::iter::once(Cell::Number(score))
                    .chain(chance)
                    .chain([Cell::Text(class)])
                    .collect()
            }
        }
    }
}
