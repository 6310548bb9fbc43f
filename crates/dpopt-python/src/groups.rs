//! Linear scores for the group that is served worst, with equal chances for all, or that rank, by objectives with a dual variable.

use std::num::NonZeroUsize;

use dpopt::minimax::{GDA, SaddleFacts, SaddleLimits};
use dpopt::nonconvex::{Budget, Limits, Observer, Outcome, Plan, Run, RunError};
use dpopt::oracle::{
    AucSaddle, CellShares, EqualOpportunity, GroupDro, Joint, PrivateData, PrivateMean, SaddleLoss,
    ScoreSaddle, Scored, SharesError,
};
use dpopt::privacy::{ClipNorm, Curator};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::accounting::{adjacency_of, delta_of, epsilon_of};
use crate::errors::{self, user};
use crate::table::Table;
use crate::train::{Ledger, Planned, Trained, paid_by, threads, watched};

/// What is trained.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GroupTask {
    /// `group-dro`, `equal-opportunity`, or `auc`, which knows no groups and no dual weight.
    objective: String,
    /// Of each group: the public share of its negatives, and of its positives.
    shares: Vec<(f64, f64)>,
    /// Whether a group is a group and a class.
    by_class: bool,
    dual_weight: f64,
    row_norm: f64,
    records: Option<u64>,
    epsilon: f64,
    delta: f64,
    adjacency: String,
    max_steps: Option<u64>,
}

fn no_shares(error: SharesError) -> PyErr {
    user(error)
}

/// What is done with an objective, whichever it is.
trait With {
    type Out;
    fn objective<S: ScoreSaddle + Send>(self, objective: S) -> PyResult<Self::Out>;
}

impl GroupTask {
    fn with<W: With>(&self, then: W) -> PyResult<W::Out> {
        let shares = self.shares.iter();
        let shares = shares.map(|(negative, positive)| [Some(*negative), Some(*positive)]);
        let shares = CellShares::new(shares.collect()).map_err(no_shares)?;
        let weight = self.dual_weight;
        match self.objective.as_str() {
            "group-dro" => {
                let of = GroupDro::new(&shares, self.by_class, weight);
                then.objective(of.map_err(no_shares)?)
            }
            "equal-opportunity" => {
                let of = EqualOpportunity::new(&shares, weight);
                then.objective(of.map_err(no_shares)?)
            }
            "auc" => then.objective(AucSaddle::new(&shares).map_err(no_shares)?),
            other => Err(user(format!(
                "{other:?}: an objective is group-dro or equal-opportunity"
            ))),
        }
    }

    fn budget(&self) -> PyResult<Budget> {
        Ok(Budget {
            epsilon: epsilon_of(self.epsilon)?,
            delta: delta_of(self.delta)?,
        })
    }

    /// Of `rows` records where their number is public, else of the stated number.
    fn planned<S: ScoreSaddle>(
        &self,
        loss: &Scored<S>,
        rows: Option<u64>,
        columns: usize,
    ) -> PyResult<Box<dyn Plan>> {
        let records = rows.or(self.records).ok_or_else(|| {
            user("under add-remove the number of records is secret: give a public one, records=")
        })?;
        let adjacency = adjacency_of(&self.adjacency)?;
        let facts = SaddleFacts::scored(records, adjacency, columns, self.row_norm, loss);
        let steps = self.max_steps.unwrap_or(Limits::STEPS);
        let limits = SaddleLimits::of_score(steps, self.row_norm);
        let plan = GDA.plan(&facts, &self.budget()?, &limits);
        plan.map_err(errors::no_plan)
    }
}

/// Plans a training on so many inputs: from public facts, without a record.
#[pyfunction]
pub(crate) fn plan_groups(task: GroupTask, inputs: usize) -> PyResult<Planned> {
    ClipNorm::new(task.row_norm).map_err(errors::unit)?;
    task.with(Planning {
        task: &task,
        inputs,
    })
}

struct Planning<'a> {
    task: &'a GroupTask,
    inputs: usize,
}

impl With for Planning<'_> {
    type Out = Planned;

    fn objective<S: ScoreSaddle + Send>(self, objective: S) -> PyResult<Planned> {
        let loss = Scored::with_own_clips(objective, self.task.row_norm);
        Planned::new(&*self.task.planned(&loss, None, self.inputs)?, None)
    }
}

/// Plans, pays and trains, as `train`; labels are those of cells. What the point has beside the weights comes beside it: the dual variable
/// last.
#[pyfunction]
pub(crate) fn train_groups<'py>(
    py: Python<'py>,
    table: &mut Table,
    task: GroupTask,
    threads: Option<NonZeroUsize>,
    ledger: Option<&Ledger>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Trained<'py>, Bound<'py, PyArray1<f64>>)> {
    task.with(Training {
        py,
        table,
        task: &task,
        threads: self::threads(threads),
        ledger,
        progress,
    })
}

struct Training<'a, 'py> {
    py: Python<'py>,
    table: &'a mut Table,
    task: &'a GroupTask,
    threads: NonZeroUsize,
    ledger: Option<&'a Ledger>,
    progress: Option<Py<PyAny>>,
}

impl<'py> With for Training<'_, 'py> {
    type Out = (Trained<'py>, Bound<'py, PyArray1<f64>>);

    fn objective<S: ScoreSaddle + Send>(self, objective: S) -> PyResult<Self::Out> {
        let (py, task, table) = (self.py, self.task, self.table);
        let adjacency = adjacency_of(&task.adjacency)?;
        let row_norm = ClipNorm::new(task.row_norm).map_err(errors::unit)?;
        let loss = Scored::with_own_clips(objective, task.row_norm);
        let columns = table.columns();
        let plan = task.planned(&loss, table.rows_if_public(adjacency), columns)?;
        let data = table.protect(row_norm, adjacency, task.records)?;
        let curator = paid_by(py, adjacency, (self.ledger, data.public_records()))?;
        let threads = self.threads;
        let (mut outcome, curator) = watched(py, self.progress, |observer| {
            run(loss, &data, &*plan, curator, threads, observer)
        })?;
        let beside = outcome.point.split_off(columns.min(outcome.point.len()));
        let beside = PyArray1::from_vec(py, beside);
        let trained = Trained::new(py, (&*plan, None), (outcome, curator), &task.budget()?)?;
        Ok((trained, beside))
    }
}

/// The point comes back as x, and y in its own units.
fn run<S: ScoreSaddle>(
    loss: Scored<S>,
    data: &PrivateData,
    plan: &dyn Plan,
    curator: Curator,
    threads: NonZeroUsize,
    observer: &mut dyn Observer,
) -> Result<(Outcome, Curator), RunError> {
    let domain = loss.domain();
    let unfit = || RunError::Blocks {
        solver: plan.name(),
        plan: plan.blocks(),
        oracle: None,
    };
    let blocks = plan.blocks().ok_or_else(unfit)?;
    let joint = Joint::new(loss, blocks.scale).map_err(|_| unfit())?;
    let start = blocks.join(&vec![0.0; blocks.x], &domain.middle());
    let mut means = PrivateMean::new(data, joint, curator)?.with_threads(threads);
    let run = Run::new(observer).starting_at(Some(&start));
    let mut outcome = plan.run_with(&mut means, run)?;
    let (x, y) = blocks.split(&outcome.point);
    outcome.point = [x, y].concat();
    Ok((outcome, means.into_curator()))
}
