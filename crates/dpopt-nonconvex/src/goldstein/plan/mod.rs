//! Plans of the walk in blocks, for each way to read the records.

mod periods;
mod show;
mod task;

use dpopt_oracle::{Batch, Level, Schedule};
use dpopt_privacy::accounting::calibrate;
use dpopt_privacy::{Accountant, Adjacency, NoiseMultiplier, SamplingRate};
use dpopt_solver::{
    Access, BoundSense, Budget, FreshReleases, Plan as _, PlanError, PublicFacts, Terms,
    search::geometric,
};

use super::bound::{Block, Quality};
use super::schedule::{GoldsteinSchedule, GoldsteinSettings, PeriodSettings};
use super::slopes::Search;
use task::{Asks, Task, least_that_fits, unreachable_multiplier};

pub(super) const ALL: &str = "goldstein";
pub(super) const SAMPLED: &str = "goldstein-sampled";
pub(super) const PASS: &str = "goldstein-pass";
pub(super) const VALUES: &str = "goldstein-zo";
pub(super) const RECURSIVE: &str = "goldstein-recursive";

/// The least a/r.
const LEAST_SMOOTHING: f64 = 1e-9;

/// A plan that finds a point of small Goldstein distance: private online-to-nonconvex conversion on fresh gradients.
///
/// # Formula
/// Blocks of M steps, T = K M. x <- x + Delta; the gradient is asked for at z + u, z uniform on the segment, u uniform in the
/// ball of radius a; Delta <- clip(Delta - eta g, D), D = 2 (r - a)/(M + 1), eta = D/(G1 sqrt M). Returned is the mean of the z
/// of a uniform block. With F0' = F0 + L a and N the root mean square length of the noise,
///
/// E (Goldstein distance at r) <= F0'/(D T) + (G1 + N')/sqrt M + 2 c.
///
/// | records | N | G1^2 | N'^2 |
/// | --- | --- | --- | --- |
/// | all | s L sqrt(d T)/(n mu) | L^2 + N^2 | N^2 |
/// | Poisson, B = q n | s L z sqrt(d)/B | L^2 (1 + (1 - q)/B) + N^2 | N^2 + (1 - q) L^2/B |
/// | B unread | s L sqrt(d)/(B mu) | L^2 + N^2 | N^2 + L^2/B |
///
/// From values alone ([`GoldsteinPlan::zeroth_order`]) the slopes b_j = (f(z + a y_j) - f(z - a y_j))/(2 a) along m shared
/// orthonormal directions are asked for, clipped to C as one vector, and g = (d/m) sum_j b_j y_j. On all records then
///
/// N = (d/sqrt m) s C sqrt(T)/(n mu), G1^2 = N'^2 = A + N^2, A = (d/m) L^2 min(d/(d - 1), kappa_d^2) or (d/m)^2 C^2 if less,
///
/// and c has the bias of the clip, none at C = kappa_m L, kappa_m^2 = max(m/2, 1 + (m - 1)(sqrt 2 - 1)^2). (Theorem 2.)
///
/// c is what rounding to the lattice may be off; s = 2 under replace-one and 1 otherwise. Nothing has to be smooth or convex: L is
/// all that is known of the loss, whose gradient has to be right at almost every point. (`docs/theory/goldstein.md`, Theorem 1.)
///
/// # Privacy
/// T Gaussian releases of clipped means, on all records, on fresh Poisson samples, or on unread slices. All else is public or
/// post-processing. (`docs/privacy/goldstein.md`.)
#[derive(Debug, Clone, PartialEq)]
pub struct GoldsteinPlan {
    terms: Terms,
    settings: GoldsteinSettings,
    schedule: GoldsteinSchedule,
    values: f64,
    accountant: Option<Accountant>,
}

impl GoldsteinPlan {
    /// The plan with the least bound on all records, in at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::VacuousGoldstein`] when the bound is not below what the start satisfies; [`PlanError::BadFact`].
    pub fn new(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings)?;
        let block = task.over_all(facts.records as f64, max_steps);
        let multiplier = |steps: u64| Ok(NoiseMultiplier::new((steps as f64).sqrt() / task.mu)?);
        task.plan(ALL, block, Asks::gradients(Batch::All), multiplier, || {
            let useful = |records: u64| {
                task.over_all(records as f64, max_steps)
                    .is_some_and(|block| block.bound < facts.trivial_bound())
            };
            least_that_fits(facts.records, useful)
        })
    }

    /// As [`GoldsteinPlan::new`], on a Poisson sample for each step, whose rate is chosen so that the noise is little more than on
    /// all records: 0.75 mu/sqrt T under replace-one, 1.5 mu/sqrt T otherwise. (By the central limit theorem 1.5 % and 10 % more; a
    /// guide. The multiplier is calibrated by the accountant of the relation.)
    ///
    /// # Errors
    /// As [`GoldsteinPlan::new`].
    pub fn sampled(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings)?;
        // As many steps as on all records, and their best block.
        let Some(Block { steps, .. }) = task.over_all(facts.records as f64, max_steps) else {
            let all = Asks::gradients(Batch::All);
            return task.plan(SAMPLED, None, all, unreachable_multiplier, || None);
        };
        let share = match facts.adjacency {
            Adjacency::ReplaceOne => 0.75,
            _ => 1.5,
        };
        let rate = (share * task.mu / (steps as f64).sqrt())
            .max(1.0 / facts.records as f64)
            .min(1.0);
        Self::sampled_at(facts, budget, settings, steps, SamplingRate::new(rate)?)
    }

    /// As [`GoldsteinPlan::sampled`], of about `steps` steps at this rate.
    ///
    /// # Errors
    /// As [`GoldsteinPlan::new`].
    pub fn sampled_at(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        steps: u64,
        rate: SamplingRate,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings)?;
        let batch = Batch::Poisson(rate);
        let event = |multiplier| {
            let level = Level {
                batch,
                noise_multiplier: multiplier,
            };
            let spend = Schedule::new(facts.records).releases(level, steps).spend();
            spend.event().clone()
        };
        let accountant =
            Accountant::tightest_for(&event(NoiseMultiplier::new(1.0)?), facts.adjacency)?;
        let multiplier = calibrate::noise_multiplier(
            accountant,
            budget.epsilon,
            budget.delta,
            facts.adjacency,
            event,
        )?;
        let read = facts.records as f64 * rate.get();
        let quality = Quality::new(facts, multiplier.get(), read, 1.0 - rate.get(), true);
        let block = task.aim.best(steps, |_| quality);
        let asks = Asks::gradients(batch);
        let plan = task.plan(SAMPLED, block, asks, |_| Ok(multiplier), || None)?;
        Ok(Self {
            accountant: Some(accountant),
            ..plan
        })
    }

    /// The plan with the least bound in one pass, for the population that the records were drawn from: each step reads unread
    /// records. Estimates are fresh at every step, or in periods where that is better: see [`GoldsteinPlan::recursive`].
    /// (Periods need [`GoldsteinStep::Planned`](super::GoldsteinStep::Planned).)
    ///
    /// # Errors
    /// As [`GoldsteinPlan::new`]; [`PlanError::NeedsPositions`] under add-remove.
    pub fn single_pass(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings)?;
        let best = |records: u64| {
            let (n, d) = (records as f64, facts.dim as f64);
            let s = facts.adjacency.sum_sensitivity();
            // Where noise alone counts the best batch is s sqrt(3 d)/mu; sampling asks for more.
            let around = s * (3.0 * d).sqrt() / task.mu;
            geometric(
                (around / 16.0).max(1.0),
                (n / 2.0).min((around * 64.0).max(64.0)),
                1.02,
            )
            .map(|batch| batch as u64)
            .filter_map(|batch| {
                let quality = Quality::new(facts, 1.0 / task.mu, batch as f64, 1.0, false);
                let block = task.aim.best(records / batch, |_| quality)?;
                Some((batch, block))
            })
            .min_by(|(_, a), (_, b)| a.bound.total_cmp(&b.bound))
        };
        let (batch, block) = best(facts.records).unzip();
        if facts.adjacency == Adjacency::AddRemove {
            return Err(PlanError::NeedsPositions {
                solver: PASS,
                adjacency: facts.adjacency,
                records: facts.records,
                slices: block.map_or(1, |block| block.steps),
            });
        }
        let fresh = block.map_or(f64::INFINITY, |block| block.bound);
        if let Some(plan) = task.one_pass_in_periods(fresh) {
            return plan;
        }
        let asks = Asks::gradients(Batch::Next(batch.unwrap_or(1)));
        let multiplier = |_| Ok(NoiseMultiplier::new(1.0 / task.mu)?);
        task.plan(PASS, block, asks, multiplier, || {
            least_that_fits(facts.records, |records| {
                best(records).is_some_and(|(_, block)| block.bound < facts.trivial_bound())
            })
        })
    }

    /// A plan from values alone, on all records, in at most `max_steps` steps: slopes along `directions` shared directions, or
    /// along as many as are best. Those are, of 1, 2, 4, ... and d, each with its best clip and as many steps as make the noise
    /// twice the square of the rest, the ones that ask for the fewest values among the plans within 2 % of the least bound.
    ///
    /// # Errors
    /// As [`GoldsteinPlan::new`]; [`PlanError::BadFact`] for no directions, and for more than dimensions.
    pub fn zeroth_order(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
        directions: Option<u64>,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings)?;
        let directions = match directions {
            Some(m) if m == 0 || m > facts.dim as u64 => {
                return Err(PlanError::BadFact {
                    name: "directions",
                    value: m as f64,
                });
            }
            directions => directions.map(|m| m as usize),
        };
        let best = |records: u64| {
            let search = Search {
                facts,
                aim: &task.aim,
                mu: task.mu,
                records: records as f64,
                max_steps,
            };
            search.best(directions)
        };
        let (slopes, block) = best(facts.records).unzip();
        let batch = Batch::All;
        let asks = Asks { batch, slopes };
        let multiplier = |steps: u64| Ok(NoiseMultiplier::new((steps as f64).sqrt() / task.mu)?);
        task.plan(VALUES, block, asks, multiplier, || {
            least_that_fits(facts.records, |records| {
                best(records).is_some_and(|(_, block)| block.bound < facts.trivial_bound())
            })
        })
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        schedule: GoldsteinSchedule,
    ) -> Self {
        let steps = schedule.steps;
        let schedule_of = Schedule::new(facts.records);
        let fresh = || Schedule::new(facts.records).releases(schedule.level(), steps);
        // A period that can't be is refused when it is to be walked.
        let spend = match schedule.in_periods(facts.dim) {
            Some((PeriodSettings::Independent(settings), anchors)) => {
                schedule_of.recursive(&settings, anchors, steps - anchors)
            }
            Some((PeriodSettings::Prefix(settings), periods)) => schedule_of
                .prefix(&settings, periods)
                .unwrap_or_else(|_| fresh()),
            None => fresh(),
        };
        let (access, read) = match schedule.batch {
            Batch::Poisson(rate) => (Access::Poisson(rate), rate.get() * facts.records as f64),
            Batch::FixedSize(size) => (Access::FixedSize(size), size as f64),
            Batch::Next(size) => {
                let slices = Access::SinglePass {
                    anchor: size,
                    variation: schedule
                        .read_by_changes(facts)
                        .map_or(size, |read| read as u64),
                };
                (slices, size as f64)
            }
            _ => (Access::FullBatch, facts.records as f64),
        };
        let sense = match schedule.batch {
            Batch::Next(_) => BoundSense::PopulationMean,
            _ => BoundSense::Mean,
        };
        let multiplier = schedule.noise_multiplier.get();
        let noise_std = facts.noise_std(schedule.clip, multiplier) * (facts.records as f64 / read);
        let (gradients, values) = schedule.costs(facts, read);
        let terms = Terms::new(facts, budget, steps, spend.spend())
            .with_gradients(gradients)
            .with_clip(schedule.clip)
            .with_access(access)
            .with_output(schedule.output.rule())
            .bounding_goldstein(settings.radius, sense);
        let fresh = FreshReleases::new(noise_std).moved_in_blocks(schedule.block);
        Self {
            // What directions miss is in no certificate, and periods share their noise.
            terms: match (schedule.directions, schedule.period) {
                (None, None) => terms.with_fresh(fresh),
                _ => terms,
            },
            settings: *settings,
            schedule,
            values,
            accountant: None,
        }
    }

    /// Nominal number of per-record values, beside gradients.
    #[must_use]
    pub fn values(&self) -> f64 {
        self.values
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &GoldsteinSchedule {
        &self.schedule
    }

    /// What it is to find.
    #[must_use]
    pub fn settings(&self) -> &GoldsteinSettings {
        &self.settings
    }

    /// Who calibrated the multiplier of a sampled plan.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    /// Noise standard deviation per coordinate of a released gradient, or of one made of released slopes (there the root
    /// mean square over the coordinates); with periods, of the first of each.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        let facts = self.facts();
        let share = match self.schedule.batch {
            Batch::Poisson(rate) => rate.get(),
            Batch::FixedSize(size) | Batch::Next(size) => size as f64 / facts.records as f64,
            _ => 1.0,
        };
        let lifted = self.schedule.directions.map_or(1.0, |directions| {
            (facts.dim as f64 / directions.get() as f64).sqrt()
        });
        let schedule = &self.schedule;
        lifted * facts.noise_std(schedule.clip, schedule.noise_multiplier.get()) / share
    }
}
