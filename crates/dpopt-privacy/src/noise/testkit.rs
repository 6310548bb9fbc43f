//! Sources of bits that stress the sampler, and tests of a law with a stated false-alarm rate.

use std::collections::VecDeque;

use libm::{erfc, lgamma};
use rand::Rng;

use super::digits::BitSource;
use super::purpose::Purpose;
use super::stream::{KeyedStream, ReplayKeyForTests, StreamId};

/// A check fails if its p-value is below this. The files of tests here make fewer than 300
/// checks on random draws, so that a correct sampler would fail any of them for fewer than two
/// seeds in a million. The seeds are fixed: the tests do not flake.
pub(super) const FALSE_ALARM: f64 = 5e-9;

/// The stream of fixed bits for test number `number`.
pub(super) fn stream(number: u32) -> KeyedStream {
    ReplayKeyForTests::from_seed(20_260_501).stream(StreamId::new(Purpose::Noise, number))
}

/// Uniform bits in short digits: with one-bit digits every second comparison is a tie at first.
pub(super) struct Narrow<const BITS: u32> {
    stream: KeyedStream,
    buffer: u64,
    left: u32,
}

impl<const BITS: u32> Narrow<BITS> {
    pub(super) fn new(number: u32) -> Self {
        Self {
            stream: stream(number),
            buffer: 0,
            left: 0,
        }
    }
}

impl<const BITS: u32> BitSource for Narrow<BITS> {
    const DIGIT_BITS: u32 = BITS;

    fn word(&mut self) -> u64 {
        self.stream.next_u64()
    }

    fn digit(&mut self) -> u64 {
        if self.left < BITS {
            self.buffer = self.stream.next_u64();
            self.left = u64::BITS;
        }
        let digit = self.buffer >> (u64::BITS - BITS);
        self.buffer = if BITS == u64::BITS {
            0
        } else {
            self.buffer << BITS
        };
        self.left -= BITS;
        digit
    }
}

/// A broken source: its digits have their lowest bit set a little too often, and its words the
/// highest bit of a box number.
pub(super) struct Biased(pub(super) Narrow<1>);

impl BitSource for Biased {
    const DIGIT_BITS: u32 = 1;

    fn word(&mut self) -> u64 {
        self.0.word() | u64::from(self.0.word() >> 59 == 0) << 13
    }

    fn digit(&mut self) -> u64 {
        // One with probability 1/2 + 1/64.
        u64::from(self.0.digit() == 1 || self.0.word() >> 59 == 0)
    }
}

/// Words and digits of any width read from a list.
pub(super) struct Listed<const BITS: u32> {
    digits: VecDeque<u64>,
}

impl<const BITS: u32> Listed<BITS> {
    pub(super) fn new(digits: &[u64]) -> Self {
        Self {
            digits: digits.iter().copied().collect(),
        }
    }

    pub(super) fn left(&self) -> usize {
        self.digits.len()
    }
}

impl<const BITS: u32> BitSource for Listed<BITS> {
    const DIGIT_BITS: u32 = BITS;

    fn word(&mut self) -> u64 {
        self.digits.pop_front().unwrap()
    }

    fn digit(&mut self) -> u64 {
        self.digits.pop_front().unwrap()
    }
}

/// Φ(b) − Φ(a) for a ≤ b, without cancellation in the tails.
pub(super) fn phi_between(a: f64, b: f64) -> f64 {
    let root = std::f64::consts::SQRT_2;
    let value = if a >= 0.0 {
        erfc(a / root) - erfc(b / root)
    } else if b <= 0.0 {
        erfc(-b / root) - erfc(-a / root)
    } else {
        2.0 - erfc(b / root) - erfc(-a / root)
    };
    value / 2.0
}

/// Q(a, x), the upper regularised incomplete gamma function: by its power series below `a + 1`,
/// by Lentz's continued fraction above.
fn gamma_upper(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() - x - lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return 1.0 - front * sum;
    }
    let mut b = x + 1.0 - a;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut product = d;
    for i in 1..100_000 {
        let i = f64::from(i);
        let numerator = -i * (i - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        product *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * product
}

/// The p-value of Pearson's test.
pub(super) fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
    let n = counts.iter().sum::<u64>() as f64;
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(&count, &p)| (count as f64 - n * p).powi(2) / (n * p))
        .sum();
    gamma_upper((counts.len() - 1) as f64 / 2.0, statistic / 2.0)
}

/// The p-value of Pearson's test against equal probabilities.
pub(super) fn chi_square_uniform(counts: &[u64]) -> f64 {
    chi_square(counts, &vec![1.0 / counts.len() as f64; counts.len()])
}

/// The p-value, two-sided, of a sum that is normal by the central limit theorem.
pub(super) fn z_test(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Massart's bound on the p-value of the Kolmogorov-Smirnov statistic; no asymptotics.
pub(super) fn kolmogorov(mut uniforms: Vec<f64>) -> f64 {
    uniforms.sort_by(f64::total_cmp);
    let n = uniforms.len() as f64;
    let distance = uniforms
        .iter()
        .enumerate()
        .map(|(i, &u)| (u - i as f64 / n).max((i + 1) as f64 / n - u))
        .fold(0.0, f64::max);
    (2.0 * (-2.0 * n * distance * distance).exp()).min(1.0)
}

/// The checks that a sample fails.
pub(super) fn alarms(checks: &[(&'static str, f64)]) -> Vec<&'static str> {
    for (name, p) in checks {
        assert!((0.0..=1.0 + 1e-12).contains(p), "{name}: p-value {p}");
    }
    checks
        .iter()
        .filter(|(_, p)| *p < FALSE_ALARM)
        .map(|(name, _)| *name)
        .collect()
}

/// [`mass_checks`] against `P(k) = Φ((k+½)/s) − Φ((k−½)/s)`, for scales up to some thousands.
pub(super) fn law_checks(draws: &[i64], scale: f64) -> Vec<(&'static str, f64)> {
    let reach = (12.0 * scale).ceil() as i64 + 1;
    let masses: Vec<f64> = (-reach..=reach)
        .map(|k| phi_between((k as f64 - 0.5) / scale, (k as f64 + 0.5) / scale))
        .collect();
    mass_checks(draws, &masses)
}

/// Eight checks of a sample against the masses of `−reach..=reach`: Pearson with fine cells, with
/// coarse cells, and for the seven integers about zero; sign, mean, second and fourth moments, and
/// the number of draws far out, where a few in 10^5 should be.
pub(super) fn mass_checks(draws: &[i64], cells: &[f64]) -> Vec<(&'static str, f64)> {
    let n = draws.len() as f64;
    let reach = (cells.len() / 2) as i64;
    let mut counts = vec![0_u64; cells.len()];
    for &draw in draws {
        let index = usize::try_from(draw + reach).unwrap();
        counts[index] += 1;
    }
    let moment = |power: i32| -> f64 {
        (-reach..=reach)
            .zip(cells)
            .map(|(k, p)| (k as f64).powi(power) * p)
            .sum()
    };
    let observed = |power: i32| -> f64 {
        (-reach..=reach)
            .zip(&counts)
            .map(|(k, &count)| (k as f64).powi(power) * count as f64)
            .sum::<f64>()
            / n
    };
    let z = |power: i32| {
        let variance = moment(2 * power) - moment(power).powi(2);
        (observed(power) - moment(power)) / (variance / n).sqrt()
    };
    // The middle alone: truncation towards zero doubles the cell of zero and little else.
    let middle = counts.len() / 2;
    let around = middle.saturating_sub(3)..(middle + 4).min(counts.len());
    let mut centre_counts = counts[around.clone()].to_vec();
    let mut centre = cells[around].to_vec();
    centre_counts.push(draws.len() as u64 - centre_counts.iter().sum::<u64>());
    centre.push((1.0 - centre.iter().sum::<f64>()).max(0.0));
    let above = draws.iter().filter(|&&k| k > 0).count() as f64;
    let below = draws.iter().filter(|&&k| k < 0).count() as f64;
    let sign = (above - below) / (above + below).max(1.0).sqrt();
    // The first distance that is passed with probability below 10^-4.
    let (mut far, mut chance) = (middle, 0.0);
    while far > 0 && chance + cells[middle + far] + cells[middle - far] < 1e-4 {
        chance += cells[middle + far] + cells[middle - far];
        far -= 1;
    }
    let hits: u64 = (0..cells.len())
        .filter(|index| index.abs_diff(middle) > far)
        .map(|index| counts[index])
        .sum();
    let tail = if n * chance < 25.0 {
        0.0
    } else {
        (hits as f64 - n * chance) / (n * chance).sqrt()
    };
    vec![
        ("tail", z_test(tail)),
        ("fine cells", pooled_chi_square(&counts, cells, 50.0)),
        ("coarse cells", pooled_chi_square(&counts, cells, n / 50.0)),
        ("centre", pooled_chi_square(&centre_counts, &centre, 50.0)),
        ("sign", z_test(sign)),
        ("mean", z_test(z(1))),
        ("second moment", z_test(z(2))),
        ("fourth moment", z_test(z(4))),
    ]
}

/// Pearson's test after neighbouring cells are joined until each expects `least` draws.
fn pooled_chi_square(counts: &[u64], probabilities: &[f64], least: f64) -> f64 {
    let n = counts.iter().sum::<u64>() as f64;
    let (mut joined, mut expected) = (vec![0_u64], vec![0.0]);
    for (&count, &p) in counts.iter().zip(probabilities) {
        if n * expected[expected.len() - 1] >= least {
            joined.push(0);
            expected.push(0.0);
        }
        let last = joined.len() - 1;
        joined[last] += count;
        expected[last] += p;
    }
    // What is left at the upper end joins the last full cell.
    if joined.len() > 1 && n * expected[expected.len() - 1] < least {
        let (count, p) = (joined.pop().unwrap(), expected.pop().unwrap());
        let last = joined.len() - 1;
        joined[last] += count;
        expected[last] += p;
    }
    if joined.len() == 1 {
        return 1.0;
    }
    chi_square(&joined, &expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles from tables: the yardstick is right.
    #[test]
    fn p_values_agree_with_tables() {
        assert!((gamma_upper(0.5, 3.841_458_820_694_124 / 2.0) - 0.05).abs() < 1e-12);
        assert!((gamma_upper(5.0, 18.307_038_053_275_146 / 2.0) - 0.05).abs() < 1e-12);
        assert!((gamma_upper(50.0, 135.806_723_171_026 / 2.0) - 0.01).abs() < 1e-6);
        assert!((gamma_upper(1.0, 20.0) / (-20.0_f64).exp() - 1.0).abs() < 1e-12);
        assert!((z_test(1.959_963_984_540_054) - 0.05).abs() < 1e-12);
        assert!((phi_between(-1.0, 1.0) - 0.682_689_492_137_085_9).abs() < 1e-15);
        assert!((phi_between(8.0, 9.0) / 6.219_8e-16 - 1.0).abs() < 1e-3);
    }
}
