//! A start away from the saddle of a factored loss: along the negative curvature of one private Hessian.

use std::num::NonZeroUsize;

use dpopt_linalg::{SpectrumError, least_eigenvectors};
use dpopt_oracle::query::{HessianMatrix, MAX_PRIVATE_HESSIAN_DIM, unpack_symmetric};
use dpopt_oracle::{AskError, Constants, Oracle};
use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{ClipNorm, Epsilon, Event, Mu, NoiseMultiplier, Spend, Which};
use dpopt_solver::{Budget, HessianFacts, PlanError, PublicFacts};
use serde::Serialize;

const NAME: &str = "curvature-start";

/// A plan for a factor U of r columns to start from, where U = 0 is stationary: the r directions of least curvature there, from one
/// private Hessian of the loss with **one** column.
///
/// # Formula
/// For f(U) = g(U U^T), U: (p, r), grad f(0) = 0 and hess F(0) = H_1 (x) I_r, with H_1 the Hessian of the loss with one column
/// at 0. So p (p + 1)/2 numbers say all that r p (r p + 1)/2 would, at 1/sqrt(r) of their Frobenius norm, and so of the noise. The
/// release is
///
/// H' = (1/n) sum clip_F(hess f_1(0; x_i), C_F) + W, with W symmetric of standard deviation s = (2 or 1) C_F z/n, z = 1/(mu sqrt(share)),
///
/// and the start is c V: V the r orthonormal eigenvectors of H' with the least eigenvalues, c public. To first order in the noise the value
/// falls by c^2/2 times minus the sum of their eigenvalues in H_1.
///
/// C_F is that of the loss **at 0** (`Loss::constants_at`), which has no term that grows with a ball.
///
/// # Privacy
/// One `Gaussian(z)` on all records: sqrt(share) mu-GDP. The eigenvectors, and the start, are post-processing of the matrix, which is
/// public after the release. What is run from there, of [`CurvatureStart::rest`], composes with it to mu-GDP: sum the squares. A guarantee
/// for both is that of a shared ledger, or of the two events. `docs/privacy/certificates.md` has the release.
///
/// # Example
/// `dpopt`'s example `metric_learning`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CurvatureStart {
    /// p.
    pub features: usize,
    /// r.
    pub columns: usize,
    /// c: the length of each column.
    pub length: f64,
    /// C_F.
    pub clip: ClipNorm,
    /// z.
    pub noise_multiplier: NoiseMultiplier,
    /// s.
    pub noise_std: f64,
    /// Budget of what is run from the start.
    pub rest: Budget,
}

/// A start could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CurvatureStartError {
    /// The oracle's dimension is not the plan's.
    #[error(
        "the start is for {plan} features, and the oracle of one column has dimension {oracle}"
    )]
    Dimension {
        /// Features of the plan.
        plan: usize,
        /// Dimension of the oracle.
        oracle: usize,
    },
    /// The oracle refused.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The eigenvalue iteration failed on the released matrix, which is public by then and paid for.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
}

/// A start, and what was released for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FoundStart {
    /// c V: (p, r), row-major.
    pub point: Vec<f64>,
    /// All eigenvalues of H', least first. Under noise alone they would lie between -s sqrt(2p) and s sqrt(2p), about.
    pub eigenvalues: Vec<f64>,
}

impl CurvatureStart {
    /// The part of mu^2 for the Hessian. A choice; on metric learning the results hardly depend on it from 0.1 to 0.5.
    pub const SHARE: f64 = 0.25;

    /// With `facts` of the loss of one column (d = p) and `constants` of it at 0.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for a C_F, a length or a share out of range, or more columns than features;
    /// [`PlanError::TooManyDimensions`].
    pub fn new(
        facts: &PublicFacts,
        constants: &Constants,
        columns: NonZeroUsize,
        length: f64,
        (budget, share): (&Budget, f64),
    ) -> Result<Self, PlanError> {
        let frobenius = HessianFacts::of(constants).frobenius;
        for (name, value) in [("hessian_frobenius", frobenius), ("length", length)] {
            PlanError::positive(name, value)?;
        }
        if !(share > 0.0 && share < 1.0) {
            let (name, value) = ("share", share);
            return Err(PlanError::BadFact { name, value });
        }
        let (dim, columns) = (facts.dim, columns.get());
        if dim > MAX_PRIVATE_HESSIAN_DIM {
            return Err(PlanError::TooManyDimensions {
                solver: NAME,
                dim,
                limit: MAX_PRIVATE_HESSIAN_DIM,
            });
        }
        if columns > dim {
            return Err(PlanError::BadFact {
                name: "columns beyond the number of features",
                value: columns as f64,
            });
        }
        let mu = budget.mu()?.get();
        let noise_multiplier = NoiseMultiplier::new(1.0 / (mu * share.sqrt()))?;
        let left = Mu::new(mu * (1.0 - share).sqrt())?;
        Ok(Self {
            features: dim,
            columns,
            length,
            clip: ClipNorm::new(frobenius)?,
            noise_multiplier,
            noise_std: facts.noise_std(frobenius, noise_multiplier.get()),
            rest: Budget {
                // Rounded down by as much as a search for mu rounds.
                epsilon: Epsilon::new(gdp::epsilon(left, budget.delta) * (1.0 - 1e-9))?,
                delta: budget.delta,
            },
        })
    }

    /// What the release costs.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::gaussian(self.noise_multiplier))
    }

    /// Reserves, releases the Hessian at 0 of a loss with one column, and takes the start from it.
    ///
    /// # Errors
    /// [`CurvatureStartError`]: of these only [`CurvatureStartError::Spectrum`] comes after the release.
    pub fn release(
        &self,
        of_one_column: &mut dyn Oracle,
    ) -> Result<FoundStart, CurvatureStartError> {
        let (plan, oracle) = (self.features, of_one_column.facts().dim);
        if oracle != plan {
            return Err(CurvatureStartError::Dimension { plan, oracle });
        }
        let origin = vec![0.0; plan];
        let of = HessianMatrix {
            point: &origin,
            radius: self.clip,
        };
        let reserved = of_one_column.books().reserve(&self.spend());
        reserved.map_err(AskError::from)?;
        let released = of_one_column.hessian(of, Which::All, self.noise_multiplier);
        of_one_column.books().settle().map_err(AskError::from)?;
        let matrix =
            unpack_symmetric(plan, &released?.mean).ok_or(AskError::Shape { dim: plan })?;
        let spectrum = least_eigenvectors(plan, &matrix, self.columns)?;
        let mut point = vec![0.0; plan * self.columns];
        for (j, vector) in spectrum.vectors.chunks_exact(plan).enumerate() {
            for (row, x) in point.chunks_exact_mut(self.columns).zip(vector) {
                row[j] = self.length * x;
            }
        }
        Ok(FoundStart {
            point,
            eigenvalues: spectrum.values,
        })
    }
}

#[cfg(test)]
mod tests;
