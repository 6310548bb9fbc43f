//! The `dpopt` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    dpopt_cli::alone(std::env::args_os().collect())
}
