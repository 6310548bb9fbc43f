//! `cargo xtask exports VENV`: exported models read by ONNX's checker, onnxruntime and NumPy,
//! against `dpopt predict`.

use std::path::Path;
use std::process::Command;

use crate::built::command_and_folder;
use crate::cargo::succeed;
use crate::python::interpreter;

const SCRIPT: &str = "benches/peers/exports.py";
const PAGE: &str = "docs/paperwork.md";

/// Builds the command and runs the script in a folder of its own.
pub(crate) fn run(root: &Path, venv: &Path) -> Result<(), String> {
    let (command, folder) = command_and_folder(root, "exports")?;
    let mut script = Command::new(interpreter(venv)?);
    script.arg(root.join(SCRIPT)).arg(command);
    script.arg(root.join(PAGE)).arg(&folder);
    succeed(&mut script, SCRIPT)
}
