//! Claims about the variants of SpiderBoost, normalised Spider and STORM, and the twins that must be caught.
//!
//! As in `descent.rs`: the worst, over a grid of ramp slopes, of the mean over all points of a run, which is the
//! expectation of the output's gradient norm given the run.

use std::ops::ControlFlow;

use dpopt_linalg::norm;
use dpopt_nonconvex::{
    Budget, NormalizedSpiderPlan, Outcome, PublicFacts, Release, RunError, Stop, StormPlan,
};
use dpopt_oracle::{Estimator, Momentum};
use dpopt_privacy::{Adjacency, Delta, Epsilon};

use super::claim::{Axis, Claim, Design, Effort, Experiment, Measured, Trial, TrialError};
use super::descent::{DELTA, epsilon_at, half_decades, mu_at};
use crate::problem::Problem as _;
use crate::simulation::{NoiseRule, SimulatedEstimator};
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

enum Plan {
    Spider(NormalizedSpiderPlan),
    Storm(StormPlan),
}

impl Plan {
    fn of(who: Who, facts: &PublicFacts, budget: &Budget) -> Result<Self, TrialError> {
        if who == Who::NormalizedSpider {
            let plan = NormalizedSpiderPlan::new(facts, budget, MAX_STEPS)?;
            return Ok(Plan::Spider(plan));
        }
        let mut plan = StormPlan::new(facts, budget, MAX_STEPS)?;
        if who == Who::FreshStorm {
            plan.momentum = Momentum::new(1.0)?;
        }
        Ok(Plan::Storm(plan))
    }

    fn bound(&self) -> Option<f64> {
        match self {
            Plan::Spider(plan) => plan.predicted_bound,
            Plan::Storm(plan) => plan.predicted_bound,
        }
    }

    fn run(
        &self,
        estimator: &mut dyn Estimator,
        observer: &mut dyn FnMut(&Release<'_>),
    ) -> Result<Outcome, RunError> {
        let mut observer = |release: &Release<'_>| {
            observer(release);
            ControlFlow::Continue(())
        };
        match self {
            Plan::Spider(plan) => plan.run(estimator, &mut observer),
            Plan::Storm(plan) => plan.run(estimator, &mut observer),
        }
    }
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
        let share = trial.member as f64 / (trial.members.max(2) - 1) as f64;
        let limit = RampBowl::largest_slope(lipschitz, smoothness, gap, Ramp::Straight);
        let slope = limit.min(SLOPES[0] * (SLOPES[1] / SLOPES[0]).powf(share));
        let problem = RampBowl::new(dim, lipschitz, smoothness, gap, Ramp::Straight, slope)?;
        let facts = problem.facts(records, Adjacency::ReplaceOne);
        let budget = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: Delta::new(DELTA)?,
        };
        let plan = Plan::of(self.who, &facts, &budget)?;
        let mut estimator =
            SimulatedEstimator::new(&problem, records, Adjacency::ReplaceOne, trial.seed)
                .with_rule(self.rule);
        let (mut sum, mut squares, mut points) = (0.0, 0.0, 0u64);
        let mut gradient = vec![0.0; dim];
        let outcome = plan.run(&mut estimator, &mut |release| {
            problem.gradient(release.point, &mut gradient);
            let exact = norm(&gradient);
            sum += exact;
            squares += exact * exact;
            points += 1;
        })?;
        if outcome.stop != Stop::Completed {
            return Err(format!("the run ended with {:?}", outcome.stop).into());
        }
        let bound = plan.bound().ok_or("the plan states no bound")?;
        let points = points as f64;
        let measured = Measured::new(sum / points).with_bound(bound);
        // The bound of normalised Spider is on the mean.
        Ok(match plan {
            Plan::Spider(_) => measured,
            Plan::Storm(_) => measured.with_square(squares / points),
        })
    }
}
