//! Which records a release reads.

use serde::Serialize;

use crate::event::Event;
use crate::slice::Slice;
use crate::units::SamplingRate;

/// Which records a release reads: public, and known before anything is drawn or read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Which<'a> {
    /// Every record.
    All,
    /// A Poisson sample: each record enters with this probability, independently.
    Poisson(SamplingRate),
    /// A sample of this many records, all subsets of that size being equally likely.
    FixedSize(u64),
    /// This many records that no slice holds yet: the next slice of the pool.
    Next(u64),
    /// A slice that was taken before.
    Slice(&'a Slice),
    /// A Poisson sample of a slice that was taken before: each of its records enters with this probability, independently.
    Sampled(&'a Slice, SamplingRate),
    /// A Poisson sample of which no more than so many records are kept, all sets of them being equally likely; under replace-one and
    /// zero-out.
    Truncated(SamplingRate, u32),
    /// The next step of an allocation, which begins with its first: each record is in so many of its steps, a uniform set of its own.
    Allocated(Allocation),
    /// The same for the records of a slice that was taken before: the next step of an allocation within it. Each slice has one of its own.
    AllocatedIn(&'a Slice, Allocation),
}

/// Steps over which records are allocated at random: each takes part in a uniformly drawn set of them, independently of the others.
/// An epoch over batches into which records are thrown is one participation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Allocation {
    /// How many steps.
    pub steps: u64,
    /// In how many of them a record takes part.
    pub participations: u64,
}

impl Allocation {
    /// Of each record to one of so many steps.
    #[must_use]
    pub fn to_one_of(steps: u64) -> Self {
        Self {
            steps,
            participations: 1,
        }
    }

    /// The share of the records that a step reads in the mean; 0 of no steps.
    #[must_use]
    pub fn share(self) -> f64 {
        self.participations as f64 / (self.steps as f64).max(1.0)
    }

    /// What an allocation costs at whose every step `event` happens.
    #[must_use]
    pub fn event(self, event: Event) -> Event {
        Event::RandomAllocation {
            num_steps: self.steps,
            num_participations: self.participations,
            event: Box::new(event),
        }
    }
}

/// Where a release is charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Account {
    /// To the whole reservation.
    Whole,
    /// To the share of one slice of the pool.
    Slice(u64),
    /// To the share of each of these.
    Chain(Vec<u64>),
    /// To nobody: a step of an allocation that was paid for as a whole.
    Paid,
}

impl Account {
    /// The slices that pay.
    pub(crate) fn slices(&self) -> &[u64] {
        match self {
            Account::Whole | Account::Paid => &[],
            Account::Slice(slice) => std::slice::from_ref(slice),
            Account::Chain(slices) => slices,
        }
    }
}
