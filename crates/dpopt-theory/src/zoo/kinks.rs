//! Nonsmooth functions of the radius, for Goldstein stationarity.

use super::radial::Profile;
use crate::problem::ProblemConstants;

/// phi(r) = |r - 1|: a kink on a sphere, concave inside.
///
/// # Constants, for all r
/// - L0 = 1, attained everywhere off the kink; L1 is infinite.
/// - Range, for r <= R: max(1, R - 1). F0 = |start - 1|.
/// - Not weakly convex at the centre, where -r has a ridge.
///
/// # Goldstein distance
/// In closed form: 0 where |r - 1| <= a or r <= a, else sqrt(1 - (a/r)^2). (phi' is constant on the
/// ball, so the shortest axial part is where cos t is least: at rho^2 = r^2 - a^2, the tangent.) The
/// tangent point is in the ball always, so that holds on both sides of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ring;

impl Ring {
    /// The Goldstein distance at distance `r` from the centre, in closed form.
    #[must_use]
    pub fn goldstein(r: f64, radius: f64) -> f64 {
        if (r - 1.0).abs() <= radius || r <= radius {
            0.0
        } else {
            (1.0 - (radius / r).powi(2)).sqrt()
        }
    }
}

impl Profile for Ring {
    fn value(&self, r: f64) -> f64 {
        (r - 1.0).abs()
    }

    fn slope(&self, r: f64) -> f64 {
        if r > 1.0 {
            1.0
        } else if r < 1.0 {
            -1.0
        } else {
            0.0
        }
    }

    fn curvature(&self, _: f64) -> f64 {
        0.0
    }

    fn kinks(&self) -> Vec<f64> {
        vec![1.0]
    }

    fn constants(&self, reach: f64) -> ProblemConstants {
        ProblemConstants::first_order(1.0, f64::INFINITY, 0.0).with_range((reach - 1.0).max(1.0))
    }
}

/// phi(r) = ln(1 + r): a kink at the centre, and gradients that fade away from it.
///
/// # Constants, for all r
/// - L0 = 1, approached at the centre; phi' = 1/(1 + r); L1 is infinite at the centre.
/// - Weak convexity 1: phi'' = -1/(1 + r)^2 >= -1, phi'/r > 0, and the kink at the centre is convex.
/// - KL, for r <= R, with kappa = 1: (gamma phi')^1 >= phi iff gamma >= (1 + r) ln(1 + r), which grows:
///   gamma = (1 + R) ln(1 + R).
/// - Range, for r <= R: ln(1 + R).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Logarithm;

impl Profile for Logarithm {
    fn value(&self, r: f64) -> f64 {
        r.ln_1p()
    }

    fn slope(&self, r: f64) -> f64 {
        1.0 / (1.0 + r)
    }

    fn curvature(&self, r: f64) -> f64 {
        -(1.0 + r).powi(-2)
    }

    fn constants(&self, reach: f64) -> ProblemConstants {
        ProblemConstants::first_order(1.0, f64::INFINITY, 0.0)
            .with_weak_convexity(1.0)
            .with_range(reach.ln_1p())
            .with_kl((1.0 + reach) * reach.ln_1p(), 1.0)
    }
}
