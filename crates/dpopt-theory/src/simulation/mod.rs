//! Simulation: the oracle of a protected run over populations of any size, with
//! floating-point noise and no protection.

mod counts;
mod oracle;
mod plane;
mod population;
mod prefix;
mod span;
mod weighted;
mod within;

pub(crate) use counts::binomial;
pub use oracle::{NoiseRule, SimulatedOracle};
pub use plane::PlaneOracle;
pub use population::{ClosedForm, Population, WeightedLoss};
pub use prefix::FloatPrefixNoise;
pub use span::{RampGlm, SpanGradient, SpanOracle};
pub use weighted::{Unread, WeightedError, WeightedRecords};
pub use within::{Within, in_span};
