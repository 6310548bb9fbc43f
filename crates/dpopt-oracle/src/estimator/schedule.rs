//! The cost of a schedule of releases, for planners.

use std::collections::BTreeMap;

use dpopt_privacy::{
    Allocation, Event, NoiseMultiplier, PrefixError, PrefixNoise, SamplingRate, Spend,
};

use super::batch::{Batch, Level};
use super::prefix::{PeriodAnchor, PrefixSettings};
use super::recursive::RecursiveSettings;
use crate::oracle::PeriodTerms;

/// The releases that a plan will make at most, as what to reserve for them.
///
/// A planner says how many anchors, variations and periods there will be, and no event.
///
/// # Formula
/// Releases on all records, or on samples of them, compose. Unread records and slices compose in parallel: the
/// run costs what its dearest slice costs, and how many slices there are doesn't matter.
///
/// # Privacy
/// It states what will be reserved, no more: what a release costs is derived by the curator from what is read, and
/// refused if it isn't here.
///
/// ```
/// use dpopt_oracle::{Batch, Level, Schedule};
/// use dpopt_privacy::{Event, NoiseMultiplier, Spend};
///
/// let z = NoiseMultiplier::new(3.0)?;
/// let level = |batch| Level { batch, noise_multiplier: z };
/// // Ten anchors on all of 1000 records.
/// let spend = Schedule::new(1000).releases(level(Batch::All), 10).spend();
/// assert_eq!(spend, Spend::Fixed(Event::gaussian(z).repeated(10)));
/// // Any number of batches of unread records costs what one of them does.
/// let spend = Schedule::new(1000).releases(level(Batch::Next(50)), 20).spend();
/// assert_eq!(
///     spend,
///     Spend::Fixed(Event::ParallelComposed { events: vec![Event::gaussian(z)] })
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Schedule {
    records: u64,
    whole: Vec<(Event, u64)>,
    /// Where the releases of a level stand in `whole`: a plan may have as many levels as it has steps.
    places: BTreeMap<(u64, u64, u64), usize>,
    /// Possible charges of one slice: one of these.
    shares: Vec<Vec<(Event, u64)>>,
    /// Charges of the slice of a phase.
    held: Vec<(Event, u64)>,
}

impl Schedule {
    /// No releases, on so many (public) records.
    pub fn new(records: u64) -> Self {
        Self {
            records,
            whole: Vec::new(),
            places: BTreeMap::new(),
            shares: Vec::new(),
            held: Vec::new(),
        }
    }

    /// With `count` releases at `level`. On the slice of a phase ([`Batch::Held`]) the count is that of
    /// one phase.
    pub fn releases(mut self, level: Level, count: u64) -> Self {
        let gaussian = Event::gaussian(level.noise_multiplier);
        match level.batch {
            _ if count == 0 => {}
            Batch::All => self.whole(level, gaussian, count),
            Batch::Poisson(rate) => self.whole(level, gaussian.poisson_sampled(rate), count),
            Batch::FixedSize(size) => {
                let event = Event::SampledWithoutReplacement {
                    source_dataset_size: self.records,
                    sample_size: size,
                    event: Box::new(gaussian),
                };
                self.whole(level, event, count);
            }
            Batch::Truncated(rate, most) => {
                let event = Event::TruncatedSubsampledGaussian {
                    dataset_size: self.records,
                    sampling_probability: rate,
                    truncated_batch_size: most,
                    noise_multiplier: level.noise_multiplier,
                };
                self.whole(level, event, count);
            }
            Batch::Allocated(allocation) => {
                // Paid for as a whole, each time that one begins.
                let times = count.div_ceil(allocation.steps.max(1));
                add(&mut self.whole, allocation.event(gaussian), times);
            }
            Batch::Next(_) | Batch::PerLength(_) => self.share(gaussian),
            Batch::Held(_) => add(&mut self.held, gaussian, count),
        }
        self
    }

    /// With a slice of its own that is read for `count` releases with this noise: one share beside the others.
    pub fn slice(mut self, noise_multiplier: NoiseMultiplier, count: u64) -> Self {
        let share = vec![(Event::gaussian(noise_multiplier), count)];
        if count > 0 && !self.shares.contains(&share) {
            self.shares.push(share);
        }
        self
    }

    /// With `count` periods whose steps read `batch`. On the slice of a phase the count is that of one phase.
    ///
    /// # Errors
    /// [`PrefixError`] when there is no such period.
    pub fn periods(
        mut self,
        batch: Batch,
        terms: &PeriodTerms,
        count: u64,
    ) -> Result<Self, PrefixError> {
        let noise = PrefixNoise::new(terms.kind, terms.len, terms.participation)?;
        let event = noise.event(terms.noise_multiplier)?;
        match batch {
            _ if count == 0 => {}
            Batch::Next(_) | Batch::PerLength(_) => self.share(event),
            Batch::Held(_) => add(&mut self.held, event, count),
            Batch::All
            | Batch::Poisson(_)
            | Batch::FixedSize(_)
            | Batch::Truncated(..)
            | Batch::Allocated(_) => {
                add(&mut self.whole, event, count);
            }
        }
        Ok(self)
    }

    /// With a period whose steps read Poisson samples of slices at this rate, each slice so many times.
    ///
    /// # Errors
    /// [`PrefixError`] when there is no such period.
    pub fn sampled_period(
        self,
        terms: &PeriodTerms,
        rate: SamplingRate,
        times: u64,
    ) -> Result<Self, PrefixError> {
        self.period_of_samples(terms, |event| event.poisson_sampled(rate), times)
    }

    /// With a period whose steps read steps of random allocations within slices, so many allocations for each slice.
    ///
    /// # Errors
    /// [`PrefixError`] when there is no such period.
    pub fn allocated_period(
        self,
        terms: &PeriodTerms,
        allocation: Allocation,
        times: u64,
    ) -> Result<Self, PrefixError> {
        self.period_of_samples(terms, |event| allocation.event(event), times)
    }

    fn period_of_samples(
        mut self,
        terms: &PeriodTerms,
        sampled: impl Fn(Event) -> Event,
        times: u64,
    ) -> Result<Self, PrefixError> {
        let noise = PrefixNoise::new(terms.kind, terms.len, terms.participation)?;
        let share = vec![(sampled(noise.event(terms.noise_multiplier)?), times)];
        if times > 0 && !self.shares.contains(&share) {
            self.shares.push(share);
        }
        Ok(self)
    }

    /// With so many anchors and variations of these settings.
    pub fn recursive(self, settings: &RecursiveSettings, anchors: u64, variations: u64) -> Self {
        self.releases(settings.anchor, anchors)
            .releases(settings.variation, variations)
    }

    /// With so many periods of these settings, their anchors included.
    ///
    /// # Errors
    /// [`PrefixError`] when there is no such period.
    pub fn prefix(self, settings: &PrefixSettings, periods: u64) -> Result<Self, PrefixError> {
        let apart = match settings.anchor {
            PeriodAnchor::Apart(level) => self.releases(level, periods),
            PeriodAnchor::FirstStep(_) => self,
        };
        apart.periods(settings.variation, &settings.period, periods)
    }

    /// The reservation.
    #[must_use]
    pub fn spend(self) -> Spend {
        let repeated = |(event, count): (Event, u64)| match count {
            1 => event,
            _ => event.repeated(count),
        };
        let mut shares = self.shares;
        // A release that the slice of a phase may make is no share of its own beside it.
        let in_held = |event: &Event| self.held.iter().any(|(held, _)| held == event);
        shares.retain(|share| !share.iter().all(|(event, _)| in_held(event)));
        if !self.held.is_empty() {
            shares.push(self.held);
        }
        let mut events: Vec<Event> = self.whole.into_iter().map(repeated).collect();
        if !shares.is_empty() {
            let shares = shares
                .into_iter()
                .map(|share| all_of(share.into_iter().map(repeated).collect()));
            events.push(Event::ParallelComposed {
                events: shares.collect(),
            });
        }
        Spend::Fixed(all_of(events))
    }

    /// Releases on all records or on samples of them, in the order in which their levels came first.
    fn whole(&mut self, level: Level, event: Event, count: u64) {
        let (kind, size) = match level.batch {
            Batch::Poisson(rate) => (1, rate.get().to_bits()),
            Batch::FixedSize(size) => (2, size),
            Batch::Truncated(rate, most) => (3 + u64::from(most), rate.get().to_bits()),
            _ => (0, 0),
        };
        let key = (kind, size, level.noise_multiplier.get().to_bits());
        if let Some(&place) = self.places.get(&key) {
            self.whole[place].1 += count;
            return;
        }
        // What periods and allocations added has no place; all other events have.
        let periods = self.places.len() < self.whole.len();
        let found = if periods {
            self.whole.iter().position(|(known, _)| *known == event)
        } else {
            None
        };
        let place = found.unwrap_or(self.whole.len());
        match found {
            Some(place) => self.whole[place].1 += count,
            None => self.whole.push((event, count)),
        }
        self.places.insert(key, place);
    }

    /// One release on a slice of its own.
    fn share(&mut self, event: Event) {
        let share = vec![(event, 1)];
        if !self.shares.contains(&share) {
            self.shares.push(share);
        }
    }
}

fn add(events: &mut Vec<(Event, u64)>, event: Event, count: u64) {
    match events.iter_mut().find(|(known, _)| *known == event) {
        Some((_, n)) => *n += count,
        None => events.push((event, count)),
    }
}

fn all_of(mut events: Vec<Event>) -> Event {
    match events.len() {
        0 => Event::NoOp,
        1 => events.remove(0),
        _ => Event::composed(events),
    }
}
