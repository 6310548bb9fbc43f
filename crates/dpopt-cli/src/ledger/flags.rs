//! The shared ledger of several runs, as the flags of `train` ask for it.

use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::data::tabular::Label;
use dpopt::nonconvex::Plan;
use dpopt::privacy::ledger::{LedgerReport, RunNote, RunNoteError, RunState};
use dpopt::privacy::{
    AccountingError, Adjacency, Checkpoint, Delta, Epsilon, Event, FilterKind, Ledger, LedgerError,
};

use crate::args;
use crate::artefacts::{folder_of, probe};
use crate::error::CliError;
use crate::paths::end_of_links;
use crate::statement::scientific;
use crate::tell::{tell, warn};

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
    /// Date of this run for `dpopt ledger show` and report.html, in any form, up to 64 characters; no clock is read.
    /// The ledger also keeps the command line and the model's file
    #[arg(long, value_name = "TEXT", value_parser = date)]
    date: Option<String>,
    /// Leave the command line, with the paths in it, out of the ledger and of report.html
    #[arg(long)]
    no_command_line: bool,
}

/// When and how a run was made, for people.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Made {
    /// As the user says it.
    pub(crate) date: Option<String>,
    /// As the user gave it; none where it is to be left out.
    pub(crate) command: Option<String>,
}

/// The command line as given.
fn own_command_line() -> String {
    let words = std::env::args_os().skip(1);
    command_line(words.map(|word| word.to_string_lossy().into_owned()))
}

impl LedgerArgs {
    /// The ledger, where one was asked for.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.ledger.as_deref()
    }

    /// When and how the run was made, for its report.
    pub(crate) fn made(&self) -> Made {
        Made {
            date: self.date.clone(),
            command: (!self.no_command_line).then(own_command_line),
        }
    }

    /// Refuses what is for a ledger alone where there is none: of a command without a report.
    pub(crate) fn check_alone(&self) -> Result<(), CliError> {
        let given = [
            ("--date", self.date.is_some()),
            ("--no-command-line", self.no_command_line),
        ];
        let given = given.into_iter().find(|(_, given)| *given);
        match given.filter(|_| self.ledger.is_none()) {
            Some((flag, _)) => Err(CliError::flag(
                flag,
                "it is for the ledger here: give --ledger too",
            )),
            None => Ok(()),
        }
    }

    /// What the ledger keeps about the run, for people: the command line as given, the file of the
    /// model, where there is a folder for it, the date, the public number of records and the label.
    fn note(&self, (records, label): Table<'_>, out: Option<&Path>) -> Result<RunNote, CliError> {
        let problem = |error: RunNoteError| CliError::flag("--ledger", error.to_string());
        let label = shortened(&printable(&label.column), RunNote::MAX_LABEL);
        let note = RunNote::new().with_records(records);
        let mut note = note.with_label(label).map_err(problem)?;
        if !self.no_command_line {
            note = note.with_command(own_command_line()).map_err(problem)?;
        }
        if let Some(folder) = out {
            let model = folder.join("model.json").display().to_string();
            let model = shortened(&printable(&model), RunNote::MAX_OUTPUT);
            note = note.with_output(model).map_err(problem)?;
        }
        match &self.date {
            Some(date) => note.with_date(date.as_str()).map_err(problem),
            None => Ok(note),
        }
    }
}

/// Characters of a date.
const DATE: usize = 64;

fn date(text: &str) -> Result<String, String> {
    let characters = text.chars().count();
    if characters > DATE {
        return Err(format!(
            "{characters} characters; a date has at most {DATE}"
        ));
    }
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err("a date is one line of text".to_owned());
    }
    Ok(text.to_owned())
}

/// A command line in one line that can be read back by a shell, cut off where it is too long.
fn command_line(words: impl Iterator<Item = String>) -> String {
    let mut text = "dpopt".to_owned();
    for word in words {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        text.push(' ');
        if !word.is_empty() && word.chars().all(plain) {
            text.push_str(&word);
        } else {
            let quoted = printable(&word).replace('\'', "'\\''");
            text.push_str(&format!("'{quoted}'"));
        }
    }
    shortened(&text, RunNote::MAX_COMMAND)
}

/// Control characters, which a ledger takes none of and a terminal obeys, as `\u{...}`.
pub(super) fn printable(text: &str) -> String {
    let shown = text.chars().map(|c| match c {
        c if c.is_control() => c.escape_unicode().to_string(),
        c => c.to_string(),
    });
    shown.collect()
}

fn shortened(text: &str, bytes: usize) -> String {
    const MORE: &str = "...";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes - MORE.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned() + MORE
}

/// What is public of the table of a run: the number of records, and the label.
pub(crate) type Table<'a> = (u64, &'a Label);

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
        // A link that leads nowhere yet is followed, as for other files.
        let path = &end_of_links(path);
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

    /// The ledger, created if need be and if it could pay for `event`, with a note of a run on this table; and what is to be warned of.
    pub(crate) fn open(
        self,
        event: &Event,
        args: &LedgerArgs,
        (of, out): (Table<'_>, Option<&Path>),
    ) -> Result<(Ledger, Vec<String>), CliError> {
        let note = args.note(of, out)?;
        let ledger = match self {
            Self::Open(file) => *file,
            Self::New {
                path,
                epsilon,
                delta,
                adjacency,
                filter,
            } => {
                let default = match FilterKind::Gdp.accounts(event, adjacency) {
                    true => FilterKind::Gdp,
                    false => FilterKind::Rdp,
                };
                let kind = filter.unwrap_or(default);
                Ledger::could_pay(epsilon, delta, adjacency, kind, event)
                    .map_err(CliError::from_ledger)?;
                let ledger = Ledger::open_or_create(&path, epsilon, delta, adjacency, kind)
                    .map_err(CliError::Ledger)?;
                if filter.is_none() {
                    tell(&created_in_words(&path, kind, (epsilon, delta))?);
                }
                ledger
            }
        };
        let warnings = ledger.other_table(&note);
        let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        warnings.iter().for_each(|warning| warn(warning));
        Ok((ledger.with_note(note), warnings))
    }
}

/// What the filter of a new ledger takes and refuses, and what another would.
fn created_in_words(
    path: &Path,
    kind: FilterKind,
    (epsilon, delta): (Epsilon, Delta),
) -> Result<String, AccountingError> {
    let other = match kind {
        FilterKind::Gdp => FilterKind::Rdp,
        _ => FilterKind::Gdp,
    };
    // Rounded down, so that a run of what is shown fits. The root of the budget may lie an ulp or so below it.
    let largest = |of: FilterKind| -> Result<f64, AccountingError> {
        Ok((of.largest_run(epsilon, delta)? * (1e4 + 1e-4)).floor() / 1e4)
    };
    Ok(format!(
        "{}: created with filter {kind}, which can't be changed: {} (largest run on all records: epsilon {}). Of a ledger that is created \
         with --budget-filter {other}: {} (largest run: {})",
        path.display(),
        kind.scope(),
        largest(kind)?,
        other.scope(),
        largest(other)?,
    ))
}

/// What a budget has left, in words.
pub(crate) fn left_in_words(path: &Path) -> Result<String, LedgerError> {
    Ok(report_in_words(&Ledger::report(path)?))
}

/// The same of a report.
pub(crate) fn report_in_words(report: &LedgerReport) -> String {
    let used = report.used - report.reclaimable;
    let share = 100.0 * (1.0 - used / report.capacity);
    let count = |state| report.runs.iter().filter(|run| run.state == state).count();
    let mut words = format!(
        "{share:.1} % of epsilon {} at delta {} ({}, {} filter) are left after {}: {}",
        report.epsilon,
        scientific(report.delta),
        report.adjacency,
        report.filter,
        runs(report.runs.len()),
        // Rounded down, so that a run of what is shown fits.
        match (report.epsilon_left * 1e4).floor() / 1e4 {
            0.0 => "no further run fits".to_owned(),
            left => format!("one more run of epsilon {left} would fit"),
        },
    );
    let open = count(RunState::Open);
    if open > 0 {
        let (have, count) = if open == 1 {
            ("has", "counts")
        } else {
            ("have", "count")
        };
        words += &format!(
            "; {} {have} not settled (still running, or killed where nobody can tell) and {count} in full",
            runs(open)
        );
    }
    let died = count(RunState::Died);
    if died > 0 {
        words += &format!(
            "; {} died, and the next one takes back {:.1} % of the budget that {} had not drawn",
            runs(died),
            100.0 * report.reclaimable / report.capacity,
            if died == 1 { "it" } else { "they" },
        );
    }
    words
}

/// So many runs, in words.
pub(super) fn runs(count: usize) -> String {
    match count {
        1 => "1 run".to_owned(),
        more => format!("{more} runs"),
    }
}

/// What a run that resumes finds and takes, in words.
pub(crate) fn resume_in_words(
    path: &Path,
    ledger: &mut Ledger,
    plan: &dyn Plan,
) -> Result<String, LedgerError> {
    let state = ledger.state()?;
    let share = |cost: f64| 100.0 * cost / state.capacity;
    let left = state.capacity - (state.used - state.reclaimable);
    Ok(format!(
        "resuming: {:.1} % of the budget in {} are left (one more run of epsilon {} at delta {} \
         would fit); this run takes up to {:.1} % of the budget, for {} steps",
        share(left),
        path.display(),
        (ledger.epsilon_left(&state) * 1e4).floor() / 1e4,
        scientific(ledger.delta()),
        100.0 * ledger.share_of(plan.spend().event())?,
        plan.steps(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_one_line_that_a_shell_reads() {
        let words = [
            "train",
            "--data",
            "my file.csv",
            "--date",
            "it's\n1 May",
            "",
        ];
        let line = command_line(words.map(str::to_owned).into_iter());
        assert_eq!(
            line,
            "dpopt train --data 'my file.csv' --date 'it'\\''s\\u{a}1 May' ''"
        );
        let long = command_line(std::iter::once("\u{e9}".repeat(5000)));
        assert!(long.len() <= RunNote::MAX_COMMAND && long.ends_with("..."));
        RunNote::new().with_command(long).unwrap();
    }

    #[test]
    fn dates_are_short_and_one_line() {
        assert_eq!(date("1 May").unwrap(), "1 May");
        assert!(date(&"\u{1d7d8}".repeat(64)).is_ok());
        assert!(date(&"1".repeat(65)).is_err());
        for bad in ["", " ", "1\n2", "\u{1b}[2J"] {
            assert!(date(bad).is_err(), "{bad:?}");
        }
    }
}
