//! What a ledger holds, for people, and a check of all of it.

use std::path::Path;

use serde::Serialize;

use super::book::{Book, End, Ending, Head, Listed, Run, dead_runs};
use super::disk::{Access, Disk, FileDisk};
use super::error::{Damage, LedgerError};
use super::terms::Terms;
use super::{Checkpoint, Ledger, SpentRecords, not_continued};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::filter::FilterKind;
use crate::units::{Delta, Epsilon};

/// Everything that a ledger says.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LedgerReport {
    /// The epsilon that it was created for.
    pub epsilon: Epsilon,
    /// The delta that it was created for.
    pub delta: Delta,
    /// The neighbouring relation.
    pub adjacency: Adjacency,
    /// The measure in which costs add up.
    pub filter: FilterKind,
    /// The unit of all costs here: squared mu, rho, or Renyi divergence.
    pub unit: &'static str,
    /// What is used, rounded up.
    pub used: f64,
    /// How much of that the next reservation takes back ([`Ledger::reclaim`]).
    pub reclaimable: f64,
    /// What may be used in total.
    pub capacity: f64,
    /// As [`Ledger::epsilon_left`].
    pub epsilon_left: f64,
    /// The reservations in their order.
    pub runs: Vec<RunReport>,
    /// Pools of records and how far they were read.
    pub pools: Vec<SpentRecords>,
    /// Where the ledger stands. Who keeps the hash elsewhere notices a ledger that was cut.
    pub head: Head,
    /// Bytes of a last line that a crash, or a cut, left unfinished; 0 where there is none.
    pub torn_bytes: u64,
}

/// One reservation and what became of it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RunReport {
    /// Number of the run, from 0.
    pub run: u64,
    /// What became of it.
    pub state: RunState,
    /// Whether it settled. A run that didn't is still going, or was killed.
    pub settled: bool,
    /// What counts for it now.
    pub cost: f64,
    /// What it reserved.
    pub reserved_cost: f64,
    /// What it drew before it released; none where it paid for all of it at once.
    pub drawn: Option<f64>,
    /// Epsilon of this run alone, for what counts for it now, at the ledger's delta.
    pub epsilon: f64,
    /// Epsilon of the costs of all runs up to this one, at the ledger's delta. How the runs were
    /// chosen may depend on what was released, so the guarantee of all of them is the budget's.
    pub epsilon_so_far: f64,
    /// The command that started it, if its caller said so ([`RunNote`](super::RunNote)).
    pub command: Option<String>,
    /// Where its result goes, if its caller said so.
    pub output: Option<String>,
    /// The date that the user gave it.
    pub date: Option<String>,
    /// The public number of records that it was on, if its caller said so.
    pub records: Option<u64>,
    /// The name of its label, if its caller said so.
    pub label: Option<String>,
    /// How its noise is made.
    pub noise: String,
    /// What it reserved.
    pub reserved: Event,
    /// What it released: all of it for a run that settled; otherwise at least half of it has
    /// lines, unless they could not be written.
    pub released: Event,
}

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Still going; or killed, and nobody can tell. All of the reservation counts.
    Open,
    /// Killed: the next reservation closes it at what it drew. Until then all of it counts.
    Died,
    /// It ended, and paid for what it released.
    Settled,
    /// It was found dead, and paid for what it drew.
    Lapsed,
}

impl LedgerReport {
    /// Properties of losses that the guarantees of some runs rest on and nothing enforces, each once: then the total rests on them too.
    #[must_use]
    pub fn rests_on(&self) -> Vec<&str> {
        let mut claims: Vec<&str> = Vec::new();
        for run in &self.runs {
            let claim = run.noise.split_once(" (if ").map(|(_, claim)| claim);
            if let Some(claim) = claim.and_then(|claim| claim.strip_suffix(')'))
                && !claims.contains(&claim)
            {
                claims.push(claim);
            }
        }
        claims
    }
}

impl Ledger {
    /// Everything that the file at `path` says. The chain is recomputed; costs are taken as
    /// they are.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn report(path: &Path) -> Result<LedgerReport, LedgerError> {
        let (book, ending) = Book::read(path, &read(path)?, |_| {})?;
        let dead = dead_runs(&book, &FileDisk::new(path));
        Ok(LedgerReport::new(&book, ending, &dead))
    }

    /// Recomputes everything: the chain, each cost from its event, and that no run has listed
    /// more releases than it paid for. With a checkpoint, also that the ledger continues its.
    ///
    /// # Errors
    /// The first damage, by its line; as [`Ledger::resume`].
    ///
    /// # Complexity
    /// An accountant's work for each line.
    pub fn verify(
        path: &Path,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<LedgerReport, LedgerError> {
        let bytes = read(path)?;
        let mut continues = checkpoint.is_none();
        let (book, ending) = Book::read(path, &bytes, |at| {
            continues |= checkpoint.is_some_and(|checkpoint| checkpoint.head() == at);
        })?;
        if let Some(checkpoint) = checkpoint.filter(|_| !continues) {
            return Err(not_continued(path, &bytes, checkpoint.head()));
        }
        for (number, run) in (0..).zip(&book.runs) {
            check_run(&book.terms, number, run).map_err(|(line, damage)| LedgerError::Damaged {
                path: path.to_owned(),
                line,
                damage,
            })?;
        }
        let dead = dead_runs(&book, &FileDisk::new(path));
        Ok(LedgerReport::new(&book, ending, &dead))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, LedgerError> {
    let file = FileDisk::new(path).open(Access::Read);
    file.and_then(|mut file| file.read(0))
        .map_err(|source| LedgerError::io(path, source))
}

/// Costs may have been computed by another version, whose rounding differs.
const ROUNDING: f64 = 1e-9;

fn check_run(terms: &Terms, number: u64, run: &Run) -> Result<(), (u64, Damage)> {
    let cost = |event: &Event, line| {
        terms.cost(event).map_err(|error| {
            let damage = match error {
                LedgerError::Accounting(error) => Damage::Accounting(error),
                LedgerError::OtherFilter { source, .. } => Damage::Accounting(*source),
                other => Damage::NotAnEntry {
                    problem: other.to_string(),
                },
            };
            (line, damage)
        })
    };
    let charged = |line, cost: f64, computed: f64| {
        if computed <= cost * (1.0 + ROUNDING) {
            return Ok(());
        }
        let damage = Damage::UnderCharged {
            run: number,
            cost,
            computed,
        };
        Err((line, damage))
    };
    let (reserved_at, ended_at) = run.lines;
    charged(reserved_at, run.reserved, cost(&run.event, reserved_at)?)?;
    let at = ended_at.unwrap_or(reserved_at);
    if let Some(End::Settled(event)) = &run.end {
        charged(at, run.cost, cost(event, at)?)?;
    }
    // Releases on slices cost what the worst slice costs, which the list doesn't tell.
    let on_all = run.listed.iter().filter(|kind| !kind.on_slices);
    let listed = cost(&all_of(on_all.map(repeated).collect()), at)?;
    if listed > run.cost * (1.0 + ROUNDING) {
        let damage = Damage::ReleasedAbove {
            run: number,
            listed,
            paid: run.cost,
        };
        return Err((at, damage));
    }
    Ok(())
}

fn repeated(kind: &Listed) -> Event {
    kind.event.clone().repeated(kind.count)
}

fn all_of(events: Vec<Event>) -> Event {
    if events.is_empty() {
        Event::NoOp
    } else {
        Event::composed(events)
    }
}

/// The listed releases as one event; those on slices as if all were on one.
fn listed(run: &Run) -> Event {
    let events = run.listed.iter().map(|kind| {
        let releases = repeated(kind);
        if kind.on_slices {
            Event::ParallelComposed {
                events: vec![releases],
            }
        } else {
            releases
        }
    });
    all_of(events.collect())
}

impl LedgerReport {
    fn new(book: &Book, ending: Ending, dead: &[u64]) -> Self {
        let terms = &book.terms;
        let used = book.used();
        let reclaimable = used - book.used_without(dead);
        let mut so_far = 0.0;
        let runs = (0..).zip(&book.runs).map(|(number, run)| {
            so_far = (so_far + run.cost).next_up();
            let (state, released) = match &run.end {
                Some(End::Settled(event)) => (RunState::Settled, event.clone()),
                Some(End::Lapsed) => (RunState::Lapsed, listed(run)),
                None if dead.contains(&number) => (RunState::Died, listed(run)),
                None => (RunState::Open, listed(run)),
            };
            // What a run may have released, where it didn't say what it did.
            let at_most = match state {
                RunState::Settled => &released,
                _ => &run.event,
            };
            let note = run.note.clone().unwrap_or_default();
            RunReport {
                run: number,
                state,
                settled: state == RunState::Settled,
                cost: run.cost,
                reserved_cost: run.reserved,
                drawn: run.drawn,
                epsilon: terms.epsilon_alone(run.cost, at_most),
                epsilon_so_far: terms.epsilon_spent(so_far),
                command: note.command().map(str::to_owned),
                output: note.output().map(str::to_owned),
                date: note.date().map(str::to_owned),
                records: note.records(),
                label: note.label().map(str::to_owned),
                noise: run.noise.clone(),
                reserved: run.event.clone(),
                released,
            }
        });
        let runs = runs.collect();
        Self {
            epsilon: terms.epsilon,
            delta: terms.delta,
            adjacency: terms.adjacency,
            filter: terms.filter,
            unit: terms.unit(),
            used,
            reclaimable,
            capacity: terms.capacity,
            epsilon_left: terms.epsilon_of(terms.capacity - (used - reclaimable)),
            runs,
            pools: book.spent_records(),
            head: book.head,
            torn_bytes: match ending {
                Ending::Torn(bytes) => bytes,
                Ending::Whole | Ending::NoBreak => 0,
            },
        }
    }
}
