//! How a tuning goes about it, with records or without: its candidates, score and runs, and what follows from them and public numbers.

use clap::Args;
use dpopt::certify::TuningScore;
use dpopt::data::tabular::{Label, LabelKind};
use dpopt::nonconvex::Budget;
use dpopt::privacy::Part;

use super::candidates::{Candidate, CandidateArgs};
use super::search::{Fixed, Searched, Terms};
use super::told::{Law, TuningTold};
use crate::args;
use crate::error::CliError;
use crate::evaluated;

/// Fewest runs in the mean where nothing is asked for: of a Poisson number of them there is none in one of 150 tunings.
const FEWEST: f64 = 5.0;
/// Most of them.
const MOST: f64 = 10.0;
/// The share of the records that is held out where nothing is asked for.
const HOLDOUT: f64 = 0.2;

/// What is tried, how often, and how it is scored.
#[derive(Debug, Args)]
pub(super) struct TuningSettings {
    #[command(flatten)]
    pub(super) candidates: CandidateArgs,
    /// By which number of the private evaluation the best run is chosen: auc or accuracy for classes, absolute-error or squared-error for
    /// numbers; default: auc, of several classes accuracy, of a number absolute-error
    #[arg(long, value_name = "NAME", value_parser = score)]
    score: Option<TuningScore>,
    /// Number of runs in the mean, from 1 to 1000; default: as many as candidates, from 5 to 10. A candidate is never tried with
    /// probability exp(-M/candidates) (poisson)
    #[arg(long, value_name = "M", value_parser = repeats, allow_hyphen_values = true)]
    repeats: Option<f64>,
    /// Law of the number of runs. poisson: near its mean, the cheapest for up to some 8 runs; zero with probability exp(-M), and then there
    /// is no model. geometric and logarithmic: at least one run, often few
    #[arg(long, value_enum, default_value_t = Law::Poisson)]
    law: Law,
    /// Hold out this share of the records to score on, drawn by a public seed
    #[arg(long, value_name = "SHARE", default_value_t = HOLDOUT, value_parser = args::probability, allow_hyphen_values = true)]
    holdout: f64,
    /// Bins of scores of two classes that the evaluation counts records in: an even number. Default: by the number of records and the noise
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    bins: Option<usize>,
}

/// Candidates with their plans, and what is said of them.
pub(super) struct Settled {
    pub(super) candidates: Vec<Candidate>,
    pub(super) fixed: Fixed,
    pub(super) searched: Searched,
    pub(super) told: TuningTold,
    pub(super) warnings: Vec<String>,
    repeats: (f64, f64),
}

impl Settled {
    pub(super) fn terms(&self) -> Terms<'_> {
        self.fixed.of(&self.candidates, self.repeats)
    }
}

fn score(name: &str) -> Result<TuningScore, String> {
    let mut all = TuningScore::ALL.into_iter();
    all.find(|score| score.to_string() == name).ok_or_else(|| {
        let names = TuningScore::ALL.map(|score| score.to_string());
        format!("known are {}", names.join(", "))
    })
}

fn repeats(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (1.0..=1000.0).contains(&value) => Ok(value),
        _ => Err("a number from 1 to 1000 is needed".to_owned()),
    }
}

impl TuningSettings {
    /// The score, if the label has it.
    fn by(&self, label: &Label) -> Result<TuningScore, CliError> {
        let (kind, scores): (&str, &[TuningScore]) = match &label.kind {
            LabelKind::Several(_) => ("of several classes", &[TuningScore::Accuracy]),
            LabelKind::Number(_) => (
                "that is a number",
                &[TuningScore::AbsoluteError, TuningScore::SquaredError],
            ),
            LabelKind::Classes(_) => ("of two classes", &[TuningScore::Auc, TuningScore::Accuracy]),
        };
        let by = self.score.or(scores.first().copied());
        by.filter(|by| scores.contains(by)).ok_or_else(|| {
            let names: Vec<String> = scores.iter().map(ToString::to_string).collect();
            let problem = format!(
                "models of a label {kind} are scored by {}",
                names.join(" or ")
            );
            CliError::flag("--score", problem)
        })
    }

    /// How many records are held out of so many.
    pub(super) fn held(&self, records: u64) -> Result<u64, CliError> {
        let held = (self.holdout * records as f64).round() as u64;
        if held == 0 || held >= records {
            let problem = format!(
                "of {records} records {held} would be held out, and both parts need some: give another share or more records"
            );
            return Err(CliError::flag("--holdout", problem));
        }
        Ok(held)
    }

    /// Refuses what the label has not.
    pub(super) fn check(&self, label: &Label) -> Result<(), CliError> {
        self.by(label)?;
        evaluated::label_of(label, self.bins).map(|_| ())
    }

    /// Plans all of it for so many records, held out by this seed.
    pub(super) fn settle(
        &self,
        label: &Label,
        mut candidates: Vec<Candidate>,
        (records, seed): (u64, u64),
        total: Budget,
    ) -> Result<Settled, CliError> {
        let held = self.held(records)?;
        let fixed = Fixed {
            parts: Part::of_split(records, held, seed),
            sizes: [records - held, held],
            label: evaluated::label_of(label, self.bins)?,
            by: self.by(label)?,
            total,
        };
        let repeats = |candidates: usize| {
            let mean = self.repeats;
            let mean = mean.unwrap_or_else(|| (candidates as f64).clamp(FEWEST, MOST));
            (mean, self.law.shape())
        };
        let (searched, warnings) = fixed.search(&mut candidates, repeats)?;
        let repeats = repeats(candidates.len());
        let all = candidates.iter().zip(&searched.chosen);
        let told = TuningTold {
            candidates: all.map(|(of, chosen)| of.named(chosen.solver)).collect(),
            chosen: 0,
            score: fixed.by,
            law: self.law,
            mean_runs: repeats.0,
            epsilon_of_a_run: searched.epsilon,
        };
        Ok(Settled {
            candidates,
            fixed,
            searched,
            told,
            warnings,
            repeats,
        })
    }
}
