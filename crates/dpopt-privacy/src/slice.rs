//! Disjoint slices of the records, handed out once each, in order.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::adjacency::Adjacency;
use crate::order::Numbering;

/// A pool can't be opened, or a slice can't be taken or used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Slices by position need positions that stay when a record changes.
    #[error(
        "slices by position are refused under {adjacency} adjacency: one more record shifts every later slice"
    )]
    Adjacency {
        /// Adjacency of the curator.
        adjacency: Adjacency,
    },
    /// A curator hands out its records once.
    #[error("this curator has a pool already; a second one would hand out the same records again")]
    Twice,
    /// The records of a ledger were asked for, and the curator has none.
    #[error("this curator has no ledger that knows which records were read")]
    NoLedger,
    /// No pool was opened.
    #[error("no pool of records was opened")]
    NotOpen,
    /// More records are skipped than there are.
    #[error("{skipped} of {records} records were read before, which is more than there are")]
    SkippedTooMany {
        /// Records said to be read before.
        skipped: u64,
        /// Records in all.
        records: u64,
    },
    /// A slice needs at least one record.
    #[error("a slice needs at least one record")]
    EmptySlice,
    /// Not enough records are left.
    #[error("a slice of {asked} records was asked for and {left} are left")]
    UsedUp {
        /// Records asked for.
        asked: u64,
        /// Records left.
        left: u64,
    },
    /// The records are numbered otherwise than those that the pool handed out: a record may be in slices of both.
    #[error(
        "slices of this pool are of {known}, and not of {asked}: a record could be read twice and be paid for once"
    )]
    OtherNumbering {
        /// That of the pool.
        known: Box<Numbering>,
        /// That of the records at hand.
        asked: Box<Numbering>,
    },
    /// A chain has slices.
    #[error("a chain needs at least one slice")]
    EmptyChain,
    /// A record of a chain is in one of its slices.
    #[error("slice {slice} stands twice in a chain: its records would count twice and pay once")]
    SliceTwice {
        /// Its number.
        slice: u64,
    },
    /// The slice comes from another curator's pool.
    #[error("the slice was not handed out by this curator")]
    ForeignSlice,
}

/// A range of record positions that one pool handed out once.
///
/// It may be queried several times; each release on it is charged to its own share. Its range is
/// public: it was chosen without looking at the records.
#[derive(Clone, PartialEq, Eq)]
pub struct Slice {
    pool: u64,
    number: u64,
    start: u64,
    end: u64,
}

impl Slice {
    /// Positions of its records.
    #[must_use]
    pub fn positions(&self) -> Range<u64> {
        self.start..self.end
    }

    /// How many records it holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it holds none; never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Its number in the pool, counted from 0.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Number of the pool, unique in the process.
    pub(crate) fn pool(&self) -> u64 {
        self.pool
    }
}

/// Without the number of the pool: pools are counted over the process, and how many the inner runs
/// of a repeat-and-select opened is secret.
impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice")
            .field("number", &self.number)
            .field("positions", &self.positions())
            .finish_non_exhaustive()
    }
}

static NEXT_POOL: AtomicU64 = AtomicU64::new(0);

/// Hands out positions `start..records` in order, each once.
#[derive(Debug)]
pub(crate) struct Pool {
    id: u64,
    next: u64,
    /// Where the last slice ends at the latest.
    records: u64,
    slices: u64,
    /// Whether a ledger knows what was handed out of it.
    of_ledger: bool,
    /// What positions mean, from the first release on a slice on, or from the ledger.
    numbering: Option<Numbering>,
}

impl Pool {
    pub(crate) fn new(records: u64, skipped: u64, adjacency: Adjacency) -> Result<Self, PoolError> {
        if !adjacency.record_count_is_public() {
            return Err(PoolError::Adjacency { adjacency });
        }
        if skipped > records {
            return Err(PoolError::SkippedTooMany { skipped, records });
        }
        Ok(Self {
            id: NEXT_POOL.fetch_add(1, Ordering::Relaxed),
            next: skipped,
            records,
            slices: 0,
            of_ledger: false,
            numbering: None,
        })
    }

    /// Leaves only these positions, which a ledger has handed out, of records that are numbered so.
    pub(crate) fn narrow(&mut self, claimed: Range<u64>, numbering: Numbering) {
        self.numbering = Some(numbering);
        self.next = claimed.start;
        self.records = self.records.min(claimed.end);
        self.of_ledger = true;
    }

    /// Refuses records that are numbered otherwise than those that slices were read of.
    pub(crate) fn same_numbering(&self, asked: Numbering) -> Result<(), PoolError> {
        match self.numbering {
            Some(known) if known != asked => Err(PoolError::OtherNumbering {
                known: Box::new(known),
                asked: Box::new(asked),
            }),
            _ => Ok(()),
        }
    }

    /// Slices are of records that are numbered so from here on.
    pub(crate) fn fix_numbering(&mut self, numbering: Numbering) -> Result<(), PoolError> {
        self.same_numbering(numbering)?;
        self.numbering = Some(numbering);
        Ok(())
    }

    pub(crate) fn of_ledger(&self) -> bool {
        self.of_ledger
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn left(&self) -> u64 {
        self.records - self.next
    }

    /// The number of the next slice, if it can hold `len` records.
    pub(crate) fn next_slice(&self, len: u64) -> Result<u64, PoolError> {
        if len == 0 {
            return Err(PoolError::EmptySlice);
        }
        if len > self.left() {
            return Err(PoolError::UsedUp {
                asked: len,
                left: self.left(),
            });
        }
        Ok(self.slices)
    }

    pub(crate) fn take(&mut self, len: u64) -> Result<Slice, PoolError> {
        let number = self.next_slice(len)?;
        let slice = Slice {
            pool: self.id,
            number,
            start: self.next,
            end: self.next + len,
        };
        self.next = slice.end;
        self.slices += 1;
        Ok(slice)
    }
}
