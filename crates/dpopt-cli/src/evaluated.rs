//! A private evaluation: what it says, in numbers and in words.

use std::num::NonZeroUsize;

use dpopt::certify::{EvaluatedLabel, EvaluationError, EvaluationOfModel, ModelEvaluation};
use dpopt::data::tabular::{Label, LabelKind, Schema};
use dpopt::nonconvex::Stop;
use dpopt::oracle::PrivateData;
use dpopt::privacy::{
    Accountant, Adjacency, Curator, Delta, Epsilon, Event, Guarantee, Mu, Refused, accounting::gdp,
};
use serde::{Deserialize, Serialize};

use crate::beside::Beside;
use crate::error::CliError;
use crate::fit::Fit;
use crate::statement::{Protected, Statement, rounded_up};
use crate::told::{Told, of_evaluation};

/// An interval misses with at most this probability.
pub(crate) const FAILURE: f64 = 0.05;

/// An evaluation with what it cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Evaluated {
    /// Of the records that were held out, where they were drawn from a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_out: Option<HeldOutRecords>,
    /// Names of several classes, in the order of the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<String>,
    #[serde(flatten)]
    pub(crate) evaluation: Told,
    /// Its figures beside those of constants. They follow from it, so a file's are not read.
    #[serde(skip_deserializing)]
    pub(crate) constants: Vec<Beside>,
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

/// What is evaluated, by the label.
pub(crate) fn label_of(label: &Label, bins: Option<usize>) -> Result<EvaluatedLabel, CliError> {
    let kind = match &label.kind {
        LabelKind::Several(several) => EvaluatedLabel::Several(several.values.len()),
        LabelKind::Number(range) => EvaluatedLabel::Number(2.0 * range.half()),
        LabelKind::Classes(_) => return Ok(EvaluatedLabel::Two(bins)),
    };
    if bins.is_none() {
        return Ok(kind);
    }
    let what = match kind {
        EvaluatedLabel::Number(_) => "is a number, whose errors are added up".to_owned(),
        _ => format!("has {} values", label.values().len()),
    };
    let problem = format!(
        "bins are of the score of two classes, and the label {:?} {what}; leave it out",
        label.column
    );
    Err(CliError::flag("--bins", problem))
}

/// How well an evaluation will tell the first of its numbers.
pub(crate) fn foretold(of: &ModelEvaluation) -> Result<String, CliError> {
    Ok(match of.typical()? {
        EvaluationOfModel::Scores(plan) => {
            format!("the accuracy to about +-{:.4}", plan.accuracy_half_width())
        }
        EvaluationOfModel::Classes(plan) => {
            format!("the accuracy to about +-{:.4}", plan.accuracy_half_width())
        }
        EvaluationOfModel::Number(plan) => format!(
            "the mean absolute error to about +-{:.4}",
            plan.error_half_width()
        ),
    })
}

/// A planned evaluation, before the model is known.
pub(crate) struct Planned {
    evaluation: ModelEvaluation,
    delta: Delta,
}

impl Planned {
    /// Of so many records, for `share` of the squared mu of the budget. Refuses what can't be made.
    pub(crate) fn new(
        of: (u64, Adjacency),
        (epsilon, delta): (Epsilon, Delta),
        share: f64,
        (label, bins): (&Label, Option<usize>),
    ) -> Result<Self, CliError> {
        // Rounded down by more than the accountant rounds up.
        let mu = gdp::mu_for(epsilon, delta)?.get() * share.sqrt() * (1.0 - 1e-9);
        let label = label_of(label, bins)?;
        let evaluation = ModelEvaluation::new(of, Mu::new(mu)?, label, FAILURE)?;
        Ok(Self { evaluation, delta })
    }

    /// How well it will tell the first of its numbers.
    pub(crate) fn foretold(&self) -> Result<String, CliError> {
        foretold(&self.evaluation)
    }

    /// For a released point.
    pub(crate) fn of_model(
        &self,
        fit: &Fit,
        point: &[f64],
        row_norm: f64,
    ) -> Result<EvaluationOfModel, CliError> {
        let plan = self
            .evaluation
            .of_point(&fit.fitted(point.len())?, point, row_norm);
        plan.map_err(CliError::from)
    }

    /// Releases it from what this curator has reserved for it. What was released is there also where the ledger could not be settled,
    /// which is the last result.
    pub(crate) fn release(
        &self,
        plan: &EvaluationOfModel,
        data: &PrivateData,
        (fit, point): (&Fit, &[f64]),
        (mut curator, threads): (Curator, Option<NonZeroUsize>),
    ) -> Result<Released, CliError> {
        curator
            .reserve(&plan.tally().spend())
            .map_err(|refused| CliError::from_run(refused.into()))?;
        let guarantee = curator.guarantee(self.delta)?;
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = threads.unwrap_or_else(all);
        let fitted = fit.fitted(point.len())?;
        let (told, mut curator) = plan.release(data, (&fitted, point), curator, threads)?;
        Ok(Released {
            told: told.into(),
            guarantee,
            settled: curator.settle(),
        })
    }
}

/// What was released, and whether the ledger heard that it was all.
pub(crate) struct Released {
    pub(crate) told: Told,
    pub(crate) guarantee: Guarantee,
    pub(crate) settled: Result<Event, Refused>,
}

impl Evaluated {
    pub(crate) fn new(
        told: Told,
        guarantee: &Guarantee,
        (schema, draft): (&Schema, bool),
        (records, held_out): (u64, Option<HeldOutRecords>),
        plain: bool,
    ) -> Self {
        let event = guarantee.event();
        let protected = match held_out {
            Some(_) => Protected::HeldOut,
            None => Protected::Evaluated,
        };
        let privacy = Statement::new(
            guarantee,
            (protected, records),
            Stop::Completed,
            Some(event),
            None,
            draft,
        );
        let several = schema.label().several();
        Self {
            held_out,
            classes: several.map_or_else(Vec::new, |several| several.values.clone()),
            constants: of_evaluation(&told, plain),
            evaluation: told,
            privacy,
            event: Some(event.clone()),
        }
    }

    /// Of the best of several runs, whose statement it shares: an interval of it misses with at most `failure`.
    pub(crate) fn of_best(
        told: Told,
        (statement, schema): (&Statement, &Schema),
        held_out: HeldOutRecords,
        failure: f64,
        plain: bool,
    ) -> Self {
        let several = schema.label().several();
        Self {
            held_out: Some(held_out),
            classes: several.map_or_else(Vec::new, |several| several.values.clone()),
            constants: of_evaluation(&told, plain),
            evaluation: told.missing(failure),
            privacy: statement.clone(),
            event: None,
        }
    }

    /// What it is of, and what its intervals are.
    pub(crate) fn of(&self) -> String {
        let confidence = 100.0 * (1.0 - self.evaluation.failure());
        let of = match (&self.held_out, self.evaluation.records()) {
            (Some(held), _) => format!(
                "{} records that were drawn by seed {} and not trained on",
                held.records, held.seed
            ),
            (None, Some(records)) => format!("{records} records"),
            (None, None) => "records whose number is protected".to_owned(),
        };
        format!(
            "Of {of}, with noise. Each number is in its interval with {confidence} % probability over the noise, whatever the records are; {}.{}",
            self.evaluation.covers(),
            self.enough()
        )
    }

    /// What would be enough where an estimate is missing: from the budget, the public number of records and what was released.
    fn enough(&self) -> String {
        if !self.evaluation.is_undetermined() {
            return String::new();
        }
        let mut ways = Vec::new();
        if let Some(factor) = self.evaluation.noise_too_large_by() {
            let records = self.privacy.records;
            let held = self.held_out.map_or(records, |held| held.records);
            ways.push(format!("{:.0} such records", factor * held as f64));
            ways.extend(
                self.epsilon_for(factor)
                    .map(|epsilon| format!("an epsilon of {} on as many", rounded_up(epsilon))),
            );
        }
        match ways.is_empty() {
            true => " What is not determined is hidden by the noise, and the released counts do not say how many records it takes."
                .to_owned(),
            false => format!(
                " To determine all of it takes at least about {}, by the released counts.",
                ways.join(", or ")
            ),
        }
    }

    /// Of an evaluation with so many times less noise, where it has a cost of its own.
    fn epsilon_for(&self, factor: f64) -> Option<f64> {
        let Statement {
            epsilon,
            delta,
            accountant,
            ..
        } = self.privacy;
        let gaussian = accountant == Accountant::Gdp;
        let mu = gdp::mu_for(Epsilon::new(epsilon).ok().filter(|_| gaussian)?, delta).ok()?;
        Some(gdp::epsilon(Mu::new(factor * mu.get()).ok()?, delta))
    }

    /// Whether it is a release of its own on records that were not trained on; the evaluation of the best of several runs is a part of their
    /// selection.
    pub(crate) fn is_beside_the_run(&self) -> bool {
        self.held_out.is_some() && self.event.is_some()
    }

    /// The warning where the release shows that a constant is better.
    pub(crate) fn warning(&self) -> Option<String> {
        let failure = 100.0 * (1.0 - 2.0 * self.evaluation.failure());
        let records =
            format!("the private evaluation (with {failure} % probability, as its intervals hold)");
        Beside::warning(&self.constants, &records)
    }

    /// What it means that another part was trained on.
    pub(crate) fn beside_the_run(&self) -> Option<String> {
        self.held_out.filter(|_| self.is_beside_the_run()).map(|held| {
            format!(
                "The {} records that were held out were not trained on: each record is in one of the two parts, so training and \
                 evaluation together cost the larger of both, and not the sum.",
                held.records
            )
        })
    }
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
