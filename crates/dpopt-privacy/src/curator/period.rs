//! A period of prefix sums on the lattice: exact sums, exact noise, one charge.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::event::Event;
use crate::lattice::{Bound, LatticeSum};
use crate::noise::{Purpose, RoundedGaussian, StreamId, of_steps};
use crate::prefix::{Participation, PeriodNoise, PrefixError, PrefixNoise};
use crate::refused::Refused;
use crate::replay::{ReplayedReads, Seat};
use crate::sample::Body;
use crate::ticket::{self, ForStep, Price, Ticket, TicketError};
use crate::which::{Account, Which};

use super::Curator;

/// An open period: takes one private sum a step and returns the prefix sum with noise.
///
/// # Privacy
/// The running sum without noise and the noise itself live here only, are overwritten when this
/// is dropped, and can be neither read, copied, printed nor written out. What the period costs
/// was paid when it was opened, or is paid by each slice at its first step, or at each step that samples it; stopping early is
/// allowed at any time. The argument is in `docs/privacy/sums.md`.
///
/// ```
/// use dpopt_privacy::{
///     Adjacency, Body, Bound, ClipNorm, Curator, LatticeSum, NoiseMultiplier, Participation,
///     Positions, PrefixKind, PrefixNoise, Spend, Which,
/// };
///
/// // Four steps on disjoint slices, each record in one of them.
/// let z = NoiseMultiplier::new(2.0)?;
/// let noise = PrefixNoise::new(PrefixKind::Toeplitz, 4, Participation::Single)?;
/// let mut curator = Curator::protected(Adjacency::ReplaceOne)?;
/// let share = dpopt_privacy::Event::ParallelComposed { events: vec![noise.event(z)?] };
/// curator.reserve(&Spend::Fixed(share))?;
/// curator.open_pool(400, 0)?;
///
/// let bound = Bound::new(ClipNorm::new(1.0)?, 3)?;
/// let mut period = curator.prefix(noise.kind(), bound, noise.len(), z, noise.participation())?;
/// for _ in 0..4 {
///     let ticket = period.grant(Which::Next(100), Body::of(400), &mut curator)?;
///     let mut sum = LatticeSum::new(bound);
///     if let Positions::Range(range) = ticket.sample().positions() {
///         for _record in range {
///             sum.add_scaled(1.0, &[0.1, -0.2, 0.3]);
///         }
///     }
///     let prefix_sum = period.redeem(ticket, sum, &mut curator)?;
///     assert_eq!(prefix_sum.len(), 3);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// fn copy(period: &dpopt_privacy::Prefix) -> dpopt_privacy::Prefix { period.clone() }
/// ```
///
/// ```compile_fail
/// fn print(period: dpopt_privacy::Prefix) { println!("{period:?}"); }
/// ```
pub struct Prefix {
    terms: Terms,
    /// The exact prefix sum, in lattice steps.
    sum: Zeroizing<Vec<i128>>,
    /// The stream of each step so far.
    steps: Vec<StreamId>,
    /// For each slice that took part: how often, and the last step.
    took_part: BTreeMap<u64, (u64, u64)>,
    noise: PeriodNoise,
    /// Whether the noise of a step failed half-way.
    broken: bool,
    /// In an audit: its number on the tape.
    replay: Option<(Seat, u64)>,
    /// Its number at the curator.
    number: u64,
}

/// What a period was opened with: public.
pub(super) struct Terms {
    pub(crate) noise: PrefixNoise,
    pub(crate) bound: Bound,
    /// What a record's part costs.
    pub(crate) event: Event,
    /// Standard deviation of the unit noise that is drawn here, in lattice steps.
    pub(crate) scale: RoundedGaussian,
    /// The curator that opened it.
    pub(crate) curator: u64,
}

impl Prefix {
    pub(super) fn new(terms: Terms, number: u64) -> Self {
        Self {
            number,
            sum: Zeroizing::new(vec![0; terms.bound.dim()]),
            steps: Vec::new(),
            broken: false,
            replay: None,
            took_part: BTreeMap::new(),
            noise: PeriodNoise::new(&terms.noise, terms.bound.dim(), terms.scale),
            terms,
        }
    }

    /// The public numbers of the noise.
    #[must_use]
    pub fn noise(&self) -> &PrefixNoise {
        &self.terms.noise
    }

    /// The bound that every step must have.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.terms.bound
    }

    /// Steps taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.len() as u64
    }

    /// Standard deviation of the noise in prefix sum `step`, counted from 1, in each coordinate
    /// and in the units of the sum (rounding adds at most half a lattice step); none beyond the
    /// period.
    #[must_use]
    pub fn standard_deviation(&self, step: u64) -> Option<f64> {
        let relative = self.terms.noise.variance(step)?.sqrt() / self.terms.noise.sensitivity();
        Some(relative * self.terms.scale.scale() * self.terms.bound.step())
    }

    /// Grants the next step, over the records that `which` says, and draws them. The sum that
    /// redeems it must be within the bound of the period.
    ///
    /// # Privacy
    /// On all records the step was paid for when the period was opened; a slice pays when the
    /// first step that it takes part in is redeemed, and for each sample of it.
    ///
    /// # Errors
    /// [`Refused`]: a step after the last, other records than the participation says, a slice that
    /// took part before, a slice of another pool, another curator, a reservation that does not
    /// pay. Nothing is drawn or charged then.
    pub fn grant(
        &self,
        which: Which<'_>,
        body: Body,
        curator: &mut Curator,
    ) -> Result<Ticket<ForStep>, Refused> {
        curator.noting(|curator| self.grant_step(which, body, curator))
    }

    fn grant_step(
        &self,
        which: Which<'_>,
        body: Body,
        curator: &mut Curator,
    ) -> Result<Ticket<ForStep>, Refused> {
        if curator.id != self.terms.curator {
            return Err(PrefixError::OtherCurator.into());
        }
        if self.broken {
            return Err(PrefixError::Broken.into());
        }
        let len = self.terms.noise.len();
        if self.steps() >= len {
            return Err(PrefixError::Finished { len }.into());
        }
        let priced = curator.price(which, body, self.terms.event.clone())?;
        // A step of an allocation that is paid for is charged to nobody, and of a slice all the same.
        let slice = match which {
            Which::Sampled(slice, _) | Which::AllocatedIn(slice, _) => Some(slice.number()),
            _ => priced.price.account.slices().first().copied(),
        };
        let participation = self.terms.noise.participation();
        let sampled = matches!(participation, Participation::Sampled { .. });
        let every = participation == Participation::Every;
        // A sample costs another event than the period does, unless the period is one of samples.
        let fits = match which {
            Which::Sampled(..) | Which::AllocatedIn(..) => sampled,
            _ => !sampled && priced.price.event == self.terms.event,
        };
        if !fits || every != slice.is_none() {
            let expected = self.expected();
            return Err(PrefixError::WrongRecords { expected }.into());
        }
        let mut payer = None;
        if let Some(slice) = slice {
            self.check_turn(slice)?;
            // Each sample has a coin of its own, and pays; so does each allocation, at its first step.
            if sampled || !self.took_part.contains_key(&slice) {
                let Price { event, account, .. } = &priced.price;
                curator.check(event, account)?;
                payer = Some((event.clone(), account.clone()));
            }
        }
        curator.can_draw(self.terms.bound)?;
        let (price, sample) = curator.draw(priced)?;
        let terms = ForStep {
            period: self.number,
            slice,
            payer,
            reads: price.reads,
        };
        Ok(curator.ticket(sample, terms))
    }

    /// Takes the granted step: adds its sum and releases the sum of all so far, with noise.
    ///
    /// # Formula
    /// step · (S_t + N_t), with S_t the exact sum in lattice steps. For the Toeplitz kinds
    /// N_t = round(s (B w)_t), with w standard normal and s the scale of the unit noise; for the
    /// others the N_t come from rounded Gaussians of scale s on steps or nodes.
    ///
    /// # Shapes
    /// One number per coordinate, in the units of the sums.
    ///
    /// # Errors
    /// [`Refused::Ticket`] for a ticket that is not good any more, or of another period, and for a
    /// sum that was not granted; [`Refused::Ledger`]. Nothing is released or added then.
    pub fn redeem(
        &mut self,
        ticket: Ticket<ForStep>,
        sum: LatticeSum,
        curator: &mut Curator,
    ) -> Result<Vec<f64>, Refused> {
        curator.noting(|curator| {
            ticket.hold.check(curator.now())?;
            let ForStep {
                period,
                slice,
                payer,
                reads,
            } = ticket.terms;
            if (self.terms.curator, self.number) != (curator.id, period) {
                return Err(TicketError::OtherPeriod.into());
            }
            let integers = ticket::sealed(sum, self.terms.bound, curator.adjacency)?;
            let integers = ticket::whole(integers, curator.together.as_ref())?;
            self.step(slice, (payer, reads), &integers, curator)
        })
    }

    /// The period of an audited run.
    pub(super) fn replayed(mut self, seat: &Seat, number: u64) -> Self {
        self.replay = Some((seat.clone(), number));
        self
    }

    /// Takes a step that is granted.
    fn step(
        &mut self,
        slice: Option<u64>,
        (payer, reads): (Option<(Event, Account)>, ReplayedReads),
        integers: &[i64],
        curator: &mut Curator,
    ) -> Result<Vec<f64>, Refused> {
        let id = curator.stream_id(Purpose::Noise)?;
        curator.key.check_release(id, self.sum.len())?;
        // Charged first: from here on nothing can fail.
        if let Some((event, account)) = payer {
            curator.charge(&event, &account)?;
        }
        curator.turn += 1;
        self.steps.push(id);
        if let Some(slice) = slice {
            let entry = self.took_part.entry(slice).or_default();
            *entry = (entry.0 + 1, self.steps.len() as u64);
        }
        for (total, &x) in self.sum.iter_mut().zip(integers) {
            *total = total.wrapping_add(i128::from(x));
        }
        let mut noisy = Zeroizing::new(vec![0; self.sum.len()]);
        self.broken = true;
        self.noise.next(
            &curator.key,
            &self.steps,
            self.terms.scale,
            &curator.threads,
            &mut noisy,
        )?;
        self.broken = false;
        let step = self.terms.bound.step();
        for (noise, &sum) in noisy.iter_mut().zip(self.sum.iter()) {
            *noise = noise.wrapping_add(sum);
        }
        if let Some((seat, number)) = &self.replay {
            let exact = integers.iter().map(|&x| i128::from(x)).collect();
            *noisy = seat.step(*number, reads, exact, noisy.to_vec());
        }
        let released = noisy.iter().map(|&k| of_steps(k, step)).collect();
        Ok(curator.noted(released))
    }

    /// What a step is taken over.
    fn expected(&self) -> &'static str {
        match self.terms.noise.participation() {
            Participation::Every => "all records",
            Participation::Sampled { .. } => "a sample of a slice",
            _ => "a slice",
        }
    }

    /// Whether the slice may take part in the next step.
    fn check_turn(&self, slice: u64) -> Result<(), PrefixError> {
        let noise = &self.terms.noise;
        let (most, apart) = noise.participation().turns(noise.len());
        let step = self.steps() + 1;
        match self.took_part.get(&slice) {
            Some(&(times, last)) if times >= most || step - last < apart => {
                Err(PrefixError::TookPart {
                    slice,
                    times,
                    last,
                    step,
                })
            }
            _ => Ok(()),
        }
    }
}

impl Terms {
    /// Where a period over all records is charged when it is opened.
    pub(crate) fn opening(&self) -> Option<Account> {
        (self.noise.participation() == Participation::Every).then_some(Account::Whole)
    }
}
