//! Runs targets, on as many threads as there are cores, and tells of them in order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use serde::Serialize;

use super::error::AuditError;
use super::target::{Row, Settings, Target};
use crate::checks::{self, Status};

/// Targets, in order.
pub type Registry = checks::Registry<dyn Target>;

/// The rows of a registry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// In the order of the registry.
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether every claim stands and every broken twin was caught.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.status == Status::Pass)
    }
}

/// One step of an audit, for whoever draws progress.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Targets done.
    pub done: usize,
    /// Targets in all.
    pub all: usize,
    /// The row that was just finished.
    pub row: &'a Row,
    /// How long its audit took.
    pub seconds: f64,
}

impl Registry {
    /// Adds a target.
    pub fn add(&mut self, target: impl Target + 'static) {
        self.push(Box::new(target));
    }

    /// Audits the targets of one group, or those of that name, or all of them.
    ///
    /// # Errors
    /// [`AuditError::UnknownTarget`], [`AuditError::Setting`], and where an audit could not be made.
    pub fn run(
        &self,
        settings: &Settings,
        only: Option<&str>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Report, AuditError> {
        settings.check()?;
        let targets = match only {
            Some(only) => self.select(only),
            None => self.all().collect(),
        };
        if let (true, Some(only)) = (targets.is_empty(), only) {
            return Err(AuditError::UnknownTarget {
                asked: only.to_owned(),
                known: self.groups(),
            });
        }
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (send, audited) = mpsc::channel();
            for _ in 0..threads.min(targets.len()) {
                let (send, next, targets) = (send.clone(), &next, &targets);
                scope.spawn(move || {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some(target) = targets.get(i) else { break };
                        let (row, seconds) = timed(|| target.audit(settings));
                        // Nobody listens any more where an audit could not be made.
                        if send.send((i, row, seconds)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let (mut rows, mut ahead) = (Vec::new(), BTreeMap::new());
            for (i, row, seconds) in audited {
                ahead.insert(i, (row?, seconds));
                while let Some((row, seconds)) = ahead.remove(&rows.len()) {
                    rows.push(row);
                    progress(Progress {
                        done: rows.len(),
                        all: targets.len(),
                        row: &rows[rows.len() - 1],
                        seconds,
                    });
                }
            }
            Ok(Report { rows })
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no audit sees it: it is for whoever waits"
)]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let made = work();
    (made, start.elapsed().as_secs_f64())
}
