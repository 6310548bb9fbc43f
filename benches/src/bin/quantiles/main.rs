//! Private conditional quantiles of age on Census-Income: what `cargo xtask bench --quantiles DIR` runs.
//!
//! DIR holds `train.csv.gz` and `test.csv.gz`. For each quantile and epsilon: a constant (a private quantile of the labels), the pinball
//! loss of a linear score, and of networks with one hidden layer, by solvers that are planned from public facts; with `--peers` also by
//! other tools. With `--program` a loss that is a program instead. Prints Markdown; with `--json FILE` the rows go there too. Noise is
//! drawn from seeds, so that the table can be repeated.
#![allow(clippy::print_stdout, reason = "the table is the product")]
#![allow(clippy::print_stderr, reason = "progress is for the terminal")]

mod cost;
mod knots;
mod options;
mod peers;
mod rows;

use std::fmt::Write as _;

use dpopt_benches::census::Failure;
use serde_json::{Value, json};

use options::Options;
use rows::{Census, Row, Setting};

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::read(&words)?;
    match options.program.as_deref() {
        None => {}
        Some("cost") => return cost::run(&options),
        Some("knots") => return knots::run(&options),
        Some(other) => return Err(format!("no program `{other}`: cost or knots").into()),
    }
    let data = Census::read(&options)?;
    let mut all = Vec::new();
    for &tau in &options.taus {
        for &epsilon in &options.common.epsilons {
            let setting = Setting::new(&data, tau, epsilon, &options)?;
            let rows = setting.rows()?;
            println!("{}", section(&setting, &rows));
            all.extend(rows.iter().map(|row| json(tau, epsilon, row)));
        }
    }
    options.common.write(all)
}

/// One table with its heading.
fn section(setting: &Setting<'_>, rows: &[Row]) -> String {
    let mut out = format!(
        "### Quantile {}, epsilon {}\n\n| model | solver | pinball, years | coverage | certificate: radius, value/L0 | bound/L0 | \
         steps | passes | values | seconds |\n| - | - | - | - | - | - | - | - | - | - |\n",
        setting.tau, setting.epsilon
    );
    for row in rows {
        // Writing to a `String` can't fail.
        let _ = match &row.result {
            Ok(run) => writeln!(
                out,
                "| {} | {} | {:.3} | {:.3} | {} | {} | {} | {:.1} | {} | {:.1} |",
                row.model,
                row.solver,
                run.loss,
                run.coverage,
                run.certificate
                    .map_or("none".to_owned(), |(r, value)| format!(
                        "{r:.2}, {value:.4}"
                    )),
                run.bound
                    .map_or("none".to_owned(), |bound| format!("{bound:.4}")),
                run.steps,
                run.passes,
                if run.values > 0.0 {
                    format!("{:.1e}", run.values)
                } else {
                    "none".to_owned()
                },
                run.seconds
            ),
            Err(why) => writeln!(
                out,
                "| {} | {} | {why} | | | | | | | |",
                row.model, row.solver
            ),
        };
    }
    out
}

fn json(tau: f64, epsilon: f64, row: &Row) -> Value {
    let run = row.result.as_ref().ok();
    json!({
        "tau": tau,
        "epsilon": epsilon,
        "model": row.model,
        "solver": row.solver,
        "no_plan": row.result.as_ref().err(),
        "pinball_years": run.map(|run| run.loss),
        "coverage": run.map(|run| run.coverage),
        "certificate_radius": run.and_then(|run| run.certificate).map(|(radius, _)| radius),
        "certificate_share_of_lipschitz": run.and_then(|run| run.certificate).map(|(_, value)| value),
        "bound_share_of_lipschitz": run.and_then(|run| run.bound),
        "steps": run.map(|run| run.steps),
        "passes": run.map(|run| run.passes),
        "values": run.map(|run| run.values),
        "seconds": run.map(|run| run.seconds),
    })
}
