//! Which records a release of a plan reads, and with how much noise.

use dpopt_privacy::{Allocation, NoiseMultiplier, SamplingRate, Slice, Which};
use serde::Serialize;

use crate::error::{AskError, EstimatorError};
use crate::oracle::Oracle;

/// Which records one kind of release reads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Batch {
    /// All of them.
    All,
    /// A fresh Poisson sample.
    Poisson(SamplingRate),
    /// A fresh sample of so many records; under replace-one only.
    FixedSize(u64),
    /// A fresh Poisson sample of which no more than so many records are kept; under replace-one and zero-out only.
    Truncated(SamplingRate, u32),
    /// The next step of an allocation of all records to steps.
    Allocated(Allocation),
    /// The next so many unread records.
    Next(u64),
    /// The next max(1, ceil(rate ||w - w'||)) unread records: a batch in proportion to the displacement,
    /// so that what one record adds to the mean of the changes is at most L1 / rate. For variations only.
    PerLength(f64),
    /// The slice of the phase: so many records, taken when a release of the phase first reads them,
    /// and read by all others.
    Held(u64),
}

impl Batch {
    /// How many records a step of this length reads, where it reads unread ones.
    pub(super) fn unread(self, length: f64) -> Option<u64> {
        match self {
            Batch::Next(len) => Some(len),
            // A product that is not finite is more than any pool holds.
            Batch::PerLength(rate) => Some(((rate * length).ceil() as u64).max(1)),
            _ => None,
        }
    }
}

/// Which records one kind of release reads, and with how much noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Level {
    /// The records.
    pub batch: Batch,
    /// Noise multiplier z: standard deviation over the sensitivity.
    pub noise_multiplier: NoiseMultiplier,
}

/// The slice of a phase.
#[derive(Default)]
pub(super) struct HeldSlice {
    slice: Option<Slice>,
}

impl HeldSlice {
    /// The next release takes another one.
    pub(super) fn release(&mut self) {
        self.slice = None;
    }

    /// The records of a release after a step of this length.
    pub(super) fn over(
        &mut self,
        batch: Batch,
        length: f64,
        oracle: &mut dyn Oracle,
    ) -> Result<Which<'_>, AskError> {
        Ok(match batch {
            Batch::All => Which::All,
            Batch::Poisson(rate) => Which::Poisson(rate),
            Batch::FixedSize(size) => Which::FixedSize(size),
            Batch::Truncated(rate, most) => Which::Truncated(rate, most),
            Batch::Allocated(allocation) => Which::Allocated(allocation),
            Batch::Next(_) | Batch::PerLength(_) => {
                Which::Next(batch.unread(length).unwrap_or_default())
            }
            Batch::Held(len) => {
                let slice = match self.slice.take() {
                    Some(slice) => slice,
                    None => oracle.books().take_slice(len)?,
                };
                Which::Slice(self.slice.insert(slice))
            }
        })
    }
}

/// Refuses batches that don't say how many records are read.
pub(super) fn check_batches(anchor: Batch, variation: Batch) -> Result<(), EstimatorError> {
    if let Batch::PerLength(rate) = anchor {
        return Err(EstimatorError::AnchorPerLength { rate });
    }
    if let Batch::PerLength(rate) = variation
        && !(rate > 0.0 && rate.is_finite())
    {
        return Err(EstimatorError::BatchRate { rate });
    }
    if let (Batch::Held(anchor), Batch::Held(variation)) = (anchor, variation)
        && anchor != variation
    {
        return Err(EstimatorError::HeldLengths { anchor, variation });
    }
    Ok(())
}

/// Whether an anchor reads no more unread records than a variation of this length would: then it is better
/// in every way.
pub(super) fn anchor_is_cheaper(anchor: Batch, variation: Batch, length: f64) -> bool {
    matches!(
        (anchor, variation, variation.unread(length)),
        (Batch::Next(fresh), Batch::PerLength(_), Some(needed)) if needed >= fresh
    )
}
