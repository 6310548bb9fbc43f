//! `cargo xtask long [FILTER]`: the tests in their long forms.
//!
//! All settings where a plain run takes every seventh, all bytes at which a disk may fill up, and 1,900 killed processes for 120: every test that asks
//! `dpopt_testkit::is_long`.

use std::path::Path;
use std::process::Command;

use crate::cargo::cargo;
use crate::tidy::TEST_COMMAND;

/// Runs the tests whose name has `filter` in it, or all.
pub(crate) fn run(root: &Path, filter: &str) -> Result<(), String> {
    let status = command(root, filter)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("a test failed; the lines above say which".to_owned())
    }
}

fn command(root: &Path, filter: &str) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(TEST_COMMAND.split_whitespace().skip(1))
        .args(["--no-fail-fast", "--", filter])
        .current_dir(root)
        .env(VARIABLE, "1");
    command
}

/// What the tests look for.
pub(crate) const VARIABLE: &str = "DPOPT_LONG";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::VARIABLE;

    #[test]
    fn the_tests_know_the_variable() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in [
            "crates/dpopt-testkit/src/lib.rs",
            "crates/dpopt-mpi/tests/mpirun.rs",
        ] {
            let text = std::fs::read_to_string(root.join(file)).expect("the file");
            assert!(text.contains(&format!("\"{VARIABLE}\"")), "{file}");
        }
        // `cargo xtask long kill_tests`, which pages name.
        let kills = root.join("crates/dpopt-privacy/src/ledger/kill_tests.rs");
        let text = std::fs::read_to_string(kills).expect("the tests");
        assert!(text.contains("is_long()"));
    }
}
