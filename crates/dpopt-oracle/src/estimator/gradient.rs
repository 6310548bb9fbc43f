//! The private mean gradient: fresh, or moved along by differences.

use std::num::NonZeroUsize;

use dpopt_linalg::distance;
use dpopt_privacy::{ClipNorm, Curator, Event, NoiseMultiplier, Refused, Spend};

use super::mean::Over;
use super::{Access, Counts, Estimate, Estimator, EstimatorError, Mean, PrivateMean};
use crate::data::PrivateData;
use crate::loss::{Differentiable, Glm, Segment};
use crate::query::{Gradient, GradientDifference, Query};

/// The estimator over private records.
///
/// # Formula
/// `refresh`: (1/m) (sum of clip(grad f(w; x), C) + noise), with m the public number of records
/// read. `advance`: the same for differences of clipped gradients, of radius
/// min(L1 ||w - w'||, 2C), added to the running estimate.
///
/// # Privacy
/// Each call is one event of the curator: a Gaussian release with the given noise multiplier, on
/// all records, on one Poisson sample, or on one fresh slice. Sensitivities are enforced, not
/// assumed; a wrong loss constant costs accuracy only. See `docs/privacy/estimator.md`.
pub struct PrivateGradient<'a, L: Differentiable = Glm> {
    mean: PrivateMean<'a, L>,
    clip: ClipNorm,
    smoothness: f64,
    access: Access,
    point: Vec<f64>,
    displacement: Vec<f64>,
    estimate: Vec<f64>,
    noise_variance: f64,
}

impl<'a, L: Differentiable> PrivateGradient<'a, L> {
    /// An estimator on all records, clipping to the loss's own Lipschitz constant (so that no
    /// gradient is shortened), on one thread.
    ///
    /// # Errors
    /// [`EstimatorError`]; a loss without a finite Lipschitz constant needs
    /// [`PrivateGradient::clipped`].
    pub fn new(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
    ) -> Result<Self, EstimatorError> {
        let clip = ClipNorm::new(loss.constants_on(data.records()).lipschitz)?;
        Self::clipped(data, loss, curator, clip)
    }

    /// An estimator on all records, clipping to `clip`, on one thread.
    ///
    /// # Errors
    /// [`EstimatorError`].
    pub fn clipped(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
        clip: ClipNorm,
    ) -> Result<Self, EstimatorError> {
        let smoothness = loss.constants_on(data.records()).smoothness;
        let mean = PrivateMean::new(data, loss, curator)?;
        let zero = vec![0.0; mean.dim()];
        Ok(Self {
            mean,
            clip,
            smoothness,
            access: Access::FullBatch,
            point: zero.clone(),
            displacement: zero.clone(),
            estimate: zero,
            noise_variance: 0.0,
        })
    }

    /// Clips per-record gradients to `clip` instead.
    #[must_use]
    pub fn with_clip(mut self, clip: ClipNorm) -> Self {
        self.clip = clip;
        self
    }

    /// Reads records as `access` says.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Uses up to `threads` threads; results do not depend on it. See [`PrivateMean::with_threads`].
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.mean = self.mean.with_threads(threads);
        self
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        self.mean.curator()
    }

    /// Releases the mean of `query`; nothing when it has no bound.
    fn release(
        &mut self,
        query: &impl Query<L>,
        anchor: bool,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Option<Mean>, Refused> {
        match self.access {
            Access::FullBatch => self
                .mean
                .release(query, &Over::Everything, noise_multiplier),
            Access::Poisson(rate) => {
                self.mean
                    .release(query, &Over::Poisson(rate), noise_multiplier)
            }
            Access::FixedSize(size) => {
                self.mean
                    .release(query, &Over::FixedSize(size), noise_multiplier)
            }
            Access::SinglePass {
                anchor: fresh,
                variation,
            } => {
                // Equal points cost no records either.
                if query.bound(self.mean.loss())?.is_none() {
                    return Ok(None);
                }
                self.open_pool()?;
                let slice = self
                    .mean
                    .take_slice(if anchor { fresh } else { variation })?;
                self.mean
                    .release(query, &Over::Slice(&slice), noise_multiplier)
            }
        }
    }

    /// Opens the pool, unless the caller has (to skip records that were read before).
    fn open_pool(&mut self) -> Result<(), Refused> {
        let curator = self.mean.curator();
        if curator.records_left() == 0 && curator.records_taken() == 0 {
            let records = self.mean.data().public_records();
            self.mean.curator_mut().open_pool(records, 0)?;
        }
        Ok(())
    }

    /// Checked before a record is read: whether a row reaches past the end of a short point
    /// depends on that row.
    fn check(&self, point: &[f64]) {
        assert!(
            point.len() == self.mean.dim(),
            "a point of {} coordinates where the loss has {}",
            point.len(),
            self.mean.dim()
        );
    }

    fn current(&self, release_std: f64) -> Estimate<'_> {
        Estimate {
            gradient: &self.estimate,
            noise_std: self.noise_variance.sqrt(),
            release_std,
        }
    }

    /// The released change of the gradient from `from` to `point`.
    fn change(
        &mut self,
        from: &[f64],
        point: &[f64],
        displacement: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Option<Mean>, Refused> {
        let Some(segment) = Segment::new(from, point, displacement) else {
            return Ok(None);
        };
        let length = distance(point, from);
        let reach = self.smoothness * length * (1.0 + 1e-12);
        let query = GradientDifference {
            segment,
            // A displacement of zero has no radius; one that is not finite gets 2C, and so does
            // any along which the gradient may jump.
            radius: ClipNorm::new(if length == 0.0 {
                0.0
            } else {
                reach.min(2.0 * self.clip.get())
            })
            .ok(),
            clip: self.clip,
        };
        self.release(&query, false, noise_multiplier)
    }
}

impl<L: Differentiable> Estimator for PrivateGradient<'_, L> {
    fn dim(&self) -> usize {
        self.mean.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.mean.curator_mut().reserve(spend)
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        self.check(point);
        let query = Gradient {
            point,
            clip: self.clip,
        };
        // A gradient query always has a bound; an absent one would mean a zero gradient.
        let released = self.release(&query, true, noise_multiplier)?;
        let (mean, std) = match released {
            Some(Mean { mean, noise_std }) => (mean, noise_std),
            None => (vec![0.0; point.len()], 0.0),
        };
        self.point.copy_from_slice(point);
        self.estimate = mean;
        self.noise_variance = std * std;
        Ok(self.current(std))
    }

    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        self.check(point);
        let from = std::mem::take(&mut self.point);
        let mut displacement = std::mem::take(&mut self.displacement);
        for ((d, new), old) in displacement.iter_mut().zip(point).zip(&from) {
            *d = new - old;
        }
        let released = self.change(&from, point, &displacement, noise_multiplier);
        self.displacement = displacement;
        self.point = from;
        let Some(Mean { mean, noise_std }) = released? else {
            return Ok(self.current(0.0));
        };
        self.point.copy_from_slice(point);
        for (estimate, change) in self.estimate.iter_mut().zip(&mean) {
            *estimate += change;
        }
        self.noise_variance += noise_std * noise_std;
        Ok(self.current(noise_std))
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.mean.curator_mut().draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.mean.curator_mut().settle()
    }

    fn counts(&self) -> Counts {
        self.mean.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_linalg::Design;
    use dpopt_privacy::Adjacency;

    /// Two neighbours: in one of them a row reaches past the end of a short point.
    fn panics(column: u32) -> bool {
        let mut design = Design::sparse(3).unwrap();
        design.push_row(&[(column, 1.0)]).unwrap();
        let data = PrivateData::new(
            design,
            vec![1.0],
            ClipNorm::new(1.0).unwrap(),
            Adjacency::ReplaceOne,
            None,
        )
        .unwrap();
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator).unwrap();
        let multiplier = NoiseMultiplier::new(1.0).unwrap();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // Not reserved, so nothing is released; but the records were read.
            let _ = estimator.refresh(&[0.0, 0.0], multiplier);
        }))
        .is_err()
    }

    #[test]
    fn whether_a_wrong_point_panics_does_not_depend_on_a_record() {
        assert_eq!(panics(0), panics(2));
    }
}
