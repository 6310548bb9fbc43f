//! Clipped gradients as users get them: `logistic RECORDS COLUMNS`, `logistic64 RECORDS COLUMNS`, `one-hot RECORDS COLUMNS FIELDS`,
//! `softmax BATCH`, `perceptron BATCH`, `steps RECORDS COLUMNS COUNT`.
//!
//! Work `step`: a release in the simulated mode, with its clipped exact sum, noise and charge; `noise`: the draws of such a release by themselves.
//! Answer: the point, and the sum.

use std::cell::RefCell;
use std::num::NonZeroUsize;

use dpopt_benches::release::{self, Failure, Step};
use dpopt_oracle::{Differentiable, Examples};

use crate::noise::draws;
use crate::side::{Side, count};

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    Some(match *words {
        ["logistic", n, d, t] => linear(n, d, t, 1, release::rows),
        ["logistic64", n, d, t] => linear(n, d, t, 1, release::doubles),
        ["steps", n, d, steps, t] => count(steps).and_then(|s| linear(n, d, t, s, release::rows)),
        ["one-hot", n, d, fields, t] => {
            count(fields).and_then(|f| linear(n, d, t, 1, |n, d| release::one_hot(n, d, f)))
        }
        ["softmax", batch, t] => softmax(batch, t),
        ["perceptron", batch, t] => perceptron(batch, t),
        _ => return None,
    })
}

fn linear(
    records: &str,
    columns: &str,
    threads: &str,
    steps: usize,
    data: impl Fn(usize, usize) -> Result<dpopt_oracle::PrivateData, Failure>,
) -> Result<(), Failure> {
    let (columns, threads) = (count(columns)?, threads.parse()?);
    let data = data(count(records)?, columns)?;
    serve(release::logistic(&data, columns, threads)?, threads, steps)
}

fn softmax(batch: &str, threads: &str) -> Result<(), Failure> {
    let (data, threads) = (release::images(count(batch)?)?, threads.parse()?);
    serve(release::softmax(&data, threads)?, threads, 1)
}

fn perceptron(batch: &str, threads: &str) -> Result<(), Failure> {
    let (data, threads) = (release::images(count(batch)?)?, threads.parse()?);
    serve(release::perceptron(&data, threads)?, threads, 1)
}

fn serve<L: Differentiable<Records = Examples>>(
    step: Step<'_, L>,
    threads: NonZeroUsize,
    steps: usize,
) -> Result<(), Failure> {
    let draw = draws(step.point().len(), threads)?;
    let step = &RefCell::new(step);
    let releases = move || {
        let mut last = 0.0;
        for _ in 0..steps {
            last = step.borrow_mut().release()?;
        }
        Ok(last)
    };
    Side::new(vec![
        ("step", Box::new(releases)),
        ("noise", Box::new(draw)),
    ])
    .with_answer(move || {
        let mut step = step.borrow_mut();
        let (sum, point) = (step.sums()?, step.point().to_vec());
        Ok(vec![("point", point), ("sum", sum)])
    })
    .serve()
}
