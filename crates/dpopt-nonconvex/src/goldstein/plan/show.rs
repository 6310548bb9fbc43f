//! What a plan of a walk in blocks shows, needs and runs.

use dpopt_oracle::{Batch, Offers};
use dpopt_privacy::{Participation, PrefixNoise};
use dpopt_solver::{Item, OutputRule, Plan, PublicFacts, RunError, Terms, Unit, Walk};

use super::super::schedule::{GoldsteinPeriod, GoldsteinSchedule, MOST_NUMBERS};
use super::super::walk::Blocks;
use super::{GoldsteinPlan, RECURSIVE, name_of};

/// How far the start is moved where the smoothed loss may have no gradient at some points, over a.
const MOVED: f64 = 1e-6;

impl GoldsteinPlan {
    /// Whether there are the records, the noise and the room for what a plan by hand says.
    fn check_periods(&self, dim: usize) -> Result<(), RunError> {
        let schedule = &self.schedule;
        let refused = |name, value| {
            let solver = self.name();
            Err(RunError::Schedule {
                solver,
                name,
                value,
            })
        };
        let records = self.facts().records;
        if let Some(unread) = schedule.unread()
            && unread > u128::from(records)
        {
            return refused("number of unread records", unread as f64);
        }
        let Some(period) = &schedule.period else {
            return Ok(());
        };
        if period.len == 0 {
            return refused("period", 0.0);
        }
        if let Some(kind) = period.prefix {
            // Noise by slices: a record takes part once.
            let slices =
                [schedule.batch, period.changes].map(|batch| matches!(batch, Batch::Next(_)));
            if slices != [true; 2] {
                let read = schedule.read_by_changes(self.facts()).unwrap_or(0.0);
                return refused("prefix noise of changes whose records are read again", read);
            }
            let changes = (period.len - 1).max(1);
            if PrefixNoise::new(kind, changes, Participation::Single).is_err() {
                return refused("period", period.len as f64);
            }
        }
        let numbers = schedule.numbers_drawn(records, dim);
        if numbers > u128::from(MOST_NUMBERS) {
            return refused(
                "number of coordinates of offsets or of frames",
                numbers as f64,
            );
        }
        Ok(())
    }
}

impl Plan for GoldsteinPlan {
    fn name(&self) -> &'static str {
        match (self.schedule.batch, &self.schedule.period) {
            (Batch::All, Some(_)) => RECURSIVE,
            (batch, _) => name_of(batch, self.schedule.directions.is_some()),
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Smoothing stands in for L1, and where values are bounded for L0 too.
    fn field_facts(&self) -> PublicFacts {
        let facts = *self.terms.facts();
        PublicFacts {
            smoothness: f64::INFINITY,
            lipschitz: match self.settings.bounded {
                Some(_) => f64::INFINITY,
                None => facts.lipschitz,
            },
            ..facts
        }
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let mut items = vec![
            Item::count("steps", schedule.steps),
            Item::count("block", schedule.block),
            Item::number("goldstein_radius", self.settings.radius, Unit::LENGTH),
            Item::number("displacement_cap", schedule.cap, Unit::LENGTH),
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::word("step", "planned"),
            Item::number("smoothing", schedule.smoothing, Unit::LENGTH),
        ];
        items.push(match schedule.batch {
            Batch::Poisson(rate) => Item::ratio("sampling_rate", rate.get()),
            Batch::FixedSize(size) | Batch::Next(size) => Item::count("batch", size),
            _ => Item::count("batch", self.facts().records),
        });
        if let Some(directions) = schedule.directions {
            items.push(Item::count("directions", directions.get() as u64));
            items.push(Item::ratio("values", self.values));
        }
        if let Some(period) = &schedule.period {
            let facts = self.facts();
            let read = schedule.read_by_changes(facts).unwrap_or(0.0);
            items.push(Item::count("period", period.len));
            items.push(Item::count("batch_of_changes", read as u64));
            items.push(match period.prefix {
                Some(kind) => Item::word("noise_of_changes", kind),
                None => Item::word("noise_of_changes", "by-move"),
            });
            let z = period.noise_multiplier.get();
            items.push(Item::ratio("noise_multiplier_of_changes", z));
            items.push(Item::ratio("values", self.values));
        }
        items.extend(
            self.settings
                .bounded
                .map(|bounded| Item::number("value_range", bounded.range, Unit::LOSS)),
        );
        items.extend([
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::number("noise_std", self.noise_std(), Unit::GRADIENT),
        ]);
        items.extend(self.accountant.map(|name| Item::word("accountant", name)));
        items.push(Item::word("output", OutputRule::UniformBlock));
        items
    }

    fn needs(&self) -> Offers {
        match (self.schedule.directions, &self.schedule.period) {
            (_, Some(period)) if period.prefix.is_some() => Offers::SMOOTHED | Offers::PERIODS,
            (_, Some(_)) => Offers::SMOOTHED,
            (Some(_), None) => Offers::SLOPES,
            (None, None) => Offers::MEANS,
        }
    }

    /// In one pass the first release reads other records than the rest, and each of them costs as much as all.
    fn share_spent(&self, step: u64) -> f64 {
        let done = step + 1;
        match (self.schedule.batch, &self.schedule.period) {
            (Batch::Next(_), _) => 1.0,
            (_, Some(period)) => {
                // Shares of mu^2.
                let inverse = |z: f64| 1.0 / (z * z);
                let anchor = inverse(self.schedule.noise_multiplier.get());
                let change = inverse(period.noise_multiplier.get());
                let after = |steps: u64| {
                    let anchors = steps.div_ceil(period.len.max(1));
                    anchors as f64 * anchor + (steps - anchors) as f64 * change
                };
                after(done) / after(self.steps().max(1))
            }
            _ => done as f64 / self.steps().max(1) as f64,
        }
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let schedule = &self.schedule;
        // In units of the clip.
        let slope = |period: GoldsteinPeriod| period.lipschitz / schedule.clip;
        for (name, value) in [
            ("lipschitz", schedule.period.map_or(1.0, slope)),
            ("block", schedule.block as f64),
            ("displacement_cap", schedule.cap),
            ("step_size", schedule.step_size),
            ("smoothing", schedule.smoothing),
        ] {
            // The sum of a displacement and a step has to be finite.
            if !(value > 0.0 && value < 1e150) {
                let solver = self.name();
                return Err(RunError::Schedule {
                    solver,
                    name,
                    value,
                });
            }
        }
        if let Some(directions) = schedule.directions.filter(|m| m.get() > start.len()) {
            return Err(RunError::Schedule {
                solver: self.name(),
                name: "directions",
                value: directions.get() as f64,
            });
        }
        self.check_periods(start.len())?;
        let moved = self.settings.bounded.map(|_| MOVED * schedule.smoothing);
        Ok(Box::new(Blocks::new(schedule, start.len(), moved)?))
    }

    /// A radius beyond what the walk can reach.
    fn warning(&self, _: f64) -> Option<String> {
        let GoldsteinSchedule {
            steps, block, cap, ..
        } = self.schedule;
        (block == steps && self.bound().is_some()).then(|| {
            format!(
                "the Goldstein radius {} is so large that the whole run, of {steps} displacements of at most {cap:.3e}, is one \
                 block: the mean gradient of all its points is short, which says little of any of them",
                self.settings.radius
            )
        })
    }
}
