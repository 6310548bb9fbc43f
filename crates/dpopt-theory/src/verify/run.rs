//! Runs the trials: on threads, resumable, the same for the same seed.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::claim::{Design, Experiment, Trial};
use super::error::VerifyError;
use super::journal::{Header, Journal, Outcome, Place};
use super::judge::{Cells, Report, judge};
use super::registry::Registry;
use crate::checks::{Effort, mixed};

/// Version of what trials depend on beside their header: raised when seeds or experiments change.
const VERSION: u32 = 1;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Trials done, those of an earlier run included.
    pub done: usize,
    /// Trials in all.
    pub all: usize,
    /// The experiment whose trial came last.
    pub id: &'a str,
}

type Watcher<'a> = Box<dyn Fn(Progress<'_>) + Sync + 'a>;

/// A run of experiments.
pub struct Verification<'a> {
    registry: &'a Registry,
    effort: Effort,
    only: Vec<String>,
    seed: u64,
    threads: NonZeroUsize,
    memory: f64,
    journal: Option<PathBuf>,
    progress: Option<Watcher<'a>>,
}

impl<'a> Verification<'a> {
    /// All experiments of `registry`, quickly, on one thread, with trials of at most 4 GiB.
    #[must_use]
    pub fn new(registry: &'a Registry) -> Self {
        Self {
            registry,
            effort: Effort::Quick,
            only: Vec::new(),
            seed: 0,
            threads: NonZeroUsize::MIN,
            memory: 4.0 * f64::from(1 << 30),
            journal: None,
            progress: None,
        }
    }

    /// As thoroughly as this.
    #[must_use]
    pub fn with_effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Only the experiment of this name, or those whose names start with it and a slash. May be said
    /// several times.
    #[must_use]
    pub fn only(mut self, id: &str) -> Self {
        self.only.push(id.to_owned());
        self
    }

    /// Other seeds.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of threads. The report does not depend on it.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the most memory of a trial, in bytes.
    #[must_use]
    pub fn with_memory(mut self, bytes: f64) -> Self {
        self.memory = bytes;
        self
    }

    /// Keeps trials in this file, and takes up those that it has.
    #[must_use]
    pub fn with_journal(mut self, file: &Path) -> Self {
        self.journal = Some(file.to_owned());
        self
    }

    /// Tells how far it is, after each trial.
    #[must_use]
    pub fn with_progress(mut self, progress: impl Fn(Progress<'_>) + Sync + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Runs what is not in the journal yet, and judges.
    ///
    /// # Errors
    /// [`VerifyError`]. A solver that fails is no error: it is in the report.
    pub fn run(&self) -> Result<Report, VerifyError> {
        let chosen = self.chosen()?;
        let designs: Vec<Design> = chosen
            .iter()
            .map(|e| self.checked(*e))
            .collect::<Result<_, _>>()?;
        let header = Header {
            effort: self.effort,
            seed: self.seed,
            version: VERSION,
        };
        let mut journal = match &self.journal {
            Some(file) => Journal::open(file, header)?,
            None => Journal::nowhere(),
        };
        self.trials(&chosen, &designs, &mut journal)?;
        let mut rows = Vec::new();
        for (experiment, design) in chosen.iter().zip(&designs) {
            let id = &experiment.claim().id;
            let cells = Cells::collect(design, |point, member, seed| {
                let place = Place {
                    id: id.clone(),
                    point,
                    member,
                    seed,
                };
                let unknown = Err("was not run".to_owned());
                journal.known(&place).cloned().unwrap_or(unknown)
            });
            rows.push(judge(*experiment, design, &cells)?);
        }
        Ok(Report {
            effort: self.effort,
            seed: self.seed,
            rows,
        })
    }

    /// Experiments asked for, in the order of the registry.
    fn chosen(&self) -> Result<Vec<&'a dyn Experiment>, VerifyError> {
        if self.only.is_empty() {
            let all: Vec<_> = self.registry.all().collect();
            return if all.is_empty() {
                Err(VerifyError::Nothing)
            } else {
                Ok(all)
            };
        }
        let mut ids = Vec::new();
        for only in &self.only {
            let found = self.registry.select(only);
            if found.is_empty() {
                return Err(VerifyError::Unknown {
                    only: only.to_owned(),
                    known: self.registry.names().map(str::to_owned).collect(),
                });
            }
            ids.extend(found.iter().map(|e| e.claim().id.as_str()));
        }
        let wanted = |e: &&dyn Experiment| ids.contains(&e.claim().id.as_str());
        Ok(self.registry.all().filter(wanted).collect())
    }

    /// The design of an experiment that can decide its claim on this machine.
    fn checked(&self, experiment: &dyn Experiment) -> Result<Design, VerifyError> {
        let design = experiment.design(self.effort);
        let id = || experiment.claim().id.clone();
        if design.points.len() < 3 || design.members == 0 || design.seeds == 0 {
            return Err(VerifyError::NoData {
                id: id(),
                points: design.points.len(),
                members: design.members,
                seeds: design.seeds,
            });
        }
        let mut before = 0.0;
        for &x in &design.points {
            if !(x > before && x.is_finite()) {
                return Err(VerifyError::BadPoint {
                    id: id(),
                    x,
                    before,
                });
            }
            before = x;
            let need = experiment.memory(x);
            if need * self.threads.get() as f64 > self.memory {
                return Err(VerifyError::TooLarge {
                    id: id(),
                    x,
                    need,
                    limit: self.memory / self.threads.get() as f64,
                });
            }
        }
        Ok(design)
    }

    fn trials(
        &self,
        chosen: &[&dyn Experiment],
        designs: &[Design],
        journal: &mut Journal,
    ) -> Result<(), VerifyError> {
        let mut open = Vec::new();
        let mut all = 0;
        for (experiment, design) in chosen.iter().zip(designs) {
            all += design.trials();
            // The last argument first: it is the most work, and the short trials fill the threads
            // up at the end.
            for point in (0..design.points.len()).rev() {
                for member in 0..design.members {
                    for seed in 0..design.seeds {
                        let place = Place {
                            id: experiment.claim().id.clone(),
                            point,
                            member,
                            seed,
                        };
                        if journal.known(&place).is_none() {
                            let trial = Trial {
                                x: design.points[point],
                                member,
                                members: design.members,
                                seed: seed_of(self.seed, &place),
                            };
                            open.push((*experiment, place, trial));
                        }
                    }
                }
            }
        }
        let done = AtomicUsize::new(all - open.len());
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let journal = Mutex::new((journal, None));
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let Some((experiment, place, trial)) =
                    open.get(next.fetch_add(1, Ordering::Relaxed))
                else {
                    break;
                };
                let outcome = attempt(*experiment, trial);
                let Ok(mut held) = journal.lock() else { break };
                if let Err(error) = held.0.keep(place.clone(), outcome) {
                    held.1 = Some(error);
                    stop.store(true, Ordering::Relaxed);
                }
                drop(held);
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(progress) = &self.progress {
                    progress(Progress {
                        done,
                        all,
                        id: &place.id,
                    });
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.get() {
                scope.spawn(work);
            }
            work();
        });
        match journal.into_inner() {
            Ok((_, Some(error))) => Err(error),
            _ => Ok(()),
        }
    }
}

/// A solver that panics, or measures NaN, has failed this trial.
fn attempt(experiment: &dyn Experiment, trial: &Trial) -> Outcome {
    let run = std::panic::AssertUnwindSafe(|| experiment.trial(trial));
    match std::panic::catch_unwind(run) {
        Ok(Ok(measured)) => {
            let bound = measured.bound.unwrap_or(0.0);
            let floor = measured.floor.unwrap_or(0.0);
            if [measured.error, measured.square, bound, floor]
                .iter()
                .all(|v| v.is_finite() && *v >= 0.0)
            {
                Ok(measured)
            } else {
                Err(format!(
                    "an error of {}, of square {}, under a bound of {bound}",
                    measured.error, measured.square
                ))
            }
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("panicked".to_owned()),
    }
}

/// A number that two trials share only by chance.
fn seed_of(seed: u64, place: &Place) -> u64 {
    // Fowler-Noll-Vo over the name, then the finaliser of SplitMix64 over each number.
    let mut state = place.id.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, byte| {
        (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for word in [
        seed,
        place.point as u64,
        place.member as u64,
        place.seed as u64,
    ] {
        state = mixed(state ^ mixed(word, 0), 0);
    }
    state
}
