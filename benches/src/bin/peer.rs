//! Our side of `cargo xtask bench --peers`: one clipped step for each line on the input, and its seconds on the output.
//!
//! `peer logistic RECORDS COLUMNS THREADS`, `peer one-hot RECORDS COLUMNS FIELDS THREADS`, `peer softmax BATCH THREADS` or
//! `peer perceptron BATCH THREADS`. For a line `step` it is a release as users get it, in the simulated mode: the clipped exact sum,
//! noise, charge. For a line `one` it is the same on a single record: noise, charge and what a step costs whatever it
//! reads.
#![allow(clippy::print_stdout, reason = "the answers are the product")]

use std::io::{BufRead, Write};
use std::num::NonZeroUsize;

use dpopt_benches::release::{self, Failure};
use dpopt_oracle::AskError;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let count = |word: &str| word.parse::<usize>();
    match words.as_slice() {
        ["logistic", records, columns, threads] => {
            let (columns, threads) = (count(columns)?, threads.parse()?);
            let (whole, single) = (
                release::rows(count(records)?, columns)?,
                release::rows(1, columns)?,
            );
            let releases = |data| release::logistic(data, columns, threads);
            answer(releases(&whole)?, releases(&single)?)
        }
        ["one-hot", records, columns, fields, threads] => {
            let (columns, fields) = (count(columns)?, count(fields)?);
            let threads = threads.parse()?;
            let (whole, single) = (
                release::one_hot(count(records)?, columns, fields)?,
                release::one_hot(1, columns, fields)?,
            );
            let releases = |data| release::logistic(data, columns, threads);
            answer(releases(&whole)?, releases(&single)?)
        }
        [task @ ("softmax" | "perceptron"), batch, threads] => {
            let threads: NonZeroUsize = threads.parse()?;
            let (whole, single) = (release::images(count(batch)?)?, release::images(1)?);
            if *task == "softmax" {
                let releases = |data| release::softmax(data, threads);
                answer(releases(&whole)?, releases(&single)?)
            } else {
                let releases = |data| release::perceptron(data, threads);
                answer(releases(&whole)?, releases(&single)?)
            }
        }
        _ => Err("usage: peer logistic RECORDS COLUMNS THREADS | peer one-hot RECORDS COLUMNS FIELDS THREADS | \
                  peer softmax BATCH THREADS | peer perceptron BATCH THREADS"
            .into()),
    }
}

/// Says that it is ready, then times a release of the whole data or of one record for each line.
fn answer(
    mut step: impl FnMut() -> Result<f64, AskError>,
    mut one: impl FnMut() -> Result<f64, AskError>,
) -> Result<(), Failure> {
    step()?;
    one()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let (seconds, result) = match line?.as_str() {
            "one" => release::timed(&mut one),
            _ => release::timed(&mut step),
        };
        result?;
        writeln!(out, "{seconds:e}")?;
        out.flush()?;
    }
    Ok(())
}
