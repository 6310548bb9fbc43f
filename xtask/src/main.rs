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
    reason = "a task reads what cargo tells it and reports wall time"
)]

mod alone;
mod audit;
mod bench;
mod built;
mod cargo;
mod census;
mod exports;
mod fresh;
mod fuzz;
mod groups;
mod help;
mod long;
mod mpi;
mod peers;
mod python;
mod report;
mod theory;
mod tidy;
mod validate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [command, .., "--help" | "-h"] => help::of(command),
        ["validate"] => validate::run(&repository_root()),
        ["bench", options @ ..] => bench::Options::read(options)
            .and_then(|options| bench::run(&repository_root(), &options)),
        ["audit", options @ ..] => audit::Options::read(options)
            .and_then(|options| audit::run(&repository_root(), &options)),
        ["fuzz", options @ ..] => {
            fuzz::Options::read(options).and_then(|options| fuzz::run(&repository_root(), &options))
        }
        ["exports", venv] => exports::run(&repository_root(), venv),
        ["groups", folder] => groups::run(&repository_root(), folder),
        ["report"] => report::run(&repository_root(), "chromium"),
        ["report", chromium] => report::run(&repository_root(), chromium),
        ["mpi"] => mpi::run(&repository_root(), false),
        ["mpi", "--long"] => mpi::run(&repository_root(), true),
        ["long"] => long::run(&repository_root(), ""),
        ["long", filter] => long::run(&repository_root(), filter),
        ["verify-rates", options @ ..] => {
            theory::run(&repository_root(), "release", "verify_rates", options)
        }
        ["python"] => python::test(&repository_root()),
        ["python", "--torch"] => python::test_with_torch(&repository_root(), None),
        ["python", "--torch", venv] => python::test_with_torch(&repository_root(), Some(venv)),
        ["bench-peers-setup", venv] => python::peers_setup(&repository_root(), venv),
        ["wheel"] => python::wheel(&repository_root()),
        ["alone"] => alone::run(&repository_root()),
        ["tidy"] => tidy::run(&repository_root()),
        ["tidy", "circles"] => tidy::circles(&repository_root()),
        [] | ["help" | "--help" | "-h"] => help::run(),
        other => Err(help::unknown(other)),
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
