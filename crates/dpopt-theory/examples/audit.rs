//! Runs the standard audits and shows their rows: what `cargo xtask audit` starts.
//!
//! `audit [--brief|--quick|--full] [--only NAME] [--seed N] [--json FILE]`. Exit code 1 where a row fails, or an
//! audit could not be made.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that talks to the person who runs it"
)]

use std::error::Error;
use std::process::ExitCode;

use dpopt_theory::audit::{Effort, Registry, Row, Settings, Status};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("audit: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let (mut settings, mut only, mut json) = (Settings::quick(), None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--brief" => settings.effort = Effort::Brief,
            "--quick" => settings.effort = Effort::Quick,
            "--full" => settings.effort = Effort::Full,
            "--only" => only = Some(value()?),
            "--seed" => settings.seed = value()?.parse()?,
            "--json" => json = Some(value()?),
            other => return Err(format!("no option `{other}`").into()),
        }
    }
    let registry = Registry::standard()?;
    let report = registry.run(&settings, only.as_deref(), &mut |progress| {
        if progress.done == 1 {
            println!("{}", heading());
        }
        println!("{}", line(progress.row, progress.seconds));
        eprint!("\r[{}/{}] ", progress.done, progress.all);
    })?;
    eprintln!();
    let failed: Vec<&Row> = report
        .rows
        .iter()
        .filter(|row| row.status == Status::Fail)
        .collect();
    for row in &failed {
        println!("FAIL {}: {}", row.target, row.why);
    }
    let controls = report.rows.iter().filter(|row| row.control).count();
    println!(
        "{} rows, {controls} of them controls; {} failed",
        report.rows.len(),
        failed.len()
    );
    if let Some(file) = json {
        std::fs::write(&file, serde_json::to_string_pretty(&report)? + "\n")
            .map_err(|error| format!("can't write {file}: {error}"))?;
    }
    Ok(report.passed())
}

fn heading() -> String {
    format!(
        "{:<52} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}  {}",
        "target", "claimed", "at least", "mu", "replay", "trials", "seconds", "status"
    )
}

fn line(row: &Row, seconds: f64) -> String {
    let number = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.4}"));
    let verdict = match (row.status, row.control) {
        (Status::Pass, true) => "caught",
        (Status::Pass, false) => "pass",
        (Status::Fail, true) => "FAIL: not caught",
        (Status::Fail, false) => "FAIL",
    };
    format!(
        "{:<52} {:>8} {:>8} {:>8} {:>8} {:>8} {seconds:>7.2}  {verdict}",
        row.target,
        number(row.claimed_epsilon),
        number(row.lower_bound),
        number(row.claimed_mu.or(row.replay_epsilon)),
        number(row.replay_mu.or(row.replay_epsilon)),
        row.trials
    )
}
