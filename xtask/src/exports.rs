//! `cargo xtask exports VENV`: exported models read by ONNX's checker, onnxruntime and NumPy, against `dpopt predict`.

use std::path::Path;
use std::process::Command;

use crate::built::command_and_folder;
use crate::peers;

const SCRIPT: &str = "benches/peers/exports.py";
const PAGE: &str = "docs/paperwork.md";

/// Builds the command and runs the script in a folder of its own.
pub(crate) fn run(root: &Path, venv: &str) -> Result<(), String> {
    let python = peers::interpreter(Path::new(venv)).map_err(|error| error.to_string())?;
    let (command, folder) = command_and_folder(root, "exports")?;
    let status = Command::new(python)
        .arg(root.join(SCRIPT))
        .arg(command)
        .arg(root.join(PAGE))
        .arg(&folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{SCRIPT} failed: {status}")),
        Err(error) => Err(format!("cannot start {SCRIPT}: {error}")),
    }
}
