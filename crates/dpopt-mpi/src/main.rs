//! The `dpopt` command on several ranks: `mpirun -n 4 dpopt-mpi train --data 'part-*.csv' ...`.

use std::ffi::OsString;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use dpopt_mpi::Masked;

/// How long ranks wait for each other where nothing else is asked for.
const LIMIT: Duration = Duration::from_secs(600);
/// The flags of ranks, before the command: how long they wait, and how many parties at least are on the side of nobody who wants to learn
/// about a record.
const WAIT: &str = "--rank-limit";
const HONEST: &str = "--honest-parties";

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    let flags = match Flags::read(&mut words) {
        Ok(flags) => flags,
        Err(problem) => return refused(&problem),
    };
    match dpopt_mpi::start(flags.limit) {
        Ok((engine, ranks)) => {
            let exit = match flags.honest {
                None => dpopt_cli::on_ranks(Box::new(ranks), None, words),
                honest => match Masked::new(ranks) {
                    Ok(masked) => dpopt_cli::on_ranks(Box::new(masked), honest, words),
                    Err(error) => refused(&error.to_string()),
                },
            };
            drop(engine);
            exit
        }
        Err(error) => refused(&error.to_string()),
    }
}

struct Flags {
    limit: Duration,
    honest: Option<NonZeroUsize>,
}

impl Flags {
    /// Takes them out of the words.
    fn read(words: &mut Vec<OsString>) -> Result<Self, String> {
        let mut flags = Self {
            limit: LIMIT,
            honest: None,
        };
        while let Some(flag) = words.get(1).filter(|word| *word == WAIT || *word == HONEST) {
            let waits = flag == WAIT;
            let number = words.get(2).and_then(|word| word.to_str()?.parse().ok());
            match number.and_then(NonZeroUsize::new) {
                Some(number) if waits => flags.limit = Duration::from_secs(number.get() as u64),
                None if waits => {
                    return Err(format!(
                        "{WAIT}: a whole number of seconds, at least 1, is needed"
                    ));
                }
                None => {
                    return Err(format!(
                        "{HONEST}: a whole number, at least 1, is needed: a record is protected from any other parties together, but for so many"
                    ));
                }
                honest => flags.honest = honest,
            }
            words.drain(1..3);
        }
        Ok(flags)
    }
}

fn refused(problem: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "error: {problem}");
    ExitCode::from(1)
}
