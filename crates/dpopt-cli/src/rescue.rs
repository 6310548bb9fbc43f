//! A model that found no place in a file is offered again before it is given up.

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
            Err(_) => Some(self.to_a_file()),
        }
    }

    fn to_a_file(&self) -> CliError {
        let kept = json_text(self.model).map_err(|error| match error {
            CliError::Json(error) => error.into(),
            other => std::io::Error::other(other.to_string()),
        });
        match kept.and_then(|text| artefacts::rescue(&text)) {
            Ok(path) => CliError::Rescued(path),
            Err(error) => CliError::Lost(error),
        }
    }
}
