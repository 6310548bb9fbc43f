//! Private STORM on all records: recursive momentum with noise.
//!
//! The estimator of Cutkosky and Orabona, "Momentum-Based Variance Reduction in Non-Convex SGD" (arXiv 1905.10018);
//! Arora et al. (arXiv 2206.00846) name the private variant and don't specify it. The bound is derived in
//! `docs/theory/storm.md`.

use dpopt_oracle::{Batch, Estimate, Estimator, Level, Momentum, Schedule};
use dpopt_privacy::{NoiseMultiplier, Refused, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::plan::Plan;
use crate::run::{Course, Observer, Outcome, OutputRule, ReleaseKind, RunError, Stop, Walk, run};
use crate::trial_steps::trial_steps;

const SOLVER: &str = "storm";
/// Ratio of neighbouring trial values of T in the planner.
const GRID_RATIO: f64 = 1.01;
/// Steps that are tried, in units of 1/L1. A tuned constant: shorter ones are better by 5 % at most, and cost in inverse
/// proportion to their length.
const STEPS: [f64; 2] = [0.25, 0.5];

/// A plan for private STORM.
///
/// # Formula
/// One anchor at w_0, then T - 1 steps of recursive momentum with weight a; step size theta/L1; s = 2 under replace-one,
/// else 1; 1/z0^2 + (T - 1)/z^2 = mu^2:
///
/// - g_0: mean of clipped gradients, noise s L0 z0/n per coordinate;
/// - g_t = (1 - a) g_{t-1} + mean of [clip grad f(w_t) - (1 - a) clip grad f(w_{t-1})] + noise s R_t z/n,
///   R_t = a L0 + (1 - a) min(L1 ||w_t - w_{t-1}||, 2 L0);
/// - w_{t+1} = w_t - (theta/L1) g_t;
/// - (S): (1 + c) (1 - a)^2 theta^2 K <= (1 - theta) a (2 - a), K = d (s z/n)^2, for some c > 0;
/// - E||grad F(w)||^2 <= 2 L1 F0/(theta T) + d (s L0 z0/n)^2/(a (2 - a) T) + (1 + 1/c) K L0^2 a (T - 1)/((2 - a) T)
///   for w uniform on w_0..w_{T-1}.
///
/// The planner minimises the right-hand side over T, theta, c (which gives a by equality in (S)) and the share of the
/// anchor. With a = 1 and theta = 1 it is noisy gradient descent, which is among the candidates.
///
/// # Privacy
/// T Gaussian releases on all records with two noise multipliers, exactly mu-GDP. R_t is public (both points are), and the
/// multipliers are constants, so ordinary adaptive composition applies.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StormPlan {
    /// The facts it was made from.
    pub facts: PublicFacts,
    /// The privacy it spends.
    pub budget: Budget,
    /// Number of steps T.
    pub steps: u64,
    /// a: the weight of the fresh gradient.
    pub momentum: Momentum,
    /// Step size theta/L1.
    pub step_size: f64,
    /// Share of mu^2 that the anchor gets.
    pub anchor_share: f64,
    /// Per-record clip radius of a gradient, L0.
    pub clip: f64,
    /// Noise multiplier of the anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of all other releases; that of the anchor when there is none.
    pub noise_multiplier: NoiseMultiplier,
    /// Noise per coordinate of the anchor.
    pub anchor_noise_std: f64,
    /// Noise per coordinate of another release over its clip radius R_t.
    pub noise_scale: f64,
    /// Bound on the root mean square of the gradient norm at the output.
    pub predicted_bound: Option<f64>,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
}

struct Candidate {
    steps: u64,
    fresh: f64,
    theta: f64,
    share: f64,
    /// On the mean square.
    bound: f64,
}

impl StormPlan {
    /// The plan with the least bound among those of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)).
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::planned(facts, budget, &STEPS, max_steps)
    }

    /// The same with steps of `theta`/L1 (or of 1/L1 and a = 1, where that is better).
    ///
    /// # Errors
    /// [`PlanError::Vacuous`]; [`PlanError::BadFact`] unless `theta` lies strictly between 0 and 1.
    pub fn with_step(
        facts: &PublicFacts,
        budget: &Budget,
        theta: f64,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        if !(theta > 0.0 && theta < 1.0) {
            return Err(PlanError::BadFact {
                name: "L1 times the step size (below 1)",
                value: theta,
            });
        }
        Self::planned(facts, budget, &[theta], max_steps)
    }

    fn planned(
        facts: &PublicFacts,
        budget: &Budget,
        thetas: &[f64],
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let best = search(facts, mu, thetas, max_steps.max(1));
        let rms = best.bound.sqrt();
        if !(rms < facts.trivial_bound()) {
            return Err(PlanError::Vacuous {
                solver: SOLVER,
                bound: rms,
                trivial: facts.trivial_bound(),
                records: facts.records,
                dim: facts.dim,
                mu,
            });
        }
        let anchor = 1.0 / (best.share.sqrt() * mu);
        let later = if best.steps == 1 {
            anchor
        } else {
            ((best.steps - 1) as f64 / (1.0 - best.share)).sqrt() / mu
        };
        Ok(Self {
            facts: *facts,
            budget: *budget,
            steps: best.steps,
            momentum: Momentum::new(best.fresh)?,
            step_size: best.theta / facts.smoothness,
            anchor_share: best.share,
            clip: facts.lipschitz,
            anchor_noise_multiplier: NoiseMultiplier::new(anchor)?,
            noise_multiplier: NoiseMultiplier::new(later)?,
            anchor_noise_std: facts.noise_std(facts.lipschitz, anchor),
            noise_scale: facts.noise_std(1.0, later),
            predicted_bound: Some(rms),
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
            .releases(level(self.anchor_noise_multiplier), 1)
            .releases(level(self.noise_multiplier), self.steps - 1)
            .spend()
    }

    /// Per-record gradients that the plan costs: n + 2 (T - 1) n.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        (2 * self.steps - 1) as f64 * self.facts.records as f64
    }

    /// Runs the plan, from the origin. The estimator must clip at [`StormPlan::clip`], read all records and take steps of
    /// recursive momentum.
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
        run(&course, &mut Storm { plan: self }, estimator, observer)
    }
}

impl Plan for StormPlan {
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
        let first = self.anchor_noise_multiplier.get().powi(-2);
        let later = self.noise_multiplier.get().powi(-2);
        let cost = |steps: u64| first + later * steps as f64;
        cost(step) / cost(self.steps.saturating_sub(1))
    }
}

struct Storm<'a> {
    plan: &'a StormPlan,
}

impl Walk for Storm<'_> {
    fn ask<'e>(
        &self,
        step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        let plan = self.plan;
        Ok(if step == 0 {
            let estimate = estimator.refresh(point, plan.anchor_noise_multiplier)?;
            (ReleaseKind::Anchor, estimate)
        } else {
            let (a, z) = (plan.momentum, plan.noise_multiplier);
            let estimate = estimator.advance_with_momentum(point, a, z)?;
            (ReleaseKind::Variation, estimate)
        })
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
            *next = w - self.plan.step_size * g;
        }
    }
}

fn search(facts: &PublicFacts, mu: f64, thetas: &[f64], max_steps: u64) -> Candidate {
    let mut best = fresh_each_time(facts, mu, 1);
    let mut offer = |next: Candidate| {
        if next.bound < best.bound {
            best = next;
        }
    };
    for steps in trial_steps(GRID_RATIO, max_steps).skip(1) {
        offer(fresh_each_time(facts, mu, steps));
        for &theta in thetas {
            for power in -8..=8 {
                let c = 2f64.powf(0.25 * f64::from(power));
                offer(recursive(facts, mu, steps, theta, c));
            }
        }
    }
    best
}

/// With a = 1 and theta = 1: noisy gradient descent.
fn fresh_each_time(facts: &PublicFacts, mu: f64, steps: u64) -> Candidate {
    let t = steps as f64;
    let noise = facts.noise_std(facts.lipschitz, t.sqrt() / mu);
    Candidate {
        steps,
        fresh: 1.0,
        theta: 1.0,
        share: 1.0 / t,
        bound: 2.0 * facts.smoothness * facts.initial_gap / t + facts.dim as f64 * noise * noise,
    }
}

/// With the a of equality in (S).
fn recursive(facts: &PublicFacts, mu: f64, steps: u64, theta: f64, c: f64) -> Candidate {
    let t = steps as f64;
    let unit = facts.dim as f64 * facts.noise_std(1.0, 1.0 / mu).powi(2);
    // Every share has a bound of its own. This one is nearly the best: the anchor's part of the bound is
    // P/share, that of the others Q/(1 - share), and Q/P = (1 + 1/c) (a (T - 1))^2.
    let weight = |share: f64| {
        let noise = unit * (t - 1.0) / (1.0 - share);
        // a (2 - a)/(1 - a)^2 = y.
        let y = (1.0 + c) * theta * theta * noise / (1.0 - theta);
        (noise, y / (1.0 + y + (1.0 + y).sqrt()))
    };
    let mut share = 1.0 / t;
    for _ in 0..3 {
        let (_, fresh) = weight(share);
        share = 1.0 / (1.0 + (1.0 + 1.0 / c).sqrt() * fresh * (t - 1.0));
    }
    let (noise, fresh) = weight(share);
    let square = facts.lipschitz * facts.lipschitz;
    Candidate {
        steps,
        fresh,
        theta,
        share,
        bound: 2.0 * facts.smoothness * facts.initial_gap / (theta * t)
            + unit / share * square / (fresh * (2.0 - fresh) * t)
            + (1.0 + 1.0 / c) * noise * square * fresh / (2.0 - fresh) * (t - 1.0) / t,
    }
}
