//! What the lines of a ledger say: replayed, checked, and kept up to date.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::{self, ChainHash, WrongFormat};
use super::checkpoint::SpentRecords;
use super::error::{Damage, LedgerError};
use super::terms::{FORMAT, Terms, VERSION};
use crate::event::Event;

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
    },
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
    },
    /// What a run has released in all, in the place of what it reserved.
    Settle { run: u64, cost: f64, event: Event },
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
    /// What counts now: of the reservation, later of the settlement.
    pub(super) cost: f64,
    pub(super) noise: String,
    pub(super) event: Event,
    /// Releases that have lines of their own.
    pub(super) listed: Vec<Listed>,
    pub(super) settled: Option<Event>,
    /// The line of the reservation, and of the settlement where there is one.
    pub(super) lines: (u64, Option<u64>),
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

    /// Settled costs and those of open reservations, rounded up.
    pub(super) fn used(&self) -> f64 {
        let sum: f64 = self.runs.iter().map(|run| run.cost).sum();
        sum * (1.0 + 1e-14 * self.runs.len() as f64)
    }

    /// The pools by name.
    pub(super) fn spent_records(&self) -> Vec<SpentRecords> {
        let pools = self.pools.iter().map(|(pool, read)| SpentRecords {
            pool: pool.clone(),
            spent: read.spent,
            records: read.records,
        });
        pools.collect()
    }

    pub(super) fn open_runs(&self) -> u64 {
        self.runs.iter().filter(|run| run.settled.is_none()).count() as u64
    }

    /// The run of that number, if it is open.
    pub(super) fn open_run(&self, run: u64) -> Option<&Run> {
        let at = usize::try_from(run).ok()?;
        self.runs.get(at).filter(|run| run.settled.is_none())
    }

    fn apply(&mut self, entry: Entry, line: u64) -> Result<(), Damage> {
        if let Entry::Reserve { cost, .. } | Entry::Settle { cost, .. } = entry
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
            } => {
                let expected = self.runs.len() as u64;
                if run != expected {
                    return Err(Damage::OutOfOrder { run, expected });
                }
                self.runs.push(Run {
                    reserved: cost,
                    cost,
                    noise,
                    event,
                    listed: Vec::new(),
                    settled: None,
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
            Entry::Slices { pool, from, to, of } => {
                let known = self.pools.get(&pool);
                let (spent, records) = known.map_or((0, of), |pool| (pool.spent, pool.records));
                if !(from == spent && from <= to && to <= of && of == records) {
                    return Err(Damage::Slices {
                        pool,
                        from,
                        to,
                        spent,
                        records,
                    });
                }
                self.pools.insert(pool, Pool { spent: to, records });
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
                open.settled = Some(event);
                open.lines.1 = Some(line);
            }
        }
        Ok(())
    }

    fn open_run_mut(&mut self, run: u64) -> Result<&mut Run, Damage> {
        let at = usize::try_from(run).ok();
        at.and_then(|at| self.runs.get_mut(at))
            .filter(|run| run.settled.is_none())
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
