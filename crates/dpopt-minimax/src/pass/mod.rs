//! `rgda-chain`, `rgda-prefix`, `rgda-rounds`: descent-ascent for the population, each record read once.
//!
//! Xu et al. (arXiv 2602.01339), the population version, repaired: `docs/theory/minimax.md` has the theorem.

mod estimate;
mod period;
mod plan;
mod schedule;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use dpopt_privacy::PrefixKind;
use dpopt_solver::{BoundSense, BoundedQuantity};

use crate::solver::{SaddlePlanner, SaddleSolver};

pub use estimate::PassEstimate;
pub use plan::{RgdaPassPlan, RgdaPassSettings};
pub use schedule::RgdaPassSchedule;

macro_rules! pass {
    ($estimate:expr, $name:literal, $summary:literal, $paper:literal) => {
        SaddleSolver {
            name: $name,
            summary: $summary,
            paper: $paper,
            bound: Some((BoundedQuantity::GradientNorm, BoundSense::PopulationMean)),
            positions: true,
            theory_page: Some("theory/minimax.md#one-pass"),
            privacy_page: "privacy/minimax.md",
            planner: SaddlePlanner::Gaussian(|facts, budget, limits| {
                let settings = RgdaPassSettings::new($estimate).with_failure(limits.failure);
                Ok(Box::new(RgdaPassPlan::new(
                    facts, budget, settings, limits,
                )?))
            }),
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
