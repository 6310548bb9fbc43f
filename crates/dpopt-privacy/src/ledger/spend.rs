//! What a run does with a ledger: reserve, draw, release, settle; and what is done for one that
//! died.
//!
//! A reservation holds the cost of the whole plan, so that a run which starts can finish. What a
//! run may release is what it has drawn: a part of the reservation that is on record, synced,
//! before the first release of it. So the record never says less than was released, and a run
//! that is found dead may be closed at what it drew.

use super::book::{self, Book, End, Entry, dead_runs};
use super::disk::Access;
use super::error::LedgerError;
use super::made::Made;
use super::{Flush, Ledger, random_name};
use crate::event::Event;
use crate::which::Account;

/// Handle of one reservation in a ledger.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReservationId {
    run: u64,
    cost: f64,
}

/// What [`Ledger::reclaim`] took back.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Number of runs that were closed.
    pub runs: u64,
    /// What they had reserved and not drawn, in the filter's unit.
    pub cost: f64,
}

impl Ledger {
    /// Sets aside the cost of `event`; on disk when this returns. `noise` says how the noise of
    /// its releases is made; `claimed` says that slices are of records which this run claimed here.
    /// Runs that died are closed at what they drew.
    pub(crate) fn reserve(
        &mut self,
        event: &Event,
        noise: &str,
        claimed: bool,
    ) -> Result<ReservationId, LedgerError> {
        let cost = self.book.terms.cost(event)?;
        let nonce = random_name()?;
        let (mut file, ending) = self.open_to_append()?;
        let dead = dead_runs(&self.book, self.disk.as_ref());
        let terms = &self.book.terms;
        terms.pay(self.book.used_without(&dead), cost)?;
        let slices = event
            .leaves()
            .into_iter()
            .filter(|(leaf, _)| matches!(leaf, Event::ParallelComposed { .. }))
            .map(|(leaf, count)| terms.cost(&leaf.repeated(count)).unwrap_or(cost));
        let share = slices.sum();
        // Before the line: a run without a pulse is never taken for dead.
        let pulse = self.disk.start_pulse(&nonce).ok();
        let run = self.book.runs.len() as u64;
        let mut lines = lapses(&self.book, &dead);
        lines.push(Entry::Reserve {
            run,
            cost,
            noise: noise.to_owned(),
            event: event.clone(),
            nonce: Some(nonce.clone()),
            draws: pulse.is_some(),
            claimed: claimed && event.is_on_slices(),
            note: self.note.clone(),
        });
        self.append(file.as_mut(), ending, &lines, Flush::Synced)?;
        self.sweep();
        self.own.push(run);
        self.made = Some(Made {
            run,
            reserved: cost,
            drawn: if pulse.is_some() { 0.0 } else { cost },
            released: 0.0,
            share: Some(share),
            pulse: pulse.map(|pulse| (nonce, pulse)),
            kinds: Vec::new(),
            costs: Vec::new(),
            total: 0,
            tried: 0,
            doubtful: false,
        });
        Ok(ReservationId { run, cost })
    }

    /// Pays for a release that is about to be made: draws where what was drawn doesn't cover it.
    /// Then notes it. Notes are written for the first of its kind and whenever the number of
    /// releases has doubled, and not synced: the draw has paid.
    ///
    /// # Errors
    /// When the release must not be made: the reservation is not on record any more, because the
    /// file was exchanged, cut, edited or deleted; the run was taken for dead and closed; a draw
    /// can't be written, and neither can the right to be reclaimed be given up. A note that merely
    /// can't be written (a full disk) is no error: its lines come later or never.
    pub(crate) fn note_release(
        &mut self,
        id: ReservationId,
        event: &Event,
        account: &Account,
    ) -> Result<(), LedgerError> {
        if self.made.as_ref().is_some_and(|made| made.doubtful) {
            self.look()?;
            self.still_open()?;
        }
        let noted = self.pay_and_note(id, event, account);
        if let Some(made) = &mut self.made {
            // Also what is left of the last draw, which stays paid: a call that is made again must not pass unseen.
            made.doubtful = matches!(&noted, Err(error) if !error.is_unwritable());
        }
        noted
    }

    fn pay_and_note(
        &mut self,
        id: ReservationId,
        event: &Event,
        account: &Account,
    ) -> Result<(), LedgerError> {
        let on_slices = !account.slices().is_empty();
        let made = self.made.as_ref().filter(|made| made.run == id.run);
        let made = made.ok_or(LedgerError::NotOpen { run: id.run })?;
        let cost = match made.known_cost(event, on_slices) {
            Some(cost) => cost,
            // A part of what was accounted as a whole; if it can't be alone, the whole is drawn.
            None => self.book.terms.cost(event).unwrap_or(made.reserved),
        };
        let released = made.after(cost);
        if !(released <= made.drawn) {
            let target = made.next_draw(released);
            self.draw(target)?;
        }
        let Some(made) = &mut self.made else {
            return Err(LedgerError::NotOpen { run: id.run });
        };
        made.released = released;
        if on_slices {
            made.share = None;
        }
        made.total += 1;
        let new_kind = book::count(&mut made.kinds, event, on_slices, 1);
        if new_kind {
            made.costs.push(cost);
        }
        if !new_kind && made.total < 2 * made.tried {
            return Ok(());
        }
        made.tried = made.total;
        match self.list_releases() {
            Err(error) if !error.is_unwritable() => Err(error),
            _ => Ok(()),
        }
    }

    /// Puts on record that the run may release up to `target`, in all. On `Ok` that is paid,
    /// whatever happens to the process or the machine.
    fn draw(&mut self, target: f64) -> Result<(), LedgerError> {
        match self.write_draw(target) {
            Err(error) if error.is_unwritable() => {
                self.give_up_pulse().map_err(|other| match other {
                    // What kept the line from being written is the reason.
                    other if other.is_unwritable() => error,
                    other => other,
                })
            }
            other => other,
        }
    }

    fn write_draw(&mut self, target: f64) -> Result<(), LedgerError> {
        let (mut file, ending) = self.open_to_append()?;
        let run = self.still_open()?;
        // A draw that was written and could not be synced is on record too.
        let on_record = self.book.open_run(run).and_then(|run| run.drawn);
        let target = target.max(on_record.unwrap_or(0.0));
        let line = Entry::Draw { run, cost: target };
        self.append(file.as_mut(), ending, &[line], Flush::Synced)?;
        if let Some(made) = &mut self.made {
            made.drawn = target;
        }
        Ok(())
    }

    /// Pays for the whole reservation at once where nothing can be written: without a pulse
    /// nobody ever takes the run for dead, and the reservation stands. The lock of the ledger
    /// keeps everybody from closing the run meanwhile.
    fn give_up_pulse(&mut self) -> Result<(), LedgerError> {
        let mut file = self.open_file(Access::Read)?;
        self.catch_up(file.as_mut())?;
        self.still_open()?;
        let pulse = self.made.as_mut().and_then(|made| made.pulse.as_ref());
        if let Some((nonce, _)) = pulse {
            let removed = self.disk.remove_pulse(nonce);
            removed.map_err(|source| LedgerError::Io {
                path: self.path.clone(),
                source,
            })?;
        }
        if let Some(made) = &mut self.made {
            made.pulse = None;
            made.drawn = made.reserved;
        }
        Ok(())
    }

    /// The number of this process's run, if it is open as far as was read.
    fn still_open(&self) -> Result<u64, LedgerError> {
        let run = self.made.as_ref().map_or(u64::MAX, |made| made.run);
        let known = usize::try_from(run).ok();
        match known.and_then(|at| self.book.runs.get(at)) {
            Some(known) if known.end.is_none() => Ok(run),
            Some(known) if matches!(known.end, Some(End::Lapsed)) => Err(LedgerError::Lapsed {
                run,
                drawn: known.cost,
                reserved: known.reserved,
                unit: self.book.terms.unit(),
            }),
            _ => Err(LedgerError::NotOpen { run }),
        }
    }

    /// Replaces the cost of a reservation by that of what was really released. Where the run was
    /// taken for dead there is nothing to replace: what it drew stays paid.
    pub(crate) fn settle(&mut self, id: ReservationId, event: &Event) -> Result<(), LedgerError> {
        // Less was released than reserved; only rounding could say otherwise.
        let cost = self.book.terms.cost(event)?.min(id.cost);
        if self.made.as_ref().is_none_or(|made| made.run != id.run) {
            return Err(LedgerError::NotOpen { run: id.run });
        }
        let (mut file, ending) = self.open_to_append()?;
        match self.still_open() {
            Ok(_) => {
                let mut lines = self.unlisted();
                lines.push(Entry::Settle {
                    run: id.run,
                    cost,
                    event: event.clone(),
                });
                self.append(file.as_mut(), ending, &lines, Flush::Synced)?;
            }
            Err(LedgerError::Lapsed { .. }) => {}
            Err(other) => return Err(other),
        }
        let made = self.made.take();
        if let Some((nonce, _pulse)) = made.and_then(|made| made.pulse) {
            // One that stays is swept by a later run.
            let _ = self.disk.remove_pulse(&nonce);
        }
        Ok(())
    }

    /// Closes the runs that died, at what they drew; the rest of their reservations may be spent
    /// again. A reservation does that by itself.
    ///
    /// A run died when the process that made it let go of the lock on a file beside the ledger.
    /// That is no part of the privacy argument: a run that is taken for dead and lives finds
    /// itself closed before it releases more than it drew.
    ///
    /// # Errors
    /// As [`Ledger::state`], and when the file can't be written.
    pub fn reclaim(&mut self) -> Result<Reclaimed, LedgerError> {
        let (mut file, ending) = self.open_to_append()?;
        let dead = dead_runs(&self.book, self.disk.as_ref());
        let lines = lapses(&self.book, &dead);
        let before = self.book.used();
        self.append(file.as_mut(), ending, &lines, Flush::Synced)?;
        self.sweep();
        Ok(Reclaimed {
            runs: dead.len() as u64,
            cost: before - self.book.used(),
        })
    }

    /// Removes the pulses of runs that are closed, and of reservations that never came to be.
    /// Only under the ledger's lock: a pulse is older than its line.
    fn sweep(&self) {
        let open = |nonce: &String| {
            let mut runs = self.book.runs.iter().filter(|run| run.end.is_none());
            runs.any(|run| run.nonce.as_ref() == Some(nonce))
        };
        let found = self.disk.pulses().unwrap_or_default();
        for nonce in found.iter().filter(|nonce| !open(nonce)) {
            // It is of no use, but nor is it in the way.
            let _ = self.disk.remove_pulse(nonce);
        }
    }

    /// Writes what is not listed yet, without syncing.
    fn list_releases(&mut self) -> Result<(), LedgerError> {
        let (mut file, ending) = self.open_to_append()?;
        self.still_open()?;
        let lines = self.unlisted();
        self.append(file.as_mut(), ending, &lines, Flush::Lazy)
    }

    /// Lines for the releases of the open run that have none.
    pub(super) fn unlisted(&self) -> Vec<Entry> {
        let (Some(made), Ok(_)) = (&self.made, self.still_open()) else {
            return Vec::new();
        };
        let run = self.book.open_run(made.run);
        let listed = run.map_or(&[][..], |run| &run.listed);
        let lines = made.kinds.iter().map(|kind| {
            let known = listed
                .iter()
                .find(|known| known.is_kind(&kind.event, kind.on_slices));
            Entry::Release {
                run: made.run,
                count: kind
                    .count
                    .saturating_sub(known.map_or(0, |known| known.count)),
                on_slices: kind.on_slices,
                event: kind.event.clone(),
            }
        });
        lines
            .filter(|line| !matches!(line, Entry::Release { count: 0, .. }))
            .collect()
    }
}

/// Lines that close these runs at what they drew.
fn lapses(book: &Book, dead: &[u64]) -> Vec<Entry> {
    let lapse = |&run: &u64| {
        let cost = book.open_run(run)?.drawn?;
        Some(Entry::Lapse { run, cost })
    };
    dead.iter().filter_map(lapse).collect()
}
