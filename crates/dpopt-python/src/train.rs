//! Planning and training of models whose losses the library knows.

use std::ffi::CString;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use dpopt::linalg::Row;
use dpopt::nonconvex::{
    Budget, Choice, ExtraFacts, GlmRun, Limits, Observer, Outcome, Plan, PublicFacts, Release,
    RunError, SOLVERS, Solver, Stop, TypicalConstants, auto, solver,
};
use dpopt::oracle::{
    Activation, ClassWeights, Constants, Convexity, Glm, Head, Mlp, PrivateData, Softmax,
};
use dpopt::privacy::ledger::RunNote;
use dpopt::privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, FilterKind, Ledger as Book};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::accounting::{PyEvent, adjacency_of, delta_of, epsilon_of, named};
use crate::errors::{self, user};
use crate::table::Table;

/// What is trained on which public facts.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Task {
    /// A scalar loss, or `softmax`.
    loss: String,
    /// Of softmax.
    classes: usize,
    /// Units of the hidden layers; none: a linear score.
    hidden: Vec<usize>,
    activation: String,
    /// Of the weights that a perceptron starts from.
    seed: u64,
    row_norm: f64,
    /// Labels are cut there.
    label_bound: Option<f64>,
    #[pyo3(default)]
    /// Factors of the losses of records: of the negative and the positive class, or of each of
    /// several; none: all count alike.
    class_weights: Option<Vec<f64>>,
    /// Public number of records: required under add-remove, and of a plan without records.
    records: Option<u64>,
    epsilon: f64,
    delta: f64,
    adjacency: String,
    solver: String,
    max_steps: Option<u64>,
}

/// What is fitted.
enum Model {
    One(Glm),
    Classes(Softmax),
    Perceptron(Mlp, Heads),
}

/// How outputs are compared with labels.
#[derive(Clone, Copy)]
enum Heads {
    One(Glm),
    Classes(Softmax),
}

impl Heads {
    fn constants(self, scale: f64, label_bound: Option<f64>) -> Constants {
        match self {
            Heads::One(loss) => loss.constants_within(scale, label_bound),
            Heads::Classes(classes) => classes.constants(scale),
        }
    }
}

impl Model {
    fn of(task: &Task, inputs: usize) -> PyResult<Self> {
        let head =
            if task.loss == "softmax" {
                let softmax = Softmax::new(task.classes).ok_or_else(|| {
                    user(format!(
                        "{} classes; softmax needs two at least",
                        task.classes
                    ))
                })?;
                Heads::Classes(softmax)
            } else {
                Heads::One(task.loss.parse().map_err(|error| {
                    user(format!("{error}: {:?}; see dpopt.losses()", task.loss))
                })?)
            };
        let activation: Activation = named(&task.activation)?;
        if task.hidden.is_empty() {
            return Ok(match head {
                Heads::One(loss) => Model::One(loss),
                Heads::Classes(classes) => Model::Classes(classes),
            });
        }
        let (of, outputs) = match head {
            Heads::One(loss) => (Head::Scalar(loss), 1),
            Heads::Classes(classes) => (Head::Softmax, classes.classes()),
        };
        let mut sizes = vec![inputs];
        sizes.extend_from_slice(&task.hidden);
        sizes.push(outputs);
        let mlp = Mlp::new(&sizes, activation, of).map_err(user)?;
        Ok(Model::Perceptron(mlp, head))
    }

    fn dim(&self, inputs: usize) -> usize {
        match self {
            Model::One(_) => inputs,
            Model::Classes(classes) => inputs.saturating_mul(classes.classes()),
            Model::Perceptron(mlp, _) => mlp.parameters(),
        }
    }

    /// A perceptron has no Lipschitz constant: it starts where all outputs are 0, and that bounds its gap.
    fn constants(&self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        match self {
            Model::One(loss) => Heads::One(*loss).constants(row_norm, label_bound),
            Model::Classes(classes) => classes.constants(row_norm),
            Model::Perceptron(_, head) => {
                let (head, none) = (head.constants(1.0, label_bound), f64::INFINITY);
                let all = Constants::new(none, none, head.initial_gap, Convexity::Nonconvex);
                all.with_score(head.score)
            }
        }
    }

    /// What planners without a bound take for units.
    fn typical(
        &self,
        row_norm: f64,
        weighted: impl Fn(Constants) -> Constants,
    ) -> Option<TypicalConstants> {
        let Model::Perceptron(mlp, head) = self else {
            return None;
        };
        let row_norm = mlp.typical_slope(row_norm);
        let constants = weighted(head.constants(row_norm, None));
        Some(TypicalConstants {
            lipschitz: constants.lipschitz,
            smoothness: constants.smoothness,
            row_norm,
        })
    }

    /// Outputs for a row.
    fn width(&self) -> usize {
        match self {
            Model::One(_) | Model::Perceptron(_, Heads::One(_)) => 1,
            Model::Classes(classes) | Model::Perceptron(_, Heads::Classes(classes)) => {
                classes.classes()
            }
        }
    }

    fn outputs(&self, row: Row<'_>, weights: &[f64]) -> Vec<f64> {
        match self {
            Model::One(_) => vec![row.dot(weights)],
            Model::Classes(classes) => classes.outputs(row, weights),
            Model::Perceptron(mlp, _) => mlp.outputs_of(row, weights),
        }
    }

    fn run<'a>(self, data: &'a PrivateData, curator: Curator) -> GlmRun<'a> {
        match self {
            Model::One(loss) => GlmRun::new(data, loss, curator),
            Model::Classes(classes) => GlmRun::of_classes(data, classes, curator),
            Model::Perceptron(mlp, _) => GlmRun::of_perceptron(data, mlp, curator),
        }
    }
}

/// A task with everything public checked.
struct Checked {
    model: Model,
    facts: PublicFacts,
    extra: ExtraFacts,
    pub(crate) budget: Budget,
    /// None: by the rule of the library.
    solver: Option<&'static Solver>,
    max_steps: Option<u64>,
    row_norm: ClipNorm,
    label_bound: Option<ClipNorm>,
    weights: Option<ClassWeights>,
}

/// Public factors by labels: of two classes by their sign.
pub(crate) fn class_weights(factors: Option<&[f64]>) -> PyResult<Option<ClassWeights>> {
    let Some(factors) = factors else {
        return Ok(None);
    };
    let weights = match *factors {
        [negative, positive] => ClassWeights::of_signs(negative, positive),
        _ => ClassWeights::of_classes(factors.to_vec()),
    };
    weights.map(Some).map_err(user)
}

impl Task {
    fn check(&self, inputs: usize, records: u64) -> PyResult<Checked> {
        let adjacency: Adjacency = adjacency_of(&self.adjacency)?;
        let row_norm = ClipNorm::new(self.row_norm).map_err(errors::unit)?;
        let bound = self.label_bound.map(ClipNorm::new);
        let label_bound = bound.transpose().map_err(errors::unit)?;
        let model = Model::of(self, inputs)?;
        let weights = class_weights(self.class_weights.as_deref())?;
        let weighted = |of: Constants| weights.as_ref().map_or(of, |weights| weights.constants(of));
        let constants = weighted(model.constants(self.row_norm, self.label_bound));
        let facts = PublicFacts {
            records,
            dim: model.dim(inputs),
            adjacency,
            lipschitz: constants.lipschitz,
            smoothness: constants.smoothness,
            initial_gap: constants.initial_gap,
            row_norm: self.row_norm,
            score: constants.score,
            convexity: constants.convexity,
        };
        match &model {
            Model::Perceptron(..) => facts.check_clipped(),
            _ => facts.check_lipschitz(),
        }
        .map_err(errors::no_plan)?;
        let mut extra = ExtraFacts::default();
        extra.typical = model.typical(self.row_norm, weighted);
        let solver = match self.solver.as_str() {
            "auto" => None,
            name => Some(solver(name).map_err(user)?),
        };
        if let (Some(solver), Model::Perceptron(..)) = (solver, &model)
            && !solver.needs.no_constants
        {
            let able = SOLVERS.iter().filter(|solver| solver.needs.no_constants);
            let able: Vec<&str> = able.map(|solver| solver.name).collect();
            return Err(user(format!(
                "{solver} is planned by a Lipschitz constant, and a perceptron has none; take auto or one of {}",
                able.join(", ")
            )));
        }
        Ok(Checked {
            model,
            facts,
            extra,
            budget: Budget {
                epsilon: epsilon_of(self.epsilon)?,
                delta: delta_of(self.delta)?,
            },
            solver,
            max_steps: self.max_steps,
            row_norm,
            label_bound,
            weights,
        })
    }
}

impl Checked {
    /// The plan, and why its solver was picked.
    fn plan(&self) -> Result<(Box<dyn Plan>, Option<String>), dpopt::nonconvex::PlanError> {
        let (facts, extra, budget) = (&self.facts, &self.extra, &self.budget);
        let asked = self.max_steps.map(Limits::steps);
        if let Some(solver) = self.solver {
            let limits = asked.unwrap_or_else(|| solver.usual_limits());
            return Ok((solver.plan(facts, extra, budget, &limits)?, None));
        }
        let Choice { plan, reason, .. } = auto(facts, extra, budget, asked.as_ref())?;
        Ok((plan, Some(reason.to_string())))
    }
}

/// A plan, as Python sees it: public numbers.
#[derive(IntoPyObject)]
pub(crate) struct Planned {
    solver: String,
    reason: Option<String>,
    steps: u64,
    passes: f64,
    clip: f64,
    bound: Option<String>,
    trivial_bound: f64,
    warning: Option<String>,
    event: PyEvent,
    dim: usize,
}

impl Planned {
    pub(crate) fn new(plan: &dyn Plan, reason: Option<String>) -> PyResult<Self> {
        let facts = plan.facts();
        Ok(Self {
            solver: plan.name().to_owned(),
            reason,
            steps: plan.steps(),
            passes: plan.gradients() / facts.records as f64,
            clip: plan.clip(),
            bound: plan.bound().map(|bound| as_json(&bound)).transpose()?,
            trivial_bound: plan.trivial_bound(),
            warning: plan.warning(plan.trivial_bound()),
            event: PyEvent(plan.spend().event().clone()),
            dim: plan.dim(),
        })
    }
}

/// What a training ended with.
#[derive(IntoPyObject)]
pub(crate) struct Trained<'py> {
    plan: Planned,
    weights: Bound<'py, PyArray1<f64>>,
    stop: String,
    steps: u64,
    bound: Option<String>,
    returned_start: bool,
    unsettled: Option<String>,
    epsilon: f64,
    accountant: String,
    event: PyEvent,
    rests_on: Vec<String>,
}

/// A budget on disk that all runs on the same records share. Opened anew by each training.
///
/// How costs add up is its ``filter``, which it keeps: "gdp" (the default) makes Gaussian runs cost the least and refuses samples, that is
/// ``make_private``, ``PrivateSteps(sampling_rate=)``, ``PrivateMLPClassifier`` and solvers that sample; "rdp" takes those too, and a budget
/// pays for somewhat less; "zcdp" takes selections and no samples.
#[pyclass(frozen, name = "Ledger", module = "dpopt")]
pub(crate) struct Ledger {
    path: PathBuf,
}

#[pymethods]
impl Ledger {
    /// Opens a ledger, or makes one with these terms: the total budget, and how costs add up (gdp, zcdp or rdp). Where it makes one and no
    /// filter is named, it warns of what the default refuses.
    #[new]
    #[pyo3(signature = (path, *, epsilon=None, delta=None, adjacency=None, filter=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        epsilon: Option<f64>,
        delta: Option<f64>,
        adjacency: Option<&str>,
        filter: Option<&str>,
    ) -> PyResult<Self> {
        let opened = match (epsilon, delta, adjacency) {
            (None, None, None) => Book::open(&path),
            (Some(epsilon), Some(delta), Some(adjacency)) => {
                let terms = (epsilon_of(epsilon)?, delta_of(delta)?);
                let adjacency = adjacency_of(adjacency)?;
                let kind = match filter {
                    Some(filter) => named(filter)?,
                    None if path.exists() => Book::open(&path).map_err(errors::ledger)?.filter(),
                    None => {
                        warn_of_filter(py, FilterKind::Gdp, terms)?;
                        FilterKind::Gdp
                    }
                };
                Book::open_or_create(&path, terms.0, terms.1, adjacency, kind)
            }
            _ => {
                return Err(user(
                    "the terms of a ledger are epsilon, delta and adjacency: give all three, or none for one that exists",
                ));
            }
        };
        opened.map_err(errors::ledger)?;
        // A run elsewhere is a run on this ledger all the same.
        let path = std::path::absolute(&path).map_err(user)?;
        Ok(Self { path })
    }

    /// Where it is.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Its terms, its runs and what is left of it, as JSON.
    fn report_json(&self) -> PyResult<String> {
        as_json(&Book::report(&self.path).map_err(errors::ledger)?)
    }

    fn __repr__(&self) -> String {
        format!("dpopt.Ledger({:?})", self.path)
    }

    /// By its path: a copy is the same ledger.
    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, (PathBuf,)) {
        (
            slf.get_type().into_any().unbind(),
            (slf.get().path.clone(),),
        )
    }
}

/// What the filter that nobody named will refuse, and what the other costs.
fn warn_of_filter(
    py: Python<'_>,
    kind: FilterKind,
    (epsilon, delta): (Epsilon, Delta),
) -> PyResult<()> {
    let other = FilterKind::Rdp;
    // Rounded down, so that a run of what is shown fits.
    let largest = |of: FilterKind| {
        let largest = of.largest_run(epsilon, delta).map_err(errors::accounting)?;
        Ok::<_, PyErr>((largest * 1e4).floor() / 1e4)
    };
    let message = format!(
        "a ledger keeps its filter, and filter=\"{kind}\" is the default: {}. Its largest run on all records has epsilon {}. With \
         filter=\"{other}\" that is {}: {}. Name the filter to choose",
        kind.scope(),
        largest(kind)?,
        largest(other)?,
        other.scope(),
    );
    warn(py, &message)
}

/// A `UserWarning` at the caller's line.
fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let message = CString::new(message).map_err(user)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)
}

/// Names of the solvers that a task may ask for.
#[pyfunction]
pub(crate) fn solvers() -> Vec<&'static str> {
    SOLVERS.iter().map(|solver| solver.name).collect()
}

/// Names of the scalar losses; `softmax` is the one of several classes.
#[pyfunction]
pub(crate) fn losses() -> Vec<String> {
    Glm::ALL.iter().map(ToString::to_string).collect()
}

/// Plans a training on so many inputs: from public facts, without a record.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, task: Task, inputs: usize) -> PyResult<Planned> {
    let records = task
        .records
        .ok_or_else(|| user("a plan needs the number of records"))?;
    let checked = task.check(inputs, records)?;
    let (plan, reason) = py.detach(|| checked.plan()).map_err(errors::no_plan)?;
    Planned::new(&*plan, reason)
}

/// Plans, pays and trains. `progress` is called with the step and the number of steps after each release.
#[pyfunction]
pub(crate) fn train<'py>(
    py: Python<'py>,
    table: &mut Table,
    task: Task,
    threads: Option<NonZeroUsize>,
    ledger: Option<&Ledger>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Trained<'py>> {
    let inputs = table.columns();
    let adjacency = adjacency_of(&task.adjacency)?;
    let rows = table.rows_if_public(adjacency);
    let records = rows.or(task.records).ok_or_else(|| {
        user("under add-remove the number of records is secret: give a public one, records=")
    })?;
    let checked = task.check(inputs, records)?;
    let (plan, reason) = py.detach(|| checked.plan()).map_err(errors::no_plan)?;
    let mut data = table.protect(checked.row_norm, adjacency, task.records)?;
    if let Some(bound) = checked.label_bound {
        data = data.with_label_bound(bound);
    }
    let curator = paid_by(py, adjacency, (ledger, data.public_records()))?;
    let threads = self::threads(threads);
    let start = match &checked.model {
        Model::Perceptron(mlp, _) => Some(mlp.start(task.row_norm, task.seed)),
        _ => None,
    };
    let (budget, model, weights) = (checked.budget, checked.model, checked.weights);
    let ended = watched(py, progress, |observer| {
        let run = model.run(&data, curator).with_threads(threads);
        let run = run.weighted(weights);
        run.starting_at(start.as_deref()).run(&*plan, observer)
    })?;
    Trained::new(py, (&*plan, reason), ended, &budget)
}

/// A curator with entropy of its own, and the ledger that pays for a run on so many records, which is warned of where the last was on others.
pub(crate) fn paid_by(
    py: Python<'_>,
    adjacency: Adjacency,
    (ledger, records): (Option<&Ledger>, u64),
) -> PyResult<Curator> {
    let curator = Curator::protected(adjacency).map_err(errors::refused)?;
    let Some(ledger) = ledger else {
        return Ok(curator);
    };
    let book = Book::open(&ledger.path).map_err(errors::ledger)?;
    let note = RunNote::new().with_records(records);
    for other in book.other_table(&note) {
        warn(py, &other.to_string())?;
    }
    let book = book.with_note(note);
    curator.with_ledger(book).map_err(errors::ledger)
}

/// Runs without the interpreter's lock, but for a look at signals, and a call of `progress`, after each release. An exception ends the run
/// after the step; its books are kept, and then it goes on.
pub(crate) fn watched(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    run: impl FnOnce(&mut dyn Observer) -> Result<(Outcome, Curator), RunError> + Send,
) -> PyResult<(Outcome, Curator)> {
    let mut raised: Option<PyErr> = None;
    let mut observer = |release: &Release<'_>| {
        let (step, steps) = (release.step, release.steps);
        let told = Python::attach(|py| {
            py.check_signals()?;
            match &progress {
                Some(progress) => progress.call1(py, (step, steps)).map(|_| ()),
                None => Ok(()),
            }
        });
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let ended = py.detach(|| run(&mut observer));
    match raised {
        Some(error) => Err(error),
        None => ended.map_err(errors::run),
    }
}

impl<'py> Trained<'py> {
    pub(crate) fn new(
        py: Python<'py>,
        (plan, reason): (&dyn Plan, Option<String>),
        (outcome, curator): (Outcome, Curator),
        budget: &Budget,
    ) -> PyResult<Self> {
        let guarantee = curator.guarantee(budget.delta).map_err(errors::refused)?;
        let bound = outcome.bound().map(|bound| as_json(&bound));
        Ok(Self {
            plan: Planned::new(plan, reason)?,
            bound: bound.transpose()?,
            returned_start: outcome.returned_start(),
            unsettled: outcome.unsettled,
            stop: stop_in_words(outcome.stop)?,
            steps: outcome.steps,
            weights: PyArray1::from_vec(py, outcome.point),
            epsilon: guarantee.epsilon(),
            accountant: guarantee.accountant().to_string(),
            event: PyEvent(guarantee.event().clone()),
            rests_on: guarantee
                .rests_on()
                .iter()
                .map(ToString::to_string)
                .collect(),
        })
    }
}

/// What a trained model says of rows, one row of outputs for each: scores, of softmax one for each class.
#[pyfunction]
pub(crate) fn outputs<'py>(
    py: Python<'py>,
    table: &mut Table,
    task: Task,
    weights: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let inputs = table.columns();
    let model = Model::of(&task, inputs)?;
    let weights = weights.as_array().to_vec();
    if weights.len() != model.dim(inputs) {
        return Err(user(format!(
            "{} weights, and the model has {}",
            weights.len(),
            model.dim(inputs)
        )));
    }
    let design = table.bounded(ClipNorm::new(task.row_norm).map_err(errors::unit)?)?;
    let shape = [design.rows(), model.width()];
    let all: Vec<f64> = py.detach(|| {
        let row = |i| model.outputs(design.row(i), &weights);
        (0..design.rows()).flat_map(row).collect()
    });
    PyArray1::from_vec(py, all).reshape(shape)
}

/// All processors where nobody says otherwise: results do not depend on it.
pub(crate) fn threads(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    let all = || std::thread::available_parallelism().ok();
    asked.or_else(all).unwrap_or(NonZeroUsize::MIN)
}

fn as_json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(user)
}

fn stop_in_words(stop: Stop) -> PyResult<String> {
    let word = serde_json::to_value(stop).map_err(user)?;
    Ok(word.as_str().unwrap_or_default().to_owned())
}
