//! How the batches of a solver on samples are drawn.

use dpopt_oracle::Batch;
use dpopt_privacy::{Allocation, SamplingRate, Slice, Which};
use serde::Serialize;

use crate::error::PlanError;
use crate::facts::PublicFacts;
use crate::terms::Access;

/// How the batches of a solver on samples are drawn. A choice, not a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Batches {
    /// Poisson samples.
    #[default]
    Poisson,
    /// Poisson samples of which no more than so many records are kept, so that the memory of a step is known in advance.
    AtMost(u32),
    /// Random allocation: in every epoch each record is in one batch, drawn for itself and kept secret, as if the records were shuffled.
    Allocated,
}

impl Batches {
    /// Steps and rate of a plan of about so many steps at about this rate: whole epochs where records are allocated.
    ///
    /// # Errors
    /// [`PlanError`] for no rate.
    pub fn fitted(self, steps: u64, rate: SamplingRate) -> Result<(u64, SamplingRate), PlanError> {
        if self != Batches::Allocated {
            return Ok((steps, rate));
        }
        let epoch = ((1.0 / rate.get()).round() as u64).clamp(1, steps.max(1));
        let rate = SamplingRate::new(1.0 / epoch as f64)?;
        Ok(((steps / epoch).max(1) * epoch, rate))
    }

    /// The batches of a plan at this rate, if they can be drawn.
    ///
    /// # Errors
    /// [`PlanError::LargestBatch`] for one below the mean batch; [`PlanError::BatchesOfSecretSize`] under add-remove, where how often it is
    /// reached depends on a secret.
    pub fn at(self, facts: &PublicFacts, rate: SamplingRate) -> Result<Batch, PlanError> {
        if let Batches::AtMost(most) = self {
            let mean = rate.get() * facts.records as f64;
            if f64::from(most) < mean || most == 0 {
                return Err(PlanError::LargestBatch { most, mean });
            }
            if !facts.adjacency.record_count_is_public() {
                return Err(PlanError::BatchesOfSecretSize {
                    adjacency: facts.adjacency,
                });
            }
        }
        Ok(self.batch(rate))
    }

    /// The batches at this rate.
    #[must_use]
    pub fn batch(self, rate: SamplingRate) -> Batch {
        match self {
            Batches::Poisson => Batch::Poisson(rate),
            Batches::AtMost(most) => Batch::Truncated(rate, most),
            Batches::Allocated => Batch::Allocated(Self::epoch(rate)),
        }
    }

    /// The same for a curator.
    #[must_use]
    pub fn which(self, rate: SamplingRate) -> Which<'static> {
        match self {
            Batches::Poisson => Which::Poisson(rate),
            Batches::AtMost(most) => Which::Truncated(rate, most),
            Batches::Allocated => Which::Allocated(Self::epoch(rate)),
        }
    }

    /// The same from a slice; none of samples with a largest batch, of which nothing is proven there.
    #[must_use]
    pub fn within(self, slice: &Slice, rate: SamplingRate) -> Option<Which<'_>> {
        match self {
            Batches::Poisson => Some(Which::Sampled(slice, rate)),
            Batches::AtMost(_) => None,
            Batches::Allocated => Some(Which::AllocatedIn(slice, Self::epoch(rate))),
        }
    }

    /// The allocation of each record to one of so many steps as a rate of one of them says.
    #[must_use]
    pub fn epoch(rate: SamplingRate) -> Allocation {
        Allocation::to_one_of((1.0 / rate.get()).round() as u64)
    }

    /// The same for whoever asks how records are read.
    #[must_use]
    pub fn access(self, rate: SamplingRate) -> Access {
        match self {
            Batches::Poisson => Access::Poisson(rate),
            Batches::AtMost(most) => Access::Truncated { rate, most },
            Batches::Allocated => Access::Allocated {
                steps: Self::epoch(rate).steps,
            },
        }
    }
}

impl std::fmt::Display for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Batches::Poisson => "poisson",
            Batches::AtMost(_) => "truncated",
            Batches::Allocated => "allocated",
        })
    }
}
