//! `dpopt train`: a private model of a table.
//!
//! The order matters: everything public is checked, then the table is read (where no record can
//! be an error), the plan is made from public facts, the budget is asked, and only then is
//! anything released. Outputs appear whole or not at all.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use dpopt::nonconvex::{Budget, GlmRun, Observer, Outcome, PublicFacts, Release, SolverPlan};
use dpopt::oracle::formats::Format;
use dpopt::oracle::{Glm, PrivateData};
use dpopt::privacy::{
    Adjacency, Checkpoint, ClipNorm, Curator, Delta, Epsilon, Guarantee, Ledger, LedgerError,
};

use crate::args::{self, SolverArg};
use crate::artefacts::OutDir;
use crate::checkpoints::{CheckpointArgs, Saver};
use crate::choose::{ChooseArgs, Chosen};
use crate::clock::Stopwatch;
use crate::error::CliError;
use crate::evaluate::evaluate;
use crate::input::{self, Input};
use crate::interrupt::Interrupt;
use crate::ledger::{LedgerArgs, Shared, left_in_words};
use crate::outputs::{self, Outputs};
use crate::progress::Progress;
use crate::source::Source;
use crate::statement::{Statement, scientific};
use crate::summary::{Summary, Times};
use crate::trace::Recorder;

/// The budget of a run where nothing else is asked for.
const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
/// Why a draft is not trained with.
const DRAFT_REFUSED: &str = "it is a draft of `dpopt schema`, whose ranges, categories and label values were read from the \
     records: replace them by public knowledge and remove the line `draft = true`, or pass --accept-draft, \
     and the statement says that they came from the records";
/// What is said of a run on one.
const DRAFT_ACCEPTED: &str = "the schema is a draft that was read from the records: the guarantee does not cover what its ranges, \
                              categories and label values tell of them, and model.json has them";
/// Steps of 2 % that a resumed plan may go down by: to a sixth of what is left. A tuned constant.
const TRIES: u32 = 90;

/// Flags of `dpopt train`.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// Records to train on: a table (CSV, Parquet), rows of numbers (NPY, IDX) or sparse rows
    /// (LIBSVM), all but Parquet also gzipped, or a file of rows (see `dpopt convert`); default: the
    /// built-in sample
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Format of the records: csv, npy, libsvm, idx, parquet or rows; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE", requires = "data")]
    labels: Option<PathBuf>,
    /// Leave the rows where they are and read them in blocks, for data larger than memory (NPY and IDX that are neither compressed
    /// nor changed by the schema; a file of rows from `dpopt convert` always stays where it is)
    #[arg(long, requires = "data")]
    in_place: bool,
    /// Public schema of the table (see `dpopt schema`); a file of rows has its own
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Train on a draft of `dpopt schema` as it is: the statement and the report then say that ranges, categories and label values
    /// came from the records, and that the guarantee does not cover what they tell
    #[arg(long)]
    accept_draft: bool,
    /// Column to predict, if not the one that the schema names
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Value of the label that counts as positive, if not the one that the schema names
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    positive: Option<String>,
    /// Test set: declared to be outside the protection and evaluated without noise
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// Labels of the test set, where they are in a file of their own
    #[arg(long, value_name = "FILE", requires = "test")]
    test_labels: Option<PathBuf>,
    /// Loss of a record: logistic, sigmoid, welsch, geman-mcclure, cauchy, tukey[:C] or huber[:DELTA]
    #[arg(long, default_value = "logistic", value_parser = args::loss)]
    loss: Glm,
    #[arg(long, default_value = "auto", help = args::solver_help())]
    solver: SolverArg,
    /// Privacy budget epsilon; default 1, with --resume what the ledger has left
    #[arg(long, value_name = "E", value_parser = args::epsilon, allow_hyphen_values = true)]
    epsilon: Option<Epsilon>,
    /// Privacy budget delta; should be well below one over the number of records. Default 1e-6,
    /// with --resume that of the ledger
    #[arg(long, value_name = "D", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Option<Delta>,
    /// Which tables count as neighbours: those that differ in one record's values, or by one
    /// record more (the number of records is private then)
    #[arg(long, default_value = "replace-one", value_parser = args::adjacency)]
    adjacency: Adjacency,
    /// Public size to plan with; required with add-remove, where the true one is private
    #[arg(long, value_name = "N", value_parser = args::count, allow_hyphen_values = true)]
    public_records: Option<u64>,
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    checkpoints: CheckpointArgs,
    /// Folder for model.json, ledger.json and report.html
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    how: ChooseArgs,
    /// Threads; default: as many as the machine offers. The result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print one JSON object instead of the summary
    #[arg(long)]
    json: bool,
    /// Print neither progress nor summary
    #[arg(long)]
    quiet: bool,
}

/// Watches a run: keeps what was released, writes checkpoints, moves the bar, stops on Ctrl-C.
struct Watcher<'a> {
    plan: &'a SolverPlan,
    record: Recorder,
    progress: Progress,
    interrupt: Interrupt,
    saver: Saver,
}

impl Observer for Watcher<'_> {
    fn on_release(&mut self, release: &Release<'_>) -> ControlFlow<()> {
        self.record.add(release, self.plan);
        self.progress.step();
        self.saver.on_release(release);
        if self.interrupt.pressed() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// What a run leaves.
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    pub(crate) guarantee: Guarantee,
    pub(crate) record: Recorder,
    pub(crate) seconds: f64,
    /// Why the last checkpoint is missing, if it is.
    pub(crate) trouble: Option<String>,
}

pub(crate) fn run(args: &TrainArgs) -> Result<(), CliError> {
    let clock = Stopwatch::start();
    // Public things first.
    if !args.adjacency.record_count_is_public() && args.public_records.is_none() {
        let problem =
            "required with --adjacency add-remove, where the number of records is private";
        return Err(CliError::flag("--public-records", problem));
    }
    let input = |path: &PathBuf, labels: &Option<PathBuf>, flags| {
        Input::new(path, labels.as_deref(), args.format, flags)
    };
    let data = args.data.as_ref();
    let test = args.test.as_ref();
    let source = Source::check(
        data.map(|path| input(path, &args.labels, ["--data", "--labels"]))
            .transpose()?,
        args.schema.as_deref(),
        test.map(|path| input(path, &args.test_labels, ["--test", "--test-labels"]))
            .transpose()?,
        args.label.as_deref(),
        args.positive.as_deref(),
    )?;
    if source.schema.is_draft() && !args.accept_draft {
        return Err(CliError::flag("--schema", DRAFT_REFUSED));
    }
    let prepare = |path| OutDir::prepare(path, &outputs::FILES);
    let out = args.out.as_deref().map(prepare).transpose()?;
    if args.how.projects() {
        args.checkpoints.refuse(
            "a projected run starts at the origin and its points before the last are not those of the table",
        )?;
    }
    let checkpoint = args.checkpoints.read()?;
    args.checkpoints.check()?;
    let mut ledger = Shared::check(&args.ledger, args.adjacency, checkpoint.as_ref())?;
    let test = source.test()?;
    let interrupt = Interrupt::listen()?;

    let data = private_data(args, &source)?;
    let facts = PublicFacts::glm(
        data.public_records(),
        data.dim(),
        data.adjacency(),
        data.row_norm(),
        args.loss
            .constants_within(data.row_norm(), data.label_bound()),
    )?;
    let start = checkpoint.as_ref().map(Checkpoint::point);
    if let Some(start) = start.filter(|start| start.len() != facts.dim) {
        let problem = format!(
            "the checkpoint's point has dimension {}, the table {}",
            start.len(),
            facts.dim
        );
        return Err(CliError::flag("--resume", problem));
    }
    let shared = match &ledger {
        Some(Shared::Open(file)) => Some((file.epsilon(), file.delta())),
        _ => None,
    };
    let whole = shared.filter(|_| start.is_some());
    let delta = match (args.delta, whole) {
        (Some(delta), _) | (None, Some((_, delta))) => delta,
        (None, None) => Delta::new(DELTA)?,
    };
    let mut warnings = warnings(delta, &facts);
    if source.schema.is_draft() {
        warnings.push(DRAFT_ACCEPTED.to_owned());
    }
    warnings.extend(source.label_warnings()?);
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    let mut chosen = match (&mut ledger, args.epsilon) {
        (Some(Shared::Open(file)), None) if start.is_some() => {
            choose_what_fits(args, &facts, delta, file)?
        }
        (_, epsilon) => {
            let epsilon = epsilon.map_or_else(|| Epsilon::new(EPSILON), Ok)?;
            args.how
                .choose(args.solver, &facts, &Budget { epsilon, delta })?
        }
    };
    chosen.resumed = start.is_some();
    if let Some(warning) = chosen.may_learn_nothing() {
        eprintln!("warning: {warning}");
        warnings.push(warning);
    }
    if data.is_in_a_file() && chosen.plan.needs_records_in_memory() {
        let problem = format!(
            "the records stay in their file, and {} needs them in memory",
            if args.how.projects() {
                "a projection".to_owned()
            } else {
                chosen.solver.to_string()
            }
        );
        return Err(CliError::flag("--data", problem));
    }
    if interrupt.pressed() {
        return Err(CliError::Interrupted);
    }

    let mut curator = Curator::protected(data.adjacency())?;
    let budget_file = match ledger {
        Some(ledger) => {
            let file = ledger.open(&chosen.plan)?;
            let path = args.ledger.path();
            curator = curator.with_ledger(file).map_err(CliError::Ledger)?;
            path
        }
        None => None,
    };
    let saver = args.checkpoints.saver(budget_file, chosen.plan.steps())?;
    let job = Job {
        chosen: &chosen,
        start,
        delta,
    };
    let finished = descend(args, &data, &job, curator, interrupt, saver)?;
    if let Some(trouble) = &finished.trouble {
        eprintln!("warning: {trouble}");
        warnings.push(trouble.clone());
    }

    let Finished {
        outcome, guarantee, ..
    } = &finished;
    if !outcome.point.iter().all(|weight| weight.is_finite()) {
        return Err(CliError::Diverged {
            steps: outcome.steps,
        });
    }
    let statement = Statement::new(
        guarantee,
        facts.records,
        outcome.stop,
        &outcome.spent,
        whole,
        source.schema.is_draft(),
    );
    let metrics = test
        .as_ref()
        .map(|test| evaluate(test, &outcome.point, args.loss))
        .transpose()?;
    // The run is made: from here on nothing may keep its results from being written.
    let budget_left = budget_file
        .map(|path| left_in_words(path).unwrap_or_else(|error| format!("can't be shown: {error}")));
    let folder = out.as_ref().map(|out| out.path().to_owned());
    if let Some(out) = out {
        let outputs = Outputs {
            table: &source.name(),
            schema: &source.schema,
            loss: args.loss,
            facts: &facts,
            chosen: &chosen,
            finished: &finished,
            statement: &statement,
            metrics,
            times: Times::shown(facts.adjacency, finished.seconds, clock.seconds()),
            budget_left: budget_left.as_deref(),
        };
        outputs
            .write(out)
            .map_err(|error| CliError::AfterRun(Box::new(error)))?;
    }
    let summary = Summary {
        table: source.name(),
        chosen: &chosen,
        facts: &facts,
        loss: args.loss,
        outcome,
        statement: &statement,
        metrics,
        times: Times::shown(facts.adjacency, finished.seconds, clock.seconds()),
        out: folder.as_deref(),
        budget_left,
        warnings: &warnings,
    };
    if args.json {
        summary.print_json()
    } else if args.quiet {
        Ok(())
    } else {
        summary.print()
    }
}

/// Reads the table. No message depends on what a record holds.
fn private_data(args: &TrainArgs, source: &Source) -> Result<PrivateData, CliError> {
    // A schema's labels are -1 and 1.
    let label_bound = ClipNorm::new(1.0).map_err(dpopt::oracle::EstimatorError::from)?;
    let problem = |problem| CliError::Data {
        path: source.name(),
        source: problem,
    };
    if let Some(examples) = source.on_disk(args.in_place)? {
        let data = PrivateData::on_disk(examples, args.adjacency, args.public_records);
        return Ok(data.map_err(problem)?.with_label_bound(label_bound));
    }
    let table = source.train()?;
    let row_norm = ClipNorm::new(table.row_norm).map_err(dpopt::oracle::EstimatorError::from)?;
    let data = PrivateData::new(
        table.design,
        table.labels,
        row_norm,
        args.adjacency,
        args.public_records,
    )
    .map_err(problem)?;
    Ok(data.with_label_bound(label_bound))
}

fn warnings(delta: Delta, facts: &PublicFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    let share = 1.0 / facts.records as f64;
    if delta.get() > share {
        warnings.push(format!(
            "--delta {} is above one over the number of records ({share:.3e}): a mechanism that \
             publishes a random record would satisfy it",
            scientific(delta)
        ));
    }
    warnings
}

/// Plans for the largest epsilon that the ledger can pay, or nearly: what is left as the measure
/// of its filter states it, and where the solver's releases cost more in that measure, less by
/// steps of 2 %.
fn choose_what_fits(
    args: &TrainArgs,
    facts: &PublicFacts,
    delta: Delta,
    ledger: &mut Ledger,
) -> Result<Chosen, CliError> {
    let state = ledger.state().map_err(CliError::Ledger)?;
    // Rounded down by more than the accountants' rounding up.
    let left = ledger.epsilon_left(&state) * (1.0 - 1e-6);
    let Ok(mut epsilon) = Epsilon::new(left) else {
        return Err(CliError::flag("--resume", "the ledger has nothing left"));
    };
    let mut tries = 0;
    loop {
        let budget = Budget { epsilon, delta };
        let chosen = args.how.choose(args.solver, facts, &budget)?;
        match ledger.can_pay(chosen.plan.spend().event()) {
            Ok(()) => return Ok(chosen),
            Err(LedgerError::Exhausted { .. }) if tries < TRIES => {
                tries += 1;
                epsilon = Epsilon::new(epsilon.get() * 0.98)?;
            }
            Err(error @ (LedgerError::Exhausted { .. } | LedgerError::Accounting(_))) => {
                return Err(CliError::CannotPay(error));
            }
            Err(error) => return Err(CliError::Ledger(error)),
        }
    }
}

/// What is run, beside the data.
struct Job<'a> {
    chosen: &'a Chosen,
    /// A checkpoint's point; none: the origin.
    start: Option<&'a [f64]>,
    delta: Delta,
}

/// Reserves, releases, settles.
fn descend(
    args: &TrainArgs,
    data: &PrivateData,
    job: &Job<'_>,
    curator: Curator,
    interrupt: Interrupt,
    saver: Saver,
) -> Result<Finished, CliError> {
    let plan = &job.chosen.plan;
    let threads = args
        .threads
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN);
    let mut watcher = Watcher {
        plan,
        record: Recorder::new(plan),
        progress: Progress::new(
            plan.steps(),
            !args.quiet && !args.json,
            args.adjacency.record_count_is_public(),
        ),
        interrupt,
        saver,
    };
    let clock = Stopwatch::start();
    let run = GlmRun::new(data, args.loss, curator)
        .with_threads(threads)
        .from(job.start);
    let result = plan.run_on(run, &mut watcher);
    let seconds = clock.seconds();
    watcher.progress.finish();
    let (outcome, curator) = result.map_err(CliError::from_run)?;
    let guarantee = curator.guarantee(job.delta)?;
    let mut saver = watcher.saver;
    saver.save(&outcome.point, outcome.steps);
    Ok(Finished {
        outcome,
        guarantee,
        record: watcher.record,
        seconds,
        trouble: saver.trouble(),
    })
}
