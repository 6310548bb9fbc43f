//! Why a curator refused.

use crate::accounting::AccountingError;
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::exchange::ExchangeError;
use crate::guarantee::Mode;
use crate::lattice::LatticeError;
use crate::ledger::LedgerError;
use crate::noise::NoiseError;
use crate::part::Part;
use crate::prefix::PrefixError;
use crate::selection::SelectionError;
use crate::slice::PoolError;
use crate::ticket::TicketError;

/// A release, a reservation or a guarantee was refused. Nothing was released and nothing charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The release is not part of what was reserved, or that part is used up.
    #[error("the release {event} is not covered by what is left of the reservation{}", of_slice(*slice))]
    NotReserved {
        /// The event that the release would have caused.
        event: Event,
        /// The slice whose share is used up; none for a release on all records.
        slice: Option<u64>,
    },
    /// What is left under a cap does not pay for the release.
    #[error(
        "the release costs a squared mu of {cost:.6e}, and {left:.6e} of the {cap:.6e} under the cap are left"
    )]
    OverCap {
        /// Squared mu of the release.
        cost: f64,
        /// What is left.
        left: f64,
        /// What was reserved.
        cap: f64,
    },
    /// A release of claimed sensitivity was asked for, and the open reservation does not say that it rests on that claim.
    #[error(
        "a release would rest on this claim, and nothing was reserved that says so: {argument}"
    )]
    ClaimNotReserved {
        /// What the release would rest on.
        argument: &'static str,
    },
    /// A claim is about neighbours, and the price of a sample is about a record that is in it or not: other neighbours under this relation.
    #[error(
        "a claimed sensitivity is between neighbours under {adjacency} adjacency, and a sample is priced by whether a record is in it"
    )]
    ClaimOfSample {
        /// Adjacency of the curator.
        adjacency: Adjacency,
    },
    /// A second reservation was attempted while one is open.
    #[error("a reservation is already open; settle it before making another")]
    AlreadyReserved,
    /// The reservation contains something that no method of the curator can release.
    #[error("this curator has no release that would be {event}, and can't reserve it{why}")]
    UnsupportedSpend {
        /// The event that can't be made.
        event: Event,
        /// More about it; may be empty.
        why: &'static str,
    },
    /// Scores or a claim hold under another adjacency than the curator's.
    #[error(
        "what holds under {sum} adjacency can't be released by a curator of {curator} adjacency"
    )]
    AdjacencyMismatch {
        /// Adjacency of the scores or the claim.
        sum: Adjacency,
        /// Adjacency of the curator.
        curator: Adjacency,
    },
    /// The ticket, or the sum that it is redeemed with, is not what was granted.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// Samples of fixed size have a theorem under replace-one adjacency only.
    #[error("a sample of fixed size is accounted under replace-one adjacency, not {adjacency}")]
    FixedSizeAdjacency {
        /// Adjacency of the curator.
        adjacency: Adjacency,
    },
    /// A sample of no records, or of more than there are.
    #[error("a sample of {size} of {records} records can't be drawn")]
    SampleSize {
        /// Records asked for.
        size: u64,
        /// Records there are.
        records: u64,
    },
    /// How often a largest batch is reached depends on a number of records that is secret.
    #[error(
        "a sample with a largest batch is accounted where the number of records is public, not under {adjacency}"
    )]
    TruncatedAdjacency {
        /// Adjacency of the curator.
        adjacency: Adjacency,
    },
    /// A largest batch below the mean one.
    #[error("a largest batch of {most} records is below the mean one of {mean}, or none")]
    LargestBatch {
        /// Records that are kept at most.
        most: u32,
        /// The mean number of records in a sample.
        mean: f64,
    },
    /// No allocation of records to steps, or one that memory doesn't hold.
    #[error("records can't take part in {participations} of {steps} steps each")]
    Allocation {
        /// Steps.
        steps: u64,
        /// In how many of them a record would take part.
        participations: u64,
    },
    /// Steps of an allocation are left, and a step of another was asked for.
    #[error(
        "{left} steps of a random allocation of other terms or records are left; settle it before another begins"
    )]
    OtherAllocation {
        /// Steps that were not handed out.
        left: u64,
    },
    /// The pool of records, or a slice of it, can't be used like this.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A period of prefix sums, or a step of one, can't be like this.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// The noise does not fit the lattice.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// The noise can't be drawn.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The ranks of the run can't go on together.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The selection can't be made.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// An inner run of repeat-and-select tried to make a reservation of its own.
    #[error("an inner run has the reservation it was given and can't make another")]
    InnerRun,
    /// The curator of an inner run was kept and asked after the run.
    #[error(
        "the run of repeat-and-select that this curator was for is over, and nothing more is paid for it"
    )]
    InnerRunOver,
    /// An inner run that serves one part of a table was asked for a release of other records.
    #[error("an inner run reads {own}, and was given {}", of_part(*found))]
    OtherPart {
        /// What it serves.
        own: Part,
        /// What it was given; none: no part.
        found: Option<Part>,
    },
    /// The shared ledger can't pay, or has no record of the payment any more.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A guarantee was asked for that can't be stated.
    #[error("no guarantee: {0}")]
    NoGuarantee(&'static str),
    /// A protected run was asked to keep the books of releases that it did not make.
    #[error("only a simulation keeps the books of releases that are made elsewhere")]
    NotSimulated,
    /// A curator whose noise can be repeated was given records that nobody declared to need no protection.
    #[error(
        "these records were not declared made-up, and the noise of a {mode} curator can be subtracted: they need a protected one"
    )]
    NotMadeUp {
        /// What the curator is.
        mode: Mode,
    },
    /// The accountant refused the event.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

fn of_part(part: Option<Part>) -> String {
    part.map_or_else(|| "records of no part".to_owned(), |part| part.to_string())
}

fn of_slice(slice: Option<u64>) -> String {
    slice.map_or_else(String::new, |slice| format!(" (for slice {slice})"))
}
