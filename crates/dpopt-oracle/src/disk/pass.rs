//! One clipped pass over records in a file: blocks are read ahead of the arithmetic.
//!
//! Threads take block after block from one queue, so that together they read the file from its start to its end. Each has a
//! thread of its own that reads ahead, and two buffers that go to and fro between them: while one is computed with, the other
//! is filled.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use dpopt_linalg::Wanted;
use dpopt_privacy::LatticeSum;

use super::source::Blocks;
use crate::error::AskError;
use crate::positions::Positions;
use crate::records::{Examples, Records};

/// Adds the contributions of some records of a body to a sum.
pub(crate) type AddPart<'a, R> = dyn Fn(&R, Positions<'_>, &mut LatticeSum) + Sync + 'a;

/// Blocks in memory for each thread that computes.
pub(super) const BUFFERS: usize = 2;

/// The sum of what `add` adds for the records in `rows`, to what `empty` makes.
///
/// A file that was changed, and a block that can't be read, end the pass: nothing of the sum is left then. The file is
/// looked at before the first block and after the last.
pub(super) fn pass<S: Blocks>(
    source: &S,
    face: &Examples,
    rows: &Positions<'_>,
    empty: &(dyn Fn() -> LatticeSum + Sync),
    threads: usize,
    add: &AddPart<'_, Examples>,
) -> Result<LatticeSum, AskError> {
    source.unchanged()?;
    let queue = Queue::new(source, rows);
    let work = || work(source, face, &queue, empty, add);
    let parts = thread::scope(|scope| {
        let work = &work;
        // Where the system has no more threads, those that there are take all blocks.
        let others: Vec<_> = (1..threads)
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let own = work();
        let others = others
            .into_iter()
            .map(|other| match other.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect::<Vec<_>>();
        std::iter::once(own)
            .chain(others)
            .collect::<Result<Vec<_>, _>>()
    })?;
    source.unchanged()?;
    let mut total = empty();
    for part in parts {
        total = total.merge(part)?;
    }
    Ok(total)
}

/// Which block is to be read next.
struct Queue<'a, S> {
    source: &'a S,
    rows: &'a Positions<'a>,
    next: AtomicUsize,
    failed: AtomicBool,
}

impl<'a, S: Blocks> Queue<'a, S> {
    fn new(source: &'a S, rows: &'a Positions<'a>) -> Self {
        let first = match rows {
            Positions::Range(range) => range.start,
            Positions::Listed(list) => list.first().map_or(0, |&row| row as usize),
        };
        // The block that holds it.
        let (mut low, mut high) = (0, source.blocks());
        while low < high {
            let middle = low + (high - low) / 2;
            if source.block(middle).end <= first {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Self {
            source,
            rows,
            next: AtomicUsize::new(low),
            failed: AtomicBool::new(false),
        }
    }

    /// The next block with a wanted row; none at the end or after a failure.
    fn take(&self) -> Option<(usize, Wanted<'a>)> {
        loop {
            let k = self.next.fetch_add(1, Ordering::Relaxed);
            if k >= self.source.blocks() || self.failed.load(Ordering::Relaxed) {
                return None;
            }
            let wanted = self.wanted(self.source.block(k));
            if !wanted.is_empty() {
                return Some((k, wanted));
            }
        }
    }

    fn wanted(&self, block: Range<usize>) -> Wanted<'a> {
        match self.rows {
            Positions::Range(range) => {
                let start = range.start.max(block.start);
                Wanted::Range(start..range.end.min(block.end).max(start))
            }
            Positions::Listed(list) => {
                let before = |end: usize| list.partition_point(|&row| (row as usize) < end);
                Wanted::Listed(&list[before(block.start)..before(block.end)])
            }
        }
    }
}

/// The work of one thread, until the queue is empty.
fn work<S: Blocks>(
    source: &S,
    face: &Examples,
    queue: &Queue<'_, S>,
    empty: &(dyn Fn() -> LatticeSum + Sync),
    add: &AddPart<'_, Examples>,
) -> Result<LatticeSum, AskError> {
    let mut sum = empty();
    let mut visit = |block: &mut Examples| {
        block.enforce();
        add(block, Positions::Range(0..block.len()), &mut sum);
    };
    thread::scope(|scope| {
        let (fill, to_fill) = channel();
        let (filled, blocks) = channel();
        let ahead = move || read_ahead(source, queue, &to_fill, &filled);
        if thread::Builder::new().spawn_scoped(scope, ahead).is_err() {
            return read_here(source, queue, &mut face.clone(), &mut visit);
        }
        for _ in 0..BUFFERS {
            // Who reads waits for these; it ends when this side of the channel is gone.
            let _ = fill.send(face.clone());
        }
        for block in blocks {
            let mut block: Examples = block?;
            visit(&mut block);
            // At the end there is nobody to fill it again.
            let _ = fill.send(block);
        }
        Ok(())
    })?;
    Ok(sum)
}

/// Fills buffers until the queue is empty, a block can't be read, or nobody wants them.
fn read_ahead<S: Blocks>(
    source: &S,
    queue: &Queue<'_, S>,
    to_fill: &Receiver<Examples>,
    filled: &Sender<Result<Examples, AskError>>,
) {
    let mut reader = source.reader();
    for mut buffer in to_fill {
        let Some((k, wanted)) = queue.take() else {
            return;
        };
        let read = reader.read(k, &wanted, &mut buffer);
        let failed = read.is_err();
        if failed {
            queue.failed.store(true, Ordering::Relaxed);
        }
        if filled.send(read.map(|()| buffer)).is_err() || failed {
            return;
        }
    }
}

/// Reads and computes in turns.
fn read_here<S: Blocks>(
    source: &S,
    queue: &Queue<'_, S>,
    buffer: &mut Examples,
    visit: &mut impl FnMut(&mut Examples),
) -> Result<(), AskError> {
    let mut reader = source.reader();
    while let Some((k, wanted)) = queue.take() {
        if let Err(error) = reader.read(k, &wanted, buffer) {
            queue.failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
        visit(buffer);
    }
    Ok(())
}
