//! Powers of the radius with log-periodic wiggles: nonconvex functions with an exact KL exponent.

use super::radial::{Profile, largest, supremum};
use crate::problem::{ProblemConstants, ProblemError, in_range, positive};

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
/// Over one period the radius falls by the factor e^(-2 pi/omega) and every derivative of order j by that to
/// the power tau - j. So where tau >= j its largest size on (0, R] is the largest in the last period, which
/// is found on a grid and refined (to 1e-9, and rounded up by that), and attained:
///
/// - L0: of phi', at most A tau R^m (1 + a).
/// - L1: of |phi''| and phi'/r, at most A tau R^(tau-2) [m + a sqrt(m^2 + omega^2)], which it is for
///   tau = 2.
/// - Weak convexity: of -phi''; not convex iff a sqrt(m^2 + omega^2) > m.
/// - rho, for tau >= 3: of the third derivative's norm, max over c in [0, 1] of |(T - 3k) c^3 + 3 k c| with
///   T = phi''' = A tau r^(tau-3) [(tau-2) m (1 + a sin t) + a ((2 tau - 3) omega cos t - omega^2 sin t)] and
///   k = (phi'' - phi'/r)/r. That is |T| at c = 1, or 2 |k| c at c^2 = k/(3k - T) where that is in
///   (0, 1).
/// - KL with kappa = tau/(tau-1): F^(1/kappa)/phi' is A^(1/kappa - 1) times a periodic function of t;
///   gamma is its maximum over a period (found to 1e-9, and rounded up by that).
/// - Range: phi grows, so phi(R).
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
        in_range("tau", tau, 2.0, 64.0)?;
        in_range("depth", depth, 0.0, 1.0f64.next_down())?;
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
        let last = |f: &dyn Fn(f64) -> f64| {
            let from = reach * (-std::f64::consts::TAU / omega).exp();
            supremum(from, reach, f)
        };
        let third = |r: f64| {
            let (sin, cos) = (omega * r.ln()).sin_cos();
            let wave = (2.0 * tau - 3.0) * omega * cos - omega * omega * sin;
            let bracket = (tau - 2.0) * (tau - 1.0) * (1.0 + a * sin) + a * wave;
            let cubic = self.scale * tau * r.powf(tau - 3.0) * bracket;
            let mixed = (self.curvature(r) - self.slope(r) / r) / r;
            let square = mixed / (3.0 * mixed - cubic);
            if square > 0.0 && square < 1.0 {
                cubic.abs().max(2.0 * mixed.abs() * square.sqrt())
            } else {
                cubic.abs()
            }
        };
        let rho = if tau >= 3.0 {
            last(&third)
        } else {
            f64::INFINITY
        };
        let smoothness = last(&|r| self.curvature(r).abs().max(self.slope(r) / r));
        ProblemConstants::first_order(last(&|r| self.slope(r)), smoothness, 0.0)
            .with_hessian_lipschitz(rho)
            .with_weak_convexity(last(&|r| -self.curvature(r)).max(0.0))
            .with_range(self.value(reach))
            .with_kl(self.gamma(), tau / (tau - 1.0))
    }
}
