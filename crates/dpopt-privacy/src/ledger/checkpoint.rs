//! A checkpoint: a released point, and where the ledger stood.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::book::{Head, SpentRecords};
use super::chain::{self, WrongFormat};
use super::error::{Damage, LedgerError};
use super::{Flush, Ledger, disk};

const FORMAT: &str = "dpopt-checkpoint";
const VERSION: u64 = 1;

/// What a run leaves on the way, for another to start from.
///
/// It holds numbers that were released, counts, and the head of a ledger: no keys, no noise and
/// no estimator state, and nothing in its constructor takes any. Whoever resumes makes a new
/// plan from what the ledger has left.
///
/// The file is one JSON line with a hash of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    format: String,
    version: u64,
    step: u64,
    ledger: Head,
    pools: Vec<SpentRecords>,
    point: Vec<f64>,
    /// Absent in the files of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Absent in the files of 0.1, and of those who say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objective: Option<BTreeMap<String, String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<C> {
    checkpoint: C,
}

impl Ledger {
    /// Opens the ledger with which `checkpoint` was made, which may have grown since.
    ///
    /// What a run drew before it died is forfeited: a run that continues reserves a
    /// new plan from what is left, draws fresh noise, and starts at the checkpoint's point.
    ///
    /// # Errors
    /// [`LedgerError::OtherLedger`], [`LedgerError::RolledBack`], [`LedgerError::Rewritten`] when
    /// the ledger doesn't continue the checkpoint's; as [`Ledger::open`].
    pub fn resume(path: &Path, checkpoint: &Checkpoint) -> Result<Self, LedgerError> {
        let mut ledger = Self::open(path)?;
        ledger.check_continues(checkpoint.head())?;
        Ok(ledger)
    }

    /// A checkpoint at `point`, reached after `step` steps. The ledger is synced up to the head
    /// that the checkpoint names.
    ///
    /// # Privacy
    /// `point` must be a function of released values, as the points that an observer of a run
    /// sees are. The checkpoint is public then.
    ///
    /// # Errors
    /// [`CheckpointError::NotFinite`]; [`CheckpointError::Ledger`] as of [`Ledger::state`], and
    /// when the file can't be synced.
    pub fn checkpoint(&mut self, point: &[f64], step: u64) -> Result<Checkpoint, CheckpointError> {
        let bad = point.iter().enumerate().find(|(_, x)| !x.is_finite());
        if let Some((coordinate, &value)) = bad {
            return Err(CheckpointError::NotFinite { coordinate, value });
        }
        let (mut file, ending) = self.open_to_append()?;
        let lines = self.unlisted();
        self.append(file.as_mut(), ending, &lines, Flush::Lazy)?;
        file.sync()
            .map_err(|source| LedgerError::io(&self.path, source))?;
        Ok(Checkpoint {
            format: FORMAT.to_owned(),
            version: VERSION,
            step,
            ledger: self.book.head,
            pools: self.book.spent_records(),
            point: point.to_vec(),
            model: None,
            objective: None,
        })
    }
}

/// A checkpoint could not be made, written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Reading or writing failed.
    #[error("checkpoint {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("checkpoint {}: not a checkpoint", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of this program wrote the file.
    #[error(
        "checkpoint {}: written in version {found} of the format, and this program knows up to version {known}; use a newer one",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: u64,
        /// The newest version that can be read.
        known: u64,
    },
    /// The file is damaged.
    #[error("checkpoint {}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// The point holds a number that is not finite.
    #[error("coordinate {coordinate} of the point is {value}; a checkpoint holds finite numbers")]
    NotFinite {
        /// The coordinate.
        coordinate: usize,
        /// Its value.
        value: f64,
    },
    /// The ledger could not be brought up to date.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Checkpoint {
    /// Writes the checkpoint in the place of the file at `path`: all of it or none, and on the
    /// disk when this returns.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; what was at `path` is untouched then.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let io = |source| failed(path, source);
        let mut text = Vec::new();
        let content = Content { checkpoint: self };
        chain::write(1, &content, chain::START, &mut text).map_err(|e| io(e.into()))?;
        text.push(b'\n');
        disk::replace(path, &text).map_err(io)
    }

    /// Reads a checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError`]: the file can't be read, is not a checkpoint, is of a newer version,
    /// or is damaged.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let bytes = std::fs::read(path).map_err(|source| failed(path, source))?;
        Self::of_bytes(&bytes, path)
    }

    /// The checkpoint in these bytes, which were read from `path`: by another of several ranks.
    ///
    /// # Errors
    /// As [`Checkpoint::read`].
    pub fn of_bytes(bytes: &[u8], path: &Path) -> Result<Self, CheckpointError> {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        chain::check_format(line, "checkpoint", FORMAT, VERSION).map_err(|format| {
            let path = path.to_owned();
            match format {
                WrongFormat::Newer { found } => CheckpointError::NewerVersion {
                    path,
                    found,
                    known: VERSION,
                },
                WrongFormat::Other | WrongFormat::Old { .. } => CheckpointError::OtherFile { path },
            }
        })?;
        let damaged = |damage| CheckpointError::Damaged {
            path: path.to_owned(),
            damage,
        };
        let (content, _) = chain::read(line, 1, chain::START).map_err(damaged)?;
        let content: Content<Self> = serde_json::from_slice(&content).map_err(|error| {
            damaged(Damage::NotAnEntry {
                problem: error.to_string(),
            })
        })?;
        Ok(content.checkpoint)
    }

    /// With the name of what the point is of, for those who go on from it. Public.
    #[must_use]
    pub fn of_model(self, model: Option<String>) -> Self {
        Self { model, ..self }
    }

    /// What the point is of, if it was said.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// With what the run minimised, by names, for those who go on from it. Public.
    #[must_use]
    pub fn of_objective(self, objective: BTreeMap<String, String>) -> Self {
        Self {
            objective: Some(objective),
            ..self
        }
    }

    /// What the run minimised, if it was said.
    #[must_use]
    pub fn objective(&self) -> Option<&BTreeMap<String, String>> {
        self.objective.as_ref()
    }

    /// The released point.
    #[must_use]
    pub fn point(&self) -> &[f64] {
        &self.point
    }

    /// Steps that the run had made.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Where the ledger stood.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.ledger
    }

    /// Pools of records and how far they were read.
    #[must_use]
    pub fn pools(&self) -> &[SpentRecords] {
        &self.pools
    }
}

fn failed(path: &Path, source: std::io::Error) -> CheckpointError {
    CheckpointError::Io {
        path: path.to_owned(),
        source,
    }
}
