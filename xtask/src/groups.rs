//! `cargo xtask groups DIR`: objectives on Census-Income, as Markdown tables made by the command itself.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::cargo;

/// Runs with each set of flags.
const RUNS: usize = 3;

const DRO: &[&str] = &["--objective", "group-dro", "--group-shares", "release"];
/// A regulariser that leaves weights where they start: each group weighs the same.
const BALANCED: &[&str] = &[
    "--objective",
    "group-dro",
    "--group-shares",
    "release",
    "--dual-weight",
    "1000000",
];
const EQUAL: &[&str] = &[
    "--objective",
    "equal-opportunity",
    "--group-shares",
    "release",
];
const AUC: &[&str] = &["--objective", "auc", "--group-shares", "release"];

/// Epsilons of runs that certify their result; the rest of such a name is the objective.
const CERTIFIED: &[&str] = &["1", "3", "8"];

/// What is run: a name, flags, columns of the groups, epsilons.
const TABLE: [(&str, &[&str], &str, &[&str]); 11] = [
    ("group-dro", DRO, "income_gt_50k,sex", &["0.5", "1", "3"]),
    (
        "balanced weights",
        BALANCED,
        "income_gt_50k,sex",
        &["0.5", "1", "3"],
    ),
    ("equal-opportunity", EQUAL, "sex", &["1"]),
    ("auc", AUC, "sex", &["1"]),
    ("log-loss", &[], "income_gt_50k,sex", &["0.5", "1", "3"]),
    ("group-dro", DRO, "income_gt_50k,race,sex", &["1"]),
    ("group-dro", DRO, "race,sex", &["1"]),
    ("log-loss", &[], "income_gt_50k,race,sex", &["1"]),
    ("certified group-dro", DRO, "income_gt_50k,sex", CERTIFIED),
    ("certified equal-opportunity", EQUAL, "sex", CERTIFIED),
    ("certified auc", AUC, "sex", CERTIFIED),
];

/// Prints a line for each set of flags: least and largest of the runs.
pub(crate) fn run(root: &Path, folder: &str) -> Result<(), String> {
    println!(
        "| objective | groups | epsilon | steps | worst accuracy | accuracy | AUC | TPR difference | seconds | gradient | anyway | y to y* | curvature | anyway |"
    );
    println!("| - | - | - | - | - | - | - | - | - | - | - | - | - | - |");
    for (name, flags, group, epsilons) in TABLE {
        for epsilon in epsilons {
            let rows: Vec<Value> = (0..RUNS)
                .map(|_| {
                    let certify: &[&str] = match name.starts_with("certified") {
                        true => &["--certify"],
                        false => &[],
                    };
                    train(root, folder, &[flags, certify].concat(), group, epsilon)
                })
                .collect::<Result<_, _>>()?;
            let range = |key: &str, digits: usize| {
                let of = |row: &Value| -> Option<f64> {
                    let own = row.get(key);
                    let certified = &row["objective"]["certificate"];
                    own.or_else(|| certified.get(key))?.as_f64()
                };
                let all = rows.iter().filter_map(of);
                let ends = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
                    (low.min(x), high.max(x))
                });
                match ends {
                    (low, high) if low > high => "–".to_owned(),
                    (low, high) => format!("{low:.digits$}–{high:.digits$}"),
                }
            };
            println!(
                "| {name} | {} | {epsilon} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                group.replace(',', " x "),
                range("steps", 0),
                range("worst_group_accuracy", 3),
                range("test_accuracy", 3),
                range("test_auc", 4),
                range("true_positive_rate_difference", 3),
                range("train_seconds", 1),
                range("gradient", 3),
                range("gradient_by_shares_alone", 2),
                range("distance_of_dual", 3),
                range("least_curvature", 3),
                range("least_curvature_by_shares_alone", 2),
            );
        }
    }
    Ok(())
}

fn train(
    root: &Path,
    folder: &str,
    flags: &[&str],
    group: &str,
    epsilon: &str,
) -> Result<Value, String> {
    let file = |name: &str| Path::new(folder).join(name);
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
        .args([
            "--",
            "train",
            "--json",
            "--epsilon",
            epsilon,
            "--group",
            group,
        ])
        .args(flags)
        .arg("--data")
        .arg(file("train.csv.gz"))
        .arg("--test")
        .arg(file("test.csv.gz"))
        .arg("--schema")
        .arg(root.join("crates/dpopt-cli/data/census-income.toml"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{group} at epsilon {epsilon}: {words}"));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("no JSON: {error}"))
}
