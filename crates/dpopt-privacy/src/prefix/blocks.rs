//! Work on fixed blocks of coordinates, the same whoever does it.

use std::num::NonZeroUsize;

use crate::noise::NoiseError;
use crate::noise::real::BLOCK_DRAWS;

/// Coordinates in one block: those of one block of draws.
pub(super) const BLOCK: usize = BLOCK_DRAWS;

/// Calls `work` for every block with its number, from up to `threads` threads.
///
/// # Errors
/// Of the first block that has one; the others may or may not be done then.
pub(super) fn over_blocks<B: Send>(
    threads: NonZeroUsize,
    mut blocks: Vec<B>,
    work: impl Fn(u32, B) -> Result<(), NoiseError> + Sync,
) -> Result<(), NoiseError> {
    // Blocks are numbered in 24 bits.
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let share = blocks.len().div_ceil(threads.get()).max(1);
    if share >= blocks.len() {
        return (0..)
            .map(number)
            .zip(blocks)
            .try_for_each(|(n, b)| work(n, b));
    }
    let work = &work;
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        while !blocks.is_empty() {
            let own = blocks.split_off(blocks.len().saturating_sub(share));
            let first = blocks.len();
            handles.push(scope.spawn(move || {
                (first..)
                    .map(number)
                    .zip(own)
                    .try_for_each(|(n, b)| work(n, b))
            }));
        }
        handles.into_iter().try_for_each(|handle| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}
