//! The curators of an audit, which share a tape.

use std::sync::{Arc, Mutex};

use crate::adjacency::Adjacency;
use crate::guarantee::Mode;
use crate::noise::ReplayKeyForTests;
use crate::replay::{ChangedRecord, ReplayReport, Seat, Tape, locked};

use super::Curator;

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
