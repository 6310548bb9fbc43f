//! Claims about SpiderBoost with sampled variations, and the twins that must be caught.
//!
//! Poisson samples under add/remove, what is planned under replace-one, and samples of fixed size there, over records that differ in slope and in curvature; otherwise as in `descent.rs`:
//! the worst over a grid of ramp slopes of the mean over all points of a run, which is the expectation of the
//! output's gradient norm given the run.

use dpopt_nonconvex::{Budget, Plan as _, PlanError, PublicFacts, SampledSpiderBoostPlan};
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Points, budget, gradient_norm, half_decades, share};
use super::descent::NOT_BY_DISPLACEMENT;
use super::tree::{BASE, SHARE, TILT, population};
use crate::checks::{CheckError, Effort};
use crate::simulation::{NoiseRule, SimulatedOracle};
use crate::zoo::{Ramp, RampBowl, TiltedProblem};

/// F0.
const GAP: f64 = 0.5;
const DIM: usize = 10;
const MAX_STEPS: u64 = 100_000_000;

type Planner = fn(&PublicFacts, &Budget, u64) -> Result<SampledSpiderBoostPlan, PlanError>;

struct SampledExperiment {
    claim: Claim,
    rule: NoiseRule,
    adjacency: Adjacency,
    planner: Planner,
    plans: Plans<SampledSpiderBoostPlan>,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let new = |claim, rule, (adjacency, planner)| -> Box<dyn Experiment> {
        Box::new(SampledExperiment {
            claim,
            rule,
            adjacency,
            planner,
            plans: Plans::new(),
        })
    };
    let claim = |id: &str| {
        Claim::new(id, Axis::Records, -2.0 / 3.0)
            .by(
                "sampled-spiderboost",
                "arXiv 2206.00846, Theorem 1, repaired",
            )
            .on("tilted ramp-bowl")
            .within(
                0.08,
                0.12,
                "samples of whole numbers, noise by an accountant",
            )
    };
    let by_displacement = NoiseRule::Displacement;
    let mut all = Vec::new();
    let best: Planner = SampledSpiderBoostPlan::new;
    let fixed: Planner = SampledSpiderBoostPlan::on_fixed_size;
    let (one, two) = (Adjacency::AddRemove, Adjacency::ReplaceOne);
    for (name, planned) in [
        ("sampled-spiderboost", (one, best)),
        ("sampled-spiderboost-replace-one", (two, best)),
        ("sampled-spiderboost-fixed-size", (two, fixed)),
    ] {
        all.push(new(claim(&format!("{name}/n")), by_displacement, planned));
        let control = claim(&format!("{name}/lipschitz-noise")).control(NOT_BY_DISPLACEMENT);
        all.push(new(control, NoiseRule::Lipschitz, planned));
    }
    all
}

impl SampledExperiment {
    fn plan(&self, records: f64, problem: &RampBowl) -> Result<SampledSpiderBoostPlan, CheckError> {
        self.plans.at(records, || {
            let mut facts = problem.facts(records as u64, self.adjacency);
            facts.lipschitz = (1.0 + SHARE) * BASE[0] + TILT;
            facts.smoothness = (1.0 + SHARE) * BASE[1];
            let budget = budget(1.0, DELTA)?;
            Ok((self.planner)(&facts, &budget, MAX_STEPS)?)
        })
    }
}

impl Experiment for SampledExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        // Multiples of eight, one for each kind of record.
        let points = half_decades(125.0, effort.pick(5, 6));
        Design::new(points.iter().map(|x| 8.0 * x).collect())
            .with_members(effort.pick(6, 12))
            .with_seeds(effort.pick(2, 6))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let limit = RampBowl::largest_slope(BASE[0], BASE[1], GAP, Ramp::Straight);
        let slope = limit * (0.02f64).powf(share(trial));
        let base = RampBowl::new(DIM, BASE[0], BASE[1], GAP, Ramp::Straight, slope)?;
        let plan = self.plan(trial.x, &base)?;
        let loss = TiltedProblem::new(base, SHARE, TILT, 0.0)?;
        let data = population(DIM, trial.x as u64 / 8)?;
        let mut oracle = SimulatedOracle::weighted(&loss, &data, self.adjacency, trial.seed)
            .with_rule(self.rule);
        let points = Points::of(&plan, &mut oracle, |point| gradient_norm(&base, point))?;
        points.under(plan.predicted_bound())
    }
}
