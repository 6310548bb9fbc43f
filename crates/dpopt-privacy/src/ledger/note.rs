//! What a caller says about a run in the ledger, for people.

use serde::{Deserialize, Serialize};

/// What a run is, in its caller's words. It stands in the line of the reservation, so it is public
/// and there for good. Nothing reads it but people.
///
/// ```
/// use dpopt_privacy::ledger::RunNote;
/// let note = RunNote::new()
///     .with_command("dpopt train --data a.csv --out a")?
///     .with_output("a/model.json")?
///     .with_date("1 May")?;
/// assert_eq!(note.date(), Some("1 May"));
/// assert!(RunNote::new().with_date("1 May\n").is_err());
/// # Ok::<(), dpopt_privacy::ledger::RunNoteError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunNote {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

/// The last run that noted it was on another table than the run at hand: a ledger is the budget of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtherTable {
    /// The public numbers of records differ.
    #[error(
        "run {run} of this ledger was on {known} records, and this run is on {asked}: a ledger is the budget of one body of records, and \
         other records need a ledger of their own"
    )]
    Records {
        /// Number of the run in the ledger.
        run: u64,
        /// Its records.
        known: u64,
        /// Those of the run at hand.
        asked: u64,
    },
    /// The labels have other names.
    #[error(
        "run {run} of this ledger learned {known:?}, and this run learns {asked:?}: a ledger is the budget of one body of records, and \
         other records need a ledger of their own"
    )]
    Label {
        /// Number of the run in the ledger.
        run: u64,
        /// Its label.
        known: String,
        /// That of the run at hand.
        asked: String,
    },
}

/// A text can't stand in a note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunNoteError {
    /// The text is too long.
    #[error("the {field} has {bytes} bytes; a note in a ledger takes {limit}")]
    TooLong {
        /// Which text.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The longest that is taken.
        limit: usize,
    },
    /// The text holds a line break or another control character.
    #[error("the {field} holds a control character, which can't stand in a note in a ledger")]
    Control {
        /// Which text.
        field: &'static str,
    },
}

impl RunNote {
    /// Bytes that a command may have.
    pub const MAX_COMMAND: usize = 4096;
    /// Bytes that the name of an output may have.
    pub const MAX_OUTPUT: usize = 4096;
    /// Bytes that the name of a label may have.
    pub const MAX_LABEL: usize = 256;
    /// Bytes that a date may have: 64 characters of any alphabet.
    pub const MAX_DATE: usize = 256;

    /// A note that says nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The command that started the run.
    ///
    /// # Errors
    /// [`RunNoteError`].
    pub fn with_command(mut self, command: impl Into<String>) -> Result<Self, RunNoteError> {
        self.command = Some(checked("command", command.into(), Self::MAX_COMMAND)?);
        Ok(self)
    }

    /// Where its result goes.
    ///
    /// # Errors
    /// [`RunNoteError`].
    pub fn with_output(mut self, output: impl Into<String>) -> Result<Self, RunNoteError> {
        self.output = Some(checked("output", output.into(), Self::MAX_OUTPUT)?);
        Ok(self)
    }

    /// The date that the user gives it, in any form. No clock is read.
    ///
    /// # Errors
    /// [`RunNoteError`].
    pub fn with_date(mut self, date: impl Into<String>) -> Result<Self, RunNoteError> {
        self.date = Some(checked("date", date.into(), Self::MAX_DATE)?);
        Ok(self)
    }

    /// The public number of records that it is on.
    #[must_use]
    pub fn with_records(self, records: u64) -> Self {
        Self {
            records: Some(records),
            ..self
        }
    }

    /// The name of the label, which is public as the schema is.
    ///
    /// # Errors
    /// [`RunNoteError`].
    pub fn with_label(mut self, label: impl Into<String>) -> Result<Self, RunNoteError> {
        self.label = Some(checked("label", label.into(), Self::MAX_LABEL)?);
        Ok(self)
    }

    /// The public number of records that it is on.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        self.records
    }

    /// The name of the label.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The command that started the run.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// Where its result goes.
    #[must_use]
    pub fn output(&self) -> Option<&str> {
        self.output.as_deref()
    }

    /// The date that the user gave.
    #[must_use]
    pub fn date(&self) -> Option<&str> {
        self.date.as_deref()
    }
}

fn checked(field: &'static str, text: String, limit: usize) -> Result<String, RunNoteError> {
    if text.len() > limit {
        return Err(RunNoteError::TooLong {
            field,
            bytes: text.len(),
            limit,
        });
    }
    if text.chars().any(char::is_control) {
        return Err(RunNoteError::Control { field });
    }
    Ok(text)
}
