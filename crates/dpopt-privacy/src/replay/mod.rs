//! Replay: a run made again on neighbouring records, with every release forced to be the same.
//!
//! The law of noise is known, so what the release of a run gives away about one record is how far the
//! exact sum behind it moves when the record changes, in units of the noise really drawn. A
//! [`crate::ReplayForAudits`] measures that: a first curator releases as a simulation does and keeps
//! the sums on a tape; a second one, fed from neighbouring records, returns what the first one released,
//! whatever its own sums are, and notes the displacements. Forcing the releases keeps an adaptive run on
//! the same path, so that the two are comparable at every release.

mod tape;

use crate::event::Event;
use crate::units::SamplingRate;
use crate::which::Allocation;

pub(crate) use tape::{Facts, Seat, Tape, locked};

/// Where the one record is in which the two data sets differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedRecord {
    /// It has another content in the data of the replay: replace-one and zero-out.
    InPlace(u64),
    /// The data of the replay hold one more, at this position of theirs: add-remove.
    Added(u64),
    /// The data of the replay lack the one at this position of the recorded data: add-remove.
    Removed(u64),
}

/// What a replay found: displacements, and what the curator knew in public when it released.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// One entry for each release, period of prefix sums or selection of the recorded run that the
    /// replay came to, in order.
    pub releases: Vec<ReplayedRelease>,
    /// The first place where the two runs differed in something that must not depend on a record.
    pub divergence: Option<Divergence>,
}

/// One release in both runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplayedRelease {
    /// What kind of release.
    pub mechanism: ReplayedMechanism,
    /// What it read, and so where it was charged.
    pub reads: ReplayedReads,
    /// The event that it was charged as (each slice of a period: once; each sample in a period: this, sampled).
    pub charged: Event,
    /// Standard deviation of the noise really drawn (of the unit noise of a period), in lattice
    /// steps; for a selection the number of steps over which a probability falls by a factor e.
    pub noise_steps: f64,
    /// Largest norm of one record's contribution, in lattice steps; for a selection the spread.
    pub radius_steps: f64,
    /// How far the replay is from the recorded run. Gaussian releases: norm of the displacement of
    /// the sum (of a period: of the noise that would explain it) over the standard deviation. Selections:
    /// the largest change of a log-probability that these scores allow.
    pub displacement: f64,
    /// The largest displacement that is claimed: 1 / noise multiplier, or epsilon.
    pub limit: f64,
}

/// Kinds of releases.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ReplayedMechanism {
    /// A sum with Gaussian noise.
    Sum,
    /// A norm with Gaussian noise.
    Norm,
    /// A period of prefix sums of this kind and length, of which so many steps were taken.
    Prefix {
        /// The factorisation.
        kind: crate::prefix::PrefixKind,
        /// Steps of the period.
        len: u64,
        /// In how many steps a record may take part.
        participation: crate::prefix::Participation,
        /// Steps taken.
        steps: u64,
    },
    /// The exponential mechanism, quantiles included.
    Exponential,
}

/// Which records a release read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ReplayedReads {
    /// All.
    All,
    /// A Poisson sample.
    Poisson(SamplingRate),
    /// A sample of fixed size.
    FixedSize {
        /// Records drawn.
        size: u64,
        /// Records to draw from.
        records: u64,
    },
    /// A Poisson sample of which no more than so many records are kept.
    Truncated {
        /// Probability with which a record is sampled.
        rate: SamplingRate,
        /// Records kept at most.
        most: u32,
    },
    /// A step of a random allocation.
    Allocated {
        /// Number of the allocation, from 0.
        number: u64,
        /// Number of the step, from 0.
        step: u64,
    },
    /// Slices of the pool, by number: each one pays.
    Slices(Vec<u64>),
    /// A sample of the slice of this number.
    Sampled(u64, SampleOf),
    /// Samples of slices, in the steps of a period: the slice and the sample of each step.
    SampledSteps(Vec<(u64, SampleOf)>),
}

/// How a sample of a slice was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum SampleOf {
    /// Each record with this probability.
    Poisson(SamplingRate),
    /// A step of a random allocation within the slice.
    Allocated {
        /// Of each record to steps.
        allocation: Allocation,
        /// Number of the allocation, from 0.
        number: u64,
        /// Number of the step, from 0.
        step: u64,
    },
}

impl SampleOf {
    /// What is charged for a sample of which `event` is released: for a step of an allocation the whole of it, at its first step.
    #[must_use]
    pub fn event(self, event: Event) -> Event {
        match self {
            SampleOf::Poisson(rate) => event.poisson_sampled(rate),
            SampleOf::Allocated { allocation, .. } => allocation.event(event),
        }
    }
}

impl ReplayedReads {
    /// With what one more step of a period read: slices once each, samples each time.
    fn join(&mut self, step: ReplayedReads) {
        match (self, step) {
            (Self::Slices(known), Self::Slices(new)) => {
                known.extend(new);
                known.sort_unstable();
                known.dedup();
            }
            (Self::SampledSteps(known), Self::Sampled(slice, drawn)) => known.push((slice, drawn)),
            _ => {}
        }
    }
}

/// The two runs differ in public behaviour, which therefore depends on a record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Divergence {
    /// Another kind of release, bound, scale, event or refusal than in the recorded run.
    #[error("entry {entry} of the replay is not what was recorded: {replayed}, not {recorded}")]
    Different {
        /// Number of the entry, from 0; refusals and steps of periods count.
        entry: usize,
        /// What was recorded.
        recorded: String,
        /// What the replay did.
        replayed: String,
    },
    /// The replay ended too early.
    #[error("the replay came to {replayed} of {recorded} entries")]
    TooShort {
        /// Entries on the tape.
        recorded: usize,
        /// Entries that the replay came to.
        replayed: usize,
    },
    /// The replay went on after the end of the recorded run.
    #[error("the replay went on with {replayed} after the end of the tape")]
    TooLong {
        /// What the replay did.
        replayed: String,
    },
    /// A sample was drawn from another number of records than neighbours have.
    #[error("a sample of {replayed} records does not belong to one of {recorded}")]
    Sample {
        /// Records of the recorded draw.
        recorded: u64,
        /// Records of the replayed draw.
        replayed: u64,
    },
    /// The steps of an allocation do not hand each record out as often as it takes part.
    #[error(
        "step {step} of allocation {number} hands a record out {times} times in all, and {participations} were allocated"
    )]
    Allocation {
        /// Number of the allocation.
        number: u64,
        /// The step after which that is so.
        step: u64,
        /// How often.
        times: u64,
        /// How often each record takes part.
        participations: u64,
    },
    /// The steps of an allocation do not come one after the other.
    #[error("step {step} of allocation {number} is handed out where step {expected} was due")]
    OutOfTurn {
        /// Number of the allocation.
        number: u64,
        /// The step.
        step: u64,
        /// The step that was due.
        expected: u64,
    },
}
