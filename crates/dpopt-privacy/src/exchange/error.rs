//! Why ranks can't go on together.

/// The ranks of a run can't go on together. Nothing was released after what they agreed on last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A rank has failed, or has left.
    #[error("{} ended the run before {what}, with an error of its own", by_whom(*.failures, *.rank))]
    Elsewhere {
        /// How many have.
        failures: u64,
        /// The one, where it is one.
        rank: Option<usize>,
        /// What came next.
        what: &'static str,
    },
    /// Ranks have said different things.
    #[error(
        "the ranks do not agree on {what}: {differ} of {ranks} differ from rank 0, the first of them rank {first}"
    )]
    Disagree {
        /// On what.
        what: &'static str,
        /// How many differ from rank 0.
        differ: usize,
        /// The first of them.
        first: usize,
        /// How many ranks there are.
        ranks: usize,
    },
    /// A rank did not answer within the limit.
    #[error("a rank did not answer within {seconds} s")]
    Late {
        /// The limit.
        seconds: u64,
    },
    /// There is no such rank.
    #[error("there is no rank {rank} among {ranks}")]
    NoSuchRank {
        /// The number.
        rank: usize,
        /// Ranks, counted from 0.
        ranks: usize,
    },
    /// The ranks hold more records than one sum can take.
    #[error("{records} records on all ranks are more than the {limit} that one exact sum can hold")]
    TooManyRecords {
        /// Records in all.
        records: u64,
        /// The largest possible number.
        limit: u64,
    },
    /// A curator joins before it has done anything else.
    #[error("a curator that has reserved, released or opened a ledger can't join other ranks")]
    TooLate,
    /// The first rank alone keeps a ledger.
    #[error("rank {rank} can't open a ledger: rank 0 keeps that of all ranks")]
    LedgerElsewhere {
        /// The rank that tried.
        rank: usize,
    },
    /// Records are of other ranks than the curator.
    #[error(
        "the records and the curator are not of the same ranks: {}",
        strangers(*.records, *.curator)
    )]
    Strangers {
        /// Whether the records are a part of those of several ranks.
        records: bool,
        /// Whether the curator is one of several ranks.
        curator: bool,
    },
    /// What carries the words failed.
    #[error("the exchange failed: {why}")]
    Engine {
        /// Why.
        why: &'static str,
    },
}

fn by_whom(failures: u64, rank: Option<usize>) -> String {
    match rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("{failures} ranks"),
    }
}

fn strangers(records: bool, curator: bool) -> &'static str {
    match (records, curator) {
        (true, false) => "the records are a part, and the curator is alone",
        (false, true) => "the records are all, and the curator is one of several",
        _ => "they have joined different ones",
    }
}
