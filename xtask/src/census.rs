//! `cargo xtask bench --census DIR` and `--quantiles DIR`: solvers on Census-Income, as Markdown tables; `--pairs DIR`: on pairs of
//! MNIST; `--phase`: phase retrieval on made-up records.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::cargo;

/// A table: the program that prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Every solver, income as the label.
    Census,
    /// Conditional quantiles of age.
    Quantiles,
    /// Metric learning on pairs of MNIST.
    Pairs,
    /// Phase retrieval and rank-one sensing on made-up records: it has no folder.
    Phase,
    /// Models of made-up tables beside tuned private descent: it has no folder.
    Tables,
}

impl Table {
    fn program(self) -> &'static str {
        match self {
            Table::Census => "census",
            Table::Quantiles => "quantiles",
            Table::Pairs => "pairs",
            Table::Phase => "phase",
            Table::Tables => "tables",
        }
    }

    /// The public schema, from the repository's root, of a table that has one.
    fn schema(self) -> Option<&'static str> {
        match self {
            Table::Census => Some("crates/dpopt-cli/data/census-income.toml"),
            Table::Quantiles => Some("crates/dpopt-cli/data/census-age.toml"),
            Table::Pairs | Table::Phase | Table::Tables => None,
        }
    }
}

/// Builds and runs the program; its table goes to standard output. `words` are its own options.
pub(crate) fn run(root: &Path, table: Table, folder: &str, words: &[String]) -> Result<(), String> {
    let status = command(root, table, folder, words)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the table `{}` failed: {status}", table.program()))
    }
}

/// Paths among the options are relative to where the person is, so the folder is not changed.
fn command(root: &Path, table: Table, folder: &str, words: &[String]) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(["run", "--quiet", "--release", "-p", "dpopt-benches"])
        .args([
            "--features",
            "census",
            "--bin",
            table.program(),
            "--manifest-path",
        ])
        .arg(root.join("Cargo.toml"))
        .arg("--")
        .args(Some(folder).filter(|folder| !folder.is_empty()))
        .args(table.schema().map(|schema| root.join(schema)))
        .args(words)
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Table, command};

    #[test]
    fn the_program_gets_the_folder_the_schema_and_its_options() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("a root");
        for (table, schema) in [
            (Table::Census, "census-income.toml"),
            (Table::Quantiles, "census-age.toml"),
        ] {
            assert!(root.join(table.schema().expect("one")).is_file());
            let options = ["--quick", "--only", "dp-sgd"].map(str::to_owned);
            let command = command(root, table, "folder", &options);
            let words: Vec<_> = command
                .get_args()
                .filter_map(|word| word.to_str())
                .collect();
            let split = words.iter().position(|w| *w == "--").expect("a separator");
            assert!(words[..split].contains(&table.program()));
            assert_eq!(words[split + 1], "folder");
            assert!(words[split + 2].ends_with(schema));
            assert_eq!(words[split + 3..], ["--quick", "--only", "dp-sgd"]);
        }
    }
}
