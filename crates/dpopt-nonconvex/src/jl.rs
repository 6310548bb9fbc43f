//! Generalised linear problems through a public Johnson-Lindenstrauss map.
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah (arXiv 2206.00846), Algorithm 4 and Theorem 6, with the
//! errata E15 and E16 of `docs/theory/faster-rates.md`: rows are rescaled after the map whatever it did to them, so that no
//! part of delta pays for the map's luck, and the branch without a rank rests on Gordon's inequality.

use std::sync::Arc;

use dpopt_linalg::{JlMap, MapError};
use dpopt_oracle::{DataError, Offers, PrivateData};
use dpopt_privacy::ClipNorm;
use dpopt_solver::search::geometric;
use dpopt_solver::{
    BoundSense, BoundedQuantity, Budget, ExtraFacts, Item, Limits, Plan, PlanError, PublicFacts,
    PublicRank, RunError, Solver, Stop, Terms, Unit, Value, Walk,
};
use serde::{Deserialize, Serialize};

/// Ratio of neighbouring trial values of k. Tuned: bounds are flat in k.
const RATIO: f64 = 1.35;
/// Largest trial k of the rank branch over the least possible one. Tuned.
const MOST: f64 = 40.0;
/// 1/sqrt(2 pi) + 1/(2 sqrt 2): the term of Gordon's inequality beside the width (`docs/theory/faster-rates.md`).
const GORDON: f64 = 0.752_496;

/// What a planner may know of a generalised linear problem f(w; (x, y)) = phi(<w, x>, y).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JlFacts {
    /// Facts of the problem as it is. `initial_gap` has to bound the mean of phi(0, y) - inf phi(., y), as that of
    /// the built-in losses does: then it holds for any rows, rescaled ones included.
    pub facts: PublicFacts,
    /// A public bound on the rank of the rows, where there is one.
    pub rank: Option<PublicRank>,
    /// Seed of the map: public, and chosen before anybody saw a record.
    pub seed: u64,
}

impl JlFacts {
    /// A solver as a base of such plans.
    fn base<'a>(
        solver: &'a Solver,
        budget: &'a Budget,
        max_steps: u64,
    ) -> impl Fn(&PublicFacts, Option<PublicRank>) -> Result<Box<dyn Plan>, PlanError> + 'a {
        move |facts, rank| {
            let mut extra = ExtraFacts::default();
            extra.rank = rank;
            solver.plan(facts, &extra, budget, &Limits::steps(max_steps))
        }
    }
}

/// Which argument a projected plan rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JlBranch {
    /// No projection: the base solver on the rows as they are.
    Identity,
    /// The map keeps the lengths of the r-dimensional span from below.
    Rank,
    /// The map keeps the lengths of all gradients that can occur, by Gordon's inequality.
    RankFree,
    /// A dimension that the caller gave; no bound is stated.
    Given,
}

impl std::fmt::Display for JlBranch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            JlBranch::Identity => "identity",
            JlBranch::Rank => "rank",
            JlBranch::RankFree => "rank-free",
            JlBranch::Given => "given",
        })
    }
}

/// A plan that embeds the rows in k dimensions, runs a base solver there, and lifts its point.
///
/// # Formula
/// x~_i = c_i Phi x_i, c_i = min(1, sqrt(tau) X/||Phi x_i||); base solver with constants sqrt(tau) L0, tau L1, F0;
/// w = Phi^T w~. tau > 1 solves tau - 1 - ln tau = 4 ln(n)/k, so that with probability 1 - 1/n all c_i are 1. With g
/// the base bound at k:
///
/// - rank r: E||grad F|| <= g/(1 - (sqrt r + t)/sqrt k) + L0 (1/n + e^(-t^2/2)), for any t > 0;
/// - rank-free: E||grad F|| <= (sqrt k g + L0 (sqrt(2 ln 2n) + 0.7525))/sqrt(k - 1/2) + L0/n;
/// - identity: g at k = d.
///
/// The expectation is over the map as well. The planner takes the least of these over branches, k and t.
///
/// # Privacy
/// That of the base solver, with all of the budget: after rescaling every row has norm at most sqrt(tau) X, for every map.
/// Lifting is post-processing.
///
/// # References
/// arXiv 2206.00846, Algorithm 4; Davidson and Szarek 2001 (least singular value); Gordon 1988.
#[derive(Debug, Clone)]
pub struct JlPlan {
    terms: Terms,
    jl: JlFacts,
    branch: JlBranch,
    shape: JlShape,
    distortion: f64,
    slack: f64,
    base: Arc<dyn Plan>,
}

/// What a map does to the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JlShape {
    /// k: dimension in which the base solver runs.
    pub embedded_dim: usize,
    /// tau: what square row norms may grow by.
    pub stretch: f64,
    /// sqrt(tau) X: the bound that every embedded row is rescaled to.
    pub row_norm: ClipNorm,
}

/// A base solver: plans for facts of an embedded problem and a bound on its rank.
type Base<'a> = &'a dyn Fn(&PublicFacts, Option<PublicRank>) -> Result<Box<dyn Plan>, PlanError>;

impl JlPlan {
    /// The plan with the least bound among all branches, with `solver` as the base.
    ///
    /// # Errors
    /// [`PlanError::NoBaseBound`] where the solver states no bound on the mean norm of the empirical gradient; [`PlanError::Vacuous`] when no branch beats
    /// min(L0, sqrt(2 L1 F0)).
    pub fn new(
        jl: &JlFacts,
        budget: &Budget,
        solver: &Solver,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let base = JlFacts::base(solver, budget, max_steps);
        let mut best: Result<Self, PlanError> = Self::identity(jl, budget, &base);
        for branch in [JlBranch::Rank, JlBranch::RankFree] {
            if branch == JlBranch::Rank && jl.rank.is_none() {
                continue;
            }
            let found = Self::in_branch(branch, jl, budget, &base);
            best = match (best, found) {
                (Ok(old), Ok(new)) if new.predicted_bound() < old.predicted_bound() => Ok(new),
                (Err(PlanError::Vacuous { .. }), found) => found,
                (old, Ok(_) | Err(PlanError::Vacuous { .. })) => old,
                (_, Err(error)) => return Err(error),
            };
        }
        best
    }

    /// The plan with the least bound in one branch, over any base solver: `base` plans for the facts of an
    /// embedded problem, and may use the bound on its rank.
    ///
    /// # Errors
    /// [`PlanError::RankMissing`] for [`JlBranch::Rank`] without a bound on the rank; otherwise as [`JlPlan::new`].
    pub fn in_branch(
        branch: JlBranch,
        jl: &JlFacts,
        budget: &Budget,
        base: Base<'_>,
    ) -> Result<Self, PlanError> {
        jl.facts.check()?;
        let dim = jl.facts.dim;
        let ln_n = (jl.facts.records as f64).ln().max(1.0);
        let (low, high) = match (branch, jl.rank) {
            (JlBranch::Identity | JlBranch::Given, _) => return Self::identity(jl, budget, base),
            (JlBranch::Rank, None) => return Err(PlanError::RankMissing),
            (JlBranch::Rank, Some(rank)) => {
                let least = ((rank.get() as f64).sqrt() + ln_n.sqrt()).powi(2) + 1.0;
                (least, (MOST * least).min(dim as f64))
            }
            (JlBranch::RankFree, _) => (8.0, dim as f64),
        };
        let mut best: Option<Self> = None;
        let mut least_vacuous = f64::INFINITY;
        for rows in geometric(low, high, RATIO).map(|trial| trial.ceil() as usize) {
            if rows >= dim {
                break;
            }
            let (stretch, facts) = embedded_facts(&jl.facts, rows);
            let plan = match base(&facts, jl.rank) {
                Ok(plan) => plan,
                Err(PlanError::Vacuous { bound, .. }) => {
                    least_vacuous = least_vacuous.min(bound);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let g = empirical_bound(&*plan).ok_or(PlanError::NoBaseBound)?;
            let (distortion, slack) = match branch {
                JlBranch::Rank => rank_terms(jl, rows, g),
                _ => gordon_terms(&jl.facts, rows),
            };
            let bound = distortion * g + slack;
            if best.as_ref().and_then(Plan::predicted_bound) <= Some(bound) && best.is_some() {
                continue;
            }
            let shape = JlShape {
                embedded_dim: rows,
                stretch,
                row_norm: ClipNorm::new(facts.row_norm)?,
            };
            let plan = Self::by_hand(jl, budget, branch, shape, plan);
            best = Some(Self {
                terms: plan.terms.stating(Some(bound)),
                distortion,
                slack,
                ..plan
            });
        }
        match best {
            Some(plan) if plan.predicted_bound() < Some(jl.facts.trivial_bound()) => Ok(plan),
            // No k below d: the map that changes nothing.
            None if least_vacuous == f64::INFINITY => Self::identity(jl, budget, base),
            best => {
                let bound = best.and_then(|plan| plan.predicted_bound());
                let mu = budget.mu()?.get();
                Err(jl.facts.vacuous("jl", bound.unwrap_or(least_vacuous), mu))
            }
        }
    }

    /// A plan with k = `embedded_dim`, for base solvers that state no bound; k >= d means the identity.
    ///
    /// # Errors
    /// Those of `base`.
    pub fn with_embedded_dim(
        embedded_dim: usize,
        jl: &JlFacts,
        budget: &Budget,
        base: Base<'_>,
    ) -> Result<Self, PlanError> {
        jl.facts.check()?;
        if embedded_dim >= jl.facts.dim {
            return Self::identity(jl, budget, base);
        }
        JlMap::gaussian(embedded_dim, jl.facts.dim, jl.seed)?;
        let (stretch, facts) = embedded_facts(&jl.facts, embedded_dim);
        let shape = JlShape {
            embedded_dim,
            stretch,
            row_norm: ClipNorm::new(facts.row_norm)?,
        };
        let base = base(&facts, jl.rank)?;
        Ok(Self::by_hand(jl, budget, JlBranch::Given, shape, base))
    }

    /// As [`JlPlan::in_branch`] over a solver.
    ///
    /// # Errors
    /// As [`JlPlan::in_branch`].
    pub fn within(
        branch: JlBranch,
        jl: &JlFacts,
        budget: &Budget,
        solver: &Solver,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let base = JlFacts::base(solver, budget, max_steps);
        Self::in_branch(branch, jl, budget, &base)
    }

    /// As [`JlPlan::with_embedded_dim`] over a solver.
    ///
    /// # Errors
    /// Those of the solver's plan.
    pub fn given(
        embedded_dim: usize,
        jl: &JlFacts,
        budget: &Budget,
        solver: &Solver,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let base = JlFacts::base(solver, budget, max_steps);
        Self::with_embedded_dim(embedded_dim, jl, budget, &base)
    }

    /// A plan of a given shape over a base plan in as many dimensions. It states no bound.
    #[must_use]
    pub fn by_hand(
        jl: &JlFacts,
        budget: &Budget,
        branch: JlBranch,
        shape: JlShape,
        base: Box<dyn Plan>,
    ) -> Self {
        let sense = match branch {
            JlBranch::Identity => base.bound_sense(),
            _ => BoundSense::MeanOverProjections,
        };
        Self {
            terms: Terms::new(&jl.facts, budget, base.steps(), base.spend())
                .with_gradients(base.gradients())
                .with_clip(base.clip())
                .with_access(base.access())
                .with_unread(base.unread())
                .with_output(base.output())
                .bounding(BoundedQuantity::GradientNorm, sense),
            jl: *jl,
            branch,
            shape,
            distortion: f64::INFINITY,
            slack: f64::INFINITY,
            base: base.into(),
        }
    }

    fn identity(jl: &JlFacts, budget: &Budget, base: Base<'_>) -> Result<Self, PlanError> {
        let base = base(&jl.facts, jl.rank)?;
        let bound = base.predicted_bound();
        let shape = JlShape {
            embedded_dim: jl.facts.dim,
            stretch: 1.0,
            row_norm: ClipNorm::new(jl.facts.row_norm)?,
        };
        let plan = Self::by_hand(jl, budget, JlBranch::Identity, shape, base);
        Ok(Self {
            terms: plan.terms.stating(bound),
            distortion: 1.0,
            slack: 0.0,
            ..plan
        })
    }

    /// What it was told of the problem.
    #[must_use]
    pub fn jl_facts(&self) -> &JlFacts {
        &self.jl
    }

    /// The argument behind its bound.
    #[must_use]
    pub fn branch(&self) -> JlBranch {
        self.branch
    }

    /// What its map does to the rows.
    #[must_use]
    pub fn shape(&self) -> &JlShape {
        &self.shape
    }

    /// What the base bound is multiplied by; infinite where no bound is stated.
    #[must_use]
    pub fn distortion(&self) -> f64 {
        self.distortion
    }

    /// What is added to it; infinite where no bound is stated.
    #[must_use]
    pub fn slack(&self) -> f64 {
        self.slack
    }

    /// The base solver's plan.
    #[must_use]
    pub fn base(&self) -> &dyn Plan {
        &*self.base
    }

    /// The map.
    ///
    /// # Errors
    /// [`MapError`] for a dimension that no map can have.
    pub fn map(&self) -> Result<JlMap, MapError> {
        let dim = self.jl.facts.dim;
        match self.branch {
            JlBranch::Identity => JlMap::identity(dim),
            _ => JlMap::gaussian(self.shape.embedded_dim, dim, self.jl.seed),
        }
    }

    /// The records that the base solver has to read.
    ///
    /// # Privacy
    /// See [`PrivateData::embedded`].
    ///
    /// # Errors
    /// [`DataError`] when the rows have not the plan's dimension.
    pub fn embedded(&self, data: &PrivateData) -> Result<PrivateData, DataError> {
        data.embedded(&self.map()?, self.shape.row_norm)
    }
}

/// It runs on an oracle over the **embedded** records ([`JlPlan::embedded`]); its observer sees points of the embedded problem, and
/// the point is lifted at the end.
impl Plan for JlPlan {
    fn name(&self) -> &'static str {
        self.base.name()
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn field_facts(&self) -> PublicFacts {
        self.base.field_facts()
    }

    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        let mut beside = Vec::new();
        beside.extend(
            self.jl
                .rank
                .map(|rank| Item::count("rank", rank.get() as u64)),
        );
        beside.push(Item::count("seed", self.jl.seed));
        Some(("facts", beside))
    }

    fn items(&self) -> Vec<Item<'_>> {
        vec![
            Item::word("branch", self.branch),
            Item::count("rows", self.shape.embedded_dim as u64),
            Item::ratio("stretch", self.shape.stretch),
            Item::number("row_norm", self.shape.row_norm.get(), Unit::ROW),
            Item::ratio("distortion", self.distortion),
            Item::number("slack", self.slack, Unit::GRADIENT),
            Item::plain("base", Value::Plan(&*self.base)),
        ]
    }

    fn dim(&self) -> usize {
        self.shape.embedded_dim
    }

    fn needs(&self) -> Offers {
        self.base.needs()
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        if start.iter().any(|w| *w != 0.0) {
            return Err(RunError::StartProjected {
                solver: self.name(),
            });
        }
        self.base.walk(start)
    }

    fn embed(&self, data: &PrivateData) -> Result<Option<PrivateData>, RunError> {
        Ok(Some(self.embedded(data)?))
    }

    fn lift(&self, point: Vec<f64>) -> Result<Vec<f64>, RunError> {
        Ok(self.map()?.lift(&point)?)
    }

    /// What the proof of the base's bound covers.
    fn bound_covers(&self, stop: Stop) -> bool {
        self.base.bound_covers(stop)
    }

    fn share_spent(&self, step: u64) -> f64 {
        self.base.share_spent(step)
    }
}

/// What the base bounds of the mean norm of the gradient of the mean over these records, which is what the distortions are proved
/// for. A bound on the gradient of the population is no such thing: a fresh record lies in the hull of none. Nor is one that holds
/// with some probability: it says nothing of the mean.
fn empirical_bound(base: &dyn Plan) -> Option<f64> {
    match base.bound_sense() {
        BoundSense::PopulationMean
        | BoundSense::PopulationWithProbability
        | BoundSense::WithProbability => None,
        _ => base.predicted_bound(),
    }
}

/// tau, and the facts of the problem in `rows` dimensions.
fn embedded_facts(facts: &PublicFacts, rows: usize) -> (f64, PublicFacts) {
    let stretch = stretch(facts.records, rows);
    let embedded = PublicFacts {
        dim: rows,
        lipschitz: stretch.sqrt() * facts.lipschitz,
        smoothness: stretch * facts.smoothness,
        row_norm: stretch.sqrt() * facts.row_norm,
        ..*facts
    };
    (stretch, embedded)
}

/// tau > 1 with tau - 1 - ln tau = 4 ln(n)/k. By Chernoff's bound a chi-squared number with k degrees of freedom is above k tau
/// with probability at most e^(-k (tau - 1 - ln tau)/2) = n^-2.
fn stretch(records: u64, rows: usize) -> f64 {
    let target = 4.0 * (records as f64).ln().max(1.0) / rows as f64;
    // u - ln(1 + u) >= target at u = target + 1 + sqrt(2 target).
    let (mut low, mut high) = (0.0, target + 2.0 + (2.0 * target).sqrt());
    while high - low > 1e-14 * high {
        let middle = 0.5 * (low + high);
        if middle - middle.ln_1p() < target {
            low = middle;
        } else {
            high = middle;
        }
        if middle == low && middle == high {
            break;
        }
    }
    1.0 + high
}

/// Distortion and slack of the rank branch at the best of three failure probabilities.
fn rank_terms(jl: &JlFacts, rows: usize, base_bound: f64) -> (f64, f64) {
    let rank = jl.rank.map_or(jl.facts.dim, PublicRank::get) as f64;
    let n = jl.facts.records as f64;
    let lipschitz = jl.facts.lipschitz;
    let mut best = (f64::INFINITY, 0.0);
    for power in [0.5, 0.75, 1.0] {
        let failure = n.powf(-power);
        let reach = rank.sqrt() + (-2.0 * failure.ln()).max(0.0).sqrt();
        let kept = 1.0 - reach / (rows as f64).sqrt();
        if kept <= 0.0 {
            continue;
        }
        let terms = (1.0 / kept, lipschitz * (1.0 / n + failure));
        let value = |(distortion, slack): (f64, f64)| distortion * base_bound + slack;
        if best.0 == f64::INFINITY || value(terms) < value(best) {
            best = terms;
        }
    }
    best
}

/// Distortion and slack of the rank-free branch. E chi_k >= sqrt(k - 1/2).
fn gordon_terms(facts: &PublicFacts, rows: usize) -> (f64, f64) {
    let k = rows as f64;
    let n = facts.records as f64;
    let mean_length = (k - 0.5).sqrt();
    let width = (2.0 * (2.0 * n).ln()).sqrt() + GORDON;
    (
        k.sqrt() / mean_length,
        facts.lipschitz * (width / mean_length + 1.0 / n),
    )
}
