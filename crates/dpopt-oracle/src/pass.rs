//! One clipped pass over the records that a query reads.

use std::num::NonZeroUsize;
use std::ops::Range;

use dpopt_privacy::{LatticeError, LatticeSum};

use crate::loss::Loss;
use crate::query::Query;
use crate::records::Records;

/// Positions of the records that a pass, or a part of one, reads.
#[derive(Debug, Clone)]
pub enum Positions<'a> {
    /// Neighbouring ones.
    Range(Range<usize>),
    /// Increasing ones, as a sample has them. **Secret**: they say who was drawn.
    Listed(&'a [u32]),
}

impl Positions<'_> {
    /// How many there are. **Secret** for a sample, and for all records under add/remove.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Positions::Range(range) => range.len(),
            Positions::Listed(list) => list.len(),
        }
    }

    /// Whether there are none. **Secret** as the length is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (range, list) = match self {
            Positions::Range(range) => (range.clone(), &[][..]),
            Positions::Listed(list) => (0..0, *list),
        };
        range.chain(list.iter().map(|&i| i as usize))
    }

    /// Pieces of `size` positions, the last one shorter.
    pub(crate) fn blocks(&self, size: usize) -> impl Iterator<Item = Positions<'_>> {
        let len = self.len();
        (0..len).step_by(size.max(1)).map(move |start| {
            let end = len.min(start + size.max(1));
            match self {
                Positions::Range(range) => Positions::Range(range.start + start..range.start + end),
                Positions::Listed(list) => Positions::Listed(&list[start..end]),
            }
        })
    }

    /// Part `k` of `parts` nearly equal ones.
    fn part(&self, k: usize, parts: usize) -> Positions<'_> {
        let at = |k: usize| self.len() * k / parts;
        match self {
            Positions::Range(range) => {
                Positions::Range(range.start + at(k)..range.start + at(k + 1))
            }
            Positions::Listed(list) => Positions::Listed(&list[at(k)..at(k + 1)]),
        }
    }
}

/// The lattice sum of a query's contributions. The result is the same, to the bit, for every
/// number of threads: each contribution is rounded on its own and added in integers.
///
/// `empty` makes the sum that nothing was added to. `nominal` is the public number of records that the pass is expected to read. It, and not the
/// true number, which may be secret, decides how many threads are asked for; where the system has
/// no more of them the calling thread does their work.
pub(crate) fn clipped_pass<L: Loss, Q: Query<L>>(
    loss: &L,
    records: &L::Records,
    query: &Q,
    empty: &(dyn Fn() -> LatticeSum + Sync),
    positions: &Positions<'_>,
    nominal: f64,
    threads: NonZeroUsize,
) -> Result<LatticeSum, LatticeError> {
    let sum_of = |part: Positions<'_>| {
        let mut sum = empty();
        query.add(loss, records, part, &mut sum);
        sum
    };
    // A thread is worth its start from a few thousand records on.
    let threads = threads.get().min((nominal / 2048.0) as usize + 1);
    if threads == 1 {
        return Ok(sum_of(positions.part(0, 1)));
    }
    let parts: Vec<LatticeSum> = std::thread::scope(|scope| {
        let sum_of = &sum_of;
        let workers: Vec<_> = (1..threads)
            .map(|k| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, move || sum_of(positions.part(k, threads)))
                    .map_err(|_| k)
            })
            .collect();
        let first = sum_of(positions.part(0, threads));
        std::iter::once(first)
            .chain(workers.into_iter().map(|worker| match worker {
                Ok(worker) => match worker.join() {
                    Ok(sum) => sum,
                    Err(panic) => std::panic::resume_unwind(panic),
                },
                Err(k) => sum_of(positions.part(k, threads)),
            }))
            .collect()
    });
    let mut total = empty();
    for part in parts {
        total = total.merge(part)?;
    }
    Ok(total)
}

/// All records.
pub(crate) fn everything<R: Records>(records: &R) -> Positions<'static> {
    Positions::Range(0..records.len())
}
