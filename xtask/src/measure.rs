//! `cargo xtask measure TABLE --data DIR`: a table of `benches/tables.toml` by the command itself.
//!
//! A table has flags for all runs, axes (an axis is a list of flags, each with its name) and
//! columns: a header and the place of a number in the JSON of `dpopt train`. Each combination of
//! the axes is a row, with the least and the largest of its runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::cargo::cargo;

const TABLES: &str = "benches/tables.toml";

/// A table and its data.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A table of `benches/tables.toml`.
    table: String,
    /// The folder with the files that the table names: `--data`.
    #[arg(long)]
    data: PathBuf,
    /// Only rows whose first cells contain this: `--only`.
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Size and relation, for the first line.
    conditions: String,
    runs: usize,
    /// Cells have the mean of the runs and not their least and largest.
    #[serde(default)]
    means: bool,
    flags: String,
    axes: Vec<Axis>,
    /// Headers, pointers into the JSON, digits.
    columns: Vec<(String, String, usize)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Axis {
    name: String,
    /// Names and flags.
    values: Vec<(String, String)>,
}

/// Prints the table as tab-separated values.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let tables = read(root)?;
    let table = tables.get(&options.table).ok_or_else(|| {
        let names: Vec<&str> = tables.keys().map(String::as_str).collect();
        format!("`{}` is not one of {}", options.table, names.join(", "))
    })?;
    let headers = table.axes.iter().map(|axis| axis.name.as_str());
    let headers = headers.chain(table.columns.iter().map(|column| column.0.as_str()));
    println!(
        "# cargo xtask measure {}; {}",
        options.table, table.conditions
    );
    println!("{}", headers.collect::<Vec<_>>().join("\t"));
    for (names, flags) in combinations(&table.axes) {
        let cells = names.join("\t");
        if !cells.contains(&options.only) {
            continue;
        }
        let words = format!("{} {flags}", table.flags);
        let runs: Result<Vec<Value>, String> = (0..table.runs)
            .map(|_| train(root, &options.data, &words))
            .collect();
        let measured = match runs {
            Ok(runs) => {
                let cells = table.columns.iter();
                let cells =
                    cells.map(|(_, place, digits)| cell(&runs, place, *digits, table.means));
                cells.collect::<Vec<_>>().join("\t")
            }
            Err(why) => why.lines().last().unwrap_or_default().to_owned(),
        };
        println!("{cells}\t{measured}");
    }
    Ok(())
}

fn read(root: &Path) -> Result<BTreeMap<String, Table>, String> {
    let text = std::fs::read_to_string(root.join(TABLES));
    let text = text.map_err(|error| format!("{TABLES}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{TABLES}: {error}"))
}

/// Every choice of a value on each axis: names and flags.
fn combinations(axes: &[Axis]) -> Vec<(Vec<&str>, String)> {
    let mut all = vec![(Vec::new(), String::new())];
    for axis in axes {
        let longer = all.iter().flat_map(|(names, flags)| {
            axis.values.iter().map(move |(name, more)| {
                let names = names.iter().copied().chain([name.as_str()]);
                (names.collect(), format!("{flags} {more}"))
            })
        });
        all = longer.collect();
    }
    all
}

/// One run of the command. `DIR` and `ROOT` in a flag stand for folders.
fn train(root: &Path, data: &Path, flags: &str) -> Result<Value, String> {
    let (data, here) = (data.display().to_string(), root.display().to_string());
    let flags = flags.split_whitespace();
    let flags = flags.map(|flag| flag.replace("DIR", &data).replace("ROOT", &here));
    let output = Command::new(cargo())
        .args([
            "run",
            "--quiet",
            "--release",
            "-p",
            "dpopt-cli",
            "--manifest-path",
        ])
        .arg(root.join("Cargo.toml"))
        .args(["--", "train", "--json"])
        .args(flags)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("no JSON: {error}"))
}

/// The mean, or the least and the largest of the runs, or `–` where none has the number.
fn cell(runs: &[Value], place: &str, digits: usize, mean: bool) -> String {
    let found = runs.iter().filter_map(|run| run.pointer(place)?.as_f64());
    let found: Vec<f64> = found.collect();
    let low = found.iter().copied().fold(f64::INFINITY, f64::min);
    let high = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low > high {
        "–".to_owned()
    } else if mean {
        let sum: f64 = found.iter().sum();
        format!("{:.digits$}", sum / found.len() as f64)
    } else if low == high {
        format!("{low:.digits$}")
    } else {
        format!("{low:.digits$}–{high:.digits$}")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{cell, combinations, read};

    #[test]
    fn the_tables_are_read_and_each_axis_multiplies_the_rows() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, table) in read(&root).unwrap() {
            let rows: usize = table.axes.iter().map(|axis| axis.values.len()).product();
            let found = combinations(&table.axes);
            assert_eq!(found.len(), rows, "{name}");
            assert!(rows > 1 && !table.columns.is_empty(), "{name}");
            assert!(
                found
                    .iter()
                    .all(|(names, _)| names.len() == table.axes.len())
            );
        }
    }

    #[test]
    fn a_cell_has_the_least_and_the_largest_run() {
        let runs = [
            json!({"a": {"b": 2.0}}),
            json!({"a": {"b": 1.5}}),
            json!({}),
        ];
        assert_eq!(cell(&runs, "/a/b", 1, false), "1.5–2.0");
        assert_eq!(cell(&runs, "/a/b", 2, true), "1.75");
        assert_eq!(cell(&runs[..1], "/a/b", 0, false), "2");
        assert_eq!(cell(&runs, "/c", 1, false), "–");
    }
}
