//! Estimates that follow a point: post-processing of what an oracle answers.
//!
//! An estimator is state. It holds released numbers, and which records and how much noise a plan gives to each release;
//! the oracle is lent to each call.

mod batch;
mod chain;
mod estimate;
mod fresh;
mod fresh_slopes;
mod prefix;
mod recursive;
mod regularized;
mod rule;
mod running;
mod schedule;
mod tree_rounds;

pub use batch::{Batch, Level};
pub use chain::{ChainSettings, HessianChain};
pub use estimate::{Estimate, Released, StepKind, Tracked};
pub use fresh::Fresh;
pub use fresh_slopes::FreshSlopes;
pub use prefix::{PeriodAnchor, PrefixRecursive, PrefixSettings, share_of};
pub use recursive::{Recursive, RecursiveSettings};
pub use regularized::Regularized;
pub use rule::{Drift, Refresh};
pub use running::Running;
pub use schedule::Schedule;
pub use tree_rounds::TreeRounds;
