//! A recursive estimate with independent noise: anchors by a rule, variations between them.

use dpopt_privacy::ClipNorm;
use serde::Serialize;

use super::batch::{HeldSlice, Level, anchor_is_cheaper, check_batches};
use super::estimate::{StepKind, Tracked};
use super::rule::{Meter, Refresh};
use super::running::Running;
use crate::error::{AskError, EstimatorError};
use crate::oracle::Oracle;

/// Settings of a [`Recursive`] estimate, all from a plan.
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
/// As [`Running`]. The noise variance of an estimate is the sum of those of its anchor and of all
/// variations since.
///
/// # Privacy
/// One Gaussian event for each anchor and each variation, on the records it reads. The rule looks at public points
/// only.
pub struct Recursive {
    running: Running,
    settings: RecursiveSettings,
    meter: Meter,
    held: HeldSlice,
    by_rule_only: bool,
}

impl Recursive {
    /// An estimate at points of `dim` coordinates.
    ///
    /// # Errors
    /// [`EstimatorError`] for batches that don't say how many records are read.
    pub fn new(dim: usize, settings: RecursiveSettings) -> Result<Self, EstimatorError> {
        check_batches(settings.anchor.batch, settings.variation.batch)?;
        Ok(Self {
            running: Running::new(dim, settings.clip),
            settings,
            meter: Meter::default(),
            held: HeldSlice::default(),
            by_rule_only: false,
        })
    }

    /// With anchors by the rule alone: not also where a variation would read as many records.
    #[must_use]
    pub fn by_rule_only(self) -> Self {
        Self {
            by_rule_only: true,
            ..self
        }
    }

    /// Begins a phase with other settings: other clips, multipliers or batches, from the plan.
    ///
    /// # Errors
    /// As [`Recursive::new`]; nothing has changed then.
    pub fn begin_phase_with(&mut self, settings: RecursiveSettings) -> Result<(), EstimatorError> {
        check_batches(settings.anchor.batch, settings.variation.batch)?;
        self.settings = settings;
        self.running.set_clip(settings.clip);
        self.begin_phase();
        Ok(())
    }

    /// The settings of this phase.
    #[must_use]
    pub fn settings(&self) -> &RecursiveSettings {
        &self.settings
    }

    /// The estimate at `point`.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then, and the estimate and its rule stay what they were.
    pub fn estimate(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
    ) -> Result<Tracked<'_>, AskError> {
        self.running.check(oracle, point)?;
        let RecursiveSettings {
            anchor,
            variation,
            refresh,
            ..
        } = self.settings;
        let length = self.running.length_to(point);
        let fresh = self.meter.wants_anchor(&refresh, length)
            || !self.by_rule_only && anchor_is_cheaper(anchor.batch, variation.batch, length);
        let kind = if fresh {
            let over = self.held.over(anchor.batch, 0.0, oracle)?;
            self.running
                .anchor(oracle, point, over, anchor.noise_multiplier)?;
            self.meter.anchored();
            StepKind::Anchor
        } else if self.running.stays_at(oracle, point) {
            self.running.hold();
            self.meter.moved(0.0);
            StepKind::Held
        } else {
            let over = self.held.over(variation.batch, length, oracle)?;
            self.running
                .vary(oracle, point, over, variation.noise_multiplier)?;
            self.meter.moved(length);
            StepKind::Variation
        };
        Ok(Tracked::new(self.running.released().estimate(), kind))
    }

    /// Begins a phase: the next estimate is an anchor, with new noise, on new records where a phase has its own.
    pub fn begin_phase(&mut self) {
        self.meter = Meter::default();
        self.held.release();
    }
}
