//! Losses, private data, and the oracles that answer from it.
//!
//! A solver asks for the **private mean of a per-record query** at points that are already
//! public. This crate answers: it holds the records ([`PrivateData`]), evaluates the query on
//! each ([`Glm`] losses, say), clips and sums exactly, and has the curator of `dpopt-privacy` add noise
//! and charge for it. Each kind of answer has an [`Oracle`]: gradients and their like [`PrivateMean`], values alone
//! [`PrivateValues`], the end of a pass over single records [`OutputPerturbed`]. Estimators ([`Running`], ...) keep
//! what was released.
//!
//! The walks are elsewhere: `dpopt-solver` has what a solver of your own needs.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod data;
mod data_error;
mod disk;
mod error;
mod estimator;
mod gradient;
mod loss;
mod oracle;
mod pass;
mod passes;
mod placed;
mod positions;
mod public;
pub mod query;
mod records;
mod seeded;
mod shard;
mod threads;

pub use data::{PrivateData, PublicData};
pub use data_error::DataError;
pub use disk::ExamplesOnDisk;
pub use dpopt_privacy::PublicOrder;
pub use error::{AskError, EstimatorError, PassError};
pub use estimator::{
    Batch, ChainSettings, Drift, Estimate, Fresh, FreshSlopes, HessianChain, Level, PeriodAnchor,
    PrefixRecursive, PrefixSettings, Recursive, RecursiveSettings, Refresh, Regularized, Released,
    Running, Schedule, StepKind, Tracked, TreeRounds, share_of,
};
pub use gradient::PrivateGradient;
pub use loss::{
    Activation, AlongRows, At, AucSaddle, BlockClips, Blocks, BlocksError, Bordered, Cell,
    CellCounts, CellShares, CheckError, ClassWeights, ClosureLoss, Constants, ConstantsCheck,
    ConvexGlm, ConvexSmooth, Convexity, Differentiable, EqualOpportunity, Glm, GradientCheck,
    GroupDro, Head, HessianCheck, Joint, JointChange, JointPoint, Less, Loss, LossNameError,
    MeanAt, MeanConstants, Mlp, MlpError, Momentum, Network, NetworkError, NotConvexSmooth,
    ParameterError, QuadraticLink, Quantile, Rays, RecordAt, RecordOf, Regularizer,
    SaddleConstants, SaddleLoss, SaddleRecord, Scale, ScoreBins, ScoreBinsError, ScoreBlock,
    ScoreSaddle, ScoreUnit, Scored, Segment, SharesError, Softmax, Tally, TwiceDifferentiable,
    TwiceSaddle, ValuesOf, WeightError, Weighted, check_constants, check_gradient,
    check_hessian_vector,
};
pub use oracle::{
    Answer, AveragedMeans, Books, Counts, DomainStamp, FnOracle, Mean, NoSample, Number, Offers,
    Oracle, OracleFacts, Pass, Period, PeriodTerms, PrivateMean, PrivateValues, Question,
    SmoothedDraw, SmoothedFields, SmoothedMeans, Smoothing,
};
pub use passes::{OutputPerturbed, pass_influence};
pub use positions::Positions;
pub use public::PublicRecords;
pub use query::{Linear, Query};
pub use records::{Example, Examples, Records, Reorder};
