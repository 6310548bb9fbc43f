//! `cargo xtask exports VENV`: exported models read by ONNX's checker, onnxruntime and NumPy, against `dpopt predict`.

use std::path::Path;
use std::process::Command;

use crate::cargo::cargo;
use crate::peers;

const SCRIPT: &str = "benches/peers/exports.py";
const PAGE: &str = "docs/paperwork.md";

/// Builds the command and runs the script in a folder of its own.
pub(crate) fn run(root: &Path, venv: &str) -> Result<(), String> {
    let python = peers::interpreter(Path::new(venv)).map_err(|error| error.to_string())?;
    let built = Command::new(cargo())
        .args(["build", "--quiet", "-p", "dpopt-cli"])
        .current_dir(root)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("the command could not be built".to_owned());
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let folder = target.join("exports");
    // What an earlier run left.
    let _ = std::fs::remove_dir_all(&folder);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let name = format!("dpopt{}", std::env::consts::EXE_SUFFIX);
    let status = Command::new(python)
        .arg(root.join(SCRIPT))
        .arg(target.join("debug").join(name))
        .arg(root.join(PAGE))
        .arg(&folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{SCRIPT} failed: {status}")),
        Err(error) => Err(format!("cannot start {SCRIPT}: {error}")),
    }
}
