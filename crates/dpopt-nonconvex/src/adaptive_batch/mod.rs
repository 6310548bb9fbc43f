//! Second-order stationary points of the population in one pass, with a private certificate on unread records.

pub(crate) mod bounds;
mod gradient;
mod plan;
mod planner;
mod rigorous;
mod schedule;
#[cfg(test)]
mod tests;
mod typical;
mod walk;

pub use plan::ADAPTIVE_BATCH;
pub use planner::{AdaptiveBatchPlan, AdaptiveBatchSettings};
pub use schedule::AdaptiveBatchSchedule;
