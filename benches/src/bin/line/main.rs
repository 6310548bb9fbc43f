//! Our side of the lines of `cargo xtask bench`: it makes a problem, says that it is ready, and then answers each line on its input.
//!
//! `line TASK [NUMBER|PATH]... THREADS`; tasks are in the files beside this. Answers are JSON objects:
//!
//! - `time KIND`: does that work once; `seconds`, and a `value` that depends on it.
//! - `answer FOLDER`: writes what others are compared with, a file NAME.f64 of doubles for each name.
//! - `below VALUE`: whether an answer of another accountant is below the truth.
//! - `memory`: the `peak` of this process in bytes.
#![allow(clippy::print_stdout, reason = "the answers are the product")]

mod accounts;
mod audits;
mod gradients;
mod income;
mod limits;
mod noise;
mod plans;
mod queries;
mod rows_in_file;
mod side;

use dpopt_benches::release::Failure;

/// Tasks of one file.
type Tasks = fn(&[&str]) -> Option<Result<(), Failure>>;

const ALL: [Tasks; 9] = [
    accounts::run,
    audits::run,
    gradients::run,
    income::run,
    limits::run,
    noise::run,
    plans::run,
    queries::run,
    rows_in_file::run,
];

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = ALL.iter().find_map(|tasks| tasks(&words));
    done.unwrap_or_else(|| Err(format!("no task `{}`", words.join(" ")).into()))
}
