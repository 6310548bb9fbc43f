//! What is claimed of generalised linear problems of low rank: with a random projection, and without.
//!
//! Family: [`RampGlm`] over a grid of slopes, r directions in d dimensions. A projected run embeds the directions by
//! columns of the plan's own map, so nothing about the embedding is simulated; noise off the span is simulated by its length
//! ([`SpanEstimator`], which says why the law is the same). Error of a point: as in `descent.rs`, of the problem **before**
//! the projection at lifted points.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use dpopt_linalg::JlMap;
use dpopt_nonconvex::{
    Budget, JlBranch, JlFacts, JlPlan, NoisyGdPlan, PublicFacts, PublicRank, Release, SolverPlan,
    SpiderBoostPlan, Stop,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon};

use super::claim::{Axis, Claim, Design, Effort, Experiment, Measured, Trial, TrialError};
use super::descent::{DELTA, epsilon_at, half_decades, mu_at};
use crate::simulation::{RampGlm, SpanEstimator, in_span};

/// Steps that a planner may take; none of these plans takes as many.
const MAX_STEPS: u64 = 100_000_000;
/// Rank where it isn't varied.
const RANK: usize = 5;
/// Dimension where it isn't varied: far above every k.
const DIM: usize = 100_000;

/// A solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Projected by the rank branch, SpiderBoost planned for k dimensions.
    JlRank,
    /// Projected by the rank-free branch, which is not told the rank.
    JlRankFree,
    /// SpiderBoost in d dimensions, planned for d.
    Spider,
    /// SpiderBoost in d dimensions, planned for the rank.
    SpiderRank,
    /// Noisy gradient descent in d dimensions, planned for the rank.
    NoisyRank,
}

struct GlmExperiment {
    claim: Claim,
    who: Who,
    dim: usize,
    /// Plans by the bits of the argument: they are the same for all trials there.
    plans: Mutex<BTreeMap<u64, Arc<Planned>>>,
}

/// A base plan with what leads back to the problem.
struct Planned {
    plan: SolverPlan,
    /// k and the bound on embedded rows.
    projection: Option<(usize, f64)>,
    bound: f64,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |id: &str,
                   axis: Axis,
                   predicted: f64,
                   who: Who,
                   dim: usize,
                   tell: &dyn Fn(Claim) -> Claim| {
        let claim = Claim::new(id, axis, predicted).on("ramp-glm");
        let claim = match who {
            Who::JlRank | Who::JlRankFree => claim.by(
                "jl over spiderboost",
                "arXiv 2206.00846, Theorem 6, repaired",
            ),
            Who::Spider => claim.by("spiderboost", "arXiv 2206.00846, Theorem 1, repaired"),
            Who::SpiderRank => claim.by("spiderboost within a rank", "docs/theory/jl.md"),
            Who::NoisyRank => claim.by("noisy-gd-theory within a rank", "docs/theory/jl.md"),
        };
        all.push(Box::new(GlmExperiment {
            claim: tell(claim),
            who,
            dim,
            plans: Mutex::new(BTreeMap::new()),
        }));
    };
    let plain = |claim: Claim| claim;
    let logs = |claim: Claim| claim.within(0.06, 0.1, "k grows with ln n");
    add(
        "jl-rank/n",
        Axis::Records,
        -2.0 / 3.0,
        Who::JlRank,
        DIM,
        &logs,
    );
    add("jl-rank/mu", Axis::Mu, -2.0 / 3.0, Who::JlRank, DIM, &plain);
    add("jl-rank/d", Axis::Dimension, 0.0, Who::JlRank, DIM, &plain);
    add(
        "jl-rank-free/n",
        Axis::Records,
        -0.4,
        Who::JlRankFree,
        1_000_000,
        &logs,
    );
    add(
        "spiderboost-within-rank/n",
        Axis::Records,
        -2.0 / 3.0,
        Who::SpiderRank,
        100,
        &plain,
    );
    add(
        "spiderboost-within-rank/d",
        Axis::Dimension,
        1.0 / 6.0,
        Who::SpiderRank,
        DIM,
        &plain,
    );
    add(
        "spiderboost-within-rank/rank",
        Axis::Rank,
        1.0 / 6.0,
        Who::SpiderRank,
        1_000,
        &plain,
    );
    add(
        "noisy-gd-within-rank/n",
        Axis::Records,
        -0.5,
        Who::NoisyRank,
        1_000,
        &plain,
    );
    add(
        "noisy-gd-within-rank/d",
        Axis::Dimension,
        0.0,
        Who::NoisyRank,
        DIM,
        &plain,
    );
    add(
        "noisy-gd-within-rank/rank",
        Axis::Rank,
        0.25,
        Who::NoisyRank,
        DIM,
        &plain,
    );
    let not_replanned = |claim: Claim| {
        claim.control(
            "SpiderBoost planned for all d dimensions under the claim of the rank: can a fit tell?",
        )
    };
    add(
        "jl-rank/unprojected",
        Axis::Dimension,
        0.0,
        Who::Spider,
        DIM,
        &not_replanned,
    );
    add(
        "spiderboost-within-rank/unranked",
        Axis::Dimension,
        1.0 / 6.0,
        Who::Spider,
        DIM,
        &not_replanned,
    );
    let other = |claim: Claim| {
        claim.control("Noisy gradient descent under the claim of the projected SpiderBoost.")
    };
    add(
        "jl-rank/noisy-gd",
        Axis::Records,
        -2.0 / 3.0,
        Who::NoisyRank,
        1_000,
        &other,
    );
    all
}

struct Setting {
    facts: PublicFacts,
    budget: Budget,
    rank: usize,
}

impl GlmExperiment {
    fn setting(&self, x: f64) -> Result<Setting, TrialError> {
        // Within a rank SpiderBoost is no better than noisy gradient descent until n is large.
        let many = if self.who == Who::SpiderRank {
            1_000_000
        } else {
            100_000
        };
        let (mut records, mut dim, mut epsilon, mut rank) = (many, self.dim, 1.0, RANK);
        match self.claim.axis {
            Axis::Dimension => dim = x as usize,
            Axis::Mu => epsilon = epsilon_at(x),
            Axis::Rank => rank = x as usize,
            _ => records = x as u64,
        }
        Ok(Setting {
            facts: PublicFacts {
                records,
                dim,
                adjacency: Adjacency::ReplaceOne,
                lipschitz: 1.0,
                smoothness: 1.0,
                initial_gap: RampGlm::GAP,
                row_norm: 1.0,
                convexity: Convexity::Convex,
            },
            budget: Budget {
                epsilon: Epsilon::new(epsilon)?,
                delta: Delta::new(DELTA)?,
            },
            rank,
        })
    }

    fn planned(&self, x: f64, setting: &Setting) -> Result<Arc<Planned>, TrialError> {
        let mut plans = self
            .plans
            .lock()
            .map_err(|_| "a trial panicked while planning")?;
        if let Some(planned) = plans.get(&x.to_bits()) {
            return Ok(planned.clone());
        }
        let planned = Arc::new(plan(self.who, setting)?);
        plans.insert(x.to_bits(), planned.clone());
        Ok(planned)
    }
}

fn plan(who: Who, setting: &Setting) -> Result<Planned, TrialError> {
    let Setting {
        facts,
        budget,
        rank,
    } = setting;
    let rank = PublicRank::new(*rank)?;
    let spider = |facts: &PublicFacts, _: Option<PublicRank>| {
        SpiderBoostPlan::new(facts, budget, MAX_STEPS).map(SolverPlan::SpiderBoost)
    };
    let branch = match who {
        Who::JlRank => Some(JlBranch::Rank),
        Who::JlRankFree => Some(JlBranch::RankFree),
        _ => None,
    };
    if let Some(branch) = branch {
        let jl = JlFacts {
            facts: *facts,
            rank: (branch == JlBranch::Rank).then_some(rank),
            seed: 0,
        };
        let jl = JlPlan::in_branch(branch, &jl, budget, &spider)?;
        return Ok(Planned {
            bound: jl.predicted_bound.ok_or("the plan states no bound")?,
            projection: Some((jl.rows, jl.row_norm.get())),
            plan: jl.base,
        });
    }
    let plan = match who {
        Who::NoisyRank => {
            SolverPlan::NoisyGd(NoisyGdPlan::within_rank(facts, budget, MAX_STEPS, rank)?)
        }
        Who::SpiderRank => SolverPlan::SpiderBoost(SpiderBoostPlan::within_rank(
            facts, budget, MAX_STEPS, rank,
        )?),
        _ => spider(facts, None)?,
    };
    Ok(Planned {
        bound: plan.predicted_bound().ok_or("the plan states no bound")?,
        projection: None,
        plan,
    })
}

impl Experiment for GlmExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let points = match (self.claim.axis, self.who) {
            (Axis::Dimension, Who::SpiderRank) => half_decades(300.0, 4),
            (Axis::Dimension, Who::JlRank) => vec![1_000.0, 10_000.0, 100_000.0],
            (Axis::Dimension, _) => half_decades(1_000.0, 5),
            (Axis::Mu, _) => [0.25, 0.5, 1.0, 2.0, 4.0, 8.0].map(mu_at).to_vec(),
            (Axis::Rank, _) => vec![4.0, 8.0, 16.0, 32.0, 64.0],
            (_, Who::SpiderRank) => half_decades(10_000.0, if full { 5 } else { 4 }),
            (_, Who::JlRankFree) => half_decades(10_000.0, 5),
            _ => half_decades(10_000.0, if full { 6 } else { 5 }),
        };
        Design::new(points)
            .with_members(if full { 90 } else { 60 })
            .with_seeds(if full { 6 } else { 2 })
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, TrialError> {
        let setting = self.setting(trial.x)?;
        let planned = self.planned(trial.x, &setting)?;
        let share = trial.member as f64 / (trial.members.max(2) - 1) as f64;
        // From half of the largest slope of a record down to a gradient below the error at the largest n.
        let slope = 0.5 * 0.005f64.powf(share);
        let rank = setting.rank;
        let problem = match planned.projection {
            None => RampGlm::plain(rank, slope),
            Some((rows, row_norm)) => {
                let map = JlMap::gaussian(rows, setting.facts.dim, trial.seed)?;
                let image = |j| {
                    let mut column = vec![0.0; rows];
                    map.column(j, &mut column);
                    column
                };
                let images: Vec<Vec<f64>> = (0..rank).map(image).collect();
                RampGlm::embedded(&images, slope, row_norm)
            }
        };
        let dim = planned.plan.facts().dim;
        let records = setting.facts.records;
        let adjacency = setting.facts.adjacency;
        let mut estimator =
            SpanEstimator::new(problem.clone(), dim, records, adjacency, trial.seed);
        let (mut sum, mut squares, mut points) = (0.0, 0.0, 0u64);
        let walk = in_span(&planned.plan, rank).ok_or("the walk does not stay in a span")?;
        let outcome = walk.run(&mut estimator, &mut |release: &Release<'_>| {
            let exact = problem.original_norm(&release.point[..rank]);
            sum += exact;
            squares += exact * exact;
            points += 1;
            ControlFlow::Continue(())
        })?;
        if outcome.stop != Stop::Completed {
            return Err(format!("the run ended with {:?}", outcome.stop).into());
        }
        let points = points as f64;
        Ok(Measured::new(sum / points)
            .with_square(squares / points)
            .with_bound(planned.bound))
    }
}
