//! Losses, private data and the one private estimator.
//!
//! A solver asks for the **private mean of a per-record query** at points that are already
//! public. This crate answers: it holds the records ([`PrivateData`]), evaluates the query on
//! each ([`Glm`] losses), clips and sums exactly, and has the curator of `dpopt-privacy` add noise
//! and charge for it ([`PrivateGradient`], an [`Estimator`]).
//!
//! Use this crate alone to write a solver of your own; it never moves a point.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod data;
mod disk;
mod estimator;
mod linear;
mod loss;
mod pass;
mod perturbed;
mod placed;
mod public;
pub mod query;
mod records;
mod threads;

pub use data::{DataError, PrivateData, PublicData};
pub use disk::ExamplesOnDisk;
pub use estimator::{
    Access, Ask, Batch, Counts, Drift, Estimate, Estimator, EstimatorError, Fresh, Level, Mean,
    Means, Momentum, Number, Over, PeriodAnchor, PeriodTerms, PrefixRecursive, PrefixSettings,
    PrivateGradient, PrivateMean, Recursion, Recursive, RecursiveSettings, Refresh, Regularized,
    Released, Schedule, Shifted, Staged, Stages, StepKind, Tracked, Tracker, TreeRounds, share_of,
};
pub use loss::{
    Activation, CheckError, ClosureLoss, Constants, ConstantsCheck, ConvexGlm, ConvexSmooth,
    Convexity, Differentiable, Glm, GradientCheck, Head, Loss, LossNameError, MatrixFactorization,
    MatrixSensing, Measurement, Measurements, Mlp, MlpError, NotConvexSmooth, Observed,
    ObservedEntries, ObservedRecord, ParameterError, PhaseRetrieval, Quantile, RecordOf,
    Regularizer, Scale, Segment, Softmax, TwiceDifferentiable, check_constants, check_gradient,
};
pub use pass::Positions;
pub use perturbed::{OutputPerturbed, Pass, PassError, Passes, pass_influence};
pub use public::PublicRecords;
pub use query::Query;
pub use records::{Example, Examples, Records};
