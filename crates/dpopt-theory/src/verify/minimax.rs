//! What is claimed of saddle problems, and the twins that must be caught.
//!
//! Rates are on [`Coupled`] ramp-bowls with d1 = d2 = d and L0 = L1 = 1, F0 = 1/2 of Phi, beta = 1/2, m = 1: the worst over ramp slopes at fixed ratios to
//! the planned target (`rgda`), or at fixed slopes. One curvature in y, so K = 1: releases alternate between steps of x and of y.

use std::ops::ControlFlow;

use dpopt_linalg::distance;
use dpopt_minimax::{
    CertificateNoise, Outcome, Plan, Release, RgdaAnytimePlan, RgdaAnytimeSettings, RgdaPlan,
    SaddleFacts, SaddleLimits, SpiderGdaPlan, Stop, saddle_certificate,
};
use dpopt_oracle::Oracle as _;
use dpopt_privacy::{Adjacency, Event, NoiseMultiplier, Spend};

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, half_decades, share};
use super::descent::NOT_BY_DISPLACEMENT;
use crate::checks::{CheckError, Effort};
use crate::minimax::{JointProblem, MinimaxProblem};
use crate::simulation::{ClosedForm, NoiseRule, SimulatedOracle};
use crate::zoo::{CosineSaddle, Coupled, QuadraticGame, Ramp, RampBowl};

const MAX_STEPS: u64 = 1_000_000_000;
/// Ramp slopes over the target.
const RATIOS: (f64, f64) = (0.7, 1.2);
/// Where the error is measured along the run: ramps on which it does not end early.
const STEEP: (f64, f64) = (1.5, 3.0);
/// Ramp slopes where there is no target.
const SLOPES: (f64, f64) = (5e-4, 0.25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Rgda,
    /// The error of the estimate along a run of it.
    Estimate,
    SpiderGda,
    Anytime,
}

struct RampExperiment {
    claim: Claim,
    who: Who,
    rule: NoiseRule,
    rgda: Plans<RgdaPlan>,
    spider: Plans<SpiderGdaPlan>,
    anytime: Plans<RgdaAnytimePlan>,
}

fn on_ramps(claim: Claim, who: Who, rule: NoiseRule) -> Box<dyn Experiment> {
    Box::new(RampExperiment {
        claim: claim.on("ramp-bowl, coupled with y"),
        who,
        rule,
        rgda: Plans::new(),
        spider: Plans::new(),
        anytime: Plans::new(),
    })
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let (n, rate) = (Axis::Records, -2.0 / 3.0);
    let proof = "docs/theory/minimax.md";
    for (axis, rate) in [(n, rate), (Axis::Dimension, 1.0 / 3.0), (Axis::Mu, rate)] {
        let id = |solver| format!("{solver}/{}", axis.symbol());
        let claim = Claim::new(&id("rgda"), axis, rate).by("rgda", proof);
        let note = "tails and a union over steps: logarithms";
        let claim = match axis {
            Axis::Dimension => claim.expecting(Expect::AtMost).within(
                0.05,
                0.12,
                "sqrt d + sqrt(2 ln) for small d: less than a third",
            ),
            _ => claim.within(0.05, 0.12, note),
        };
        all.push(on_ramps(claim, Who::Rgda, NoiseRule::Displacement));
        let claim = Claim::new(&id("spider-gda"), axis, rate).by("spider-gda", proof);
        all.push(on_ramps(claim, Who::SpiderGda, NoiseRule::Displacement));
    }
    let estimate = |id| {
        Claim::new(id, n, rate)
            .by("rgda", proof)
            .measuring("error of v, root mean square over the run")
            .within(0.05, 0.12, "tails and a union over steps: logarithms")
    };
    let claim = estimate("rgda/estimator-n");
    all.push(on_ramps(claim, Who::Estimate, NoiseRule::Displacement));
    let claim = estimate("rgda/lipschitz-noise").control(NOT_BY_DISPLACEMENT);
    all.push(on_ramps(claim, Who::Estimate, NoiseRule::Lipschitz));
    let claim = Claim::new("spider-gda/lipschitz-noise", n, rate)
        .by("spider-gda", proof)
        .control(NOT_BY_DISPLACEMENT);
    all.push(on_ramps(claim, Who::SpiderGda, NoiseRule::Lipschitz));
    let anytime = |id| {
        Claim::new(id, n, rate)
            .by("rgda-anytime", "docs/theory/minimax.md")
            .measuring("certified gradient norm of Phi")
            .expecting(Expect::AtMost)
            .within(0.06, 0.15, "levels are a factor of 0.7 apart: stairs")
    };
    let claim = anytime("rgda-anytime/n");
    all.push(on_ramps(claim, Who::Anytime, NoiseRule::Displacement));
    let claim = anytime("rgda-anytime/lipschitz-noise").control(NOT_BY_DISPLACEMENT);
    all.push(on_ramps(claim, Who::Anytime, NoiseRule::Lipschitz));
    for fixed in [false, true] {
        let id = if fixed {
            "rgda/as-curved"
        } else {
            "rgda-anytime/n-curved"
        };
        let claim = anytime(id).on("cosine saddle, from the saddle");
        let claim = Claim {
            predicted: -1.0,
            tolerance: 0.08,
            ..claim
        };
        let claim = match fixed {
            true => claim.control("The fixed plan stops at the length that was planned for."),
            false => claim,
        };
        all.push(Box::new(Curved { claim, fixed }));
    }
    for (axis, rate, tolerance) in [(n, -1.0, 0.03), (Axis::Dimension, 0.0, 0.03)] {
        let id = format!("saddle-certificate/{}", axis.symbol());
        let claim = width(&id, axis, rate).within(tolerance, 0.08, "closed form and one release");
        all.push(Box::new(Width {
            claim,
            broken: false,
        }));
    }
    let claim = width("saddle-certificate/clipped-average", n, -1.0)
        .control("The mean Hessian is clipped, and not each record's: its sensitivity has no 1/n.");
    all.push(Box::new(Width {
        claim,
        broken: true,
    }));
    all
}

fn width(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("saddle-certificate", "docs/theory/minimax.md")
        .measuring("width of the lower end of lambda_min")
        .on("quadratic game, d2 = 2, C_F fixed")
        .on_average()
}

/// The problem with this slope, as steep as its constants allow at most.
pub(super) fn ramp(size: &Size, slope: f64) -> Result<Coupled<RampBowl>, CheckError> {
    let most = RampBowl::largest_slope(1.0, 1.0, 0.5, Ramp::Straight);
    let ramp = RampBowl::new(size.dim, 1.0, 1.0, 0.5, Ramp::Straight, slope.min(most))?;
    Ok(Coupled::new(ramp, size.dim, 0.5, 1.0)?)
}

/// Whether this release is at the x and y that a step starts from: after one step of y on an anchor every other is.
pub(super) fn settled(release: &Release<'_>) -> bool {
    release.step >= 2 && release.step.is_multiple_of(2)
}

pub(super) fn run(
    plan: &dyn Plan,
    problem: &dyn MinimaxProblem,
    (records, rule, seed): (u64, NoiseRule, u64),
    watch: &mut dyn FnMut(&Release<'_>),
) -> Result<Outcome, CheckError> {
    let blocks = plan.blocks().ok_or("no blocks")?;
    let joint = JointProblem::new(problem, blocks.scale);
    let population = ClosedForm::new(&joint, records).with_blocks(blocks);
    let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed).with_rule(rule);
    Ok(
        plan.run_from(&joint.start(), &mut oracle, &mut |release: &Release<'_>| {
            watch(release);
            ControlFlow::Continue(())
        })?,
    )
}

impl RampExperiment {
    fn size(&self, x: f64) -> Size {
        let size = Size {
            records: 1_000_000,
            dim: 10,
            privacy: match self.claim.axis {
                Axis::Mu => Privacy::Mu(1.0),
                _ => Privacy::Epsilon(1.0),
            },
        };
        size.along(self.claim.axis, x)
    }

    fn rgda(&self, size: &Size, trial: &Trial) -> Result<Measured, CheckError> {
        let plan = self.rgda.at(trial.x, || {
            let facts = ramp(size, 0.01)?.facts(size.records);
            let limits = SaddleLimits::steps(MAX_STEPS);
            Ok(RgdaPlan::new(&facts, &size.budget(DELTA)?, &limits)?)
        })?;
        let (low, high) = match self.who {
            Who::Estimate => STEEP,
            _ => RATIOS,
        };
        let ratio = low * (high / low).powf(share(trial));
        let problem = ramp(size, plan.target() * ratio)?;
        let (mut squares, mut count) = (0.0, 0.0);
        let mut watch = |release: &Release<'_>| {
            if settled(release) {
                let x = &release.point[..size.dim];
                let off = distance(&release.vector[..size.dim], &problem.value_gradient(x));
                squares += off * off;
                count += 1.0;
            }
        };
        let setting = (size.records, self.rule, trial.seed);
        let outcome = run(&plan, &problem, setting, &mut watch)?;
        if self.who == Who::Estimate {
            let error = (squares / f64::max(count, 1.0)).sqrt();
            return Ok(Measured::new(error).with_bound(0.5 * plan.target()));
        }
        let slope = problem.value_slope(&outcome.point[..size.dim]);
        Ok(Measured::new(slope).with_bound(1.5 * plan.target()))
    }

    fn spider(&self, size: &Size, trial: &Trial) -> Result<Measured, CheckError> {
        let plan = self.spider.at(trial.x, || {
            let facts = ramp(size, 0.01)?.facts(size.records);
            let limits = SaddleLimits::steps(MAX_STEPS);
            Ok(SpiderGdaPlan::new(&facts, &size.budget(DELTA)?, &limits)?)
        })?;
        let bound = plan.bound().ok_or("no bound")?.value;
        let problem = ramp(size, bound * 0.2 * 10f64.powf(share(trial)))?;
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        let mut watch = |release: &Release<'_>| {
            if settled(release) {
                let slope = problem.value_slope(&release.point[..size.dim]);
                (sum, squares, count) = (sum + slope, squares + slope * slope, count + 1.0);
            }
        };
        let setting = (size.records, self.rule, trial.seed);
        let outcome = run(&plan, &problem, setting, &mut watch)?;
        super::common::completed(outcome.stop)?;
        Ok(Measured::new(sum / count)
            .with_square(squares / count)
            .with_bound(bound))
    }

    fn anytime(&self, size: &Size, trial: &Trial) -> Result<Measured, CheckError> {
        let plan = self.anytime.at(trial.x, || {
            let facts = ramp(size, 0.01)?.facts(size.records);
            let settings = RgdaAnytimeSettings::new(MAX_STEPS);
            Ok(RgdaAnytimePlan::new(
                &facts,
                &size.budget(DELTA)?,
                settings,
            )?)
        })?;
        let (low, high) = SLOPES;
        let problem = ramp(size, low * (high / low).powf(share(trial)))?;
        let setting = (size.records, self.rule, trial.seed);
        certified(&run(&plan, &problem, setting, &mut |_| {})?, &problem)
    }
}

/// What was certified, or the true slope, if that should be longer.
fn certified(outcome: &Outcome, problem: &dyn MinimaxProblem) -> Result<Measured, CheckError> {
    let bound = outcome.bound().ok_or("nothing was certified")?.value;
    let slope = problem.value_slope(&outcome.point[..problem.x_dim()]);
    Ok(Measured::new(bound.max(slope)))
}

impl Experiment for RampExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match (self.claim.axis, self.who) {
            (Axis::Records, Who::Anytime) if self.claim.control => half_decades(1e4, 3),
            // Below, levels are few and coarse: local exponents are -0.57 and -0.60 there.
            (Axis::Records, Who::Anytime) => (0..effort.pick(8, 10))
                .map(|k| (1e5 * 10f64.powf(0.25 * f64::from(k))).round())
                .collect(),
            (Axis::Records, Who::SpiderGda) => half_decades(1e4, 6),
            (Axis::Records, _) => half_decades(1e5, effort.pick(5, 6)),
            (Axis::Dimension, _) => half_decades(3.0, 5),
            _ => (0..5)
                .map(|k| 0.02 * 10f64.powf(0.5 * f64::from(k)))
                .collect(),
        };
        let members = match self.who {
            Who::Anytime => effort.pick(19, 37),
            Who::SpiderGda => effort.pick(5, 11),
            _ => effort.pick(9, 17),
        };
        Design::new(points)
            .with_members(members)
            .with_seeds(match self.who {
                Who::SpiderGda => effort.pick(1, 3),
                // How many levels a run has is a whole number, and a matter of luck: the mean of several is no stair.
                Who::Anytime => effort.pick(4, 8),
                _ => effort.pick(2, 6),
            })
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        match self.who {
            Who::Rgda | Who::Estimate => self.rgda(&size, trial),
            Who::SpiderGda => self.spider(&size, trial),
            Who::Anytime => self.anytime(&size, trial),
        }
    }
}

/// The cosine saddle, whose minima are curved: what runs from the saddle certify.
struct Curved {
    claim: Claim,
    fixed: bool,
}

impl Experiment for Curved {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        Design::new(half_decades(1e5, 5)).with_seeds(effort.pick(12, 40))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let problem = CosineSaddle::new(10, 10)?;
        let size = Size {
            records: trial.x as u64,
            dim: 10,
            privacy: Privacy::Epsilon(1.0),
        };
        let (facts, budget) = (problem.facts(size.records), size.budget(DELTA)?);
        let setting = (size.records, NoiseRule::Displacement, trial.seed);
        if self.fixed {
            let plan = RgdaPlan::new(&facts, &budget, &SaddleLimits::steps(MAX_STEPS))?;
            let outcome = run(&plan, &problem, setting, &mut |_| {})?;
            if outcome.stop != Stop::SmallEstimate {
                return Err(format!("the run ended with {:?}", outcome.stop).into());
            }
            return certified(&outcome, &problem);
        }
        let settings = RgdaAnytimeSettings::new(MAX_STEPS).first_order();
        let plan = RgdaAnytimePlan::new(&facts, &budget, settings)?;
        certified(&run(&plan, &problem, setting, &mut |_| {})?, &problem)
    }
}

/// How far below the true least eigenvalue a certificate is.
struct Width {
    claim: Claim,
    /// Noise as for a clip of the average.
    broken: bool,
}

/// Records at which the twin's clip is the plan's.
const FEW: f64 = 100_000.0;

impl Experiment for Width {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match self.claim.axis {
            Axis::Records => half_decades(1e5, 7),
            _ => half_decades(4.0, 5),
        };
        Design::new(points).with_seeds(effort.pick(80, 160))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let (records, dim) = match self.claim.axis {
            Axis::Records => (trial.x as u64, 20),
            _ => (1_000_000, trial.x as usize),
        };
        // The least eigenvalue is alone: 1/2 + 1/4.
        let mut a = vec![2.0; dim];
        a[0] = 0.5;
        let problem = QuadraticGame::new(a, vec![0.5, 0.5], vec![1.0, 1.0], 4.0)?;
        let mut facts: SaddleFacts = problem.facts(records);
        // C_F is at least that of 400 coordinates. The twin's grows with n, so that its sensitivity 2 C_F / n does not fall.
        let clip = if self.broken { trial.x / FEW } else { 1.0 };
        facts.record.hessian_frobenius = 45.0 * clip;
        let joint = JointProblem::new(&problem, 1.0);
        let population = ClosedForm::new(&joint, records)
            .with_hessians()
            .with_blocks(joint.blocks());
        let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, trial.seed);
        let cost = 0.01;
        let cap = Event::gaussian(NoiseMultiplier::new((1.01f64 * cost).powf(-0.5))?);
        oracle.books().reserve(&Spend::AtMost(cap))?;
        let noise = CertificateNoise::for_cost(&facts, 1.0, cost, true)?;
        let found = saddle_certificate(&facts, 1.0, &joint.start(), (&noise, 0.05), &mut oracle)?;
        let found = found.ok_or("no certificate")?.hessian;
        let found = found.map_err(|why| format!("no Hessian: {why:?}"))?;
        Ok(Measured::new(0.75 - found.least))
    }
}
