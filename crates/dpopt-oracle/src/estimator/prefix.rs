//! A recursive estimate under prefix-sum noise: one noise object for each period.

use dpopt_privacy::{ClipNorm, Participation, UnitError};

use super::batch::{Batch, HeldSlice, Level, anchor_is_cheaper, check_batches};
use super::estimate::{Released, StepKind, Tracked};
use super::rule::{Meter, Refresh};
use super::running::Move;
use crate::error::{AskError, EstimatorError};
use crate::oracle::{Mean, Oracle, Period, PeriodTerms};
use crate::query::Linear;

/// Where the anchor of a period gets its noise from.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PeriodAnchor {
    /// It is the first step of the period. One record's part in an anchor and in a variation are then
    /// bounded by the same share.
    FirstStep(Batch),
    /// It is a release of its own, kept for the whole period, which holds the variations only. On unread
    /// records it costs no more: each record is in one or the other.
    Apart(Level),
}

impl PeriodAnchor {
    fn batch(self) -> Batch {
        match self {
            PeriodAnchor::FirstStep(batch) | PeriodAnchor::Apart(Level { batch, .. }) => batch,
        }
    }
}

/// Settings of a [`PrefixRecursive`] estimate, all from a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixSettings {
    /// Clip radius C of the field.
    pub clip: ClipNorm,
    /// The anchor.
    pub anchor: PeriodAnchor,
    /// Records of a variation.
    pub variation: Batch,
    /// The noise of a period, and the share of one record that it is scaled to.
    pub period: PeriodTerms,
    /// When a period begins, beside those that must because the last one is full.
    pub refresh: Refresh,
}

/// SPIDER under prefix-sum noise: the estimate is a released prefix sum of means, in which the
/// noise of successive estimates is correlated. The sum without noise never leaves the period.
///
/// # Formula
/// With x_0 the mean of clip(g(w_0; x), C) and x_j that of the change to w_j, each record's part clipped to
/// the share s as well: x_0 + … + x_j + N_j, with N the noise of the period ([`PeriodAnchor::FirstStep`]), or
/// (x_0 + N) + (x_1 + … + x_j + N_j) ([`PeriodAnchor::Apart`]).
///
/// # Privacy
/// A period costs one Gaussian of its noise multiplier, for each slice that takes part or, where all records
/// are read each time, once. Each has a noise object of its own: a restart is charged as another one. One longer
/// than planned goes on as the next, with an anchor; one that ends early has been paid for.
///
/// # The share
/// All noise is scaled to it, and clipping enforces it, so it must cover each step: share >= radius / m, with the
/// step's clip radius and the number that its mean divides by. See [`share_of`].
pub struct PrefixRecursive {
    settings: PrefixSettings,
    meter: Meter,
    held: HeldSlice,
    /// The anchor where it is apart, else zero.
    base: Vec<f64>,
    base_variance: f64,
    at: Released,
    period: Option<Period>,
    /// Steps of the period.
    steps: u64,
    /// One that was opened and paid for, and whose first step was refused.
    opened: Option<Period>,
    by_rule_only: bool,
}

/// The share of one record in a mean: `radius` over the number of records `m` that the mean divides by,
/// rounded up, so that clipping to it shortens nothing that the radius leaves whole.
///
/// | step | radius | m | share |
/// | --- | --- | --- | --- |
/// | anchor on b records | C | b | C/b |
/// | variation on B = ceil(beta length) records | L1 length | B | L1/beta |
/// | variation on B records, steps of at most D | min(L1 D, 2C) | B | min(L1 D, 2C)/B |
///
/// A period's share is the largest over its steps.
///
/// # Errors
/// [`UnitError`] unless the quotient is positive and finite.
pub fn share_of(radius: f64, m: f64) -> Result<ClipNorm, UnitError> {
    ClipNorm::new(radius / m * (1.0 + 1e-12))
}

impl PrefixRecursive {
    /// An estimate at points of `dim` coordinates.
    ///
    /// # Errors
    /// [`EstimatorError`] for batches that don't say how many records are read.
    pub fn new(dim: usize, settings: PrefixSettings) -> Result<Self, EstimatorError> {
        check_batches(settings.anchor.batch(), settings.variation)?;
        Ok(Self {
            meter: Meter::default(),
            held: HeldSlice::default(),
            base: vec![0.0; dim],
            base_variance: 0.0,
            at: Released::nothing(dim),
            period: None,
            steps: 0,
            opened: None,
            by_rule_only: false,
            settings,
        })
    }

    /// With anchors by the rule, and where a period is full: not also where a variation would read as many records.
    #[must_use]
    pub fn by_rule_only(self) -> Self {
        Self {
            by_rule_only: true,
            ..self
        }
    }

    /// Begins a phase with other settings: another share, length or noise, from the plan.
    ///
    /// # Errors
    /// As [`PrefixRecursive::new`]; nothing has changed then.
    pub fn begin_phase_with(&mut self, settings: PrefixSettings) -> Result<(), EstimatorError> {
        check_batches(settings.anchor.batch(), settings.variation)?;
        self.settings = settings;
        // It was opened on other terms.
        self.opened = None;
        self.begin_phase();
        Ok(())
    }

    /// The settings of this phase.
    #[must_use]
    pub fn settings(&self) -> &PrefixSettings {
        &self.settings
    }

    /// Releases an anchor at `point`, which ends the period before it.
    fn anchor(&mut self, oracle: &mut dyn Oracle, point: &[f64]) -> Result<(), AskError> {
        let field = Linear::field(point, self.settings.clip);
        match self.settings.anchor {
            PeriodAnchor::Apart(level) => {
                let over = self.held.over(level.batch, 0.0, oracle)?;
                let Mean {
                    mean, noise_std, ..
                } = oracle.mean(field, over, level.noise_multiplier)?;
                self.period = None;
                self.steps = 0;
                self.base.copy_from_slice(&mean);
                self.base_variance = noise_std * noise_std;
                self.at.move_to(point, mean, self.base_variance, noise_std);
            }
            PeriodAnchor::FirstStep(batch) => {
                let over = self.held.over(batch, 0.0, oracle)?;
                let mut period = match self.opened.take() {
                    Some(period) => period,
                    None => oracle.open_period(&self.settings.period)?,
                };
                let Mean {
                    mean, noise_std, ..
                } = match oracle.step(&mut period, field, over) {
                    Ok(mean) => mean,
                    Err(refused) => {
                        // Over all records it is paid for.
                        if self.settings.period.participation == Participation::Every {
                            self.opened = Some(period);
                        }
                        return Err(refused);
                    }
                };
                self.period = Some(period);
                self.steps = 1;
                self.base.fill(0.0);
                self.base_variance = 0.0;
                self.at
                    .move_to(point, mean, noise_std * noise_std, noise_std);
            }
        }
        Ok(())
    }

    /// Releases the sum of the period with the change to `point`.
    fn vary(&mut self, oracle: &mut dyn Oracle, point: &[f64]) -> Result<(), AskError> {
        let step = Move::new(&self.at.point, point);
        let Some(change) = step.change(self.settings.clip, oracle.facts().smoothness) else {
            return Ok(());
        };
        let variation = self.settings.variation;
        let over = self.held.over(variation, step.length, oracle)?;
        let period = match &mut self.period {
            Some(period) => period,
            none => none.insert(oracle.open_period(&self.settings.period)?),
        };
        let Mean {
            mut mean,
            noise_std,
            ..
        } = oracle.step(period, change, over)?;
        self.steps += 1;
        for (sum, base) in mean.iter_mut().zip(&self.base) {
            *sum += base;
        }
        let variance = self.base_variance + noise_std * noise_std;
        self.at.move_to(point, mean, variance, noise_std);
        Ok(())
    }

    /// Whether the period has no step left.
    fn is_full(&self) -> bool {
        self.steps >= self.settings.period.len
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
        let facts = oracle.facts();
        facts.check_point(point)?;
        facts.check_point(&self.at.point)?;
        let PrefixSettings {
            clip,
            anchor,
            variation,
            refresh,
            ..
        } = self.settings;
        let step = Move::new(&self.at.point, point);
        let (length, moves) = (step.length, step.change(clip, facts.smoothness).is_some());
        let fresh = self.meter.wants_anchor(&refresh, length)
            || !self.by_rule_only && anchor_is_cheaper(anchor.batch(), variation, length)
            || moves && self.is_full();
        let kind = if fresh {
            self.anchor(oracle, point)?;
            self.meter.anchored();
            StepKind::Anchor
        } else if moves {
            self.vary(oracle, point)?;
            self.meter.moved(length);
            StepKind::Variation
        } else {
            self.at.release_std = 0.0;
            self.meter.moved(0.0);
            StepKind::Held
        };
        Ok(Tracked::new(self.at.estimate(), kind))
    }

    /// Begins a phase: the next estimate is an anchor, in a period of its own, on new records where a phase has its own.
    pub fn begin_phase(&mut self) {
        self.meter = Meter::default();
        self.held.release();
    }
}
