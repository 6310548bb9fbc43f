//! What is asked of a walk in blocks, and what it does.

use std::num::NonZeroUsize;

use dpopt_oracle::{Batch, Level};
use dpopt_privacy::{ClipNorm, NoiseMultiplier};
use dpopt_solver::{BoundedValues, OutputRule, RunError};

/// a/r. The gradient is asked for at z + u, and a mean of those is one of F at radius r whatever a is, so that a costs L a
/// in the gap and nothing else; but it may not be 0.
const SMOOTHING: f64 = 1e-3;

/// What a [`GoldsteinPlan`](super::GoldsteinPlan) is to find, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoldsteinSettings {
    /// r: the radius of the statement.
    pub radius: f64,
    /// a/r, in (0, 1).
    pub smoothing_share: f64,
    /// How displacements are learnt.
    pub step: GoldsteinStep,
    /// What is returned.
    pub output: GoldsteinOutput,
    /// What is asked of the records.
    pub asks: GoldsteinAsks,
    /// What is known of a loss without a Lipschitz constant; none for one that has one. The statement is then about the smoothed
    /// loss, and a is what this says.
    pub bounded: Option<BoundedValues>,
}

/// What a walk in blocks asks of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GoldsteinAsks {
    /// Gradients, at points moved at random.
    Gradients,
    /// Slopes along directions that all records share: values alone.
    Values {
        /// How many directions; none: as many as are best. Those are, of 1, 2, 4, ... and d, each with its best clip and number of
        /// steps, the ones that ask for the fewest values among the plans within 2 % of the least bound.
        directions: Option<NonZeroUsize>,
    },
}

/// What a walk in blocks returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GoldsteinOutput {
    /// The mean of the points of a uniform block: the theorem's.
    UniformBlock,
    /// That of the block whose releases have the shortest mean; a bound on all records only.
    SmallestReleasedBlock,
    /// The last point, without a bound.
    Last,
}

impl GoldsteinOutput {
    pub(super) fn rule(self) -> OutputRule {
        match self {
            GoldsteinOutput::UniformBlock => OutputRule::UniformBlock,
            GoldsteinOutput::SmallestReleasedBlock => OutputRule::SmallestReleasedBlock,
            GoldsteinOutput::Last => OutputRule::Last,
        }
    }
}

impl GoldsteinSettings {
    /// Blocks that start at rest, planned steps, a uniform block, a = r/1000.
    #[must_use]
    pub fn at_radius(radius: f64) -> Self {
        Self {
            radius,
            smoothing_share: SMOOTHING,
            step: GoldsteinStep::Planned,
            output: GoldsteinOutput::UniformBlock,
            asks: GoldsteinAsks::Gradients,
            bounded: None,
        }
    }

    /// The same from values alone, along so many directions, or along as many as are best.
    #[must_use]
    pub fn from_values(self, directions: Option<NonZeroUsize>) -> Self {
        let asks = GoldsteinAsks::Values { directions };
        Self { asks, ..self }
    }

    /// a.
    #[must_use]
    pub fn smoothing(&self) -> f64 {
        match self.bounded {
            Some(bounded) => bounded.smoothing,
            None => self.smoothing_share * self.radius,
        }
    }
}

/// How the displacement Delta follows the estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GoldsteinStep {
    /// eta = D/(G1 sqrt M), from Delta = 0 in each block: the least bound.
    Planned,
    /// eta = 2 D/(G1 sqrt M), on from the Delta of the block before: 2 G1 in the bound for G1.
    WithoutReset,
    /// eta = sqrt(2) D/sqrt(sum of the squared lengths of the block's estimates), from Delta = 0: 2 sqrt(2) G1 for G1.
    AdaGradNorm,
}

impl GoldsteinStep {
    pub(super) fn regret(self) -> f64 {
        match self {
            GoldsteinStep::Planned => 1.0,
            GoldsteinStep::WithoutReset => 2.0,
            GoldsteinStep::AdaGradNorm => 2.0 * std::f64::consts::SQRT_2,
        }
    }
}

impl std::fmt::Display for GoldsteinStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GoldsteinStep::Planned => "planned",
            GoldsteinStep::WithoutReset => "without-reset",
            GoldsteinStep::AdaGradNorm => "adagrad-norm",
        })
    }
}

/// What a [`GoldsteinPlan`](super::GoldsteinPlan) does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoldsteinSchedule {
    /// T: steps, one release each.
    pub steps: u64,
    /// M: steps of a block.
    pub block: u64,
    /// D: the longest displacement.
    pub cap: f64,
    /// eta; with [`GoldsteinStep::AdaGradNorm`] what stands before one over the root of the sum.
    pub step_size: f64,
    /// a: radius of the ball that u is drawn from; with slopes half of the way that each is taken over.
    pub smoothing: f64,
    /// How displacements are learnt.
    pub step: GoldsteinStep,
    /// Which records a step reads.
    pub batch: Batch,
    /// m: slopes along so many shared directions, and no gradients; none: gradients.
    pub directions: Option<NonZeroUsize>,
    /// Per-record clip radius, of the gradient or of the slopes as one vector.
    pub clip: f64,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
    /// What is returned.
    pub output: GoldsteinOutput,
}

impl GoldsteinSchedule {
    pub(super) fn level(&self) -> Level {
        Level {
            batch: self.batch,
            noise_multiplier: self.noise_multiplier,
        }
    }

    pub(super) fn clip(&self) -> Result<ClipNorm, RunError> {
        ClipNorm::new(self.clip).map_err(RunError::Clip)
    }

    /// eta, after estimates whose squared lengths add up to `squares` times the square of `unit` in this block.
    pub(super) fn step_size(&self, unit: f64, squares: f64) -> f64 {
        match self.step {
            GoldsteinStep::AdaGradNorm if squares > 0.0 => self.step_size / squares.sqrt() / unit,
            GoldsteinStep::AdaGradNorm => 0.0,
            _ => self.step_size,
        }
    }
}
