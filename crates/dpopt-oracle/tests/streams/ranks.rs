//! The cases on several ranks, which are threads: each has a part of the records, and all release the same bits.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use dpopt_oracle::{PrivateData, Records};
use dpopt_privacy::exchange::ThreadRanks;
use dpopt_privacy::{Curator, Together};

use crate::table::Table;

/// No rank is this late.
const LIMIT: Duration = Duration::MAX;

thread_local! {
    /// The rank that this thread is, where it is one.
    static OWN: RefCell<Option<Together>> = const { RefCell::new(None) };
}

fn own() -> Option<Together> {
    OWN.with_borrow(Clone::clone)
}

/// The table of this thread, as one of these ranks.
pub(crate) fn as_rank(together: Together, cases: impl Fn() -> Table) -> Table {
    OWN.set(Some(together));
    let table = cases();
    OWN.take();
    table
}

/// The tables of all ranks.
#[allow(
    dead_code,
    reason = "one of those that share this file has ranks of its own"
)]
pub(crate) fn on(ranks: usize, cases: impl Fn() -> Table + Sync) -> Vec<Table> {
    let cases = &cases;
    std::thread::scope(|scope| {
        let started = ThreadRanks::new(ranks, LIMIT).into_iter().map(|rank| {
            scope.spawn(move || {
                let together = Together::new(Box::new(rank)).unwrap();
                as_rank(together, cases)
            })
        });
        let started: Vec<_> = started.collect();
        let joined = started.into_iter().map(|rank| rank.join().unwrap());
        joined.collect()
    })
}

/// Which of so many records this rank has: more on later ranks; all, where there are no ranks.
pub(crate) fn rows(records: usize) -> Range<usize> {
    match own() {
        None => 0..records,
        Some(rank) => {
            let all = rank.ranks() * rank.ranks();
            let at = |k: usize| records * k * k / all;
            at(rank.rank())..at(rank.rank() + 1)
        }
    }
}

/// These records as the part of this rank.
pub(crate) fn joined<R: Records>(data: PrivateData<R>) -> PrivateData<R> {
    match own() {
        None => data,
        Some(together) => data.joined(&together).unwrap(),
    }
}

/// This curator as that of this rank.
pub(crate) fn curator(curator: Curator) -> Curator {
    match own() {
        None => curator,
        Some(together) => curator.joined(&together).unwrap(),
    }
}
