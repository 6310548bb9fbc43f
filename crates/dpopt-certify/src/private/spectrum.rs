//! The least eigenvalue of the mean Hessian, from one noisy Hessian.

use dpopt_linalg::{norm, symmetric_spectrum};
use dpopt_oracle::query::{HessianMatrix, MAX_PRIVATE_HESSIAN_DIM, unpack_symmetric};
use dpopt_oracle::{PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{ClipNorm, Event, Mu, NoiseMultiplier, Spend, Which};
use dpopt_solver::PublicFacts;
use serde::Serialize;

use super::{Interval, PrivateCertificateError, Terms, two_sided};
use crate::CertificateError;

/// A plan to release the mean Hessian once, with symmetric Gaussian noise, and to state where its
/// least eigenvalue lies.
///
/// # Formula
/// H' = (1/n) sum clip_F(hess f(w; x_i), C) + W, W symmetric with independent entries of standard
/// deviation s on the diagonal and s/sqrt 2 beside it, s = (2 or 1) C z/n, z = 1/mu. With probability 1 - p,
/// q the two-sided normal quantile at p,
///
/// lambda' - q s <= lambda <= lambda' + s (sqrt(2d) + sqrt(2 ln(2/p))).
///
/// Lower end: for v the eigenvector of H, which the noise does not know, lambda' <= <v, H' v> = lambda + s Z. So
/// **the end that certifies a minimum costs no power of d**. Upper end: lambda' >= lambda - ||W||, E ||W||-one-sided <=
/// s sqrt(2d) by comparison with sqrt 2 s <g, v> (Sudakov and Fernique), and 1-Lipschitz concentration.
/// Each end fails with probability at most p/2.
///
/// The norm is Frobenius': for a generalised linear loss C = L1 leaves Hessians whole (they have
/// rank one); for others sqrt(d) L1 does.
///
/// # Privacy
/// One `Gaussian(z)` on all records: mu-GDP. What is done with H' is post-processing: the whole
/// matrix is public after the release. `docs/privacy/certificates.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeastEigenvaluePlan {
    /// z.
    pub noise_multiplier: NoiseMultiplier,
    /// s.
    pub noise_std: f64,
    /// How far the lower end is below what was released.
    pub below: f64,
    /// How far the upper end is above it.
    pub above: f64,
    terms: Terms,
}

/// A released least eigenvalue.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PrivateLeastEigenvalue {
    /// lambda', the least eigenvalue of the released matrix: low by about s sqrt(2d) where the true
    /// spectrum is flat.
    pub released: f64,
    /// Its unit eigenvector.
    pub direction: Vec<f64>,
    /// s.
    pub noise_std: f64,
    /// Where the least eigenvalue of the mean clipped Hessian lies.
    pub interval: Interval,
}

impl LeastEigenvaluePlan {
    /// A plan that spends `mu` and clips Hessians to `clip` in Frobenius norm.
    ///
    /// # Errors
    /// [`PrivateCertificateError::Vacuous`] unless the interval is narrower than `resolution` and
    /// than 2 C; [`PrivateCertificateError::TooManyDimensions`].
    pub fn new(
        facts: &PublicFacts,
        mu: Mu,
        clip: ClipNorm,
        failure: f64,
        resolution: f64,
    ) -> Result<Self, PrivateCertificateError> {
        let plan = Self::of(Terms::new(facts, mu, clip, failure, resolution)?)?;
        let (width, range) = (plan.below + plan.above, 2.0 * clip.get());
        plan.terms
            .check_width("the least eigenvalue", width, range)?;
        Ok(plan)
    }

    /// A plan of which one end is read.
    pub(super) fn at_any_width(
        facts: &PublicFacts,
        mu: Mu,
        clip: ClipNorm,
        failure: f64,
    ) -> Result<Self, PrivateCertificateError> {
        Self::of(Terms::new(facts, mu, clip, failure, f64::INFINITY)?)
    }

    fn of(terms: Terms) -> Result<Self, PrivateCertificateError> {
        let (failure, dim) = (terms.failure, terms.facts.dim);
        if dim > MAX_PRIVATE_HESSIAN_DIM {
            return Err(PrivateCertificateError::TooManyDimensions {
                dim,
                limit: MAX_PRIVATE_HESSIAN_DIM,
            });
        }
        let noise_multiplier = terms.noise_multiplier()?;
        let noise_std = terms.noise_std(noise_multiplier);
        // The eigenvalues of what is released have at most this size, and so much rounding.
        let size = terms.radius.get() + noise_std * 4.0 * dim as f64;
        let rounding = terms.rounding(dim * (dim + 1) / 2)
            + 4.0 * dim as f64 * f64::EPSILON * (dim as f64).sqrt() * size;
        let below = two_sided(failure) * noise_std + rounding;
        let operator = (2.0 * dim as f64).sqrt() + (2.0 * (2.0 / failure).ln()).sqrt();
        let above = operator * noise_std + rounding;
        Ok(Self {
            noise_multiplier,
            noise_std,
            below,
            above,
            terms,
        })
    }

    /// C, the clip radius of Hessians in Frobenius norm.
    pub(super) fn clip(&self) -> f64 {
        self.terms.radius.get()
    }

    /// Its cost.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::gaussian(self.noise_multiplier))
    }

    /// Releases the Hessian at `point` and takes its spectrum.
    ///
    /// # Errors
    /// [`PrivateCertificateError`]. Only an eigenvalue iteration that does not converge, on a
    /// matrix that is public by then, comes after the release.
    pub fn release<L: TwiceDifferentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        point: &[f64],
    ) -> Result<PrivateLeastEigenvalue, PrivateCertificateError> {
        self.terms.check_data(mean, point)?;
        let (dim, radius) = (self.terms.facts.dim, self.terms.radius);
        let query = HessianMatrix { point, radius };
        let found = mean.release(&query, Which::All, self.noise_multiplier)?;
        let packed = found.map_or_else(Vec::new, |m| m.mean);
        let matrix = unpack_symmetric(dim, &packed)
            .ok_or(CertificateError::NotFinite("released Hessian"))?;
        let spectrum = symmetric_spectrum(dim, &matrix).map_err(CertificateError::from)?;
        let released = spectrum.eigenvalues[0];
        // In the unlikely case that the noise is larger than planned for, rounding is too.
        let rounding = 4.0 * dim as f64 * f64::EPSILON * norm(&matrix);
        let limit = self.terms.largest();
        Ok(PrivateLeastEigenvalue {
            released,
            direction: spectrum.least_direction,
            noise_std: self.noise_std,
            interval: Interval {
                low: (released - self.below - rounding).clamp(-limit, limit),
                high: (released + self.above + rounding).clamp(-limit, limit),
                failure: self.terms.failure,
            },
        })
    }
}
