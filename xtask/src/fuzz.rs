//! `cargo xtask fuzz`: mutants of valid files against one parser, for a given time.
//!
//! The mutants and the checks are those of the test `mutations` of `dpopt-data`, which runs a
//! fixed number of them each time. This runs them for longer.

use std::path::Path;
use std::process::Command;

use crate::cargo::cargo;

/// The parsers, as the tests are called.
const PARSERS: [(&str, &str); 8] = [
    ("npy", "npy"),
    ("idx", "idx"),
    ("libsvm", "libsvm"),
    ("rows", "rows"),
    ("csv", "tables::csv"),
    ("schema", "tables::schema"),
    ("draft", "tables::draft"),
    ("parquet", "tables::parquet"),
];

/// What to run and for how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    test: &'static str,
    seconds: u64,
}

impl Options {
    /// Reads `PARSER [--seconds N]`.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let (parser, seconds) = match words {
            [parser] => (*parser, "60"),
            [parser, "--seconds", seconds] => (*parser, *seconds),
            _ => return Err("fuzz needs a parser, and takes --seconds N".to_owned()),
        };
        let found = PARSERS.iter().find(|(name, _)| *name == parser);
        let Some(&(_, test)) = found else {
            let names = PARSERS.map(|(name, _)| name).join(", ");
            return Err(format!("no such parser: `{parser}`; known are {names}"));
        };
        let seconds = seconds
            .parse()
            .map_err(|_| format!("--seconds: `{seconds}` is no whole number"))?;
        Ok(Self { test, seconds })
    }
}

/// Runs the test of one parser.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let status = Command::new(cargo())
        .args(["test", "-p", "dpopt-data", "--all-features"])
        .args(["--test", "mutations", "--", "--exact", options.test])
        .env("DPOPT_FUZZ_SECONDS", options.seconds.to_string())
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("a mutant was not handled; the message above has its number".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn parsers_and_times_are_read() {
        let options = Options::read(&["csv", "--seconds", "5"]);
        assert_eq!(
            options,
            Ok(Options {
                test: "tables::csv",
                seconds: 5
            })
        );
        assert_eq!(Options::read(&["npy"]).map(|o| o.seconds), Ok(60));
        for bad in [&[][..], &["xls"], &["csv", "5"], &["csv", "--seconds", "x"]] {
            assert!(Options::read(bad).is_err());
        }
    }
}
