//! Why private data could not be set up.

use dpopt_linalg::MapError;
use dpopt_privacy::{Adjacency, ExchangeError, MAX_RECORDS};

/// Private data could not be set up. None of these depends on a record; under add/remove
/// [`DataError::TooManyRecords`] tells that there are more than 2^32 of them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Rows and labels differ in number. The numbers themselves may be private.
    #[error("rows and labels differ in number")]
    LabelCount,
    /// No records, where the number of records is public.
    #[error("no records: under {0} adjacency the data must hold at least one")]
    Empty(Adjacency),
    /// Under add/remove the number of records is private and a declared size is needed.
    #[error("add-remove adjacency hides the number of records: declare a public size")]
    PublicSizeMissing,
    /// A declared size was given although the number of records is public, and they differ.
    #[error(
        "{declared} records declared, but under {adjacency} adjacency the size is public and is {actual}"
    )]
    PublicSizeDiffers {
        /// Declared size.
        declared: u64,
        /// Number of rows.
        actual: u64,
        /// The adjacency.
        adjacency: Adjacency,
    },
    /// More records than one exact sum holds.
    #[error("more than {MAX_RECORDS} records")]
    TooManyRecords,
    /// A declared public size of zero.
    #[error("the declared public size must be at least 1")]
    PublicSizeZero,
    /// Positions are not fixed, so an order of them means nothing.
    #[error("under {0} adjacency positions are not fixed, and no solver reads records in an order")]
    NoOrder(Adjacency),
    /// An order is drawn once: of a second one the seed would not say what it is.
    #[error("these records are in a random order already, of seed {seed}")]
    InOrder {
        /// Its seed.
        seed: u64,
    },
    /// Slices in the old order may have been handed out.
    #[error("an order is drawn before an estimator is made of the records, and one was")]
    OrderTooLate,
    /// Positions are not fixed, so a part by position is not either.
    #[error(
        "under {0} adjacency one record more would shift all later positions, and with them who is held out; split the file by a rule that looks at each record alone, such as a hash of an identifier"
    )]
    NoHoldOut(Adjacency),
    /// One of two parts would have no record.
    #[error("{held} of {records} records can't be held out: both parts need at least one")]
    HoldOut {
        /// To be held out.
        held: u64,
        /// Records in all.
        records: u64,
    },
    /// They are a part of a table, and which records a part of that holds its split does not say.
    #[error(
        "these records are a part of a table ({0}), and no part of them is held out; split the table itself"
    )]
    SetAside(dpopt_privacy::Part),
    /// Records in a file are read in runs, and no part of them is held out.
    #[error("records are held out in memory, and these are in a file")]
    HoldOutInAFile,
    /// Files on several ranks have no order of runs in common.
    #[error(
        "records in files on several ranks are read in their own order, and these are; put them in order in memory"
    )]
    NoOrderOfParts,
    /// Records join those of other ranks before anything is done with them.
    #[error(
        "records that were joined, ordered, split or asked before can't join those of other ranks"
    )]
    JoinedLate,
    /// The ranks can't go on together.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Records in a file are not projected.
    #[error("a projection is made of records in memory, and these are in a file")]
    InAFile,
    /// A projection takes rows of another length.
    #[error(transparent)]
    Map(#[from] MapError),
}
