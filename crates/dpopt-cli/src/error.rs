//! What can go wrong, each in one sentence that names a file, a line or a flag.

use std::path::PathBuf;

use dpopt::certify::{PrivateCertificateError, TuningError};
use dpopt::data::tabular::TabularError;
use dpopt::nonconvex::{PlanError, RunError};
use dpopt::oracle::{AskError, DataError, EstimatorError};
use dpopt::privacy::{
    AccountingError, CheckpointError, ExchangeError, LedgerError, Refused, TicketError,
};

use crate::exit::Exit;

/// A command could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A flag, or a combination of flags, makes no sense.
    #[error("{flag}: {problem}")]
    Flag { flag: &'static str, problem: String },
    /// A file, its header or a schema.
    #[error(transparent)]
    Tabular(#[from] TabularError),
    /// The label of the schema can't be changed as the flags ask.
    #[error("--label, --positive: {0}")]
    Label(TabularError),
    /// A table can't be used as a whole.
    #[error("{path}: {source}")]
    Data { path: String, source: DataError },
    /// A file can't be read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A file that this command should understand holds something else.
    #[error("{}: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
    /// An output can't be written.
    #[error("{flag}: can't write {}: {source}", path.display())]
    Write {
        flag: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// Standard output can't be written.
    #[error("can't write to standard output: {0}")]
    Stdout(std::io::Error),
    /// A ledger that a command was asked to read.
    #[error(transparent)]
    LedgerFile(LedgerError),
    /// A certificate can't be planned or made.
    #[error("{0}")]
    Certificate(PrivateCertificateError),
    /// A checkpoint can't be used.
    #[error(transparent)]
    Checkpoint(CheckpointError),
    /// The shared ledger can't be opened.
    #[error("--ledger: {0}")]
    Ledger(LedgerError),
    /// The shared ledger can't pay. Nothing was released.
    #[error("--ledger: {0}; nothing was released and nothing charged")]
    CannotPay(LedgerError),
    /// The shared ledger's filter has no cost for the run's releases. Nothing was released.
    #[error(
        "--ledger: {0}{flag}; nothing was released and nothing charged",
        flag = filter_flag(.0)
    )]
    OtherFilter(LedgerError),
    /// A number is not a privacy unit.
    #[error(transparent)]
    Unit(#[from] dpopt::privacy::UnitError),
    /// No plan.
    #[error(transparent)]
    Plan(PlanError),
    /// An accountant refused.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// The private estimator could not be set up.
    #[error(transparent)]
    Estimator(#[from] EstimatorError),
    /// A release or a statement was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The ranks of the command can't go on together.
    #[error(transparent)]
    Ranks(#[from] ExchangeError),
    /// A run broke off.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The point left the range of numbers.
    #[error(
        "the run diverged after {steps} steps and has no model to write; what it released counts as spent"
    )]
    Diverged { steps: u64 },
    /// The model can't be evaluated on the test set.
    #[error("--test: {0}")]
    Metric(#[from] dpopt::certify::MetricError),
    /// The run was made, but not all of its results could be written or computed.
    #[error("{}; the run was made, and what it released counts as spent", join(.0))]
    AfterRun(Vec<CliError>),
    /// The ledger could not be told that the run is over.
    #[error(
        "the ledger counts all that was set aside for this run, as it can't be told what was spent: {0}"
    )]
    Unsettled(String),
    /// A run broke off after its first release.
    #[error("{0}; the run broke off, and what it released counts as spent")]
    BrokeOff(Box<CliError>),
    /// As that, and how much it is, in words.
    #[error(
        "{0}; the run broke off after it released the shares of groups, which counts as spent: {1}"
    )]
    SharesSpent(Box<CliError>, String),
    /// A Poisson number of runs is zero at times.
    #[error(
        "the number of runs that was drawn is zero, as a Poisson number of mean {0} may be: there is no model, and the tuning counts as \
         spent; with --law geometric, or more --repeats, this does not happen, or hardly ever"
    )]
    NoRun(f64),
    /// The best run of a tuning has no model.
    #[error("the best of the runs has no model: {0}; the tuning counts as spent")]
    Untuned(String),
    /// What a certificate was to be made of could not be released. What was reserved for it counts as spent.
    #[error("the result is not certified: {0}")]
    Uncertified(String),
    /// A result found no place, neither in its file nor on standard output.
    #[error("the result could not be printed either; it is in {}", .0.display())]
    Rescued(PathBuf),
    /// The model found no place in its file, and stands on standard output.
    #[error("the model is printed on standard output instead")]
    Printed,
    /// A result found no place at all.
    #[error("the result is lost: it could not be printed, nor written to a temporary file ({0})")]
    Lost(std::io::Error),
    /// A signal came before the first release.
    #[error("interrupted before anything was released; nothing was charged")]
    Interrupted,
    /// A signal came after shares of groups were released and before the run's first release.
    #[error("interrupted before the first step")]
    InterruptedAfterShares,
    /// Signals can't be listened to.
    #[error("can't listen to signals: {0}")]
    Signal(std::io::Error),
    /// An output can't be written as JSON.
    #[error("can't write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The flag that has a new ledger take what this one refused.
fn filter_flag(refusal: &LedgerError) -> String {
    match refusal {
        LedgerError::OtherFilter { others, .. } => others.last().map_or_else(String::new, |kind| {
            format!("; it takes --budget-filter {kind} in the command that creates a ledger")
        }),
        _ => String::new(),
    }
}

impl CliError {
    /// A problem with a flag.
    pub(crate) fn flag(flag: &'static str, problem: impl Into<String>) -> Self {
        Self::Flag {
            flag,
            problem: problem.into(),
        }
    }

    /// A refusal by the shared ledger is told from other refusals.
    pub(crate) fn from_run(error: RunError) -> Self {
        match error {
            RunError::Refused(Refused::Ledger(refusal)) => Self::from_ledger(refusal),
            other => Self::Run(other),
        }
    }

    /// What a ledger said to a reservation.
    pub(crate) fn from_ledger(refusal: LedgerError) -> Self {
        match refusal {
            LedgerError::OtherFilter { .. } => Self::OtherFilter(refusal),
            LedgerError::Exhausted { .. } => Self::CannotPay(refusal),
            other => Self::Ledger(other),
        }
    }

    /// What ended the ranks of a run, if that did.
    pub(crate) fn of_ranks(&self) -> Option<ExchangeError> {
        let of_refused = |refused: &Refused| match refused {
            Refused::Exchange(error) | Refused::Ticket(TicketError::Exchange(error)) => {
                Some(*error)
            }
            _ => None,
        };
        match self {
            Self::Ranks(error)
            | Self::Data {
                source: DataError::Exchange(error),
                ..
            }
            | Self::Ledger(LedgerError::Exchange(error)) => Some(*error),
            Self::Refused(refused)
            | Self::Estimator(EstimatorError::Refused(refused))
            | Self::Run(
                RunError::Refused(refused)
                | RunError::Ask(AskError::Refused(refused))
                | RunError::Estimator(EstimatorError::Refused(refused)),
            ) => of_refused(refused),
            Self::BrokeOff(error) | Self::SharesSpent(error, _) => error.of_ranks(),
            Self::AfterRun(errors) => errors.first().and_then(Self::of_ranks),
            _ => None,
        }
    }

    /// Whether nobody reads standard output any more.
    pub(crate) fn is_a_closed_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// What the command ends with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Ledger(_)
            | Self::CannotPay(_)
            | Self::OtherFilter(_)
            | Self::LedgerFile(_)
            | Self::Checkpoint(CheckpointError::Ledger(_)) => Exit::Ledger,
            Self::AfterRun(_)
            | Self::BrokeOff(_)
            | Self::SharesSpent(..)
            | Self::Rescued(_)
            | Self::Unsettled(_)
            | Self::Printed
            | Self::Uncertified(_)
            | Self::NoRun(_)
            | Self::Untuned(_)
            | Self::Lost(_)
            | Self::Diverged { .. }
            | Self::Metric(_) => Exit::Unfinished,
            Self::Interrupted | Self::InterruptedAfterShares => Exit::Left,
            _ => Exit::Refused,
        }
    }
}

fn join(errors: &[CliError]) -> String {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    all.join("; ")
}

impl From<PrivateCertificateError> for CliError {
    fn from(error: PrivateCertificateError) -> Self {
        match error {
            PrivateCertificateError::Ask(AskError::Refused(refused)) => refused.into(),
            other => Self::Certificate(other),
        }
    }
}

impl From<TuningError> for CliError {
    fn from(error: TuningError) -> Self {
        match error {
            TuningError::Evaluation(error) => error.into(),
            TuningError::Refused(refused) => Self::from_run(refused.into()),
            other => Self::flag("--candidate", other.to_string()),
        }
    }
}

impl From<PlanError> for CliError {
    /// Names the flag that would help, where one would.
    fn from(error: PlanError) -> Self {
        let flag = match error {
            PlanError::RadiusMissing { .. } => "--radius",
            PlanError::GoldsteinRadiusMissing { .. } => "--goldstein-radius",
            PlanError::Directions { .. } => "--directions",
            PlanError::LargestBatch { .. } | PlanError::LargestBatchOfSlice { .. } => {
                "--largest-batch"
            }
            PlanError::BatchesOfSecretSize { .. } => "--adjacency",
            PlanError::NotConvex { .. } | PlanError::Kinks => "--loss",
            PlanError::NeedsPositions { .. } => "--adjacency",
            PlanError::RankMissing => "--rank",
            PlanError::NoBaseBound => "--project",
            other => return Self::Plan(other),
        };
        Self::flag(flag, error.to_string())
    }
}
