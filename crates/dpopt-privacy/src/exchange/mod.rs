//! Several ranks that make one run: each holds a part of the records, and sums are added over all ranks before noise.
//!
//! Every rank runs the same program on the same public values. The ranks' curators have one key, so that they draw the same samples and
//! the same noise without talking; what crosses the wire is sums in integers, which do not depend on order, and hashes of what was agreed
//! so far. The argument is in `docs/privacy/interfaces.md`.

mod error;
mod threads;

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

pub use error::ExchangeError;
pub use threads::ThreadRanks;

/// What carries integers between the ranks of a run.
///
/// All ranks make the same calls in the same order, with as many words.
pub trait Exchange: Send + Sync {
    /// This rank, from 0 on.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Adds the words of all ranks, each word for itself and modulo 2^64, and leaves the sums on every rank.
    ///
    /// # Errors
    /// [`ExchangeError`], on this rank. An implementation has a limit of time: where a rank is dead or hangs, the others don't wait for ever.
    fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError>;
}

/// Words of a round in which ranks agree: how many have failed, the sum of their numbers (counted from 1), how many leave, and four words of
/// the hash.
const ROUND: usize = 7;

/// The ranks of one run, as one of them sees them. Clones are the same.
///
/// When the last of them is dropped, the other ranks are told: a rank that ends with an error of its own, or unwinds, ends the run on all.
///
/// # Privacy
/// Ranks trust each other: each has the key, and the sums of all ranks without noise. They go on
/// only while they agree on everything that is public, and no rank draws noise before the first
/// rank has charged for it.
#[derive(Clone)]
pub struct Together(Arc<Ranks>);

struct Ranks {
    exchange: Box<dyn Exchange>,
    state: Mutex<State>,
}

struct State {
    /// The hash of everything that was said so far.
    said: [u8; 32],
    /// The error that has ended the run: what every later call says again.
    parted: Option<ExchangeError>,
    traffic: Traffic,
}

/// How a rank stands in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Fine,
    /// It has an error, and comes to the next round.
    Failed,
    /// It does not come to the next round.
    Leaves,
}

/// What was exchanged so far, but for the runs among which a choice of the best of several is made, whose number is
/// secret: public.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reductions over all ranks.
    pub rounds: u64,
    /// Words of 8 bytes that each rank gave to them.
    pub words: u64,
}

impl Together {
    /// The ranks that `exchange` joins, which run the same version of this crate.
    ///
    /// # Errors
    /// [`ExchangeError`], on all ranks.
    pub fn new(exchange: Box<dyn Exchange>) -> Result<Self, ExchangeError> {
        if exchange.rank() >= exchange.ranks() {
            return Err(ExchangeError::NoSuchRank {
                rank: exchange.rank(),
                ranks: exchange.ranks(),
            });
        }
        let together = Self(Arc::new(Ranks {
            exchange,
            state: Mutex::new(State {
                said: [0; 32],
                parted: None,
                traffic: Traffic::default(),
            }),
        }));
        together.agree_on("the version", &env!("CARGO_PKG_VERSION"))?;
        Ok(together)
    }

    /// This rank, from 0 on.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.exchange.rank()
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.0.exchange.ranks()
    }

    /// Whether this is the rank that keeps the ledger and tells the results.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// What was exchanged so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.0.state().traffic
    }

    /// Whether both are the same ranks of one run.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Notes something that is public and has to be the same on all ranks. They compare it when they agree the next time.
    pub fn note(&self, what: &dyn fmt::Display) {
        self.0.state().say(|hasher| {
            // Never fails.
            let _ = write!(Hashed(hasher), "{what}\u{0}");
        });
    }

    /// As [`Together::note`], of numbers with all their bits.
    pub fn note_numbers(&self, numbers: &[f64]) {
        self.0.state().say(|hasher| {
            hasher.update((numbers.len() as u64).to_le_bytes());
            for x in numbers {
                hasher.update(x.to_bits().to_le_bytes());
            }
        });
    }

    /// Refuses to go on unless all ranks say the same here, and have said the same so far.
    ///
    /// # Errors
    /// [`ExchangeError::Disagree`] on all ranks, and [`ExchangeError::Elsewhere`] where a rank has failed.
    pub fn agree_on(
        &self,
        what: &'static str,
        said: &dyn fmt::Display,
    ) -> Result<(), ExchangeError> {
        self.note(said);
        self.agree(what)
    }

    /// As [`Together::agree_on`], on what was said so far. `what` comes next, for messages.
    ///
    /// # Errors
    /// As there.
    pub fn agree(&self, what: &'static str) -> Result<(), ExchangeError> {
        self.0.round(what, Standing::Fine)
    }

    /// Tells all ranks whether this succeeded on each of them, and goes on where it did.
    ///
    /// # Errors
    /// The error of this rank; [`ExchangeError::Elsewhere`] where only others have one.
    pub fn all_of<T, E: From<ExchangeError>>(
        &self,
        what: &'static str,
        outcome: Result<T, E>,
    ) -> Result<T, E> {
        let told = match &outcome {
            Ok(_) => Standing::Fine,
            Err(_) => Standing::Failed,
        };
        let told = self.0.round(what, told);
        let value = outcome?;
        told.map(|()| value).map_err(E::from)
    }

    /// The sums over all ranks of integers that fit 64 bits when added. They are **secret** as the sum of all records is, and so is what
    /// stands in `integers` before.
    ///
    /// # Errors
    /// As [`Together::agree_on`].
    pub(crate) fn sum(
        &self,
        what: &'static str,
        integers: &mut [i64],
    ) -> Result<(), ExchangeError> {
        let mut words: Zeroizing<Vec<u64>> =
            Zeroizing::new(integers.iter().map(|&k| k as u64).collect());
        self.words(what, &mut words)?;
        for (k, word) in integers.iter_mut().zip(words.iter()) {
            *k = *word as i64;
        }
        Ok(())
    }

    /// The words of the rank `from`, on all ranks: those that the others have here are overwritten.
    ///
    /// # Errors
    /// As [`Together::agree_on`].
    pub fn of_rank(
        &self,
        from: usize,
        what: &'static str,
        words: &mut [u64],
    ) -> Result<(), ExchangeError> {
        if self.rank() != from {
            words.zeroize();
        }
        self.words(what, words)
    }

    /// One number of each rank, on all ranks.
    ///
    /// # Errors
    /// As [`Together::agree_on`].
    pub fn of_each(&self, what: &'static str, own: u64) -> Result<Vec<u64>, ExchangeError> {
        let mut words = vec![0; self.ranks()];
        words[self.rank()] = own;
        self.words(what, &mut words)?;
        Ok(words)
    }

    fn words(&self, what: &'static str, words: &mut [u64]) -> Result<(), ExchangeError> {
        // As many on all ranks, or an error on all of them.
        self.note(&format_args!("{} words", words.len()));
        // Nothing of another thread comes between the two.
        let mut state = self.0.state();
        self.0.round_in(&mut state, what, Standing::Fine)?;
        self.0.add(&mut state, words)
    }

    /// Whether all ranks have failed, of which this one has: then they may go on, together.
    ///
    /// # Errors
    /// As [`Together::agree_on`], where they can't.
    pub(crate) fn all_failed(&self) -> Result<(), ExchangeError> {
        let ranks = self.ranks() as u64;
        match self.0.round("the run had an error", Standing::Failed) {
            Err(ExchangeError::Elsewhere { failures, .. }) if failures == ranks => Ok(()),
            other => other,
        }
    }

    /// What `of` makes, without counting its rounds: how many runs a choice among several makes is secret.
    pub(crate) fn uncounted<T>(&self, of: impl FnOnce() -> T) -> T {
        let before = self.traffic();
        let made = of();
        self.0.state().traffic = before;
        made
    }
}

impl fmt::Debug for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.ranks())
    }
}

impl Ranks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, state: &mut State, words: &mut [u64]) -> Result<(), ExchangeError> {
        if let Some(error) = state.parted {
            return Err(error);
        }
        state.traffic.rounds += 1;
        state.traffic.words += words.len() as u64;
        let added = self.exchange.add(words);
        state.parted = added.err();
        added
    }

    /// A round in which ranks compare what they have said, and say whether they have failed.
    fn round(&self, what: &'static str, standing: Standing) -> Result<(), ExchangeError> {
        self.round_in(&mut self.state(), what, standing)
    }

    fn round_in(
        &self,
        state: &mut State,
        what: &'static str,
        standing: Standing,
    ) -> Result<(), ExchangeError> {
        let ranks = self.exchange.ranks() as u64;
        state.say(|hasher| hasher.update(what));
        let own = words_of(&state.said);
        let mut words = [0; ROUND];
        if standing != Standing::Fine {
            words[..2].copy_from_slice(&[1, self.exchange.rank() as u64 + 1]);
        }
        words[2] = u64::from(standing == Standing::Leaves);
        words[3..].copy_from_slice(&own);
        self.add(state, &mut words)?;
        let [failures, numbers, leaving, said @ ..] = words;
        if failures > 0 {
            let rank = (failures == 1).then(|| (numbers as usize).saturating_sub(1));
            let error = ExchangeError::Elsewhere {
                failures,
                rank,
                what,
            };
            // Who has left does not come to the next round. Else, whether they go on together is for the callers: all of them know.
            state.parted = (leaving > 0).then_some(error);
            return Err(error);
        }
        if said == own.map(|word| word.wrapping_mul(ranks)) {
            return Ok(());
        }
        // All ranks see it: which hashes differ in a way that some rank does not is a matter of 256 bits of a hash.
        let mut each = vec![0; ranks as usize];
        each[self.exchange.rank()] = own[0];
        self.add(state, &mut each)?;
        let mut others = each
            .iter()
            .enumerate()
            .filter(|(_, word)| **word != each[0]);
        let first = others.next().map_or(0, |(rank, _)| rank);
        let error = ExchangeError::Disagree {
            what,
            differ: usize::from(first > 0) + others.count(),
            first,
            ranks: each.len(),
        };
        state.parted = Some(error);
        Err(error)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if self.exchange.ranks() > 1 {
            // At the end of a run all of them come here; after an error of its own, one of them. There is nobody to tell of a failure.
            let _ = self.round("the end", Standing::Leaves);
        }
    }
}

impl State {
    fn say(&mut self, what: impl FnOnce(&mut Sha256)) {
        let mut hasher = Sha256::new();
        hasher.update(self.said);
        what(&mut hasher);
        self.said = hasher.finalize().into();
    }
}

fn words_of(hash: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(hash.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

struct Hashed<'h>(&'h mut Sha256);

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
