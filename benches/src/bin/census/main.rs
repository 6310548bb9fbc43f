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

use dpopt_benches::census::Failure;

use options::Options;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::read(&words)?;
    let data = data::Census::read(&options)?;
    let mut all = Vec::new();
    for &loss in &options.losses {
        for &epsilon in &options.common.epsilons {
            let setting = rows::Setting::new(&data, loss, epsilon, &options)?;
            let rows = setting.rows(&options)?;
            println!("{}", table::section(&setting, &rows));
            all.push(table::json(&setting, &rows));
        }
    }
    options.common.write(all)
}
