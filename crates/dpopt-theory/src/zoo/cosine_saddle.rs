//! A strict saddle of the largest value with minima beside it, all in closed form.

use dpopt_linalg::{Domain, dot, norm};
use dpopt_minimax::MeanFacts;
use dpopt_oracle::SaddleConstants;

use crate::minimax::{MinimaxProblem, SecondOrderMinimax};
use crate::problem::{ProblemError, in_range, positive};

/// sup of the norm of the second derivative of psi: (48/25)/sqrt 5.
const BENT: f64 = 0.858_66;

/// A cosine coupled with y_1, and a pseudo-Huber bowl coupled with the rest of y.
///
/// # Formula
/// x = (x_1, u), y = (y_1, z) in a ball of radius R = 1.5 (b + beta + A)/m, psi(u) = u/sqrt(1 + |u|^2):
///
/// F = tau cos x_1 + sqrt(1 + |u|^2) - 1 + b y_1 sin x_1 + beta <z, psi(u)> - (m/2)|y|^2.
///
/// Coordinates of u and z that have no partner are coupled with nothing; u has one for each, d2 >= d1. y* = (b sin x_1, beta psi(u))/m is inside of the ball, and
///
/// Phi = tau cos x_1 + sqrt(1 + |u|^2) - 1 + (b^2 sin^2 x_1 + beta^2 |psi(u)|^2)/(2 m).
///
/// With b^2/m < tau the points x_1 = 0, u = 0 are strict saddles of curvature -(tau - b^2/m), with minima at x_1 = pi. With b^2/m > tau x_1 = 0 is a minimum of
/// Phi although f_xx = -tau there (P5, hidden convexity: d1 = 1).
///
/// # Constants, everywhere on Y
/// Records may add <c, u> and <a, y> with |c| <= C, |a| <= A, whose means are 0 here. |psi| < 1, |grad psi| <= 1, |D^2 psi| <= 0.859, and the Hessian of |psi|^2/2 has norm at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CosineSaddle {
    x_dim: usize,
    y_dim: usize,
    tau: f64,
    b: f64,
    beta: f64,
    strong_concavity: f64,
    /// A and C.
    spread: f64,
    /// |u| at the start.
    away: f64,
}

impl CosineSaddle {
    /// With tau = 1, b = beta = 1/2, m = 1, A = C = 1/4, started on the saddle of x_1 at |u| = 2.
    ///
    /// # Errors
    /// [`ProblemError`] where d2 < d1, or d1 is 0.
    pub fn new(x_dim: usize, y_dim: usize) -> Result<Self, ProblemError> {
        in_range("x_dim", x_dim as f64, 1.0, y_dim as f64)?;
        Ok(Self {
            x_dim,
            y_dim,
            tau: 1.0,
            b: 0.5,
            beta: 0.5,
            strong_concavity: 1.0,
            spread: 0.25,
            away: if x_dim > 1 { 2.0 } else { 0.0 },
        })
    }

    /// With the curvature of the cosine, its coupling, and m.
    ///
    /// # Errors
    /// [`ProblemError`] for numbers that are not positive.
    pub fn with_cosine(
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

    /// Started at |u| = `away`.
    #[must_use]
    pub fn starting_at(self, away: f64) -> Self {
        Self { away, ..self }
    }

    fn radius(&self) -> f64 {
        1.5 * (self.b + self.beta + self.spread) / self.strong_concavity
    }

    /// psi(u) and sqrt(1 + |u|^2).
    fn psi(u: &[f64]) -> (Vec<f64>, f64) {
        let root = 1f64.hypot(norm(u));
        (u.iter().map(|u| u / root).collect(), root)
    }
}

impl MinimaxProblem for CosineSaddle {
    fn x_dim(&self) -> usize {
        self.x_dim
    }

    fn domain(&self) -> Domain {
        Domain::ball(self.y_dim, self.radius())
    }

    fn record(&self) -> SaddleConstants {
        let Self {
            tau,
            b,
            beta,
            spread,
            strong_concavity: m,
            ..
        } = *self;
        let radius = self.radius();
        let (cosine, bowl) = (tau + b * radius, 1.0 + BENT * beta * radius);
        let others = (self.x_dim - 1) as f64;
        let square = cosine.powi(2)
            + others * bowl.powi(2)
            + 2.0 * (b * b + others * beta * beta)
            + self.y_dim as f64 * m * m;
        SaddleConstants {
            lipschitz_x: cosine.hypot(1.0 + spread + beta * radius),
            lipschitz_y: b + beta + spread + m * radius,
            smooth_xx: cosine.max(bowl),
            smooth_xy: b.max(beta),
            smooth_yy: m,
            hessian_frobenius: square.sqrt(),
        }
    }

    fn mean(&self) -> MeanFacts {
        let Self {
            tau,
            b,
            beta,
            strong_concavity: m,
            ..
        } = *self;
        MeanFacts {
            strong_concavity: m,
            smooth_yy: m,
            smooth_xy: b.max(beta),
            value_smoothness: (tau + b * b / m).max(1.0 + beta * beta / m),
            // Phi >= -tau.
            value_gap: self.largest_value(&self.start()) + tau,
            value_hessian_lipschitz: (tau + 2.0 * b * b / m).max(0.86 + 2.5 * beta * beta / m),
            joint_hessian_lipschitz: b.max(BENT * beta),
        }
    }

    fn start(&self) -> Vec<f64> {
        let mut x = vec![0.0; self.x_dim];
        let each = self.away / ((self.x_dim - 1) as f64).sqrt();
        x.iter_mut().skip(1).for_each(|u| *u = each);
        x
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        let (psi, root) = Self::psi(&x[1..]);
        let pairs = psi.iter().zip(&y[1..]);
        self.tau * x[0].cos() + root - 1.0
            + self.b * y[0] * x[0].sin()
            + self.beta * pairs.map(|(p, z)| p * z).sum::<f64>()
            - 0.5 * self.strong_concavity * dot(y, y)
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        let (psi, root) = Self::psi(&x[1..]);
        let (sin, cos) = x[0].sin_cos();
        let along: f64 = psi.iter().zip(&y[1..]).map(|(p, z)| p * z).sum();
        out.0[0] = -self.tau * sin + self.b * y[0] * cos;
        out.1
            .iter_mut()
            .zip(y)
            .for_each(|(g, y)| *g = -self.strong_concavity * y);
        out.1[0] += self.b * sin;
        for (i, p) in psi.iter().enumerate() {
            out.0[1 + i] = p + self.beta * (y[1 + i] - p * along) / root;
            out.1[1 + i] += self.beta * p;
        }
    }

    fn best_response(&self, x: &[f64]) -> Vec<f64> {
        let (psi, _) = Self::psi(&x[1..]);
        let mut y = vec![0.0; self.y_dim];
        y[0] = self.b * x[0].sin() / self.strong_concavity;
        for (y, p) in y[1..].iter_mut().zip(psi) {
            *y = self.beta * p / self.strong_concavity;
        }
        y
    }
}

impl SecondOrderMinimax for CosineSaddle {
    fn hessian_vector(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]) {
        let (psi, root) = Self::psi(&x[1..]);
        let (sin, cos) = x[0].sin_cos();
        let (dx, dy) = direction.split_at(self.x_dim);
        let (du, z, dz) = (&dx[1..], &y[1..self.x_dim], &dy[1..]);
        for (out, dy) in out[self.x_dim..].iter_mut().zip(dy) {
            *out = -self.strong_concavity * dy;
        }
        out[0] = -(self.tau * cos + self.b * y[0] * sin) * dx[0] + self.b * cos * dy[0];
        out[self.x_dim] += self.b * cos * dx[0];
        let (p_du, p_z) = (dot(&psi, du), dot(&psi, z));
        let (z_du, p_dz) = (dot(z, du), dot(&psi, &dz[..du.len()]));
        for i in 0..du.len() {
            // grad psi = (I - psi psi^T)/root, and the derivative of grad psi z along du.
            let bend = -(psi[i] * z_du + z[i] * p_du + du[i] * p_z) + 3.0 * psi[i] * p_z * p_du;
            out[1 + i] = (du[i] - psi[i] * p_du) / root
                + self.beta * bend / (root * root)
                + self.beta * (dz[i] - psi[i] * p_dz) / root;
            out[self.x_dim + 1 + i] += self.beta * (du[i] - psi[i] * p_du) / root;
        }
    }

    fn value_least_eigenvalue(&self, x: &[f64]) -> f64 {
        let m = self.strong_concavity;
        let along = -self.tau * x[0].cos() + self.b * self.b / m * (2.0 * x[0]).cos();
        if self.x_dim == 1 {
            return along;
        }
        let square = dot(&x[1..], &x[1..]);
        let (root, share) = ((1.0 + square).sqrt(), self.beta * self.beta / m);
        let across = 1.0 / root + share / (1.0 + square).powi(2);
        let radial = root.powi(-3) + share * (1.0 - 3.0 * square) / (1.0 + square).powi(3);
        let of_bowl = if self.x_dim == 2 {
            radial
        } else {
            radial.min(across)
        };
        along.min(of_bowl)
    }
}
