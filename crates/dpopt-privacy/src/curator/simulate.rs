//! The books of a simulation, whose releases are made elsewhere.

use super::{Account, Curator, Refused, Slice};
use crate::event::Event;
use crate::guarantee::Mode;

impl Curator {
    /// Takes `event` off the reservation as if this curator had made that release: on all records
    /// or on a sample of them, or on the share of `slice`. Nothing is released.
    ///
    /// A simulation with weighted records or a closed form draws floating-point noise itself, and
    /// has its books kept here, by the rules of a protected run.
    ///
    /// # Privacy
    /// None. A simulated curator states no guarantee, and no other one takes this.
    ///
    /// # Errors
    /// [`Refused::NotSimulated`] in a protected run; otherwise as [`Curator::release`], and nothing
    /// is charged then.
    pub fn charge_simulated(
        &mut self,
        event: &Event,
        slice: Option<&Slice>,
    ) -> Result<(), Refused> {
        if self.mode != Mode::Simulated {
            return Err(Refused::NotSimulated);
        }
        let account = match slice {
            Some(slice) => self.account_of(slice.pool(), slice.number())?,
            None => Account::Whole,
        };
        self.charge(event, account)
    }
}
