//! Noisy gradient descent on all records, plain or with heavy-ball momentum.

use dpopt_oracle::{AskError, Batch, Level, Oracle, Schedule};
use dpopt_privacy::{NoiseMultiplier, Which};
use dpopt_solver::{
    Asked, Auto, BoundSense, BoundedQuantity, Budget, FreshReleases, Item, Needs, OutputRule, Plan,
    PlanError, PublicFacts, PublicRank, RunError, Solver, Terms, Unit, Walk,
};

use super::horizon::{Horizon, TIME_CONSTANTS};
use super::{Fresh, HeavyBall, check};

const SOLVER: &str = "noisy-gd";
const WITH_BOUND: &str = "noisy-gd-theory";
/// Noisy gradient descent with momentum.
pub static NOISY_GD: Solver = Solver {
    name: SOLVER,
    summary: "generalised linear losses and networks, kinks or not",
    paper: "none: a rule of ours, docs/solvers.md",
    needs: Needs {
        no_constants: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: None,
    auto: Auto::Fallback,
    theory_page: None,
    privacy_page: "privacy/estimator.md",
    planner: |facts, extra, budget, limits| {
        let units = extra.units(facts);
        let plan = NoisyGdPlan::momentum_in_units(facts, &units, budget, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};
/// Noisy gradient descent with a proven bound.
pub static NOISY_GD_THEORY: Solver = Solver {
    name: WITH_BOUND,
    summary: "smooth losses",
    paper: "Arora et al. 2022 (arXiv 2206.00846), section 4.2",
    needs: Needs::NOTHING,
    uses_rank: true,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::RootMeanSquare)),
    auto: Auto::ByBound,
    theory_page: Some("theory/faster-rates.md#spiderboost"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, extra, budget, limits| {
        Ok(Box::new(match extra.rank {
            None => NoisyGdPlan::theory(facts, budget, limits.max_steps)?,
            Some(rank) => NoisyGdPlan::within_rank(facts, budget, limits.max_steps, rank)?,
        }))
    },
};

/// A plan for w <- w + beta (w - w_prev) - eta g, with g the noisy clipped mean gradient.
///
/// # Privacy
/// T Gaussian releases on all records, each of noise multiplier sqrt(T)/mu: exactly mu-GDP.
/// Momentum and the output rule are post-processing.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyGdPlan {
    terms: Terms,
    schedule: NoisyGdSchedule,
    rank: Option<PublicRank>,
}

/// What a [`NoisyGdPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoisyGdSchedule {
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

    /// As [`NoisyGdPlan::theory`] for a loss whose gradients lie in a space of `rank` dimensions: a generalised linear one of rows that
    /// span no more, or a network's, with [`PublicRank::of_units`].
    ///
    /// # Formula
    /// E||grad F||^2 <= 2 L1 F0/T + r sigma^2: F depends on the projection of w to the span alone, whose
    /// walk is noisy gradient descent in r dimensions. (`docs/theory/faster-rates.md`.)
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
        facts.useful(WITH_BOUND, rms, mu)?;
        let plan = Self::build(
            facts,
            budget,
            steps as u64,
            1.0 / facts.smoothness,
            0.0,
            facts.lipschitz,
        )?;
        let schedule = NoisyGdSchedule {
            output: OutputRule::Uniform,
            ..plan.schedule
        };
        let plan = Self::by_hand(facts, budget, schedule);
        Ok(Self {
            terms: plan.terms.stating(Some(rms)),
            ..plan
        })
    }

    /// The plan that works well in practice for generalised linear losses and networks; it states no bound.
    ///
    /// # Formula
    /// C = L0/2, eta = 1/L1, horizon q = rho L1/(tau X) plain steps with tau = s C/(n mu) and
    /// rho = 1.5; of a label in [-h, h] C = min(r h L1/X, L0/2), r = max(0.15, 0.04 sqrt(n mu/(s d))), and rho = 0.1 h, of counts C = 0.2 L0 and rho = 0.4; of a loss with kinks C = L0, eta = 0.1 F0/L0^2, q = 0.25 L0/tau. If q <= c - 1, with c = 10: T = ceil(q) without momentum. Otherwise
    /// T = ceil(c sqrt(q/(c-1))) (at most `max_steps`) with momentum 1 - c/T, whose horizon
    /// eta T^2 (c-1)/c^2 is q eta. (Ours; `docs/solvers.md`.)
    ///
    /// # Errors
    /// [`PlanError::BadFact`] or an accounting error.
    pub fn momentum(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        Self::momentum_in_units(facts, facts, budget, max_steps)
    }

    /// As [`NoisyGdPlan::momentum`], with the constants of `units` in the rule: of a loss that has none
    /// ([`ExtraFacts::units`](dpopt_solver::ExtraFacts::units)).
    ///
    /// # Errors
    /// As [`NoisyGdPlan::momentum`].
    pub fn momentum_in_units(
        facts: &PublicFacts,
        units: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let Horizon {
            clip,
            step_size,
            plain_steps: plain,
            ..
        } = Horizon::new(units, budget.mu()?.get())?;
        let c = TIME_CONSTANTS;
        let cap = max_steps.max(1) as f64;
        let steps = Self::steps_of(plain);
        let momentum = if plain <= c - 1.0 {
            0.0
        } else {
            1.0 - c / steps
        };
        // A shorter horizon than the noise allows costs accuracy only.
        let (steps, momentum) = if steps > cap {
            (cap, (1.0 - c / cap).max(0.0))
        } else {
            (steps, momentum)
        };
        Self::build(facts, budget, steps as u64, step_size, momentum, clip)
    }

    /// The steps with momentum, or without where there are few, that go as far as so many plain ones.
    pub(crate) fn steps_of(plain: f64) -> f64 {
        let c = TIME_CONSTANTS;
        if plain <= c - 1.0 {
            plain.ceil().max(1.0)
        } else {
            (c * (plain / (c - 1.0)).sqrt()).ceil()
        }
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
        let schedule = NoisyGdSchedule {
            steps,
            step_size,
            momentum,
            clip,
            noise_multiplier: NoiseMultiplier::new((steps as f64).sqrt() / mu)?,
            output: OutputRule::Last,
        };
        Ok(Self::by_hand(facts, budget, schedule))
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(facts: &PublicFacts, budget: &Budget, schedule: NoisyGdSchedule) -> Self {
        let level = Level {
            batch: Batch::All,
            noise_multiplier: schedule.noise_multiplier,
        };
        let spend = Schedule::new(facts.records)
            .releases(level, schedule.steps)
            .spend();
        Self {
            terms: Terms::new(facts, budget, schedule.steps, spend)
                .with_clip(schedule.clip)
                .with_output(schedule.output)
                .with_fresh(FreshReleases::new(
                    facts.noise_std(schedule.clip, schedule.noise_multiplier.get()),
                )),
            schedule,
            rank: None,
        }
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
        check(steps, step_size, momentum, clip)?;
        let (facts, budget) = (self.facts(), self.budget());
        Self::build(facts, budget, steps, step_size, momentum, clip)
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &NoisyGdSchedule {
        &self.schedule
    }

    /// The public rank that it was planned for, if one was given.
    #[must_use]
    pub fn rank(&self) -> Option<PublicRank> {
        self.rank
    }

    /// Noise standard deviation per coordinate of the mean gradient.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        let NoisyGdSchedule {
            clip,
            noise_multiplier,
            ..
        } = self.schedule;
        self.facts().noise_std(clip, noise_multiplier.get())
    }
}

impl Plan for NoisyGdPlan {
    fn name(&self) -> &'static str {
        match self.bound() {
            Some(_) => WITH_BOUND,
            None => SOLVER,
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let mut items = vec![
            Item::count("steps", schedule.steps),
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::ratio("momentum", schedule.momentum),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::number("noise_std", self.noise_std(), Unit::GRADIENT),
        ];
        items.extend(self.rank.map(|rank| Item::count("rank", rank.get() as u64)));
        items.push(Item::word("output", schedule.output));
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let NoisyGdSchedule {
            step_size,
            momentum,
            clip,
            noise_multiplier,
            ..
        } = self.schedule;
        Ok(Box::new(Descent {
            estimate: Fresh::new(start.len(), Which::All, noise_multiplier, [clip])?,
            ball: HeavyBall::new(start.len(), step_size, momentum),
        }))
    }
}

/// Heavy-ball steps against fresh estimates.
pub(super) struct Descent {
    pub(super) estimate: Fresh,
    pub(super) ball: HeavyBall,
}

impl Walk for Descent {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        self.estimate.ask(step, point, oracle)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        self.ball.step(point, gradient, next);
    }
}
