//! What an oracle keeps beside its records: the curator, the counts and the pool.

use std::num::NonZeroUsize;

use dpopt_privacy::{Curator, Event, Refused, Slice, Spend};
use serde::Serialize;

use crate::query::Offsets;

/// Nominal oracle counts: computed from public sizes and rates. What a Poisson sample really held
/// is secret.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Noisy releases.
    pub releases: u64,
    /// Records read, each as often as a release read it.
    pub records: f64,
    /// Per-record gradients, two for each record of a difference query.
    pub gradients: f64,
    /// Per-record values that were asked for beside gradients.
    pub values: f64,
    /// Per-record gradients over the public number of records.
    pub passes: f64,
}

/// The curator that pays for an oracle's answers, and what was asked of it so far.
///
/// # Privacy
/// Nothing here reads a record. What is drawn ([`Books::draw_index`], [`Books::draw_normals`]) is independent of the
/// records and public; it is not the noise of a release.
pub struct Books {
    curator: Curator,
    records: u64,
    argument: Option<&'static str>,
    counts: Counts,
}

impl Books {
    /// Of `curator`, for a public number of records.
    #[must_use]
    pub fn new(curator: Curator, records: u64) -> Self {
        Self {
            curator,
            records,
            argument: None,
            counts: Counts::default(),
        }
    }

    /// Answers rest on `argument`, which reservations then name ([`Curator::reserve_claimed`]).
    #[must_use]
    pub fn resting_on(self, argument: &'static str) -> Self {
        Self {
            argument: Some(argument),
            ..self
        }
    }

    /// Sets aside what a run will spend, before its first release.
    ///
    /// # Errors
    /// [`Refused`] when the budget can't pay.
    pub fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        match self.argument {
            Some(argument) => self.curator.reserve_claimed(spend, argument),
            None => self.curator.reserve(spend),
        }
    }

    /// What the run has spent so far: [`Curator::used`].
    #[must_use]
    pub fn used(&self) -> Event {
        self.curator.used()
    }

    /// Ends the run and says what was spent.
    ///
    /// # Errors
    /// [`Refused`] when a shared budget can't be written; the reservation then stands.
    pub fn settle(&mut self) -> Result<Event, Refused> {
        self.curator.settle()
    }

    /// [`Books::settle`], after an error: see [`Curator::settle_after_error`].
    ///
    /// # Errors
    /// As there.
    pub fn settle_after_error(&mut self) -> Result<Event, Refused> {
        self.curator.settle_after_error()
    }

    /// Nominal counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts one release over nominally `read` records, with so many gradients and values of each.
    pub fn count(&mut self, read: f64, gradients: f64, values: f64) {
        self.counts.releases += 1;
        self.count_reads(read, gradients, values);
    }

    /// Counts what was read for no release of its own.
    pub fn count_reads(&mut self, read: f64, gradients: f64, values: f64) {
        self.counts.records += read;
        self.counts.gradients += read * gradients;
        self.counts.values += read * values;
        self.counts.passes = self.counts.gradients / self.records as f64;
    }

    /// Records of the pool that no slice holds yet; all, before the pool is opened.
    #[must_use]
    pub fn records_left(&self) -> u64 {
        if self.pool_is_open() {
            self.curator.records_left()
        } else {
            self.records
        }
    }

    /// Takes the next `len` unread records of the pool, to read them as often as is paid for.
    ///
    /// # Errors
    /// [`Refused::Pool`] when fewer are left (they stay available), for none, and under an adjacency without fixed
    /// positions.
    pub fn take_slice(&mut self, len: u64) -> Result<Slice, Refused> {
        self.open_pool()?;
        Ok(self.curator.take_slice(len)?)
    }

    /// Opens the pool of all records, unless the owner of the curator has (to skip records that were read before).
    ///
    /// # Errors
    /// [`Refused::Pool`] under an adjacency without fixed positions.
    pub fn open_pool(&mut self) -> Result<(), Refused> {
        if self.pool_is_open() {
            return Ok(());
        }
        Ok(self.curator.open_pool(self.records, 0)?)
    }

    fn pool_is_open(&self) -> bool {
        self.curator.records_left() > 0 || self.curator.records_taken() > 0
    }

    /// A number below `bound`, uniform and independent of the records.
    pub fn draw_index(&mut self, bound: u64) -> u64 {
        self.curator.draw_index(bound)
    }

    /// Fills `out` with standard normals that are independent of the records: public, for perturbations.
    ///
    /// # Errors
    /// [`Refused`] when there are none left.
    pub fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused> {
        self.curator.draw_normals(out)
    }

    /// Fills `out` with a uniform vector of the ball of this radius, independent of the records: public, as are [`Offsets`], of which it is
    /// one.
    ///
    /// # Errors
    /// As [`Books::draw_normals`].
    pub fn draw_in_ball(&mut self, radius: f64, out: &mut [f64]) -> Result<(), Refused> {
        let one = NonZeroUsize::MIN;
        let drawn = Offsets::draw(&mut self.curator, out.len(), radius, one)?;
        out.copy_from_slice(drawn.of(0));
        Ok(())
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        &self.curator
    }

    /// The curator, to open a pool, and for what is released beside this oracle's answers.
    pub fn curator_mut(&mut self) -> &mut Curator {
        &mut self.curator
    }

    /// The curator again.
    #[must_use]
    pub fn into_curator(self) -> Curator {
        self.curator
    }
}
