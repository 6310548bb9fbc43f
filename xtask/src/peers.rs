//! The virtual environment of other tools, and their scripts for tables.

use std::fmt;
use std::path::{Path, PathBuf};

/// The script that runs them on the quantiles.
pub(crate) const QUANTILES: &str = "benches/peers/quantiles.py";

/// The script that runs them on made-up tables.
pub(crate) const TABLES: &str = "benches/peers/tables.py";

/// Why there is no comparison.
#[derive(Debug)]
pub(crate) enum PeersError {
    /// The folder is no virtual environment: it has no interpreter.
    NoPython {
        /// Where it was looked for.
        looked_at: PathBuf,
    },
}

impl fmt::Display for PeersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPython { looked_at } => write!(
                f,
                "no Python interpreter at {}: this takes the folder of a virtual environment",
                looked_at.display()
            ),
        }
    }
}

/// The interpreter of a virtual environment.
fn python(venv: &Path) -> Result<PathBuf, PeersError> {
    let looked_at = if cfg!(windows) {
        venv.join("Scripts").join("python.exe")
    } else {
        venv.join("bin").join("python")
    };
    if looked_at.is_file() {
        Ok(looked_at)
    } else {
        Err(PeersError::NoPython { looked_at })
    }
}

/// The interpreter of a virtual environment, from any folder.
pub(crate) fn interpreter(venv: &Path) -> Result<PathBuf, PeersError> {
    python(&std::path::absolute(venv).unwrap_or_else(|_| venv.to_owned()))
}

/// An interpreter and a script, as a table takes them.
pub(crate) fn of_table(root: &Path, venv: &Path, script: &str) -> Result<[String; 2], PeersError> {
    let both = [interpreter(venv)?, root.join(script)];
    Ok(both.map(|path| path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::{PeersError, interpreter};
    use std::path::Path;

    #[test]
    fn a_folder_without_an_interpreter_is_named() {
        let error = interpreter(Path::new("no-such-folder")).expect_err("there is none");
        assert!(matches!(error, PeersError::NoPython { .. }));
        assert!(error.to_string().contains("no-such-folder"));
        assert!(
            super::of_table(Path::new("/"), Path::new("no-such-folder"), super::TABLES).is_err()
        );
    }
}
