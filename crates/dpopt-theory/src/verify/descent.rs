//! What is claimed of noisy gradient descent, SpiderBoost, at the constants of averages along rows too, normalised Spider and STORM, and the twins that must be caught.
//!
//! Error of a point of an experiment: the worst, over a logarithmic grid of ramp slopes, of the mean
//! over runs of the output's gradient norm, on [`RampBowl`]. The output is uniform over the points
//! of a run, so the mean over these points is its expectation given the run; taking that and not one
//! drawn point removes most of the sampling error, and few seeds suffice.

use dpopt_nonconvex::{
    Budget, EnvelopePlan, Limits, NoisyGdPlan, NormalizedSpiderPlan, Plan, PublicFacts,
    SPIDERBOOST, SpiderBoostPlan, SpiderBoostSchedule, StormPlan, StormSchedule,
};
use dpopt_oracle::{Convexity, Momentum};
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Points, Privacy, Size, five_mus, gradient_norm, half_decades, share};
use crate::checks::{CheckError, Effort};
use crate::simulation::{NoiseRule, SimulatedOracle};
use crate::zoo::{Ramp, RampBowl};

/// The problem: L0, L1 and F0.
const CONSTANTS: [f64; 3] = [1.0, 1.0, 0.5];
/// Steps that a planner may take; none of these plans takes as many.
const MAX_STEPS: u64 = 100_000_000;
/// r, where losses are averaged: then L1 = 2, and F0 grows to 1.
const RADIUS: f64 = 0.5;
/// What is wrong with a run whose noise goes by [`NoiseRule::Lipschitz`].
pub(super) const NOT_BY_DISPLACEMENT: &str =
    "The noise of a variation is scaled with 2 L0 and not with its displacement.";

/// A solver, or a broken twin of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    SpiderBoost,
    /// SpiderBoost at the constants of a loss averaged along rows, on a problem that is as smooth as that. No averages are taken:
    /// runs on records with kinks are in `envelope.rs` of the tests of `dpopt-nonconvex`.
    Envelope,
    NoisyGd,
    /// One anchor and then variations only.
    NoRefresh,
    NormalizedSpider,
    Storm,
    /// The plan of STORM with a = 1.
    FreshStorm,
}

impl Who {
    /// Whether it is one of the variants, whose experiments are smaller.
    fn is_variant(self) -> bool {
        matches!(
            self,
            Self::Envelope | Self::NormalizedSpider | Self::Storm | Self::FreshStorm
        )
    }
}

struct RampExperiment {
    claim: Claim,
    who: Who,
    ramp: Ramp,
    rule: NoiseRule,
}

fn experiment(claim: Claim, who: Who) -> RampExperiment {
    RampExperiment {
        claim,
        who,
        ramp: Ramp::Straight,
        rule: NoiseRule::Displacement,
    }
}

/// The experiments with SpiderBoost and noisy gradient descent.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |experiment| all.push(Box::new(experiment));
    let (n, rate) = (Axis::Records, -2.0 / 3.0);
    for (axis, records, dimension) in [
        (n, rate, -0.5),
        (Axis::Dimension, 1.0 / 3.0, 0.25),
        (Axis::Mu, rate, -0.5),
    ] {
        let id = |solver| format!("{solver}/{}", axis.symbol());
        let claim = by_spiderboost(&id("spiderboost"), axis, records).tight(0.6);
        add(experiment(claim, Who::SpiderBoost));
        let claim = by_noisy_gd(&id("noisy-gd"), axis, dimension).tight(0.6);
        add(experiment(claim, Who::NoisyGd));
    }
    let wavy = by_spiderboost("spiderboost/n-nonconvex", n, rate)
        .expecting(Expect::AtMost)
        .within(0.05, 0.2, "the wavy ramp is easier than the straight one");
    add(RampExperiment {
        ramp: Ramp::Wavy,
        ..experiment(wavy, Who::SpiderBoost)
    });
    let control =
        by_spiderboost("spiderboost/lipschitz-noise", n, rate).control(NOT_BY_DISPLACEMENT);
    add(RampExperiment {
        rule: NoiseRule::Lipschitz,
        ..experiment(control, Who::SpiderBoost)
    });
    let control = by_spiderboost("spiderboost/no-refresh", n, rate)
        .control("No anchor after the first: the error of the estimate is never reset.");
    add(experiment(control, Who::NoRefresh));
    let control = by_noisy_gd("noisy-gd/as-spiderboost", n, rate)
        .control("Noisy gradient descent under the claim of SpiderBoost: can a fit tell the two?");
    add(experiment(control, Who::NoisyGd));
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
            "descent lemma, docs/theory/faster-rates.md",
        )
        .on("ramp-bowl")
}

/// The experiments with the variants.
pub(super) fn variants() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |experiment| all.push(Box::new(experiment));
    let (n, rate) = (Axis::Records, -2.0 / 3.0);
    for (who, name) in [
        (Who::NormalizedSpider, "normalized-spider"),
        (Who::Storm, "storm"),
    ] {
        let claim = |row: &str, axis, predicted| {
            Claim::new(&format!("{name}/{row}"), axis, predicted)
                .by(name, "docs/theory/faster-rates.md")
                .on("ramp-bowl")
                .within(
                    0.06,
                    0.1,
                    "two decades, few runs; numbers of steps are whole",
                )
        };
        for (axis, predicted) in [(n, rate), (Axis::Dimension, 1.0 / 3.0), (Axis::Mu, rate)] {
            let claim = claim(axis.symbol(), axis, predicted).tight(0.4);
            add(experiment(claim, who));
        }
        let control = claim("lipschitz-noise", n, rate)
            .control("The noise of a change is scaled with 2 L0 and not with its displacement.");
        add(RampExperiment {
            rule: NoiseRule::Lipschitz,
            ..experiment(control, who)
        });
        if who == Who::Storm {
            let control = claim("fresh", n, rate)
                .control("The weight of the fresh gradient is 1: nothing is kept of the estimate.");
            add(experiment(control, Who::FreshStorm));
        }
    }
    let claim = |row: &str, axis, predicted| {
        Claim::new(&format!("goldstein-envelope/{row}"), axis, predicted)
            .by(
                "spiderboost at the averaged constants of goldstein-envelope",
                "docs/theory/goldstein.md, Theorem 5",
            )
            .on("ramp-bowl, as smooth as averages are")
            .measuring("gradient norm")
            .expecting(Expect::AtMost)
            .within(0.05, 0.1, "two decades, few runs")
    };
    for (axis, predicted) in [(n, rate), (Axis::Dimension, 1.0 / 3.0)] {
        let claim = claim(axis.symbol(), axis, predicted).tight(0.4);
        add(experiment(claim, Who::Envelope));
    }
    let control = claim("lipschitz-noise", n, rate)
        .control("The noise of a change is scaled with 2 L and not with its move over r.");
    add(RampExperiment {
        rule: NoiseRule::Lipschitz,
        ..experiment(control, Who::Envelope)
    });
    all
}

/// Facts of a loss with kinks and the Lipschitz constant and gap of [`CONSTANTS`].
fn own_facts(size: &Size) -> PublicFacts {
    let [lipschitz, _, initial_gap] = CONSTANTS;
    PublicFacts {
        records: size.records,
        dim: size.dim,
        adjacency: Adjacency::ReplaceOne,
        lipschitz,
        smoothness: f64::INFINITY,
        initial_gap,
        row_norm: 1.0,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    }
}

impl RampExperiment {
    /// Of the problem that is walked on.
    fn constants(&self, size: &Size) -> Result<[f64; 3], CheckError> {
        if self.who != Who::Envelope {
            return Ok(CONSTANTS);
        }
        let averaged = EnvelopePlan::averaged(&own_facts(size), RADIUS)?;
        Ok([
            averaged.lipschitz,
            averaged.smoothness,
            averaged.initial_gap,
        ])
    }

    fn size(&self, x: f64) -> Size {
        let records = match (self.claim.axis, self.who.is_variant()) {
            (Axis::Dimension, false) => 100_000,
            (_, true) if self.claim.axis == Axis::Mu => 20_000,
            _ => 30_000,
        };
        let size = Size {
            records,
            dim: 10,
            privacy: Privacy::Epsilon(1.0),
        };
        size.along(self.claim.axis, x)
    }
}

impl Experiment for RampExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let variant = self.who.is_variant();
        let decades = if variant { 5 } else { 7 };
        let points = match self.claim.axis {
            Axis::Records if self.claim.control => {
                half_decades(1_000.0, if variant { 4 } else { 5 })
            }
            Axis::Records => half_decades(1_000.0, effort.pick(decades, decades + 1)),
            Axis::Dimension => half_decades(10.0, 5),
            _ => five_mus(),
        };
        Design::new(points)
            .with_members(effort.pick(12, 24))
            .with_seeds(effort.pick(if variant { 3 } else { 2 }, 6))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let [lipschitz, smoothness, gap] = self.constants(&size)?;
        let limit = RampBowl::largest_slope(lipschitz, smoothness, gap, self.ramp);
        // From a quarter of L0 down to below the error at the largest argument.
        let least = if self.who.is_variant() { 0.003 } else { 0.0008 };
        let slope = limit.min(0.25 * f64::powf(least / 0.25, share(trial)));
        let problem = RampBowl::new(size.dim, lipschitz, smoothness, gap, self.ramp, slope)?;
        let facts = problem.facts(size.records, Adjacency::ReplaceOne);
        let budget = size.budget(DELTA)?;
        let plan = planned(self.who, &facts, &budget)?;
        // A twin is held against the bound of the plan that it is not.
        let bound = plan.predicted_bound();
        if self.who == Who::Envelope {
            // The problem is what its plan is about after averaging.
            let own = own_facts(&size);
            let limits = Limits::steps(MAX_STEPS);
            let whole = EnvelopePlan::new(&own, &budget, RADIUS, &SPIDERBOOST, &limits)?;
            let same = whole.bound().map(|bound| bound.value) == bound;
            if !same || whole.base().steps() != plan.steps() {
                return Err("the plan is not that of the averaged problem".into());
            }
        }
        let plan = walked(self.who, &facts, &budget)?.unwrap_or(plan);
        let mut oracle =
            SimulatedOracle::new(&problem, size.records, Adjacency::ReplaceOne, trial.seed)
                .with_rule(self.rule);
        let points = Points::of(&*plan, &mut oracle, |point| gradient_norm(&problem, point))?;
        let measured = points.under(bound)?;
        Ok(match self.who {
            // Its bound is on the mean.
            Who::NormalizedSpider => measured.with_square(points.mean * points.mean),
            _ => measured,
        })
    }
}

fn planned(who: Who, facts: &PublicFacts, budget: &Budget) -> Result<Box<dyn Plan>, CheckError> {
    Ok(match who {
        Who::NoisyGd => Box::new(NoisyGdPlan::theory(facts, budget, MAX_STEPS)?),
        Who::SpiderBoost | Who::Envelope | Who::NoRefresh => {
            Box::new(SpiderBoostPlan::new(facts, budget, MAX_STEPS)?)
        }
        Who::NormalizedSpider => Box::new(NormalizedSpiderPlan::new(facts, budget, MAX_STEPS)?),
        Who::Storm | Who::FreshStorm => Box::new(StormPlan::new(facts, budget, MAX_STEPS)?),
    })
}

/// What a twin makes of its plan.
fn walked(
    who: Who,
    facts: &PublicFacts,
    budget: &Budget,
) -> Result<Option<Box<dyn Plan>>, CheckError> {
    Ok(match who {
        Who::NoRefresh => {
            let plan = SpiderBoostPlan::new(facts, budget, MAX_STEPS)?;
            let schedule = SpiderBoostSchedule {
                phase: plan.steps(),
                ..*plan.schedule()
            };
            Some(Box::new(SpiderBoostPlan::by_hand(facts, budget, schedule)))
        }
        Who::FreshStorm => {
            let schedule = StormSchedule {
                momentum: Momentum::new(1.0)?,
                ..*StormPlan::new(facts, budget, MAX_STEPS)?.schedule()
            };
            Some(Box::new(StormPlan::by_hand(facts, budget, schedule)))
        }
        _ => None,
    })
}
