//! All solvers, and the rule by which `auto` picks one.

use dpopt_oracle::Convexity;
use dpopt_solver::{
    Auto, Budget, ExtraFacts, Limits, Plan, PlanError, PublicFacts, RemovedSolver, Solver,
    UnknownSolver, find, names,
};
use serde::Serialize;

use crate::adaptive_batch::ADAPTIVE_BATCH;
use crate::descent::dp_adam::DP_ADAM;
use crate::descent::dp_mf::{DP_MF, DP_MF_SAMPLED};
use crate::descent::dp_sgd::{DP_SGD, DP_SGD_DECAY};
use crate::descent::noisy_gd::{NOISY_GD, NOISY_GD_THEORY, NoisyGdPlan};
use crate::goldstein::{
    GOLDSTEIN, GOLDSTEIN_ENVELOPE, GOLDSTEIN_PASS, GOLDSTEIN_RECURSIVE, GOLDSTEIN_SAMPLED,
    GOLDSTEIN_ZO, GOLDSTEIN_ZO_PASS, GOLDSTEIN_ZO_SAMPLED,
};
use crate::kl::{ADAPTIVE_GD, KL_SPIDER, PROXIMAL_POINT};
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
    &SOSP,
    &ADAPTIVE_BATCH,
];

/// Solvers of version 0.1 that are no longer here.
pub static REMOVED: &[RemovedSolver] = &[RemovedSolver {
    name: "dp-zo",
    instead: "goldstein-zo-sampled, or dp-sgd where the loss has gradients",
}];

/// The solver of this name.
///
/// # Errors
/// [`UnknownSolver`].
pub fn solver(name: &str) -> Result<&'static Solver, UnknownSolver> {
    match REMOVED.iter().find(|removed| removed.name == name) {
        Some(removed) => Err(UnknownSolver::Removed(*removed)),
        None => find(SOLVERS, name),
    }
}

/// Bounds of at most so many times the least one count as equally good where the cheapest plan is looked for. A choice.
const NEARLY: f64 = 1.25;
/// Multiply-adds of a run without a bound, beyond which its horizon is cut: some seconds. A choice.
const WORK: f64 = 2e9;
/// Multiply-adds of a run with a bound, beyond which its plan is cut, and its bound is that of so many steps: some minutes. A choice.
const WORK_WITH_BOUND: f64 = 100.0 * WORK;
/// Plans that are made until one is short enough: each has a lower cap on the steps.
const TRIES: u32 = 20;
/// Plain steps for each coordinate that a run on all records is given in any case. A choice (`docs/solvers.md`).
const PLAIN_STEPS: f64 = 2000.0;

/// The names of the solvers that play this part, with commas between them.
#[must_use]
pub fn auto_names(part: Auto) -> String {
    let all = SOLVERS.iter().filter(|solver| solver.auto == part);
    let all: Vec<&Solver> = all.copied().collect();
    names(&all)
}

/// The passes over the records that are worth their time: as many as `work` pays for, and in any case a horizon of [`PLAIN_STEPS`] for
/// each coordinate, in which the directions of an average table are learnt.
fn worth_their_time(facts: &PublicFacts, work: f64) -> f64 {
    let pass = facts.records as f64 * facts.dim as f64;
    let least = NoisyGdPlan::steps_of(PLAIN_STEPS * facts.dim as f64);
    (work / pass).ceil().max(least)
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
/// Without `limits` those of [`Solver::usual_limits`] hold, and time is weighed: [`NOISY_GD`](crate::NOISY_GD) has at most the larger of
/// 2e9/(n d) steps and those of a horizon of 2000 d plain ones, and plans with a bound are cut to a hundred times 2e9/(n d) passes, or to
/// as many as that horizon has, before they are compared. `limits` are kept to as they are.
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
    limits: Option<&Limits>,
) -> Result<Choice, PlanError> {
    pick(facts, extra, budget, (limits, None))
}

/// As [`auto`] without limits, but in at most so many passes over the data, which take the place of what is worth its time. The plan of a
/// loss without a Lipschitz constant is as [`auto`] makes it.
///
/// # Errors
/// As [`auto`].
pub fn auto_in_passes(
    facts: &PublicFacts,
    extra: &ExtraFacts,
    budget: &Budget,
    passes: f64,
) -> Result<Choice, PlanError> {
    pick(facts, extra, budget, (None, Some(passes)))
}

/// Limits on the steps, and on the passes.
type Within<'a> = (Option<&'a Limits>, Option<f64>);

fn pick(
    facts: &PublicFacts,
    extra: &ExtraFacts,
    budget: &Budget,
    within: Within<'_>,
) -> Result<Choice, PlanError> {
    let (limits, passes) = within;
    let limits_of = |solver: &Solver| limits.copied().unwrap_or_else(|| solver.usual_limits());
    let fallback = |reason| -> Result<Choice, PlanError> {
        let mut most = limits_of(&NOISY_GD);
        if limits.is_none() {
            // Each step is a pass.
            let time = passes.unwrap_or_else(|| worth_their_time(facts, WORK));
            most = Limits::steps(most.max_steps.min(time as u64).max(1));
        }
        Ok(Choice {
            solver: &NOISY_GD,
            plan: NOISY_GD.plan(facts, extra, budget, &most)?,
            reason,
        })
    };
    if facts.lipschitz.is_infinite() {
        return Ok(Choice {
            solver: &DP_SGD,
            plan: DP_SGD.plan(facts, extra, budget, &limits_of(&DP_SGD))?,
            reason: AutoReason::NoConstants,
        });
    }
    let kinks = facts.smoothness.is_infinite();
    if kinks && extra.goldstein_radius.is_some() {
        let reasons = [AutoReason::AtRadius, AutoReason::AtRadiusInTime];
        return match cheapest(Auto::AtRadius, reasons, (facts, extra), (budget, within))? {
            Ok(choice) => Ok(choice),
            Err(false) => fallback(AutoReason::VacuousAtRadius),
            Err(true) => fallback(AutoReason::VacuousAtRadiusInTime),
        };
    }
    if facts.convexity == Convexity::Convex {
        return fallback(AutoReason::Convex);
    }
    if kinks {
        return fallback(AutoReason::Kinks);
    }
    let reasons = [AutoReason::NearlyLeastBound, AutoReason::NearlyLeastInTime];
    match cheapest(Auto::ByBound, reasons, (facts, extra), (budget, within))? {
        Ok(choice) => Ok(choice),
        Err(false) => fallback(AutoReason::NoBoundHolds),
        Err(true) => fallback(AutoReason::NoBoundInTime),
    }
}

/// A plan, and whether it was cut; or whether one was cut before it said nothing.
type Timed = Result<(Box<dyn Plan>, bool), bool>;

/// The plan of a solver with a bound that says something, in so many gradients at most.
fn in_time(
    solver: &Solver,
    (facts, extra, budget): (&PublicFacts, &ExtraFacts, &Budget),
    mut limits: Limits,
    most: f64,
) -> Result<Timed, PlanError> {
    let mut cut = false;
    for _ in 0..TRIES {
        let plan = match solver.plan(facts, extra, budget, &limits) {
            Ok(plan) => plan,
            Err(PlanError::Vacuous { .. } | PlanError::VacuousGoldstein { .. }) => {
                return Ok(Err(cut));
            }
            Err(error) => return Err(error),
        };
        let asked = plan.gradients();
        if asked <= most {
            return Ok(Ok((plan, cut)));
        }
        cut = true;
        // A planner may make each step dearer when it has fewer of them.
        let steps = plan.steps().min(limits.max_steps);
        let fewer = (steps as f64 * most / asked) as u64;
        if steps <= 1 {
            break;
        }
        limits = Limits::steps(fewer.clamp(1, steps - 1));
    }
    Ok(Err(cut))
}

/// Of the plans whose bound says something and is nearly the least, the cheapest; else whether one was cut. `reasons`: where none was cut,
/// and where one was.
fn cheapest(
    part: Auto,
    reasons: [AutoReason; 2],
    (facts, extra): (&PublicFacts, &ExtraFacts),
    (budget, (limits, passes)): (&Budget, Within<'_>),
) -> Result<Result<Choice, bool>, PlanError> {
    let most = match (limits, passes) {
        (Some(_), _) => f64::INFINITY,
        (None, Some(passes)) => facts.records as f64 * passes,
        (None, None) => facts.records as f64 * worth_their_time(facts, WORK_WITH_BOUND),
    };
    let [reason, _] = reasons;
    let (mut found, mut any_cut) = (Vec::new(), false);
    for solver in SOLVERS.iter().copied().filter(|of| of.auto == part) {
        let limits = limits.copied().unwrap_or_else(|| solver.usual_limits());
        match in_time(solver, (facts, extra, budget), limits, most)? {
            Ok((plan, cut)) => {
                any_cut |= cut;
                found.push(Choice {
                    solver,
                    plan,
                    reason,
                });
            }
            Err(cut) => any_cut |= cut,
        }
    }
    let bound = |choice: &Choice| {
        let bound = choice.plan.bound();
        bound.map_or(f64::INFINITY, |bound| bound.value)
    };
    let least = found.iter().map(bound).fold(f64::INFINITY, f64::min);
    found.retain(|choice| bound(choice) <= NEARLY * least);
    let least = found
        .into_iter()
        .min_by(|a, b| a.plan.gradients().total_cmp(&b.plan.gradients()));
    let [_, in_time] = reasons;
    Ok(least
        .map(|choice| match any_cut {
            true => Choice {
                reason: in_time,
                ..choice
            },
            false => choice,
        })
        .ok_or(any_cut))
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
    /// As [`NearlyLeastBound`](Self::NearlyLeastBound), and plans were cut to what is worth its time.
    NearlyLeastInTime,
    /// As [`AtRadius`](Self::AtRadius), and plans were cut to what is worth its time.
    AtRadiusInTime,
    /// As [`VacuousAtRadius`](Self::VacuousAtRadius), and plans were cut to what is worth its time.
    VacuousAtRadiusInTime,
    /// As [`NoBoundHolds`](Self::NoBoundHolds), and plans were cut to what is worth its time.
    NoBoundInTime,
    /// The loss has no Lipschitz constant.
    NoConstants,
}

impl AutoReason {
    /// The same line where no plan was cut, if this is of one where plans were.
    fn with_all_time(self) -> Option<Self> {
        Some(match self {
            AutoReason::NearlyLeastInTime => AutoReason::NearlyLeastBound,
            AutoReason::AtRadiusInTime => AutoReason::AtRadius,
            AutoReason::VacuousAtRadiusInTime => AutoReason::VacuousAtRadius,
            AutoReason::NoBoundInTime => AutoReason::NoBoundHolds,
            _ => return None,
        })
    }
}

impl std::fmt::Display for AutoReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(reason) = self.with_all_time() {
            return write!(
                f,
                "{reason}; plans beyond a limit on time or passes were cut to it before they were compared (a number of steps that is asked for lifts it)"
            );
        }
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
            // Of these above.
            AutoReason::NearlyLeastInTime
            | AutoReason::AtRadiusInTime
            | AutoReason::VacuousAtRadiusInTime
            | AutoReason::NoBoundInTime => "",
        })
    }
}
