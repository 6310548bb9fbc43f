//! A long ramp beside a cone: kinks on both, where Goldstein distances fall as slowly as their bounds.

use dpopt_linalg::norm;

use crate::problem::{Problem, ProblemConstants, ProblemError, positive};

/// Slope of the cone.
const CONE: f64 = 0.5;

/// The "ramp-cone" problem.
///
/// # Formula
/// w = (z, u) with u in R^(d-1):
///
/// F(w) = F0 - s min(z, F0/s) + ||u||/2.
///
/// It falls by F0 from the origin on, has L = sqrt(s^2 + 1/4), and no Lipschitz gradient. Before the end of the ramp, at z = F0/s,
/// every mean of gradients is at least s long, so its Goldstein distance at radius r is at least s up to r before that end. A walk must cross the
/// ramp (in steps of D), while noise keeps it off the axis of the cone. **The worst mean over slopes s is what a bound is compared with.**
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RampCone {
    dim: usize,
    initial_gap: f64,
    slope: f64,
}

impl RampCone {
    /// In dimension `dim`, with gap F0 and slope s.
    ///
    /// # Errors
    /// [`ProblemError`] when a number is not positive and finite, or the dimension is below 2.
    pub fn new(dim: usize, initial_gap: f64, slope: f64) -> Result<Self, ProblemError> {
        if dim < 2 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        positive("initial_gap", initial_gap)?;
        positive("slope", slope)?;
        Ok(Self {
            dim,
            initial_gap,
            slope,
        })
    }

    /// s.
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.slope
    }

    /// Where the ramp ends: F0/s.
    #[must_use]
    pub fn end(&self) -> f64 {
        self.initial_gap / self.slope
    }
}

impl Problem for RampCone {
    fn dim(&self) -> usize {
        self.dim
    }

    fn constants(&self) -> ProblemConstants {
        let lipschitz = self.slope.hypot(CONE);
        ProblemConstants::first_order(lipschitz, f64::INFINITY, self.initial_gap)
    }

    /// F(w), with inf F = 0.
    fn value(&self, point: &[f64]) -> f64 {
        let fallen = self.slope * point[0].min(self.end());
        self.initial_gap - fallen + CONE * norm(&point[1..])
    }

    /// At the kinks: 0 of the ramp, 0 of the cone.
    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out[0] = if point[0] < self.end() {
            -self.slope
        } else {
            0.0
        };
        let radius = norm(&point[1..]);
        let factor = if radius > 0.0 { CONE / radius } else { 0.0 };
        for (out, u) in out[1..].iter_mut().zip(&point[1..]) {
            *out = factor * u;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_that_of_the_value_and_no_longer_than_the_constant() {
        let problem = RampCone::new(3, 0.5, 0.2).unwrap();
        assert_eq!(problem.value(&[0.0; 3]), 0.5);
        assert_eq!(problem.value(&[2.5, 0.0, 0.0]), 0.0);
        assert_eq!(problem.value(&[9.0, 0.0, 0.0]), 0.0);
        for point in [[0.3, 0.4, -0.2], [-7.0, 0.0, 1.0], [3.0, -0.1, 0.1]] {
            let mut gradient = [0.0; 3];
            problem.gradient(&point, &mut gradient);
            for i in 0..3 {
                let at = |h: f64| {
                    let mut moved = point;
                    moved[i] += h;
                    problem.value(&moved)
                };
                let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!((slope - gradient[i]).abs() < 1e-8, "{point:?} {i}");
            }
            assert!(norm(&gradient) <= problem.constants().lipschitz * (1.0 + 1e-15));
        }
        assert!(RampCone::new(1, 0.5, 0.2).is_err());
        assert!(RampCone::new(2, 0.5, f64::NAN).is_err());
    }
}
