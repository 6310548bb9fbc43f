//! Powers of the radius with log-periodic wiggles: nonconvex functions with an exact KL exponent.

use super::radial::{Profile, largest};
use crate::problem::{ProblemConstants, ProblemError, positive};

/// phi(r) = A r^tau [1 + a tau (tau sin t - omega cos t)/(tau^2 + omega^2)] with t = omega ln r, and
/// phi'(r) = A tau r^(tau-1) (1 + a sin t).
///
/// Proof of phi': with S = tau sin t - omega cos t, r dS/dr = omega (tau cos t + omega sin t), so
/// r d(r^tau S)/dr = r^tau (tau^2 + omega^2) sin t.
///
/// # Constants, for r <= R; tau >= 2, 0 <= a < 1
/// With m = tau - 1: phi'' = A tau r^(tau-2) [m (1 + a sin t) + a omega cos t] and phi'/r =
/// A tau r^(tau-2) (1 + a sin t).
///
/// - L0 = A tau R^m (1 + a), attained once a period.
/// - L1 = A tau R^(tau-2) [m + a sqrt(m^2 + omega^2)]; phi' /r is no larger as m >= 1. Once a
///   period, and at the latest a period below R, phi'' comes that close (exactly, for tau = 2).
/// - Weak convexity: A tau R^(tau-2) max(0, a sqrt(m^2 + omega^2) - m), likewise. Not convex if that
///   is positive.
/// - rho, for tau >= 3: phi''' = A tau r^(tau-3) [(tau-2) m + a (sin t ((tau-2) m - omega^2) + cos t omega
///   (2 tau - 3))], in size at most A tau R^(tau-3) T with T = (tau-2) m + a sqrt(m^2 + omega^2)
///   sqrt((tau-2)^2 + omega^2); k = (phi'' - phi'/r)/r is at most A tau R^(tau-3) K with K = tau - 2 +
///   a sqrt((tau-2)^2 + omega^2). So rho <= A tau R^(tau-3) max over c in [0, 1] of T c^3 +
///   3 K c (1 - c^2): an upper bound, attained where T c^3 dominates up to the phase.
/// - KL with kappa = tau/(tau-1): F^(1/kappa)/phi' is A^(1/kappa - 1) times a periodic function of t;
///   gamma is its maximum over a period (found to 1e-9, and rounded up by that).
/// - Range: phi grows, so phi(R).
///
/// Source: the project's notes on the KL condition, section 7.1, RLP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogPeriodic {
    scale: f64,
    tau: f64,
    depth: f64,
    frequency: f64,
}

impl LogPeriodic {
    /// A, tau in [2, 64], a in [0, 1), omega.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(scale: f64, tau: f64, depth: f64, frequency: f64) -> Result<Self, ProblemError> {
        positive("scale", scale)?;
        positive("frequency", frequency)?;
        let within = |name, value: f64, low, high| {
            if value >= low && value <= high {
                Ok(())
            } else {
                Err(ProblemError::OutOfRange {
                    name,
                    value,
                    low,
                    high,
                })
            }
        };
        within("tau", tau, 2.0, 64.0)?;
        within("depth", depth, 0.0, 1.0f64.next_down())?;
        Ok(Self {
            scale,
            tau,
            depth,
            frequency,
        })
    }

    /// 1 + a tau (tau sin t - omega cos t)/(tau^2 + omega^2).
    fn wiggle(&self, phase: f64) -> f64 {
        let (tau, omega) = (self.tau, self.frequency);
        let (sin, cos) = phase.sin_cos();
        1.0 + self.depth * tau * (tau * sin - omega * cos) / (tau * tau + omega * omega)
    }

    fn gamma(&self) -> f64 {
        let root = 1.0 - 1.0 / self.tau;
        let ratio = |phase: f64| {
            let slope = self.tau * (1.0 + self.depth * phase.sin());
            self.wiggle(phase).powf(root) / slope
        };
        let top = largest(0.0, std::f64::consts::TAU, ratio);
        self.scale.powf(root - 1.0) * top * (1.0 + 1e-9)
    }
}

impl Profile for LogPeriodic {
    fn value(&self, r: f64) -> f64 {
        if r == 0.0 {
            return 0.0;
        }
        self.scale * r.powf(self.tau) * self.wiggle(self.frequency * r.ln())
    }

    fn slope(&self, r: f64) -> f64 {
        if r == 0.0 {
            return 0.0;
        }
        let sin = (self.frequency * r.ln()).sin();
        self.scale * self.tau * r.powf(self.tau - 1.0) * (1.0 + self.depth * sin)
    }

    fn curvature(&self, r: f64) -> f64 {
        if r == 0.0 {
            return 0.0;
        }
        let (sin, cos) = (self.frequency * r.ln()).sin_cos();
        let bracket =
            (self.tau - 1.0) * (1.0 + self.depth * sin) + self.depth * self.frequency * cos;
        self.scale * self.tau * r.powf(self.tau - 2.0) * bracket
    }

    fn constants(&self, reach: f64) -> ProblemConstants {
        let (tau, a, omega) = (self.tau, self.depth, self.frequency);
        let m = tau - 1.0;
        let unit = self.scale * tau;
        let swing = a * m.hypot(omega);
        let lipschitz = unit * reach.powf(m) * (1.0 + a);
        let second = unit * reach.powf(tau - 2.0);
        let rho = if tau >= 3.0 {
            let cubic = (tau - 2.0) * m + swing * (tau - 2.0).hypot(omega);
            let mixed = tau - 2.0 + a * (tau - 2.0).hypot(omega);
            let tensor = |c: f64| cubic * c.powi(3) + 3.0 * mixed * c * (1.0 - c * c);
            let top = largest(0.0, 1.0, tensor).max(tensor(1.0));
            unit * reach.powf(tau - 3.0) * top * (1.0 + 1e-9)
        } else {
            f64::INFINITY
        };
        ProblemConstants::first_order(lipschitz, second * (m + swing), 0.0)
            .with_hessian_lipschitz(rho)
            .with_weak_convexity(second * (swing - m).max(0.0))
            .with_range(self.value(reach))
            .with_kl(self.gamma(), tau / m)
    }
}
