//! The trials done so far, one per line, so that an interrupted run can go on.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::claim::Measured;
use super::error::VerifyError;
use crate::checks::Effort;

/// The place of a trial: experiment, argument, problem, seed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) id: String,
    pub(super) point: usize,
    pub(super) member: usize,
    pub(super) seed: usize,
}

/// Its result, or why it failed.
pub(super) type Outcome = Result<Measured, String>;

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    place: Place,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// The settings that trials depend on, beside their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) effort: Effort,
    pub(super) seed: u64,
    pub(super) version: u32,
}

/// A file of trials, or none.
pub(super) struct Journal {
    file: Option<(PathBuf, File)>,
    done: HashMap<Place, Outcome>,
}

impl Journal {
    /// Without a file: nothing is kept.
    pub(super) fn nowhere() -> Self {
        Self {
            file: None,
            done: HashMap::new(),
        }
    }

    /// Opens or starts the file. What a crash left of the last line is cut off.
    pub(super) fn open(path: &Path, header: Header) -> Result<Self, VerifyError> {
        let io = |error| VerifyError::Io {
            file: path.display().to_string(),
            error,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(io)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut done = HashMap::new();
        let expected = encode(&header);
        for (i, line) in text[..whole].lines().enumerate() {
            if i == 0 {
                if line != expected {
                    return Err(VerifyError::OtherJournal {
                        file: path.display().to_string(),
                        found: line.to_owned(),
                        expected,
                    });
                }
                continue;
            }
            let bad = |why: String| VerifyError::BadJournal {
                file: path.display().to_string(),
                line: i + 1,
                why,
            };
            let line: Line = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            let outcome = match (line.measured, line.failed) {
                (Some(measured), None) => Ok(measured),
                (None, Some(why)) => Err(why),
                _ => return Err(bad("neither a result nor a failure".to_owned())),
            };
            done.insert(line.place, outcome);
        }
        file.set_len(whole as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        if whole == 0 {
            writeln!(file, "{expected}").map_err(io)?;
        }
        Ok(Self {
            file: Some((path.to_owned(), file)),
            done,
        })
    }

    pub(super) fn known(&self, place: &Place) -> Option<&Outcome> {
        self.done.get(place)
    }

    /// Keeps a result, in one write.
    pub(super) fn keep(&mut self, place: Place, outcome: Outcome) -> Result<(), VerifyError> {
        if let Some((path, file)) = &mut self.file {
            let line = Line {
                place: place.clone(),
                measured: outcome.as_ref().ok().copied(),
                failed: outcome.as_ref().err().cloned(),
            };
            let text = encode(&line) + "\n";
            file.write_all(text.as_bytes())
                .map_err(|error| VerifyError::Io {
                    file: path.display().to_string(),
                    error,
                })?;
        }
        self.done.insert(place, outcome);
        Ok(())
    }
}

/// These types have no map with keys that are not strings and no number that is not finite, so
/// there is nothing in them that can't be written.
fn encode(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
