//! A separable function with ripples that satisfies the Polyak-Lojasiewicz inequality.

use super::radial::largest;
use crate::problem::{
    Problem, ProblemConstants, ProblemError, SecondOrderProblem, in_range, positive,
};

/// F(w) = sum_j h(w_j - c) with h(x) = x^2 + 3 sin^2 x and c = start/sqrt(d): a solver that starts at the origin starts
/// at distance `start` from the minimiser.
///
/// # Constants
/// h' = 2x + 3 sin 2x, h'' = 2 + 6 cos 2x, h''' = -12 sin 2x.
///
/// - L1 = 8, weak convexity 4 and rho = 12, all attained: the Hessian is diagonal. Not convex.
/// - L0 for ||w - c|| <= R: at most 2R + 3 sqrt d, by the triangle inequality.
/// - KL with kappa = 2: a sum of functions of single coordinates with h'^2 >= 2 m h has F's with the same m. gamma = max
///   sqrt(h)/|h'|, over (0, 10] on a grid and refined (to 1e-9, and rounded up by that); beyond 10 it is at most
///   sqrt(x^2 + 3)/(2x - 3) < 0.6. So m is 0.1755, where 1/32 is the constant of the literature.
/// - F0 = d h(c); the range for ||w - c|| <= R is at most R^2 + 3d.
///
/// Source: Karimi, Nutini and Schmidt 2016.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sines {
    dim: usize,
    start: f64,
    reach: f64,
}

impl Sines {
    /// In dimension `dim`, started at distance `start` from the minimiser, with constants up to distance
    /// `reach` >= `start`.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(dim: usize, start: f64, reach: f64) -> Result<Self, ProblemError> {
        if dim == 0 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        positive("start", start)?;
        in_range("reach", reach, start, f64::INFINITY)?;
        Ok(Self { dim, start, reach })
    }

    fn centre(&self) -> f64 {
        self.start / (self.dim as f64).sqrt()
    }
}

fn height(x: f64) -> f64 {
    x * x + 3.0 * x.sin().powi(2)
}

fn slope(x: f64) -> f64 {
    2.0 * x + 3.0 * (2.0 * x).sin()
}

impl Problem for Sines {
    fn dim(&self) -> usize {
        self.dim
    }

    fn constants(&self) -> ProblemConstants {
        let gamma = largest(0.0, 10.0, |x| height(x).sqrt() / slope(x).abs()) * (1.0 + 1e-9);
        let lipschitz = 2.0 * self.reach + 3.0 * (self.dim as f64).sqrt();
        let gap = self.dim as f64 * height(self.centre());
        ProblemConstants::first_order(lipschitz, 8.0, gap)
            .with_hessian_lipschitz(12.0)
            .with_weak_convexity(4.0)
            .with_range(self.reach * self.reach + 3.0 * self.dim as f64)
            .with_kl(gamma, 2.0)
            .within(vec![self.centre(); self.dim], self.reach)
    }

    fn value(&self, point: &[f64]) -> f64 {
        point.iter().map(|w| height(w - self.centre())).sum()
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        for (out, w) in out.iter_mut().zip(point) {
            *out = slope(w - self.centre());
        }
    }
}

impl SecondOrderProblem for Sines {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        for ((out, v), w) in out.iter_mut().zip(direction).zip(point) {
            *out = (2.0 + 6.0 * (2.0 * (w - self.centre())).cos()) * v;
        }
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let bends = point
            .iter()
            .map(|w| 2.0 + 6.0 * (2.0 * (w - self.centre())).cos());
        bends.fold(f64::INFINITY, f64::min)
    }
}
