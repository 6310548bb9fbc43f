//! An estimator that keeps what it releases, for scores.

use dpopt_oracle::{Counts, Estimate, Estimator, Momentum, Number, Shifted};
use dpopt_privacy::{ClipNorm, Epsilon, Event, NoiseMultiplier, Refused, Spend};

/// One release as anybody can see it.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedRelease {
    /// Where the estimate stood before; none for an anchor.
    pub from: Option<Vec<f64>>,
    /// The point that was asked for.
    pub point: Vec<f64>,
    /// What a step of recursive momentum left of the estimate before, 1 - a; 1 for other releases.
    pub kept: f64,
    /// The released mean: an anchor's estimate, a variation's change of it, that beyond what a step of momentum left; or the
    /// one number of a released norm.
    pub released: Vec<f64>,
    /// Standard deviation of its noise in each coordinate.
    pub deviation: f64,
}

/// An estimator with a list of its releases.
pub struct Watched<E> {
    inner: E,
    releases: Vec<WatchedRelease>,
    point: Vec<f64>,
    estimate: Vec<f64>,
}

impl<E: Estimator> Watched<E> {
    /// Watches `inner`.
    pub fn new(inner: E) -> Self {
        let zero = vec![0.0; inner.dim()];
        Self {
            inner,
            releases: Vec::new(),
            point: zero.clone(),
            estimate: zero,
        }
    }

    /// The estimator below.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    /// What was released, in order.
    pub fn releases(&self) -> &[WatchedRelease] {
        &self.releases
    }
}

impl<E: Estimator> Estimator for Watched<E> {
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
        self.releases.push(WatchedRelease {
            from: None,
            point: point.to_vec(),
            kept: 0.0,
            released: estimate.gradient.to_vec(),
            deviation: estimate.release_std,
        });
        self.point = point.to_vec();
        self.estimate = estimate.gradient.to_vec();
        Ok(estimate)
    }

    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let estimate = self.inner.advance(point, noise_multiplier)?;
        // Nothing is released where the point has not moved.
        if estimate.release_std > 0.0 {
            let change = estimate.gradient.iter().zip(&self.estimate);
            self.releases.push(WatchedRelease {
                from: Some(std::mem::replace(&mut self.point, point.to_vec())),
                point: point.to_vec(),
                kept: 1.0,
                released: change.map(|(new, old)| new - old).collect(),
                deviation: estimate.release_std,
            });
            self.estimate = estimate.gradient.to_vec();
        }
        Ok(estimate)
    }

    fn set_clip(&mut self, clip: ClipNorm) -> bool {
        self.inner.set_clip(clip)
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
        let kept = momentum.kept();
        let pairs = estimate.gradient.iter().zip(&self.estimate);
        self.releases.push(WatchedRelease {
            from: Some(std::mem::replace(&mut self.point, point.to_vec())),
            point: point.to_vec(),
            kept,
            released: pairs.map(|(new, old)| new - kept * old).collect(),
            deviation: estimate.release_std,
        });
        self.estimate = estimate.gradient.to_vec();
        Ok(estimate)
    }

    fn offers_norms(&self) -> bool {
        self.inner.offers_norms()
    }

    fn norm(
        &mut self,
        at: Shifted<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        let norm = self.inner.norm(at, noise_multiplier)?;
        self.releases.push(WatchedRelease {
            from: None,
            point: at.point.to_vec(),
            kept: 1.0,
            released: vec![norm.number],
            deviation: norm.noise_std,
        });
        Ok(norm)
    }

    fn least_norm(&mut self, among: &[Shifted<'_>], epsilon: Epsilon) -> Result<usize, Refused> {
        self.inner.least_norm(among, epsilon)
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
