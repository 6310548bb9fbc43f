//! The running estimate: anchors, and variations added to them.

use dpopt_linalg::distance;
use dpopt_privacy::{ClipNorm, Epsilon, Event, NoiseMultiplier, Refused, Spend};

use super::{
    Access, Ask, Counts, Estimate, Estimator, Mean, Means, Momentum, Number, Over, Shifted,
};
use crate::loss::Segment;

/// A released estimate of the mean field at a public point: public, and free to be kept and copied.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Released {
    /// The point w.
    pub point: Vec<f64>,
    /// The estimate at w, one number per coordinate.
    pub gradient: Vec<f64>,
    /// Variance, per coordinate, of all the noise in it.
    pub noise_variance: f64,
    /// Standard deviation per coordinate of the last release alone; 0 when nothing was released.
    pub release_std: f64,
}

impl Released {
    /// Zero, without noise, at the origin.
    pub(super) fn nothing(dim: usize) -> Self {
        Self {
            point: vec![0.0; dim],
            gradient: vec![0.0; dim],
            noise_variance: 0.0,
            release_std: 0.0,
        }
    }

    /// Becomes the estimate at `point`.
    pub(super) fn move_to(
        &mut self,
        point: &[f64],
        gradient: Vec<f64>,
        noise_variance: f64,
        release_std: f64,
    ) {
        self.point.copy_from_slice(point);
        self.gradient = gradient;
        self.noise_variance = noise_variance;
        self.release_std = release_std;
    }

    /// As what an [`Estimator`] returns.
    #[must_use]
    pub fn estimate(&self) -> Estimate<'_> {
        Estimate::new(&self.gradient, self.noise_variance.sqrt(), self.release_std)
    }
}

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
    pub(super) fn ask(&self, clip: ClipNorm, smoothness: f64) -> Option<Ask<'_>> {
        let segment = Segment::new(self.from, self.to, &self.displacement)?;
        if self.length == 0.0 {
            return None;
        }
        let radius = ClipNorm::new(self.reach(clip, smoothness)).ok()?;
        Some(Ask::Change {
            segment,
            clip,
            radius,
        })
    }

    /// min(L1 ||w - w'||, 2 C), rounded up.
    pub(super) fn reach(&self, clip: ClipNorm, smoothness: f64) -> f64 {
        let reach = smoothness * self.length * (1.0 + 1e-12);
        reach.min(2.0 * clip.get())
    }
}

/// A running estimate that is told when to start anew: the base of all recursive estimators with
/// independent noise.
///
/// # Formula
/// An anchor at w: the mean of clip(g(w; x), C). A variation from w' to w: the mean of the change of the clipped
/// field, clipped to min(L1 ||w - w'||, 2C), added to the estimate at w'. A step of recursive momentum: see
/// [`Recursion::vary_with_momentum`]. Each has noise of its own, in proportion to its own radius.
///
/// # Privacy
/// Each release is one event of the means below. A variation of radius zero releases and costs nothing, and the
/// estimate stays where it was.
pub struct Recursion<M> {
    pub(super) means: M,
    pub(super) clip: ClipNorm,
    pub(super) smoothness: f64,
    access: Access,
    pub(super) at: Released,
}

impl<M: Means> Recursion<M> {
    /// An estimate of zero at the origin, over `means`, clipping the field to `clip` and reading all records.
    #[must_use]
    pub fn over(means: M, clip: ClipNorm) -> Self {
        Self {
            clip,
            smoothness: means.smoothness(),
            access: Access::FullBatch,
            at: Released::nothing(means.dim()),
            means,
        }
    }

    /// Clips the field to `clip` instead.
    #[must_use]
    pub fn with_clip(mut self, clip: ClipNorm) -> Self {
        self.clip = clip;
        self
    }

    /// Reads records as `access` says, as an [`Estimator`].
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// The clip radius C of the field.
    #[must_use]
    pub fn clip(&self) -> ClipNorm {
        self.clip
    }

    /// What the estimate stands on.
    #[must_use]
    pub fn means(&self) -> &M {
        &self.means
    }

    /// What the estimate stands on, for other releases at public points.
    pub fn means_mut(&mut self) -> &mut M {
        &mut self.means
    }

    /// What the estimate stands on, again on its own.
    #[must_use]
    pub fn into_means(self) -> M {
        self.means
    }

    pub(super) fn map_means(self, change: impl FnOnce(M) -> M) -> Self {
        Self {
            means: change(self.means),
            ..self
        }
    }

    /// The estimate and where it is.
    #[must_use]
    pub fn released(&self) -> &Released {
        &self.at
    }

    /// Goes on from an estimate that was released before: what it holds is public, so this costs nothing.
    ///
    /// # Errors
    /// [`Refused::QueryShape`] for another dimension.
    pub fn resume(&mut self, from: &Released) -> Result<(), Refused> {
        self.check(&from.point)?;
        self.check(&from.gradient)?;
        self.at.clone_from(from);
        Ok(())
    }

    /// Releases a fresh estimate at `point`.
    ///
    /// # Errors
    /// [`Refused`]; the estimate stays what it was.
    pub fn anchor(
        &mut self,
        point: &[f64],
        over: Over<'_, M::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<&Released, Refused> {
        self.check(point)?;
        let ask = Ask::Field {
            point,
            clip: self.clip,
        };
        let Mean { mean, noise_std } = self.means.mean(&ask, over, noise_multiplier)?;
        self.at
            .move_to(point, mean, noise_std * noise_std, noise_std);
        Ok(&self.at)
    }

    /// Releases how the field changes from the last point to `point` and moves the estimate there. Where
    /// the change can only be zero nothing is released, and the last point stays the old one.
    ///
    /// # Errors
    /// [`Refused`]; the estimate stays what it was.
    pub fn vary(
        &mut self,
        point: &[f64],
        over: Over<'_, M::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<&Released, Refused> {
        self.vary_within(point, over, noise_multiplier, None)
    }

    /// As [`Recursion::vary`], with changes clipped to `fixed` where it is given, and noise to match, whatever the
    /// displacement.
    pub(super) fn vary_within(
        &mut self,
        point: &[f64],
        over: Over<'_, M::Slice>,
        noise_multiplier: NoiseMultiplier,
        fixed: Option<ClipNorm>,
    ) -> Result<&Released, Refused> {
        self.check(point)?;
        let step = Move::new(&self.at.point, point);
        let Some(mut ask) = step.ask(self.clip, self.smoothness) else {
            self.at.release_std = 0.0;
            return Ok(&self.at);
        };
        if let (Ask::Change { radius, .. }, Some(fixed)) = (&mut ask, fixed) {
            *radius = fixed;
        }
        let Mean {
            mut mean,
            noise_std,
        } = self.means.mean(&ask, over, noise_multiplier)?;
        for (change, estimate) in mean.iter_mut().zip(&self.at.gradient) {
            *change += estimate;
        }
        let variance = self.at.noise_variance + noise_std * noise_std;
        self.at.move_to(point, mean, variance, noise_std);
        Ok(&self.at)
    }

    pub(super) fn set_clip(&mut self, clip: ClipNorm) {
        self.clip = clip;
    }

    /// Nothing was released for the last estimate.
    pub(super) fn hold(&mut self) {
        self.at.release_std = 0.0;
    }

    /// Whether a variation to `point` would release nothing.
    pub(super) fn stays_at(&self, point: &[f64]) -> bool {
        let step = Move::new(&self.at.point, point);
        step.ask(self.clip, self.smoothness).is_none()
    }

    /// ||point - last point||.
    pub(super) fn length_to(&self, point: &[f64]) -> f64 {
        distance(point, &self.at.point)
    }

    fn check_shifted(&self, at: Shifted<'_>) -> Result<(), Refused> {
        self.check(at.point)?;
        if at.shift.is_empty() {
            return Ok(());
        }
        self.check(at.shift)
    }

    /// Checked before a record is read: whether a row reaches past the end of a short point
    /// depends on that row.
    pub(super) fn check(&self, point: &[f64]) -> Result<(), Refused> {
        let dim = self.means.dim();
        if point.len() == dim {
            Ok(())
        } else {
            Err(Refused::QueryShape { dim })
        }
    }
}

/// The records of an anchor, or of a variation.
fn over<'s, S>(access: Access, anchor: bool) -> Over<'s, S> {
    match access {
        Access::FullBatch => Over::Everything,
        Access::Poisson(rate) => Over::Poisson(rate),
        Access::FixedSize(size) => Over::FixedSize(size),
        Access::SinglePass {
            anchor: fresh,
            variation,
        } => Over::Next(if anchor { fresh } else { variation }),
    }
}

/// With the noise multipliers that the solver names, step by step.
impl<M: Means> Estimator for Recursion<M> {
    fn dim(&self) -> usize {
        self.means.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.means.reserve(spend)
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let over = over(self.access, true);
        Ok(self.anchor(point, over, noise_multiplier)?.estimate())
    }

    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let over = over(self.access, false);
        Ok(self.vary(point, over, noise_multiplier)?.estimate())
    }

    fn advance_with_momentum(
        &mut self,
        point: &[f64],
        momentum: Momentum,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let over = over(self.access, false);
        let released = self.vary_with_momentum(point, over, momentum, noise_multiplier)?;
        Ok(released.estimate())
    }

    fn set_clip(&mut self, clip: ClipNorm) -> bool {
        Recursion::set_clip(self, clip);
        true
    }

    fn offers_norms(&self) -> bool {
        true
    }

    fn norm(
        &mut self,
        at: Shifted<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        self.check_shifted(at)?;
        let ask = Ask::Field {
            point: at.point,
            clip: self.clip,
        };
        let over = over(self.access, true);
        self.means.mean_norm(&ask, at.shift, over, noise_multiplier)
    }

    fn least_norm(&mut self, among: &[Shifted<'_>], epsilon: Epsilon) -> Result<usize, Refused> {
        let mut asks = Vec::with_capacity(among.len());
        for at in among {
            self.check_shifted(*at)?;
            let ask = Ask::Field {
                point: at.point,
                clip: self.clip,
            };
            asks.push((ask, at.shift));
        }
        self.means.least_norm(&asks, epsilon)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.means.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.means.settle()
    }

    fn counts(&self) -> Counts {
        self.means.counts()
    }
}
