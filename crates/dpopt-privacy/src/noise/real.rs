//! An exact standard normal: a real number of which as many digits are drawn as are asked for.
//!
//! A box is chosen (see [`strips`](super::strips)), then a point in it. If the box is under the
//! curve, or the point is, its `x` has the law of `|Z|`; a fair bit gives the sign. One word of
//! 64 bits gives the box, the sign and the first 49 digits of the place in the strip, and in 97
//! of 100 cases that is all. Every decision is a comparison of integers that holds for all
//! values of the digits not drawn yet, so these are still uniform and independent and can be
//! drawn later. The proof is in `docs/privacy/sums.md`.

use dpopt_lanes::Threads;
use num_bigint::BigUint;

use super::accept::{Abscissa, HEAD_BITS, Under};
use super::blocks::{BlockSource, over_block, over_blocks};
use super::digits::BitSource;
use super::error::NoiseError;
use super::stream::{Key, StreamId};
use super::strips::{BOX_BITS, Cell, Strips};

pub(crate) use super::blocks::BLOCK_DRAWS;

/// Digits of a word that give the place in a strip.
const PLACE_BITS: u32 = HEAD_BITS - 6;

const _: () = assert!(BOX_BITS + 1 + PLACE_BITS == u64::BITS);

/// A real number with the standard normal law. Its absolute value lies in
/// `[head, head + 1] / 2^55`; further digits, to base `2^DIGIT_BITS`, follow when asked for.
pub(crate) struct RealNormal {
    /// Whether the number is below zero.
    pub(super) negative: bool,
    /// The integer part of the absolute value and 55 digits after the point.
    pub(super) head: u128,
    /// Digits after those of the head.
    digits: Vec<u64>,
}

impl RealNormal {
    /// A number of which nothing but the head is known.
    pub(super) fn new(negative: bool, head: u128) -> Self {
        Self {
            negative,
            head,
            digits: Vec::new(),
        }
    }

    /// Draws one number.
    #[cfg(test)]
    pub(crate) fn draw<S: BitSource>(source: &mut S) -> Self {
        let word = source.word();
        Self::from_word(word, Strips::get(), source)
    }

    /// The number that starts with `word`.
    pub(super) fn from_word<S: BitSource>(word: u64, table: &Strips, source: &mut S) -> Self {
        match quick(word, table) {
            Some(head) => Self::new(is_negative(word), u128::from(head)),
            None => Self::beyond(word, table, source),
        }
    }

    /// The number that starts with a `word` whose box is not under the curve.
    #[cold]
    #[inline(never)]
    fn beyond<S: BitSource>(word: u64, table: &Strips, source: &mut S) -> Self {
        let mut word = word;
        loop {
            let place = u128::from(place(word));
            let head = |strip: u64| u128::from(strip) << PLACE_BITS | place;
            match table.cell(word) {
                Cell::Inside(strip) => return Self::new(is_negative(word), head(strip)),
                Cell::Cut(strip, floor) => {
                    let mut x = Self::new(is_negative(word), head(strip));
                    if Under::floor(floor).decide(&mut x, table, source) {
                        return x;
                    }
                    source.refused();
                }
                Cell::Tail => {
                    let steps = sixteenths(source);
                    let fraction = source.word() >> (u64::BITS - HEAD_BITS);
                    let whole = u128::from(steps) + 4;
                    let head = whole << HEAD_BITS | u128::from(fraction);
                    let mut x = Self::new(is_negative(word), head);
                    if Under::tail(steps, table).decide(&mut x, table, source) {
                        return x;
                    }
                    source.refused();
                }
                Cell::Spare => {}
            }
            word = source.word();
        }
    }

    /// Digit number `level ≥ 1` after the head; drawn now if it is not known.
    pub(super) fn digit<S: BitSource>(&mut self, level: usize, source: &mut S) -> u64 {
        while self.digits.len() < level {
            let next = self.digits.len() + 1;
            self.digits.push(source.extension(next));
        }
        self.digits[level - 1]
    }
}

impl Abscissa for RealNormal {
    fn small_head(&self) -> Option<u64> {
        u64::try_from(self.head).ok()
    }

    fn known<S: BitSource>(&mut self, levels: usize, source: &mut S) -> (BigUint, u64) {
        let mut known = BigUint::from(self.head);
        for level in 1..=levels {
            known = (known << S::DIGIT_BITS) + self.digit(level, source);
        }
        let bits = u64::from(HEAD_BITS) + levels as u64 * u64::from(S::DIGIT_BITS);
        (known, bits)
    }
}

/// A binary fraction that a real number is cut to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FixedPoint {
    /// Whether the number is below zero.
    pub(crate) negative: bool,
    /// `⌊|w|·2^bits⌋`, exactly.
    pub(crate) size: BigUint,
}

/// Digits after the point that [`fill_long`] gives.
pub(crate) const LONG_BITS: u32 = HEAD_BITS + u64::BITS;

/// The value that [`fill_long`] puts where a number is too large for it.
pub(crate) const TOO_LONG: i128 = 1 << 126;

/// Fills `out` with the first digits of the independent standard normals `w_0, w_1, …` of one
/// stream: `⌊|w_i|·2^119⌋` with the sign of `w_i`, or ±[`TOO_LONG`] where `|w_i|` is 128 or more.
///
/// Number `i` is a function of the key, the stream and `i`; neither `threads` nor the length
/// changes it. `id` must be the first block of a release.
///
/// # Errors
/// [`NoiseError::Forked`], [`NoiseError::NotFirstBlock`], [`NoiseError::EmptyVector`], and
/// [`NoiseError::BlockOutOfRange`] above 2^33 numbers.
pub(crate) fn fill_long(
    key: &Key,
    id: StreamId,
    threads: &Threads,
    out: &mut [i128],
) -> Result<(), NoiseError> {
    let table = Strips::get();
    over_blocks(key, id, threads, out, |source, _, place| {
        *place = long(source, table);
    })
}

/// The numbers of [`fill_long`] that belong to the one block of `id`, of which there are at most
/// [`BLOCK_DRAWS`].
///
/// # Errors
/// [`NoiseError::Forked`].
pub(crate) fn fill_long_block(key: &Key, id: StreamId, out: &mut [i128]) -> Result<(), NoiseError> {
    key.check_process()?;
    let table = Strips::get();
    over_block(key, id, out, |source, _, place| {
        *place = long(source, table);
    });
    Ok(())
}

/// The next number of [`fill_long`].
#[inline(always)]
fn long(source: &mut BlockSource<'_>, table: &Strips) -> i128 {
    let word = source.word();
    let (negative, head, digit) = match quick(word, table) {
        // No digit after the head was looked at yet.
        Some(head) => (is_negative(word), u128::from(head), source.extension(1)),
        None => {
            let mut normal = RealNormal::beyond(word, table, source);
            let digit = normal.digit(1, source);
            (normal.negative, normal.head, digit)
        }
    };
    let size = if head >> 62 == 0 {
        (head << u64::BITS | u128::from(digit)).cast_signed()
    } else {
        TOO_LONG
    };
    if negative { -size } else { size }
}

/// Draw `index` of [`fill_long`] again, with `bits` digits after the point.
///
/// It replays the draws before it in its block, at most 511, and takes its further digits from
/// where they stand in the stream.
///
/// # Errors
/// As [`fill_long`].
pub(crate) fn refine(
    key: &Key,
    id: StreamId,
    index: u64,
    bits: u32,
) -> Result<FixedPoint, NoiseError> {
    let table = Strips::get();
    let (mut source, before) = BlockSource::of_draw(key, id, index)?;
    let mut number = None;
    for place in 0..=before {
        source.begin(place);
        let word = source.word();
        number = Some(RealNormal::from_word(word, table, &mut source));
    }
    let mut number = number.unwrap_or_else(|| RealNormal::new(false, 0));
    let levels = bits.saturating_sub(HEAD_BITS).div_ceil(u64::BITS);
    let (known, known_bits) = number.known(levels as usize, &mut source);
    Ok(FixedPoint {
        negative: number.negative,
        size: known >> (known_bits - u64::from(bits)),
    })
}

/// The head of the number that starts with `word`, if its box is under the curve.
#[inline(always)]
pub(super) fn quick(word: u64, table: &Strips) -> Option<u64> {
    let strip = table.inside(word)?;
    Some(strip << PLACE_BITS | place(word))
}

#[inline(always)]
pub(super) fn is_negative(word: u64) -> bool {
    word >> BOX_BITS & 1 == 1
}

#[inline(always)]
fn place(word: u64) -> u64 {
    word >> (u64::BITS - PLACE_BITS)
}

/// An integer `n` with probability `(15/16)/16^n`.
///
/// The count cannot overflow in the lifetime of a machine.
pub(super) fn sixteenths<S: BitSource>(source: &mut S) -> u64 {
    let mut count = 0;
    while source.word() >> 60 == 0 {
        count += 1;
    }
    count
}
