//! Our side of `cargo xtask bench --peers`: one clipped step for each line on the input, and its seconds on the output.
//!
//! `peer logistic RECORDS COLUMNS THREADS` or `peer perceptron BATCH THREADS`. A step is a release as users get it, in
//! the simulated mode: the clipped exact sum, noise, charge.
#![allow(clippy::print_stdout, reason = "the answers are the product")]

use std::io::{BufRead, Write};
use std::num::NonZeroUsize;

use dpopt_benches::release;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["logistic", records, columns, threads] => {
            let columns = columns.parse()?;
            let data = release::rows(records.parse()?, columns)?;
            let step = release::logistic(&data, columns, threads.parse::<NonZeroUsize>()?)?;
            answer(step)
        }
        ["perceptron", batch, threads] => {
            let data = release::images(batch.parse()?)?;
            let step = release::perceptron(&data, threads.parse::<NonZeroUsize>()?)?;
            answer(step)
        }
        _ => Err(
            "usage: peer logistic RECORDS COLUMNS THREADS | peer perceptron BATCH THREADS".into(),
        ),
    }
}

/// Says that it is ready, then times a step for each line.
fn answer(
    mut step: impl FnMut() -> Result<f64, dpopt_oracle::AskError>,
) -> Result<(), Box<dyn std::error::Error>> {
    step()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let (seconds, result) = release::timed(&mut step);
        result?;
        writeln!(out, "{seconds:e}")?;
        out.flush()?;
    }
    Ok(())
}
