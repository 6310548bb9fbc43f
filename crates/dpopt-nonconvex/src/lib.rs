//! Planners and walks for private nonconvex minimisation.
//!
//! Problem: minimise F(w) = mean over records of f(w; x), w in R^d, from the origin or
//! another public point, under differential privacy. Every solver has three verbs:
//!
//! 1. **plan**: from [`PublicFacts`] and a [`Budget`], before any record is read. A plan holds all
//!    derived parameters, what will be spent, its cost, and the bound that it predicts (if there is
//!    one). A plan whose bound says no more than the starting point already does is an error.
//! 2. **run**: against an [`Oracle`](dpopt_oracle::Oracle). The spend is reserved first; the
//!    solver never draws noise, clips, charges, or sees a record.
//! 3. **certify**: see `dpopt-certify`.
//!
//! | plan | problem | bound |
//! | --- | --- | --- |
//! | [`NoisyGdPlan::theory`] | smooth | E norm of gradient, root mean square |
//! | [`NoisyGdPlan::momentum`] | smooth, generalised linear | none stated |
//! | [`DpSgdPlan`], [`DpAdamPlan`], [`DpMfPlan`] | smooth, generalised linear | none stated |
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
//! | [`GoldsteinPlan`] | Lipschitz, kinks allowed; or bounded, from values alone | E Goldstein distance, for these records or the population |
//! | [`EnvelopePlan`] | generalised linear, kinks allowed | component-wise Goldstein distance, root mean square |
//! | [`SospPlan`] | smooth, with a Lipschitz Hessian | gradient norm and least eigenvalue, with high probability |
//! | [`AdaptiveBatchPlan`] | the same, population risk, one pass | the same |
//! | [`JlPlan`] | generalised linear, of low rank or very wide | E norm of gradient |
//!
//! [`CurvatureStart`] is no solver: it finds a point to start one from, where the origin is a saddle.
//!
//! [`SOLVERS`] lists all of them by name, and what each needs; a plan of any is a [`Plan`], which runs on any oracle that
//! answers what it asks. [`GlmRun`] makes the oracle for records in a table.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod adaptive_batch;
mod curvature_start;
mod descent;
mod goldstein;
mod jl;
mod kl;
mod recursive;
mod registry;
mod saddle;
mod sosp;
mod spider;

pub use dpopt_solver::*;

pub use adaptive_batch::{
    ADAPTIVE_BATCH, AdaptiveBatchPlan, AdaptiveBatchSchedule, AdaptiveBatchSettings,
};
pub use curvature_start::{CurvatureStart, CurvatureStartError, FoundStart};
pub use descent::dp_adam::{DP_ADAM, DpAdamPlan};
pub use descent::dp_mf::{DP_MF, DP_MF_SAMPLED, DpMfPlan, DpMfSchedule, DpMfSettings};
pub use descent::dp_sgd::{DP_SGD, DP_SGD_DECAY, DpSgdPlan, DpSgdSchedule};
pub use descent::noisy_gd::{NOISY_GD, NOISY_GD_THEORY, NoisyGdPlan, NoisyGdSchedule};
pub use goldstein::{
    EnvelopePlan, GOLDSTEIN, GOLDSTEIN_ENVELOPE, GOLDSTEIN_PASS, GOLDSTEIN_RECURSIVE,
    GOLDSTEIN_SAMPLED, GOLDSTEIN_ZO, GOLDSTEIN_ZO_PASS, GOLDSTEIN_ZO_SAMPLED, GoldsteinAsks,
    GoldsteinPeriod, GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings,
};
pub use jl::{JlBranch, JlFacts, JlPlan, JlShape};
pub use kl::{
    ADAPTIVE_GD, AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, KL_SPIDER, KlPhase,
    KlSpiderPlan, KlSpiderSettings, KlSpiderVersion, NormQueries, PROXIMAL_POINT, ProximalFacts,
    ProximalPlan, ProximalReads, ProximalRound, ProximalSchedule, ProximalSettings,
};
pub use recursive::{
    ConvexFacts, GdStage, Outline, PassPlan, RECURSIVE_GD, RECURSIVE_SGD, RecursiveGdPlan,
    RecursiveSgdPlan, SgdStage, StageOutline,
};
pub use registry::{
    AutoReason, Choice, REMOVED, SOLVERS, auto, auto_in_passes, auto_names, solver,
};
pub use sosp::{Estimates, SOSP, SospLevel, SospPlan, SospSettings, SospSpider, Steps};
pub use spider::boost::{SPIDERBOOST, SpiderBoostPlan, SpiderBoostSchedule};
pub use spider::normalized::{NORMALIZED_SPIDER, NormalizedSpiderPlan, NormalizedSpiderSchedule};
pub use spider::sampled::{
    SAMPLED_SPIDERBOOST, SampledSpiderBoostPlan, SampledSpiderBoostSchedule,
};
pub use spider::storm::{STORM, StormPlan, StormSchedule};
pub use spider::tree::{
    TREE_SPIDER, TreeNoise, TreeSettings, TreeSpiderPlan, TreeSpiderSchedule, TreeTarget,
};
