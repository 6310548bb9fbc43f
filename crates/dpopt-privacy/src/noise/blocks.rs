//! Long vectors: fixed keyed blocks, the same whoever fills them.

use std::sync::{Mutex, PoisonError};

use dpopt_lanes::Threads;

use super::digits::BitSource;
use super::error::NoiseError;
use super::stream::{Key, KeyedStream, StreamId};

/// Draws in one block. Draw `i` of a vector belongs to block `i / BLOCK_DRAWS`.
pub(crate) const BLOCK_DRAWS: usize = 512;

/// The same as a place in a region.
const BLOCK_PLACES: u64 = BLOCK_DRAWS as u64;

/// Blocks that a thread takes at a time.
const BLOCKS_AT_A_TIME: usize = 16;

/// The bits of one block.
///
/// Words are read in order from the beginning of the block's stream; digit `level ≥ 1` after
/// the head of draw `i` stands at a place of its own, word `i + 512 r` of region `level` after `r`
/// candidates that were refused. So how many digits are asked of one draw changes no other draw,
/// any digit can be found again, and a refused candidate takes its digits along: that it was
/// refused says something about them.
pub(super) struct BlockSource<'k> {
    key: &'k Key,
    id: StreamId,
    words: KeyedStream,
    /// Where the digits of the candidate stand in a region.
    place: u64,
    /// Where the first digits of draws without a refused candidate stand, which are read in order.
    first: Option<KeyedStream>,
    /// Where any others do.
    others: Option<KeyedStream>,
}

impl<'k> BlockSource<'k> {
    /// Region `level` begins at this many words of 64 bits, times the level. The words of a
    /// block do not come near: 512 draws would have to read 2^39. Nor do the digits: one draw would
    /// have to be refused 2^30 times.
    const REGION: u128 = 1 << 39;

    fn new(key: &'k Key, id: StreamId) -> Self {
        Self {
            key,
            id,
            words: key.open(id),
            place: 0,
            first: None,
            others: None,
        }
    }

    /// The block of draw `index` of a vector, and the number of the draw in it.
    pub(super) fn of_draw(
        key: &'k Key,
        id: StreamId,
        index: u64,
    ) -> Result<(Self, u64), NoiseError> {
        key.check_process()?;
        id.check_first_block()?;
        let block = index / BLOCK_DRAWS as u64;
        let id = id.with_block(u32::try_from(block).unwrap_or(u32::MAX))?;
        Ok((Self::new(key, id), index % BLOCK_DRAWS as u64))
    }

    /// What is drawn from here on is draw number `draw` of the block.
    #[inline(always)]
    pub(super) fn begin(&mut self, draw: u64) {
        self.place = draw;
    }
}

impl BitSource for BlockSource<'_> {
    const DIGIT_BITS: u32 = u64::BITS;

    #[inline(always)]
    fn word(&mut self) -> u64 {
        self.words.word()
    }

    #[inline]
    fn digit(&mut self) -> u64 {
        self.words.word()
    }

    #[inline]
    fn extension(&mut self, level: usize) -> u64 {
        let digits = match (level, self.place) {
            (1, 0..BLOCK_PLACES) => &mut self.first,
            _ => &mut self.others,
        };
        let stream = digits.get_or_insert_with(|| self.key.open(self.id));
        stream.seek(level as u128 * Self::REGION + u128::from(self.place));
        stream.word()
    }

    #[inline]
    fn refused(&mut self) {
        self.place += BLOCK_PLACES;
    }
}

impl Key {
    /// Whether noise for `length` coordinates can be drawn; draws nothing. What this allows does
    /// not fail later.
    ///
    /// # Errors
    /// [`NoiseError::EmptyVector`], [`NoiseError::Forked`], [`NoiseError::NotFirstBlock`], and
    /// [`NoiseError::BlockOutOfRange`] for more than 2^24 blocks.
    pub(crate) fn check_release(&self, id: StreamId, length: usize) -> Result<(), NoiseError> {
        let Some(last) = length.checked_sub(1) else {
            return Err(NoiseError::EmptyVector);
        };
        self.check_process()?;
        id.check_first_block()?;
        id.with_block(u32::try_from(last / BLOCK_DRAWS).unwrap_or(u32::MAX))?;
        Ok(())
    }
}

/// Calls `body` for every place of `out` with the source of its block and its index.
///
/// Blocks do not depend on which of `threads` fills them, so neither does the result.
///
/// # Errors
/// Before anything is drawn, those of [`Key::check_release`].
pub(super) fn over_blocks<T: Send>(
    key: &Key,
    id: StreamId,
    threads: &Threads,
    out: &mut [T],
    body: impl Fn(&mut BlockSource<'_>, usize, &mut T) + Sync,
) -> Result<(), NoiseError> {
    key.check_release(id, out.len())?;
    let runs = out.chunks_mut(BLOCKS_AT_A_TIME * BLOCK_DRAWS);
    let count = runs.len();
    let runs = Mutex::new(runs.enumerate());
    threads.run(
        count,
        threads.count(),
        || (),
        |(), _| {
            let next = runs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((run, places)) = next else {
                return;
            };
            for (block, places) in places.chunks_mut(BLOCK_DRAWS).enumerate() {
                // In range, as the last block is.
                let number = run * BLOCKS_AT_A_TIME + block;
                over_block(
                    key,
                    id.block(number as u32),
                    places,
                    |source, draw, place| {
                        body(source, number * BLOCK_DRAWS + draw, place);
                    },
                );
            }
        },
    );
    Ok(())
}

/// Calls `body` for every place of one block with its source and its index in the block.
#[inline(always)]
pub(super) fn over_block<T>(
    key: &Key,
    id: StreamId,
    out: &mut [T],
    mut body: impl FnMut(&mut BlockSource<'_>, usize, &mut T),
) {
    let mut source = BlockSource::new(key, id);
    for (draw, place) in out.iter_mut().enumerate() {
        source.begin(draw as u64);
        body(&mut source, draw, place);
    }
}
