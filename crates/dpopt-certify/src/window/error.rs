//! Why a run has no certificate of its windows.

use dpopt_oracle::NoSample;
use dpopt_solver::{ReleaseKind, Withheld};

/// Windows that can't be certified, or that were not.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// The plan does not say that each release is a fresh gradient with noise of its own, of one size.
    #[error(
        "none: windows need releases that are fresh gradients where the result lies, each with noise of its own and all of one size, \
         and {solver} has no such releases"
    )]
    NotFresh {
        /// The solver.
        solver: &'static str,
    },
    /// The mean is over a declared number of records, and the claim is about the true one.
    #[error(
        "none under add-remove: the claim is about the true number of records, which is private"
    )]
    DeclaredSize,
    /// A number is out of range.
    #[error("{name} is out of range: {value}")]
    OutOfRange {
        /// Name of the number.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// Which records a release reads is none of the cases that are proven.
    #[error("none: nothing is proven for the way in which this solver reads the records")]
    Access,
    /// A release was no fresh gradient.
    #[error("none: the release of step {step} was no fresh gradient but a {kind:?}")]
    Kind {
        /// The step.
        step: u64,
        /// Its kind.
        kind: ReleaseKind,
    },
    /// A release had other noise than was planned for.
    #[error(
        "none: the noise of step {step} has length {released}, and {planned} was planned for all steps"
    )]
    Noise {
        /// The step.
        step: u64,
        /// sqrt(d) times the deviation that was planned for.
        planned: f64,
        /// The same of the release.
        released: f64,
    },
    /// A release was missing, came twice, or is of a run with another number of steps.
    #[error("none: step {expected} of {planned} was expected, and step {step} of {steps} came")]
    Order {
        /// The step that was due.
        expected: u64,
        /// Steps that were planned for.
        planned: u64,
        /// The step that came.
        step: u64,
        /// Steps of its run.
        steps: u64,
    },
    /// A release has not the plan's dimension.
    #[error("none: the plan is for dimension {planned}, the release has {released}")]
    Dimension {
        /// The plan's.
        planned: usize,
        /// That of the release.
        released: usize,
    },
    /// A release, or the point that it is at, is not finite.
    #[error("none: the release of step {step} or its point is not finite")]
    NotFinite {
        /// The step.
        step: u64,
    },
    /// The run was on other records than were planned for, or sums were inexact.
    #[error("none: {0}")]
    NotCovered(#[from] Withheld),
    /// Contributions may be longer than what is added for sampling allows for.
    #[error(
        "none: gradients of up to {planned} in norm were planned for, and those of these records may be {found}"
    )]
    LongerGradients {
        /// L in the plan.
        planned: f64,
        /// That of the oracle.
        found: f64,
    },
    /// Unread records are about the population, and these are no fresh sample of it.
    #[error("none: {0}")]
    NoSample(#[from] NoSample),
    /// The run ended before its first window did.
    #[error("none: the run ended before a window of {window} releases was complete")]
    NoWindow {
        /// Releases of a window.
        window: u64,
    },
}

impl WindowError {
    pub(super) fn positive(name: &'static str, value: f64) -> Result<(), Self> {
        if value > 0.0 && value.is_finite() {
            Ok(())
        } else {
            Err(Self::OutOfRange { name, value })
        }
    }
}
