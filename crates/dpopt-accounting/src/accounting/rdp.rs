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

use std::f64::consts::LN_2;

use super::AccountingError;
use super::moments::Moment;
use super::parts::Parts;
use super::releases::SampledGaussian;
use super::special::{
    LN_SQRT_2PI, entropy_over_square, exp_minus_linear, exp_minus_linear_over_square, log_add_exp,
    log_one_minus_exp,
};
use crate::adjacency::Adjacency;
use crate::units::{Delta, Epsilon, NoiseMultiplier, SamplingRate};

/// Relative slack for rounding and quadrature, applied upwards to every divergence.
pub(super) const SLACK: f64 = 1e-12;

/// log of the fraction of the largest term below which nodes are skipped.
const NEGLIGIBLE: f64 = 45.0;

/// Least sigma, in units of the clip norm, for which the quadrature is used.
const LEAST_SIGMA: f64 = 0.02;

/// Largest curvature that the mixture in the denominator adds at a mode of the integrand.
const MOST_BEND: f64 = 8.0;

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

/// The same from its log moments.
pub(super) fn delta_from(curve: &Curve, epsilon: Epsilon) -> f64 {
    let (_, least) = minimise(|x| log_delta(curve.log_moment(x), x, epsilon.get()));
    least.exp().clamp(f64::from_bits(1), 1.0)
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

/// log delta from the log moment at `x = alpha - 1`, rounded up.
fn log_delta(log_moment: f64, x: f64, epsilon: f64) -> f64 {
    let (log_alpha, log_ratio) = (x.ln_1p(), -(1.0 / x).ln_1p());
    let value = log_moment - x * (epsilon - log_ratio) - log_alpha;
    let size = log_moment + x * (epsilon - log_ratio) + log_alpha;
    value + 1e-14 * size
}

/// The log moments of a composition, as a function of `alpha - 1`.
pub(super) struct Curve {
    mu_squared: f64,
    pairs: Vec<(Pair, f64)>,
    others: Vec<(Moment, f64)>,
}

impl Curve {
    pub(super) fn new(parts: &Parts, adjacency: Adjacency) -> Self {
        let releases = &parts.releases;
        let pair = |s: &SampledGaussian| {
            let count = s.count as f64;
            (Pair::new(s.rate, s.noise_multiplier, adjacency), count)
        };
        Curve {
            mu_squared: releases.mu_squared(),
            pairs: releases.sampled.iter().map(pair).collect(),
            others: parts
                .others
                .iter()
                .map(|(other, count)| (Moment::new(other, adjacency), *count as f64))
                .collect(),
        }
    }

    pub(super) fn log_moment(&self, x: f64) -> f64 {
        let plain = 0.5 * self.mu_squared * (1.0 + x) * x;
        let sampled: f64 = self
            .pairs
            .iter()
            .map(|(pair, count)| pair.log_moment(x) * count)
            .sum();
        let others: f64 = self
            .others
            .iter()
            .map(|(moment, count)| moment.log_moment(x) * count)
            .sum();
        let total = (plain + sampled + others) * (1.0 + SLACK);
        // What underflows on the way is still not nothing.
        if self.mu_squared > 0.0 || !self.pairs.is_empty() || !self.others.is_empty() {
            total + f64::MIN_POSITIVE
        } else {
            total
        }
    }
}

/// Minimises a function of `x = alpha - 1` with one local minimum, over `[1e-8, 1e9]`.
pub(super) fn minimise(f: impl Fn(f64) -> f64) -> (f64, f64) {
    const LOW: f64 = -18.5;
    const HIGH: f64 = 21.0;
    const GOLDEN: f64 = 0.381_966_011_250_105_1;
    let g = |v: f64| {
        let value = f(v.exp());
        // An overflow is a useless order, not a good one.
        if value.is_nan() { f64::INFINITY } else { value }
    };
    // Walk downhill from alpha = 9 to a bracket (left, middle, right) in v = log(alpha - 1).
    // Large orders overflow first.
    let mut middle = 2.0;
    let mut at_middle = g(middle);
    while at_middle == f64::INFINITY && middle > LOW {
        middle -= 1.0;
        at_middle = g(middle);
    }
    let (mut left, mut right) = (middle - 0.5, middle + 0.5);
    let (mut at_left, mut at_right) = (g(left), g(right));
    let mut step = 0.5;
    while at_left < at_middle && left > LOW {
        (right, middle, at_middle) = (middle, left, at_left);
        step *= 1.6;
        left = (middle - step).max(LOW);
        at_left = g(left);
    }
    step = 0.5;
    while at_right < at_middle && right < HIGH {
        (left, middle, at_middle) = (middle, right, at_right);
        step *= 1.6;
        right = (middle + step).min(HIGH);
        at_right = g(right);
    }
    // The minimum is flat: an error of 1e-7 in v moves the value by about 1e-14.
    while right - left > 2e-7 {
        let in_left = middle - left > right - middle;
        let probe = if in_left {
            middle - GOLDEN * (middle - left)
        } else {
            middle + GOLDEN * (right - middle)
        };
        let value = g(probe);
        if value <= at_middle {
            if in_left {
                right = middle;
            } else {
                left = middle;
            }
            (middle, at_middle) = (probe, value);
        } else if in_left {
            left = probe;
        } else {
            right = probe;
        }
    }
    (middle.exp(), at_middle)
}

/// A dominating pair of one-dimensional mixtures.
#[derive(Debug, Clone, Copy)]
struct Pair {
    rate: f64,
    log_rate: f64,
    log_rest: f64,
    sigma: f64,
    two_sided: bool,
}

impl Pair {
    fn new(rate: f64, noise_multiplier: f64, adjacency: Adjacency) -> Self {
        let two_sided = adjacency == Adjacency::ReplaceOne;
        Pair {
            rate,
            log_rate: rate.ln(),
            log_rest: (-rate).ln_1p(),
            sigma: noise_multiplier * adjacency.sum_sensitivity(),
            two_sided,
        }
    }

    /// `log E_Q[(P/Q)^(1+x)]`.
    fn log_moment(&self, x: f64) -> f64 {
        let alpha = 1.0 + x;
        if self.sigma < LEAST_SIGMA {
            let reach = if self.two_sided { 2.0 } else { 1.0 } / self.sigma;
            return log_add_exp(
                self.log_rest,
                self.log_rate + 0.5 * alpha * x * reach * reach,
            );
        }
        let log_excess = self.log_excess(x, self.step(x));
        if log_excess > 40.0 {
            log_excess + (-log_excess).exp()
        } else {
            log_excess.exp().ln_1p()
        }
    }

    /// Step of the trapezoid rule at order `1 + x`; see the module's notes.
    fn step(&self, x: f64) -> f64 {
        let step = (0.4 * self.sigma).min(0.5);
        if !self.two_sided {
            return step;
        }
        let bend = (0.25 * x / (self.sigma * self.sigma)).min(MOST_BEND);
        step / (1.0 + bend).sqrt()
    }

    /// `log E_Q[g(w)]` by the trapezoid rule of step h, with `g(w) = (1+w)^alpha - 1 - alpha w` and `x = alpha - 1`.
    fn log_excess(&self, x: f64, h: f64) -> f64 {
        let alpha = 1.0 + x;
        // Upper bound on the slope of log(q(z)/phi(z) (r^alpha + alpha)) in z.
        let pull = if self.two_sided { alpha + x } else { alpha } / self.sigma;
        let first = if self.two_sided {
            -(2.0 / self.sigma + 10.0)
        } else {
            -10.0
        };
        let log_alpha = alpha.ln();
        let mut sum = Accumulator::new();
        // Knowing a large term early is what makes skipping effective.
        let mut best = f64::NEG_INFINITY;
        for start in [2.0 / self.sigma, pull] {
            let mut z = start;
            for _ in 0..40 {
                z = self.upper_mode(z, alpha);
            }
            best = best.max(self.term(z, x).0);
        }
        let mut k = (first / h).floor();
        loop {
            let z = k * h;
            let (term, log_ratio, log_density) = self.term(z, x);
            best = best.max(term);
            sum.add(term);
            let tilted = alpha * log_ratio;
            let envelope = log_density
                + if tilted > log_alpha + 40.0 {
                    tilted + 1e-15
                } else {
                    log_add_exp(tilted, log_alpha)
                };
            if best == f64::NEG_INFINITY && z > pull + 100.0 {
                return best;
            }
            let missing = best - NEGLIGIBLE - envelope;
            if missing > 0.0 {
                let slope = pull - z;
                // Past the last mode. All terms are zero only if the whole integral underflows.
                if slope <= 0.0 {
                    break;
                }
                k += (missing / slope / h).floor().max(1.0);
            } else {
                k += 1.0;
            }
        }
        sum.log() + h.ln()
    }

    /// One step of the fixed-point iteration for stationary points of `q r^alpha`.
    fn upper_mode(&self, z: f64, alpha: f64) -> f64 {
        let share = |u: f64| 1.0 / (1.0 + (self.log_rest - self.log_rate - u).exp());
        let shift = 0.5 / (self.sigma * self.sigma);
        let plus = alpha * share(z / self.sigma - shift);
        if self.two_sided {
            (plus + (alpha - 1.0) * share(-z / self.sigma - shift)) / self.sigma
        } else {
            plus / self.sigma
        }
    }

    /// At `z`: log of density times g, log of P/Q, log of the density of Q.
    fn term(&self, z: f64, x: f64) -> (f64, f64, f64) {
        let shift = 0.5 / (self.sigma * self.sigma);
        let u = z / self.sigma - shift;
        let log_phi = -0.5 * z * z - LN_SQRT_2PI;
        if self.two_sided {
            let down = -z / self.sigma - shift;
            let (log_p, log_q) = (self.log_mixture(u), self.log_mixture(down));
            // w = 2 q e^(-shift) sinh(z / sigma) / (1 - q + q e^down)
            let reach = z.abs() / self.sigma;
            let log_w = if reach < 600.0 {
                LN_2 + self.log_rate - shift - log_q + reach.sinh().ln()
            } else {
                log_p.max(log_q) - log_q + log_one_minus_exp(-(log_p - log_q).abs())
            };
            let w = log_w.exp().copysign(z);
            let log_ratio = if w.abs() < 0.5 {
                w.ln_1p()
            } else {
                log_p - log_q
            };
            let log_density = log_phi + log_q;
            let excess = log_excess_of(w, log_w, log_ratio, x);
            (log_density + excess, log_ratio, log_density)
        } else {
            let change = u.exp_m1();
            let log_ratio = self.log_mixture(u);
            let log_w = self.log_rate + change.abs().ln();
            let excess = log_excess_of(self.rate * change, log_w, log_ratio, x);
            (log_phi + excess, log_ratio, log_phi)
        }
    }

    /// `log(1 - q + q e^u)`, with small relative error also near zero.
    fn log_mixture(&self, u: f64) -> f64 {
        if u > 30.0 {
            self.log_rate + u + (self.log_rest - self.log_rate - u).exp().ln_1p()
        } else {
            let change = self.rate * u.exp_m1();
            if change < -0.5 {
                // The rate is above 1/2, so `1 - rate` is exact. Near rate 1 the other form cancels.
                (1.0 - self.rate + self.rate * u.exp()).ln()
            } else {
                change.ln_1p()
            }
        }
    }
}

/// `log((1+w)^(1+x) - 1 - (1+x) w)`, where `l = log(1+w)` and
/// `log_w = log |w|`, which is finite where w underflows. Never a difference of near equals:
/// the function is `(1+w)(e^(xl) - 1 - xl) + x ((1+w) l - w)`, two nonnegative terms.
fn log_excess_of(w: f64, log_w: f64, l: f64, x: f64) -> f64 {
    let y = x * l;
    if y > 30.0 {
        // Divided by (1+w)^(1+x).
        return y + l + (-(1.0 - x * (-l).exp_m1()) * (-y).exp()).ln_1p();
    }
    if w > 1.0 {
        // Divided by 1+w, which may overflow.
        return l + (exp_minus_linear(y) + x * (l + (-l).exp_m1())).ln();
    }
    if w.abs() < 0.1 && y.abs() < 0.5 {
        // Divided by w^2, which may underflow.
        let ratio = if w.abs() < 1e-100 { x } else { y / w };
        let first = (1.0 + w) * ratio * ratio * exp_minus_linear_over_square(y);
        return 2.0 * log_w + (first + x * entropy_over_square(w)).ln();
    }
    let r = l.exp();
    let entropy = if w.abs() < 0.1 {
        w * w * entropy_over_square(w)
    } else {
        r * l - w
    };
    (r * exp_minus_linear(y) + x * entropy).ln()
}

/// Sums numbers given by their logarithms.
struct Accumulator {
    scale: f64,
    sum: f64,
}

impl Accumulator {
    fn new() -> Self {
        Accumulator {
            scale: f64::NEG_INFINITY,
            sum: 0.0,
        }
    }

    fn add(&mut self, term: f64) {
        if term == f64::NEG_INFINITY {
            return;
        }
        if term > self.scale {
            self.sum *= (self.scale - term).exp();
            self.sum += 1.0;
            self.scale = term;
        } else {
            self.sum += (term - self.scale).exp();
        }
    }

    fn log(&self) -> f64 {
        self.scale + self.sum.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 12] = [
        1e-9,
        1e-4,
        0.01,
        0.1,
        0.3,
        0.5,
        0.7,
        0.9,
        0.999,
        1.0 - 1e-7,
        1.0 - 1e-11,
        1.0 - 1.2e-16,
    ];

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

    #[test]
    fn halving_the_step_changes_nothing() {
        let mut worst = (0.0, String::new());
        for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
            for sigma in [0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.3, 2.0, 5.0, 50.0] {
                for rate in RATES {
                    for x in [
                        1e-6, 0.01, 0.1, 0.5, 1.0, 1.7, 4.2, 9.0, 24.0, 31.5, 127.0, 1000.0,
                    ] {
                        let pair = Pair::new(rate, sigma / adjacency.sum_sensitivity(), adjacency);
                        let coarse = pair.log_excess(x, pair.step(x));
                        let fine = pair.log_excess(x, 0.5 * pair.step(x));
                        let error = (coarse - fine).abs() / fine.abs().max(1.0);
                        if error > worst.0 {
                            worst = (error, format!("{adjacency} {sigma} {rate} {x}"));
                        }
                    }
                }
            }
        }
        assert!(worst.0 < 1e-13, "{worst:?}");
    }
}
