//! Goldstein-stationary points of losses that are Lipschitz, and need be no more.

mod bound;
mod periods;
#[cfg(test)]
mod periods_tests;
mod plan;
mod schedule;
mod slopes;
#[cfg(test)]
mod slopes_tests;
#[cfg(test)]
mod tests;
mod walk;

use dpopt_solver::{Auto, BoundSense, BoundedQuantity, ExtraFacts, Needs, PlanError, Solver};

pub use plan::GoldsteinPlan;
use plan::{ALL, PASS, RECURSIVE, SAMPLED, VALUES};
pub use schedule::{
    GoldsteinOutput, GoldsteinPeriod, GoldsteinSchedule, GoldsteinSettings, GoldsteinStep,
};

/// Goldstein-stationary points on all records.
pub static GOLDSTEIN: Solver = Solver {
    name: ALL,
    summary: "losses with kinks, all records at every step",
    paper: "Kornowski, Liu and Talwar 2025 (arXiv 2410.05880), section 2, with fresh gradients",
    needs: Needs {
        goldstein: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::GoldsteinDistance, BoundSense::Mean)),
    auto: Auto::Never,
    theory_page: Some("theory/goldstein.md"),
    privacy_page: "privacy/goldstein.md",
    planner: |facts, extra, budget, limits| {
        let settings = settings(extra, ALL)?;
        let plan = GoldsteinPlan::new(facts, budget, &settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};

/// Goldstein-stationary points on Poisson samples.
pub static GOLDSTEIN_SAMPLED: Solver = Solver {
    name: SAMPLED,
    summary: "losses with kinks, a sample at every step",
    planner: |facts, extra, budget, limits| {
        let settings = settings(extra, SAMPLED)?;
        let plan = GoldsteinPlan::sampled(facts, budget, &settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN
};

/// Goldstein-stationary points of the population risk in one pass.
pub static GOLDSTEIN_PASS: Solver = Solver {
    name: PASS,
    summary: "losses with kinks, population risk in one pass",
    needs: Needs {
        positions: true,
        ..GOLDSTEIN.needs
    },
    bound: Some((
        BoundedQuantity::GoldsteinDistance,
        BoundSense::PopulationMean,
    )),
    planner: |facts, extra, budget, _| {
        let settings = settings(extra, PASS)?;
        let plan = GoldsteinPlan::single_pass(facts, budget, &settings)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN
};

/// Goldstein-stationary points from values alone.
pub static GOLDSTEIN_ZO: Solver = Solver {
    name: VALUES,
    summary: "losses with kinks, from values alone",
    planner: |facts, extra, budget, limits| {
        let settings = settings(extra, VALUES)?;
        let plan = GoldsteinPlan::zeroth_order(facts, budget, &settings, limits.max_steps, None)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN
};

/// Goldstein-stationary points by recursive estimates.
pub static GOLDSTEIN_RECURSIVE: Solver = Solver {
    name: RECURSIVE,
    summary: "losses with kinks, recursive estimates on all records",
    paper: "Kornowski, Liu and Talwar 2025 (arXiv 2410.05880), Algorithm 4",
    needs: GOLDSTEIN_PASS.needs,
    planner: |facts, extra, budget, limits| {
        let settings = settings(extra, RECURSIVE)?;
        let plan = GoldsteinPlan::recursive(facts, budget, &settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN
};

fn settings(extra: &ExtraFacts, solver: &'static str) -> Result<GoldsteinSettings, PlanError> {
    extra
        .goldstein_radius_for(solver)
        .map(GoldsteinSettings::at_radius)
}
