//! All solvers of saddle problems.

use dpopt_solver::RemovedSolver;

use crate::anytime::RGDA_ANYTIME;
use crate::gda::GDA;
use crate::pass::{RGDA_CHAIN, RGDA_PREFIX, RGDA_ROUNDS};
use crate::perturb::PERTURB_AND_WATCH;
use crate::rgda::{RGDA, SAMPLED_RGDA};
use crate::sgda::SGDA;
use crate::solver::SaddleSolver;
use crate::spider_gda::SPIDER_GDA;

/// All of them.
pub static SOLVERS: &[&SaddleSolver] = &[
    &RGDA_ANYTIME,
    &RGDA,
    &SAMPLED_RGDA,
    &SPIDER_GDA,
    &RGDA_CHAIN,
    &RGDA_PREFIX,
    &RGDA_ROUNDS,
    &PERTURB_AND_WATCH,
    &GDA,
    &SGDA,
];

/// Solvers of version 0.1 that are no longer here.
pub static REMOVED: &[RemovedSolver] = &[RemovedSolver {
    name: "privatediff",
    instead: "gda, or sgda on samples",
}];

/// The solver of this name.
#[must_use]
pub fn solver(name: &str) -> Option<&'static SaddleSolver> {
    SOLVERS.iter().copied().find(|solver| solver.name == name)
}
