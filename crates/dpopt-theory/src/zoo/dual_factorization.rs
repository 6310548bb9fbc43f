//! Matrix factorisation whose residual is what y is for: a saddle problem with more coordinates in y than in x.

use dpopt_linalg::{Domain, dot, norm};
use dpopt_minimax::MeanFacts;
use dpopt_oracle::SaddleConstants;

use super::quadratic_game::schur_least;
use crate::minimax::{MinimaxProblem, SecondOrderMinimax};
use crate::problem::{ProblemError, in_range, positive};

/// A matrix in factored form, each of whose entries has a dual of its own.
///
/// # Formula
/// x = (U, V) with U of p x r and V of q x r, row-major and one after the other; y = Y of p x q, |Y|_F <= R:
///
/// F = <Y, U V^T - Z> - (m/2)|Y|_F^2, Z the mean of records with |Z_i|_F <= B_Z.
///
/// Where Y* = (U V^T - Z)/m is inside, Phi = |U V^T - Z|_F^2/(2 m). Every minimum of it is global; the origin is a strict saddle of curvature
/// -sigma_1(Z)/m, and a balanced point that keeps the singular values of J has curvature -sigma_k/m, k the largest of the others, where |J| < r.
///
/// # Constants, for |x| <= B
/// Gradients are not bounded elsewhere. |U V^T|_F <= B^2/2; R = 1.5 (B^2/2 + B_Z)/m; |grad_x| <= R B, |grad_y| <= B^2/2 + B_Z + m R; L_xx =
/// R, L_xy = B, L_yy = m; L_Phi = (3 B^2/2 + B_Z)/m, rho_Phi = 3 B/m (f''' = 3 <A' h, A'' h h>/m), rho_J = 1.
#[derive(Debug, Clone, PartialEq)]
pub struct DualFactorization {
    /// Z, row-major (p, q).
    target: Vec<f64>,
    p: usize,
    q: usize,
    rank: usize,
    strong_concavity: f64,
    /// B and B_Z.
    reach: f64,
    target_bound: f64,
}

impl DualFactorization {
    /// Of a mean `target` (p rows) of records of Frobenius norm at most `target_bound`, for points of norm at most `reach`.
    ///
    /// # Errors
    /// [`ProblemError`] for a target that is no matrix of p rows or longer than its records, and numbers that are not positive.
    pub fn new(
        target: Vec<f64>,
        p: usize,
        rank: usize,
        (strong_concavity, reach, target_bound): (f64, f64, f64),
    ) -> Result<Self, ProblemError> {
        let entries = target.len() as f64;
        in_range("rows", p as f64, 1.0, entries)?;
        let q = target.len() / p;
        in_range("entries", entries, (p * q) as f64, (p * q) as f64)?;
        in_range("rank", rank as f64, 1.0, p.min(q) as f64)?;
        positive("target_bound", target_bound)?;
        in_range("norm of the target", norm(&target), 0.0, target_bound)?;
        Ok(Self {
            target,
            p,
            q,
            rank,
            strong_concavity: positive("strong_concavity", strong_concavity)?,
            reach: positive("reach", reach)?,
            target_bound,
        })
    }

    fn radius(&self) -> f64 {
        1.5 * (0.5 * self.reach * self.reach + self.target_bound) / self.strong_concavity
    }

    /// Adds c A B^T to a p x q matrix, for A of p x r and B of q x r.
    fn add_product(&self, c: f64, (a, b): (&[f64], &[f64]), out: &mut [f64]) {
        for i in 0..self.p {
            for j in 0..self.q {
                let (a, b) = (&a[i * self.rank..], &b[j * self.rank..]);
                out[i * self.q + j] += c * dot(&a[..self.rank], &b[..self.rank]);
            }
        }
    }

    /// Adds (Y V, Y^T U) to (p x r, q x r).
    fn add_pulls(&self, y: &[f64], x: &[f64], out: &mut [f64]) {
        let (u, v) = x.split_at(self.p * self.rank);
        let (of_u, of_v) = out.split_at_mut(self.p * self.rank);
        for i in 0..self.p {
            for j in 0..self.q {
                for k in 0..self.rank {
                    of_u[i * self.rank + k] += y[i * self.q + j] * v[j * self.rank + k];
                    of_v[j * self.rank + k] += y[i * self.q + j] * u[i * self.rank + k];
                }
            }
        }
    }

    /// U V^T - Z.
    fn residual(&self, x: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = self.target.iter().map(|z| -z).collect();
        self.add_product(1.0, x.split_at(self.p * self.rank), &mut out);
        out
    }
}

impl MinimaxProblem for DualFactorization {
    fn x_dim(&self) -> usize {
        (self.p + self.q) * self.rank
    }

    fn domain(&self) -> Domain {
        Domain::ball(self.p * self.q, self.radius())
    }

    fn record(&self) -> SaddleConstants {
        let (b, m, radius) = (self.reach, self.strong_concavity, self.radius());
        let (least, most) = (self.p.min(self.q) as f64, self.p.max(self.q) as f64);
        let squares =
            2.0 * self.rank as f64 * radius * radius + 2.0 * most * b * b + least * most * m * m;
        SaddleConstants {
            lipschitz_x: radius * b,
            lipschitz_y: 0.5 * b * b + self.target_bound + m * radius,
            smooth_xx: radius,
            smooth_xy: b,
            smooth_yy: m,
            hessian_frobenius: squares.sqrt(),
        }
    }

    fn mean(&self) -> MeanFacts {
        let (b, m) = (self.reach, self.strong_concavity);
        MeanFacts {
            strong_concavity: m,
            smooth_yy: m,
            smooth_xy: b,
            value_smoothness: (1.5 * b * b + self.target_bound) / m,
            // Phi >= 0.
            value_gap: self.largest_value(&self.start()),
            value_hessian_lipschitz: 3.0 * b / m,
            joint_hessian_lipschitz: 1.0,
        }
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        dot(y, &self.residual(x)) - 0.5 * self.strong_concavity * dot(y, y)
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        out.0.fill(0.0);
        self.add_pulls(y, x, out.0);
        let residual = self.residual(x);
        for ((out, residual), y) in out.1.iter_mut().zip(residual).zip(y) {
            *out = residual - self.strong_concavity * y;
        }
    }

    fn best_response(&self, x: &[f64]) -> Vec<f64> {
        let residual = self.residual(x).into_iter();
        residual.map(|r| r / self.strong_concavity).collect()
    }
}

impl SecondOrderMinimax for DualFactorization {
    fn hessian_vector(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]) {
        let (dx, dy) = direction.split_at(self.x_dim());
        out.fill(0.0);
        let (of_x, of_y) = out.split_at_mut(self.x_dim());
        self.add_pulls(dy, x, of_x);
        self.add_pulls(y, dx, of_x);
        let at = self.p * self.rank;
        let ((u, v), (du, dv)) = (x.split_at(at), dx.split_at(at));
        self.add_product(1.0, (du, v), of_y);
        self.add_product(1.0, (u, dv), of_y);
        for (out, dy) in of_y.iter_mut().zip(dy) {
            *out -= self.strong_concavity * dy;
        }
    }

    /// By elimination of y; there is no closed form away from critical points.
    fn value_least_eigenvalue(&self, x: &[f64]) -> f64 {
        schur_least(self, x)
    }
}
