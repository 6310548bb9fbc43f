//! What the lines of a ledger say: replayed, checked, and kept up to date.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::{self, WrongFormat};
use super::disk::{Disk, is_nonce};
use super::error::{Damage, LedgerError};
use super::hash::ChainHash;
use super::note::RunNote;
use super::terms::{FORMAT, Terms, VERSION};
use crate::event::Event;
use crate::order::{Numbering, PublicOrder};
use crate::part::Part;

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Entry {
    /// The first line.
    Ledger(Terms),
    /// A run sets aside what its plan will spend; synced before its first release.
    Reserve {
        run: u64,
        cost: f64,
        /// How the noise is made.
        noise: String,
        event: Event,
        /// 128 random bits, so that the same plan after a rollback gives another line; none in a
        /// ledger of version 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nonce: Option<String>,
        /// Whether the run draws on its reservation before it releases. Without it the whole
        /// reservation is paid at once.
        #[serde(default, skip_serializing_if = "is_false")]
        draws: bool,
        /// Whether it reads nothing but records that it claimed in this ledger.
        #[serde(default, skip_serializing_if = "is_false")]
        claimed: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<RunNote>,
    },
    /// A run is about to release up to this cost in all; synced before it does.
    Draw { run: u64, cost: f64 },
    /// So many releases of one kind were about to be made since the last line that tells of them.
    Release {
        run: u64,
        count: u64,
        /// Whether they were charged to slices of the records; each slice has its own share.
        #[serde(default, skip_serializing_if = "is_false")]
        on_slices: bool,
        event: Event,
    },
    /// A run is about to read these records of a pool; synced before it does.
    Slices {
        pool: String,
        from: u64,
        to: u64,
        of: u64,
        /// What positions are of, where that is not the table's order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<PublicOrder>,
        /// The part of a table that they are of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Part>,
        /// As that of a reservation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nonce: Option<String>,
    },
    /// A run died: what it drew, in the place of what it reserved.
    Lapse { run: u64, cost: f64 },
    /// What a run has released in all, in the place of what it reserved.
    Settle { run: u64, cost: f64, event: Event },
}

/// How far the records of a pool were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SpentRecords {
    /// Name of the pool.
    pub pool: String,
    /// Positions below this one were read, or were about to be.
    pub spent: u64,
    /// Records of the pool.
    pub records: u64,
    /// The order that positions are of; none for that of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<PublicOrder>,
    /// The part that they are of; none for the whole table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// Where a ledger stands: how much of it there is, and the hash that vouches for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Hash of the first line, which tells ledgers apart.
    pub ledger: ChainHash,
    /// Number of lines.
    pub lines: u64,
    /// Number of bytes up to the end of the last line, its line break left out.
    pub bytes: u64,
    /// Hash of the last line.
    pub hash: ChainHash,
}

/// One reservation and what became of it.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Cost of the reservation.
    pub(super) reserved: f64,
    /// What counts now: of the reservation, later of the settlement or of what was drawn.
    pub(super) cost: f64,
    /// What it drew; none where it doesn't draw and the whole reservation is paid.
    pub(super) drawn: Option<f64>,
    /// Whether it reads nothing but records that it claimed.
    pub(super) claimed: bool,
    pub(super) nonce: Option<String>,
    pub(super) note: Option<RunNote>,
    pub(super) noise: String,
    pub(super) event: Event,
    /// Releases that have lines of their own.
    pub(super) listed: Vec<Listed>,
    pub(super) end: Option<End>,
    /// The line of the reservation, and of its end where there is one.
    pub(super) lines: (u64, Option<u64>),
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// With a settlement for this.
    Settled(Event),
    /// It was found dead.
    Lapsed,
}

impl Run {
    /// `cost`, if a run that drew what this one did may draw it, or lapse at it: never less than
    /// before, so that what was released stays paid, and never above the reservation.
    fn may_draw(&self, run: u64, cost: f64) -> Result<f64, Damage> {
        let reserved = self.reserved;
        match self.drawn {
            Some(drawn) if drawn <= cost && cost <= reserved => Ok(cost),
            drawn => Err(Damage::Drawn {
                run,
                cost,
                drawn,
                reserved,
            }),
        }
    }
}

/// Releases of one kind.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) event: Event,
    pub(super) on_slices: bool,
    pub(super) count: u64,
}

impl Listed {
    pub(super) fn is_kind(&self, event: &Event, on_slices: bool) -> bool {
        self.on_slices == on_slices && self.event == *event
    }
}

/// Counts `more` releases of a kind; whether it is the first of its kind.
pub(super) fn count(list: &mut Vec<Listed>, event: &Event, on_slices: bool, more: u64) -> bool {
    let known = list
        .iter_mut()
        .find(|known| known.is_kind(event, on_slices));
    if let Some(known) = known {
        known.count = known.count.saturating_add(more);
        return false;
    }
    list.push(Listed {
        event: event.clone(),
        on_slices,
        count: more,
    });
    true
}

/// How far the records of a pool were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) spent: u64,
    pub(super) records: u64,
    pub(super) numbering: Numbering,
}

/// How the bytes after the last whole line look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// A line break and nothing more.
    Whole,
    /// The last line is whole and its line break is missing.
    NoBreak,
    /// So many bytes of a line that was being written when the process died.
    Torn(u64),
}

/// The lines of a ledger up to its head.
#[derive(Debug, Clone)]
pub(super) struct Book {
    pub(super) terms: Terms,
    pub(super) head: Head,
    pub(super) runs: Vec<Run>,
    pub(super) pools: BTreeMap<String, Pool>,
}

impl Book {
    /// Reads a whole file. `waypoint` is called with the head after each line.
    pub(super) fn read(
        path: &Path,
        bytes: &[u8],
        mut waypoint: impl FnMut(&Head),
    ) -> Result<(Self, Ending), LedgerError> {
        if bytes.is_empty() {
            return Err(LedgerError::Empty {
                path: path.to_owned(),
            });
        }
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let first = &bytes[..end.unwrap_or(bytes.len())];
        chain::check_format(first, "ledger", FORMAT, VERSION)
            .map_err(|format| other_format(path, format))?;
        let damaged = |damage| LedgerError::Damaged {
            path: path.to_owned(),
            line: 1,
            damage,
        };
        let (entry, hash) = read_entry(first, 1, chain::START).map_err(damaged)?;
        let Entry::Ledger(terms) = entry else {
            return Err(damaged(Damage::TermsElsewhere));
        };
        terms.check().map_err(damaged)?;
        let mut book = Self {
            terms,
            head: Head {
                ledger: hash,
                lines: 1,
                bytes: first.len() as u64,
                hash,
            },
            runs: Vec::new(),
            pools: BTreeMap::new(),
        };
        waypoint(&book.head);
        let ending = book.extend(path, &bytes[first.len()..], waypoint)?;
        Ok((book, ending))
    }

    /// Takes in what follows the head. On an error the head is at the last whole line.
    pub(super) fn extend(
        &mut self,
        path: &Path,
        mut rest: &[u8],
        mut waypoint: impl FnMut(&Head),
    ) -> Result<Ending, LedgerError> {
        loop {
            let damaged = |line, damage| LedgerError::Damaged {
                path: path.to_owned(),
                line,
                damage,
            };
            match rest.split_first() {
                None => return Ok(Ending::NoBreak),
                Some((b'\n', [])) => return Ok(Ending::Whole),
                Some((b'\n', lines)) => rest = lines,
                Some(_) => return Err(damaged(self.head.lines, Damage::Trailing)),
            }
            let number = self.head.lines + 1;
            let end = match rest.iter().position(|&byte| byte == b'\n') {
                Some(end) => end,
                // Without a line break it was being written when the process died, and was not
                // synced. If all of it is there it counts: the cautious reading.
                None => match chain::first_end(rest) {
                    Some(end) => end,
                    None => return Ok(Ending::Torn(rest.len() as u64)),
                },
            };
            let (line, after) = rest.split_at(end);
            let (entry, hash) = read_entry(line, number, self.head.hash)
                .map_err(|damage| damaged(number, damage))?;
            self.apply(entry, number)
                .map_err(|damage| damaged(number, damage))?;
            self.head = Head {
                lines: number,
                bytes: self.head.bytes + 1 + line.len() as u64,
                hash,
                ..self.head
            };
            waypoint(&self.head);
            rest = after;
        }
    }

    /// The lines of `entries` as they follow the head, each after a line break, and the last
    /// followed by one.
    pub(super) fn lines_of(&self, entries: &[Entry]) -> serde_json::Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut hash = self.head.hash;
        for (number, entry) in (self.head.lines + 1..).zip(entries) {
            text.push(b'\n');
            hash = chain::write(number, entry, hash, &mut text)?;
        }
        text.push(b'\n');
        Ok(text)
    }

    /// Settled and lapsed costs and those of open reservations, rounded up.
    pub(super) fn used(&self) -> f64 {
        self.used_without(&[])
    }

    /// The same when these runs lapse.
    pub(super) fn used_without(&self, dead: &[u64]) -> f64 {
        let costs = (0..).zip(&self.runs).map(|(number, run)| match run.drawn {
            Some(drawn) if run.end.is_none() && dead.contains(&number) => drawn,
            _ => run.cost,
        });
        costs.sum::<f64>() * (1.0 + 1e-14 * self.runs.len() as f64)
    }

    /// The pools by name.
    pub(super) fn spent_records(&self) -> Vec<SpentRecords> {
        let pools = self.pools.iter().map(|(pool, read)| SpentRecords {
            pool: pool.clone(),
            spent: read.spent,
            records: read.records,
            order: read.numbering.order,
            part: read.numbering.part,
        });
        pools.collect()
    }

    pub(super) fn open_runs(&self) -> u64 {
        self.runs.iter().filter(|run| run.end.is_none()).count() as u64
    }

    /// The run of that number, if it is open.
    pub(super) fn open_run(&self, run: u64) -> Option<&Run> {
        let at = usize::try_from(run).ok()?;
        self.runs.get(at).filter(|run| run.end.is_none())
    }

    fn apply(&mut self, entry: Entry, line: u64) -> Result<(), Damage> {
        if let Entry::Reserve { cost, .. }
        | Entry::Draw { cost, .. }
        | Entry::Lapse { cost, .. }
        | Entry::Settle { cost, .. } = entry
            && !(cost.is_finite() && cost >= 0.0)
        {
            return Err(Damage::NotACost { cost });
        }
        match entry {
            Entry::Ledger(_) => return Err(Damage::TermsElsewhere),
            Entry::Reserve {
                run,
                cost,
                noise,
                event,
                nonce,
                draws,
                claimed,
                note,
            } => {
                let expected = self.runs.len() as u64;
                if run != expected {
                    return Err(Damage::OutOfOrder { run, expected });
                }
                if nonce.as_ref().is_some_and(|nonce| !is_nonce(nonce))
                    || (draws && nonce.is_none())
                {
                    return Err(Damage::Nonce { run });
                }
                self.runs.push(Run {
                    reserved: cost,
                    cost,
                    drawn: draws.then_some(0.0),
                    claimed,
                    nonce,
                    note,
                    noise,
                    event,
                    listed: Vec::new(),
                    end: None,
                    lines: (line, None),
                });
            }
            Entry::Release {
                run,
                count: more,
                on_slices,
                event,
            } => {
                count(&mut self.open_run_mut(run)?.listed, &event, on_slices, more);
            }
            Entry::Draw { run, cost } => {
                let open = self.open_run_mut(run)?;
                open.drawn = Some(open.may_draw(run, cost)?);
            }
            Entry::Lapse { run, cost } => {
                let open = self.open_run_mut(run)?;
                open.cost = open.may_draw(run, cost)?;
                open.end = Some(End::Lapsed);
                open.lines.1 = Some(line);
            }
            Entry::Slices {
                pool,
                from,
                to,
                of,
                order,
                part,
                nonce: _,
            } => {
                let numbering = Numbering { order, part };
                let known = self.pools.get(&pool);
                let (spent, records) = known.map_or((0, of), |pool| (pool.spent, pool.records));
                let same = known.is_none_or(|pool| pool.numbering == numbering);
                if !(from == spent && from <= to && to <= of && of == records && same) {
                    return Err(Damage::Slices {
                        pool,
                        from,
                        to,
                        spent,
                        records,
                    });
                }
                let read = Pool {
                    spent: to,
                    records,
                    numbering,
                };
                self.pools.insert(pool, read);
            }
            Entry::Settle { run, cost, event } => {
                let open = self.open_run_mut(run)?;
                // A run can't spend more than it reserved.
                if !(cost <= open.reserved) {
                    return Err(Damage::SettledAbove {
                        run,
                        cost,
                        reserved: open.reserved,
                    });
                }
                open.cost = cost;
                open.end = Some(End::Settled(event));
                open.lines.1 = Some(line);
            }
        }
        Ok(())
    }

    fn open_run_mut(&mut self, run: u64) -> Result<&mut Run, Damage> {
        let at = usize::try_from(run).ok();
        at.and_then(|at| self.runs.get_mut(at))
            .filter(|run| run.end.is_none())
            .ok_or(Damage::NotOpen { run })
    }
}

fn read_entry(line: &[u8], number: u64, previous: ChainHash) -> Result<(Entry, ChainHash), Damage> {
    let (content, hash) = chain::read(line, number, previous)?;
    let entry = serde_json::from_slice(&content).map_err(|error| Damage::NotAnEntry {
        problem: error.to_string(),
    })?;
    Ok((entry, hash))
}

fn is_false(value: &bool) -> bool {
    !value
}

fn other_format(path: &Path, format: WrongFormat) -> LedgerError {
    let path = path.to_owned();
    match format {
        WrongFormat::Other => LedgerError::OtherFile { path },
        WrongFormat::Old { format } => LedgerError::OldFormat { path, format },
        WrongFormat::Newer { found } => LedgerError::NewerVersion {
            path,
            found,
            known: VERSION,
        },
    }
}

/// Open runs that draw and whose process is gone.
pub(super) fn dead_runs(book: &Book, disk: &dyn Disk) -> Vec<u64> {
    let numbered = (0..).zip(&book.runs);
    let drawing = numbered.filter(|(_, run)| run.end.is_none() && run.drawn.is_some());
    let dead = drawing.filter(|(_, run)| {
        let nonce = run.nonce.as_deref();
        nonce.is_some_and(|nonce| disk.pulse_stopped(nonce))
    });
    dead.map(|(number, _)| number).collect()
}
