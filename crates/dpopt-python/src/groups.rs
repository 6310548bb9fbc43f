//! Linear scores for the group that is served worst, or with equal chances for all, by objectives with a dual variable.

use std::num::NonZeroUsize;

use dpopt::minimax::{GDA, SaddleFacts, SaddleLimits};
use dpopt::nonconvex::{Budget, Limits, Observer, Outcome, Plan, Run, RunError};
use dpopt::oracle::{
    CellShares, EqualOpportunity, GroupDro, Joint, PrivateData, PrivateMean, SaddleLoss,
    ScoreSaddle, Scored, SharesError,
};
use dpopt::privacy::{ClipNorm, Curator};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::accounting::{adjacency_of, delta_of, epsilon_of};
use crate::errors::{self, user};
use crate::table::Table;
use crate::train::{Ledger, Trained, paid_by, threads, watched};

/// What is trained.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GroupTask {
    /// `group-dro` or `equal-opportunity`.
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

/// Plans, pays and trains, as `train`; labels are those of cells. The dual variable comes beside it.
#[pyfunction]
pub(crate) fn train_groups<'py>(
    py: Python<'py>,
    table: &mut Table,
    task: GroupTask,
    threads: Option<NonZeroUsize>,
    ledger: Option<&Ledger>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Trained<'py>, Bound<'py, PyArray1<f64>>)> {
    let shares = task.shares.iter();
    let shares = shares.map(|(negative, positive)| [Some(*negative), Some(*positive)]);
    let shares = CellShares::new(shares.collect()).map_err(no_shares)?;
    let with = (py, threads, ledger, progress);
    match task.objective.as_str() {
        "group-dro" => {
            let of = GroupDro::new(&shares, task.by_class, task.dual_weight).map_err(no_shares)?;
            train(of, table, &task, with)
        }
        "equal-opportunity" => {
            let of = EqualOpportunity::new(&shares, task.dual_weight).map_err(no_shares)?;
            train(of, table, &task, with)
        }
        other => Err(user(format!(
            "{other:?}: an objective is group-dro or equal-opportunity"
        ))),
    }
}

type With<'a, 'py> = (
    Python<'py>,
    Option<NonZeroUsize>,
    Option<&'a Ledger>,
    Option<Py<PyAny>>,
);

fn train<'py, S: ScoreSaddle + Send>(
    objective: S,
    table: &mut Table,
    task: &GroupTask,
    (py, threads, ledger, progress): With<'_, 'py>,
) -> PyResult<(Trained<'py>, Bound<'py, PyArray1<f64>>)> {
    let adjacency = adjacency_of(&task.adjacency)?;
    let row_norm = ClipNorm::new(task.row_norm).map_err(errors::unit)?;
    let rows = table.rows_if_public(adjacency);
    let records = rows.or(task.records).ok_or_else(|| {
        user("under add-remove the number of records is secret: give a public one, records=")
    })?;
    let budget = Budget {
        epsilon: epsilon_of(task.epsilon)?,
        delta: delta_of(task.delta)?,
    };
    let loss = Scored::with_own_clips(objective, task.row_norm);
    let columns = table.columns();
    let facts = SaddleFacts::scored(records, adjacency, columns, task.row_norm, &loss);
    let limits = SaddleLimits::of_score(task.max_steps.unwrap_or(Limits::STEPS), task.row_norm);
    let plan = GDA
        .plan(&facts, &budget, &limits)
        .map_err(errors::no_plan)?;
    let data = table.protect(row_norm, adjacency, task.records)?;
    let curator = paid_by(adjacency, ledger)?;
    let threads = self::threads(threads);
    let (mut outcome, curator) = watched(py, progress, |observer| {
        run(loss, &data, &*plan, curator, threads, observer)
    })?;
    let dual = outcome.point.split_off(columns.min(outcome.point.len()));
    let dual = PyArray1::from_vec(py, dual);
    let reason = None;
    let trained = Trained::new(py, (&*plan, reason), (outcome, curator), &budget)?;
    Ok((trained, dual))
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
