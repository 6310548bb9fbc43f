//! Claims about tree-based private SPIDER for population risk, and the twins that must be caught.
//!
//! Records are drawn from a population of eight kinds, so large that slices are independent samples. They differ
//! in slope and in curvature ([`TiltedProblem`] over [`RampBowl`]), and their mean is the ramp-bowl problem,
//! so the population gradient is exact. Error of a point of an experiment: the worst, over a logarithmic
//! grid of ramp slopes, of the mean over runs of the gradient norm at the output; where the output is a leaf drawn
//! uniformly, its expectation given the run, the mean over all leaves.

use dpopt_nonconvex::{
    Plan as _, PublicFacts, TreeSettings, TreeSpiderPlan, TreeSpiderSchedule, TreeTarget,
};
use dpopt_oracle::{Convexity, Loss as _};
use dpopt_privacy::{Adjacency, NoiseMultiplier};

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Points, Privacy, Size, gradient_norm, half_decades, mu_at, share};
use crate::checks::{CheckError, Effort};
use crate::simulation::{NoiseRule, SimulatedOracle, WeightedRecords};
use crate::zoo::{Ramp, RampBowl, Tilt, TiltedProblem};

/// Share and slope of the tilts: with [`BASE`] they make L0 = L1 = 1.
pub(super) const SHARE: f64 = 0.5;
pub(super) const TILT: f64 = 0.25;
/// L0 and L1 of the problem below.
pub(super) const BASE: [f64; 2] = [0.5, 2.0 / 3.0];
/// F0: small, so that bounds are far below every slope at the least n.
const GAP: f64 = 0.05;
/// Copies of each kind of record.
const COPIES: u64 = 1 << 49;
const MAX_LEAVES: u64 = 1 << 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// As planned.
    Tree,
    /// Depth 0.
    Flat,
    /// Noise as if all nodes of the tree had read all records.
    ComposedOverNodes,
    /// Noise of changes by 2 L0.
    LipschitzNoise,
}

/// The dominating error: the sampling of records, or noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regime {
    Statistical,
    Private,
}

struct TreeExperiment {
    claim: Claim,
    who: Who,
    regime: Regime,
    target: TreeTarget,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim: Claim, who, regime, target| {
        all.push(Box::new(TreeExperiment {
            claim,
            who,
            regime,
            target,
        }));
    };
    let (mean, rule) = (TreeTarget::Mean, TreeTarget::Heuristic { safety: 1.5 });
    let (third, sixth) = (-1.0 / 3.0, 1.0 / 6.0);
    let (few, many) = (Regime::Statistical, Regime::Private);
    let (n, d, mu) = (Axis::Records, Axis::Dimension, Axis::Mu);
    let (tree, flat, composed) = (Who::Tree, Who::Flat, Who::ComposedOverNodes);
    let note = "the planner's whole numbers of rounds and depths";
    for (row, axis, rate, who, regime, target) in [
        ("n", n, third, tree, few, mean),
        ("n-stopping", n, third, tree, few, rule),
        ("n-private", n, -0.5, tree, many, mean),
        ("n", n, -0.25, flat, few, mean),
        ("n-private", n, third, flat, many, mean),
        ("d", d, 0.0, tree, few, mean),
        ("mu", mu, 0.0, tree, few, mean),
        ("d-private", d, 0.25, tree, many, mean),
        ("mu-private", mu, -0.5, tree, many, mean),
        ("d-private", d, sixth, flat, many, mean),
        ("mu-private", mu, third, flat, many, mean),
        ("d", d, 0.0, composed, few, mean),
        ("mu", mu, 0.0, composed, few, mean),
        ("d-private", d, 0.25, composed, many, mean),
        ("mu-private", mu, -0.5, composed, many, mean),
    ] {
        let id = match who {
            Who::Flat => format!("tree-spider-flat/{row}"),
            Who::ComposedOverNodes => format!("tree-spider/{row}-composed-over-nodes"),
            _ => format!("tree-spider/{row}"),
        };
        let mut claim = by_tree(&id, axis, rate).within(0.05, 0.12, note);
        if who == composed {
            claim = claim.control(COMPOSED);
        }
        add(claim, who, regime, target);
    }
    let control = by_tree("tree-spider/composed-over-nodes", n, -0.5).control(COMPOSED);
    add(control, composed, many, mean);
    let control = by_tree("tree-spider/lipschitz-noise", n, -0.5)
        .control("The noise of a change is scaled with 2 L0 and not with its displacement.");
    add(control, Who::LipschitzNoise, many, mean);
    let control = by_tree("tree-spider/flat", n, third)
        .control("No tree under the claim of the tree: can a fit tell the two?");
    add(control, flat, few, mean);
    all
}

/// What is wrong with most twins.
const COMPOSED: &str =
    "Noise as if each node read all records: the square root of their number too much.";

fn by_tree(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("tree-spider", "arXiv 2206.00846, Theorem 4, repaired")
        .on("tilted ramp-bowl")
        .expecting(Expect::Equal)
}

impl TreeExperiment {
    /// The statistical rows in d and mu have d far below n^(2/3) mu^2, the private ones far above.
    fn size(&self, x: f64) -> Size {
        let (records, dim, epsilon) = match (self.regime, self.who) {
            (Regime::Statistical, _) if self.claim.axis == Axis::Records => (0, 10, 4.0),
            (Regime::Statistical, _) if self.claim.axis == Axis::Mu => (10_000_000, 10, 4.0),
            (Regime::Statistical, _) => (1_000_000, 4, 4.0),
            (Regime::Private, Who::Flat) => (10_000_000_000, 30, 1e-3),
            (Regime::Private, _) => (100_000_000, 30, 1e-3),
        };
        let size = Size {
            records,
            dim,
            privacy: Privacy::Epsilon(epsilon),
        };
        size.along(self.claim.axis, x)
    }

    /// As planned: what a twin is held against.
    fn planned(&self, x: f64) -> Result<TreeSpiderPlan, CheckError> {
        let mut settings = TreeSettings::new(self.target);
        if self.who == Who::Flat {
            settings = settings.with_depth(0);
        }
        let size = self.size(x);
        let facts = PublicFacts {
            records: size.records,
            dim: size.dim,
            adjacency: Adjacency::ReplaceOne,
            lipschitz: (1.0 + SHARE) * BASE[0] + TILT,
            smoothness: (1.0 + SHARE) * BASE[1],
            initial_gap: GAP,
            row_norm: 1.0,
            score: Default::default(),
            convexity: Convexity::Nonconvex,
        };
        let budget = size.budget(DELTA)?;
        Ok(TreeSpiderPlan::new(&facts, &budget, settings, MAX_LEAVES)?)
    }

    /// As it is run.
    fn walked(&self, plan: &TreeSpiderPlan) -> Result<TreeSpiderPlan, CheckError> {
        if self.who != Who::ComposedOverNodes {
            return Ok(plan.clone());
        }
        let nodes = (plan.steps() as f64).sqrt();
        let schedule = plan.schedule().clone();
        let schedule = TreeSpiderSchedule {
            noise_multiplier: NoiseMultiplier::new(schedule.noise_multiplier.get() * nodes)?,
            ..schedule
        };
        let (facts, budget) = (plan.facts(), plan.budget());
        Ok(TreeSpiderPlan::by_hand(
            facts,
            budget,
            *plan.settings(),
            schedule,
        ))
    }
}

impl Experiment for TreeExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let from = match self.regime {
            Regime::Statistical => 1e5,
            Regime::Private => 3e6,
        };
        let count = match (full, self.claim.control) {
            (true, _) => 7,
            (false, false) => 6,
            (false, true) => 5,
        };
        let points = match (self.claim.axis, self.regime) {
            (Axis::Dimension, Regime::Statistical) => vec![4.0, 8.0, 16.0, 32.0, 64.0],
            (Axis::Dimension, Regime::Private) => half_decades(10.0, 5),
            (Axis::Mu, Regime::Statistical) => [1.0, 2.0, 4.0, 8.0].map(mu_at).to_vec(),
            (Axis::Mu, Regime::Private) => [5e-4, 1e-3, 2e-3, 4e-3, 8e-3].map(mu_at).to_vec(),
            _ => half_decades(from, count),
        };
        let (members, seeds) = match (full, self.claim.control, self.claim.axis) {
            (true, ..) => (12, 6),
            (false, true, Axis::Dimension | Axis::Mu) => (3, 1),
            _ => (6, 2),
        };
        Design::new(points).with_members(members).with_seeds(seeds)
    }

    /// The logarithms: a round of depth D costs 1 + D/2 roots, so that the error goes as ((1 + D/2)/n)^(1/3) where
    /// sampling dominates, and its square as (1 + D/2) sqrt(1/P^2 + D/L0^2)/n where noise does.
    fn correction(&self, x: f64) -> f64 {
        let Ok(plan) = self.planned(x) else {
            return f64::NAN;
        };
        let plan = plan.schedule();
        let depth = f64::from(plan.depth);
        let round = 1.0 + 0.5 * depth;
        match (self.who, self.regime) {
            (Who::Flat, _) => 1.0,
            (_, Regime::Statistical) => round.cbrt(),
            (_, Regime::Private) => {
                (round * (plan.reach.powi(-2) + depth / plan.clip.powi(2)).sqrt()).sqrt()
            }
        }
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let planned = self.planned(trial.x)?;
        let plan = self.walked(&planned)?;
        let (facts, dim) = (plan.facts(), plan.dim());
        let limit = RampBowl::largest_slope(BASE[0], BASE[1], GAP, Ramp::Straight);
        let slope = limit * (0.03f64).powf(share(trial));
        let base = RampBowl::new(dim, BASE[0], BASE[1], GAP, Ramp::Straight, slope)?;
        let loss = TiltedProblem::new(base, SHARE, TILT, 0.0)?;
        let data = population(dim, COPIES)?;
        let known = loss.constants_on(data.records());
        if known.lipschitz > facts.lipschitz + 1e-12 || known.smoothness > facts.smoothness + 1e-12
        {
            return Err("the family breaks its own constants".into());
        }
        let rule = match self.who {
            Who::LipschitzNoise => NoiseRule::Lipschitz,
            _ => NoiseRule::Displacement,
        };
        let mut oracle = SimulatedOracle::weighted(&loss, &data, Adjacency::ReplaceOne, trial.seed)
            .with_rule(rule);
        let error = |point: &[f64]| gradient_norm(&base, point);
        let points = Points::of(&plan, &mut oracle, error)?;
        if points.outcome.counts.records > facts.records as f64 {
            return Err("more records were read than there are".into());
        }
        let error = if plan.schedule().threshold.is_some() {
            error(&points.outcome.point)
        } else {
            points.mean
        };
        let aim = planned.aim().ok_or("the plan aims at nothing")?;
        Ok(Measured::new(error).with_bound(aim))
    }
}

/// Eight kinds of record, equally many of each: four tilts, along four sign patterns that are nearly orthogonal, and their opposites.
pub(super) fn population(
    dim: usize,
    copies: u64,
) -> Result<WeightedRecords<Vec<Tilt>>, CheckError> {
    let length = TILT / (dim as f64).sqrt();
    let tilts: Vec<Tilt> = (0..4u32)
        .map(|kind| Tilt {
            share: if kind % 2 == 0 { SHARE } else { -SHARE },
            ..Tilt::linear(
                (0..dim as u32)
                    .map(|k| {
                        // Rows of a Hadamard matrix, continued periodically.
                        let odd = ((k + 1) & (2 * kind + 1)).count_ones() % 2 == 1;
                        if odd { -length } else { length }
                    })
                    .collect(),
            )
        })
        .collect();
    Ok(TiltedProblem::<RampBowl>::opposites(&tilts, copies)?)
}
