//! Whether unread records are a sample of the population: the one rule for bounds and for certificates.

use dpopt_privacy::{Adjacency, Event, Slice};

use super::Books;

/// Why nothing can be said of the population that records were drawn from.
///
/// What is proven of a population rests on records that are independent draws from it, and on points that nothing was computed for from these
/// records. Of the first part the neighbouring relation is checked here, of the second what the curator and its ledger know. That records are
/// independent draws in an order that tells nothing, and that no other program read them, stays the caller's word.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSample {
    /// An erased record contributes nothing, and one more or less makes their number private: so many draws there may not be.
    #[error("a claim about the population needs replace-one adjacency, not {adjacency}")]
    Adjacency {
        /// The neighbouring relation.
        adjacency: Adjacency,
    },
    /// The curator has released what may have led to the points.
    #[error(
        "a claim about the population needs records that nothing was released of before, and {spent} was"
    )]
    ReadBefore {
        /// Releases of the curator so far.
        spent: Event,
    },
    /// The curator can't tell whether its records were read by others.
    #[error(
        "a claim about the population needs unread records, and this curator can't tell: it serves one of several runs, or has a ledger that other runs came before which read more than records that the ledger handed to them"
    )]
    MaybeRead,
    /// Something was released of the slice, or it is of another curator's pool.
    #[error(
        "a claim about the population needs a slice that nothing was released of before, and slice {slice} is none"
    )]
    SliceRead {
        /// Its number.
        slice: u64,
    },
}

impl NoSample {
    /// Refuses relations under which the records need not be so many draws from the population.
    ///
    /// # Errors
    /// [`NoSample::Adjacency`] but under replace-one.
    pub fn refuse(adjacency: Adjacency) -> Result<(), Self> {
        match adjacency {
            Adjacency::ReplaceOne => Ok(()),
            adjacency => Err(Self::Adjacency { adjacency }),
        }
    }
}

impl Books {
    /// Refuses where records that no slice holds yet may be no fresh sample of the population.
    ///
    /// # Errors
    /// [`NoSample::Adjacency`]; [`NoSample::ReadBefore`] where the curator has released anything that read all records or a sample of them;
    /// [`NoSample::MaybeRead`] where it can't tell ([`dpopt_privacy::Curator::knows_unread`]).
    pub fn check_sample(&self) -> Result<(), NoSample> {
        NoSample::refuse(self.curator().adjacency())?;
        let spent = self.curator().spent();
        if !spent.is_on_slices() {
            return Err(NoSample::ReadBefore { spent });
        }
        // A pool is opened later where there is none yet, and would be none of a ledger's then.
        if !self.curator().knows_unread() {
            return Err(NoSample::MaybeRead);
        }
        Ok(())
    }

    /// Refuses where the records of `slice` may be no fresh sample of the population.
    ///
    /// # Errors
    /// As [`Books::check_sample`]; [`NoSample::SliceRead`].
    pub fn check_sample_of(&self, slice: &Slice) -> Result<(), NoSample> {
        self.check_sample()?;
        if self.curator().has_read(slice) {
            let slice = slice.number();
            return Err(NoSample::SliceRead { slice });
        }
        Ok(())
    }
}
