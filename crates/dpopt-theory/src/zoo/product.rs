//! The smallest matrix factorisation: minimisers that are not isolated, and a saddle.

use crate::problem::{
    Problem, ProblemConstants, ProblemError, SecondOrderProblem, in_range, positive,
};

/// F(w) = (u v - 1)^2/2 with (u, v) = (a, a) + w: a solver that starts at the origin starts at (a, a).
///
/// # Constants, for ||w|| <= R < sqrt(2) a
/// With S = sqrt(2) a + R the largest and s = sqrt(2) a - R the least norm of (u, v), |u v| <= S^2/2, and e = u v - 1 is at
/// most E = S^2/2 + 1. grad F = e (v, u); the Hessian is (v, u)(v, u)^T + e (0 1; 1 0).
///
/// - L0 = E S, L1 = S^2 + E, weak convexity E, rho = 3 S: (v, u)(v, u)^T moves by at most 2 S ||dw|| and e by at most S ||dw||.
/// - KL with kappa = 2 and gamma = 1/(sqrt(2) s): ||grad F||^2 = 2 (u^2 + v^2) F >= 2 s^2 F. The saddle at (u, v) = 0, where it
///   would fail, is outside.
/// - F0 = (a^2 - 1)^2/2, as the minimisers u v = 1 form a curve with F = 0. One of them, (1, 1), is inside if R >= sqrt(2) |a - 1|.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    start: f64,
    reach: f64,
}

impl Product {
    /// Started at (a, a), with constants up to distance R < sqrt(2) a from there.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(start: f64, reach: f64) -> Result<Self, ProblemError> {
        positive("start", start)?;
        positive("reach", reach)?;
        let high = std::f64::consts::SQRT_2 * start;
        in_range("reach", reach, 0.0, high.next_down())?;
        Ok(Self { start, reach })
    }

    fn factors(&self, point: &[f64]) -> (f64, f64, f64) {
        let (u, v) = (self.start + point[0], self.start + point[1]);
        (u, v, u * v - 1.0)
    }

    /// S and E.
    fn most(&self) -> (f64, f64) {
        let far = std::f64::consts::SQRT_2 * self.start + self.reach;
        (far, 0.5 * far * far + 1.0)
    }
}

impl Problem for Product {
    fn dim(&self) -> usize {
        2
    }

    fn constants(&self) -> ProblemConstants {
        let (far, error) = self.most();
        let root = std::f64::consts::SQRT_2;
        let near = root * self.start - self.reach;
        let gap = 0.5 * (self.start * self.start - 1.0).powi(2);
        ProblemConstants::first_order(error * far, far * far + error, gap)
            .with_hessian_lipschitz(3.0 * far)
            .with_weak_convexity(error)
            .with_range(0.5 * error * error)
            .with_kl((root * near).recip(), 2.0)
            .within(vec![0.0; 2], self.reach)
    }

    fn value(&self, point: &[f64]) -> f64 {
        let (_, _, error) = self.factors(point);
        0.5 * error * error
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        let (u, v, error) = self.factors(point);
        out[0] = error * v;
        out[1] = error * u;
    }
}

impl SecondOrderProblem for Product {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let (u, v, error) = self.factors(point);
        let along = v * direction[0] + u * direction[1];
        out[0] = v * along + error * direction[1];
        out[1] = u * along + error * direction[0];
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let (u, v, error) = self.factors(point);
        let (middle, half) = (0.5 * (u * u + v * v), 0.5 * (u * u - v * v));
        middle - half.hypot(u * v + error)
    }
}
