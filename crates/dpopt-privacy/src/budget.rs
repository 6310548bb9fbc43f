//! A budget that several runs share: a filter in a file.
//!
//! The filter is fixed when the file is made: (epsilon, delta), the adjacency, and the measure in
//! which costs add up (Gaussian DP, zero-concentrated DP, or Renyi DP at one order). A run
//! reserves its cost, synced to disk, before its first release; when it ends it settles for what
//! it really released. A run that is killed never settles, and its reservation stands.
//!
//! # Privacy
//! Costs may be chosen after earlier releases. For Gaussian DP the sum of squared mu of adaptively
//! chosen Gaussian releases that stays at or below mu^2 is mu-GDP (Smith and Thakurta 2022,
//! "Fully adaptive composition for Gaussian differential privacy"); for zCDP and for RDP at a
//! fixed order the sum of costs is a valid filter (Feldman and Zrnic 2021, "Individual privacy
//! accounting via a Renyi filter"; Whitehouse et al. 2023 for zCDP). Subsampled releases compose
//! adaptively in RDP only, so the other two filters refuse them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::accounting::AccountingError;
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::filter::{FilterKind, Meter};
use crate::units::{Delta, Epsilon};

const FORMAT: &str = "dpopt-budget-1";

/// A shared budget could not be opened, or can't pay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// Reading, writing, locking or syncing failed.
    #[error("budget file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a budget, or a line in its middle is damaged.
    #[error("budget file {path}, line {line}: {reason}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file exists with other terms than those asked for.
    #[error(
        "budget file {path} was created for epsilon {epsilon}, delta {delta}, {adjacency}, filter {filter:?}; its terms can't be changed"
    )]
    OtherTerms {
        /// The file.
        path: PathBuf,
        /// Its epsilon.
        epsilon: f64,
        /// Its delta.
        delta: f64,
        /// Its adjacency.
        adjacency: Adjacency,
        /// Its filter.
        filter: FilterKind,
    },
    /// The run uses another adjacency than the budget.
    #[error("a budget for {budget} adjacency can't pay for a run under {run} adjacency")]
    AdjacencyMismatch {
        /// Adjacency of the budget.
        budget: Adjacency,
        /// Adjacency of the run.
        run: Adjacency,
    },
    /// A simulation was to be charged.
    #[error("a budget can't pay for a simulation: anybody can take its noise off again")]
    Simulated,
    /// The budget came after a reservation, or was the second one.
    #[error("a budget must be attached before the first reservation, and only one")]
    TooLate,
    /// The run costs more than is left.
    #[error(
        "the budget can't pay: the run costs {cost:.6} and {left:.6} of {capacity:.6} are left ({unit}); a plan of epsilon at most {} would fit",
        (epsilon_left * 1e4).floor() / 1e4
    )]
    Exhausted {
        /// Cost of the run in the filter's unit.
        cost: f64,
        /// What is left in that unit.
        left: f64,
        /// The whole budget in that unit.
        capacity: f64,
        /// The unit: squared mu, rho, or Renyi divergence.
        unit: &'static str,
        /// The largest epsilon, at the budget's delta, that what is left could pay as one run
        /// (0 when nothing is left).
        epsilon_left: f64,
    },
    /// epsilon is too small for the Renyi filter at this delta.
    #[error(
        "epsilon {epsilon} at delta {delta} leaves nothing to spend in a Renyi filter; use the Gaussian-DP filter"
    )]
    TooTight {
        /// The epsilon.
        epsilon: f64,
        /// The delta.
        delta: f64,
    },
    /// The filter can't account the event.
    #[error("this budget can't account the run: {0}")]
    Accounting(#[from] AccountingError),
}

/// Handle of one reservation in a budget file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReservationId {
    id: u64,
    cost: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Terms {
    format: String,
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
    filter: FilterKind,
    /// Renyi order of the filter; only for [`FilterKind::Rdp`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<f64>,
    /// What may be spent, in the filter's unit.
    capacity: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Reserve { id: u64, cost: f64, event: Event },
    Settle { id: u64, cost: f64, event: Event },
}

/// A shared budget in a file of JSON lines.
///
/// The file is locked only while it is read or written, so that runs may overlap; each reads the
/// latest state before it reserves.
#[derive(Debug)]
pub struct BudgetFile {
    path: PathBuf,
    terms: Terms,
}

/// What a budget file says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BudgetState {
    /// Sum of settled costs and of reservations that were never settled, in the filter's unit.
    pub used: f64,
    /// What may be spent in total.
    pub capacity: f64,
    /// Number of reservations.
    pub runs: u64,
    /// Number of reservations that were never settled: still running, or killed.
    pub open: u64,
}

impl BudgetFile {
    /// Opens the budget at `path`, or creates it with these terms.
    ///
    /// # Errors
    /// [`BudgetError::OtherTerms`] when the file exists with other terms; [`BudgetError::Io`],
    /// [`BudgetError::Corrupt`].
    pub fn open_or_create(
        path: &Path,
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        filter: FilterKind,
    ) -> Result<Self, BudgetError> {
        let terms = Terms::new(epsilon, delta, adjacency, filter)?;
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(mut file) => {
                // Locked, so that a process that opens it meanwhile waits for the terms.
                let written = file
                    .lock()
                    .and_then(|()| write_line(&mut file, &terms))
                    .and_then(|()| file.sync_all())
                    .and_then(|()| sync_parent(path));
                written.map_err(|source| io_error(path, source))?;
                Ok(Self {
                    path: path.to_owned(),
                    terms,
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let found = Self::open(path)?;
                if found.terms == terms {
                    Ok(found)
                } else {
                    Err(BudgetError::OtherTerms {
                        path: path.to_owned(),
                        epsilon: found.terms.epsilon.get(),
                        delta: found.terms.delta.get(),
                        adjacency: found.terms.adjacency,
                        filter: found.terms.filter,
                    })
                }
            }
            Err(source) => Err(io_error(path, source)),
        }
    }

    /// Opens an existing budget.
    ///
    /// # Errors
    /// [`BudgetError::Io`] or [`BudgetError::Corrupt`].
    pub fn open(path: &Path) -> Result<Self, BudgetError> {
        let mut file = File::open(path).map_err(|source| io_error(path, source))?;
        file.lock_shared()
            .map_err(|source| io_error(path, source))?;
        let contents = read(path, &mut file)?;
        Ok(Self {
            path: path.to_owned(),
            terms: contents.terms,
        })
    }

    /// What is used and what is left.
    ///
    /// # Errors
    /// [`BudgetError::Io`] or [`BudgetError::Corrupt`].
    pub fn state(&self) -> Result<BudgetState, BudgetError> {
        let mut file = File::open(&self.path).map_err(|source| io_error(&self.path, source))?;
        file.lock_shared()
            .map_err(|source| io_error(&self.path, source))?;
        Ok(read(&self.path, &mut file)?.state)
    }

    /// The epsilon that it was created for.
    #[must_use]
    pub fn epsilon(&self) -> Epsilon {
        self.terms.epsilon
    }

    /// The delta that it was created for.
    #[must_use]
    pub fn delta(&self) -> Delta {
        self.terms.delta
    }

    /// The neighbouring relation that it was created for.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.terms.adjacency
    }

    /// The measure in which costs add up.
    #[must_use]
    pub fn filter(&self) -> FilterKind {
        self.terms.filter
    }

    /// The largest epsilon, at the budget's delta, that what is left in `state` could pay as one
    /// run; 0 when nothing is left.
    #[must_use]
    pub fn epsilon_left(&self, state: &BudgetState) -> f64 {
        self.terms.epsilon_of(state.capacity - state.used)
    }

    /// Whether a fresh budget with these terms could pay for `event` alone. Touches no file: for
    /// asking before one is created.
    ///
    /// # Errors
    /// [`BudgetError::Exhausted`] when it could not, [`BudgetError::Accounting`] when its filter
    /// can't account the event, [`BudgetError::TooTight`].
    pub fn could_pay(
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        filter: FilterKind,
        event: &Event,
    ) -> Result<(), BudgetError> {
        let terms = Terms::new(epsilon, delta, adjacency, filter)?;
        terms.pay(0.0, terms.cost(event)?)
    }

    pub(crate) fn check_adjacency(&self, run: Adjacency) -> Result<(), BudgetError> {
        if run == self.terms.adjacency {
            Ok(())
        } else {
            Err(BudgetError::AdjacencyMismatch {
                budget: self.terms.adjacency,
                run,
            })
        }
    }

    /// Sets aside the cost of `event`; on disk when this returns.
    pub(crate) fn reserve(&mut self, event: &Event) -> Result<ReservationId, BudgetError> {
        let cost = self.terms.cost(event)?;
        let (mut file, contents) = self.lock_for_writing()?;
        self.terms.pay(contents.state.used, cost)?;
        let id = contents.state.runs;
        let line = Line::Reserve {
            id,
            cost,
            event: event.clone(),
        };
        self.append(&mut file, &line)?;
        Ok(ReservationId { id, cost })
    }

    /// Replaces the cost of a reservation by that of what was really released.
    pub(crate) fn settle(&mut self, id: ReservationId, event: &Event) -> Result<(), BudgetError> {
        // Less was released than reserved; only rounding could say otherwise.
        let cost = self.terms.cost(event)?.min(id.cost);
        let (mut file, contents) = self.lock_for_writing()?;
        // Another file may have taken the place of the one that was reserved in; a refund there
        // would be paid by another run.
        let own = usize::try_from(id.id)
            .ok()
            .and_then(|at| contents.costs.get(at));
        if own != Some(&(id.cost, false)) {
            return Err(BudgetError::Corrupt {
                path: self.path.clone(),
                line: 0,
                reason: format!("reservation {} of this run is not in it", id.id),
            });
        }
        let line = Line::Settle {
            id: id.id,
            cost,
            event: event.clone(),
        };
        self.append(&mut file, &line)
    }

    /// Opens, locks, reads, cuts off a line that a crash left half-written, and seeks to the end.
    fn lock_for_writing(&self) -> Result<(File, Contents), BudgetError> {
        let io = |source| io_error(&self.path, source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.path)
            .map_err(io)?;
        file.lock().map_err(io)?;
        let contents = read(&self.path, &mut file)?;
        if contents.terms != self.terms {
            return Err(BudgetError::Corrupt {
                path: self.path.clone(),
                line: 1,
                reason: "the terms changed while the budget was in use".to_owned(),
            });
        }
        file.set_len(contents.good_bytes).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        Ok((file, contents))
    }

    fn append(&self, file: &mut File, line: &Line) -> Result<(), BudgetError> {
        write_line(file, line)
            .and_then(|()| file.sync_all())
            .map_err(|source| io_error(&self.path, source))
    }
}

impl Terms {
    fn new(
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        filter: FilterKind,
    ) -> Result<Self, BudgetError> {
        let too_tight = || BudgetError::TooTight {
            epsilon: epsilon.get(),
            delta: delta.get(),
        };
        let meter = Meter::new(filter, epsilon, delta)?.ok_or_else(too_tight)?;
        Ok(Self {
            format: FORMAT.to_owned(),
            epsilon,
            delta,
            adjacency,
            filter,
            order: meter.order(),
            capacity: meter.capacity(),
        })
    }

    /// The measure with the capacity of the file, which may be a little below today's.
    fn meter(&self) -> Meter {
        Meter::fixed(self.filter, self.order, self.capacity)
    }

    /// Cost of an event in the filter's unit, rounded up.
    fn cost(&self, event: &Event) -> Result<f64, BudgetError> {
        Ok(self.meter().cost(event, self.adjacency)?)
    }

    /// Whether `cost` fits beside what is used.
    fn pay(&self, used: f64, cost: f64) -> Result<(), BudgetError> {
        let meter = self.meter();
        if meter.fits(used, cost) {
            return Ok(());
        }
        let left = self.capacity - used;
        Err(BudgetError::Exhausted {
            cost,
            left: left.max(0.0),
            capacity: self.capacity,
            unit: meter.unit(),
            epsilon_left: self.epsilon_of(left),
        })
    }

    fn epsilon_of(&self, left: f64) -> f64 {
        self.meter().epsilon_of(left, self.delta)
    }
}

struct Contents {
    terms: Terms,
    state: BudgetState,
    /// Cost of each reservation, and whether it was settled.
    costs: Vec<(f64, bool)>,
    /// Length up to and including the last whole line.
    good_bytes: u64,
}

fn read(path: &Path, file: &mut File) -> Result<Contents, BudgetError> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut text))
        .map_err(|source| io_error(path, source))?;
    let corrupt = |line: usize, reason: String| BudgetError::Corrupt {
        path: path.to_owned(),
        line,
        reason,
    };
    // A line without its end was being written when the process died; it was not synced, so
    // nothing was released on its strength.
    let good = text
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |last| last + 1);
    let mut lines = text[..good].split(|&byte| byte == b'\n').enumerate();
    let terms: Terms = match lines.next() {
        Some((_, line)) if !line.is_empty() => {
            serde_json::from_slice(line).map_err(|error| corrupt(1, error.to_string()))?
        }
        _ => return Err(corrupt(1, "the file holds no budget".to_owned())),
    };
    if terms.format != FORMAT {
        return Err(corrupt(
            1,
            format!("format {:?} is not {FORMAT:?}", terms.format),
        ));
    }
    let expected = Terms::new(terms.epsilon, terms.delta, terms.adjacency, terms.filter)?;
    if !(terms.capacity <= expected.capacity * (1.0 + 1e-9)) || terms.order != expected.order {
        return Err(corrupt(
            1,
            format!(
                "capacity {} is more than epsilon and delta allow ({})",
                terms.capacity, expected.capacity
            ),
        ));
    }
    let mut costs: Vec<(f64, bool)> = Vec::new();
    for (index, line) in lines {
        if line.is_empty() {
            continue;
        }
        let number = index + 1;
        let line: Line =
            serde_json::from_slice(line).map_err(|error| corrupt(number, error.to_string()))?;
        let (Line::Reserve { cost, .. } | Line::Settle { cost, .. }) = &line;
        if !(cost.is_finite() && *cost >= 0.0) {
            return Err(corrupt(number, format!("cost {cost} is not a cost")));
        }
        match line {
            Line::Reserve { id, cost, .. } if id == costs.len() as u64 => costs.push((cost, false)),
            Line::Settle { id, cost, .. } => {
                match usize::try_from(id).ok().and_then(|id| costs.get_mut(id)) {
                    // A run can't spend more than it reserved.
                    Some((reserved, settled)) if !*settled && cost <= *reserved => {
                        *reserved = cost;
                        *settled = true;
                    }
                    _ => {
                        return Err(corrupt(
                            number,
                            format!("settlement {id} has no open reservation of at least its cost"),
                        ));
                    }
                }
            }
            Line::Reserve { id, .. } => {
                return Err(corrupt(number, format!("reservation {id} is out of order")));
            }
        }
    }
    let used = costs.iter().map(|(cost, _)| cost).sum::<f64>() * (1.0 + 1e-14 * costs.len() as f64);
    Ok(Contents {
        state: BudgetState {
            used,
            capacity: terms.capacity,
            runs: costs.len() as u64,
            open: costs.iter().filter(|(_, settled)| !settled).count() as u64,
        },
        costs,
        terms,
        good_bytes: good as u64,
    })
}

fn write_line(file: &mut File, line: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        // Only some systems can sync a folder; where it can't be opened there is nothing to do.
        Some(parent) if !parent.as_os_str().is_empty() => match File::open(parent) {
            Ok(folder) => folder.sync_all(),
            Err(_) => Ok(()),
        },
        _ => match File::open(".") {
            Ok(folder) => folder.sync_all(),
            Err(_) => Ok(()),
        },
    }
}

fn io_error(path: &Path, source: std::io::Error) -> BudgetError {
    BudgetError::Io {
        path: path.to_owned(),
        source,
    }
}
