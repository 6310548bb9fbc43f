//! The samplers against probabilities from recurrences, which share nothing with them.
//!
//! False alarms: a chi-squared with f degrees of freedom is above f + 2 sqrt(f x) + 2x with
//! probability at most e^-x (Laurent and Massart 2000). With x = 16 that is 1.2e-7 for each of
//! about 50 comparisons, 6e-6 in all; seeds are fixed. Expected counts are at least 40, so the
//! statistic is close to its limit.

use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};

use super::*;

fn stream(seed: u64) -> KeyedStream {
    ReplayKeyForTests::from_seed(seed).stream(StreamId::new(Purpose::Sampling, 0))
}

/// Masses around `mode` out to `reach`, from the ratios p_{k+1}/p_k, summing to 1; with the first k.
fn masses(
    mode: u64,
    least: u64,
    most: u64,
    reach: u64,
    ratio: impl Fn(u64) -> f64,
) -> (u64, Vec<f64>) {
    let first = mode.saturating_sub(reach).max(least);
    let last = (mode + reach).min(most);
    let mut masses = vec![0.0; (last - first + 1) as usize];
    let centre = (mode - first) as usize;
    masses[centre] = 1.0;
    for k in mode..last {
        masses[(k - first) as usize + 1] = masses[(k - first) as usize] * ratio(k);
    }
    for k in (first..mode).rev() {
        masses[(k - first) as usize] = masses[(k - first) as usize + 1] / ratio(k);
    }
    let total: f64 = masses.iter().sum();
    masses.iter_mut().for_each(|p| *p /= total);
    (first, masses)
}

fn binomial_masses(n: u64, p: f64, reach: u64) -> (u64, Vec<f64>) {
    let mode = (((n + 1) as f64 * p) as u64).min(n);
    masses(mode, 0, n, reach, |k| {
        (n - k) as f64 / (k + 1) as f64 * (p / (1.0 - p))
    })
}

fn hypergeometric_masses(records: u64, marked: u64, size: u64, reach: u64) -> (u64, Vec<f64>) {
    let least = (marked + size).saturating_sub(records);
    let most = marked.min(size);
    let mode = (marked as f64 * (size as f64 / records as f64)) as u64;
    masses(mode.clamp(least, most), least, most, reach, |k| {
        ((marked - k) as f64 / (k + 1) as f64)
            * ((size - k) as f64 / (records + k + 1 - marked - size) as f64)
    })
}

/// Chi-squared over bins of neighbouring values with about equal probabilities, and its degrees
/// of freedom. Values beyond the masses go to the end bins.
fn chi_squared(sample: &[u64], first: u64, masses: &[f64]) -> (f64, f64) {
    let bins = (sample.len() as f64 / 200.0).clamp(2.0, 60.0);
    let mut ends = Vec::new();
    let mut expected = Vec::new();
    let mut held = 0.0;
    for (i, p) in masses.iter().enumerate() {
        held += p;
        if held >= 1.0 / bins {
            ends.push(first + i as u64);
            expected.push(held);
            held = 0.0;
        }
    }
    match expected.last_mut() {
        Some(last) => *last += held,
        None => return (0.0, 0.0),
    }
    let mut seen = vec![0.0; expected.len()];
    for k in sample {
        let bin = ends.partition_point(|end| end < k).min(seen.len() - 1);
        seen[bin] += 1.0;
    }
    let n = sample.len() as f64;
    let statistic = seen
        .iter()
        .zip(&expected)
        .map(|(seen, p)| (seen - n * p).powi(2) / (n * p))
        .sum();
    (statistic, (expected.len() - 1) as f64)
}

fn alarms((statistic, freedom): (f64, f64)) -> bool {
    let x: f64 = 16.0;
    freedom > 0.0 && statistic > freedom + 2.0 * (freedom * x).sqrt() + 2.0 * x
}

#[test]
fn binomial_numbers_have_their_law() {
    let cases: [(u64, f64); 12] = [
        (2, 0.5),
        (3, 0.01),
        (7, 0.9),
        (40, 0.3),
        (1000, 0.004),
        (1000, 0.999),
        (100_000, 0.5),
        (1_000_000_000, 3e-9),
        (1_000_000_000, 0.01),
        (1_000_000_000_000, 2e-12),
        (1_000_000_000_000, 1e-4),
        (1_000_000_000_000, 0.37),
    ];
    for (case, (n, p)) in cases.into_iter().enumerate() {
        let deviation = (n as f64 * p * (1.0 - p)).sqrt();
        let (first, masses) = binomial_masses(n, p, (9.0 * deviation) as u64 + 40);
        let mut stream = stream(case as u64);
        let sample: Vec<u64> = (0..20_000).map(|_| binomial(n, p, &mut stream)).collect();
        assert!(!alarms(chi_squared(&sample, first, &masses)), "{n} {p}");
        // The same law by rejection, also where the library is asked otherwise.
        let law = Binomial::new(n, p.min(1.0 - p));
        let own = |k: u64| if p > 0.5 { n - k } else { k };
        let sample: Vec<u64> = (0..20_000).map(|_| own(draw(&law, &mut stream))).collect();
        assert!(!alarms(chi_squared(&sample, first, &masses)), "{n} {p}");
    }
}

#[test]
fn hypergeometric_numbers_have_their_law() {
    let cases: [(u64, u64, u64); 12] = [
        (2, 1, 1),
        (5, 3, 4),
        (30, 12, 17),
        (100, 99, 50),
        (1000, 10, 900),
        (100_000, 40_000, 30_000),
        (1_000_000_000, 500_000_000, 1000),
        (1_000_000_000, 7, 300_000_000),
        (1_000_000_000_000, 3_000_000, 2_000_000),
        (1_000_000_000_000, 400_000_000_000, 1_000_000),
        (1_000_000_000_000, 600_000_000_000, 300_000_000_000),
        (1_000_000_000_000, 999_999_999_000, 999_000_000_000),
    ];
    for (case, (records, marked, size)) in cases.into_iter().enumerate() {
        let (n, m, s) = (records as f64, marked as f64, size as f64);
        let deviation = (m / n * (1.0 - m / n) * s * ((n - s) / (n - 1.0))).sqrt();
        let reach = (9.0 * deviation) as u64 + 40;
        let (first, masses) = hypergeometric_masses(records, marked, size, reach);
        let mut stream = stream(100 + case as u64);
        let sample: Vec<u64> = (0..20_000)
            .map(|_| hypergeometric(records, marked, size, &mut stream))
            .collect();
        assert!(
            !alarms(chi_squared(&sample, first, &masses)),
            "{records} {marked} {size}"
        );
    }
}

/// A mean that is off by a fifth of a standard deviation is caught, so the comparisons above say
/// something; and so is a spread that is off by 8 %.
#[test]
fn wrong_laws_are_caught() {
    let (n, p) = (1_000_000_000_u64, 0.01);
    let deviation = (n as f64 * p * (1.0 - p)).sqrt();
    let (first, masses) = binomial_masses(n, p, (9.0 * deviation) as u64);
    let mut stream = stream(7);
    let shifted: Vec<u64> = (0..20_000)
        .map(|_| binomial(n, p + 0.2 * deviation / n as f64, &mut stream))
        .collect();
    assert!(alarms(chi_squared(&shifted, first, &masses)));
    // Without replacement, 15 % of all: the variance is 0.85 of the binomial one.
    let narrow: Vec<u64> = (0..20_000)
        .map(|_| hypergeometric(n, 10_000_000, 150_000_000, &mut stream))
        .collect();
    let p: f64 = 0.15;
    let deviation = (1e7 * p * (1.0 - p)).sqrt();
    let (first, masses) = binomial_masses(10_000_000, p, (9.0 * deviation) as u64);
    // Here the marked are few, so the law is nearly the binomial one.
    assert!(!alarms(chi_squared(&narrow, first, &masses)));
    let narrow: Vec<u64> = (0..20_000)
        .map(|_| hypergeometric(n, 300_000_000, 150_000_000, &mut stream))
        .collect();
    let deviation = (1.5e8 * 0.3 * 0.7_f64).sqrt();
    let (first, masses) = binomial_masses(150_000_000, 0.3, (9.0 * deviation) as u64);
    assert!(alarms(chi_squared(&narrow, first, &masses)));
}

/// Logarithms of probabilities from integer arithmetic: C(n, k) exactly, then p^k q^(n-k).
#[test]
fn masses_of_small_laws_are_those_of_integers() {
    let choose = |n: u64, k: u64| -> f64 {
        let mut c: u128 = 1;
        for j in 0..u128::from(k) {
            c = c * (u128::from(n) - j) / (j + 1);
        }
        c as f64
    };
    for n in [1_u64, 2, 5, 17, 40, 60] {
        for p in [1e-9, 0.03, 0.25, 0.5] {
            let law = Binomial::new(n, p);
            for k in 0..=n {
                let exact =
                    choose(n, k).ln() + k as f64 * f64::ln(p) + (n - k) as f64 * f64::ln_1p(-p);
                let error = (law.ln_mass(k) - exact).abs();
                assert!(error < 1e-13 * (1.0 + exact.abs()), "{n} {p} {k}");
            }
        }
    }
    for (records, marked, size) in [(10_u64, 4_u64, 5_u64), (60, 21, 30), (58, 50, 40)] {
        let law = Hypergeometric::new(records, marked, size);
        for k in law.least()..=law.most() {
            let ways = choose(marked, k) * choose(records - marked, size - k);
            let exact = (ways / choose(records, size)).ln();
            let error = (law.ln_mass(k) - exact).abs();
            assert!(
                error < 1e-13 * (1.0 + exact.abs()),
                "{records} {marked} {size} {k}"
            );
        }
    }
}

/// For 10^12 records: neighbouring masses have the ratio that they should.
#[test]
fn ratios_of_large_laws_do_not_cancel() {
    let n = 1_000_000_000_000_u64;
    let law = Binomial::new(n, 0.25);
    for k in [249_999_000_000, 250_000_000_000, 250_003_000_000_u64] {
        let ratio = (n - k) as f64 / (k + 1) as f64 / 3.0;
        let seen = law.ln_mass(k + 1) - law.ln_mass(k);
        assert!((seen - ratio.ln()).abs() < 1e-13, "{k}");
    }
    let (marked, size) = (400_000_000_000, 300_000_000_000_u64);
    let law = Hypergeometric::new(n, marked, size);
    for k in [119_999_000_000, 120_000_000_000, 120_001_000_000_u64] {
        let ratio = ((marked - k) as f64 / (k + 1) as f64)
            * ((size - k) as f64 / (n - marked - size + k + 1) as f64);
        let seen = law.ln_mass(k + 1) - law.ln_mass(k);
        assert!((seen - ratio.ln()).abs() < 1e-13, "{k}");
    }
}

#[test]
fn taking_without_replacement_takes_what_there_is() {
    let mut stream = stream(3);
    for size in [0, 1, 17, 1_000_000, 1_000_000_024] {
        let left = [1_000_000_000, 0, 20, 1, 3];
        let mut taken = [0; 5];
        without_replacement(&left, 1_000_000_024, size, &mut stream, &mut taken);
        assert_eq!(taken.iter().sum::<u64>(), size);
        assert!(taken.iter().zip(&left).all(|(t, l)| t <= l));
    }
}

#[test]
fn degenerate_laws_are_constants() {
    let mut stream = stream(4);
    assert_eq!(binomial(0, 0.5, &mut stream), 0);
    assert_eq!(binomial(9, 0.0, &mut stream), 0);
    assert_eq!(binomial(MAX_COUNT, 1.0, &mut stream), MAX_COUNT);
    assert_eq!(hypergeometric(9, 0, 4, &mut stream), 0);
    assert_eq!(hypergeometric(9, 9, 4, &mut stream), 4);
    assert_eq!(hypergeometric(9, 4, 9, &mut stream), 4);
    let most = hypergeometric(MAX_COUNT, MAX_COUNT - 1, 3, &mut stream);
    assert!(most == 2 || most == 3);
}
