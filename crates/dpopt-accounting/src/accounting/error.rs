//! Why an accountant could not answer.

use super::calibrate::Parameter;
use super::exact::ExactError;
use super::kind::Accountant;
use super::pld::PldError;
use crate::adjacency::Adjacency;
use crate::event::{Event, EventError};
use crate::units::UnitError;

/// An accountant could not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountingError {
    /// The event contains something that the accountant has no theorem for.
    #[error("the {accountant} accountant cannot account for {event}{}", at(path))]
    UnsupportedEvent {
        /// Who refused.
        accountant: Accountant,
        /// Where the part is in the event; empty for the whole of it.
        path: String,
        /// The part of the event that was refused.
        event: Box<Event>,
    },
    /// There is no theorem for this event under this neighbouring relation.
    #[error(
        "{event}{} cannot be accounted for under {adjacency} adjacency",
        at(path)
    )]
    UnsupportedAdjacency {
        /// The relation.
        adjacency: Adjacency,
        /// Where the part is in the event; empty for the whole of it.
        path: String,
        /// The part of the event that was refused.
        event: Box<Event>,
    },
    /// The event is not valid.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The event contains an unprotected release: no finite epsilon with delta below 1 holds.
    #[error("the event contains an unprotected release, so no epsilon holds")]
    Unprotected,
    /// A number left the range of `f64` or of its unit.
    #[error("{quantity} came out as {value}, which is out of range")]
    OutOfRange {
        /// Name of the quantity.
        quantity: &'static str,
        /// Its value.
        value: f64,
    },
    /// A Renyi order is not a finite number above 1.
    #[error("a Renyi order must be a finite number above 1, got {order}")]
    InvalidOrder {
        /// The rejected order.
        order: f64,
    },
    /// No value of a calibrated parameter meets the target, not even the cheapest one tried.
    #[error(
        "epsilon {target_epsilon} at delta {target_delta} is out of reach: \
         at {parameter} {value} epsilon is still {achieved_epsilon}"
    )]
    Unreachable {
        /// Wanted epsilon.
        target_epsilon: f64,
        /// At this delta.
        target_delta: f64,
        /// What was calibrated.
        parameter: Parameter,
        /// The cheapest value tried.
        value: f64,
        /// What it costs; infinite when the accountant had no finite answer.
        achieved_epsilon: f64,
    },
    /// Every value of a calibrated parameter meets the target, also the dearest one tried.
    #[error(
        "epsilon {target_epsilon} at delta {target_delta} is met even at {parameter} {value}: \
         the event does not depend on it enough"
    )]
    Unconstrained {
        /// Wanted epsilon.
        target_epsilon: f64,
        /// At this delta.
        target_delta: f64,
        /// What was calibrated.
        parameter: Parameter,
        /// The dearest value tried.
        value: f64,
    },
    /// A parameter is out of the range of its unit.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The privacy-loss distribution can't be computed.
    #[error(transparent)]
    Pld(#[from] PldError),
    /// The contour integral can't be computed.
    #[error(transparent)]
    Exact(#[from] ExactError),
}

impl AccountingError {
    /// Whether other numbers in the same event might be accounted: a range was left, as against
    /// a theorem that is missing.
    pub(super) fn is_numerical(&self) -> bool {
        match self {
            AccountingError::OutOfRange { .. } => true,
            AccountingError::Pld(error) => !matches!(
                error,
                PldError::Unsupported { .. } | PldError::BadOption { .. }
            ),
            AccountingError::Exact(error) => !matches!(
                error,
                ExactError::Unsupported { .. } | ExactError::Unprotected
            ),
            _ => false,
        }
    }
}

fn at(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!(" (at {path})"),
    }
}
