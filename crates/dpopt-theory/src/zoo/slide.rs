//! A slide into a valley along one axis, of one steepness for nearly all of the way.

use crate::problem::{Problem, ProblemConstants, ProblemError, SecondOrderProblem, positive};

/// The "slide" problem, the ramp of one-pass rates: F(w) = s (sqrt(1 + (w_1 - k)^2) - 1), where k = sqrt((1 + F0/s)^2 - 1) is where the
/// valley is, so that F(0) - inf F = F0. All other coordinates are flat.
///
/// The gradient is nearly s long all the way, which is the longest that F0 allows: the drift of a walk is F0/s, up to constants. **The worst of
/// slopes around the length at which a walk stops is what a plan is compared with.**
///
/// # Constants, everywhere
/// With t = w_1 - k: F' = s t/sqrt(1 + t^2), F'' = s (1 + t^2)^(-3/2), F''' = -3 s t (1 + t^2)^(-5/2).
/// - L0 = s, approached far out; L1 = s at k, and C_F = s, since the Hessian has rank one; it is convex.
/// - rho = 48 s/(25 sqrt 5), at t = 1/2.
/// - F0, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slide {
    dim: usize,
    gap: f64,
    slope: f64,
    valley: f64,
}

impl Slide {
    /// In dimension `dim`, with gap F0 and slope s.
    ///
    /// # Errors
    /// [`ProblemError`] for a dimension below 2, and for numbers that are not positive and finite.
    pub fn new(dim: usize, gap: f64, slope: f64) -> Result<Self, ProblemError> {
        if dim < 2 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        positive("initial_gap", gap)?;
        positive("slope", slope)?;
        let height = gap / slope;
        Ok(Self {
            dim,
            gap,
            slope,
            // (1 + h)^2 - 1, without cancellation.
            valley: (height * (2.0 + height)).sqrt(),
        })
    }

    /// Where the valley is along the first axis.
    #[must_use]
    pub fn valley(&self) -> f64 {
        self.valley
    }
}

impl Problem for Slide {
    fn dim(&self) -> usize {
        self.dim
    }

    fn constants(&self) -> ProblemConstants {
        let slope = self.slope;
        ProblemConstants::first_order(slope, slope, self.gap)
            .with_hessian_lipschitz(48.0 / (25.0 * 5f64.sqrt()) * slope)
            .with_hessian_frobenius(slope)
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.slope * ((point[0] - self.valley).hypot(1.0) - 1.0)
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        let t = point[0] - self.valley;
        out.fill(0.0);
        out[0] = self.slope * t / t.hypot(1.0);
    }
}

impl SecondOrderProblem for Slide {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let hull = (point[0] - self.valley).hypot(1.0);
        out.fill(0.0);
        out[0] = self.slope / hull.powi(3) * direction[0];
    }

    fn least_eigenvalue(&self, _: &[f64]) -> f64 {
        0.0
    }
}
