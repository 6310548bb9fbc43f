//! The running estimate: anchors, and changes added to them.

use dpopt_linalg::distance;
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};

use super::estimate::Released;
use crate::error::AskError;
use crate::loss::{Momentum, Segment};
use crate::oracle::{Mean, Oracle};
use crate::query::Linear;

/// A step between two public points.
pub(super) struct Move<'a> {
    pub(super) from: &'a [f64],
    pub(super) to: &'a [f64],
    pub(super) displacement: Vec<f64>,
    /// ||to - from||.
    pub(super) length: f64,
}

impl<'a> Move<'a> {
    pub(super) fn new(from: &'a [f64], to: &'a [f64]) -> Self {
        Self {
            from,
            to,
            displacement: to.iter().zip(from).map(|(new, old)| new - old).collect(),
            length: distance(to, from),
        }
    }

    /// The variation along it, of radius min(L1 ||w - w'||, 2 C), rounded up; none where that is zero.
    /// A displacement that is not finite gets 2C, and so does any along which the field may jump.
    pub(super) fn change(&self, clip: ClipNorm, smoothness: f64) -> Option<Linear<'_>> {
        let segment = Segment::new(self.from, self.to, &self.displacement)?;
        if self.length == 0.0 {
            return None;
        }
        let radius = ClipNorm::new(self.reach(clip, smoothness)).ok()?;
        Some(Linear::change(segment, clip, radius))
    }

    /// The step of recursive momentum along it; none where the ends have different dimensions.
    fn momentum(&self, clip: ClipNorm, smoothness: f64, momentum: Momentum) -> Option<Linear<'_>> {
        let segment = Segment::new(self.from, self.to, &self.displacement)?;
        let reach = momentum.kept() * self.reach(clip, smoothness);
        let radius = (momentum.fresh() * clip.get() + reach) * (1.0 + 1e-12);
        let radius = ClipNorm::new(radius).ok()?;
        Some(Linear::momentum(segment, momentum, clip, radius))
    }

    /// min(L1 ||w - w'||, 2 C), rounded up.
    fn reach(&self, clip: ClipNorm, smoothness: f64) -> f64 {
        let reach = smoothness * self.length * (1.0 + 1e-12);
        reach.min(2.0 * clip.get())
    }
}

/// A running estimate that is told when to start anew: the base of all recursive estimators with independent noise.
///
/// It holds released numbers only. The oracle is lent to each call, so a walk may ask it for other things between.
///
/// # Formula
/// An anchor at w: the mean of clip(g(w; x), C). A variation from w' to w: the mean of the change of the clipped
/// field, clipped to min(L1 ||w - w'||, 2C), added to the estimate at w'. A step of recursive momentum: see
/// [`Running::vary_with_momentum`]. Each has noise of its own, in proportion to its own radius. L1 is that of the oracle.
///
/// # Privacy
/// Each release is one event of the oracle. A variation of radius zero releases and costs nothing, and the estimate stays
/// where it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    clip: ClipNorm,
    at: Released,
}

impl Running {
    /// An estimate of zero at the origin of `dim` coordinates, of the field clipped to `clip`.
    #[must_use]
    pub fn new(dim: usize, clip: ClipNorm) -> Self {
        Self {
            clip,
            at: Released::nothing(dim),
        }
    }

    /// The clip radius C of the field.
    #[must_use]
    pub fn clip(&self) -> ClipNorm {
        self.clip
    }

    /// Clips the field to `clip` from now on, with noise to match. The radius has to be public: part of a plan, or computed
    /// from releases. An anchor has to follow before a variation, since a running estimate is of the field clipped as before.
    pub fn set_clip(&mut self, clip: ClipNorm) {
        self.clip = clip;
    }

    /// The estimate and where it is.
    #[must_use]
    pub fn released(&self) -> &Released {
        &self.at
    }

    /// Goes on from an estimate that was released before: what it holds is public, so this costs nothing.
    ///
    /// # Errors
    /// [`AskError::Shape`] for another dimension.
    pub fn resume(&mut self, from: &Released) -> Result<(), AskError> {
        let dim = self.at.point.len();
        if from.point.len() != dim || from.gradient.len() != dim {
            return Err(AskError::Shape { dim });
        }
        self.at.clone_from(from);
        Ok(())
    }

    /// Releases a fresh estimate at `point`.
    ///
    /// # Errors
    /// [`AskError`]; the estimate stays what it was.
    pub fn anchor(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<&Released, AskError> {
        self.check(oracle, point)?;
        let field = Linear::field(point, self.clip);
        let Mean {
            mean, noise_std, ..
        } = oracle.mean(field, over, noise_multiplier)?;
        self.at
            .move_to(point, mean, noise_std * noise_std, noise_std);
        Ok(&self.at)
    }

    /// Releases how the field changes from the last point to `point` and moves the estimate there. Where
    /// the change can only be zero nothing is released, and the last point stays the old one.
    ///
    /// # Errors
    /// [`AskError`]; the estimate stays what it was.
    pub fn vary(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<&Released, AskError> {
        self.vary_within(oracle, point, over, noise_multiplier, None)
    }

    /// As [`Running::vary`], with changes clipped to `fixed` where it is given, and noise to match, whatever the
    /// displacement.
    pub(super) fn vary_within(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
        fixed: Option<ClipNorm>,
    ) -> Result<&Released, AskError> {
        self.check(oracle, point)?;
        let step = Move::new(&self.at.point, point);
        let Some(change) = step.change(self.clip, oracle.facts().smoothness) else {
            self.at.release_std = 0.0;
            return Ok(&self.at);
        };
        let change = fixed.map_or(change, |radius| change.within(radius));
        let Mean {
            mut mean,
            noise_std,
            ..
        } = oracle.mean(change, over, noise_multiplier)?;
        for (change, estimate) in mean.iter_mut().zip(&self.at.gradient) {
            *change += estimate;
        }
        let variance = self.at.noise_variance + noise_std * noise_std;
        self.at.move_to(point, mean, variance, noise_std);
        Ok(&self.at)
    }

    /// Moves the estimate g from the last point w' to `point` w by a step of recursive momentum.
    ///
    /// # Formula
    /// g becomes (1 - a) g plus the released mean of h = clip(field(w), C) - (1 - a) clip(field(w'), C), each record's h clipped to
    ///
    /// a C + (1 - a) min(L1 ||w - w'||, 2 C),
    ///
    /// rounded up: with right constants no h is longer. Its noise variance becomes (1 - a)^2 times what it was plus that
    /// of the release.
    ///
    /// # Privacy
    /// One event of the oracle, also at a displacement of zero: then h is a times the field. The radius is public, since both
    /// points are.
    ///
    /// # Errors
    /// [`AskError`]; the estimate stays what it was.
    pub fn vary_with_momentum(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
        over: Which<'_>,
        momentum: Momentum,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<&Released, AskError> {
        self.check(oracle, point)?;
        let facts = oracle.facts();
        let step = Move::new(&self.at.point, point);
        let query = step.momentum(self.clip, facts.smoothness, momentum);
        let query = query.ok_or(AskError::Shape { dim: facts.dim })?;
        let Mean {
            mut mean,
            noise_std,
            ..
        } = oracle.mean(query, over, noise_multiplier)?;
        let kept = momentum.kept();
        for (mean, estimate) in mean.iter_mut().zip(&self.at.gradient) {
            *mean += kept * estimate;
        }
        let variance = kept * kept * self.at.noise_variance + noise_std * noise_std;
        self.at.move_to(point, mean, variance, noise_std);
        Ok(&self.at)
    }

    /// Nothing was released for the last estimate.
    pub(super) fn hold(&mut self) {
        self.at.release_std = 0.0;
    }

    /// Whether a variation to `point` would release nothing.
    pub(super) fn stays_at(&self, oracle: &dyn Oracle, point: &[f64]) -> bool {
        let step = Move::new(&self.at.point, point);
        step.change(self.clip, oracle.facts().smoothness).is_none()
    }

    /// ||point - last point||.
    pub(super) fn length_to(&self, point: &[f64]) -> f64 {
        distance(point, &self.at.point)
    }

    /// Whether `point`, and this estimate, have the oracle's dimension.
    pub(super) fn check(&self, oracle: &dyn Oracle, point: &[f64]) -> Result<(), AskError> {
        oracle.facts().check_point(point)?;
        oracle.facts().check_point(&self.at.point)
    }
}
