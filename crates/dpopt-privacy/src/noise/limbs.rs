//! The little arithmetic on long unsigned integers that exact decisions need.

use std::cmp::Ordering;

/// A non-negative integer as 64-bit limbs, least significant first.
///
/// Limbs of zero at the upper end are allowed; equality and order are those of the number.
#[derive(Clone, Debug)]
pub(crate) struct Limbs(Vec<u64>);

impl Limbs {
    pub(crate) fn new(value: u64) -> Self {
        Self(vec![value])
    }

    pub(crate) fn from_wide(value: u128) -> Self {
        Self(vec![value as u64, (value >> u64::BITS) as u64])
    }

    /// The limbs, least significant first; there may be zeros at the end.
    pub(crate) fn limbs(&self) -> &[u64] {
        &self.0
    }

    /// The number of binary digits; zero has none.
    pub(crate) fn bits(&self) -> u64 {
        let limbs = self.trimmed();
        let Some(last) = limbs.last() else {
            return 0;
        };
        limbs.len() as u64 * u64::from(u64::BITS) - u64::from(last.leading_zeros())
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.trimmed().is_empty()
    }

    /// `self + other`.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut carry = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let addend = other.0.get(index).copied().unwrap_or(0);
            let (sum, over) = limb.overflowing_add(addend);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = over || over_again;
        }
        if carry {
            self.0.push(1);
        }
        self
    }

    /// `self − other`; nothing if that is negative.
    pub(crate) fn minus(mut self, other: &Self) -> Option<Self> {
        if self < *other {
            return None;
        }
        let mut borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let subtrahend = other.0.get(index).copied().unwrap_or(0);
            let (rest, under) = limb.overflowing_sub(subtrahend);
            let (rest, under_again) = rest.overflowing_sub(u64::from(borrow));
            *limb = rest;
            borrow = under || under_again;
        }
        Some(self)
    }

    /// `self · other`.
    pub(crate) fn product(&self, other: &Self) -> Self {
        let (a, b) = (self.trimmed(), other.trimmed());
        let mut out = vec![0; a.len() + b.len()];
        for (i, &x) in a.iter().enumerate() {
            let mut carry = 0_u64;
            for (j, &y) in b.iter().enumerate() {
                // At most (2^64 − 1)² + 2·(2^64 − 1) = 2^128 − 1.
                let sum =
                    u128::from(x) * u128::from(y) + u128::from(out[i + j]) + u128::from(carry);
                out[i + j] = sum as u64;
                carry = (sum >> u64::BITS) as u64;
            }
            out[i + b.len()] = carry;
        }
        Self(out)
    }

    /// `⌊self / divisor⌋`; the divisor must not be zero.
    pub(crate) fn over(mut self, divisor: u64) -> Self {
        let mut rest = 0_u64;
        for limb in self.0.iter_mut().rev() {
            let part = u128::from(rest) << u64::BITS | u128::from(*limb);
            // The rest is below the divisor, so the quotient is below 2^64.
            *limb = (part / u128::from(divisor)) as u64;
            rest = (part % u128::from(divisor)) as u64;
        }
        self
    }

    /// `self · 2^bits`.
    pub(crate) fn up(&self, bits: u64) -> Self {
        let (limbs, rest) = ((bits / 64) as usize, bits % 64);
        let mut out = vec![0; limbs];
        let mut carry = 0;
        for &limb in self.trimmed() {
            let wide = u128::from(limb) << rest;
            out.push(wide as u64 | carry);
            carry = (wide >> u64::BITS) as u64;
        }
        out.push(carry);
        Self(out)
    }

    /// `⌊self / 2^bits⌋`.
    pub(crate) fn down(&self, bits: u64) -> Self {
        let rest = bits % 64;
        let kept = self.0.get((bits / 64) as usize..).unwrap_or(&[]);
        let limb = |index: usize| {
            let high = kept.get(index + 1).copied().unwrap_or(0);
            // The cast keeps the low half.
            ((u128::from(high) << u64::BITS | u128::from(kept[index])) >> rest) as u64
        };
        Self((0..kept.len()).map(limb).collect())
    }

    fn trimmed(&self) -> &[u64] {
        let length = self.0.iter().rposition(|&limb| limb != 0);
        &self.0[..length.map_or(0, |last| last + 1)]
    }

    /// `self · 2^bits + digit`, for `bits ≤ 64` and `digit < 2^bits`.
    pub(crate) fn append(&mut self, bits: u32, digit: u64) {
        self.times_plus(1 << bits, digit);
    }

    /// `self · factor`.
    pub(crate) fn times(mut self, factor: u64) -> Self {
        self.times_plus(u128::from(factor), 0);
        self
    }

    /// `self · factor + carry` with `factor ≤ 2^64`. Every step stays in range:
    /// `(2^64 − 1)·2^64 + (2^64 − 1) = 2^128 − 1`, and the high half of it is below 2^64 again.
    fn times_plus(&mut self, factor: u128, carry: u64) {
        let mut carry = carry;
        for limb in &mut self.0 {
            let product = u128::from(*limb) * factor + u128::from(carry);
            *limb = product as u64;
            carry = (product >> u64::BITS) as u64;
        }
        if carry != 0 {
            self.0.push(carry);
        }
    }

    /// `self + value · 2^shift`.
    pub(crate) fn plus_shifted(mut self, value: u64, shift: u64) -> Self {
        let start = (shift / 64) as usize;
        let wide = u128::from(value) << (shift % 64);
        let mut parts = [wide as u64, (wide >> u64::BITS) as u64].into_iter();
        let mut index = start;
        let mut carry = false;
        loop {
            let part = parts.next();
            if part.is_none() && !carry {
                return self;
            }
            if self.0.len() <= index {
                self.0.resize(index + 1, 0);
            }
            let (sum, over) = self.0[index].overflowing_add(part.unwrap_or(0));
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            self.0[index] = sum;
            carry = over || over_again;
            index += 1;
        }
    }

    /// `⌊self / 2^shift⌋ mod 2^128`.
    pub(crate) fn shifted_down(&self, shift: u64) -> u128 {
        let start = (shift / 64) as usize;
        let limb = |offset: usize| u128::from(self.0.get(start + offset).copied().unwrap_or(0));
        let low = limb(0) | limb(1) << 64;
        match shift % 64 {
            0 => low,
            rest => low >> rest | limb(2) << (128 - rest),
        }
    }
}

impl PartialEq for Limbs {
    fn eq(&self, other: &Self) -> bool {
        self.trimmed() == other.trimmed()
    }
}

impl Eq for Limbs {}

impl PartialOrd for Limbs {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Limbs {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.trimmed(), other.trimmed());
        a.len()
            .cmp(&b.len())
            .then_with(|| a.iter().rev().cmp(b.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from_u128(value: u128) -> Limbs {
        let mut limbs = Limbs::new((value >> 64) as u64);
        limbs.append(64, value as u64);
        limbs
    }

    proptest! {
        #[test]
        fn agrees_with_machine_integers(a in any::<u128>(), f in any::<u32>(), s in 0_u64..128, d in 0_u64..1 << 7) {
            let small = a >> 40;
            prop_assert_eq!(from_u128(small).times(u64::from(f)).shifted_down(0), small.wrapping_mul(u128::from(f)));
            prop_assert_eq!(from_u128(a).shifted_down(s), a >> s);
            let mut appended = from_u128(small);
            appended.append(7, d);
            prop_assert_eq!(appended.shifted_down(0), (small << 7) + u128::from(d));
            let shift = s % 60;
            prop_assert_eq!(
                from_u128(small).plus_shifted(u64::from(f), shift).shifted_down(0),
                small + (u128::from(f) << shift)
            );
        }

        /// The ring laws tie long products, sums and differences to each other.
        #[test]
        fn long_arithmetic_obeys_its_laws(
            a in prop::collection::vec(any::<u64>(), 1..6),
            b in prop::collection::vec(any::<u64>(), 1..6),
            c in prop::collection::vec(any::<u64>(), 1..6),
            shift in 0_u64..200, divisor in 1_u64..,
        ) {
            let (a, b, c) = (Limbs(a), Limbs(b), Limbs(c));
            let sum = a.clone().plus(&b);
            prop_assert_eq!(sum.product(&c), a.product(&c).plus(&b.product(&c)));
            prop_assert_eq!(a.product(&b), b.product(&a));
            prop_assert_eq!(sum.clone().minus(&b), Some(a.clone()));
            prop_assert_eq!(a.clone().minus(&sum).is_some(), b.is_zero());
            prop_assert_eq!(a.up(shift).down(shift), a.clone());
            let cut_off = a.clone().minus(&a.down(shift).up(shift)).unwrap();
            prop_assert!(cut_off < Limbs::new(1).up(shift));
            prop_assert_eq!(a.up(shift).bits(), if a.is_zero() { 0 } else { a.bits() + shift });
            prop_assert_eq!(a.up(shift), a.product(&Limbs::new(1).up(shift)));
            let quotient = a.clone().over(divisor);
            let rest = a.clone().minus(&quotient.clone().times(divisor)).unwrap();
            prop_assert!(rest < Limbs::new(divisor));
            prop_assert_eq!(a.cmp(&b), a.clone().plus(&c).cmp(&b.clone().plus(&c)));
        }

        #[test]
        fn short_products_are_those_of_the_machine(a in any::<u64>(), b in any::<u64>(), c in any::<u128>()) {
            let product = u128::from(a) * u128::from(b);
            prop_assert_eq!(Limbs::new(a).product(&Limbs::new(b)), Limbs::from_wide(product));
            prop_assert_eq!(Limbs::from_wide(c).over(b.max(1)), Limbs::from_wide(c / u128::from(b.max(1))));
            prop_assert_eq!(Limbs::from_wide(c).bits(), u64::from(128 - c.leading_zeros()));
            prop_assert_eq!(Limbs::from_wide(c).cmp(&Limbs::from_wide(product)), c.cmp(&product));
        }

        /// Shifting up limb by limb and down again is the identity, however long the number.
        #[test]
        fn long_shifts_cancel(a in any::<u128>(), zeros in 0_u64..6, extra in 0_u64..64) {
            let mut limbs = from_u128(a);
            for _ in 0..zeros {
                limbs.append(64, 0);
            }
            limbs.append(extra as u32, 0);
            prop_assert_eq!(limbs.shifted_down(64 * zeros + extra), a);
        }
    }

    #[test]
    fn carries_run_through_and_grow() {
        let all_ones = from_u128(u128::MAX);
        let sum = all_ones.clone().plus_shifted(1, 0);
        assert_eq!((sum.shifted_down(0), sum.shifted_down(128)), (0, 1));
        let far = all_ones.plus_shifted(u64::MAX, 300);
        assert_eq!(far.shifted_down(300), u128::from(u64::MAX));
        assert_eq!(far.shifted_down(0), u128::MAX);
    }
}
