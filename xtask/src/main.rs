//! The tasks of this repository: `cargo xtask <command>`.
//!
//! This file only dispatches; each command has a file of its own.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task talks to the person who runs it"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a task reads the environment of cargo and reports wall time"
)]

mod alone;
mod bench;
mod built;
mod cargo;
mod exports;
mod fresh;
mod fuzz;
mod long;
mod measure;
mod mpi;
mod python;
mod report;
mod tidy;
mod validate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Runs everything that CI runs, in its order, up to the first failure.
    Validate,
    /// Checks the house rules: edges between crates, circles of files, docs, links, budgets.
    Tidy {
        /// Shows the names that the files of each circle take from each other: `circles`.
        #[arg(value_parser = ["circles"])]
        show: Option<String>,
        /// Lowers `budgets.toml` to the present sizes: `--budgets`.
        #[arg(long)]
        budgets: bool,
    },
    /// Lints the libraries without optional features, and alone where that is another build.
    Alone,
    /// Times our rows by criterion: `bench [FILTER] [--peers VENV] [--out FILE]`.
    Bench(bench::Options),
    /// Runs `dpopt train` for each row of a table: `measure TABLE --data DIR [--only ROW]`.
    Measure(measure::Options),
    /// Makes a virtual environment with the pinned tools of `bench --peers` (gigabytes).
    BenchPeersSetup { venv: PathBuf },
    /// Measures the rates of the theorems: `[--brief | --quick | --full] [--only ID] [--json FILE]
    /// [--out DIR] [--seed N] [--threads N] [--memory-gib G] [--unconfirmed] [--list]`.
    VerifyRates {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Attacks all mechanisms and solvers, and broken twins: `[--brief | --quick | --full]
    /// [--only NAME] [--json FILE]`.
    Audit {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Reads exported models with the checker of ONNX, onnxruntime and NumPy of an environment.
    Exports { venv: PathBuf },
    /// Opens `report.html` of a run and of a tuning in headless Chromium.
    Report {
        #[arg(default_value = "chromium")]
        chromium: String,
    },
    /// Builds and tests the Python package; with `--torch` its wrapper of PyTorch too.
    Python {
        /// In this environment, or in one that is made (gigabytes).
        #[arg(long, num_args = 0..=1)]
        torch: Option<Option<PathBuf>>,
    },
    /// Builds and tests the crate of ranks over MPI; with `--long` with 200 kills.
    Mpi {
        #[arg(long)]
        long: bool,
    },
    /// Builds a wheel of the Python package for every interpreter from 3.10 on.
    Wheel,
    /// Runs the tests whose names contain the filter, or all, in their long forms.
    Long {
        #[arg(default_value = "")]
        filter: String,
    },
    /// Feeds mutants of valid files to one parser: `fuzz PARSER [--seconds N]`.
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    let root = repository_root();
    let done = match Task::parse() {
        Task::Validate => validate::run(&root),
        Task::Tidy { budgets: true, .. } => tidy::lower_budgets(&root),
        Task::Tidy { show: Some(_), .. } => tidy::circles(&root),
        Task::Tidy { .. } => tidy::run(&root),
        Task::Alone => alone::run(&root),
        Task::Bench(options) => bench::run(&root, &options),
        Task::Measure(options) => measure::run(&root, &options),
        Task::BenchPeersSetup { venv } => python::peers_setup(&root, &venv),
        Task::VerifyRates { options } => cargo::example(&root, "release", "verify_rates", &options),
        Task::Audit { options } => cargo::example(&root, "test", "audit", &options),
        Task::Exports { venv } => exports::run(&root, &venv),
        Task::Report { chromium } => report::run(&root, &chromium),
        Task::Python { torch: None } => python::test(&root),
        Task::Python { torch: Some(venv) } => python::test_with_torch(&root, venv.as_deref()),
        Task::Mpi { long } => mpi::run(&root, long),
        Task::Wheel => python::wheel(&root),
        Task::Long { filter } => long::run(&root, &filter),
        Task::Fuzz(options) => fuzz::run(&root, &options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The folder above this package. Cargo names the package at run time; the path of compile time
/// is only a fallback, because two checkouts may share one target folder.
fn repository_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or(package.clone(), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Task;

    #[test]
    fn the_definitions_are_consistent_and_options_of_examples_are_passed_on() {
        Task::command().debug_assert();
        let words = ["xtask", "audit", "--quick", "--only", "twins"];
        let Ok(Task::Audit { options }) = Task::try_parse_from(words) else {
            panic!("an audit");
        };
        assert_eq!(options, words[2..]);
        for bad in [
            &["xtask", "validat"][..],
            &["xtask", "fuzz", "xls"],
            &["xtask"],
        ] {
            assert!(Task::try_parse_from(bad).is_err(), "{bad:?}");
        }
    }
}
