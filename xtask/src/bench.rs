//! `cargo xtask bench`: our lines beside other tools and the limits of the machine, and tables on real and made-up data.

mod child;
mod limits;
mod lines;
mod measure;
mod page;
mod rounds;
mod run;
mod scaling;
mod show;
mod sweeps;
mod system;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::cargo;
use crate::census::Table;
use crate::{census, peers};

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Smaller shapes and fewer repeats.
    quick: bool,
    /// Where the results go as JSON.
    json: Option<String>,
    /// A virtual environment: the tools in it are timed beside ours, or run beside the quantiles or on the made-up tables.
    peers: Option<String>,
    /// What is timed, but for its limits.
    lines: run::Asked,
    /// The older tables: public certificates and second derivatives.
    older: bool,
    /// A table on real data instead, and its folder.
    census: Option<(Table, String)>,
    /// Options of that table.
    rest: Vec<String>,
}

impl Options {
    /// Reads `[--quick] [--json FILE] [--peers VENV] [--only LINE]... [--data DIR] [--rounds N] [--out DIR] [--docs] [--list] [--built] | --older |
    /// --census DIR [OPTION]... | --quantiles DIR [--peers VENV] [OPTION]... | --pairs DIR [OPTION]... | --phase [OPTION]... | --tables [--peers VENV] [OPTION]...`.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = |what: &str| {
                let found = words.next().map(|word| (*word).to_owned());
                found.ok_or(format!("{word} needs {what}"))
            };
            match *word {
                "--quick" => options.quick = true,
                "--json" => options.json = Some(value("a file")?),
                "--peers" => options.peers = Some(value("a folder")?),
                "--census" | "--quantiles" | "--pairs" => {
                    let table = match *word {
                        "--census" => Table::Census,
                        "--pairs" => Table::Pairs,
                        _ => Table::Quantiles,
                    };
                    options.census = Some((table, value("a folder")?));
                }
                "--tables" => options.census = Some((Table::Tables, String::new())),
                "--phase" => options.census = Some((Table::Phase, String::new())),
                // Those of the table come after its folder.
                other if options.census.is_some() => options.rest.push(other.to_owned()),
                "--older" => options.older = true,
                "--only" => options.lines.only.push(value("a line")?),
                "--data" => options.lines.data = Some(value("a folder")?),
                "--out" => options.lines.out = Some(value("a folder")?),
                "--rounds" => {
                    let count = value("a number")?.parse().ok().filter(|n| *n > 0);
                    options.lines.rounds = Some(count.ok_or("--rounds needs a number from 1")?);
                }
                "--docs" => options.lines.docs = true,
                "--list" => options.lines.list = true,
                "--built" => options.lines.built = true,
                other => return Err(format!("bench has no option `{other}`")),
            }
        }
        Ok(options)
    }
}

/// The binaries of the older tables, in their order.
const BINARIES: [&str; 2] = ["certify", "second"];
/// Of these, what needs every crate.
const WHOLE: &str = "second";

/// Runs what was asked for, prints its tables, and writes its rows. A missed target is shown, not an error: times depend on the machine and on
/// what else runs on it.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    if let Some((table, folder)) = &options.census {
        let mut words = options.rest.clone();
        words.extend(options.quick.then(|| "--quick".to_owned()));
        for file in options.json.iter() {
            words.extend(["--json".to_owned(), file.clone()]);
        }
        if let Some(venv) = &options.peers {
            words.push("--peers".to_owned());
            let script = match table {
                Table::Quantiles => peers::QUANTILES,
                Table::Tables => peers::TABLES,
                _ => return Err("only --quantiles and --tables have --peers".to_owned()),
            };
            let both = peers::of_table(root, Path::new(venv), script);
            words.extend(both.map_err(|error| error.to_string())?);
        }
        return census::run(root, *table, folder, &words);
    }
    if !options.older {
        let results = run::run(
            root,
            &options.lines,
            options.quick,
            options.peers.as_deref(),
        )?;
        return results.map_or(Ok(()), |results| write(options, &results));
    }
    let mut all = Vec::new();
    for binary in BINARIES {
        let rows = rows_of(root, binary, options)?;
        print!("{}", table(&rows)?);
        match rows {
            Value::Array(rows) => all.extend(rows),
            other => all.push(other),
        }
    }
    write(options, &Value::Array(all))
}

/// Writes the rows where they were asked for.
fn write(options: &Options, all: &Value) -> Result<(), String> {
    if let Some(file) = &options.json {
        let text = format!("{all:#}\n");
        fs::write(file, text).map_err(|error| format!("can't write {file}: {error}"))?;
    }
    Ok(())
}

/// Builds and runs one binary and reads its rows.
fn rows_of(root: &Path, binary: &str, options: &Options) -> Result<Value, String> {
    let mut command = Command::new(cargo());
    command
        .args(["run", "--quiet", "--release", "-p", "dpopt-benches"])
        .args((binary == WHOLE).then_some("--features=census"))
        .args(["--bin", binary, "--"])
        .args(options.quick.then_some("--quick"))
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the benchmark {binary} failed: {}", output.status));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the benchmark {binary} printed no JSON: {error}"))
}

/// The rows for people.
fn table(rows: &Value) -> Result<String, String> {
    let rows = rows.as_array().ok_or("the benchmark printed no list")?;
    let mut out = format!("{:<28} {:>12} {:>12}\n", "", "median", "target");
    for row in rows {
        let id = row["id"].as_str().ok_or("a row without `id`")?;
        let seconds = row["seconds"].as_f64().ok_or("a row without `seconds`")?;
        out += &format!("{id:<28} {:>9.3} ms", 1e3 * seconds);
        if let Some(target) = row["target"].as_f64() {
            out += &format!(" {:>9.3} ms", 1e3 * target);
        }
        let missed = row["met"].as_bool() == Some(false);
        out += if missed { "  missed\n" } else { "\n" };
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{Options, Table, table};

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(Options::read(&[]), Ok(Options::default()));
        let both = Options {
            quick: true,
            json: Some("a.json".to_owned()),
            ..Options::default()
        };
        assert_eq!(Options::read(&["--json", "a.json", "--quick"]), Ok(both));
        let peers = Options::read(&["--peers", "venv"]).map(|options| options.peers);
        assert_eq!(peers, Ok(Some("venv".to_owned())));
        let census = Options::read(&["--census", "data", "--quick", "--only", "dp-sgd"]);
        let census = census.expect("options");
        assert_eq!(census.census, Some((Table::Census, "data".to_owned())));
        let ages = Options::read(&["--quantiles", "data", "--tau", "0.9"]);
        let ages = ages.expect("options");
        assert_eq!(ages.census, Some((Table::Quantiles, "data".to_owned())));
        assert_eq!(ages.rest, ["--tau", "0.9"]);
        let pairs = Options::read(&["--pairs", "data"]).expect("options");
        assert_eq!(pairs.census, Some((Table::Pairs, "data".to_owned())));
        let phase = Options::read(&["--phase", "--only", "sosp"]).expect("options");
        assert_eq!(phase.census, Some((Table::Phase, String::new())));
        assert_eq!(phase.rest, ["--only", "sosp"]);
        let made_up = Options::read(&["--tables", "--epsilon", "1"]).expect("options");
        assert_eq!(made_up.census, Some((Table::Tables, String::new())));
        assert!(census.quick && census.rest == ["--only", "dp-sgd"]);
        let some = ["--only", "noise", "--rounds", "7", "--out", "o", "--docs"];
        let some = Options::read(&some).expect("options").lines;
        assert_eq!(
            (some.only, some.rounds),
            (vec!["noise".to_owned()], Some(7))
        );
        assert!(some.docs && some.out.as_deref() == Some("o"));
        for bad in [
            &["--json"][..],
            &["quick"],
            &["--slow"],
            &["--peers"],
            &["--census"],
            &["--quantiles"],
            &["--pairs"],
            &["--only"],
            &["--rounds", "0"],
        ] {
            assert!(Options::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_row_shows_its_verdict() {
        let rows = serde_json::json!([
            {"id": "epsilon/rdp", "seconds": 4e-4, "target": 5e-4, "met": true},
            {"id": "epsilon/pld", "seconds": 0.03, "target": 0.02, "met": false},
            {"id": "calibrate/rdp", "seconds": 0.03, "target": null, "met": null},
        ]);
        let text = table(&rows).expect("a table");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("0.400 ms") && !lines[1].contains("missed"));
        assert!(lines[2].contains("30.000 ms") && lines[2].ends_with("missed"));
        assert!(lines[3].ends_with("30.000 ms"));
        assert!(table(&serde_json::json!({})).is_err());
        assert!(table(&serde_json::json!([{"id": "x"}])).is_err());
    }
}
