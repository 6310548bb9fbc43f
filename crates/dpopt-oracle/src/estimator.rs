//! The private estimator: the mean of a per-record query, released with noise.

use std::num::NonZeroUsize;

use dpopt_linalg::distance;
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Refused, SamplingRate, Spend, Touched,
    UnitError,
};
use serde::Serialize;

use crate::data::PrivateData;
use crate::loss::Glm;
use crate::pass::{Positions, clipped_pass};
use crate::query::{Gradient, GradientDifference, RowQuery};

/// An estimator could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EstimatorError {
    /// The curator and the data disagree about the neighbouring relation.
    #[error("the curator works under {curator} adjacency, the data under {data}")]
    AdjacencyMismatch {
        /// Adjacency of the curator.
        curator: Adjacency,
        /// Adjacency of the data.
        data: Adjacency,
    },
    /// A derived constant is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

/// Which records a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Access {
    /// All of them.
    FullBatch,
    /// A fresh Poisson sample for each query; the mean divides by rate x public size.
    Poisson(SamplingRate),
}

/// Nominal oracle counts: computed from public sizes and rates. What a Poisson sample really held
/// is secret.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Noisy releases.
    pub releases: u64,
    /// Per-record gradients, two for each record of a difference query.
    pub gradients: f64,
    /// Per-record gradients over the public number of records.
    pub passes: f64,
}

/// A released estimate of the mean gradient.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Estimate<'a> {
    /// The estimate, one number per coordinate.
    pub gradient: &'a [f64],
    /// Standard deviation, per coordinate, of all the noise that this estimate carries: that of
    /// the anchor and of every difference added since.
    pub noise_std: f64,
    /// Standard deviation per coordinate of the last release alone; 0 when nothing was released.
    pub release_std: f64,
}

impl<'a> Estimate<'a> {
    /// What an implementation of [`Estimator`] returns: the estimate, the standard deviation per
    /// coordinate of all its noise, and that of the last release alone.
    #[must_use]
    pub fn new(gradient: &'a [f64], noise_std: f64, release_std: f64) -> Self {
        Self {
            gradient,
            noise_std,
            release_std,
        }
    }
}

/// What a solver may ask: the private mean gradient at public points.
///
/// The trait is dyn-safe. An implementation draws, clips and charges; a solver does none of it.
///
/// # Panics
/// `refresh` and `advance` panic, before any record is read, when the point does not have
/// [`Estimator::dim`] coordinates.
pub trait Estimator {
    /// Dimension of points and estimates.
    fn dim(&self) -> usize;

    /// Sets aside what the run will spend. Called once, before the first release.
    ///
    /// # Errors
    /// [`Refused`] when the budget can't pay.
    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused>;

    /// A fresh estimate at `point` (an anchor).
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then.
    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused>;

    /// Moves the estimate from the last point to `point` by adding a released difference (a
    /// variation). A point equal to the last one releases nothing and costs nothing. Without a
    /// preceding [`Estimator::refresh`] the estimate starts at zero at the origin.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then.
    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused>;

    /// A number below `bound`, uniform and independent of the data.
    fn draw_index(&mut self, bound: u64) -> u64;

    /// Ends the run and says what was spent.
    ///
    /// # Errors
    /// [`Refused`] when a shared budget can't be written; the reservation then stands.
    fn settle(&mut self) -> Result<Event, Refused>;

    /// Nominal counts so far.
    fn counts(&self) -> Counts;
}

/// The estimator over private records.
///
/// # Formula
/// `refresh`: (1/m) (sum of clip(grad f(w; x), C) + noise), with m the public number of records
/// (times the rate, for a Poisson sample). `advance`: the same for clipped differences of radius
/// min(L1 ||w - w'||, 2C), added to the running estimate.
///
/// # Privacy
/// Each call is one event of the curator: a Gaussian release with the given noise multiplier, on
/// all records or on one Poisson sample. Sensitivities are enforced, not assumed; a wrong loss
/// constant costs accuracy only. See `docs/privacy/estimator.md`.
pub struct PrivateGradient<'a> {
    data: &'a PrivateData,
    loss: Glm,
    clip: ClipNorm,
    smoothness: f64,
    access: Access,
    threads: NonZeroUsize,
    curator: Curator,
    point: Vec<f64>,
    displacement: Vec<f64>,
    estimate: Vec<f64>,
    noise_variance: f64,
    counts: Counts,
}

impl<'a> PrivateGradient<'a> {
    /// An estimator on all records, clipping to the loss's own Lipschitz constant (so that no
    /// gradient is shortened), on one thread.
    ///
    /// # Errors
    /// [`EstimatorError`].
    pub fn new(data: &'a PrivateData, loss: Glm, curator: Curator) -> Result<Self, EstimatorError> {
        if curator.adjacency() != data.adjacency() {
            return Err(EstimatorError::AdjacencyMismatch {
                curator: curator.adjacency(),
                data: data.adjacency(),
            });
        }
        let constants = loss.constants(data.row_norm());
        Ok(Self {
            data,
            loss,
            clip: ClipNorm::new(constants.lipschitz)?,
            smoothness: constants.smoothness,
            access: Access::FullBatch,
            threads: NonZeroUsize::MIN,
            curator,
            point: vec![0.0; data.dim()],
            displacement: vec![0.0; data.dim()],
            estimate: vec![0.0; data.dim()],
            noise_variance: 0.0,
            counts: Counts::default(),
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

    /// Uses up to `threads` threads; results do not depend on it.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        &self.curator
    }

    /// Releases the mean of `query`; nothing when it has no bound.
    fn release(
        &mut self,
        query: &impl RowQuery,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Option<(Vec<f64>, f64)>, Refused> {
        let Some(bound) = query.bound()? else {
            return Ok(None);
        };
        let public = self.data.public_records() as f64;
        let (sum, touched, denominator) = match self.access {
            Access::FullBatch => (
                clipped_pass(
                    self.data,
                    query,
                    bound,
                    Positions::All,
                    public,
                    self.threads,
                )?,
                Touched::All,
                public,
            ),
            Access::Poisson(rate) => {
                let sample = self.curator.poisson_sample(rate, self.data.rows())?;
                let positions = Positions::Some(sample.secret_positions());
                let expected = public * rate.get();
                (
                    clipped_pass(self.data, query, bound, positions, expected, self.threads)?,
                    Touched::Poisson(sample),
                    expected,
                )
            }
        };
        let sealed = sum.finish(self.data.adjacency(), touched);
        let mut released = self.curator.release(&sealed, noise_multiplier)?;
        for x in &mut released {
            *x /= denominator;
        }
        self.counts.releases += 1;
        self.counts.gradients += denominator * query.gradients_per_record() as f64;
        self.counts.passes = self.counts.gradients / public;
        let sensitivity = bound.radius() * self.data.adjacency().sum_sensitivity();
        Ok(Some((
            released,
            noise_multiplier.get() * sensitivity / denominator,
        )))
    }

    /// Checked before a record is read: whether a row reaches past the end of a short point
    /// depends on that row.
    fn check(&self, point: &[f64]) {
        assert!(
            point.len() == self.data.dim(),
            "a point of {} coordinates where the data have {}",
            point.len(),
            self.data.dim()
        );
    }

    fn current(&self, release_std: f64) -> Estimate<'_> {
        Estimate {
            gradient: &self.estimate,
            noise_std: self.noise_variance.sqrt(),
            release_std,
        }
    }
}

impl Estimator for PrivateGradient<'_> {
    fn dim(&self) -> usize {
        self.data.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.curator.reserve(spend)
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        self.check(point);
        let query = Gradient {
            loss: self.loss,
            point,
            clip: self.clip,
        };
        // A gradient query always has a bound; an absent one would mean a zero gradient.
        let (released, std) = self
            .release(&query, noise_multiplier)?
            .unwrap_or_else(|| (vec![0.0; point.len()], 0.0));
        self.point.copy_from_slice(point);
        self.estimate = released;
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
        let reach = self.smoothness * distance(point, &from) * (1.0 + 1e-12);
        let query = GradientDifference {
            loss: self.loss,
            from: &from,
            displacement: &displacement,
            // A displacement of zero has no radius; one that is not finite gets 2C.
            radius: ClipNorm::new(reach.min(2.0 * self.clip.get())).ok(),
            clip: self.clip,
        };
        let released = self.release(&query, noise_multiplier);
        self.displacement = displacement;
        let std = match released {
            Ok(Some((difference, std))) => {
                self.point = from;
                self.point.copy_from_slice(point);
                for (estimate, change) in self.estimate.iter_mut().zip(&difference) {
                    *estimate += change;
                }
                self.noise_variance += std * std;
                std
            }
            Ok(None) => {
                self.point = from;
                0.0
            }
            Err(refused) => {
                self.point = from;
                return Err(refused);
            }
        };
        Ok(self.current(std))
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.curator.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.curator.settle()
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_linalg::Design;

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
