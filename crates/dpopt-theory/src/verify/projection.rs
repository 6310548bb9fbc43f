//! Claims about generalised linear problems of low rank: with a random projection, and without.
//!
//! Family: [`RampGlm`] over slopes at fixed ratios to the plan's bound, r directions in d dimensions. (The hardest slope is of the size
//! of the error; a grid that goes along with the bound has it at the same place for each argument, and ten slopes do for sixty.) A projected run embeds the directions by
//! columns of the plan's own map, so nothing about the embedding is simulated; noise off the span is simulated by its length
//! ([`SpanOracle`], which says why the law is the same). Error of a point: as in `descent.rs`, of the problem **before**
//! the projection at lifted points.

use std::sync::Arc;

use dpopt_linalg::JlMap;
use dpopt_nonconvex::{
    Budget, JlBranch, JlFacts, JlPlan, NoisyGdPlan, Plan, PlanError, PublicFacts, PublicRank,
    SpiderBoostPlan,
};
use dpopt_oracle::Convexity;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Points, Privacy, Size, half_decades, mu_at, share};
use crate::checks::{CheckError, Effort};
use crate::simulation::{RampGlm, SpanOracle, in_span};

/// Steps that a planner may take; none of these plans takes as many.
const MAX_STEPS: u64 = 100_000_000;
/// Rank where it isn't varied.
const RANK: usize = 5;
/// Dimension where it isn't varied: far above every k.
const DIM: usize = 100_000;
/// The same for the rank-free branch, whose k is larger.
const WIDE: usize = 1_000_000;
/// Slopes of the family, over the plan's bound: from the least to the largest.
const SLOPES: [f64; 2] = [0.3, 4.0];

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
    plans: Plans<Arc<Planned>>,
}

/// A plan with a bound, over a projection or without.
enum Planned {
    Projected(Box<JlPlan>, f64),
    Whole(Box<dyn Plan>, f64),
}

impl Planned {
    /// The plan that walks.
    fn base(&self) -> &dyn Plan {
        match self {
            Self::Projected(jl, _) => jl.base(),
            Self::Whole(plan, _) => &**plan,
        }
    }

    fn bound(&self) -> f64 {
        match self {
            Self::Projected(_, bound) | Self::Whole(_, bound) => *bound,
        }
    }

    /// k and the bound on embedded rows.
    fn projection(&self) -> Option<(usize, f64)> {
        match self {
            Self::Projected(jl, _) => {
                let shape = jl.shape();
                Some((shape.embedded_dim, shape.row_norm.get()))
            }
            Self::Whole(..) => None,
        }
    }
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    use Axis::{Dimension, Mu, Rank, Records};
    use Who::{JlRank, JlRankFree, NoisyRank, Spider, SpiderRank};
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, who, dim| {
        all.push(Box::new(GlmExperiment {
            claim,
            who,
            dim,
            plans: Plans::new(),
        }));
    };
    let logs = "k grows with ln n";
    let whole = "phases and rows of whole numbers";
    let (third, sixth) = (1.0 / 3.0, 1.0 / 6.0);
    for (who, axis, predicted, dim, note) in [
        (JlRank, Records, -2.0 * third, DIM, logs),
        (JlRank, Mu, -2.0 * third, DIM, ""),
        (JlRank, Dimension, 0.0, DIM, ""),
        (JlRank, Rank, third, DIM, whole),
        (JlRankFree, Records, -0.4, WIDE, logs),
        (JlRankFree, Mu, -0.4, WIDE, whole),
        (JlRankFree, Dimension, 0.0, WIDE, whole),
        (JlRankFree, Rank, 0.0, WIDE, whole),
        (SpiderRank, Records, -2.0 * third, 100, ""),
        (SpiderRank, Mu, -2.0 * third, 100, ""),
        (SpiderRank, Dimension, sixth, DIM, whole),
        (SpiderRank, Rank, sixth, 1_000, whole),
        (NoisyRank, Records, -0.5, 1_000, ""),
        (NoisyRank, Mu, -0.5, 1_000, ""),
        (NoisyRank, Dimension, 0.0, DIM, ""),
        (NoisyRank, Rank, 0.25, DIM, ""),
    ] {
        let claim = who.claim(axis.symbol(), axis, predicted);
        add(
            match note {
                "" => claim,
                note => claim.within(0.06, 0.1, note),
            },
            who,
            dim,
        );
    }
    let not_replanned =
        "SpiderBoost planned for all d dimensions under the claim of the rank: can a fit tell?";
    let control = |id: &str, axis, rate, who: Who, note: &str| Claim {
        id: id.to_owned(),
        ..who.claim("", axis, rate).control(note)
    };
    let id = "jl-rank/unprojected";
    add(
        control(id, Dimension, 0.0, Spider, not_replanned),
        Spider,
        DIM,
    );
    let id = "spiderboost-within-rank/unranked";
    add(
        control(id, Dimension, sixth, Spider, not_replanned),
        Spider,
        DIM,
    );
    let other = "Noisy gradient descent under the claim of the projected SpiderBoost.";
    let claim = control("jl-rank/noisy-gd", Records, -2.0 * third, NoisyRank, other);
    add(claim, NoisyRank, 1_000);
    all
}

impl Who {
    /// A claim about it.
    fn claim(self, row: &str, axis: Axis, predicted: f64) -> Claim {
        let projected = (
            "jl over spiderboost",
            "arXiv 2206.00846, Theorem 6, repaired",
        );
        let (name, (solver, theorem)) = match self {
            Self::JlRank => ("jl-rank", projected),
            Self::JlRankFree => ("jl-rank-free", projected),
            Self::Spider => (
                "spiderboost",
                ("spiderboost", "arXiv 2206.00846, Theorem 1, repaired"),
            ),
            Self::SpiderRank => (
                "spiderboost-within-rank",
                ("spiderboost within a rank", "docs/theory/faster-rates.md"),
            ),
            Self::NoisyRank => (
                "noisy-gd-within-rank",
                (
                    "noisy-gd-theory within a rank",
                    "docs/theory/faster-rates.md",
                ),
            ),
        };
        Claim::new(&format!("{name}/{row}"), axis, predicted)
            .on("ramp-glm")
            .by(solver, theorem)
    }
}

struct Setting {
    facts: PublicFacts,
    budget: Budget,
    rank: usize,
}

impl GlmExperiment {
    fn setting(&self, x: f64) -> Result<Setting, CheckError> {
        // Within a rank SpiderBoost has its rate where phases are long: far longer than one step, for which n mu has to be far above
        // d, and longer than the 4 (r - 1) steps in which the Huber directions follow the estimate (a generalised linear
        // loss of rank r has a mean curvature of at most 1/r). So few directions, and many records.
        let (many, few) = match (self.who, self.claim.axis) {
            (Who::SpiderRank, Axis::Mu) => (30_000, 2),
            (Who::SpiderRank, _) => (300_000, 2),
            _ => (100_000, RANK),
        };
        let size = Size {
            records: many,
            dim: self.dim,
            privacy: Privacy::Epsilon(1.0),
        };
        let size = size.along(self.claim.axis, x);
        let rank = match self.claim.axis {
            Axis::Rank => x as usize,
            _ => few,
        };
        Ok(Setting {
            facts: PublicFacts {
                initial_gap: RampGlm::GAP,
                convexity: Convexity::Convex,
                ..PublicFacts::unit(size.records, size.dim)
            },
            budget: size.budget(DELTA)?,
            rank,
        })
    }

    fn planned(&self, x: f64, setting: &Setting) -> Result<Arc<Planned>, CheckError> {
        // The rank-free plan is not told the rank.
        let key = match (self.who, self.claim.axis) {
            (Who::JlRankFree, Axis::Rank) => 0.0,
            _ => x,
        };
        self.plans
            .at(key, || Ok(Arc::new(plan(self.who, setting)?)))
    }
}

fn plan(who: Who, setting: &Setting) -> Result<Planned, CheckError> {
    let Setting {
        facts,
        budget,
        rank,
    } = setting;
    let rank = PublicRank::new(*rank)?;
    let spider = |facts: &PublicFacts, _: Option<PublicRank>| -> Result<Box<dyn Plan>, PlanError> {
        Ok(Box::new(SpiderBoostPlan::new(facts, budget, MAX_STEPS)?))
    };
    let bound = |plan: &dyn Plan| plan.predicted_bound().ok_or("the plan states no bound");
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
        let bound = bound(&jl)?;
        return Ok(Planned::Projected(Box::new(jl), bound));
    }
    let plan: Box<dyn Plan> = match who {
        Who::NoisyRank => Box::new(NoisyGdPlan::within_rank(facts, budget, MAX_STEPS, rank)?),
        Who::SpiderRank => Box::new(SpiderBoostPlan::within_rank(
            facts, budget, MAX_STEPS, rank,
        )?),
        _ => spider(facts, None)?,
    };
    let bound = bound(&*plan)?;
    Ok(Planned::Whole(plan, bound))
}

impl Experiment for GlmExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match (self.claim.axis, self.who) {
            (Axis::Dimension, Who::SpiderRank) => half_decades(316.0, 4),
            (Axis::Dimension, Who::JlRank) => vec![1_000.0, 10_000.0, 100_000.0],
            (Axis::Dimension, Who::JlRankFree) => vec![1e5, 1e6, 1e7],
            (Axis::Dimension, _) => half_decades(1_000.0, 5),
            (Axis::Mu, _) => [0.25, 0.5, 1.0, 2.0, 4.0, 8.0].map(mu_at).to_vec(),
            (Axis::Rank, Who::JlRank) => vec![8.0, 16.0, 32.0, 64.0, 128.0],
            (Axis::Rank, Who::SpiderRank) => vec![2.0, 3.0, 4.0, 6.0, 8.0],
            (Axis::Rank, _) => vec![4.0, 8.0, 16.0, 32.0, 64.0],
            (_, Who::SpiderRank) => half_decades(10_000.0, effort.pick(4, 5)),
            (_, Who::JlRankFree) => half_decades(10_000.0, 5),
            _ => half_decades(10_000.0, effort.pick(5, 6)),
        };
        Design::new(points)
            .with_members(effort.pick(10, 20))
            .with_seeds(effort.pick(2, 6))
    }

    /// How k and the stretch of rows go with the rank: k/r falls to 6.25 from far above it, and the base solver's bound goes as
    /// k^(1/3) tau^(1/2). The plan has both before a run.
    fn correction(&self, x: f64) -> f64 {
        if (self.claim.axis, self.who) != (Axis::Rank, Who::JlRank) {
            return 1.0;
        }
        let planned = self
            .setting(x)
            .and_then(|setting| self.planned(x, &setting));
        let projection = planned.ok().and_then(|planned| planned.projection());
        projection.map_or(f64::NAN, |(rows, row_norm)| {
            (rows as f64 / x).cbrt() * row_norm
        })
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let setting = self.setting(trial.x)?;
        let planned = self.planned(trial.x, &setting)?;
        let [least, most] = SLOPES;
        let slope = planned.bound() * least * f64::powf(most / least, share(trial));
        let slope = slope.min(0.9);
        let rank = setting.rank;
        let problem = match planned.projection() {
            None => RampGlm::plain(rank, slope),
            Some((rows, row_norm)) => {
                let map = JlMap::gaussian(rows, setting.facts.dim, trial.seed)?;
                RampGlm::projected(&map, rank, slope, row_norm)
            }
        };
        let (plan, facts) = (planned.base(), &setting.facts);
        let (dim, records) = (plan.facts().dim, facts.records);
        let mut oracle =
            SpanOracle::new(problem.clone(), dim, records, facts.adjacency, trial.seed);
        let walk = in_span(plan, rank).ok_or("the walk does not stay in a span")?;
        let error = |point: &[f64]| problem.original_norm(&point[..rank]);
        Points::of(&walk, &mut oracle, error)?.under(Some(planned.bound()))
    }
}
