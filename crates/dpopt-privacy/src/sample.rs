//! The records that a release reads.

use std::ops::Range;

use zeroize::Zeroizing;

use crate::adjacency::Adjacency;
use crate::lattice::FixedBlocks;
use crate::order::Numbering;
use crate::slice::Slice;

/// How many records there are.
///
/// # Privacy
/// Under add-remove adjacency the true number is secret, so this neither prints nor compares.
#[derive(Clone, Copy)]
pub struct Body {
    pub(crate) records: u64,
    pub(crate) positions: u64,
    pub(crate) numbering: Numbering,
    /// First and one after the last of those that are here, where not all are.
    pub(crate) here: Option<(u64, u64)>,
}

impl Body {
    /// This many records, which is public.
    #[must_use]
    pub fn of(records: u64) -> Self {
        Self {
            records,
            positions: records,
            numbering: Numbering::default(),
            here: None,
        }
    }

    /// The public number that means divide by, and how many records there really are. The second
    /// is **secret**.
    #[must_use]
    pub fn declared(records: u64, positions: u64) -> Self {
        Self {
            records,
            positions,
            numbering: Numbering::default(),
            here: None,
        }
    }

    /// Numbered so; without this call, all records of a table in its order.
    ///
    /// # Privacy
    /// A pool is of the numbering of its first slice, and a release on a slice of records that are numbered otherwise is refused
    /// ([`crate::PoolError::OtherNumbering`]). Who says that they are a part has split the table: `dpopt_oracle::PrivateData::set_aside`
    /// does.
    #[must_use]
    pub fn numbered(self, numbering: Numbering) -> Self {
        Self { numbering, ..self }
    }

    /// Of which those at these positions are in this process, and the others at other ranks. A Poisson sample is drawn of these alone, and
    /// is of them what it would be.
    ///
    /// # Privacy
    /// Each record has a coin of its own, at its position in the stream. A record that is said to be elsewhere, and is here, is never read.
    #[must_use]
    pub fn here(self, positions: Range<u64>) -> Self {
        Self {
            here: Some((positions.start, positions.end)),
            ..self
        }
    }
}

/// The records that one release reads.
///
/// # Privacy
/// Which records were drawn, and how many, is secret: no size or index may reach a report, an
/// error or a plan. It neither clones nor prints. A [`crate::Ticket`] holds it, so that one sample
/// is one release.
pub struct Sample {
    pub(crate) read: Read,
    pub(crate) denominator: f64,
    pub(crate) blocks: Option<FixedBlocks>,
    pub(crate) adjacency: Adjacency,
}

/// Which positions are read.
pub(crate) enum Read {
    Range(Range<u64>),
    /// Overwritten when dropped.
    Drawn(Zeroizing<Vec<u32>>),
    Slice(Slice, Range<u64>),
}

/// Positions of records, increasing.
///
/// # Privacy
/// They don't print. Under add-remove adjacency the end of a range over all records is secret.
pub enum Positions<'a> {
    /// Neighbouring ones.
    Range(Range<u64>),
    /// Those of a sample.
    Drawn(SecretPositions<'a>),
}

impl Sample {
    /// Positions of the records, for the pass over them and nothing else.
    #[must_use]
    pub fn positions(&self) -> Positions<'_> {
        match &self.read {
            Read::Range(range) | Read::Slice(_, range) => Positions::Range(range.clone()),
            Read::Drawn(positions) => Positions::Drawn(SecretPositions(positions)),
        }
    }

    /// The public number that a mean over them divides by: the number of records, the rate times
    /// it, or the size of the sample or slice.
    #[must_use]
    pub fn denominator(&self) -> f64 {
        self.denominator
    }

    /// The slice, where one is read.
    #[must_use]
    pub fn slice(&self) -> Option<&Slice> {
        match &self.read {
            Read::Slice(slice, _) => Some(slice),
            Read::Range(_) | Read::Drawn(_) => None,
        }
    }

    /// The blocks of positions that may be added in floating point; none under add-remove.
    #[must_use]
    pub fn blocks(&self) -> Option<FixedBlocks> {
        self.blocks
    }

    /// The adjacency of the curator that drew it.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }
}

/// Who was drawn.
///
/// # Privacy
/// Secret: it does not print, compare or serialise. Who sums the records has to know which, so [`SecretPositions::reveal`] says it.
#[derive(Clone, Copy)]
pub struct SecretPositions<'a>(&'a [u32]);

impl<'a> SecretPositions<'a> {
    /// The positions, for the pass over the records and nothing else.
    #[must_use]
    pub fn reveal(self) -> &'a [u32] {
        self.0
    }
}
