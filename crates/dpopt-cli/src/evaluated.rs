//! A private evaluation: what it says, in numbers and in words.

use std::fmt::Write as _;

use dpopt::certify::{
    Evaluation, EvaluationCounts, EvaluationError, EvaluationSettings, Measured, PrivateEvaluation,
};
use dpopt::data::tabular::{Label, Schema};
use dpopt::linalg::{Row, norm};
use dpopt::nonconvex::Stop;
use dpopt::oracle::{Glm, PrivateData};
use dpopt::privacy::{
    Adjacency, Curator, Delta, Epsilon, Event, Guarantee, Mu, Refused, accounting::gdp,
};
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::fit::Fit;
use crate::statement::Statement;

/// An interval misses with at most this probability.
pub(crate) const FAILURE: f64 = 0.05;
/// Scores beyond this are in the outermost bins: a probability of 0.9975.
const RANGE: f64 = 6.0;
/// The log loss of a probability of 0.0003 is the largest that is told apart.
const LARGEST_SCORE: f64 = 8.0;

/// An evaluation with what it cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Evaluated {
    /// Of the records that were held out, where they were drawn from a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_out: Option<HeldOutRecords>,
    #[serde(flatten)]
    pub(crate) evaluation: Evaluation,
    /// Of the evaluation alone.
    pub(crate) privacy: Statement,
    /// What was released, for a second accountant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<Event>,
}

/// Which records were held out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldOutRecords {
    pub(crate) records: u64,
    /// Of the draw of their positions: public.
    pub(crate) seed: u64,
}

/// A planned evaluation, before the model is known.
pub(crate) struct Planned {
    records: u64,
    adjacency: Adjacency,
    mu: Mu,
    bins: Option<usize>,
    delta: Delta,
}

impl Planned {
    /// Of so many records, for `share` of the squared mu of the budget. Refuses what can't be made.
    pub(crate) fn new(
        (records, adjacency): (u64, Adjacency),
        (epsilon, delta): (Epsilon, Delta),
        share: f64,
        bins: Option<usize>,
    ) -> Result<Self, CliError> {
        // Rounded down by more than the accountant rounds up.
        let mu = gdp::mu_for(epsilon, delta)?.get() * share.sqrt() * (1.0 - 1e-9);
        let planned = Self {
            records,
            adjacency,
            mu: Mu::new(mu)?,
            bins,
            delta,
        };
        // Of any model: only the edges depend on which.
        planned.plan(RANGE, None)?;
        Ok(planned)
    }

    /// Half of the width of the interval of the accuracy.
    pub(crate) fn accuracy_half_width(&self) -> Result<f64, CliError> {
        Ok(self.plan(RANGE, Some(LARGEST_SCORE))?.accuracy_half_width())
    }

    fn plan(&self, range: f64, loss_cap: Option<f64>) -> Result<PrivateEvaluation, CliError> {
        let of = EvaluationSettings {
            bins: self.bins,
            range,
            loss_cap,
            failure: FAILURE,
        };
        PrivateEvaluation::new(self.records, self.adjacency, self.mu, &of).map_err(CliError::from)
    }

    /// For a released point.
    pub(crate) fn of_model(
        &self,
        fit: &Fit,
        point: &[f64],
        row_norm: f64,
    ) -> Result<PrivateEvaluation, CliError> {
        // No score of a linear model is larger.
        let largest = match (fit.network, fit.link) {
            (None, None) => norm(point) * row_norm,
            _ => f64::INFINITY,
        };
        let cap = fit
            .name()
            .is_logistic_score()
            .then(|| Glm::Logistic.value(-largest.min(LARGEST_SCORE), 1.0));
        self.plan(largest.clamp(0.1, RANGE), cap)
    }

    /// Releases it from what this curator has reserved for it. What was released is there also where the ledger could not be settled,
    /// which is the last result.
    pub(crate) fn release(
        &self,
        plan: &PrivateEvaluation,
        data: &PrivateData,
        (fit, point): (&Fit, &[f64]),
        mut curator: Curator,
    ) -> Result<Released, CliError> {
        curator
            .reserve(&plan.spend())
            .map_err(|refused| CliError::from_run(refused.into()))?;
        let guarantee = curator.guarantee(self.delta)?;
        let threads = std::thread::available_parallelism();
        let threads = threads.unwrap_or(std::num::NonZeroUsize::MIN);
        let score = |row: Row<'_>| fit.score(row, point);
        let (counts, mut curator) = plan.release(data, score, curator, threads)?;
        Ok(Released {
            counts,
            guarantee,
            settled: curator.settle(),
        })
    }
}

/// What was released, and whether the ledger heard that it was all.
pub(crate) struct Released {
    pub(crate) counts: EvaluationCounts,
    pub(crate) guarantee: Guarantee,
    pub(crate) settled: Result<Event, Refused>,
}

impl Evaluated {
    pub(crate) fn new(
        counts: &EvaluationCounts,
        guarantee: &Guarantee,
        schema: &Schema,
        (records, held_out): (u64, Option<HeldOutRecords>),
    ) -> Self {
        let event = guarantee.event();
        let draft = schema.is_draft();
        let privacy = Statement::new(
            guarantee,
            records,
            Stop::Completed,
            Some(event),
            None,
            draft,
        );
        Self {
            held_out,
            evaluation: counts.evaluation(),
            privacy,
            event: Some(event.clone()),
        }
    }

    /// What the rows of a table say: a name, and a number with its interval.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let found = &self.evaluation;
        let mut rows = vec![
            ("accuracy", part(&found.accuracy)),
            ("share of positives", part(&found.positives)),
            ("area under the ROC curve", part(&found.auc)),
        ];
        rows.extend(found.log_loss.as_ref().map(|loss| ("log loss", part(loss))));
        let table = &found.confusion;
        rows.extend([
            ("precision", part(&found.precision)),
            ("true positives", whole(&table.true_positives)),
            ("false positives", whole(&table.false_positives)),
            ("true negatives", whole(&table.true_negatives)),
            ("false negatives", whole(&table.false_negatives)),
        ]);
        if let Some(of) = &found.population {
            rows.push(("accuracy in the population", part(&of.accuracy)));
            rows.push(("area in the population", part(&of.auc)));
            rows.extend(
                of.log_loss
                    .as_ref()
                    .map(|loss| ("log loss in the population", part(loss))),
            );
        }
        let rows = rows.into_iter();
        rows.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Lines of the ROC curve: threshold, false and true positive rate.
    pub(crate) fn roc(&self) -> Vec<Vec<String>> {
        let points = self.evaluation.roc.iter();
        points
            .map(|point| {
                vec![
                    format!("{:.3}", point.threshold),
                    part(&point.false_positive_rate),
                    part(&point.true_positive_rate),
                ]
            })
            .collect()
    }

    /// Lines of the calibration table: predicted probabilities, records, share of positives.
    pub(crate) fn calibration(&self) -> Vec<Vec<String>> {
        let probability = |score: f64| 1.0 / (1.0 + (-score).exp());
        let bins = self.evaluation.calibration.iter();
        bins.map(|bin| {
            vec![
                format!(
                    "{:.3} to {:.3}",
                    bin.above.map_or(0.0, probability),
                    bin.up_to.map_or(1.0, probability)
                ),
                format!("{:.0}", bin.records),
                part(&bin.positives),
            ]
        })
        .collect()
    }

    /// What it is of, and what its intervals are.
    pub(crate) fn of(&self) -> String {
        let confidence = 100.0 * (1.0 - self.evaluation.failure);
        let of = match (&self.held_out, self.evaluation.records) {
            (Some(held), _) => format!(
                "{} records that were drawn by seed {} and not trained on",
                held.records, held.seed
            ),
            (None, Some(records)) => format!("{records} records"),
            (None, None) => "records whose number is protected".to_owned(),
        };
        let cap = self.evaluation.loss_cap.map_or(String::new(), |cap| {
            format!("; log losses are capped at {cap:.2}")
        });
        format!(
            "Of {of}, with noise. Each number is in its interval with {confidence} % probability over the noise, whatever the records are; \
             the four counts hold together{cap}."
        )
    }

    /// What it means that another part was trained on.
    pub(crate) fn beside_the_run(&self) -> Option<String> {
        self.held_out.map(|held| {
            format!(
                "The {} records that were held out were not trained on: each record is in one of the two parts, so training and \
                 evaluation together cost the larger of both, and not the sum.",
                held.records
            )
        })
    }

    /// In lines for the terminal, the first of them short.
    pub(crate) fn lines(&self) -> String {
        let found = &self.evaluation;
        let mut text = format!("Evaluation accuracy {}", part(&found.accuracy));
        // Writing to a `String` can't fail.
        let _ = writeln!(text, ", AUC {}", part(&found.auc));
        if let Some(loss) = &found.log_loss {
            let _ = writeln!(text, "           log loss {}", part(loss));
        }
        let table = &found.confusion;
        let _ = writeln!(
            text,
            "           called positive: {} rightly, {} wrongly;\n           negative: {} rightly, {} wrongly",
            whole(&table.true_positives),
            whole(&table.false_positives),
            whole(&table.true_negatives),
            whole(&table.false_negatives)
        );
        if let Some(of) = &found.population {
            let _ = writeln!(
                text,
                "           of the population, if records are independent draws:\n           accuracy {}, AUC {}",
                part(&of.accuracy),
                part(&of.auc)
            );
        }
        text
    }
}

/// 0.8512 (0.8401 to 0.8623).
fn part(of: &Measured) -> String {
    format!(
        "{:.4} ({:.4} to {:.4})",
        of.estimate,
        down(of.low),
        up(of.high)
    )
}

fn whole(of: &Measured) -> String {
    format!(
        "{:.0} ({:.0} to {:.0})",
        of.estimate,
        of.low.floor(),
        of.high.ceil()
    )
}

/// To four decimals, outwards.
fn down(value: f64) -> f64 {
    (value * 1e4).floor() / 1e4
}

fn up(value: f64) -> f64 {
    (value * 1e4).ceil() / 1e4
}

/// Refuses labels that are numbers.
pub(crate) fn check_label(label: &Label, flag: &'static str) -> Result<(), CliError> {
    if label.classes().is_some() {
        return Ok(());
    }
    let kind = match label.several() {
        Some(several) => format!("has {} values", several.values.len()),
        None => "is a number".to_owned(),
    };
    let problem = format!(
        "an evaluation counts records of two classes, and the label {:?} {kind}; declare a part of the records public and give it \
         as a --test of `dpopt train`",
        label.column
    );
    Err(CliError::flag(flag, problem))
}

impl From<EvaluationError> for CliError {
    fn from(error: EvaluationError) -> Self {
        match error {
            EvaluationError::Bins(error) => Self::flag("--bins", error.to_string()),
            EvaluationError::Adjacency(_) => Self::flag("--adjacency", error.to_string()),
            EvaluationError::Unit(error) => error.into(),
            EvaluationError::Data(error) => error.into(),
            EvaluationError::Ask(dpopt::oracle::AskError::Refused(refused)) => {
                Self::from_run(refused.into())
            }
            other => Self::flag("--evaluate", other.to_string()),
        }
    }
}
