//! The books of a simulation, whose releases are made elsewhere.

use super::Curator;
use crate::event::Event;
use crate::guarantee::Mode;
use crate::refused::Refused;
use crate::sample::Body;
use crate::slice::Slice;
use crate::units::{Epsilon, NoiseMultiplier};
use crate::which::{Account, Which};

impl Curator {
    /// Takes one release off the reservation as if this curator had made it. Nothing is released,
    /// and no sample or slice is taken.
    ///
    /// A simulation with weighted records or a closed form draws floating-point noise itself, and
    /// has its books kept here, by the rules of a protected run.
    ///
    /// # Privacy
    /// None. A simulated curator states no guarantee, and no other one takes this.
    ///
    /// # Errors
    /// [`Refused::NotSimulated`] in a protected run; otherwise what [`Curator::grant`] would return
    /// with `records` records, of which there may be more than a sum can hold. Nothing is charged then.
    pub fn charge_simulated(
        &mut self,
        which: Which<'_>,
        records: u64,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(), Refused> {
        if self.mode != Mode::Simulated {
            return Err(Refused::NotSimulated);
        }
        let event = Event::gaussian(noise_multiplier);
        let priced = self.price_of_any_size(which, Body::of(records), event)?;
        if let Some(terms) = priced.allocation() {
            self.check(&priced.price.event, &priced.price.account)?;
            // Nothing is drawn, and the step is taken.
            self.allocated.step(terms, 0..0, None)?;
        }
        self.charge(&priced.price.event, &priced.price.account)
    }

    /// As [`Curator::charge_simulated`], for a release on a chain of slices.
    ///
    /// # Errors
    /// [`Refused::NotSimulated`] in a protected run; otherwise as [`Curator::grant_chain`].
    pub fn charge_simulated_chain(
        &mut self,
        slices: &[&Slice],
        records: u64,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(), Refused> {
        if self.mode != Mode::Simulated {
            return Err(Refused::NotSimulated);
        }
        let (_, account) = self.price_chain(slices, Body::of(records), noise_multiplier)?;
        self.charge(&Event::gaussian(noise_multiplier), &account)
    }

    /// As [`Curator::charge_simulated`], for a selection by the exponential mechanism.
    ///
    /// # Errors
    /// [`Refused::NotSimulated`] in a protected run; otherwise as [`Curator::exponential`].
    pub fn charge_simulated_selection(&mut self, epsilon: Epsilon) -> Result<(), Refused> {
        if self.mode != Mode::Simulated {
            return Err(Refused::NotSimulated);
        }
        self.charge(&Event::ExponentialMechanism { epsilon }, &Account::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjacency::Adjacency;
    use crate::curator::Spend;
    use crate::lattice::{Bound, LatticeError};
    use crate::units::ClipNorm;

    #[test]
    fn only_a_simulation_keeps_such_books() {
        let z = NoiseMultiplier::new(1.0).unwrap();
        let spend = Spend::Fixed(Event::gaussian(z).repeated(2));
        let mut protected = Curator::protected(Adjacency::ReplaceOne).unwrap();
        protected.reserve(&spend).unwrap();
        assert!(matches!(
            protected.charge_simulated(Which::All, 1, z),
            Err(Refused::NotSimulated)
        ));
        assert_eq!(protected.spent(), Event::NoOp);
        let mut simulated = Curator::simulated(Adjacency::ReplaceOne, 1);
        simulated.reserve(&spend).unwrap();
        simulated.charge_simulated(Which::All, 1, z).unwrap();
        simulated.charge_simulated(Which::All, 1, z).unwrap();
        assert!(simulated.charge_simulated(Which::All, 1, z).is_err());
        assert_eq!(simulated.spent(), Event::gaussian(z).repeated(2));
    }

    /// A closed form has no records to be read, so there may be more of them than a sum can hold.
    #[test]
    fn more_records_than_a_sum_can_hold_are_charged_and_not_drawn_from() {
        let z = NoiseMultiplier::new(1.0).unwrap();
        let records = 1 << 40;
        let event = Event::SampledWithoutReplacement {
            source_dataset_size: records,
            sample_size: 3,
            event: Box::new(Event::gaussian(z)),
        };
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let spend = Spend::Fixed(event.clone().repeated(1));
        curator.reserve(&spend).unwrap();
        let three = Which::FixedSize(3);
        let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
        assert!(matches!(
            curator.grant(three, Body::of(records), bound, z),
            Err(Refused::Lattice(LatticeError::TooManyRecords { .. }))
        ));
        curator.charge_simulated(three, records, z).unwrap();
        assert_eq!(curator.spent().leaves(), [(event, 1)]);
    }
}
