//! The private mean of any query.

use std::num::NonZeroUsize;

use dpopt_privacy::{
    Adjacency, Bound, Curator, NoiseMultiplier, PoolError, Refused, SamplingRate, Sensitive, Slice,
    Touched, Vector,
};

use super::{Counts, EstimatorError};
use crate::data::PrivateData;
use crate::loss::Loss;
use crate::pass::{Positions, clipped_pass, everything};
use crate::query::Query;
use crate::threads::Threads;

/// A released mean.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mean {
    /// One number per coordinate of the query.
    pub mean: Vec<f64>,
    /// Standard deviation of the noise in each coordinate.
    pub noise_std: f64,
}

/// Which records a mean is taken over.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Over<'a> {
    /// All.
    Everything,
    /// A fresh Poisson sample at this rate.
    Poisson(SamplingRate),
    /// A fresh sample of so many records; under replace-one only.
    FixedSize(u64),
    /// One slice of the curator's pool.
    Slice(&'a Slice),
}

/// Private records, a loss, and the curator that releases means of queries.
///
/// # Formula
/// (1/m) (sum over the records read of clip(q(x), C) + noise), with q a [`Query`] and m public: the
/// number of records, or the rate times it, or the length of the slice.
///
/// # Privacy
/// Each mean is one event of the curator: a Gaussian release with the given noise multiplier, on
/// all records, on one Poisson sample, or on one slice. Sensitivities are enforced, not assumed; a
/// wrong constant of a loss costs accuracy only. See `docs/privacy/estimator.md`.
pub struct PrivateMean<'a, L: Loss> {
    data: &'a PrivateData<L::Records>,
    loss: L,
    dim: usize,
    threads: Threads,
    curator: Curator,
    counts: Counts,
}

impl<'a, L: Loss> PrivateMean<'a, L> {
    /// Means over `data`, on one thread.
    ///
    /// # Errors
    /// [`EstimatorError::AdjacencyMismatch`].
    pub fn new(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
    ) -> Result<Self, EstimatorError> {
        if curator.adjacency() != data.adjacency() {
            return Err(EstimatorError::AdjacencyMismatch {
                curator: curator.adjacency(),
                data: data.adjacency(),
            });
        }
        Ok(Self {
            dim: loss.dim(data.records()),
            data,
            loss,
            threads: Threads::one(),
            curator,
            counts: Counts::default(),
        })
    }

    /// Uses up to `threads` threads, 256 at most: the calling one and a pool that is started here and lives as long
    /// as this. Results do not depend on their number, to the bit. A pass that is too small to gain is not split;
    /// where the system has no more threads to give, the calling one does all the work.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Threads::new(threads.get());
        self
    }

    /// The loss.
    #[must_use]
    pub fn loss(&self) -> &L {
        &self.loss
    }

    /// Number of parameters of the loss.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The private records; only their public side can be seen.
    #[must_use]
    pub fn data(&self) -> &'a PrivateData<L::Records> {
        self.data
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        &self.curator
    }

    /// The curator, to reserve, settle and open a pool.
    pub fn curator_mut(&mut self) -> &mut Curator {
        &mut self.curator
    }

    /// Nominal counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Releases the mean of `query`; none when the query has no bound, because all contributions
    /// are zero: then nothing is released and nothing charged.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then.
    pub fn release(
        &mut self,
        query: &impl Query<L>,
        over: &Over<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Option<Mean>, Refused> {
        if !query.fits(self.dim) {
            return Err(Refused::QueryShape { dim: self.dim });
        }
        let Some(bound) = query.bound(&self.loss)? else {
            return Ok(None);
        };
        let adjacency = self.data.adjacency();
        if adjacency == Adjacency::ZeroOut && !query.vanishes_on_zero_rows() {
            return Err(Refused::ZeroRows);
        }
        if query.needs_fixed_positions() && !adjacency.record_count_is_public() {
            return Err(PoolError::Adjacency { adjacency }.into());
        }
        let (sealed, denominator) = self.sum(query, bound, over)?;
        let mut mean = self.curator.release(&sealed, noise_multiplier)?;
        for x in &mut mean {
            *x /= denominator;
        }
        self.counts.releases += 1;
        self.counts.gradients += denominator * query.gradients_per_record();
        self.counts.values += denominator * query.values_per_record();
        self.counts.passes = self.counts.gradients / self.data.public_records() as f64;
        let sensitivity = bound.radius() * self.data.adjacency().sum_sensitivity();
        Ok(Some(Mean {
            mean,
            noise_std: noise_multiplier.get() * sensitivity / denominator,
        }))
    }

    /// The sealed sum of a query's contributions, and the public number that its mean divides by.
    fn sum(
        &mut self,
        query: &impl Query<L>,
        bound: Bound,
        over: &Over<'_>,
    ) -> Result<(Sensitive<Vector>, f64), Refused> {
        let records = self.data.records();
        let public = self.data.public_records() as f64;
        let pass = |positions: &Positions<'_>, nominal: f64| {
            clipped_pass(
                &self.loss,
                records,
                query,
                bound,
                positions,
                nominal,
                &self.threads,
            )
        };
        let (sum, touched, denominator) = match over {
            Over::Everything => (pass(&everything(records), public)?, Touched::All, public),
            Over::Poisson(rate) => {
                let all = everything(records).len();
                let sample = self.curator.poisson_sample(*rate, all)?;
                let expected = public * rate.get();
                let sum = pass(&Positions::Listed(sample.secret_positions()), expected)?;
                (sum, Touched::Poisson(sample), expected)
            }
            Over::FixedSize(size) => {
                let all = self.data.public_records();
                let sample = self.curator.fixed_size_sample(*size, all)?;
                let sum = pass(&Positions::Listed(sample.secret_positions()), *size as f64)?;
                (sum, Touched::FixedSize(sample), *size as f64)
            }
            Over::Slice(slice) => {
                let positions = slice.positions();
                // A pool of more positions than there are records is a mistake of the caller; the
                // number of records is public wherever there are slices.
                let end = positions.end.min(self.data.public_records()) as usize;
                let start = (positions.start as usize).min(end);
                let nominal = slice.len() as f64;
                let sum = pass(&Positions::Range(start..end), nominal)?;
                (sum, Touched::Slice((*slice).clone()), nominal)
            }
        };
        Ok((sum.finish(self.data.adjacency(), touched), denominator))
    }

    /// The next `len` unread records.
    pub(super) fn take_slice(&mut self, len: u64) -> Result<Slice, PoolError> {
        self.curator.take_slice(len)
    }
}
