//! Private SpiderBoost with sampled variations ("SB-sub").
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah (arXiv 2206.00846), Algorithm 1 with batches, planned from what
//! the accountants state for sampled Gaussians. Sampling saves gradients; it never improves the bound.

use dpopt_oracle::{
    AskError, Batch, EstimatorError, Level, Oracle, Recursive, RecursiveSettings, Refresh, Schedule,
};
use dpopt_privacy::accounting::calibrate;
use dpopt_privacy::{Accountant, Adjacency, ClipNorm, NoiseMultiplier, SamplingRate, Spend};
use dpopt_solver::search::{MOST_STEPS, bisect, whole};
use dpopt_solver::{
    Access, Asked, Auto, BoundSense, BoundedQuantity, Budget, Item, Needs, OutputRule, Plan,
    PlanError, PublicFacts, ReleaseKind, RunError, Solver, Terms, Unit, Value, Walk,
};

use super::{Phases, descend};

const SOLVER: &str = "sampled-spiderboost";
/// Private SpiderBoost with sampled variations.
pub static SAMPLED_SPIDERBOOST: Solver = Solver {
    name: SOLVER,
    summary: "smooth losses, with fewer gradients than spiderboost",
    paper: "Arora et al. 2022 (arXiv 2206.00846), Algorithm 1 with batches",
    needs: Needs::NOTHING,
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::RootMeanSquare)),
    auto: Auto::ByBound,
    theory_page: Some("theory/faster-rates.md#spiderboost"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, _, budget, limits| {
        let plan = SampledSpiderBoostPlan::new(facts, budget, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};
/// Ratio of neighbouring trial values of T.
const GRID_RATIO: f64 = 1.05;
/// Rounds of planning with the accountant's own noise; each takes one calibration.
const REPLANS: u32 = 6;

/// A plan for private SpiderBoost whose variations read samples.
///
/// # Formula
/// As [`crate::SpiderBoostPlan`], anchors on all records, variations on samples of (expected) size
/// b2 = min(n, ceil(max(q, n/sqrt T))), divided by b2 whatever was drawn:
///
/// - variation noise s2 lambda_t, s2 = s z2/b2, z2 its noise multiplier, s the sensitivity of a sum;
/// - (D): (q - 1) (d s2^2 + 1/b2) <= 2, without 1/b2 where b2 = n;
/// - E||grad F(w)||^2 <= 4 L1 F0/T + d sigma1^2 for w uniform on w_0..w_{T-1}.
///
/// # Privacy
/// Under add/remove and zero-out: Poisson samples at rate b2/n, noise relative to lambda_t/b2. Under replace-one: Poisson samples, or
/// samples of fixed size without replacement, whichever has the smaller bound; noise relative to 2 lambda_t/b2, that is half of its ratio
/// to the clip radius.
/// Anchors are plain Gaussians of the same relation. All multipliers are scaled until the accountant says that
/// the whole event costs the budget; what is stated holds under that adjacency and no other.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledSpiderBoostPlan {
    terms: Terms,
    schedule: SampledSpiderBoostSchedule,
    accountant: Option<Accountant>,
}

/// What a [`SampledSpiderBoostPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledSpiderBoostSchedule {
    /// Number of steps T.
    pub steps: u64,
    /// Phase length q.
    pub phase: u64,
    /// b2, by which a variation divides.
    pub batch: u64,
    /// Whether a variation reads exactly so many records, under replace-one, and not each of them with the probability that has this mean.
    pub fixed_size: bool,
    /// Step size 1/(2 L1).
    pub step_size: f64,
    /// Per-record clip radius, L0.
    pub clip: f64,
    /// Noise multiplier of an anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier z2 of a variation, before sampling.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
}

impl SampledSpiderBoostSchedule {
    fn phases(&self) -> Phases {
        Phases {
            steps: self.steps,
            phase: self.phase,
            anchor: self.anchor_noise_multiplier,
            variation: self.variation_noise_multiplier,
        }
    }

    /// Number of anchors N1.
    #[must_use]
    pub fn anchors(&self) -> u64 {
        self.phases().anchors()
    }

    /// Number of variations N2.
    #[must_use]
    pub fn variations(&self) -> u64 {
        self.phases().variations()
    }

    /// Records and noise of an anchor and of a variation.
    fn levels(&self, facts: &PublicFacts) -> [Level; 2] {
        [
            Level {
                batch: Batch::All,
                noise_multiplier: self.anchor_noise_multiplier,
            },
            Level {
                batch: sample(facts, self.batch, self.fixed_size),
                noise_multiplier: self.variation_noise_multiplier,
            },
        ]
    }
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    steps: u64,
    phase: u64,
    batch: u64,
    /// Multipliers before they are scaled.
    anchor: f64,
    variation: f64,
    bound: f64,
}

impl Shape {
    fn anchors(&self) -> u64 {
        self.steps.div_ceil(self.phase)
    }
}

impl SampledSpiderBoostPlan {
    /// The plan with the least bound that was found, of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)); an accounting error where no
    /// accountant reaches the budget.
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        let poisson = Self::sampling(facts, budget, max_steps, false);
        if facts.adjacency != Adjacency::ReplaceOne {
            return poisson;
        }
        match (poisson, Self::sampling(facts, budget, max_steps, true)) {
            (Ok(poisson), Ok(fixed)) if fixed.predicted_bound() < poisson.predicted_bound() => {
                Ok(fixed)
            }
            (Err(_), fixed) => fixed,
            (poisson, _) => poisson,
        }
    }

    /// As [`SampledSpiderBoostPlan::new`], on samples of fixed size, under replace-one, even where Poisson samples plan better.
    ///
    /// # Errors
    /// As [`SampledSpiderBoostPlan::new`].
    pub fn on_fixed_size(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        Self::sampling(facts, budget, max_steps, true)
    }

    /// With samples of one kind.
    fn sampling(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
        fixed_size: bool,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let mut scale = 1.0;
        for _ in 0..REPLANS {
            // A closed form stands in for the accountant in the search, scaled by how far it was off.
            let shape = search(facts, mu / scale, max_steps.max(1));
            facts.useful(SOLVER, shape.bound.sqrt(), mu)?;
            let event = |z: f64| {
                let releases =
                    levels(facts, &shape, z, fixed_size).map(|levels| spend(facts, &shape, levels));
                releases.map(|spend| spend.event().clone())
            };
            let accountant = Accountant::tightest_for(&event(1.0)?, facts.adjacency)?;
            let factor = calibrate::noise_multiplier(
                accountant,
                budget.epsilon,
                budget.delta,
                facts.adjacency,
                |z| event(z.get()).unwrap_or(dpopt_privacy::Event::NonPrivate),
            )?
            .get();
            if drift(facts, &shape, shape.variation * factor) <= 2.0 {
                let sigma = facts.noise_std(facts.lipschitz, shape.anchor * factor);
                let bound =
                    (optimisation(facts, shape.steps) + facts.dim as f64 * sigma * sigma).sqrt();
                facts.useful(SOLVER, bound, mu)?;
                let levels = levels(facts, &shape, factor, fixed_size)?;
                return Ok(Self::build(
                    facts,
                    budget,
                    &shape,
                    levels,
                    (accountant, bound),
                ));
            }
            scale *= factor * 1.002;
        }
        Err(facts.vacuous(SOLVER, f64::INFINITY, mu))
    }

    fn build(
        facts: &PublicFacts,
        budget: &Budget,
        shape: &Shape,
        [anchor, variation]: [Level; 2],
        (accountant, bound): (Accountant, f64),
    ) -> Self {
        let schedule = SampledSpiderBoostSchedule {
            steps: shape.steps,
            phase: shape.phase,
            batch: shape.batch,
            fixed_size: matches!(variation.batch, Batch::FixedSize(_)),
            step_size: 0.5 / facts.smoothness,
            clip: facts.lipschitz,
            anchor_noise_multiplier: anchor.noise_multiplier,
            variation_noise_multiplier: variation.noise_multiplier,
            output: OutputRule::Uniform,
        };
        let plan = Self::by_hand(facts, budget, schedule);
        Self {
            terms: plan.terms.stating(Some(bound)),
            accountant: Some(accountant),
            ..plan
        }
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(
        facts: &PublicFacts,
        budget: &Budget,
        schedule: SampledSpiderBoostSchedule,
    ) -> Self {
        let [anchor, variation] = schedule.levels(facts);
        let (anchors, variations) = (schedule.anchors(), schedule.variations());
        let spend = Schedule::new(facts.records)
            .releases(anchor, anchors)
            .releases(variation, variations)
            .spend();
        // N1 n + 2 N2 b2.
        let gradients =
            anchors as f64 * facts.records as f64 + 2.0 * variations as f64 * schedule.batch as f64;
        let access = match variation.batch {
            Batch::Poisson(rate) => Access::Poisson(rate),
            Batch::FixedSize(size) => Access::FixedSize(size),
            _ => Access::FullBatch,
        };
        Self {
            terms: Terms::new(facts, budget, schedule.steps, spend)
                .with_gradients(gradients)
                .with_clip(schedule.clip)
                .with_access(access)
                .with_output(schedule.output),
            schedule,
            accountant: None,
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &SampledSpiderBoostSchedule {
        &self.schedule
    }

    /// The accountant that the noise was calibrated with; none for a plan by hand.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    /// Records and noise of an anchor and of a variation.
    #[must_use]
    pub fn levels(&self) -> [Level; 2] {
        self.schedule.levels(self.facts())
    }

    /// The estimate that the plan walks on.
    ///
    /// # Errors
    /// [`EstimatorError::Unit`] for a clip radius by hand that is out of range.
    pub fn estimate(&self) -> Result<Recursive, EstimatorError> {
        let [anchor, variation] = self.levels();
        let settings = RecursiveSettings {
            clip: ClipNorm::new(self.schedule.clip)?,
            anchor,
            variation,
            refresh: Refresh::by_phase(),
        };
        Recursive::new(self.facts().dim, settings)
    }
}

impl Plan for SampledSpiderBoostPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let mut items = vec![
            Item::count("steps", schedule.steps),
            Item::count("phase", schedule.phase),
            Item::count("anchors", schedule.anchors()),
            Item::count("variations", schedule.variations()),
            Item::count("batch", schedule.batch),
            Item::plain("fixed_size", Value::Flag(schedule.fixed_size)),
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio(
                "anchor_noise_multiplier",
                schedule.anchor_noise_multiplier.get(),
            ),
            Item::ratio(
                "variation_noise_multiplier",
                schedule.variation_noise_multiplier.get(),
            ),
        ];
        items.extend(self.accountant.map(|name| Item::word("accountant", name)));
        items.push(Item::word("output", schedule.output));
        items
    }

    fn walk(&self, _: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(Sampled {
            schedule: &self.schedule,
            estimate: self.estimate()?,
        }))
    }

    /// In the central limit of sampled Gaussians, p^2 (e^(1/z^2) - 1) for a variation.
    fn share_spent(&self, step: u64) -> f64 {
        let schedule = &self.schedule;
        let rate = (schedule.batch as f64 / self.facts().records as f64).min(1.0);
        let squared = schedule.variation_noise_multiplier.get().powi(-2);
        let variation = if rate < 1.0 {
            rate * rate * squared.exp_m1()
        } else {
            squared
        };
        schedule.phases().share_spent(step, variation)
    }
}

struct Sampled<'a> {
    schedule: &'a SampledSpiderBoostSchedule,
    estimate: Recursive,
}

impl Walk for Sampled<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let kind = if step.is_multiple_of(self.schedule.phase) {
            self.estimate.begin_phase();
            ReleaseKind::Anchor
        } else {
            ReleaseKind::Variation
        };
        let estimate = self.estimate.estimate(oracle, point)?.estimate;
        Ok(Asked::estimate(kind, estimate))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        descend(point, self.schedule.step_size, gradient, next);
    }
}

/// What a variation reads under the adjacency of the facts: all records where so many make no sample.
fn sample(facts: &PublicFacts, batch: u64, fixed_size: bool) -> Batch {
    if batch >= facts.records {
        return Batch::All;
    }
    let size = batch.max(1);
    match facts.adjacency {
        Adjacency::ReplaceOne if fixed_size => Batch::FixedSize(size),
        _ => {
            SamplingRate::new(size as f64 / facts.records as f64).map_or(Batch::All, Batch::Poisson)
        }
    }
}

fn levels(
    facts: &PublicFacts,
    shape: &Shape,
    factor: f64,
    fixed_size: bool,
) -> Result<[Level; 2], PlanError> {
    Ok([
        Level {
            batch: Batch::All,
            noise_multiplier: NoiseMultiplier::new(shape.anchor * factor)?,
        },
        Level {
            batch: sample(facts, shape.batch, fixed_size),
            noise_multiplier: NoiseMultiplier::new(shape.variation * factor)?,
        },
    ])
}

fn spend(facts: &PublicFacts, shape: &Shape, [anchor, variation]: [Level; 2]) -> Spend {
    Schedule::new(facts.records)
        .releases(anchor, shape.anchors())
        .releases(variation, shape.steps - shape.anchors())
        .spend()
}

fn optimisation(facts: &PublicFacts, steps: u64) -> f64 {
    4.0 * facts.smoothness * facts.initial_gap / steps as f64
}

/// The left side of (D).
fn drift(facts: &PublicFacts, shape: &Shape, variation: f64) -> f64 {
    let batch = shape.batch as f64;
    let scale = facts.adjacency.sum_sensitivity() * variation / batch;
    let sampling = if shape.batch < facts.records {
        1.0 / batch
    } else {
        0.0
    };
    (shape.phase - 1) as f64 * (facts.dim as f64 * scale * scale + sampling)
}

fn search(facts: &PublicFacts, mu: f64, max_steps: u64) -> Shape {
    let mut best: Option<Shape> = None;
    for steps in whole(1.0, MOST_STEPS.min(max_steps as f64), GRID_RATIO) {
        for share in (1..20).map(|k| 0.05 * f64::from(k)) {
            let shape = longest_phase(facts, mu, steps, share);
            if best.is_none_or(|best| shape.bound < best.bound) {
                best = Some(shape);
            }
        }
    }
    best.unwrap_or_else(|| shape_of(facts, mu, 1, 0.5, 1))
}

/// The longest phase that satisfies (D), by bisection on its length.
fn longest_phase(facts: &PublicFacts, mu: f64, steps: u64, share: f64) -> Shape {
    let at = |phase| shape_of(facts, mu, steps, share, phase);
    let fits = |phase| {
        let shape = at(phase);
        drift(facts, &shape, shape.variation) <= 2.0
    };
    at(bisect(1, steps + 1, fits))
}

fn shape_of(facts: &PublicFacts, mu: f64, steps: u64, share: f64, phase: u64) -> Shape {
    let records = facts.records as f64;
    let anchors = steps.div_ceil(phase) as f64;
    let variations = steps as f64 - anchors;
    let batch = (phase as f64)
        .max(records / (steps as f64).sqrt())
        .ceil()
        .min(records);
    let rest = (1.0 - share) * mu * mu;
    let anchor = if variations == 0.0 {
        anchors.sqrt() / mu
    } else {
        (anchors / share).sqrt() / mu
    };
    let variation = if variations == 0.0 {
        anchor
    } else if batch >= records {
        (variations / rest).sqrt()
    } else {
        // mu^2 = p^2 N2 (exp(1/z^2) - 1), the central limit of sampled Gaussians (Bu, Dong, Long, Su 2020).
        let rate = batch / records;
        (rest / (rate * rate * variations)).ln_1p().sqrt().recip()
    };
    let sigma = facts.noise_std(facts.lipschitz, anchor);
    Shape {
        steps,
        phase,
        batch: batch as u64,
        anchor,
        variation,
        bound: optimisation(facts, steps) + facts.dim as f64 * sigma * sigma,
    }
}
