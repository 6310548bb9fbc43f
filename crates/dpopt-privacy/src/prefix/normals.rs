//! Standard normals of which as many digits can be had as are asked for, now or later.
//!
//! Coordinates are numbered, and those of a step live in fixed blocks. A block of draws reads one
//! stream; digits that the draws did not look at come from a second stream, at places that belong
//! to one coordinate each. So every digit is a function of the key, the step, and the coordinate:
//! nothing needs to be stored to get the same number again.

use std::num::NonZeroUsize;

use super::blocks::{BLOCK, over_blocks};
use crate::noise::{BitSource, ExactNormal, Key, NoiseError, StreamId};

/// Blocks from here on hold the digits that come later.
const LATER: u32 = 1 << 23;

/// Checks that `dim` coordinates fit into the blocks of a step.
pub(super) fn check_dim(id: StreamId, dim: usize) -> Result<(), NoiseError> {
    let last = u32::try_from(dim.div_ceil(BLOCK))
        .ok()
        .filter(|&blocks| blocks <= LATER);
    match last {
        Some(_) => Ok(()),
        None => id.with_block(u32::MAX).map(drop),
    }
}

/// What [`fill`] puts where a number does not fit.
pub(super) const TOO_LARGE: i64 = 1 << 62;

/// Fills `out` with `⌊|w| 2^bits⌋` and the sign of w: within one unit of `w 2^bits`. `bits` is at
/// most 62; a number of 2^62 units or more becomes ±[`TOO_LARGE`].
///
/// # Errors
/// Depend on the length and on the process only.
pub(super) fn fill(
    key: &Key,
    id: StreamId,
    bits: u32,
    threads: NonZeroUsize,
    out: &mut [i64],
) -> Result<(), NoiseError> {
    check_dim(id, out.len())?;
    let chunks = out.chunks_mut(BLOCK).collect();
    over_blocks(threads, chunks, |block, places: &mut [i64]| {
        let mut stream = key.stream(id.with_block(block)?);
        for place in places {
            let normal = ExactNormal::draw(&mut stream);
            let size = if normal.whole >> (62 - bits) == 0 {
                // At most 2^62 − 1: the digit is cut to `bits` bits.
                let fraction = u128::from(normal.fraction.head()) << bits >> 64;
                ((normal.whole << bits) as i64) | fraction as i64
            } else {
                TOO_LARGE
            };
            *place = if normal.negative { -size } else { size };
        }
        Ok(())
    })
}

/// A normal with its first digits.
pub(super) struct Digits {
    /// Whether it is below zero.
    pub(super) negative: bool,
    /// `⌊|w| 2^(64 n)⌋` in 64-bit limbs, the least significant first: n of the fraction, then one
    /// of the integer part.
    pub(super) size: Vec<u64>,
}

/// The number that [`fill`] put at place `index`, to `limbs` digits of 64 bits.
pub(super) fn refine(
    key: &Key,
    id: StreamId,
    index: usize,
    limbs: usize,
) -> Result<Digits, NoiseError> {
    let block = u32::try_from(index / BLOCK).unwrap_or(u32::MAX);
    let offset = index % BLOCK;
    let mut stream = key.stream(id.with_block(block)?);
    let mut normal = ExactNormal::draw(&mut stream);
    for _ in 0..offset {
        normal = ExactNormal::draw(&mut stream);
    }
    let mut later = Later {
        words: key.stream(id.with_block(block | LATER)?),
        skip: offset,
    };
    let mut size: Vec<u64> = (0..limbs)
        .map(|index| normal.fraction.digit(index, &mut later))
        .collect();
    size.reverse();
    size.push(normal.whole);
    Ok(Digits {
        negative: normal.negative,
        size,
    })
}

/// Every [`BLOCK`]-th word of a stream, from the coordinate's own on.
struct Later<S> {
    words: S,
    skip: usize,
}

impl<S: BitSource> BitSource for Later<S> {
    const DIGIT_BITS: u32 = S::DIGIT_BITS;

    fn word(&mut self) -> u64 {
        for _ in 0..self.skip {
            self.words.word();
        }
        self.skip = BLOCK - 1;
        self.words.word()
    }

    fn digit(&mut self) -> u64 {
        self.word()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::noise::Purpose;

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    #[test]
    fn refining_gives_the_same_number_to_more_digits() {
        let key = Key::from_seed(5);
        let id = StreamId::new(Purpose::Noise, 9);
        for bits in [10, 58] {
            let mut values = vec![0; 2 * BLOCK + 7];
            fill(&key, id, bits, ONE, &mut values).unwrap();
            for (index, &value) in values.iter().enumerate() {
                let short = refine(&key, id, index, 1).unwrap();
                let long = refine(&key, id, index, 4).unwrap();
                assert_eq!(long.size[3..], short.size[..]);
                assert_eq!(long.negative, short.negative);
                let cut =
                    (u128::from(short.size[1]) << 64 | u128::from(short.size[0])) >> (64 - bits);
                assert_eq!(cut as i64, value.abs());
                assert!(value == 0 || short.negative == (value < 0));
            }
        }
    }

    /// No digit of one coordinate is one of another, whatever is asked for.
    #[test]
    fn later_digits_are_nobody_elses() {
        let key = Key::from_seed(6);
        let id = StreamId::new(Purpose::Noise, 0);
        let mut seen = HashSet::new();
        for offset in 0..BLOCK {
            for digit in &refine(&key, id, offset, 5).unwrap().size[..5] {
                // A chance meeting has probability below 1e-13.
                assert!(seen.insert(*digit));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let key = Key::from_seed(7);
        let id = StreamId::new(Purpose::Noise, 0);
        let mut values = vec![0; BLOCK];
        // With 62 bits nothing of 1 or more fits; of 128 normals some are that large.
        fill(&key, id, 62, ONE, &mut values).unwrap();
        assert!(values.contains(&TOO_LARGE) && values.contains(&-TOO_LARGE));
        assert!(values.iter().all(|v| v.abs() <= TOO_LARGE));
        assert!(check_dim(id, BLOCK << 23).is_ok());
        assert!(check_dim(id, (BLOCK << 23) + 1).is_err());
    }
}
