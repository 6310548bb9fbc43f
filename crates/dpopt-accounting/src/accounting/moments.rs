//! Log moments `K(x) = log E_Q[(P/Q)^(1+x)] = x rdp(1+x)` of releases that are not Gaussians.
//!
//! | release | `K(x)`, or a bound | source |
//! | --- | --- | --- |
//! | pure epsilon | `log(1 + 2 sinh(x e/2)^2 + tanh(e/2) sinh(x e))`, at most `x e` | Bun and Steinke 2016, proof of Proposition 3.3 |
//! | randomised response | the same moment minus 1, times the probability of the two answers at which the neighbours differ | direct |
//! | Laplace of scale b, t = 1/b | `log((1-w) e^(x t) + w e^(-(1+x) t))`, `w = x/(2x+1)` | Mironov 2017, Proposition 6 |
//! | discrete Laplace, t = a s | the same with `w = (e^(2xa) - 1) / ((e^((2x+1)a) - 1)(1 + e^-a))` | direct sum, below |
//! | bounded range | `x log u + log((1 - c^(1+x)) / ((1+x)(1-c)))`, `c = e^-e`, `u = x (1 - c^(1+x)) / ((1+x)(c - c^(1+x)))`; at most `x (1+x) e^2/8` | below; Rogers and Steinke 2021 |
//! | zCDP | `x (xi + rho (1+x))` | Bun and Steinke 2016, Definition 1.1 |
//! | Gaussian, without replacement | see [`super::without_replacement`] | Wang, Balle and Kasiviswanathan 2019 |
//! | repeat and select | see `Selection` in `rdp/curve.rs` | Papernot and Steinke 2022 |
//! | parallel | the largest of the slices | the record is in one slice only |
//!
//! *Laplace on several coordinates.* Both moments are log-convex in t and 1 at t = 0, so K is
//! superadditive in t: one coordinate that moves by the whole L1 sensitivity is the worst.
//! *Discrete Laplace.* At `x <= 0`, between, and at `x >= s` the loss is -as, 2ax - as and as, and the
//! three geometric sums give the form above; w is below x/(2x+1), so it is not the Laplace value.
//! *Bounded range.* P/Q lies in `[c u, u]` for some u and has mean 1 under Q; the moment of a convex
//! function is largest when P/Q takes only the end points, and the value above maximises over u.
//!
//! None of these has a direction or depends on the neighbouring relation: the relation enters
//! through the sensitivity to which the event's numbers refer.

use super::parts::Other;
use super::special::exp_minus_linear;

/// Rounding of a moment minus one, absolute.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// `K(x)`, or a bound on it, of what needs no more than its numbers; infinite for the rest.
pub(super) fn simple(other: &Other, x: f64) -> f64 {
    match other {
        Other::Pure { epsilon, share } => pure(*epsilon, *share, x),
        Other::BoundedRange { epsilon } => bounded_range(*epsilon, x),
        Other::Laplace { epsilon } => two_point(*epsilon, x / (2.0 * x + 1.0), x, true),
        Other::DiscreteLaplace { rate, epsilon } => {
            let a = *rate;
            let w = if (2.0 * x + 1.0) * a < 500.0 {
                (2.0 * x * a).exp_m1() / (((2.0 * x + 1.0) * a).exp_m1() * (1.0 + (-a).exp()))
            } else {
                1.0 / (a.exp() + 1.0)
            };
            // One step of the sensitivity is randomised response, exactly.
            if *epsilon <= a * (1.0 + 1e-15) {
                return pure(*epsilon, 1.0, x);
            }
            two_point(*epsilon, w, x, false).min(pure(*epsilon, 1.0, x))
        }
        Other::Concentrated { rho, xi } => x * (xi + rho * (1.0 + x)) * (1.0 + 1e-15),
        _ => f64::INFINITY,
    }
}

/// Randomised response between two of the answers, which together have probability `share`.
fn pure(epsilon: f64, share: f64, x: f64) -> f64 {
    let y = x * epsilon;
    let value = if y < 30.0 {
        let excess = 2.0 * (0.5 * y).sinh().powi(2) + (0.5 * epsilon).tanh() * y.sinh();
        (share * excess).ln_1p()
    } else {
        // log(share M + 1 - share) with M above e^29.
        let log_moment = y - (-epsilon).exp().ln_1p() + (-epsilon - 2.0 * y).exp().ln_1p();
        let rest = (1.0 - share).max(0.0) / share;
        log_moment + share.ln() + (rest * (-log_moment).exp()).ln_1p()
    };
    (value * (1.0 + 1e-14)).min(y * (1.0 + 1e-15))
}

/// `log((1-w) e^(x t) + w e^(-(1+x) t))`; `balanced` when the terms linear in t cancel exactly.
fn two_point(t: f64, w: f64, x: f64, balanced: bool) -> f64 {
    let (up, down) = (x * t, -(1.0 + x) * t);
    if up > 30.0 {
        return (up + (-w).ln_1p() + (w / (1.0 - w) * (down - up).exp()).ln_1p()) * (1.0 + 1e-14);
    }
    let excess = if balanced {
        (1.0 - w) * exp_minus_linear(up) + w * exp_minus_linear(down)
    } else {
        // Rounded up by the rounding of its terms, which cancel.
        let (plus, minus) = ((1.0 - w) * up.exp_m1(), w * down.exp_m1());
        plus + minus + ROUNDING * (plus - minus)
    };
    excess.max(0.0).ln_1p() * (1.0 + 1e-14)
}

/// Losses within an interval of length epsilon.
fn bounded_range(epsilon: f64, x: f64) -> f64 {
    let alpha = 1.0 + x;
    let concentrated = 0.125 * x * alpha * epsilon * epsilon * (1.0 + 1e-14);
    // log of (1 - c^alpha)/(1 - c), of (1 - c^x)/x/c and the rest, each without cancellation.
    let log_whole = (-(-alpha * epsilon).exp_m1()).ln();
    let log_gap = (-(-x * epsilon).exp_m1()).ln();
    let log_unit = (-(-epsilon).exp_m1()).ln();
    let log_u = x.ln() - alpha.ln() + epsilon + log_whole - log_gap;
    let log_u = log_u.clamp(0.0, epsilon);
    let value = x * log_u + log_whole - alpha.ln() - log_unit;
    let size = x * (epsilon + alpha.ln() + x.ln().abs() + log_whole.abs() + log_gap.abs())
        + log_whole.abs()
        + alpha.ln()
        + log_unit.abs();
    (value + ROUNDING * size)
        .min(concentrated)
        .min(pure(epsilon, 1.0, x))
}

/// `log(1/gamma)` of the truncated negative binomial law with this mean, rounded up.
///
/// With `g = log(1/gamma)` the mean is `eta (e^g - 1) / (1 - e^(-eta g))`, and `(e^g - 1) / g` for
/// `eta = 0`: increasing in g and 1 at g = 0.
pub fn log_inverse_gamma(mean: f64, shape: f64) -> f64 {
    if shape == 1.0 {
        return mean.ln() * (1.0 + 1e-15);
    }
    let log_mean_at = |g: f64| {
        let divisor = if shape * g < 1e-300 {
            g
        } else {
            -(-shape * g).exp_m1() / shape
        };
        g + (-(-g).exp_m1()).ln() - divisor.ln()
    };
    // gamma = 1/mean belongs to shape 1; shapes below need more, and at most 2 log mean + 2.
    let target = mean.ln();
    let (mut lo, mut hi) = (0.0, 1.0);
    while log_mean_at(hi) < target && hi < 2000.0 {
        hi *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (lo + hi);
        if middle <= lo || middle >= hi {
            break;
        }
        if log_mean_at(middle) >= target {
            hi = middle;
        } else {
            lo = middle;
        }
    }
    hi * (1.0 + 1e-12) + 1e-14
}
