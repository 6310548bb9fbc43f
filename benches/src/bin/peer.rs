//! Our side of `cargo xtask bench --peers`: one clipped step for each line on the input, and its seconds on the output.
//!
//! `peer logistic RECORDS COLUMNS THREADS`, `peer one-hot RECORDS COLUMNS FIELDS THREADS`, `peer softmax BATCH THREADS` or
//! `peer perceptron BATCH THREADS`. For a line `step` it is a release as users get it, in the simulated mode: the clipped exact sum,
//! noise, charge. For a line `noise` it is the draws of such a release by themselves.
#![allow(clippy::print_stdout, reason = "the answers are the product")]

use std::io::{BufRead, Write};
use std::num::NonZeroUsize;

use dpopt_benches::release::{self, Failure};
use dpopt_oracle::AskError;
use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let count = |word: &str| word.parse::<usize>();
    match words.as_slice() {
        ["logistic", records, columns, threads] => {
            let (columns, threads) = (count(columns)?, threads.parse()?);
            let data = release::rows(count(records)?, columns)?;
            answer(release::logistic(&data, columns, threads)?, columns, threads)
        }
        ["one-hot", records, columns, fields, threads] => {
            let (columns, threads) = (count(columns)?, threads.parse()?);
            let data = release::one_hot(count(records)?, columns, count(fields)?)?;
            answer(release::logistic(&data, columns, threads)?, columns, threads)
        }
        ["softmax", batch, threads] => {
            let data = release::images(count(batch)?)?;
            let threads = threads.parse()?;
            let numbers = release::SIZES[0] * release::SIZES[2];
            answer(release::softmax(&data, threads)?, numbers, threads)
        }
        ["perceptron", batch, threads] => {
            let data = release::images(count(batch)?)?;
            let threads = threads.parse()?;
            let [m, n, k] = release::SIZES;
            let numbers = (m + 1) * n + (n + 1) * k;
            answer(release::perceptron(&data, threads)?, numbers, threads)
        }
        _ => Err("usage: peer logistic RECORDS COLUMNS THREADS | peer one-hot RECORDS COLUMNS FIELDS THREADS | \
                  peer softmax BATCH THREADS | peer perceptron BATCH THREADS"
            .into()),
    }
}

/// Says that it is ready, then times a release, or the draws of one of so many numbers, for each line.
fn answer(
    mut step: impl FnMut() -> Result<f64, AskError>,
    numbers: usize,
    threads: NonZeroUsize,
) -> Result<(), Failure> {
    let key = ReplayKeyForTests::from_seed(1);
    let noise = RoundedGaussian::new(1e9)?;
    let mut sums = vec![0i64; numbers];
    let mut release = 0;
    let mut draw = || {
        let id = StreamId::new(Purpose::Noise, release);
        release += 1;
        noise.add_release(key.as_key(), id, threads, &mut sums)
    };
    step()?;
    draw()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let seconds = if line? == "noise" {
            let (seconds, drawn) = release::timed(&mut draw);
            drawn?;
            seconds
        } else {
            let (seconds, released) = release::timed(&mut step);
            released?;
            seconds
        };
        writeln!(out, "{seconds:e}")?;
        out.flush()?;
    }
    Ok(())
}
