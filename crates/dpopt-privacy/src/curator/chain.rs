//! Chains: one release over several slices, each of which pays for it.

use zeroize::Zeroizing;

use crate::event::Event;
use crate::lattice::{Bound, LatticeSum};
use crate::refused::Refused;
use crate::replay::{ReplayedMechanism, ReplayedReads};
use crate::sample::{Body, Sample};
use crate::slice::{PoolError, Slice};
use crate::ticket::{self, ChainTicket, Price, TicketError};
use crate::units::NoiseMultiplier;
use crate::which::{Account, Which};

use super::Curator;
use super::grant::Gaussian;
use super::price::{Priced, at_most};

impl Curator {
    /// Grants one release of the sum of several slices' sums, each within `bound`. Everything that can be refused is
    /// refused here.
    ///
    /// ```
    /// use dpopt_privacy::{
    ///     Adjacency, Body, Bound, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier, Spend,
    /// };
    ///
    /// // Two products on a chain that grows from four records to six.
    /// let z = NoiseMultiplier::new(2.0)?;
    /// let share = Event::gaussian(z).repeated(2);
    /// let mut curator = Curator::protected(Adjacency::ReplaceOne)?;
    /// curator.reserve(&Spend::Fixed(Event::ParallelComposed { events: vec![share] }))?;
    /// curator.open_pool(6, 0)?;
    ///
    /// // No record moves the sum of means by more than 1/4.
    /// let bound = Bound::new(ClipNorm::new(0.25)?, 3)?;
    /// let mut links = vec![curator.take_slice(4)?];
    /// for _ in 0..2 {
    ///     let chain: Vec<_> = links.iter().collect();
    ///     let ticket = curator.grant_chain(&chain, Body::of(6), bound, z)?;
    ///     let parts = ticket.samples().iter().map(|sample| {
    ///         let mut part = LatticeSum::weighted(bound, 1.0 / sample.denominator(), 0.25);
    ///         for _record in 0..sample.denominator() as usize {
    ///             part.add_scaled(1.0, &[0.1, -0.2, 0.3]);
    ///         }
    ///         part
    ///     });
    ///     let parts = parts.collect();
    ///     assert_eq!(curator.redeem_chain(ticket, parts)?.len(), 3);
    ///     if links.len() == 1 {
    ///         links.push(curator.take_slice(2)?);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Privacy
    /// One [`Event::Gaussian`], charged to the share of **each** of the slices: a record is in one of them, and moves the
    /// sum by what it adds there, which is at most the bound's radius. What a slice has paid for a shorter chain it has
    /// paid; a chain with a slice whose share is used up is refused as a whole. See `docs/privacy/curator.md`.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been drawn or charged then. [`PoolError::EmptyChain`] and [`PoolError::SliceTwice`] for
    /// slices that make no chain.
    pub fn grant_chain(
        &mut self,
        slices: &[&Slice],
        body: Body,
        bound: Bound,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<ChainTicket, Refused> {
        self.noting(|curator| {
            let z = noise_multiplier;
            let (priced, account) = curator.price_chain(slices, body, z)?;
            if curator.together.is_some() {
                at_most(slices.iter().map(|slice| slice.len()).sum())?;
            }
            let noise = curator.noise(ReplayedMechanism::Sum, z, bound)?;
            let event = Event::gaussian(z);
            curator.check(&event, &account)?;
            let samples: Result<Vec<Sample>, Refused> = priced
                .into_iter()
                .map(|link| curator.draw(link).map(|(_, sample)| sample))
                .collect();
            let samples = samples?;
            let price = Price {
                event,
                reads: ReplayedReads::Slices(account.slices().to_vec()),
                account,
            };
            curator.turn += 1;
            Ok(ChainTicket {
                hold: curator.now(),
                samples,
                price,
                bound,
                noise,
            })
        })
    }

    /// Releases the sum of the sums of a chain's slices, in the order of [`ChainTicket::samples`], with Gaussian noise.
    ///
    /// # Formula
    /// As [`Curator::redeem`], of the sum of all parts, which are added as integers.
    ///
    /// # Errors
    /// As [`Curator::redeem`]; [`TicketError::OtherParts`] for another number of sums than the chain has slices.
    pub fn redeem_chain(
        &mut self,
        ticket: ChainTicket,
        parts: Vec<LatticeSum>,
    ) -> Result<Vec<f64>, Refused> {
        self.noting(|curator| {
            ticket.hold.check(curator.now())?;
            let (parts_given, granted) = (parts.len(), ticket.samples.len());
            if parts_given != granted {
                let parts = parts_given;
                return Err(TicketError::OtherParts { parts, granted }.into());
            }
            let mut exact = Zeroizing::new(vec![0i128; ticket.bound.dim()]);
            for part in parts {
                let integers = ticket::sealed(part, ticket.bound, curator.adjacency)?;
                for (total, &x) in exact.iter_mut().zip(integers.iter()) {
                    *total += i128::from(x);
                }
            }
            let release = Gaussian {
                price: &ticket.price,
                mechanism: ReplayedMechanism::Sum,
                noise: &ticket.noise,
                bound: ticket.bound,
            };
            if curator.together.is_some() {
                // The sum over all ranks fits 64 bits, whatever that of one does.
                let own = Zeroizing::new(exact.iter().map(|&k| k as i64).collect());
                let whole = curator.whole(own, &ticket.price, ticket.bound)?;
                exact = Zeroizing::new(whole.iter().map(|&k| i128::from(k)).collect());
            }
            curator.release_integers(&release, &exact)
        })
    }

    /// The price of each link, by the match that prices a slice alone, and who pays: all of them.
    pub(super) fn price_chain(
        &self,
        slices: &[&Slice],
        body: Body,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(Vec<Priced>, Account), Refused> {
        if slices.is_empty() {
            return Err(PoolError::EmptyChain.into());
        }
        let mut numbers = Vec::with_capacity(slices.len());
        let mut links = Vec::with_capacity(slices.len());
        for slice in slices {
            let event = Event::gaussian(noise_multiplier);
            links.push(self.price_of_any_size(Which::Slice(slice), body, event)?);
            numbers.push(slice.number());
        }
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PoolError::SliceTwice { slice: pair[0] }.into());
        }
        Ok((links, Account::Chain(numbers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjacency::Adjacency;
    use crate::curator::Spend;
    use crate::units::ClipNorm;

    fn z() -> NoiseMultiplier {
        NoiseMultiplier::new(2.0).unwrap()
    }

    fn bound() -> Bound {
        Bound::new(ClipNorm::new(1.0).unwrap(), 2).unwrap()
    }

    /// With room for `times` releases on each slice, and three slices.
    fn curator(times: u64) -> (Curator, [Slice; 3]) {
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let share = Event::gaussian(z()).repeated(times);
        let spend = Spend::Fixed(Event::ParallelComposed {
            events: vec![share],
        });
        curator.reserve(&spend).unwrap();
        curator.open_pool(9, 0).unwrap();
        let slices = [4, 3, 2].map(|len| curator.take_slice(len).unwrap());
        (curator, slices)
    }

    fn release(curator: &mut Curator, chain: &[&Slice]) -> Result<Vec<f64>, Refused> {
        let ticket = curator.grant_chain(chain, Body::of(9), bound(), z())?;
        let parts = chain.iter().map(|_| LatticeSum::new(bound())).collect();
        curator.redeem_chain(ticket, parts)
    }

    /// Two releases on the first slice, one more on both: what a slice has paid stays paid, and the chain is refused as a whole.
    #[test]
    fn every_slice_pays_and_a_chain_that_grew_keeps_what_older_ones_have_paid() {
        let (mut curator, [a, b, c]) = curator(2);
        release(&mut curator, &[&a]).unwrap();
        release(&mut curator, &[&a, &b]).unwrap();
        let refused = release(&mut curator, &[&a, &b, &c]);
        assert!(matches!(
            refused,
            Err(Refused::NotReserved { slice: Some(0), .. })
        ));
        // Nothing was taken off the others by the refusal: b has one left, c two.
        release(&mut curator, &[&b, &c]).unwrap();
        assert!(release(&mut curator, &[&b]).is_err());
        release(&mut curator, &[&c]).unwrap();
        assert!(release(&mut curator, &[&c]).is_err());
        let once = Event::gaussian(z());
        assert_eq!(
            curator.spent(),
            Event::ParallelComposed {
                events: vec![once.repeated(2)]
            }
        );
    }

    #[test]
    fn what_makes_no_chain_is_refused() {
        let (mut one, [a, b, _]) = curator(2);
        let (_, [foreign, ..]) = curator(2);
        let pool = |refused| match refused {
            Err(Refused::Pool(error)) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(pool(release(&mut one, &[])), PoolError::EmptyChain);
        let twice = PoolError::SliceTwice { slice: 0 };
        assert_eq!(pool(release(&mut one, &[&a, &b, &a])), twice);
        let other = pool(release(&mut one, &[&a, &foreign]));
        assert_eq!(other, PoolError::ForeignSlice);
        let chain = [&a, &b];
        let ticket = one.grant_chain(&chain, Body::of(9), bound(), z()).unwrap();
        let refused = one.redeem_chain(ticket, vec![LatticeSum::new(bound())]);
        assert!(matches!(
            refused,
            Err(Refused::Ticket(TicketError::OtherParts {
                parts: 1,
                granted: 2
            }))
        ));
        let ticket = one.grant_chain(&chain, Body::of(9), bound(), z()).unwrap();
        let wide = Bound::new(ClipNorm::new(2.0).unwrap(), 2).unwrap();
        let parts = vec![LatticeSum::new(bound()), LatticeSum::new(wide)];
        assert!(matches!(
            one.redeem_chain(ticket, parts),
            Err(Refused::Ticket(TicketError::OtherBound { .. }))
        ));
        assert_eq!(one.spent(), Event::NoOp);
        // A ticket that is not the last thing that was done.
        let ticket = one.grant_chain(&chain, Body::of(9), bound(), z()).unwrap();
        release(&mut one, &[&b]).unwrap();
        let parts = vec![LatticeSum::new(bound()), LatticeSum::new(bound())];
        assert!(matches!(
            one.redeem_chain(ticket, parts),
            Err(Refused::Ticket(TicketError::Void))
        ));
    }

    /// Parts are added as integers: sums of the two slices, far above their noise.
    #[test]
    fn the_sums_of_all_slices_are_added() {
        let (mut curator, [a, b, _]) = curator(1);
        let chain = [&a, &b];
        let ticket = curator.grant_chain(&chain, Body::of(9), bound(), z());
        let mut parts = vec![LatticeSum::new(bound()), LatticeSum::new(bound())];
        for _ in 0..100_000 {
            parts[0].add_scaled(1.0, &[0.5, 0.0]);
            parts[1].add_scaled(1.0, &[0.25, -0.5]);
        }
        let released = curator.redeem_chain(ticket.unwrap(), parts).unwrap();
        // Noise of deviation 4, twenty of them.
        assert!((released[0] - 75_000.0).abs() < 80.0, "{released:?}");
        assert!((released[1] + 50_000.0).abs() < 80.0, "{released:?}");
    }
}
