//! Quadratic saddles: every eigenvalue of the largest value is known.

use dpopt_linalg::{Domain, dot, symmetric_spectrum};
use dpopt_minimax::MeanFacts;
use dpopt_oracle::SaddleConstants;

use crate::minimax::{MinimaxProblem, SecondOrderMinimax};
use crate::problem::{ProblemError, in_range, positive};

/// A quadratic in x and y whose coordinates are coupled in pairs.
///
/// # Formula
/// F = (1/2) sum a_i x_i^2 + sum_j b_j x_j y_j - (1/2) sum m_j y_j^2, with y in a ball of radius R. Where y* = (b_j x_j/m_j) is inside of it,
/// Phi = (1/2) sum (a_i + b_i^2/m_i) x_i^2.
///
/// # Constants, for |x| <= 1
/// Gradients are not bounded elsewhere: for tests of tracking, contraction and certificates in that ball.
#[derive(Debug, Clone, PartialEq)]
pub struct QuadraticGame {
    a: Vec<f64>,
    b: Vec<f64>,
    m: Vec<f64>,
    radius: f64,
}

impl QuadraticGame {
    /// a, b and m; b and m have the same length, at most that of a.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(a: Vec<f64>, b: Vec<f64>, m: Vec<f64>, radius: f64) -> Result<Self, ProblemError> {
        in_range("couplings", b.len() as f64, 1.0, a.len() as f64)?;
        let count = b.len() as f64;
        in_range("strong concavities", m.len() as f64, count, count)?;
        for &m in &m {
            positive("strong_concavity", m)?;
        }
        positive("radius", radius)?;
        Ok(Self { a, b, m, radius })
    }

    fn most(of: &[f64]) -> f64 {
        of.iter().fold(0.0, |most, x| f64::max(most, x.abs()))
    }

    fn least_concavity(&self) -> f64 {
        self.m.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// a_i + b_i^2/m_i.
    fn eigenvalues(&self) -> impl Iterator<Item = f64> + '_ {
        let added = self.b.iter().zip(&self.m).map(|(b, m)| b * b / m);
        let added = added.chain(std::iter::repeat(0.0));
        self.a.iter().zip(added).map(|(a, more)| a + more)
    }
}

impl MinimaxProblem for QuadraticGame {
    fn x_dim(&self) -> usize {
        self.a.len()
    }

    fn domain(&self) -> Domain {
        Domain::ball(self.b.len(), self.radius)
    }

    fn record(&self) -> SaddleConstants {
        let (a, b, m) = (
            Self::most(&self.a),
            Self::most(&self.b),
            Self::most(&self.m),
        );
        SaddleConstants {
            lipschitz_x: a + b * self.radius,
            lipschitz_y: b + m * self.radius,
            smooth_xx: a,
            smooth_xy: b,
            smooth_yy: m,
            hessian_frobenius: (dot(&self.a, &self.a)
                + 2.0 * dot(&self.b, &self.b)
                + dot(&self.m, &self.m))
            .sqrt(),
        }
    }

    fn mean(&self) -> MeanFacts {
        MeanFacts {
            strong_concavity: self.least_concavity(),
            smooth_yy: Self::most(&self.m),
            smooth_xy: Self::most(&self.b),
            value_smoothness: self
                .eigenvalues()
                .fold(0.0, |most, x| f64::max(most, x.abs())),
            value_gap: f64::INFINITY,
            value_hessian_lipschitz: f64::MIN_POSITIVE,
            joint_hessian_lipschitz: 0.0,
        }
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        let of_x = self.a.iter().zip(x).map(|(a, x)| 0.5 * a * x * x);
        let pairs = self.b.iter().zip(&self.m).zip(x.iter().zip(y));
        let of_y = pairs.map(|((b, m), (x, y))| y * (b * x - 0.5 * m * y));
        of_x.sum::<f64>() + of_y.sum::<f64>()
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        for ((out, a), x) in out.0.iter_mut().zip(&self.a).zip(x) {
            *out = a * x;
        }
        for j in 0..self.b.len() {
            out.0[j] += self.b[j] * y[j];
            out.1[j] = self.b[j] * x[j] - self.m[j] * y[j];
        }
    }

    /// Right where it is inside of the ball.
    fn best_response(&self, x: &[f64]) -> Vec<f64> {
        let pairs = self.b.iter().zip(&self.m).zip(x);
        pairs.map(|((b, m), x)| b * x / m).collect()
    }
}

impl SecondOrderMinimax for QuadraticGame {
    fn hessian_vector(&self, _: &[f64], _: &[f64], direction: &[f64], out: &mut [f64]) {
        let (dx, dy) = direction.split_at(self.a.len());
        let (of_x, of_y) = out.split_at_mut(self.a.len());
        self.gradient(dx, dy, (of_x, of_y));
    }

    fn value_least_eigenvalue(&self, _: &[f64]) -> f64 {
        self.eigenvalues().fold(f64::INFINITY, f64::min)
    }
}

/// The least eigenvalue of H + B C^-1 B^T of a dense joint Hessian, by elimination: for tests of closed forms.
#[must_use]
pub fn schur_least(problem: &dyn SecondOrderMinimax, x: &[f64]) -> f64 {
    let y = problem.best_response(x);
    let (dim, first) = (x.len() + y.len(), x.len());
    let mut matrix = vec![0.0; dim * dim];
    for (j, row) in matrix.chunks_mut(dim).enumerate() {
        let mut unit = vec![0.0; dim];
        unit[j] = 1.0;
        problem.hessian_vector(x, &y, &unit, row);
    }
    // Gaussian elimination of the coordinates of y leaves the Schur complement.
    for k in (first..dim).rev() {
        let pivot: Vec<f64> = matrix[k * dim..][..dim].to_vec();
        for i in 0..k {
            let factor = matrix[i * dim + k] / pivot[k];
            for (entry, p) in matrix[i * dim..][..k].iter_mut().zip(&pivot) {
                *entry -= factor * p;
            }
        }
    }
    let left: Vec<f64> = (0..first)
        .flat_map(|i| matrix[i * dim..][..first].to_vec())
        .collect();
    symmetric_spectrum(first, &left).map_or(f64::NAN, |found| found.eigenvalues[0])
}
