//! How often a Poisson sample is too large.

use libm::{exp, lgamma, log, log1p};

/// Terms that are added one by one.
const TERMS: u64 = 200_000;

/// Upper bound on the probability that at least `most` of `records` are sampled at `rate`; `most` is at least their mean.
pub(super) fn overflow(records: u64, rate: f64, most: u64) -> f64 {
    if most > records {
        return 0.0;
    }
    if rate >= 1.0 {
        return 1.0;
    }
    let (n, b) = (records as f64, most as f64);
    let parts = [
        lgamma(n + 1.0),
        -lgamma(b + 1.0),
        -lgamma(n - b + 1.0),
        b * log(rate),
        (n - b) * log1p(-rate),
    ];
    let ln: f64 = parts.iter().sum();
    // The parts are good to a few units each, arguments above 2^53 included.
    let error: f64 = parts.iter().map(|part| part.abs()).sum::<f64>() * 16.0 * f64::EPSILON;
    let odds = rate / (1.0 - rate);
    let (mut term, mut sum, mut j) = (1.0, 0.0, b);
    for _ in 0..TERMS {
        sum += term;
        term *= (n - j) / (j + 1.0) * odds;
        j += 1.0;
        if term < 1e-18 * sum {
            break;
        }
    }
    // Ratios of neighbours fall, so the rest is below a geometric series.
    let ratio = (n - j) / (j + 1.0) * odds;
    let rest = if ratio < 1.0 {
        term / (1.0 - ratio)
    } else {
        f64::INFINITY
    };
    (exp(ln + error) * (sum + rest) * (1.0 + 1e-9) + f64::MIN_POSITIVE).min(1.0)
}
