//! Work on fixed blocks of coordinates, the same whoever does it.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::noise::NoiseError;
use crate::noise::real::BLOCK_DRAWS;

/// Coordinates in one block: those of one block of draws.
pub(super) const BLOCK: usize = BLOCK_DRAWS;

/// Calls `work` for every block with its number, from up to `threads` threads. Where the system
/// gives fewer threads, fewer are used.
///
/// # Errors
/// Of some block that has one; the others may or may not be done then.
pub(super) fn over_blocks<B: Send>(
    threads: NonZeroUsize,
    blocks: Vec<B>,
    work: impl Fn(u32, B) -> Result<(), NoiseError> + Sync,
) -> Result<(), NoiseError> {
    let count = blocks.len();
    let queue = Mutex::new(blocks.into_iter().enumerate());
    let drain = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, block)) = next else {
                return Ok(());
            };
            // Blocks are numbered in 24 bits.
            work(u32::try_from(index).unwrap_or(u32::MAX), block)?;
        }
    };
    thread::scope(|scope| {
        // A thread that can't be had leaves its work to the others.
        let helpers: Vec<_> = (1..threads.get().min(count))
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, drain).ok())
            .collect();
        let own = drain();
        helpers.into_iter().fold(own, |done, helper| {
            let theirs = helper
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done.and(theirs)
        })
    })
}
