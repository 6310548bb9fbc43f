//! What an entry of the list of solvers holds.

use dpopt_solver::{BoundSense, BoundedQuantity, Budget, Plan, PlanError};

use crate::allowance::Allowance;
use crate::facts::SaddleFacts;

/// A solver of saddle problems: how it is called, what it is for, and how it is planned.
#[derive(Debug, Clone, Copy)]
pub struct SaddleSolver {
    /// The name, as on the command line and in files.
    pub name: &'static str,
    /// For what it is, in a few words.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// On what its plans state a bound and in which sense, where the bound says anything; none: they never do.
    pub bound: Option<(BoundedQuantity, BoundSense)>,
    /// Whether it reads records at fixed positions, in slices: refused under add-remove.
    pub positions: bool,
    /// The page of its proof, below `docs/`.
    pub theory_page: Option<&'static str>,
    /// The page of what its privacy rests on, below `docs/`.
    pub privacy_page: &'static str,
    /// Plans.
    pub planner: SaddlePlanner,
}

impl PartialEq for SaddleSolver {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SaddleSolver {}

impl std::fmt::Display for SaddleSolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A plan, or why there is none.
pub type SaddlePlanned = Result<Box<dyn Plan>, PlanError>;

/// From facts, what may be spent, and limits to a plan.
#[derive(Debug, Clone, Copy)]
pub enum SaddlePlanner {
    /// Of a run that is Gaussian-DP: what is paid beside it leaves a budget of its own.
    Gaussian(fn(&SaddleFacts, &Budget, &SaddleLimits) -> SaddlePlanned),
    /// Of a run on samples, whose noise is calibrated for the composition with what is paid beside it.
    Sampled(fn(&SaddleFacts, &Allowance, &SaddleLimits) -> SaddlePlanned),
}

impl SaddleSolver {
    /// Plans for the whole of a budget.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(
        &self,
        facts: &SaddleFacts,
        budget: &Budget,
        limits: &SaddleLimits,
    ) -> SaddlePlanned {
        self.plan_within(facts, &Allowance::all(budget), limits)
    }

    /// Plans for what other releases leave of a budget.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan_within(
        &self,
        facts: &SaddleFacts,
        allowance: &Allowance,
        limits: &SaddleLimits,
    ) -> SaddlePlanned {
        match self.planner {
            SaddlePlanner::Gaussian(plan) => plan(facts, &allowance.gaussian()?, limits),
            SaddlePlanner::Sampled(plan) => plan(facts, allowance, limits),
        }
    }
}

/// What bounds a plan, and what is asked of it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SaddleLimits {
    /// Most releases.
    pub max_steps: u64,
    /// p: the probability with which a bound may fail.
    pub failure: f64,
    /// How far noise may take a coordinate of x in a run, for solvers that state no bound; none: by the curvature alone.
    pub reach: Option<f64>,
    /// The number of releases of `gda` and `sgda`, where it was fixed before the facts were all known; none: by their rules.
    pub exact_steps: Option<u64>,
}

impl SaddleLimits {
    /// At most so many releases, and bounds that fail with probability 0.05.
    #[must_use]
    pub fn steps(max_steps: u64) -> Self {
        Self {
            max_steps,
            failure: 0.05,
            reach: None,
            exact_steps: None,
        }
    }

    /// As [`SaddleLimits::steps`], for linear scores of rows of at most this norm: noise may move a logit by as much as in `noisy-gd`, 1.5.
    /// Tuned there.
    #[must_use]
    pub fn of_score(max_steps: u64, row_norm: f64) -> Self {
        Self {
            reach: Some(LOGIT_NOISE / row_norm),
            ..Self::steps(max_steps)
        }
    }
}

/// Logits that noise may move.
const LOGIT_NOISE: f64 = 1.5;
