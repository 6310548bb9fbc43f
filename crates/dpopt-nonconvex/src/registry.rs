//! All solvers, and the rule by which `auto` picks one.

use dpopt_oracle::Convexity;
use dpopt_solver::{
    Auto, Budget, ExtraFacts, Limits, Plan, PlanError, PublicFacts, Solver, UnknownSolver, find,
};
use serde::Serialize;

use crate::descent::dp_adam::DP_ADAM;
use crate::descent::dp_sgd::{DP_SGD, DP_SGD_DECAY};
use crate::descent::dp_zo::DP_ZO;
use crate::descent::noisy_gd::{NOISY_GD, NOISY_GD_THEORY};
use crate::goldstein::{
    GOLDSTEIN, GOLDSTEIN_PASS, GOLDSTEIN_RECURSIVE, GOLDSTEIN_SAMPLED, GOLDSTEIN_ZO,
    GOLDSTEIN_ZO_PASS, GOLDSTEIN_ZO_SAMPLED,
};
use crate::kl::{ADAPTIVE_GD, KL_SPIDER, PROXIMAL_POINT};
use crate::recursive::{RECURSIVE_GD, RECURSIVE_SGD};
use crate::spider::boost::SPIDERBOOST;
use crate::spider::normalized::NORMALIZED_SPIDER;
use crate::spider::sampled::SAMPLED_SPIDERBOOST;
use crate::spider::storm::STORM;
use crate::spider::tree::TREE_SPIDER;

/// All solvers of this crate.
pub static SOLVERS: &[&Solver] = &[
    &NOISY_GD,
    &NOISY_GD_THEORY,
    &DP_SGD,
    &DP_SGD_DECAY,
    &DP_ADAM,
    &SPIDERBOOST,
    &SAMPLED_SPIDERBOOST,
    &NORMALIZED_SPIDER,
    &STORM,
    &TREE_SPIDER,
    &RECURSIVE_GD,
    &RECURSIVE_SGD,
    &ADAPTIVE_GD,
    &KL_SPIDER,
    &PROXIMAL_POINT,
    &GOLDSTEIN,
    &GOLDSTEIN_SAMPLED,
    &GOLDSTEIN_PASS,
    &GOLDSTEIN_ZO,
    &GOLDSTEIN_RECURSIVE,
    &GOLDSTEIN_ZO_SAMPLED,
    &GOLDSTEIN_ZO_PASS,
    &DP_ZO,
];

/// The solver of this name.
///
/// # Errors
/// [`UnknownSolver`].
pub fn solver(name: &str) -> Result<&'static Solver, UnknownSolver> {
    find(SOLVERS, name)
}

/// What [`auto`] picked, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct Choice {
    /// The solver.
    pub solver: &'static Solver,
    /// Its plan.
    pub plan: Box<dyn Plan>,
    /// The line of the rule that applied.
    pub reason: AutoReason,
}

/// Picks a solver by a public rule and plans it.
///
/// # Formula
/// 1. Convex losses: [`NOISY_GD`](crate::NOISY_GD).
/// 2. Otherwise, of the solvers that take part by their bound, the one whose plan has the smallest bound on the gradient
///    norm, within the rank that is known, if one is.
/// 3. Where all are vacuous, and for losses with kinks: [`NOISY_GD`](crate::NOISY_GD), which states no bound.
///
/// # Privacy
/// The rule reads public facts only.
///
/// # Errors
/// [`PlanError`] when no solver has a plan.
pub fn auto(
    facts: &PublicFacts,
    extra: &ExtraFacts,
    budget: &Budget,
    limits: &Limits,
) -> Result<Choice, PlanError> {
    if facts.convexity == Convexity::Convex {
        return Ok(Choice {
            solver: &NOISY_GD,
            plan: NOISY_GD.plan(facts, extra, budget, limits)?,
            reason: AutoReason::Convex,
        });
    }
    let mut best: Option<Choice> = None;
    for solver in SOLVERS.iter().copied() {
        if solver.auto != Auto::ByBound {
            continue;
        }
        let plan = match solver.plan(facts, extra, budget, limits) {
            Ok(plan) => plan,
            Err(PlanError::Vacuous { .. } | PlanError::Kinks) => continue,
            Err(error) => return Err(error),
        };
        // Of two with the same bound the later one.
        let better = best
            .as_ref()
            .is_none_or(|old| plan.predicted_bound() <= old.plan.predicted_bound());
        if better {
            best = Some(Choice {
                solver,
                plan,
                reason: AutoReason::LeastBound,
            });
        }
    }
    match best {
        Some(choice) => Ok(choice),
        None => Ok(Choice {
            solver: &NOISY_GD,
            plan: NOISY_GD.plan(facts, extra, budget, limits)?,
            reason: AutoReason::NoBoundHolds,
        }),
    }
}

/// The line of the `auto` rule that applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AutoReason {
    /// The loss is convex.
    Convex,
    /// This solver's bound is the smallest.
    LeastBound,
    /// No bound says anything at this size and budget.
    NoBoundHolds,
}

impl std::fmt::Display for AutoReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AutoReason::Convex => "the loss is convex, where noisy gradient descent with momentum works best",
            AutoReason::LeastBound => "its proven bound on the gradient norm is the smallest for these public facts",
            AutoReason::NoBoundHolds => {
                "no solver's proven bound says anything for these public facts, so the plan states none"
            }
        })
    }
}
