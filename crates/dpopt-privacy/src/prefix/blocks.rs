//! Work on fixed blocks of coordinates, the same whoever does it.

use std::sync::{Mutex, PoisonError};

use dpopt_lanes::Threads;

use crate::noise::NoiseError;
use crate::noise::real::BLOCK_DRAWS;

/// Coordinates in one block: those of one block of draws.
pub(super) const BLOCK: usize = BLOCK_DRAWS;

/// Calls `work` for every block with its number, on these threads.
///
/// # Errors
/// Of some block that has one; the others may or may not be done then.
pub(super) fn over_blocks<B: Send>(
    threads: &Threads,
    blocks: Vec<B>,
    work: impl Fn(u32, B) -> Result<(), NoiseError> + Sync,
) -> Result<(), NoiseError> {
    let count = blocks.len();
    let blocks = Mutex::new(blocks.into_iter().enumerate());
    let done = threads.run(
        count,
        threads.count(),
        || Ok(()),
        |done, _| {
            let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
            if let Some((index, block)) = next
                && done.is_ok()
            {
                // Blocks are numbered in 24 bits.
                *done = work(u32::try_from(index).unwrap_or(u32::MAX), block);
            }
        },
    );
    done.into_iter().collect()
}
