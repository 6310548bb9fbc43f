//! Granting and redeeming tickets.

use std::ops::Range;

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::lattice::{Bound, LatticeSum, SensitivityClaim};
use crate::noise::{NoisySum, Purpose, RoundedGaussian, StreamId, of_steps};
use crate::refused::Refused;
use crate::replay::{Facts, ReplayedMechanism};
use crate::sample::{Body, Sample};
use crate::ticket::{self, ForClaim, ForSum, Hold, Price, Ticket};
use crate::units::NoiseMultiplier;
use crate::which::Which;

use super::Curator;
use super::price::Priced;

/// A Gaussian release of these integers.
pub(super) struct Gaussian<'a> {
    pub(super) price: &'a Price,
    pub(super) mechanism: ReplayedMechanism,
    pub(super) noise: &'a RoundedGaussian,
    pub(super) bound: Bound,
}

impl Curator {
    /// Grants one release of a sum within `bound`, or of its norm, over the records that `which`
    /// says, and draws them. Everything that can be refused is refused here, before any record is
    /// read and before a sample is drawn or a slice taken.
    ///
    /// ```
    /// use dpopt_privacy::{
    ///     Adjacency, Body, Bound, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier,
    ///     Positions, SamplingRate, Spend, Which,
    /// };
    ///
    /// let (noise, rate) = (NoiseMultiplier::new(4.0)?, SamplingRate::new(0.5)?);
    /// let mut curator = Curator::protected(Adjacency::AddRemove)?;
    /// curator.reserve(&Spend::Fixed(Event::gaussian(noise).poisson_sampled(rate)))?;
    ///
    /// let records = [[0.6, 0.8], [30.0, 40.0], [f64::NAN, 0.0]];
    /// let bound = Bound::new(ClipNorm::new(1.0)?, 2)?;
    /// let ticket = curator.grant(Which::Poisson(rate), Body::declared(4, 3), bound, noise)?;
    /// let mut sum = LatticeSum::new(bound);
    /// if let Positions::Drawn(drawn) = ticket.sample().positions() {
    ///     for &i in drawn.reveal() {
    ///         sum.add_scaled(1.0, &records[i as usize]);
    ///     }
    /// }
    /// let released = curator.redeem(ticket, sum)?;
    /// assert_eq!(released.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Privacy
    /// One event: [`Event::Gaussian`] on all records, the same on a sample, or the same charged to
    /// the share of one slice. It is charged when the ticket is redeemed.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been drawn or charged then.
    pub fn grant(
        &mut self,
        which: Which<'_>,
        body: Body,
        bound: Bound,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Ticket, Refused> {
        self.noting(|curator| {
            let z = noise_multiplier;
            let priced = curator.price(which, body, Event::gaussian(z))?;
            let noise = curator.noise(ReplayedMechanism::Sum, z, bound)?;
            let norm_noise = curator.noise(ReplayedMechanism::Norm, z, bound)?;
            curator.granted(priced, |price| ForSum {
                price,
                bound,
                noise,
                norm_noise,
            })
        })
    }

    /// As [`Curator::grant`], of an output whose sensitivity is claimed.
    ///
    /// # Privacy
    /// One event, that of [`Curator::grant`], if the claim holds. What it rests on was written
    /// down when the run reserved ([`Curator::reserve_claimed`]): before anything was read, and in
    /// the shared ledger.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been drawn or charged then. [`Refused::ClaimNotReserved`] where
    /// the open reservation names another argument or none; [`Refused::ClaimOfSample`] for samples that a record may be absent from, but for
    /// Poisson samples under add-remove, whose neighbours those are, and samples of fixed size under replace-one.
    pub fn grant_claimed(
        &mut self,
        which: Which<'_>,
        body: Body,
        claim: &SensitivityClaim,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Ticket<ForClaim>, Refused> {
        self.noting(|curator| {
            curator.may_rest_on(claim.argument())?;
            curator.same_adjacency(claim.adjacency())?;
            let adjacency = curator.adjacency;
            let covered = match which {
                Which::All | Which::Next(_) | Which::Slice(_) => true,
                Which::Poisson(_) => adjacency == Adjacency::AddRemove,
                Which::FixedSize(_) => adjacency == Adjacency::ReplaceOne,
                Which::Sampled(..)
                | Which::Truncated(..)
                | Which::Allocated(_)
                | Which::AllocatedIn(..) => false,
            };
            if !covered {
                return Err(Refused::ClaimOfSample { adjacency });
            }
            let z = noise_multiplier;
            let priced = curator.price(which, body, Event::gaussian(z))?;
            let noise = curator.noise(ReplayedMechanism::Sum, z, claim.bound())?;
            let claim = *claim;
            curator.granted(priced, |price| ForClaim {
                price,
                claim,
                noise,
            })
        })
    }

    /// The ticket of a release, if the reservation pays for it, with its records drawn.
    pub(super) fn granted<For>(
        &mut self,
        priced: Priced,
        terms: impl FnOnce(Price) -> For,
    ) -> Result<Ticket<For>, Refused> {
        self.check(&priced.price.event, &priced.price.account)?;
        let (price, sample) = self.draw(priced)?;
        Ok(self.ticket(sample, terms(price)))
    }

    /// Releases the sum that a ticket was granted for, with Gaussian noise.
    ///
    /// # Formula
    /// step * (S + round(s Z)), with S the sum in steps, Z standard normal in each coordinate and
    /// s = noise multiplier x sensitivity / step, rounded up. Exactly Gaussian-DP with
    /// mu = 1 / noise multiplier (for a sum over all records).
    ///
    /// # Shapes
    /// One number per coordinate of the sum, in the units of the sum.
    ///
    /// # Errors
    /// [`Refused::Ticket`] for a ticket that is not good any more or a sum that was not granted;
    /// [`Refused::Ledger`]. Nothing has been released or charged then.
    pub fn redeem(&mut self, ticket: Ticket, sum: LatticeSum) -> Result<Vec<f64>, Refused> {
        self.noting(|curator| {
            ticket.hold.check(curator.now())?;
            let ForSum {
                price,
                bound,
                noise,
                ..
            } = &ticket.terms;
            let integers = ticket::sealed(sum, *bound, curator.adjacency)?;
            let release = Gaussian {
                price,
                mechanism: ReplayedMechanism::Sum,
                noise,
                bound: *bound,
            };
            let integers = curator.whole(integers, price, *bound)?;
            curator.release_integers(&release, &integers)
        })
    }

    /// Releases the L2 norm of the sum plus a public `shift`, in whole lattice steps, rounded
    /// down. The shift is in the units of the sum and rounded to its lattice; coordinates that it
    /// lacks or that are NaN are 0.
    ///
    /// # Privacy
    /// The norm is 1-Lipschitz, and a public shift moves both neighbours' sums alike. So one
    /// record moves the norm by at most the radius, and one step more for the rounding; a record
    /// in the place of another by at most twice that. The noise is scaled to it.
    ///
    /// # Errors
    /// As [`Curator::redeem`].
    pub fn redeem_norm(
        &mut self,
        ticket: Ticket,
        sum: LatticeSum,
        shift: &[f64],
    ) -> Result<f64, Refused> {
        self.redeem_norm_of(ticket, sum, 0..usize::MAX, shift)
    }

    /// As [`Curator::redeem_norm`], of the coordinates in `within` alone, with the part of `shift` that is there.
    ///
    /// # Privacy
    /// As [`Curator::redeem_norm`], with the same noise: to leave out coordinates is 1-Lipschitz.
    ///
    /// # Errors
    /// As [`Curator::redeem`].
    pub fn redeem_norm_of(
        &mut self,
        ticket: Ticket,
        sum: LatticeSum,
        within: Range<usize>,
        shift: &[f64],
    ) -> Result<f64, Refused> {
        self.noting(|curator| {
            ticket.hold.check(curator.now())?;
            let bound = ticket.terms.bound;
            curator.note(&format_args!("{within:?}"));
            curator.note_numbers(shift);
            let integers = ticket::sealed(sum, bound, curator.adjacency)?;
            let integers = curator.whole(integers, &ticket.terms.price, bound)?;
            let release = Gaussian {
                price: &ticket.terms.price,
                mechanism: ReplayedMechanism::Norm,
                noise: &ticket.terms.norm_noise,
                bound,
            };
            let norm = bound.norm_in_steps(part(&integers, &within), part(shift, &within));
            let released = curator.release_integers(&release, &[norm])?;
            Ok(released.first().copied().unwrap_or(0.0))
        })
    }

    /// Releases an output whose sensitivity is claimed. Each coordinate is clamped, which is
    /// 1-Lipschitz, and rounded to the lattice. An output that holds a number that is not finite
    /// counts as zero as a whole: the claim has to cover that too. Missing coordinates count as
    /// zero.
    ///
    /// # Formula
    /// As [`Curator::redeem`].
    ///
    /// # Errors
    /// As [`Curator::redeem`].
    pub fn redeem_claimed(
        &mut self,
        ticket: Ticket<ForClaim>,
        output: &[f64],
    ) -> Result<Vec<f64>, Refused> {
        self.noting(|curator| {
            ticket.hold.check(curator.now())?;
            let ForClaim {
                price,
                claim,
                noise,
            } = &ticket.terms;
            let release = Gaussian {
                price,
                mechanism: ReplayedMechanism::Sum,
                noise,
                bound: claim.bound(),
            };
            let integers = claim.integers(output);
            curator.same_on_all_ranks(&integers)?;
            curator.release_integers(&release, &integers)
        })
    }

    pub(super) fn release_integers<T: NoisySum>(
        &mut self,
        release: &Gaussian<'_>,
        exact: &[T],
    ) -> Result<Vec<f64>, Refused> {
        let (price, noise) = (release.price, release.noise);
        let id = self.charge_gaussian(release, exact.len())?;
        let step = release.bound.step();
        let Some(seat) = &self.replay else {
            return Ok(self.noted(noise.release(&self.key, id, &self.threads, exact, step)?));
        };
        let exact: Vec<i128> = exact.iter().map(|&k| k.into()).collect();
        let mut noisy = exact.clone();
        noise.add_release(&self.key, id, &self.threads, &mut noisy)?;
        let facts = Facts {
            mechanism: release.mechanism,
            reads: price.reads.clone(),
            charged: price.event.clone(),
            noise_steps: noise.scale(),
            radius_steps: release.bound.radius() / release.bound.step(),
            limit: self.sensitivity(release.mechanism, release.bound) / noise.scale(),
        };
        let noisy = seat.sum(facts, exact, noisy);
        Ok(self.noted(noisy.iter().map(|&k| of_steps(k, step)).collect()))
    }

    /// Charges for a release of so many coordinates: the name of the stream of its noise. From here on nothing can fail in one process.
    pub(super) fn charge_gaussian(
        &mut self,
        release: &Gaussian<'_>,
        dim: usize,
    ) -> Result<StreamId, Refused> {
        let price = release.price;
        let id = self.stream_id(Purpose::Noise)?;
        self.key.check_release(id, dim)?;
        self.note_all(&(release.mechanism, release.noise.scale(), release.bound));
        self.charge(&price.event, &price.account)?;
        Ok(id)
    }

    /// A ticket that is good from here on.
    pub(super) fn ticket<For>(&mut self, sample: Sample, terms: For) -> Ticket<For> {
        self.turn += 1;
        Ticket {
            hold: self.now(),
            sample,
            terms,
        }
    }

    /// What a ticket has to hold to be good now.
    pub(super) fn now(&self) -> Hold {
        Hold {
            curator: self.id,
            turn: self.turn,
        }
    }

    /// The L2 sensitivity of a sum within `bound`, or of its norm, in steps.
    fn sensitivity(&self, mechanism: ReplayedMechanism, bound: Bound) -> f64 {
        match mechanism {
            ReplayedMechanism::Norm => bound.norm_sensitivity_in_steps(self.adjacency),
            _ => bound.sensitivity_in_steps(self.adjacency),
        }
    }

    /// Its noise, if a release within `bound` can be drawn at all.
    pub(super) fn noise(
        &self,
        mechanism: ReplayedMechanism,
        z: NoiseMultiplier,
        bound: Bound,
    ) -> Result<RoundedGaussian, Refused> {
        self.can_draw(bound)?;
        let sensitivity = self.sensitivity(mechanism, bound);
        // Rounded up: the product errs by less than one unit in the last place.
        let scale = (z.get() * sensitivity).next_up();
        Ok(RoundedGaussian::new(scale)?)
    }

    /// Refuses a release of so many coordinates, and one in a fork.
    pub(super) fn can_draw(&self, bound: Bound) -> Result<(), Refused> {
        // Any stream will do: the blocks of all are numbered alike.
        let any = StreamId::new(Purpose::Noise, 0);
        Ok(self.key.check_release(any, bound.dim())?)
    }

    /// Refuses a release of claimed sensitivity whose argument the open reservation does not name.
    fn may_rest_on(&self, argument: &'static str) -> Result<(), Refused> {
        if self.inner.is_some() {
            return Err(Refused::NoGuarantee(
                "an inner run of repeat-and-select can't pass on what its releases rest on",
            ));
        }
        match &self.reservation {
            Some(open) if open.rests_on == Some(argument) => Ok(()),
            _ => Err(Refused::ClaimNotReserved { argument }),
        }
    }
}

/// What of these is within a range.
fn part<'a, T>(all: &'a [T], within: &Range<usize>) -> &'a [T] {
    let end = within.end.min(all.len());
    &all[within.start.min(end)..end]
}
