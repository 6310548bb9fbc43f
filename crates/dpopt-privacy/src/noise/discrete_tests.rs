//! Tests of the discrete Gaussian and the discrete Laplace against their laws.

use std::num::NonZeroUsize;

use dpopt_lanes::Threads;
use dpopt_testkit::is_long;

use super::bernoulli::{Rational, bernoulli_exp_of};
use super::digits::BitSource;
use super::discrete_gaussian::DiscreteGaussian;
use super::discrete_laplace::DiscreteLaplace;
use super::error::NoiseError;
use super::purpose::Purpose;
use super::stream::{Key, ReplayKeyForTests, StreamId};
use super::testkit::{
    Listed, Narrow, alarms, chi_square_uniform, enumerate, kolmogorov, mass_checks, stream,
};

const DRAWS: usize = 10_000_000;
const FEW: usize = 1_000_000;

fn gaussian(scale: f64, count: usize, number: u32) -> Vec<i64> {
    let mut sums = vec![0; count];
    let key = ReplayKeyForTests::from_seed(4);
    DiscreteGaussian::new(scale)
        .unwrap()
        .add_release(
            key.as_key(),
            StreamId::new(Purpose::Noise, number),
            &Threads::one(),
            &mut sums,
        )
        .unwrap();
    sums
}

fn laplace(parameter: f64, count: usize, number: u32) -> Vec<i64> {
    let mut sums = vec![0; count];
    let key = ReplayKeyForTests::from_seed(5);
    DiscreteLaplace::new(parameter)
        .unwrap()
        .add_release(
            key.as_key(),
            StreamId::new(Purpose::Noise, number),
            &Threads::one(),
            &mut sums,
        )
        .unwrap();
    sums
}

/// exp(−k²/2σ²), normalised by its sum over all k that matter.
fn gaussian_masses(scale: f64) -> Vec<f64> {
    let reach = (12.0 * scale).ceil() as i64 + 2;
    let weight = |k: i64| libm::exp(-(k as f64 / scale).powi(2) / 2.0);
    let total: f64 = (-reach..=reach).map(weight).sum();
    (-reach..=reach).map(|k| weight(k) / total).collect()
}

/// tanh(a/2)·exp(−a|k|), up to where 1e-17 of it is left.
fn laplace_masses(parameter: f64) -> Vec<f64> {
    let reach = (40.0 / parameter).ceil() as i64 + 2;
    (-reach..=reach)
        .map(|k| libm::tanh(parameter / 2.0) * libm::exp(-parameter * k.abs() as f64))
        .collect()
}

fn assert_masses(sample: &[i64], masses: &[f64], what: &str) {
    let checks = mass_checks(sample, masses);
    assert_eq!(alarms(&checks), [""; 0], "{what}: {checks:?}");
}

/// 32 checks. As few draws find a scale that is off by a hundredth: [`broken_twins_are_caught`].
#[test]
fn the_discrete_gaussian_has_its_law() {
    for (number, scale) in [(0, 0.3), (1, 1.0), (2, 3.7), (3, 1000.25)] {
        let count = if scale < 1.0 || !is_long() {
            FEW
        } else {
            DRAWS
        };
        let masses = gaussian_masses(scale);
        assert_masses(
            &gaussian(scale, count, number),
            &masses,
            &format!("σ = {scale}"),
        );
    }
    assert!(gaussian(0.05, 1000, 4).iter().all(|&k| k == 0));
}

/// 16 checks with digits of eight bits: every cut box is decided in long integers.
#[test]
fn the_discrete_gaussian_has_its_law_with_short_digits() {
    for (number, scale) in [(300, 2.5), (301, 1000.25)] {
        let noise = DiscreteGaussian::new(scale).unwrap();
        let mut source = Narrow::<8>::new(number);
        let table = super::strips::Strips::get();
        let sample: Vec<i64> = (0..FEW / 5)
            .map(|_| noise.draw(table, &mut source) as i64)
            .collect();
        assert_masses(&sample, &gaussian_masses(scale), &format!("σ = {scale}"));
    }
}

/// 32 checks.
#[test]
fn the_discrete_laplace_has_its_law() {
    for (number, parameter) in [(0, 4.0), (1, 0.7), (2, 0.25), (3, 0.011)] {
        let masses = laplace_masses(parameter);
        let count = if parameter == 0.25 { DRAWS } else { FEW };
        assert_masses(
            &laplace(parameter, count, number),
            &masses,
            &format!("a = {parameter}"),
        );
    }
    assert!(laplace(1024.0, 1000, 4).iter().all(|&k| k == 0));
}

/// 9 checks at scales where single integers are not seen twice: against the continuous laws, from
/// which these differ by less than one part in 2^30.
#[test]
fn laws_at_large_scales() {
    let large = 1.37 * 30_f64.exp2();
    let normal = gaussian(large, DRAWS / 2, 20);
    let uniforms = normal
        .iter()
        .map(|&k| 0.5 * libm::erfc(-(k as f64) / large / 2_f64.sqrt()));
    check_large(&normal, uniforms.collect(), "Gaussian");
    let two_sided = |parameter: f64| {
        move |&k: &i64| {
            let half = 0.5 * libm::exp(-parameter * k.abs() as f64);
            if k < 0 { half } else { 1.0 - half }
        }
    };
    for (number, parameter) in [(21, 0.73 / 30_f64.exp2()), (22, 3.0 / 52_f64.exp2())] {
        let sample = laplace(parameter, FEW, number);
        let uniforms = sample.iter().map(two_sided(parameter)).collect();
        check_large(&sample, uniforms, "Laplace");
    }
}

fn check_large(sample: &[i64], uniforms: Vec<f64>, what: &str) {
    let mut low_bits = [0; 64];
    let mut by_size = [0; 64];
    for (k, u) in sample.iter().zip(&uniforms) {
        low_bits[k.rem_euclid(64) as usize] += 1;
        by_size[8 * k.rem_euclid(8) as usize + ((u * 8.0) as usize).min(7)] += 1;
    }
    let checks = [
        ("low bits", chi_square_uniform(&low_bits)),
        ("low bits and size", chi_square_uniform(&by_size)),
        ("Kolmogorov", kolmogorov(uniforms)),
    ];
    assert_eq!(alarms(&checks), [""; 0], "{what}: {checks:?}");
}

/// The whole program of the discrete Laplace on all sequences of 24 tosses, for a = 3/2: every
/// probability lies between what is reached and that plus what is left open.
#[test]
fn the_discrete_laplace_by_enumeration() {
    let noise = DiscreteLaplace::new(1.5).unwrap();
    let (reached, left) = enumerate(24, |tosses| noise.draw(tosses));
    assert!(left < 0.2, "{left}");
    for (&k, &low) in &reached {
        let mass = libm::tanh(0.75) * libm::exp(-1.5 * k.abs() as f64);
        assert!(
            low <= mass + 1e-13 && mass <= low + left + 1e-13,
            "{k}: {low} {mass} {left}"
        );
    }
}

/// A rounded Gaussian is not a discrete one: the checks tell them apart at a scale of 0.6, and
/// tell a σ that is off by a hundredth, and a zero that is counted twice.
#[test]
fn broken_twins_are_caught() {
    let caught = |sample: &[i64], masses: &[f64]| !alarms(&mass_checks(sample, masses)).is_empty();
    let mut rounded = vec![0; FEW];
    super::RoundedGaussian::new(0.6)
        .unwrap()
        .add_wrapping(&mut stream(80), &mut rounded);
    assert!(caught(&rounded, &gaussian_masses(0.6)));
    for scale in [0.6, 2.5, 100.0] {
        assert!(
            caught(&gaussian(1.01 * scale, FEW, 81), &gaussian_masses(scale)),
            "{scale}"
        );
    }
    assert!(caught(&laplace(0.707, FEW, 82), &laplace_masses(0.7)));
    let mut source = stream(83);
    let half = Rational::new(1, 2.try_into().unwrap());
    let twice: Vec<i64> = (0..FEW)
        .map(|_| {
            let mut size = 0;
            while bernoulli_exp_of(half, &mut source) {
                size += 1;
            }
            if source.word() >> 63 == 1 {
                -size
            } else {
                size
            }
        })
        .collect();
    assert!(caught(&twice, &laplace_masses(0.5)));
}

#[test]
fn parameters_out_of_range_are_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, -0.0, 1e-310, 2e18] {
        let refused = DiscreteGaussian::new(bad).unwrap_err();
        assert!(
            matches!(refused, NoiseError::ScaleOutOfRange { .. }),
            "{bad}"
        );
        let refused = DiscreteLaplace::new(bad).unwrap_err();
        assert!(
            matches!(refused, NoiseError::ParameterOutOfRange { .. }),
            "{bad}"
        );
    }
    for scale in [0.05, 1.0, DiscreteGaussian::MAX_SCALE] {
        assert_eq!(DiscreteGaussian::new(scale).unwrap().scale(), scale);
    }
    for parameter in [DiscreteLaplace::MIN_PARAMETER, 1.0, 1024.0] {
        let noise = DiscreteLaplace::new(parameter).unwrap();
        assert_eq!(noise.parameter(), parameter);
        let _ = noise.sample(&mut stream(84));
    }
    let empty: &mut [i64] = &mut [];
    let (key, id) = (Key::of_another_process(), StreamId::new(Purpose::Noise, 0));
    let noise = DiscreteGaussian::new(1.0).unwrap();
    assert_eq!(
        noise.add_release(&key, id, &Threads::one(), empty),
        Err(NoiseError::EmptyVector)
    );
    let refused = noise.add_release(&key, id, &Threads::one(), &mut [0_i64]);
    assert!(matches!(refused, Err(NoiseError::Forked { .. })));
}

/// The number of threads changes nothing.
#[test]
fn threads_do_not_change_discrete_noise() {
    let key = ReplayKeyForTests::from_seed(6);
    let id = StreamId::new(Purpose::Noise, 1);
    let fill = |threads: usize| {
        let threads = &Threads::new(NonZeroUsize::new(threads).unwrap());
        let mut sums = vec![0_i64; 40_000];
        DiscreteGaussian::new(1e6)
            .unwrap()
            .add_release(key.as_key(), id, threads, &mut sums)
            .unwrap();
        DiscreteLaplace::new(1e-3)
            .unwrap()
            .add_release(key.as_key(), id, threads, &mut sums)
            .unwrap();
        sums
    };
    assert_eq!(fill(1), fill(3));
}

/// Short lists of words: a candidate beyond its strip is refused, and so is the negative zero.
#[test]
fn candidates_outside_the_strip_are_refused() {
    let table = super::strips::Strips::get();
    // σ = 1: one candidate a strip; strips 1 to 63 hold no integer, strip 0 holds zero.
    let noise = DiscreteGaussian::new(1.0).unwrap();
    let of_strip = |strip: u64| {
        (0..1 << 14)
            .find(|&n| table.inside(n) == Some(strip))
            .unwrap()
    };
    let words = [
        of_strip(5),
        0,
        of_strip(0) | 1 << 14,
        0,
        of_strip(63),
        0,
        of_strip(64) | 1 << 14,
        0,
    ];
    let mut source = Listed::<64>::new(&words);
    assert_eq!(noise.draw(table, &mut source), -1);
    assert_eq!(source.left(), 0);
}
