//! Claims about SpiderBoost with sampled variations, and the twins that must be caught.
//!
//! Poisson samples under add/remove and samples of fixed size under replace-one, over records that differ in slope and in curvature; otherwise as in `descent.rs`:
//! the worst over a grid of ramp slopes of the mean over all points of a run, which is the expectation of the
//! output's gradient norm given the run.

use std::collections::BTreeMap;
use std::sync::Mutex;

use dpopt_linalg::norm;
use dpopt_nonconvex::{Plan as _, SampledSpiderBoostPlan};
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Effort, Experiment, Measured, Trial, TrialError};
use super::common::{DELTA, Points, budget, share};
use super::tree::{BASE, SHARE, TILT, population};
use crate::problem::Problem as _;
use crate::simulation::{NoiseRule, SimulatedOracle};
use crate::zoo::{Ramp, RampBowl, TiltedProblem};

/// F0.
const GAP: f64 = 0.5;
const DIM: usize = 10;
const MAX_STEPS: u64 = 100_000_000;

struct SampledExperiment {
    claim: Claim,
    rule: NoiseRule,
    adjacency: Adjacency,
    /// Plans by the number of records: a calibration takes longer than a run.
    plans: Mutex<BTreeMap<u64, SampledSpiderBoostPlan>>,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let new = |claim, rule, adjacency| -> Box<dyn Experiment> {
        Box::new(SampledExperiment {
            claim,
            rule,
            adjacency,
            plans: Mutex::new(BTreeMap::new()),
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
    for (solver, adjacency) in [
        ("sampled-spiderboost", Adjacency::AddRemove),
        ("sampled-spiderboost-fixed-size", Adjacency::ReplaceOne),
    ] {
        all.push(new(
            claim(&format!("{solver}/n")),
            by_displacement,
            adjacency,
        ));
        let control = claim(&format!("{solver}/lipschitz-noise"))
            .control("The noise of a variation is scaled with 2 L0 and not with its displacement.");
        all.push(new(control, NoiseRule::Lipschitz, adjacency));
    }
    all
}

impl SampledExperiment {
    fn plan(&self, records: u64, problem: &RampBowl) -> Result<SampledSpiderBoostPlan, TrialError> {
        let mut plans = self
            .plans
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(plan) = plans.get(&records) {
            return Ok(plan.clone());
        }
        let mut facts = problem.facts(records, self.adjacency);
        facts.lipschitz = (1.0 + SHARE) * BASE[0] + TILT;
        facts.smoothness = (1.0 + SHARE) * BASE[1];
        let budget = budget(1.0, DELTA)?;
        let plan = SampledSpiderBoostPlan::new(&facts, &budget, MAX_STEPS)?;
        plans.insert(records, plan.clone());
        Ok(plan)
    }
}

impl Experiment for SampledExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let count = if full { 6 } else { 5 };
        // Multiples of eight, one for each kind of record.
        let points = (0..count).map(|k| 8.0 * (125.0 * 10f64.powf(0.5 * f64::from(k))).round());
        Design::new(points.collect())
            .with_members(if full { 12 } else { 6 })
            .with_seeds(if full { 6 } else { 2 })
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, TrialError> {
        let limit = RampBowl::largest_slope(BASE[0], BASE[1], GAP, Ramp::Straight);
        let slope = limit * (0.02f64).powf(share(trial));
        let base = RampBowl::new(DIM, BASE[0], BASE[1], GAP, Ramp::Straight, slope)?;
        let plan = self.plan(trial.x as u64, &base)?;
        let loss = TiltedProblem::new(base, SHARE, TILT, 0.0)?;
        let data = population(DIM, trial.x as u64 / 8)?;
        let mut oracle = SimulatedOracle::weighted(&loss, &data, self.adjacency, trial.seed)
            .with_rule(self.rule);
        let mut gradient = vec![0.0; DIM];
        let points = Points::of(&plan, &mut oracle, |point| {
            base.gradient(point, &mut gradient);
            norm(&gradient)
        })?;
        points.under(plan.predicted_bound())
    }
}
