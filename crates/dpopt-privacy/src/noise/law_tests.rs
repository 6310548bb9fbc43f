//! Tests of the law on many draws. See [`FALSE_ALARM`](super::testkit::FALSE_ALARM) for what a
//! failure means, and the broken twins for what the same checks catch.

use rand::Rng;

use super::digits::BitSource;
use super::normal::{ExactNormal, half_exponential};
use super::rounded_gaussian::RoundedGaussian;
use super::stream::{Key, Purpose, StreamId};
use super::testkit::{
    Biased, Narrow, alarms, chi_square_uniform, kolmogorov, law_checks, phi_between, stream, z_test,
};

const DRAWS: usize = 1_000_000;

fn draws<S: BitSource>(scale: f64, count: usize, source: &mut S) -> Vec<i128> {
    let noise = RoundedGaussian::new(scale).unwrap();
    (0..count).map(|_| noise.draw(source)).collect()
}

/// 49 checks.
#[test]
fn cells_and_moments_at_small_scales() {
    for (number, scale) in [0.05, 0.3, 0.5, 1.0, 2.5, 7.3, 1000.25]
        .into_iter()
        .enumerate()
    {
        let sample = draws(scale, DRAWS, &mut stream(number as u32));
        let checks = law_checks(&sample, scale);
        assert_eq!(alarms(&checks), [""; 0], "{scale}: {checks:?}");
        if scale == 0.05 {
            // Anything else has probability 1.5e-23 a draw.
            assert!(sample.iter().all(|&k| k == 0));
        }
    }
}

/// 63 checks: with digits of one, three and eight bits, comparisons tie and roundings refine
/// all the time, and the law is the same.
#[test]
fn cells_and_moments_with_short_digits() {
    fn check<const BITS: u32>() {
        for (number, scale) in [0.3, 2.5, 1000.25].into_iter().enumerate() {
            let mut source = Narrow::<BITS>::new(100 * BITS + number as u32);
            let sample = draws(scale, DRAWS / 2, &mut source);
            let checks = law_checks(&sample, scale);
            assert_eq!(alarms(&checks), [""; 0], "{BITS} {scale}: {checks:?}");
        }
    }
    check::<1>();
    check::<3>();
    check::<8>();
}

/// 18 checks: at large scales, the law as a whole (Kolmogorov), the lowest bits, and their
/// independence of size, sign and the draw before.
#[test]
fn law_and_low_bits_at_large_scales() {
    for (number, exponent) in [20, 44, 60].into_iter().enumerate() {
        let scale = (exponent as f64).exp2();
        let sample = draws(scale, 4 * DRAWS, &mut stream(20 + number as u32));
        // Rounding k to an f64 moves Φ by less than 1e-15.
        let uniforms: Vec<f64> = sample
            .iter()
            .map(|&k| phi_between(f64::NEG_INFINITY, k as f64 / scale))
            .collect();
        let octant = |u: f64| ((u * 8.0) as usize).min(7);
        let mut low_bits = [0; 64];
        let mut by_size = [0; 64];
        let mut after = [0; 64];
        let mut low_after = [0; 64];
        let low = |k: i128, n: i128| k.rem_euclid(n) as usize;
        for (k, u) in sample.iter().zip(&uniforms) {
            low_bits[low(*k, 64)] += 1;
            by_size[8 * low(*k, 8) + octant(*u)] += 1;
        }
        for (k, u) in sample.chunks_exact(2).zip(uniforms.chunks_exact(2)) {
            after[8 * octant(u[0]) + octant(u[1])] += 1;
            low_after[8 * low(k[0], 8) + low(k[1], 8)] += 1;
        }
        let n = sample.len() as f64;
        let square: f64 = sample.iter().map(|&k| (k as f64 / scale).powi(2)).sum();
        let checks = [
            ("low bits", chi_square_uniform(&low_bits)),
            ("low bits and size", chi_square_uniform(&by_size)),
            ("pairs", chi_square_uniform(&after)),
            ("pairs of low bits", chi_square_uniform(&low_after)),
            ("second moment", z_test((square - n) / (2.0 * n).sqrt())),
            ("Kolmogorov", kolmogorov(uniforms)),
        ];
        assert_eq!(alarms(&checks), [""; 0], "2^{exponent}: {checks:?}");
    }
}

/// Two checks of one event: 64-bit digits, and one-bit digits.
#[test]
fn the_event_of_probability_exp_minus_half() {
    fn check<S: BitSource>(mut source: S) {
        let n = 4_000_000;
        let hits = (0..n).filter(|_| half_exponential(&mut source)).count();
        let (n, p) = (f64::from(n), (-0.5_f64).exp());
        let z = (hits as f64 - n * p) / (n * p * (1.0 - p)).sqrt();
        assert_eq!(alarms(&[("frequency", z_test(z))]), [""; 0], "{z}");
    }
    check(stream(40));
    check(Narrow::<1>::new(41));
}

/// Broken twins: each must set off an alarm, or the tests above show nothing.
#[test]
fn broken_twins_are_caught() {
    let caught = |sample: &[i128], scale: f64| alarms(&law_checks(sample, scale));

    // A scale that is off by one per cent.
    for scale in [0.3, 1.0, 7.3, 1000.25] {
        let sample = draws(scale * 1.01, DRAWS, &mut stream(60));
        assert!(
            !caught(&sample, scale).is_empty(),
            "scale {scale} off by 1 %"
        );
    }
    // Truncation instead of rounding.
    for scale in [0.5, 2.5, 7.3, 1000.25] {
        let fine = draws(scale * 1024.0, DRAWS, &mut stream(61));
        let sample: Vec<i128> = fine.iter().map(|k| k / 1024).collect();
        assert!(!caught(&sample, scale).is_empty(), "truncation at {scale}");
        // The floor shifts the law by half a step, which no sample of this size can show at a
        // scale of 1000; there, the tests without chance have to.
        if scale < 10.0 {
            let sample: Vec<i128> = fine.iter().map(|k| k.div_euclid(1024)).collect();
            assert!(!caught(&sample, scale).is_empty(), "floor at {scale}");
        }
    }
    // Rounding from the first digit, taken for the whole fraction.
    let mut source = Narrow::<8>::new(62);
    let sample: Vec<i128> = (0..DRAWS)
        .map(|_| {
            let normal = ExactNormal::draw(&mut source);
            let size = normal.whole as f64 + normal.fraction.head() as f64 / 256.0;
            let size = (1000.25 * size).round() as i128;
            if normal.negative { -size } else { size }
        })
        .collect();
    assert!(!caught(&sample, 1000.25).is_empty(), "one digit only");
    // Digits that are not quite uniform.
    let sample = draws(2.5, DRAWS, &mut Biased(Narrow::new(63)));
    assert!(!caught(&sample, 2.5).is_empty(), "biased digits");
    // A sign that is not quite fair.
    let mut coin = stream(64);
    let sample: Vec<i128> = draws(2.5, DRAWS, &mut stream(65))
        .into_iter()
        .map(|k| {
            if coin.next_u64().is_multiple_of(64) {
                k.abs()
            } else {
                k
            }
        })
        .collect();
    assert!(caught(&sample, 2.5).contains(&"sign"));
    // Low bits cleared.
    let mut low_bits = [0; 64];
    for k in draws(1e12, DRAWS, &mut stream(66)) {
        low_bits[((k & !1) + i128::from(coin.next_u64() % 100 < 51)).rem_euclid(64) as usize] += 1;
    }
    assert_eq!(
        alarms(&[("low bits", chi_square_uniform(&low_bits))]),
        ["low bits"]
    );
}

#[test]
fn a_key_determines_the_noise_and_streams_differ() {
    let noise = RoundedGaussian::new(1e9).unwrap();
    let fill = |key: &Key, id: StreamId| {
        let mut out = [0; 64];
        noise.fill(&mut key.stream(id), &mut out);
        out
    };
    let key = Key::from_seed(5);
    let id = StreamId::new(Purpose::Noise, 9);
    let reference = fill(&key, id);
    assert_eq!(fill(&Key::from_seed(5), id), reference);
    for other in [
        fill(&Key::from_seed(6), id),
        fill(&key, StreamId::new(Purpose::Noise, 10)),
        fill(&key, id.with_block(1).unwrap()),
        fill(&key, StreamId::new(Purpose::Sampling, 9)),
    ] {
        // Two draws at this scale agree with probability below 3e-10.
        assert!(other.iter().zip(&reference).all(|(a, b)| a != b));
    }
}

#[test]
fn adding_is_the_draw_modulo_the_integer_type() {
    let id = StreamId::new(Purpose::Noise, 3);
    let key = Key::from_seed(8);
    for scale in [2.5, 2_f64.powi(44), RoundedGaussian::MAX_SCALE] {
        let noise = RoundedGaussian::new(scale).unwrap();
        let mut exact = [0; 500];
        noise.fill(&mut key.stream(id), &mut exact);
        let mut one_by_one = key.stream(id);
        let mut narrow = [i64::MAX - 1; 500];
        noise.add_wrapping(&mut key.stream(id), &mut narrow);
        let mut wide = [i128::MIN + 1; 500];
        noise.add_wrapping_wide(&mut key.stream(id), &mut wide);
        for ((k, narrow), wide) in exact.into_iter().zip(narrow).zip(wide) {
            assert_eq!(noise.sample(&mut one_by_one), k);
            let sum = k + i128::from(i64::MAX - 1);
            assert_eq!((sum - i128::from(narrow)).rem_euclid(1 << 64), 0);
            assert_eq!(wide, (i128::MIN + 1).wrapping_add(k));
        }
    }
}
