//! `rgda-chain`, `rgda-prefix`, `rgda-rounds`: descent-ascent for the population, each record read once.
//!
//! Xu et al. (arXiv 2602.01339), the population version, repaired: `docs/theory/rgda-pass.md` has the theorem.

mod period;
mod plan;
mod schedule;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use dpopt_privacy::PrefixKind;
use dpopt_solver::{BoundSense, BoundedQuantity};

use crate::solver::SaddleSolver;

pub use plan::{RgdaPassPlan, RgdaPassSettings};
pub use schedule::RgdaPassSchedule;

/// How estimates are made of anchors and changes, each on records that were never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassEstimate {
    /// Changes with noise of their own: the noise of a period adds up.
    Chain,
    /// Changes under prefix-sum noise of this kind.
    Prefix(PrefixKind),
    /// Changes from an ancestor in a tree of points: the noise of as many of them adds up as the tree is deep.
    Rounds,
}

impl PassEstimate {
    /// The name of the solver.
    #[must_use]
    pub fn solver(self) -> &'static str {
        match self {
            Self::Chain => "rgda-chain",
            Self::Prefix(_) => "rgda-prefix",
            Self::Rounds => "rgda-rounds",
        }
    }
}

macro_rules! pass {
    ($estimate:expr, $name:literal, $summary:literal, $paper:literal) => {
        SaddleSolver {
            name: $name,
            summary: $summary,
            paper: $paper,
            bound: Some((BoundedQuantity::GradientNorm, BoundSense::PopulationMean)),
            positions: true,
            theory_page: Some("theory/rgda-pass.md"),
            privacy_page: "privacy/minimax.md",
            planner: |facts, budget, limits| {
                let settings = RgdaPassSettings::new($estimate).with_failure(limits.failure);
                Ok(Box::new(RgdaPassPlan::new(
                    facts, budget, settings, limits,
                )?))
            },
        }
    };
}

/// One pass, changes with independent noise.
pub static RGDA_CHAIN: SaddleSolver = pass!(
    PassEstimate::Chain,
    "rgda-chain",
    "smooth saddle losses, strongly concave in y, in one pass: independent noise",
    "Xu et al. 2026 (arXiv 2602.01339), population version, repaired"
);

/// One pass, changes under prefix-sum noise.
pub static RGDA_PREFIX: SaddleSolver = pass!(
    PassEstimate::Prefix(PrefixKind::Toeplitz),
    "rgda-prefix",
    "smooth saddle losses, strongly concave in y, in one pass: prefix-sum noise",
    "Xu et al. 2026 (arXiv 2602.01339), population version, repaired; noise as by Liu and Talwar 2025 (arXiv 2410.07502)"
);

/// One pass, changes from ancestors in a tree of points.
pub static RGDA_ROUNDS: SaddleSolver = pass!(
    PassEstimate::Rounds,
    "rgda-rounds",
    "smooth saddle losses, strongly concave in y, in one pass: tree rounds",
    "Xu et al. 2026 (arXiv 2602.01339), population version, repaired; estimates as by Arora et al. 2022 (arXiv 2206.00846)"
);
