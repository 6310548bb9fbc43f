//! Gaussian releases, and what they read: all records, a sample, or a slice of the pool.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::lattice::{Bound, Claimed, LatticeError, MAX_RECORDS, SensitivityClaim};
use crate::noise::{Purpose, RoundedGaussian};
use crate::refused::Refused;
use crate::replay::{Facts, ReplayedMechanism, ReplayedReads};
use crate::sample::{FixedSizeSample, PoissonSample};
use crate::sensitive::{Access, Payload, Reads, Sensitive};
use crate::slice::PoolError;
use crate::units::{NoiseMultiplier, SamplingRate};
use crate::which::Account;

use super::Curator;

static NEXT_SAMPLE: AtomicU64 = AtomicU64::new(0);

impl Curator {
    /// Draws a Poisson sample: each of `records` positions enters with probability `rate`
    /// (rounded down to a multiple of 2^-64), independently.
    ///
    /// # Errors
    /// [`LatticeError::TooManyRecords`] when `records` exceeds [`MAX_RECORDS`].
    pub fn poisson_sample(
        &mut self,
        rate: SamplingRate,
        records: usize,
    ) -> Result<PoissonSample, Refused> {
        if records as u64 > MAX_RECORDS {
            return Err(LatticeError::TooManyRecords {
                records: records as u64,
                limit: MAX_RECORDS,
            }
            .into());
        }
        let positions = self.draw_poisson(rate, records as u64)?;
        let id = self.next_sample();
        Ok(PoissonSample::new(id, rate, positions))
    }

    /// Draws `size` of `records` positions, all subsets of that size being equally likely
    /// (Floyd's algorithm, with exactly uniform integers).
    ///
    /// # Privacy
    /// A release on it is one [`Event::SampledWithoutReplacement`], for which there are bounds under
    /// replace-one adjacency only.
    ///
    /// # Errors
    /// [`Refused::FixedSizeAdjacency`], [`Refused::SampleSize`] unless `0 < size <= records`,
    /// [`LatticeError::TooManyRecords`] when `records` exceeds [`MAX_RECORDS`].
    pub fn fixed_size_sample(
        &mut self,
        size: u64,
        records: u64,
    ) -> Result<FixedSizeSample, Refused> {
        if self.adjacency != Adjacency::ReplaceOne {
            return Err(Refused::FixedSizeAdjacency {
                adjacency: self.adjacency,
            });
        }
        if size == 0 || size > records {
            return Err(Refused::SampleSize { size, records });
        }
        if records > MAX_RECORDS {
            return Err(LatticeError::TooManyRecords {
                records,
                limit: MAX_RECORDS,
            }
            .into());
        }
        let positions = self.draw_fixed_size(size, records)?;
        let id = self.next_sample();
        Ok(FixedSizeSample::new(id, records, positions))
    }

    /// Names a sample: unique in the process, so that one of another curator is recognised.
    fn next_sample(&mut self) -> u64 {
        let id = NEXT_SAMPLE.fetch_add(1, Ordering::Relaxed);
        self.last_sample = Some((id, false));
        id
    }

    /// Refuses a sample that is not the last one, or was used.
    fn unused(&self, sample: u64) -> Result<(), Refused> {
        match self.last_sample {
            Some((last, false)) if last == sample => Ok(()),
            Some((last, true)) if last == sample => Err(Refused::SampleUsed),
            _ => Err(Refused::ForeignSample),
        }
    }

    /// Releases a sum, or the norm of one, with Gaussian noise.
    ///
    /// # Formula
    /// step * (S + round(s Z)), with S the value in steps, Z standard normal in each coordinate
    /// and s = noise multiplier x sensitivity / step, rounded up. Exactly
    /// Gaussian-DP with mu = 1 / noise multiplier (for a sum over all records).
    ///
    /// # Shapes
    /// One number per coordinate of the sum, in the units of the sum.
    ///
    /// # Privacy
    /// One event: [`Event::Gaussian`] on all records, the same on a Poisson sample, or the same
    /// charged to the share of one slice.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged then.
    pub fn release<P: Payload>(
        &mut self,
        sum: &Sensitive<P>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<P::Plain, Refused> {
        let released = self.release_sum(sum, noise_multiplier);
        self.noted(released)
    }

    fn release_sum<P: Payload>(
        &mut self,
        sum: &Sensitive<P>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<P::Plain, Refused> {
        if sum.adjacency != self.adjacency {
            return Err(Refused::AdjacencyMismatch {
                sum: sum.adjacency,
                curator: self.adjacency,
            });
        }
        if let Access::Poisson { sample, .. } | Access::FixedSize { sample, .. } = sum.access {
            self.unused(sample)?;
        }
        let account = match sum.access {
            Access::Slice { pool, slice } => self.account_of(pool, slice)?,
            _ => Account::Whole,
        };
        let event = match sum.access {
            Access::All | Access::Slice { .. } => Event::gaussian(noise_multiplier),
            Access::Poisson { rate, .. } => poisson(noise_multiplier, rate),
            Access::FixedSize { size, records, .. } => fixed_size(noise_multiplier, size, records),
        };
        // Round the scale up: the product errs by less than one unit in the last place.
        let exact = noise_multiplier.get() * sum.sensitivity_in_steps();
        let noise = RoundedGaussian::new(exact.next_up())?;
        self.check(&event, account)?;
        let mut noisy = sum.integers();
        let id = self.stream_id(Purpose::Noise)?;
        self.key.check_release(id, noisy.len())?;
        // Charged first: from here on nothing can fail.
        self.charge(&event, account)?;
        if let (Access::Poisson { .. } | Access::FixedSize { .. }, Some((_, used))) =
            (sum.access, &mut self.last_sample)
        {
            *used = true;
        }
        noise.add_release(&self.key, id, self.threads, &mut noisy)?;
        if let Some(seat) = &self.replay {
            let facts = Facts {
                mechanism: if P::ROUNDING_STEPS == 0.0 {
                    ReplayedMechanism::Sum
                } else {
                    ReplayedMechanism::Norm
                },
                reads: match sum.access {
                    Access::All => ReplayedReads::All,
                    Access::Poisson { rate, .. } => ReplayedReads::Poisson(rate),
                    Access::FixedSize { size, records, .. } => {
                        ReplayedReads::FixedSize { size, records }
                    }
                    Access::Slice { slice, .. } => ReplayedReads::Slices(vec![slice]),
                },
                charged: event,
                noise_steps: noise.scale(),
                radius_steps: sum.bound.radius() / sum.bound.step(),
                limit: sum.sensitivity_in_steps() / noise.scale(),
            };
            noisy = seat.sum(facts, sum.integers(), noisy);
        }
        let step = sum.bound.step();
        Ok(P::plain(noisy.iter().map(|&k| k as f64 * step)))
    }

    /// Releases an output whose sensitivity is claimed, with Gaussian noise as [`Curator::release`] does.
    ///
    /// # Privacy
    /// One event, that of [`Curator::release`], if the claim holds. What it rests on was written down when the run
    /// reserved ([`Curator::reserve_claimed`]): before anything was read, and in the shared ledger.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged then. [`Refused::ClaimNotReserved`] where the open reservation
    /// names another argument or none.
    pub fn release_claimed(
        &mut self,
        output: &Claimed,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Vec<f64>, Refused> {
        let may = self.may_rest_on(output.argument);
        self.noted(may)?;
        self.release(&output.sealed, noise_multiplier)
    }

    /// As [`Curator::check_release`], for an output that is going to be released by [`Curator::release_claimed`].
    ///
    /// # Errors
    /// What [`Curator::release_claimed`] would return, its own streams of noise excepted.
    pub fn check_release_claimed(
        &mut self,
        reads: Reads<'_>,
        claim: &SensitivityClaim,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(), Refused> {
        let may = self.may_rest_on(claim.argument());
        self.noted(may)?;
        self.check_release(reads, claim.bound(), noise_multiplier)
    }

    pub(super) fn may_rest_on(&self, argument: &'static str) -> Result<(), Refused> {
        if self.inner {
            return Err(Refused::NoGuarantee(
                "an inner run of repeat-and-select can't pass on what its releases rest on",
            ));
        }
        match &self.reservation {
            Some(open) if open.rests_on == Some(argument) => Ok(()),
            _ => Err(Refused::ClaimNotReserved { argument }),
        }
    }

    /// Whether a release of a sum within `bound` (or of its norm), over records that are not drawn and not read
    /// yet, would be granted. Charges and draws nothing.
    ///
    /// A caller that asks first reads no record for a release that would be refused.
    ///
    /// # Errors
    /// What [`Curator::release`] would return, its own streams of noise excepted.
    pub fn check_release(
        &mut self,
        reads: Reads<'_>,
        bound: Bound,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(), Refused> {
        let granted = self.would_grant(reads, bound, noise_multiplier);
        self.noted(granted)
    }

    fn would_grant(
        &mut self,
        reads: Reads<'_>,
        bound: Bound,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(), Refused> {
        let (event, account) = self.old_price(reads, noise_multiplier)?;
        let steps = bound.sensitivity_in_steps(self.adjacency);
        RoundedGaussian::new((noise_multiplier.get() * steps).next_up())?;
        self.check(&event, account)
    }

    /// The event of a release over records that are not drawn yet, and who pays for it.
    pub(super) fn old_price(
        &self,
        reads: Reads<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(Event, Account), Refused> {
        let event = match reads {
            Reads::All | Reads::Slice(_) | Reads::NextSlice => Event::gaussian(noise_multiplier),
            Reads::Poisson(rate) => poisson(noise_multiplier, rate),
            Reads::FixedSize { size, records } => fixed_size(noise_multiplier, size, records),
        };
        let account = match reads {
            Reads::Slice(slice) => self.account_of(slice.pool(), slice.number())?,
            Reads::NextSlice => Account::Slice(self.next_slice()?.1),
            _ => Account::Whole,
        };
        Ok((event, account))
    }

    /// Pool and number of the slice that is handed out next.
    pub(crate) fn next_slice(&self) -> Result<(u64, u64), PoolError> {
        let pool = self.pool.as_ref().ok_or(PoolError::NotOpen)?;
        Ok((pool.id(), pool.taken()))
    }

    /// The account of a slice of this curator's pool.
    pub(crate) fn account_of(&self, pool: u64, slice: u64) -> Result<Account, PoolError> {
        match &self.pool {
            Some(own) if own.id() == pool => Ok(Account::Slice(slice)),
            _ => Err(PoolError::ForeignSlice),
        }
    }
}

fn poisson(noise_multiplier: NoiseMultiplier, rate: SamplingRate) -> Event {
    Event::gaussian(noise_multiplier).poisson_sampled(rate)
}

fn fixed_size(noise_multiplier: NoiseMultiplier, size: u64, records: u64) -> Event {
    Event::SampledWithoutReplacement {
        source_dataset_size: records,
        sample_size: size,
        event: Box::new(Event::gaussian(noise_multiplier)),
    }
}
