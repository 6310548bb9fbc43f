//! What is asked of a walk in blocks, and what it does.

use std::num::{NonZeroU64, NonZeroUsize};

use dpopt_oracle::query::smoothed_change_per_length;
use dpopt_oracle::{
    Batch, Level, PeriodAnchor, PeriodTerms, PrefixSettings, RecursiveSettings, Refresh,
    SmoothedFields, Smoothing, share_of,
};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Participation, PrefixKind, UnitError};
use dpopt_solver::{BoundedValues, PublicFacts, RunError};

/// a/r. The gradient is asked for at z + u, and a mean of those is one of F at radius r whatever a is, so that a costs L a
/// in the gap and nothing else; but it may not be 0.
const SMOOTHING: f64 = 1e-3;

/// What a [`GoldsteinPlan`](super::GoldsteinPlan) is to find, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoldsteinSettings {
    /// r: the radius of the statement.
    pub radius: f64,
    /// a/r of fresh estimates, in (0, 1). With periods a is planned.
    pub smoothing_share: f64,
    /// Sigma: steps of a period, 1 for fresh estimates at each; none: planned, where there may be periods.
    pub period: Option<NonZeroU64>,
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

impl GoldsteinSettings {
    /// a = r/1000.
    #[must_use]
    pub fn at_radius(radius: f64) -> Self {
        Self {
            radius,
            smoothing_share: SMOOTHING,
            period: None,
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

/// What a [`GoldsteinPlan`](super::GoldsteinPlan) does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoldsteinSchedule {
    /// T: steps, one release each.
    pub steps: u64,
    /// M: steps of a block.
    pub block: u64,
    /// D: the longest displacement.
    pub cap: f64,
    /// eta = D/(G1 sqrt M), from Delta = 0 in each block.
    pub step_size: f64,
    /// a: radius of the ball that u is drawn from; with slopes half of the way that each is taken over.
    pub smoothing: f64,
    /// Which records a step reads; with periods, their first one.
    pub batch: Batch,
    /// m: slopes along so many shared directions, and no gradients; none: gradients.
    pub directions: Option<NonZeroUsize>,
    /// How changes are asked for between fresh estimates; none: all estimates are fresh.
    pub period: Option<GoldsteinPeriod>,
    /// Per-record clip radius, of the gradient or of the slopes as one vector.
    pub clip: f64,
    /// Noise multiplier of each release; with periods, of their first one.
    pub noise_multiplier: NoiseMultiplier,
}

/// Steps of which the first asks for the gradient of the smoothed loss, and the others for its change since the step
/// before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoldsteinPeriod {
    /// Sigma.
    pub len: u64,
    /// Which records a change reads.
    pub changes: Batch,
    /// Where the noise of changes comes from: a row of prefix noise, scaled to moves of 2 D; none: noise of its own for
    /// each, in proportion to the actual move.
    pub prefix: Option<PrefixKind>,
    /// Noise multiplier of a change; with prefix noise of all changes of the period as a whole.
    pub noise_multiplier: NoiseMultiplier,
    /// L: a change of slopes is clipped to sqrt(d) L times its length over a.
    pub lipschitz: f64,
    /// How the gradient is asked for.
    pub fields: SmoothedFields,
    /// Most offsets of one release.
    pub offsets: NonZeroUsize,
    /// Most frames of one release.
    pub frames: NonZeroUsize,
}

/// Numbers of all offsets, and of all frames, of one release at most: 32 MiB.
pub(super) const MOST_NUMBERS: u64 = 1 << 22;

/// The estimator of a walk in periods.
pub(super) enum PeriodSettings {
    Independent(RecursiveSettings),
    Prefix(PrefixSettings),
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

    /// How a walk in periods smooths.
    pub(super) fn smoothing_of(&self, period: &GoldsteinPeriod) -> Smoothing {
        Smoothing {
            radius: self.smoothing,
            lipschitz: period.lipschitz,
            fields: period.fields,
            offsets: period.offsets,
            frames: period.frames,
        }
    }

    /// The settings of its estimator, in so many dimensions.
    pub(super) fn settings_of(
        &self,
        period: &GoldsteinPeriod,
        dim: usize,
    ) -> Result<PeriodSettings, UnitError> {
        let clip = ClipNorm::new(self.clip)?;
        let refresh = Refresh::every(period.len);
        let Some(kind) = period.prefix else {
            return Ok(PeriodSettings::Independent(RecursiveSettings {
                clip,
                anchor: self.level(),
                variation: Level {
                    batch: period.changes,
                    noise_multiplier: period.noise_multiplier,
                },
                refresh,
            }));
        };
        let read = match period.changes {
            Batch::Next(size) => size as f64,
            _ => 1.0,
        };
        // z is at most 2 D from the z before.
        let each = smoothed_change_per_length(period.lipschitz, dim, self.smoothing);
        let longest = each * 2.0 * self.cap;
        Ok(PeriodSettings::Prefix(PrefixSettings {
            clip,
            anchor: PeriodAnchor::Apart(self.level()),
            variation: period.changes,
            period: PeriodTerms {
                kind,
                len: period.len.saturating_sub(1).max(1),
                participation: Participation::Single,
                share: share_of(longest.min(2.0 * self.clip) * (1.0 + 1e-9), read)?,
                noise_multiplier: period.noise_multiplier,
            },
            refresh,
        }))
    }

    /// The settings of its estimator and the number of its periods, if there are any and they can be.
    pub(super) fn in_periods(&self, dim: usize) -> Option<(PeriodSettings, u64)> {
        let period = self.period.as_ref()?;
        let settings = self.settings_of(period, dim).ok()?;
        Some((settings, self.steps.div_ceil(period.len.max(1))))
    }

    /// Unread records that the whole walk asks for; none where it reads the same ones again.
    pub(super) fn unread(&self) -> Option<u128> {
        let slice = |batch, times: u64| match batch {
            Batch::Next(size) => Some(u128::from(size) * u128::from(times)),
            _ => None,
        };
        let Some(period) = &self.period else {
            return slice(self.batch, self.steps);
        };
        let anchors = self.steps.div_ceil(period.len.max(1));
        let (first, rest) = (
            slice(self.batch, anchors),
            slice(period.changes, self.steps - anchors),
        );
        (first.is_some() || rest.is_some()).then(|| first.unwrap_or(0) + rest.unwrap_or(0))
    }

    /// Numbers of all offsets, and of all frames, of one release, where it reads `records` at most.
    pub(super) fn numbers_drawn(&self, records: u64, dim: usize) -> u128 {
        let Some(period) = &self.period else {
            return 0;
        };
        let d = dim as u128;
        let shared = |most: NonZeroUsize, batch| {
            let read = match batch {
                Batch::Next(size) | Batch::FixedSize(size) => size,
                _ => records,
            };
            u128::from(read).min(most.get() as u128)
        };
        let anchors = match period.fields {
            SmoothedFields::Values => shared(period.frames, self.batch) * d * d,
            _ => shared(period.offsets, self.batch) * (d + 2),
        };
        let changes = match period.len.min(self.steps) {
            0 | 1 => 0,
            _ => shared(period.frames, period.changes) * d * d,
        };
        anchors.max(changes)
    }

    /// How many records a change reads.
    pub(super) fn read_by_changes(&self, facts: &PublicFacts) -> Option<f64> {
        Some(match self.period?.changes {
            Batch::Next(size) | Batch::FixedSize(size) => size as f64,
            Batch::Poisson(rate) => rate.get() * facts.records as f64,
            _ => facts.records as f64,
        })
    }

    /// Nominal numbers of gradients and of values, where fresh estimates are of `read` records. A slope is two values, and a
    /// change of one four.
    pub(super) fn costs(&self, facts: &PublicFacts, read: f64) -> (f64, f64) {
        let (steps, d) = (self.steps as f64, facts.dim as f64);
        if let (Some(period), Some(changed)) = (&self.period, self.read_by_changes(facts)) {
            let anchors = self.steps.div_ceil(period.len.max(1)) as f64;
            let changes = (steps - anchors) * changed * 4.0 * d;
            return match period.fields {
                SmoothedFields::Values => (0.0, changes + anchors * read * 2.0 * d),
                _ => (anchors * read, changes),
            };
        }
        match self.directions {
            Some(directions) => (0.0, 2.0 * directions.get() as f64 * steps * read),
            None => (steps * read, 0.0),
        }
    }
}
