//! Tests without chance: exact probabilities by enumeration, forced ties, and rounding.

use std::f64::consts::PI;

use libm::erf;
use proptest::prelude::*;

use super::digits::{BitSource, LazyUniform};
use super::error::NoiseError;
use super::normal::{ExactNormal, half_exponential, keeps_fraction};
use super::rounded_gaussian::RoundedGaussian;
use super::testkit::{Listed, Tosses, enumerate, phi_between};

/// Whether each probability lies in its enumerated interval. The tolerance covers the f64
/// evaluation of the expected value.
fn bracketed(lower: f64, left_over: f64, expected: f64) -> bool {
    lower <= expected + 1e-14 && expected <= lower + left_over + 1e-14
}

/// All sequences of up to 22 coin tosses: the event has probability exp(−1/2), to the
/// probability that 22 tosses do not decide.
#[test]
fn half_exponential_has_its_probability() {
    let (reached, left_over) = enumerate(22, half_exponential);
    assert!(left_over < 2e-3, "{left_over}");
    assert!(bracketed(reached[&true], left_over, (-0.5_f64).exp()));
    assert!(bracketed(
        reached[&false],
        left_over,
        1.0 - (-0.5_f64).exp()
    ));
}

/// The same enumeration tells a broken twin, whose ties are decided without more digits.
#[test]
fn enumeration_catches_ties_that_are_not_refined() {
    let (reached, left_over) = enumerate(22, |tosses| {
        let mut last = tosses.digit();
        let mut even = true;
        let mut bound = last == 0;
        while bound {
            let next = tosses.digit();
            even = !even;
            bound = next < last;
            last = next;
        }
        even
    });
    assert!(!bracketed(reached[&true], left_over, (-0.5_f64).exp()));
}

/// exp(−x(2k+x)/(2k+2)), integrated over each half of (0, 1) for x: with u = x + k it is
/// exp(k²/m)·∫exp(−u²/m)du for m = 2k+2.
#[test]
fn the_fraction_is_kept_with_its_probability_given_its_first_digit() {
    for k in 0..3_u32 {
        let (reached, left_over) = enumerate(22, |tosses: &mut Tosses| {
            let mut x = LazyUniform::new(tosses);
            let kept = keeps_fraction(u64::from(k), &mut x, tosses);
            (kept, x.head())
        });
        assert!(left_over < 0.05, "{k}: {left_over}");
        let (k, m) = (f64::from(k), 2.0 * f64::from(k) + 2.0);
        for half in 0..2_u32 {
            let start = k + f64::from(half) / 2.0;
            let integral = |to: f64| (PI * m).sqrt() / 2.0 * erf(to / m.sqrt());
            let expected = (k * k / m).exp() * (integral(start + 0.5) - integral(start));
            let head = u64::from(half);
            assert!(bracketed(reached[&(true, head)], left_over, expected));
            assert!(bracketed(
                reached[&(false, head)],
                left_over,
                0.5 - expected
            ));
        }
    }
}

/// The whole program on all sequences of up to 24 tosses.
#[test]
fn the_sampler_brackets_every_probability() {
    let noise = RoundedGaussian::new(1.0).unwrap();
    let (reached, left_over) = enumerate(24, |tosses| noise.draw(tosses));
    assert!(left_over < 0.75, "{left_over}");
    for (&k, &lower) in &reached {
        let (a, b) = (k as f64 - 0.5, k as f64 + 0.5);
        assert!(bracketed(lower, left_over, phi_between(a, b)), "{k}");
        assert_eq!(reached.get(&-k), Some(&lower), "symmetry of {k}");
    }
}

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

#[test]
fn ties_are_broken_by_later_digits() {
    let max = u64::MAX;
    for (first, second, below) in [
        (0, 1, true),
        (1, 0, false),
        (max, 0, false),
        (max - 1, max, true),
    ] {
        let mut a = LazyUniform::with_digits(&[7]);
        let mut b = LazyUniform::with_digits(&[7]);
        // Two more ties, then a difference; digits are drawn in turn.
        let mut source = Listed::<64>::new(&[max, max, 0, 0, first, second]);
        assert_eq!(a.is_below(&mut b, &mut source), below);
        assert_eq!((a.known(), b.known(), source.left()), (4, 4, 0));
        // The digits are kept: asking again draws nothing, and the order is antisymmetric.
        assert_eq!(a.is_below(&mut b, &mut source), below);
        assert_eq!(b.is_below(&mut a, &mut source), !below);
    }
    // Only the digits that are missing are drawn.
    let mut long = LazyUniform::with_digits(&[7, 8, 9]);
    let mut short = LazyUniform::with_digits(&[7]);
    let mut source = Listed::<64>::new(&[8, 10]);
    assert!(long.is_below(&mut short, &mut source));
    assert_eq!((long.known(), short.known(), source.left()), (3, 3, 0));
}

/// A whole draw in which first digits tie: k = 0, x = 1/4, and the first comparison with x
/// needs two more digits.
#[test]
fn a_draw_goes_through_a_tie() {
    let quarter = 1 << 62;
    let words = [
        1 << 62,     // half_exponential: below one half,
        1 << 62 | 1, // but no further; a run of one step is odd, so false: whole = 0
        quarter,     // x
        quarter,     // a first comparison with x: a tie,
        5,
        5, // another,
        6,
        5, // and decided: not below x, so x is kept
        0, // the sign: plus
    ];
    let mut source = Listed::<64>::new(&words);
    let mut normal = ExactNormal::draw(&mut source);
    assert_eq!(
        (normal.whole, normal.negative, source.left()),
        (0, false, 0)
    );
    assert_eq!(normal.fraction.known(), 3);
    assert_eq!(normal.fraction.digit(1, &mut source), 5);
    // 2·(1/4 + …) = ½ + …: the first digit alone already says "at least ½".
    let two = RoundedGaussian::new(2.0).unwrap();
    assert_eq!(
        two.round(normal.whole, &mut normal.fraction, &mut source),
        1
    );
}

#[test]
fn rounding_asks_for_digits_until_they_decide() {
    let one = RoundedGaussian::new(1.0).unwrap();
    let (half, max) = (1_u64 << 63, u64::MAX);
    for (digits, more, rounded) in [
        // Exactly one half and above: up, without looking further.
        (vec![half], vec![], 3),
        // Just below: the interval touches the boundary, one more digit decides.
        (vec![half - 1], vec![0], 2),
        (vec![half - 1], vec![max - 1], 2),
        // All ones: the interval touches it again and again.
        (vec![half - 1], vec![max, max, 17], 2),
        (vec![half - 1, max], vec![max, 17], 2),
        (vec![0], vec![], 2),
        (vec![max], vec![], 3),
    ] {
        let mut source = Listed::<64>::new(&more);
        let mut fraction = LazyUniform::with_digits(&digits);
        assert_eq!(one.round(2, &mut fraction, &mut source), rounded);
        assert_eq!(source.left(), 0, "{digits:?} {more:?}");
    }
}

/// As an f64, 0.05 is (2^57 + 8) / (20·2^57): its product with 10 − ε passes one half where ε is
/// a little less than 10240 units of 2^-64.
#[test]
fn the_scale_is_the_number_that_the_float_stands_for() {
    let noise = RoundedGaussian::new(0.05).unwrap();
    let round = |whole, digit, more: &[u64]| {
        let mut source = Listed::<64>::new(more);
        let rounded = noise.round(whole, &mut LazyUniform::with_digits(&[digit]), &mut source);
        assert_eq!(source.left(), 0);
        rounded
    };
    let below_one = |units: u64| units.wrapping_neg();
    assert_eq!(round(10, 0, &[]), 1);
    assert_eq!(round(9, below_one(10_239), &[]), 1);
    assert_eq!(round(9, below_one(10_240), &[u64::MAX - 1]), 1);
    assert_eq!(round(9, below_one(10_240), &[0]), 0);
    assert_eq!(round(9, below_one(10_241), &[]), 0);
    assert_eq!(round(29, 0, &[]), 1);
    assert_eq!(round(30, 0, &[]), 2);
}

#[test]
fn the_widest_results_fit() {
    let noise = RoundedGaussian::new(RoundedGaussian::MAX_SCALE).unwrap();
    let mut source = Listed::<64>::new(&[u64::MAX, 0]);
    let mut fraction = LazyUniform::with_digits(&[u64::MAX]);
    let size = noise.round(u64::MAX, &mut fraction, &mut source);
    assert_eq!(size, 1 << 124);
    // The largest integer part of the short path, and the first one of the long path.
    for whole in [1023, 1024] {
        let mut fraction = LazyUniform::with_digits(&[1 << 63]);
        let size = noise.round(whole, &mut fraction, &mut source);
        assert_eq!(size, (u128::from(whole) << 60) + (1 << 59));
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

/// The same fraction in digits of another width.
fn in_bits<const BITS: u32>(digits: &[u64]) -> Vec<u64> {
    digits
        .iter()
        .flat_map(|&digit| (0..64 / BITS).map(move |i| digit << (i * BITS) >> (u64::BITS - BITS)))
        .collect()
}

fn rounded<const BITS: u32>(noise: &RoundedGaussian, whole: u64, digits: &[u64]) -> u128 {
    let narrow = in_bits::<BITS>(digits);
    let mut source = Listed::<BITS>::new(&narrow[1..]);
    noise.round(
        whole,
        &mut LazyUniform::with_digits(&narrow[..1]),
        &mut source,
    )
}

fn scales() -> impl Strategy<Value = f64> {
    (-4.3_f64..60.0).prop_map(|e| {
        e.exp2()
            .clamp(RoundedGaussian::MIN_SCALE, RoundedGaussian::MAX_SCALE)
    })
}

proptest! {
    /// The short path, the long path, and every width of digits round alike.
    #[test]
    fn rounding_does_not_depend_on_the_digits(scale in scales(), whole in 0_u64..2000, digits in any::<[u64; 4]>()) {
        let noise = RoundedGaussian::new(scale).unwrap();
        let expected = rounded::<64>(&noise, whole, &digits);
        let mut source = Listed::<64>::new(&digits[1..]);
        let mut fraction = LazyUniform::with_digits(&digits[..1]);
        prop_assert_eq!(noise.round_in_full(whole, &mut fraction, &mut source), expected);
        prop_assert_eq!(rounded::<32>(&noise, whole, &digits), expected);
        prop_assert_eq!(rounded::<8>(&noise, whole, &digits), expected);
        prop_assert_eq!(rounded::<1>(&noise, whole, &digits), expected);
    }

    /// Against integer arithmetic in one line, for scales a/2^b and short fractions. Many of
    /// the products are exact halves: they round up, as ⌊· + ½⌋ does.
    #[test]
    fn rounding_agrees_with_exact_fractions(a in 1_u64..1 << 16, b in 0_u32..16, whole in 0_u64..64, top in 0_u64..1 << 10) {
        let scale = a as f64 / f64::from(1_u32 << b);
        prop_assume!(scale >= RoundedGaussian::MIN_SCALE);
        let noise = RoundedGaussian::new(scale).unwrap();
        let expected = (2 * u128::from(a) * u128::from(whole << 10 | top) + (1 << (b + 10))) >> (b + 11);
        prop_assert_eq!(rounded::<64>(&noise, whole, &[top << 54, 0, 0]), expected);
        prop_assert_eq!(rounded::<2>(&noise, whole, &[top << 54, 0, 0]), expected);
    }
}
