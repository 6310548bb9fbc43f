//! What can go wrong, each in one sentence that names a file, a line or a flag.

use std::path::PathBuf;

use dpopt::nonconvex::{PlanError, RunError};
use dpopt::oracle::tabular::TabularError;
use dpopt::oracle::{DataError, EstimatorError, PassError};
use dpopt::privacy::{AccountingError, CheckpointError, LedgerError, Refused};

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
    /// A ledger that is not whole.
    #[error(transparent)]
    LedgerDamaged(LedgerError),
    /// A checkpoint can't be used.
    #[error(transparent)]
    Checkpoint(CheckpointError),
    /// The shared ledger can't be opened.
    #[error("--ledger: {0}")]
    Ledger(LedgerError),
    /// The shared ledger can't pay. Nothing was released.
    #[error("--ledger: {0}; nothing was released and nothing charged")]
    CannotPay(LedgerError),
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
    /// A run broke off.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The point left the range of numbers.
    #[error(
        "the run diverged after {steps} steps and has no model to write; what it reserved counts as spent"
    )]
    Diverged { steps: u64 },
    /// The model can't be evaluated on the test set.
    #[error("--test: {0}; the run was made, and what it reserved counts as spent")]
    Metric(#[from] dpopt::theory::MetricError),
    /// The run was made, but its results could not be written.
    #[error("{0}; the run was made, and what it reserved counts as spent")]
    AfterRun(Box<CliError>),
    /// Ctrl-C came before the first release.
    #[error("interrupted before anything was released; nothing was charged")]
    Interrupted,
    /// The handler of Ctrl-C can't be installed.
    #[error("can't listen to Ctrl-C: {0}")]
    Signal(#[from] ctrlc::Error),
    /// An output can't be written as JSON.
    #[error("can't write JSON: {0}")]
    Json(#[from] serde_json::Error),
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
        let error = match error {
            RunError::Pass(PassError::Refused(refused)) => RunError::Refused(refused),
            other => other,
        };
        match error {
            RunError::Refused(Refused::Ledger(
                refusal @ (LedgerError::Exhausted { .. } | LedgerError::Accounting(_)),
            )) => Self::CannotPay(refusal),
            RunError::Refused(Refused::Ledger(other)) => Self::Ledger(other),
            other => Self::Run(other),
        }
    }

    /// 2 where the request can't be met as written, otherwise 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Flag { .. }
            | Self::Tabular(_)
            | Self::Label(_)
            | Self::Data { .. }
            | Self::Read { .. }
            | Self::Content { .. }
            | Self::Write { .. }
            | Self::Ledger(_)
            | Self::LedgerFile(_)
            | Self::Checkpoint(_)
            | Self::Accounting(_)
            | Self::Plan(PlanError::BadFact { .. }) => 2,
            _ => 1,
        }
    }
}

impl From<PlanError> for CliError {
    /// Names the flag that would help, where one would.
    fn from(error: PlanError) -> Self {
        let flag = match error {
            PlanError::RadiusMissing { .. } => "--radius",
            PlanError::NotConvex { .. } => "--loss",
            PlanError::NeedsPositions { .. } => "--adjacency",
            PlanError::RankMissing => "--rank",
            PlanError::NoBaseBound => "--project",
            other => return Self::Plan(other),
        };
        Self::flag(flag, error.to_string())
    }
}
