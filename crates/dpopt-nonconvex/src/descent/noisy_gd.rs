//! Noisy gradient descent on all records, plain or with heavy-ball momentum.

use dpopt_oracle::{Batch, Estimate, Estimator, Level, Schedule};
use dpopt_privacy::{NoiseMultiplier, Refused, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::horizon::{CLIP_FRACTION, TIME_CONSTANTS, plain_steps};
use crate::plan::Plan;
use crate::rank::PublicRank;
use crate::run::{Course, Observer, Outcome, OutputRule, ReleaseKind, RunError, Stop, Walk, run};

/// A plan for w <- w + beta (w - w_prev) - eta g, with g the noisy clipped mean gradient.
///
/// # Privacy
/// T Gaussian releases on all records, each of noise multiplier sqrt(T)/mu: exactly mu-GDP.
/// Momentum and the output rule are post-processing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NoisyGdPlan {
    /// The facts it was made from.
    pub facts: PublicFacts,
    /// The privacy it spends.
    pub budget: Budget,
    /// Number of steps T, one release each.
    pub steps: u64,
    /// Step size eta.
    pub step_size: f64,
    /// Momentum beta; 0 for plain descent.
    pub momentum: f64,
    /// Per-record clip radius C.
    pub clip: f64,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
    /// Noise standard deviation per coordinate of the mean gradient.
    pub noise_std: f64,
    /// The public rank that it was planned for, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<PublicRank>,
    /// Bound on the root mean square of the gradient norm at the output; absent with momentum.
    pub predicted_bound: Option<f64>,
    /// Which point is returned.
    pub output: OutputRule,
}

impl NoisyGdPlan {
    /// The plan with the least proven bound: no momentum, step 1/L1, clip L0, uniform output, at most `max_steps`
    /// steps.
    ///
    /// # Formula
    /// E||grad F||^2 <= 2 L1 F0/T + d sigma^2 with sigma = s L0 sqrt(T)/(n mu), s = 2 under
    /// replace-one and 1 otherwise; T minimises it. (`faster-rates-stationary`, section 4.2.)
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)).
    pub fn theory(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::least_bound(facts, budget, max_steps, facts.dim)
    }

    /// As [`NoisyGdPlan::theory`] for a generalised linear loss whose rows span at most `rank` dimensions.
    ///
    /// # Formula
    /// E||grad F||^2 <= 2 L1 F0/T + r sigma^2: F depends on the projection of w to the span alone, whose
    /// walk is noisy gradient descent in r dimensions. (`docs/theory/jl.md`.)
    ///
    /// # Errors
    /// As [`NoisyGdPlan::theory`].
    pub fn within_rank(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
        rank: PublicRank,
    ) -> Result<Self, PlanError> {
        let plan = Self::least_bound(facts, budget, max_steps, rank.get().min(facts.dim))?;
        Ok(Self {
            rank: Some(rank),
            ..plan
        })
    }

    fn least_bound(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
        noise_dim: usize,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let variance = noise_dim as f64 * facts.noise_std(facts.lipschitz, 1.0 / mu).powi(2);
        let bound =
            |steps: f64| 2.0 * facts.smoothness * facts.initial_gap / steps + steps * variance;
        let ideal = (2.0 * facts.smoothness * facts.initial_gap / variance).sqrt();
        let cap = max_steps.max(1) as f64;
        let (low, high) = (ideal.floor().clamp(1.0, cap), ideal.ceil().clamp(1.0, cap));
        let steps = if bound(low) <= bound(high) { low } else { high };
        let rms = bound(steps).sqrt();
        if !(rms < facts.trivial_bound()) {
            return Err(PlanError::Vacuous {
                solver: "noisy-gd-theory",
                bound: rms,
                trivial: facts.trivial_bound(),
                records: facts.records,
                dim: facts.dim,
                mu,
            });
        }
        Self::build(
            facts,
            budget,
            steps as u64,
            1.0 / facts.smoothness,
            0.0,
            facts.lipschitz,
        )
        .map(|plan| Self {
            predicted_bound: Some(rms),
            output: OutputRule::Uniform,
            ..plan
        })
    }

    /// The plan for generalised linear losses that works well in practice; it states no bound.
    ///
    /// # Formula
    /// C = L0/2, eta = 1/L1, horizon q = rho L1/(tau X) plain steps with tau = s C/(n mu) and
    /// rho = 1.5. If q <= c - 1, with c = 10: T = ceil(q) without momentum. Otherwise
    /// T = ceil(c sqrt(q/(c-1))) (at most `max_steps`) with momentum 1 - c/T, whose horizon
    /// eta T^2 (c-1)/c^2 is q eta. (Ours; `docs/auto.md`.)
    ///
    /// # Errors
    /// [`PlanError::BadFact`] or an accounting error.
    pub fn momentum(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let clip = CLIP_FRACTION * facts.lipschitz;
        let plain = plain_steps(facts, clip, mu);
        let c = TIME_CONSTANTS;
        let cap = max_steps.max(1) as f64;
        let (steps, momentum) = if plain <= c - 1.0 {
            (plain.ceil().max(1.0), 0.0)
        } else {
            let steps = (c * (plain / (c - 1.0)).sqrt()).ceil();
            (steps, 1.0 - c / steps)
        };
        // A shorter horizon than the noise allows costs accuracy only.
        let (steps, momentum) = if steps > cap {
            (cap, (1.0 - c / cap).max(0.0))
        } else {
            (steps, momentum)
        };
        Self::build(
            facts,
            budget,
            steps as u64,
            1.0 / facts.smoothness,
            momentum,
            clip,
        )
    }

    fn build(
        facts: &PublicFacts,
        budget: &Budget,
        steps: u64,
        step_size: f64,
        momentum: f64,
        clip: f64,
    ) -> Result<Self, PlanError> {
        let mu = budget.mu()?.get();
        let noise_multiplier = NoiseMultiplier::new((steps as f64).sqrt() / mu)?;
        Ok(Self {
            facts: *facts,
            budget: *budget,
            steps,
            step_size,
            momentum,
            clip,
            noise_multiplier,
            noise_std: facts.noise_std(clip, noise_multiplier.get()),
            rank: None,
            predicted_bound: None,
            output: OutputRule::Last,
        })
    }

    /// The same plan with other steps (the noise follows; a stated bound is dropped).
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for zero steps or a bad step size, momentum or clip.
    pub fn with_parameters(
        &self,
        steps: u64,
        step_size: f64,
        momentum: f64,
        clip: f64,
    ) -> Result<Self, PlanError> {
        for (name, value) in [
            ("steps", steps as f64),
            ("step_size", step_size),
            ("clip", clip),
            ("1 - momentum", 1.0 - momentum),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(PlanError::BadFact { name, value });
            }
        }
        if momentum < 0.0 {
            return Err(PlanError::BadFact {
                name: "momentum",
                value: momentum,
            });
        }
        Self::build(&self.facts, &self.budget, steps, step_size, momentum, clip)
    }

    /// The releases of the plan.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let level = Level {
            batch: Batch::Everything,
            noise_multiplier: self.noise_multiplier,
        };
        Schedule::new(self.facts.records)
            .releases(level, self.steps)
            .spend()
    }

    /// Per-record gradients that the plan costs.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        self.steps as f64 * self.facts.records as f64
    }

    /// Runs the plan, from the origin. The estimator must clip at [`NoisyGdPlan::clip`] and read all records.
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
        let mut walk = HeavyBall::new(
            self.facts.dim,
            self.step_size,
            self.momentum,
            self.noise_multiplier,
        );
        run(&course, &mut walk, estimator, observer)
    }
}

impl Plan for NoisyGdPlan {
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
}

/// The walk that noisy gradient descent and DP-SGD share: a fresh estimate for each step.
pub(crate) struct HeavyBall {
    step_size: f64,
    momentum: f64,
    noise_multiplier: NoiseMultiplier,
    velocity: Vec<f64>,
}

impl HeavyBall {
    pub(crate) fn new(
        dim: usize,
        step_size: f64,
        momentum: f64,
        noise_multiplier: NoiseMultiplier,
    ) -> Self {
        Self {
            step_size,
            momentum,
            noise_multiplier,
            velocity: vec![0.0; dim],
        }
    }
}

impl Walk for HeavyBall {
    fn ask<'e>(
        &self,
        _step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        let estimate = estimator.refresh(point, self.noise_multiplier)?;
        Ok((ReleaseKind::Anchor, estimate))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        for (v, g) in self.velocity.iter_mut().zip(gradient) {
            *v = self.momentum * *v - self.step_size * g;
        }
        for ((next, w), v) in next.iter_mut().zip(point).zip(&self.velocity) {
            *next = w + v;
        }
    }
}
