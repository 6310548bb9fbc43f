//! Standard normals in fixed point, now to a few digits and later to as many as are asked for.
//!
//! Every digit is a function of the key, the step's stream and the coordinate: nothing needs to be
//! stored to get the same number again.

use zeroize::Zeroizing;

use crate::noise::real;
use crate::noise::{Key, NoiseError, StreamId};

/// Most digits after the point that [`fill`] gives.
pub(super) const MAX_BITS: u32 = real::LONG_BITS;

/// The value that [`fill`] puts where a number does not fit.
pub(super) const TOO_LARGE: i128 = real::TOO_LONG;

/// Fills `out` with `⌊|w| 2^bits⌋` and the sign of w: within one unit of `w 2^bits`, for `bits` up
/// to [`MAX_BITS`]; where |w| is 128 or more, ±[`TOO_LARGE`]. They are those of one block of coordinates.
///
/// # Errors
/// Depend on the process only.
pub(super) fn fill(key: &Key, id: StreamId, bits: u32, out: &mut [i128]) -> Result<(), NoiseError> {
    real::fill_long_block(key, id, out)?;
    let shift = MAX_BITS.saturating_sub(bits);
    if shift > 0 {
        for place in out {
            let size = place.abs();
            if size < TOO_LARGE {
                *place = (size >> shift) * place.signum();
            }
        }
    }
    Ok(())
}

/// A normal with its first digits.
pub(super) struct Digits {
    /// Whether it is below zero.
    pub(super) negative: bool,
    /// `⌊|w| 2^(64 n)⌋` in 64-bit limbs, the least significant first: n of the fraction, then one
    /// of the integer part.
    pub(super) size: Zeroizing<Vec<u64>>,
}

/// The number that [`fill`] put at place `index`, to `limbs` digits of 64 bits.
///
/// # Errors
/// As [`fill`].
pub(super) fn refine(
    key: &Key,
    id: StreamId,
    index: usize,
    limbs: usize,
) -> Result<Digits, NoiseError> {
    // Far below 2^32: each round that is left open doubles the digits.
    let bits = u32::try_from(64 * limbs).unwrap_or(u32::MAX);
    let number = real::refine(key, id, index as u64, bits)?;
    let mut size = Zeroizing::new(number.size.to_u64_digits());
    size.resize(limbs + 1, 0);
    Ok(Digits {
        negative: number.negative,
        size,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::blocks::BLOCK;
    use super::*;
    use crate::noise::{Purpose, ReplayKeyForTests};

    #[test]
    fn refining_gives_the_same_number_to_more_digits() {
        let key = ReplayKeyForTests::from_seed(5);
        let key = key.as_key();
        let id = StreamId::new(Purpose::Noise, 9);
        for bits in [0, 10, 64, MAX_BITS] {
            let mut values = vec![0; 600];
            for (block, values) in values.chunks_mut(BLOCK).enumerate() {
                let id = id.with_block(block as u32).unwrap();
                fill(key, id, bits, values).unwrap();
            }
            for (index, &value) in values.iter().enumerate() {
                let short = refine(key, id, index, 1).unwrap();
                let long = refine(key, id, index, 4).unwrap();
                assert_eq!(long.size[3..], short.size[..]);
                assert_eq!(long.negative, short.negative);
                let fraction = u128::from(long.size[3]) << 64 | u128::from(long.size[2]);
                let cut = u128::from(long.size[4]) << bits
                    | fraction.checked_shr(128 - bits).unwrap_or(0);
                assert_eq!(cut, value.unsigned_abs());
                assert!(value == 0 || short.negative == (value < 0));
            }
        }
    }

    /// No digit of one coordinate is one of another, whatever is asked for.
    #[test]
    fn later_digits_are_nobody_elses() {
        let key = ReplayKeyForTests::from_seed(6);
        let id = StreamId::new(Purpose::Noise, 0);
        let mut seen = HashSet::new();
        for index in 0..600 {
            for digit in &refine(key.as_key(), id, index, 5).unwrap().size[..5] {
                // A chance meeting has probability below 1e-12.
                assert!(seen.insert(*digit));
            }
        }
    }
}
