//! Parameters of losses, checked once.

use serde::{Deserialize, Serialize};

/// A parameter of a loss is out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A scale of residuals.
    #[error("a scale must be between 1e-100 and 1e100, got {0}")]
    Scale(f64),
    /// A quantile.
    #[error("a quantile must be above 0 and below 1, got {0}")]
    Quantile(f64),
}

/// A scale of residuals, in units of the label: from 1e-100 to 1e100, so that its square and the
/// inverse of it are normal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Scale(f64);

impl Scale {
    pub(super) const ONE: Scale = Scale(1.0);
    /// Holland and Welsch 1977, Table 1.
    pub(super) const HUBER: Scale = Scale(1.345);
    /// Holland and Welsch 1977, Table 1.
    pub(super) const TUKEY: Scale = Scale(4.685);
    const LEAST: f64 = 1e-100;
    const LARGEST: f64 = 1e100;

    /// A checked scale.
    ///
    /// # Errors
    /// [`ParameterError::Scale`].
    pub fn new(scale: f64) -> Result<Self, ParameterError> {
        if (Self::LEAST..=Self::LARGEST).contains(&scale) {
            Ok(Self(scale))
        } else {
            Err(ParameterError::Scale(scale))
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A quantile, strictly between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Quantile(f64);

impl Quantile {
    pub(super) const MEDIAN: Quantile = Quantile(0.5);

    /// A checked quantile.
    ///
    /// # Errors
    /// [`ParameterError::Quantile`].
    pub fn new(quantile: f64) -> Result<Self, ParameterError> {
        if quantile > 0.0 && quantile < 1.0 {
            Ok(Self(quantile))
        } else {
            Err(ParameterError::Quantile(quantile))
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Scale {
    type Error = ParameterError;

    fn try_from(number: f64) -> Result<Self, ParameterError> {
        Self::new(number)
    }
}

impl From<Scale> for f64 {
    fn from(checked: Scale) -> f64 {
        checked.0
    }
}

impl TryFrom<f64> for Quantile {
    type Error = ParameterError;

    fn try_from(number: f64) -> Result<Self, ParameterError> {
        Self::new(number)
    }
}

impl From<Quantile> for f64 {
    fn from(checked: Quantile) -> f64 {
        checked.0
    }
}
