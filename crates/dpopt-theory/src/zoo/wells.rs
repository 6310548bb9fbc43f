//! A strict saddle at the start, with wells around it.

use dpopt_linalg::{add_scaled, dot, norm, symmetric_spectrum};

use crate::problem::{
    Problem, ProblemConstants, ProblemError, SecondOrderProblem, in_range, positive,
};

/// F(w) = A (sqrt(1 + ||w||^2) - 1) + sum_{j < K} b_j (cos w_j - 1), with b_j > 0: the origin is a
/// critical point whose Hessian is A I - diag(b), a strict saddle where some b_j > A.
///
/// # Constants, everywhere
/// - L0 = A + ||b||: the first part has gradient A w/sqrt(1 + ||w||^2), below A, the second is at
///   most ||b||. Approached for ||w|| large with all w_j near -pi/2 (mod 2 pi).
/// - L1 = A + max b: the first part's Hessian A [I/s - w w^T/s^3], s = sqrt(1 + ||w||^2), has
///   eigenvalues in (0, A], the second's are -b_j cos w_j. At 0 the second pulls down; near w_j = pi
///   both add up, to A/s + b_j.
/// - Weak convexity: max b (the first part is convex).
/// - rho = 48 A/(25 sqrt 5) + max b. The pseudo-Huber part is the radial function sqrt(1 + r^2), with
///   phi''' = -3r/s^5, k = -r/s^3 and the third derivative -(3r/s^5) c (c^2 + s^2 (1 - c^2)), whose
///   largest size over c and r is 48/(25 sqrt 5) = 0.8587, at c = 1, r = 1/2. (For r^2 <= 1/2 the
///   largest is at c = 1; beyond, at c^2 = s^2/(3 r^2), it is 2/(sqrt 3 s^2), at most 0.77.)
/// - C_F = (sum_j (A + b_j)^2 + (d - K) A^2)^(1/2): for X in (0, A I] and Y = diag(-b_j cos w_j), tr X^2 + 2 tr X Y + tr Y^2 is at most
///   d A^2 + 2 A sum b_j + sum b_j^2.
/// - F0 <= 2 sum b, by F >= -2 sum b: an upper bound (the first part costs something at the wells).
#[derive(Debug, Clone, PartialEq)]
pub struct Wells {
    dim: usize,
    bowl: f64,
    depths: Vec<f64>,
}

impl Wells {
    /// Dimension, A, and the b_j of the first coordinates: at most 256 of them, and fewer than `dim`.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(dim: usize, bowl: f64, depths: Vec<f64>) -> Result<Self, ProblemError> {
        positive("bowl", bowl)?;
        for &depth in &depths {
            positive("depth", depth)?;
        }
        let most = 256.min(dim.saturating_sub(1));
        in_range("number of wells", depths.len() as f64, 1.0, most as f64)?;
        Ok(Self { dim, bowl, depths })
    }

    fn deepest(&self) -> f64 {
        self.depths.iter().copied().fold(0.0, f64::max)
    }

    fn frobenius(&self) -> f64 {
        let flat = (self.dim - self.depths.len()) as f64 * self.bowl * self.bowl;
        let wells = self.depths.iter().map(|b| (self.bowl + b).powi(2));
        (wells.sum::<f64>() + flat).sqrt()
    }

    /// sqrt(1 + ||w||^2).
    fn hull(point: &[f64]) -> f64 {
        norm(point).hypot(1.0)
    }
}

impl Problem for Wells {
    fn dim(&self) -> usize {
        self.dim
    }

    fn constants(&self) -> ProblemConstants {
        let hull = 48.0 / (25.0 * 5f64.sqrt());
        let lipschitz = self.bowl + norm(&self.depths);
        let smoothness = self.bowl + self.deepest();
        let gap = 2.0 * self.depths.iter().sum::<f64>();
        ProblemConstants::first_order(lipschitz, smoothness, gap)
            .with_hessian_lipschitz(hull * self.bowl + self.deepest())
            .with_hessian_frobenius(self.frobenius())
            .with_weak_convexity(self.deepest())
    }

    fn value(&self, point: &[f64]) -> f64 {
        // s - 1 = ||w||^2/(s + 1), and cos x - 1 = -2 sin^2(x/2).
        let s = Self::hull(point);
        let wells: f64 = self
            .depths
            .iter()
            .zip(point)
            .map(|(b, x)| -2.0 * b * (0.5 * x).sin().powi(2))
            .sum();
        self.bowl * dot(point, point) / (s + 1.0) + wells
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        add_scaled(out, self.bowl / Self::hull(point), point);
        for ((out, b), x) in out.iter_mut().zip(&self.depths).zip(point) {
            *out -= b * x.sin();
        }
    }
}

impl SecondOrderProblem for Wells {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let s = Self::hull(point);
        out.fill(0.0);
        add_scaled(out, self.bowl / s, direction);
        let along = dot(point, direction) / s;
        add_scaled(out, -self.bowl * along / (s * s), point);
        for (((out, b), x), v) in out.iter_mut().zip(&self.depths).zip(point).zip(direction) {
            *out -= b * x.cos() * v;
        }
    }

    /// The coordinates without a well share one eigenspace of the diagonal part; all of it that is
    /// orthogonal to the point has the eigenvalue A/s, and its direction along the point is one more
    /// coordinate. What is left is a matrix of order K + 1.
    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let s = Self::hull(point);
        let wells = self.depths.len();
        let mut reduced: Vec<f64> = point[..wells].to_vec();
        reduced.push(norm(&point[wells..]));
        let order = wells + 1;
        let mut matrix = vec![0.0; order * order];
        for i in 0..order {
            for j in 0..order {
                matrix[i * order + j] = -self.bowl * (reduced[i] / s) * (reduced[j] / s) / s;
            }
            matrix[i * order + i] += self.bowl / s;
            if i < wells {
                matrix[i * order + i] -= self.depths[i] * point[i].cos();
            }
        }
        let rest = if self.dim > order {
            self.bowl / s
        } else {
            f64::INFINITY
        };
        symmetric_spectrum(order, &matrix)
            .map_or(f64::NAN, |spectrum| spectrum.eigenvalues[0].min(rest))
    }
}
