//! Calls of cargo.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The cargo that started this task.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The folder that cargo builds into.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs a command, output and errors straight through.
pub(crate) fn succeed(command: &mut Command, failed: &str) -> Result<(), String> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{failed}: {status}")),
        Err(error) => Err(format!("{failed}: {error}")),
    }
}

/// Runs an example of `dpopt-theory` in this profile with options of its own. Paths among them
/// are relative to the present folder, so it is not changed.
pub(crate) fn example(
    root: &Path,
    profile: &str,
    name: &str,
    options: &[String],
) -> Result<(), String> {
    let mut command = Command::new(cargo());
    command
        .args(["run", "--quiet", "--profile", profile])
        .args(["-p", "dpopt-theory", "--example", name, "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--")
        .args(options);
    succeed(&mut command, name)
}
