//! The little arithmetic on long unsigned integers that rounding needs.

/// A non-negative integer as 64-bit limbs, least significant first.
#[derive(Clone, Debug)]
pub(crate) struct Limbs(Vec<u64>);

impl Limbs {
    pub(crate) fn new(value: u64) -> Self {
        Self(vec![value])
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
