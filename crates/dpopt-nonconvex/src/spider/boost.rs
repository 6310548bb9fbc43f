//! Private SpiderBoost on all records ("SB-exact").
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah, "Faster Rates of Convergence to Stationary
//! Points in Differentially Private Optimization" (arXiv 2206.00846), Algorithm 1 and Theorem 1,
//! with the errata E1 to E8 of `docs/theory/spiderboost.md`: the printed phase length and noise
//! constants give no descent, so both are planned from the exact privacy cost instead.

use dpopt_oracle::{Batch, Estimate, Estimator, Level, Schedule};
use dpopt_privacy::{NoiseMultiplier, Refused, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::plan::Plan;
use crate::rank::PublicRank;
use crate::run::{Course, Observer, Outcome, OutputRule, ReleaseKind, RunError, Stop, Walk, run};

/// Ratio of neighbouring trial values of T in the planner.
const GRID_RATIO: f64 = 1.01;
/// One in so many of them is tried first.
const COARSE: usize = 20;

/// A plan for private SpiderBoost.
///
/// # Formula
/// Steps t = 0..T, anchors where q divides t (N1 of them), variations elsewhere (N2); step size
/// 1/(2 L1); s = 2 under replace-one, else 1; mu1^2 + mu2^2 = mu^2:
///
/// - anchor noise sigma1 = s L0 sqrt(N1)/(n mu1) per coordinate;
/// - variation noise s2 lambda_t, s2 = s sqrt(N2)/(n mu2), lambda_t = min(L1 ||w_t - w_{t-1}||, 2 L0);
/// - (D): (q - 1) d s2^2 <= 2;
/// - E||grad F(w)||^2 <= 4 L1 F0/T + d sigma1^2 for w uniform on w_0..w_{T-1}.
///
/// The planner minimises the right-hand side over T, the split of mu and q subject to (D).
///
/// # Privacy
/// N1 + N2 Gaussian releases on all records with two noise multipliers, exactly mu-GDP. lambda_t
/// is public (both points are), and the multiplier is constant, so ordinary adaptive composition
/// applies. A step with lambda_t = 0 releases nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpiderBoostPlan {
    /// The facts it was made from.
    pub facts: PublicFacts,
    /// The privacy it spends.
    pub budget: Budget,
    /// Number of steps T.
    pub steps: u64,
    /// Phase length q.
    pub phase: u64,
    /// Number of anchors N1.
    pub anchors: u64,
    /// Number of variations N2.
    pub variations: u64,
    /// Share of mu^2 that the anchors get.
    pub anchor_share: f64,
    /// Step size 1/(2 L1).
    pub step_size: f64,
    /// Per-record clip radius, L0.
    pub clip: f64,
    /// Noise multiplier of an anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of a variation; that of an anchor when there is none.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// sigma1: noise per coordinate of an anchor.
    pub anchor_noise_std: f64,
    /// s2: noise per coordinate of a variation over its clip radius.
    pub variation_noise_scale: f64,
    /// The public rank that it was planned for, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<PublicRank>,
    /// Bound on the root mean square of the gradient norm at the output.
    pub predicted_bound: Option<f64>,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
}

pub(crate) struct Candidate {
    pub(crate) steps: u64,
    pub(crate) phase: u64,
    pub(crate) share: f64,
    /// On the mean square.
    pub(crate) bound: f64,
}

impl Candidate {
    /// What every candidate is better than.
    pub(crate) fn worst() -> Self {
        Self {
            steps: 1,
            phase: 1,
            share: 1.0,
            bound: f64::INFINITY,
        }
    }
}

impl SpiderBoostPlan {
    /// The plan with the least bound among those of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)).
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let best = Self::search(facts, mu, max_steps.max(1));
        Self::checked(facts, budget, mu, &best)
    }

    /// The plan of a candidate, unless its bound says nothing.
    pub(crate) fn checked(
        facts: &PublicFacts,
        budget: &Budget,
        mu: f64,
        best: &Candidate,
    ) -> Result<Self, PlanError> {
        let rms = best.bound.sqrt();
        if !(rms < facts.trivial_bound()) {
            return Err(PlanError::Vacuous {
                solver: "spiderboost",
                bound: rms,
                trivial: facts.trivial_bound(),
                records: facts.records,
                dim: facts.dim,
                mu,
            });
        }
        Self::build(facts, budget, mu, best)
    }

    /// The best candidate on a grid of T and of the share in percent. Most of it is left out by lower bounds: with no more
    /// anchors than the longest phase of a range of shares needs, and the largest share of the range.
    fn search(facts: &PublicFacts, mu: f64, max_steps: u64) -> Candidate {
        let grid = grid(max_steps);
        let optimisation = |steps: u64| 4.0 * facts.smoothness * facts.initial_gap / steps as f64;
        let noise = |anchors: u64, share: f64| {
            let sigma = facts.noise_std(facts.lipschitz, (anchors as f64 / share).sqrt() / mu);
            facts.dim as f64 * sigma * sigma
        };
        let at = |steps: u64, percent: u32| {
            let share = f64::from(percent) / 100.0;
            let phase = longest_phase(facts, mu, steps, share);
            // One phase has no variations to pay for when T = 1.
            let share = if phase == 1 { 1.0 } else { share };
            Candidate {
                steps,
                phase,
                share,
                bound: optimisation(steps) + noise(steps.div_ceil(phase), share),
            }
        };
        // What some candidate on the grid attains.
        let coarse = grid.iter().step_by(COARSE);
        let attained = coarse
            .flat_map(|&steps| (1..10).map(move |tenth| (steps, 10 * tenth)))
            .map(|(steps, percent)| at(steps, percent).bound)
            .fold(f64::INFINITY, f64::min);
        // No share from `low` to `high` percent has a smaller bound.
        let least = |steps: u64, low: u32, high: u32| {
            let phase = longest_phase(facts, mu, steps, f64::from(low) / 100.0);
            let anchors = steps.div_ceil(phase);
            let some = noise(anchors, f64::from(high) / 100.0);
            optimisation(steps) + some.min(noise(steps, 1.0))
        };
        let mut best = Candidate::worst();
        for &steps in &grid {
            if optimisation(steps) > attained || least(steps, 1, 99) > attained {
                continue;
            }
            for low in (1..100).step_by(11) {
                if least(steps, low, low + 10) > attained {
                    continue;
                }
                for percent in low..low + 11 {
                    let candidate = at(steps, percent);
                    if candidate.bound < best.bound {
                        best = candidate;
                    }
                }
            }
        }
        best
    }

    fn build(
        facts: &PublicFacts,
        budget: &Budget,
        mu: f64,
        best: &Candidate,
    ) -> Result<Self, PlanError> {
        let anchors = best.steps.div_ceil(best.phase);
        let variations = best.steps - anchors;
        let anchor = (anchors as f64 / best.share).sqrt() / mu;
        let variation = if variations == 0 {
            anchor
        } else {
            (variations as f64 / (1.0 - best.share)).sqrt() / mu
        };
        Ok(Self {
            facts: *facts,
            budget: *budget,
            steps: best.steps,
            phase: best.phase,
            anchors,
            variations,
            anchor_share: best.share,
            step_size: 0.5 / facts.smoothness,
            clip: facts.lipschitz,
            anchor_noise_multiplier: NoiseMultiplier::new(anchor)?,
            variation_noise_multiplier: NoiseMultiplier::new(variation)?,
            anchor_noise_std: facts.noise_std(facts.lipschitz, anchor),
            variation_noise_scale: facts.noise_std(1.0, variation),
            rank: None,
            predicted_bound: Some(best.bound.sqrt()),
            output: OutputRule::Uniform,
        })
    }

    /// The releases of the plan.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let level = |noise_multiplier| Level {
            batch: Batch::Everything,
            noise_multiplier,
        };
        Schedule::new(self.facts.records)
            .releases(level(self.anchor_noise_multiplier), self.anchors)
            .releases(level(self.variation_noise_multiplier), self.variations)
            .spend()
    }

    /// Per-record gradients that the plan costs: N1 n + 2 N2 n.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        (self.anchors + 2 * self.variations) as f64 * self.facts.records as f64
    }

    /// Runs the plan, from the origin. The estimator must clip at [`SpiderBoostPlan::clip`] and read all records.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    pub fn run(
        &self,
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_from(&vec![0.0; self.facts.dim], estimator, observer)
    }

    /// As [`Self::run`], from `start` and not from the origin: a public point, such as that of a
    /// checkpoint. A bound of the plan then holds if the caller's bound on the gap
    /// ([`PublicFacts::initial_gap`]) is one at `start`.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    pub fn run_from(
        &self,
        start: &[f64],
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        let course = Course {
            start,
            dim: self.facts.dim,
            steps: self.steps,
            spend: self.spend(),
            output: self.output,
            bound: &|stop| self.bound_at(stop),
        };
        run(&course, &mut Spider { plan: self }, estimator, observer)
    }
}

impl Plan for SpiderBoostPlan {
    fn facts(&self) -> &PublicFacts {
        &self.facts
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn spend(&self) -> Spend {
        self.spend()
    }

    fn gradients(&self) -> f64 {
        self.gradients()
    }

    fn clip(&self) -> f64 {
        self.clip
    }

    fn predicted_bound(&self) -> Option<f64> {
        self.predicted_bound
    }

    /// All steps, and a point drawn among all of them.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Completed && self.output == OutputRule::Uniform
    }

    fn share_spent(&self, step: u64) -> f64 {
        let cost = |anchors: u64, variations: u64| {
            anchors as f64 * self.anchor_noise_multiplier.get().powi(-2)
                + variations as f64 * self.variation_noise_multiplier.get().powi(-2)
        };
        let anchors = step / self.phase + 1;
        cost(anchors, step + 1 - anchors) / cost(self.anchors, self.variations)
    }
}

/// Anchors at the start of each phase, variations between.
struct Spider<'a> {
    plan: &'a SpiderBoostPlan,
}

impl Walk for Spider<'_> {
    fn ask<'e>(
        &self,
        step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        Ok(if step.is_multiple_of(self.plan.phase) {
            let estimate = estimator.refresh(point, self.plan.anchor_noise_multiplier)?;
            (ReleaseKind::Anchor, estimate)
        } else {
            let estimate = estimator.advance(point, self.plan.variation_noise_multiplier)?;
            (ReleaseKind::Variation, estimate)
        })
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
            *next = w - self.plan.step_size * g;
        }
    }
}

/// Trial values of T.
fn grid(max_steps: u64) -> Vec<u64> {
    let mut grid = Vec::new();
    let mut trial = 1.0f64;
    while trial <= max_steps as f64 && trial < 1e15 {
        grid.push(trial as u64);
        trial *= GRID_RATIO;
    }
    grid.dedup();
    grid
}

/// The largest q in 1..=T with (q - 1) d s2^2 <= 2, where s2 depends on q through the number of
/// variations. The left side grows with q, so bisection finds it.
fn longest_phase(facts: &PublicFacts, mu: f64, steps: u64, share: f64) -> u64 {
    let per_variation = facts.dim as f64 * facts.noise_std(1.0, 1.0 / mu).powi(2) / (1.0 - share);
    let fits = |phase: u64| {
        let variations = (steps - steps.div_ceil(phase)) as f64;
        (phase - 1) as f64 * variations * per_variation <= 2.0
    };
    if fits(steps) {
        return steps;
    }
    let (mut low, mut high) = (1, steps);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
