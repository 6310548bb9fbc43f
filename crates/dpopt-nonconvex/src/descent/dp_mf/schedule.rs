//! What a plan of DP-MF does.

use dpopt_oracle::{Batch, PeriodTerms, Schedule, share_of};
use dpopt_privacy::{
    NoiseMultiplier, Participation, PrefixError, PrefixKind, PrefixNoise, SamplingRate, Spend,
    UnitError,
};
use dpopt_solver::{Batches, OutputRule};

/// What a [`DpMfPlan`](crate::DpMfPlan) does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DpMfSchedule {
    /// How often each slice is read, k.
    pub epochs: u64,
    /// Slices, and steps of an epoch, m.
    pub slices: u64,
    /// Probability with which a record of the slice enters a step; none: all do.
    pub sampling_rate: Option<SamplingRate>,
    /// How these samples are drawn: an allocation goes over 1/rate steps on a slice.
    pub batches: Batches,
    /// Where the noise comes from. With one epoch and a tree this is DP-FTRL as it was first stated.
    pub factor: PrefixKind,
    /// Step size eta.
    pub step_size: f64,
    /// Heavy-ball momentum beta.
    pub momentum: f64,
    /// Share of the steps, at the end, over which the step size falls to zero.
    pub cool_down: f64,
    /// Per-record clip radius C.
    pub clip: f64,
    /// Noise multiplier z of the run as a whole, or, with samples, of one sample's part in it.
    pub noise_multiplier: NoiseMultiplier,
    /// Which point is returned.
    pub output: OutputRule,
}

/// A step's size over that of the first, the steps counted from 0: over the last share of them it falls to zero on a line.
pub(super) fn cooled(step: u64, steps: u64, cool_down: f64) -> f64 {
    let cooling = (cool_down * steps as f64).round();
    let left = steps.saturating_sub(step) as f64;
    (left / (cooling + 1.0)).min(1.0)
}

impl DpMfSchedule {
    /// Number of steps, k m.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.epochs.saturating_mul(self.slices)
    }

    /// In how many steps a record takes part.
    #[must_use]
    pub fn participation(&self) -> Participation {
        let apart = self.slices;
        match (self.sampling_rate, self.epochs) {
            (Some(_), _) => Participation::Sampled { apart },
            (None, 1) => Participation::Single,
            (None, most) => Participation::Repeated { most, apart },
        }
    }

    /// Bands of the factor; none of a tree.
    pub(super) fn band(&self) -> Option<u64> {
        match self.factor {
            PrefixKind::Independent => Some(1),
            PrefixKind::Toeplitz => Some(self.steps()),
            PrefixKind::Banded { band } => Some(band),
            PrefixKind::Tuned(factor) => Some(factor.band()),
            _ => None,
        }
    }

    /// The public numbers of the noise.
    ///
    /// # Errors
    /// [`PrefixError`] for no such period.
    pub fn noise(&self) -> Result<PrefixNoise, PrefixError> {
        PrefixNoise::new(self.factor, self.steps(), self.participation())
    }

    /// The step size of a step, counted from 0.
    #[must_use]
    pub fn step_size_at(&self, step: u64) -> f64 {
        self.step_size * cooled(step, self.steps(), self.cool_down)
    }

    /// Records of a slice, of so many records in all: the first slices hold one more where they don't come out even.
    #[must_use]
    pub fn records_of(&self, slice: u64, records: u64) -> u64 {
        let slices = self.slices.max(1);
        records / slices + u64::from(slice < records % slices)
    }

    /// What a run spends; none for a schedule that no run can have.
    pub(super) fn spend(&self, records: u64) -> Option<Spend> {
        let terms = self.period(records).ok()?;
        let none = Schedule::new(records);
        let schedule = match self.sampling_rate {
            Some(rate) => match self.batches {
                Batches::Allocated => {
                    let allocation = Batches::epoch(rate);
                    let times = self.epochs.div_ceil(allocation.steps.max(1));
                    none.allocated_period(&terms, allocation, times)
                }
                _ => none.sampled_period(&terms, rate, self.epochs),
            },
            None => none.periods(
                Batch::Next(self.records_of(self.slices, records)),
                &terms,
                1,
            ),
        };
        Some(schedule.ok()?.spend())
    }

    pub(super) fn period(&self, records: u64) -> Result<PeriodTerms, UnitError> {
        Ok(PeriodTerms {
            kind: self.factor,
            len: self.steps(),
            participation: self.participation(),
            // The last slice is the shortest.
            share: share_of(
                self.clip,
                self.records_of(self.slices, records).max(1) as f64
                    * self.sampling_rate.map_or(1.0, SamplingRate::get),
            )?,
            noise_multiplier: self.noise_multiplier,
        })
    }
}
