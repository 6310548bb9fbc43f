//! Audits: `audit one-run CANARIES GUESSES CORRECT`: the lower bound on epsilon from that many correct guesses, at delta 1e-6 and 95 %;
//! `audit row NAME`: a target of the registry, quick.

use dpopt::theory::audit::{Registry, Settings, one_run_bound};
use dpopt_benches::release::Failure;

use crate::side::{Side, count};

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    Some(match *words {
        ["audit", "one-run", canaries, guesses, correct, _] => {
            one_run([canaries, guesses, correct])
        }
        ["audit", "row", name, _] => row(name),
        _ => return None,
    })
}

fn one_run(counts: [&str; 3]) -> Result<(), Failure> {
    let mut numbers = [0; 3];
    for (number, word) in numbers.iter_mut().zip(counts) {
        *number = count(word)? as u64;
    }
    let [canaries, guesses, correct] = numbers;
    let bound = move || Ok(one_run_bound(canaries, guesses, correct, 1e-6, 0.05));
    Side::new(vec![("step", Box::new(bound))]).serve()
}

fn row(name: &str) -> Result<(), Failure> {
    let registry = Registry::standard()?;
    let audit = move || {
        let report = registry.run(&Settings::quick(), Some(name), &mut |_| {})?;
        let row = report.rows.first().ok_or("no row")?;
        Ok(row.lower_bound.unwrap_or(0.0))
    };
    Side::new(vec![("step", Box::new(audit))]).serve()
}
