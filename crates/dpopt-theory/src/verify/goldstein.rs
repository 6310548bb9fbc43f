//! What is claimed of the walk in blocks: Goldstein distances on [`RampCone`].
//!
//! Error of a point of an experiment: the worst, over slopes from 0.1 to 0.7 of the bound, of the mean over runs and over the blocks of
//! a run of the length of the block's mean gradient. The block is drawn uniformly, so that is the expectation given the run; and that
//! mean of gradients at points within the radius is what the proof bounds.

use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;

use dpopt_linalg::{add_scaled, norm};
use dpopt_nonconvex::{
    Budget, GOLDSTEIN, GOLDSTEIN_PASS, GOLDSTEIN_SAMPLED, GOLDSTEIN_ZO, GOLDSTEIN_ZO_PASS,
    GOLDSTEIN_ZO_SAMPLED, GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings, Plan, PublicFacts,
    Release, Solver, StatedBound,
};
use dpopt_oracle::query::{Directions, Slopes};
use dpopt_oracle::{Answer, AskError, Convexity, Oracle, Question};
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, completed, five_mus, half_decades, share};
use crate::around::Around;
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
/// Dimensions of the row in m, and what m times the number of steps is.
const WIDE: usize = 32;
const VALUES: f64 = 32_768.0;
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
    /// Slopes between z + a y and z - a y for y in the ball of radius a and not on the unit sphere, as printed (arXiv 2410.05880,
    /// Algorithm 3).
    Ball,
    /// Each record's slopes are along directions of its own, their mean is lifted by one frame.
    Unshared,
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
        let theorem = if solver.needs.values {
            "docs/theory/goldstein.md, Theorem 2"
        } else {
            "docs/theory/goldstein.md, Theorem 1"
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
    for (solver, predicted) in [
        (&GOLDSTEIN_ZO, -2.0 * third),
        (&GOLDSTEIN_ZO_SAMPLED, -2.0 * third),
        (&GOLDSTEIN_ZO_PASS, -third),
    ] {
        let claim = Claim::new(&format!("{solver}/n"), Axis::Records, predicted);
        add(
            solver,
            claim.within(0.06, 0.08, whole).tight(0.4),
            Twin::Nothing,
        );
    }
    // 1.5 times over a factor of 32.
    let claim = Claim::new("goldstein-zo/directions", Axis::Directions, 0.0).within(
        0.117,
        0.15,
        "equal numbers of values: errors at most 1.5 times apart",
    );
    add(&GOLDSTEIN_ZO, claim, Twin::Nothing);
    let control = Claim::new("goldstein-zo/long-clip", Axis::Dimension, third).control(
        "Slopes along a whole frame clipped to L d, and noise for that: d where the claim is its cube root.",
    );
    add(&GOLDSTEIN_ZO, control, Twin::LongClip);
    for (name, twin, note) in [
        (
            "goldstein-zo/ball",
            Twin::Ball,
            "Directions from the ball of radius a, where the sphere belongs: next to nothing is left of a slope.",
        ),
        (
            "goldstein-zo/unshared",
            Twin::Unshared,
            "Directions of each record's own under one noise in R^m, lifted by one frame: the mean slopes belong to no direction.",
        ),
    ] {
        let control = Claim::new(name, Axis::Records, -2.0 * third).control(note);
        add(&GOLDSTEIN_ZO, control, twin);
    }
    all.extend(super::zigzag::experiments());
    all
}

impl BlockExperiment {
    fn passes_once(&self) -> bool {
        self.solver.needs.positions
    }

    /// Whether a step reads some of the records: then they differ.
    fn samples(&self) -> bool {
        !matches!(self.solver.name, "goldstein" | "goldstein-zo")
    }

    /// Whether runs on all records or samples of them are from values: there steps are many.
    fn few_steps(&self) -> bool {
        self.solver.needs.values && !self.passes_once()
    }

    fn plan(&self, x: f64) -> Result<GoldsteinPlan, CheckError> {
        self.plans.at(x, || {
            let axis = self.claim.axis;
            let optimisation = matches!(axis, Axis::Steps | Axis::Radius);
            let records = match axis {
                _ if optimisation => 1_000_000_000,
                _ if self.passes_once() => 1_000_000,
                _ if self.twin == Twin::LongClip => 20_000,
                Axis::Directions => 10_000,
                Axis::Dimension => 2_000,
                _ => 3_000,
            };
            let size = Size {
                records,
                dim: match axis {
                    _ if optimisation => 4,
                    Axis::Directions => WIDE,
                    // Steps grow with the square of n, and 2d values each.
                    _ if self.solver.needs.values => 3,
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
                // The same bounds at fewer records, in so many fewer steps.
                Axis::Records if self.few_steps() => 3.0 * RADIUS,
                _ => RADIUS,
            };
            let mut settings = GoldsteinSettings::at_radius(radius);
            if self.solver.needs.values {
                // Whole frames, unless it is their number that is varied.
                let directions = if axis == Axis::Directions {
                    x as usize
                } else {
                    facts.dim
                };
                settings = settings.from_values(NonZeroUsize::new(directions));
            }
            let most = match axis {
                Axis::Steps => x as u64,
                Axis::Radius => 10_000,
                Axis::Directions => (VALUES / x) as u64,
                _ if self.twin == Twin::NoiseAsBias => {
                    // beta = F0/(D T) = L/sqrt M = 2 N.
                    let noise = 4.0 * size.relative_noise();
                    let beta = (noise * (GAP / radius).sqrt()).powf(0.4);
                    (GAP / (radius * beta.powi(3))).ceil() as u64
                }
                _ => MAX_STEPS,
            };
            Ok(match self.twin {
                Twin::LongClip => long_clip(&facts, &budget, &settings)?,
                _ if self.passes_once() => {
                    let fresh = GoldsteinSettings {
                        period: NonZeroU64::new(1),
                        ..settings
                    };
                    GoldsteinPlan::single_pass(&facts, &budget, &fresh)?
                }
                _ if self.samples() => GoldsteinPlan::sampled(&facts, &budget, &settings, most)?,
                _ => GoldsteinPlan::new(&facts, &budget, &settings, most)?,
            })
        })
    }
}

/// The answer with the exact slopes of a problem exchanged for those of a twin: the noise stays.
fn misled(
    twin: Twin,
    problem: &RampCone,
    inner: &mut dyn Oracle,
    question: Question<'_>,
) -> Result<Answer, AskError> {
    let Question::Slopes { of, over, noise } = question else {
        return inner.answer(question);
    };
    let mut right = vec![0.0; of.directions.count()];
    of.write(|point| problem.value(point), &mut right);
    let mut wrong = vec![0.0; right.len()];
    match twin {
        Twin::Ball => {
            // y = rho u, rho a uniform vector's length in the ball of radius a: twice so much shorter, in the slope and in the lift.
            let uniform = (inner.books().draw_index(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64;
            let rho = of.smoothing * uniform.powf(1.0 / of.point.len() as f64);
            let shorter = Slopes {
                smoothing: of.smoothing * rho,
                ..of
            };
            shorter.write(|point| problem.value(point), &mut wrong);
            wrong.iter_mut().for_each(|slope| *slope *= rho * rho);
        }
        _ => {
            // All records have one loss here: the mean over so many frames stands for that over theirs.
            let frames = 4;
            let mut one = right.clone();
            let count = NonZeroUsize::new(right.len()).unwrap_or(NonZeroUsize::MIN);
            for _ in 0..frames {
                let curator = inner.books().curator_mut();
                let own = Directions::draw(curator, of.point.len(), count)?;
                let along = Slopes {
                    directions: &own,
                    ..of
                };
                along.write(|point| problem.value(point), &mut one);
                add_scaled(&mut wrong, 1.0 / f64::from(frames), &one);
            }
        }
    }
    let mut answer = inner.slopes(of, over, noise)?;
    add_scaled(&mut answer.mean, 1.0, &wrong);
    add_scaled(&mut answer.mean, -1.0, &right);
    Ok(Answer::Mean(answer))
}

/// `count` numbers from `from` on, so many decades apart, rounded to whole ones.
fn spaced(from: f64, decades: f64, count: i32) -> Vec<f64> {
    (0..count)
        .map(|k| (from * 10f64.powf(decades * f64::from(k))).round())
        .collect()
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
        score: Default::default(),
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
            Axis::Records if matches!(self.twin, Twin::Ball | Twin::Unshared) => {
                half_decades(231.0, 3)
            }
            // Many points close together: with few blocks, whole numbers of them show at each.
            Axis::Records if self.few_steps() && self.samples() => {
                spaced(231.0, 0.25, effort.pick(6, 7))
            }
            Axis::Records if self.few_steps() => spaced(231.0, 0.3, effort.pick(6, 7)),
            // Fewer have no plan for so few steps.
            Axis::Records if self.twin == Twin::NoiseAsBias => half_decades(1_000.0, 3),
            Axis::Records => half_decades(300.0, effort.pick(4, 6)),
            Axis::Dimension if self.twin == Twin::LongClip => half_decades(3.0, 3),
            Axis::Dimension => half_decades(3.0, 4),
            Axis::Steps => half_decades(100.0, effort.pick(5, 7)),
            Axis::Directions => [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].to_vec(),
            Axis::Radius => half_decades(1.0, 5).iter().map(|x| x / 100.0).collect(),
            _ => five_mus(),
        };
        // The worst slope is one of these or near one.
        let members = if self.solver.needs.values { 3 } else { 5 };
        Design::new(points)
            .with_members(effort.pick(members, 9))
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
        let all = || SimulatedOracle::new(&problem, facts.records, RELATION, trial.seed);
        let (problem_of, twin) = (&problem, self.twin);
        let mut oracle: Box<dyn Oracle + '_> = match twin {
            _ if sampled => Box::new(SimulatedOracle::weighted(
                &tilted, &data, RELATION, trial.seed,
            )),
            Twin::Ball | Twin::Unshared => Box::new(Around::new(all(), move |inner, question| {
                misled(twin, problem_of, inner, question)
            })),
            _ => Box::new(all()),
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
