//! DP-SGD: noisy clipped gradients on Poisson samples, with momentum.

use dpopt_oracle::{Level, Schedule};
use dpopt_privacy::{Accountant, NoiseMultiplier, SamplingRate, Spend};
use dpopt_solver::{
    Auto, Batches, Budget, FreshReleases, Item, Needs, OutputRule, Plan, PlanError, PublicFacts,
    RunError, Solver, Terms, Unit, Walk,
};

use super::horizon::{Horizon, NO_RULE};
use super::noisy_gd::Descent;
use super::{Fresh, HeavyBall, check};

const SOLVER: &str = "dp-sgd";
/// DP-SGD.
pub static DP_SGD: Solver = Solver {
    name: SOLVER,
    summary: "generalised linear losses and networks, kinks or not",
    paper: "Abadi et al. 2016 (arXiv 1607.00133)",
    needs: Needs {
        no_constants: true,
        samples: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: None,
    auto: Auto::NoConstants,
    theory_page: None,
    privacy_page: "privacy/estimator.md",
    planner: |facts, extra, budget, limits| {
        let units = extra.units(facts);
        let plan = DpSgdPlan::in_units(facts, &units, budget, limits.max_steps)?;
        Ok(Box::new(plan.with_batches(extra.batches)?))
    },
};
/// DP-SGD with a clip radius that goes down.
pub static DP_SGD_DECAY: Solver = Solver {
    name: "dp-sgd-decay",
    auto: NO_RULE,
    planner: |facts, extra, budget, limits| {
        let units = extra.units(facts);
        let plan = DpSgdPlan::decaying_in_units(facts, &units, budget, limits.max_steps)?;
        Ok(Box::new(plan.with_batches(extra.batches)?))
    },
    ..DP_SGD
};

/// Momentum of the default plan: the usual one. A tuned constant.
const MOMENTUM: f64 = 0.9;
/// Noise multiplier that the default sampling rate aims at. Above about 1 sampling costs little:
/// per step mu is rate x sqrt(e^(1/z^2) - 1), close to rate/z. A tuned constant.
const TARGET_MULTIPLIER: f64 = 1.5;
/// Last clip radius over the first where it decays. Not measured.
const CLIP_DECAY: f64 = 0.2;

/// A plan for DP-SGD. It states no bound on the gradient.
///
/// # Privacy
/// T Gaussian releases, each on a fresh Poisson sample. The multiplier is calibrated by the
/// named accountant for the stated adjacency; under replace-one with its own dominating pair,
/// never with the add/remove formula.
#[derive(Debug, Clone, PartialEq)]
pub struct DpSgdPlan {
    terms: Terms,
    schedule: DpSgdSchedule,
    accountant: Option<Accountant>,
    /// What Poisson samples at the same rate and steps would need, where others are drawn.
    poisson: Option<NoiseMultiplier>,
}

/// What a [`DpSgdPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DpSgdSchedule {
    /// Number of steps T, one release each.
    pub steps: u64,
    /// Probability with which a record enters a step; of an allocation, one over the steps of an epoch.
    pub sampling_rate: SamplingRate,
    /// How batches are drawn.
    pub batches: Batches,
    /// Step size.
    pub step_size: f64,
    /// Heavy-ball momentum.
    pub momentum: f64,
    /// Per-record clip radius C, that of the first step where it decays.
    pub clip: f64,
    /// The last step's clip radius over the first one's; 1 where it stays. It goes down geometrically, and the noise
    /// with it: the multiplier stays, so the privacy does.
    pub clip_decay: f64,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
    /// Which point is returned.
    pub output: OutputRule,
}

impl DpSgdSchedule {
    /// The clip radius of a step.
    #[must_use]
    pub fn clip_at(&self, step: u64) -> f64 {
        let last = self.steps.saturating_sub(1).max(1) as f64;
        self.clip * self.clip_decay.powf(step as f64 / last)
    }
}

impl DpSgdPlan {
    /// The default plan for generalised linear losses and networks.
    ///
    /// # Formula
    /// C = L0/2, eta = 1/L1, momentum 0.9; of a label in [-h, h] and of counts as [`NoisyGdPlan::momentum`](crate::NoisyGdPlan::momentum); of a loss with kinks C = L0,
    /// eta = 0.1 F0/L0^2. In the limit of many steps T releases at rate r and
    /// multiplier z compose to mu = r sqrt(T)/z, so the noise along a flat direction depends, as
    /// for noisy gradient descent, only on the horizon q: T = ceil((1 - 0.9) q), at most
    /// `max_steps`. The rate is 1.5 mu/sqrt(T), at which z is near 1.5. (Ours; `docs/solvers.md`.)
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::in_units(facts, facts, budget, max_steps)
    }

    /// As [`DpSgdPlan::new`], with the constants of `units` in the rule: of a loss that has none
    /// ([`ExtraFacts::units`](dpopt_solver::ExtraFacts::units)).
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn in_units(
        facts: &PublicFacts,
        units: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let mu = budget.mu()?.get();
        let Horizon {
            clip,
            step_size,
            plain_steps,
            ..
        } = Horizon::new(units, mu)?;
        let steps = ((1.0 - MOMENTUM) * plain_steps)
            .ceil()
            .clamp(1.0, max_steps.max(1) as f64) as u64;
        Self::with_parameters(
            facts,
            budget,
            steps,
            rate_for(facts, mu, steps)?,
            step_size,
            MOMENTUM,
            clip,
        )
    }

    /// As [`DpSgdPlan::new`], with a clip radius that goes down from L0 (2 C of a label that is a number, or of counts) to a fifth of it: gradients shrink as a run goes on,
    /// and so may the noise. The numbers are the usual kind of choice and not measured.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn decaying(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        Self::decaying_in_units(facts, facts, budget, max_steps)
    }

    /// As [`DpSgdPlan::decaying`], with the constants of `units` in the rule.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn decaying_in_units(
        facts: &PublicFacts,
        units: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let clip = Horizon::new(units, budget.mu()?.get())?.first_clip;
        Self::in_units(facts, units, budget, max_steps)?
            .scheduled(|schedule| DpSgdSchedule { clip, ..schedule })
            .with_clip_decay(CLIP_DECAY)
    }

    /// The same plan with a clip radius that goes down geometrically to `decay` times the first. Sensitivity and noise go down
    /// together, at one multiplier: the same events.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for a decay that is not positive and finite.
    pub fn with_clip_decay(self, decay: f64) -> Result<Self, PlanError> {
        PlanError::positive("clip_decay", decay)?;
        Ok(self.scheduled(|schedule| DpSgdSchedule {
            clip_decay: decay,
            ..schedule
        }))
    }

    /// The same plan with batches that are drawn so, and the noise that they need: in whole epochs where records are allocated. A plan of Poisson
    /// samples stays as it is; the others say what noise Poisson samples would need at the same steps and rate.
    ///
    /// # Errors
    /// [`PlanError`]: of a largest batch below the mean one, and what accountants refuse.
    pub fn with_batches(self, batches: Batches) -> Result<Self, PlanError> {
        if batches == self.schedule.batches {
            return Ok(self);
        }
        let (facts, budget) = (*self.facts(), *self.budget());
        let old = self.schedule;
        let (steps, rate) = batches.fitted(old.steps, old.sampling_rate)?;
        let calibrated = |batches: Batches| {
            batches.at(&facts, rate)?;
            let event = |z| spend(&facts, z, (batches, rate), steps).event().clone();
            budget.calibrated(facts.adjacency, event)
        };
        let (accountant, noise_multiplier) = calibrated(batches)?;
        let as_planned = old.batches == Batches::Poisson
            && self.accountant.is_some()
            && (old.steps, old.sampling_rate) == (steps, rate);
        let poisson = match as_planned {
            true => old.noise_multiplier,
            false => calibrated(Batches::Poisson)?.1,
        };
        let schedule = DpSgdSchedule {
            steps,
            sampling_rate: rate,
            batches,
            noise_multiplier,
            ..old
        };
        Ok(Self {
            accountant: Some(accountant),
            poisson: (batches != Batches::Poisson).then_some(poisson),
            ..Self::by_hand(&facts, &budget, schedule)
        })
    }

    /// The same with a schedule of the same privacy.
    pub(super) fn scheduled(&self, change: impl FnOnce(DpSgdSchedule) -> DpSgdSchedule) -> Self {
        Self {
            accountant: self.accountant,
            poisson: self.poisson,
            ..Self::by_hand(self.facts(), self.budget(), change(self.schedule))
        }
    }

    /// A plan with given parameters; the noise is calibrated to the budget.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn with_parameters(
        facts: &PublicFacts,
        budget: &Budget,
        steps: u64,
        sampling_rate: SamplingRate,
        step_size: f64,
        momentum: f64,
        clip: f64,
    ) -> Result<Self, PlanError> {
        facts.check_clipped()?;
        check(steps, step_size, momentum, clip)?;
        let batches = Batches::Poisson;
        let event = |z| {
            let spend = spend(facts, z, (batches, sampling_rate), steps);
            spend.event().clone()
        };
        let (accountant, noise_multiplier) = budget.calibrated(facts.adjacency, event)?;
        let schedule = DpSgdSchedule {
            steps,
            sampling_rate,
            batches,
            step_size,
            momentum,
            clip,
            clip_decay: 1.0,
            noise_multiplier,
            output: OutputRule::Last,
        };
        Ok(Self {
            accountant: Some(accountant),
            ..Self::by_hand(facts, budget, schedule)
        })
    }

    /// A plan with another schedule, whose noise nobody calibrated.
    #[must_use]
    pub fn by_hand(facts: &PublicFacts, budget: &Budget, schedule: DpSgdSchedule) -> Self {
        let DpSgdSchedule {
            steps,
            sampling_rate: rate,
            batches,
            noise_multiplier,
            ..
        } = schedule;
        let spend = spend(facts, noise_multiplier, (batches, rate), steps);
        let terms = Terms::new(facts, budget, steps, spend)
            .with_gradients(steps as f64 * facts.records as f64 * rate.get())
            .with_clip(schedule.clip)
            .with_access(batches.access(rate))
            .with_output(schedule.output);
        let noise_std = facts.noise_std(schedule.clip, noise_multiplier.get()) / rate.get();
        Self {
            // Where the clip goes down, so does the noise: it is not of one size. Means over steps that share their draw, or leave records out, are
            // no means of fresh samples.
            terms: if schedule.clip_decay == 1.0 && batches == Batches::Poisson {
                terms.with_fresh(FreshReleases::new(noise_std))
            } else {
                terms
            },
            schedule,
            accountant: None,
            poisson: None,
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &DpSgdSchedule {
        &self.schedule
    }

    /// Who calibrated the multiplier; none for a plan by hand.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    /// Noise standard deviation per coordinate of the mean gradient, at the first step.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        let DpSgdSchedule {
            clip,
            noise_multiplier,
            sampling_rate,
            ..
        } = self.schedule;
        self.facts().noise_std(clip, noise_multiplier.get()) / sampling_rate.get()
    }

    /// The clip radius of a step.
    #[must_use]
    pub fn clip_at(&self, step: u64) -> f64 {
        self.schedule.clip_at(step)
    }

    /// The estimate that the plan walks on.
    pub(super) fn estimate(&self) -> Result<Fresh, RunError> {
        let schedule = &self.schedule;
        let decays = schedule.clip_decay != 1.0;
        let clips = if decays { schedule.steps } else { 1 };
        Fresh::new(
            self.facts().dim,
            schedule.batches.which(schedule.sampling_rate),
            schedule.noise_multiplier,
            (0..clips).map(|step| {
                if decays {
                    schedule.clip_at(step)
                } else {
                    schedule.clip
                }
            }),
        )
    }
}

impl Plan for DpSgdPlan {
    fn name(&self) -> &'static str {
        if self.schedule.clip_decay == 1.0 {
            SOLVER
        } else {
            DP_SGD_DECAY.name
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let mut items = vec![
            Item::count("steps", schedule.steps),
            Item::ratio("sampling_rate", schedule.sampling_rate.get()),
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::ratio("momentum", schedule.momentum),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio("clip_decay", schedule.clip_decay),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::number("noise_std", self.noise_std(), Unit::GRADIENT),
        ];
        if schedule.batches != Batches::Poisson {
            items.push(Item::word("batches", schedule.batches));
        }
        if let Batches::AtMost(most) = schedule.batches {
            items.push(Item::count("largest_batch", u64::from(most)));
        }
        let poisson = self.poisson.map(NoiseMultiplier::get);
        items.extend(poisson.map(|z| Item::ratio("poisson_noise_multiplier", z)));
        items.extend(self.accountant.map(|name| Item::word("accountant", name)));
        items.push(Item::word("output", schedule.output));
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let DpSgdSchedule {
            step_size,
            momentum,
            ..
        } = self.schedule;
        Ok(Box::new(Descent {
            estimate: self.estimate()?,
            ball: HeavyBall::new(start.len(), step_size, momentum),
        }))
    }
}

/// The rate at which so many steps have [`TARGET_MULTIPLIER`], and at least one expected record each.
pub(super) fn rate_for(
    facts: &PublicFacts,
    mu: f64,
    steps: u64,
) -> Result<SamplingRate, PlanError> {
    let rate = (TARGET_MULTIPLIER * mu / (steps as f64).sqrt())
        .max(1.0 / facts.records as f64)
        .min(1.0);
    Ok(SamplingRate::new(rate)?)
}

fn spend(
    facts: &PublicFacts,
    noise_multiplier: NoiseMultiplier,
    (batches, rate): (Batches, SamplingRate),
    steps: u64,
) -> Spend {
    let level = Level {
        batch: batches.batch(rate),
        noise_multiplier,
    };
    Schedule::new(facts.records).releases(level, steps).spend()
}
