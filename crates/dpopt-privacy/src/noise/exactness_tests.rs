//! Tests without chance: exact probabilities by enumeration, forced ties, and rounding.

use proptest::prelude::*;

use super::accept::Under;
use super::digits::{BitSource, LazyUniform};
use super::error::NoiseError;
use super::real::RealNormal;
use super::rounded_gaussian::RoundedGaussian;
use super::strips::{Cell, FLOORS, Strips, TAIL_GAIN, TAIL_PARTS};
use super::testkit::Listed;

/// Below a bound: each value has the same number of accepted words. The words that lead to one
/// value follow each other; there are ⌊2^64/n⌋ or one more, and then the first is refused.
#[test]
fn uniform_integers_refuse_what_would_be_too_much() {
    for n in [1_u64, 2, 3, 6, 10, 22, 1 << 40, (1 << 63) + 1, u64::MAX] {
        let quota = (1_u128 << 64) / u128::from(n);
        for value in [0, 1, 2, n / 2, n - 1] {
            if value >= n {
                continue;
            }
            let first_word = |value: u64| (u128::from(value) << 64).div_ceil(u128::from(n));
            let first = first_word(value);
            let size = (if value == n - 1 {
                1 << 64
            } else {
                first_word(value + 1)
            }) - first;
            assert!(size == quota || size == quota + 1);
            // After a refusal the next word is read: the middle of the range, of value n / 2.
            let mut words = Listed::<64>::new(&[first as u64, (1 << 63) + 1, (1 << 63) + 2]);
            let result = words.below(n);
            if size == quota {
                assert_eq!((result, words.left()), (value, 2), "{n} {value}");
            } else {
                assert!(words.left() < 2, "{n} {value}");
            }
            if size > 1 {
                let mut words = Listed::<64>::new(&[first as u64 + 1]);
                assert_eq!(words.below(n), value);
            }
        }
    }
}

const UNIT: u128 = 1 << 55;

/// Rounds the number whose head is this, with these digits after it; all must be read.
fn rounded<const BITS: u32>(noise: &RoundedGaussian, head: u128, digits: &[u64]) -> u128 {
    let mut source = Listed::<BITS>::new(digits);
    let rounded = noise.round(&mut RealNormal::new(false, head), &mut source);
    assert_eq!(source.left(), 0, "{head} {digits:?}");
    rounded
}

#[test]
fn rounding_asks_for_digits_until_they_decide() {
    let one = RoundedGaussian::new(1.0).unwrap();
    let max = u64::MAX;
    let half = UNIT / 2;
    for (head, digits, expected) in [
        // Exactly one half and above: up, without looking further.
        (2 * UNIT + half, &[][..], 3),
        // Just below: the interval touches the boundary, one more digit decides.
        (2 * UNIT + half - 1, &[0], 2),
        (2 * UNIT + half - 1, &[max - 1], 2),
        // All ones: the interval touches it again and again.
        (2 * UNIT + half - 1, &[max, max, 17], 2),
        (2 * UNIT, &[], 2),
        (3 * UNIT - 1, &[], 3),
        // Far out, beyond what the short paths take.
        (1000 * UNIT - 1, &[], 1000),
        ((1 << 20) * UNIT, &[], 1 << 20),
        ((1 << 20) * UNIT + half - 1, &[5], 1 << 20),
    ] {
        assert_eq!(
            rounded::<64>(&one, head, digits),
            expected,
            "{head} {digits:?}"
        );
    }
}

/// As an f64, 0.05 is (2^57 + 8) / (20·2^57): its product with 10 − ε passes one half where ε is
/// a little less than 20 units of 2^-55.
#[test]
fn the_scale_is_the_number_that_the_float_stands_for() {
    let noise = RoundedGaussian::new(0.05).unwrap();
    // ε < 10·8/(2^57 + 8), that is 20·2^-55 less a part of 2^-53.
    assert_eq!(rounded::<64>(&noise, 10 * UNIT, &[]), 1);
    assert_eq!(rounded::<64>(&noise, 10 * UNIT - 19, &[]), 1);
    assert_eq!(rounded::<64>(&noise, 10 * UNIT - 20, &[u64::MAX - 1]), 1);
    assert_eq!(rounded::<64>(&noise, 10 * UNIT - 20, &[0]), 0);
    assert_eq!(rounded::<64>(&noise, 10 * UNIT - 21, &[]), 0);
    assert_eq!(rounded::<64>(&noise, 29 * UNIT, &[]), 1);
    assert_eq!(rounded::<64>(&noise, 30 * UNIT, &[]), 2);
}

#[test]
fn the_widest_results_fit() {
    let noise = RoundedGaussian::new(RoundedGaussian::MAX_SCALE).unwrap();
    for whole in [3_u128, 1023, 1 << 60] {
        // 2^60·(whole + 1/2): 5 digits beyond the head decide, the next word has them.
        let size = rounded::<64>(&noise, whole * UNIT + UNIT / 2, &[0]);
        assert_eq!(size, (whole << 60) + (1 << 59));
    }
}

#[test]
fn scales_out_of_range_are_refused() {
    for scale in [
        0.0,
        -1.0,
        0.049_999,
        1.153e18,
        f64::INFINITY,
        f64::NAN,
        -0.0,
        1e-310,
    ] {
        let refused = RoundedGaussian::new(scale).unwrap_err();
        assert!(
            matches!(refused, NoiseError::ScaleOutOfRange { .. }),
            "{scale}"
        );
    }
    for scale in [RoundedGaussian::MIN_SCALE, 1.0, RoundedGaussian::MAX_SCALE] {
        assert_eq!(RoundedGaussian::new(scale).unwrap().scale(), scale);
    }
}

/// A row of [`ON_THE_CURVE`].
type OnTheCurve = (u64, u64, u64, u64, u128, u64, u64, u64);

/// Points on the curve, computed with 600 bits by mpmath: of the question, of the head and first
/// further digit of `x`, and the first two digits of the `v` at which the answer changes.
const ON_THE_CURVE: [OnTheCurve; 19] = [
    (
        24,
        201,
        1,
        0,
        0x10593609f767c45,
        0x5bc8fbbcbde5c099,
        0xe8bf49fbe8cceecf,
        0xbf9583838bfcfb20,
    ),
    (
        27,
        201,
        1,
        0,
        0xff07a8f17fd374,
        0xd464138a6233255,
        0x9df7955513d3d249,
        0x7ad02052e5f717dc,
    ),
    (
        91,
        201,
        1,
        0,
        0xa09da2e6a16a3b,
        0x5f2dd97f1cfb10f6,
        0x78c372a595b218cf,
        0xc7abf7f602ea1fca,
    ),
    (
        1,
        201,
        1,
        0,
        0x185e5673f1f65a8,
        0x1a1afe878b33e968,
        0xf151a25a6ac20aea,
        0x9d6548987b53dc62,
    ),
    (
        27,
        201,
        1,
        0,
        0xff508d92edcf45,
        0xbb2edb20035b7399,
        0x7eaf04b6b6d4f5c8,
        0xc73947e333d17ab5,
    ),
    (
        0,
        201,
        1,
        0,
        0x1a1f259377b9aa2,
        0x2e9c82b1478c281d,
        0xf90f1479e49827dc,
        0xccd157ce47209231,
    ),
    (
        1,
        201,
        1,
        0,
        0x18ec8a7c4069545,
        0xc30d8b7628dbd25e,
        0x918b3cb0f6f2e0ef,
        0x64ca909568003ec1,
    ),
    (
        170,
        201,
        1,
        0,
        0x49a879cc11d357,
        0x9e30691c238642ea,
        0x5432c1e247962f29,
        0x66f8ba5eeef1058a,
    ),
    (
        0,
        201,
        1,
        0,
        0x1c783019e115e4b,
        0x21da8978206f5c66,
        0x5b8084d676aa437a,
        0x598953925bd40432,
    ),
    (
        200,
        201,
        1,
        0,
        0x570cedf1461aa,
        0xc60a3cab359eeefb,
        0xd189dfb36baa82e8,
        0x2a40daf5c4d7b01b,
    ),
    (
        0,
        205824,
        75,
        0,
        0x20a9d64fb7ff337,
        0x2a9eba0cdf561d80,
        0xa890551317f93a7c,
        0xd4396d8482cde5b3,
    ),
    (
        0,
        205824,
        75,
        0,
        0x21412dd4a0fe75d,
        0x32ea6928f6236bf2,
        0x7c52266064bff7ab,
        0xde92231f79b75daf,
    ),
    (
        0,
        205824,
        75,
        0,
        0x20ba075346c6e2b,
        0xf7f35634f0e3cd97,
        0xa334544fd6d3cc90,
        0xf4bfbc28aad65cbc,
    ),
    (
        0,
        205824,
        75,
        0,
        0x20c99aab0cde917,
        0xf7108e96f770c226,
        0x9e334eddf98784be,
        0xacab5a1eda7e7570,
    ),
    (
        0,
        205824,
        75,
        4,
        0x29886bbe4cc4132,
        0x585a01c4c7d6df0,
        0xfc741a715e9ee49,
        0x94e1e0a1e71078e2,
    ),
    (
        0,
        205824,
        75,
        4,
        0x29a8dd45c76f18a,
        0xef901b932a7c1880,
        0xe87e1de6c76df6a,
        0x1b2fe4c89bac87a5,
    ),
    (
        0,
        205824,
        75,
        8,
        0x310e24b254cb864,
        0x54f46a6910acff00,
        0x13b091f6d816182,
        0xe5513b99ee026fe,
    ),
    (
        0,
        205824,
        75,
        8,
        0x30439b6568068b9,
        0x5af84e6b4f596727,
        0x23ee83e1de3e3c3,
        0xc135ddf86be68e0b,
    ),
    (
        0,
        205824,
        75,
        20,
        0x493968ed18a669a,
        0xb24891917b121dc5,
        0x7f0b35d64,
        0xc6e98bb911b7dffb,
    ),
];

/// Just below the curve is accepted, just above it is not: at a distance of 2^-31 from the first
/// digits alone, and at 2^-104 from two digits of everything.
#[test]
fn points_next_to_the_curve_are_decided() {
    let table = Strips::get();
    for (offset, gain, parts, doublings, head, x_digit, first, second) in ON_THE_CURVE {
        let under = Under {
            offset,
            gain,
            parts,
            doublings,
        };
        let mut x = RealNormal::new(false, head);
        if doublings == 0 {
            assert_eq!(under.quick(&x, first - (1 << 33), table), Some(true));
            assert_eq!(under.quick(&x, first + (1 << 33), table), Some(false));
        }
        assert_eq!(under.quick(&x, first, table), None);
        for (second, below) in [(second - (1 << 24), true), (second + (1 << 24), false)] {
            let mut x = RealNormal::new(false, head);
            let mut source = Listed::<64>::new(&[first, second, x_digit]);
            assert_eq!(under.decide(&mut x, table, &mut source), below, "{head:x}");
            assert_eq!(source.left(), 0);
        }
        // On the curve to two digits: a third is read.
        let mut source = Listed::<64>::new(&[second, x_digit, 0, 0, u64::MAX, u64::MAX, 0, 0]);
        let mut v = LazyUniform::with_digits(&[first]);
        under.in_full(&mut x, &mut v, &mut source);
        assert!(source.left() < 6, "{head:x}");
    }
}

/// Over all boxes above a point, the probabilities that the point is accepted add up to the
/// height of the curve there, in units of a floor; in the tail, times the chance to get there. So
/// what is accepted has the normal density.
#[test]
fn the_boxes_above_every_point_add_up_to_the_curve() {
    let table = Strips::get();
    let mut inside = [0_u32; 256];
    let mut cut = vec![Vec::new(); 256];
    for number in 0..1 << 14 {
        match table.cell(number) {
            Cell::Inside(strip) => inside[strip as usize] += 1,
            Cell::Cut(strip, floor) => cut[strip as usize].push(floor),
            Cell::Tail | Cell::Spare => {}
        }
    }
    let curve = |x: f64| libm::exp(-x * x / 2.0);
    for strip in 0..256 {
        for part in 0..=16 {
            let x = (strip as f64 + f64::from(part) / 16.0) / 64.0;
            let in_cut: f64 = cut[strip]
                .iter()
                .map(|&floor| (FLOORS as f64 * curve(x) - floor as f64).clamp(0.0, 1.0))
                .sum();
            let height = f64::from(inside[strip]) + in_cut;
            assert!((height - FLOORS as f64 * curve(x)).abs() < 1e-10, "{x}");
        }
    }
    // A number of the tail stands for as much as a box, of width 1/64 and height 1/201.
    for steps in 0..6 {
        for part in 0..=16 {
            let x = 4.0 + f64::from(steps) + f64::from(part) / 16.0;
            let sixteenth = 16_f64.powi(-steps);
            let proposed = table.tail() as f64 / 64.0 * sixteenth * 15.0 / 16.0;
            let share = (TAIL_PARTS * table.tail()) as f64;
            let accepted = TAIL_GAIN as f64 * curve(x) / sixteenth / share;
            assert!(accepted <= 1.0, "{x}");
            let height = proposed * accepted;
            assert!(
                (height / (FLOORS as f64 * curve(x)) - 1.0).abs() < 1e-12,
                "{x}"
            );
        }
    }
}

/// The same digits after the head, in digits of another width.
fn in_bits<const BITS: u32>(digits: &[u64]) -> Vec<u64> {
    digits
        .iter()
        .flat_map(|&digit| (0..64 / BITS).map(move |i| digit << (i * BITS) >> (u64::BITS - BITS)))
        .collect()
}

/// Rounds with as many of these digits as it takes.
fn rounded_narrowly<const BITS: u32>(noise: &RoundedGaussian, head: u128, digits: &[u64]) -> u128 {
    let mut source = Listed::<BITS>::new(&in_bits::<BITS>(digits));
    noise.round(&mut RealNormal::new(false, head), &mut source)
}

fn scales() -> impl Strategy<Value = f64> {
    (-4.3_f64..60.0).prop_map(|e| {
        e.exp2()
            .clamp(RoundedGaussian::MIN_SCALE, RoundedGaussian::MAX_SCALE)
    })
}

proptest! {
    /// The short paths, the long path, and every width of digits round alike.
    #[test]
    fn rounding_does_not_depend_on_the_digits(
        scale in scales(), head in 0_u128..1 << 62, digits in any::<[u64; 3]>()
    ) {
        let noise = RoundedGaussian::new(scale).unwrap();
        let mut source = Listed::<64>::new(&digits);
        let expected = noise.round_in_full(&mut RealNormal::new(false, head), &mut source);
        prop_assert_eq!(rounded_narrowly::<64>(&noise, head, &digits), expected);
        prop_assert_eq!(rounded_narrowly::<32>(&noise, head, &digits), expected);
        prop_assert_eq!(rounded_narrowly::<8>(&noise, head, &digits), expected);
        prop_assert_eq!(rounded_narrowly::<1>(&noise, head, &digits), expected);
        if head < 1 << 57 && let Some(quick) = noise.round_quickly(head as u64) {
            prop_assert_eq!(u128::from(quick), expected);
        }
    }

    /// Against integer arithmetic in one line, for scales a/2^b and short fractions. Many of
    /// the products are exact halves: they round up, as ⌊· + ½⌋ does. Where the quick path
    /// answers, it answers the same.
    #[test]
    fn rounding_agrees_with_exact_fractions(a in 1_u64..1 << 16, b in 0_u32..16, top in 0_u64..1 << 12) {
        let scale = a as f64 / f64::from(1_u32 << b);
        prop_assume!(scale >= RoundedGaussian::MIN_SCALE);
        let noise = RoundedGaussian::new(scale).unwrap();
        let expected = (2 * u128::from(a) * u128::from(top) + (1 << (b + 10))) >> (b + 11);
        let head = top << 45;
        prop_assert_eq!(rounded_narrowly::<64>(&noise, u128::from(head), &[0, 0, 0]), expected);
        prop_assert_eq!(rounded_narrowly::<2>(&noise, u128::from(head), &[0, 0, 0]), expected);
        if let Some(quick) = noise.round_quickly(head) {
            prop_assert_eq!(u128::from(quick), expected);
        }
        // The neighbour below an exact half goes down.
        let is_half =
            (2 * u128::from(a) * u128::from(top) + (1 << (b + 10))).is_multiple_of(1 << (b + 11));
        if head > 0
            && is_half
            && let Some(quick) = noise.round_quickly(head - 1)
        {
            prop_assert_eq!(u128::from(quick), expected - 1);
        }
    }

    /// 64 bits and long integers never disagree.
    #[test]
    fn quick_decisions_are_right(
        strip in 0_u64..320, place in 0_u64..1 << 49, floor in 0_u64..201, v in any::<u64>(), more in any::<[u64; 6]>()
    ) {
        let table = Strips::get();
        let head = strip << 49 | place;
        let density = libm::exp(-((head as f64 / 55_f64.exp2()).powi(2)) / 2.0);
        let under = if strip < 256 {
            // The floor that the curve cuts, or its neighbours.
            let offset = ((FLOORS as f64 * density) as u64 + floor % 3).saturating_sub(1);
            Under { offset, gain: FLOORS, parts: 1, doublings: 0 }
        } else {
            Under { offset: 0, gain: TAIL_GAIN, parts: TAIL_PARTS * table.tail(), doublings: 0 }
        };
        let mut x = RealNormal::new(false, u128::from(head));
        if let Some(quick) = under.quick(&x, v, table) {
            let mut source = Listed::<64>::new(&more);
            let mut v = LazyUniform::with_digits(&[v]);
            prop_assert_eq!(under.in_full(&mut x, &mut v, &mut source), quick);
        }
    }
}
