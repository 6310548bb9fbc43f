//! Private metric learning on pairs of MNIST images: what `cargo xtask bench --pairs DIR` runs.
//!
//! DIR holds `train-images-idx3-ubyte.gz` and `train-labels-idx1-ubyte.gz`. Prints Markdown; with `--json FILE` the rows go there too. Noise
//! and random starts are drawn from seeds, so that the table can be repeated. `--quick`: one run a row, and no grids; `--only METHOD`: rows
//! whose method starts so.
#![allow(clippy::print_stdout, reason = "the table is the product")]
#![allow(clippy::print_stderr, reason = "progress is for the terminal")]

mod data;
mod rows;

use std::path::Path;
use std::time::Instant;

use dpopt::nonconvex::{DP_ADAM, DP_SGD, NOISY_GD, SOSP, SPIDERBOOST};
use serde_json::{Value, json};

use rows::{Method, Run, Setting, Start};

/// An error of any kind.
type Failure = Box<dyn std::error::Error>;

const EPSILON: f64 = 1.0;
/// Runs of a row.
const RUNS: u64 = 5;
/// The run by which a row's parameters are chosen; with another seed.
const CHOOSING: std::ops::Range<u64> = 50..51;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// What was asked for.
#[derive(Default)]
struct Options {
    folder: String,
    quick: bool,
    json: Option<String>,
    only: Vec<String>,
}

impl Options {
    fn read(words: &[String]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut words = words.iter();
        options.folder = words.next().ok_or("a folder with MNIST is needed")?.clone();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value")).cloned();
            match word.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = Some(value()?),
                "--only" => options.only.push(value()?),
                other => return Err(format!("no option `{other}`").into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, method: &str) -> bool {
        let wanted = |only: &String| method.starts_with(only.as_str());
        self.only.is_empty() || self.only.iter().any(wanted)
    }
}

/// The table as it grows.
struct Table<'a> {
    options: &'a Options,
    setting: Setting<'a>,
    rows: Vec<Value>,
}

impl Table<'_> {
    fn print(&mut self, start: &str, method: &str, tuned: &str, runs: &Result<Vec<Run>, String>) {
        println!("{}", line(start, method, tuned, runs));
        let areas = runs.as_ref().ok();
        let areas = areas.map(|runs| runs.iter().map(|run| run.auc).collect::<Vec<f64>>());
        let why = runs.as_ref().err();
        self.rows.push(
            json!({"start": start, "method": method, "tuned": tuned, "auc": areas, "refused": why}),
        );
    }

    /// A row of one number.
    fn known(&mut self, start: &str, method: &str, auc: f64) {
        let run = Run {
            auc,
            passes: 0.0,
            seconds: 0.0,
        };
        self.print(start, method, "", &Ok(vec![run]));
    }

    fn several(&mut self, (name, start): (&str, Start), (words, method): (&str, Method)) {
        if self.options.wants(words) {
            let runs = if self.options.quick { 1 } else { RUNS };
            let runs = repeat(&self.setting, start, method, 0..runs);
            self.print(name, words, "", &runs);
        }
    }

    /// With the best parameters of a grid.
    fn tuned(
        &mut self,
        name: &str,
        words: &str,
        starts: &[Start],
        make: fn(f64, f64, f64) -> Method,
    ) -> Result<(), Failure> {
        if self.options.wants(words) && !self.options.quick {
            let (start, method, tuned) = best_of(&self.setting, starts, make)?;
            let runs = repeat(&self.setting, start, method, 0..RUNS);
            self.print(name, words, &tuned, &runs);
        }
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = &Options::read(&words)?;
    let data = data::Data::read(Path::new(&options.folder))?;
    let mut table = Table {
        options,
        setting: Setting::new(&data, EPSILON)?,
        rows: Vec::new(),
    };
    println!("| start | then | tuned | passes | AUC: median | least, most | seconds |");
    println!("| - | - | - | - | - | - | - |");
    if options.wants("Euclidean") {
        let auc = table.setting.euclidean()?;
        table.known("none", "Euclidean distance", auc);
    }
    if options.wants("not private") && !options.quick {
        let auc = table.setting.without_noise()?;
        table.known("exact Hessian at 0", "not private: gradient descent", auc);
    }
    let curvature = ("curvature", Start::Curvature);
    table.several(curvature, ("nothing", Method::Stay));
    for start in [
        curvature,
        ("random", Setting::random()),
        ("U = 0", Start::Origin),
    ] {
        for solver in [&NOISY_GD, &DP_SGD, &DP_ADAM, &SPIDERBOOST] {
            table.several(start, (solver.name, Method::Default(solver)));
        }
    }
    table.several(
        ("U = 0", Start::Origin),
        (SOSP.name, Method::Default(&SOSP)),
    );
    let random = [0.1, 0.5].map(Start::Random);
    for (words, make) in [
        (
            "noisy-gd, grid",
            Method::Descent as fn(f64, f64, f64) -> Method,
        ),
        ("dp-sgd, grid", Method::Sampled),
    ] {
        table.tuned("random", words, &random, make)?;
        table.tuned("curvature", words, &[Start::Curvature], make)?;
    }
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", Value::Array(table.rows)))?;
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

/// The best parameters by the test pairs themselves; their cost in privacy is not paid.
fn best_of(
    setting: &Setting<'_>,
    starts: &[Start],
    make: fn(f64, f64, f64) -> Method,
) -> Result<(Start, Method, String), Failure> {
    let mut found: Option<(f64, Start, Method, String)> = None;
    for &start in starts {
        for clip in [1.0, 3.0] {
            for (step, momentum) in [(0.3, 0.0), (1.0, 0.0), (0.1, 0.8)] {
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
