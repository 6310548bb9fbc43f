//! Claims about the variants of SpiderBoost, normalised Spider and STORM, and the twins that must be caught.
//!
//! As in `descent.rs`: the worst, over a grid of ramp slopes, of the mean over all points of a run, which is the
//! expectation of the output's gradient norm given the run.

use dpopt_linalg::norm;
use dpopt_nonconvex::{NormalizedSpiderPlan, Plan, StormPlan, StormSchedule};
use dpopt_oracle::Momentum;
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Effort, Experiment, Measured, Trial, TrialError};
use super::common::{DELTA, Points, budget, epsilon_at, half_decades, mu_at, share};
use crate::problem::Problem as _;
use crate::simulation::{NoiseRule, SimulatedOracle};
use crate::zoo::{Ramp, RampBowl};

/// L0, L1 and F0.
const CONSTANTS: [f64; 3] = [1.0, 1.0, 0.5];
/// Steps that a planner may take; none of these plans takes as many.
const MAX_STEPS: u64 = 100_000_000;
/// Slopes of the ramps: from a quarter of L0 down to below the error at the largest argument.
const SLOPES: [f64; 2] = [0.25, 0.003];

/// A solver, or a broken twin of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    NormalizedSpider,
    Storm,
    /// The plan of STORM with a = 1.
    FreshStorm,
}

struct VariantExperiment {
    claim: Claim,
    who: Who,
    rule: NoiseRule,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, who, rule| all.push(Box::new(VariantExperiment { claim, who, rule }));
    for (who, name, theorem) in [
        (
            Who::NormalizedSpider,
            "normalized-spider",
            "docs/theory/normalized-spider.md",
        ),
        (Who::Storm, "storm", "docs/theory/storm.md"),
    ] {
        let claim = |row: &str, axis, predicted| {
            Claim::new(&format!("{name}/{row}"), axis, predicted)
                .by(name, theorem)
                .on("ramp-bowl")
                .within(
                    0.06,
                    0.1,
                    "two decades, few runs; numbers of steps are whole",
                )
        };
        for (axis, predicted) in [
            (Axis::Records, -2.0 / 3.0),
            (Axis::Dimension, 1.0 / 3.0),
            (Axis::Mu, -2.0 / 3.0),
        ] {
            let claim = claim(axis.symbol(), axis, predicted).tight(0.4);
            add(claim, who, NoiseRule::Displacement);
        }
        let control = claim("lipschitz-noise", Axis::Records, -2.0 / 3.0)
            .control("The noise of a change is scaled with 2 L0 and not with its displacement.");
        add(control, who, NoiseRule::Lipschitz);
        if who == Who::Storm {
            let control = claim("fresh", Axis::Records, -2.0 / 3.0)
                .control("The weight of the fresh gradient is 1: nothing is kept of the estimate.");
            add(control, Who::FreshStorm, NoiseRule::Displacement);
        }
    }
    all
}

impl Experiment for VariantExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let points = match self.claim.axis {
            Axis::Records if self.claim.control => half_decades(1_000.0, 4),
            Axis::Records if full => half_decades(1_000.0, 6),
            Axis::Records => half_decades(1_000.0, 5),
            Axis::Dimension => half_decades(10.0, 5),
            _ => [0.25, 0.5, 1.0, 2.0, 4.0].map(mu_at).to_vec(),
        };
        Design::new(points)
            .with_members(if full { 24 } else { 12 })
            .with_seeds(if full { 6 } else { 3 })
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, TrialError> {
        let (records, dim, epsilon) = match self.claim.axis {
            Axis::Dimension => (30_000, trial.x as usize, 1.0),
            Axis::Mu => (20_000, 10, epsilon_at(trial.x)),
            _ => (trial.x as u64, 10, 1.0),
        };
        let [lipschitz, smoothness, gap] = CONSTANTS;
        let limit = RampBowl::largest_slope(lipschitz, smoothness, gap, Ramp::Straight);
        let slope = limit.min(SLOPES[0] * (SLOPES[1] / SLOPES[0]).powf(share(trial)));
        let problem = RampBowl::new(dim, lipschitz, smoothness, gap, Ramp::Straight, slope)?;
        let facts = problem.facts(records, Adjacency::ReplaceOne);
        let budget = budget(epsilon, DELTA)?;
        let mut plan: Box<dyn Plan> = match self.who {
            Who::NormalizedSpider => {
                Box::new(NormalizedSpiderPlan::new(&facts, &budget, MAX_STEPS)?)
            }
            _ => Box::new(StormPlan::new(&facts, &budget, MAX_STEPS)?),
        };
        // The twin is held against the bound of the plan that it is not.
        let bound = plan.predicted_bound();
        if self.who == Who::FreshStorm {
            let schedule = StormSchedule {
                momentum: Momentum::new(1.0)?,
                ..*StormPlan::new(&facts, &budget, MAX_STEPS)?.schedule()
            };
            plan = Box::new(StormPlan::by_hand(&facts, &budget, schedule));
        }
        let mut oracle = SimulatedOracle::new(&problem, records, Adjacency::ReplaceOne, trial.seed)
            .with_rule(self.rule);
        let mut gradient = vec![0.0; dim];
        let points = Points::of(&*plan, &mut oracle, |point| {
            problem.gradient(point, &mut gradient);
            norm(&gradient)
        })?;
        if self.who != Who::NormalizedSpider {
            return points.under(bound);
        }
        // Its bound is on the mean.
        let bound = bound.ok_or("the plan states no bound")?;
        Ok(Measured::new(points.mean).with_bound(bound))
    }
}
