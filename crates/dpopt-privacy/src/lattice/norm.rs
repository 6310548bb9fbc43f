//! The norm of an exact sum.

use super::Bound;

impl Bound {
    /// The L2 norm of a sum on this lattice plus a public shift, in whole steps, rounded down. The
    /// shift is in the units of the sum and rounded to the lattice; coordinates that it lacks or
    /// that are NaN are 0.
    pub(crate) fn norm_in_steps(&self, sum: &[i64], shift: &[f64]) -> i128 {
        /// Sums are below 2^62, so that both together stay below 2^63.
        const MOST: f64 = 4_611_686_018_427_387_904.0;
        let step = self.step;
        let mut squares = Wide::ZERO;
        for (i, &k) in sum.iter().enumerate() {
            let shift = shift.get(i).map_or(0.0, |x| (x / step).round_ties_even());
            // Not a number becomes 0.
            let shifted = i128::from(k) + shift.clamp(-MOST, MOST) as i128;
            squares.add(shifted.unsigned_abs().pow(2));
        }
        squares.sqrt() as i128
    }
}

/// An unsigned integer of 256 bits: a sum of fewer than 2^38 squares below 2^126 fits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    const ZERO: Self = Self { high: 0, low: 0 };

    fn add(&mut self, value: u128) {
        let (low, carry) = self.low.overflowing_add(value);
        self.low = low;
        self.high += u128::from(carry);
    }

    fn square(root: u128) -> Self {
        let (high, low) = (root >> 64, root & u128::from(u64::MAX));
        let cross = high * low;
        let mut out = Self {
            high: high * high + (cross >> 63),
            low: low * low,
        };
        out.add(cross << 65);
        out
    }

    /// The square root, rounded down, of a number below 2^200.
    fn sqrt(self) -> u128 {
        let mut root = 0;
        for bit in (0..100).rev() {
            let next = root | 1_u128 << bit;
            if Self::square(next) <= self {
                root = next;
            }
        }
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The root r of n has r^2 <= n < (r + 1)^2.
        #[test]
        fn the_root_is_the_largest_whose_square_fits(root in 0_u128..1 << 99, over in any::<u64>()) {
            let mut n = Wide::square(root);
            // At most 2 root can be added before the next square.
            let over = u128::from(over).min(2 * root);
            n.add(over);
            prop_assert_eq!(n.sqrt(), root);
        }

        #[test]
        fn squares_agree_with_machine_integers(root in any::<u64>()) {
            let square = Wide::square(u128::from(root));
            prop_assert_eq!((square.high, square.low), (0, u128::from(root) * u128::from(root)));
        }

        /// (a + b)^2 = a^2 + 2ab + b^2 with a = 2^64 x.
        #[test]
        fn squares_carry(x in 0_u128..1 << 35, b in any::<u64>()) {
            let square = Wide::square((x << 64) + u128::from(b));
            let mut expected = Wide { high: x * x, low: u128::from(b) * u128::from(b) };
            let cross = x * u128::from(b);
            expected.high += cross >> 63;
            expected.add(cross << 65);
            prop_assert_eq!((square.high, square.low), (expected.high, expected.low));
        }
    }

    #[test]
    fn the_largest_sum_of_squares_fits() {
        let mut n = Wide::ZERO;
        for _ in 0..8 {
            n.add(u128::from(i64::MIN.unsigned_abs()).pow(2));
        }
        // 8 * 2^126 = 2^129.
        assert_eq!((n.high, n.low), (2, 0));
        assert_eq!(n.sqrt(), 26_087_635_650_665_564_424);
    }
}
