//! Differential privacy with the floor under it: budgets, exact sums and exact noise, over the
//! units, events and accountants of `dpopt-accounting`, which are re-exported here.
//!
//! Use this crate alone to build a mechanism whose guarantee is that of the running program. It
//! knows no loss and no solver.
//!
//! | for | look at |
//! | --- | --- |
//! | what a run costs | [`Event`], [`Accountant`], [`accounting`] |
//! | the noise, steps or rate that a budget allows | [`calibrate`] |
//! | what an attacker can do at most | [`accounting::curves`] |
//! | several runs on one budget; costs chosen on the way | [`Ledger`], [`Filter`], [`Odometer`] |
//! | a release whose sensitivity is enforced | [`LatticeSum`], [`Curator`], [`Ticket`] |
//! | the best of several candidates or runs, a quantile, a threshold | [`selection`] |
//! | a running sum of releases with less noise | [`PrefixNoise`], [`Curator::prefix`] |
//! | noise without floating-point decisions | [`noise`] |
//! | records on several machines | [`exchange`] |
//!
//! # A release
//! ```
//! use dpopt_privacy::{
//!     Adjacency, Body, Bound, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier, Spend, Which,
//! };
//!
//! let mut curator = Curator::protected(Adjacency::ReplaceOne)?;
//! let noise = NoiseMultiplier::new(4.0)?;
//! curator.reserve(&Spend::Fixed(Event::gaussian(noise)))?;
//!
//! // A ticket says which records are read; contributions are clipped to norm 1, whatever they are.
//! let bound = Bound::new(ClipNorm::new(1.0)?, 2)?;
//! let ticket = curator.grant(Which::All, Body::of(3), bound, noise)?;
//! let mut sum = LatticeSum::new(bound);
//! for record in [[0.6, 0.8], [30.0, 40.0], [f64::NAN, 0.0]] {
//!     sum.add_scaled(1.0, &record);
//! }
//! let released = curator.redeem(ticket, sum)?;
//! assert_eq!(released.len(), 2);
//! // Nothing is left of the reservation.
//! assert!(curator.grant(Which::All, Body::of(3), bound, noise).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threat model
//! The program that calls this crate is honest; contributions are functions of one record and of
//! public values. ChaCha20 under the operating system's entropy can't be told from random bits.
//! Timing, memory and power are outside. The arguments are in `docs/privacy/`.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod curator;
pub mod exchange;
mod guarantee;
mod lattice;
pub mod ledger;
pub mod noise;
mod order;
mod part;
mod prefix;
mod refused;
mod replay;
mod sample;
pub mod selection;
mod slice;
pub mod ticket;
mod which;

/// The rooms of `dpopt-accounting` by the names that the modules here know.
mod adjacency {
    pub(crate) use dpopt_accounting::Adjacency;
}
mod event {
    pub(crate) use dpopt_accounting::{Event, StepCounts};
}
mod units {
    pub(crate) use dpopt_accounting::*;
}

pub use curator::{
    AtMostThen, Curator, InnerRun, Prefix, ReplayError, ReplayForAudits, SliceCap, Spend,
    TuningInParts,
};
pub use dpopt_accounting::{
    Accountant, AccountingError, Adjacency, ClipNorm, Delta, Epsilon, Event, EventError, EventFile,
    EventProblem, Exhausted, Filter, FilterKind, MAX_DEPTH, MAX_NODES, Mu, NoiseMultiplier,
    Odometer, Rho, SamplingRate, StepCounts, UnitError, UnknownAccountant, Weak, accounting,
    calibrate, filter, mu_for,
};
pub use dpopt_lanes::Threads;
pub use exchange::{Exchange, ExchangeError, Together};
pub use guarantee::{Guarantee, Mode};
pub use lattice::{
    BlockFactors, BlockWork, Bound, Factors, FixedBlocks, LatticeError, LatticeSum, MAX_RECORDS,
    OuterWork, RowBound, RowEntry, SensitivityClaim, SparseRow, SquareWork, Tails,
};
pub use ledger::{Checkpoint, CheckpointError, Ledger, LedgerError, LedgerState};
pub use order::{Numbering, PublicOrder};
pub use part::Part;
pub use prefix::{ErrorMeasure, Participation, PrefixError, PrefixKind, PrefixNoise, TunedFactor};
pub use refused::Refused;
pub use replay::{
    ChangedRecord, Divergence, ReplayReport, ReplayedMechanism, ReplayedReads, ReplayedRelease,
    SampleOf,
};
pub use sample::{Body, Positions, Sample, SecretPositions};
pub use slice::{PoolError, Slice};
pub use ticket::{ChainTicket, Ticket, TicketError};
pub use which::{Allocation, Which};
