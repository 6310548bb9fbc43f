//! What is claimed of the walk in blocks: Goldstein distances on [`RampCone`].
//!
//! Error of a point of an experiment: the worst, over slopes from 0.1 to 0.7 of the bound, of the mean over runs and over the blocks of
//! a run of the length of the block's mean gradient. The block is drawn uniformly, so that is the expectation given the run; and that
//! mean of gradients at points within the radius is what the proof bounds.

use std::ops::ControlFlow;

use dpopt_linalg::{add_scaled, norm};
use dpopt_nonconvex::{
    GOLDSTEIN, GOLDSTEIN_PASS, GOLDSTEIN_SAMPLED, GoldsteinPlan, GoldsteinSettings, Plan,
    PublicFacts, Release, Solver, StatedBound,
};
use dpopt_oracle::{Convexity, Oracle};
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, completed, five_mus, half_decades, share};
use crate::checks::{CheckError, Effort};
use crate::problem::Problem as _;
use crate::simulation::SimulatedOracle;
use crate::zoo::{RampCone, Tilt, TiltedProblem};

const RADIUS: f64 = 0.2;
const GAP: f64 = 1.0;
const RELATION: Adjacency = Adjacency::ReplaceOne;
/// Length of the linear tilts by which records of a sample differ; L is 1 with them.
const TILT: f64 = 0.3;
/// Kinds of records of a sample: four linear tilts.
const KINDS: u64 = 4;
/// Steps that a planner may take; none of these plans takes as many.
const MAX_STEPS: u64 = 1 << 40;

struct BlockExperiment {
    claim: Claim,
    solver: &'static Solver,
    /// The number of steps of a plan that takes noise for a bias.
    as_bias: bool,
    plans: Plans<GoldsteinPlan>,
}

pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |solver: &'static Solver, claim: Claim, as_bias| {
        let claim = claim
            .by(solver.name, "docs/theory/goldstein.md, Theorem 1")
            .on("ramp-cone")
            .measuring("Goldstein distance, mean over blocks");
        all.push(Box::new(BlockExperiment {
            claim,
            solver,
            as_bias,
            plans: Plans::new(),
        }));
    };
    let third = 1.0 / 3.0;
    let whole = "numbers of steps and of blocks are whole";
    for (axis, predicted) in [
        (Axis::Records, -2.0 * third),
        (Axis::Dimension, third),
        (Axis::Mu, -2.0 * third),
    ] {
        let claim = Claim::new(&format!("goldstein/{}", axis.symbol()), axis, predicted);
        add(
            &GOLDSTEIN,
            claim.within(0.06, 0.08, whole).tight(0.4),
            false,
        );
    }
    for axis in [Axis::Steps, Axis::Radius] {
        let claim = Claim::new(&format!("goldstein/{}", axis.symbol()), axis, -third);
        add(&GOLDSTEIN, claim.within(0.06, 0.08, whole), false);
    }
    let claim = Claim::new("goldstein-sampled/n", Axis::Records, -2.0 * third);
    add(
        &GOLDSTEIN_SAMPLED,
        claim.within(0.06, 0.08, whole).tight(0.4),
        false,
    );
    for (axis, predicted) in [
        (Axis::Records, -third),
        (Axis::Dimension, 0.5 * third),
        (Axis::Mu, -third),
    ] {
        let claim = Claim::new(
            &format!("goldstein-pass/{}", axis.symbol()),
            axis,
            predicted,
        );
        add(
            &GOLDSTEIN_PASS,
            claim.within(0.06, 0.08, whole).tight(0.4),
            false,
        );
    }
    let control = Claim::new("goldstein/noise-as-bias", Axis::Records, -2.0 * third).control(
        "As many steps as are best if noise counts as a bias (arXiv 2410.05880, Proposition 2.6): can a fit tell the two?",
    );
    add(&GOLDSTEIN, control, true);
    all
}

impl BlockExperiment {
    fn passes_once(&self) -> bool {
        self.solver.needs.positions
    }

    /// Whether a step reads some of the records: then they differ.
    fn samples(&self) -> bool {
        self.solver.name != GOLDSTEIN.name
    }

    fn plan(&self, x: f64) -> Result<GoldsteinPlan, CheckError> {
        self.plans.at(x, || {
            let axis = self.claim.axis;
            let optimisation = matches!(axis, Axis::Steps | Axis::Radius);
            let records = match axis {
                _ if optimisation => 1_000_000_000,
                _ if self.passes_once() => 1_000_000,
                Axis::Dimension => 2_000,
                _ => 3_000,
            };
            let size = Size {
                records,
                dim: if optimisation { 4 } else { 10 },
                privacy: Privacy::Epsilon(1.0),
            };
            let mut size = size.along(axis, x);
            size.records = size.records / KINDS * KINDS;
            let facts = facts(&size);
            let budget = size.budget(DELTA)?;
            let radius = match axis {
                Axis::Steps => 1.0,
                Axis::Radius => x,
                _ => RADIUS,
            };
            let settings = GoldsteinSettings::at_radius(radius);
            let most = match axis {
                Axis::Steps => x as u64,
                Axis::Radius => 10_000,
                _ if self.as_bias => {
                    // beta = F0/(D T) = L/sqrt M = 2 N.
                    let noise = 4.0 * size.relative_noise();
                    let beta = (noise * (GAP / radius).sqrt()).powf(0.4);
                    (GAP / (radius * beta.powi(3))).ceil() as u64
                }
                _ => MAX_STEPS,
            };
            Ok(match self.solver.name {
                "goldstein-sampled" => GoldsteinPlan::sampled(&facts, &budget, &settings, most)?,
                "goldstein-pass" => GoldsteinPlan::single_pass(&facts, &budget, &settings)?,
                _ => GoldsteinPlan::new(&facts, &budget, &settings, most)?,
            })
        })
    }
}

fn facts(size: &Size) -> PublicFacts {
    PublicFacts {
        records: size.records,
        dim: size.dim,
        adjacency: RELATION,
        lipschitz: 1.0,
        smoothness: f64::INFINITY,
        initial_gap: GAP,
        row_norm: f64::INFINITY,
        convexity: Convexity::Nonconvex,
    }
}

impl Experiment for BlockExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match self.claim.axis {
            Axis::Records if self.passes_once() => half_decades(10_000.0, effort.pick(5, 7)),
            // Fewer have no plan for so few steps.
            Axis::Records if self.as_bias => half_decades(1_000.0, 3),
            Axis::Records => half_decades(300.0, effort.pick(4, 6)),
            Axis::Dimension => half_decades(3.0, 4),
            Axis::Steps => half_decades(100.0, effort.pick(5, 7)),
            Axis::Radius => half_decades(1.0, 5).iter().map(|x| x / 100.0).collect(),
            _ => five_mus(),
        };
        Design::new(points)
            .with_members(effort.pick(5, 9))
            .with_seeds(effort.pick(2, 6))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let plan = self.plan(trial.x)?;
        let bound = plan.bound().map(|bound: StatedBound| bound.value);
        let bound = bound.ok_or("the plan states no bound")?;
        let (facts, sampled) = (plan.facts(), self.samples());
        // L is 1, with the tilts too.
        let slope = (bound * (0.1 + 0.6 * share(trial))).min(if sampled { 0.48 } else { 0.8 });
        let problem = RampCone::new(facts.dim, GAP, slope)?;
        let tilts = (0..2).map(|i| {
            let mut direction = vec![0.0; facts.dim];
            direction[i] = TILT;
            Tilt::linear(direction)
        });
        let tilted = TiltedProblem::new(problem, 0.0, TILT, 0.0)?;
        let tilts: Vec<Tilt> = tilts.collect();
        let data = TiltedProblem::<RampCone>::opposites(&tilts, facts.records / KINDS)?;
        let mut oracle: Box<dyn Oracle> = if sampled {
            Box::new(SimulatedOracle::weighted(
                &tilted, &data, RELATION, trial.seed,
            ))
        } else {
            let records = facts.records;
            Box::new(SimulatedOracle::new(
                &problem, records, RELATION, trial.seed,
            ))
        };
        let block = plan.schedule().block;
        let mut gradient = vec![0.0; facts.dim];
        let mut mean = gradient.clone();
        let (mut total, mut blocks) = (0.0, 0u64);
        let outcome = plan.run(&mut *oracle, &mut |release: &Release<'_>| {
            problem.gradient(release.point, &mut gradient);
            add_scaled(&mut mean, 1.0 / block as f64, &gradient);
            if (release.step + 1).is_multiple_of(block) {
                total += norm(&mean);
                blocks += 1;
                mean.fill(0.0);
            }
            ControlFlow::Continue(())
        })?;
        completed(outcome.stop)?;
        Ok(Measured::new(total / blocks as f64).with_bound(bound))
    }
}
