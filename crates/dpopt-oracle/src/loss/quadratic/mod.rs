//! Losses of a quadratic measurement: phase retrieval, metric learning.
//!
//! f(w) = phi(q(w), y) with q a homogeneous quadratic form of the parameters and phi one of the
//! scalar losses of [`Glm`], usually a robust one. Such a loss has constants on a ball ||w|| <= R
//! only, because the gradient of q grows with w: the ball is public and part of the loss.
//!
//! # Formula
//! Where ||grad q|| <= G on the ball and ||hess q|| <= B, and s, c, t bound |phi'|, |phi''|,
//! |phi'''|:
//!
//! - grad f = phi' grad q, so L0 = s G;
//! - hess f = phi'' grad q grad q^T + phi' hess q, so L1 = c G^2 + s B;
//! - in Frobenius norm, C_F = c G^2 + s ||hess q||_F, as grad q grad q^T has rank one;
//! - along a unit v the third derivative is phi''' <grad q, v>^3 + 3 phi'' <grad q, v> <v, hess q v>, so
//!   rho = t G^3 + 3 c G B;
//! - q(0) = 0 and phi >= 0, so the gap is that of phi.
//!
//! L0 is attained; L1, C_F and rho are upper bounds, as phi' and phi'' need not be largest together. Where G is small L1 and C_F are
//! attained too: at w = 0 the Hessian is phi' hess q.
//!
//! # Privacy
//! Nothing depends on the ball: a gradient outside it, where it may be longer than L0, is clipped
//! like any other, and costs accuracy only. The estimator does not project, the solver may.
//!
//! The gradient at w = 0 is zero, whatever the records: start elsewhere.

mod link;
#[cfg(test)]
mod tests;

use super::{Constants, Convexity};

pub use link::QuadraticLink;

/// Constants of phi(q(w), y), from those of phi in one number (`scalar`), with G = `gradient` and B = `hessian` bounds for q on the ball,
/// and the Hessian of q at most `frobenius` in Frobenius norm: hess f = phi'' grad q grad q^T + phi' hess q.
fn constants(scalar: Constants, gradient: f64, (hessian, frobenius): (f64, f64)) -> Constants {
    let (slope, curvature) = (scalar.lipschitz, scalar.smoothness);
    Constants {
        lipschitz: slope * gradient,
        smoothness: curvature * gradient * gradient + slope * hessian,
        initial_gap: scalar.initial_gap,
        hessian_lipschitz: scalar.hessian_lipschitz * gradient.powi(3)
            + 3.0 * curvature * gradient * hessian,
        hessian_frobenius: curvature * gradient * gradient + slope * frobenius,
        convexity: Convexity::Nonconvex,
        ..scalar
    }
}
