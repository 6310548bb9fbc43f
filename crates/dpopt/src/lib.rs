//! Nonconvex optimisation under differential privacy: plan, run, certify.
//!
//! This crate re-exports the layers; it has no logic of its own. [`prelude`] has what most programs need.
//!
//! | task | example, below `crates/dpopt/examples/` |
//! | --- | --- |
//! | plan, run, certify | `plan_run_certify.rs`, and below |
//! | a loss of one's own | `own_loss.rs` |
//! | a saddle loss of one's own | `own_saddle.rs` |
//! | a program without a gradient as a loss | `program_as_loss.rs` |
//! | a solver of one's own, registered | `own_solver.rs` |
//! | a table of one's own, under a public schema | `own_data.rs` |
//! | an accountant of one's own | `own_accountant.rs` |
//! | what training with other software cost | `account_elsewhere.rs` |
//! | one budget for several runs | `shared_budget.rs` |
//! | a low-rank metric from private pairs, away from a saddle | `metric_learning.rs` |
//!
//! ```
//! use dpopt::prelude::*;
//!
//! // Sixty records with two features each; in real use read them from somewhere.
//! let mut design = Design::sparse(2)?;
//! let mut labels = Vec::new();
//! for i in 0..60u8 {
//!     design.push_row(&[(0, 1.0), (1, f32::from(i % 3) - 1.0)])?;
//!     labels.push(if i % 3 == 2 { 1.0 } else { -1.0 });
//! }
//! let data = PrivateData::new(design, labels, ClipNorm::new(1.5)?, Adjacency::ReplaceOne, None)?;
//!
//! // Plan: from public facts only.
//! let loss = Glm::Logistic;
//! let facts = PublicFacts::glm(
//!     data.public_records(), data.dim(), data.adjacency(), data.row_norm(),
//!     loss.constants(data.row_norm()))?;
//! let budget = Budget { epsilon: Epsilon::new(1.0)?, delta: Delta::new(1e-6)? };
//! let choice = auto(&facts, &ExtraFacts::default(), &budget, None)?;
//!
//! // Run: an oracle draws, clips and charges; the solver walks.
//! let curator = Curator::protected(data.adjacency())?;
//! let run = GlmRun::new(&data, loss, curator);
//! let (outcome, curator) = run.run(&*choice.plan, &mut NoObserver)?;
//!
//! // State what it cost.
//! let guarantee = curator.guarantee(budget.delta)?;
//! assert!(guarantee.epsilon() <= 1.0);
//! assert_eq!(outcome.point.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use dpopt_certify as certify;
#[cfg(feature = "data")]
pub use dpopt_data as data;
pub use dpopt_linalg as linalg;
pub use dpopt_minimax as minimax;
pub use dpopt_nonconvex as nonconvex;
pub use dpopt_oracle as oracle;
pub use dpopt_privacy as privacy;
pub use dpopt_solver as solver;
#[cfg(feature = "theory")]
pub use dpopt_theory as theory;

/// What most programs need.
pub mod prelude {
    pub use dpopt_certify::{GlmMean, MeanLoss, Verdict, first_order, goldstein, second_order};
    pub use dpopt_linalg::Design;
    pub use dpopt_nonconvex::{
        Budget, ExtraFacts, GlmRun, Limits, NoObserver, Observer, Outcome, Plan, PublicFacts,
        Release, Run, SOLVERS, Solver, Stop, auto,
    };
    pub use dpopt_oracle::{
        ClosureLoss, Glm, Loss, Oracle, PrivateData, PrivateGradient, PrivateMean, PrivateValues,
        PublicData, PublicRecords, Regularizer, Softmax,
    };
    pub use dpopt_privacy::{
        Accountant, Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, Guarantee,
        NoiseMultiplier, SamplingRate, Which,
    };
}
