//! `cargo xtask validate`: exactly what CI runs, in order, up to the first failure.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::alone;
use crate::cargo::cargo;
use crate::fresh;
use crate::mpi;
use crate::python;
use crate::tidy::{self, TEST_COMMAND};

/// The shortest form of `cargo xtask verify-rates`: a claim and a broken twin of each solver.
const RATES_COMMAND: &str = "example verify_rates --brief";

/// The shortest form of `cargo xtask audit`: all targets, fewer runs of those that should hold.
const AUDIT_COMMAND: &str = "example audit --brief";

/// One thing that must succeed.
struct Step {
    /// `tidy`, `alone`, `fresh`, `python` and `mpi`, which run in this process, a cargo command
    /// line, or `example` and the name of one that the tests built: cargo would build everything
    /// again, with the features of one package.
    line: &'static str,
    /// Environment variables for this step alone.
    environment: &'static [(&'static str, &'static str)],
}

/// The tests of refusals that only a build without optional features has, for the whole workspace,
/// so that all but the program is there from the step before.
const PLAIN_COMMAND: &str = "cargo test --quiet --workspace --test cli -- a_build_without";

const STEPS: [Step; 13] = [
    plain("tidy"),
    plain("cargo fmt --all --check"),
    plain("cargo clippy --workspace --all-targets --all-features -- -D warnings"),
    plain("cargo clippy --workspace --all-targets -- -D warnings"),
    plain("alone"),
    Step {
        line: "cargo doc --workspace --no-deps --all-features",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    plain(TEST_COMMAND),
    plain("fresh"),
    plain(PLAIN_COMMAND),
    plain("python"),
    plain("mpi"),
    plain(RATES_COMMAND),
    plain(AUDIT_COMMAND),
];

/// A step with no environment of its own.
const fn plain(line: &'static str) -> Step {
    Step {
        line,
        environment: &[],
    }
}

/// Runs all steps on the repository at `root`.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let start = Instant::now();
    each(&STEPS, |step| match step.line {
        "tidy" => tidy::run(root),
        "python" => python::test_after_the_tests(root),
        "mpi" => mpi::run(root, false),
        "alone" => alone::run(root),
        "fresh" => fresh::run(root),
        _ => spawn(step, root),
    })?;
    println!("validate: ok in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs steps in order with their wall times, and stops at the first that fails.
fn each(steps: &[Step], mut run: impl FnMut(&Step) -> Result<(), String>) -> Result<(), String> {
    for (i, step) in steps.iter().enumerate() {
        let shown = shown(step);
        let place = format!("[{}/{}]", i + 1, steps.len());
        println!("{place} {shown}");
        let start = Instant::now();
        let outcome = run(step);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("{place} ok in {seconds:.1} s"),
            Err(why) => {
                println!("{place} failed after {seconds:.1} s");
                return Err(format!("`{shown}`: {why}"));
            }
        }
    }
    Ok(())
}

/// The step as a person would type it.
fn shown(step: &Step) -> String {
    let mut text = String::new();
    for (name, value) in step.environment {
        text.push_str(&format!("{name}=\"{value}\" "));
    }
    text + step.line
}

/// Runs a step's command, output and errors straight through.
fn spawn(step: &Step, root: &Path) -> Result<(), String> {
    let status = command(step, root)?
        .status()
        .map_err(|error| format!("cannot start it: {error}"))?;
    outcome(status)
}

/// Success, or the exit status (or signal) in words.
fn outcome(status: ExitStatus) -> Result<(), String> {
    if status.success() {
        Ok(())
    } else {
        Err(status.to_string())
    }
}

/// The command of a step that starts with `cargo` or `example`, without input.
fn command(step: &Step, root: &Path) -> Result<Command, String> {
    let mut words = step.line.split_whitespace();
    let program = match (words.next(), std::env::current_exe()) {
        (Some("cargo"), _) => cargo(),
        // This program lies beside the folder of examples.
        (Some("example"), Ok(this)) => {
            let name = words.next().unwrap_or_default();
            let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
            this.with_file_name("examples").join(file).into()
        }
        _ => return Err("a step is `tidy`, or starts with `cargo` or `example`".to_owned()),
    };
    let mut command = Command::new(program);
    command
        .args(words)
        .envs(step.environment.iter().copied())
        .current_dir(root)
        .stdin(Stdio::null());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{STEPS, command, each, outcome, plain};

    #[test]
    fn all_steps_run_when_none_fails() {
        let mut seen = Vec::new();
        let outcome = each(&STEPS, |step| {
            seen.push(step.line);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!(seen.len(), STEPS.len());
    }

    #[test]
    fn the_first_failure_stops_the_rest() {
        let mut seen = 0;
        let outcome = each(&STEPS, |step| {
            seen += 1;
            if step.line.starts_with("cargo clippy") {
                Err("exit status: 101".to_owned())
            } else {
                Ok(())
            }
        });
        assert_eq!(seen, 3);
        let why = outcome.expect_err("the third step failed");
        assert!(why.contains("cargo clippy") && why.contains("101"), "{why}");
    }

    #[test]
    fn a_step_becomes_the_command_that_it_shows() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let command = command(&STEPS[5], here).expect("a cargo line");
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(words, ["doc", "--workspace", "--no-deps", "--all-features"]);
        let environment: Vec<_> = command.get_envs().collect();
        let denied = ("RUSTDOCFLAGS".as_ref(), Some("-D warnings".as_ref()));
        assert_eq!(environment, [denied]);
        assert_eq!(command.get_current_dir(), Some(here));
    }

    #[test]
    fn an_example_is_the_one_that_the_tests_built() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let command = command(&plain(super::RATES_COMMAND), here).expect("an example");
        let program = Path::new(command.get_program());
        assert!(
            program
                .parent()
                .is_some_and(|folder| folder.ends_with("examples"))
        );
        assert_eq!(program.file_stem(), Some("verify_rates".as_ref()));
        assert!(command.get_args().eq(["--brief"]));
    }

    #[test]
    fn a_command_that_fails_or_is_not_cargo_is_a_failing_step() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let run = |words| {
            let output = command(&plain(words), here)?.output();
            outcome(output.map_err(|error| error.to_string())?.status)
        };
        assert_eq!(run("cargo --version"), Ok(()));
        assert!(run("cargo no-such-command").is_err());
        assert!(run("make").is_err());
    }
}
