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
//! - [`first_order`], [`second_order`]: exact certificates of stationarity on **public** data;
//! - [`auc`], [`accuracy`], [`majority_accuracy`], [`log_loss`]: how good a linear classifier is
//!   on public data.
//!
//! - [`audit`]: attacks on the guarantees themselves, with broken twins that they must catch.
//!
//! Nothing in this crate reads private records.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod audit;
mod certificate;
mod metrics;
mod problem;
mod ramp_bowl;
mod rates;
mod simulated;

pub use certificate::{
    CertificateError, FirstOrder, MAX_HESSIAN_DIM, SecondOrder, first_order, second_order,
};
pub use metrics::{MetricError, accuracy, auc, log_loss, majority_accuracy};
pub use problem::{Problem, ProblemError};
pub use ramp_bowl::{Ramp, RampBowl};
pub use rates::{FitError, LogLogFit};
pub use simulated::{NoiseRule, SimulatedEstimator};
