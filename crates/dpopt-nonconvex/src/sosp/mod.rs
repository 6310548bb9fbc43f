//! Second-order stationary points on all records, with a private certificate.

mod curvature;
mod level;
mod measured;
mod plan;
mod planner;
mod spider;
#[cfg(test)]
mod tests;
mod walk;

pub use level::{Estimates, SospLevel, SospSpider, Steps};
pub use plan::SOSP;
pub use planner::{SospPlan, SospSettings};
