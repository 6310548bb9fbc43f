//! All solvers, and the rule by which `auto` picks one.

use dpopt_oracle::Convexity;
use dpopt_solver::{
    Auto, Budget, ExtraFacts, LibraryPlan, Limits, Plan, PlanError, PublicFacts, Solver,
    UnknownSolver, find, names,
};
use serde::Serialize;

use crate::adaptive_batch::ADAPTIVE_BATCH;
use crate::descent::dp_adam::DP_ADAM;
use crate::descent::dp_mf::{DP_MF, DP_MF_SAMPLED};
use crate::descent::dp_sgd::{DP_SGD, DP_SGD_DECAY};
use crate::descent::dp_zo::DP_ZO;
use crate::descent::noisy_gd::{NOISY_GD, NOISY_GD_THEORY, NoisyGdPlan};
use crate::faithful::ADAPTIVE_BATCH_FAITHFUL;
use crate::goldstein::{
    GOLDSTEIN, GOLDSTEIN_ENVELOPE, GOLDSTEIN_PASS, GOLDSTEIN_RECURSIVE, GOLDSTEIN_SAMPLED,
    GOLDSTEIN_ZO, GOLDSTEIN_ZO_PASS, GOLDSTEIN_ZO_SAMPLED,
};
use crate::kl::{ADAPTIVE_GD, KL_SPIDER, PROXIMAL_POINT};
use crate::perturbed::{PERTURBED, PERTURBED_PASS};
use crate::recursive::{RECURSIVE_GD, RECURSIVE_SGD};
use crate::sosp::SOSP;
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
    &DP_MF,
    &DP_MF_SAMPLED,
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
    &GOLDSTEIN_ENVELOPE,
    &GOLDSTEIN_ZO_SAMPLED,
    &GOLDSTEIN_ZO_PASS,
    &DP_ZO,
    &SOSP,
    &ADAPTIVE_BATCH,
];

/// The solvers of this crate that are in the library only. What is asked of each of [`SOLVERS`] is asked of them too: a row of the page, audits, a
/// recorded stream.
pub static LIBRARY: &[&LibraryPlan] = &[&ADAPTIVE_BATCH_FAITHFUL, &PERTURBED, &PERTURBED_PASS];

/// The solver of this name.
///
/// # Errors
/// [`UnknownSolver`].
pub fn solver(name: &str) -> Result<&'static Solver, UnknownSolver> {
    find(SOLVERS, name)
}

/// Bounds of at most so many times the least one count as equally good where the cheapest plan is looked for. A choice.
const NEARLY: f64 = 1.25;
/// Multiply-adds of a run on all records, beyond which its horizon is cut: some seconds. A choice.
const WORK: f64 = 2e9;
/// Plain steps for each coordinate that a run on all records is given in any case. A choice (`docs/auto.md`).
const PLAIN_STEPS: f64 = 2000.0;

/// The names of the solvers that play this part, with commas between them.
#[must_use]
pub fn auto_names(part: Auto) -> String {
    let all = SOLVERS.iter().filter(|solver| solver.auto == part);
    let all: Vec<&Solver> = all.copied().collect();
    names(&all)
}

/// The steps of a run on all records that are worth their time: as many as [`WORK`] pays for, and in any case a horizon of
/// [`PLAIN_STEPS`] for each coordinate, in which the directions of an average table are learnt.
fn worth_their_time(facts: &PublicFacts, limits: &Limits) -> Limits {
    let pass = facts.records as f64 * facts.dim as f64;
    let least = NoisyGdPlan::steps_of(PLAIN_STEPS * facts.dim as f64);
    let most = (WORK / pass).ceil().max(least);
    Limits::steps(limits.max_steps.min(most as u64))
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
/// 0. Losses without a Lipschitz constant: [`DP_SGD`](crate::DP_SGD), in the units of [`ExtraFacts::typical`].
/// 1. Losses with kinks and a [Goldstein radius](ExtraFacts::goldstein_radius): of the solvers that take part at a radius, those whose
///    bound is at most 1.25 times the least, and of these the one with the fewest per-record gradients. Where all are vacuous
///    [`NOISY_GD`](crate::NOISY_GD), which states no bound.
/// 2. Otherwise, for convex losses and losses with kinks: [`NOISY_GD`](crate::NOISY_GD).
/// 3. Otherwise, of the solvers that take part by their bound, those whose bound on the gradient norm is at most 1.25 times the least,
///    within the rank that is known, if one is, and of these the one with the fewest per-record gradients.
/// 4. Where all are vacuous: [`NOISY_GD`](crate::NOISY_GD).
///
/// [`NOISY_GD`](crate::NOISY_GD) has at most the larger of 2e9/(n d) steps and those of a horizon of 2000 d plain ones.
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
    let fallback = |reason| -> Result<Choice, PlanError> {
        Ok(Choice {
            solver: &NOISY_GD,
            plan: NOISY_GD.plan(facts, extra, budget, &worth_their_time(facts, limits))?,
            reason,
        })
    };
    if facts.lipschitz.is_infinite() {
        return Ok(Choice {
            solver: &DP_SGD,
            plan: DP_SGD.plan(facts, extra, budget, limits)?,
            reason: AutoReason::NoConstants,
        });
    }
    let kinks = facts.smoothness.is_infinite();
    if kinks && extra.goldstein_radius.is_some() {
        let at_radius = cheapest(
            Auto::AtRadius,
            AutoReason::AtRadius,
            (facts, extra),
            (budget, limits),
        )?;
        return match at_radius {
            Some(choice) => Ok(choice),
            None => fallback(AutoReason::VacuousAtRadius),
        };
    }
    if facts.convexity == Convexity::Convex {
        return fallback(AutoReason::Convex);
    }
    if kinks {
        return fallback(AutoReason::Kinks);
    }
    match cheapest(
        Auto::ByBound,
        AutoReason::NearlyLeastBound,
        (facts, extra),
        (budget, limits),
    )? {
        Some(choice) => Ok(choice),
        None => fallback(AutoReason::NoBoundHolds),
    }
}

/// Of the plans whose bound says something and is nearly the least, the cheapest.
fn cheapest(
    part: Auto,
    reason: AutoReason,
    (facts, extra): (&PublicFacts, &ExtraFacts),
    (budget, limits): (&Budget, &Limits),
) -> Result<Option<Choice>, PlanError> {
    let mut found = Vec::new();
    for solver in SOLVERS.iter().copied() {
        if solver.auto != part {
            continue;
        }
        match solver.plan(facts, extra, budget, limits) {
            Ok(plan) => found.push(Choice {
                solver,
                plan,
                reason,
            }),
            Err(PlanError::Vacuous { .. } | PlanError::VacuousGoldstein { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let bound = |choice: &Choice| {
        let bound = choice.plan.bound();
        bound.map_or(f64::INFINITY, |bound| bound.value)
    };
    let least = found.iter().map(bound).fold(f64::INFINITY, f64::min);
    found.retain(|choice| bound(choice) <= NEARLY * least);
    Ok(found
        .into_iter()
        .min_by(|a, b| a.plan.gradients().total_cmp(&b.plan.gradients())))
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
    /// This solver is the cheapest of those whose bounds are nearly the least.
    NearlyLeastBound,
    /// The loss has kinks, and this solver is the cheapest of those whose bounds at the Goldstein radius are nearly the least.
    AtRadius,
    /// The loss has kinks, and no compared bound says anything at the Goldstein radius.
    VacuousAtRadius,
    /// The loss has kinks, and no Goldstein radius was given.
    Kinks,
    /// No bound says anything at this size and budget.
    NoBoundHolds,
    /// The loss has no Lipschitz constant.
    NoConstants,
}

impl std::fmt::Display for AutoReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AutoReason::Convex => "the loss is convex, where noisy gradient descent with momentum works best",
            AutoReason::LeastBound => "its proven bound on the gradient norm is the smallest for these public facts",
            AutoReason::NearlyLeastBound => {
                "of the plans whose proven bound on the gradient norm is within 1.25 times the least for these public facts it asks for the \
                 fewest gradients"
            }
            AutoReason::AtRadius => {
                "the loss has kinks, and of the plans whose proven bound at the Goldstein radius is within 1.25 times the least it asks for \
                 the fewest gradients"
            }
            AutoReason::Kinks => {
                "the loss has kinks, and no Goldstein radius was given at which something could be proven, so the plan states no bound"
            }
            AutoReason::NoConstants => {
                "the loss has no Lipschitz constant, so that no solver has a bound, and samples cost the fewest passes"
            }
            AutoReason::VacuousAtRadius => {
                let names = auto_names(Auto::AtRadius);
                return write!(
                    f,
                    "the loss has kinks, and no bound at this radius says anything ({names}), so the plan states none"
                );
            }
            AutoReason::NoBoundHolds => {
                let names = auto_names(Auto::ByBound);
                return write!(
                    f,
                    "no proven bound says anything for these public facts ({names}), so the plan states none"
                );
            }
        })
    }
}
