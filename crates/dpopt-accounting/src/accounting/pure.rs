//! Pure and approximate differential privacy: basic, advanced and optimal composition.
//!
//! The k-fold adaptive composition of epsilon-DP mechanisms is no worse than k randomised
//! responses, and equals them for the worst mechanisms (Kairouz, Oh and Viswanath 2015, "The
//! composition theorem for differential privacy", Theorem 3.3). With i lies among k answers,
//!
//! `delta = sum over i of C(k, i) e^((k-i) e0) / (1 + e^e0)^k (1 - e^(epsilon - (k - 2i) e0))+`.
//!
//! (e0, d0)-DP mechanisms cost `1 - (1 - d0)^k (1 - delta)` (the same theorem). All of this holds
//! under any neighbouring relation under which the single mechanisms were given.

use super::AccountingError;
use super::bounded_range;
use super::parts::{Other, Parts};
use super::releases::{float, product_up, sum_up, up};
use super::special::{entropy_over_square, exp_minus_linear};
use crate::units::{Delta, Epsilon};

/// Relative slack, upwards, of every delta computed here, for a few mechanisms.
const SLACK: f64 = 1e-11;

/// delta of the k-fold composition of `epsilon0`-DP mechanisms, at `epsilon`; exact but for a
/// relative slack upwards, of 1e-11 for a few mechanisms and of at most 1e-8 for 10^7.
///
/// Source: Kairouz, Oh and Viswanath 2015, Theorem 3.3 with delta 0.
#[must_use]
pub fn k_fold_delta(epsilon0: Epsilon, count: u64, epsilon: f64) -> f64 {
    let (e0, k) = (epsilon0.get(), float(count));
    if epsilon.is_nan() {
        return f64::NAN;
    }
    if count == 0 || epsilon >= product_up(e0, k) {
        return 0.0;
    }
    let epsilon = epsilon.max(0.0);
    // P(lie) = 1 / (1 + e^e0); losses (k - 2i) e0 above epsilon matter.
    let odds = (-e0).exp();
    // One more than the last such i, as the quotient is rounded; then its loss is found not to be above.
    let boundary = (0.5 * (k - epsilon / e0)).floor().max(0.0) + 1.0;
    let boundary = boundary.min(k);
    let mode = (k * odds / (1.0 + odds)).floor();
    let start = boundary.min(mode);
    let part = |i: f64| {
        // Rounded once, so that nothing cancels where epsilon is close to a loss.
        let above = (k - 2.0 * i).mul_add(e0, -epsilon);
        if above > 0.0 { -(-above).exp_m1() } else { 0.0 }
    };
    // Probabilities relative to the one at the start, downwards and upwards until they vanish.
    let mut sum = 0.0;
    let (mut i, mut relative) = (start, 1.0_f64);
    while i >= 0.0 {
        sum += relative * part(i);
        if relative < 1e-22 * sum || relative < 1e-300 {
            break;
        }
        relative *= i / ((k - i + 1.0) * odds);
        i -= 1.0;
    }
    (i, relative) = (start, 1.0);
    while i < boundary && relative > 1e-30 {
        relative *= (k - i) * odds / (i + 1.0);
        i += 1.0;
        sum += relative * part(i);
    }
    let log_delta = log_binomial(k, start, e0) + sum.ln();
    // The deviance of the start errs by 2^-53 of the derivative in its mean, sqrt(2 k |log|) at most; the recurrence by
    // three units for each of the sqrt(k) terms that count.
    let units = 64.0 * (1.0 + (k * (1.0 + log_delta.abs().min(800.0))).sqrt());
    (log_delta.exp() * (1.0 + SLACK + units * f64::EPSILON)).clamp(f64::from_bits(1), 1.0)
}

/// The least epsilon of the k-fold composition of `epsilon0`-DP mechanisms at `delta`, rounded up.
///
/// Source: the inverse of [`k_fold_delta`].
#[must_use]
pub fn k_fold_epsilon(epsilon0: Epsilon, count: u64, delta: Delta) -> f64 {
    least_epsilon(
        product_up(epsilon0.get(), float(count)),
        delta.get(),
        |epsilon| k_fold_delta(epsilon0, count, epsilon),
    )
}

/// epsilon after sampling at rate q: `log(1 + q (e^epsilon - 1))`, rounded up.
///
/// Poisson sampling under add-remove, or sampling without replacement at `q = m/n` under
/// replace-one, of a mechanism that is epsilon-DP under that relation.
///
/// Source: Balle, Barthe and Gaboardi 2018 (arXiv 1807.01647), Theorems 8 and 9.
#[must_use]
pub fn amplified(epsilon: f64, rate: f64) -> f64 {
    let value = if epsilon < 30.0 {
        (rate * epsilon.exp_m1()).ln_1p()
    } else {
        // log q + epsilon + log(1 + (1 - q) e^-epsilon / q)
        let log_rate = rate.ln();
        epsilon + log_rate + ((1.0 - rate) * (-epsilon - log_rate).exp()).ln_1p()
    };
    let size = value + if epsilon < 30.0 { 0.0 } else { epsilon };
    up((value + 4.0 * f64::EPSILON * size).min(epsilon))
}

/// Theorems for comparison with papers. They are bounds, and never better than the optimum.
pub mod advanced {
    use crate::units::{Delta, Epsilon};

    /// The least of three bounds on epsilon of a composition of epsilon_i-DP mechanisms, each
    /// given with its multiplicity: the sum, and with `A = sum epsilon_i tanh(epsilon_i / 2)` and
    /// `B = sum epsilon_i^2`, `A + sqrt(2 B log(1/delta))` and `A + sqrt(2 B log(e + sqrt(B)/delta))`.
    ///
    /// Source: Kairouz, Oh and Viswanath 2015, Theorem 3.5.
    #[must_use]
    pub fn kairouz_oh_viswanath(mechanisms: &[(Epsilon, u64)], delta: Delta) -> f64 {
        let Moments {
            sum,
            mean,
            square,
            slack,
        } = Moments::of(mechanisms);
        let plain = mean + (-2.0 * square * delta.get().ln()).sqrt();
        let log = (std::f64::consts::E + square.sqrt() / delta.get()).ln();
        let other = mean + (2.0 * square * log).sqrt();
        sum.min(plain).min(other) * slack
    }

    /// The inverse of [`kairouz_oh_viswanath`]: a delta, at most 1, at which it is at most `epsilon`.
    ///
    /// With `x = (epsilon - A)^2 / (2 B)`, the lesser of `e^-x` and `sqrt(B) / (e^x - e)`; 0 from the sum on.
    #[must_use]
    pub fn kairouz_oh_viswanath_delta(mechanisms: &[(Epsilon, u64)], epsilon: f64) -> f64 {
        let Moments {
            sum,
            mean,
            square,
            slack,
        } = Moments::of(mechanisms);
        // Twice the slack, so that this is an inverse after all rounding.
        let epsilon = epsilon / (slack * slack);
        if epsilon >= sum {
            return 0.0;
        }
        if !(epsilon > mean) {
            return 1.0;
        }
        let x = (epsilon - mean) * (epsilon - mean) / (2.0 * square);
        let plain = (-x).exp();
        // e^x - e, from an x that is a hair too small.
        let odds = std::f64::consts::E * (x - 1.0 - 1e-13 * (1.0 + x)).exp_m1();
        let other = if odds > 0.0 {
            square.sqrt() / odds
        } else {
            1.0
        };
        let slack = 1.0 + 1e-13 * (1.0 + x.min(800.0));
        (plain.min(other) * slack).clamp(f64::from_bits(1), 1.0)
    }

    /// Sums over mechanisms: of epsilon, `A` and `B` of the theorem, and a factor for the rounding of all.
    struct Moments {
        sum: f64,
        mean: f64,
        square: f64,
        slack: f64,
    }

    impl Moments {
        fn of(mechanisms: &[(Epsilon, u64)]) -> Self {
            let (mut sum, mut mean, mut square) = (0.0, 0.0, 0.0);
            for (epsilon, count) in mechanisms {
                let (e, k) = (epsilon.get(), *count as f64);
                sum += k * e;
                mean += k * e * (0.5 * e).tanh();
                square += k * e * e;
            }
            Self {
                sum,
                mean,
                square,
                slack: 1.0 + f64::EPSILON * (16.0 + mechanisms.len() as f64),
            }
        }
    }
}

/// Sum of epsilons and probability that some delta fails, both rounded up.
pub(crate) fn basic(parts: &Parts) -> (f64, f64) {
    let (mut epsilon, mut log_safe) = (0.0, 0.0);
    for (other, count) in &parts.others {
        let (one, failure) = cost_of(other);
        epsilon = sum_up(epsilon, product_up(one, float(*count)));
        log_safe += (-failure).ln_1p() * float(*count);
    }
    let delta = if log_safe < 0.0 {
        let slack = 1.0 + 1e-15 * (8.0 + parts.others.len() as f64);
        (-(log_safe.exp_m1()) * slack).min(1.0)
    } else {
        0.0
    };
    (epsilon, delta)
}

fn cost_of(other: &Other) -> (f64, f64) {
    match other {
        Other::Pure { epsilon, .. }
        | Other::BoundedRange { epsilon }
        | Other::Laplace { epsilon }
        | Other::DiscreteLaplace { epsilon, .. } => (*epsilon, 0.0),
        Other::Approximate { epsilon, delta } => (*epsilon, *delta),
        Other::Parallel(parts) => parts
            .iter()
            .map(basic)
            .fold((0.0, 0.0), |worst: (f64, f64), part| {
                (worst.0.max(part.0), worst.1.max(part.1))
            }),
        // Refused when the parts were made.
        _ => (f64::INFINITY, 1.0),
    }
}

/// The single mechanisms of a composition: epsilon, how often.
fn mechanisms(parts: &Parts) -> Result<Vec<(Epsilon, u64)>, AccountingError> {
    let mut all = Vec::new();
    for (other, count) in &parts.others {
        let (value, _) = cost_of(other);
        if value > 0.0 {
            let quantity = "epsilon";
            let epsilon =
                Epsilon::new(value).map_err(|_| AccountingError::OutOfRange { quantity, value })?;
            all.push((epsilon, *count));
        }
    }
    Ok(all)
}

/// The whole composition as copies of its worst mechanism.
fn alike(all: &[(Epsilon, u64)]) -> Option<(Epsilon, u64)> {
    let worst = all
        .iter()
        .map(|m| m.0)
        .reduce(|a, b| if b > a { b } else { a })?;
    let count = all.iter().fold(0_u64, |k, m| k.saturating_add(m.1));
    Some((worst, count))
}

/// Mechanisms of one bounded range, so few that their optimal composition is computed.
fn ranges(parts: &Parts) -> Option<(Epsilon, u64)> {
    let [(Other::BoundedRange { epsilon }, count)] = parts.others.as_slice() else {
        return None;
    };
    let range = Epsilon::new(*epsilon).ok()?;
    (2..=MOST_RANGES).contains(count).then_some((range, *count))
}

/// Tuned: under a second.
const MOST_RANGES: u64 = 64;

/// epsilon of a composition at delta, rounded up: the least of the sum, the optimum for copies of
/// its worst mechanism, and Theorem 3.5 of Kairouz, Oh and Viswanath.
pub(crate) fn epsilon_of(parts: &Parts, delta: Delta) -> Result<f64, AccountingError> {
    if let Some((range, count)) = ranges(parts) {
        return Ok(bounded_range::epsilon(range, count, delta)?.upper);
    }
    let (sum, failure) = basic(parts);
    if failure > delta.get() {
        return Err(AccountingError::OutOfRange {
            quantity: "epsilon",
            value: f64::INFINITY,
        });
    }
    let all = mechanisms(parts)?;
    // 1 - (1 - failure)(1 - rest) = delta, rest rounded down.
    let rest = (delta.get() - failure) / (1.0 - failure) * (1.0 - 4.0 * f64::EPSILON);
    let (Ok(rest), Some((worst, count))) = (Delta::new(rest), alike(&all)) else {
        return Ok(sum);
    };
    let optimum = if count < MAX_COUNT {
        k_fold_epsilon(worst, count, rest)
    } else {
        f64::INFINITY
    };
    let bound = advanced::kairouz_oh_viswanath(&all, rest);
    Ok(sum.min(optimum).min(bound))
}

/// delta of a composition at epsilon, rounded up.
pub(crate) fn delta_of(parts: &Parts, epsilon: Epsilon) -> Result<f64, AccountingError> {
    if let Some((range, count)) = ranges(parts) {
        return Ok(bounded_range::delta(range, count, epsilon.get())?.upper);
    }
    let (sum, failure) = basic(parts);
    let all = mechanisms(parts)?;
    if epsilon.get() >= sum {
        return Ok(failure);
    }
    let rest = match alike(&all) {
        Some((worst, count)) if count < MAX_COUNT => k_fold_delta(worst, count, epsilon.get()),
        Some(_) => 1.0,
        None => 0.0,
    };
    let rest = rest.min(advanced::kairouz_oh_viswanath_delta(&all, epsilon.get()));
    let slack = 1.0 + 4.0 * f64::EPSILON;
    Ok(((failure + rest * (1.0 - failure)) * slack).min(1.0))
}

/// Sums with more terms than this are not worth the time.
const MAX_COUNT: u64 = 20_000_000;

/// The least epsilon in `[0, most]` with `delta_at(epsilon) <= delta`, by bisection.
fn least_epsilon(most: f64, delta: f64, delta_at: impl Fn(f64) -> f64) -> f64 {
    if delta_at(0.0) <= delta {
        return 0.0;
    }
    let (mut lo, mut hi) = (0.0, most);
    for _ in 0..200 {
        let middle = 0.5 * (lo + hi);
        if middle <= lo || middle >= hi || hi - lo < 1e-14 * hi {
            break;
        }
        if delta_at(middle) <= delta {
            hi = middle;
        } else {
            lo = middle;
        }
    }
    hi
}

/// log of the probability of i lies among k answers, with p = 1 / (1 + e^e0), to about 1e-13.
fn log_binomial(k: f64, i: f64, e0: f64) -> f64 {
    let odds = (-e0).exp();
    let (p, q) = (odds / (1.0 + odds), 1.0 / (1.0 + odds));
    if i == 0.0 {
        return -k * odds.ln_1p();
    }
    if i == k {
        return k * (-e0 - odds.ln_1p());
    }
    // Stirling's series for the three factorials, the large terms combined to
    // -k KL(i/k, p) before anything is subtracted (Loader 2000).
    stirling_rest(k)
        - stirling_rest(i)
        - stirling_rest(k - i)
        - excess(i, k * p)
        - excess(k - i, k * q)
        + 0.5 * (k / (std::f64::consts::TAU * i * (k - i))).ln()
}

/// `x log(x/m) + m - x`, without cancellation near `x = m`.
fn excess(x: f64, m: f64) -> f64 {
    let w = (x - m) / m;
    if w.abs() <= 0.1 {
        m * w * w * entropy_over_square(w)
    } else {
        let u = (x / m).ln();
        // m (e^-u - 1 + u) scaled to x: x (u - 1) + m.
        x * exp_minus_linear(-u)
    }
}

/// `log n! - log(sqrt(2 pi n) (n/e)^n)`.
fn stirling_rest(n: f64) -> f64 {
    if n < 16.0 {
        let log_root = 0.5 * (std::f64::consts::TAU * n).ln();
        return libm::lgamma(n + 1.0) - (log_root + n * n.ln() - n);
    }
    let s = 1.0 / (n * n);
    (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))) / n
}
