//! Planners of the walk in blocks, for each way to read the records.

use std::num::NonZeroUsize;

use dpopt_oracle::{Batch, Level, Schedule};
use dpopt_privacy::{Accountant, Adjacency, NoiseMultiplier, SamplingRate};
use dpopt_solver::{
    Budget, PlanError, PublicFacts,
    search::{bisect, geometric},
};

use super::bound::{Aim, Block, Quality, Reading};
use super::plan::{GoldsteinPlan, name_of};
use super::schedule::{GoldsteinAsks, GoldsteinSchedule, GoldsteinSettings};
use super::slopes::{Known, Reads, Search, Slopes, steepest_mean};

/// The least a/r.
const LEAST_SMOOTHING: f64 = 1e-9;

/// Steps, and what they ask for of how many records.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Records of a step, where that is planned.
    pub(super) batch: u64,
    /// None: gradients.
    slopes: Option<Slopes>,
    pub(super) block: Block,
}

/// What a planner needs over and over.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    /// Of a loss without a Lipschitz constant, those of the smoothed loss.
    pub(super) facts: PublicFacts,
    pub(super) budget: &'a Budget,
    pub(super) settings: &'a GoldsteinSettings,
    known: Known,
    pub(super) mu: f64,
    aim: Aim,
}

impl<'a> Task<'a> {
    /// `batch` tells the name of the solver.
    pub(super) fn new(
        facts: &PublicFacts,
        budget: &'a Budget,
        settings: &'a GoldsteinSettings,
        batch: Batch,
    ) -> Result<Self, PlanError> {
        let (facts, known) = match settings.bounded {
            None => (*facts, Known::Lipschitz),
            Some(bounded) => {
                bounded.check()?;
                if settings.asks == GoldsteinAsks::Gradients {
                    return Err(PlanError::ValuesAlone {
                        solver: name_of(batch, false),
                        range: bounded.range,
                    });
                }
                let slope = bounded.range / (2.0 * bounded.smoothing);
                // A mean of L-Lipschitz functions is L-Lipschitz too.
                let steepest = steepest_mean(facts.dim) * slope;
                let known = facts.lipschitz < steepest;
                let smoothed = PublicFacts {
                    lipschitz: if known { facts.lipschitz } else { steepest },
                    smoothness: f64::INFINITY,
                    initial_gap: bounded.range,
                    ..*facts
                };
                (smoothed, Known::Each(slope))
            }
        };
        facts.check_lipschitz()?;
        PlanError::positive("goldstein_radius", settings.radius)?;
        // A smaller one is lost in the rounding of z + u. The walk has the whole radius where the statement is about F_a.
        let (name, share, most) = match settings.bounded {
            Some(bounded) => ("smoothing", bounded.smoothing / settings.radius, f64::MAX),
            None => ("smoothing_share", settings.smoothing_share, 1.0),
        };
        if !(LEAST_SMOOTHING..most).contains(&share) {
            return Err(PlanError::BadFact {
                name,
                value: settings.bounded.map_or(share, |bounded| bounded.smoothing),
            });
        }
        if let GoldsteinAsks::Values {
            directions: Some(directions),
        } = settings.asks
            && directions.get() > facts.dim
        {
            return Err(PlanError::Directions {
                directions: directions.get() as u64,
                dim: facts.dim,
            });
        }
        let smoothing = settings.smoothing();
        let (gap, spread) = match settings.bounded {
            // The gap of F_a, whose gradients the blocks are made of.
            Some(bounded) => (bounded.range, settings.radius),
            None => (
                facts.initial_gap + facts.lipschitz * smoothing,
                settings.radius - smoothing,
            ),
        };
        Ok(Self {
            facts,
            budget,
            settings,
            known,
            mu: budget.mu()?.get(),
            aim: Aim { gap, spread },
        })
    }

    /// The same for so many records.
    pub(super) fn of(&self, records: u64) -> Self {
        Self {
            facts: PublicFacts {
                records,
                ..self.facts
            },
            ..*self
        }
    }

    /// The best slopes, read so, along `directions` where the settings leave their number open.
    fn slopes(&self, asked: Option<NonZeroUsize>, reads: Reads, max_steps: u64) -> Option<Found> {
        let search = Search {
            facts: &self.facts,
            known: self.known,
            aim: &self.aim,
            reads,
            max_steps,
        };
        search
            .best(asked.map(NonZeroUsize::get))
            .map(|found| Found {
                batch: found.batch,
                slopes: Some(found.slopes),
                block: found.block,
            })
    }

    /// On all records.
    fn over_all(&self, max_steps: u64) -> Option<Found> {
        let (records, mu) = (self.facts.records as f64, self.mu);
        if let GoldsteinAsks::Values { directions } = self.settings.asks {
            return self.slopes(directions, Reads::All { mu }, max_steps);
        }
        let (d, s) = (
            self.facts.dim as f64,
            self.facts.adjacency.sum_sensitivity(),
        );
        // There the noise is as long as L: more steps gain at most 13 %.
        let most = (records * mu / s).powi(2) / d;
        let block = self.aim.best((most as u64).min(max_steps), |steps| {
            Quality::of_gradients(&self.facts, &Reading::all(records, mu, steps))
        })?;
        Some(Found {
            batch: self.facts.records,
            slopes: None,
            block,
        })
    }

    /// The rate at which a sample's noise is little more than that of all records, for the steps and the directions that are
    /// best there.
    fn rate(&self, all: &Found) -> Result<SamplingRate, PlanError> {
        let share = match self.facts.adjacency {
            Adjacency::ReplaceOne => 0.75,
            _ => 1.5,
        };
        let rate = share * self.mu / (all.block.steps as f64).sqrt();
        let least = 1.0 / self.facts.records as f64;
        Ok(SamplingRate::new(rate.max(least).min(1.0))?)
    }

    /// On samples of this rate, in at most so many steps that are paid for; along `directions`, if slopes are asked for.
    fn over_samples(
        &self,
        steps: u64,
        rate: SamplingRate,
        directions: Option<NonZeroUsize>,
    ) -> Result<(Option<Found>, Accountant, NoiseMultiplier), PlanError> {
        let event = |noise_multiplier| {
            let level = Level {
                batch: Batch::Poisson(rate),
                noise_multiplier,
            };
            let schedule = Schedule::new(self.facts.records).releases(level, steps);
            schedule.spend().event().clone()
        };
        let (accountant, multiplier) = self.budget.calibrated(self.facts.adjacency, event)?;
        let reading = Reading::sample(self.facts.records as f64, rate.get(), multiplier.get());
        let found = match self.settings.asks {
            GoldsteinAsks::Gradients => {
                let quality = Quality::of_gradients(&self.facts, &reading);
                let block = self.aim.best(steps, |_| quality);
                block.map(|block| Found {
                    batch: reading.read as u64,
                    slopes: None,
                    block,
                })
            }
            GoldsteinAsks::Values { .. } => self.slopes(directions, Reads::Sample(reading), steps),
        };
        Ok((found, accountant, multiplier))
    }

    /// In one pass over unread records.
    pub(super) fn over_slices(&self) -> Option<Found> {
        if let GoldsteinAsks::Values { directions } = self.settings.asks {
            let reads = Reads::Pass { mu: self.mu };
            return self.slopes(directions, reads, u64::MAX);
        }
        let (n, d) = (self.facts.records as f64, self.facts.dim as f64);
        let s = self.facts.adjacency.sum_sensitivity();
        // Where noise alone counts the best batch is s sqrt(3 d)/mu; sampling asks for more.
        let around = s * (3.0 * d).sqrt() / self.mu;
        geometric(
            (around / 16.0).max(1.0),
            (n / 2.0).min((around * 64.0).max(64.0)),
            1.02,
        )
        .map(|batch| batch as u64)
        .filter_map(|batch| {
            let reading = Reading::unread(batch as f64, self.mu);
            let quality = Quality::of_gradients(&self.facts, &reading);
            let block = self.aim.best(self.facts.records / batch, |_| quality)?;
            Some(Found {
                batch,
                slopes: None,
                block,
            })
        })
        .min_by(|a, b| a.block.bound.total_cmp(&b.block.bound))
    }

    pub(super) fn says_something(&self, found: Option<Found>) -> bool {
        found.is_some_and(|found| found.block.bound < self.facts.trivial_bound())
    }

    /// The plan of `found`, or a refusal if it says nothing.
    pub(super) fn plan(
        &self,
        batch: Batch,
        found: Option<Found>,
        multiplier: impl FnOnce(u64) -> Result<NoiseMultiplier, PlanError>,
        needed: impl FnOnce() -> Option<u64>,
    ) -> Result<GoldsteinPlan, PlanError> {
        let bound = found.map_or(f64::INFINITY, |found| found.block.bound);
        let trivial = self.facts.trivial_bound();
        let Some(Found { slopes, block, .. }) = found.filter(|_| bound < trivial) else {
            let solver = name_of(batch, self.settings.asks != GoldsteinAsks::Gradients);
            return Err(self.vacuous(solver, bound, needed()));
        };
        let cap = self.aim.cap(block.len);
        let schedule = GoldsteinSchedule {
            steps: block.steps,
            block: block.len,
            cap,
            step_size: cap / (block.quality.size * (block.len as f64).sqrt()),
            smoothing: self.settings.smoothing(),
            batch,
            directions: slopes.and_then(|slopes| NonZeroUsize::new(slopes.directions)),
            period: None,
            clip: slopes.map_or(self.facts.lipschitz, |slopes| slopes.clip),
            noise_multiplier: multiplier(block.steps)?,
        };
        let plan = GoldsteinPlan::by_hand(&self.facts, self.budget, self.settings, schedule);
        Ok(plan.stating(Some(block.bound)))
    }

    /// The refusal of a bound that says nothing.
    pub(super) fn vacuous(
        &self,
        solver: &'static str,
        bound: f64,
        needed: Option<u64>,
    ) -> PlanError {
        PlanError::VacuousGoldstein {
            solver,
            bound,
            radius: self.settings.radius,
            trivial: self.facts.trivial_bound(),
            records: self.facts.records,
            needed,
            dim: self.facts.dim,
            mu: self.mu,
        }
    }
}

impl GoldsteinPlan {
    /// The plan with the least bound on all records, in at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::VacuousGoldstein`] when the bound is not below what the start satisfies; [`PlanError::BadFact`];
    /// [`PlanError::Directions`] for more than there are dimensions; [`PlanError::ValuesAlone`] for gradients of a loss without a
    /// Lipschitz constant.
    pub fn new(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings, Batch::All)?;
        let multiplier = |steps: u64| Ok(NoiseMultiplier::new((steps as f64).sqrt() / task.mu)?);
        let found = task.over_all(max_steps);
        task.plan(Batch::All, found, multiplier, || {
            least_that_fits(facts.records, |records| {
                task.says_something(task.of(records).over_all(max_steps))
            })
        })
    }

    /// As [`GoldsteinPlan::new`], on a Poisson sample for each step, whose rate is chosen so that the noise is little more than on
    /// all records: 0.75 mu/sqrt T under replace-one, 1.5 mu/sqrt T otherwise. (By the central limit theorem 1.5 % and 10 % more; a
    /// guide. The multiplier is calibrated by the accountant of the relation.) From values it takes as many directions as are best
    /// on all records.
    ///
    /// # Errors
    /// As [`GoldsteinPlan::new`].
    pub fn sampled(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let batch = Batch::Poisson(SamplingRate::new(1.0)?);
        let task = Task::new(facts, budget, settings, batch)?;
        // As many steps as on all records, and their best block.
        let sampled = |task: &Task<'_>| {
            let Some(all) = task.over_all(max_steps) else {
                return Ok(None);
            };
            let directions = all
                .slopes
                .and_then(|slopes| NonZeroUsize::new(slopes.directions));
            let (steps, rate) = (all.block.steps, task.rate(&all)?);
            let planned = task.over_samples(steps, rate, directions)?;
            Ok::<_, PlanError>(Some((rate, planned)))
        };
        let needed = || {
            // Samples ask for little more than all records do. Some number that would do, and not the least.
            let least = least_that_fits(facts.records, |records| {
                task.says_something(task.of(records).over_all(max_steps))
            })?;
            geometric(least as f64, 2.0 * least as f64, 1.05)
                .map(|records| records.ceil() as u64)
                .find(|records| {
                    let planned = sampled(&task.of(*records)).ok().flatten();
                    planned.is_some_and(|(_, (found, ..))| task.says_something(found))
                })
        };
        let one = NoiseMultiplier::new(1.0)?;
        match sampled(&task)? {
            // Refused before its noise is asked for.
            None => task.plan(batch, None, |_| Ok(one), needed),
            Some((rate, (found, accountant, multiplier))) => {
                let batch = Batch::Poisson(rate);
                let plan = task.plan(batch, found, |_| Ok(multiplier), needed)?;
                Ok(plan.calibrated_by(accountant))
            }
        }
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
        let batch = Batch::Poisson(rate);
        let task = Task::new(facts, budget, settings, batch)?;
        let directions = match settings.asks {
            GoldsteinAsks::Values { directions } => directions,
            GoldsteinAsks::Gradients => None,
        };
        let (found, accountant, multiplier) = task.over_samples(steps, rate, directions)?;
        let plan = task.plan(batch, found, |_| Ok(multiplier), || None)?;
        Ok(plan.calibrated_by(accountant))
    }
}

/// The least number from `from` on that fits, where a number fits if a smaller one does; none below 1e15.
pub(super) fn least_that_fits(from: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let mut low = from;
    let mut high = from.saturating_mul(2);
    while !fits(high) {
        if high > 1_000_000_000_000_000 {
            return None;
        }
        (low, high) = (high, high.saturating_mul(2));
    }
    Some(bisect(low, high, |records| !fits(records)) + 1)
}
