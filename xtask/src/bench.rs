//! `cargo xtask bench`: our rows by criterion and, beside them, other tools, as one table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo::{cargo, succeed, target};
use crate::python::interpreter;

const SCRIPT: &str = "benches/peers/peers.py";

/// Rows and tools.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Rows whose words contain this.
    #[arg(default_value = "")]
    filter: String,
    /// Times the tools of this virtual environment too, with their answers compared: `--peers`.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Writes the table to this file: `--out`.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Times the rows and prints a table of tab-separated values.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let folder = target(root).join("criterion");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    let mut own = benches(root, &options.filter);
    succeed(&mut own, "the benchmarks failed")?;
    let mut lines = Vec::new();
    collect(&folder, &mut lines).map_err(failed)?;
    if lines.is_empty() {
        return Err(format!("no row contains `{}`", options.filter));
    }
    if let Some(venv) = &options.peers {
        let answers = folder.join("answers");
        let mut own = benches(root, &options.filter);
        succeed(
            own.env("DPOPT_ANSWERS", &answers),
            "no answers were written",
        )?;
        let mut script = Command::new(interpreter(venv)?);
        let output = script.arg(root.join(SCRIPT)).arg(&answers).output();
        let output = output.map_err(|error| format!("{SCRIPT}: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "{SCRIPT}: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort();
    let table = format!(
        "# cargo xtask bench; {}\nrow\tthreads\ttool\tseconds\tlow\thigh\tper second\tanswer\n{}\n",
        machine(root),
        lines.join("\n")
    );
    match &options.out {
        Some(file) => {
            fs::write(file, table).map_err(|error| format!("{}: {error}", file.display()))
        }
        None => {
            print!("{table}");
            Ok(())
        }
    }
}

fn benches(root: &Path, filter: &str) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(["bench", "-p", "dpopt-benches", "--bench", "rows"])
        .env("DPOPT_ROWS", filter)
        .current_dir(root);
    command
}

/// The medians below a folder of criterion.
fn collect(folder: &Path, lines: &mut Vec<String>) -> std::io::Result<()> {
    let read = |name: &str| -> Option<Value> {
        let text = fs::read_to_string(folder.join("new").join(name)).ok()?;
        serde_json::from_str(&text).ok()
    };
    if let Some((benchmark, estimates)) = read("benchmark.json").zip(read("estimates.json")) {
        lines.extend(line(&benchmark, &estimates));
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, lines)?;
        }
    }
    Ok(())
}

/// A line of the table: words, threads, the median with its interval in seconds, and the rate.
fn line(benchmark: &Value, estimates: &Value) -> Option<String> {
    let task = benchmark["group_id"].as_str()?;
    let (rest, threads) = (&benchmark["function_id"], &benchmark["value_str"]);
    let median = &estimates["median"];
    let interval = &median["confidence_interval"];
    let seconds = |value: &Value| value.as_f64().map(|nanoseconds| 1e-9 * nanoseconds);
    let middle = seconds(&median["point_estimate"])?;
    let (low, high) = (&interval["lower_bound"], &interval["upper_bound"]);
    let throughput = &benchmark["throughput"];
    let amount = throughput["Bytes"].as_f64().map(|bytes| (bytes, "B"));
    let amount = amount.or_else(|| Some((throughput["Elements"].as_f64()?, "")));
    let rate = amount.map_or(String::new(), |(amount, unit)| {
        format!("{:.1} G{unit}", 1e-9 * amount / middle)
    });
    Some(format!(
        "{task} {}\t{}\tdpopt\t{middle:.3e}\t{:.3e}\t{:.3e}\t{rate}\t",
        rest.as_str()?,
        threads.as_str()?,
        seconds(low)?,
        seconds(high)?,
    ))
}

/// The processor, the commit, the compiler and the day, as far as the system says.
fn machine(root: &Path) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.map_or("", |name| name.trim_start_matches(['\t', ' ', ':']));
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).current_dir(root).output();
        let text = output.map_or(Vec::new(), |output| output.stdout);
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{name}, {processors} processors; {}; {}; {}",
        said("git", &["rev-parse", "--short", "HEAD"]),
        said("rustc", &["--version"]),
        said("date", &["-u", "+%F"]),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::line;

    #[test]
    fn a_median_of_criterion_becomes_a_line() {
        let benchmark = json!({"group_id": "limit", "function_id": "read", "value_str": "2",
            "throughput": {"Bytes": 4_000_000_000_u64}});
        let interval = json!({"lower_bound": 9e7, "upper_bound": 2e8});
        let estimates = json!({"median": {"point_estimate": 1e8, "confidence_interval": interval}});
        let found = line(&benchmark, &estimates);
        let expected = "limit read\t2\tdpopt\t1.000e-1\t9.000e-2\t2.000e-1\t40.0 GB\t";
        assert_eq!(found.as_deref(), Some(expected));
        assert_eq!(line(&benchmark, &json!({})), None);
    }
}
