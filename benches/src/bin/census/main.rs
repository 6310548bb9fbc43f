//! Every solver on Census-Income, all hyper-parameters by the plans: what `cargo xtask bench --census DIR` runs.
//!
//! DIR holds `train.csv.gz` and `test.csv.gz`. For each loss, epsilon and solver one row: time of planning, the plan's
//! bound or why there is no plan, steps, passes, seconds, the gradient norm at the result as a charged certificate
//! releases it and as it is, the AUC on the test part. Prints Markdown; with `--json FILE` the rows go there too.
//!
//! **The exact norm is computed from the training records without noise**: these are public data, and this is research. Noise is
//! drawn from seeds, so that the table can be repeated.
#![allow(clippy::print_stdout, reason = "the table is the product")]
#![allow(clippy::print_stderr, reason = "progress is for the terminal")]

mod data;
mod options;
mod rows;
mod table;

use std::time::Instant;

use options::Options;

/// An error of any kind.
type Failure = Box<dyn std::error::Error>;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::read(&words)?;
    let data = data::Census::read(&options)?;
    let mut all = Vec::new();
    for &loss in &options.losses {
        for &epsilon in &options.epsilons {
            let setting = rows::Setting::new(&data, loss, epsilon, &options)?;
            let rows = setting.rows(&options)?;
            println!("{}", table::section(&setting, &rows));
            all.push(table::json(&setting, &rows));
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", serde_json::Value::Array(all)))?;
    }
    Ok(())
}
