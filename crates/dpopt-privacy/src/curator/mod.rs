//! The curator: the only reader of sensitive values.
//!
//! A run reserves what its plan will spend, then releases. Each release adds exact rounded
//! Gaussian noise to an exact sum, derives its own event and takes it off the reservation; what
//! was not reserved is refused before any noise is drawn.

mod allocated;
mod audit;
mod chain;
mod grant;
mod inner;
mod made;
mod period;
mod prefix;
mod price;
mod reservation;
mod sampling;
mod select;
mod simulate;
mod together;
mod tune;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::exchange::{ExchangeError, Together};
use crate::guarantee::{Guarantee, Mode};
use crate::ledger::{Ledger, LedgerError};
use crate::noise::{Key, KeyedStream, Purpose, ReplayKeyForTests, StreamId, StreamIds};
use crate::order::Numbering;
use crate::refused::Refused;
use crate::replay::Seat;
use crate::slice::{Pool, PoolError, Slice};
use crate::units::Delta;
use crate::which::Account;
use dpopt_lanes::Threads;

use allocated::Allocated;
pub use audit::{ReplayError, ReplayForAudits};
use inner::Inner;
pub use period::Prefix;
pub use reservation::{AtMostThen, SliceCap, Spend};
use reservation::{Place, Reservation, all_of};
pub use tune::{InnerRun, TuningInParts};

/// Holds the key, what the run may still spend and, if there is one, the shared ledger.
///
/// # Privacy
/// The sequence reserve, (grant, redeem)..., settle is charged as follows. The reservation is
/// written to the shared ledger, and synced, before the first release. A release is matched
/// against the reservation by its derived event: (records read, noise multiplier). Its noise has
/// standard deviation at least noise multiplier x sensitivity, rounded up. The argument is in
/// `docs/privacy/curator.md`.
pub struct Curator {
    /// Unique in the process.
    id: u64,
    adjacency: Adjacency,
    mode: Mode,
    key: Key,
    streams: StreamIds,
    ledger: Option<Ledger>,
    reservation: Option<Reservation>,
    reserved: Vec<Event>,
    /// What was said before the first release to be reserved later, in this order; it is in `reserved`.
    promised: VecDeque<Event>,
    /// What settled reservations have spent.
    settled: Vec<Event>,
    pool: Option<Pool>,
    /// Numbers of the slices that something was released of.
    read: BTreeSet<u64>,
    /// Whether a reservation was made after a release, so that its terms may depend on it.
    adaptive: bool,
    /// Counts what it grants, charges, reserves and settles: a ticket is good for one turn.
    turn: u64,
    /// For one inner run of repeat-and-select, which has one reservation.
    inner: Option<Inner>,
    /// What the reservations rest on that is claimed and not enforced.
    claims: BTreeSet<&'static str>,
    /// The random allocations that have steps left.
    allocated: Allocated,
    /// Those that may draw noise.
    threads: Threads,
    /// In an audit: its place at the tape.
    replay: Option<Seat>,
    /// The ranks that hold the records, where there are several.
    together: Option<Together>,
}

/// Numbers curators: no other one of this process has the same.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Curator {
    /// A curator for a protected run, keyed by the operating system.
    ///
    /// # Errors
    /// [`Refused::Noise`] when the operating system has no random bytes.
    pub fn protected(adjacency: Adjacency) -> Result<Self, Refused> {
        Ok(Self::with_key(adjacency, Mode::Protected, Key::from_os()?))
    }

    /// A curator whose noise anybody can repeat from `seed`. The mechanism is the same; it gives
    /// no guarantee.
    #[must_use]
    pub fn simulated(adjacency: Adjacency, seed: u64) -> Self {
        let key = ReplayKeyForTests::from_seed(seed).into_key();
        Self::with_key(adjacency, Mode::Simulated, key)
    }

    fn with_key(adjacency: Adjacency, mode: Mode, key: Key) -> Self {
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            adjacency,
            mode,
            key,
            streams: StreamIds::new(),
            ledger: None,
            reservation: None,
            reserved: Vec::new(),
            settled: Vec::new(),
            pool: None,
            read: BTreeSet::new(),
            promised: VecDeque::new(),
            adaptive: false,
            turn: 0,
            inner: None,
            claims: BTreeSet::new(),
            allocated: Allocated::default(),
            threads: Threads::one(),
            replay: None,
            together: None,
        }
    }

    /// Draws noise from up to `threads` threads; one without this call. What is released does not
    /// depend on it.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.set_threads(threads);
        self
    }

    /// As [`Curator::with_threads`], for a curator that is in use.
    pub fn set_threads(&mut self, threads: NonZeroUsize) {
        self.share_threads(Threads::new(threads));
    }

    /// Draws noise from threads that others use too.
    pub fn share_threads(&mut self, threads: Threads) {
        self.threads = threads;
    }

    /// Charges this curator's runs to a budget that several runs share.
    ///
    /// # Errors
    /// [`LedgerError::AdjacencyMismatch`] when the ledger is for another adjacency;
    /// [`LedgerError::Simulated`] for a simulation or a replay, whose releases nothing protects;
    /// [`LedgerError::TooLate`] when something was reserved, or another ledger attached, before, and in an inner run of
    /// repeat-and-select; [`LedgerError::Exchange`] on another rank than the first.
    pub fn with_ledger(mut self, mut ledger: Ledger) -> Result<Self, LedgerError> {
        ledger.check_adjacency(self.adjacency)?;
        if self.mode != Mode::Protected {
            return Err(LedgerError::Simulated);
        }
        // An inner run is paid for by the curator that selects.
        if !self.reserved.is_empty() || self.ledger.is_some() || self.inner.is_some() {
            return Err(LedgerError::TooLate);
        }
        if let Some(rank) = self
            .together
            .as_ref()
            .map(Together::rank)
            .filter(|rank| *rank > 0)
        {
            return Err(ExchangeError::LedgerElsewhere { rank }.into());
        }
        ledger.state()?;
        self.ledger = Some(ledger);
        Ok(self)
    }

    /// The neighbouring relation of everything this curator releases.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// Protected, simulated, or a replay for an audit.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets aside what a run will spend, before its first release.
    ///
    /// # Errors
    /// [`Refused`] when the shared ledger can't pay, a reservation is open, the event holds
    /// something that no method of the curator can release, or the process is a fork of the one
    /// that made the curator.
    pub fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.open_reservation(spend, None)
    }

    /// As [`Curator::reserve`], for a run in several parts: `later` are the reservations of the others, which are to be made in this
    /// order, each after the one before was settled.
    ///
    /// # Privacy
    /// A part may be planned from what those before it released, but not its multipliers and counts: those are in `later`, so the
    /// whole is fixed before the first release, and the guarantee is for all of it, whether the later parts are reserved or not. A
    /// reservation that is not the next of them is one after a release, as any other. A shared ledger pays for each part when that is
    /// reserved, and may refuse the later ones.
    ///
    /// # Errors
    /// As [`Curator::reserve`].
    pub fn reserve_then(&mut self, spend: &Spend, later: &[Spend]) -> Result<(), Refused> {
        let later = self.parts(later)?;
        if self.inner.is_some() {
            return Err(Refused::InnerRun);
        }
        self.open_reservation(spend, None)?;
        self.promise_parts(later);
        Ok(())
    }

    /// As [`Curator::reserve_then`], where the first part is reserved by somebody else: a run that is followed by a release.
    ///
    /// # Privacy
    /// As there. Parts that are named after a release are reservations after a release, as any others.
    ///
    /// # Errors
    /// As [`Curator::reserve`], for an event that can't be released.
    pub fn promise(&mut self, parts: &[Spend]) -> Result<(), Refused> {
        let parts = self.parts(parts)?;
        if self.inner.is_some() {
            return Err(Refused::InnerRun);
        }
        self.adaptive |= self.spent() != Event::NoOp;
        self.promise_parts(parts);
        Ok(())
    }

    fn parts(&self, parts: &[Spend]) -> Result<Vec<Reservation>, Refused> {
        parts
            .iter()
            .map(|spend| Reservation::new(spend, self.adjacency))
            .collect()
    }

    fn promise_parts(&mut self, parts: Vec<Reservation>) {
        for part in parts {
            self.reserved.push(part.event.clone());
            self.promised.push_back(part.event);
        }
    }

    /// As [`Curator::reserve`], for a run that makes releases whose sensitivity is claimed
    /// ([`Curator::grant_claimed`]) and rests on `argument`.
    ///
    /// # Privacy
    /// From here on, guarantees of this curator name `argument` in [`Guarantee::rests_on`], and so does the line of the
    /// shared ledger, whose total rests on it from then on.
    ///
    /// # Errors
    /// As [`Curator::reserve`].
    pub fn reserve_claimed(
        &mut self,
        spend: &Spend,
        argument: &'static str,
    ) -> Result<(), Refused> {
        self.open_reservation(spend, Some(argument))
    }

    fn open_reservation(
        &mut self,
        spend: &Spend,
        argument: Option<&'static str>,
    ) -> Result<(), Refused> {
        self.key.check_process()?;
        self.may_go_on()?;
        if let Some(inner) = &self.inner
            && !(argument.is_none() && inner.may_reserve.contains(spend))
        {
            return Err(Refused::InnerRun);
        }
        if self.reservation.is_some() {
            return Err(Refused::AlreadyReserved);
        }
        let mut reservation = Reservation::new(spend, self.adjacency)?;
        reservation.rests_on = argument;
        self.agree("what is reserved", &format_args!("{:?}", reservation.event))?;
        let written = match &mut self.ledger {
            Some(ledger) => {
                let claimed = self.pool.as_ref().is_some_and(Pool::of_ledger);
                let noise = reservation.noise();
                let written = ledger.reserve(&reservation.event, &noise, claimed);
                written.map(Some).map_err(Refused::from)
            }
            None => Ok(None),
        };
        reservation.in_ledger = self.on_all_ranks("the reservation was written", written)?;
        self.claims.extend(argument);
        if self.promised.front() == Some(&reservation.event) && argument.is_none() {
            self.promised.pop_front();
        } else {
            self.adaptive |= self.spent() != Event::NoOp;
            self.reserved.push(reservation.event.clone());
        }
        self.reservation = Some(reservation);
        // An inner run has one.
        if let Some(inner) = &mut self.inner {
            inner.may_reserve.clear();
        }
        self.turn += 1;
        Ok(())
    }

    /// Makes the records at positions 0 to `records` available as disjoint slices, each once and
    /// in order, for single-pass solvers. `skipped` of them, the first ones, were read by earlier
    /// runs and are not handed out again; who says so says it of the numbering that those met them in.
    ///
    /// # Privacy
    /// Which slice a record is in is fixed by its position, so one record touches one slice, and
    /// what the slices cost composes by the worst of them ([`Event::ParallelComposed`]). A position is that of one numbering: the first
    /// release on a slice fixes it, and records in another are refused ([`PoolError::OtherNumbering`]). Under
    /// add-remove adjacency one record shifts every later slice: refused.
    ///
    /// # Errors
    /// [`PoolError::Adjacency`], [`PoolError::SkippedTooMany`], [`PoolError::Twice`] after the
    /// first pool of this curator.
    pub fn open_pool(&mut self, records: u64, skipped: u64) -> Result<(), PoolError> {
        let pool = Pool::new(records, skipped, self.adjacency)?;
        if self.pool.is_some() {
            return Err(PoolError::Twice);
        }
        self.pool = Some(pool);
        Ok(())
    }

    /// As [`Curator::open_pool`], of the next `count` records that the ledger has not handed out
    /// to any run. One synced line of the ledger claims them all, before the first is read; those
    /// that this run leaves unread are forfeited. `name` names a body of `records` records. The ledger keeps their numbering, which is
    /// that of the pool.
    ///
    /// # Errors
    /// As [`Curator::open_pool`]; [`PoolError::NoLedger`] without a ledger;
    /// [`Refused::Ledger`] when fewer than `count` are left, or the file can't be written.
    pub fn open_pool_of_ledger(
        &mut self,
        name: &str,
        records: u64,
        count: u64,
        numbering: Numbering,
    ) -> Result<(), Refused> {
        // Everything else that can fail comes first: a claim is final.
        let mut pool = Pool::new(records, 0, self.adjacency)?;
        if self.pool.is_some() {
            return Err(PoolError::Twice.into());
        }
        let claimed = self.claim_records(name, count, (records, numbering))?;
        pool.narrow(claimed, numbering);
        self.pool = Some(pool);
        Ok(())
    }

    /// Whether it knows of all records of its pool that they were not read before, as far as this process and the ledger tell.
    /// An inner run of repeat-and-select does not: there are others on the same records. Nor does a curator with a ledger that
    /// other runs came before, unless the ledger opened its pool and theirs, and they read nothing else.
    #[must_use]
    pub fn knows_unread(&self) -> bool {
        let claimed = self.pool.as_ref().is_some_and(Pool::of_ledger);
        let ledger = self.ledger.as_ref();
        let own = self.inner.is_none() && ledger.is_none_or(|ledger| ledger.knows_unread(claimed));
        self.as_the_first_rank_knows(own)
    }

    /// The next `len` records of the pool.
    ///
    /// # Errors
    /// [`PoolError::NotOpen`], [`PoolError::EmptySlice`], or [`PoolError::UsedUp`] when fewer are
    /// left; they stay available then.
    pub fn take_slice(&mut self, len: u64) -> Result<Slice, PoolError> {
        self.pool.as_mut().ok_or(PoolError::NotOpen)?.take(len)
    }

    /// Whether something was released of this slice, by this curator; of one of another pool that is not known.
    #[must_use]
    pub fn has_read(&self, slice: &Slice) -> bool {
        let own = self.pool.as_ref().map(Pool::id) == Some(slice.pool());
        !own || self.read.contains(&slice.number())
    }

    /// Records of the pool that no slice holds yet; 0 without a pool.
    #[must_use]
    pub fn records_left(&self) -> u64 {
        self.pool.as_ref().map_or(0, Pool::left)
    }

    /// Positions below this one were handed out, by this curator or before; 0 without a pool.
    #[must_use]
    pub fn records_taken(&self) -> u64 {
        self.pool.as_ref().map_or(0, Pool::next)
    }

    /// [`Curator::settle`], after a run that ended with an error: of several ranks, where the run has one on each. Where it has not, the
    /// others have something else to ask here, and the reservation stands.
    ///
    /// # Errors
    /// As [`Curator::settle`], and [`Refused::Exchange`].
    pub fn settle_after_error(&mut self) -> Result<Event, Refused> {
        if let Some(together) = &self.together {
            together.all_failed()?;
        }
        self.settle()
    }

    /// Closes the reservation, telling the shared ledger what was really spent.
    ///
    /// # Errors
    /// [`Refused::Ledger`] when the ledger can't be written; what was drawn on the reservation then
    /// stays paid. [`Refused::Noise`] in a fork, where nothing is closed: the process that
    /// reserved goes on releasing, and a refund would take the payment from under it.
    pub fn settle(&mut self) -> Result<Event, Refused> {
        self.key.check_process()?;
        let Some(reservation) = self.reservation.take() else {
            return Ok(Event::NoOp);
        };
        self.turn += 1;
        self.allocated.close();
        let event = reservation.used();
        if event != Event::NoOp {
            self.settled.push(event.clone());
        }
        self.agree("what was spent", &format_args!("{event:?}"))?;
        let written = match (&mut self.ledger, reservation.in_ledger) {
            (Some(ledger), Some(id)) => ledger.settle(id, &event).map_err(Refused::from),
            _ => Ok(()),
        };
        self.on_all_ranks("the run was settled", written)?;
        Ok(event)
    }

    /// Everything released so far, as one event.
    #[must_use]
    pub fn spent(&self) -> Event {
        let open = self.reservation.as_ref().map(Reservation::used);
        let open = open.filter(|event| *event != Event::NoOp);
        all_of(self.settled.iter().cloned().chain(open).collect())
    }

    /// What was released on the open reservation so far, as one event.
    #[must_use]
    pub fn used(&self) -> Event {
        let open = self.reservation.as_ref().map(Reservation::used);
        open.unwrap_or(Event::NoOp)
    }

    /// Everything reserved so far, as one event: what the guarantee is stated for.
    #[must_use]
    pub fn reserved(&self) -> Event {
        match self.reserved.as_slice() {
            [one] => one.clone(),
            many => all_of(many.to_vec()),
        }
    }

    /// The guarantee of everything this curator has reserved, at `delta`.
    ///
    /// # Privacy
    /// The accountants compose releases whose multipliers, rates and counts were fixed before the
    /// first of them. What was reserved after a release may depend on it, and then nothing here
    /// bounds the whole: use a curator for each run and a shared ledger, which is a filter.
    ///
    /// # Errors
    /// [`Refused::NoGuarantee`] in a simulation, after a reservation that followed a release, and
    /// in an inner run of repeat-and-select; [`Refused::Accounting`] when no accountant takes the
    /// event.
    pub fn guarantee(&self, delta: Delta) -> Result<Guarantee, Refused> {
        if self.inner.is_some() {
            return Err(Refused::NoGuarantee(
                "the best of several runs is less private than one of them; ask the curator that selects",
            ));
        }
        if self.adaptive {
            return Err(Refused::NoGuarantee(
                "a reservation was made after a release and may depend on it; use one curator for each run and a shared ledger",
            ));
        }
        match self.mode {
            Mode::Protected => Ok(Guarantee::state(
                &self.reserved(),
                delta,
                self.adjacency,
                self.claims.iter().copied().collect(),
            )?),
            Mode::Simulated => Err(Refused::NoGuarantee(
                "the noise of a simulation can be repeated from its seed",
            )),
            Mode::Replay => Err(Refused::NoGuarantee(
                "a replay for an audit shows by how much one record moves a sum",
            )),
        }
    }

    /// Whether a release of `event` would be paid; charges nothing.
    pub(crate) fn check(&mut self, event: &Event, account: &Account) -> Result<(), Refused> {
        self.may_go_on()?;
        if *account == Account::Paid {
            return Ok(());
        }
        find(&mut self.reservation, event, account, self.adjacency).map(|_| ())
    }

    /// Refuses what is asked of the curator of an inner run that is over.
    fn may_go_on(&self) -> Result<(), Refused> {
        match &self.inner {
            Some(inner) if inner.over.load(Ordering::Acquire) => Err(Refused::InnerRunOver),
            _ => Ok(()),
        }
    }

    /// Pays for a release of `event`. To be called when nothing else can fail any more, and before
    /// any noise is drawn.
    pub(crate) fn charge(&mut self, event: &Event, account: &Account) -> Result<(), Refused> {
        self.may_go_on()?;
        self.agree(
            "a release",
            &format_args!("{event:?} {account:?} {}", self.turn),
        )?;
        if *account == Account::Paid {
            self.turn += 1;
            return Ok(());
        }
        let paid = self.reservation.as_ref().and_then(|open| open.in_ledger);
        let place = find(&mut self.reservation, event, account, self.adjacency)?;
        let written = match (&mut self.ledger, paid) {
            (Some(ledger), Some(id)) => ledger
                .note_release(id, event, account)
                .map_err(Refused::from),
            _ => Ok(()),
        };
        match &self.together {
            Some(together) => together.all_of("the release was charged", written)?,
            None => written?,
        }
        place.take(event);
        self.allocated.pay(event, account);
        self.read.extend(account.slices());
        self.turn += 1;
        Ok(())
    }

    /// Does it, and notes a refusal on the tape of an audit, where there is one.
    pub(crate) fn noting<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let outcome = work(self);
        if let (Err(refused), Some(seat)) = (&outcome, &self.replay) {
            seat.refused(refused);
        }
        outcome
    }

    /// The name of a stream that was never used before.
    pub(crate) fn stream_id(&mut self, purpose: Purpose) -> Result<StreamId, Refused> {
        self.may_go_on()?;
        Ok(self.streams.next(purpose)?)
    }

    /// A stream that was never used before.
    pub(crate) fn stream(&mut self, purpose: Purpose) -> Result<KeyedStream, Refused> {
        let id = self.stream_id(purpose)?;
        Ok(self.key.stream(id)?)
    }
}

/// Where an open reservation has room for `event`.
fn find<'a>(
    reservation: &'a mut Option<Reservation>,
    event: &Event,
    account: &'a Account,
    adjacency: Adjacency,
) -> Result<Place<'a>, Refused> {
    match reservation {
        Some(open) => open.find(event, account, adjacency),
        None => Err(Refused::NotReserved {
            event: event.clone(),
            slice: None,
        }),
    }
}

#[cfg(test)]
mod tests;
