//! Errors of an audit, apart from a guarantee that does not hold.

use crate::checks::CheckError;

/// An audit could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// No target or group has this name.
    #[error("no audit is called `{asked}`; known are {}", known.join(", "))]
    UnknownTarget {
        /// What was asked for.
        asked: String,
        /// The groups there are.
        known: Vec<String>,
    },
    /// A confidence outside (0, 1), or no runs.
    #[error("{name} must be {needs}, got {value}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// What it must be.
        needs: &'static str,
        /// What it was.
        value: f64,
    },
    /// A score was not a number.
    #[error("run {run} of {target} has the score {score}")]
    Score {
        /// The target.
        target: String,
        /// The run.
        run: u64,
        /// The score.
        score: f64,
    },
    /// The target's own run failed, or could not be set up: the error of whoever refused.
    #[error(transparent)]
    Failed(#[from] CheckError),
}
