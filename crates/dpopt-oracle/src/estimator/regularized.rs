//! A regulariser on top of an estimator: post-processing of what was released.

use dpopt_privacy::{ClipNorm, Epsilon, Event, NoiseMultiplier, Refused, Spend};

use super::tracker::delegate_to_means;
use super::{Counts, Estimate, Estimator, Momentum, Number, Shifted, Tracked, Tracker};
use crate::loss::Regularizer;

/// An estimator of the gradient of F + R, from one of the gradient of F.
///
/// # Formula
/// The inner estimate at w, plus the exact gradient of R at w. It carries no further noise.
///
/// # Privacy
/// None of its own: R reads no record, w is public, and adding a public vector to a release is
/// post-processing. Reservations, events and counts are those of the inner estimator. Clipping acts on the
/// gradients of the loss alone, never on R.
///
/// Plan with [`Regularizer::constants`].
pub struct Regularized<E> {
    inner: E,
    regularizer: Regularizer,
    sum: Vec<f64>,
}

impl<E> Regularized<E> {
    /// Adds `regularizer` to what `inner`, an [`Estimator`] or a [`Tracker`], estimates.
    pub fn new(inner: E, regularizer: Regularizer) -> Self {
        Self {
            inner,
            regularizer,
            sum: Vec::new(),
        }
    }

    /// The estimator below.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    /// The estimator below, again on its own.
    pub fn into_inner(self) -> E {
        self.inner
    }

    /// The regulariser.
    pub fn regularizer(&self) -> Regularizer {
        self.regularizer
    }
}

impl<E: Estimator> Estimator for Regularized<E> {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.inner.reserve(spend)
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let estimate = self.inner.refresh(point, noise_multiplier)?;
        Ok(plus(estimate, self.regularizer, point, &mut self.sum))
    }

    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let estimate = self.inner.advance(point, noise_multiplier)?;
        Ok(plus(estimate, self.regularizer, point, &mut self.sum))
    }

    fn advance_with_momentum(
        &mut self,
        point: &[f64],
        momentum: Momentum,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let estimate = self
            .inner
            .advance_with_momentum(point, momentum, noise_multiplier)?;
        Ok(plus(estimate, self.regularizer, point, &mut self.sum))
    }

    fn set_clip(&mut self, clip: ClipNorm) -> bool {
        self.inner.set_clip(clip)
    }

    fn offers_norms(&self) -> bool {
        self.inner.offers_norms()
    }

    fn norm(
        &mut self,
        at: Shifted<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        let shift = self.shift(at)?;
        let point = at.point;
        let at = Shifted {
            point,
            shift: &shift,
        };
        self.inner.norm(at, noise_multiplier)
    }

    fn least_norm(&mut self, among: &[Shifted<'_>], epsilon: Epsilon) -> Result<usize, Refused> {
        let shifts = among.iter().map(|at| self.shift(*at));
        let shifts = shifts.collect::<Result<Vec<_>, _>>()?;
        let among: Vec<Shifted<'_>> = among
            .iter()
            .zip(&shifts)
            .map(|(at, shift)| Shifted {
                point: at.point,
                shift,
            })
            .collect();
        self.inner.least_norm(&among, epsilon)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.inner.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.inner.settle()
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }
}

impl<E: Estimator> Regularized<E> {
    /// The caller's shift and the gradient of R.
    fn shift(&self, at: Shifted<'_>) -> Result<Vec<f64>, Refused> {
        let dim = self.inner.dim();
        if at.point.len() != dim || !(at.shift.is_empty() || at.shift.len() == dim) {
            return Err(Refused::QueryShape { dim });
        }
        let mut shift = at.shift.to_vec();
        shift.resize(dim, 0.0);
        self.regularizer.add_gradient(at.point, &mut shift);
        Ok(shift)
    }
}

impl<E: Tracker> Tracker for Regularized<E> {
    delegate_to_means!(inner);

    fn estimate(&mut self, point: &[f64]) -> Result<Tracked<'_>, Refused> {
        let Tracked { estimate, kind } = self.inner.estimate(point)?;
        let estimate = plus(estimate, self.regularizer, point, &mut self.sum);
        Ok(Tracked::new(estimate, kind))
    }

    fn begin_phase(&mut self) {
        self.inner.begin_phase();
    }
}

/// The estimate with the gradient of the regulariser, both at `point`.
fn plus<'a>(
    estimate: Estimate<'_>,
    regularizer: Regularizer,
    point: &[f64],
    sum: &'a mut Vec<f64>,
) -> Estimate<'a> {
    sum.clear();
    sum.extend_from_slice(estimate.gradient);
    regularizer.add_gradient(point, sum);
    Estimate::new(sum, estimate.noise_std, estimate.release_std)
}
