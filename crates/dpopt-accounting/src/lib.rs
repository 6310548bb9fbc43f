//! What a run costs: units, events, accountants, calibration, curves, filters and odometers.
//!
//! Nothing here draws, reads a record or releases. Use this crate alone to account for training done
//! elsewhere.
//!
//! | for | look at |
//! | --- | --- |
//! | what a run costs | [`Event`], [`Accountant`], [`accounting`] |
//! | the noise, steps or rate that a budget allows | [`calibrate`] |
//! | what an attacker can do at most | [`accounting::curves`] |
//! | costs chosen on the way | [`Filter`], [`Odometer`] |
//!
//! ```
//! use dpopt_accounting::{Accountant, Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
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
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod accounting;
mod adjacency;
mod event;
pub mod filter;
mod units;
mod weak;

pub use accounting::{Accountant, AccountingError, UnknownAccountant, calibrate, gdp::mu_for};
pub use adjacency::Adjacency;
pub use event::{Event, EventError, EventFile, EventProblem, MAX_DEPTH, MAX_NODES, StepCounts};
pub use filter::{Exhausted, Filter, FilterKind, Odometer};
pub use units::{ClipNorm, Delta, Epsilon, Mu, NoiseMultiplier, Rho, SamplingRate, UnitError};
pub use weak::Weak;
