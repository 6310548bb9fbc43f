//! One clipped pass over the records that a query reads.

use dpopt_privacy::{Bound, LatticeError, LatticeSum};

use crate::loss::Loss;
use crate::positions::Positions;
use crate::query::Query;
use crate::threads::{Cut, Threads};

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
