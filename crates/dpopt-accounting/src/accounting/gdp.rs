//! Gaussian differential privacy: exact conversions between mu, epsilon and delta.
//!
//! A release that is mu-GDP is (epsilon, delta)-DP exactly when
//!
//! `delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`
//!
//! (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 1). A Gaussian mechanism
//! with noise multiplier z is 1/z-GDP, and adaptive compositions have `mu^2 = sum mu_i^2`.
//!
//! The two terms of the formula nearly cancel for small mu. Here delta is computed as
//! `phi(a) * integral over t > 0 of e^(-t^2/2 - a t) (1 - e^(-mu t)) dt` with
//! `a = epsilon/mu - mu/2`, which has no cancellation, or as one minus a sum of positive tails.

use super::AccountingError;
use super::special::{LN_SQRT_2PI, decreasing_root, mills_ratio, ndtr};
use crate::units::{Delta, Epsilon, Mu};

/// log delta at one point, its slopes, and a bound on its rounding error.
struct Profile {
    log_delta: f64,
    slope_in_epsilon: f64,
    slope_in_log_mu: f64,
    rounding: f64,
}

/// log delta of a mu-GDP release at `epsilon >= 0` and `mu > 0`, with relative error of about
/// 1e-13 in delta, also where delta itself underflows.
///
/// NaN when an argument is NaN or out of range.
#[must_use]
pub fn log_delta(mu: f64, epsilon: f64) -> f64 {
    if !(mu > 0.0 && epsilon >= 0.0) {
        return f64::NAN;
    }
    profile(mu, epsilon).log_delta
}

/// The least delta at which a mu-GDP release is (epsilon, delta)-DP, rounded up.
///
/// The result exceeds the exact value by a relative slack of about 1e-14 times `1 - log delta`,
/// which covers the rounding of the evaluation. It is at most 1.
///
/// Source: Balle and Wang 2018, Theorem 8.
#[must_use]
pub fn delta(mu: Mu, epsilon: Epsilon) -> f64 {
    let at = profile(mu.get(), epsilon.get());
    (at.log_delta + at.rounding)
        .exp()
        .max(f64::from_bits(1))
        .min(1.0)
}

/// The least epsilon at which a mu-GDP release is (epsilon, delta)-DP, rounded up; 0 when
/// delta is at least the total variation distance `2 Phi(mu/2) - 1`.
///
/// The returned epsilon satisfies the exact condition with delta reduced by twice the rounding
/// slack of [`delta`], so it is never below the truth, and [`delta`] at it does not exceed the
/// delta given. Infinite when epsilon exceeds the range of
/// `f64` (mu above about 1e154).
///
/// Source: the inverse of Balle and Wang 2018, Theorem 8.
#[must_use]
pub fn epsilon(mu: Mu, delta: Delta) -> f64 {
    let mu = mu.get();
    let target = delta.get().ln();
    let excess = |epsilon: f64| {
        let at = profile(mu, epsilon);
        (
            at.log_delta + 2.0 * at.rounding - target,
            at.slope_in_epsilon,
        )
    };
    if excess(0.0).0 <= 0.0 {
        return 0.0;
    }
    // Bun and Steinke 2016, Proposition 1.3, with rho = mu^2 / 2; the factor absorbs rounding.
    let high = (0.5 * mu * mu + mu * (-2.0 * target).sqrt()) * (1.0 + 1e-12);
    if !high.is_finite() {
        return f64::INFINITY;
    }
    decreasing_root(excess, 0.0, high)
}

/// The largest mu for which every mu-GDP release is (epsilon, delta)-DP, rounded down.
///
/// The noise multiplier of one Gaussian release that just meets (epsilon, delta) is `1/mu`.
///
/// # Errors
/// [`AccountingError::OutOfRange`] when mu is below the smallest positive `f64`.
///
/// Source: Balle and Wang 2018 (the analytic Gaussian mechanism).
pub fn mu_for(epsilon: Epsilon, delta: Delta) -> Result<Mu, AccountingError> {
    let eps = epsilon.get();
    let target = delta.get().ln();
    // In x = -log mu the excess decreases; the smallest x with excess <= 0 is wanted.
    let excess = |x: f64| {
        let at = profile((-x).exp(), eps);
        (
            at.log_delta + 2.0 * at.rounding - target,
            -at.slope_in_log_mu,
        )
    };
    // With L = log 1/delta, rho-zCDP gives a mu that is certainly small enough.
    let start = (-target + eps).sqrt() + (-target).sqrt();
    let mut hi = -(std::f64::consts::SQRT_2 * eps / start).ln();
    let mut step = 0.5;
    // For tiny epsilon the total variation distance, about mu / sqrt(2 pi), is what binds.
    if excess(hi).0 > 0.0 {
        hi += 1e-9;
    }
    while excess(hi).0 > 0.0 && hi < 800.0 {
        hi += step;
        step *= 2.0;
    }
    step = 0.5;
    let mut lo = hi;
    for _ in 0..64 {
        lo -= step;
        if excess(lo).0 > 0.0 {
            break;
        }
        hi = lo;
        step *= 2.0;
    }
    let x = decreasing_root(excess, lo, hi);
    // exp carries a relative error of |x| ulps; the loop makes the evaluated mu itself comply.
    let mut mu = (-x).exp();
    for k in 0..64_u32 {
        let at = profile(mu, eps);
        if at.log_delta + 2.0 * at.rounding <= target {
            break;
        }
        mu *= 1.0 - f64::EPSILON * f64::from(1 + k * k);
    }
    Mu::new(mu).map_err(|_| AccountingError::OutOfRange {
        quantity: "mu",
        value: mu,
    })
}

fn profile(mu: f64, epsilon: f64) -> Profile {
    // One rounding in the numerator instead of a difference of two rounded quotients.
    let a = (-0.5 * mu).mul_add(mu, epsilon) / mu;
    let b = (0.5 * mu).mul_add(mu, epsilon) / mu;
    if !a.is_finite() || !b.is_finite() {
        // mu^2 or epsilon/mu left the range of f64.
        let certain = a < 0.0 || (a.is_nan() && mu > 1.0);
        return Profile {
            log_delta: if certain { 0.0 } else { f64::NEG_INFINITY },
            slope_in_epsilon: 0.0,
            slope_in_log_mu: 0.0,
            rounding: 0.0,
        };
    }
    let log_phi = -0.5 * a * a - LN_SQRT_2PI;
    let mills_b = mills_ratio(b);
    let unit = f64::EPSILON * (24.0 + 4.0 * a * a);
    if a < -0.7 {
        // 1 - delta is a sum of two positive tails, and at most 2 Phi(a) < 1/2.
        let upper = log_phi.exp() * mills_b;
        let miss = ndtr(a) + upper;
        let density = log_phi.exp() / (1.0 - miss);
        return Profile {
            log_delta: (-miss).ln_1p(),
            slope_in_epsilon: -density * mills_b,
            slope_in_log_mu: mu * density,
            // The last term is for the exponential, whose result is near 1.
            rounding: 2.0 * unit * miss + f64::EPSILON,
        };
    }
    let integral = tail_integral(a, mu);
    Profile {
        log_delta: log_phi + integral.ln(),
        slope_in_epsilon: -mills_b / integral,
        slope_in_log_mu: mu / integral,
        rounding: unit,
    }
}

/// The integral over t > 0 of `e^(-t^2/2 - a t) (1 - e^(-mu t))`, for `a >= -0.7`.
fn tail_integral(a: f64, mu: f64) -> f64 {
    // t = scale * exp(u - e^-u) makes both ends decay double exponentially, so the trapezoid
    // rule converges geometrically: at step 1/12 the error is below e^(-2 pi (pi/4) 12) = e^-59.
    const STEP: f64 = 1.0 / 12.0;
    let scale = 1.0 / a.max(1.0);
    let mut sum = 0.0;
    for k in -46..=80_i32 {
        let u = f64::from(k) * STEP;
        let w = (-u).exp();
        let t = scale * (u - w).exp();
        let exponent = -t * (0.5 * t + a);
        if exponent < -60.0 {
            break;
        }
        sum += (1.0 + w) * t * exponent.exp() * -(-mu * t).exp_m1();
    }
    sum * STEP
}
