//! What is claimed of the walk in blocks: Goldstein distances on [`RampCone`].
//!
//! Error of a point of an experiment: the worst, over slopes from 0.1 to 0.7 of the bound, of the mean over runs and over the blocks of
//! a run of the length of the block's mean gradient. The block is drawn uniformly, so that is the expectation given the run; and that
//! mean of gradients at points within the radius is what the proof bounds.

use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;

use dpopt_linalg::{add_scaled, norm};
use dpopt_nonconvex::{
    Budget, GOLDSTEIN, GOLDSTEIN_PASS, GOLDSTEIN_SAMPLED, GOLDSTEIN_ZO, GoldsteinPlan,
    GoldsteinSchedule, GoldsteinSettings, Plan, PublicFacts, Release, Solver, StatedBound,
};
use dpopt_oracle::{Convexity, Oracle};
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, completed, five_mus, half_decades, share};
use crate::checks::{CheckError, Effort};
use crate::problem::Problem as _;
use crate::simulation::{SimulatedOracle, WeightedRecords};
use crate::zoo::{RampCone, Tilt, TiltedProblem};

pub(super) const RADIUS: f64 = 0.2;
pub(super) const GAP: f64 = 1.0;
pub(super) const RELATION: Adjacency = Adjacency::ReplaceOne;
/// Length of the linear tilts by which records of a sample differ; L is 1 with them.
const TILT: f64 = 0.3;
/// Kinds of records of a sample: four linear tilts.
const KINDS: u64 = 4;
/// Steps that a planner may take; none of these plans takes as many.
pub(super) const MAX_STEPS: u64 = 1 << 40;

/// What is wrong with a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Twin {
    Nothing,
    /// The number of steps of a plan that takes noise for a bias.
    NoiseAsBias,
    /// Slopes along a whole frame are clipped to L d, which no record needs, and have the noise of that.
    LongClip,
}

struct BlockExperiment {
    claim: Claim,
    solver: &'static Solver,
    twin: Twin,
    plans: Plans<GoldsteinPlan>,
}

pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |solver: &'static Solver, claim: Claim, twin| {
        let theorem = match solver.name {
            "goldstein-zo" => "docs/theory/goldstein.md, Theorem 2",
            _ => "docs/theory/goldstein.md, Theorem 1",
        };
        let claim = claim
            .by(solver.name, theorem)
            .on("ramp-cone")
            .measuring("Goldstein distance, mean over blocks");
        all.push(Box::new(BlockExperiment {
            claim,
            solver,
            twin,
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
            Twin::Nothing,
        );
    }
    for axis in [Axis::Steps, Axis::Radius] {
        let claim = Claim::new(&format!("goldstein/{}", axis.symbol()), axis, -third);
        add(&GOLDSTEIN, claim.within(0.06, 0.08, whole), Twin::Nothing);
    }
    let claim = Claim::new("goldstein-sampled/n", Axis::Records, -2.0 * third);
    add(
        &GOLDSTEIN_SAMPLED,
        claim.within(0.06, 0.08, whole).tight(0.4),
        Twin::Nothing,
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
            Twin::Nothing,
        );
    }
    let control = Claim::new("goldstein/noise-as-bias", Axis::Records, -2.0 * third).control(
        "As many steps as are best if noise counts as a bias (arXiv 2410.05880, Proposition 2.6): can a fit tell the two?",
    );
    add(&GOLDSTEIN, control, Twin::NoiseAsBias);
    // No row in d: up to about 15 dimensions nothing shorter than kappa_d L pays, and the best clip falls from there on.
    let claim = Claim::new("goldstein-zo/n", Axis::Records, -2.0 * third);
    add(
        &GOLDSTEIN_ZO,
        claim.within(0.06, 0.08, whole).tight(0.4),
        Twin::Nothing,
    );
    let control = Claim::new("goldstein-zo/long-clip", Axis::Dimension, third).control(
        "Slopes along a whole frame clipped to L d, and noise for that: d where the claim is its cube root.",
    );
    add(&GOLDSTEIN_ZO, control, Twin::LongClip);
    all
}

impl BlockExperiment {
    fn passes_once(&self) -> bool {
        self.solver.needs.positions
    }

    /// Whether a step reads some of the records: then they differ.
    fn samples(&self) -> bool {
        matches!(self.solver.name, "goldstein-sampled" | "goldstein-pass")
    }

    fn plan(&self, x: f64) -> Result<GoldsteinPlan, CheckError> {
        self.plans.at(x, || {
            let axis = self.claim.axis;
            let optimisation = matches!(axis, Axis::Steps | Axis::Radius);
            let records = match axis {
                _ if optimisation => 1_000_000_000,
                _ if self.passes_once() => 1_000_000,
                _ if self.twin == Twin::LongClip => 20_000,
                Axis::Dimension => 2_000,
                _ => 3_000,
            };
            let size = Size {
                records,
                dim: match self.solver.name {
                    _ if optimisation => 4,
                    // Steps grow with the square of n, and 2d values each.
                    "goldstein-zo" => 3,
                    _ => 10,
                },
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
                _ if self.twin == Twin::NoiseAsBias => {
                    // beta = F0/(D T) = L/sqrt M = 2 N.
                    let noise = 4.0 * size.relative_noise();
                    let beta = (noise * (GAP / radius).sqrt()).powf(0.4);
                    (GAP / (radius * beta.powi(3))).ceil() as u64
                }
                _ => MAX_STEPS,
            };
            Ok(match self.solver.name {
                "goldstein-sampled" => GoldsteinPlan::sampled(&facts, &budget, &settings, most)?,
                "goldstein-pass" => {
                    let fresh = GoldsteinSettings {
                        period: NonZeroU64::new(1),
                        ..settings
                    };
                    GoldsteinPlan::single_pass(&facts, &budget, &fresh)?
                }
                "goldstein-zo" if self.twin == Twin::LongClip => {
                    long_clip(&facts, &budget, &settings)?
                }
                "goldstein-zo" => {
                    let whole = Some(facts.dim as u64);
                    GoldsteinPlan::zeroth_order(&facts, &budget, &settings, most, whole)?
                }
                _ => GoldsteinPlan::new(&facts, &budget, &settings, most)?,
            })
        })
    }
}

/// A plan for gradients on so few records that their noise is that of slopes clipped to L d, and what it says.
fn on_fewer(facts: &PublicFacts, budget: &Budget) -> Result<GoldsteinPlan, CheckError> {
    let fewer = PublicFacts {
        records: facts.records / facts.dim as u64,
        ..*facts
    };
    let settings = GoldsteinSettings::at_radius(RADIUS);
    Ok(GoldsteinPlan::new(&fewer, budget, &settings, MAX_STEPS)?)
}

fn long_clip(
    facts: &PublicFacts,
    budget: &Budget,
    settings: &GoldsteinSettings,
) -> Result<GoldsteinPlan, CheckError> {
    let schedule = GoldsteinSchedule {
        directions: NonZeroUsize::new(facts.dim),
        clip: facts.lipschitz * facts.dim as f64,
        ..*on_fewer(facts, budget)?.schedule()
    };
    Ok(GoldsteinPlan::by_hand(facts, budget, settings, schedule))
}

pub(super) fn facts(size: &Size) -> PublicFacts {
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

/// The problem record by record, and four kinds of records.
pub(super) fn opposite_tilts(
    problem: RampCone,
    records: u64,
) -> Result<(TiltedProblem<RampCone>, WeightedRecords<Vec<Tilt>>), CheckError> {
    let tilts = (0..2).map(|i| {
        let mut direction = vec![0.0; problem.dim()];
        direction[i] = TILT;
        Tilt::linear(direction)
    });
    let tilts: Vec<Tilt> = tilts.collect();
    let data = TiltedProblem::<RampCone>::opposites(&tilts, records / KINDS)?;
    Ok((TiltedProblem::new(problem, 0.0, TILT, 0.0)?, data))
}

impl Experiment for BlockExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match self.claim.axis {
            Axis::Records if self.passes_once() => half_decades(10_000.0, effort.pick(5, 7)),
            Axis::Records if self.solver.name == "goldstein-zo" => half_decades(400.0, 4),
            // Fewer have no plan for so few steps.
            Axis::Records if self.twin == Twin::NoiseAsBias => half_decades(1_000.0, 3),
            Axis::Records => half_decades(300.0, effort.pick(4, 6)),
            Axis::Dimension if self.twin == Twin::LongClip => half_decades(3.0, 3),
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
        let stated = match self.twin {
            Twin::LongClip => on_fewer(plan.facts(), plan.budget())?.bound(),
            _ => plan.bound(),
        };
        let bound = stated.map(|bound: StatedBound| bound.value);
        let bound = bound.ok_or("the plan states no bound")?;
        let (facts, sampled) = (plan.facts(), self.samples());
        // L is 1, with the tilts too.
        let slope = (bound * (0.1 + 0.6 * share(trial))).min(if sampled { 0.48 } else { 0.8 });
        let problem = RampCone::new(facts.dim, GAP, slope)?;
        let (tilted, data) = opposite_tilts(problem, facts.records)?;
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
