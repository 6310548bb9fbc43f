//! A sharp minimum with ripples around it: weakly convex, with KL exponent above 2.

use super::radial::{Profile, largest};
use crate::problem::{ProblemConstants, ProblemError, in_range, positive};

/// phi(r) = r^tau/tau + B (1 - cos(omega r)) with 1 < tau < 2.
///
/// # Constants, for r <= R
/// phi' = r^(tau-1) + B omega sin(omega r), phi'' = (tau-1) r^(tau-2) + B omega^2 cos(omega r).
///
/// - L0: the largest |phi'| on [0, R], found on a grid and refined (to 1e-9, and rounded up by
///   that).
/// - L1 is infinite: phi'' and phi'/r grow without bound at 0.
/// - Weak convexity: the largest of -phi'' and -phi'/r on (0, R], likewise; at most B omega^2.
/// - phi' must be positive on (0, R], which is checked; then 0 is the only critical point and phi
///   grows.
/// - KL with kappa = tau/(tau-1) > 2 (of the small radii, where phi is r^tau/tau) and gamma the
///   largest phi^(1/kappa)/phi', likewise. At 0 it is tau^(1/tau - 1).
/// - Range: phi(R).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeaklyConvex {
    tau: f64,
    height: f64,
    frequency: f64,
}

impl WeaklyConvex {
    /// tau in (1, 2), B and omega.
    ///
    /// # Errors
    /// [`ProblemError`]; also where B omega is so large that phi' vanishes somewhere above 0.
    pub fn new(tau: f64, height: f64, frequency: f64) -> Result<Self, ProblemError> {
        positive("height", height)?;
        positive("frequency", frequency)?;
        in_range("tau", tau, 1.0f64.next_up(), 2.0f64.next_down())?;
        let profile = Self {
            tau,
            height,
            frequency,
        };
        // Beyond r with r^(tau-1) > B omega the slope is positive.
        let end = (height * frequency).powf(1.0 / (tau - 1.0));
        let least = -largest(0.0, end.max(f64::MIN_POSITIVE), |r| -profile.slope(r));
        if !(least > 0.0) {
            return Err(ProblemError::OutOfRange {
                name: "height",
                value: height,
                low: 0.0,
                high: f64::NAN,
            });
        }
        Ok(profile)
    }
}

impl Profile for WeaklyConvex {
    fn value(&self, r: f64) -> f64 {
        // 1 - cos x = 2 sin^2(x/2), without cancellation.
        let half = (0.5 * self.frequency * r).sin();
        r.powf(self.tau) / self.tau + 2.0 * self.height * half * half
    }

    fn slope(&self, r: f64) -> f64 {
        r.powf(self.tau - 1.0) + self.height * self.frequency * (self.frequency * r).sin()
    }

    fn curvature(&self, r: f64) -> f64 {
        (self.tau - 1.0) * r.powf(self.tau - 2.0)
            + self.height * self.frequency * self.frequency * (self.frequency * r).cos()
    }

    fn constants(&self, reach: f64) -> ProblemConstants {
        let up = 1.0 + 1e-9;
        let kappa = self.tau / (self.tau - 1.0);
        let over = |f: &dyn Fn(f64) -> f64| largest(0.0, reach, f).max(f(reach));
        let lipschitz = over(&|r| self.slope(r).abs()) * up;
        let bend = over(&|r| -self.curvature(r).min(self.slope(r) / r));
        let at_zero = self.tau.powf(1.0 / self.tau - 1.0);
        let gamma = over(&|r| self.value(r).powf(1.0 / kappa) / self.slope(r)).max(at_zero) * up;
        ProblemConstants::first_order(lipschitz, f64::INFINITY, 0.0)
            .with_weak_convexity(bend.max(0.0) * up)
            .with_range(self.value(reach))
            .with_kl(gamma, kappa)
    }
}
