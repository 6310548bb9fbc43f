//! What a run shows and what it ends with.

use std::ops::ControlFlow;

use dpopt_oracle::{Counts, OracleFacts};
use dpopt_privacy::Event;
use serde::{Deserialize, Serialize};

use crate::bound::StatedBound;
use crate::withheld::Withheld;

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
    /// What is public of the records that were asked.
    pub oracle: OracleFacts,
    /// The released vector: the estimate of the gradient, with that of a regulariser; empty where a norm alone was released.
    pub vector: &'a [f64],
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
    /// The mean of the points of one block of steps, uniformly drawn.
    UniformBlock,
    /// The mean of the points of the block of steps whose releases have the shortest mean.
    SmallestReleasedBlock,
}

impl std::fmt::Display for OutputRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OutputRule::Uniform => "uniform",
            OutputRule::Last => "last",
            OutputRule::SmallestReleasedNorm => "smallest-released-norm",
            OutputRule::UniformBlock => "uniform-block",
            OutputRule::SmallestReleasedBlock => "smallest-released-block",
        })
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// The point is certified: [`Outcome::bound`] is what was released of it. As much as was asked for, or as the budget pays for.
    Certified,
    /// The budget does not pay for what the next step needs.
    BudgetUsed,
    /// A search for the length of a step saw no gain in any of its trials.
    NoGain,
    /// Fewer records are left that were never read than the next step reads. Of a solver that certifies: nothing is said of curvature at the
    /// point.
    RecordsExhausted,
    /// As many points were looked at as the plan has certificates for, and none was certified.
    CandidatesUsed,
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
    /// How many norms of mean gradients were released by themselves.
    pub norms: u64,
    /// Of those the one that the output rests on: the one with the smallest upper limit, or the latest. None where none was released.
    pub norm: Option<ReleasedNorm>,
    pub(crate) bound: Option<StatedBound>,
    #[serde(serialize_with = "in_words", skip_serializing_if = "Option::is_none")]
    pub(crate) withheld: Option<Withheld>,
    /// Why a shared ledger was not told that the run is over, where it was not: it goes on counting all that was reserved. The point is as
    /// private as ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
    pub(crate) returned_start: bool,
}

/// A released norm with what it says of the true one. Public.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReleasedNorm {
    /// The step at whose point it was released, counted from 0.
    pub step: u64,
    /// The released number; noise may make it negative.
    pub norm: f64,
    /// Standard deviation of its noise.
    pub noise_std: f64,
    /// norm + z noise_std: the true norm is at most that, with the probability that the plan states.
    pub upper: f64,
}

fn in_words<S: serde::Serializer>(why: &Option<Withheld>, to: S) -> Result<S::Ok, S::Error> {
    match why {
        Some(why) => to.collect_str(why),
        None => to.serialize_none(),
    }
}

impl Outcome {
    /// What is proven of the point: the bound of the plan, if its proof covers a run that ended as this one did. Of a run that certified a
    /// point it is what was released there, however the run ended after that. Otherwise none for a run
    /// that an observer stopped or that diverged, for plans without a bound, and where the number of records is not public. None either where
    /// the plan is not about what the run read: [`Outcome::withheld`]. With a regulariser it is of the sum, for which the plan has to be made.
    ///
    /// For a run from another point than the origin the bound rests on the caller's claim that the facts of the plan (the
    /// initial gap, or the radius) hold at that point; a bound for the population also on the start's being independent of these
    /// records, which the point of an earlier run on them is not. A bound in the mean is over the noise and the drawn output: it is
    /// none of one chosen among runs by what they released, nor of a point known to be the start ([`Outcome::returned_start`]).
    #[must_use]
    pub fn bound(&self) -> Option<StatedBound> {
        self.bound
    }

    /// Why there is no [`Outcome::bound`] though the plan has one, and the run ended as its proof asks: the records are others than were
    /// planned for, or no fresh sample of the population that the bound is on, or their losses have larger constants. None where there is a
    /// bound, or none for another reason.
    #[must_use]
    pub fn withheld(&self) -> Option<&Withheld> {
        self.withheld.as_ref()
    }

    /// Whether the point is the starting point: then the model is what it was before the run, whatever that spent.
    #[must_use]
    pub fn returned_start(&self) -> bool {
        self.returned_start
    }
}
