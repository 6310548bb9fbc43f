//! Private Spider with steps of a fixed length, on all records.
//!
//! The estimator of [`crate::SpiderBoostPlan`], and the step of Fang, Li, Lin, Zhang, "SPIDER: Near-Optimal
//! Non-Convex Optimization via Stochastic Path Integrated Differential Estimator" (arXiv 1807.01695, Option I): along
//! the estimate, of a length that the plan fixes, shorter where the estimate is below a public floor. Arora et al.
//! (arXiv 2206.00846) name the variant and don't specify it; the bound is derived in `docs/theory/normalized-spider.md`.

use dpopt_linalg::norm;
use dpopt_oracle::{Batch, Estimate, Estimator, Level, Schedule};
use dpopt_privacy::{NoiseMultiplier, Refused, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::plan::{BoundSense, Plan};
use crate::run::{Course, Observer, Outcome, OutputRule, ReleaseKind, RunError, Stop, Walk, run};
use crate::trial_steps::trial_steps;

const SOLVER: &str = "normalized-spider";
/// Ratio of neighbouring trial values of T.
const GRID_RATIO: f64 = 1.02;
/// Ratio of neighbouring trial values of the path.
const PATH_RATIO: f64 = 1.02;
/// The plan takes the fewest steps whose bound is within this factor of the best: beyond some number more steps only
/// cost.
const NEARLY: f64 = 1.001;

/// A plan for private Spider with steps of a fixed length.
///
/// # Formula
/// Steps t = 0..T, anchors where q divides t (N1 of them), variations elsewhere (N2); s = 2 under replace-one, else 1;
/// mu1^2 + mu2^2 = mu^2:
///
/// - w_{t+1} = w_t - rho g_t/max(||g_t||, alpha): of length rho where ||g_t|| >= alpha, else shorter;
/// - anchor noise sigma1 = s L0 sqrt(N1)/(n mu1) per coordinate;
/// - variation noise at most sigma2 = s lambda sqrt(N2)/(n mu2), lambda = min(L1 rho, 2 L0) the largest clip radius:
///   known before the run;
/// - r^2 = d sigma1^2 + d sigma2^2 (mean of t mod q over t < T);
/// - E||grad F(w)|| <= F0/(rho T) + max(alpha, L1 rho)/2 + r^2/(2 alpha) for w uniform on w_0..w_{T-1}.
///
/// The planner minimises the right-hand side over T, rho, q, the split of mu and alpha = max(r, L1 rho), and takes the
/// fewest steps within 0.1 % of the minimum.
///
/// # Privacy
/// N1 + N2 Gaussian releases on all records with two noise multipliers, exactly mu-GDP.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NormalizedSpiderPlan {
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
    /// rho: length of a step.
    pub step_length: f64,
    /// alpha: along an estimate that is shorter the step is shorter than rho in proportion. With 0 every step has length rho,
    /// and the bound does not hold.
    pub floor: f64,
    /// Per-record clip radius of an anchor, L0.
    pub clip: f64,
    /// lambda: the largest clip radius of a variation.
    pub change_radius: f64,
    /// Noise multiplier of an anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of a variation; that of an anchor when there is none.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// sigma1: noise per coordinate of an anchor.
    pub anchor_noise_std: f64,
    /// sigma2: noise per coordinate of a variation after a step of length rho.
    pub variation_noise_std: f64,
    /// Bound on the mean of the gradient norm at the output.
    pub predicted_bound: Option<f64>,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    steps: u64,
    phase: u64,
    share: f64,
    length: f64,
    floor: f64,
    bound: f64,
}

impl NormalizedSpiderPlan {
    /// The plan with the least bound, up to 0.1 %, among those of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)).
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let best = search(facts, mu, max_steps.max(1));
        if !(best.bound < facts.trivial_bound()) {
            return Err(PlanError::Vacuous {
                solver: SOLVER,
                bound: best.bound,
                trivial: facts.trivial_bound(),
                records: facts.records,
                dim: facts.dim,
                mu,
            });
        }
        let anchors = best.steps.div_ceil(best.phase);
        let variations = best.steps - anchors;
        let anchor = (anchors as f64 / best.share).sqrt() / mu;
        let variation = if variations == 0 {
            anchor
        } else {
            (variations as f64 / (1.0 - best.share)).sqrt() / mu
        };
        let radius = change_radius(facts, best.length);
        Ok(Self {
            facts: *facts,
            budget: *budget,
            steps: best.steps,
            phase: best.phase,
            anchors,
            variations,
            anchor_share: best.share,
            step_length: best.length,
            floor: best.floor,
            clip: facts.lipschitz,
            change_radius: radius,
            anchor_noise_multiplier: NoiseMultiplier::new(anchor)?,
            variation_noise_multiplier: NoiseMultiplier::new(variation)?,
            anchor_noise_std: facts.noise_std(facts.lipschitz, anchor),
            variation_noise_std: facts.noise_std(radius, variation),
            predicted_bound: Some(best.bound),
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

    /// Runs the plan, from the origin. The estimator must clip at [`NormalizedSpiderPlan::clip`] and read all records.
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

    /// As [`Self::run`], from `start` and not from the origin: a public point, such as that of a checkpoint. The bound then
    /// holds if the caller's bound on the gap ([`PublicFacts::initial_gap`]) is one at `start`.
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

impl Plan for NormalizedSpiderPlan {
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

    /// All steps, with a floor, and a point drawn among all of them.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Completed && self.output == OutputRule::Uniform && self.floor > 0.0
    }

    fn bound_sense(&self) -> BoundSense {
        BoundSense::Mean
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

struct Spider<'a> {
    plan: &'a NormalizedSpiderPlan,
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
        let length = norm(gradient).max(self.plan.floor);
        // An estimate of zero points nowhere.
        let scale = if length > 0.0 {
            self.plan.step_length / length
        } else {
            0.0
        };
        for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
            *next = w - scale * g;
        }
    }
}

fn change_radius(facts: &PublicFacts, length: f64) -> f64 {
    (facts.smoothness * length).min(2.0 * facts.lipschitz)
}

fn search(facts: &PublicFacts, mu: f64, max_steps: u64) -> Candidate {
    let mut all: Vec<Candidate> = Vec::new();
    // Below this path F0/(rho T) alone says nothing.
    let least = facts.initial_gap / facts.trivial_bound();
    // Of the best so far: it grows with T until it stays.
    let mut around = least;
    for steps in trial_steps(GRID_RATIO, max_steps) {
        // The best path is a continuous function of T: a climb from the last one finds it.
        let at = |path: f64| best_phase(facts, mu, steps, path / steps as f64);
        let mut best = at(around);
        for ratio in [PATH_RATIO, 1.0 / PATH_RATIO] {
            loop {
                let path = around * ratio;
                let next = at(path);
                if path < least || !(next.bound < best.bound) {
                    break;
                }
                (around, best) = (path, next);
            }
        }
        all.push(best);
        // More steps are of no use once the floor is well above L1 rho.
        if best.floor > 8.0 * facts.smoothness * best.length {
            break;
        }
    }
    let least = all.iter().map(|c| c.bound).fold(f64::INFINITY, f64::min);
    let cheapest = all.iter().find(|c| c.bound <= least * NEARLY);
    cheapest.copied().unwrap_or(Candidate {
        steps: 1,
        phase: 1,
        share: 1.0,
        length: least,
        floor: facts.lipschitz,
        bound: f64::INFINITY,
    })
}

/// The best phase length and split for steps of this number and length.
fn best_phase(facts: &PublicFacts, mu: f64, steps: u64, length: f64) -> Candidate {
    let radius = change_radius(facts, length);
    let phases = steps as f64 * radius / (std::f64::consts::SQRT_2 * facts.lipschitz);
    let tries = [phases.floor(), phases.ceil(), 1.0, steps as f64];
    let candidates = tries.map(|phases| {
        let phases = (phases as u64).clamp(1, steps);
        with_phase(facts, mu, steps, length, steps.div_ceil(phases))
    });
    let [first, rest @ ..] = candidates;
    rest.into_iter().fold(
        first,
        |best, next| {
            if next.bound < best.bound { next } else { best }
        },
    )
}

fn with_phase(facts: &PublicFacts, mu: f64, steps: u64, length: f64, phase: u64) -> Candidate {
    let radius = change_radius(facts, length);
    let anchors = steps.div_ceil(phase);
    let variations = (steps - anchors) as f64;
    let unit = facts.noise_std(1.0, 1.0 / mu) * (facts.dim as f64).sqrt();
    // Roots of what the two kinds of release add to r^2 where each has all of mu.
    let fresh = unit * facts.lipschitz * (anchors as f64).sqrt();
    let drift = unit * radius * (variations * mean_age(steps, phase)).sqrt();
    // A^2/m + B^2/(1 - m) is least at m = A/(A + B), where it is (A + B)^2.
    let error = fresh + drift;
    let reach = facts.smoothness * length;
    let floor = error.max(reach);
    Candidate {
        steps,
        phase,
        share: fresh / error,
        length,
        floor,
        bound: facts.initial_gap / (length * steps as f64)
            + 0.5 * floor
            + 0.5 * error * error / floor,
    }
}

/// The mean of t mod q over t < T.
fn mean_age(steps: u64, phase: u64) -> f64 {
    let (full, rest) = ((steps / phase) as f64, (steps % phase) as f64);
    let q = phase as f64;
    (full * q * (q - 1.0) + rest * (rest - 1.0)).max(0.0) / (2.0 * steps as f64)
}
