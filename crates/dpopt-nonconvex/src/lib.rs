//! Planners and walks for private nonconvex minimisation.
//!
//! Problem: minimise F(w) = mean over records of f(w; x), w in R^d, from the origin or
//! another public point, under differential privacy. Every solver has three verbs:
//!
//! 1. **plan**: from [`PublicFacts`] and a [`Budget`], before any record is read. A plan holds all
//!    derived parameters, what will be spent, its cost, and the bound that it predicts (if there is
//!    one). A plan whose bound says no more than the starting point already does is an error.
//! 2. **run**: against an [`Estimator`](dpopt_oracle::Estimator). The spend is reserved first; the
//!    solver never draws noise, clips, charges, or sees a record.
//! 3. **certify**: see `dpopt-theory`.
//!
//! | plan | problem | bound |
//! | --- | --- | --- |
//! | [`NoisyGdPlan::theory`] | smooth | E norm of gradient, root mean square |
//! | [`NoisyGdPlan::momentum`] | smooth, generalised linear | none stated |
//! | [`DpSgdPlan`], [`DpAdamPlan`] | smooth, generalised linear | none stated |
//! | [`SpiderBoostPlan`] | smooth | E norm of gradient, root mean square |
//! | [`NormalizedSpiderPlan`] | smooth | E norm of gradient |
//! | [`StormPlan`] | smooth | E norm of gradient, root mean square |
//! | [`RecursiveGdPlan`] | convex, population | E norm of gradient |
//! | [`RecursiveSgdPlan`] | convex, smooth for every record; population | E norm of gradient |
//! | [`SampledSpiderBoostPlan`] | smooth, with sampled variations | E norm of gradient, root mean square |
//! | [`TreeSpiderPlan`] | smooth, population risk, one pass | E norm of gradient, or with high probability |
//! | [`KlSpiderPlan`] | smooth, under a KL condition with exponent from 1 to 2 | excess risk, with high probability |
//! | [`AdaptiveGdPlan`] | smooth, gamma and kappa of a KL condition unknown | norm of gradient or excess risk, with high probability |
//! | [`ProximalPlan`] | KL exponent from 2 on, weakly convex | excess risk, with high probability |
//! | [`JlPlan`] | generalised linear, of low rank or very wide | E norm of gradient |
//!
//! [`Solver`] is any of them by name, [`SolverPlan`] a plan of any: what all have in common is [`Plan`], and
//! [`SolverPlan::run_on`] builds the estimator that a plan needs.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod bound;
mod dp_adam;
mod dp_sgd;
mod facts;
mod horizon;
mod jl;
mod kl;
mod noisy_gd;
mod normalized_spider;
mod phases;
mod plan;
mod rank;
mod recursive;
mod run;
mod sampled_spiderboost;
mod solver;
mod solver_plan;
mod spiderboost;
mod storm;
mod tree_spider;
mod trial_steps;

pub use bound::{BoundedQuantity, StatedBound};
pub use dp_adam::DpAdamPlan;
pub use dp_sgd::DpSgdPlan;
pub use facts::{Budget, PlanError, PublicFacts};
pub use jl::{JlBranch, JlFacts, JlPlan};
pub use kl::{
    AdaptiveGdPlan, AdaptiveOutcome, AdaptiveSelection, AdaptiveSettings, KlCondition, KlPhase,
    KlSpiderPlan, KlSpiderSettings, KlSpiderVersion, NormQueries, ProximalFacts, ProximalPlan,
    ProximalReads, ProximalRound, ProximalSettings, ReleasedNorm,
};
pub use noisy_gd::NoisyGdPlan;
pub use normalized_spider::NormalizedSpiderPlan;
pub use plan::{BoundSense, Plan};
pub use rank::PublicRank;
pub use recursive::{
    ConvexFacts, GdStage, Outline, PassPlan, RecursiveGdPlan, RecursiveSgdPlan, SgdStage,
    StageOutline,
};
pub use run::{NoObserver, Observer, Outcome, OutputRule, Release, ReleaseKind, RunError, Stop};
pub use sampled_spiderboost::SampledSpiderBoostPlan;
pub use solver::{AutoReason, Choice, ExtraFacts, Solver, UnknownSolver};
pub use solver_plan::{GlmRun, SolverPlan};
pub use spiderboost::SpiderBoostPlan;
pub use storm::StormPlan;
pub use tree_spider::{TreeNoise, TreeSettings, TreeSpiderPlan, TreeTarget};
