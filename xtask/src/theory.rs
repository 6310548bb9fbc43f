//! `cargo xtask verify-rates`: builds and runs a check of the theory crate. Options are its own.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::validate::cargo;

/// Runs an example of `dpopt-theory` in release mode, output and errors straight through.
pub(crate) fn run(root: &Path, example: &str, options: &[&str]) -> Result<(), String> {
    let status = command(root, example, options)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", example.replace('_', "-")))
    }
}

/// Paths among the options are relative to where the person is, so the folder is not changed.
fn command(root: &Path, example: &str, options: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(["run", "--quiet", "--release", "-p", "dpopt-theory"])
        .args(["--example", example, "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--")
        .args(options)
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::command;

    #[test]
    fn options_go_to_the_check_and_not_to_cargo() {
        let command = command(Path::new("root"), "verify_rates", &["--full", "--list"]);
        let words: Vec<_> = command
            .get_args()
            .filter_map(|word| word.to_str())
            .collect();
        let split = words.iter().position(|w| *w == "--").expect("a separator");
        assert_eq!(words[split + 1..], ["--full", "--list"]);
        assert!(words[..split].contains(&"verify_rates"));
    }
}
