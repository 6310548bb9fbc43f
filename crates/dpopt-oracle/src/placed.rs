//! A clipped pass in blocks of fixed positions, which no thread shares with another.

use std::ops::Range;

use dpopt_privacy::{LatticeError, LatticeSum, Threads};

use crate::pass::Add;
use crate::positions::Positions;
use crate::threads::Cut;

/// Pieces for each thread, so that one that is held up leaves work to the others.
const PIECES_PER_THREAD: usize = 2;

/// The lattice sum of a query's contributions, in blocks of `width` positions. It is the same, to the bit, for every number of threads: which
/// positions share a block is a matter of the positions, and each block is one thread's.
///
/// `empty` makes the empty sums, in blocks. As many threads are asked for as `cut` has. Positions
/// are cut between threads where blocks end, and by their public `reach`, so that the cut does not depend on a sample either.
pub(crate) fn placed_pass(
    add: &Add<'_>,
    empty: &(dyn Fn() -> LatticeSum + Sync),
    (positions, reach): (&Positions<'_>, Range<usize>),
    width: usize,
    cut: Cut,
    threads: &Threads,
) -> Result<LatticeSum, LatticeError> {
    let (first, last) = (reach.start / width, reach.end.div_ceil(width));
    let pieces = if cut.workers == 1 {
        1
    } else {
        (cut.workers * PIECES_PER_THREAD).min((last - first).max(1))
    };
    let at = |k: usize| (first + (last - first) * k / pieces) * width;
    // Pieces are handed out in order, so each thread takes up blocks in order.
    let parts = threads.run(pieces, cut.workers, empty, |sum, k| {
        add(positions.between(at(k), at(k + 1)), sum);
    });
    let mut parts = parts.into_iter();
    let mut total = parts.next().unwrap_or_else(empty);
    for part in parts {
        total = total.merge(part)?;
    }
    Ok(total)
}

impl Positions<'_> {
    /// The public range that they are in: of a sample, all positions that it could have.
    pub(crate) fn reach(&self, records: usize) -> Range<usize> {
        match self {
            Positions::Range(range) => range.clone(),
            Positions::Listed(_) => 0..records,
        }
    }

    /// Those from `start` to below `end`.
    fn between(&self, start: usize, end: usize) -> Positions<'_> {
        match self {
            Positions::Range(range) => {
                let start = start.clamp(range.start, range.end);
                Positions::Range(start..end.clamp(start, range.end))
            }
            Positions::Listed(list) => {
                let at = |place: usize| list.partition_point(|&i| (i as usize) < place);
                let start_at = at(start);
                Positions::Listed(&list[start_at..at(end).max(start_at)])
            }
        }
    }

    /// Those of each block of `width` positions that has some, and the block's positions.
    pub(crate) fn by_block(
        &self,
        width: usize,
    ) -> impl Iterator<Item = (std::ops::Range<u64>, Positions<'_>)> {
        let mut rest = match self {
            Positions::Range(range) => Positions::Range(range.clone()),
            Positions::Listed(list) => Positions::Listed(list),
        };
        std::iter::from_fn(move || {
            let first = rest.iter().next()?;
            let start = first / width * width;
            let end = start.saturating_add(width);
            let (block, after) = match &rest {
                Positions::Range(range) => {
                    let cut = end.min(range.end);
                    (
                        Positions::Range(first..cut),
                        Positions::Range(cut..range.end),
                    )
                }
                Positions::Listed(list) => {
                    let cut = list.partition_point(|&i| (i as usize) < end);
                    let (block, after) = list.split_at(cut);
                    (Positions::Listed(block), Positions::Listed(after))
                }
            };
            rest = after;
            Some((start as u64..end as u64, block))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_positions_and_no_others() {
        let list = [0, 3, 4, 5, 11, 12, 13, 40];
        for positions in [Positions::Listed(&list), Positions::Range(3..41)] {
            let all: Vec<usize> = positions.iter().collect();
            for width in [1, 4, 12, 100] {
                let mut found = Vec::new();
                let mut last = None;
                for (range, block) in positions.by_block(width) {
                    assert_eq!(range.end - range.start, width as u64);
                    assert!(!block.is_empty() && range.start % width as u64 == 0);
                    assert!(block.iter().all(|i| range.contains(&(i as u64))));
                    assert!(last < Some(range.start));
                    last = Some(range.start);
                    found.extend(block.iter());
                }
                assert_eq!(found, all);
            }
            for (a, b) in [(0, 5), (5, 13), (13, 13), (13, 1000)] {
                let some: Vec<usize> = positions.between(a, b).iter().collect();
                let expected: Vec<usize> =
                    all.iter().copied().filter(|i| (a..b).contains(i)).collect();
                assert_eq!(some, expected);
            }
        }
    }
}
