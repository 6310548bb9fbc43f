//! The shared ledger of several runs, as the flags of `train` ask for it.

use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::nonconvex::SolverPlan;
use dpopt::oracle::Access;
use dpopt::privacy::ledger::LedgerReport;
use dpopt::privacy::{Adjacency, Checkpoint, Delta, Epsilon, FilterKind, Ledger, LedgerError};

use crate::args;
use crate::artefacts::{folder_of, probe};
use crate::error::CliError;
use crate::statement::scientific;

/// Flags of a shared budget.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    /// Charge this run to the budget in FILE, which several runs share
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Epsilon of the shared budget; fixed when FILE is created
    #[arg(long, value_name = "E", value_parser = args::epsilon, requires = "ledger", allow_hyphen_values = true)]
    budget: Option<Epsilon>,
    /// Delta of the shared budget; fixed when FILE is created
    #[arg(long, value_name = "D", value_parser = args::delta, requires = "ledger", allow_hyphen_values = true)]
    budget_delta: Option<Delta>,
    /// How the costs of runs add up; fixed when FILE is created. Default: gdp, and rdp where the
    /// first run samples
    #[arg(long, value_name = "FILTER", value_parser = args::filter, requires = "ledger")]
    budget_filter: Option<FilterKind>,
}

impl LedgerArgs {
    /// The ledger, where one was asked for.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.ledger.as_deref()
    }
}

/// A shared ledger that can be opened.
pub(crate) enum Shared {
    Open(Box<Ledger>),
    /// The file is made right before the run, so that a refused run leaves none.
    New {
        path: PathBuf,
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        filter: Option<FilterKind>,
    },
}

impl Shared {
    /// Checks the terms and that the file can be written.
    pub(crate) fn check(
        args: &LedgerArgs,
        adjacency: Adjacency,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<Self>, CliError> {
        let Some(path) = &args.ledger else {
            return Ok(None);
        };
        // A checkpoint's ledger must be there: a new one would not know what was spent.
        if path.exists() || checkpoint.is_some() {
            return Self::existing(path, args, adjacency, checkpoint).map(Some);
        }
        let needed = |flag| {
            let problem = format!("needed to create {}, which does not exist", path.display());
            CliError::flag(flag, problem)
        };
        let ledger = Self::New {
            path: path.clone(),
            epsilon: args.budget.ok_or_else(|| needed("--budget"))?,
            delta: args.budget_delta.ok_or_else(|| needed("--budget-delta"))?,
            adjacency,
            filter: args.budget_filter,
        };
        probe(folder_of(path)).map_err(|source| CliError::Write {
            flag: "--ledger",
            path: path.clone(),
            source,
        })?;
        Ok(Some(ledger))
    }

    fn existing(
        path: &Path,
        args: &LedgerArgs,
        adjacency: Adjacency,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Self, CliError> {
        let file = match checkpoint {
            Some(checkpoint) => Ledger::resume(path, checkpoint),
            None => Ledger::open(path),
        };
        let file = file.map_err(CliError::Ledger)?;
        let differs = args.budget.is_some_and(|asked| asked != file.epsilon())
            || args.budget_delta.is_some_and(|asked| asked != file.delta())
            || args
                .budget_filter
                .is_some_and(|asked| asked != file.filter());
        if differs {
            return Err(CliError::Ledger(LedgerError::OtherTerms {
                path: path.to_owned(),
                epsilon: file.epsilon().get(),
                delta: file.delta().get(),
                adjacency: file.adjacency(),
                filter: file.filter(),
            }));
        }
        if file.adjacency() != adjacency {
            return Err(CliError::Ledger(LedgerError::AdjacencyMismatch {
                ledger: file.adjacency(),
                run: adjacency,
            }));
        }
        let writable = std::fs::OpenOptions::new().append(true).open(path);
        writable.map_err(|source| CliError::Write {
            flag: "--ledger",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::Open(Box::new(file)))
    }

    /// The ledger, created if need be and if it could pay for `plan`.
    pub(crate) fn open(self, plan: &SolverPlan) -> Result<Ledger, CliError> {
        match self {
            Self::Open(file) => Ok(*file),
            Self::New {
                path,
                epsilon,
                delta,
                adjacency,
                filter,
            } => {
                let filter = filter.unwrap_or(match plan.access() {
                    Access::Poisson(_) | Access::FixedSize(_) => FilterKind::Rdp,
                    _ => FilterKind::Gdp,
                });
                Ledger::could_pay(epsilon, delta, adjacency, filter, plan.spend().event())
                    .map_err(CliError::from_ledger)?;
                Ledger::open_or_create(&path, epsilon, delta, adjacency, filter)
                    .map_err(CliError::Ledger)
            }
        }
    }
}

/// What a budget has left, in words.
pub(crate) fn left_in_words(path: &Path) -> Result<String, LedgerError> {
    Ok(report_in_words(&Ledger::report(path)?))
}

/// The same of a report.
pub(crate) fn report_in_words(report: &LedgerReport) -> String {
    let share = 100.0 * (1.0 - report.used / report.capacity);
    let open = report.runs.iter().filter(|run| !run.settled).count();
    let mut words = format!(
        "{share:.1} % of epsilon {} at delta {} ({}, {} filter) are left after {} runs: one more \
         run of epsilon {} would fit",
        report.epsilon,
        scientific(report.delta),
        report.adjacency,
        report.filter,
        report.runs.len(),
        // Rounded down, so that a run of what is shown fits.
        (report.epsilon_left * 1e4).floor() / 1e4,
    );
    if open > 0 {
        words += &format!(
            "; {open} of the runs never settled (still running, or killed) and count in full"
        );
    }
    words
}
