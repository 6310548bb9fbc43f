//! The `dpopt` command: private models from a CSV file, a schema and an epsilon.
//!
//! Each subcommand is a file of its own. Results go to standard output, warnings and errors to
//! standard error; an error is one sentence. Exit codes are a table (`exit.rs`).
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod account;
mod args;
mod artefacts;
mod attack;
mod beside;
mod by_group;
mod calibrate;
mod certificate;
mod certified;
mod certify;
mod check;
mod checkpoints;
mod choose;
mod chosen;
mod class_weights;
mod classes;
mod clock;
mod convert;
mod error;
mod evaluate;
mod evaluate_model;
mod evaluated;
mod exit;
mod explain;
mod export;
mod field;
mod fit;
mod head;
mod hold_out;
mod input;
mod interrupt;
mod ledger;
mod loss;
mod model;
mod no_bound;
mod objective;
mod order;
mod outputs;
mod paths;
mod perceptron;
mod plan;
mod plans;
mod population;
mod predict;
mod progress;
mod ranks;
mod report;
mod rescue;
mod schema;
mod second_order;
mod shell;
mod sosp_args;
mod source;
mod statement;
mod summary;
mod table_args;
mod tell;
mod told;
mod trace;
mod train;
mod tune;
mod weak;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use dpopt::privacy::{Exchange, Together};

use crate::error::CliError;
use crate::exit::Exit;
use crate::tell::tell;

/// Differentially private models of tabular data, with an honest statement of what they cost.
#[derive(Debug, Parser)]
#[command(name = "dpopt", version, propagate_version = true, after_help = Exit::help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a private model; without --data, on the built-in sample of Census-Income
    Train(Box<train::TrainArgs>),
    /// Choose privately among several ways to train, within one budget; without --data, on the built-in sample
    Tune(Box<tune::TuneArgs>),
    /// Show what a solver would do and how good theory says it would be; reads no data
    Plan(plans::PlanCommand),
    /// Compute the epsilon of releases, given by parameters or in a file of events
    Account(account::AccountArgs),
    /// Find the noise, the number of steps or the sampling rate that just meets a budget
    Calibrate(calibrate::CalibrateArgs),
    /// Draft a schema from a table (NOT PRIVATE: the draft holds what the records hold)
    Schema(schema::SchemaArgs),
    /// List the lines of a table that a schema does not foresee (NOT PRIVATE)
    Check(check::CheckArgs),
    /// Convert records to a file of rows, for data larger than memory
    Convert(convert::ConvertArgs),
    /// Apply a trained model to a table
    Predict(predict::PredictArgs),
    /// Evaluate a trained model on private records, with intervals: classes by accuracy, AUC, log loss and tables, numbers by their errors
    Evaluate(evaluate_model::EvaluateArgs),
    /// Certify a trained model on private records: how long the gradient is, and whether the Hessian bends down
    Certify(certify::CertifyArgs),
    /// Say what a trained model promises and to whom, for those who did not train it; as a model card, too
    Explain(explain::ExplainArgs),
    /// Write a trained model for those who don't have dpopt: flat JSON, or ONNX
    Export(export::ExportArgs),
    /// Print the script that lets a shell complete commands and flags
    Completions(shell::CompletionsArgs),
    /// Write man pages
    Man(shell::ManArgs),
    /// Show or verify a ledger, which holds the budget of several runs
    Ledger(ledger::LedgerCommand),
}

/// Runs the command of these words, the first of which is the name of the program.
#[must_use]
pub fn alone(words: Vec<OsString>) -> ExitCode {
    run(words).into()
}

/// As [`alone`], as one of several ranks, each of which is called with the same words and reads records of its own. Results are those of
/// one process with all records, and the first rank prints them.
#[must_use]
pub fn on_ranks(exchange: Box<dyn Exchange>, words: Vec<OsString>) -> ExitCode {
    let first = exchange.rank() == 0;
    tell::set_silent(!first);
    let together = match Together::new(exchange) {
        Ok(together) => together,
        Err(error) => {
            tell(&format!("error: {error}"));
            return Exit::Refused.into();
        }
    };
    let _joined = ranks::Joined::new(together);
    run(words).into()
}

fn run(words: Vec<OsString>) -> Exit {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Err(error) = cli.command.may_run() {
        return ended_by(&error);
    }
    let done = match &cli.command {
        Command::Train(args) => train::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Plan(args) => plans::run(args).map(done),
        Command::Account(args) => account::run(args).map(done),
        Command::Calibrate(args) => calibrate::run(args).map(done),
        Command::Schema(args) => schema::run(args).map(done),
        Command::Check(args) => check::run(args).map(done),
        Command::Convert(args) => convert::run(args).map(done),
        Command::Predict(args) => predict::run(args).map(done),
        Command::Evaluate(args) => evaluate_model::run(args),
        Command::Certify(args) => certify::run(args).map(done),
        Command::Explain(args) => explain::run(args).map(done),
        Command::Export(args) => export::run(args).map(done),
        Command::Completions(args) => shell::completions(args, Cli::command()).map(done),
        Command::Man(args) => shell::man(args, Cli::command()).map(done),
        Command::Ledger(command) => ledger::run(command).map(done),
    };
    match done {
        Ok(exit) => exit,
        // Whoever reads our output has seen enough: no fault of ours.
        Err(error) if error.is_a_closed_pipe() => Exit::Done,
        Err(error) => ended_by(&error),
    }
}

fn ended_by(error: &CliError) -> Exit {
    if ranks::tells(error) {
        let who = ranks::own().map_or_else(String::new, |own| format!("rank {}: ", own.rank()));
        let text = one_line(&error.to_string());
        tell::tell_always(&format!("{who}error: {text}"));
    }
    error.exit()
}

impl Command {
    /// Only training is done on several ranks.
    fn may_run(&self) -> Result<(), CliError> {
        let trains = matches!(self, Command::Train(_));
        ranks::refuse(
            "dpopt",
            !trains,
            "only `train` runs on several ranks; start it alone",
        )
    }
}

fn done((): ()) -> Exit {
    Exit::Done
}

/// Help as clap writes it; an error cut down to its one sentence, with the name that was meant if
/// one is near.
fn usage(error: &clap::Error) -> Exit {
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if asked {
        if !ranks::is_first() {
            return Exit::Done;
        }
        // A closed pipe is no fault of ours.
        let _ = error.print();
        return if error.use_stderr() {
            Exit::Refused
        } else {
            Exit::Done
        };
    }
    let text = error.render().to_string();
    let sentence = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let meant = match meant(error) {
        Some(name) => format!("did you mean {name}? "),
        None => String::new(),
    };
    tell(&format!(
        "{} ({meant}see --help)",
        one_line(&words.join(" "))
    ));
    Exit::Refused
}

/// The flag or command that was meant.
fn meant(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    })
}

/// The text without line breaks and other controls, which names of files may hold.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
#[path = "../tests/cli/pages.rs"]
mod pages;

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::pages::{blocks_of, calls, pages, spans};
    use super::shell::with_names;
    use super::{Cli, Command, one_line};

    /// Why calls in a script are refused before a file is opened.
    fn refused(script: &str) -> Vec<String> {
        let refused = |words| {
            let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
            match cli.command {
                Command::Train(args) => args.check_spend().map_err(|error| error.to_string()),
                Command::Tune(args) => args.check_spend().map_err(|error| error.to_string()),
                _ => Ok(()),
            }
        };
        let calls = calls(script).into_iter();
        calls.filter_map(|words| refused(words).err()).collect()
    }

    #[test]
    fn every_command_that_a_page_shows_is_one() {
        let mut found = 0;
        for block in pages().iter().flat_map(|page| blocks_of(page)) {
            if block.language == "sh" {
                found += calls(&block.text).len();
                let refused = refused(&block.text);
                assert_eq!(refused, Vec::<String>::new(), "{}", block.place);
            }
        }
        // Somebody looked.
        assert!(found > 30, "{found}");
    }

    /// The flags in a text.
    fn flags(text: &str) -> Vec<&str> {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let words = text.split(|c: char| !letter(c));
        let flag = |word: &&str| {
            let name = word.strip_prefix("--");
            name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        };
        words.filter(flag).collect()
    }

    /// Those of cargo, of rustc's tests and of mpirun.
    const OTHERS: [&str; 12] = [
        "--all-features",
        "--bench",
        "--bin",
        "--bind-to",
        "--example",
        "--features",
        "--lib",
        "--nocapture",
        "--path",
        "--profile",
        "--release",
        "--test",
    ];

    #[test]
    fn every_flag_that_a_page_names_is_one() {
        fn collect(command: &clap::Command, known: &mut Vec<String>) {
            let longs = command.get_arguments().filter_map(clap::Arg::get_long);
            known.extend(longs.map(|long| format!("--{long}")));
            command
                .get_subcommands()
                .for_each(|one| collect(one, known));
        }
        let mut known = vec!["--help".to_owned(), "--version".to_owned()];
        collect(&Cli::command(), &mut known);
        // The tasks of the repository, the command on several ranks and the scripts beside have parsers of their own.
        let others = [
            include_str!("../../../xtask/src/main.rs"),
            include_str!("../../../xtask/src/bench.rs"),
            include_str!("../../../xtask/src/measure.rs"),
            include_str!("../../dpopt-mpi/src/main.rs"),
            include_str!("../../../benches/peers/groups.py"),
            include_str!("../../../benches/peers/networks.py"),
        ];
        let others = others.into_iter().flat_map(flags).chain(OTHERS);
        known.extend(others.map(str::to_owned));
        let gone: Vec<String> = pages()
            .iter()
            .flat_map(|page| spans(page))
            .flat_map(|(place, span)| {
                let flags = flags(&span).into_iter();
                let gone = flags.filter(|flag| !known.iter().any(|one| one == flag));
                gone.map(|flag| format!("{place}: {flag}"))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(gone, Vec::<String>::new());
        assert_eq!(flags("`--a-b C`, x--y, `---`, (--c=1)"), ["--a-b", "--c"]);
    }

    /// Whether a call spends on records of the reader without a word on how much, or on no ledger where there can be one: two
    /// releases of parts of the records, or one before another, are on none.
    fn is_careless(call: &[String]) -> bool {
        let has = |word: &&str| call.iter().any(|found| found == word);
        let spends = ["train", "tune", "evaluate", "certify"].contains(&call[1].as_str());
        let on_none = ["--holdout", "--group-shares"].iter().any(has);
        let said = has(&"--epsilon") && (on_none || has(&"--ledger"));
        spends && has(&"--data") && !has(&"--dry-run") && !said
    }

    #[test]
    fn every_command_that_spends_says_how_much_and_on_which_ledger() {
        let pages = pages().into_iter();
        // Those of the measured pages are on public records.
        for page in pages.filter(|page| !page.starts_with("docs/measured/")) {
            let blocks = blocks_of(&page).into_iter();
            for block in blocks.filter(|block| block.language == "sh") {
                for call in calls(&block.text) {
                    assert!(!is_careless(&call), "{}: {}", block.place, call.join(" "));
                }
            }
        }
        let careless = |line: &str| is_careless(&calls(line)[0]);
        assert!(careless("dpopt train --data a --epsilon 1 --out o\n"));
        assert!(careless("dpopt train --data a --ledger l --out o\n"));
        assert!(!careless("dpopt train --out o\n"));
    }

    #[test]
    fn a_command_that_is_none_is_caught() {
        for script in [
            "dpopt trian\n",
            "dpopt train --no-such-flag\n",
            "cat a && dpopt account --steps many\n",
            "dpopt predict --data x.csv\n",
            "cargo run -p dpopt-cli -- train --solver nobody\n",
            "dpopt train t.csv --schema s.toml --epsilon 1\n",
            "dpopt train t.csv --schema s.toml --out o\n",
            "dpopt tune t.csv --schema s.toml --epsilon 1\n",
        ] {
            assert_eq!(refused(script).len(), 1, "{script}");
        }
        assert!(refused("dpopt train\necho dpopt trian\n").is_empty());
    }

    /// Calls of every command with each of its flags and a name that nobody knows; the flags are those whose values have names.
    #[test]
    fn a_flag_that_takes_names_has_them_completed() {
        fn look(command: &clap::Command, path: &[&str], found: &mut Vec<String>) {
            for below in command.get_subcommands() {
                look(below, &[path, &[below.get_name()]].concat(), found);
            }
            for arg in command.get_arguments() {
                let (Some(flag), true) = (arg.get_long(), arg.get_action().takes_values()) else {
                    continue;
                };
                let said = |name: &str| {
                    let flag = format!("--{flag}");
                    let words = path.iter().copied().chain([flag.as_str(), name]);
                    Cli::try_parse_from(words)
                        .map_or_else(|error| error.to_string(), |_| String::new())
                };
                let refusal = said("nobody");
                if !["known are", "known:", "known ones", "possible values"]
                    .iter()
                    .any(|words| refusal.contains(words))
                {
                    continue;
                }
                found.push(flag.to_owned());
                let names = arg.get_possible_values();
                assert!(names.len() > 1, "{path:?} --{flag}: {refusal}");
                for name in names {
                    let said = said(name.get_name());
                    assert!(!said.contains("invalid value"), "{path:?}: {said}");
                }
            }
        }
        let mut found = Vec::new();
        look(&with_names(Cli::command()), &["dpopt"], &mut found);
        for flag in [
            "solver",
            "loss",
            "objective",
            "adjacency",
            "accountant",
            "budget-filter",
            "activation",
            "format",
            "score",
        ] {
            assert!(found.iter().any(|of| of == flag), "{flag}: {found:?}");
        }
    }

    #[test]
    fn a_message_is_one_line_whatever_a_file_is_called() {
        assert_eq!(one_line("a\nb\x1b[2J ü"), "a\\nb\\u{1b}[2J ü");
    }
}
