//! Tests of a law with a stated false-alarm rate.

use libm::erfc;

use crate::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};

/// A check fails if its p-value is below this. There are fewer than 100 such checks on random
/// draws, so that a correct program would fail any of them for fewer than one seed in 10^6. Seeds
/// are fixed: the tests do not flake.
const FALSE_ALARM: f64 = 1e-8;

/// Fixed bits for test number `number`.
pub(super) fn stream(number: u32) -> KeyedStream {
    ReplayKeyForTests::from_seed(20_261_120).stream(StreamId::new(Purpose::Noise, number))
}

/// Pearson's chi-square of counts against probabilities, by the approximation of Wilson and
/// Hilferty (1931), which at this level is good to a factor of two in the p-value for 4 classes
/// and more, and too strict below; classes are expected to hold 20 counts or more.
pub(super) fn p_value(counts: &[u64], probabilities: &[f64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let mut statistic = 0.0;
    let mut classes = 0;
    let (mut rest, mut rest_expected) = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        let expected = probability * total as f64;
        if expected < 20.0 {
            rest += count as f64;
            rest_expected += expected;
            continue;
        }
        statistic += (count as f64 - expected).powi(2) / expected;
        classes += 1;
    }
    if rest_expected >= 20.0 {
        statistic += (rest - rest_expected).powi(2) / rest_expected;
        classes += 1;
    } else if rest > 80.0 {
        return 0.0;
    }
    let degrees = f64::from(classes - 1);
    let spread = 2.0 / (9.0 * degrees);
    let z = ((statistic / degrees).cbrt() - (1.0 - spread)) / spread.sqrt();
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

pub(super) fn chi_square(counts: &[u64], probabilities: &[f64]) {
    let total: f64 = probabilities.iter().sum();
    assert!((total - 1.0).abs() < 1e-9, "probabilities sum to {total}");
    let p = p_value(counts, probabilities);
    assert!(p > FALSE_ALARM, "p = {p:e}: {counts:?} {probabilities:?}");
}

/// The check must see that these counts come from another law.
pub(super) fn chi_square_catches(counts: &[u64], probabilities: &[f64]) {
    let p = p_value(counts, probabilities);
    assert!(p < FALSE_ALARM, "not caught, p = {p:e}");
}
