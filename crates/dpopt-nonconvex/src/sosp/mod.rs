//! Second-order stationary points on all records, with a private certificate.

mod curvature;
mod level;
mod measured;
mod plan;
mod planner;
mod problem;
mod spider;
#[cfg(test)]
mod tests;
mod walk;

pub use level::{SospLevel, SospSpider};
pub use plan::SOSP;
pub use planner::{SospPlan, SospSettings};
pub use problem::{Estimates, Steps};
