//! One coordinate of correlated noise, rounded exactly.
//!
//! Z_t = Σ_m b_m w_{t−m} with the w's regenerated to as many digits as decide round(s Z_t), and
//! the b's from their recurrence in integers. Everything is truncated downwards, every truncation
//! is counted, and where the count leaves the rounding open the digits are doubled.

use zeroize::Zeroizing;

use super::normals::{self, Digits};
use super::toeplitz::COEFFICIENT_BITS;
use crate::noise::{Key, NoiseError, StreamId, dyadic};

/// A positive scale as the exact number that an `f64` is: `mantissa · 2^exponent`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// Between 2^52 and 2^53.
    pub(super) mantissa: u64,
    /// From −57 to 8 over the supported scales.
    pub(super) exponent: i32,
}

impl Scale {
    /// The parts of a normal positive number.
    pub(super) fn new(scale: f64) -> Self {
        let (mantissa, exponent) = dyadic::split(scale);
        Self { mantissa, exponent }
    }
}

/// b_0, b_1, … to `64 · limbs` digits: `0 ≤ b_m − value_m 2^(−64 limbs) ≤ m 2^(−64 limbs)`.
///
/// b_m = Σ_k d_k b_{m−k}; cutting the sum adds at most one unit, and what earlier cuts add
/// is Σ_j b_{m−j} ≤ m, as no b exceeds 1. Public: no noise.
#[derive(Debug)]
pub(super) struct Response {
    limbs: usize,
    values: Vec<Vec<u64>>,
}

impl Response {
    pub(super) fn new(limbs: usize) -> Self {
        let mut one = vec![0; limbs + 1];
        one[limbs] = 1;
        Self {
            limbs,
            values: vec![one],
        }
    }

    /// Makes b_0, …, b_{len−1} known.
    pub(super) fn extend_to(&mut self, len: usize, decrements: &[u64]) {
        while self.values.len() < len {
            let mut sum = vec![0; self.limbs + 2];
            for (d, b) in decrements.iter().zip(self.values.iter().rev()) {
                add_product(&mut sum, b, &[*d]);
            }
            shift_down(&mut sum, u64::from(COEFFICIENT_BITS));
            sum.truncate(self.limbs + 1);
            self.values.push(sum);
        }
    }
}

/// Where a coordinate's normals come from.
pub(super) struct Source<'a> {
    pub(super) key: &'a Key,
    /// The streams of all steps so far.
    pub(super) steps: &'a [StreamId],
    pub(super) index: usize,
}

/// `round(s Z_t)` for the last of the steps. `response` must reach as far as there are steps.
pub(super) fn round(
    source: &Source<'_>,
    scale: Scale,
    decrements: &[u64],
    response: &Response,
) -> Result<i128, NoiseError> {
    if let Some(decided) = try_round(source, scale, response)? {
        return Ok(decided);
    }
    let mut limbs = response.limbs;
    loop {
        limbs *= 2;
        let mut longer = Response::new(limbs);
        longer.extend_to(source.steps.len(), decrements);
        if let Some(decided) = try_round(source, scale, &longer)? {
            return Ok(decided);
        }
    }
}

/// The rounded value, where the digits of `response` decide it.
///
/// With n limbs and u = 2^(−64 n), a term b |w| exceeds the product of its cut factors by at least
/// 0 and at most u·1 + (⌊|w|⌋ + 1)·m u. The sums of positive and of negative terms are each off by
/// at most the total of that, in one direction; so the difference is, in both.
fn try_round(
    source: &Source<'_>,
    scale: Scale,
    response: &Response,
) -> Result<Option<i128>, NoiseError> {
    let limbs = response.limbs;
    let room = 2 * limbs + 4;
    let mut positive = Zeroizing::new(vec![0; room]);
    let mut negative = Zeroizing::new(vec![0; room]);
    let mut off = 0_u128;
    for (m, (&id, b)) in source.steps.iter().rev().zip(&response.values).enumerate() {
        let Digits {
            negative: below,
            size,
        } = normals::refine(source.key, id, source.index, limbs)?;
        off += 1 + (u128::from(size[limbs]) + 1) * m as u128;
        let side = if below { &mut negative } else { &mut positive };
        add_product(side, b, &size);
    }
    // In units of u², as the sums are.
    let mut slack = vec![0; limbs];
    slack.extend([off as u64, (off >> 64) as u64]);
    let mut high = positive.clone();
    add_product(&mut high, &slack, &[1]);
    let mut low = negative.clone();
    add_product(&mut low, &slack, &[1]);
    let digits = 128 * limbs as u64;
    let ends = (
        round_difference(&high, &negative, scale, digits),
        round_difference(&positive, &low, scale, digits),
    );
    Ok((ends.0 == ends.1).then_some(ends.0))
}

/// `s value 2^-digits`, rounded to the nearest integer, halves away from zero.
pub(super) fn round_scaled(value: i128, scale: Scale, digits: u64) -> i128 {
    let size = value.unsigned_abs();
    let rounded = round_difference(&[size as u64, (size >> 64) as u64], &[0; 2], scale, digits);
    if value < 0 { -rounded } else { rounded }
}

/// `s (a − b) 2^-digits`, rounded to the nearest integer, halves away from zero.
fn round_difference(a: &[u64], b: &[u64], scale: Scale, digits: u64) -> i128 {
    let below = a.iter().rev().lt(b.iter().rev());
    let (large, small) = if below { (b, a) } else { (a, b) };
    let mut size = Zeroizing::new(vec![0; a.len() + 2]);
    add_product(&mut size, &difference(large, small), &[scale.mantissa]);
    // At least 1 for what this is called with.
    let shift = digits.saturating_add_signed(-i64::from(scale.exponent));
    let half = shift - 1;
    let mut one = vec![0; (half / 64) as usize + 1];
    one[(half / 64) as usize] = 1 << (half % 64);
    add_product(&mut size, &one, &[1]);
    shift_down(&mut size, shift);
    let size = (u128::from(size[1]) << 64 | u128::from(size[0])) as i128;
    if below { -size } else { size }
}

/// `sum += a · b`, modulo the length of `sum`.
///
/// Each partial product and two carries fit: (2^64 − 1)² + 2 (2^64 − 1) = 2^128 − 1.
fn add_product(sum: &mut [u64], a: &[u64], b: &[u64]) {
    for (i, &x) in a.iter().enumerate() {
        let mut carry = 0_u64;
        let mut places = sum.iter_mut().skip(i);
        for &y in b {
            let Some(place) = places.next() else { break };
            let wide = u128::from(x) * u128::from(y) + u128::from(*place) + u128::from(carry);
            *place = wide as u64;
            carry = (wide >> 64) as u64;
        }
        for place in places {
            if carry == 0 {
                break;
            }
            let (value, over) = place.overflowing_add(carry);
            *place = value;
            carry = u64::from(over);
        }
    }
}

/// `a − b` for `a ≥ b` of the same length.
fn difference(a: &[u64], b: &[u64]) -> Zeroizing<Vec<u64>> {
    let mut borrow = false;
    let limbs = a.iter().zip(b).map(|(&x, &y)| {
        let (value, under) = x.overflowing_sub(y);
        let (value, again) = value.overflowing_sub(u64::from(borrow));
        borrow = under || again;
        value
    });
    Zeroizing::new(limbs.collect())
}

/// `⌊a / 2^shift⌋` in place.
fn shift_down(a: &mut [u64], shift: u64) {
    let (whole, part) = ((shift / 64) as usize, (shift % 64) as u32);
    for i in 0..a.len() {
        let limb = |at: usize| a.get(at).copied().unwrap_or(0);
        let (low, high) = (limb(i + whole), limb(i + whole + 1));
        a[i] = if part == 0 {
            low
        } else {
            low >> part | high << (64 - part)
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::toeplitz::Factor;
    use super::*;

    fn limbs(x: u128) -> Vec<u64> {
        vec![x as u64, (x >> 64) as u64]
    }

    fn value(x: &[u64]) -> u128 {
        assert!(x[2..].iter().all(|&limb| limb == 0));
        u128::from(x[1]) << 64 | u128::from(x[0])
    }

    proptest! {
        #[test]
        fn long_arithmetic_agrees_with_machine_integers(a in any::<u64>(), b in any::<u64>(), c in 0_u128..1 << 100, s in 0_u64..127) {
            let mut sum = limbs(c);
            sum.extend([0, 0]);
            add_product(&mut sum, &[a >> 1], &[b >> 1]);
            let expected = c + u128::from(a >> 1) * u128::from(b >> 1);
            prop_assert_eq!(value(&sum), expected);
            prop_assert_eq!(&difference(&sum, &[c as u64, (c >> 64) as u64, 0, 0])[..2], &limbs(expected - c)[..]);
            shift_down(&mut sum, s);
            prop_assert_eq!(value(&sum), expected >> s);
        }

        /// (x·2^64 + y)·(z·2^64 + y) by parts.
        #[test]
        fn products_carry(x in any::<u64>(), y in any::<u64>(), z in any::<u64>()) {
            let mut whole = vec![0; 5];
            add_product(&mut whole, &[y, x], &[y, z]);
            let mut parts = vec![0; 5];
            add_product(&mut parts, &[y], &[y]);
            add_product(&mut parts, &[0, x], &[y]);
            add_product(&mut parts, &[0, z], &[y]);
            add_product(&mut parts, &[0, 0, x], &[z]);
            prop_assert_eq!(whole, parts);
        }

        #[test]
        fn differences_round_to_nearest(a in 0_u128..1 << 120, b in 0_u128..1 << 120, scale in 0.05..1e15f64) {
            // In units of 2^-128: both are below 2^-8.
            let ends = [limbs(a), limbs(b)].map(|mut x| { x.extend([0, 0]); x });
            let got = round_difference(&ends[0], &ends[1], Scale::new(scale), 128);
            let unit = 2f64.powi(-128);
            let exact = scale * (a as f64 * unit - b as f64 * unit);
            prop_assert!((got as f64 - exact).abs() <= 0.5 + exact.abs() * 1e-12 + scale * 1e-17);
        }
    }

    #[test]
    fn scales_are_taken_apart_exactly() {
        for scale in [0.05, 1.0, 1000.25, 2f64.powi(44), 2f64.powi(60)] {
            let Scale { mantissa, exponent } = Scale::new(scale);
            assert!((1 << 52..1 << 53).contains(&mantissa));
            assert_eq!(mantissa as f64 * 2f64.powi(exponent), scale);
        }
    }

    /// The full square root has b = c: binom(2k, k)/4^k, of which four are exact in 52 bits.
    #[test]
    fn responses_start_like_the_square_root_and_stay_within_their_error() {
        let decrements = Factor::new(300, 20).decrements();
        let [mut short, mut long] = [Response::new(1), Response::new(3)];
        short.extend_to(300, &decrements);
        long.extend_to(300, &decrements);
        for (m, expected) in [1.0, 0.5, 0.375, 0.3125].into_iter().enumerate() {
            let b = &short.values[m];
            assert_eq!(b[1] as f64 + b[0] as f64 / 2f64.powi(64), expected);
        }
        for m in 0..300 {
            let (short, long) = (&short.values[m], &long.values[m][2..]);
            let off = (u128::from(long[1]) << 64 | u128::from(long[0]))
                - (u128::from(short[1]) << 64 | u128::from(short[0]));
            assert!(off <= m as u128, "{m}: {off}");
            assert!(long[1] == 0 || m == 0);
        }
    }
}
