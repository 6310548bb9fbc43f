//! Renyi differential privacy at every real order alpha > 1, and its conversion.
//!
//! # Divergences
//! A Gaussian release with noise multiplier z has `alpha / (2 z^2)`. A Poisson-sampled one at
//! rate q is dominated by a pair of mixtures, in units of the clip norm C with noise sigma:
//!
//! - add-remove and zero-out: `P = (1-q) N(0) + q N(1)` against `Q = N(0)`, `sigma = z`. In
//!   both relations the record's share of the sum is a vector of norm at most C or nothing.
//!   The divergence of Q from P is never larger at the same order (Mironov, Talwar and Zhang
//!   2019, arXiv 1908.10530, Theorem 5), so one direction suffices.
//! - replace-one: `P = (1-q) N(0) + q N(1)` against `Q = (1-q) N(0) + q N(-1)`,
//!   `sigma = 2 z`, because z is relative to the sensitivity 2C. The pair is its own mirror image.
//!   This is not the add-remove value at any noise multiplier: the record is replaced by an
//!   opposite one, not by nothing (Lebeda, Regehr, Kamath and Steinke 2024, arXiv 2405.20769).
//!   Opposite vectors of full length are the worst: given the other records' draws, the
//!   hockey-stick divergence is the mean of a convex function of `e_x - a e_x'`, with e_x the
//!   likelihood ratio of the shift x, which falls with the inner product of x and x' (Slepian)
//!   and then grows with each length.
//!
//! # Evaluation
//! With `w = P/Q - 1` and `E_Q[w] = 0`, `E_Q[(P/Q)^alpha] - 1 = E_Q[(1+w)^alpha - 1 - alpha w]`.
//! The integrand is nonnegative and is computed without cancellation, so small rates and orders
//! near 1 keep their digits. It is summed by the trapezoid rule over the Gaussian variable, in
//! the log domain. The integrand is analytic in the strip `|Im z| < pi sigma` (beyond lie the
//! zeros of the mixtures). One-sided, `|1+w|` there is at most its value on the real axis, so the
//! error of step h is at most about `e^(-2 pi y / h + y^2/2)` for any y below `pi sigma`; two-sided
//! the denominator makes the integrand narrower, by a curvature of `x p (1-p) / sigma^2` at most
//! where p is the share of the shifted component in it (x = alpha - 1). At a mode
//! `z >= x (1+p) / sigma`, and `z / sigma <= log(q/(1-q)) + log((1-p)/p) <= 37 + log((1-p)/p)`, so
//! the curvature stays below 7 (near rate 1 only). The step is
//! `min(1/2, 0.4 sigma)`, two-sided divided by `sqrt(1 + min(x / (4 sigma^2), 8))`, which puts the error below
//! e^-30; halving it moves no value by more than 1e-13, which a test checks. Nodes are skipped only where an upper envelope
//! of the integrand is below e^-45 of its largest known value.
//!
//! Below sigma = 0.02 the number of nodes grows without use (no such release is private), and
//! the convexity bound `E_Q[(P/Q)^alpha] <= 1 - q + q e^(alpha (alpha-1) / (2 z^2))` is used.
//!
//! # Conversion
//! `epsilon = rdp(alpha) + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1)`
//! (Canonne, Kamath and Steinke 2020, arXiv 2004.00010, Proposition 12), minimised over real
//! alpha. Because `(alpha-1) rdp(alpha)` is convex, epsilon has one local minimum in alpha, so
//! golden section finds it; any alpha gives a valid epsilon.

mod curve;
mod pair;

use super::AccountingError;
use super::parts::Parts;
use crate::adjacency::Adjacency;
use crate::units::{Delta, Epsilon, NoiseMultiplier, SamplingRate};
use curve::{Curve, SLACK, delta_from, log_delta, minimise};
use pair::Pair;

/// Orders at which tables of Renyi divergences are usually given, for reports and filters.
pub const ORDERS: [f64; 34] = [
    1.01, 1.05, 1.1, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0,
    10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 32.0, 40.0, 48.0, 64.0, 96.0, 128.0, 256.0, 512.0, 1024.0,
    4096.0,
];

/// Renyi divergence of order alpha of one Gaussian release: `alpha / (2 z^2)`.
///
/// # Errors
/// [`AccountingError::InvalidOrder`] unless `order` is finite and above 1.
pub fn gaussian(noise_multiplier: NoiseMultiplier, order: f64) -> Result<f64, AccountingError> {
    check(order)?;
    let z = noise_multiplier.get();
    Ok(0.5 * order / z / z)
}

/// Renyi divergence of order alpha of one Gaussian release on a Poisson sample, the larger of
/// the two directions, rounded up by a relative slack of 1e-12. Infinite when it exceeds `f64`.
///
/// `noise_multiplier` is sigma over the sensitivity of the unsampled sum under `adjacency`.
///
/// # Errors
/// [`AccountingError::InvalidOrder`] unless `order` is finite and above 1.
pub fn poisson_gaussian(
    rate: SamplingRate,
    noise_multiplier: NoiseMultiplier,
    order: f64,
    adjacency: Adjacency,
) -> Result<f64, AccountingError> {
    check(order)?;
    if rate.get() == 1.0 {
        return gaussian(noise_multiplier, order);
    }
    let pair = Pair::new(rate.get(), noise_multiplier.get(), adjacency);
    let divergence = pair.log_moment(order - 1.0) / (order - 1.0) * (1.0 + SLACK);
    // A divergence that underflows is still not zero.
    Ok(divergence.max(f64::from_bits(1)))
}

/// epsilon from one Renyi divergence: `rdp + log(1 - 1/alpha) - (log delta + log alpha)/(alpha-1)`,
/// at least 0.
///
/// # Errors
/// [`AccountingError::InvalidOrder`] unless `order` is finite and above 1.
///
/// Source: Canonne, Kamath and Steinke 2020, Proposition 12.
pub fn epsilon_at(order: f64, divergence: f64, delta: Delta) -> Result<f64, AccountingError> {
    check(order)?;
    let x = order - 1.0;
    Ok(convert((x * divergence).max(0.0), x, -delta.get().ln()).max(0.0))
}

/// delta from one Renyi divergence: `e^((alpha-1)(rdp - epsilon)) (1 - 1/alpha)^alpha / (alpha-1)`,
/// at most 1.
///
/// # Errors
/// [`AccountingError::InvalidOrder`] unless `order` is finite and above 1.
///
/// Source: Canonne, Kamath and Steinke 2020, Proposition 12.
pub fn delta_at(order: f64, divergence: f64, epsilon: Epsilon) -> Result<f64, AccountingError> {
    check(order)?;
    let x = order - 1.0;
    Ok(log_delta((x * divergence).max(0.0), x, epsilon.get())
        .exp()
        .clamp(f64::from_bits(1), 1.0))
}

fn check(order: f64) -> Result<(), AccountingError> {
    if order.is_finite() && order > 1.0 {
        Ok(())
    } else {
        Err(AccountingError::InvalidOrder { order })
    }
}

/// Renyi divergence of a composition at one order, rounded up.
pub(crate) fn divergence_of(
    parts: &Parts,
    order: f64,
    adjacency: Adjacency,
) -> Result<f64, AccountingError> {
    check(order)?;
    let x = order - 1.0;
    Ok(Curve::new(parts, adjacency).log_moment(x) / x * (1.0 + SLACK))
}

/// epsilon of a composition, minimised over the order and rounded up.
pub(crate) fn epsilon_of(parts: &Parts, delta: Delta, adjacency: Adjacency) -> f64 {
    let curve = Curve::new(parts, adjacency);
    let log_inverse = -delta.get().ln();
    let (_, least) = minimise(|x| convert(curve.log_moment(x), x, log_inverse));
    least.max(0.0)
}

/// delta of a composition, minimised over the order, rounded up and at most 1.
pub(crate) fn delta_of(parts: &Parts, epsilon: Epsilon, adjacency: Adjacency) -> f64 {
    delta_from(&Curve::new(parts, adjacency), epsilon)
}

/// epsilon from the log moment `K = (alpha-1) rdp(alpha)` at `x = alpha - 1`, rounded up.
fn convert(log_moment: f64, x: f64, log_inverse_delta: f64) -> f64 {
    // log(1 - 1/alpha), without the cancellation of log x - log(1+x) at large x.
    let (log_alpha, log_ratio) = (x.ln_1p(), -(1.0 / x).ln_1p());
    let value = (log_moment + log_inverse_delta - log_alpha) / x + log_ratio;
    let size = (log_moment + log_inverse_delta + log_alpha) / x - log_ratio;
    // Four times the slack of `log_delta`, so that delta at this epsilon is not above the target.
    value + 4e-14 * size
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Near rate 1 a mixture in a denominator is nearly zero, and it bends the integrand.
    /// The values are sums of 40 digits at steps 1/50 and 1/170.
    #[test]
    fn replace_one_is_right_near_rate_one() {
        for (miss, x, truth) in [
            (1e-10, 28.0, 31.227_232_206_293_36),
            (1e-10, 50.0, 39.345_784_173_663_14),
            (1e-13, 24.0, 31.431_627_448_287_31),
            (1e-13, 44.0, 44.052_609_689_199_53),
            (1.2e-16, 24.0, 31.991_960_324_290_56),
            (1.2e-16, 40.0, 47.134_543_475_955_375),
        ] {
            let rate = SamplingRate::new(1.0 - miss).unwrap();
            let noise = NoiseMultiplier::new(0.625).unwrap();
            let got = poisson_gaussian(rate, noise, 1.0 + x, Adjacency::ReplaceOne).unwrap();
            assert!(
                got >= truth * (1.0 - 1e-14) && got <= truth * (1.0 + 2e-12),
                "1 - {miss:e}, {x}: {got} against {truth}"
            );
        }
    }
}
