//! The lower bound for KL functions with kappa = 2: tilted squares.

use dpopt_linalg::norm;
use dpopt_oracle::{Constants, Convexity, Differentiable, Loss};

use super::over_mean::{AffineLoss, OverMean};
use crate::problem::{ProblemConstants, ProblemError, SecondOrderProblem, positive};

/// Tilted squares: the KL lower bound for kappa = 2.
///
/// # Formula
/// f(w; x) = <w, x> + lambda H(w) with H(w) = ||w||^2 for ||w|| <= 4D and 8D ||w|| - 16 D^2 beyond (the
/// printed 4D ||w|| is not convex). Records have ||x|| <= 2 lambda D.
///
/// # Constants
/// - grad H = 2w, cut to length 8D: f is L0 = 2 lambda D + 8 lambda D = 10 lambda D Lipschitz and L1 =
///   2 lambda smooth, and convex.
/// - F over records of mean m: the minimiser is -m/(2 lambda), of norm at most D, F - F* = lambda
///   ||w - w*||^2 for ||w|| <= 4D, and F0 = ||m||^2/(4 lambda) <= lambda D^2.
/// - KL with kappa = 2 and gamma = 1/(2 sqrt lambda) on ||w|| <= 4D, tight everywhere there.
///
/// Every (epsilon, delta)-DP solver has a mean excess of Omega(d L0^2/(lambda n^2 epsilon^2)), up to logarithms, for
/// records with a fingerprint.
///
/// Source: arXiv 2311.13447, Theorem 7, as corrected by E-21 in `docs/theory/kl-condition.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TiltedSquare {
    dim: usize,
    lambda: f64,
    radius: f64,
}

impl TiltedSquare {
    /// Dimension, lambda and D.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(dim: usize, lambda: f64, radius: f64) -> Result<Self, ProblemError> {
        positive("lambda", lambda)?;
        positive("radius", radius)?;
        Ok(Self {
            dim,
            lambda,
            radius,
        })
    }

    /// 2 lambda D: how long records may be.
    #[must_use]
    pub fn record_radius(&self) -> f64 {
        2.0 * self.lambda * self.radius
    }

    /// The mean loss over records of mean `mean`, as a problem.
    #[must_use]
    pub fn over(self, mean: Vec<f64>) -> OverMean<Self> {
        OverMean::new(self, mean)
    }
}

impl Loss for TiltedSquare {
    type Records = Vec<Vec<f64>>;
    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Vec<Vec<f64>>) -> usize {
        self.dim
    }

    fn constants_on(&self, _: &Vec<Vec<f64>>) -> Constants {
        let (lambda, d) = (self.lambda, self.radius);
        Constants::new(
            10.0 * lambda * d,
            2.0 * lambda,
            lambda * d * d,
            Convexity::Convex,
        )
    }

    fn value(&self, record: &Vec<f64>, point: &[f64]) -> f64 {
        let (r, d) = (norm(point), self.radius);
        let hull = if r <= 4.0 * d {
            r * r
        } else {
            8.0 * d * r - 16.0 * d * d
        };
        dpopt_linalg::dot(record, point) + self.lambda * hull
    }
}

impl Differentiable for TiltedSquare {
    fn gradient(&self, record: &Vec<f64>, point: &[f64], out: &mut [f64]) {
        let (r, d) = (norm(point), self.radius);
        let factor = if r <= 4.0 * d { 2.0 } else { 8.0 * d / r };
        dpopt_linalg::add_scaled(out, 1.0, record);
        dpopt_linalg::add_scaled(out, self.lambda * factor, point);
    }
}

/// L0 and L1 are those of the loss, F0 is exact, in ||w|| <= 4D.
impl AffineLoss for TiltedSquare {
    fn constants_over(&self, mean: &[f64]) -> ProblemConstants {
        let (lambda, d) = (self.lambda, self.radius);
        let gap = dpopt_linalg::dot(mean, mean) / (4.0 * lambda);
        ProblemConstants::first_order(10.0 * lambda * d, 2.0 * lambda, gap)
            .with_hessian_lipschitz(0.0)
            .with_weak_convexity(0.0)
            .with_kl(0.5 / lambda.sqrt(), 2.0)
            .within(Vec::new(), 4.0 * d)
    }
}

impl SecondOrderProblem for OverMean<TiltedSquare> {
    /// For ||w|| <= 4D.
    fn hessian_vector(&self, _: &[f64], direction: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        dpopt_linalg::add_scaled(out, 2.0 * self.loss.lambda, direction);
    }

    fn least_eigenvalue(&self, _: &[f64]) -> f64 {
        2.0 * self.loss.lambda
    }
}
