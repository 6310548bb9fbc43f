//! `cargo xtask bench --peers VENV`: the same clipped steps in other tools, timed beside ours in one run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::cargo::cargo;

/// The script that times them.
const SCRIPT: &str = "benches/peers/peers.py";

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
    /// A program could not be started.
    Start {
        /// Which.
        program: String,
        /// Why.
        error: std::io::Error,
    },
    /// A program ended with an error; it has said which.
    Ended {
        /// Which.
        program: String,
        /// How.
        status: ExitStatus,
    },
    /// The script printed something else than its rows.
    Output {
        /// What is wrong with it.
        why: String,
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
            Self::Start { program, error } => write!(f, "cannot start {program}: {error}"),
            Self::Ended { program, status } => write!(f, "{program} failed: {status}"),
            Self::Output { why } => write!(f, "{SCRIPT} printed no rows: {why}"),
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

/// Builds our side, runs the script for one and for two threads, and returns what it printed for each.
pub(crate) fn run(root: &Path, venv: &Path, quick: bool) -> Result<Vec<Value>, PeersError> {
    // The script's folder is another one.
    let venv = std::path::absolute(venv).unwrap_or_else(|_| venv.to_owned());
    let python = python(&venv)?;
    let ours = ["--release", "-p", "dpopt-benches", "--bin", "peer"];
    let mut build = Command::new(cargo());
    build
        .args(["build", "--quiet"])
        .args(ours)
        .current_dir(root);
    finish("the build of our side", &mut build)?;
    [1, 2]
        .into_iter()
        .map(|threads: u8| {
            let mut script = Command::new(&python);
            script
                .arg(SCRIPT)
                .args(["--threads", &threads.to_string()])
                .args(quick.then_some("--quick"))
                .arg("--")
                .arg(cargo())
                .args(["run", "--quiet"])
                .args(ours)
                .arg("--")
                .current_dir(root);
            let output = finish(SCRIPT, &mut script)?;
            serde_json::from_slice(&output).map_err(|error| PeersError::Output {
                why: error.to_string(),
            })
        })
        .collect()
}

/// What a program printed.
fn finish(program: &str, command: &mut Command) -> Result<Vec<u8>, PeersError> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| PeersError::Start {
            program: program.to_owned(),
            error,
        })?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(PeersError::Ended {
            program: program.to_owned(),
            status: output.status,
        })
    }
}

/// What was printed, for people: times of ours and of theirs over ours, with the range of all rounds but the lowest and the
/// highest tenth. Where one is in that range nothing is claimed.
pub(crate) fn table(all: &[Value]) -> Result<String, PeersError> {
    let mut out = format!(
        "{:<48} {:>12} {:>12}  theirs over ours\n",
        "", "median", "fastest"
    );
    let missing = |what: &str| PeersError::Output {
        why: format!("a row without `{what}`"),
    };
    for run in all {
        let list = |name: &str| run[name].as_array().ok_or_else(|| missing(name));
        for row in list("rows")? {
            let id = row["id"].as_str().ok_or_else(|| missing("id"))?;
            let number = |name: &str| row[name].as_f64().ok_or_else(|| missing(name));
            out += &format!(
                "{id:<48} {:>9.3} ms {:>9.3} ms",
                1e3 * number("seconds")?,
                1e3 * number("fastest")?,
            );
            if row["version"] != "this" {
                out += &format!(
                    " {:>7.2}x  {:.2} to {:.2}",
                    number("ratio")?,
                    number("low")?,
                    number("high")?
                );
                out += if row["claim"] == true {
                    ""
                } else {
                    "  no claim"
                };
            }
            out.push('\n');
        }
        for word in ["skipped", "failed"] {
            for row in list(word)? {
                let id = row["id"].as_str().ok_or_else(|| missing("id"))?;
                let reason = row["reason"].as_str().ok_or_else(|| missing("reason"))?;
                out += &format!("{id:<48} {word}: {reason}\n");
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{PeersError, python, run, table};
    use std::path::Path;

    #[test]
    fn a_folder_without_an_interpreter_is_named() {
        let error = python(Path::new("no-such-folder")).expect_err("there is none");
        assert!(matches!(error, PeersError::NoPython { .. }));
        assert!(error.to_string().contains("no-such-folder"));
        // Before anything is built.
        assert!(run(Path::new("/"), Path::new("no-such-folder"), true).is_err());
        assert!(
            super::of_table(Path::new("/"), Path::new("no-such-folder"), super::TABLES).is_err()
        );
    }

    #[test]
    fn a_row_shows_its_ratio_and_what_is_missing_is_said() {
        let row = |id: &str, claim: bool| {
            serde_json::json!({"id": id, "version": "1", "seconds": 0.02, "fastest": 0.01, "ratio": 2.5,
                "low": 0.75, "high": 4.0, "claim": claim})
        };
        let gone = serde_json::json!({"id": "a/t1/jax", "reason": "jax is not installed"});
        let all = [
            serde_json::json!({"rows": [row("a/t1/sum/numpy", true), row("b", false)], "skipped": [gone], "failed": []}),
        ];
        let text = table(&all).expect("a table");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("20.000 ms") && lines[1].ends_with("2.50x  0.75 to 4.00"));
        assert!(lines[2].ends_with("no claim"));
        assert!(text.ends_with("skipped: jax is not installed\n"));
        assert!(table(&[serde_json::json!({})]).is_err());
    }
}
