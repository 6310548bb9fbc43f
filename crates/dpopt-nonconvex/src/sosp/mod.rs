//! Second-order stationary points on all records, with a private certificate.

mod curvature;
mod level;
mod plan;
mod planner;
#[cfg(test)]
mod tests;
mod walk;

pub use level::SospLevel;
pub use plan::SOSP;
pub use planner::{SospPlan, SospSettings};
