//! `cargo xtask audit`: attacks on every mechanism and solver, and on broken twins that must be caught.
//!
//! The audits are in `dpopt_theory::audit`; this builds and starts the program that runs them, in the profile
//! of the tests, whose dependencies a checkout has already.

use std::path::Path;

use crate::theory;

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// What the program is started with.
    words: Vec<String>,
}

impl Options {
    /// Reads `[--brief|--quick|--full] [--only NAME] [--json FILE]`.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut depth = None;
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--brief" | "--quick" | "--full" => {
                    if depth.replace(word).is_some_and(|before| before != word) {
                        return Err("audit takes one of --brief, --quick and --full".to_owned());
                    }
                    options.words.push(word.to_owned());
                }
                "--only" | "--json" => {
                    let value = words.next().ok_or(format!("{word} needs a value"))?;
                    options.words.extend([word.to_owned(), (*value).to_owned()]);
                }
                other => return Err(format!("audit has no option `{other}`")),
            }
        }
        Ok(options)
    }
}

/// Runs the audits; an error where a row fails.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    theory::run(root, "test", "audit", &options.words)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Options;
    use crate::theory::command;

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(Options::read(&[]), Ok(Options::default()));
        let words = ["--full", "--only", "dp-sgd", "--json", "a.json"];
        let options = Options::read(&words);
        assert_eq!(
            options.map(|options| options.words),
            Ok(words.map(str::to_owned).to_vec())
        );
        for bad in [
            &["--only"][..],
            &["--json"],
            &["--quick", "--full"],
            &["--slow"],
            &["full"],
        ] {
            assert!(Options::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_program_gets_the_options() {
        let options = Options::read(&["--quick", "--only", "twins"]).expect("options");
        let command = command(Path::new("root"), "test", "audit", &options.words);
        let words: Vec<_> = command.get_args().collect();
        assert!(words.ends_with(&[
            "--".as_ref(),
            "--quick".as_ref(),
            "--only".as_ref(),
            "twins".as_ref()
        ]));
    }
}
