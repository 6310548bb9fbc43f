//! The least eigenvalue of the mean Hessian, from one noisy Hessian.

use dpopt_linalg::{norm, symmetric_spectrum};
use dpopt_oracle::query::{
    HessianMatrix, MAX_PRIVATE_HESSIAN_DIM, Subspace, SubspaceHessian, unpack_symmetric,
};
use dpopt_oracle::{PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{ClipNorm, Event, Mu, NoiseMultiplier, Spend, Which};
use dpopt_solver::PublicFacts;
use serde::Serialize;

use super::{Interval, PrivateCertificateError, Terms, equal, two_sided};
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
    /// Of the matrix: d, or k on a subspace.
    columns: usize,
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
        let plan = Self::of(Terms::new(facts, mu, clip, failure, resolution)?, facts.dim)?;
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
        Self::of(
            Terms::new(facts, mu, clip, failure, f64::INFINITY)?,
            facts.dim,
        )
    }

    /// A plan for the matrix on a subspace of `columns` dimensions, of which one end is read. An eigenvalue of the matrix is one of the
    /// subspace up to what [`Subspace::TOLERANCE`] allows: with V = Q P, Q orthonormal, ||P - I|| <= t = k times that, so that
    /// ||V^T H V - Q^T H Q|| <= (2 t + t^2) ||H||.
    pub(super) fn in_subspace(
        facts: &PublicFacts,
        mu: Mu,
        clip: ClipNorm,
        failure: f64,
        columns: usize,
    ) -> Result<Self, PrivateCertificateError> {
        check_columns(facts, columns)?;
        let terms = Terms::new(facts, mu, clip, failure, f64::INFINITY)?;
        let mut plan = Self::of(terms, columns)?;
        let products = 8.0 * facts.dim as f64 * columns as f64 * f64::EPSILON;
        let turned = (slack(columns) + products) * clip.get();
        plan.below += turned;
        plan.above += turned;
        Ok(plan)
    }

    fn of(terms: Terms, dim: usize) -> Result<Self, PrivateCertificateError> {
        let failure = terms.failure;
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
            columns: dim,
            terms,
        })
    }

    /// What Hessians are clipped to in Frobenius norm, and k.
    pub(super) fn planned(&self) -> (f64, usize) {
        (self.terms.radius.get(), self.columns)
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
        self.release_over(mean, (point, None), Which::All)
    }

    /// Refuses a subspace where none was planned for, one of another size, and none where one was.
    pub(super) fn check_subspace(
        &self,
        subspace: Option<&Subspace>,
    ) -> Result<(), PrivateCertificateError> {
        let dim = self.terms.facts.dim;
        let found = subspace.map_or(dim, Subspace::count);
        equal("columns of the Hessian", self.columns as u64, found as u64)?;
        let of = subspace.map_or(dim, Subspace::dim);
        equal("coordinates of a column", dim as u64, of as u64)
    }

    /// Of records that were checked to be as many as planned for, on all of R^d or on a subspace.
    pub(super) fn release_over<L: TwiceDifferentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        (point, subspace): (&[f64], Option<&Subspace>),
        over: Which<'_>,
    ) -> Result<PrivateLeastEigenvalue, PrivateCertificateError> {
        self.check_subspace(subspace)?;
        let (dim, radius) = (self.columns, self.terms.radius);
        let noise = self.noise_multiplier;
        let found = match subspace {
            None => mean.release(&HessianMatrix { point, radius }, over, noise)?,
            Some(subspace) => {
                let query = SubspaceHessian {
                    point,
                    subspace,
                    radius,
                };
                mean.release(&query, over, noise)?
            }
        };
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
            direction: match subspace {
                None => spectrum.least_direction,
                Some(subspace) => subspace.lift(&spectrum.least_direction),
            },
            noise_std: self.noise_std,
            interval: Interval {
                low: (released - self.below - rounding).clamp(-limit, limit),
                high: (released + self.above + rounding).clamp(-limit, limit),
                failure: self.terms.failure,
            },
        })
    }
}

/// How much longer than Q^T H Q, relative to H, V^T H V may be, and how far off.
pub(super) fn slack(columns: usize) -> f64 {
    let turned = columns as f64 * Subspace::TOLERANCE;
    turned * (2.0 + turned) * (1.0 + 1e-9)
}

/// Refuses subspaces of no dimension, and of more than there are.
pub(super) fn check_columns(
    facts: &PublicFacts,
    columns: usize,
) -> Result<(), PrivateCertificateError> {
    if columns == 0 || columns > facts.dim {
        let (name, value) = ("the number of columns", columns as f64);
        return Err(PrivateCertificateError::OutOfRange { name, value });
    }
    Ok(())
}
