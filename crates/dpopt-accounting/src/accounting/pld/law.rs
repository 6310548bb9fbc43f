//! What the composition needs to know of a pair, and the loss of a mixture.

use libm::{exp, expm1, log, log1p};

/// Which pair; `q` is the sampling rate and `s` the standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not sampled: `N(1, s^2)` against `N(0, s^2)`.
    Plain,
    /// `(1-q) N(0, s^2) + q N(1, s^2)` against `N(0, s^2)`.
    Remove,
    /// `N(0, s^2)` against `(1-q) N(0, s^2) + q N(-1, s^2)`: the swapped pair, reflected so
    /// that the loss increases.
    Add,
    /// `(1-q) N(0, s^2) + q N(1, s^2)` against `(1-q) N(0, s^2) + q N(-1, s^2)`.
    Replace,
}

/// The privacy loss of one step, as an increasing function of one real variable: with a
/// density under P that is a combination of few exponentials of polynomials, and atoms at
/// the ends of its range.
pub(super) trait Law {
    /// Privacy loss at `y`.
    fn loss(&self, y: f64) -> f64;
    /// Logarithm of the density of P at `y`, and the loss there.
    fn log_density_and_loss(&self, y: f64) -> (f64, f64);
    /// A bound on the derivative of the loss at `y`.
    fn slope(&self, y: f64) -> f64;
    /// Where the loss takes the value `l`; beyond the range where it never does.
    fn inverse(&self, l: f64) -> f64;
    /// An upper bound on `P(Y > y)`.
    fn upper_tail(&self, y: f64) -> f64;
    /// An upper bound on `P(Y < y)`.
    fn lower_tail(&self, y: f64) -> f64;
    /// A point beyond which P has mass of about `e^{ln_mass}` at most.
    fn upper_point(&self, ln_mass: f64) -> f64;
    /// A point below which P has mass of about `e^{ln_mass}` at most.
    fn lower_point(&self, ln_mass: f64) -> f64;
    /// Least upper bound of the loss.
    fn loss_sup(&self) -> f64;
    /// Largest distance from `y` to a centre of the pair.
    fn reach(&self, y: f64) -> f64;
    /// A complex distance from `y` within which no exponential involved grows by more than
    /// `e^{1.5}`.
    fn radius(&self, y: f64) -> f64;
    /// Masses of P at the ends of the range, from below; 0 where there is no atom.
    fn atoms(&self) -> [f64; 2];
    /// The next point above `y` at which density or loss are no longer the same analytic function.
    fn next_break(&self, _y: f64) -> f64 {
        f64::INFINITY
    }
    /// Relative error of the density beyond that of its exponent.
    fn density_error(&self) -> f64 {
        0.0
    }
}

/// `log(1 - q + q e^u)`, to a few units in the last place of the larger of it and `q|u|`.
pub(super) fn log_mix(q: f64, u: f64) -> f64 {
    if u > 500.0 {
        u + log(q) + log1p((1.0 - q) / q * exp(-u))
    } else if u < -1.0 && q > 0.5 {
        log((1.0 - q) + q * exp(u))
    } else {
        log1p(q * expm1(u))
    }
}

/// The `u` with `log(1 - q + q e^u) = l`; minus infinity where there is none.
pub(super) fn log_mix_inverse(q: f64, l: f64) -> f64 {
    let u = if l > 500.0 {
        l - log(q) + log1p(-(1.0 - q) * exp(-l))
    } else {
        let r = expm1(l) / q;
        if r <= -1.0 {
            return f64::NEG_INFINITY;
        }
        log1p(r)
    };
    if u.is_nan() { f64::NEG_INFINITY } else { u }
}

/// `q e^u / (1 - q + q e^u)`, the derivative of [`log_mix`] in `u`.
pub(super) fn mix_weight(q: f64, u: f64) -> f64 {
    1.0 / (1.0 + (1.0 - q) / q * exp(-u))
}
