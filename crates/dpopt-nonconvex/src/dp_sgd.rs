//! DP-SGD: noisy clipped gradients on Poisson samples, with momentum.

use dpopt_oracle::{Batch, Estimator, Level, Schedule};
use dpopt_privacy::accounting::calibrate;
use dpopt_privacy::{Accountant, NoiseMultiplier, SamplingRate, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::horizon::{CLIP_FRACTION, plain_steps};
use crate::noisy_gd::HeavyBall;
use crate::run::{Course, Observer, Outcome, OutputRule, RunError, run};

/// Momentum of the default plan: the usual one. A tuned constant.
const MOMENTUM: f64 = 0.9;
/// Noise multiplier that the default sampling rate aims at. Above about 1 sampling costs little:
/// per step mu is rate x sqrt(e^(1/z^2) - 1), close to rate/z. A tuned constant.
const TARGET_MULTIPLIER: f64 = 1.5;

/// A plan for DP-SGD. It states no bound on the gradient.
///
/// # Privacy
/// T Gaussian releases, each on a fresh Poisson sample. The multiplier is calibrated by the
/// named accountant for the stated adjacency; under replace-one with its own dominating pair,
/// never with the add/remove formula.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DpSgdPlan {
    /// The facts it was made from.
    pub facts: PublicFacts,
    /// The privacy it spends.
    pub budget: Budget,
    /// Number of steps T, one release each.
    pub steps: u64,
    /// Probability with which a record enters a step.
    pub sampling_rate: SamplingRate,
    /// Step size.
    pub step_size: f64,
    /// Heavy-ball momentum.
    pub momentum: f64,
    /// Per-record clip radius C.
    pub clip: f64,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
    /// Noise standard deviation per coordinate of the mean gradient.
    pub noise_std: f64,
    /// Who calibrated the multiplier.
    pub accountant: Accountant,
    /// Which point is returned.
    pub output: OutputRule,
}

impl DpSgdPlan {
    /// The default plan for generalised linear losses.
    ///
    /// # Formula
    /// C = L0/2, eta = 1/L1, momentum 0.9. In the limit of many steps T releases at rate r and
    /// multiplier z compose to mu = r sqrt(T)/z, so the noise along a flat direction depends, as
    /// for noisy gradient descent, only on the horizon q: T = ceil((1 - 0.9) q), at most
    /// `max_steps`. The rate is 1.5 mu/sqrt(T), at which z is near 1.5. (Ours; `docs/auto.md`.)
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let clip = CLIP_FRACTION * facts.lipschitz;
        let steps = ((1.0 - MOMENTUM) * plain_steps(facts, clip, mu))
            .ceil()
            .clamp(1.0, max_steps.max(1) as f64) as u64;
        // At least one expected record per step.
        let rate = (TARGET_MULTIPLIER * mu / (steps as f64).sqrt())
            .max(1.0 / facts.records as f64)
            .min(1.0);
        Self::with_parameters(
            facts,
            budget,
            steps,
            SamplingRate::new(rate)?,
            1.0 / facts.smoothness,
            MOMENTUM,
            clip,
        )
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
        facts.check()?;
        for (name, value) in [
            ("steps", steps as f64),
            ("step_size", step_size),
            ("clip", clip),
            ("1 - momentum", 1.0 - momentum),
        ] {
            if !(value.is_finite() && value > 0.0) || momentum < 0.0 {
                return Err(PlanError::BadFact { name, value });
            }
        }
        let event = |z| spend(facts, z, sampling_rate, steps).event().clone();
        let accountant =
            Accountant::tightest_for(&event(NoiseMultiplier::new(1.0)?), facts.adjacency)?;
        let noise_multiplier = calibrate::noise_multiplier(
            accountant,
            budget.epsilon,
            budget.delta,
            facts.adjacency,
            event,
        )?;
        Ok(Self {
            facts: *facts,
            budget: *budget,
            steps,
            sampling_rate,
            step_size,
            momentum,
            clip,
            noise_multiplier,
            noise_std: facts.noise_std(clip, noise_multiplier.get()) / sampling_rate.get(),
            accountant,
            output: OutputRule::Last,
        })
    }

    /// The releases of the plan.
    #[must_use]
    pub fn spend(&self) -> Spend {
        spend(
            &self.facts,
            self.noise_multiplier,
            self.sampling_rate,
            self.steps,
        )
    }

    /// Nominal number of per-record gradients that the plan costs.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        self.steps as f64 * self.facts.records as f64 * self.sampling_rate.get()
    }

    /// Runs the plan, from the origin. The estimator must clip at [`DpSgdPlan::clip`] and sample at
    /// [`DpSgdPlan::sampling_rate`]; at another rate the first release is refused.
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

fn spend(
    facts: &PublicFacts,
    noise_multiplier: NoiseMultiplier,
    rate: SamplingRate,
    steps: u64,
) -> Spend {
    let level = Level {
        batch: Batch::Poisson(rate),
        noise_multiplier,
    };
    Schedule::new(facts.records).releases(level, steps).spend()
}
