//! `dpopt tune`: the best of several private models, chosen privately.
//!
//! A secret number of runs is drawn. Each trains a candidate that was drawn at random and scores it on records that were held out, with
//! noise; the best of them is all that leaves. Nothing is shown or written before the end, so a run that is killed tells nothing but when.

mod candidates;
mod dry;
mod plan;
mod search;
mod settings;
mod shown;
mod told;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use dpopt::certify::{TuningFailure, TuningRecords};
use dpopt::nonconvex::{Budget, Stop};
use dpopt::oracle::{EstimatorError, PrivateData, PublicOrder};
use dpopt::privacy::{ClipNorm, Curator, Delta, Epsilon, Refused};

use crate::args;
use crate::artefacts::{MODEL, OutDir};
use crate::certificate::NoCertificate;
use crate::error::CliError;
use crate::evaluated::{Evaluated, FAILURE, HeldOutRecords};
use crate::exit::Exit;
use crate::ledger::{LedgerArgs, Shared, left_in_words};
use crate::model::Model;
use crate::outputs::{Outputs, json_text};
use crate::rescue::Rescue;
use crate::source::Source;
use crate::statement::{Protected, Statement};
use crate::summary::{print, print_json};
use crate::table_args::{DRAFT_ACCEPTED, TableArgs};
use crate::tell::warn;
use crate::trace::Recorder;
use crate::train::DELTA;
use crate::weak::weak;

use candidates::Candidate;
pub(crate) use plan::{PlanTuneArgs, run as plan};
use search::ADJACENCY;
use settings::TuningSettings;
use shown::{Shown, summary};
pub(crate) use told::TuningTold;

/// Flags of `dpopt tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    settings: TuningSettings,
    /// Seed of that draw: public, and chosen without looking at the records. Default: drawn from the operating system, and named in the
    /// model's file
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    holdout_seed: Option<u64>,
    /// Privacy budget epsilon of everything: all runs, their scores and the choice. Required
    #[arg(long, value_name = "E", value_parser = args::epsilon, allow_hyphen_values = true)]
    epsilon: Option<Epsilon>,
    /// Privacy budget delta of the same; should be well below one over the number of records. Default 1e-6
    #[arg(long, value_name = "D", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Option<Delta>,
    #[command(flatten)]
    ledger: LedgerArgs,
    /// Folder for model.json, events.json and report.html; new or empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace these files in a folder that is not empty
    #[arg(long)]
    force: bool,
    /// Show what each run would get, and stop: nothing is charged, released or written. With --public-records no record is read; without it
    /// the table is read for its number of records alone
    #[arg(long)]
    dry_run: bool,
    /// Number of records, for --dry-run without a table
    #[arg(long, value_name = "N", requires = "dry_run", value_parser = args::count, allow_hyphen_values = true)]
    public_records: Option<u64>,
    /// Threads, up to 1024; default: as many as the machine offers. The result does not depend on it
    #[arg(long, value_name = "N", value_parser = args::threads, allow_hyphen_values = true)]
    threads: Option<NonZeroUsize>,
    /// Print one JSON object instead of the summary; without --out it holds the model
    #[arg(long)]
    json: bool,
    /// Print no summary
    #[arg(long)]
    quiet: bool,
}

impl TuneArgs {
    /// Refuses to pay for models that nobody keeps.
    pub(crate) fn check_spend(&self) -> Result<(), CliError> {
        let kept = self.out.is_some() || self.json || self.dry_run;
        self.table.check_kept("tuning", &self.ledger, kept)
    }

    /// The records of every row norm, in two parts each.
    fn read(
        &self,
        source: &Source,
        candidates: &[Candidate],
        seed: u64,
    ) -> Result<Vec<(f64, [PrivateData; 2])>, CliError> {
        let problem = |problem| CliError::Data {
            path: source.name(),
            source: problem,
        };
        let clip = |radius| ClipNorm::new(radius).map_err(EstimatorError::from);
        let mut norms: Vec<f64> = Vec::new();
        for of in candidates {
            let norm = of.schema.row_norm();
            if !norms.contains(&norm) {
                norms.push(norm);
            }
        }
        let longest = norms.iter().copied().fold(0.0, f64::max);
        let widest = source.schema.with_row_norm(longest)?;
        let table = source.train_as(&widest)?;
        let held = self.settings.held(table.labels.len() as u64)?;
        let labels = clip(source.schema.label().largest_code())?;
        norms
            .into_iter()
            .map(|norm| {
                let (design, labels_of) = (table.design.clone(), table.labels.clone());
                let data = PrivateData::new(design, labels_of, clip(norm)?, ADJACENCY, None);
                let data = data.map_err(problem)?.with_label_bound(labels);
                let (train, held) = data.set_aside(held, seed).map_err(problem)?;
                Ok((norm, [train, held]))
            })
            .collect()
    }
}

pub(crate) fn run(args: &TuneArgs) -> Result<Exit, CliError> {
    args.table
        .paths(&args.ledger, args.out.as_deref())
        .check()?;
    let Some(epsilon) = args.epsilon else {
        let problem = "missing: a tuning is planned from the budget that all of its runs keep to together; --epsilon 1, say";
        return Err(CliError::flag("--epsilon", problem));
    };
    let delta = args.delta.map_or_else(|| Delta::new(DELTA), Ok)?;
    let source = args.table.source(None)?;
    args.table.check_draft(&source)?;
    args.check_spend()?;
    if source.stays_in_a_file(false) {
        let problem = "records that stay in a file of rows are read in runs, and none are held out of them; give the table itself";
        return Err(CliError::flag("--data", problem));
    }
    let candidates = args.settings.candidates.all(&source.schema)?;
    let label = source.schema.label();
    args.settings.check(label)?;
    let mut out = match (&args.out, args.dry_run) {
        (Some(path), false) => Some(OutDir::prepare(path, args.force)?),
        _ => None,
    };
    let ledger = Shared::check(&args.ledger, ADJACENCY, None)?;
    let seed = match args.holdout_seed {
        Some(seed) => seed,
        None => PublicOrder::draw_seed().map_err(Refused::from)?,
    };
    let (records, tables) = match args.public_records {
        Some(records) => (records, Vec::new()),
        None => {
            let tables = args.read(&source, &candidates, seed)?;
            let both = tables.first().map(|(_, both)| both);
            let records = both.map_or(0, |both| both.iter().map(PrivateData::public_records).sum());
            (records, tables)
        }
    };
    let total = Budget { epsilon, delta };
    let settled = args
        .settings
        .settle(label, candidates, (records, seed), total)?;
    let (fixed, searched) = (settled.fixed, &settled.searched);
    let terms = settled.terms();
    let [_, held] = fixed.sizes;
    let (mean, _) = terms.repeats;
    let candidates = &settled.candidates;
    let mut told = settled.told.clone();
    let mut warnings = settled.warnings.clone();
    if source.schema.is_draft() {
        warnings.push(DRAFT_ACCEPTED.to_owned());
    }
    warnings.extend(weak(Some(epsilon), delta, records));
    let (unforeseen, clipped) = source.label_warnings()?;
    let warned = !unforeseen.is_empty();
    warnings.extend(unforeseen);
    warnings.extend(clipped);
    for warning in &warnings {
        warn(warning);
    }
    if args.dry_run {
        return dry::show(args.json, &terms, searched, &told).map(|()| Exit::Done);
    }
    let plan = terms.plan(searched)?;
    let mut curator = Curator::protected(ADJACENCY)?;
    let budget_file = match ledger {
        Some(ledger) => {
            let with = ((records, label), args.out.as_deref());
            let (file, other) = ledger.open(&plan.event(), &args.ledger, with)?;
            warnings.extend(other);
            curator = curator.with_ledger(file).map_err(CliError::Ledger)?;
            args.ledger.path()
        }
        None => None,
    };
    curator
        .reserve(&plan.spend())
        .map_err(|refused| CliError::from_run(refused.into()))?;
    let guarantee = curator.guarantee(delta)?;
    let of_norm = |of: &Candidate| {
        let norm = of.schema.row_norm();
        let found = tables.iter().find(|(of, _)| *of == norm);
        found.map(|(_, [train, held])| TuningRecords { train, held })
    };
    let pairs: Vec<TuningRecords<'_>> = candidates.iter().filter_map(of_norm).collect();
    let best = plan.run(&pairs, &mut curator, search::threads(args.threads))?;
    let settled = curator.settle().map_err(CliError::from);
    let best = best.map_err(|failure| match failure {
        TuningFailure::NoRun => CliError::NoRun(mean),
        other => CliError::Untuned(other.to_string()),
    })?;
    let (Some(candidate), Some(chosen)) = (
        candidates.get(best.candidate),
        searched.chosen.get(best.candidate),
    ) else {
        return Err(CliError::Untuned("there is no such candidate".to_owned()));
    };
    told.chosen = best.candidate + 1;
    let mut statement = Statement::new(
        &guarantee,
        (Protected::Trained, records),
        Stop::Completed,
        None,
        None,
        source.schema.is_draft(),
    );
    statement.words.insert(1, told.paid());
    let evaluated = Evaluated::of_best(
        best.evaluation.into(),
        (&statement, &candidate.schema),
        HeldOutRecords {
            records: held,
            seed,
        },
        FAILURE,
        candidate.fit.weights.is_none(),
    );
    let (fit, outcome) = (&candidate.fit, &best.outcome);
    let model = Model::new(
        chosen.solver,
        (fit, None),
        statement.clone(),
        candidate.schema.clone(),
        None,
        &outcome.point,
    )
    .with_evaluation(statement.clone(), Some(evaluated.clone()))
    .with_tuning(told.clone());
    let mut troubles = Vec::from_iter(settled.err());
    let before_model = troubles.len();
    if let Some(out) = &mut out {
        let put = json_text(&model).and_then(|text| out.put(MODEL, &text));
        troubles.extend(put.err());
    }
    let homeless = out.is_none() || troubles.len() > before_model;
    let budget_left = budget_file
        .map(|path| left_in_words(path).unwrap_or_else(|error| format!("can't be shown: {error}")));
    if let Some(out) = &mut out {
        let facts = terms.facts(candidate)?;
        let outputs = Outputs {
            table: &source.name(),
            schema: &candidate.schema,
            fit,
            facts: &facts,
            order: None,
            chosen,
            guarantee: &guarantee,
            outcome,
            spent: &curator.spent(),
            record: &Recorder::new(&*chosen.plan),
            certificate: &Err(NoCertificate::Tuned),
            objective: None,
            second_order: None,
            statement: &statement,
            metrics: None,
            evaluation: Some(&evaluated),
            by_group: None,
            // They tell how many runs there were.
            times: None,
            budget_left: budget_left.as_deref(),
            made: &args.ledger.made(),
            tuning: Some(&told),
        };
        troubles.extend(outputs.write(out));
    }
    let worse = evaluated.warning();
    let warned = warned || worse.is_some();
    if let Some(warning) = worse {
        warn(&warning);
        warnings.push(warning);
    }
    let shown = Shown {
        tuning: &told,
        epsilon: statement.epsilon,
        delta,
        records,
        evaluation: &evaluated,
        budget_left: budget_left.as_deref(),
        warnings: &warnings,
        model: homeless.then_some(&model),
    };
    let printed = match (args.json, args.quiet) {
        (true, _) => print_json(&shown),
        (false, true) => Ok(()),
        (false, false) => print(&summary(&source.name(), &shown, &statement, out.as_ref())),
    };
    let rescue = Rescue {
        model: &model,
        promised: out.is_some(),
    };
    let lost = if homeless {
        rescue.after(printed, args.json)
    } else {
        printed.err().filter(|error| !error.is_a_closed_pipe())
    };
    troubles.extend(lost);
    match troubles.is_empty() {
        false => Err(CliError::AfterRun(troubles)),
        true => Ok(Exit::warned(warned)),
    }
}
