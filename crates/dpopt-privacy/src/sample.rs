//! The records that a release reads.

use std::ops::Range;

use crate::adjacency::Adjacency;
use crate::lattice::FixedBlocks;
use crate::slice::Slice;
use crate::units::SamplingRate;

/// How many records there are.
///
/// # Privacy
/// Under add-remove adjacency the true number is secret, so this neither prints nor compares.
#[derive(Clone, Copy)]
pub struct Body {
    pub(crate) records: u64,
    pub(crate) positions: u64,
}

impl Body {
    /// This many records, which is public.
    #[must_use]
    pub fn of(records: u64) -> Self {
        Self {
            records,
            positions: records,
        }
    }

    /// The public number that means divide by, and how many records there really are. The second
    /// is **secret**.
    #[must_use]
    pub fn declared(records: u64, positions: u64) -> Self {
        Self { records, positions }
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
    Drawn(Vec<u32>),
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

/// A Poisson sample of record positions.
///
/// # Privacy
/// Which records were drawn, and how many, is secret: no size or index may reach a report, an
/// error or a plan. The token is moved into the sum that was taken over it, so that one sample
/// is one sampled event. It neither clones nor prints.
pub struct PoissonSample {
    id: u64,
    rate: SamplingRate,
    positions: Vec<u32>,
}

impl PoissonSample {
    pub(crate) fn new(id: u64, rate: SamplingRate, positions: Vec<u32>) -> Self {
        Self {
            id,
            rate,
            positions,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The rate at which it was drawn (public).
    #[must_use]
    pub fn rate(&self) -> SamplingRate {
        self.rate
    }

    /// Positions of the drawn records, increasing. **Secret**: for the pass over the records only.
    #[must_use]
    pub fn secret_positions(&self) -> SecretPositions<'_> {
        SecretPositions(&self.positions)
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

/// A sample of a fixed, public number of record positions, all subsets of that size being equally
/// likely.
///
/// # Privacy
/// Which records were drawn is secret. The token is moved into the sum that was taken over it, so
/// that one sample is one sampled event. It neither clones nor prints.
pub struct FixedSizeSample {
    id: u64,
    records: u64,
    positions: Vec<u32>,
}

impl FixedSizeSample {
    pub(crate) fn new(id: u64, records: u64, positions: Vec<u32>) -> Self {
        Self {
            id,
            records,
            positions,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// How many records were drawn (public).
    #[must_use]
    pub fn size(&self) -> u64 {
        self.positions.len() as u64
    }

    /// How many records there were to draw from (public).
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Positions of the drawn records, increasing. **Secret**: for the pass over the records only.
    #[must_use]
    pub fn secret_positions(&self) -> SecretPositions<'_> {
        SecretPositions(&self.positions)
    }
}
