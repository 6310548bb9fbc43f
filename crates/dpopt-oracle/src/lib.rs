//! Losses, private data and the one private estimator.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

#[cfg(feature = "tabular")]
pub mod tabular;
