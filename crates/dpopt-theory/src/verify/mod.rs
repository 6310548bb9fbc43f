//! Does a solver do what its theorem says? Claims, measured.
//!
//! A theorem says that an error goes as a power of the number of records, of the dimension, of the
//! privacy parameter. An [`Experiment`] makes one such [`Claim`] testable: it runs the solver at
//! several arguments, on a family of problems, with several seeds. [`Verification`] runs the trials
//! of a [`Registry`] (on threads, resumable, the same for the same seed), fits the exponent, holds
//! every measured error against the planner's bound, and says [`Status::Pass`] or [`Status::Fail`].
//! **Controls** are claims about broken twins: they pass when the break was noticed.
//!
//! [`Registry::builtin`] holds what this library claims. Someone with a solver of their own adds an
//! [`Experiment`] and gets the same table.
//!
//! ```
//! use dpopt_theory::verify::{
//!     Axis, CheckError, Claim, Design, Effort, Experiment, Measured, Registry, Trial, Verification,
//! };
//!
//! /// A "solver" whose error is 3/sqrt(n), up to luck.
//! struct Sampling(Claim);
//!
//! impl Experiment for Sampling {
//!     fn claim(&self) -> &Claim {
//!         &self.0
//!     }
//!     fn design(&self, _: Effort) -> Design {
//!         Design::new(vec![1e2, 1e3, 1e4, 1e5]).with_seeds(2)
//!     }
//!     fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
//!         let luck = 1.0 + 0.01 * (trial.seed % 7) as f64;
//!         Ok(Measured::new(3.0 * luck / trial.x.sqrt()).with_bound(5.0 / trial.x.sqrt()))
//!     }
//! }
//!
//! let claim = Claim::new("sampling/n", Axis::Records, -0.5).by("mean", "the central limit theorem");
//! let registry = Registry::new().with(Sampling(claim))?;
//! let report = Verification::new(&registry).run()?;
//! assert!(report.passed() && (report.rows[0].measured + 0.5).abs() < 0.02);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adaptive;
mod adaptive_batch;
mod builtin;
mod claim;
mod common;
mod curvature;
mod descent;
mod error;
mod floors;
mod goldstein;
mod goldstein_periods;
mod journal;
mod judge;
mod kl_spider;
mod minimax;
mod page;
mod projection;
mod proximal;
mod recursive;
mod registry;
mod run;
mod saddle_blocks;
mod saddle_fresh;
mod saddle_pass;
mod sampled;
mod sosp;
mod tree;
mod two_point;
mod zigzag;

pub use crate::checks::{CheckError, Effort, Named, Status};
pub use claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
pub use common::budget_at;
pub use error::VerifyError;
pub use judge::{Point, Report, Row};
pub use registry::Registry;
pub use run::{Progress, Verification};
pub use two_point::{CanaryReading, TwoPointCanary};
