//! `rgda` with variations on samples.

use dpopt_oracle::{Batch, Level, Schedule as Releases};
use dpopt_privacy::accounting::calibrate;
use dpopt_privacy::{Accountant, Adjacency, Event, NoiseMultiplier, SamplingRate, Spend, Which};
use dpopt_solver::{Access, BoundSense, BoundedQuantity, PlanError, Terms};

use super::plan::{ON_SAMPLES, RGDA, RgdaPlan, Sample};
use super::search::{Schedule, Task, descending};
use crate::allowance::Allowance;
use crate::facts::SaddleFacts;
use crate::solver::{SaddleLimits, SaddlePlanner, SaddleSolver};

/// Descent-ascent on a tracked estimate whose variations read samples, with a bound.
pub static SAMPLED_RGDA: SaddleSolver = SaddleSolver {
    name: ON_SAMPLES,
    summary: "as rgda, with fewer gradients",
    paper: "Xu et al. 2026 (arXiv 2602.01339), Algorithm 2 with batches, repaired",
    planner: SaddlePlanner::Sampled(|facts, allowance, limits| {
        Ok(Box::new(RgdaPlan::sampled(facts, allowance, limits)?))
    }),
    ..RGDA
};

/// How many times the target of `rgda` is given for fewer gradients. A choice.
const WORSE: f64 = 1.25;
/// Smallest sample that is tried: n over 2 to this.
const HALVINGS: i32 = 12;
/// Rounds of planning with the accountant's own noise.
const REPLANS: u32 = 6;

/// What a plan of `sampled-rgda` by hand does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledRgdaSchedule {
    /// s.
    pub scale: f64,
    /// a: the run ends at a released gradient that is shorter; steps of x are a/(2 L_Phi) long.
    pub target: f64,
    /// T: most steps of x.
    pub steps: u64,
    /// K: steps of y for each.
    pub inner: u64,
    /// Steps of y before the first of x.
    pub before: u64,
    /// q: steps of x to an anchor.
    pub period: u64,
    /// b: records of a sample, expected ones of a Poisson sample.
    pub batch: u64,
    /// Noise multiplier of an anchor.
    pub anchor: NoiseMultiplier,
    /// That of a variation, before sampling.
    pub variation: NoiseMultiplier,
}

impl RgdaPlan {
    /// On samples, by hand: noise that nobody calibrated, and no bound.
    ///
    /// # Errors
    /// As [`SaddleFacts::check`].
    pub fn sampled_by_hand(
        facts: &SaddleFacts,
        allowance: &Allowance,
        schedule: SampledRgdaSchedule,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let found = Schedule {
            scale: schedule.scale,
            target: schedule.target,
            steps: schedule.steps,
            inner: schedule.inner,
            before: schedule.before,
            period: schedule.period.max(1),
            path: f64::INFINITY,
            anchor: schedule.anchor.get(),
            variation: schedule.variation.get(),
            cost: f64::INFINITY,
            proven: false,
        };
        let plan = Self::on_samples(facts, allowance, found, (schedule.batch, 1.0, None))?;
        Ok(Self {
            terms: plan.terms.stating(None),
            ..plan
        })
    }

    /// `rgda` with variations on samples of b records: the plan with the fewest gradients whose target is at most 1.25 times that of
    /// [`RgdaPlan::new`].
    ///
    /// # Formula
    /// b is n/2, n/4, and so on. Samples of fixed size under replace-one, otherwise Poisson samples at rate b/n; divided by b whatever was drawn. The
    /// error of g_x has another part, that of the samples: along a squared path P it is at most L sqrt(P) (sqrt(2 l/b) + 4 l/(3 b)), with
    /// probability 2 e^-l, and what is left of a/2 is the noise's. `docs/theory/minimax.md` has the proof.
    ///
    /// # Privacy
    /// A fixed number of Gaussian releases: anchors on all records, variations on fresh samples. Multipliers are scaled until the
    /// accountant says that they, with all that the budget pays besides, cost no more than the budget. An anchor that comes early is one
    /// of them; when there is none left the run ends. Bounds hold under the stated adjacency and no other.
    ///
    /// # Errors
    /// As [`RgdaPlan::new`], and an accounting error where no accountant reaches the budget.
    pub fn sampled(
        facts: &SaddleFacts,
        allowance: &Allowance,
        limits: &SaddleLimits,
    ) -> Result<Self, PlanError> {
        let budget = allowance.gaussian()?;
        let whole = Self::new(facts, &budget, limits)?.schedule;
        let mu = budget.mu()?.get();
        let steps = |target: f64| descending(facts, target);
        let task = |batch: f64, squared_mu| Task {
            facts,
            squared_mu,
            max_steps: limits.max_steps as f64,
            failure: Some(limits.failure),
            steps: &steps,
            early: 1.0,
            batch: Some(batch),
        };
        let most = facts.trivial_bound() / 1.5;
        let vacuous = |bound| facts.vacuous(ON_SAMPLES, bound, mu);
        let records = facts.records as f64;
        let mut chosen: Option<(f64, Schedule)> = None;
        for halvings in 1..=HALVINGS {
            let batch = (records * 0.5f64.powi(halvings)).ceil();
            let top = (WORSE * whole.target).min(most);
            let found = task(batch, mu * mu).least_at(whole.scale, top);
            // Smaller samples err more.
            let Some(found) = found else {
                break;
            };
            if chosen.is_none_or(|(b, old)| {
                gradients(&found, batch, records) < gradients(&old, b, records)
            }) {
                chosen = Some((batch, found));
            }
        }
        let batch = chosen.map_or((0.5 * records).ceil(), |(batch, _)| batch);
        let mut squared_mu = mu * mu;
        for _ in 0..REPLANS {
            let found = task(batch, squared_mu).least_at(whole.scale, most);
            let Some(found) = found else {
                return Err(vacuous(1.5 * most));
            };
            let spend = |factor: f64| spend(facts, &found, (batch as u64, factor));
            let event = |z: NoiseMultiplier| {
                spend(z.get()).map_or(Event::NonPrivate, |spend| {
                    allowance.with(spend.event().clone())
                })
            };
            let one = event(NoiseMultiplier::new(1.0)?);
            let accountant = Accountant::tightest_for(&one, facts.adjacency)?;
            let whole = allowance.whole();
            let factor = calibrate::noise_multiplier(
                accountant,
                whole.epsilon,
                whole.delta,
                facts.adjacency,
                event,
            )?
            .get();
            if factor <= 1.0 {
                // Less noise than the theorem was given.
                return Self::on_samples(
                    facts,
                    allowance,
                    found,
                    (batch as u64, factor, Some(accountant)),
                );
            }
            squared_mu /= factor * factor * 1.002;
        }
        Err(vacuous(f64::INFINITY))
    }

    fn on_samples(
        facts: &SaddleFacts,
        allowance: &Allowance,
        found: Schedule,
        (batch, factor, accountant): (u64, f64, Option<Accountant>),
    ) -> Result<Self, PlanError> {
        let spend = spend(facts, &found, (batch, factor))?;
        let schedule = Schedule {
            anchor: found.anchor * factor,
            variation: found.variation * factor,
            ..found
        };
        let (which, access) = match level(facts, batch) {
            Batch::FixedSize(size) => (Which::FixedSize(size), Access::FixedSize(size)),
            Batch::Poisson(rate) => (Which::Poisson(rate), Access::Poisson(rate)),
            _ => (Which::All, Access::FullBatch),
        };
        let joint = facts.joint(schedule.scale);
        let releases = schedule.releases();
        let terms = Terms::new(&joint, allowance.whole(), releases as u64, spend)
            .with_gradients(gradients(&schedule, batch as f64, facts.records as f64))
            .with_access(access)
            .bounding(BoundedQuantity::GradientNorm, BoundSense::WithProbability)
            .stating(Some(1.5 * schedule.target));
        Ok(Self {
            terms,
            facts: facts.clone(),
            schedule,
            sample: Some(Sample {
                batch,
                which,
                accountant,
            }),
        })
    }
}

/// Gradients of single records, where no anchor comes early.
fn gradients(of: &Schedule, batch: f64, records: f64) -> f64 {
    let (anchors, variations) = of.counts();
    anchors as f64 * records + 2.0 * variations as f64 * batch
}

fn level(facts: &SaddleFacts, batch: u64) -> Batch {
    if batch >= facts.records {
        return Batch::All;
    }
    match facts.adjacency {
        Adjacency::ReplaceOne => Batch::FixedSize(batch),
        _ => SamplingRate::new(batch as f64 / facts.records as f64)
            .map_or(Batch::All, Batch::Poisson),
    }
}

/// All that a run may release, multipliers times a factor.
fn spend(
    facts: &SaddleFacts,
    of: &Schedule,
    (batch, factor): (u64, f64),
) -> Result<Spend, PlanError> {
    let (anchors, variations) = of.counts();
    let at = |batch, z: f64| -> Result<Level, PlanError> {
        let noise_multiplier = NoiseMultiplier::new(z * factor)?;
        Ok(Level {
            batch,
            noise_multiplier,
        })
    };
    Ok(Releases::new(facts.records)
        .releases(at(Batch::All, of.anchor)?, anchors)
        .releases(at(level(facts, batch), of.variation)?, variations)
        .spend())
}
