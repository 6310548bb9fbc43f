//! What a problem of the zoo is, and why one could not be set up.

pub use dpopt_certify::{GoldsteinProblem, Kl, Problem, ProblemConstants, SecondOrderProblem};

/// A problem could not be set up.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// A parameter is not a positive finite number.
    #[error("{name} must be a positive finite number, got {value}")]
    NotPositive {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The slope is above what the constants allow.
    #[error("slope {slope} is above {limit}, the largest that the constants allow")]
    SlopeTooLarge {
        /// The slope asked for.
        slope: f64,
        /// The largest possible.
        limit: f64,
    },
    /// The dimension is too small.
    #[error("dimension {0} is below 2")]
    TooFewDimensions(usize),
    /// A parameter is outside the range in which the constants are proved.
    #[error("{name} must be from {low} to {high}, got {value}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Least possible.
        low: f64,
        /// Largest possible.
        high: f64,
    },
}

/// A positive finite parameter.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, ProblemError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(ProblemError::NotPositive { name, value })
    }
}

/// A parameter from `low` to `high`.
pub(crate) fn in_range(
    name: &'static str,
    value: f64,
    low: f64,
    high: f64,
) -> Result<f64, ProblemError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(ProblemError::OutOfRange {
            name,
            value,
            low,
            high,
        })
    }
}
