//! Claims about private proximal point, and the twin that must be caught.
//!
//! Powers of the radius below 2, on which the KL condition is tight everywhere, as the mean of records that are tilted apart: the
//! mean gradient is exact. The theorem is an upper bound with logarithms, so the measured excess is divided by the planner's
//! certified curve over its power before the fit ("the slope is that of the certified curve, or better"); along d by that
//! curve with the mean d in the place of the quantile (sqrt(d + l) + sqrt l)^2, which is what a mean excess follows. Predictions, corrections
//! and tolerances were fixed before the first run.
//!
//! On the weakly convex family the claim is e_t <= Phi_t after every round: the row measures the largest e_t/Phi_t.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_nonconvex::{
    KlCondition, NoObserver, Plan as _, ProximalFacts, ProximalPlan, ProximalReads,
    ProximalSettings, PublicFacts, Release,
};
use dpopt_oracle::{Answer, AskError, FnOracle, Mean, Offers, Oracle, OracleFacts, Question};
use dpopt_privacy::Curator;

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{Privacy, Size, completed};
use crate::checks::{CheckError, Effort};
use crate::problem::Problem;
use crate::zoo::{Power, Radial, WeaklyConvex};
use dpopt_certify::random::Normals;

/// beta.
const FAILURE: f64 = 0.05;
/// L0 of the records of a power: its own slope is at most 1.42 where the run goes, the rest is for the tilts.
const LIPSCHITZ: f64 = 1.5;
/// How far from the minimiser the powers' constants are stated.
const REACH: f64 = 2.0;
/// d along the other axes: the relative deviation of an excess is kappa/sqrt(2 d).
const MANY: usize = 100;
const MAX_STEPS: u64 = 1 << 40;
/// Of the budgets: small, because mu goes down to 1e-3.
const DELTA: f64 = 1e-10;
/// Slack of the plans: fewer steps for a bound that is a little larger.
const SLACK: f64 = 1.0;
/// Weak convexity that the printed algorithm is told; a convex function may claim any.
const PRINTED_WEIGHT: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Planned,
    /// The printed Algorithms 2 and 4: one weight, equal budgets.
    Printed,
    /// The planned one on the weakly convex family, by e_t/Phi_t.
    EveryRound,
}

struct ProximalExperiment {
    claim: Claim,
    kappa: f64,
    who: Who,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, kappa, who| {
        all.push(Box::new(ProximalExperiment { claim, kappa, who }));
    };
    for (name, kappa) in [("kappa3", 3.0), ("kappa4", 4.0)] {
        for (axis, predicted) in [
            (Axis::Records, -kappa),
            (Axis::Dimension, 0.5 * kappa),
            (Axis::Mu, -kappa),
        ] {
            let id = format!("proximal-point/{}-{name}", axis.symbol());
            add(claim(&id, axis, predicted), kappa, Who::Planned);
        }
        let id = format!("proximal-point/printed-{name}");
        let control = claim(&id, Axis::Records, -kappa).control(
            "The weight of the regulariser stays, and all rounds share the budget equally (as printed): the gap of \
             a subproblem goes as n^-2, and the risk with it.",
        );
        add(control, kappa, Who::Printed);
    }
    let every = Claim::new("proximal-point/every-round", Axis::Records, 0.0)
        .by("proximal-point", THEOREM)
        .on("rippled power, weakly convex")
        .measuring("largest e_t/Phi_t over the rounds")
        .expecting(Expect::AtMost)
        .within(0.3, 1.5, "a ratio that must be below 1, and not a rate");
    add(every, 3.0, Who::EveryRound);
    all
}

const THEOREM: &str = "arXiv 2311.13447, Theorem 2, repaired";

fn claim(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("proximal-point", THEOREM)
        .on("power of the radius")
        .measuring("excess risk")
        .expecting(Expect::AtMost)
        .within(
            0.08,
            0.4,
            "against the planner's certified curve; a mean of a skew law over few seeds",
        )
}

impl ProximalExperiment {
    fn size(&self, x: f64) -> Size {
        let (records, dim, mu) = match (self.claim.axis, self.who) {
            (Axis::Dimension, _) => (100_000, MANY, 0.08),
            (_, Who::EveryRound) => (1_000_000, 10, std::f64::consts::SQRT_2),
            (_, Who::Printed) => (1_000_000, 10, 1.0),
            _ => (1_000_000, MANY, 1.0),
        };
        let size = Size {
            records,
            dim,
            privacy: Privacy::Mu(mu),
        };
        size.along(self.claim.axis, x)
    }

    fn power(&self, dim: usize) -> Result<Radial<Power>, CheckError> {
        Ok(Radial::new(
            Power::new(self.kappa / (self.kappa - 1.0))?,
            dim,
            1.0,
            REACH,
        )?)
    }

    fn plan(&self, size: &Size) -> Result<ProximalPlan, CheckError> {
        let problem = self.power(size.dim)?;
        plan(&problem, LIPSCHITZ, size, FAILURE)
    }

    fn planned(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let problem = self.power(size.dim)?;
        let plan = self.plan(&size)?;
        let mut oracle = closed_gradients(&problem, &plan, trial.seed);
        let outcome = plan.run(&mut oracle, &mut NoObserver)?;
        completed(outcome.stop)?;
        Ok(Measured::new(problem.value(&outcome.point)).with_bound(plan.predicted_risk()))
    }

    fn every_round(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let profile = WeaklyConvex::new(1.5, 0.03, 10.0)?;
        let problem = Radial::new(profile, size.dim, 1.0, 1.3)?;
        // Tilts of length 1 besides.
        let lipschitz = problem.lipschitz() + 1.0;
        let plan = plan(&problem, lipschitz, &size, 1e-3)?;
        let mut oracle = closed_gradients(&problem, &plan, trial.seed);
        let mut ends = plan.rounds().iter().scan(0, |done, round| {
            *done += round.steps;
            Some((*done, round.risk))
        });
        let mut next = ends.next();
        let mut worst: f64 = 0.0;
        let outcome = plan.run(&mut oracle, &mut |release: &Release<'_>| {
            // The first point of a round is the output of the last one.
            if let Some((end, risk)) = next
                && release.step == end
            {
                worst = worst.max(problem.value(release.point) / risk);
                next = ends.next();
            }
            ControlFlow::Continue(())
        })?;
        completed(outcome.stop)?;
        worst = worst.max(problem.value(&outcome.point) / plan.predicted_risk());
        Ok(Measured::new(worst).with_bound(1.0))
    }

    /// Algorithms 2 and 4 as printed, with 2 n^2 rho_t/d steps a round.
    fn printed(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let problem = self.power(size.dim)?;
        let (n, d) = (size.records as f64, size.dim as f64);
        let rho = 0.5 * size.mu() * size.mu();
        let condition = condition(&problem)?;
        let gap = problem.initial_gap();
        let number = condition.condition_number(PRINTED_WEIGHT, gap);
        let scale = n * rho.sqrt() / (condition.gamma() * LIPSCHITZ * d.sqrt());
        let log = gap.ln() + self.kappa * scale.ln();
        let rounds = ((1.0 + 32.0 * number) * log).ceil().max(1.0);
        let share = rho / rounds;
        let steps = (2.0 * n * n * share / d).ceil().max(1.0);
        let noise_std = 2.0 * LIPSCHITZ * (steps / share).sqrt() / n;
        let radius = LIPSCHITZ / (2.0 * PRINTED_WEIGHT);
        let mut random = Normals::new(trial.seed);
        let mut centre = vec![0.0; size.dim];
        let mut gradient = centre.clone();
        for _ in 0..rounds as u64 {
            let mut point = centre.clone();
            let mut average = centre.clone();
            for t in 1..=steps as u64 {
                let t = t as f64;
                for (average, w) in average.iter_mut().zip(&point) {
                    *average += 2.0 / (t + 1.0) * (w - *average);
                }
                problem.gradient(&point, &mut gradient);
                let step = (PRINTED_WEIGHT * t).recip();
                for ((w, c), g) in point.iter_mut().zip(&centre).zip(&gradient) {
                    let pull = 2.0 * PRINTED_WEIGHT * (*w - c);
                    *w -= step * (g + pull + noise_std * random.normal());
                }
                let length = distance(&point, &centre);
                if length > radius {
                    for (w, c) in point.iter_mut().zip(&centre) {
                        *w = c + radius / length * (*w - c);
                    }
                }
            }
            centre = average;
        }
        Ok(Measured::new(problem.value(&centre)))
    }
}

fn condition(problem: &dyn Problem) -> Result<KlCondition, CheckError> {
    let kl = problem
        .constants()
        .kl
        .ok_or("the problem has no KL condition")?;
    Ok(kl.condition()?)
}

fn plan(
    problem: &dyn Problem,
    lipschitz: f64,
    size: &Size,
    failure: f64,
) -> Result<ProximalPlan, CheckError> {
    let constants = problem.constants();
    let public = PublicFacts {
        lipschitz,
        row_norm: f64::INFINITY,
        ..size.facts(problem)
    };
    let facts = ProximalFacts {
        public,
        condition: condition(problem)?,
        weak_convexity: Some(constants.weak_convexity),
        failure,
        region: None,
    };
    let budget = size.budget(DELTA)?;
    let settings = ProximalSettings::new(MAX_STEPS)
        .reading(ProximalReads::Everything)
        .with_slack(SLACK);
    let plan = ProximalPlan::with_settings(&facts, &budget, settings)?;
    // As long as the bound holds, centres are no farther from the minimiser than the start, at radius 1.
    let ball = plan.rounds().iter().map(|round| round.radius);
    if 1.0 + ball.fold(0.0, f64::max) > constants.radius {
        return Err("the run may leave the ball in which the constants hold".into());
    }
    Ok(plan)
}

impl Experiment for ProximalExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let (first, ratio, count, seeds) = match (self.claim.axis, self.who) {
            (Axis::Dimension, _) => (10.0, 10f64.sqrt(), 7, effort.pick(2, 16)),
            (_, Who::EveryRound) => (2e3, 1.6, effort.pick(4, 6), 2),
            (_, Who::Printed) => (500.0, 2f64.sqrt(), effort.pick(7, 9), 4),
            (Axis::Mu, _) if full => (1e-3, 10f64.powf(0.25), 9, 3),
            (Axis::Mu, _) => (1e-3, 1.5, 8, 2),
            _ if full => (1e3, 10f64.sqrt(), 6, 2),
            _ => (1e3, 1.5, 8, 2),
        };
        let points = (0..count).map(|k| first * ratio.powi(k));
        let whole = self.claim.axis != Axis::Mu;
        Design::new(points.map(|x| if whole { x.round() } else { x }).collect()).with_seeds(seeds)
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        match self.who {
            Who::Planned => self.planned(trial),
            Who::Printed => self.printed(trial),
            Who::EveryRound => self.every_round(trial),
        }
    }

    fn correction(&self, x: f64) -> f64 {
        if self.who == Who::EveryRound {
            return 1.0;
        }
        let size = self.size(x);
        let Ok(plan) = self.plan(&size) else {
            return f64::NAN;
        };
        let curve = plan.predicted_risk() / x.powf(self.claim.predicted);
        if self.claim.axis != Axis::Dimension {
            return curve;
        }
        let tail = (3.0 * plan.rounds().len() as f64 / FAILURE).ln();
        let root = (x + tail).sqrt() + tail.sqrt();
        curve * (x / (root * root)).powf(0.5 * self.kappa)
    }
}

/// The mean gradient of a problem in closed form with a plan's noise, without a charge for each release: runs here are of
/// many millions of steps.
fn closed_gradients(problem: &dyn Problem, plan: &ProximalPlan, seed: u64) -> impl Oracle {
    let (facts, noise_std, clip) = (plan.facts(), plan.noise_std(), plan.clip());
    let mut random = Normals::new(seed);
    FnOracle::new(
        OracleFacts::new(facts.dim, facts.records, facts.adjacency, Offers::MEANS),
        Curator::simulated(facts.adjacency, seed),
        move |_, question| {
            let Question::Mean { of, .. } = question else {
                let what = question.kind();
                return Err(AskError::NotOffered { what });
            };
            let mut mean = vec![0.0; of.point().len()];
            problem.gradient(of.point(), &mut mean);
            let length = norm(&mean);
            let kept = if length > clip { clip / length } else { 1.0 };
            for g in &mut mean {
                *g = kept * *g + noise_std * random.normal();
            }
            Ok(Answer::Mean(Mean::new(mean, noise_std)))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::two_point::{CanaryReading, TwoPointCanary};
    use super::*;
    use crate::zoo::TwoPoint;
    use dpopt_oracle::Convexity;

    const RECORDS: u64 = 20_000;
    const RHO: f64 = 1e-4;
    /// Where the runs start: far from both minimisers.
    const START: f64 = 0.2;

    /// The canary's reading of runs that are planned for `spent` times the budget that they claim.
    fn reading(kappa: f64, spent: f64, seeds: u64) -> CanaryReading {
        let canary = TwoPointCanary::new(kappa, RECORDS, RHO).unwrap();
        let solver = |problem: &TwoPoint, seed| {
            let size = Size {
                records: RECORDS,
                dim: 1,
                privacy: Privacy::Mu((2.0 * RHO * spent).sqrt()),
            };
            let public = PublicFacts {
                initial_gap: problem.value(&[START]) - problem.least(),
                row_norm: f64::INFINITY,
                convexity: Convexity::Convex,
                ..size.facts(problem)
            };
            let facts = ProximalFacts {
                public,
                condition: condition(problem)?,
                weak_convexity: None,
                failure: FAILURE,
                region: None,
            };
            let settings = ProximalSettings::new(MAX_STEPS)
                .reading(ProximalReads::Everything)
                .with_slack(SLACK);
            let plan = ProximalPlan::with_settings(&facts, &size.budget(DELTA)?, settings)?;
            let mut oracle = closed_gradients(problem, &plan, seed);
            let outcome = plan.run_from(&[START], &mut oracle, &mut NoObserver)?;
            completed(outcome.stop)?;
            Ok(outcome.point[0])
        };
        canary.read(0..seeds, solver).unwrap()
    }

    #[test]
    fn nobody_is_better_than_privacy_allows() {
        for kappa in [2.0, 3.0] {
            let reading = reading(kappa, 1.0, 100);
            assert!(reading.passes() && reading.excess > reading.floor);
        }
    }

    /// A solver with a fiftieth of the noise is caught.
    #[test]
    fn too_little_noise_is_better_than_that() {
        let reading = reading(2.0, 2500.0, 2);
        assert!(!reading.passes(), "{reading:?}");
    }
}
