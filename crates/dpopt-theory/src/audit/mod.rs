//! Audits: attacks on the library's own guarantees, that must fail, and on broken twins, that must not.
//!
//! | audit | question | what it can't show |
//! | --- | --- | --- |
//! | replay ([`CuratorReplay`], [`MechanismReplay`]) | by how much, in units of the noise, does one record move every release? Does the ledger add up? | whether the noise has its law |
//! | canary ([`Canary`]) | over many runs, how well is a record's presence told from what is released? | leaks that the score does not look at |
//! | one-run ([`OneRun`]) | the same from one run with many canaries | much at a small epsilon |
//!
//! A [`Registry`] holds targets; [`Registry::standard`] has one for every mechanism and solver of this
//! library, and broken twins as controls. A mechanism or solver of one's own is added to it:
//!
//! ```
//! use dpopt_theory::audit::{Canary, Claim, Registry, Settings, Statistic, World};
//! use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};
//!
//! // A count with rounded Gaussian noise of 4 steps: mu = 1/4.
//! let noise = RoundedGaussian::new(4.0)?;
//! let count = Canary::new("my-count", "mine", Claim::gaussian(0.25, 1e-6)?, Statistic::GaussianDp, move |world, seed| {
//!     let key = ReplayKeyForTests::from_seed(seed);
//!     let noise = noise.sample(&mut key.stream(StreamId::new(Purpose::Noise, 0)));
//!     Ok((noise + i128::from(world == World::In)) as f64)
//! });
//! let mut registry = Registry::new();
//! registry.add(count.with_runs(20_000, 100_000));
//! let report = registry.run(&Settings::quick(), None, &mut |_| {})?;
//! assert!(report.rows[0].lower_bound.is_some_and(|found| found > 0.5));
//! assert!(report.passed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The meaning of each number is in `docs/evidence.md`.

mod adaptive;
pub mod binomial;
mod canary;
mod certificates;
mod chained;
mod common;
mod crooked;
mod drawn;
mod error;
mod estimators;
mod evaluation;
mod groups;
mod hostile;
mod hostile_saddle;
mod labelled;
mod ledger;
mod mechanisms;
mod meter;
mod minimax;
mod one_run;
mod passes;
mod periods;
mod plans;
mod projected;
mod queries;
mod registry;
mod replay;
mod saddle_certificates;
mod saddle_pass;
mod sampled_epochs;
mod samplers;
mod selections;
mod solvers;
mod standard;
mod statistic;
mod tape;
mod target;
mod tuning;
mod twins;
mod watch;

#[cfg(test)]
mod tests;

pub use crate::checks::{CheckError, Effort, Named, Status};
pub use adaptive::PrintedAdaptive;
pub use canary::{Canary, World};
pub use error::AuditError;
pub use hostile::{Behaviour, Hostile, HostileLoss, hostile_pairs};
pub use ledger::{OwnCost, own_cost};
pub use one_run::{OneRun, one_run_bound, one_run_p_value};
pub use registry::{Progress, Registry, Report};
pub use replay::{CuratorReplay, MechanismReplay, Pair, Ran};
pub use statistic::{Errors, LowerBound, ScaledEvent, Statistic};
pub use tape::AuditTape;
pub use target::{Claim, Kind, Label, Row, Settings, Target};
pub use watch::{Along, Watched, WatchedKind, WatchedRelease};
