//! Any problem as the largest value of a saddle problem.

use dpopt_linalg::{Domain, dot, norm};
use dpopt_minimax::MeanFacts;
use dpopt_oracle::SaddleConstants;

use crate::minimax::MinimaxProblem;
use crate::problem::{Problem, ProblemError, positive};

/// sup of the norm of the second derivative of psi.
const BENT: f64 = 0.858_66;

/// F(x, y) = R(x) + beta <y, psi(x)> - <y, D y>/2 - (beta^2/2) <psi(x), D^-1 psi(x)> for a problem R, psi(x) = Px/sqrt(1 + |Px|^2) of the first
/// min(d1, d2) coordinates, y in a ball of radius 1.5 beta/m. D is diagonal, from m to kappa m in equal ratios; kappa is 1 unless said otherwise.
///
/// y* = beta D^-1 psi(x), and **Phi is R**: with ramps for R the worst case of saddle problems, with constants that know no dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coupled<R> {
    value: R,
    y_dim: usize,
    beta: f64,
    strong_concavity: f64,
    condition: f64,
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
            condition: 1.0,
        })
    }

    /// With this kappa, from 1 to 1e6.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn with_condition(self, condition: f64) -> Result<Self, ProblemError> {
        let (low, high) = (1.0, 1e6);
        if !(low..=high).contains(&condition) {
            return Err(ProblemError::OutOfRange {
                name: "condition",
                low,
                high,
                value: condition,
            });
        }
        Ok(Self { condition, ..self })
    }

    /// The curvature of -F in a coordinate of y.
    fn curvature(&self, i: usize) -> f64 {
        let share = i as f64 / (self.y_dim.max(2) - 1) as f64;
        self.strong_concavity * self.condition.powf(share)
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

    /// The gradient of |psi|^2/2 is at most 3 sqrt 3/16 long, its Hessian at most 1. That of <psi, D^-1 psi>/2 is at most |psi|/(m root) <= 1/(2 m)
    /// long, its Hessian at most (1 + BENT)/m.
    fn record(&self) -> SaddleConstants {
        let Self {
            beta,
            strong_concavity: m,
            ..
        } = *self;
        let share = beta * beta / m;
        let (slope, bend) = match self.condition > 1.0 {
            true => (0.5, 1.0 + BENT),
            false => (0.325, 1.0),
        };
        let most = self.condition * m;
        SaddleConstants {
            lipschitz_x: self.value.lipschitz() + slope * share + beta * self.radius(),
            lipschitz_y: beta + most * self.radius(),
            smooth_xx: self.value.smoothness() + bend * share + BENT * beta * self.radius(),
            smooth_xy: beta,
            smooth_yy: most,
            hessian_frobenius: f64::INFINITY,
        }
    }

    fn mean(&self) -> MeanFacts {
        MeanFacts {
            strong_concavity: self.strong_concavity,
            smooth_yy: self.condition * self.strong_concavity,
            smooth_xy: self.beta,
            value_smoothness: self.value.smoothness(),
            value_gap: self.value.initial_gap(),
            value_hessian_lipschitz: f64::INFINITY,
            joint_hessian_lipschitz: f64::INFINITY,
        }
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        let (psi, _) = self.psi(x);
        let of_y = y.iter().enumerate();
        let pull = psi.iter().enumerate();
        self.value.value(x) + self.beta * psi.iter().zip(y).map(|(p, y)| p * y).sum::<f64>()
            - 0.5 * of_y.map(|(i, y)| self.curvature(i) * y * y).sum::<f64>()
            - 0.5 * self.beta.powi(2) * pull.map(|(i, p)| p * p / self.curvature(i)).sum::<f64>()
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        let (psi, root) = self.psi(x);
        self.value.gradient(x, out.0);
        // grad psi (beta y - beta^2 D^-1 psi), grad psi = (I - psi psi^T)/root.
        let pull: Vec<f64> = psi
            .iter()
            .zip(y)
            .enumerate()
            .map(|(i, (p, y))| self.beta * (y - self.beta / self.curvature(i) * p))
            .collect();
        let along = dot(&psi, &pull);
        for ((out, pull), p) in out.0.iter_mut().zip(&pull).zip(&psi) {
            *out += (pull - p * along) / root;
        }
        for (i, (out, y)) in out.1.iter_mut().zip(y).enumerate() {
            *out = -self.curvature(i) * y;
        }
        for (out, p) in out.1.iter_mut().zip(&psi) {
            *out += self.beta * p;
        }
    }

    fn best_response(&self, x: &[f64]) -> Vec<f64> {
        let (psi, _) = self.psi(x);
        let mut y = vec![0.0; self.y_dim];
        for (i, (y, p)) in y.iter_mut().zip(psi).enumerate() {
            *y = self.beta * p / self.curvature(i);
        }
        y
    }
}
