//! Public constants of the scalar losses, each attained (or approached).

use super::Glm;
use crate::loss::{Constants, Convexity, ScoreUnit};

impl Glm {
    /// Constants for rows of norm at most `row_norm` and labels of any size; see
    /// [`Glm::constants_within`].
    #[must_use]
    pub fn constants(self, row_norm: f64) -> Constants {
        self.constants_within(row_norm, None)
    }

    /// Constants for rows of norm at most X = `row_norm` and labels within `[-Y, Y]`, Y =
    /// `label_bound`: L0 = X max|phi'|, L1 = X^2 max|phi''|, and rho = X^3 max|phi'''|; infinite
    /// where phi or phi' or phi'' has a kink.
    ///
    /// Proof: grad f = phi' x, hess f = phi'' x x^T, whose operator norm is |phi''| ||x||^2, and
    /// the third derivative along a unit v is phi''' <v, x>^3. All are attained by a row of norm
    /// X at the z where the scalar derivative is largest.
    ///
    /// - Logistic, with p = 1/(1 + e^(yz)): |phi'| = p < 1, phi'' = p(1 - p) <= 1/4, and phi''' =
    ///   -y p(1-p)(1-2p), largest at p = (1 +- 1/sqrt 3)/2.
    /// - Sigmoid is p itself: its derivatives are those of the logistic loss, one order lower; the next one
    ///   is p(1-p)(1 - 6p + 6p^2) in size, with q = p(1-p) in (0, 1/4] it is q(1 - 6q): between 1/24 and -1/8.
    /// - Welsch: phi' = r e^(-r^2/2), phi'' = (1 - r^2) e^(-r^2/2), phi''' = (r^3 - 3r)
    ///   e^(-r^2/2), largest where r^4 - 6r^2 + 3 = 0, at r^2 = 3 - sqrt 6.
    /// - Geman-McClure: phi' = 2r/(1+r^2)^2, largest at r^2 = 1/3; phi'' = 2(1 - 3r^2)/(1+r^2)^3;
    ///   phi''' = 24 r (r^2 - 1)/(1+r^2)^4, largest where 5r^4 - 10r^2 + 1 = 0, at r^2 = 1 - sqrt(4/5).
    /// - Cauchy: phi' = 2r/(1+r^2), largest at r = 1; phi'' = 2(1 - r^2)/(1+r^2)^2; phi''' =
    ///   4r(r^2 - 3)/(1+r^2)^3, largest where r^4 - 6r^2 + 1 = 0, at r = sqrt 2 - 1.
    /// - Tukey, with u = r/c: phi' = r(1-u^2)^2, largest at u^2 = 1/5; phi'' = (1-u^2)(1-5u^2),
    ///   largest at 0 and at least -4/5; phi''' = (4u/c)(5u^2 - 3), which is 8/c at the edge u = 1
    ///   and no more than 8/(sqrt 5 c) at its stationary point u^2 = 1/5.
    /// - Huber: phi' is r clamped to +-delta, so phi'' jumps from 1 to 0.
    /// - Poisson, with m = min(e^z, K) and a count k in [0, K]: phi' = m - k, phi'' = e^z up to z = ln K and 0 beyond it, where it jumps.
    ///   phi is a convex function of z with its least value, 0, at z = ln k.
    /// - The others are piecewise linear in z, but for the clamped square, whose slope jumps from b
    ///   to 0 at the end of its range.
    ///
    /// The gap: every phi is at least 0, and those of residuals grow with |y| at z = 0, so that
    /// F(0) - min F <= max over the signs of phi(0, +-Y). For ReLU regression with y < 0 the least value is
    /// phi(0, y) itself, and that is no more either.
    #[must_use]
    pub fn constants_within(self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        let kink = f64::INFINITY;
        let sixth = 1.0 / (6.0 * 3f64.sqrt());
        let (slope, curvature, third) = match self {
            Glm::Logistic => (1.0, 0.25, sixth),
            Glm::Sigmoid => (0.25, sixth, 0.125),
            Glm::Welsch => {
                let root6 = 6f64.sqrt();
                let square = 3.0 - root6;
                let third = root6 * square.sqrt() * (-0.5 * square).exp();
                ((-0.5f64).exp(), 1.0, third)
            }
            Glm::GemanMcClure => {
                let square = 1.0 - 0.8f64.sqrt();
                let third = 24.0 * square.sqrt() * (1.0 - square) / (1.0 + square).powi(4);
                (3.0 * 3f64.sqrt() / 8.0, 2.0, third)
            }
            Glm::Cauchy => {
                let r = std::f64::consts::SQRT_2 - 1.0;
                let third = 4.0 * r * (3.0 - r * r) / (1.0 + r * r).powi(3);
                (1.0, 2.0, third)
            }
            Glm::Tukey(c) => (16.0 * c.get() / (25.0 * 5f64.sqrt()), 1.0, 8.0 / c.get()),
            Glm::Huber(delta) => (delta.get(), 1.0, kink),
            Glm::Squared(b) => (b.get(), kink, kink),
            Glm::Pinball(tau) => (tau.get().max(1.0 - tau.get()), kink, kink),
            Glm::Poisson(largest) => (largest.get(), largest.get(), kink),
            Glm::Hinge | Glm::Absolute | Glm::Relu => (1.0, kink, kink),
        };
        let convexity = match self {
            Glm::Logistic
            | Glm::Hinge
            | Glm::Huber(_)
            | Glm::Absolute
            | Glm::Pinball(_)
            | Glm::Poisson(_) => Convexity::Convex,
            _ => Convexity::Nonconvex,
        };
        let (gradient, hessian) = (slope * row_norm, curvature * row_norm * row_norm);
        let gap = self.largest_at(0.0, label_bound);
        // A Hessian of rank one: its norms are the same.
        let constants = Constants::new(gradient, hessian, gap, convexity)
            .with_hessian_lipschitz(third * row_norm.powi(3))
            .with_hessian_frobenius(hessian);
        Constants {
            score: self.score_unit(label_bound),
            ..constants
        }
    }

    /// The unit of the score: of a residual, half the range of the labels where that is known.
    fn score_unit(self, label_bound: Option<f64>) -> ScoreUnit {
        match self {
            Glm::Logistic | Glm::Sigmoid | Glm::Hinge => ScoreUnit::Logit,
            Glm::Poisson(_) => ScoreUnit::LogCount,
            Glm::Welsch
            | Glm::GemanMcClure
            | Glm::Cauchy
            | Glm::Tukey(_)
            | Glm::Huber(_)
            | Glm::Squared(_)
            | Glm::Absolute
            | Glm::Pinball(_)
            | Glm::Relu => label_bound.map_or(ScoreUnit::Logit, ScoreUnit::HalfRange),
        }
    }

    /// A bound on |phi'(z, y)| for z in [low, high] and all labels: the largest there for the logistic and the sigmoid loss, whose slope is
    /// a function of yz that is monotone or has its largest size at 0; that for all z for the others.
    pub(crate) fn largest_slope(self, low: f64, high: f64) -> f64 {
        let everywhere = self.constants_within(1.0, None).lipschitz;
        let known = match self {
            Glm::Logistic => true,
            Glm::Sigmoid => low > 0.0 || high < 0.0,
            _ => false,
        };
        if !known {
            return everywhere;
        }
        let ends = [low, high].map(|z| self.slope(z, 1.0).abs().max(self.slope(z, -1.0).abs()));
        // Rounding of the slope.
        (ends[0].max(ends[1]) * (1.0 + 8.0 * f64::EPSILON)).min(everywhere)
    }

    /// The largest phi(z, y) over the labels allowed: it is at an end of their range.
    pub(crate) fn largest_at(self, z: f64, label_bound: Option<f64>) -> f64 {
        let label = label_bound.unwrap_or(f64::INFINITY);
        self.value(z, label).max(self.value(z, -label))
    }
}
