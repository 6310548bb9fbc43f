//! All solvers of saddle problems.

use crate::gda::GDA;
use crate::solver::SaddleSolver;

/// All of them.
pub static SOLVERS: &[&SaddleSolver] = &[&GDA];

/// The solver of this name.
#[must_use]
pub fn solver(name: &str) -> Option<&'static SaddleSolver> {
    SOLVERS.iter().copied().find(|solver| solver.name == name)
}
