//! What is claimed of SpiderBoost and noisy gradient descent, and the twins that must be caught.
//!
//! Error of a point of an experiment: the worst, over a logarithmic grid of ramp slopes, of the mean
//! over runs of the output's gradient norm, on [`RampBowl`]. The output is uniform over the points
//! of a run, so the mean over these points is its expectation given the run; taking that and not one
//! drawn point removes most of the sampling error, and few seeds suffice.

use dpopt_linalg::norm;
use dpopt_nonconvex::{
    Budget, NoisyGdPlan, Plan, PublicFacts, SpiderBoostPlan, SpiderBoostSchedule,
};
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Effort, Expect, Experiment, Measured, Trial, TrialError};
use super::common::{DELTA, Points, budget, epsilon_at, half_decades, mu_at, share};
use crate::problem::Problem as _;
use crate::simulation::{NoiseRule, SimulatedOracle};
use crate::zoo::{Ramp, RampBowl};

/// The problem: L0, L1 and F0.
const CONSTANTS: [f64; 3] = [1.0, 1.0, 0.5];
/// Steps that a planner may take; none of these plans takes as many.
const MAX_STEPS: u64 = 100_000_000;

/// A solver, or a broken twin of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    SpiderBoost,
    NoisyGd,
    /// Variations with the noise of anchors.
    LipschitzNoise,
    /// One anchor and then variations only.
    NoRefresh,
}

struct RampExperiment {
    claim: Claim,
    who: Who,
    ramp: Ramp,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, who, ramp| all.push(Box::new(RampExperiment { claim, who, ramp }));
    for (axis, records, dimension) in [
        (Axis::Records, -2.0 / 3.0, -0.5),
        (Axis::Dimension, 1.0 / 3.0, 0.25),
        (Axis::Mu, -2.0 / 3.0, -0.5),
    ] {
        let id = |solver| format!("{solver}/{}", axis.symbol());
        let claim = by_spiderboost(&id("spiderboost"), axis, records).tight(0.6);
        add(claim, Who::SpiderBoost, Ramp::Straight);
        let claim = by_noisy_gd(&id("noisy-gd"), axis, dimension).tight(0.6);
        add(claim, Who::NoisyGd, Ramp::Straight);
    }
    let wavy = by_spiderboost("spiderboost/n-nonconvex", Axis::Records, -2.0 / 3.0)
        .expecting(Expect::AtMost)
        .within(0.05, 0.2, "the wavy ramp is easier than the straight one");
    add(wavy, Who::SpiderBoost, Ramp::Wavy);
    let (n, rate) = (Axis::Records, -2.0 / 3.0);
    let control = by_spiderboost("spiderboost/lipschitz-noise", n, rate)
        .control("The noise of a variation is scaled with 2 L0 and not with its displacement.");
    add(control, Who::LipschitzNoise, Ramp::Straight);
    let control = by_spiderboost("spiderboost/no-refresh", n, rate)
        .control("No anchor after the first: the error of the estimate is never reset.");
    add(control, Who::NoRefresh, Ramp::Straight);
    let control = by_noisy_gd("noisy-gd/as-spiderboost", n, rate)
        .control("Noisy gradient descent under the claim of SpiderBoost: can a fit tell the two?");
    add(control, Who::NoisyGd, Ramp::Straight);
    all
}

fn by_spiderboost(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("spiderboost", "arXiv 2206.00846, Theorem 1, repaired")
        .on("ramp-bowl")
}

fn by_noisy_gd(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by(
            "noisy-gd-theory",
            "descent lemma, docs/theory/spiderboost.md",
        )
        .on("ramp-bowl")
}

/// One size of the problem.
struct Setting {
    records: u64,
    dim: usize,
    epsilon: f64,
}

impl RampExperiment {
    fn setting(&self, x: f64) -> Setting {
        match self.claim.axis {
            Axis::Dimension => Setting {
                records: 100_000,
                dim: x as usize,
                epsilon: 1.0,
            },
            Axis::Mu => Setting {
                records: 30_000,
                dim: 10,
                epsilon: epsilon_at(x),
            },
            _ => Setting {
                records: x as u64,
                dim: 10,
                epsilon: 1.0,
            },
        }
    }
}

impl Experiment for RampExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let points = match self.claim.axis {
            Axis::Records if self.claim.control => half_decades(1_000.0, 5),
            Axis::Records => half_decades(1_000.0, if full { 8 } else { 7 }),
            Axis::Dimension => half_decades(10.0, 5),
            _ => [0.25, 0.5, 1.0, 2.0, 4.0].map(mu_at).to_vec(),
        };
        Design::new(points)
            .with_members(if full { 24 } else { 12 })
            .with_seeds(if full { 6 } else { 2 })
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, TrialError> {
        let setting = self.setting(trial.x);
        let [lipschitz, smoothness, gap] = CONSTANTS;
        let limit = RampBowl::largest_slope(lipschitz, smoothness, gap, self.ramp);
        // From a quarter of L0 down to below the error at the largest n.
        let slope = limit.min(0.25 * (0.0008f64 / 0.25).powf(share(trial)));
        let problem = RampBowl::new(setting.dim, lipschitz, smoothness, gap, self.ramp, slope)?;
        let facts = problem.facts(setting.records, Adjacency::ReplaceOne);
        let budget = budget(setting.epsilon, DELTA)?;
        let plan = plan(self.who, &facts, &budget)?;
        // The twin without anchors is held against the bound of the plan with them.
        let bound = match self.who {
            Who::NoRefresh => SpiderBoostPlan::new(&facts, &budget, MAX_STEPS)?.predicted_bound(),
            _ => plan.predicted_bound(),
        };
        let rule = match self.who {
            Who::LipschitzNoise => NoiseRule::Lipschitz,
            _ => NoiseRule::Displacement,
        };
        let mut oracle =
            SimulatedOracle::new(&problem, setting.records, Adjacency::ReplaceOne, trial.seed)
                .with_rule(rule);
        let mut gradient = vec![0.0; setting.dim];
        let points = Points::of(&*plan, &mut oracle, |point| {
            problem.gradient(point, &mut gradient);
            norm(&gradient)
        })?;
        points.under(bound)
    }
}

fn plan(who: Who, facts: &PublicFacts, budget: &Budget) -> Result<Box<dyn Plan>, TrialError> {
    Ok(match who {
        Who::NoisyGd => Box::new(NoisyGdPlan::theory(facts, budget, MAX_STEPS)?),
        Who::NoRefresh => {
            let plan = SpiderBoostPlan::new(facts, budget, MAX_STEPS)?;
            let schedule = SpiderBoostSchedule {
                phase: plan.steps(),
                ..*plan.schedule()
            };
            Box::new(SpiderBoostPlan::by_hand(facts, budget, schedule))
        }
        _ => Box::new(SpiderBoostPlan::new(facts, budget, MAX_STEPS)?),
    })
}
