//! All solvers under one name, and the rule by which `auto` picks one.

use dpopt_oracle::Convexity;
use serde::{Deserialize, Serialize};

use crate::dp_adam::DpAdamPlan;
use crate::dp_sgd::DpSgdPlan;
use crate::facts::{Budget, PlanError, PublicFacts};
use crate::kl::{AdaptiveGdPlan, AdaptiveSettings};
use crate::noisy_gd::NoisyGdPlan;
use crate::normalized_spider::NormalizedSpiderPlan;
use crate::rank::PublicRank;
use crate::recursive::{ConvexFacts, RecursiveGdPlan, RecursiveSgdPlan};
use crate::sampled_spiderboost::SampledSpiderBoostPlan;
use crate::solver_plan::SolverPlan;
use crate::spiderboost::SpiderBoostPlan;
use crate::storm::StormPlan;
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
    /// [`SampledSpiderBoostPlan::new`].
    #[serde(rename = "sampled-spiderboost")]
    SampledSpiderBoost,
    /// [`NormalizedSpiderPlan::new`].
    NormalizedSpider,
    /// [`StormPlan::new`].
    Storm,
    /// [`TreeSpiderPlan`] for [`TreeTarget::Mean`].
    TreeSpider,
    /// [`RecursiveGdPlan::new`].
    RecursiveGd,
    /// [`RecursiveSgdPlan::new`].
    RecursiveSgd,
    /// [`AdaptiveGdPlan::new`] with its default settings.
    AdaptiveGd,
}

/// What some solvers need to be told beside the facts of the problem. Public, and **never computed from protected
/// records**; if it is wrong a stated bound may be, and no guarantee is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct ExtraFacts {
    /// R: a bound on the distance from the starting point to some minimiser of the population risk.
    pub radius: Option<f64>,
    /// A bound on the rank of the rows of a generalised linear problem.
    pub rank: Option<PublicRank>,
}

impl ExtraFacts {
    /// With this radius.
    #[must_use]
    pub fn with_radius(mut self, radius: f64) -> Self {
        self.radius = Some(radius);
        self
    }

    /// With this rank.
    #[must_use]
    pub fn with_rank(mut self, rank: PublicRank) -> Self {
        self.rank = Some(rank);
        self
    }
}

impl Solver {
    /// All solvers.
    pub const ALL: [Solver; 13] = [
        Solver::NoisyGd,
        Solver::NoisyGdTheory,
        Solver::DpSgd,
        Solver::DpSgdDecay,
        Solver::DpAdam,
        Solver::SpiderBoost,
        Solver::SampledSpiderBoost,
        Solver::NormalizedSpider,
        Solver::Storm,
        Solver::TreeSpider,
        Solver::RecursiveGd,
        Solver::RecursiveSgd,
        Solver::AdaptiveGd,
    ];

    /// The name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Solver::NoisyGd => "noisy-gd",
            Solver::NoisyGdTheory => "noisy-gd-theory",
            Solver::DpSgd => "dp-sgd",
            Solver::DpSgdDecay => "dp-sgd-decay",
            Solver::DpAdam => "dp-adam",
            Solver::SpiderBoost => "spiderboost",
            Solver::SampledSpiderBoost => "sampled-spiderboost",
            Solver::NormalizedSpider => "normalized-spider",
            Solver::Storm => "storm",
            Solver::TreeSpider => "tree-spider",
            Solver::RecursiveGd => "recursive-gd",
            Solver::RecursiveSgd => "recursive-sgd",
            Solver::AdaptiveGd => "adaptive-gd",
        }
    }

    /// The names of all solvers, with commas between them.
    #[must_use]
    pub fn names() -> String {
        Solver::ALL.map(Solver::name).join(", ")
    }

    /// Whether its plans state a bound on the gradient norm, where it says anything.
    #[must_use]
    pub fn states_a_bound(self) -> bool {
        !matches!(
            self,
            Solver::NoisyGd | Solver::DpSgd | Solver::DpSgdDecay | Solver::DpAdam
        )
    }

    /// Whether it needs [`ExtraFacts::radius`].
    #[must_use]
    pub fn needs_a_radius(self) -> bool {
        matches!(self, Solver::RecursiveGd | Solver::RecursiveSgd)
    }

    /// Whether its plans are better for a bound on the rank, without a projection.
    #[must_use]
    pub fn uses_a_rank(self) -> bool {
        matches!(self, Solver::SpiderBoost | Solver::NoisyGdTheory)
    }

    /// The solver's default plan; see [`Solver::plan_with`].
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(
        self,
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<SolverPlan, PlanError> {
        self.plan_with(facts, &ExtraFacts::default(), budget, max_steps)
    }

    /// As [`Solver::plan`], with a public bound on the rank, where there is one.
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
        let extra = ExtraFacts {
            rank,
            ..ExtraFacts::default()
        };
        self.plan_with(facts, &extra, budget, max_steps)
    }

    /// The solver's default plan, from all that is known. What a solver has no use for it does not read: see
    /// [`Solver::needs_a_radius`] and [`Solver::uses_a_rank`]. `max_steps` is for one stage where there are
    /// stages, and nothing to [`Solver::RecursiveSgd`], whose plan is one pass.
    ///
    /// # Errors
    /// [`PlanError`]; [`PlanError::RadiusMissing`] and [`PlanError::NotConvex`] for recursive regularisation.
    pub fn plan_with(
        self,
        facts: &PublicFacts,
        extra: &ExtraFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<SolverPlan, PlanError> {
        let convex = ConvexFacts {
            public: *facts,
            radius: extra.radius,
        };
        Ok(match (self, extra.rank) {
            (Solver::NoisyGd, _) => {
                SolverPlan::NoisyGd(NoisyGdPlan::momentum(facts, budget, max_steps)?)
            }
            (Solver::NoisyGdTheory, None) => {
                SolverPlan::NoisyGd(NoisyGdPlan::theory(facts, budget, max_steps)?)
            }
            (Solver::NoisyGdTheory, Some(rank)) => {
                SolverPlan::NoisyGd(NoisyGdPlan::within_rank(facts, budget, max_steps, rank)?)
            }
            (Solver::DpSgd, _) => SolverPlan::DpSgd(DpSgdPlan::new(facts, budget, max_steps)?),
            (Solver::DpSgdDecay, _) => {
                SolverPlan::DpSgd(DpSgdPlan::decaying(facts, budget, max_steps)?)
            }
            (Solver::DpAdam, _) => SolverPlan::DpAdam(DpAdamPlan::new(facts, budget, max_steps)?),
            (Solver::SpiderBoost, None) => {
                SolverPlan::SpiderBoost(SpiderBoostPlan::new(facts, budget, max_steps)?)
            }
            (Solver::SpiderBoost, Some(rank)) => SolverPlan::SpiderBoost(
                SpiderBoostPlan::within_rank(facts, budget, max_steps, rank)?,
            ),
            (Solver::SampledSpiderBoost, _) => SolverPlan::SampledSpiderBoost(
                SampledSpiderBoostPlan::new(facts, budget, max_steps)?,
            ),
            (Solver::NormalizedSpider, _) => {
                SolverPlan::NormalizedSpider(NormalizedSpiderPlan::new(facts, budget, max_steps)?)
            }
            (Solver::Storm, _) => SolverPlan::Storm(StormPlan::new(facts, budget, max_steps)?),
            (Solver::TreeSpider, _) => {
                let settings = TreeSettings::new(TreeTarget::Mean);
                SolverPlan::TreeSpider(TreeSpiderPlan::new(facts, budget, settings, max_steps)?)
            }
            (Solver::RecursiveGd, _) => {
                SolverPlan::RecursiveGd(RecursiveGdPlan::new(&convex, budget, max_steps)?)
            }
            (Solver::RecursiveSgd, _) => {
                SolverPlan::RecursiveSgd(RecursiveSgdPlan::new(&convex, budget)?)
            }
            (Solver::AdaptiveGd, _) => {
                let settings = AdaptiveSettings::new().with_max_steps(max_steps);
                SolverPlan::AdaptiveGd(AdaptiveGdPlan::new(facts, budget, settings)?)
            }
        })
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
        Self::auto_within(facts, None, budget, max_steps)
    }

    /// As [`Solver::auto`], with a public bound on the rank, where there is one: bounds are compared within it.
    ///
    /// # Errors
    /// [`PlanError`] when no solver has a plan.
    pub fn auto_within(
        facts: &PublicFacts,
        rank: Option<PublicRank>,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Choice, PlanError> {
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
            match solver.plan_within(facts, rank, budget, max_steps) {
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
        f.write_str(self.name())
    }
}

/// A name is not that of a solver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no solver is called `{0}`; known: {names}", names = Solver::names())]
pub struct UnknownSolver(pub String);

impl std::str::FromStr for Solver {
    type Err = UnknownSolver;
    fn from_str(name: &str) -> Result<Self, UnknownSolver> {
        Solver::ALL
            .into_iter()
            .find(|solver| solver.name() == name)
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
