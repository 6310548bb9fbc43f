//! An exact draw from a law whose masses are known to any precision.
//!
//! Inversion: a uniform real `R` below a power of two that is at least the total mass `T` is
//! refused when `R >= T`; otherwise the outcome is the first whose cumulated mass is above `R`.
//! Masses come as intervals and `R` as its first digits. Where those do not decide, both get
//! twice as many digits; that happens again and again only if `R` meets a cumulated mass
//! exactly, which has probability zero. No decision is taken in floating point, and the law is
//! met without an error.

use std::ops::ControlFlow;

use super::fixed::Fixed;
use crate::noise::digits::BitSource;

/// Masses of outcomes, up to a common factor, one of them at least 1.
pub(super) trait Masses {
    /// Calls `each(outcome, mass, error)` for the outcomes in a fixed order, the same at every
    /// precision, until it breaks or none with a mass above the last place is left. The
    /// true mass is within `error` ulps of `mass`. The fraction has `limbs` limbs.
    ///
    /// Returns, in ulps, a bound on all masses that were left out at the end. The sum of all
    /// masses is below 2^127, that of all errors below 2^126.
    fn walk(
        &self,
        limbs: usize,
        each: &mut dyn FnMut(u64, &Fixed, u128) -> ControlFlow<()>,
    ) -> u128;
}

/// Limbs of the fraction at the first attempt. Each attempt that does not decide doubles it.
pub(super) const FIRST_LIMBS: usize = 2;

/// A law that can be drawn from.
pub(super) struct Choice<M> {
    masses: M,
    /// The total mass at the first precision, rounded up.
    total: Fixed,
    /// Bits of the whole part of `R`: 2 to this power is at least the total mass.
    bits: u32,
}

impl<M: Masses> Choice<M> {
    pub(super) fn new(masses: M) -> Self {
        let total = total(&masses, FIRST_LIMBS);
        // Below 2^bits, as the whole part is at most 2^bits - 1.
        let bits = u128::BITS - total.floor().leading_zeros();
        Self {
            masses,
            total,
            bits,
        }
    }

    pub(super) fn draw<S: BitSource>(&self, source: &mut S) -> u64 {
        loop {
            if let Some(outcome) = self.attempt(source) {
                return outcome;
            }
        }
    }

    /// One uniform number; nothing when it is above the total.
    fn attempt<S: BitSource>(&self, source: &mut S) -> Option<u64> {
        let whole = match self.bits {
            0 => 0,
            bits => source.wide_word() >> (u128::BITS - bits),
        };
        let mut digits: Vec<u64> = Vec::new();
        let mut limbs = FIRST_LIMBS;
        loop {
            digits.resize_with(limbs, || source.word());
            let known = Fixed::from_digits(whole, &digits);
            // The walk would say so too, at its end.
            if limbs == FIRST_LIMBS && known.is_above_by(&self.total, 0) {
                return None;
            }
            match self.locate(limbs, &known) {
                Place::At(outcome) => return Some(outcome),
                Place::Above => return None,
                Place::Unknown => limbs *= 2,
            }
        }
    }

    /// Where the real number is that begins with `known`, and is at most one ulp above it.
    fn locate(&self, limbs: usize, known: &Fixed) -> Place {
        let mut below = Fixed::zero(limbs);
        let mut error = 0_u128;
        let mut place = None;
        let tail = self.masses.walk(limbs, &mut |outcome, mass, by| {
            below.add(mass);
            error = error.saturating_add(by);
            if below.is_above_by(known, error.saturating_add(1)) {
                place = Some(Place::At(outcome));
                return ControlFlow::Break(());
            }
            if known.is_above_by(&below, error) {
                return ControlFlow::Continue(());
            }
            place = Some(Place::Unknown);
            ControlFlow::Break(())
        });
        place.unwrap_or_else(|| {
            if known.is_above_by(&below, error.saturating_add(tail)) {
                Place::Above
            } else {
                Place::Unknown
            }
        })
    }
}

enum Place {
    At(u64),
    Above,
    Unknown,
}

/// The sum of all masses, rounded up.
fn total<M: Masses>(masses: &M, limbs: usize) -> Fixed {
    let mut sum = Fixed::zero(limbs);
    let mut error = 0_u128;
    let tail = masses.walk(limbs, &mut |_, mass, by| {
        sum.add(mass);
        error = error.saturating_add(by);
        ControlFlow::Continue(())
    });
    sum.add_ulps(error.saturating_add(tail));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::testkit::{chi_square, stream};

    /// Masses 1, 1/2, 1/3, ..., with an error that may be made absurdly large at low precision.
    struct Harmonic {
        count: u64,
        sloppy_below: usize,
    }

    impl Masses for Harmonic {
        fn walk(
            &self,
            limbs: usize,
            each: &mut dyn FnMut(u64, &Fixed, u128) -> ControlFlow<()>,
        ) -> u128 {
            for k in 1..=self.count {
                let mut mass = Fixed::whole(limbs, 1);
                mass.over(k);
                let error = if limbs < self.sloppy_below {
                    1 << 120
                } else {
                    1
                };
                if each(k - 1, &mass, error).is_break() {
                    break;
                }
            }
            0
        }
    }

    fn expected(count: u64) -> Vec<f64> {
        let total: f64 = (1..=count).map(|k| 1.0 / k as f64).sum();
        (1..=count).map(|k| 1.0 / k as f64 / total).collect()
    }

    #[test]
    fn the_law_is_that_of_the_masses() {
        let choice = Choice::new(Harmonic {
            count: 7,
            sloppy_below: 0,
        });
        let mut bits = stream(1);
        let mut counts = vec![0; 7];
        for _ in 0..300_000 {
            counts[choice.draw(&mut bits) as usize] += 1;
        }
        chi_square(&counts, &expected(7));
    }

    /// With errors of 2^-8 of the whole at the first precision, many draws need the second.
    #[test]
    fn refinement_does_not_change_the_law() {
        let choice = Choice::new(Harmonic {
            count: 5,
            sloppy_below: 4,
        });
        let mut bits = stream(2);
        let mut counts = vec![0; 5];
        for _ in 0..200_000 {
            counts[choice.draw(&mut bits) as usize] += 1;
        }
        chi_square(&counts, &expected(5));
    }

    #[test]
    fn what_is_not_certain_is_not_decided() {
        let choice = Choice::new(Harmonic {
            count: 2,
            sloppy_below: 4,
        });
        let near = Fixed::from_digits(0, &[u64::MAX, 0]);
        assert!(matches!(choice.locate(2, &near), Place::Unknown));
        let middle = Fixed::from_digits(0, &[1 << 63, 0]);
        assert!(matches!(choice.locate(2, &middle), Place::At(0)));
        let above = Fixed::from_digits(1, &[u64::MAX, 0]);
        assert!(matches!(choice.locate(2, &above), Place::Above));
        let fine = Choice::new(Harmonic {
            count: 2,
            sloppy_below: 0,
        });
        // The two masses meet at 1: one ulp below it the interval of R ends there.
        let edge = Fixed::from_digits(0, &[u64::MAX, u64::MAX]);
        assert!(matches!(fine.locate(2, &edge), Place::Unknown));
        let edge = Fixed::from_digits(0, &[u64::MAX, u64::MAX - 2]);
        assert!(matches!(fine.locate(2, &edge), Place::At(0)));
    }
}
