//! Exact coins: an event of rational probability, and one of probability `exp(−x)` for a
//! rational `x`.
//!
//! Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020),
//! Algorithm 1; the idea is von Neumann's (1951).

use std::num::NonZeroU128;

use super::digits::BitSource;

/// A rational number `numerator / (denominator · 2^halvings)`, at least zero.
///
/// The power of two stands apart so that a quotient of `f64` numbers, which are binary
/// fractions with exponents down to −1074, needs no long integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rational {
    /// The numerator.
    pub(crate) numerator: u128,
    /// The denominator, but for powers of two.
    pub(crate) denominator: NonZeroU128,
    /// By how many powers of two the denominator is larger.
    pub(crate) halvings: u32,
}

impl Rational {
    /// `numerator / denominator`.
    pub(crate) fn new(numerator: u128, denominator: NonZeroU128) -> Self {
        Self {
            numerator,
            denominator,
            halvings: 0,
        }
    }

    /// The largest integer that is not above, and the rest, which is below one.
    fn split(self) -> (u128, Self) {
        let quotient = self.numerator / self.denominator;
        // ⌊⌊p/q⌋ / 2^h⌋ = ⌊p / (q·2^h)⌋.
        let whole = quotient.checked_shr(self.halvings).unwrap_or(0);
        let taken = whole
            .checked_shl(self.halvings)
            .map_or(0, |halves| halves * self.denominator.get());
        let rest = Self {
            numerator: self.numerator - taken,
            ..self
        };
        (whole, rest)
    }
}

/// True with probability `exp(−numerator / denominator)`, exactly.
///
/// Expected cost: below three coins of rational probability, whatever the argument.
pub(crate) fn bernoulli_exp<S: BitSource>(
    numerator: u128,
    denominator: NonZeroU128,
    source: &mut S,
) -> bool {
    bernoulli_exp_of(Rational::new(numerator, denominator), source)
}

/// True with probability `exp(−x)`, exactly.
///
/// For `x = n + f` with an integer `n` and `f < 1`, it is `n` events of probability `exp(−1)`
/// and one of probability `exp(−f)`. One that does not happen ends it, so a large `n` costs
/// nothing: more than `k` of them are tried with probability `exp(−k)`.
pub(crate) fn bernoulli_exp_of<S: BitSource>(x: Rational, source: &mut S) -> bool {
    let one = Rational::new(1, NonZeroU128::MIN);
    let (whole, rest) = x.split();
    (0..whole).all(|_| exp_of_at_most_one(one, source)) && exp_of_at_most_one(rest, source)
}

/// True with probability `x`, for a rational `x`; always for `x ≥ 1`.
///
/// An integer uniform below `denominator · 2^halvings`, as `high · denominator + low`, is
/// compared with the numerator.
pub(crate) fn bernoulli<S: BitSource>(x: Rational, source: &mut S) -> bool {
    let (quotient, remainder) = (x.numerator / x.denominator, x.numerator % x.denominator);
    // Bits of `high` above the 128th: the quotient has none there, so one that is set decides.
    let mut beyond = x.halvings.saturating_sub(u128::BITS);
    while beyond > 0 {
        let bits = beyond.min(u64::BITS);
        if source.word() >> (u64::BITS - bits) != 0 {
            return false;
        }
        beyond -= bits;
    }
    let high = match x.halvings.min(u128::BITS) {
        0 => 0,
        u128::BITS => source.wide_word(),
        bits => source.below_wide(1 << bits),
    };
    high < quotient
        || (high == quotient
            && remainder != 0
            && source.below_wide(x.denominator.get()) < remainder)
}

/// True with probability `exp(−x)`, for `x ≤ 1`.
///
/// Trials are made in turn, trial `k` succeeding with probability `x/k`, up to the first that
/// fails. Trial `n + 1` is reached with probability `xⁿ/n!`, so the number of successes is even
/// with probability `Σ (−x)ⁿ/n! = exp(−x)`.
fn exp_of_at_most_one<S: BitSource>(x: Rational, source: &mut S) -> bool {
    if x.numerator == 0 {
        return true;
    }
    let mut even = true;
    let mut trial = 1_u64;
    // The counter cannot overflow: trial k is reached with probability at most 1/(k−1)!.
    while (trial == 1 || source.below(trial) == 0) && bernoulli(x, source) {
        even = !even;
        trial += 1;
    }
    even
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::noise::testkit::{Listed, alarms, enumerate, stream, z_test};

    fn rational(numerator: u128, denominator: u128, halvings: u32) -> Rational {
        Rational {
            numerator,
            denominator: NonZeroU128::new(denominator).unwrap(),
            halvings,
        }
    }

    /// Every sequence of 24 coin tosses: the probability lies between what is reached and that
    /// plus what is left undecided.
    #[test]
    fn probabilities_by_enumeration() {
        for (p, q, h, gap) in [
            (0, 1, 0, 1e-9),
            (1, 3, 0, 1e-2),
            (1, 1, 0, 1e-2),
            (3, 2, 0, 1e-2),
            (7, 3, 0, 0.1),
            (3, 1, 2, 1e-2),
            (5, 3, 1, 1e-2),
            (11, 5, 2, 1e-2),
            (4, 1, 0, 0.1),
        ] {
            let x = rational(p, q, h);
            let value = p as f64 / q as f64 * (-f64::from(h)).exp2();
            let (reached, left) = enumerate(24, |tosses| bernoulli_exp_of(x, tosses));
            let low = reached.get(&true).copied().unwrap_or(0.0);
            assert!(left < gap, "{x:?}: {left}");
            let expected = (-value).exp();
            assert!(
                low <= expected + 1e-14 && expected <= low + left + 1e-14,
                "{x:?}"
            );
            let (reached, left) = enumerate(24, |tosses| bernoulli(x, tosses));
            let low = reached.get(&true).copied().unwrap_or(0.0);
            let expected = value.min(1.0);
            assert!(
                low <= expected + 1e-14 && expected <= low + left + 1e-14,
                "{x:?}"
            );
        }
    }

    /// The same enumeration tells a twin whose trials all have probability x.
    #[test]
    fn enumeration_catches_trials_that_do_not_get_rarer() {
        let x = rational(1, 2, 0);
        let (reached, left) = enumerate(24, |tosses| {
            let mut even = true;
            while bernoulli(x, tosses) {
                even = !even;
            }
            even
        });
        let (low, expected) = (reached[&true], (-0.5_f64).exp());
        assert!(expected < low || low + left < expected);
    }

    /// With a denominator of many powers of two, single integers decide: q·2^h is the uniform
    /// integer's range.
    #[test]
    fn a_power_of_two_apart_is_a_longer_integer() {
        // x = 7/(2·2^130): the two bits above the 128th must be zero, then high < 3 is a yes
        // and high = 3 asks for one of two.
        let x = rational(7, 2, 130);
        let draw = |words: &[u64]| {
            let mut source = Listed::<64>::new(words);
            let result = bernoulli(x, &mut source);
            assert_eq!(source.left(), 0, "{words:?}");
            result
        };
        assert!(!draw(&[1 << 62]));
        assert!(!draw(&[1 << 63]));
        assert!(draw(&[0, 0, 2]));
        assert!(!draw(&[0, 0, 4]));
        assert!(!draw(&[0, 1, 0]));
        assert!(draw(&[0, 0, 3, 0]));
        assert!(!draw(&[0, 0, 3, 1 << 63]));
    }

    /// Eight checks of frequencies against exp.
    #[test]
    fn frequencies_of_long_arguments() {
        let big = 1_u128 << 100;
        for (number, (p, q, h)) in [
            (3 * big / 7, big, 0),
            (5 * big / 7, big / 3, 0),
            (1, 4 << 10, 0),
            (1 << 90, 1, 91),
            (u128::MAX, u128::MAX - 1, 1),
            (u128::MAX, 3, 127),
            (10, 9, 0),
            (3, 1, 0),
        ]
        .into_iter()
        .enumerate()
        {
            let x = rational(p, q, h);
            let mut source = stream(900 + number as u32);
            let n = 200_000;
            let hits = (0..n).filter(|_| bernoulli_exp_of(x, &mut source)).count();
            let p = (-(p as f64 / q as f64 * (-f64::from(h)).exp2())).exp();
            let n = f64::from(n);
            let z = (hits as f64 - n * p) / (n * p * (1.0 - p)).sqrt();
            assert_eq!(alarms(&[("frequency", z_test(z))]), [""; 0], "{x:?} {z}");
        }
        assert!(!bernoulli_exp_of(
            rational(u128::MAX, 1, 0),
            &mut stream(910)
        ));
        assert!(bernoulli_exp(0, NonZeroU128::MIN, &mut stream(911)));
    }

    proptest! {
        #[test]
        fn a_rational_splits_into_whole_and_rest(p in any::<u128>(), q in 1_u128.., h in 0_u32..140) {
            let x = rational(p, q, h);
            let (whole, rest) = x.split();
            prop_assert_eq!((rest.denominator, rest.halvings), (x.denominator, h));
            let taken = p - rest.numerator;
            // taken = whole·q·2^h, and the rest is below q·2^h.
            let unit = q.checked_shl(h).filter(|unit| unit >> h == q);
            match unit {
                Some(unit) => {
                    prop_assert!(rest.numerator < unit);
                    prop_assert_eq!(whole, p / unit);
                    prop_assert_eq!(taken, whole * unit);
                }
                None => prop_assert_eq!((whole, taken), (0, 0)),
            }
        }
    }
}
