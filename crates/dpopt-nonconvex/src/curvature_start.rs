//! A start away from the saddle of a factored loss: along the negative curvature of one private Hessian.

use std::num::NonZeroUsize;

use dpopt_linalg::{SpectrumError, least_eigenvectors};
use dpopt_oracle::query::{HessianMatrix, MAX_PRIVATE_HESSIAN_DIM, unpack_symmetric};
use dpopt_oracle::{AskError, Constants, Oracle};
use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{ClipNorm, Epsilon, Event, Mu, NoiseMultiplier, Refused, Spend, Which};
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
/// and the start is c V: V the r orthonormal eigenvectors v of H' with the least eigenvalues, c public. To second order in c the value
/// changes by c^2/2 times the sum of v^T H_1 v.
///
/// C_F is that of the loss **at 0** (`Loss::constants_at`), which has no term that grows with a ball.
///
/// # Privacy
/// One `Gaussian(z)` on all records: sqrt(share) mu-GDP. The eigenvectors, and the start, are post-processing of the matrix, which is
/// public after the release. A run that is `rest_mu`-GDP whatever the start, as those are whose releases are Gaussian on all records and
/// planned within [`CurvatureStart::rest_mu`], composes with it to mu-GDP: sum the squares. `rest_mu` is fixed before the release, so that the
/// run may be planned from the start. A sampled run that is given [`CurvatureStart::rest`] as (epsilon, delta) is **not** `rest_mu`-GDP, and nothing here
/// proves the budget for both. A guarantee for both is that of a shared ledger with a filter, or of the two events where the second was
/// fixed before the first was released. `docs/privacy/certificates.md` has the release.
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
    /// What is left of mu for the run: the squares of the two add up to that of the budget.
    pub rest_mu: Mu,
    /// The same as (epsilon, delta), for the planner of a run that is Gaussian on all records: see the section on privacy.
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
    #[error("the Hessian was released and is paid for, and {0}")]
    Spectrum(#[from] SpectrumError),
    /// What was released, and is paid for, is not a packed symmetric matrix: the oracle's author's mistake.
    #[error(
        "what the oracle released, and was paid for, is not a packed symmetric matrix of order {dim}"
    )]
    Released {
        /// The order.
        dim: usize,
    },
    /// The start was released and is paid for, and the end of the reservation could not be written: all of it stays charged.
    #[error(
        "the start was released and is paid for, but its reservation could not be settled, and stands: {source}"
    )]
    Unsettled {
        /// The start, which may be used.
        start: Box<FoundStart>,
        /// Why.
        source: Refused,
    },
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
    /// The part of mu^2 for the Hessian. A choice, not a measured one.
    pub const SHARE: f64 = 0.25;

    /// With `facts` of the loss of one column (d = p) and `constants` of it at 0.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for records, features, a C_F, a length, a share or noise out of range, or more columns than features;
    /// [`PlanError::TooManyDimensions`].
    pub fn new(
        facts: &PublicFacts,
        constants: &Constants,
        columns: NonZeroUsize,
        length: f64,
        (budget, share): (&Budget, f64),
    ) -> Result<Self, PlanError> {
        let frobenius = HessianFacts::of(constants).frobenius;
        for (name, value) in [
            ("records", facts.records as f64),
            ("dim", facts.dim as f64),
            ("hessian_frobenius", frobenius),
            ("length", length),
        ] {
            PlanError::positive(name, value)?;
        }
        PlanError::fraction("share", share)?;
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
        let rest_mu = Mu::new(mu * (1.0 - share).sqrt())?;
        let noise_std = facts.noise_std(frobenius, noise_multiplier.get());
        PlanError::positive("noise_std", noise_std)?;
        Ok(Self {
            features: dim,
            columns,
            length,
            clip: ClipNorm::new(frobenius)?,
            noise_multiplier,
            noise_std,
            rest_mu,
            rest: Budget {
                // Rounded down by as much as a search for mu rounds.
                epsilon: Epsilon::new(gdp::epsilon(rest_mu, budget.delta) * (1.0 - 1e-9))?,
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
    /// [`CurvatureStartError::Dimension`] and [`CurvatureStartError::Ask`] come before a release, and nothing is charged unless the
    /// refused question's reservation can't be settled either. The others come after it: it is paid for, and not to be repeated for free.
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
        let settled = of_one_column.books().settle();
        let matrix = unpack_symmetric(plan, &released?.mean)
            .ok_or(CurvatureStartError::Released { dim: plan })?;
        let spectrum = least_eigenvectors(plan, &matrix, self.columns)?;
        let mut point = vec![0.0; plan * self.columns];
        for (j, vector) in spectrum.vectors.chunks_exact(plan).enumerate() {
            for (row, x) in point.chunks_exact_mut(self.columns).zip(vector) {
                row[j] = self.length * x;
            }
        }
        let start = FoundStart {
            point,
            eigenvalues: spectrum.values,
        };
        match settled {
            Ok(_) => Ok(start),
            Err(source) => Err(CurvatureStartError::Unsettled {
                start: Box::new(start),
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
