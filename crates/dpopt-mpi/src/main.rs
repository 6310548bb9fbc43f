//! The `dpopt` command on several ranks: `mpirun -n 4 dpopt-mpi train --data 'part-*.csv' ...`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// How long ranks wait for each other where nothing else is asked for.
const LIMIT: Duration = Duration::from_secs(600);
/// The flag that says otherwise, before the command.
const FLAG: &str = "--rank-limit";

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    let limit = match limit(&mut words) {
        Ok(limit) => limit,
        Err(problem) => return refused(&problem),
    };
    match dpopt_mpi::start(limit) {
        Ok((engine, ranks)) => {
            let exit = dpopt_cli::on_ranks(Box::new(ranks), words);
            drop(engine);
            exit
        }
        Err(error) => refused(&error.to_string()),
    }
}

/// Takes the flag out of the words.
fn limit(words: &mut Vec<std::ffi::OsString>) -> Result<Duration, String> {
    if words.get(1).is_none_or(|word| word != FLAG) {
        return Ok(LIMIT);
    }
    let given = words
        .get(2)
        .and_then(|word| word.to_str()?.parse::<u64>().ok());
    let seconds = given.filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or(format!(
        "{FLAG}: a whole number of seconds, at least 1, is needed"
    ))?;
    words.drain(1..3);
    Ok(Duration::from_secs(seconds))
}

fn refused(problem: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "error: {problem}");
    ExitCode::from(1)
}
