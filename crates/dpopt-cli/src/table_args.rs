//! The flags of a table of records and its schema, which training and tuning share.

use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::data::formats::Format;

use crate::artefacts::FILES;
use crate::error::CliError;
use crate::input::{self, Input};
use crate::ledger::LedgerArgs;
use crate::paths::{Paths, STDIN};
use crate::ranks;
use crate::source::Source;

/// Why a draft is not trained with.
const DRAFT_REFUSED: &str = "it is a draft of `dpopt schema`, whose ranges, categories and label values were read from the \
     records: replace each with values from a codebook and remove the line `draft = true`, or pass --accept-draft, \
     and the statement says that they came from the records";
/// What is said of a run on one.
pub(crate) const DRAFT_ACCEPTED: &str = "the schema is a draft that was read from the records: the guarantee does not cover what its ranges, \
                              categories and label values tell of them, and model.json has them";

/// A table, what is protected in it, and what of it is public.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    #[cfg_attr(
        feature = "parquet",
        doc = "Records to train on: a table (CSV, Parquet), rows of numbers (NPY, IDX) or sparse rows (LIBSVM), all but Parquet also gzipped, or a"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Records to train on: a table (CSV), rows of numbers (NPY, IDX) or sparse rows (LIBSVM), also gzipped, or a"
    )]
    /// file of rows (see `dpopt convert`; not for `dpopt tune`); default: the built-in sample
    #[arg(value_name = "FILE", group = "records")]
    file: Option<PathBuf>,
    /// The same as a flag; `-`: a table on standard input, plain or gzipped
    #[arg(long, value_name = "FILE", group = "records")]
    data: Option<PathBuf>,
    #[cfg_attr(
        feature = "parquet",
        doc = "Format of the records: csv, npy, libsvm, idx, parquet or rows; default: by the file's name"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Format of the records: csv, npy, libsvm, idx or rows; default: by the file's name"
    )]
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE", requires = "records")]
    labels: Option<PathBuf>,
    /// Public schema of the table (see `dpopt schema`); a file of rows has its own
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Train on a draft of `dpopt schema` as it is: the statement and the report then say that ranges, categories and label values
    /// came from the records, and that the guarantee does not cover what they tell
    #[arg(long)]
    accept_draft: bool,
    /// Column to predict, if not the one that the schema names
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Value of the label that counts as positive, if not the one that the schema names
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    positive: Option<String>,
}

impl TableArgs {
    /// The paths of a command that trains on it: what it reads of the table, and what it writes.
    pub(crate) fn paths(&self, ledger: &LedgerArgs, out: Option<&Path>) -> Paths {
        let paths = Paths::new()
            .reads("--data", self.data.as_deref().or(self.file.as_deref()))
            .reads("--labels", self.labels.as_deref())
            .reads("--schema", self.schema.as_deref())
            .writes("--ledger", ledger.path())
            .writes("--out", out);
        FILES.iter().fold(paths, |paths, name| {
            let file = out.map(|out| out.join(name));
            paths.writes("--out", file.as_deref())
        })
    }

    /// Records of the same format in another file, and their labels.
    pub(crate) fn input(
        &self,
        path: &Path,
        labels: Option<&Path>,
        flags: [&'static str; 2],
    ) -> Result<Input, CliError> {
        Input::new(path, labels, self.format, flags)
    }

    /// Where the records come from, and what is public of them. `test`: a test set.
    pub(crate) fn source(&self, test: Option<Input>) -> Result<Source, CliError> {
        let named = self.data.as_deref().or(self.file.as_deref());
        let records = named
            .map(|path| ranks::own_file("--data", path))
            .transpose()?;
        let labels = self.labels.as_deref();
        let labels = labels
            .map(|path| ranks::own_file("--labels", path))
            .transpose()?;
        let input = |path| self.input(path, labels.as_deref(), ["--data", "--labels"]);
        let records = records.as_deref().map(input);
        Source::check(
            records.transpose()?,
            self.schema.as_deref(),
            test,
            self.label.as_deref(),
            self.positive.as_deref(),
        )
        .map(|source| source.named(named))
    }

    /// Refuses records that several ranks can't share.
    pub(crate) fn check_ranks(&self) -> Result<(), CliError> {
        let named = self.data.as_deref().or(self.file.as_deref());
        let sample = "the built-in sample is for one process: name a file for each rank";
        ranks::refuse("--data", named.is_none(), sample)?;
        let stdin = named == Some(Path::new(STDIN));
        ranks::refuse("--data", stdin, "standard input is that of one process")
    }

    /// Whether the records are those of the built-in sample, which are public.
    pub(crate) fn is_sample(&self) -> bool {
        self.data.is_none() && self.file.is_none()
    }

    /// Refuses to pay for a model that nobody keeps, from private records or from a ledger. `what`: what is paid for.
    pub(crate) fn check_kept(
        &self,
        what: &str,
        ledger: &LedgerArgs,
        kept: bool,
    ) -> Result<(), CliError> {
        if kept || (self.is_sample() && ledger.path().is_none()) {
            return Ok(());
        }
        let given = ledger.path().map_or("", |_| " with --ledger");
        let problem = format!(
            "needed{given}: the {what} would be paid for and its model thrown away; name a folder for it (or give --json, which prints \
             the model)"
        );
        Err(CliError::flag("--out", problem))
    }

    /// Refuses a draft, unless it was accepted.
    pub(crate) fn check_draft(&self, source: &Source) -> Result<(), CliError> {
        if source.schema.is_draft() && !self.accept_draft {
            return Err(CliError::flag("--schema", DRAFT_REFUSED));
        }
        Ok(())
    }
}
