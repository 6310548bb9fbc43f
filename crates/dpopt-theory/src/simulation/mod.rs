//! Simulation: the estimators of a protected run over populations of any size, with
//! floating-point noise and no protection.

mod counts;
mod estimator;
mod means;
mod plane;
mod population;
mod prefix;
mod span;
mod weighted;

pub(crate) use counts::binomial;
pub use estimator::SimulatedEstimator;
pub use means::{NoiseRule, SimulatedMeans, SimulatedPeriod, SimulatedSlice};
pub use plane::PlaneEstimator;
pub use population::{ClosedForm, Population, WeightedLoss};
pub use prefix::FloatPrefixNoise;
pub use span::{RampGlm, SpanEstimator, SpanGradient, in_span};
pub use weighted::{Unread, WeightedError, WeightedRecords};
