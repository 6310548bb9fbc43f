//! The private estimator: the mean of a per-record query, released with noise.

mod fresh;
mod gradient;
mod gradient_field;
mod mean;
mod means;
mod momentum;
mod prefix;
mod recursion;
mod recursive;
mod regularized;
mod rule;
mod schedule;
mod stages;
mod tracker;
mod tree_rounds;

use dpopt_privacy::{
    Adjacency, ClipNorm, Epsilon, Event, NoiseMultiplier, PoolError, Refused, SamplingRate, Spend,
    UnitError,
};
use serde::Serialize;

pub use fresh::Fresh;
pub use gradient::PrivateGradient;
pub use mean::PrivateMean;
pub use means::{Ask, Mean, Means, Number, Over, PeriodTerms};
pub use momentum::Momentum;
pub use prefix::{PeriodAnchor, PrefixRecursive, PrefixSettings, share_of};
pub use recursion::{Recursion, Released};
pub use recursive::{Recursive, RecursiveSettings};
pub use regularized::Regularized;
pub use rule::{Drift, Refresh};
pub use schedule::Schedule;
pub use stages::{Staged, Stages};
pub use tracker::{Batch, Level, StepKind, Tracked, Tracker};
pub use tree_rounds::TreeRounds;

/// An estimator could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EstimatorError {
    /// The curator and the data disagree about the neighbouring relation.
    #[error("the curator works under {curator} adjacency, the data under {data}")]
    AdjacencyMismatch {
        /// Adjacency of the curator.
        curator: Adjacency,
        /// Adjacency of the data.
        data: Adjacency,
    },
    /// The curator is not let at these records ([`Refused::NotMadeUp`]).
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A derived constant is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The records can't be handed out in slices.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Records in a file are summed block by block; a pass that takes them one by one is not made over them.
    #[error(
        "passes over one record after the other need records in memory, and these are in a file"
    )]
    InAFile,
    /// An anchor has no displacement to be in proportion to.
    #[error("an anchor can't read {rate} records per unit of displacement: it has none")]
    AnchorPerLength {
        /// The rate asked for.
        rate: f64,
    },
    /// A rate of records per unit of displacement is not positive and finite.
    #[error("a variation can't read {rate} records per unit of displacement")]
    BatchRate {
        /// The rate asked for.
        rate: f64,
    },
    /// Anchors and variations of a phase read the same slice, so it has one length.
    #[error(
        "the slice of a phase can't have {anchor} records for anchors and {variation} for variations"
    )]
    HeldLengths {
        /// Length for anchors.
        anchor: u64,
        /// Length for variations.
        variation: u64,
    },
    /// A tree of rounds has a root, and is not too deep.
    #[error("a tree of rounds has 1 to 41 levels, not {levels}")]
    Depth {
        /// Levels asked for.
        levels: usize,
    },
}

/// Which records a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Access {
    /// All of them.
    FullBatch,
    /// A fresh Poisson sample for each query; the mean divides by rate x public size.
    Poisson(SamplingRate),
    /// A fresh sample of so many records for each query, all of that size being equally likely.
    /// Under replace-one only.
    FixedSize(u64),
    /// The next unread records of a pool, so that each record is read for one anchor or one
    /// variation. Refused under add/remove.
    SinglePass {
        /// Records for each anchor.
        anchor: u64,
        /// Records for each variation.
        variation: u64,
    },
}

/// Nominal oracle counts: computed from public sizes and rates. What a Poisson sample really held
/// is secret.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Noisy releases.
    pub releases: u64,
    /// Records read, each as often as a release read it.
    pub records: f64,
    /// Per-record gradients, two for each record of a difference query.
    pub gradients: f64,
    /// Per-record values that were asked for beside gradients.
    pub values: f64,
    /// Per-record gradients over the public number of records.
    pub passes: f64,
}

/// A released estimate of the mean gradient.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Estimate<'a> {
    /// The estimate, one number per coordinate.
    pub gradient: &'a [f64],
    /// Standard deviation, per coordinate, of all the noise that this estimate carries: that of
    /// the anchor and of every difference added since.
    pub noise_std: f64,
    /// Standard deviation per coordinate of the last release alone; 0 when nothing was released.
    pub release_std: f64,
}

impl<'a> Estimate<'a> {
    /// What an implementation of [`Estimator`] returns: the estimate, the standard deviation per
    /// coordinate of all its noise, and that of the last release alone.
    #[must_use]
    pub fn new(gradient: &'a [f64], noise_std: f64, release_std: f64) -> Self {
        Self {
            gradient,
            noise_std,
            release_std,
        }
    }
}

/// A public point, and a public vector that is added to the mean gradient there (the gradient of a regulariser, say).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shifted<'a> {
    /// The point.
    pub point: &'a [f64],
    /// The vector; empty for none.
    pub shift: &'a [f64],
}

impl<'a> From<&'a [f64]> for Shifted<'a> {
    fn from(point: &'a [f64]) -> Self {
        Self { point, shift: &[] }
    }
}

/// What a solver may ask: the private mean gradient at public points.
///
/// The trait is dyn-safe. An implementation draws, clips and charges; a solver does none of it.
///
/// A point that does not have [`Estimator::dim`] coordinates is refused before any record is read.
pub trait Estimator {
    /// Dimension of points and estimates.
    fn dim(&self) -> usize;

    /// Sets aside what the run will spend. Called once, before the first release.
    ///
    /// # Errors
    /// [`Refused`] when the budget can't pay.
    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused>;

    /// A fresh estimate at `point` (an anchor).
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then.
    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused>;

    /// Moves the estimate from the last point to `point` by adding a released difference (a
    /// variation). A point equal to the last one releases nothing and costs nothing. Without a
    /// preceding [`Estimator::refresh`] the estimate starts at zero at the origin.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then.
    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused>;

    /// Moves the estimate g from the last point w' to `point` w by a step of recursive momentum: it becomes (1 - a) g
    /// plus the released mean of grad f(w) - (1 - a) grad f(w'), so that its error shrinks by 1 - a before the new
    /// noise comes to it. A release at every call, also where the point has not moved.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then. [`Refused::NotOffered`] by an estimator without such steps.
    fn advance_with_momentum(
        &mut self,
        point: &[f64],
        momentum: Momentum,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let _ = (point, momentum, noise_multiplier);
        Err(Refused::NotOffered {
            what: "steps of recursive momentum",
        })
    }

    /// Clips gradients to `clip` from now on, with noise to match, and says whether it can. The radius has to be public: part of
    /// a plan, or computed from releases. An anchor has to follow before a variation, since a running estimate is of
    /// gradients clipped as before. An estimator that can't changes nothing.
    fn set_clip(&mut self, clip: ClipNorm) -> bool {
        let _ = clip;
        false
    }

    /// Whether [`Estimator::norm`] and [`Estimator::least_norm`] are offered.
    fn offers_norms(&self) -> bool {
        false
    }

    /// The norm of the mean gradient plus a public shift: one number with the noise of one coordinate, and a release of its
    /// own. The running estimate stays what it was.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then. [`Refused::NotOffered`] where [`Estimator::offers_norms`] says so.
    fn norm(
        &mut self,
        at: Shifted<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        let _ = (at, noise_multiplier);
        Err(Refused::NotOffered { what: "norms" })
    }

    /// The index of one of these points at which the norm of the mean gradient plus the shift is small, by the exponential
    /// mechanism: P(i) proportional to exp(-epsilon norm_i/(2 s C/n)), s = 2 under replace-one and 1 otherwise.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then. [`Refused::NotOffered`] where [`Estimator::offers_norms`] says so.
    fn least_norm(&mut self, among: &[Shifted<'_>], epsilon: Epsilon) -> Result<usize, Refused> {
        let _ = (among, epsilon);
        Err(Refused::NotOffered { what: "selections" })
    }

    /// A number below `bound`, uniform and independent of the data.
    fn draw_index(&mut self, bound: u64) -> u64;

    /// Ends the run and says what was spent.
    ///
    /// # Errors
    /// [`Refused`] when a shared budget can't be written; the reservation then stands.
    fn settle(&mut self) -> Result<Event, Refused>;

    /// Nominal counts so far.
    fn counts(&self) -> Counts;
}
