//! Plans whose estimates are fresh at every step, and the choice between them and periods in one pass.

use dpopt_oracle::{Batch, Level, Schedule};
use dpopt_privacy::accounting::calibrate;
use dpopt_privacy::{Accountant, Adjacency, NoiseMultiplier, SamplingRate};
use dpopt_solver::{Budget, PlanError, PublicFacts, search::geometric};

use super::super::bound::{Block, Quality};
use super::super::schedule::GoldsteinSettings;
use super::super::slopes::Search;
use super::task::{Asks, Task, least_that_fits, unreachable_multiplier};
use super::{ALL, GoldsteinPlan, PASS, SAMPLED, VALUES};

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
    /// (Periods need [`GoldsteinStep::Planned`](crate::GoldsteinStep::Planned).)
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
}
