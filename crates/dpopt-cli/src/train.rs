//! `dpopt train`: a private model of a table.
//!
//! The order matters: everything public is checked, then the table is read (where no record can
//! be an error), the plan is made from public facts, the budget is asked, and only then is
//! anything released. After the run the model is written first, then each file by itself.

mod descend;
mod dry;
mod model;
mod records;
mod resume;
mod saddle;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::data::tabular::Groups;
use dpopt::nonconvex::{Budget, Stop};
use dpopt::privacy::{Adjacency, Checkpoint, Delta, Epsilon, Ledger};

use crate::args::{self, AnySolver, SolverArg};
use crate::artefacts::{MODEL, OutDir};
use crate::beside::Beside;
use crate::by_group::by_group;
use crate::checkpoints::{CheckpointArgs, was_draft};
use crate::choose::ChooseArgs;
use crate::chosen::Chosen;
use crate::class_weights::ClassWeightsArg;
use crate::clock::Stopwatch;
use crate::error::CliError;
use crate::evaluate::{TestMetrics, evaluate};
use crate::evaluated::Evaluated;
use crate::exit::Exit;
use crate::fit::{NetworkArgs, SeedArgs};
use crate::hold_out::HoldOutArgs;
use crate::interrupt::Interrupt;
use crate::ledger::{LedgerArgs, Shared, left_in_words, resume_in_words};
use crate::loss::{LinkArgs, LossArg};
use crate::model::{Model, Trained};
use crate::no_bound::NoBound;
use crate::objective::{Before, Objective, ObjectiveArgs};
use crate::order::{OrderArgs, few_runs};
use crate::outputs::{Outputs, json_text};
use crate::paths::STDIN;
use crate::population::PopulationArgs;
use crate::ranks;
use crate::rescue::Rescue;
use crate::second_order::SecondOrder;
use crate::statement::{Earlier, Protected, Statement};
use crate::summary::{Summary, Times};
use crate::table_args::{DRAFT_ACCEPTED, TableArgs};
use crate::tell::{tell, warn};
use crate::weak::weak;

use descend::{Finished, Job, descend};
use records::{Reading, grouped_data, private_data};
use resume::choose_what_fits;

/// The epsilon of a run on the built-in sample where no other is asked for. A table of one's own has no default.
const OF_SAMPLE: f64 = 1.0;
/// The delta of a run where no other is asked for.
pub(crate) const DELTA: f64 = 1e-6;

/// Flags of `dpopt train`.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    table: TableArgs,
    /// Leave the rows where they are and read them in blocks, for data larger than memory (NPY and IDX that are neither compressed
    /// nor changed by the schema; a file of rows from `dpopt convert` always stays where it is)
    #[arg(long, requires = "records")]
    in_place: bool,
    /// Test set: declared to be outside the protection and evaluated without noise
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// Labels of the test set, where they are in a file of their own
    #[arg(long, value_name = "FILE", requires = "test")]
    test_labels: Option<PathBuf>,
    #[command(flatten)]
    hold_out: HoldOutArgs,
    #[arg(long, help = args::loss_help())]
    loss: Option<LossArg>,
    #[command(flatten)]
    class_weights: ClassWeightsArg,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    objective: ObjectiveArgs,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    seed: SeedArgs,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    population: PopulationArgs,
    #[arg(long, default_value = "auto", help = args::solver_help())]
    solver: SolverArg,
    /// Privacy budget epsilon: required for a table of one's own. Default: with --resume what the ledger has left, for the built-in
    /// sample 1. Above 10 it is warned of
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
    /// Folder for model.json, events.json and report.html; new or empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace these files in a folder that is not empty, and a file that is in the place of --checkpoint
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    how: ChooseArgs,
    /// Show what would be spent, reached and how many passes that is, and stop: nothing is charged, released or written. With
    /// --public-records no record is read; without it the table is read for its number of records alone
    #[arg(long, conflicts_with_all = ["resume", "checkpoint"])]
    dry_run: bool,
    /// Threads, up to 1024; default: as many as the machine offers. The result does not depend on it
    #[arg(long, value_name = "N", value_parser = args::threads, allow_hyphen_values = true)]
    threads: Option<NonZeroUsize>,
    /// Print one JSON object instead of the summary; without --out it holds the model
    #[arg(long)]
    json: bool,
    /// Print neither progress nor summary
    #[arg(long)]
    quiet: bool,
}

impl TrainArgs {
    /// No two paths may be one file where that would lose something.
    fn check_paths(&self) -> Result<(), CliError> {
        self.table
            .paths(&self.ledger, self.out.as_deref())
            .reads("--test", self.test.as_deref())
            .reads("--test-labels", self.test_labels.as_deref())
            .reads("--resume", self.checkpoints.resume())
            .writes("--checkpoint", self.checkpoints.checkpoint())
            .check()
    }

    /// Refuses a run on private records whose model nobody keeps, or for which nobody said how much it may cost.
    pub(crate) fn check_spend(&self) -> Result<(), CliError> {
        let kept = self.out.is_some() || self.json || self.dry_run;
        self.table.check_kept("run", &self.ledger, kept)?;
        if self.epsilon.is_some() || self.table.is_sample() || self.checkpoints.resume().is_some() {
            return Ok(());
        }
        let problem = "needed for a table of one's own: it says how much the model may tell of a record; --epsilon 1 is usual, and above 10 \
                       a guarantee hides next to nothing";
        Err(CliError::flag("--epsilon", problem))
    }

    /// Refuses records that stay in their file for what needs them in memory.
    fn check_memory(&self, in_a_file: bool, solver: AnySolver) -> Result<(), CliError> {
        if !in_a_file || !(self.how.projects() || solver.needs_memory()) {
            return Ok(());
        }
        let problem = format!(
            "the records stay in their file, and {} needs them in memory",
            if self.how.projects() {
                "a projection".to_owned()
            } else {
                solver.to_string()
            }
        );
        Err(CliError::flag("--data", problem))
    }
}

pub(crate) fn run(args: &TrainArgs) -> Result<Exit, CliError> {
    let clock = Stopwatch::start();
    // Public things first.
    ranks::agree_on("the command", &format_args!("{args:?}"))?;
    args.table.check_ranks()?;
    args.check_paths()?;
    if !args.adjacency.record_count_is_public() && args.public_records.is_none() {
        let problem =
            "required with --adjacency add-remove, where the number of records is private";
        return Err(CliError::flag("--public-records", problem));
    }
    let is_read_once = |path: &Path| {
        let found = std::fs::metadata(path);
        path == Path::new(STDIN) || found.is_ok_and(|found| !found.is_file() && !found.is_dir())
    };
    if args.test.as_deref().is_some_and(is_read_once) {
        let problem = "a test set is read twice, so standard input or a pipe can't be one";
        return Err(CliError::flag("--test", problem));
    }
    let test = args.test.as_deref().map(|path| {
        let flags = ["--test", "--test-labels"];
        args.table.input(path, args.test_labels.as_deref(), flags)
    });
    let source = args.table.source(test.transpose()?);
    let source = ranks::all_of("the files were opened", source)?;
    ranks::agree_on("the schema", &format_args!("{:?}", source.schema))?;
    let fit = args.fit(&source.schema)?;
    let groups = args.objective.groups(&source.schema)?;
    let wanted = args
        .objective
        .wanted(groups.as_ref(), &source.schema, args.solver)?;
    let mut max_steps = None;
    if wanted.is_none() {
        args.how.check(args.solver, fit.link.is_some())?;
    }
    if let Some(wanted) = &wanted {
        args.check_saddle(wanted)?;
        // Before shares are released.
        args.check_extras(AnySolver::Saddle(wanted.solver))?;
        max_steps = args.how.of_saddle()?;
    }
    // Of the ranking the class is all; groups are for the summary.
    let whole_table = Groups::new(&source.schema, &[]).ok();
    let trained_by = match &wanted {
        Some(wanted) if wanted.objective == Objective::Auc => whole_table.as_ref(),
        Some(_) => groups.as_ref(),
        None => None,
    };
    if let (Some(wanted), Some(groups)) = (&wanted, trained_by)
        && !wanted.releases()
    {
        // Before a record is read.
        wanted.public_shares(groups, &source.schema)?;
    }
    let given = (args.test.is_some(), args.ledger.path().is_some());
    args.hold_out.check(args.adjacency, given)?;
    args.table.check_draft(&source)?;
    args.check_spend()?;
    if args.dry_run {
        let shown = args.show_plan(&source, &fit, wanted.is_some());
        return shown.map(|()| Exit::Done);
    }
    let prepare = |path| OutDir::prepare(path, args.force);
    // The first rank writes.
    let first = ranks::is_first();
    let mut out = args
        .out
        .as_deref()
        .filter(|_| first)
        .map(prepare)
        .transpose()?;
    if args.how.projects() {
        args.checkpoints.refuse(
            "a projected run starts at the origin and its points before the last are not those of the table",
        )?;
    }
    let checkpoint = args.checkpoints.read()?;
    // A walk from a checkpoint does not start from a seed.
    let fit = match checkpoint {
        None => fit.seeded(args.seed, args.solver.escapes_saddles()),
        Some(_) => fit,
    };
    if first {
        args.checkpoints.check(args.force)?;
    }
    let mut ledger = match first {
        true => Shared::check(&args.ledger, args.adjacency, checkpoint.as_ref())?,
        false => None,
    };
    let (test, test_groups) = source.test(groups.as_ref())?.unzip();
    let interrupt = Interrupt::listen()?;

    let how = Reading {
        in_place: args.in_place,
        adjacency: args.adjacency,
        public_records: args.public_records,
    };
    let data = match trained_by.filter(|groups| !groups.is_whole()) {
        Some(groups) => grouped_data(how, &source, groups)?,
        None => private_data(how, &source)?,
    };
    let data = ranks::joined(data, &source.name(), args.public_records)?;
    let start = checkpoint.as_ref().map(Checkpoint::point);
    let shared = match &ledger {
        Some(Shared::Open(file)) => Some((file.epsilon(), file.delta())),
        _ => None,
    };
    let whole = shared.filter(|_| start.is_some());
    let started_in = match (whole, args.ledger.path()) {
        (Some((epsilon, delta)), Some(path)) => {
            let report = Ledger::report(path).map_err(CliError::Ledger)?;
            let rests_on = report.rests_on().into_iter().map(str::to_owned).collect();
            Some(Earlier {
                epsilon,
                delta,
                rests_on,
            })
        }
        _ => None,
    };
    let delta = match (args.delta, start) {
        (Some(delta), _) => delta,
        (None, None) => Delta::new(DELTA)?,
        // The first rank has the ledger.
        (None, Some(_)) => {
            let own = whole.map_or(0.0, |(_, delta)| delta.get());
            let [delta] = ranks::numbers_of_first("the delta of the ledger", Ok([own]))?;
            Delta::new(delta)?
        }
    };
    let epsilon = args.epsilon.map_or_else(|| Epsilon::new(OF_SAMPLE), Ok)?;
    let (data, held_out) = args
        .hold_out
        .split((data, source.schema.label()), epsilon, delta)?;
    let facts = fit.facts(
        (data.public_records(), data.adjacency()),
        (data.dim(), data.row_norm()),
        data.label_bound(),
    )?;
    if let Some(checkpoint) = &checkpoint {
        CheckpointArgs::check_point(checkpoint, (&fit, &source.schema), facts.dim)?;
    }
    let mut warnings = weak(args.epsilon, delta, facts.records);
    // The ranges are those of the run that it goes on with.
    let draft = source.schema.is_draft() || checkpoint.as_ref().is_some_and(was_draft);
    if draft {
        warnings.push(DRAFT_ACCEPTED.to_owned());
    }
    let (unforeseen, clipped) = source.label_warnings()?;
    let warned = !unforeseen.is_empty();
    warnings.extend(unforeseen);
    warnings.extend(clipped);
    for warning in &warnings {
        warn(warning);
    }
    let mut ready = None;
    let mut released = None;
    let mut chosen = match (&mut ledger, args.epsilon) {
        _ if wanted.is_some() => {
            let (Some(wanted), Some(groups)) = (&wanted, trained_by) else {
                return Err(CliError::flag("--group", "the label is a number"));
            };
            if interrupt.asked() {
                return Err(CliError::Interrupted);
            }
            let budget = Budget { epsilon, delta };
            let (made, plan, curator) =
                wanted.prepare(groups, &source.schema, &data, &budget, max_steps)?;
            released = curator;
            let odd = made.odd();
            ready = Some(made);
            Chosen {
                odd,
                ..Chosen::saddle(wanted.solver, plan, args.solver)
            }
        }
        (ledger, None) if start.is_some() => choose_what_fits(
            (&args.how, args.solver),
            &fit,
            &facts,
            delta,
            ledger.as_mut(),
        )?,
        _ => args
            .how
            .choose(args.solver, &fit, &facts, &Budget { epsilon, delta })?,
    };
    let before = Before::of(released.as_ref(), data.adjacency(), delta);
    chosen.resumed = start.is_some();
    args.check_extras(chosen.solver)
        .map_err(|error| before.told(error))?;
    let data = args
        .order
        .put(data, chosen.solver)
        .map_err(|error| before.told(error))?;
    let clusters = data.order().is_some_and(|order| order.run > 1);
    let earlier = match &mut ledger {
        Some(Shared::Open(file)) => file.state().map_err(CliError::Ledger)?.runs > 0,
        _ => false,
    };
    chosen.no_sample = match (clusters, earlier) {
        (true, _) => Some(NoBound::Clusters),
        (_, true) => Some(NoBound::MaybeRead),
        _ => None,
    };
    let few = few_runs(data.order(), chosen.plan.access(), facts.records);
    for warning in chosen.warnings().into_iter().chain(few) {
        warn(&warning);
        warnings.push(warning);
    }
    args.check_memory(data.is_in_a_file(), chosen.solver)
        .map_err(|error| before.told(error))?;
    if interrupt.asked() {
        return Err(before.told(CliError::Interrupted));
    }

    let mut curator = match released {
        Some(curator) => curator,
        None => ranks::curator(data.adjacency())?,
    };
    let budget_file = match ledger {
        Some(ledger) => {
            let table = (facts.records, source.schema.label());
            let with = (table, args.out.as_deref());
            let spend = chosen.plan.spend();
            let (mut file, other) = ledger.open(spend.event(), &args.ledger, with)?;
            warnings.extend(other);
            let path = args.ledger.path();
            if let Some(path) = path.filter(|_| start.is_some() && !args.quiet) {
                let words = resume_in_words(path, &mut file, &*chosen.plan);
                tell(&words.map_err(CliError::Ledger)?);
            }
            curator = curator.with_ledger(file).map_err(CliError::Ledger)?;
            path
        }
        None => None,
    };
    let saver = args
        .checkpoints
        .saver(
            budget_file.filter(|_| first),
            chosen.plan.steps(),
            (&fit, &source.schema),
            draft,
        )
        .map_err(|error| before.told(error))?;
    let first = fit.start(data.dim(), data.row_norm());
    let job = Job {
        chosen: &chosen,
        fit: &fit,
        start: start.or(first.as_deref()),
        delta,
        ready: ready.as_ref(),
        threads: args.threads,
        projects: args.how.projects(),
        shows: !args.quiet && !args.json,
    };
    let finished =
        descend(&data, &job, curator, &interrupt, saver).map_err(|error| before.told(error))?;
    chosen.reach = finished.reach;
    // The run is paid for: from here on nothing may keep its model from being written.
    interrupt.writing();
    if let Some(trouble) = &finished.trouble {
        warn(trouble);
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
    let mut statement = Statement::new(
        guarantee,
        (Protected::Trained, facts.records),
        outcome.stop,
        // Held-out records pay for their evaluation.
        Some(&finished.spent).filter(|_| held_out.is_none()),
        started_in.as_ref(),
        draft,
    );
    let uncertified = finished.certified.as_ref();
    let uncertified = uncertified.and_then(|found| found.as_ref().err());
    let trained = ready
        .as_ref()
        .zip(finished.dual.as_ref())
        .map(|(ready, dual)| Trained {
            name: ready.objective,
            dual: dual.values.clone(),
            shares_released: ready.released,
            certificate: finished.certified.clone().and_then(Result::ok),
            no_certificate_because: uncertified.map(|of| of.why.clone()),
        });
    let second_order = SecondOrder::of(&chosen, &fit, outcome);
    let model = Model::new(
        chosen.solver,
        (&fit, trained.clone()),
        statement.clone(),
        source.schema.clone(),
        data.order(),
        &outcome.point,
    )
    .with_second_order(second_order.clone());
    if let (Some(out), Some(_)) = (&mut out, &held_out) {
        // Before the pass over the records that were held out; it is written again with what that finds.
        // A failure here is met again, and told, there.
        let _ = json_text(&model).and_then(|text| out.put(MODEL, &text));
    }
    let evaluation = held_out.map(|held| {
        held.evaluate(
            (&fit, model.is_plain()),
            &outcome.point,
            (&source.schema, guarantee),
            args.threads,
        )
    });
    let (evaluation, unevaluated) = match evaluation.transpose() {
        Ok(evaluation) => (evaluation, None),
        Err(error) => (None, Some(error)),
    };
    let beside = evaluation.as_ref().and_then(Evaluated::beside_the_run);
    statement.words.extend(beside);
    let model = model.with_evaluation(statement.clone(), evaluation.clone());
    let mut troubles = Vec::from_iter(unevaluated);
    if let Some(of) = uncertified.filter(|of| of.broke_off) {
        troubles.push(CliError::Uncertified(of.why.clone()));
    }
    troubles.extend(outcome.unsettled.clone().map(CliError::Unsettled));
    let before_model = troubles.len();
    if let Some(out) = &mut out {
        let put = json_text(&model).and_then(|text| out.put(MODEL, &text));
        troubles.extend(put.err());
    }
    let homeless = out.is_none() || troubles.len() > before_model;
    let evaluated = test.as_ref().map(|test| {
        evaluate(
            test,
            &outcome.point,
            (&fit, ready.is_none()),
            source.schema.label(),
        )
    });
    let metrics = match evaluated.transpose() {
        Ok(metrics) => metrics,
        Err(error) => {
            troubles.push(CliError::Metric(error));
            None
        }
    };
    let groups_of_test = test.as_ref().zip(test_groups.as_ref()).zip(groups.as_ref());
    let by_group = groups_of_test.and_then(|((test, of), groups)| {
        let trained = ready.as_ref().zip(finished.dual.as_ref());
        by_group(test, of, &outcome.point, &fit, groups, trained)
    });
    let mut constants = metrics
        .as_ref()
        .map_or(&[][..], TestMetrics::beside)
        .to_vec();
    constants.extend(by_group.as_ref().map(|of| of.beside.clone()));
    let worse = Beside::warning(
        &constants,
        "the test set (the constant is that of the test set itself)",
    );
    let on_held_out = evaluation.as_ref().and_then(Evaluated::warning);
    let worse: Vec<String> = worse.into_iter().chain(on_held_out).collect();
    let warned = warned || !worse.is_empty();
    for warning in worse {
        warn(&warning);
        warnings.push(warning);
    }
    let budget_left = budget_file
        .map(|path| left_in_words(path).unwrap_or_else(|error| format!("can't be shown: {error}")));
    if let Some(out) = &mut out {
        let outputs = Outputs {
            table: &source.name(),
            schema: &source.schema,
            fit: &fit,
            facts: &facts,
            order: data.order(),
            chosen: &chosen,
            guarantee,
            outcome,
            spent: &finished.spent,
            record: &finished.record,
            certificate: &finished.certificate,
            objective: trained.as_ref(),
            second_order: second_order.as_ref(),
            statement: &statement,
            metrics: metrics.as_ref(),
            evaluation: evaluation.as_ref(),
            by_group: by_group.as_ref(),
            times: Times::shown(facts.adjacency, finished.seconds, clock.seconds()),
            budget_left: budget_left.as_deref(),
            made: &args.ledger.made(),
            tuning: None,
        };
        troubles.extend(outputs.write(out));
    }
    let summary = Summary {
        table: source.name(),
        chosen: &chosen,
        facts: &facts,
        order: data.order(),
        fit: &fit,
        label: source.schema.label(),
        outcome,
        certificate: &finished.certificate,
        population: args.population.claim(&chosen, outcome),
        statement: &statement,
        metrics: metrics.as_ref(),
        evaluation: evaluation.as_ref(),
        objective: trained.as_ref(),
        second_order: second_order.as_ref(),
        by_group: by_group.as_ref(),
        constants: &constants,
        times: Times::shown(facts.adjacency, finished.seconds, clock.seconds()),
        out: out.as_ref().map(OutDir::path),
        files: out.as_ref().map_or(&[][..], OutDir::written),
        model: homeless.then_some(&model),
        budget_left,
        warnings: &warnings,
    };
    let rescue = Rescue {
        model: &model,
        promised: out.is_some(),
    };
    let printed = match (args.json, args.quiet) {
        (true, _) => summary.print_json(),
        (false, true) => Ok(()),
        (false, false) => summary.print(),
    };
    let lost = if homeless {
        rescue.after(printed, args.json)
    } else {
        printed.err().filter(|error| !error.is_a_closed_pipe())
    };
    troubles.extend(lost);
    if !troubles.is_empty() {
        return Err(CliError::AfterRun(troubles));
    }
    Ok(match outcome.stop {
        Stop::ByObserver => Exit::Stopped,
        _ => Exit::warned(warned),
    })
}
