//! `dpopt completions` and `dpopt man`: what shells and manuals need, from the parser of arguments itself.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use dpopt::certify::TuningScore;
use dpopt::nonconvex::WalkConstants;
use dpopt::oracle::Activation;
use dpopt::privacy::{Accountant, FilterKind};

use crate::args;
use crate::artefacts::{Readers, failed, may_write, write_file};
use crate::error::CliError;
use crate::input;
use crate::objective::Objective;
use crate::summary::print;

/// Flags of `dpopt completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that is to complete
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Flags of `dpopt man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages, one for each command; made where it is missing
    #[arg(value_name = "DIR")]
    out: PathBuf,
    /// Replace pages that are there
    #[arg(long)]
    force: bool,
}

/// The names that a flag takes, where the parser of its values does not list them.
fn names(command: &str, flag: &str) -> Option<Vec<String>> {
    fn all<T: ToString>(of: impl IntoIterator<Item = T>) -> Option<Vec<String>> {
        Some(of.into_iter().map(|name| name.to_string()).collect())
    }
    match flag {
        "solver" => all(args::solver_names()),
        "loss" => all(args::loss_names()),
        "objective" => all(Objective::ALL.map(|(_, name)| name)),
        "adjacency" if matches!(command, "account" | "calibrate") => all(args::ADJACENCIES),
        "adjacency" => all(args::OF_TABLES),
        "accountant" => all(Accountant::ALL).map(|names| [names, vec!["auto".to_owned()]].concat()),
        "budget_filter" => all(FilterKind::ALL),
        "activation" => all(Activation::ALL),
        "walk_constants" => all(WalkConstants::ALL),
        "format" => Some(input::format_names()),
        "score" => all(TuningScore::ALL),
        "group_shares" => all(["schema", "release"]),
        "project" => all(["auto", "rank", "rank-free"]),
        _ => None,
    }
}

/// A command with the names that its flags take, for those who only look at it.
pub(crate) fn with_names(command: Command) -> Command {
    let of = command.get_name().to_owned();
    let named = command.mut_args(|arg| match names(&of, arg.get_id().as_str()) {
        Some(names) if arg.get_possible_values().is_empty() => {
            arg.value_parser(PossibleValuesParser::new(names))
        }
        _ => arg,
    });
    named.mut_subcommands(with_names)
}

/// Prints the script.
pub(crate) fn completions(args: &CompletionsArgs, command: Command) -> Result<(), CliError> {
    let mut command = with_names(command);
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes the pages.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<(), CliError> {
    let mut command = command.disable_help_subcommand(true);
    // Gives the commands below their full names.
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages);
    let made = !args.out.exists();
    let wrong = |source| failed("DIR", &args.out, source);
    std::fs::create_dir_all(&args.out).map_err(wrong)?;
    let result = write(args, &pages);
    if result.is_err() && made {
        // Goes only if it is empty; there is nobody to tell otherwise.
        let _ = std::fs::remove_dir(&args.out);
    }
    result
}

fn collect(command: &Command, pages: &mut Vec<Man>) {
    pages.push(Man::new(command.clone()));
    for below in command.get_subcommands() {
        collect(below, pages);
    }
}

/// All places are looked at before the first page is written.
fn write(args: &ManArgs, pages: &[Man]) -> Result<(), CliError> {
    let place = |page: &Man| args.out.join(page.get_filename());
    for page in pages {
        may_write(&place(page), "DIR", args.force)?;
    }
    for page in pages {
        let place = place(page);
        let mut text = Vec::new();
        page.render(&mut text)
            .map_err(|source| failed("DIR", &place, source))?;
        write_file(&place, &text, "DIR", Readers::Mask)?;
    }
    Ok(())
}
