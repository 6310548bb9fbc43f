//! `cargo xtask kills`: the long form of the tests that kill runs on a shared ledger.
//!
//! 1,000 processes at random times and 900 at chosen operations on the disk. The tests are
//! `ledger::kill_tests` of the privacy crate; a short form runs with its other tests.

use std::path::Path;
use std::process::Command;

use crate::cargo::cargo;

/// Runs them; an error where a ledger said less than was released, or too much was lost.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let status = command(root)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("a kill test failed; the lines above say which".to_owned())
    }
}

fn command(root: &Path) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(["test", "--quiet", "-p", "dpopt-privacy", "--lib"])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .args([
            "ledger::kill_tests",
            "--",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("DPOPT_KILLS_LONG", "1");
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::command;

    /// The names are those of the tests; a name that no test has would pass in silence.
    #[test]
    fn the_tests_are_there_and_know_the_variable() {
        let command = command(Path::new("root"));
        let (name, _) = command.get_envs().next().expect("a variable");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let file = root.join("crates/dpopt-privacy/src/ledger/kill_tests.rs");
        let text = std::fs::read_to_string(file).expect("the tests");
        assert!(text.contains(&format!("\"{}\"", name.to_string_lossy())));
        assert!(command.get_args().any(|word| word == "ledger::kill_tests"));
    }
}
