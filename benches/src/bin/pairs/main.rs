//! Private metric learning on pairs of MNIST images: what `cargo xtask bench --pairs DIR` runs.
//!
//! DIR holds `train-images-idx3-ubyte.gz` and `train-labels-idx1-ubyte.gz`. Prints Markdown; with `--json FILE` the rows go there too. Noise
//! and random starts are drawn from seeds, so that the table can be repeated. `--quick`: one run a row, and no grids.
#![allow(clippy::print_stdout, reason = "the table is the product")]
#![allow(clippy::print_stderr, reason = "progress is for the terminal")]

mod data;
mod rows;

use std::path::Path;
use std::time::Instant;

use dpopt::nonconvex::{DP_ADAM, DP_SGD, NOISY_GD, SOLVERS, SPIDERBOOST};
use serde_json::json;

use rows::{Method, Run, Setting, Start};

/// An error of any kind.
type Failure = Box<dyn std::error::Error>;

const EPSILON: f64 = 1.0;
/// Runs of a row.
const RUNS: u64 = 5;
/// Runs by which a row's parameters are chosen; with other seeds.
const CHOOSING: std::ops::Range<u64> = 50..52;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("a folder with MNIST is needed")?;
    let (mut quick, mut file) = (false, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => quick = true,
            "--json" => file = Some(words.next().ok_or("--json needs a file")?),
            other => return Err(format!("no option `{other}`").into()),
        }
    }
    let data = data::Data::read(Path::new(&folder))?;
    let setting = Setting::new(&data, EPSILON)?;
    let runs = if quick { 1 } else { RUNS };
    let mut all = Vec::new();
    let mut print = |start: &str, method: &str, tuned: &str, runs: Result<Vec<Run>, String>| {
        let row = line(start, method, tuned, &runs);
        println!("{row}");
        let areas = runs
            .as_ref()
            .map(|runs| runs.iter().map(|run| run.auc).collect::<Vec<f64>>());
        all.push(json!({"start": start, "method": method, "tuned": tuned, "auc": areas.ok()}));
    };
    println!("| start | then | tuned | passes | AUC: median | least, most | seconds |");
    println!("| - | - | - | - | - | - | - |");
    let known = |auc| {
        Ok(vec![Run {
            auc,
            passes: 0.0,
            seconds: 0.0,
        }])
    };
    print(
        "none",
        "Euclidean distance",
        "",
        known(setting.euclidean()?),
    );
    if !quick {
        let exact = setting.without_noise()?;
        print(
            "exact Hessian at 0",
            "gradient descent, not private",
            "",
            known(exact),
        );
    }
    let several = |start, method| repeat(&setting, start, method, 0..runs);
    print(
        "curvature",
        "nothing",
        "",
        several(Start::Curvature, Method::Stay),
    );
    let starts = [
        ("curvature", Start::Curvature),
        ("random", Setting::random()),
        ("U = 0", Start::Origin),
    ];
    for (name, start) in starts {
        for solver in [&NOISY_GD, &DP_SGD, &DP_ADAM, &SPIDERBOOST] {
            print(
                name,
                solver.name,
                "",
                several(start, Method::Default(solver)),
            );
        }
    }
    if let Some(&sosp) = SOLVERS.iter().find(|solver| solver.name == "sosp") {
        print(
            "U = 0",
            sosp.name,
            "",
            several(Start::Origin, Method::Default(sosp)),
        );
    }
    if !quick {
        for (name, make) in [
            ("noisy-gd", Method::Descent as fn(f64, f64, f64) -> Method),
            ("dp-sgd", Method::Sampled),
        ] {
            let (start, method, words) = best(&setting, make)?;
            print("random", name, &words, several(start, method));
            let (_, method, words) = best_of(&setting, &[Start::Curvature], make)?;
            print("curvature", name, &words, several(Start::Curvature, method));
        }
    }
    if let Some(file) = file {
        std::fs::write(file, format!("{:#}\n", serde_json::Value::Array(all)))?;
    }
    Ok(())
}

fn repeat(
    setting: &Setting<'_>,
    start: Start,
    method: Method,
    seeds: std::ops::Range<u64>,
) -> Result<Vec<Run>, String> {
    let run = |seed| {
        setting
            .run(start, method, seed)
            .map_err(|why| why.to_string())
    };
    seeds.map(run).collect()
}

/// Over random starts of several lengths.
fn best(
    setting: &Setting<'_>,
    make: fn(f64, f64, f64) -> Method,
) -> Result<(Start, Method, String), Failure> {
    let starts = [0.1, 0.5, 1.5].map(Start::Random);
    best_of(setting, &starts, make)
}

/// The best parameters by the test pairs themselves; their cost in privacy is not paid.
fn best_of(
    setting: &Setting<'_>,
    starts: &[Start],
    make: fn(f64, f64, f64) -> Method,
) -> Result<(Start, Method, String), Failure> {
    let mut found: Option<(f64, Start, Method, String)> = None;
    for &start in starts {
        for clip in [1.0, 3.0] {
            for (step, momentum) in [(0.1, 0.0), (0.3, 0.0), (1.0, 0.0), (0.03, 0.8), (0.1, 0.8)] {
                let method = make(step, momentum, clip);
                let mut areas: Vec<f64> = repeat(setting, start, method, CHOOSING)?
                    .iter()
                    .map(|run| run.auc)
                    .collect();
                areas.sort_by(f64::total_cmp);
                let (auc, length) = (
                    areas[areas.len() / 2],
                    match start {
                        Start::Random(length) => format!("length {length}, "),
                        _ => String::new(),
                    },
                );
                eprintln!("{length}clip {clip}, step {step}, momentum {momentum}: {auc:.4}");
                if found.as_ref().is_none_or(|(most, ..)| auc > *most) {
                    let words = format!("{length}clip {clip}, step {step}, momentum {momentum}");
                    found = Some((auc, start, method, words));
                }
            }
        }
    }
    let (_, start, method, words) = found.ok_or("an empty grid")?;
    Ok((start, method, words))
}

/// A row.
fn line(start: &str, method: &str, tuned: &str, runs: &Result<Vec<Run>, String>) -> String {
    match runs {
        Err(why) => format!("| {start} | {method} | {tuned} | no run: {why} | | | |"),
        Ok(runs) => {
            let sorted = |of: fn(&Run) -> f64| {
                let mut all: Vec<f64> = runs.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all
            };
            let (areas, passes) = (sorted(|run| run.auc), sorted(|run| run.passes));
            let (middle, last) = (areas.len() / 2, areas.len() - 1);
            format!(
                "| {start} | {method} | {tuned} | {:.0} | {:.4} | {:.4}, {:.4} | {:.1} |",
                passes[last],
                areas[middle],
                areas[0],
                areas[last],
                sorted(|run| run.seconds)[middle]
            )
        }
    }
}
