//! Recursive momentum: an estimate that forgets its own error at a steady rate.

use dpopt_linalg::norm;
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Refused, UnitError};
use serde::Serialize;

use super::recursion::Move;
use super::{Ask, Mean, Means, Over, Recursion, Released};
use crate::loss::Segment;

/// The weight a of a fresh gradient in a step of recursive momentum: above 0, at most 1. At 1 nothing is left of the
/// estimate before.
///
/// Cutkosky and Orabona, "Momentum-Based Variance Reduction in Non-Convex SGD" (arXiv 1905.10018), whose
/// estimator this is, without noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Momentum(f64);

impl Momentum {
    /// Weight 0: a plain variation. Not for releases: an estimate with it never forgets.
    pub(crate) const NONE: Self = Self(0.0);

    /// With weight `fresh`.
    ///
    /// # Errors
    /// [`UnitError::NotAProbability`].
    pub fn new(fresh: f64) -> Result<Self, UnitError> {
        if fresh > 0.0 && fresh <= 1.0 {
            Ok(Self(fresh))
        } else {
            Err(UnitError::NotAProbability {
                name: "the weight of a fresh gradient",
                value: fresh,
            })
        }
    }

    /// a.
    #[must_use]
    pub fn fresh(self) -> f64 {
        self.0
    }

    /// 1 - a: what is left of the estimate before.
    #[must_use]
    pub fn kept(self) -> f64 {
        1.0 - self.0
    }

    /// a `field` + (1 - a) `change`, in the place of `field`.
    ///
    /// The difference of the two long fields would leave their rounding in a short whole.
    pub fn combine(self, field: &mut [f64], change: &[f64]) {
        for (field, change) in field.iter_mut().zip(change) {
            *field = self.combined(*field, *change);
        }
    }

    pub(crate) fn combined(self, field: f64, change: f64) -> f64 {
        self.0 * field + self.kept() * change
    }

    /// Where one of the two fields is longer than `clip` (or no number): `after` less (1 - a) `before`, each clipped, in
    /// the place of `after`. Else nothing, and false: [`Momentum::combine`] is more accurate then.
    pub(crate) fn subtract(self, after: &mut [f64], before: &[f64], clip: f64) -> bool {
        let (long, longer) = (norm(before), norm(after));
        if long <= clip && longer <= clip {
            return false;
        }
        let share = |norm: f64| if norm <= clip { 1.0 } else { clip / norm };
        let (old, new) = (share(long), share(longer));
        for (after, before) in after.iter_mut().zip(before) {
            *after = *after * new - self.kept() * (*before * old);
        }
        true
    }
}

impl<M: Means> Recursion<M> {
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
    /// One event of the means, also at a displacement of zero: then h is a times the field. The radius is public, since both
    /// points are.
    ///
    /// # Errors
    /// [`Refused`]; the estimate stays what it was.
    pub fn vary_with_momentum(
        &mut self,
        point: &[f64],
        over: Over<'_, M::Slice>,
        momentum: Momentum,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<&Released, Refused> {
        self.check(point)?;
        let dim = self.means.dim();
        let step = Move::new(&self.at.point, point);
        let ask = step.with_momentum(self.clip, self.smoothness, momentum);
        let ask = ask.ok_or(Refused::QueryShape { dim })?;
        let Mean {
            mut mean,
            noise_std,
        } = self.means.mean(&ask, over, noise_multiplier)?;
        let kept = momentum.kept();
        for (mean, estimate) in mean.iter_mut().zip(&self.at.gradient) {
            *mean += kept * estimate;
        }
        let variance = kept * kept * self.at.noise_variance + noise_std * noise_std;
        self.at.move_to(point, mean, variance, noise_std);
        Ok(&self.at)
    }
}

impl Move<'_> {
    /// The step of recursive momentum along it; none where the ends have different dimensions.
    fn with_momentum(
        &self,
        clip: ClipNorm,
        smoothness: f64,
        momentum: Momentum,
    ) -> Option<Ask<'_>> {
        let segment = Segment::new(self.from, self.to, &self.displacement)?;
        let reach = momentum.kept() * self.reach(clip, smoothness);
        let radius = (momentum.fresh() * clip.get() + reach) * (1.0 + 1e-12);
        Some(Ask::Momentum {
            segment,
            clip,
            momentum,
            radius: ClipNorm::new(radius).ok()?,
        })
    }
}
