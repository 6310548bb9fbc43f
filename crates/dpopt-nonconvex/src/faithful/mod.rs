//! The algorithm of Liu and Talwar step by step, with the repairs that its privacy needs and no more: for comparison.

mod episodes;
mod plan;
mod planner;
mod schedule;
#[cfg(test)]
mod tests;
mod trace;
mod walk;

pub use episodes::{CentredEnd, CentredEpisode};
pub use planner::{FaithfulPlan, FaithfulSettings};
pub use schedule::FaithfulSchedule;
pub use trace::FaithfulOutcome;
