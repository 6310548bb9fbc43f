//! What a gradient norm says about the excess under a Kurdyka-Lojasiewicz condition.

use serde::Serialize;

use super::CertificateError;

/// F(w) - min F <= gamma^kappa ||grad F(w)||^kappa for all w of some region. kappa = 2 is the
/// Polyak-Lojasiewicz condition 1/2 ||grad F||^2 >= m (F - min F) with gamma = 1/sqrt(2 m).
///
/// The condition is an assumption about F: nothing here checks it at more than one point.
///
/// Source: the project's notes on KL conditions, Eq. 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KlCondition {
    gamma: f64,
    kappa: f64,
}

impl KlCondition {
    /// The condition with these constants.
    ///
    /// # Errors
    /// [`CertificateError::OutOfRange`] unless gamma is positive and kappa at least 1, both finite.
    pub fn new(gamma: f64, kappa: f64) -> Result<Self, CertificateError> {
        for (name, value, least) in [("gamma", gamma, f64::MIN_POSITIVE), ("kappa", kappa, 1.0)] {
            if !(value >= least && value.is_finite()) {
                return Err(CertificateError::OutOfRange { name, value });
            }
        }
        Ok(Self { gamma, kappa })
    }

    /// gamma.
    #[must_use]
    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    /// kappa.
    #[must_use]
    pub fn kappa(&self) -> f64 {
        self.kappa
    }

    /// The largest excess F(w) - min F at a gradient norm of at most `gradient_norm`.
    #[must_use]
    pub fn excess_bound(&self, gradient_norm: f64) -> f64 {
        (self.gamma * gradient_norm).powf(self.kappa)
    }

    /// The excess over its bound: above 1 the condition fails at this point; 1 where it is tight.
    /// 0 where both are 0.
    #[must_use]
    pub fn ratio(&self, excess: f64, gradient_norm: f64) -> f64 {
        if excess == 0.0 {
            0.0
        } else {
            excess / self.excess_bound(gradient_norm)
        }
    }
}
