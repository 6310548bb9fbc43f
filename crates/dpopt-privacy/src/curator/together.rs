//! A curator that is one of several, each of which has a part of the records.

use std::fmt;
use std::ops::Range;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::exchange::{ExchangeError, Together};
use crate::guarantee::Mode;
use crate::lattice::Bound;
use crate::noise::{Key, StreamIds};
use crate::order::Numbering;
use crate::refused::Refused;
use crate::slice::PoolError;
use crate::ticket::{self, Price};

use super::Curator;

impl Curator {
    /// This curator as one of those of several ranks, each of which has a part of the records: sums are added over all ranks before noise.
    /// To be called on all ranks, before anything else is asked of the curator.
    ///
    /// # Privacy
    /// A protected curator takes the key of the first rank, so that all draw the same samples and the same noise; a simulated one has to
    /// have the same seed. A release is charged by the first rank, which alone may keep a ledger, after all ranks have agreed on everything
    /// public so far, and no rank draws noise before it was told that the charge is written. See `docs/privacy/interfaces.md`.
    ///
    /// # Errors
    /// [`ExchangeError::TooLate`], [`ExchangeError::Disagree`] for other adjacencies, modes or seeds, and what the exchange gives.
    pub fn joined(mut self, together: &Together) -> Result<Self, Refused> {
        let begun = self.turn > 0
            || self.streams != StreamIds::new()
            || self.ledger.is_some()
            || self.pool.is_some()
            || !self.reserved.is_empty()
            || self.together.is_some();
        let fresh = match begun {
            true => Err(Refused::from(ExchangeError::TooLate)),
            false => self.key.check_process().map_err(Refused::from),
        };
        together.all_of("the curators joined", fresh)?;
        let (adjacency, mode) = (self.adjacency, self.mode);
        together.agree_on("the adjacency", &adjacency)?;
        together.agree_on("the kind of run", &format_args!("{mode:?}"))?;
        match mode {
            Mode::Protected => {
                let mut words = self.key.words();
                together.of_rank(0, "the key", &mut *words)?;
                self.key = Key::of_words(&words, self.key.origin());
            }
            Mode::Simulated | Mode::Replay => {
                let mut hasher = Sha256::new();
                self.key
                    .words()
                    .iter()
                    .for_each(|word| hasher.update(word.to_le_bytes()));
                let hash: [u8; 32] = hasher.finalize().into();
                together.agree_on("the seed", &format_args!("{hash:?}"))?;
            }
        }
        self.together = Some(together.clone());
        Ok(self)
    }

    /// The ranks that it is one of the curators of; none for one that is alone.
    #[must_use]
    pub fn together(&self) -> Option<&Together> {
        self.together.as_ref()
    }

    /// The sum over all ranks of what each has sealed, for a release of this price.
    pub(super) fn whole(
        &self,
        own: Zeroizing<Vec<i64>>,
        price: &Price,
        bound: Bound,
    ) -> Result<Zeroizing<Vec<i64>>, Refused> {
        if let Some(together) = &self.together {
            let (event, account, turn) = (&price.event, &price.account, self.turn);
            together.note(&format_args!("{event:?} {account:?} {turn} {bound:?}"));
        }
        Ok(ticket::whole(own, self.together.as_ref())?)
    }

    /// What shapes a release beside its price: compared before its noise is drawn.
    pub(super) fn note(&self, shape: &dyn fmt::Display) {
        if let Some(together) = &self.together {
            together.note(shape);
        }
    }

    /// As [`Curator::note`], of all of these.
    pub(super) fn note_all(&self, shape: &dyn fmt::Debug) {
        self.note(&format_args!("{shape:?}"));
    }

    /// As [`Curator::note`], of numbers.
    pub(super) fn note_numbers(&self, numbers: &[f64]) {
        if let Some(together) = &self.together {
            together.note_numbers(numbers);
        }
    }

    /// Refuses integers that are not the same on all ranks: those of a claim, which each has for all records.
    pub(super) fn same_on_all_ranks(&self, integers: &[i64]) -> Result<(), Refused> {
        if let Some(together) = &self.together {
            let mut hasher = Sha256::new();
            // They have no noise: without the key nobody can compare a guess with what crosses the wire.
            let words = self.key.words();
            words.iter().for_each(|k| hasher.update(k.to_le_bytes()));
            integers.iter().for_each(|k| hasher.update(k.to_le_bytes()));
            let hash: [u8; 32] = hasher.finalize().into();
            together.agree_on(
                "an output of claimed sensitivity",
                &format_args!("{hash:?}"),
            )?;
        }
        Ok(())
    }

    /// Refuses to go on unless the ranks, where there are several, say the same here.
    pub(super) fn agree(&self, what: &'static str, said: &dyn fmt::Display) -> Result<(), Refused> {
        match &self.together {
            Some(together) => Ok(together.agree_on(what, said)?),
            None => Ok(()),
        }
    }

    /// Goes on where this succeeded on all ranks.
    pub(super) fn on_all_ranks<T>(
        &self,
        what: &'static str,
        outcome: Result<T, Refused>,
    ) -> Result<T, Refused> {
        match &self.together {
            Some(together) => together.all_of(what, outcome),
            None => outcome,
        }
    }

    /// What was released, noted: all ranks have the same.
    pub(super) fn noted(&self, released: Vec<f64>) -> Vec<f64> {
        if let Some(together) = &self.together {
            together.note_numbers(&released);
        }
        released
    }

    /// The next records that the ledger has not handed out, of which the first rank tells the others.
    pub(super) fn claim_records(
        &mut self,
        name: &str,
        count: u64,
        (records, numbering): (u64, Numbering),
    ) -> Result<Range<u64>, Refused> {
        let said = format_args!("{name} {count} {records} {numbering}");
        self.agree("the records that are claimed", &said)?;
        let alone = self.together.is_none();
        let claimed = match &mut self.ledger {
            Some(ledger) => ledger
                .claim_records(name, count, records, numbering)
                .map_err(Refused::from),
            None if self.together.as_ref().is_some_and(|all| !all.is_first()) => Ok(0..0),
            None => Err(PoolError::NoLedger.into()),
        };
        let claimed = self.on_all_ranks("the claim was written", claimed)?;
        if alone {
            return Ok(claimed);
        }
        let mut ends = [claimed.start, claimed.end];
        if let Some(together) = &self.together {
            together.of_rank(0, "the claimed records", &mut ends)?;
        }
        Ok(ends[0]..ends[1])
    }

    /// What the first rank knows, which has the ledger; nothing is known where the ranks can't ask it.
    pub(super) fn as_the_first_rank_knows(&self, own: bool) -> bool {
        let Some(together) = &self.together else {
            return own;
        };
        let mut known = [u64::from(own)];
        let told = together.of_rank(0, "what is known of the records", &mut known);
        told.is_ok() && known == [1]
    }
}

#[cfg(test)]
mod tests;
