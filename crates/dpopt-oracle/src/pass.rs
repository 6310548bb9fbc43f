//! One clipped pass over the records that a query reads.

use dpopt_privacy::{LatticeError, LatticeSum, Threads};

use crate::positions::Positions;
use crate::threads::Cut;

/// Adds the contributions of the records at some positions to a sum. A pass calls it once for each of its pieces, and knows nothing else of query
/// and loss: so it is compiled once, and not for each pair of them.
pub(crate) type Add<'a> = dyn Fn(Positions<'_>, &mut LatticeSum) + Sync + 'a;

/// The lattice sum of a query's contributions. The result is the same, to the bit, for every
/// number of threads: each contribution is rounded on its own and added in integers.
///
/// `empty` makes the sum that nothing was added to. The public number of records that the pass is expected
/// to read, and not the true number, which may be secret, decided on `cut`: how many threads
/// take part and how long the chunks are that they take; only the number of chunks follows the true one.
pub(crate) fn clipped_pass(
    add: &Add<'_>,
    empty: &(dyn Fn() -> LatticeSum + Sync),
    positions: &Positions<'_>,
    cut: Cut,
    threads: &Threads,
) -> Result<LatticeSum, LatticeError> {
    let Cut { chunk, workers } = cut;
    let chunks = positions.len().div_ceil(chunk);
    let parts = threads.run(chunks, workers, empty, |sum, k| {
        add(positions.piece(k, chunk), sum);
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
