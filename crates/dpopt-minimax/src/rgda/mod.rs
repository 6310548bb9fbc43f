//! `rgda`, on all records and on samples.

mod plan;
mod sampled;
mod search;

pub use plan::{RGDA, RgdaPlan};
pub use sampled::{SAMPLED_RGDA, SampledRgdaSchedule};
pub(crate) use search::{Schedule, Task};
