//! What is claimed of saddle problems in one pass, and the twins that must be caught.
//!
//! Records are drawn from eight kinds that differ in slope and in curvature, along x and along y; their mean is a [`Coupled`] ramp-bowl, so that the
//! population gradient of Phi is exact. The error of a run is the mean over all steps of x: the expectation of the norm at the output, given the run.

use dpopt_minimax::{
    PassEstimate, Plan, Release, RgdaPassPlan, RgdaPassSchedule, RgdaPassSettings, SaddleFacts,
    SaddleLimits,
};
use dpopt_oracle::{Blocks, Segment};
use dpopt_privacy::{Adjacency, NoiseMultiplier, PrefixKind};

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, completed, half_decades, share};
use crate::checks::{CheckError, Effort};
use crate::minimax::{JointProblem, MinimaxProblem};
use crate::simulation::{Population, SimulatedOracle, WeightedLoss, WeightedRecords};
use crate::zoo::{Coupled, Ramp, RampBowl, Tilt, TiltedProblem};

/// Part of the curvature and of the slope in which records differ.
const SHARE: f64 = 0.5;
const TILT: f64 = 0.25;
/// F0.
const GAP: f64 = 0.5;
/// Copies of each kind of record.
const COPIES: u64 = 1 << 49;
const MAX_STEPS: u64 = 1 << 40;

/// The dominating error: the sampling of records, or noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regime {
    Statistical,
    Private,
}

/// What is done to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    None,
    /// Planned as if noise were divided by n, as printed.
    NoiseOverAll,
    /// Under the claim for prefix sums.
    Chain,
    /// One record a step, and no anchor after the first.
    OneRecord,
}

struct PassExperiment {
    claim: Claim,
    estimate: PassEstimate,
    regime: Regime,
    twin: Twin,
    plans: Plans<RgdaPassPlan>,
}

const CHAIN: PassEstimate = PassEstimate::Chain;
const PREFIX: PassEstimate = PassEstimate::Prefix(PrefixKind::Toeplitz);
const ROUNDS: PassEstimate = PassEstimate::Rounds;

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim: Claim, estimate: PassEstimate, regime, twin| {
        all.push(Box::new(PassExperiment {
            claim: claim
                .by(estimate.solver(), "docs/theory/minimax.md")
                .on("tilted ramp-bowl, coupled with y")
                .measuring("norm of the gradient of Phi of the population"),
            estimate,
            regime,
            twin,
            plans: Plans::new(),
        }));
    };
    let (n, d) = (Axis::Records, Axis::Dimension);
    let (few, many) = (Regime::Statistical, Regime::Private);
    let note = "the planner's whole numbers of steps and periods";
    for (id, axis, rate, estimate, regime) in [
        ("rgda-chain/n-private", n, -3.0 / 7.0, CHAIN, many),
        ("rgda-chain/d-private", d, 3.0 / 14.0, CHAIN, many),
        ("rgda-prefix/n-private", n, -0.5, PREFIX, many),
        ("rgda-rounds/n-private", n, -0.5, ROUNDS, many),
        ("rgda-prefix/n", n, -1.0 / 3.0, PREFIX, few),
        ("rgda-chain/n", n, -1.0 / 3.0, CHAIN, few),
        ("rgda-rounds/n", n, -1.0 / 3.0, ROUNDS, few),
    ] {
        let claim = Claim::new(id, axis, rate).within(0.06, 0.12, note);
        let claim = match regime {
            // The path that errors make of y's is still a part at these sizes, and falls with them: steeper than in the limit.
            Regime::Statistical => claim.expecting(Expect::AtMost),
            Regime::Private => claim,
        };
        add(claim, estimate, regime, Twin::None);
    }
    for (twin, planned) in [
        (Twin::None, claim_of_plan("rgda-rounds/n-planned")),
        (
            Twin::NoiseOverAll,
            claim_of_plan("rgda-rounds/noise-over-n")
                .control("The plan divides the noise by n, and not by the batch."),
        ),
    ] {
        add(planned, ROUNDS, many, twin);
    }
    for (id, rate, estimate, regime, twin, what) in [
        (
            "rgda-chain/noise-over-n",
            -3.0 / 7.0,
            CHAIN,
            many,
            Twin::NoiseOverAll,
            "The plan divides the noise by n, and not by the batch.",
        ),
        (
            "rgda-prefix/chain",
            -0.5,
            CHAIN,
            many,
            Twin::Chain,
            "Independent noise, planned as such, under the claim for prefix sums.",
        ),
        (
            "rgda-chain/one-record",
            -1.0 / 3.0,
            CHAIN,
            few,
            Twin::OneRecord,
            "One record a step, and no anchor after the first.",
        ),
    ] {
        add(
            Claim::new(id, n, rate).within(0.06, 0.12, "").control(what),
            estimate,
            regime,
            twin,
        );
    }
    all
}

/// Where whole depths of trees and paths that errors make rule the sizes that can be run, the bound has a slope of its own: the error over it has none.
fn claim_of_plan(id: &str) -> Claim {
    Claim::new(id, Axis::Records, 0.0).within(
        0.06,
        0.12,
        "the error over the planned bound: a constant where the plan's slope is that of its runs",
    )
}

impl PassExperiment {
    fn size(&self, x: f64) -> Size {
        let (records, dim, epsilon) = match self.regime {
            Regime::Statistical => (0, 4, 30.0),
            Regime::Private if self.is_deep() => (0, 10, 1e-5),
            Regime::Private => (10_000_000_000, 10, 1e-3),
        };
        let size = Size {
            records,
            dim,
            privacy: Privacy::Epsilon(epsilon),
        };
        size.along(self.claim.axis, x)
    }

    /// The exponent of trees: at sizes where they are several deep, and with so much noise that sampling is nothing there.
    fn is_deep(&self) -> bool {
        let claimed = self.claim.predicted != 0.0;
        self.estimate == ROUNDS && self.regime == Regime::Private && claimed
    }

    fn problem(size: &Size, slope: f64) -> Result<Coupled<RampBowl>, CheckError> {
        let ramp = RampBowl::new(size.dim, 1.0, 1.0, GAP, Ramp::Straight, slope)?;
        Ok(Coupled::new(ramp, size.dim, 0.5, 1.0)?)
    }

    fn facts(size: &Size) -> Result<SaddleFacts, CheckError> {
        let mut facts = Self::problem(size, 0.1)?.facts(size.records);
        let (record, most) = (&mut facts.record, 1.0 + SHARE);
        record.lipschitz_x *= most + TILT;
        record.lipschitz_y *= most + TILT;
        record.smooth_xx *= most;
        record.smooth_xy *= most;
        record.smooth_yy *= most;
        Ok(facts)
    }

    fn planned(&self, x: f64) -> Result<RgdaPassPlan, CheckError> {
        self.plans.at(x, || {
            let size = self.size(x);
            let mut told = size;
            if self.twin == Twin::NoiseOverAll {
                // Hardly any noise is left where it is divided by n.
                told.privacy = Privacy::Epsilon(4.0);
            }
            let (facts, limits) = (Self::facts(&size)?, SaddleLimits::steps(MAX_STEPS));
            let settings = RgdaPassSettings::new(self.estimate);
            let budget = told.budget(DELTA)?;
            Ok(RgdaPassPlan::new(&facts, &budget, settings, &limits)?)
        })
    }

    /// As it is run.
    fn walked(&self, plan: &RgdaPassPlan, x: f64) -> Result<RgdaPassPlan, CheckError> {
        let (size, of) = (self.size(x), *plan.schedule());
        let schedule = match self.twin {
            Twin::None | Twin::Chain => return Ok(plan.clone()),
            Twin::NoiseOverAll => RgdaPassSchedule {
                noise_multiplier: NoiseMultiplier::new(1.0 / size.mu())?,
                ..of
            },
            Twin::OneRecord => RgdaPassSchedule {
                period: of.steps(),
                periods: 1,
                anchor_batch: 1,
                rate: 1e-9,
                ..of
            },
        };
        let budget = size.budget(DELTA)?;
        Ok(RgdaPassPlan::by_hand(plan.saddle(), &budget, schedule)?)
    }
}

impl Experiment for PassExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let points = match (self.claim.axis, self.regime) {
            (Axis::Dimension, _) => half_decades(10.0, 5),
            (_, Regime::Statistical) if self.claim.control => half_decades(2e5, 4),
            (_, Regime::Statistical) => half_decades(2e5, if full { 9 } else { 7 }),
            _ if self.twin == Twin::NoiseOverAll => half_decades(1e7, 3),
            _ if self.is_deep() => half_decades(3e10, if full { 9 } else { 6 }),
            _ => half_decades(3e8, if full { 9 } else { 5 }),
        };
        // Where noise rules a run is a mean over up to two million steps of its own, and other seeds tell little more.
        let (members, seeds) = match (full, self.regime) {
            (true, Regime::Statistical) => (9, 3),
            (true, Regime::Private) if !self.is_deep() => (9, 1),
            _ => (5, 1),
        };
        Design::new(points).with_members(members).with_seeds(seeds)
    }

    /// Logarithms: ln(N)/pi + 1.07 is what the noise of N changes adds up to under the square-root factor, and a tree of depth D has sqrt D of it
    /// for D times the records. Where noise rules the square of the error goes as the root of C^2/(L Lambda)^2, the anchors', and the square of their
    /// product; where sampling does its cube goes as the records. In a tree the product grows as fast as n, so the split of the records between
    /// anchors and changes is the best one: `docs/theory/minimax.md`, "Rates".
    fn correction(&self, x: f64) -> f64 {
        let Ok(plan) = self.planned(x) else {
            return f64::NAN;
        };
        if self.claim.predicted == 0.0 {
            return plan.bound().map_or(f64::NAN, |bound| bound.value);
        }
        let (facts, changes) = (plan.facts(), plan.schedule().variations() as f64);
        let depth = (changes + 1.0).log2().ceil().max(1.0);
        let noisy = |product: f64| {
            let (_, path) = plan.aims().unwrap_or_default();
            let anchors = facts.lipschitz / (facts.smoothness * path);
            anchors.hypot(product).sqrt()
        };
        match (self.estimate, self.regime) {
            (PassEstimate::Prefix(_), Regime::Private) => {
                noisy(changes.ln() / std::f64::consts::PI + 1.07)
            }
            (PassEstimate::Rounds, Regime::Private) => {
                let (_, path) = plan.aims().unwrap_or_default();
                let anchors = facts.lipschitz / (facts.smoothness * path);
                let room = RgdaPassSettings::new(self.estimate).failure.powf(-0.25);
                let split = anchors.powf(2.0 / 3.0) + room.powf(2.0 / 3.0) * depth;
                split.powf(0.75)
            }
            (PassEstimate::Rounds, Regime::Statistical) => depth.cbrt(),
            _ => 1.0,
        }
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let planned = self.planned(trial.x)?;
        let plan = self.walked(&planned, trial.x)?;
        let most = RampBowl::largest_slope(1.0, 1.0, GAP, Ramp::Straight);
        // As steep as what is bounded, from a fifth of it to twice as much.
        let bound = planned.bound().ok_or("no bound")?.value;
        let slope = bound * 0.2 * 10f64.powf(share(trial));
        let problem = Self::problem(&size, slope.min(most))?;
        let blocks = plan.blocks().ok_or("no blocks")?;
        let joint = JointProblem::new(&problem, blocks.scale);
        let start = joint.start();
        let tilts = kinds(blocks, &problem)?;
        let loss = TiltedProblem::new(joint, SHARE, tilts.1, 0.0)?;
        let population = Split {
            inner: WeightedLoss::new(&loss, &tilts.0),
            blocks,
        };
        let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, trial.seed);
        let of = *plan.schedule();
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        let mut watch = |release: &Release<'_>| {
            let since = release.step.checked_sub(of.before);
            if since.is_some_and(|since| since % (of.inner + 1) == of.inner) {
                let slope = problem.value_slope(&release.point[..size.dim]);
                (sum, squares, count) = (sum + slope, squares + slope * slope, count + 1.0);
            }
            std::ops::ControlFlow::Continue(())
        };
        let outcome = plan.run_from(&start, &mut oracle, &mut watch)?;
        completed(outcome.stop)?;
        // A plan that takes its noise for less than it is walks farther than it has records for.
        let over = outcome.counts.records > size.records as f64;
        if over && self.twin == Twin::None {
            return Err("more records were read than there are".into());
        }
        // The bound is on the mean.
        let mean: f64 = sum / count;
        Ok(Measured::new(mean)
            .with_square(mean * mean)
            .with_bound(bound))
    }
}

/// Eight kinds of record, equally many of each, and how long their tilts are: four, along sign patterns that are nearly orthogonal, and their
/// opposites. In x and in y they are the same part of what a record may have.
fn kinds(
    blocks: Blocks,
    problem: &dyn MinimaxProblem,
) -> Result<(WeightedRecords<Vec<Tilt>>, f64), CheckError> {
    let of = problem.record();
    let (x, y) = (TILT * of.lipschitz_x, TILT * of.lipschitz_y * blocks.scale);
    let sign = |k: usize, kind: usize| {
        let odd = ((k + 1) & (2 * kind + 1)).count_ones() % 2 == 1;
        if odd { -1.0 } else { 1.0 }
    };
    let tilts: Vec<Tilt> = (0..4)
        .map(|kind| {
            let in_x = (0..blocks.x).map(|k| sign(k, kind) * x / (blocks.x as f64).sqrt());
            let in_y = (0..blocks.y).map(|k| sign(k, 3 - kind) * y / (blocks.y as f64).sqrt());
            Tilt {
                share: if kind % 2 == 0 { SHARE } else { -SHARE },
                ..Tilt::linear(in_x.chain(in_y).collect())
            }
        })
        .collect();
    let records = TiltedProblem::<RampBowl>::opposites(&tilts, COPIES)?;
    Ok((records, x.hypot(y)))
}

/// A population of joint points.
struct Split<P> {
    inner: P,
    blocks: Blocks,
}

impl<P: Population> Population for Split<P> {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn multiplicities(&self) -> &[u64] {
        self.inner.multiplicities()
    }

    fn lipschitz(&self) -> f64 {
        self.inner.lipschitz()
    }

    fn smoothness(&self) -> f64 {
        self.inner.smoothness()
    }

    fn blocks(&self) -> Option<Blocks> {
        Some(self.blocks)
    }

    fn value(&self, record: usize, point: &[f64]) -> f64 {
        self.inner.value(record, point)
    }

    fn gradient(&self, record: usize, point: &[f64], out: &mut [f64]) {
        self.inner.gradient(record, point, out);
    }

    fn change(&self, record: usize, segment: &Segment<'_>, before: &[f64], out: &mut [f64]) {
        self.inner.change(record, segment, before, out);
    }
}
