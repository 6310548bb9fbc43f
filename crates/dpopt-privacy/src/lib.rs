//! Differential privacy with the floor under it: units, events, accountants, budgets, exact sums
//! and exact noise.
//!
//! Use this crate alone to account for training done elsewhere, or to build a mechanism whose
//! guarantee is that of the running program. It knows no loss and no solver.
//!
//! | for | look at |
//! | --- | --- |
//! | what a run costs | [`Event`], [`Accountant`], [`accounting`] |
//! | the noise, steps or rate that a budget allows | [`calibrate`] |
//! | what an attacker can do at most | [`accounting::curves`] |
//! | several runs on one budget; costs chosen on the way | [`Ledger`], [`Filter`], [`Odometer`] |
//! | a release whose sensitivity is enforced | [`LatticeSum`], [`Sensitive`], [`Curator`] |
//! | the best of several candidates or runs, a quantile, a threshold | [`selection`] |
//! | a running sum of releases with less noise | [`PrefixNoise`], [`Curator::prefix`] |
//! | noise without floating-point decisions | [`noise`] |
//!
//! # Accounting for a run made elsewhere
//! ```
//! use dpopt_privacy::{Accountant, Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
//!
//! // DP-SGD: 1000 steps at rate 0.01 with noise of one sensitivity.
//! let event = Event::gaussian(NoiseMultiplier::new(1.0)?)
//!     .poisson_sampled(SamplingRate::new(0.01)?)
//!     .repeated(1000);
//! let (who, epsilon) = Accountant::least(&event, Delta::new(1e-5)?, Adjacency::AddRemove)?;
//! assert_eq!(who, Accountant::Exact);
//! // A tight value to eight digits, from outside this crate.
//! assert!((epsilon - 1.8282367).abs() < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A release
//! ```
//! use dpopt_privacy::{
//!     Adjacency, Bound, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier, Spend, Touched,
//! };
//!
//! let mut curator = Curator::protected(Adjacency::ReplaceOne)?;
//! let noise = NoiseMultiplier::new(4.0)?;
//! curator.reserve(&Spend::Fixed(Event::gaussian(noise)))?;
//!
//! // Contributions are clipped to norm 1, whatever they are.
//! let mut sum = LatticeSum::new(Bound::new(ClipNorm::new(1.0)?, 2)?);
//! for record in [[0.6, 0.8], [30.0, 40.0], [f64::NAN, 0.0]] {
//!     sum.add_scaled(1.0, &record);
//! }
//! let secret = sum.finish(Adjacency::ReplaceOne, Touched::All);
//! let released = curator.release(&secret, noise)?;
//! assert_eq!(released.len(), 2);
//! assert!(curator.release(&secret, noise).is_err()); // nothing is left of the reservation
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threat model
//! The program that calls this crate is honest; contributions are functions of one record and of
//! public values. ChaCha20 under the operating system's entropy can't be told from random bits.
//! Timing, memory and power are outside. The arguments are in `docs/privacy/`.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod accounting;
mod adjacency;
mod curator;
mod event;
pub mod filter;
mod guarantee;
mod lattice;
pub mod ledger;
pub mod noise;
mod prefix;
pub mod selection;
mod sensitive;
mod units;
mod which;

pub use accounting::{Accountant, AccountingError, UnknownAccountant, calibrate, gdp::mu_for};
pub use adjacency::Adjacency;
pub use curator::{
    AtMostThen, ChangedRecord, Curator, Divergence, FixedSizeSample, PoissonSample, PoolError,
    Refused, ReplayError, ReplayForAudits, ReplayReport, ReplayedMechanism, ReplayedReads,
    ReplayedRelease, SecretPositions, Slice, Spend,
};
pub use event::{Event, EventError, EventFile, EventProblem, MAX_DEPTH, MAX_NODES, StepCounts};
pub use filter::{Exhausted, Filter, FilterKind, Odometer};
pub use guarantee::{Guarantee, Mode};
pub use lattice::{
    BlockFactors, BlockWork, Bound, Claimed, Factors, FixedBlocks, LatticeError, LatticeSum,
    MAX_RECORDS, OuterWork, RowBound, RowEntry, SensitivityClaim, SparseRow,
};
pub use ledger::{Checkpoint, CheckpointError, Ledger, LedgerError, LedgerState};
pub use prefix::{ErrorMeasure, Participation, Prefix, PrefixError, PrefixKind, PrefixNoise};
pub use sensitive::{Payload, Reads, Scalar, Sensitive, Touched, Vector};
pub use units::{ClipNorm, Delta, Epsilon, Mu, NoiseMultiplier, Rho, SamplingRate, UnitError};
pub use which::Which;
