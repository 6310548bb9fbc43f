//! What is paid for and found no place in a file is offered again before it is given up.

use serde::Serialize;

use crate::artefacts;
use crate::error::CliError;
use crate::model::Model;
use crate::outputs::json_text;
use crate::summary::{print, print_json};

/// A paid model without a file.
pub(crate) struct Rescue<'a> {
    pub(crate) model: &'a Model,
    /// Whether a folder was asked for and failed. Otherwise the model was to be printed, or nobody
    /// asked for it.
    pub(crate) promised: bool,
}

impl Rescue<'_> {
    /// After the summary was `printed`, which holds the model if it is `json`: prints the model
    /// under a line of its own, and writes it to a new temporary file where that fails. What there
    /// is to tell, if anything.
    pub(crate) fn after(&self, printed: Result<(), CliError>, json: bool) -> Option<CliError> {
        let shown = match printed {
            Ok(()) if self.promised && !json => {
                let line =
                    "Model      could not be written to its folder; the next line holds it\n";
                print(line).and_then(|()| print_json(self.model))
            }
            Err(error) if !self.promised && !json => {
                return Some(error).filter(|error| !error.is_a_closed_pipe());
            }
            shown => shown,
        };
        match shown {
            Ok(()) if self.promised => Some(CliError::Printed),
            Ok(()) => None,
            Err(_) => Some(to_a_file(self.model)),
        }
    }
}

fn to_a_file(result: &impl Serialize) -> CliError {
    let kept = json_text(result).map_err(|error| match error {
        CliError::Json(error) => error.into(),
        other => std::io::Error::other(other.to_string()),
    });
    match kept.and_then(|text| artefacts::rescue(&text)) {
        Ok(path) => CliError::Rescued(path),
        Err(error) => CliError::Lost(error),
    }
}

/// The end of a command whose `result` is released and paid for: how it was printed, how the ledger was settled, and how it was written to
/// its file, where there is one.
pub(crate) fn ended(
    result: &impl Serialize,
    printed: Result<(), CliError>,
    settled: Option<CliError>,
    written: Option<Result<(), CliError>>,
) -> Result<(), CliError> {
    // A reader that went away asked for no more, unless a file was to have it.
    let wanted = match (&printed, &written) {
        (Ok(()), _) | (_, Some(Ok(()))) => false,
        (Err(_), Some(Err(_))) => true,
        (Err(error), None) => !error.is_a_closed_pipe(),
    };
    let mut troubles = Vec::from_iter(settled);
    troubles.extend(written.and_then(Result::err));
    let closed = match printed {
        Err(error) if !error.is_a_closed_pipe() => {
            troubles.push(error);
            Ok(())
        }
        shown => shown,
    };
    troubles.extend(wanted.then(|| to_a_file(result)));
    if troubles.is_empty() {
        closed
    } else {
        Err(CliError::AfterRun(troubles))
    }
}
