//! What every run shares: observers, stop reasons, outcomes, errors.

use std::ops::ControlFlow;

use dpopt_linalg::{MapError, norm};
use dpopt_oracle::{
    Counts, DataError, Estimate, Estimator, EstimatorError, NotConvexSmooth, PassError,
};
use dpopt_privacy::{Event, Refused, Spend, UnitError};
use serde::{Deserialize, Serialize};

use crate::bound::StatedBound;

/// One released estimate, as an observer sees it: public values only.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Release<'a> {
    /// Step, counted from 0.
    pub step: u64,
    /// Steps in the plan.
    pub steps: u64,
    /// Anchor or variation.
    pub kind: ReleaseKind,
    /// The point at which the gradient was estimated.
    pub point: &'a [f64],
    /// Norm of the released estimate.
    pub norm: f64,
    /// sqrt(d) x standard deviation per coordinate of all noise in the estimate: the norm that
    /// pure noise would have.
    pub noise_norm: f64,
}

/// How an estimate came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReleaseKind {
    /// A fresh gradient.
    Anchor,
    /// A difference added to the running estimate.
    Variation,
    /// The last point of a pass over a slice, and no gradient: then `norm` is how far that point is from where
    /// the pass began, and `point` is the point itself.
    Pass,
    /// The norm of the mean gradient alone: `norm` is the released number, which noise may make negative, and `noise_norm` the
    /// standard deviation of its noise.
    Norm,
}

/// Watches a run. It sees released values only, and can stop the run after a release.
pub trait Observer {
    /// Called after each release; `Break` stops the run. The stop may depend on what was
    /// released: the guarantee of the plan covers every such choice.
    fn on_release(&mut self, release: &Release<'_>) -> ControlFlow<()>;
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn on_release(&mut self, _: &Release<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(&Release<'_>) -> ControlFlow<()>> Observer for F {
    fn on_release(&mut self, release: &Release<'_>) -> ControlFlow<()> {
        self(release)
    }
}

/// Which point a run returns. All are post-processing of what was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OutputRule {
    /// Uniformly among the points at which the gradient was estimated; the bounds in expectation
    /// are for this rule.
    Uniform,
    /// The last point.
    Last,
    /// The point with the smallest released gradient norm.
    SmallestReleasedNorm,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stop {
    /// All planned steps were made.
    Completed,
    /// The observer stopped it.
    ByObserver,
    /// A released estimate was as short as the plan asks for; its point is returned.
    SmallEstimate,
    /// The budget does not pay for another norm.
    NormUnpaid,
    /// The budget does not pay for a gradient as exact as the released norm asks for.
    GradientUnpaid,
    /// The released norm is so small that a gradient to match would take half of the whole budget.
    Converged,
    /// As many steps as are allowed were made, and there is budget left.
    StepCap,
    /// A released estimate was not finite, or the next point would have left the range of numbers;
    /// the step to it is not made.
    Diverged,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The released point.
    pub point: Vec<f64>,
    /// Why the run ended.
    pub stop: Stop,
    /// Steps made.
    pub steps: u64,
    /// What was really spent; the guarantee is for what was reserved.
    pub spent: Event,
    /// Nominal oracle counts.
    pub counts: Counts,
    bound: Option<StatedBound>,
    returned_start: bool,
}

impl Outcome {
    /// What is proven of the point: the bound of the plan, if its proof covers a run that ended as this one did. None for a run
    /// that an observer stopped or that diverged, for plans without a bound, and where the number of records is not public.
    ///
    /// For a run from another point than the origin the bound rests on the caller's claim that the facts of the plan (the
    /// initial gap, or the radius) hold at that point; a bound for the population also on the start's being independent of these
    /// records, which the point of an earlier run on them is not. A bound in the mean is over the noise and the drawn output: it is
    /// none of one chosen among runs by what they released, nor of a point known to be the start ([`Outcome::returned_start`]).
    #[must_use]
    pub fn bound(&self) -> Option<StatedBound> {
        self.bound
    }

    /// Whether the point is the starting point: then the model is what it was before the run, whatever that spent.
    #[must_use]
    pub fn returned_start(&self) -> bool {
        self.returned_start
    }

    /// The same run with another point returned, of which nothing but this is proven.
    pub(crate) fn with_point(
        self,
        point: Vec<f64>,
        start: &[f64],
        bound: Option<StatedBound>,
    ) -> Self {
        Self {
            returned_start: point == start,
            bound,
            point,
            ..self
        }
    }
}

/// How a run ended, before anything is stated of it.
pub(crate) struct Ended<'a> {
    pub(crate) start: &'a [f64],
    pub(crate) point: Vec<f64>,
    pub(crate) stop: Stop,
    pub(crate) steps: u64,
    pub(crate) spent: Event,
    pub(crate) counts: Counts,
}

impl Ended<'_> {
    /// The outcome. `bound` is the plan's [`Plan::bound_at`](crate::Plan::bound_at).
    pub(crate) fn outcome(self, bound: impl Fn(Stop) -> Option<StatedBound>) -> Outcome {
        Outcome {
            bound: bound(self.stop),
            returned_start: self.point == self.start,
            point: self.point,
            stop: self.stop,
            steps: self.steps,
            spent: self.spent,
            counts: self.counts,
        }
    }
}

/// A run could not be made or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The estimator's dimension is not the plan's.
    #[error("the plan is for dimension {plan}, the estimator has {estimator}")]
    Dimension {
        /// Dimension in the plan.
        plan: usize,
        /// Dimension of the estimator.
        estimator: usize,
    },
    /// The starting point holds a number that is not finite.
    #[error("coordinate {coordinate} of the starting point is {value}, not a finite number")]
    Start {
        /// The coordinate, counted from 0.
        coordinate: usize,
        /// What stands there.
        value: f64,
    },
    /// The starting point has not the plan's dimension.
    #[error("the plan is for dimension {plan}, the starting point has {start}")]
    StartDimension {
        /// Dimension in the plan.
        plan: usize,
        /// Dimension of the starting point.
        start: usize,
    },
    /// The plan does not run on an estimator of this kind, but on one of its own.
    #[error("{solver} runs on an estimator of its own, which its plan makes")]
    OwnEstimator {
        /// The solver.
        solver: &'static str,
    },
    /// An estimator of the plan could not be set up.
    #[error(transparent)]
    Estimator(#[from] EstimatorError),
    /// The records can't be projected.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The loss is not what the privacy of the plan's passes rests on.
    #[error(transparent)]
    NotConvexSmooth(#[from] NotConvexSmooth),
    /// The plan asks for norms of mean gradients, and the estimator does not release them.
    #[error("{solver} asks for norms of mean gradients, and this estimator does not release them")]
    NoNorms {
        /// The solver.
        solver: &'static str,
    },
    /// A point does not fit the projection that it was found under.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A plan changes the clip radius as it goes, and the estimator can't.
    #[error("the plan's clip radius decays, and this estimator's can't be changed")]
    FixedClip,
    /// A clip radius of the plan is out of range.
    #[error(transparent)]
    Clip(UnitError),
    /// A reservation or release was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A pass over records was refused.
    #[error(transparent)]
    Pass(#[from] PassError),
}

/// A walk: where it asks for a release, and how it moves on it. What all walks share, reserving,
/// watching, keeping the output, stopping and settling, is [`run`].
pub(crate) trait Walk {
    /// Asks for the estimate of one step at `point`.
    fn ask<'e>(
        &self,
        step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused>;

    /// Whether an estimate of this norm ends the run.
    fn stops_at(&self, released_norm: f64) -> bool {
        let _ = released_norm;
        false
    }

    /// Whether all is done though the course has steps left.
    fn finished(&self) -> bool {
        false
    }

    /// Writes the point after `point` to `next`.
    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]);
}

/// The public side of a run.
pub(crate) struct Course<'a> {
    /// Where the walk starts.
    pub(crate) start: &'a [f64],
    pub(crate) dim: usize,
    pub(crate) steps: u64,
    pub(crate) spend: Spend,
    pub(crate) output: OutputRule,
    /// What is proven of the returned point, by how the run ended.
    pub(crate) bound: &'a dyn Fn(Stop) -> Option<StatedBound>,
}

/// Walks: reserve, then ask, show, move, and at the end settle.
pub(crate) fn run(
    course: &Course<'_>,
    walk: &mut dyn Walk,
    estimator: &mut dyn Estimator,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    check_start(course.start, course.dim, estimator.dim())?;
    estimator.reserve(&course.spend)?;
    let mut output = Output::new(course, estimator);
    let mut point = course.start.to_vec();
    let mut next = point.clone();
    let root_dim = (course.dim as f64).sqrt();
    let mut stop = Stop::Completed;
    let mut done = 0;
    while done < course.steps && !walk.finished() {
        let (kind, estimate) = walk.ask(done, &point, estimator)?;
        let released = norm(estimate.gradient);
        if !released.is_finite() {
            stop = Stop::Diverged;
            break;
        }
        output.offer(done, &point, released);
        let flow = observer.on_release(&Release {
            step: done,
            steps: course.steps,
            kind,
            point: &point,
            norm: released,
            noise_norm: root_dim * estimate.noise_std,
        });
        if walk.stops_at(released) {
            done += 1;
            stop = Stop::SmallEstimate;
            break;
        }
        walk.step(&point, estimate.gradient, &mut next);
        done += 1;
        // Gradients at a point that is not finite count as zero, so its estimates would look like
        // those of a stationary point.
        if !next.iter().all(|w| w.is_finite()) {
            stop = Stop::Diverged;
            break;
        }
        std::mem::swap(&mut point, &mut next);
        if flow == ControlFlow::Break(()) {
            stop = Stop::ByObserver;
            break;
        }
    }
    let spent = estimator.settle()?;
    let ended = Ended {
        start: course.start,
        point: output.finish(point),
        stop,
        steps: done,
        spent,
        counts: estimator.counts(),
    };
    Ok(ended.outcome(course.bound))
}

/// That a plan, an estimator and a starting point go together.
pub(crate) fn check_start(start: &[f64], plan: usize, estimator: usize) -> Result<(), RunError> {
    if estimator != plan {
        return Err(RunError::Dimension { plan, estimator });
    }
    if start.len() != plan {
        return Err(RunError::StartDimension {
            plan,
            start: start.len(),
        });
    }
    if let Some(coordinate) = start.iter().position(|w| !w.is_finite()) {
        let value = start[coordinate];
        return Err(RunError::Start { coordinate, value });
    }
    Ok(())
}

/// Keeps the point that the output rule asks for, in O(d) memory.
struct Output {
    rule: OutputRule,
    /// For [`OutputRule::Uniform`]: the step whose point is returned.
    chosen: u64,
    point: Vec<f64>,
    best: f64,
}

impl Output {
    fn new(course: &Course<'_>, estimator: &mut dyn Estimator) -> Self {
        let chosen = match course.output {
            OutputRule::Uniform => estimator.draw_index(course.steps),
            _ => 0,
        };
        Self {
            rule: course.output,
            chosen,
            point: course.start.to_vec(),
            best: f64::INFINITY,
        }
    }

    /// Shows the point of `step`, at which an estimate of norm `norm` was released.
    fn offer(&mut self, step: u64, point: &[f64], norm: f64) {
        let keep = match self.rule {
            // Until the chosen step is reached the latest point stands in, for a run that is
            // stopped before it.
            OutputRule::Uniform => step <= self.chosen,
            OutputRule::Last => false,
            OutputRule::SmallestReleasedNorm => norm < self.best,
        };
        if keep {
            self.best = norm;
            self.point.copy_from_slice(point);
        }
    }

    fn finish(self, last: Vec<f64>) -> Vec<f64> {
        match self.rule {
            OutputRule::Last => last,
            _ => self.point,
        }
    }
}
