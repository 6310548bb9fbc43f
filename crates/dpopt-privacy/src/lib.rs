//! Differential-privacy units, events, accountants, ledgers, lattice sums and exact noise.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod accounting;
mod adjacency;
mod event;
mod units;

pub use accounting::{Accountant, AccountingError, UnknownAccountant, calibrate, gdp::mu_for};
pub use adjacency::Adjacency;
pub use event::Event;
pub use units::{ClipNorm, Delta, Epsilon, Mu, NoiseMultiplier, Rho, SamplingRate, UnitError};
