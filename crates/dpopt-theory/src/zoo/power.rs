//! Powers of the radius: the KL exponents.

use super::radial::Profile;
use crate::problem::{ProblemConstants, ProblemError, in_range};

/// phi(r) = r^tau/tau, with tau > 1.
///
/// # Constants, for r <= R
/// phi' = r^(tau-1), phi'' = (tau-1) r^(tau-2), phi'/r = r^(tau-2), phi''' = (tau-1)(tau-2)
/// r^(tau-3).
///
/// - L0 = R^(tau-1), attained at R.
/// - L1: for tau >= 2 the larger eigenvalue is phi'', so L1 = (tau-1) R^(tau-2), attained at R; for
///   tau < 2 both grow without bound at 0.
/// - rho: 0 for tau = 2. For tau >= 3, k = (phi'' - phi'/r)/r = (tau-2) r^(tau-3), and
///   phi''' c^3 + 3 k c (1 - c^2) with phi''' >= 2k grows on [0, 1] (its derivative at c is
///   3 (phi''' - 3k) c^2 + 3k, at least 3k - 3k c^2): the largest is phi''' at c = 1, so rho =
///   (tau-1)(tau-2) R^(tau-3). Otherwise unbounded at 0.
/// - Convex.
/// - KL with kappa = tau/(tau-1) and gamma = tau^(1/tau - 1), **tight everywhere**: F = r^tau/tau and
///   (gamma r^(tau-1))^kappa = gamma^kappa r^tau with gamma^kappa = 1/tau.
/// - Range R^tau/tau; F0 = start^tau/tau.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    tau: f64,
}

impl Power {
    /// The exponent tau, above 1 and at most 64.
    ///
    /// # Errors
    /// [`ProblemError::OutOfRange`].
    pub fn new(tau: f64) -> Result<Self, ProblemError> {
        in_range("tau", tau, 1.0f64.next_up(), 64.0)?;
        Ok(Self { tau })
    }

    /// tau.
    #[must_use]
    pub fn tau(&self) -> f64 {
        self.tau
    }
}

impl Profile for Power {
    fn value(&self, r: f64) -> f64 {
        r.powf(self.tau) / self.tau
    }

    fn slope(&self, r: f64) -> f64 {
        r.powf(self.tau - 1.0)
    }

    fn curvature(&self, r: f64) -> f64 {
        (self.tau - 1.0) * r.powf(self.tau - 2.0)
    }

    fn constants(&self, reach: f64) -> ProblemConstants {
        let tau = self.tau;
        let smoothness = if tau >= 2.0 {
            (tau - 1.0) * reach.powf(tau - 2.0)
        } else {
            f64::INFINITY
        };
        let rho = if tau == 2.0 {
            0.0
        } else if tau >= 3.0 {
            (tau - 1.0) * (tau - 2.0) * reach.powf(tau - 3.0)
        } else {
            f64::INFINITY
        };
        ProblemConstants::first_order(reach.powf(tau - 1.0), smoothness, 0.0)
            .with_hessian_lipschitz(rho)
            .with_weak_convexity(0.0)
            .with_range(self.value(reach))
            .with_kl(tau.powf(1.0 / tau - 1.0), tau / (tau - 1.0))
    }
}
