//! `cargo xtask verify-rates`: builds and runs a check of the theory crate, as `cargo xtask audit` does. Options are its own.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::cargo;

/// Runs an example of `dpopt-theory` in this profile, output and errors straight through.
pub(crate) fn run<W: AsRef<OsStr>>(
    root: &Path,
    profile: &str,
    example: &str,
    options: &[W],
) -> Result<(), String> {
    let status = command(root, profile, example, options)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", example.replace('_', "-")))
    }
}

/// Paths among the options are relative to where the person is, so the folder is not changed.
pub(crate) fn command<W: AsRef<OsStr>>(
    root: &Path,
    profile: &str,
    example: &str,
    options: &[W],
) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(["run", "--quiet", "--profile", profile])
        .args(["-p", "dpopt-theory", "--example", example])
        .arg("--manifest-path")
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
        let command = command(
            Path::new("root"),
            "release",
            "verify_rates",
            &["--full", "--list"],
        );
        let words: Vec<_> = command
            .get_args()
            .filter_map(|word| word.to_str())
            .collect();
        let split = words.iter().position(|w| *w == "--").expect("a separator");
        assert_eq!(words[split + 1..], ["--full", "--list"]);
        assert!(words[..split].contains(&"verify_rates"));
    }
}
