//! Non-negative fixed-point numbers of any precision, and `exp(−x)` with a proved error.
//!
//! A number is an integer over a power of 2^64. One unit of the last place is called an ulp. Operations that
//! are not exact round down by less than one ulp each; callers carry the error.

use num_bigint::BigUint;

use super::rate::Rational;
use crate::noise::dyadic::low_bits;

/// `ulps / 2^(64 limbs)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fixed {
    ulps: BigUint,
    limbs: usize,
}

impl Fixed {
    pub(super) fn zero(limbs: usize) -> Self {
        Self::whole(limbs, 0)
    }

    /// A whole number.
    pub(super) fn whole(limbs: usize, value: u128) -> Self {
        let ulps = BigUint::from(value) << (64 * limbs);
        Self { ulps, limbs }
    }

    /// A number by its whole part and the limbs of its fraction, most significant first.
    pub(super) fn from_digits(whole: u128, digits: &[u64]) -> Self {
        let start = BigUint::from(whole);
        Self {
            ulps: digits
                .iter()
                .fold(start, |ulps, &digit| (ulps << 64u32) + digit),
            limbs: digits.len(),
        }
    }

    /// `⌊x⌋` in ulps.
    fn fraction(limbs: usize, x: Rational) -> Self {
        let denominator = BigUint::from(x.denominator.get()) << x.halvings;
        Self {
            ulps: (BigUint::from(x.numerator) << (64 * limbs)) / denominator,
            limbs,
        }
    }

    /// The whole part, below 2^128.
    pub(super) fn floor(&self) -> u128 {
        low_bits(&(&self.ulps >> (64 * self.limbs)))
    }

    pub(super) fn is_zero(&self) -> bool {
        self.ulps == BigUint::ZERO
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.ulps += &other.ulps;
    }

    /// Adds a number of ulps.
    pub(super) fn add_ulps(&mut self, ulps: u128) {
        self.ulps += ulps;
    }

    /// Whether `self >= other + ulps`.
    pub(super) fn is_above_by(&self, other: &Self, ulps: u128) -> bool {
        self.ulps >= &other.ulps + ulps
    }

    pub(super) fn times(&mut self, factor: u64) {
        self.ulps *= factor;
    }

    /// `⌊self · factor / 2^64⌋` in ulps.
    pub(super) fn times_fraction(&mut self, factor: u64) {
        self.ulps *= factor;
        self.ulps >>= 64u32;
    }

    /// `⌊self / divisor⌋` in ulps.
    pub(super) fn over(&mut self, divisor: u64) {
        self.ulps /= divisor;
    }

    /// `⌊self / 2^bits⌋` in ulps.
    pub(super) fn halved(&mut self, bits: u32) {
        self.ulps >>= bits;
    }

    /// `⌊self · other⌋` in ulps.
    fn product(&self, other: &Self) -> Self {
        Self {
            ulps: (&self.ulps * &other.ulps) >> (64 * self.limbs),
            limbs: self.limbs,
        }
    }
}

/// `exp(−rate · d)` for whole numbers `d`, to `limbs` limbs.
///
/// # Error
/// Below [`Powers::error`] ulps. `x < 1` is rounded down by less than an ulp, and no term of its
/// series is above 1, so term `k` is wrong by less than `e_k` ulps with
/// `e_{k+1} <= (e_k + 2) / (k + 1) + 1`, hence `e_k <= 4`. With at most `64 limbs + 20` terms, and
/// what is left out below one more as the series alternates and falls, the sum is wrong by less
/// than `256 limbs + 84` ulps, below `2^9 limbs`. An entry with `x >= 1` is the square of one
/// `y <= exp(−1/2)` of error e, and its own is at most `2ye + 2 < 1.3 e` after the first
/// squaring and smaller after more. A product of at most 64 entries, none above 1, adds their errors and
/// two ulps each: below `2^16 limbs`.
pub(super) struct Powers {
    /// `exp(−rate · 2^j)`.
    entries: Vec<Fixed>,
    limbs: usize,
}

impl Powers {
    /// For `rate` with a denominator below 2^126 and distances up to `largest`.
    pub(super) fn new(limbs: usize, rate: Rational, largest: u64) -> Self {
        let mut entries: Vec<Fixed> = Vec::new();
        let bits = u64::BITS - largest.leading_zeros();
        let denominator = rate.denominator.get() << rate.halvings;
        for j in 0..bits {
            let below_one = rate
                .numerator
                .checked_shl(j)
                .filter(|n| n >> j == rate.numerator && *n < denominator);
            let entry = match (below_one, entries.last()) {
                (Some(numerator), _) => {
                    exp_series(&Fixed::fraction(limbs, Rational { numerator, ..rate }))
                }
                (None, Some(last)) => last.product(last),
                (None, None) => exp_of_large(limbs, rate),
            };
            entries.push(entry);
        }
        Self { entries, limbs }
    }

    /// Bound on the error of every power, in ulps.
    pub(super) fn error(limbs: usize) -> u128 {
        (limbs as u128) << 20
    }

    /// `exp(−rate · d)`.
    pub(super) fn at(&self, d: u64) -> Fixed {
        let mut out = Fixed::whole(self.limbs, 1);
        // The smallest entries first: far candidates end after one or two products.
        for (j, entry) in self.entries.iter().enumerate().rev() {
            if d >> j & 1 == 1 {
                out = out.product(entry);
                if out.is_zero() {
                    break;
                }
            }
        }
        out
    }
}

/// `exp(−x)` for `x >= 1`: `x` is halved until it is below 1 and the result squared as often.
/// Squares of numbers below `exp(−1/2)` keep the error below 1.3 times that of the first.
fn exp_of_large(limbs: usize, x: Rational) -> Fixed {
    let mut halvings = 0;
    let mut small = x;
    while small.numerator >= small.denominator.get() << small.halvings {
        halvings += 1;
        small.halvings += 1;
    }
    let mut out = exp_series(&Fixed::fraction(limbs, small));
    for _ in 0..halvings {
        out = out.product(&out);
    }
    out
}

/// `exp(−x)` for `x < 1` by its series, positive and negative terms apart.
fn exp_series(x: &Fixed) -> Fixed {
    let limbs = x.limbs;
    let mut term = Fixed::whole(limbs, 1);
    let mut sums = [term.clone(), Fixed::zero(limbs)];
    let mut k = 0_u64;
    while !term.is_zero() {
        k += 1;
        term = term.product(x);
        term.over(k);
        sums[(k % 2) as usize].add(&term);
    }
    // The terms fall, so the difference is not negative.
    let [mut out, negative] = sums;
    out.ulps -= negative.ulps;
    out
}

#[cfg(test)]
impl Fixed {
    pub(super) fn to_f64(&self) -> f64 {
        let digits = self.ulps.iter_u64_digits().rev();
        let ulps = digits.fold(0.0, |sum, digit| sum * 64f64.exp2() + digit as f64);
        ulps * (-64.0 * self.limbs as f64).exp2()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU128;

    use proptest::prelude::*;

    use super::*;

    fn rational(numerator: u128, denominator: u128) -> Rational {
        Rational {
            numerator,
            denominator: NonZeroU128::new(denominator).unwrap(),
            halvings: 0,
        }
    }

    /// exp(−1), exp(−1/2) and exp(−10) to 256 bits, rounded down: mpmath with 400 bits.
    const KNOWN: [(u128, u128, [u64; 4]); 3] = [(1, 1, EXP_1), (1, 2, EXP_HALF), (10, 1, EXP_10)];
    const EXP_1: [u64; 4] = [
        0x5e2d_58d8_b3bc_df1a,
        0xbade_c782_9054_f90d,
        0xda98_05aa_b56c_7733,
        0x3024_b9d0_a507_daed,
    ];
    const EXP_HALF: [u64; 4] = [
        0x9b45_97e3_7cb0_4ff3,
        0xd675_a355_30cd_d767,
        0xe347_bf8a_d0e8_0abb,
        0xce4a_e958_6101_4318,
    ];
    const EXP_10: [u64; 4] = [
        0x0002_f9af_36ac_8f93,
        0x538b_648e_aa13_10e5,
        0xf2bd_f1d2_9cb2_8266,
        0x8b9a_7147_cc4d_c89a,
    ];

    #[test]
    fn powers_agree_with_known_digits() {
        for (p, q, digits) in KNOWN {
            for limbs in [2, 3, 4] {
                let truth = Fixed::from_digits(0, &digits[..limbs]);
                let got = Powers::new(limbs, rational(p, q), 1).at(1);
                let error = Powers::error(limbs);
                assert!(got.is_above_by(&Fixed::zero(limbs), 1));
                let mut raised = got.clone();
                raised.add_ulps(error);
                assert!(raised.is_above_by(&truth, 0), "{p}/{q}");
                let mut raised = truth.clone();
                raised.add_ulps(error);
                assert!(raised.is_above_by(&got, 0), "{p}/{q}");
                // The same from tenths and hundredths, through squares and products.
                let got = Powers::new(limbs, rational(p, q * 100), 100).at(100);
                let mut raised = got.clone();
                raised.add_ulps(error);
                assert!(raised.is_above_by(&truth, 0), "{p}/{q}");
                let mut raised = truth.clone();
                raised.add_ulps(error);
                assert!(raised.is_above_by(&got, 0), "{p}/{q}");
            }
        }
    }

    proptest! {
        /// Longer numbers confirm shorter ones to the stated error, and doubles to theirs.
        #[test]
        fn errors_are_as_stated(p in 1_u128..1 << 53, q in 1_u128..1 << 31, h in 0_u32..60, d in 0_u64..1 << 40) {
            let rate = Rational { halvings: h, ..rational(p, q) };
            let short = Powers::new(2, rate, d).at(d);
            let long = Powers::new(5, rate, d).at(d);
            let cut = Fixed { ulps: &long.ulps >> 192u32, limbs: 2 };
            let error = Powers::error(2) + 1;
            prop_assert!(error < 1 << 22);
            let mut raised = short.clone();
            raised.add_ulps(error);
            prop_assert!(raised.is_above_by(&cut, 0));
            raised = cut.clone();
            raised.add_ulps(error);
            prop_assert!(raised.is_above_by(&short, 0));
            let x = p as f64 / q as f64 * (-f64::from(h)).exp2() * d as f64;
            if x < 60.0 {
                prop_assert!((long.to_f64() / (-x).exp() - 1.0).abs() < 1e-13 * (1.0 + x));
            }
        }

        #[test]
        fn arithmetic_agrees_with_machine_integers(a in any::<u64>(), b in 1..u64::MAX, s in 0_u32..130) {
            let mut x = Fixed::whole(2, u128::from(a));
            x.times(b);
            prop_assert_eq!(x.floor(), u128::from(a) * u128::from(b));
            x.over(b);
            prop_assert_eq!(x.clone(), Fixed::whole(2, u128::from(a)));
            let mut part = x.clone();
            part.times_fraction(b);
            prop_assert_eq!(part.floor(), (u128::from(a) * u128::from(b)) >> 64);
            x.halved(s);
            prop_assert_eq!(x.floor(), u128::from(a).checked_shr(s).unwrap_or(0));
        }
    }
}
