//! A chain of strict saddles of the largest value: one for each coordinate of x.

use dpopt_linalg::{Domain, dot};
use dpopt_minimax::MeanFacts;
use dpopt_oracle::SaddleConstants;

use crate::minimax::{MinimaxProblem, SecondOrderMinimax};
use crate::problem::{ProblemError, in_range, positive};

/// The cosine of [`CosineSaddle`](crate::CosineSaddle) in each of d coordinates, from where all are at
/// their saddle.
///
/// # Formula
/// F = sum_i (tau cos x_i + b y_i sin x_i) - (m/2)|y|^2, every |y_i| <= R = 1.5 (b + A)/m. y*_i = b sin x_i/m is inside, and
/// Phi = sum_i (tau cos x_i + b^2 sin^2 x_i/(2 m)): its critical points in a period are the 2^d points of zeros and pi (where
/// b^2/m < tau), and a point with k zeros has k directions of curvature -(tau - b^2/m). Only all pi is a minimum.
///
/// # Constants, everywhere on Y
/// Records may add <a, y> with |a| <= A, whose mean is 0 here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SaddleChain {
    dim: usize,
    tau: f64,
    b: f64,
    strong_concavity: f64,
    spread: f64,
}

impl SaddleChain {
    /// With tau = 1, b = 1/2, m = 1, A = 1/4.
    ///
    /// # Errors
    /// [`ProblemError`] for no coordinates.
    pub fn new(dim: usize) -> Result<Self, ProblemError> {
        in_range("dim", dim as f64, 1.0, 1e9)?;
        Ok(Self {
            dim,
            tau: 1.0,
            b: 0.5,
            strong_concavity: 1.0,
            spread: 0.25,
        })
    }

    /// With the curvature of the cosines, their coupling, and m.
    ///
    /// # Errors
    /// [`ProblemError`] for numbers that are not positive.
    pub fn with_cosines(
        self,
        tau: f64,
        b: f64,
        strong_concavity: f64,
    ) -> Result<Self, ProblemError> {
        Ok(Self {
            tau: positive("tau", tau)?,
            b: positive("b", b)?,
            strong_concavity: positive("strong_concavity", strong_concavity)?,
            ..self
        })
    }

    /// R.
    fn reach(&self) -> f64 {
        1.5 * (self.b + self.spread) / self.strong_concavity
    }
}

impl MinimaxProblem for SaddleChain {
    fn x_dim(&self) -> usize {
        self.dim
    }

    fn domain(&self) -> Domain {
        Domain::Box {
            low: vec![-self.reach(); self.dim],
            high: vec![self.reach(); self.dim],
        }
    }

    fn record(&self) -> SaddleConstants {
        let (d, m, curved) = (
            self.dim as f64,
            self.strong_concavity,
            self.tau + self.b * self.reach(),
        );
        SaddleConstants {
            lipschitz_x: d.sqrt() * curved,
            lipschitz_y: d.sqrt() * (self.b + m * self.reach()) + self.spread,
            smooth_xx: curved,
            smooth_xy: self.b,
            smooth_yy: m,
            hessian_frobenius: (d * (curved * curved + 2.0 * self.b * self.b + m * m)).sqrt(),
        }
    }

    fn mean(&self) -> MeanFacts {
        let (b, m) = (self.b, self.strong_concavity);
        MeanFacts {
            strong_concavity: m,
            smooth_yy: m,
            smooth_xy: b,
            value_smoothness: self.tau + b * b / m,
            // Phi(0) = d tau, and Phi >= -d tau.
            value_gap: 2.0 * self.dim as f64 * self.tau,
            value_hessian_lipschitz: self.tau + 2.0 * b * b / m,
            joint_hessian_lipschitz: b,
        }
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        let pairs = x.iter().zip(y);
        let sum: f64 = pairs
            .map(|(x, y)| self.tau * x.cos() + self.b * y * x.sin())
            .sum();
        sum - 0.5 * self.strong_concavity * dot(y, y)
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        for i in 0..self.dim {
            let (sin, cos) = x[i].sin_cos();
            out.0[i] = -self.tau * sin + self.b * y[i] * cos;
            out.1[i] = self.b * sin - self.strong_concavity * y[i];
        }
    }

    fn best_response(&self, x: &[f64]) -> Vec<f64> {
        let scale = self.b / self.strong_concavity;
        x.iter().map(|x| scale * x.sin()).collect()
    }
}

impl SecondOrderMinimax for SaddleChain {
    fn hessian_vector(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]) {
        let (dx, dy) = direction.split_at(self.dim);
        for i in 0..self.dim {
            let (sin, cos) = x[i].sin_cos();
            out[i] = -(self.tau * cos + self.b * y[i] * sin) * dx[i] + self.b * cos * dy[i];
            out[self.dim + i] = self.b * cos * dx[i] - self.strong_concavity * dy[i];
        }
    }

    fn value_least_eigenvalue(&self, x: &[f64]) -> f64 {
        let share = self.b * self.b / self.strong_concavity;
        let each = x
            .iter()
            .map(|x| -self.tau * x.cos() + share * (2.0 * x).cos());
        each.fold(f64::INFINITY, f64::min)
    }
}
