//! All solvers under one name, and the rule by which `auto` picks one.

use dpopt_oracle::{Access, Convexity, Estimator};
use dpopt_privacy::Spend;
use serde::{Deserialize, Serialize};

use crate::dp_adam::DpAdamPlan;
use crate::dp_sgd::DpSgdPlan;
use crate::facts::{Budget, PlanError, PublicFacts};
use crate::kl::KlSpiderPlan;
use crate::noisy_gd::NoisyGdPlan;
use crate::rank::PublicRank;
use crate::run::{Observer, Outcome, RunError};
use crate::spiderboost::SpiderBoostPlan;
use crate::tree_spider::{TreeSettings, TreeSpiderPlan, TreeTarget};

/// A solver by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Solver {
    /// [`NoisyGdPlan::momentum`].
    NoisyGd,
    /// [`NoisyGdPlan::theory`].
    NoisyGdTheory,
    /// [`DpSgdPlan::new`].
    DpSgd,
    /// [`DpSgdPlan::decaying`].
    DpSgdDecay,
    /// [`DpAdamPlan::new`].
    DpAdam,
    /// [`SpiderBoostPlan::new`].
    #[serde(rename = "spiderboost")]
    SpiderBoost,
    /// [`TreeSpiderPlan`] for [`TreeTarget::Mean`].
    TreeSpider,
}

impl Solver {
    /// All solvers.
    pub const ALL: [Solver; 7] = [
        Solver::NoisyGd,
        Solver::NoisyGdTheory,
        Solver::DpSgd,
        Solver::DpSgdDecay,
        Solver::DpAdam,
        Solver::SpiderBoost,
        Solver::TreeSpider,
    ];

    /// The solver's default plan.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(
        self,
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<SolverPlan, PlanError> {
        Ok(match self {
            Solver::NoisyGd => {
                SolverPlan::NoisyGd(NoisyGdPlan::momentum(facts, budget, max_steps)?)
            }
            Solver::NoisyGdTheory => {
                SolverPlan::NoisyGd(NoisyGdPlan::theory(facts, budget, max_steps)?)
            }
            Solver::DpSgd => SolverPlan::DpSgd(DpSgdPlan::new(facts, budget, max_steps)?),
            Solver::DpSgdDecay => SolverPlan::DpSgd(DpSgdPlan::decaying(facts, budget, max_steps)?),
            Solver::DpAdam => SolverPlan::DpAdam(DpAdamPlan::new(facts, budget, max_steps)?),
            Solver::SpiderBoost => {
                SolverPlan::SpiderBoost(SpiderBoostPlan::new(facts, budget, max_steps)?)
            }
            Solver::TreeSpider => {
                let settings = TreeSettings::new(TreeTarget::Mean);
                SolverPlan::TreeSpider(TreeSpiderPlan::new(facts, budget, settings, max_steps)?)
            }
        })
    }

    /// As [`Solver::plan`], with a public bound on the rank of a generalised linear problem. Solvers that
    /// state no bound do not use it.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan_within(
        self,
        facts: &PublicFacts,
        rank: Option<PublicRank>,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<SolverPlan, PlanError> {
        match (self, rank) {
            (Solver::NoisyGdTheory, Some(rank)) => {
                NoisyGdPlan::within_rank(facts, budget, max_steps, rank).map(SolverPlan::NoisyGd)
            }
            (Solver::SpiderBoost, Some(rank)) => {
                SpiderBoostPlan::within_rank(facts, budget, max_steps, rank)
                    .map(SolverPlan::SpiderBoost)
            }
            _ => self.plan(facts, budget, max_steps),
        }
    }

    /// Picks a solver by a public rule and plans it.
    ///
    /// # Formula
    /// 1. Convex losses: [`Solver::NoisyGd`].
    /// 2. Otherwise, of [`Solver::SpiderBoost`] and [`Solver::NoisyGdTheory`], the one whose plan
    ///    has the smaller bound on the gradient norm.
    /// 3. Where both are vacuous: [`Solver::NoisyGd`], which states no bound.
    ///
    /// # Privacy
    /// The rule reads public facts only.
    ///
    /// # Errors
    /// [`PlanError`] when no solver has a plan.
    pub fn auto(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Choice, PlanError> {
        let choose = |solver: Solver, plan, reason| Choice {
            solver,
            plan,
            reason,
        };
        if facts.convexity == Convexity::Convex {
            let plan = Solver::NoisyGd.plan(facts, budget, max_steps)?;
            return Ok(choose(Solver::NoisyGd, plan, AutoReason::Convex));
        }
        let mut best: Option<(Solver, SolverPlan)> = None;
        for solver in [Solver::SpiderBoost, Solver::NoisyGdTheory] {
            match solver.plan(facts, budget, max_steps) {
                Ok(plan) => {
                    let better = best
                        .as_ref()
                        .is_none_or(|(_, old)| plan.predicted_bound() < old.predicted_bound());
                    if better {
                        best = Some((solver, plan));
                    }
                }
                Err(PlanError::Vacuous { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        match best {
            Some((solver, plan)) => Ok(choose(solver, plan, AutoReason::LeastBound)),
            None => {
                let plan = Solver::NoisyGd.plan(facts, budget, max_steps)?;
                Ok(choose(Solver::NoisyGd, plan, AutoReason::NoBoundHolds))
            }
        }
    }
}

impl std::fmt::Display for Solver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Solver::NoisyGd => "noisy-gd",
            Solver::NoisyGdTheory => "noisy-gd-theory",
            Solver::DpSgd => "dp-sgd",
            Solver::DpSgdDecay => "dp-sgd-decay",
            Solver::DpAdam => "dp-adam",
            Solver::SpiderBoost => "spiderboost",
            Solver::TreeSpider => "tree-spider",
        })
    }
}

/// A name is not that of a solver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no solver is called `{0}`; known: noisy-gd, noisy-gd-theory, dp-sgd, dp-sgd-decay, dp-adam, spiderboost, tree-spider"
)]
pub struct UnknownSolver(pub String);

impl std::str::FromStr for Solver {
    type Err = UnknownSolver;
    fn from_str(name: &str) -> Result<Self, UnknownSolver> {
        Solver::ALL
            .into_iter()
            .find(|solver| solver.to_string() == name)
            .ok_or_else(|| UnknownSolver(name.to_owned()))
    }
}

/// What [`Solver::auto`] picked, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Choice {
    /// The solver.
    pub solver: Solver,
    /// Its plan.
    pub plan: SolverPlan,
    /// The line of the rule that applied.
    pub reason: AutoReason,
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

/// A plan of any solver.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SolverPlan {
    /// Noisy gradient descent.
    NoisyGd(NoisyGdPlan),
    /// DP-SGD.
    DpSgd(DpSgdPlan),
    /// DP-Adam.
    DpAdam(DpAdamPlan),
    /// Private SpiderBoost.
    SpiderBoost(SpiderBoostPlan),
    /// Tree-based private SPIDER, which runs on an estimator of its own: [`TreeSpiderPlan::estimator`].
    TreeSpider(TreeSpiderPlan),
    /// KL Spider. No [`Solver`] names it: its plan needs a KL condition, which no table of data has.
    KlSpider(KlSpiderPlan),
}

impl SolverPlan {
    /// Number of steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        match self {
            SolverPlan::NoisyGd(plan) => plan.steps,
            SolverPlan::DpSgd(plan) => plan.steps,
            SolverPlan::DpAdam(plan) => plan.releases.steps,
            SolverPlan::KlSpider(plan) => plan.steps(),
            SolverPlan::SpiderBoost(plan) => plan.steps,
            SolverPlan::TreeSpider(plan) => plan.steps(),
        }
    }

    /// What it will spend.
    #[must_use]
    pub fn spend(&self) -> Spend {
        match self {
            SolverPlan::NoisyGd(plan) => plan.spend(),
            SolverPlan::DpSgd(plan) => plan.spend(),
            SolverPlan::DpAdam(plan) => plan.spend(),
            SolverPlan::KlSpider(plan) => plan.spend(),
            SolverPlan::SpiderBoost(plan) => plan.spend(),
            SolverPlan::TreeSpider(plan) => plan.spend(),
        }
    }

    /// The per-record clip radius at which the estimator must be set.
    #[must_use]
    pub fn clip(&self) -> f64 {
        match self {
            SolverPlan::NoisyGd(plan) => plan.clip,
            SolverPlan::DpSgd(plan) => plan.clip,
            SolverPlan::DpAdam(plan) => plan.releases.clip,
            SolverPlan::KlSpider(plan) => plan.clip,
            SolverPlan::SpiderBoost(plan) => plan.clip,
            SolverPlan::TreeSpider(plan) => plan.clip,
        }
    }

    /// The access at which the estimator must be set.
    #[must_use]
    pub fn access(&self) -> Access {
        match self {
            SolverPlan::DpSgd(plan) => Access::Poisson(plan.sampling_rate),
            SolverPlan::TreeSpider(plan) => plan.access(),
            SolverPlan::DpAdam(plan) => Access::Poisson(plan.releases.sampling_rate),
            _ => Access::FullBatch,
        }
    }

    /// The proven bound on the gradient norm, where there is one.
    #[must_use]
    pub fn predicted_bound(&self) -> Option<f64> {
        match self {
            SolverPlan::NoisyGd(plan) => plan.predicted_bound,
            SolverPlan::DpSgd(_) | SolverPlan::DpAdam(_) => None,
            // It bounds the excess risk instead: KlSpiderPlan::excess_bound.
            SolverPlan::KlSpider(_) => None,
            SolverPlan::SpiderBoost(plan) => plan.predicted_bound,
            SolverPlan::TreeSpider(plan) => plan.predicted_bound,
        }
    }

    /// Nominal number of per-record gradients.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        match self {
            SolverPlan::NoisyGd(plan) => plan.gradients(),
            SolverPlan::DpSgd(plan) => plan.gradients(),
            SolverPlan::DpAdam(plan) => plan.gradients(),
            SolverPlan::KlSpider(plan) => plan.gradients(),
            SolverPlan::SpiderBoost(plan) => plan.gradients(),
            SolverPlan::TreeSpider(plan) => plan.gradients(),
        }
    }

    /// The facts it was made from.
    #[must_use]
    pub fn facts(&self) -> &PublicFacts {
        match self {
            SolverPlan::NoisyGd(plan) => &plan.facts,
            SolverPlan::DpSgd(plan) => &plan.facts,
            SolverPlan::DpAdam(plan) => &plan.releases.facts,
            SolverPlan::KlSpider(plan) => &plan.facts,
            SolverPlan::SpiderBoost(plan) => &plan.facts,
            SolverPlan::TreeSpider(plan) => &plan.facts,
        }
    }

    /// Runs the plan; see the plan's own `run`.
    ///
    /// # Errors
    /// [`RunError`]; [`RunError::OwnEstimator`] for a tree, before anything is reserved.
    pub fn run(
        &self,
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        match self {
            SolverPlan::NoisyGd(plan) => plan.run(estimator, observer),
            SolverPlan::DpSgd(plan) => plan.run(estimator, observer),
            SolverPlan::DpAdam(plan) => plan.run(estimator, observer),
            SolverPlan::KlSpider(plan) => plan.run(estimator, observer),
            SolverPlan::SpiderBoost(plan) => plan.run(estimator, observer),
            SolverPlan::TreeSpider(_) => Err(own_estimator()),
        }
    }

    /// Runs the plan from a public point; see the plan's own `run_from`.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_from(
        &self,
        start: &[f64],
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        match self {
            SolverPlan::NoisyGd(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::DpSgd(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::DpAdam(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::KlSpider(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::SpiderBoost(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::TreeSpider(_) => Err(own_estimator()),
        }
    }
}

fn own_estimator() -> RunError {
    RunError::OwnEstimator {
        solver: "tree-spider",
    }
}
