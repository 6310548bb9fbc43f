//! The numbers that every plan has.

use dpopt_privacy::{SamplingRate, Spend};
use serde::Serialize;

use crate::bound::{BoundSense, BoundedQuantity};
use crate::facts::{Budget, PublicFacts};
use crate::outcome::OutputRule;

/// Which records a release of a plan reads, for who reads the plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Access {
    /// All of them.
    FullBatch,
    /// A fresh Poisson sample for each release.
    Poisson(SamplingRate),
    /// A fresh Poisson sample for each release, of which no more than so many records are kept.
    Truncated {
        /// Probability with which a record is sampled.
        rate: SamplingRate,
        /// Records that are kept at most.
        most: u32,
    },
    /// In every epoch of so many steps each record in one of them, drawn at random.
    Allocated {
        /// Steps of an epoch.
        steps: u64,
    },
    /// A fresh sample of so many records for each release.
    FixedSize(u64),
    /// The next unread records of a pool, so that each record is read for one anchor or one
    /// variation.
    SinglePass {
        /// Records for each anchor.
        anchor: u64,
        /// Records for each variation.
        variation: u64,
    },
    /// Slices of so many records at least, which together hold all records, again in every epoch.
    Epochs {
        /// Records of the shortest slice.
        batch: u64,
    },
    /// Poisson samples of slices of so many records at least, which together hold all records, the slices in turn.
    SampledEpochs {
        /// Records of the shortest slice.
        slice: u64,
        /// Probability with which a record of a slice enters a step.
        rate: SamplingRate,
    },
    /// Slices of so many records at least, which together hold all records, in turn, and of so many steps on a slice each of its records in
    /// one, drawn at random.
    AllocatedEpochs {
        /// Records of the shortest slice.
        slice: u64,
        /// Steps on a slice over which its records are allocated.
        steps: u64,
    },
}

impl Access {
    /// Records of the shortest slice that a release is on; none where no release is on a slice.
    #[must_use]
    pub fn shortest_slice(self) -> Option<u64> {
        match self {
            Self::SinglePass { anchor, variation } => Some(anchor.min(variation)),
            Self::Epochs { batch } => Some(batch),
            Self::SampledEpochs { slice, .. } | Self::AllocatedEpochs { slice, .. } => Some(slice),
            Self::FullBatch
            | Self::Poisson(_)
            | Self::Truncated { .. }
            | Self::Allocated { .. }
            | Self::FixedSize(_) => None,
        }
    }
}

/// What a plan releases if each release is a fresh gradient in the space of the result, with noise of its own: then means of
/// releases have a certificate that costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FreshReleases {
    /// Standard deviation per coordinate of the noise in a released mean, the same for all releases.
    pub noise_std: f64,
    /// How many consecutive releases the plan means to be averaged; none where it has no such number.
    pub block: Option<u64>,
    /// Whether gradients are asked for at points moved by a vector with a density, so that a kink is hit with probability 0.
    pub moved: bool,
    /// Whether the plan knows of no loss that shortens its own field: [`dpopt_oracle::Constants::whole`].
    pub whole: bool,
}

impl FreshReleases {
    /// With this noise, at the points of the walk themselves.
    #[must_use]
    pub fn new(noise_std: f64) -> Self {
        Self {
            noise_std,
            block: None,
            moved: false,
            whole: true,
        }
    }

    /// Of a field that is the gradient of the loss, or (`false`) of one that the loss shortens.
    #[must_use]
    pub fn of_whole_field(self, whole: bool) -> Self {
        Self { whole, ..self }
    }

    /// At points moved at random, averaged over so many.
    #[must_use]
    pub fn moved_in_blocks(self, block: u64) -> Self {
        Self {
            block: Some(block),
            moved: true,
            ..self
        }
    }
}

/// What every plan has: made once, and not changed after that.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub(crate) facts: PublicFacts,
    pub(crate) budget: Budget,
    pub(crate) steps: u64,
    pub(crate) spend: Spend,
    pub(crate) gradients: f64,
    pub(crate) clip: f64,
    pub(crate) access: Access,
    pub(crate) unread: u64,
    pub(crate) output: OutputRule,
    pub(crate) bound: Option<f64>,
    pub(crate) quantity: BoundedQuantity,
    pub(crate) sense: BoundSense,
    pub(crate) radius: Option<f64>,
    pub(crate) smoothing: Option<f64>,
    pub(crate) curvature: Option<f64>,
    pub(crate) certifies: bool,
    pub(crate) fresh: Option<FreshReleases>,
}

impl Terms {
    /// Of a plan of `steps` steps that spends `spend` and clips at L0. It reads all records, returns its last point and
    /// states no bound, unless told otherwise.
    #[must_use]
    pub fn new(facts: &PublicFacts, budget: &Budget, steps: u64, spend: Spend) -> Self {
        Self {
            facts: *facts,
            budget: *budget,
            steps,
            spend,
            gradients: steps as f64 * facts.records as f64,
            clip: facts.lipschitz,
            access: Access::FullBatch,
            unread: 0,
            output: OutputRule::Last,
            bound: None,
            quantity: BoundedQuantity::GradientNorm,
            sense: BoundSense::RootMeanSquare,
            radius: None,
            smoothing: None,
            curvature: None,
            certifies: false,
            fresh: None,
        }
    }

    /// The facts that the plan was made from.
    #[must_use]
    pub fn facts(&self) -> &PublicFacts {
        &self.facts
    }

    /// Whether it would state a bound before a run, were it made for any adjacency.
    #[must_use]
    pub fn states_a_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// The per-record clip radius of gradients, at the first step.
    #[must_use]
    pub fn clip(&self) -> f64 {
        self.clip
    }

    /// With this nominal number of per-record gradients; without it, one for each record in each step.
    #[must_use]
    pub fn with_gradients(self, gradients: f64) -> Self {
        Self { gradients, ..self }
    }

    /// With this clip radius of the first step.
    #[must_use]
    pub fn with_clip(self, clip: f64) -> Self {
        Self { clip, ..self }
    }

    /// With this access.
    #[must_use]
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Taking at most so many records from the pool of those that were never read.
    #[must_use]
    pub fn with_unread(self, unread: u64) -> Self {
        Self { unread, ..self }
    }

    /// Returning this point.
    #[must_use]
    pub fn with_output(self, output: OutputRule) -> Self {
        Self { output, ..self }
    }

    /// With bounds on this quantity in this sense, where one is stated.
    #[must_use]
    pub fn bounding(self, quantity: BoundedQuantity, sense: BoundSense) -> Self {
        Self {
            quantity,
            sense,
            ..self
        }
    }

    /// With bounds on the Goldstein distance at this radius, in this sense.
    #[must_use]
    pub fn bounding_goldstein(self, radius: f64, sense: BoundSense) -> Self {
        self.bounding_at(BoundedQuantity::GoldsteinDistance, radius, sense)
    }

    /// With bounds on the component-wise Goldstein distance at this radius, in this sense.
    #[must_use]
    pub fn bounding_component_wise(self, radius: f64, sense: BoundSense) -> Self {
        let quantity = BoundedQuantity::ComponentWiseGoldsteinDistance;
        self.bounding_at(quantity, radius, sense)
    }

    fn bounding_at(self, quantity: BoundedQuantity, radius: f64, sense: BoundSense) -> Self {
        Self {
            radius: Some(radius),
            ..self.bounding(quantity, sense)
        }
    }

    /// With bounds that are about the mean of the loss over a ball of this radius, and not about the loss itself.
    #[must_use]
    pub fn of_smoothed(self, smoothing: f64) -> Self {
        Self {
            smoothing: Some(smoothing),
            ..self
        }
    }

    /// With bounds of second order: beside the bound the least eigenvalue of the Hessian is at least `-curvature`.
    #[must_use]
    pub fn with_curvature(self, curvature: f64) -> Self {
        Self {
            curvature: Some(curvature),
            ..self
        }
    }

    /// Whether runs certify a point by releases there, also where no bound is stated before.
    #[must_use]
    pub fn certifies(&self) -> bool {
        self.certifies
    }

    /// Stating what a run certifies of a point by releases there, also where no bound is stated before.
    #[must_use]
    pub fn certifying(self) -> Self {
        Self {
            certifies: true,
            ..self
        }
    }

    /// Saying that each release is a fresh gradient with noise of its own, of one size.
    #[must_use]
    pub fn with_fresh(self, fresh: FreshReleases) -> Self {
        Self {
            fresh: Some(fresh),
            ..self
        }
    }

    /// Stating this bound, or none.
    #[must_use]
    pub fn stating(self, bound: Option<f64>) -> Self {
        Self { bound, ..self }
    }
}
