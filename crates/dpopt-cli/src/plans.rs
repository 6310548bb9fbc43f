//! `dpopt plan`: of one run, or of a tuning.

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::error::CliError;
use crate::plan::{self, PlanArgs};
use crate::tune::{self, PlanTuneArgs};

/// What is planned. The derived parser has no flags that a subcommand replaces.
#[derive(Debug)]
pub(crate) enum PlanCommand {
    Run(Box<PlanArgs>),
    Of(PlanOf),
}

/// What is planned beside one run.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanOf {
    /// Show what `dpopt tune` would try and what each run would get; reads no data
    Tune(Box<PlanTuneArgs>),
}

impl Args for PlanCommand {
    fn augment_args(command: Command) -> Command {
        PlanOf::augment_subcommands(PlanArgs::augment_args(command))
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .disable_help_subcommand(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand_name() {
            Some(_) => PlanOf::from_arg_matches(matches).map(Self::Of),
            None => PlanArgs::from_arg_matches(matches).map(|args| Self::Run(Box::new(args))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(crate) fn run(command: &PlanCommand) -> Result<(), CliError> {
    match command {
        PlanCommand::Of(PlanOf::Tune(args)) => tune::plan(args),
        PlanCommand::Run(args) => plan::run(args),
    }
}
