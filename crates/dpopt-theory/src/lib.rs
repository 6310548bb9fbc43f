//! Problems with known constants, simulation, certificates and rate checks.
//!
//! What theory promises is checked here against what is measured:
//!
//! - [`RampBowl`]: a problem on which the bounds of gradient methods are nearly tight, with exact
//!   value, gradient and constants (a [`Problem`]);
//! - [`SimulatedEstimator`]: the private estimator on such a problem, with plain floating-point
//!   noise of the right size, so that experiments with 10^5 records cost seconds. It protects
//!   nobody and states no guarantee;
//! - [`LogLogFit`]: the slope of a measured rate, with a confidence interval;
//! - [`first_order`], [`second_order`], [`goldstein`]: certificates of stationarity for functions in
//!   closed form and for any loss on **public** data, with bounds on their own errors;
//! - [`GradientNormPlan`], [`LeastEigenvaluePlan`], [`CurvaturePlan`]: the same of private data, by
//!   releases that are planned and charged;
//! - [`auc`], [`accuracy`], [`majority_accuracy`], [`log_loss`]: how good a linear classifier is
//!   on public data.
//!
//! Private records are read by the estimators of `dpopt-oracle` only, whose releases the private
//! certificates plan and interpret.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod certificate;
mod metrics;
mod problem;
mod ramp_bowl;
mod random;
mod rates;
mod simulated;
pub mod verify;

pub use certificate::{
    CertificateError, CurvaturePlan, Curved, EigenMethod, FirstOrder, GlmMean, Goldstein,
    GoldsteinSettings, GoldsteinStop, GradientNormPlan, Interval, KlCondition, LeastEigenvaluePlan,
    MAX_HESSIAN_DIM, MAX_PRIVATE_HESSIAN_DIM, MeanLoss, Objective, PrivateCertificateError,
    PrivateCurvature, PrivateGradientNorm, PrivateLeastEigenvalue, SecondOrder,
    SecondOrderSettings, Verdict, WithRegularizer, first_order, goldstein, radial_goldstein,
    second_order,
};
pub use metrics::{MetricError, accuracy, auc, log_loss, majority_accuracy};
pub use problem::{Problem, ProblemError};
pub use ramp_bowl::{Ramp, RampBowl};
pub use rates::{FitError, LogLogFit};
pub use simulated::{NoiseRule, SimulatedEstimator};
