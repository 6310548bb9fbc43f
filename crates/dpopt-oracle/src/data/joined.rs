//! Records on several ranks.

use std::ops::Range;
use std::sync::atomic::Ordering;

use dpopt_privacy::{Curator, ExchangeError, MAX_RECORDS, Refused, Together};

use super::PrivateData;
use crate::data_error::DataError;
use crate::oracle::OracleFacts;
use crate::positions::Places;
use crate::records::Records;
use crate::shard::{Here, Own, Shard};

impl<R: Records> PrivateData<R> {
    /// These records as the part that this rank has of those of all ranks: first those of rank 0, in their order, then those of rank 1, and
    /// so on. To be called on all ranks, before anything is done with the records.
    ///
    /// Releases are the same, to the bit, as those of one process that has all records in this order. (Not so gradients of an
    /// [`crate::Mlp`] in memory, where positions are fixed: those are added in single precision there, and record by record here, as from
    /// a file.)
    ///
    /// # Privacy
    /// The public number of records is that of all ranks. Under add/remove it is the declared one, which has to be the same on all ranks;
    /// how many each of them has crosses the wire, as sums without noise do, and no rank shows it. See
    /// `docs/privacy/interfaces.md`.
    ///
    /// # Errors
    /// [`DataError::Exchange`] where ranks disagree, and for more records than a sum can hold; [`DataError::JoinedLate`].
    pub fn joined(mut self, together: &Together) -> Result<Self, DataError> {
        let late = self.shard.is_some()
            || self.order.is_some()
            || self.part.is_some()
            || self.asked.load(Ordering::Relaxed);
        let fresh = match late {
            true => Err(DataError::JoinedLate),
            false => Ok(()),
        };
        together.all_of("the records were joined", fresh)?;
        together.agree_on("the adjacency of the records", &self.adjacency)?;
        together.agree_on("whether the records were declared made-up", &self.made_up)?;
        if !self.adjacency.record_count_is_public() {
            together.agree_on("the declared number of records", &self.public_records)?;
        }
        let own = self.here() as u64;
        let sizes = together.of_each("the records of each rank", own)?;
        let total = sizes.iter().fold(0u64, |all, one| all.saturating_add(*one));
        if total > MAX_RECORDS {
            return Err(DataError::TooManyRecords);
        }
        if self.adjacency.record_count_is_public() {
            self.public_records = total;
        }
        let start = sizes.iter().take(together.rank()).sum::<u64>() as usize;
        let own = Own::Range(start..start + own as usize);
        let placed = match &mut self.stored {
            Some(stored) => {
                stored.place_from(start);
                true
            }
            None => self.records.place(&|i| own.slot(i)),
        };
        self.shard = Some(Shard {
            together: together.clone(),
            total,
            own,
            placed,
        });
        Ok(self)
    }

    /// The ranks that they are a part of the records of; none where they are all.
    #[must_use]
    pub fn together(&self) -> Option<&Together> {
        self.shard.as_ref().map(|shard| &shard.together)
    }

    /// How many records this rank has. Private under add/remove, and on several ranks.
    pub(crate) fn here(&self) -> usize {
        match self.stored() {
            Some(stored) => stored.len(),
            None => self.records.len(),
        }
    }

    /// Which records are here, where not all are.
    pub(crate) fn shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    /// Positions of the records that are here, where not all are and these are neighbours.
    pub(crate) fn run_here(&self) -> Option<&Range<usize>> {
        match &self.shard.as_ref()?.own {
            Own::Range(run) => Some(run),
            Own::Listed(_) => None,
        }
    }

    /// The places of a release that this rank has.
    pub(crate) fn here_of<'p>(&self, places: Places<'p>) -> Here<'p> {
        match &self.shard {
            Some(shard) => shard.own.here(places),
            None => Here::Same(places),
        }
    }

    /// Whether records know where they are among those of all ranks.
    pub(crate) fn knows_positions(&self) -> bool {
        self.shard.as_ref().is_none_or(|shard| shard.placed)
    }

    /// Refuses to go on where ranks have other public facts.
    pub(crate) fn agree_on(&self, facts: &OracleFacts) -> Result<(), ExchangeError> {
        match self.together() {
            Some(together) => {
                let what = "the public facts of the records and the loss";
                together.agree_on(what, &format_args!("{facts:?}"))
            }
            None => Ok(()),
        }
    }

    /// Refuses a curator of other ranks: the sums of one would lack records, or have them several times.
    pub(super) fn check_ranks(&self, curator: &Curator) -> Result<(), Refused> {
        match (self.together(), curator.together()) {
            (None, None) => Ok(()),
            (Some(own), Some(other)) if own.is(other) => Ok(()),
            (own, other) => Err(ExchangeError::Strangers {
                records: own.is_some(),
                curator: other.is_some(),
            }
            .into()),
        }
    }
}
