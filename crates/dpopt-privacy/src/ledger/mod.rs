//! A budget that several runs share: a filter in a file that survives a crash.
//!
//! The filter is fixed when the file is made: (epsilon, delta), the adjacency, and the measure in
//! which costs add up (Gaussian DP, zero-concentrated DP, or Renyi DP at one order). A run
//! reserves its cost, synced to disk, before its first release, and draws on the reservation in
//! twentieths, each synced before the first release of it. When it ends it settles for what it
//! really released. A run that is killed never settles; what it drew stays paid, and the next
//! run gets the rest of its reservation.
//!
//! The file has one JSON line for each entry, and each line holds a hash of itself and all before
//! it. It is only ever appended to; a [`Checkpoint`] remembers its head, so that a run which
//! continues after a crash notices a ledger that was cut, edited or exchanged meanwhile.
//!
//! # Privacy
//! Costs may be chosen after earlier releases. For Gaussian DP the sum of squared mu of adaptively
//! chosen Gaussian releases that stays at or below mu^2 is mu-GDP (Smith and Thakurta 2022,
//! "Fully adaptive composition for Gaussian differential privacy"); for zCDP and for RDP at a
//! fixed order the sum of costs is a valid filter (Feldman and Zrnic 2021, "Individual privacy
//! accounting via a Renyi filter"; Whitehouse et al. 2023 for zCDP). Subsampled releases compose
//! adaptively in RDP only, so the other two filters refuse them. The argument, crashes included,
//! is in `docs/privacy/adaptive.md`.

mod book;
mod chain;
mod checkpoint;
mod disk;
mod error;
mod hash;
mod made;
mod note;
mod report;
mod spend;
mod terms;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod shelf;

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use getrandom::SysRng;
use rand::TryRng;

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::filter::FilterKind;
use crate::order::Numbering;
use crate::units::{Delta, Epsilon};
use book::{Book, Ending, Entry, Pool};
use disk::{Access, Disk, FileDisk, OpenFile};
use made::Made;
use terms::Terms;

pub use book::{Head, SpentRecords};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use error::{Damage, LedgerError};
pub use hash::{ChainHash, NotAHash};
pub use note::{OtherTable, RunNote, RunNoteError};
pub use report::{LedgerReport, RunReport, RunState};
pub use spend::{Reclaimed, ReservationId};

/// A shared budget in a file of chained JSON lines.
///
/// The file is locked only while it is read or written, so that runs may overlap; each reads what
/// the others appended before it reserves. What this handle has seen must still be there: a file
/// that was cut, edited at its known end, or exchanged is refused.
///
/// # Complexity
/// Opening reads the whole file. After that each call reads what was appended since the last.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    disk: Box<dyn Disk>,
    book: Book,
    /// The run that is open in this process.
    made: Option<Made>,
    note: Option<RunNote>,
    /// The runs that were reserved through this handle.
    own: Vec<u64>,
    /// Whether this handle has synced the folder that the file is in.
    placed: bool,
}

/// What a ledger says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LedgerState {
    /// Sum of the costs of all runs, in the filter's unit: of those that are open what they
    /// reserved.
    pub used: f64,
    /// How much of that the next reservation takes back, because runs died before they drew all
    /// that they had reserved ([`Ledger::reclaim`]).
    pub reclaimable: f64,
    /// What may be spent in total.
    pub capacity: f64,
    /// Number of reservations.
    pub runs: u64,
    /// Number of reservations that are open: still running, or killed and not closed yet.
    pub open: u64,
}

impl Ledger {
    /// Opens the ledger at `path`, or creates it with these terms.
    ///
    /// # Errors
    /// [`LedgerError::OtherTerms`] when the file exists with other terms;
    /// [`LedgerError::TooTight`]; as [`Ledger::open`].
    pub fn open_or_create(
        path: &Path,
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        filter: FilterKind,
    ) -> Result<Self, LedgerError> {
        let terms = Terms::new(epsilon, delta, adjacency, filter)?;
        Self::on(path, Box::new(FileDisk::new(path)), Some(terms))
    }

    /// Opens an existing ledger.
    ///
    /// # Errors
    /// [`LedgerError`]: the file can't be read, is not a ledger, is of a newer version, or is
    /// damaged.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Self::on(path, Box::new(FileDisk::new(path)), None)
    }

    fn on(path: &Path, disk: Box<dyn Disk>, terms: Option<Terms>) -> Result<Self, LedgerError> {
        let io = |source| LedgerError::io(path, source);
        let file = match (disk.open(Access::Read), &terms) {
            (Err(error), Some(terms)) if error.kind() == ErrorKind::NotFound => {
                let named = Entry::Ledger(terms.clone().named(&random_name()?));
                let mut line = Vec::new();
                chain::write(1, &named, chain::START, &mut line).map_err(|e| io(e.into()))?;
                line.push(b'\n');
                match disk.create(&line) {
                    // Another process may have been faster.
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
                    _ => disk.open(Access::Read),
                }
            }
            (file, _) => file,
        };
        let bytes = file.and_then(|mut file| file.read(0)).map_err(io)?;
        let (book, _) = Book::read(path, &bytes, |_| {})?;
        let found = &book.terms;
        match terms {
            Some(asked) if !found.are(&asked) => Err(LedgerError::OtherTerms {
                path: path.to_owned(),
                epsilon: found.epsilon.get(),
                delta: found.delta.get(),
                adjacency: found.adjacency,
                filter: found.filter,
            }),
            _ => Ok(Self {
                path: path.to_owned(),
                disk,
                book,
                made: None,
                own: Vec::new(),
                placed: false,
                note: None,
            }),
        }
    }

    /// Says in the lines of later reservations what the runs are.
    #[must_use]
    pub fn with_note(mut self, note: RunNote) -> Self {
        self.note = Some(note);
        self
    }

    /// What `note` says of its table otherwise than the last run that noted it, as of the last time that the file was read.
    #[must_use]
    pub fn other_table(&self, note: &RunNote) -> Vec<OtherTable> {
        let runs = self.book.runs.iter().enumerate().rev();
        let mut noted = runs.filter_map(|(run, of)| Some((run as u64, of.note.as_ref()?)));
        let records = noted
            .clone()
            .find_map(|(run, of)| Some((run, of.records()?)));
        let label = noted.find_map(|(run, of)| Some((run, of.label()?)));
        let records = records
            .zip(note.records())
            .filter(|((_, known), asked)| known != asked);
        let label = label
            .zip(note.label())
            .filter(|((_, known), asked)| known != asked);
        let records =
            records.map(|((run, known), asked)| OtherTable::Records { run, known, asked });
        let label = label.map(|((run, known), asked)| OtherTable::Label {
            run,
            known: known.to_owned(),
            asked: asked.to_owned(),
        });
        records.into_iter().chain(label).collect()
    }

    /// What is used and what is left, now. Writes nothing.
    ///
    /// # Errors
    /// As [`Ledger::open`], and when the file is not the one that was opened any more.
    pub fn state(&mut self) -> Result<LedgerState, LedgerError> {
        self.look()?;
        let used = self.book.used();
        let dead = book::dead_runs(&self.book, self.disk.as_ref());
        Ok(LedgerState {
            used,
            reclaimable: used - self.book.used_without(&dead),
            capacity: self.book.terms.capacity,
            runs: self.book.runs.len() as u64,
            open: self.book.open_runs(),
        })
    }

    /// The epsilon that it was created for.
    #[must_use]
    pub fn epsilon(&self) -> Epsilon {
        self.book.terms.epsilon
    }

    /// The delta that it was created for.
    #[must_use]
    pub fn delta(&self) -> Delta {
        self.book.terms.delta
    }

    /// The neighbouring relation that it was created for.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.book.terms.adjacency
    }

    /// The measure in which costs add up.
    #[must_use]
    pub fn filter(&self) -> FilterKind {
        self.book.terms.filter
    }

    /// Where the ledger stood when this handle last read it.
    #[must_use]
    pub fn head(&self) -> Head {
        self.book.head
    }

    /// The largest epsilon, at the ledger's delta, of one more run that what is left in `state`
    /// could pay, what can be reclaimed included, for releases of Gaussian noise on all records
    /// whose epsilon is computed tightly; 0 when nothing is left.
    #[must_use]
    pub fn epsilon_left(&self, state: &LedgerState) -> f64 {
        let used = state.used - state.reclaimable;
        self.book.terms.epsilon_of(state.capacity - used)
    }

    /// The part of the whole budget that `event` costs: 0 for nothing, above 1 for more than all.
    ///
    /// # Errors
    /// [`LedgerError::OtherFilter`] when the filter can't account the event.
    pub fn share_of(&self, event: &Event) -> Result<f64, LedgerError> {
        Ok(self.book.terms.cost(event)? / self.book.terms.capacity)
    }

    /// Whether what is left, and what dead runs left over, could pay for `event` now. Another run
    /// may be faster.
    ///
    /// # Errors
    /// [`LedgerError::Exhausted`] when it could not; [`LedgerError::OtherFilter`] when the filter
    /// can't account the event; as [`Ledger::state`].
    pub fn can_pay(&mut self, event: &Event) -> Result<(), LedgerError> {
        let cost = self.book.terms.cost(event)?;
        self.look()?;
        let dead = book::dead_runs(&self.book, self.disk.as_ref());
        self.book.terms.pay(self.book.used_without(&dead), cost)
    }

    /// Whether a fresh ledger with these terms could pay for `event` alone. Touches no file: for
    /// asking before one is created.
    ///
    /// # Errors
    /// [`LedgerError::Exhausted`] when it could not, [`LedgerError::OtherFilter`] when its filter
    /// can't account the event, [`LedgerError::TooTight`].
    pub fn could_pay(
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        filter: FilterKind,
        event: &Event,
    ) -> Result<(), LedgerError> {
        let terms = Terms::new(epsilon, delta, adjacency, filter)?;
        terms.pay(0.0, terms.cost(event)?)
    }

    /// Hands out the next `count` unread records of a pool of `of` records: their positions. The
    /// line that says so is on disk when this returns, so nobody gets them again, whatever kills
    /// the process that was about to read them.
    ///
    /// The name of a pool is the caller's; it should name a body of records. A pool keeps its numbering.
    ///
    /// # Errors
    /// [`LedgerError::PoolUsedUp`] when fewer are left, [`LedgerError::OtherPool`] when the pool
    /// had another size before, [`LedgerError::OtherNumbering`] another numbering; as [`Ledger::state`], and when the file can't be written.
    pub fn claim_records(
        &mut self,
        pool: &str,
        count: u64,
        of: u64,
        numbering: Numbering,
    ) -> Result<Range<u64>, LedgerError> {
        let (mut file, ending) = self.open_to_append()?;
        let known = self.book.pools.get(pool).copied();
        let Pool {
            spent,
            records,
            numbering: kept,
        } = known.unwrap_or(Pool {
            spent: 0,
            records: of,
            numbering,
        });
        if records != of {
            return Err(LedgerError::OtherPool {
                pool: pool.to_owned(),
                asked: of,
                known: records,
            });
        }
        if kept != numbering {
            return Err(LedgerError::OtherNumbering {
                pool: pool.to_owned(),
                asked: Box::new(numbering),
                known: Box::new(kept),
            });
        }
        if count > records - spent {
            return Err(LedgerError::PoolUsedUp {
                pool: pool.to_owned(),
                asked: count,
                left: records - spent,
                records,
            });
        }
        let claimed = spent..spent + count;
        let line = Entry::Slices {
            pool: pool.to_owned(),
            from: claimed.start,
            to: claimed.end,
            of,
            order: numbering.order,
            part: numbering.part,
            nonce: Some(random_name()?),
        };
        self.append(file.as_mut(), ending, &[line], Flush::Synced)?;
        Ok(claimed)
    }

    /// Records of a pool that were handed out, from the first on; 0 for a pool that is not known.
    ///
    /// # Errors
    /// As [`Ledger::state`].
    pub fn records_claimed(&mut self, pool: &str) -> Result<u64, LedgerError> {
        self.look()?;
        Ok(self.book.pools.get(pool).map_or(0, |pool| pool.spent))
    }

    /// Whether records that this handle's runs read were read by no other run of this ledger, as far as it tells: `claimed` ones, of a
    /// pool of the ledger, where the others read claimed ones too; any others, where no run came before. As of the last
    /// time that the file was read; runs that came after the last of this handle's don't count.
    pub(crate) fn knows_unread(&self, claimed: bool) -> bool {
        let last = self.own.last().copied().unwrap_or(u64::MAX);
        let before = (0..last).zip(&self.book.runs);
        let mut others = before.filter(|(run, _)| !self.own.contains(run));
        others.all(|(_, run)| claimed && run.claimed)
    }

    pub(crate) fn check_adjacency(&self, run: Adjacency) -> Result<(), LedgerError> {
        if run == self.adjacency() {
            Ok(())
        } else {
            Err(LedgerError::AdjacencyMismatch {
                ledger: self.adjacency(),
                run,
            })
        }
    }

    /// Reads what was appended since the last time.
    fn look(&mut self) -> Result<Ending, LedgerError> {
        let mut file = self.open_file(Access::Read)?;
        self.catch_up(file.as_mut())
    }

    /// Opens and locks the file for appending, reads what others appended, and cuts off a line
    /// that a crash left half-written.
    fn open_to_append(&mut self) -> Result<(Box<dyn OpenFile>, Ending), LedgerError> {
        let mut file = self.open_file(Access::Append)?;
        let ending = self.catch_up(file.as_mut())?;
        if let Ending::Torn(_) = ending {
            // Synced, so that the new line can't end up mixed with the old one.
            let whole = self.book.head.bytes + 1;
            file.truncate(whole)
                .and_then(|()| file.sync())
                .map_err(|source| LedgerError::io(&self.path, source))?;
            return Ok((file, Ending::Whole));
        }
        Ok((file, ending))
    }

    fn open_file(&self, access: Access) -> Result<Box<dyn OpenFile>, LedgerError> {
        self.disk
            .open(access)
            .map_err(|source| LedgerError::io(&self.path, source))
    }

    /// Takes in what follows the known head, after a look at whether the head is still there.
    fn catch_up(&mut self, file: &mut dyn OpenFile) -> Result<Ending, LedgerError> {
        let io = |source| LedgerError::io(&self.path, source);
        let head = self.book.head;
        let from = head.bytes.saturating_sub(chain::STATED_BYTES);
        let bytes = file.read(from).map_err(io)?;
        let known = usize::try_from(head.bytes - from).unwrap_or(usize::MAX);
        match bytes.split_at_checked(known) {
            Some((end, rest)) if chain::stated_hash(end) == Some(head.hash) => {
                self.book.extend(&self.path, rest, |_| {})
            }
            _ => {
                let bytes = file.read(0).map_err(io)?;
                Err(not_continued(&self.path, &bytes, &head))
            }
        }
    }

    fn append(
        &mut self,
        file: &mut dyn OpenFile,
        ending: Ending,
        entries: &[Entry],
        flush: Flush,
    ) -> Result<(), LedgerError> {
        let io = |source| LedgerError::io(&self.path, source);
        if entries.is_empty() {
            return Ok(());
        }
        let lines = self.book.lines_of(entries).map_err(|e| io(e.into()))?;
        // The first line break is there already, unless the last writer died just before it.
        let new = if ending == Ending::NoBreak { 0 } else { 1 };
        file.append(&lines[new..]).map_err(io)?;
        if flush == Flush::Synced {
            file.sync().map_err(io)?;
            // Who made the file may have died before its name was on the disk.
            if !self.placed {
                self.disk.sync_place().map_err(io)?;
                self.placed = true;
            }
        }
        self.book.extend(&self.path, &lines, |_| {})?;
        Ok(())
    }

    /// Whether the file holds `head` as one of its lines.
    fn check_continues(&mut self, head: &Head) -> Result<(), LedgerError> {
        let mut file = self.open_file(Access::Read)?;
        let bytes = file.read(0);
        let bytes = bytes.map_err(|source| LedgerError::io(&self.path, source))?;
        let mut found = false;
        Book::read(&self.path, &bytes, |at| found |= at == head)?;
        if found {
            Ok(())
        } else {
            Err(not_continued(&self.path, &bytes, head))
        }
    }
}

/// Whether a write must be on the disk before its caller goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    Synced,
    Lazy,
}

/// Why a file that doesn't hold `known` as one of its lines doesn't.
fn not_continued(path: &Path, bytes: &[u8], known: &Head) -> LedgerError {
    let path = path.to_owned();
    match Book::read(&path, bytes, |_| {}) {
        Err(damage) => damage,
        Ok((book, _)) if book.head.ledger != known.ledger => LedgerError::OtherLedger {
            path,
            found: book.head.ledger,
            known: known.ledger,
        },
        Ok((book, _)) if book.head.lines < known.lines => LedgerError::RolledBack {
            path,
            found: book.head.lines,
            known: known.lines,
        },
        Ok(_) => LedgerError::Rewritten {
            path,
            line: known.lines,
        },
    }
}

/// 128 random bits of the operating system, as 32 hexadecimal digits.
fn random_name() -> Result<String, LedgerError> {
    let mut bytes = [0; 16];
    let filled = SysRng.try_fill_bytes(&mut bytes);
    filled.map_err(|error| LedgerError::NoEntropy {
        reason: error.to_string(),
    })?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}
