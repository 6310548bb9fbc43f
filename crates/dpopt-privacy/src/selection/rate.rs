//! How fast probabilities fall with the score: `epsilon / spread` as an exact rational.

use std::num::NonZeroU128;

use super::SelectionError;
use crate::units::Epsilon;

/// The least epsilon of a selection, 2^-20. Tuned: below it noise would not fit 64 bits.
pub const MIN_EPSILON: f64 = 1.0 / 1_048_576.0;
/// The largest epsilon of a selection, 2^20.
pub const MAX_EPSILON: f64 = 1_048_576.0;

/// A rational number `numerator / (denominator · 2^halvings)`, at least zero. The power of two
/// stands apart so that quotients of `f64` numbers need no long integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rational {
    pub(crate) numerator: u128,
    pub(crate) denominator: NonZeroU128,
    pub(crate) halvings: u32,
}

/// `epsilon / steps`, per lattice step, for the real number that the `f64` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(Rational);

impl Rate {
    /// The numerator is below 2^53, the denominator below 2^73 times `steps`.
    pub(crate) fn new(epsilon: Epsilon, steps: u64) -> Result<Self, SelectionError> {
        let value = epsilon.get();
        if !(MIN_EPSILON..=MAX_EPSILON).contains(&value) {
            return Err(SelectionError::EpsilonOutOfRange {
                epsilon: value,
                low: MIN_EPSILON,
                high: MAX_EPSILON,
            });
        }
        let bits = value.to_bits();
        let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
        let zeros = mantissa.trailing_zeros();
        // value = (mantissa >> zeros) · 2^exponent.
        let exponent = (bits >> 52) as i32 - 1075 + zeros as i32;
        let numerator = u128::from(mantissa >> zeros) << exponent.max(0);
        let denominator = NonZeroU128::new(u128::from(steps)).unwrap_or(NonZeroU128::MIN);
        Ok(Self(Rational {
            numerator,
            denominator,
            halvings: exponent.min(0).unsigned_abs(),
        }))
    }

    pub(super) fn rational(self) -> Rational {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// numerator / 2^halvings is the f64 itself.
        #[test]
        fn the_rational_is_the_number(epsilon in MIN_EPSILON..MAX_EPSILON, exponent in -20..20_i32) {
            for value in [epsilon, f64::from(exponent).exp2(), epsilon.powf(0.1).clamp(MIN_EPSILON, MAX_EPSILON)] {
                let Rational { numerator, denominator, halvings } =
                    Rate::new(Epsilon::new(value).unwrap(), 3).unwrap().rational();
                prop_assert_eq!(denominator.get(), 3);
                prop_assert!(numerator < 1 << 53 && halvings <= 72);
                prop_assert_eq!(numerator as f64 * (-f64::from(halvings)).exp2(), value);
            }
        }
    }

    #[test]
    fn epsilon_has_a_range() {
        for value in [1e-7, 1e7] {
            assert!(matches!(
                Rate::new(Epsilon::new(value).unwrap(), 1),
                Err(SelectionError::EpsilonOutOfRange { .. })
            ));
        }
    }
}
