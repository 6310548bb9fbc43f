//! One clipped pass over the records that a query reads.

use std::ops::Range;

use dpopt_privacy::{Bound, LatticeError, LatticeSum};

use crate::loss::Loss;
use crate::query::Query;
use crate::records::Records;
use crate::threads::{Cut, Threads};

/// Positions of the records that a pass, or a part of one, reads. They don't print.
#[derive(Clone)]
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

    /// Puts what stands at these positions of `all` into `to`, which is emptied first.
    pub(crate) fn copy<T: Copy, U>(&self, all: &[T], to: &mut Vec<U>, each: impl Fn(T) -> U) {
        to.clear();
        match self {
            Positions::Range(range) => to.extend(all[range.clone()].iter().map(|&x| each(x))),
            Positions::Listed(list) => to.extend(list.iter().map(|&i| each(all[i as usize]))),
        }
    }

    /// Pieces of `size` positions, the last one shorter.
    pub(crate) fn blocks(&self, size: usize) -> impl Iterator<Item = Positions<'_>> {
        let size = size.max(1);
        (0..self.len().div_ceil(size)).map(move |k| self.piece(k, size))
    }

    /// Piece number `k` of `size` positions.
    fn piece(&self, k: usize, size: usize) -> Positions<'_> {
        let len = self.len();
        let start = k.saturating_mul(size).min(len);
        let end = start.saturating_add(size).min(len);
        match self {
            Positions::Range(range) => Positions::Range(range.start + start..range.start + end),
            Positions::Listed(list) => Positions::Listed(&list[start..end]),
        }
    }
}

/// The lattice sum of a query's contributions. The result is the same, to the bit, for every
/// number of threads: each contribution is rounded on its own and added in integers.
///
/// `empty` makes the sum that nothing was added to. `nominal` is the public number of records that the pass is expected
/// to read. It, and not the true number, which may be secret, decides with the public cost of the query how many threads
/// take part and how long the chunks are that they take; only the number of chunks follows the true one.
pub(crate) fn clipped_pass<L: Loss, Q: Query<L>>(
    loss: &L,
    records: &L::Records,
    query: &Q,
    empty: &(dyn Fn() -> LatticeSum + Sync),
    positions: &Positions<'_>,
    nominal: f64,
    threads: &Threads,
) -> Result<LatticeSum, LatticeError> {
    let Cut { chunk, workers } = cut(loss, records, query, empty().bound(), nominal, threads);
    let chunks = positions.len().div_ceil(chunk);
    let parts = threads.run(chunks, workers, empty, |sum, k| {
        query.add(loss, records, positions.piece(k, chunk), sum);
    });
    let mut total: Option<LatticeSum> = None;
    for part in parts {
        total = Some(match total {
            Some(total) => total.merge(part)?,
            None => part,
        });
    }
    Ok(total.unwrap_or_else(empty))
}

/// How a pass is cut up: from public numbers alone.
pub(crate) fn cut<L: Loss, Q: Query<L>>(
    loss: &L,
    records: &L::Records,
    query: &Q,
    bound: Bound,
    nominal: f64,
    threads: &Threads,
) -> Cut {
    let evaluations = query.gradients_per_record() + query.values_per_record();
    threads.cut(nominal, evaluations * loss.work(records), bound.dim())
}

/// All records.
pub(crate) fn everything<R: Records>(records: &R) -> Positions<'static> {
    Positions::Range(0..records.len())
}
