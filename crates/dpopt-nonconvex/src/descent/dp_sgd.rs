//! DP-SGD: noisy clipped gradients on Poisson samples, with momentum.

use dpopt_oracle::{Access, Batch, Estimate, Estimator, Level, Schedule};
use dpopt_privacy::accounting::calibrate;
use dpopt_privacy::{Accountant, ClipNorm, NoiseMultiplier, Refused, SamplingRate, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::horizon::{CLIP_FRACTION, plain_steps};
use crate::noisy_gd::HeavyBall;
use crate::plan::Plan;
use crate::run::{
    Course, Observer, Outcome, OutputRule, ReleaseKind, RunError, Walk, check_start, run,
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
    /// Per-record clip radius C, that of the first step where it decays.
    pub clip: f64,
    /// The last step's clip radius over the first one's; 1 where it stays. It goes down geometrically, and the noise
    /// with it: the multiplier stays, so the privacy does.
    pub clip_decay: f64,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
    /// Noise standard deviation per coordinate of the mean gradient, at the first step.
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

    /// As [`DpSgdPlan::new`], with a clip radius that goes down from L0 to a fifth of it: gradients shrink as a run goes on,
    /// and so may the noise. The numbers are the usual kind of choice and not measured.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn decaying(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let plan = Self::new(facts, budget, max_steps)?;
        let clip = facts.lipschitz;
        Self {
            clip,
            noise_std: plan.noise_std * clip / plan.clip,
            ..plan
        }
        .with_clip_decay(CLIP_DECAY)
    }

    /// The same plan with a clip radius that goes down geometrically to `decay` times the first. Sensitivity and noise go down
    /// together, at one multiplier: the same events.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for a decay that is not positive and finite.
    pub fn with_clip_decay(self, decay: f64) -> Result<Self, PlanError> {
        if !(decay.is_finite() && decay > 0.0) {
            return Err(PlanError::BadFact {
                name: "clip_decay",
                value: decay,
            });
        }
        Ok(Self {
            clip_decay: decay,
            ..self
        })
    }

    /// The clip radius of a step.
    #[must_use]
    pub fn clip_at(&self, step: u64) -> f64 {
        let last = self.steps.saturating_sub(1).max(1) as f64;
        self.clip * self.clip_decay.powf(step as f64 / last)
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
            clip_decay: 1.0,
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
        let mut walk = HeavyBall::new(
            self.facts.dim,
            self.step_size,
            self.momentum,
            self.noise_multiplier,
        );
        self.drive(&mut walk, start, estimator, observer)
    }

    /// Walks on the releases of this plan, clip radii included.
    pub(crate) fn drive(
        &self,
        walk: &mut dyn Walk,
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
            // No proof is known of this walk's point.
            bound: &|_| None,
        };
        if self.clip_decay == 1.0 {
            return run(&course, walk, estimator, observer);
        }
        let clips: Vec<ClipNorm> = (0..self.steps)
            .map(|step| ClipNorm::new(self.clip_at(step)))
            .collect::<Result<_, _>>()
            .map_err(RunError::Clip)?;
        check_start(start, self.facts.dim, estimator.dim())?;
        if !clips.first().is_none_or(|clip| estimator.set_clip(*clip)) {
            return Err(RunError::FixedClip);
        }
        let outcome = run(
            &course,
            &mut Decaying {
                walk,
                clips: &clips,
            },
            estimator,
            observer,
        );
        // Where a plan asks the estimator to be set: another run on it does not begin at the last radius.
        if let Some(clip) = clips.first() {
            let _ = estimator.set_clip(*clip);
        }
        outcome
    }
}

impl Plan for DpSgdPlan {
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

    fn access(&self) -> Access {
        Access::Poisson(self.sampling_rate)
    }
}

/// A walk before each of whose steps the clip radius is set.
struct Decaying<'a> {
    walk: &'a mut dyn Walk,
    clips: &'a [ClipNorm],
}

impl Walk for Decaying<'_> {
    fn ask<'e>(
        &self,
        step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        if let Some(clip) = self.clips.get(step as usize) {
            // It could be set before the run, and so it can now.
            let _ = estimator.set_clip(*clip);
        }
        self.walk.ask(step, point, estimator)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        self.walk.step(point, gradient, next);
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
