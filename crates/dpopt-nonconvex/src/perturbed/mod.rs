//! Baselines that perturb and watch: noisy gradient descent, and Spider, with a test of saddles that asks for gradients only.

mod pass;
mod plan;
mod planner;
mod walk;

use dpopt_solver::LibraryPlan;

pub use pass::PerturbedPass;
pub use planner::{
    PerturbedPlan, PerturbedSchedule, PerturbedSettings, PerturbedSpider, PerturbedTest,
};

/// A baseline of [`SOSP`](crate::SOSP).
pub(crate) static PERTURBED: LibraryPlan = LibraryPlan {
    name: planner::NAME,
    plan: "PerturbedPlan",
    summary: "noisy gradient descent or Spider that perturbs where its estimate is short and watches whether that moves it, without second derivatives: a bound on the gradient, and on the least eigenvalue where its theorem says something",
    positions: false,
    theory_page: Some("theory/perturbed.md"),
    privacy_page: "privacy/perturbed.md",
};

/// The same in one pass, beside [`ADAPTIVE_BATCH`](crate::ADAPTIVE_BATCH).
pub(crate) static PERTURBED_PASS: LibraryPlan = LibraryPlan {
    name: planner::PASS,
    plan: "PerturbedPlan",
    summary: "the same on records that are read once, as in arXiv 2505.15647: a bound on the gradient of the population, and none on the least eigenvalue",
    positions: true,
    theory_page: Some("theory/perturbed.md"),
    privacy_page: "privacy/perturbed.md",
};
