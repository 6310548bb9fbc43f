//! Errors of a verification, apart from a claim that fails.

use crate::rates::FitError;

/// A verification can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// No experiment has this name.
    #[error("no experiment is called `{only}`; known: {}", known.join(", "))]
    Unknown {
        /// The value asked for.
        only: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A name is taken.
    #[error("there is an experiment called `{0}` already")]
    Twice(String),
    /// A name can't be used.
    #[error("`{0}` is no name: letters, digits and / - _ . only")]
    BadId(String),
    /// No experiments.
    #[error("there is no experiment to run")]
    Nothing,
    /// A claim comes without data to decide it.
    #[error(
        "{id} has {points} arguments, {members} problems and {seeds} seeds; at least 3, 1 and 1 are needed"
    )]
    NoData {
        /// The experiment.
        id: String,
        /// Arguments.
        points: usize,
        /// Problems.
        members: usize,
        /// Seeds.
        seeds: usize,
    },
    /// An argument has no logarithm, or arguments do not increase.
    #[error(
        "the arguments of {id} must be positive, finite and increasing, got {x} after {before}"
    )]
    BadPoint {
        /// The experiment.
        id: String,
        /// The argument.
        x: f64,
        /// The one before, 0 before the first.
        before: f64,
    },
    /// A trial does not fit into the memory that may be used.
    #[error("a trial of {id} at {x} takes about {need:.2e} bytes, and {limit:.2e} may be used")]
    TooLarge {
        /// The experiment.
        id: String,
        /// The argument.
        x: f64,
        /// Bytes needed.
        need: f64,
        /// Bytes allowed.
        limit: f64,
    },
    /// The journal of an interrupted run belongs to other settings.
    #[error("{file} is the journal of another run ({found}); this one is {expected}")]
    OtherJournal {
        /// The file.
        file: String,
        /// Its settings.
        found: String,
        /// The settings asked for.
        expected: String,
    },
    /// A line of the journal, not the last one, can't be read.
    #[error("line {line} of {file} is no trial: {why}")]
    BadJournal {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The reader's error.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A slope could not be fitted.
    #[error("no slope for {id}: {error}")]
    Fit {
        /// The experiment.
        id: String,
        /// Why.
        error: FitError,
    },
}
