//! A recursive estimate with independent noise: anchors by a rule, variations between them.

use dpopt_privacy::{ClipNorm, Refused};
use serde::Serialize;

use super::rule::Meter;
use super::tracker::{HeldSlice, anchor_is_cheaper, check_batches, delegate_to_means};
use super::{EstimatorError, Level, Means, Recursion, Refresh, StepKind, Tracked, Tracker};

/// What a [`Recursive`] estimate does: all of it from a plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecursiveSettings {
    /// Clip radius C of the field.
    pub clip: ClipNorm,
    /// Records and noise of an anchor.
    pub anchor: Level,
    /// Records and noise of a variation.
    pub variation: Level,
    /// When there is an anchor.
    pub refresh: Refresh,
}

/// SPIDER: an anchor when the rule says so, else the last estimate plus the change since.
///
/// # Formula
/// As [`Recursion`]. The noise variance of an estimate is the sum of those of its anchor and of all
/// variations since.
///
/// # Privacy
/// One Gaussian event for each anchor and each variation, on the records it reads. The rule looks at public points
/// only.
pub struct Recursive<M: Means> {
    recursion: Recursion<M>,
    settings: RecursiveSettings,
    meter: Meter,
    held: HeldSlice<M::Slice>,
}

impl<M: Means> Recursive<M> {
    /// An estimate over `means`.
    ///
    /// # Errors
    /// [`EstimatorError`] for batches that don't say how many records are read.
    pub fn new(means: M, settings: RecursiveSettings) -> Result<Self, EstimatorError> {
        check_batches(settings.anchor.batch, settings.variation.batch)?;
        Ok(Self {
            recursion: Recursion::over(means, settings.clip),
            settings,
            meter: Meter::default(),
            held: HeldSlice::none(),
        })
    }

    /// Begins a phase with other settings: other clips, multipliers or batches, from the plan.
    ///
    /// # Errors
    /// As [`Recursive::new`]; nothing has changed then.
    pub fn begin_phase_with(&mut self, settings: RecursiveSettings) -> Result<(), EstimatorError> {
        check_batches(settings.anchor.batch, settings.variation.batch)?;
        self.settings = settings;
        self.recursion.set_clip(settings.clip);
        self.begin_phase();
        Ok(())
    }

    /// What the estimate stands on, for other releases at public points.
    pub fn means_mut(&mut self) -> &mut M {
        &mut self.recursion.means
    }

    /// The settings of this phase.
    #[must_use]
    pub fn settings(&self) -> &RecursiveSettings {
        &self.settings
    }
}

impl<M: Means> Tracker for Recursive<M> {
    delegate_to_means!(recursion.means);

    fn estimate(&mut self, point: &[f64]) -> Result<Tracked<'_>, Refused> {
        self.recursion.check(point)?;
        let RecursiveSettings {
            anchor,
            variation,
            refresh,
            ..
        } = self.settings;
        let length = self.recursion.length_to(point);
        let fresh = self.meter.wants_anchor(&refresh, length)
            || anchor_is_cheaper(anchor.batch, variation.batch, length);
        let kind = if fresh {
            let means = &mut self.recursion.means;
            let over = self.held.over(anchor.batch, 0.0, means)?;
            self.recursion
                .anchor(point, over, anchor.noise_multiplier)?;
            self.meter.anchored();
            StepKind::Anchor
        } else if self.recursion.stays_at(point) {
            self.recursion.hold();
            self.meter.moved(0.0);
            StepKind::Held
        } else {
            let means = &mut self.recursion.means;
            let over = self.held.over(variation.batch, length, means)?;
            self.recursion
                .vary(point, over, variation.noise_multiplier)?;
            self.meter.moved(length);
            StepKind::Variation
        };
        Ok(Tracked::new(self.recursion.released().estimate(), kind))
    }

    fn begin_phase(&mut self) {
        self.meter = Meter::default();
        self.held.release();
    }
}
