//! Certificates of stationarity: how good a point is, with a bound on the error of the answer.
//!
//! | question | public data and closed forms | private data, charged |
//! | --- | --- | --- |
//! | first order | [`first_order`] | [`GradientNormPlan`] |
//! | second order | [`second_order`] | [`LeastEigenvaluePlan`], [`CurvaturePlan`] |
//! | Goldstein | [`goldstein`], [`radial_goldstein`] | |
//! | excess under a KL condition | [`KlCondition`] | by the private gradient norm |
//!
//! The public numbers are functions of the records without any noise. **Never compute them on
//! private data**: a gradient norm or an eigenvalue of a private mean reveals records, and nothing
//! would charge for it. The types help: they take public data or closed forms only.
//!
//! A closed form is a [`Problem`], a [`SecondOrderProblem`] or a [`GoldsteinProblem`], with its
//! constants. [`auc`], [`accuracy`], [`majority_accuracy`] and [`log_loss`] say how good a linear
//! classifier is on public data.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod first;
mod goldstein;
#[cfg(test)]
mod goldstein_tests;
mod metrics;
mod objective;
mod private;
mod problem;
mod radial;
#[doc(hidden)]
pub mod random;
mod second;
#[cfg(test)]
mod tests;

use dpopt_linalg::{HullError, LanczosError, SpectrumError};

pub use dpopt_solver::KlCondition;
pub use first::{FirstOrder, first_order};
pub use goldstein::{Goldstein, GoldsteinSettings, GoldsteinStop, goldstein};
pub use metrics::{MetricError, accuracy, auc, log_loss, majority_accuracy};
pub use objective::{Curved, GlmMean, MeanLoss, Objective, WithRegularizer};
pub use private::{
    CurvaturePlan, GradientNormPlan, Interval, LeastEigenvaluePlan, MAX_PRIVATE_HESSIAN_DIM,
    PrivateCertificateError, PrivateCurvature, PrivateGradientNorm, PrivateLeastEigenvalue,
};
pub use problem::{GoldsteinProblem, Kl, Problem, ProblemConstants, SecondOrderProblem};
pub use radial::radial_goldstein;
pub use second::{
    EigenMethod, MAX_HESSIAN_DIM, SecondOrder, SecondOrderSettings, Verdict, second_order,
};

/// A certificate could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The point has another dimension than the objective.
    #[error("the objective has {objective} coordinates, the point has {point}")]
    Dimension {
        /// Coordinates of the objective.
        objective: usize,
        /// Coordinates of the point.
        point: usize,
    },
    /// A mean over no records.
    #[error("a certificate needs at least one record")]
    NoRecords,
    /// A record, the point, or a sum is not finite.
    #[error("the {0} is not finite")]
    NotFinite(&'static str),
    /// A parameter is out of range.
    #[error("{name} is out of range: {value}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The dense Hessian would be too large.
    #[error("dimension {dim} is above {limit}, the largest for which a dense Hessian is formed")]
    TooManyDimensions {
        /// The dimension asked for.
        dim: usize,
        /// The largest possible.
        limit: usize,
    },
    /// The eigenvalues could not be computed.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
    /// The Lanczos iteration could not be run.
    #[error(transparent)]
    Lanczos(#[from] LanczosError),
    /// The hull of gradients could not be searched.
    #[error(transparent)]
    Hull(#[from] HullError),
}

/// The gradient at `point`, checked.
fn gradient_at<O: Objective + ?Sized>(
    objective: &O,
    point: &[f64],
) -> Result<Vec<f64>, CertificateError> {
    if objective.dim() != point.len() || point.is_empty() {
        return Err(CertificateError::Dimension {
            objective: objective.dim(),
            point: point.len(),
        });
    }
    if !point.iter().all(|x| x.is_finite()) {
        return Err(CertificateError::NotFinite("point"));
    }
    let mut gradient = vec![0.0; point.len()];
    objective.gradient(point, &mut gradient);
    if gradient.iter().all(|x| x.is_finite()) {
        Ok(gradient)
    } else {
        Err(CertificateError::NotFinite("gradient"))
    }
}

/// The value at `point`, checked.
fn value_at<O: Objective + ?Sized>(objective: &O, point: &[f64]) -> Result<f64, CertificateError> {
    let value = objective.value(point);
    if value.is_finite() {
        Ok(value)
    } else {
        Err(CertificateError::NotFinite("value"))
    }
}
