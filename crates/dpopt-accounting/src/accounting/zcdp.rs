//! Zero-concentrated differential privacy and its conversion to (epsilon, delta).
//!
//! A release is rho-zCDP when its Renyi divergence of every order alpha > 1 is at most
//! `rho alpha` (Bun and Steinke 2016). A Gaussian mechanism with noise multiplier z has
//! `rho = 1/(2 z^2)`, and adaptive compositions add rho.
//!
//! The conversion is that of Canonne, Kamath and Steinke 2020 (arXiv 2004.00010,
//! Corollary 13), optimised over all real alpha > 1:
//!
//! `delta = min over alpha of e^((alpha-1)(rho alpha - epsilon)) (1 - 1/alpha)^alpha / (alpha-1)`.
//!
//! Each alpha gives a valid bound, so an inexact minimiser costs accuracy, never privacy.

use super::AccountingError;
use super::special::decreasing_root;
use crate::units::{Delta, Epsilon, NoiseMultiplier, Rho};

/// Relative slack for rounding, applied upwards to every reported log delta; four times as much
/// goes into epsilon, so that delta at the reported epsilon does not exceed the delta given.
const SLACK: f64 = 1e-14;

/// rho of one Gaussian release: `1/(2 z^2)` for noise multiplier z.
#[must_use]
pub fn rho_of_gaussian(noise_multiplier: NoiseMultiplier) -> f64 {
    let z = noise_multiplier.get();
    0.5 / z / z
}

/// log delta at which every rho-zCDP release is (epsilon, delta)-DP, rounded up; at most 0.
///
/// Takes `rho > 0` and `epsilon >= 0`, NaN otherwise. Source: Canonne, Kamath and Steinke 2020.
#[must_use]
pub fn log_delta(rho: f64, epsilon: f64) -> f64 {
    if !(rho > 0.0 && epsilon >= 0.0) {
        return f64::NAN;
    }
    // With x = alpha - 1 the derivative of the exponent is
    // rho (1 + 2x) - epsilon + log(x/(1+x)), increasing in x: one root. Solved in v = -log x,
    // where it decreases.
    let slope = |v: f64| {
        let x = (-v).exp();
        (
            rho * (1.0 + 2.0 * x) - epsilon - v - x.ln_1p(),
            -(2.0 * rho * x + 1.0 / (1.0 + x)),
        )
    };
    let Some((lo, hi)) = bracket(&slope) else {
        return 0.0;
    };
    let v = decreasing_root(slope, lo, hi);
    let x = (-v).exp();
    let transport = x * (rho * (1.0 + x) - epsilon);
    // log(x / (1+x)), without the cancellation of log x - log(1+x) at large x.
    let log_ratio = -(1.0 / x).ln_1p();
    let value = transport + x * log_ratio - x.ln_1p();
    let size = x * (rho * (1.0 + x) + epsilon + log_ratio.abs()) + x.ln_1p();
    (value + SLACK * size).min(0.0)
}

/// delta at which every rho-zCDP release is (epsilon, delta)-DP, rounded up; at most 1.
#[must_use]
pub fn delta(rho: Rho, epsilon: Epsilon) -> f64 {
    log_delta(rho.get(), epsilon.get())
        .exp()
        .max(f64::from_bits(1))
}

/// epsilon at which every rho-zCDP release is (epsilon, delta)-DP, rounded up and at least 0.
///
/// `min over alpha of rho alpha + log(1 - 1/alpha) - (log delta + log alpha)/(alpha - 1)`.
/// Source: Canonne, Kamath and Steinke 2020, Proposition 12 and Corollary 13.
#[must_use]
pub fn epsilon(rho: Rho, delta: Delta) -> f64 {
    let rho = rho.get();
    let log_inverse = -delta.get().ln();
    // With x = alpha - 1 the minimum is where rho x^2 + log(1+x) = log(1/delta).
    let slope = |v: f64| {
        let x = (-v).exp();
        (
            rho * x * x + x.ln_1p() - log_inverse,
            -(2.0 * rho * x * x + x / (1.0 + x)),
        )
    };
    let Some((lo, hi)) = bracket(&slope) else {
        return f64::INFINITY;
    };
    let v = decreasing_root(slope, lo, hi);
    let x = (-v).exp();
    let (transport, log_alpha) = (rho * (1.0 + x), x.ln_1p());
    let log_ratio = -(1.0 / x).ln_1p();
    let value = transport + log_ratio + (log_inverse - log_alpha) / x;
    let size = transport - log_ratio + (log_inverse + log_alpha) / x;
    (value + 4.0 * SLACK * size).max(0.0)
}

/// epsilon of a mechanism with divergences of at most `xi + rho alpha`: xi more than for rho alone.
pub(super) fn epsilon_of((rho, xi): (f64, f64), delta: Delta) -> Result<f64, AccountingError> {
    let unit = Rho::new(rho).map_err(|_| AccountingError::OutOfRange {
        quantity: "rho",
        value: rho,
    })?;
    if xi == 0.0 {
        return Ok(epsilon(unit, delta));
    }
    // The first term is cut off at 0 before xi is added, which leaves a bound.
    Ok((epsilon(unit, delta) + xi).next_up())
}

/// delta of the same.
pub(super) fn delta_of((rho, xi): (f64, f64), at: Epsilon) -> Result<f64, AccountingError> {
    let unit = Rho::new(rho).map_err(|_| AccountingError::OutOfRange {
        quantity: "rho",
        value: rho,
    })?;
    if xi == 0.0 {
        return Ok(delta(unit, at));
    }
    Ok(match Epsilon::new((at.get() - xi).next_down()) {
        Ok(rest) => delta(unit, rest),
        Err(_) => 1.0,
    })
}

/// The largest rho for which [`epsilon`] does not exceed the target, rounded down.
///
/// # Errors
/// [`AccountingError::OutOfRange`] when no positive rho in the range of `f64` qualifies.
pub fn rho_for(target: Epsilon, delta: Delta) -> Result<Rho, AccountingError> {
    let fits = |log_rho: f64| match Rho::new(log_rho.exp()) {
        Ok(rho) => epsilon(rho, delta) <= target.get(),
        Err(_) => log_rho < 0.0,
    };
    // rho <= epsilon always holds at the optimum (order 1 is the Kullback-Leibler bound) up to
    // the clipping at zero, so expand from there in both directions.
    let (mut lo, mut hi) = (target.get().ln(), target.get().ln());
    let mut step = 1.0;
    while !fits(lo) && lo > -740.0 {
        lo -= step;
        step *= 2.0;
    }
    step = 1.0;
    while fits(hi) && hi < 700.0 {
        hi += step;
        step *= 2.0;
    }
    for _ in 0..120 {
        let middle = 0.5 * (lo + hi);
        if middle <= lo || middle >= hi {
            break;
        }
        if fits(middle) {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    let value = lo.exp();
    if !fits(lo) {
        return Err(AccountingError::OutOfRange {
            quantity: "rho",
            value,
        });
    }
    Rho::new(value).map_err(|_| AccountingError::OutOfRange {
        quantity: "rho",
        value,
    })
}

/// Finds `[lo, hi]` around the root of a decreasing function of `v = -log(alpha - 1)`.
fn bracket(f: &impl Fn(f64) -> (f64, f64)) -> Option<(f64, f64)> {
    let (mut lo, mut hi) = (0.0, 0.0);
    let mut step = 1.0;
    while f(lo).0 <= 0.0 {
        lo -= step;
        step *= 2.0;
        if lo < -700.0 {
            return None;
        }
    }
    step = 1.0;
    while f(hi).0 > 0.0 {
        hi += step;
        step *= 2.0;
        if hi > 700.0 {
            return None;
        }
    }
    Some((lo, hi))
}
