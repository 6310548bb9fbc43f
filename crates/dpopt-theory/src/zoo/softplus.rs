//! A cone with an exponentially flat tip: the KL exponent 1 of a smooth function.

use super::radial::{Profile, supremum};
use crate::problem::{ProblemConstants, ProblemError, in_range, positive};

/// phi(r) = ln(1 + e^(u - r0)) - ln(1 + e^(1 - r0)) with u = sqrt(1 + s^2 r^2).
///
/// Far from the centre it is a cone of slope s; where u < r0 it falls off as e^(u - r0), so that its slope is
/// about s times its value: the exponent is 1, and that down to values of about e^(1 - r0). No smooth function has the
/// exponent 1 all the way to its minimum; near it this one is a parabola, and the condition is slack.
///
/// # Constants, for r <= R
/// With p = 1/(1 + e^(r0 - u)): phi' = p s^2 r/u, phi'' = p (1 - p) (s^2 r/u)^2 + p s^2/u^3, phi'/r = p s^2/u.
///
/// - Both are positive: convex, and phi' grows, so L0 = phi'(R).
/// - L1: the largest of phi'' and phi'/r, found on a grid and refined (to 1e-9, and rounded up by that).
/// - KL with kappa = 1 and gamma the largest phi/phi', likewise; at 0 the quotient is 0.
/// - Range phi(R). No constant of the Hessian is stated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Softplus {
    slope: f64,
    offset: f64,
}

impl Softplus {
    /// s and r0, the latter at least 1 and at most 300.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(slope: f64, offset: f64) -> Result<Self, ProblemError> {
        positive("slope", slope)?;
        in_range("offset", offset, 1.0, 300.0)?;
        Ok(Self { slope, offset })
    }

    /// u(r), and u(r) - 1 without cancellation.
    fn lift(&self, r: f64) -> (f64, f64) {
        let x = self.slope * r;
        let u = 1.0f64.hypot(x);
        (u, x * x / (u + 1.0))
    }

    fn share(&self, u: f64) -> f64 {
        (1.0 + (self.offset - u).exp()).recip()
    }
}

impl Profile for Softplus {
    fn value(&self, r: f64) -> f64 {
        // ln((1 + e^(u - r0))/(1 + e^(1 - r0))) = ln(1 + (e^(u - r0) - e^(1 - r0))/(1 + e^(1 - r0))).
        let (u, rise) = self.lift(r);
        let tip = (1.0 - self.offset).exp();
        if rise > 600.0 {
            return u - self.offset - tip.ln_1p();
        }
        (tip * rise.exp_m1() / (1.0 + tip)).ln_1p()
    }

    fn slope(&self, r: f64) -> f64 {
        let (u, _) = self.lift(r);
        self.share(u) * self.slope * self.slope * r / u
    }

    fn curvature(&self, r: f64) -> f64 {
        let (u, _) = self.lift(r);
        let p = self.share(u);
        let square = self.slope * self.slope;
        p * (1.0 - p) * (square * r / u).powi(2) + p * square / (u * u * u)
    }

    fn constants(&self, reach: f64) -> ProblemConstants {
        let bend = supremum(0.0, reach, &|r| self.curvature(r).max(self.slope(r) / r));
        let gamma = supremum(0.0, reach, &|r| self.value(r) / self.slope(r));
        ProblemConstants::first_order(self.slope(reach), bend, 0.0)
            .with_weak_convexity(0.0)
            .with_range(self.value(reach))
            .with_kl(gamma, 1.0)
    }
}
