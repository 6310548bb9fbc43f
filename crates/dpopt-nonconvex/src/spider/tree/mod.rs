//! Tree-based private SPIDER for population risk, in one pass over the records.
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah, "Faster Rates of Convergence to Stationary
//! Points in Differentially Private Optimization" (arXiv 2206.00846), Algorithm 2 and Theorems 3
//! and 4, planned: the printed threshold is met by every gradient (`docs/theory/tree-spider.md`).

mod search;
mod walk;

use dpopt_oracle::{Batch, EstimatorError, Level, Schedule, TreeRounds};
use dpopt_privacy::{Adjacency, ClipNorm, NoiseMultiplier};
use dpopt_solver::{
    Access, Auto, BoundSense, BoundedQuantity, Budget, Item, Needs, OutputRule, Plan, PlanError,
    PublicFacts, RunError, Solver, Stop, Terms, Unit, Value, Walk,
};
use serde::Serialize;

use search::{Candidate, Search};
use walk::TreeWalk;

/// Deepest tree that is planned.
pub(crate) const MAX_DEPTH: u32 = 30;
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
    auto: Auto::Never,
    theory_page: Some("theory/tree-spider.md"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, _, budget, limits| {
        let settings = TreeSettings::new(TreeTarget::Mean);
        let plan = TreeSpiderPlan::new(facts, budget, settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};

/// What a plan makes small, and in which sense.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "target", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TreeTarget {
    /// The mean of the gradient norm at a leaf drawn uniformly; all leaves are walked. Proven.
    Mean,
    /// The gradient norm at the leaf where the walk stops, with probability 1 - p, jointly over
    /// records and noise. Proven.
    HighProbability {
        /// p.
        failure: f64,
    },
    /// The same with errors of estimates taken to be at most `safety` times their root mean square: a rule of
    /// thumb, for which no bound is stated; 1.5 is usual.
    Heuristic {
        /// s.
        safety: f64,
    },
}

/// To what the noise of a right child is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TreeNoise {
    /// The actual distance from its parent, at most that of the path.
    #[default]
    Actual,
    /// The length P 2^-j/L1 of the path from its parent, known before the run: then the noise of a leaf is
    /// exactly normal with a variance that the plan knows.
    Path,
}

/// How a tree is planned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TreeSettings {
    /// What is made small.
    #[serde(flatten)]
    pub target: TreeTarget,
    /// To what noise is scaled.
    pub noise: TreeNoise,
    /// Depth D; none: planned. 0 is the baseline without a tree.
    pub depth: Option<u32>,
    /// Plans also where the bound says no more than the starting point already does.
    pub even_if_vacuous: bool,
}

impl TreeSettings {
    /// For this target: noise by the actual distance, depth planned.
    #[must_use]
    pub fn new(target: TreeTarget) -> Self {
        Self {
            target,
            noise: TreeNoise::Actual,
            depth: None,
            even_if_vacuous: false,
        }
    }

    /// With this noise.
    #[must_use]
    pub fn with_noise(mut self, noise: TreeNoise) -> Self {
        self.noise = noise;
        self
    }

    /// With this depth.
    #[must_use]
    pub fn with_depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Also where the bound is vacuous.
    #[must_use]
    pub fn even_if_vacuous(mut self) -> Self {
        self.even_if_vacuous = true;
        self
    }

    fn items(&self) -> Vec<Item<'static>> {
        let mut items = match self.target {
            TreeTarget::Mean => vec![Item::word("target", "mean")],
            TreeTarget::HighProbability { failure } => vec![
                Item::word("target", "high-probability"),
                Item::ratio("failure", failure),
            ],
            TreeTarget::Heuristic { safety } => vec![
                Item::word("target", "heuristic"),
                Item::ratio("safety", safety),
            ],
        };
        items.extend([
            Item::word(
                "noise",
                match self.noise {
                    TreeNoise::Actual => "actual",
                    TreeNoise::Path => "path",
                },
            ),
            match self.depth {
                Some(depth) => Item::count("depth", u64::from(depth)),
                None => Item::maybe("depth", None, Unit::NONE),
            },
            Item::plain("even_if_vacuous", Value::Flag(self.even_if_vacuous)),
        ]);
        items
    }

    fn check(&self) -> Result<(), PlanError> {
        let (name, value, good) = match self.target {
            TreeTarget::Mean => return self.check_depth(),
            TreeTarget::HighProbability { failure } => {
                ("failure", failure, failure > 0.0 && failure < 1.0)
            }
            TreeTarget::Heuristic { safety } => {
                ("safety", safety, safety > 0.0 && safety.is_finite())
            }
        };
        if good {
            self.check_depth()
        } else {
            Err(PlanError::BadFact { name, value })
        }
    }

    fn check_depth(&self) -> Result<(), PlanError> {
        match self.depth {
            Some(depth) if depth > MAX_DEPTH => Err(PlanError::TooDeep {
                depth,
                most: MAX_DEPTH,
            }),
            _ => Ok(()),
        }
    }
}

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

/// What a [`TreeSpiderPlan`] does.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeSpiderSchedule {
    /// Rounds T.
    pub rounds: u64,
    /// Depth D.
    pub depth: u32,
    /// b, m_1, ..., m_D.
    pub batches: Vec<u64>,
    /// P: L1 times the length of all steps of a round.
    pub reach: f64,
    /// Length of a step, P/(2^D L1).
    pub step_length: f64,
    /// The walk stops at an estimate of at most this norm, 2 alpha; none: it never does.
    pub threshold: Option<f64>,
    /// Per-record clip radius, L0.
    pub clip: f64,
    /// Noise multiplier of every release, 1/mu.
    pub noise_multiplier: NoiseMultiplier,
    /// Which leaf is returned. With a threshold that of the smallest estimate, which is the leaf where the walk
    /// stopped, if it did; without one, a leaf drawn uniformly.
    pub output: OutputRule,
}

impl TreeSpiderSchedule {
    /// Leaves of a round, 2^D.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        1u64.checked_shl(self.depth).unwrap_or(u64::MAX)
    }

    /// Steps at most: leaves of all rounds.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.rounds.saturating_mul(self.leaves())
    }

    /// Records of one round, b + sum_j 2^(j-1) m_j.
    #[must_use]
    pub fn records_per_round(&self) -> u64 {
        let children = self.batches.iter().skip(1).enumerate();
        let root = self.batches.first().copied().unwrap_or(0);
        children.fold(root, |sum, (j, m)| {
            let nodes = 1u64.checked_shl(j as u32).unwrap_or(u64::MAX);
            sum.saturating_add(m.saturating_mul(nodes))
        })
    }

    /// Records and noise by depth, as [`TreeRounds`] takes them.
    #[must_use]
    pub fn levels(&self) -> Vec<Level> {
        let level = |&len: &u64| Level {
            batch: Batch::Next(len),
            noise_multiplier: self.noise_multiplier,
        };
        self.batches.iter().map(level).collect()
    }
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
        if !facts.adjacency.record_count_is_public() {
            // As it would be if positions were fixed.
            let fixed = PublicFacts {
                adjacency: Adjacency::ReplaceOne,
                ..*facts
            };
            let plan = Self::new(&fixed, budget, settings, max_leaves);
            return Err(PlanError::NeedsPositions {
                solver: SOLVER,
                adjacency: facts.adjacency,
                records: facts.records,
                slices: plan.map_or(1, |plan| plan.steps()),
            });
        }
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
