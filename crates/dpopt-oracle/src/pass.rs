//! One clipped pass over the records a query touches.

use std::num::NonZeroUsize;

use dpopt_linalg::Row;
use dpopt_privacy::{Bound, LatticeError, LatticeSum};

use crate::data::PrivateData;
use crate::query::RowQuery;

/// Which positions a pass reads.
#[derive(Clone, Copy)]
pub(crate) enum Positions<'a> {
    All,
    Some(&'a [u32]),
}

/// The lattice sum of a query's contributions. The result is the same, to the bit, for every
/// number of threads: each contribution is rounded on its own and added in integers.
///
/// `nominal` is the public number of records that the pass is expected to read. It, and not the
/// true number, which may be secret, decides how many threads are asked for; where the system has
/// no more of them the calling thread does their work.
pub(crate) fn clipped_pass(
    data: &PrivateData,
    query: &impl RowQuery,
    bound: Bound,
    positions: Positions<'_>,
    nominal: f64,
    threads: NonZeroUsize,
) -> Result<LatticeSum, LatticeError> {
    let count = match positions {
        Positions::All => data.rows(),
        Positions::Some(list) => list.len(),
    };
    let block = |range: std::ops::Range<usize>| {
        let mut sum = LatticeSum::new(bound);
        let mut same = Vec::new();
        for k in range {
            let i = match positions {
                Positions::All => k,
                Positions::Some(list) => list[k] as usize,
            };
            let record = data.record(i);
            let multiple = query.multiple(&record);
            match record.row {
                Row::Dense(x) => sum.add_scaled(multiple, x),
                Row::Dense32(x) => sum.add_scaled(multiple, x),
                Row::Sparse(columns, x) => sum.add_scaled_sparse(multiple, columns, x),
                Row::Bytes(x, scale) => sum.add_scaled(multiple * f64::from(scale), x),
                Row::OneHot(columns, value) => {
                    same.clear();
                    same.resize(columns.len(), value);
                    sum.add_scaled_sparse(multiple, columns, &same);
                }
            }
        }
        sum
    };
    // A thread is worth its start from a few thousand records on.
    let threads = threads.get().min((nominal / 2048.0) as usize + 1);
    if threads == 1 {
        return Ok(block(0..count));
    }
    let parts: Vec<LatticeSum> = std::thread::scope(|scope| {
        let block = &block;
        let workers: Vec<_> = (1..threads)
            .map(|t| {
                let range = count * t / threads..count * (t + 1) / threads;
                let own = range.clone();
                std::thread::Builder::new()
                    .spawn_scoped(scope, move || block(own))
                    .map_err(|_| range)
            })
            .collect();
        let first = block(0..count / threads);
        std::iter::once(first)
            .chain(workers.into_iter().map(|worker| match worker {
                Ok(worker) => match worker.join() {
                    Ok(sum) => sum,
                    Err(panic) => std::panic::resume_unwind(panic),
                },
                Err(range) => block(range),
            }))
            .collect()
    });
    let mut total = LatticeSum::new(bound);
    for part in parts {
        total = total.merge(part)?;
    }
    Ok(total)
}
