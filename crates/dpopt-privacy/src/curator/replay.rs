//! Replay: a run made again on neighbouring records, with every release forced to be the same.
//!
//! The law of noise is known, so what the release of a run gives away about one record is how far the
//! exact sum behind it moves when the record changes, in units of the noise really drawn. A
//! [`ReplayForAudits`] measures that: a first curator releases as a simulation does and keeps
//! the sums on a tape; a second one, fed from neighbouring records, returns what the first one released,
//! whatever its own sums are, and notes the displacements. Forcing the releases keeps an adaptive run on
//! the same path, so that the two are comparable at every release.

mod tape;

use std::sync::{Arc, Mutex};

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::guarantee::Mode;
use crate::noise::ReplayKeyForTests;
use crate::units::SamplingRate;

use super::Curator;

pub(crate) use tape::{Facts, Seat, Shares};
use tape::{Tape, locked};

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

/// A replay can't be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The two data sets would not be neighbours.
    #[error("data sets that differ like this ({changed:?}) are no neighbours under {adjacency}")]
    NotNeighbours {
        /// How they differ.
        changed: ChangedRecord,
        /// The relation.
        adjacency: Adjacency,
    },
}

/// A tape that two curators share: one records a run, the other replays it on a neighbour.
///
/// # Privacy
/// None, in either run: the noise of the first can be repeated from its seed, and the displacements
/// of the second are exact functions of the records. **Only for made-up records.** Neither curator states a
/// guarantee or takes a shared ledger, and no protected curator can be made from this, or
/// turned into one of these. The sums on the tape can't be read.
///
/// The changed record is **in every sample** of either run, so that a displacement compares with the claim
/// of the unsampled release; the other records are drawn as ever, and are the same in both.
///
/// ```
/// use dpopt_privacy::{
///     Adjacency, Bound, ChangedRecord, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier,
///     ReplayForAudits, Spend, Touched,
/// };
///
/// let noise = NoiseMultiplier::new(4.0)?;
/// let run = |mut curator: Curator, records: &[[f64; 2]]| {
///     curator.reserve(&Spend::Fixed(Event::gaussian(noise)))?;
///     let mut sum = LatticeSum::new(Bound::new(ClipNorm::new(1.0)?, 2)?);
///     records.iter().for_each(|record| sum.add_scaled(1.0, record));
///     curator.release(&sum.finish(Adjacency::ReplaceOne, Touched::All), noise)?;
///     Ok::<_, Box<dyn std::error::Error>>(())
/// };
/// let tape = ReplayForAudits::new(Adjacency::ReplaceOne, 1, ChangedRecord::InPlace(1))?;
/// run(tape.recorder(), &[[0.3, 0.4], [1.0, 0.0]])?;
/// run(tape.replayer(), &[[0.3, 0.4], [-9.0, 0.0]])?;
/// let report = tape.report();
/// assert!(report.divergence.is_none());
/// // Opposite records are the worst: they use up the claim of 1/4.
/// let release = &report.releases[0];
/// assert!(release.displacement <= release.limit && release.displacement > 0.249);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReplayForAudits {
    adjacency: Adjacency,
    seed: u64,
    tape: Arc<Mutex<Tape>>,
}

impl ReplayForAudits {
    /// A tape for data sets that differ in one record. `seed` makes the noise of the recorded run.
    ///
    /// # Errors
    /// [`ReplayError::NotNeighbours`] for a record that is changed in place under add-remove
    /// adjacency, or added or removed under another.
    pub fn new(
        adjacency: Adjacency,
        seed: u64,
        changed: ChangedRecord,
    ) -> Result<Self, ReplayError> {
        let in_place = matches!(changed, ChangedRecord::InPlace(_));
        if in_place != adjacency.record_count_is_public() {
            return Err(ReplayError::NotNeighbours { changed, adjacency });
        }
        Ok(Self {
            adjacency,
            seed,
            tape: Arc::new(Mutex::new(Tape::empty(changed))),
        })
    }

    /// The curator of the first run. What an earlier run recorded is forgotten.
    #[must_use]
    pub fn recorder(&self) -> Curator {
        let mut tape = locked(&self.tape);
        *tape = Tape::empty(tape.changed);
        drop(tape);
        self.curator(false)
    }

    /// The curator of the second run, on the neighbour. Displacements of an earlier replay are forgotten.
    #[must_use]
    pub fn replayer(&self) -> Curator {
        locked(&self.tape).rewind();
        self.curator(true)
    }

    /// What the replay found.
    #[must_use]
    pub fn report(&self) -> ReplayReport {
        locked(&self.tape).report()
    }

    fn curator(&self, replaying: bool) -> Curator {
        let key = ReplayKeyForTests::from_seed(self.seed).into_key();
        let mut curator = Curator::with_key(self.adjacency, Mode::Replay, key);
        curator.replay = Some(Seat::new(Arc::clone(&self.tape), replaying));
        curator
    }
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
    /// The event that it was charged as (each slice of a period: once).
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
    /// Permute-and-flip.
    PermuteAndFlip,
    /// Report noisy max.
    NoisyMax,
    /// A run of the sparse vector technique.
    AboveThreshold,
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
    /// Slices of the pool, by number: each one pays.
    Slices(Vec<u64>),
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
}
