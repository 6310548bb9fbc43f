//! Newtypes for the quantities that are easy to confuse: epsilon, delta, rho, mu,
//! noise multiplier, clip norm, sampling rate.
//!
//! Each has a private field, is checked once when it is made, and is plain data
//! afterwards. None has a default.

use serde::{Deserialize, Serialize};

/// A privacy unit was given a value outside its range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The value is NaN, infinite, zero or negative where a positive finite number is needed.
    #[error("{name} must be a positive finite number, got {value}")]
    NotPositive {
        /// Name of the quantity.
        name: &'static str,
        /// The rejected value.
        value: f64,
    },
    /// The value is not in the open interval (0, 1).
    #[error("{name} must lie strictly between 0 and 1, got {value}")]
    NotInOpenUnitInterval {
        /// Name of the quantity.
        name: &'static str,
        /// The rejected value.
        value: f64,
    },
    /// The value is not in the half-open interval (0, 1].
    #[error("{name} must be above 0 and at most 1, got {value}")]
    NotAProbability {
        /// Name of the quantity.
        name: &'static str,
        /// The rejected value.
        value: f64,
    },
}

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $label:literal, $ok:expr, $err:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// Checks the range and wraps the value.
            ///
            /// # Errors
            /// [`UnitError`] with the offending value when it is out of range.
            pub fn new(value: f64) -> Result<Self, UnitError> {
                let ok: fn(f64) -> bool = $ok;
                if ok(value) {
                    Ok(Self(value))
                } else {
                    Err(UnitError::$err { name: $label, value })
                }
            }

            /// The value as a number.
            #[must_use]
            pub fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = UnitError;
            fn try_from(value: f64) -> Result<Self, UnitError> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(unit: $name) -> f64 {
                unit.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

unit!(
    /// The epsilon of (epsilon, delta)-differential privacy: positive and finite.
    Epsilon, "epsilon", positive, NotPositive
);
unit!(
    /// The delta of (epsilon, delta)-differential privacy: strictly between 0 and 1.
    Delta, "delta", |v| v > 0.0 && v < 1.0, NotInOpenUnitInterval
);
unit!(
    /// The rho of zero-concentrated differential privacy: positive and finite.
    Rho, "rho", positive, NotPositive
);
unit!(
    /// The parameter of Gaussian differential privacy: positive and finite. In this
    /// project `mu` never means anything else.
    Mu, "mu", positive, NotPositive
);
unit!(
    /// Noise standard deviation over the L2 sensitivity of the **unsampled** query under the
    /// stated adjacency. Under replace-one the sensitivity of a sum of vectors of norm at most
    /// C is 2C, so a standard deviation of 2C is a noise multiplier of 1.
    NoiseMultiplier, "noise multiplier", positive, NotPositive
);
unit!(
    /// Largest L2 norm that one record may contribute to a sum: positive and finite.
    ClipNorm, "clip norm", positive, NotPositive
);

impl ClipNorm {
    /// 1e300, for simulations without a bound: no lattice holds such contributions.
    pub const HUGE: Self = Self(1e300);
}
unit!(
    /// Probability with which a record enters a Poisson sample: above 0, at most 1.
    SamplingRate, "sampling rate", |v| v > 0.0 && v <= 1.0, NotAProbability
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_enforced() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Epsilon::new(bad).is_err());
            assert!(NoiseMultiplier::new(bad).is_err());
            assert!(ClipNorm::new(bad).is_err());
        }
        for bad in [0.0, 1.0, -0.1, 1.5, f64::NAN] {
            assert!(Delta::new(bad).is_err());
        }
        assert!(SamplingRate::new(1.0).is_ok());
        assert!(SamplingRate::new(1.0 + 1e-12).is_err());
    }

    #[test]
    fn serde_cannot_smuggle_a_bad_value() {
        assert!(serde_json::from_str::<Delta>("1.5").is_err());
        assert_eq!(serde_json::from_str::<Delta>("0.5").unwrap().get(), 0.5);
    }

    #[test]
    fn the_error_names_the_quantity_and_the_value() {
        let message = Epsilon::new(-2.0).unwrap_err().to_string();
        assert!(message.contains("epsilon") && message.contains("-2"));
    }
}
