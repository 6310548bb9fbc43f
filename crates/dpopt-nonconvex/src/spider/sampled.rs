//! Private SpiderBoost with sampled variations ("SB-sub").
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah (arXiv 2206.00846), Algorithm 1 with batches, planned from what
//! the accountants state for sampled Gaussians. Sampling saves gradients; it never improves the bound.

use dpopt_oracle::{
    Access, Batch, Estimate, Estimator, EstimatorError, Level, Means, Recursive, RecursiveSettings,
    Refresh, Schedule, Tracker,
};
use dpopt_privacy::accounting::calibrate;
use dpopt_privacy::{
    Accountant, Adjacency, ClipNorm, NoiseMultiplier, Refused, SamplingRate, Spend,
};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::phases::Phases;
use crate::plan::Plan;
use crate::run::{Course, Observer, Outcome, OutputRule, ReleaseKind, RunError, Stop, Walk, run};

/// Ratio of neighbouring trial values of T.
const GRID_RATIO: f64 = 1.05;
/// Rounds of planning with the accountant's own noise; each takes one calibration.
const REPLANS: u32 = 6;
const SOLVER: &str = "sampled-spiderboost";

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
/// Under add/remove and zero-out: Poisson samples at rate b2/n, noise relative to lambda_t/b2. Under replace-one: samples of
/// fixed size without replacement, noise relative to 2 lambda_t/b2, that is half of its ratio to the clip radius.
/// Anchors are plain Gaussians of the same relation. All multipliers are scaled until the accountant says that
/// the whole event costs the budget; what is stated holds under that adjacency and no other.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SampledSpiderBoostPlan {
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
    /// b2, by which a variation divides.
    pub batch: u64,
    /// Step size 1/(2 L1).
    pub step_size: f64,
    /// Per-record clip radius, L0.
    pub clip: f64,
    /// Noise multiplier of an anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier z2 of a variation, before sampling.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// The accountant that the noise was calibrated with.
    pub accountant: Accountant,
    /// Bound on the root mean square of the gradient norm at the output.
    pub predicted_bound: Option<f64>,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
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
        facts.check()?;
        let mu = budget.mu()?.get();
        let vacuous = |bound| PlanError::Vacuous {
            solver: SOLVER,
            bound,
            trivial: facts.trivial_bound(),
            records: facts.records,
            dim: facts.dim,
            mu,
        };
        let mut scale = 1.0;
        for _ in 0..REPLANS {
            // A closed form stands in for the accountant in the search, scaled by how far it was off.
            let shape = search(facts, mu / scale, max_steps.max(1));
            if !(shape.bound.sqrt() < facts.trivial_bound()) {
                return Err(vacuous(shape.bound.sqrt()));
            }
            let event = |z: f64| {
                let releases = levels(facts, &shape, z).map(|levels| spend(facts, &shape, levels));
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
                if !(bound < facts.trivial_bound()) {
                    return Err(vacuous(bound));
                }
                return Self::build(facts, budget, &shape, factor, accountant, bound);
            }
            scale *= factor * 1.002;
        }
        Err(vacuous(f64::INFINITY))
    }

    fn build(
        facts: &PublicFacts,
        budget: &Budget,
        shape: &Shape,
        factor: f64,
        accountant: Accountant,
        bound: f64,
    ) -> Result<Self, PlanError> {
        let [anchor, variation] = levels(facts, shape, factor)?;
        Ok(Self {
            facts: *facts,
            budget: *budget,
            steps: shape.steps,
            phase: shape.phase,
            anchors: shape.anchors(),
            variations: shape.steps - shape.anchors(),
            batch: shape.batch,
            step_size: 0.5 / facts.smoothness,
            clip: facts.lipschitz,
            anchor_noise_multiplier: anchor.noise_multiplier,
            variation_noise_multiplier: variation.noise_multiplier,
            accountant,
            predicted_bound: Some(bound),
            output: OutputRule::Uniform,
        })
    }

    /// Records and noise of an anchor and of a variation.
    #[must_use]
    pub fn levels(&self) -> [Level; 2] {
        [
            Level {
                batch: Batch::Everything,
                noise_multiplier: self.anchor_noise_multiplier,
            },
            Level {
                batch: sample(&self.facts, self.batch),
                noise_multiplier: self.variation_noise_multiplier,
            },
        ]
    }

    /// The estimator of the plan over `means`.
    ///
    /// # Errors
    /// [`EstimatorError::Unit`] when the plan's public clip radius was changed to one that is none.
    pub fn estimator<M: Means>(&self, means: M) -> Result<Recursive<M>, EstimatorError> {
        let [anchor, variation] = self.levels();
        let settings = RecursiveSettings {
            clip: ClipNorm::new(self.clip)?,
            anchor,
            variation,
            refresh: Refresh::by_phase(),
        };
        Recursive::new(means, settings)
    }

    /// The releases of the plan.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let [anchor, variation] = self.levels();
        Schedule::new(self.facts.records)
            .releases(anchor, self.anchors)
            .releases(variation, self.variations)
            .spend()
    }

    /// Nominal per-record gradients: N1 n + 2 N2 b2.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        self.anchors as f64 * self.facts.records as f64
            + 2.0 * self.variations as f64 * self.batch as f64
    }

    /// Runs the plan, from the origin, on its [`SampledSpiderBoostPlan::estimator`].
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    pub fn run(
        &self,
        tracker: &mut dyn Tracker,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_from(&vec![0.0; self.facts.dim], tracker, observer)
    }

    /// As [`Self::run`], from a public `start` and not from the origin. The bound then holds if the caller's bound on the gap
    /// ([`PublicFacts::initial_gap`]) is one at `start`.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    pub fn run_from(
        &self,
        start: &[f64],
        tracker: &mut dyn Tracker,
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
        run(
            &course,
            &mut Sampled { plan: self },
            &mut Phases(tracker),
            observer,
        )
    }
}

impl Plan for SampledSpiderBoostPlan {
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
        match sample(&self.facts, self.batch) {
            Batch::Poisson(rate) => Access::Poisson(rate),
            Batch::FixedSize(size) => Access::FixedSize(size),
            _ => Access::FullBatch,
        }
    }

    fn predicted_bound(&self) -> Option<f64> {
        self.predicted_bound
    }

    /// All steps, and a point drawn among all of them.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Completed && self.output == OutputRule::Uniform
    }

    /// In the central limit of sampled Gaussians, p^2 (e^(1/z^2) - 1) for a variation.
    fn share_spent(&self, step: u64) -> f64 {
        let rate = (self.batch as f64 / self.facts.records as f64).min(1.0);
        let squared = self.variation_noise_multiplier.get().powi(-2);
        let variation = if rate < 1.0 {
            rate * rate * squared.exp_m1()
        } else {
            squared
        };
        let cost = |anchors: u64, variations: u64| {
            anchors as f64 * self.anchor_noise_multiplier.get().powi(-2)
                + variations as f64 * variation
        };
        let anchors = step / self.phase + 1;
        cost(anchors, step + 1 - anchors) / cost(self.anchors, self.variations)
    }
}

struct Sampled<'a> {
    plan: &'a SampledSpiderBoostPlan,
}

impl Walk for Sampled<'_> {
    fn ask<'e>(
        &self,
        step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        Ok(if step.is_multiple_of(self.plan.phase) {
            let z = self.plan.anchor_noise_multiplier;
            (ReleaseKind::Anchor, estimator.refresh(point, z)?)
        } else {
            let z = self.plan.variation_noise_multiplier;
            (ReleaseKind::Variation, estimator.advance(point, z)?)
        })
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
            *next = w - self.plan.step_size * g;
        }
    }
}

/// What a variation reads under the adjacency of the facts: all records where so many make no sample.
fn sample(facts: &PublicFacts, batch: u64) -> Batch {
    if batch >= facts.records {
        return Batch::Everything;
    }
    let size = batch.max(1);
    match facts.adjacency {
        Adjacency::ReplaceOne => Batch::FixedSize(size),
        _ => SamplingRate::new(size as f64 / facts.records as f64)
            .map_or(Batch::Everything, Batch::Poisson),
    }
}

fn levels(facts: &PublicFacts, shape: &Shape, factor: f64) -> Result<[Level; 2], PlanError> {
    Ok([
        Level {
            batch: Batch::Everything,
            noise_multiplier: NoiseMultiplier::new(shape.anchor * factor)?,
        },
        Level {
            batch: sample(facts, shape.batch),
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
    let mut trial = 1.0f64;
    let mut previous = 0;
    loop {
        let steps = trial as u64;
        trial *= GRID_RATIO;
        if steps != previous {
            for share in (1..20).map(|k| 0.05 * f64::from(k)) {
                let shape = longest_phase(facts, mu, steps, share);
                if best.is_none_or(|best| shape.bound < best.bound) {
                    best = Some(shape);
                }
            }
        }
        previous = steps;
        if trial > max_steps as f64 || trial > 1e15 {
            break;
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
    let (mut low, mut high) = (1, steps + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    at(low)
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
