//! From public facts to a plan: a named solver's, or the one that the `auto` rule picks.

use dpopt::nonconvex::{AutoReason, Budget, PlanError, PublicFacts, Solver, SolverPlan};

use crate::args::SolverArg;

/// Default cap on the steps of solvers that state no bound: it bounds the running time.
const STEPS: u64 = 2_000;
/// Default cap on the steps of solvers with a bound: large, since a cut run has a worse bound.
const STEPS_WITH_BOUND: u64 = 100_000;

/// A planned solver.
pub(crate) struct Chosen {
    pub(crate) solver: Solver,
    pub(crate) plan: SolverPlan,
    /// The line of the public rule that picked it; none where the user named it.
    pub(crate) picked: Option<AutoReason>,
    /// Whether the walk starts at a checkpoint's point.
    pub(crate) resumed: bool,
}

impl Chosen {
    /// The proven bound; none for a walk from a checkpoint, since the gap that the bound starts
    /// from is known at the origin only.
    pub(crate) fn predicted_bound(&self) -> Option<f64> {
        let bound = self.plan.predicted_bound();
        bound.filter(|_| !self.resumed)
    }

    /// Why this solver.
    pub(crate) fn reason(&self) -> String {
        match self.picked {
            Some(reason) => format!("auto: {reason}"),
            None => "as asked for".to_owned(),
        }
    }
}

/// Plans. Only public facts come in, so nothing else can decide.
pub(crate) fn choose(
    solver: SolverArg,
    facts: &PublicFacts,
    budget: &Budget,
    max_steps: Option<u64>,
) -> Result<Chosen, PlanError> {
    match solver {
        SolverArg::Named(solver) => Ok(Chosen {
            solver,
            plan: solver.plan(facts, budget, max_steps.unwrap_or(default_cap(solver)))?,
            picked: None,
            resumed: false,
        }),
        SolverArg::Auto => {
            let choice = Solver::auto(facts, budget, max_steps.unwrap_or(STEPS_WITH_BOUND))?;
            let cap = max_steps.unwrap_or(default_cap(choice.solver));
            // The rule compares bounds at the large cap; a solver without one gets the small cap.
            let plan = if choice.plan.steps() > cap {
                choice.solver.plan(facts, budget, cap)?
            } else {
                choice.plan
            };
            Ok(Chosen {
                solver: choice.solver,
                plan,
                picked: Some(choice.reason),
                resumed: false,
            })
        }
    }
}

fn default_cap(solver: Solver) -> u64 {
    match solver {
        Solver::SpiderBoost | Solver::NoisyGdTheory | Solver::TreeSpider => STEPS_WITH_BOUND,
        _ => STEPS,
    }
}
