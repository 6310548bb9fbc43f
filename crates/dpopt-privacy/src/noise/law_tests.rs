//! Tests of the law on ten million draws. See [`FALSE_ALARM`](super::testkit::FALSE_ALARM) for
//! what a failure means, and the broken twins for what the same checks catch.

use rand::Rng;

use dpopt_lanes::Threads;

use super::digits::BitSource;
use super::purpose::Purpose;
use super::real::{RealNormal, is_negative};
use super::rounded_gaussian::RoundedGaussian;
use super::stream::{ReplayKeyForTests, StreamId};
use super::strips::{Cell, Strips};
use super::testkit::{
    Biased, Narrow, alarms, chi_square_uniform, kolmogorov, law_checks, phi_between, stream, z_test,
};

const DRAWS: usize = 10_000_000;

/// For twins, and for what is slow.
const FEW: usize = 1_000_000;

/// Draws through the keyed blocks.
fn release(scale: f64, count: usize, number: u32) -> Vec<i64> {
    let mut sums = vec![0; count];
    RoundedGaussian::new(scale)
        .unwrap()
        .add_release(
            ReplayKeyForTests::from_seed(20_261_120).as_key(),
            StreamId::new(Purpose::Noise, number),
            &Threads::one(),
            &mut sums,
        )
        .unwrap();
    sums
}

/// Draws one after the other from any source.
fn draws<S: BitSource>(scale: f64, count: usize, source: &mut S) -> Vec<i64> {
    let noise = RoundedGaussian::new(scale).unwrap();
    let table = Strips::get();
    (0..count)
        .map(|_| noise.draw(table, source) as i64)
        .collect()
}

fn assert_law(sample: &[i64], scale: f64) {
    let checks = law_checks(sample, scale);
    assert_eq!(alarms(&checks), [""; 0], "{scale}: {checks:?}");
}

/// 24 checks.
#[test]
fn cells_and_moments_at_the_smallest_scales() {
    for (number, scale) in [(0, 0.05), (1, 0.3), (2, 1.0)] {
        let sample = release(scale, DRAWS, number);
        assert_law(&sample, scale);
        if scale == 0.05 {
            // Anything else has probability 1.5e-23 a draw.
            assert!(sample.iter().all(|&k| k == 0));
        }
    }
}

/// 16 checks.
#[test]
fn cells_and_moments_at_small_scales() {
    for (number, scale) in [(3, 3.7), (4, 1000.25)] {
        assert_law(&release(scale, DRAWS, number), scale);
    }
}

/// 72 checks: with digits of one, three and eight bits every box that the curve cuts is decided
/// in long integers, comparisons tie and roundings refine all the time; the law is the same.
#[test]
fn cells_and_moments_with_short_digits() {
    fn check<const BITS: u32>() {
        for (number, scale) in [0.3, 2.5, 1000.25].into_iter().enumerate() {
            let mut source = Narrow::<BITS>::new(100 * BITS + number as u32);
            assert_law(&draws(scale, FEW / 5, &mut source), scale);
        }
    }
    check::<1>();
    check::<3>();
    check::<8>();
}

/// Eight checks of draws in a row from one stream.
#[test]
fn cells_and_moments_in_a_row() {
    assert_law(&draws(7.3, FEW, &mut stream(5)), 7.3);
}

/// Seven checks: at large scales, the law as a whole (Kolmogorov), the tail, the lowest bits,
/// and their independence of size, sign and the draw before.
fn check_large(scale: f64, number: u32) {
    let sample = release(scale, DRAWS, number);
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
    let low = |k: i64, n: i64| k.rem_euclid(n) as usize;
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
    let mut tail = [0.0; 2];
    for (edge, count) in [4.0, 5.0].into_iter().zip(&mut tail) {
        let p = 2.0 * phi_between(edge, 40.0);
        let hits = sample
            .iter()
            .filter(|&&k| k.unsigned_abs() as f64 > edge * scale)
            .count();
        *count = (hits as f64 - n * p) / (n * p).sqrt();
    }
    // Beyond 5 about six draws are expected; their number is not normal, but 10 deviations off
    // it would be wrong by any law.
    assert!(tail[1].abs() < 10.0, "{tail:?}");
    let checks = [
        ("low bits", chi_square_uniform(&low_bits)),
        ("low bits and size", chi_square_uniform(&by_size)),
        ("pairs", chi_square_uniform(&after)),
        ("pairs of low bits", chi_square_uniform(&low_after)),
        ("second moment", z_test((square - n) / (2.0 * n).sqrt())),
        ("tail", z_test(tail[0])),
        ("Kolmogorov", kolmogorov(uniforms)),
    ];
    assert_eq!(alarms(&checks), [""; 0], "{scale}: {checks:?}");
}

#[test]
fn law_and_low_bits_at_2_to_the_20() {
    check_large(20_f64.exp2(), 20);
}

#[test]
fn law_and_low_bits_above_2_to_the_30() {
    check_large(1.37 * 30_f64.exp2(), 21);
}

#[test]
fn law_and_low_bits_at_2_to_the_37() {
    check_large(37_f64.exp2(), 22);
}

#[test]
fn law_and_low_bits_at_2_to_the_44() {
    check_large(44_f64.exp2(), 23);
}

/// Where every draw needs a second word, still in 64 bits.
#[test]
fn law_and_low_bits_at_2_to_the_58() {
    check_large(58_f64.exp2(), 24);
}

/// Broken twins: each must set off an alarm, or the tests above show nothing.
#[test]
fn broken_twins_are_caught() {
    let caught = |sample: &[i64], scale: f64| alarms(&law_checks(sample, scale));

    // A scale that is off by one per cent.
    for scale in [0.3, 1.0, 7.3, 1000.25] {
        let sample = release(scale * 1.01, FEW, 60);
        assert!(
            !caught(&sample, scale).is_empty(),
            "scale {scale} off by 1 %"
        );
    }
    // Truncation instead of rounding.
    for scale in [0.5, 2.5, 7.3, 1000.25] {
        let fine = release(scale * 1024.0, FEW, 61);
        let sample: Vec<i64> = fine.iter().map(|k| k / 1024).collect();
        assert!(!caught(&sample, scale).is_empty(), "truncation at {scale}");
        // The floor shifts the law by half a step, which no sample of this size can show at a
        // scale of 1000; there, the tests without chance have to.
        if scale < 10.0 {
            let sample: Vec<i64> = fine.iter().map(|k| k.div_euclid(1024)).collect();
            assert!(!caught(&sample, scale).is_empty(), "floor at {scale}");
        }
    }
    // Digits that are not quite uniform.
    let sample = draws(2.5, FEW / 2, &mut Biased(Narrow::new(63)));
    assert!(!caught(&sample, 2.5).is_empty(), "biased digits");
    // A sign that is not quite fair.
    let mut coin = stream(64);
    let sample: Vec<i64> = release(2.5, FEW, 65)
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
    for k in release(1e12, FEW, 66) {
        low_bits[((k & !1) + i64::from(coin.next_u64() % 100 < 51)).rem_euclid(64) as usize] += 1;
    }
    assert_eq!(
        alarms(&[("low bits", chi_square_uniform(&low_bits))]),
        ["low bits"]
    );
}

/// Broken twins of the sampler itself, each with one step left out.
#[test]
fn broken_samplers_are_caught() {
    enum Broken {
        EveryCutBoxAccepted,
        EveryCutBoxRefused,
        TailCut,
        OneStripShifted,
    }
    let table = Strips::get();
    let scale = 1000.25;
    let noise = RoundedGaussian::new(scale).unwrap();
    for (number, broken) in [
        Broken::EveryCutBoxAccepted,
        Broken::EveryCutBoxRefused,
        Broken::TailCut,
        Broken::OneStripShifted,
    ]
    .into_iter()
    .enumerate()
    {
        let mut source = stream(70 + number as u32);
        let mut draw = || {
            loop {
                let word = source.word();
                let place = u128::from(word >> 15);
                let strip = match (table.cell(word & 0x3fff), &broken) {
                    (Cell::Cut(strip, _), Broken::EveryCutBoxAccepted) => strip,
                    (Cell::Cut(..), Broken::EveryCutBoxRefused) | (Cell::Tail, Broken::TailCut) => {
                        continue;
                    }
                    (Cell::Inside(40), Broken::OneStripShifted) => 41,
                    _ => {
                        let mut normal = RealNormal::from_word(word, table, &mut source);
                        let size = noise.round(&mut normal, &mut source) as i64;
                        return if normal.negative { -size } else { size };
                    }
                };
                let mut normal =
                    RealNormal::new(is_negative(word), u128::from(strip) << 49 | place);
                let size = noise.round(&mut normal, &mut source) as i64;
                return if normal.negative { -size } else { size };
            }
        };
        let sample: Vec<i64> = (0..DRAWS / 2).map(|_| draw()).collect();
        assert!(
            !alarms(&law_checks(&sample, scale)).is_empty(),
            "twin {number}"
        );
    }
}

#[test]
fn a_key_determines_the_noise_and_streams_differ() {
    let noise = RoundedGaussian::new(1e9).unwrap();
    let fill = |seed: u64, id: StreamId| {
        let mut out = [0; 64];
        noise.fill(&mut ReplayKeyForTests::from_seed(seed).stream(id), &mut out);
        out
    };
    let id = StreamId::new(Purpose::Noise, 9);
    let reference = fill(5, id);
    assert_eq!(fill(5, id), reference);
    for other in [
        fill(6, id),
        fill(5, StreamId::new(Purpose::Noise, 10)),
        fill(5, id.with_block(1).unwrap()),
        fill(5, StreamId::new(Purpose::Sampling, 9)),
    ] {
        // Two draws at this scale agree with probability below 3e-10.
        assert!(other.iter().zip(&reference).all(|(a, b)| a != b));
    }
}

#[test]
fn adding_is_the_draw_modulo_the_integer_type() {
    let id = StreamId::new(Purpose::Noise, 3);
    let key = ReplayKeyForTests::from_seed(8);
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
