//! Second-order stationary points on all records, with a private certificate.

mod level;
mod plan;
#[cfg(test)]
mod tests;
mod walk;

use dpopt_solver::{Auto, BoundSense, BoundedQuantity, Needs, Solver};

pub use level::SospLevel;
use plan::NAME;
pub use plan::{SospPlan, SospSettings};

/// Second-order stationary points on all records.
pub static SOSP: Solver = Solver {
    name: NAME,
    summary: "no saddle: gradient and least eigenvalue certified, all records",
    paper: "Liu and Talwar 2025 (arXiv 2410.07502), with fresh gradients and whole Hessians",
    needs: Needs {
        hessian: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::WithProbability)),
    auto: Auto::Never,
    theory_page: Some("theory/sosp.md"),
    privacy_page: "privacy/sosp.md",
    planner: |facts, extra, budget, limits| {
        let settings = SospSettings {
            targets: extra.second_order,
            failure: extra.failure(),
            ..SospSettings::new(limits.max_steps)
        };
        let hessian = extra.hessian_for(NAME)?;
        Ok(Box::new(SospPlan::new(facts, &hessian, budget, settings)?))
    },
};
