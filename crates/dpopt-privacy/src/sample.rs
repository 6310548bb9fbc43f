//! Samples of records: drawn by the curator, used up by one release.

use crate::units::SamplingRate;

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
