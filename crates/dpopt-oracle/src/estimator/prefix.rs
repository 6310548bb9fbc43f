//! A recursive estimate under prefix-sum noise: one noise object for each period.

use dpopt_privacy::{ClipNorm, Participation, Refused, UnitError};

use super::recursion::Move;
use super::rule::Meter;
use super::tracker::{HeldSlice, anchor_is_cheaper, check_batches, delegate_to_means};
use super::{
    Ask, Batch, EstimatorError, Level, Mean, Means, PeriodTerms, Refresh, Released, StepKind,
    Tracked, Tracker,
};

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

/// What a [`PrefixRecursive`] estimate does: all of it from a plan.
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
pub struct PrefixRecursive<M: Means> {
    means: M,
    settings: PrefixSettings,
    smoothness: f64,
    meter: Meter,
    held: HeldSlice<M::Slice>,
    /// The anchor where it is apart, else zero.
    base: Vec<f64>,
    base_variance: f64,
    at: Released,
    period: Option<M::Period>,
    /// Steps of the period.
    steps: u64,
    /// One that was opened and paid for, and whose first step was refused.
    opened: Option<M::Period>,
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

impl<M: Means> PrefixRecursive<M> {
    /// An estimate over `means`.
    ///
    /// # Errors
    /// [`EstimatorError`] for batches that don't say how many records are read.
    pub fn new(means: M, settings: PrefixSettings) -> Result<Self, EstimatorError> {
        check_batches(settings.anchor.batch(), settings.variation)?;
        let dim = means.dim();
        Ok(Self {
            smoothness: means.smoothness(),
            meter: Meter::default(),
            held: HeldSlice::none(),
            base: vec![0.0; dim],
            base_variance: 0.0,
            at: Released::nothing(dim),
            period: None,
            steps: 0,
            opened: None,
            means,
            settings,
        })
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

    /// What the estimate stands on, for other releases at public points.
    pub fn means_mut(&mut self) -> &mut M {
        &mut self.means
    }

    /// The settings of this phase.
    #[must_use]
    pub fn settings(&self) -> &PrefixSettings {
        &self.settings
    }

    /// Releases an anchor at `point`, which ends the period before it.
    fn anchor(&mut self, point: &[f64]) -> Result<(), Refused> {
        let ask = Ask::Field {
            point,
            clip: self.settings.clip,
        };
        match self.settings.anchor {
            PeriodAnchor::Apart(level) => {
                let over = self.held.over(level.batch, 0.0, &mut self.means)?;
                let Mean { mean, noise_std } =
                    self.means.mean(&ask, over, level.noise_multiplier)?;
                self.period = None;
                self.steps = 0;
                self.base.copy_from_slice(&mean);
                self.base_variance = noise_std * noise_std;
                self.at.move_to(point, mean, self.base_variance, noise_std);
            }
            PeriodAnchor::FirstStep(batch) => {
                let over = self.held.over(batch, 0.0, &mut self.means)?;
                let mut period = match self.opened.take() {
                    Some(period) => period,
                    None => self.means.open_period(&self.settings.period)?,
                };
                let Mean { mean, noise_std } = match self.means.push(&mut period, &ask, over) {
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
    fn vary(&mut self, point: &[f64]) -> Result<(), Refused> {
        let step = Move::new(&self.at.point, point);
        let Some(ask) = step.ask(self.settings.clip, self.smoothness) else {
            return Ok(());
        };
        let variation = self.settings.variation;
        let over = self.held.over(variation, step.length, &mut self.means)?;
        let period = match &mut self.period {
            Some(period) => period,
            none => none.insert(self.means.open_period(&self.settings.period)?),
        };
        let Mean {
            mut mean,
            noise_std,
        } = self.means.push(period, &ask, over)?;
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
}

impl<M: Means> Tracker for PrefixRecursive<M> {
    delegate_to_means!(means);

    fn estimate(&mut self, point: &[f64]) -> Result<Tracked<'_>, Refused> {
        let dim = self.means.dim();
        if point.len() != dim {
            return Err(Refused::QueryShape { dim });
        }
        let PrefixSettings {
            clip,
            anchor,
            variation,
            refresh,
            ..
        } = self.settings;
        let step = Move::new(&self.at.point, point);
        let (length, moves) = (step.length, step.ask(clip, self.smoothness).is_some());
        let fresh = self.meter.wants_anchor(&refresh, length)
            || anchor_is_cheaper(anchor.batch(), variation, length)
            || moves && self.is_full();
        let kind = if fresh {
            self.anchor(point)?;
            self.meter.anchored();
            StepKind::Anchor
        } else if moves {
            self.vary(point)?;
            self.meter.moved(length);
            StepKind::Variation
        } else {
            self.at.release_std = 0.0;
            self.meter.moved(0.0);
            StepKind::Held
        };
        Ok(Tracked::new(self.at.estimate(), kind))
    }

    fn begin_phase(&mut self) {
        self.meter = Meter::default();
        self.held.release();
    }
}
