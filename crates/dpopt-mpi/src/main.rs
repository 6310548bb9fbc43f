//! The `dpopt` command on several ranks: `mpirun -n 4 dpopt-mpi train --data 'part-*.csv' ...`.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// How long ranks wait for each other where nothing else is asked for.
const LIMIT: Duration = Duration::from_secs(600);
/// The flag of ranks, before the command: seconds that they wait.
const WAIT: &str = "--rank-limit";
/// The removed flag of masked sums, refused with what to use instead.
const HONEST: &str = "--honest-parties";

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    let limit = match take_limit(&mut words) {
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

/// Takes the flag of the limit out of the words.
fn take_limit(words: &mut Vec<OsString>) -> Result<Duration, String> {
    let mut limit = LIMIT;
    while let Some(flag) = words.get(1).filter(|word| *word == WAIT || *word == HONEST) {
        if flag == HONEST {
            return Err(format!(
                "{HONEST}: masked sums were removed, since nothing authenticated the keys of the masks; \
                 run dpopt-mpi without this flag where ranks trust each other, or train on each part \
                 alone with `dpopt train` and a ledger of its own"
            ));
        }
        let number = words.get(2).and_then(|word| word.to_str()?.parse().ok());
        let Some(seconds) = number.filter(|seconds| *seconds > 0) else {
            return Err(format!(
                "{WAIT}: a whole number of seconds, at least 1, is needed"
            ));
        };
        limit = Duration::from_secs(seconds);
        words.drain(1..3);
    }
    Ok(limit)
}

fn refused(problem: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "error: {problem}");
    ExitCode::from(1)
}
