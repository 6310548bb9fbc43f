//! Differential-privacy units, events, accountants, ledgers, lattice sums and exact noise.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod accounting;
mod adjacency;
mod budget;
mod curator;
mod event;
pub mod filter;
mod guarantee;
mod lattice;
pub mod noise;
mod sample;
mod units;

pub use accounting::{Accountant, AccountingError, UnknownAccountant, calibrate, gdp::mu_for};
pub use adjacency::Adjacency;
pub use budget::{BudgetError, BudgetFile, BudgetState, ReservationId};
pub use curator::{Curator, Refused, Spend};
pub use event::{Event, EventError, EventProblem, MAX_DEPTH, MAX_NODES, StepCounts};
pub use filter::{Exhausted, Filter, FilterKind, Odometer};
pub use guarantee::{Guarantee, Mode};
pub use lattice::{Bound, LatticeError, LatticeSum, MAX_RECORDS, Sensitive, Touched, Vector};
pub use sample::PoissonSample;
pub use units::{ClipNorm, Delta, Epsilon, Mu, NoiseMultiplier, Rho, SamplingRate, UnitError};
