//! Powers with a linear part that the records decide: the growth problems of the KL lower bound.

use dpopt_linalg::norm;
use dpopt_oracle::{Constants, Convexity, Differentiable, Loss};

use super::over_mean::{AffineLoss, OverMean};
use crate::problem::{ProblemConstants, ProblemError, in_range, positive};

/// f(w; x) = <x, w> + b ||w||^tau with b = lambda^tau 2^(tau - 2) and tau >= 2, for records of norm at most X.
///
/// # Constants, for ||w|| <= R
/// - Each record: L0 = X + b tau R^(tau-1), L1 = b tau (tau-1) R^(tau-2); convex.
/// - F over records of mean m: the minimiser points against m, and b tau ||w*||^(tau-1) = ||m||; F* = -(1 - 1/tau) ||m|| ||w*||, which
///   is F0 with the other sign. R has to reach the minimisers: b tau R^(tau-1) >= X.
/// - KL with kappa = tau/(tau-1) and gamma = 1/lambda, valid and not tight: ||w||^tau is uniformly convex, F(w) - F* >= 2^(2 - tau) b ||w - w*||^tau =
///   lambda^tau ||w - w*||^tau, and growth with (lambda, tau) of a convex function is that (Lemma 6). For m != 0 and tau > 2 the
///   true exponent near the minimiser is 2.
/// - tau = 2: lambda^2 ||w + m/(2 lambda^2)||^2 up to a constant: the mean of the squares lambda^2 ||w - y||^2 at y = -x/(2 lambda^2).
///
/// Source: arXiv 2311.13447, proof of Theorem 6, E-23 in `docs/theory/kl-condition.md`. The printed growth constant
/// lambda 2^((tau-2)/tau) is not that of ||w||^tau; the factor 2^(tau-2) in b makes up for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TiltedPower {
    dim: usize,
    lambda: f64,
    tau: f64,
    tilt: f64,
    reach: f64,
}

impl TiltedPower {
    /// Dimension, lambda, tau in [2, 64], X and R.
    ///
    /// # Errors
    /// [`ProblemError`]; also where R does not reach all minimisers.
    pub fn new(
        dim: usize,
        lambda: f64,
        tau: f64,
        tilt: f64,
        reach: f64,
    ) -> Result<Self, ProblemError> {
        positive("lambda", lambda)?;
        positive("tilt", tilt)?;
        if dim == 0 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        in_range("tau", tau, 2.0, 64.0)?;
        let loss = Self {
            dim,
            lambda,
            tau,
            tilt,
            reach,
        };
        in_range("reach", reach, loss.minimiser_norm(tilt), f64::MAX)?;
        Ok(loss)
    }

    /// b.
    fn weight(&self) -> f64 {
        self.lambda.powf(self.tau) * 2f64.powf(self.tau - 2.0)
    }

    /// The norm of the minimiser where the mean record has norm `mean`.
    #[must_use]
    pub fn minimiser_norm(&self, mean: f64) -> f64 {
        (mean / (self.weight() * self.tau)).powf((self.tau - 1.0).recip())
    }

    /// The mean loss over records of mean `mean`, as a problem.
    #[must_use]
    pub fn over(self, mean: Vec<f64>) -> OverMean<Self> {
        OverMean::new(self, mean)
    }

    /// L0, L1 and F0 where the mean record has norm `mean`.
    fn known(&self, mean: f64) -> [f64; 3] {
        let slope = self.weight() * self.tau;
        [
            self.tilt + slope * self.reach.powf(self.tau - 1.0),
            slope * (self.tau - 1.0) * self.reach.powf(self.tau - 2.0),
            (1.0 - self.tau.recip()) * mean * self.minimiser_norm(mean),
        ]
    }
}

impl Loss for TiltedPower {
    type Records = Vec<Vec<f64>>;
    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Vec<Vec<f64>>) -> usize {
        self.dim
    }

    fn constants_on(&self, _: &Vec<Vec<f64>>) -> Constants {
        let [lipschitz, smoothness, gap] = self.known(self.tilt);
        Constants::new(lipschitz, smoothness, gap, Convexity::Convex)
    }

    fn value(&self, record: &Vec<f64>, point: &[f64]) -> f64 {
        dpopt_linalg::dot(record, point) + self.weight() * norm(point).powf(self.tau)
    }
}

impl Differentiable for TiltedPower {
    fn gradient(&self, record: &Vec<f64>, point: &[f64], out: &mut [f64]) {
        let factor = self.weight() * self.tau * norm(point).powf(self.tau - 2.0);
        dpopt_linalg::add_scaled(out, 1.0, record);
        dpopt_linalg::add_scaled(out, factor, point);
    }
}

/// L0 and L1 are those of the loss, for ||w|| <= R.
impl AffineLoss for TiltedPower {
    fn constants_over(&self, mean: &[f64]) -> ProblemConstants {
        let [lipschitz, smoothness, gap] = self.known(norm(mean));
        ProblemConstants::first_order(lipschitz, smoothness, gap)
            .with_weak_convexity(0.0)
            .with_kl(self.lambda.recip(), self.tau / (self.tau - 1.0))
            .within(Vec::new(), self.reach)
    }
}
