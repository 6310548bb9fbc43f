//! `cargo xtask long [FILTER]`: the tests in their long forms.
//!
//! Every test that asks `dpopt_testkit::is_long`: all settings instead of every seventh, all bytes
//! at which a disk may fill up, and 1,900 killed processes instead of 120.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::cargo;
use crate::tidy::TEST_COMMAND;

/// Runs the tests whose names contain `filter`, at least one.
pub(crate) fn run(root: &Path, filter: &str) -> Result<(), String> {
    let failed = |error| format!("cannot start cargo: {error}");
    let listed = command(root, filter)
        .arg("--list")
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    if !listed.status.success() {
        return Err("the tests could not be built".to_owned());
    }
    if !names_a_test(&String::from_utf8_lossy(&listed.stdout)) {
        return Err(format!("no test has `{filter}` in its name"));
    }
    if command(root, filter).status().map_err(failed)?.success() {
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

/// Whether a list of the test harness has an entry.
fn names_a_test(list: &str) -> bool {
    list.lines().any(|line| line.ends_with(": test"))
}

/// The variable that the tests read.
pub(crate) const VARIABLE: &str = "DPOPT_LONG";

#[cfg(test)]
mod tests {
    use super::names_a_test;

    #[test]
    fn a_list_without_tests_differs_from_one_with_some() {
        assert!(names_a_test("a::b: test\n\n1 test, 0 benchmarks\n"));
        assert!(!names_a_test("0 tests, 0 benchmarks\n\na: benchmark\n"));
    }
}
