//! `cargo xtask bench --census DIR`: every solver on Census-Income, as a Markdown table.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::validate::cargo;

/// The public schema, from the repository's root.
const SCHEMA: &str = "crates/dpopt-cli/data/census-income.toml";

/// Builds and runs the program; its table goes to standard output. `words` are its own options.
pub(crate) fn run(root: &Path, folder: &str, words: &[String]) -> Result<(), String> {
    let status = command(root, folder, words)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the table of Census-Income failed: {status}"))
    }
}

/// Paths among the options are relative to where the person is, so the folder is not changed.
fn command(root: &Path, folder: &str, words: &[String]) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(["run", "--quiet", "--release", "-p", "dpopt-benches"])
        .args(["--features", "census", "--bin", "census", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--")
        .arg(folder)
        .arg(root.join(SCHEMA))
        .args(words)
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{SCHEMA, command};

    #[test]
    fn the_program_gets_the_folder_the_schema_and_its_options() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("a root");
        assert!(root.join(SCHEMA).is_file());
        let options = ["--quick", "--only", "dp-sgd"].map(str::to_owned);
        let command = command(root, "folder", &options);
        let words: Vec<_> = command
            .get_args()
            .filter_map(|word| word.to_str())
            .collect();
        let split = words.iter().position(|w| *w == "--").expect("a separator");
        assert_eq!(words[split + 1], "folder");
        assert!(words[split + 2].ends_with("census-income.toml"));
        assert_eq!(words[split + 3..], ["--quick", "--only", "dp-sgd"]);
    }
}
