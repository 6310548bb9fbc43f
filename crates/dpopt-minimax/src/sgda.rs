//! `gda` on samples: the private version of stochastic gradient descent ascent.
//!
//! Yang, Hu, Lei, Varshney, Lyu, Ying, "Differentially Private SGDA for Minimax Problems" (arXiv 2201.09046).

use dpopt_oracle::{Batch, Blocks, Level, Running, Schedule};
use dpopt_privacy::{Accountant, ClipNorm, NoiseMultiplier, SamplingRate, Spend, Which};
use dpopt_solver::{
    Access, FreshReleases, Item, Plan, PlanError, RunError, SaddleShape, Terms, Unit, Walk,
};

use crate::allowance::Allowance;
use crate::facts::SaddleFacts;
use crate::gda::{GdaSchedule, Pair, Rule};
use crate::place::check_inside;
use crate::solver::{SaddleLimits, SaddlePlanner, SaddleSolver};

const NAME: &str = "sgda";
/// Gradient descent ascent on samples.
pub static SGDA: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "saddle losses of real tables, on samples",
    paper: "Yang et al. 2022 (arXiv 2201.09046), with momentum and steps of gda",
    bound: None,
    positions: false,
    theory_page: None,
    privacy_page: "privacy/minimax.md",
    planner: SaddlePlanner::Sampled(|facts, allowance, limits| {
        Ok(Box::new(SgdaPlan::new(facts, allowance, limits)?))
    }),
};

/// Noise multiplier that the sampling rate aims at: that of `dp-sgd`.
const TARGET_MULTIPLIER: f64 = 1.5;

/// A plan for gradient descent ascent on Poisson samples. It states no bound.
///
/// # Formula
/// The walk, C, s and T are those of [`GdaPlan`](crate::GdaPlan) for what is left of mu^2. Each release reads a fresh Poisson sample at the rate r = 1.5
/// mu/sqrt(T) (at least 1/n, at most 1), the multiplier z is calibrated, and step sizes are those of a run with mu = r sqrt(T)/z: in the
/// limit of many steps that is what T releases at rate r compose to.
///
/// # Privacy
/// T Gaussian releases, each on a Poisson sample; z is the least for which they and what the budget pays besides cost no more than the
/// budget, by the accountant that is the tightest for all of them together. T, r and z do not depend on the loss but through T:
/// [`SaddleLimits::exact_steps`] fixes all three.
#[derive(Debug, Clone, PartialEq)]
pub struct SgdaPlan {
    terms: Terms,
    schedule: GdaSchedule,
    rate: SamplingRate,
    accountant: Option<Accountant>,
    facts: SaddleFacts,
}

impl SgdaPlan {
    /// By the rule.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] and the like, or an accounting error.
    pub fn new(
        facts: &SaddleFacts,
        allowance: &Allowance,
        limits: &SaddleLimits,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = allowance.gaussian()?.mu()?.get();
        let rule = Rule::new(facts, limits)?;
        let steps = rule.steps(mu);
        let least = 1.0 / facts.records as f64;
        let rate = (TARGET_MULTIPLIER * mu / steps.sqrt()).max(least).min(1.0);
        let rate = SamplingRate::new(rate)?;
        let (accountant, z) = allowance.calibrated(facts.adjacency, |z| {
            spend(facts, (z, rate, steps as u64)).event().clone()
        })?;
        let schedule = rule.schedule(steps, rate.get() * steps.sqrt() / z.get(), z);
        Ok(Self {
            accountant: Some(accountant),
            ..Self::by_hand(facts, allowance, schedule, rate)
        })
    }

    /// A plan with another schedule, whose noise nobody calibrated.
    #[must_use]
    pub fn by_hand(
        facts: &SaddleFacts,
        allowance: &Allowance,
        schedule: GdaSchedule,
        rate: SamplingRate,
    ) -> Self {
        let (z, steps) = (schedule.noise_multiplier, schedule.steps);
        let joint = facts.joint(schedule.scale);
        let noise_std = joint.noise_std(schedule.clip, z.get()) / rate.get();
        let spend = spend(facts, (z, rate, steps));
        Self {
            terms: Terms::new(&joint, allowance.whole(), steps, spend)
                .with_gradients(steps as f64 * facts.records as f64 * rate.get())
                .with_clip(schedule.clip)
                .with_access(Access::Poisson(rate))
                .with_fresh(FreshReleases::new(noise_std).of_whole_field(facts.whole)),
            schedule,
            rate,
            accountant: None,
            facts: facts.clone(),
        }
    }

    /// What it does, but for the samples.
    #[must_use]
    pub fn schedule(&self) -> &GdaSchedule {
        &self.schedule
    }

    /// Probability with which a record enters a release.
    #[must_use]
    pub fn sampling_rate(&self) -> SamplingRate {
        self.rate
    }

    /// Who calibrated the multiplier; none for a plan by hand.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    fn split(&self) -> Blocks {
        self.facts.blocks(self.schedule.scale)
    }
}

impl Plan for SgdaPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn saddle_shape(&self) -> Option<SaddleShape> {
        self.facts.shape(self.schedule.scale)
    }

    fn items(&self) -> Vec<Item<'_>> {
        let of = &self.schedule;
        let joint = self.facts.joint(of.scale);
        let noise = joint.noise_std(of.clip, of.noise_multiplier.get()) / self.rate.get();
        let mut items = vec![
            Item::count("steps", of.steps),
            Item::ratio("sampling_rate", self.rate.get()),
            Item::number("step_size", of.step_size, Unit::STEP_SIZE),
            Item::ratio("momentum", of.momentum),
            Item::ratio("dual_step_size", of.dual_step_size),
            Item::ratio("dual_scale", of.scale),
            Item::number("clip", of.clip, Unit::GRADIENT),
            Item::ratio("noise_multiplier", of.noise_multiplier.get()),
            Item::number("noise_std", noise, Unit::GRADIENT),
            Item::ratio("dual_noise_std", noise / of.scale),
        ];
        items.extend(self.accountant.map(|name| Item::word("accountant", name)));
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let clip = ClipNorm::new(self.schedule.clip).map_err(RunError::Clip)?;
        check_inside(self.split(), &self.facts.domain, start)?;
        Ok(Box::new(Pair {
            running: Running::new(start.len(), clip),
            which: Which::Poisson(self.rate),
            schedule: self.schedule,
            blocks: self.split(),
            domain: &self.facts.domain,
            velocity: vec![0.0; self.facts.x_dim],
        }))
    }
}

fn spend(
    facts: &SaddleFacts,
    (noise_multiplier, rate, steps): (NoiseMultiplier, SamplingRate, u64),
) -> Spend {
    let level = Level {
        batch: Batch::Poisson(rate),
        noise_multiplier,
    };
    Schedule::new(facts.records).releases(level, steps).spend()
}
