//! The command, built, and an empty folder for what it writes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, target};

/// Builds the command. Returns its path and an empty folder of this name in the target folder.
pub(crate) fn command_and_folder(root: &Path, name: &str) -> Result<(PathBuf, PathBuf), String> {
    let built = Command::new(cargo())
        .args(["build", "--quiet", "-p", "dpopt-cli"])
        .current_dir(root)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("the command could not be built".to_owned());
    }
    let target = target(root);
    let command = format!("dpopt{}", std::env::consts::EXE_SUFFIX);
    let folder = target.join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok((target.join("debug").join(command), folder))
}
