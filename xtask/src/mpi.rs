//! `cargo xtask mpi`: the crate of ranks over MPI, built and tested outside the workspace, which
//! builds without MPI.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::{cargo, target};
use crate::long::VARIABLE;

const PACKAGE: &str = "crates/dpopt-mpi";
/// How to get it.
const INSTALL: &str = "on Debian: apt-get install libopenmpi-dev openmpi-bin libclang-dev";
/// Programs that it needs, and flags that show their presence.
const NEEDED: [(&str, &str); 2] = [("mpicc", "-show"), ("mpirun", "--version")];

/// Lints and tests the crate with two and four ranks, `long` with 200 kills. Without MPI it prints
/// that and passes: nothing else here needs it.
pub(crate) fn run(root: &Path, long: bool) -> Result<(), String> {
    let missing = |(program, flag): &&(&str, &str)| {
        let mut command = Command::new(program);
        command
            .arg(flag)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        !command.status().is_ok_and(|status| status.success())
    };
    if let Some((program, _)) = NEEDED.iter().find(missing) {
        println!("mpi: NOT TESTED, there is no {program} here ({INSTALL})");
        return Ok(());
    }
    for words in [
        &["fmt", "--check"][..],
        &["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"],
        &["test", "--quiet"],
    ] {
        let mut command = command(root, words);
        if long {
            command.env(VARIABLE, "1");
        }
        let status = command.status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("`cargo {}` in {PACKAGE} failed", words.join(" ")));
        }
    }
    Ok(())
}

/// Cargo in the crate. It has a lock file of its own and a folder in the target folder.
fn command(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(words)
        .current_dir(root.join(PACKAGE))
        .env("CARGO_TARGET_DIR", target(root).join("mpi"))
        // Set by the cargo that runs this task, for another package.
        .env_remove("CARGO_MANIFEST_DIR")
        .stdin(Stdio::null());
    command
}
