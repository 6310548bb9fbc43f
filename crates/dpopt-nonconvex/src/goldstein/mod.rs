//! Goldstein-stationary points of losses that are Lipschitz, and need be no more.

mod bound;
mod envelope;
#[cfg(test)]
mod envelope_tests;
mod periods;
#[cfg(test)]
mod periods_tests;
mod plan;
mod planner;
mod recursive;
mod schedule;
mod slopes;
#[cfg(test)]
mod slopes_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod values_tests;
mod walk;

use dpopt_solver::{
    Auto, BoundSense, BoundedQuantity, ExtraFacts, Needs, PlanError, PublicFacts, Solver,
};

pub use envelope::{EnvelopePlan, GOLDSTEIN_ENVELOPE};
pub use plan::GoldsteinPlan;
use plan::{ALL, PASS, RECURSIVE, SAMPLED, VALUES, VALUES_PASS, VALUES_SAMPLED};
pub use schedule::{GoldsteinAsks, GoldsteinPeriod, GoldsteinSchedule, GoldsteinSettings};

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
    auto: Auto::AtRadius,
    theory_page: Some("theory/goldstein.md"),
    privacy_page: "privacy/goldstein.md",
    planner: |facts, extra, budget, limits| {
        let settings = gradients(extra, ALL)?;
        let plan = GoldsteinPlan::new(facts, budget, &settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};

/// Goldstein-stationary points on Poisson samples.
pub static GOLDSTEIN_SAMPLED: Solver = Solver {
    name: SAMPLED,
    summary: "losses with kinks, a sample at every step",
    planner: |facts, extra, budget, limits| {
        let settings = gradients(extra, SAMPLED)?;
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
    auto: Auto::Never("its bound is on the population, for records in a random order"),
    planner: |facts, extra, budget, _| {
        let settings = gradients(extra, PASS)?;
        let plan = GoldsteinPlan::single_pass(facts, budget, &settings)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN
};

/// Goldstein-stationary points from values alone.
pub static GOLDSTEIN_ZO: Solver = Solver {
    name: VALUES,
    summary: "losses with kinks, from values alone",
    needs: Needs {
        values: true,
        ..GOLDSTEIN.needs
    },
    auto: Auto::Never("it is for losses that are programs without a gradient"),
    planner: |facts, extra, budget, limits| {
        let settings = values(facts, extra, VALUES)?;
        let plan = GoldsteinPlan::new(facts, budget, &settings, limits.max_steps)?;
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
    auto: Auto::Never("goldstein has a smaller bound for the same records"),
    planner: |facts, extra, budget, limits| {
        let settings = gradients(extra, RECURSIVE)?;
        let plan = GoldsteinPlan::recursive(facts, budget, &settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN
};

/// Goldstein-stationary points from values alone on Poisson samples.
pub static GOLDSTEIN_ZO_SAMPLED: Solver = Solver {
    name: VALUES_SAMPLED,
    summary: "losses with kinks, from values alone, a sample at every step",
    planner: |facts, extra, budget, limits| {
        let settings = values(facts, extra, VALUES_SAMPLED)?;
        let plan = GoldsteinPlan::sampled(facts, budget, &settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN_ZO
};

/// Goldstein-stationary points of the population risk from values alone in one pass.
pub static GOLDSTEIN_ZO_PASS: Solver = Solver {
    auto: Auto::Never("it is for losses that are programs without a gradient"),
    name: VALUES_PASS,
    summary: "losses with kinks, population risk from values alone in one pass",
    needs: Needs {
        values: true,
        ..GOLDSTEIN_PASS.needs
    },
    planner: |facts, extra, budget, _| {
        let settings = values(facts, extra, VALUES_PASS)?;
        let plan = GoldsteinPlan::single_pass(facts, budget, &settings)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN_PASS
};

fn gradients(extra: &ExtraFacts, solver: &'static str) -> Result<GoldsteinSettings, PlanError> {
    let radius = extra.goldstein_radius_for(solver)?;
    Ok(GoldsteinSettings {
        bounded: extra.bounded_values,
        ..GoldsteinSettings::at_radius(radius)
    })
}

fn values(
    facts: &PublicFacts,
    extra: &ExtraFacts,
    solver: &'static str,
) -> Result<GoldsteinSettings, PlanError> {
    let directions = extra.directions_in(facts.dim)?;
    Ok(gradients(extra, solver)?.from_values(directions))
}
