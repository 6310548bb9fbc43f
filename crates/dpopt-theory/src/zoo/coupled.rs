//! Any problem as the largest value of a saddle problem.

use dpopt_linalg::{Domain, dot, norm};
use dpopt_minimax::MeanFacts;
use dpopt_oracle::SaddleConstants;

use crate::minimax::MinimaxProblem;
use crate::problem::{Problem, ProblemError, positive};

/// sup of the norm of the second derivative of psi.
const BENT: f64 = 0.858_66;

/// F(x, y) = R(x) + beta <y, psi(x)> - (m/2)|y|^2 - (beta^2/(2 m))|psi(x)|^2 for a problem R, psi(x) = Px/sqrt(1 + |Px|^2) of the first min(d1, d2) coordinates,
/// y in a ball of radius 1.5 beta/m.
///
/// y* = beta psi(x)/m, and **Phi is R**: with ramps for R the worst case of saddle problems, with constants that know no dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coupled<R> {
    value: R,
    y_dim: usize,
    beta: f64,
    strong_concavity: f64,
}

impl<R: Problem> Coupled<R> {
    /// With d2, beta and m.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(
        value: R,
        y_dim: usize,
        beta: f64,
        strong_concavity: f64,
    ) -> Result<Self, ProblemError> {
        positive("y_dim", y_dim as f64)?;
        Ok(Self {
            value,
            y_dim,
            beta: positive("beta", beta)?,
            strong_concavity: positive("strong_concavity", strong_concavity)?,
        })
    }

    /// R, which is Phi.
    pub fn largest(&self) -> &R {
        &self.value
    }

    fn radius(&self) -> f64 {
        1.5 * self.beta / self.strong_concavity
    }

    /// psi and sqrt(1 + |Px|^2).
    fn psi(&self, x: &[f64]) -> (Vec<f64>, f64) {
        let part = &x[..x.len().min(self.y_dim)];
        let root = 1f64.hypot(norm(part));
        (part.iter().map(|x| x / root).collect(), root)
    }
}

impl<R: Problem> MinimaxProblem for Coupled<R> {
    fn x_dim(&self) -> usize {
        self.value.dim()
    }

    fn domain(&self) -> Domain {
        Domain::ball(self.y_dim, self.radius())
    }

    /// The gradient of |psi|^2/2 is at most 3 sqrt 3/16 long, its Hessian at most 1.
    fn record(&self) -> SaddleConstants {
        let Self {
            beta,
            strong_concavity: m,
            ..
        } = *self;
        let share = beta * beta / m;
        SaddleConstants {
            lipschitz_x: self.value.lipschitz() + 0.325 * share + beta * self.radius(),
            lipschitz_y: beta + m * self.radius(),
            smooth_xx: self.value.smoothness() + share + BENT * beta * self.radius(),
            smooth_xy: beta,
            smooth_yy: m,
            hessian_frobenius: f64::INFINITY,
        }
    }

    fn mean(&self) -> MeanFacts {
        MeanFacts {
            strong_concavity: self.strong_concavity,
            smooth_yy: self.strong_concavity,
            smooth_xy: self.beta,
            value_smoothness: self.value.smoothness(),
            value_gap: self.value.initial_gap(),
            value_hessian_lipschitz: f64::INFINITY,
            joint_hessian_lipschitz: f64::INFINITY,
        }
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        let (psi, _) = self.psi(x);
        let m = self.strong_concavity;
        let pairs = psi.iter().zip(y);
        self.value.value(x) + self.beta * pairs.map(|(p, y)| p * y).sum::<f64>()
            - 0.5 * m * dot(y, y)
            - 0.5 * self.beta * self.beta / m * dot(&psi, &psi)
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        let (psi, root) = self.psi(x);
        let m = self.strong_concavity;
        self.value.gradient(x, out.0);
        // grad psi (beta y - (beta^2/m) psi), grad psi = (I - psi psi^T)/root.
        let pull: Vec<f64> = psi
            .iter()
            .zip(y)
            .map(|(p, y)| self.beta * (y - self.beta / m * p))
            .collect();
        let along = dot(&psi, &pull);
        for ((out, pull), p) in out.0.iter_mut().zip(&pull).zip(&psi) {
            *out += (pull - p * along) / root;
        }
        for (out, y) in out.1.iter_mut().zip(y) {
            *out = -m * y;
        }
        for (out, p) in out.1.iter_mut().zip(&psi) {
            *out += self.beta * p;
        }
    }

    fn best_response(&self, x: &[f64]) -> Vec<f64> {
        let (psi, _) = self.psi(x);
        let mut y = vec![0.0; self.y_dim];
        for (y, p) in y.iter_mut().zip(psi) {
            *y = self.beta * p / self.strong_concavity;
        }
        y
    }
}
