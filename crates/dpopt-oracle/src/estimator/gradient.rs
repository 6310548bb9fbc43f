//! The running estimate of the mean gradient over private records.

use std::num::NonZeroUsize;

use dpopt_privacy::{ClipNorm, Curator};

use super::{EstimatorError, PrivateMean, Recursion};
use crate::data::PrivateData;
use crate::loss::{Differentiable, Glm};

/// The running estimate over private records.
///
/// # Formula
/// `refresh`: (1/m) (sum of clip(grad f(w; x), C) + noise), with m the public number of records
/// read. `advance`: the same for differences of clipped gradients, of radius
/// min(L1 ||w - w'||, 2C), added to the running estimate.
///
/// # Privacy
/// Each call is one event of the curator: a Gaussian release with the given noise multiplier, on
/// all records, on one sample, or on one fresh slice. Sensitivities are enforced, not
/// assumed; a wrong loss constant costs accuracy only. See `docs/privacy/estimator.md`.
pub type PrivateGradient<'a, L = Glm> = Recursion<PrivateMean<'a, L>>;

impl<'a, L: Differentiable> Recursion<PrivateMean<'a, L>> {
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
        Ok(Self::over(PrivateMean::new(data, loss, curator)?, clip))
    }

    /// Uses up to `threads` threads; results do not depend on it. See [`PrivateMean::with_threads`].
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        self.map_means(|means| means.with_threads(threads))
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        self.means().curator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimator as _;
    use dpopt_linalg::Design;
    use dpopt_privacy::{Adjacency, NoiseMultiplier, Refused};

    /// Two neighbours: in one of them a row reaches past the end of a short point.
    fn refused(column: u32) -> Refused {
        let mut design = Design::sparse(3).unwrap();
        design.push_row(&[(column, 1.0)]).unwrap();
        let data = PrivateData::made_up(
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
        estimator.refresh(&[0.0, 0.0], multiplier).unwrap_err()
    }

    #[test]
    fn a_wrong_point_is_refused_whatever_the_records_are() {
        for column in [0, 2] {
            assert!(matches!(refused(column), Refused::QueryShape { dim: 3 }));
        }
    }
}
