//! Tree-based private SPIDER for population risk, in one pass over the records.
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah, "Faster Rates of Convergence to Stationary
//! Points in Differentially Private Optimization" (arXiv 2206.00846), Algorithm 2 and Theorems 3
//! and 4, planned: the printed threshold is met by every gradient (`docs/theory/faster-rates.md`).

mod schedule;
mod search;
mod settings;
mod walk;

use dpopt_oracle::{EstimatorError, Schedule, TreeRounds};
use dpopt_privacy::{ClipNorm, NoiseMultiplier};
use dpopt_solver::{
    Access, Auto, BoundSense, BoundedQuantity, Budget, Item, Needs, OutputRule, Plan, PlanError,
    PublicFacts, RunError, Solver, Stop, Terms, Unit, Value, Walk,
};

use search::{Candidate, Search};
use walk::TreeWalk;

pub use schedule::TreeSpiderSchedule;
pub use settings::{TreeNoise, TreeSettings, TreeTarget};

const SOLVER: &str = "tree-spider";
/// Tree-based private SPIDER, for [`TreeTarget::Mean`].
pub static TREE_SPIDER: Solver = Solver {
    name: SOLVER,
    summary: "smooth losses, in one pass",
    paper: "Arora et al. 2022 (arXiv 2206.00846), Algorithm 2",
    needs: Needs {
        positions: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::PopulationMean)),
    auto: Auto::Never("its bound is on the population, for records in a random order"),
    theory_page: Some("theory/faster-rates.md#tree-based-spider"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, _, budget, limits| {
        let settings = TreeSettings::new(TreeTarget::Mean);
        let plan = TreeSpiderPlan::new(facts, budget, settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};

/// A plan for tree-based private SPIDER.
///
/// # Formula
/// T rounds of 2^D leaves, each leaf a step of length P/(2^D L1) against the estimate there. The root of a
/// round is a fresh mean gradient over b unread records; a right child at depth j adds the mean change from its
/// parent's point over m_j = max(1, floor(b/2^j)) unread records; a left child is its parent. The step after the last
/// leaf leads to the root of the next round. With the sums over the integer batches,
/// S = L0^2/b + P^2 sum_j 4^-j/m_j and N = L0^2/b^2 + P^2 sum_j 4^-j/m_j^2, s the sensitivity of a sum:
///
/// - [`TreeTarget::HighProbability`]: alpha = max of (s/mu) sqrt(N) (sqrt d + sqrt(2 l)) + sqrt(8 S l),
///   l = ln(4 T 2^D/p), and L1 F0/(T P) + P/2^(D+1). The walk stops at an estimate of norm at most 2 alpha, and
///   ||grad F(w)|| <= 3 alpha there;
/// - [`TreeTarget::Heuristic`]: the same with the first term replaced by safety sqrt(S + d s^2 N/mu^2);
/// - [`TreeTarget::Mean`]: E||grad F(w)|| <= L1 F0/(T P) + P/2^(D+1) + 2 sqrt(S' + d s^2 N'/mu^2), S' and N' with half of
///   the sums.
///
/// The planner minimises the bound over T, D, b and P. F is the **population** risk: the records are a sample.
///
/// # Privacy
/// Every record is read by one release, of noise multiplier 1/mu: parallel composition, exactly mu-GDP. Needs
/// fixed positions, so not under add/remove.
///
/// # Complexity
/// At most n records and 2 n gradients; memory O(D d).
#[derive(Debug, Clone, PartialEq)]
pub struct TreeSpiderPlan {
    terms: Terms,
    settings: TreeSettings,
    schedule: TreeSpiderSchedule,
    aim: Option<f64>,
}

impl TreeSpiderPlan {
    /// The plan with the least bound among those of at most `max_leaves` leaves.
    ///
    /// # Errors
    /// [`PlanError::NeedsPositions`] under add/remove; [`PlanError::TooFewRecords`] when the records are not enough
    /// for one round of the depth asked for; [`PlanError::Vacuous`] when the bound is not below
    /// min(L0, sqrt(2 L1 F0)), unless asked for.
    pub fn new(
        facts: &PublicFacts,
        budget: &Budget,
        settings: TreeSettings,
        max_leaves: u64,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        settings.check()?;
        PlanError::positions(SOLVER, (facts.adjacency, facts.records), |adjacency| {
            let fixed = PublicFacts {
                adjacency,
                ..*facts
            };
            let plan = Self::new(&fixed, budget, settings, max_leaves).ok()?;
            Some(plan.steps())
        })?;
        let depth = settings.depth.unwrap_or(0);
        let needed = search::records_per_round(1 << depth, depth);
        if needed > facts.records {
            return Err(PlanError::TooFewRecords {
                solver: SOLVER,
                records: facts.records,
                needed,
            });
        }
        let mu = budget.mu()?.get();
        let search = Search {
            facts,
            settings: &settings,
            mu,
            max_leaves: max_leaves.max(1 << depth),
        };
        let none = || facts.vacuous(SOLVER, f64::INFINITY, mu);
        let best = search.best().ok_or_else(none)?;
        if !settings.even_if_vacuous {
            facts.useful(SOLVER, best.bound, mu)?;
        }
        Self::build(facts, budget, settings, mu, &best)
    }

    fn build(
        facts: &PublicFacts,
        budget: &Budget,
        settings: TreeSettings,
        mu: f64,
        best: &Candidate,
    ) -> Result<Self, PlanError> {
        let (threshold, proven, output) = match settings.target {
            TreeTarget::Mean => (None, true, OutputRule::Uniform),
            TreeTarget::HighProbability { .. } => (
                Some(2.0 * best.accuracy),
                true,
                OutputRule::SmallestReleasedNorm,
            ),
            TreeTarget::Heuristic { .. } => (
                Some(2.0 * best.accuracy),
                false,
                OutputRule::SmallestReleasedNorm,
            ),
        };
        let schedule = TreeSpiderSchedule {
            rounds: best.rounds,
            depth: best.depth,
            batches: (0..=best.depth)
                .map(|j| search::batch(best.root_batch, j))
                .collect(),
            reach: best.reach,
            step_length: best.reach / (1u64 << best.depth) as f64 / facts.smoothness,
            threshold,
            clip: facts.lipschitz,
            noise_multiplier: NoiseMultiplier::new(1.0 / mu)?,
            output,
        };
        let plan = Self::by_hand(facts, budget, settings, schedule);
        Ok(Self {
            terms: plan.terms.stating(proven.then_some(best.bound)),
            aim: Some(best.bound),
            ..plan
        })
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(
        facts: &PublicFacts,
        budget: &Budget,
        settings: TreeSettings,
        schedule: TreeSpiderSchedule,
    ) -> Self {
        let spend = schedule
            .levels()
            .into_iter()
            .fold(Schedule::new(facts.records), |all, level| {
                all.releases(level, 1)
            })
            .spend();
        let root = schedule.batches.first().copied().unwrap_or(0);
        // At most: two for each record of a right child.
        let gradients =
            (2.0 * schedule.records_per_round() as f64 - root as f64) * schedule.rounds as f64;
        // b unread records for a root and, of the children, at most m_1.
        let access = Access::SinglePass {
            anchor: root,
            variation: schedule.batches.get(1).copied().unwrap_or(root),
        };
        let sense = match settings.target {
            TreeTarget::Mean => BoundSense::PopulationMean,
            _ => BoundSense::PopulationWithProbability,
        };
        Self {
            terms: Terms::new(facts, budget, schedule.steps(), spend)
                .with_gradients(gradients)
                .with_clip(schedule.clip)
                .with_access(access)
                .with_unread(schedule.records_per_round().saturating_mul(schedule.rounds))
                .with_output(schedule.output)
                .bounding(BoundedQuantity::GradientNorm, sense),
            settings,
            schedule,
            aim: None,
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &TreeSpiderSchedule {
        &self.schedule
    }

    /// How it was planned.
    #[must_use]
    pub fn settings(&self) -> &TreeSettings {
        &self.settings
    }

    /// What the plan aims at: the bound, be it proven or not; none for a plan by hand.
    #[must_use]
    pub fn aim(&self) -> Option<f64> {
        self.aim
    }

    /// The estimate that the plan walks on.
    ///
    /// # Errors
    /// [`EstimatorError`] for a schedule by hand that makes no tree.
    pub fn estimate(&self) -> Result<TreeRounds, EstimatorError> {
        let schedule = &self.schedule;
        let clip = ClipNorm::new(schedule.clip)?;
        let rounds = TreeRounds::new(self.facts().dim, clip, schedule.levels())?;
        match self.settings.noise {
            TreeNoise::Actual => Ok(rounds),
            TreeNoise::Path => {
                let radius = |j: usize| {
                    let path = schedule.reach * 0.5f64.powi(j as i32);
                    // The points are rounded: a little more than the path, lest a change be clipped.
                    ClipNorm::new((path * (1.0 + 1e-9)).min(2.0 * schedule.clip))
                };
                let radii: Result<Vec<_>, _> = (1..schedule.batches.len()).map(radius).collect();
                Ok(rounds.with_radii(radii?))
            }
        }
    }
}

impl Plan for TreeSpiderPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        vec![
            Item::plain("settings", Value::Group(self.settings.items())),
            Item::count("rounds", schedule.rounds),
            Item::count("depth", u64::from(schedule.depth)),
            Item::plain("batches", Value::Counts(schedule.batches.clone())),
            Item::number("reach", schedule.reach, Unit::GRADIENT),
            Item::number("step_length", schedule.step_length, Unit::LENGTH),
            Item::maybe("threshold", schedule.threshold, Unit::GRADIENT),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::maybe("aim", self.aim, Unit::GRADIENT),
            Item::word("output", schedule.output),
        ]
    }

    fn walk(&self, _: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(TreeWalk {
            schedule: &self.schedule,
            estimate: self.estimate()?,
        }))
    }

    /// In the mean over all leaves: all of them, and one drawn. With probability 1 - p: a walk that stopped at an
    /// estimate as short as planned, since the event of the proof makes it stop.
    fn bound_covers(&self, stop: Stop) -> bool {
        match self.settings.target {
            TreeTarget::Mean => stop == Stop::Completed,
            _ => stop == Stop::SmallEstimate,
        }
    }

    /// Each record is read once: the run costs what its first release does.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}
