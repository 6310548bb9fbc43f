//! `cargo xtask mpi`: the crate of ranks over MPI, built and tested by itself, outside the workspace: that is built where there is no MPI.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::cargo;
use crate::long::VARIABLE;

const PACKAGE: &str = "crates/dpopt-mpi";
/// How to get it.
const INSTALL: &str = "on Debian: apt-get install libopenmpi-dev openmpi-bin libclang-dev";
/// What it needs, and what says that it is there.
const NEEDED: [(&str, &str); 2] = [("mpicc", "-show"), ("mpirun", "--version")];

/// Lints and tests the crate, with two and four ranks. Without MPI it says so and passes: nothing else here needs it. `long`: with as many
/// kills as the books are to stand.
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
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut command = Command::new(cargo());
    command
        .args(words)
        .current_dir(root.join(PACKAGE))
        .env("CARGO_TARGET_DIR", target.join("mpi"))
        // Set by the cargo that runs this task, for another package.
        .env_remove("CARGO_MANIFEST_DIR")
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PACKAGE, command};

    #[test]
    fn the_crate_is_there_with_a_lock_file_and_is_no_member() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in ["Cargo.toml", "Cargo.lock"] {
            assert!(root.join(PACKAGE).join(file).exists(), "{file}");
        }
        let workspace = std::fs::read_to_string(root.join("Cargo.toml")).expect("a workspace");
        assert!(workspace.contains(&format!("exclude = [\"{PACKAGE}\"]")));
        let command = command(&root, &["test"]);
        assert!(
            command
                .get_current_dir()
                .is_some_and(|at| at.ends_with(PACKAGE))
        );
    }
}
