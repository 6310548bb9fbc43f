//! `dpopt evaluate`: what a finished model is worth on private records, for a price.

use std::path::PathBuf;

use clap::Args;
use dpopt::data::formats::Format;
use dpopt::oracle::{EstimatorError, PrivateData};
use dpopt::privacy::{ClipNorm, Curator, Delta, Epsilon};
use serde::Serialize;

use crate::args;
use crate::artefacts::{Readers, may_write, write_new};
use crate::error::CliError;
use crate::evaluated::{Evaluated, Planned};
use crate::exit::Exit;
use crate::input::{self, Input};
use crate::interrupt::Interrupt;
use crate::ledger::{LedgerArgs, Shared};
use crate::model::Model;
use crate::outputs::json_text;
use crate::paths::Paths;
use crate::rescue::ended;
use crate::statement::{rounded_up, scientific};
use crate::summary::{paragraph, print, print_json};
use crate::tell::warn;
use crate::weak::weak;

/// Flags of `dpopt evaluate`.
#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// Model written by `dpopt train --out`
    #[arg(long, value_name = "FILE", value_parser = args::model())]
    model: PathBuf,
    /// Private records that it is evaluated on, and was not trained on; `-`: a table on standard input
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Privacy budget epsilon of the evaluation. On records that the model was trained on it comes on top of what that cost; --ledger
    /// holds both
    #[arg(long, value_name = "E", value_parser = args::epsilon, allow_hyphen_values = true)]
    epsilon: Epsilon,
    /// Privacy budget delta of the evaluation; should be well below one over the number of records
    #[arg(long, value_name = "D", default_value = "1e-6", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Delta,
    /// Public size to plan with; required where the model's adjacency hides the true one
    #[arg(long, value_name = "N", value_parser = args::count, allow_hyphen_values = true)]
    public_records: Option<u64>,
    /// Bins of scores of two classes that records are counted in: an even number. Default: by the number of records and the noise
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    bins: Option<usize>,
    #[command(flatten)]
    ledger: LedgerArgs,
    /// New file for the evaluation as JSON, beside what is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the file of an evaluation is known by.
const FORMAT: &str = "dpopt-evaluation-1";

#[derive(Serialize)]
struct Json<'a> {
    format: &'static str,
    #[serde(flatten)]
    evaluated: &'a Evaluated,
}

/// One release, at the model's point. The neighbouring relation is the model's.
pub(crate) fn run(args: &EvaluateArgs) -> Result<Exit, CliError> {
    Paths::new()
        .reads("--model", Some(&args.model))
        .reads("--data", Some(&args.data))
        .reads("--labels", args.labels.as_deref())
        .writes("--ledger", args.ledger.path())
        .writes("--out", args.out.as_deref())
        .check()?;
    if let Some(out) = &args.out {
        if out.exists() {
            let problem = format!("{} exists; name a new file", out.display());
            return Err(CliError::flag("--out", problem));
        }
        // Before anything is paid for.
        may_write(out, "--out", false)?;
    }
    args.ledger.check_alone()?;
    let model = Model::load(&args.model)?;
    let adjacency = model.privacy.adjacency;
    if !adjacency.record_count_is_public() && args.public_records.is_none() {
        let problem = format!(
            "required for a model of {adjacency} adjacency, where the number of records is private"
        );
        return Err(CliError::flag("--public-records", problem));
    }
    let ledger = Shared::check(&args.ledger, adjacency, None)?;
    let files = ["--data", "--labels"];
    let input = Input::new(&args.data, args.labels.as_deref(), args.format, files)?;
    let table = input.read(&model.schema)?;
    let clip = |radius| ClipNorm::new(radius).map_err(EstimatorError::from);
    let row_norm = clip(table.row_norm)?;
    let data = PrivateData::new(
        table.design,
        table.labels,
        row_norm,
        adjacency,
        args.public_records,
    );
    let data = data.map_err(|source| CliError::Data {
        path: input.name(),
        source,
    })?;
    let data = data.with_label_bound(clip(model.schema.label().largest_code())?);
    let Some(fit) = model.fit() else {
        return Err(CliError::flag("--model", "its loss has no score"));
    };
    let point = model.point();
    let planned = Planned::new(
        (data.public_records(), adjacency),
        (args.epsilon, args.delta),
        1.0,
        (model.schema.label(), args.bins),
    )?;
    let plan = planned.of_model(&fit, &point, data.row_norm())?;
    for warning in weak(Some(args.epsilon), args.delta, data.public_records()) {
        warn(&warning);
    }
    // What is paid for is not lost at a signal.
    Interrupt::finishing()?;
    let mut curator = Curator::protected(adjacency)?;
    if let Some(ledger) = ledger {
        let table = (data.public_records(), model.schema.label());
        let spend = plan.tally().spend();
        let (file, _) = ledger.open(spend.event(), &args.ledger, (table, None))?;
        curator = curator.with_ledger(file).map_err(CliError::Ledger)?;
    }
    let released = planned.release(&plan, &data, (&fit, &point), (curator, None))?;
    let of = (data.public_records(), None);
    let draft = model.schema.is_draft() || model.privacy.draft_schema;
    let evaluated = Evaluated::new(
        released.told,
        &released.guarantee,
        (&model.schema, draft),
        of,
        model.is_plain(),
    );
    let warning = evaluated.warning();
    if let Some(warning) = &warning {
        warn(warning);
    }
    let json = Json {
        format: FORMAT,
        evaluated: &evaluated,
    };
    let printed = match args.json {
        true => print_json(&json),
        false => print(&words(&evaluated)),
    };
    // What was released is shown first, and paid for whatever happens here.
    let written = args.out.as_ref().map(|out| {
        json_text(&json).and_then(|text| write_new(out, text.as_bytes(), "--out", Readers::Mask))
    });
    let settled = released.settled.err().map(CliError::from);
    ended(&json, printed, settled, written).map(|()| Exit::warned(warning.is_some()))
}

fn words(of: &Evaluated) -> String {
    let mut out = of.evaluation.lines(&of.classes).into_bytes();
    let privacy = &of.privacy;
    // Writing to a `Vec` can't fail.
    let _ = paragraph(&mut out, &of.of());
    let head = format!(
        "Privacy    epsilon {} at delta {}, {}\n",
        rounded_up(privacy.epsilon),
        scientific(privacy.delta),
        privacy.adjacency
    );
    out.extend(head.into_bytes());
    for sentence in &privacy.words {
        let _ = paragraph(&mut out, sentence);
    }
    String::from_utf8_lossy(&out).into_owned()
}
