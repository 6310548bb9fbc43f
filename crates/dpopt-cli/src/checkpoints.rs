//! Checkpoints of `train`: written while it runs, and started from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::data::tabular::Schema;
use dpopt::nonconvex::Release;
use dpopt::privacy::{Checkpoint, CheckpointError, Ledger};

use crate::args;
use crate::artefacts::{Taken, failed, not_a_file, taken};
use crate::error::CliError;
use crate::fit::Fit;
use crate::paths::end_of_links;
use crate::ranks;

/// Checkpoints in a run where nothing else is asked for.
const CHECKPOINTS: u64 = 20;

/// Characters of a setting that a message shows.
const LONGEST: usize = 60;
/// Parts of a schema that change nothing in what is minimised.
const IDLE: [&str; 3] = ["draft", "format", "share"];

/// What is minimised, by names: the loss, the weights of records, and how rows and labels are made. Public.
fn objective(fit: &Fit, schema: &Schema) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([("loss".to_owned(), fit.name().to_string())]);
    let weights = fit.weights.as_ref().filter(|of| !of.are_one());
    all.extend(weights.map(|of| ("class weights".to_owned(), of.to_string())));
    // A factor is kept within its ball, which is a part of the loss.
    let ball = fit
        .link
        .map(|link| ("ball".to_owned(), link.ball().to_string()));
    all.extend(ball);
    let schema = serde_json::to_value(schema).unwrap_or_default();
    let parts = schema.as_object().into_iter().flatten();
    let parts = parts.filter(|(key, _)| !IDLE.contains(&key.as_str()));
    all.extend(parts.map(|(key, value)| (format!("schema ({key})"), value.to_string())));
    all
}

/// Beside what is minimised: whether ranges were read off the records, which taking the word out of the schema does not undo.
const DRAFT: &str = "draft";

/// Whether the schema of the run that wrote it was an unedited draft, or that of a run before it.
pub(crate) fn was_draft(checkpoint: &Checkpoint) -> bool {
    let named = checkpoint.objective();
    named.is_some_and(|named| named.contains_key(DRAFT))
}

/// What stands around the first place where two values differ.
fn excerpt(value: &[char], from: usize) -> String {
    if value.len() <= LONGEST {
        return value.iter().collect();
    }
    let start = from.saturating_sub(LONGEST / 2);
    let shown: String = value.iter().skip(start).take(LONGEST).collect();
    let before = if start > 0 { "..." } else { "" };
    let after = if start + LONGEST < value.len() {
        "..."
    } else {
        ""
    };
    format!("{before}{shown}{after}")
}

/// Flags of checkpoints.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// Write the released point to FILE every so often, for --resume after a crash
    #[arg(long, value_name = "FILE", requires = "ledger")]
    checkpoint: Option<PathBuf>,
    /// Steps between checkpoints; default: a twentieth of the plan
    #[arg(long, value_name = "T", value_parser = args::count, requires = "checkpoint", allow_hyphen_values = true)]
    checkpoint_every: Option<u64>,
    /// Start from the point in FILE, with a new plan on what the ledger has left
    #[arg(long, value_name = "FILE", requires = "ledger")]
    resume: Option<PathBuf>,
}

impl CheckpointArgs {
    /// Refuses the flags, where they are given.
    pub(crate) fn refuse(&self, problem: &str) -> Result<(), CliError> {
        for (flag, given) in [
            ("--resume", self.resume.is_some()),
            ("--checkpoint", self.checkpoint.is_some()),
        ] {
            if given {
                return Err(CliError::flag(flag, problem));
            }
        }
        Ok(())
    }

    /// The checkpoint to start from, where there is one. Of several ranks the first reads it, and tells the others.
    pub(crate) fn read(&self) -> Result<Option<Checkpoint>, CliError> {
        let Some(path) = self.resume.as_deref() else {
            return Ok(None);
        };
        let own = match ranks::is_first() {
            true => std::fs::read(path).map_err(|source| CliError::Read {
                path: path.to_owned(),
                source,
            }),
            false => Ok(Vec::new()),
        };
        let bytes = ranks::of_first("the checkpoint", own)?;
        let checkpoint = Checkpoint::of_bytes(&bytes, path).map_err(CliError::Checkpoint);
        checkpoint.map(Some)
    }

    /// Refuses a point of another number of weights than `dim`, of another network, or of a run that minimised something else.
    pub(crate) fn check_point(
        checkpoint: &Checkpoint,
        (fit, schema): (&Fit, &Schema),
        dim: usize,
    ) -> Result<(), CliError> {
        let refuse = |problem| Err(CliError::flag("--resume", problem));
        let (of, ours) = (checkpoint.point().len(), fit.named());
        if of != dim {
            return refuse(format!(
                "the checkpoint's point has dimension {of}, the model {dim}"
            ));
        }
        let words = |model: Option<&str>| model.unwrap_or("a linear model").to_owned();
        if checkpoint.model() != ours.as_deref() {
            return refuse(format!(
                "the checkpoint's point is of {}, and this run is of {}",
                words(checkpoint.model()),
                words(ours.as_deref())
            ));
        }
        let Some(theirs) = checkpoint.objective() else {
            // Of a version that did not say it.
            return Ok(());
        };
        let ours = objective(fit, schema);
        let mut names = ours.keys().chain(theirs.keys());
        let other = names.find(|name| *name != DRAFT && ours.get(*name) != theirs.get(*name));
        let Some(name) = other else {
            return Ok(());
        };
        let value = |of: &BTreeMap<String, String>| {
            let value = of.get(name).map_or("none", String::as_str);
            value.chars().collect::<Vec<char>>()
        };
        let (theirs, ours) = (value(theirs), value(&ours));
        let same = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
        refuse(format!(
            "the checkpoint's {name}: {}, and this run's: {}; a run goes on with the problem that it began with",
            excerpt(&theirs, same),
            excerpt(&ours, same)
        ))
    }

    /// Where checkpoints are written.
    pub(crate) fn checkpoint(&self) -> Option<&Path> {
        self.checkpoint.as_deref()
    }

    /// The checkpoint to start from.
    pub(crate) fn resume(&self) -> Option<&Path> {
        self.resume.as_deref()
    }

    /// Checks that checkpoints can be written: a checkpoint replaces a checkpoint, and another
    /// file only with `force`.
    pub(crate) fn check(&self, force: bool) -> Result<(), CliError> {
        const FLAG: &str = "--checkpoint";
        let Some(path) = &self.checkpoint else {
            return Ok(());
        };
        match taken(path, FLAG)? {
            Taken::Free => Ok(()),
            Taken::Device => Err(failed(FLAG, path, not_a_file(path))),
            Taken::File => {
                let other = matches!(
                    Checkpoint::read(path),
                    Err(CheckpointError::OtherFile { .. } | CheckpointError::NewerVersion { .. })
                );
                if other && !force {
                    let problem = format!(
                        "{} exists and is no checkpoint; --force replaces it",
                        path.display()
                    );
                    return Err(CliError::flag(FLAG, problem));
                }
                Ok(())
            }
        }
    }

    /// Writes checkpoints of a run of `steps` steps that is charged to `ledger`.
    pub(crate) fn saver(
        &self,
        ledger: Option<&Path>,
        steps: u64,
        (fit, schema): (&Fit, &Schema),
        draft: bool,
    ) -> Result<Saver, CliError> {
        let mut objective = objective(fit, schema);
        objective.extend(draft.then(|| (DRAFT.to_owned(), "true".to_owned())));
        let to = match (&self.checkpoint, ledger) {
            (Some(path), Some(ledger)) => {
                // A handle of its own: that of the run is the curator's.
                let ledger = Ledger::open(ledger).map_err(CliError::Ledger)?;
                Some((end_of_links(path), ledger))
            }
            _ => None,
        };
        let every = self.checkpoint_every;
        Ok(Saver {
            to,
            every: every.unwrap_or(steps.div_ceil(CHECKPOINTS)).max(1),
            model: fit.named(),
            objective,
            trouble: None,
        })
    }
}

/// Writes checkpoints.
pub(crate) struct Saver {
    to: Option<(PathBuf, Ledger)>,
    every: u64,
    /// What a point is of.
    model: Option<String>,
    /// What is minimised.
    objective: BTreeMap<String, String>,
    trouble: Option<CheckpointError>,
}

impl Saver {
    /// Saves the point of every so many releases.
    pub(crate) fn on_release(&mut self, release: &Release<'_>) {
        if release.step > 0 && release.step.is_multiple_of(self.every) {
            self.save(release.point, release.step);
        }
    }

    /// Saves a released point. A run that is paid is not stopped by a checkpoint that can't be
    /// written: the last trouble is told at the end.
    pub(crate) fn save(&mut self, point: &[f64], step: u64) {
        if let Some((path, ledger)) = &mut self.to {
            let saved = ledger.checkpoint(point, step);
            let saved = saved.and_then(|checkpoint| {
                let named = checkpoint.of_model(self.model.clone());
                named.of_objective(self.objective.clone()).write(path)
            });
            self.trouble = saved.err();
        }
    }

    /// Why the last checkpoint is missing, if it is.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.as_ref()?;
        Some(format!("the last checkpoint was not written: {trouble}"))
    }
}
