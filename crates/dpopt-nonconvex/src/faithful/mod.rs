//! The algorithm of Liu and Talwar step by step, with the repairs that its privacy needs and no more: for comparison.

mod episodes;
mod plan;
mod planner;
mod schedule;
#[cfg(test)]
mod tests;
mod trace;
mod walk;

use dpopt_solver::LibraryPlan;

pub use episodes::{CentredEnd, CentredEpisode};
pub use planner::{FaithfulPlan, FaithfulSettings};
pub use schedule::FaithfulSchedule;
pub use trace::FaithfulOutcome;

/// For comparison with [`ADAPTIVE_BATCH`](crate::ADAPTIVE_BATCH).
pub(crate) static ADAPTIVE_BATCH_FAITHFUL: LibraryPlan = LibraryPlan {
    name: planner::NAME,
    plan: "FaithfulPlan",
    summary: "the algorithm that `adaptive-batch` comes from with the repairs that its privacy needs, for comparison: a trajectory and a log of episodes, no certificate",
    positions: true,
    theory_page: Some("theory/adaptive-batch-faithful.md"),
    privacy_page: "privacy/adaptive-batch-faithful.md",
};
