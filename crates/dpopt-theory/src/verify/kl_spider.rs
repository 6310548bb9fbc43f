//! Claims about KL Spider, and the twins that must be caught.
//!
//! Error of a point of an experiment: the mean excess over a few runs on a function that is tight for its KL exponent everywhere
//! ([`Power`]) or over many orders of magnitude ([`Softplus`]), in closed form. Every record counts as tilted by a vector of norm at most
//! 1 with mean zero, which leaves the mean loss what it is and makes L0 larger by 1. The bound is the plan's, which holds with
//! probability 0.95 for each run.
//!
//! [`LogPeriodic`] is not convex, and tight once in a period only: its excess goes down in a staircase, so that its row asks for the
//! bound, and for a slope at most the predicted one up to the height of a stair.

use std::ops::ControlFlow;

use dpopt_nonconvex::{
    KlSpiderPlan, KlSpiderSettings, KlSpiderVersion, NoObserver, NoisyGdPlan, NoisyGdSchedule,
    OutputRule, Plan as _, PublicFacts, Release, Stop,
};
use dpopt_oracle::Oracle;

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{Privacy, Size, half_decades};
use super::descent::NOT_BY_DISPLACEMENT;
use crate::checks::{CheckError, Effort};
use crate::problem::Problem;
use crate::simulation::{NoiseRule, SimulatedOracle};
use crate::zoo::{LogPeriodic, Power, Radial, Softplus};

/// beta of the plans.
const FAILURE: f64 = 0.05;
/// Bound on the tilt of a record.
const TILT: f64 = 1.0;
/// No plan here takes as many.
const MAX_STEPS: u64 = 1 << 40;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Family {
    /// ||w||^tau/tau.
    Power(f64),
    Softplus,
    LogPeriodic,
}

/// The solver, or a broken twin of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    KlSpider,
    /// A phase hands on the point before its last one, as printed.
    PreviousIterate,
    /// Variations with the noise of anchors.
    LipschitzNoise,
    /// The printed schedule, held against the bound of the plan.
    Printed,
    /// Noisy gradient descent, held against the bound of the plan.
    NoisyGd,
}

struct KlExperiment {
    claim: Claim,
    who: Who,
    family: Family,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, who, family| all.push(Box::new(KlExperiment { claim, who, family }));
    for (family, name, kappa) in [
        (Family::Power(2.0), "", 2.0),
        (Family::Power(3.0), "-power-3", 1.5),
        (Family::Power(4.0), "-power-4", 4.0 / 3.0),
        (Family::Softplus, "-softplus", 1.0),
    ] {
        for (axis, exponent) in [
            (Axis::Records, -kappa),
            (Axis::Dimension, 0.5 * kappa),
            (Axis::Mu, -kappa),
        ] {
            let id = format!("kl-spider/{}{name}", axis.symbol());
            let mut claim = claim(&id, axis, exponent).tight(0.1);
            if family == Family::Power(4.0) {
                let why = "the planner's ratio of targets, and with it the share of the bound, changes along the way";
                claim = claim.within(0.08, 0.25, why);
            }
            add(claim, Who::KlSpider, family);
        }
    }
    let n = Axis::Records;
    let stairs = claim("kl-spider/n-nonconvex", n, -2.0)
        .on("log-periodic")
        .expecting(Expect::AtMost)
        .within(
            0.5,
            1.5,
            "the excess falls in stairs: tight once in a period of the logarithm",
        );
    add(stairs, Who::KlSpider, Family::LogPeriodic);
    for (id, exponent, who, tau, note) in [
        (
            "kl-spider/previous-iterate",
            -2.0,
            Who::PreviousIterate,
            2.0,
            "Phases hand on the point before their last, as printed, in the paper's phases.",
        ),
        (
            "kl-spider/lipschitz-noise",
            -1.5,
            Who::LipschitzNoise,
            3.0,
            NOT_BY_DISPLACEMENT,
        ),
        (
            "kl-spider/printed",
            -2.0,
            Who::Printed,
            2.0,
            "The printed schedule with equal budgets, under the bound of the planned one.",
        ),
        (
            "kl-spider/noisy-gd",
            -2.0,
            Who::NoisyGd,
            2.0,
            "Noisy gradient descent, planned for short gradients, under the claim of KL Spider.",
        ),
    ] {
        add(
            claim(id, n, exponent).control(note),
            who,
            Family::Power(tau),
        );
    }
    all
}

fn claim(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("kl-spider", "arXiv 2311.13447, Theorem 1, repaired")
        .on("power")
        .measuring("excess risk")
        .within(0.08, 0.16, "a tolerance fixed before the first run")
}

impl KlExperiment {
    fn size(&self, x: f64) -> Size {
        let records = match (self.claim.axis, self.family) {
            (Axis::Dimension, Family::Softplus) => 30_000,
            (Axis::Dimension, Family::Power(tau)) if tau > 3.0 => 300_000,
            (_, Family::Softplus) => 100_000,
            _ => 1_000_000,
        };
        let size = Size {
            records,
            dim: 20,
            privacy: Privacy::Mu(std::f64::consts::SQRT_2),
        };
        size.along(self.claim.axis, x)
    }

    /// Runs of one trial: planning takes longer than a short run.
    fn runs(&self) -> u64 {
        match (self.family, self.claim.axis) {
            (Family::Softplus, Axis::Dimension) => 1,
            (Family::Softplus, _) => 2,
            (Family::Power(tau), Axis::Dimension) if tau > 3.0 => 1,
            (_, Axis::Dimension) => 2,
            (Family::Power(tau), _) if tau > 3.0 => 2,
            _ => 8,
        }
    }

    fn problem(&self, dim: usize) -> Result<Box<dyn Problem>, CheckError> {
        Ok(match self.family {
            Family::Power(tau) => Box::new(Radial::new(Power::new(tau)?, dim, 1.0, 1.0)?),
            Family::Softplus => Box::new(Radial::new(Softplus::new(20.0, 20.0)?, dim, 1.0, 1.0)?),
            Family::LogPeriodic => {
                let profile = LogPeriodic::new(0.5, 2.0, 0.5, 4.0)?;
                Box::new(Radial::new(profile, dim, 1.0, 1.0)?)
            }
        })
    }

    /// The excess of one run.
    fn run(
        &self,
        plan: &KlSpiderPlan,
        problem: &dyn Problem,
        seed: u64,
    ) -> Result<f64, CheckError> {
        let facts = plan.facts();
        let oracle = |seed| SimulatedOracle::new(problem, facts.records, facts.adjacency, seed);
        let point = match self.who {
            Who::PreviousIterate => previous_iterates(plan, |k| oracle(seed ^ (k << 32)))?,
            Who::NoisyGd => {
                let schedule = NoisyGdSchedule {
                    output: OutputRule::Last,
                    ..*NoisyGdPlan::theory(facts, plan.budget(), MAX_STEPS)?.schedule()
                };
                let gd = NoisyGdPlan::by_hand(facts, plan.budget(), schedule);
                gd.run(&mut oracle(seed), &mut NoObserver)?.point
            }
            Who::LipschitzNoise => {
                let mut twin = oracle(seed).with_rule(NoiseRule::Lipschitz);
                plan.run(&mut twin, &mut NoObserver)?.point
            }
            Who::KlSpider | Who::Printed => {
                let outcome = plan.run(&mut oracle(seed), &mut NoObserver)?;
                if !matches!(outcome.stop, Stop::Completed | Stop::SmallEstimate) {
                    return Err(format!("the run ended with {:?}", outcome.stop).into());
                }
                outcome.point
            }
        };
        Ok(problem.value(&point))
    }
}

/// Runs phase by phase, each from the point before the last one of the phase before.
fn previous_iterates<O: Oracle>(
    plan: &KlSpiderPlan,
    oracle: impl Fn(u64) -> O,
) -> Result<Vec<f64>, CheckError> {
    let mut point = vec![0.0; plan.dim()];
    for (k, phase) in (0..).zip(plan.phases()) {
        let (facts, budget, settings) = (plan.facts(), plan.budget(), *plan.settings());
        let single = KlSpiderPlan::by_hand(facts, plan.kl(), budget, settings, vec![*phase]);
        let mut seen = Vec::new();
        let outcome = single.run_from(&point, &mut oracle(k), &mut |release: &Release<'_>| {
            seen.push(release.point.to_vec());
            ControlFlow::Continue(())
        })?;
        // The last release was made at the point returned, if that was certified, and else at the one before.
        if outcome.stop == Stop::SmallEstimate {
            seen.pop();
        }
        point = seen.pop().unwrap_or(point);
    }
    Ok(point)
}

impl Experiment for KlExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match (self.claim.axis, self.who, self.family) {
            (Axis::Dimension, ..) => (0..7)
                .map(|k| (100.0 * 10f64.powf(0.25 * f64::from(k))).round())
                .collect(),
            (Axis::Mu, ..) => (0..7)
                .map(|k| 0.05 * 10f64.powf(f64::from(k) / 3.0))
                .collect(),
            (_, Who::Printed, _) => half_decades(1e5, 5),
            (.., Family::Softplus) => half_decades(1e3, 7),
            (_, _, Family::LogPeriodic) => half_decades(1e3, 9),
            (_, Who::KlSpider, _) => half_decades(1e4, effort.pick(7, 11)),
            _ => half_decades(1e4, 5),
        };
        Design::new(points).with_seeds(effort.pick(3, 12))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let problem = self.problem(size.dim)?;
        let known = problem.constants();
        let condition = known.kl.ok_or("no KL condition is known")?.condition()?;
        let facts = PublicFacts {
            lipschitz: known.lipschitz + TILT,
            ..size.facts(&*problem)
        };
        let budget = size.budget(1e-6)?;
        let plan = |version| {
            let settings = KlSpiderSettings::new(FAILURE).with_version(version);
            KlSpiderPlan::new(&facts, &condition, &budget, settings, MAX_STEPS)
        };
        let free = plan(KlSpiderVersion::FreePhases)?;
        let walked = match self.who {
            Who::PreviousIterate => plan(KlSpiderVersion::PaperPhases)?,
            Who::Printed => plan(KlSpiderVersion::PaperConstants)?,
            _ => free.clone(),
        };
        let (mut sum, mut squares) = (0.0, 0.0);
        for run in 0..self.runs() {
            let excess = self.run(&walked, &*problem, trial.seed.wrapping_add(run))?;
            sum += excess;
            squares += excess * excess;
        }
        let runs = self.runs() as f64;
        Ok(Measured::new(sum / runs)
            .with_square(squares / runs)
            .with_bound(free.excess_bound()))
    }
}
