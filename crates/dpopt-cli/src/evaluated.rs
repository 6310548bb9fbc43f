//! A private evaluation: what it says, in numbers and in words.

use std::num::NonZeroUsize;

use dpopt::certify::{
    ClassesPlan, EvaluationError, EvaluationSettings, NumberPlan, PrivateEvaluation, TallyPlan,
};
use dpopt::data::tabular::{Label, LabelKind, Schema};
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
use crate::told::Told;

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
    /// Names of several classes, in the order of the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<String>,
    #[serde(flatten)]
    pub(crate) evaluation: Told,
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
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Scores of two classes, in so many bins.
    Scores(Option<usize>),
    /// So many classes.
    Classes(usize),
    /// A number on a range of this width.
    Number(f64),
}

impl Kind {
    fn of(label: &Label, bins: Option<usize>) -> Result<Self, CliError> {
        let kind = match &label.kind {
            LabelKind::Several(several) => Self::Classes(several.values.len()),
            LabelKind::Number(range) => Self::Number(2.0 * range.half()),
            _ => return Ok(Self::Scores(bins)),
        };
        if bins.is_none() {
            return Ok(kind);
        }
        let what = match kind {
            Self::Number(_) => "is a number, whose errors are added up".to_owned(),
            _ => format!("has {} values", label.values().len()),
        };
        let problem = format!(
            "bins are of the score of two classes, and the label {:?} {what}; leave it out",
            label.column
        );
        Err(CliError::flag("--bins", problem))
    }
}

/// A planned evaluation, before the model is known.
pub(crate) struct Planned {
    records: u64,
    adjacency: Adjacency,
    mu: Mu,
    kind: Kind,
    delta: Delta,
}

/// The plan for a model.
pub(crate) enum OfModel {
    /// Of two classes.
    Scores(PrivateEvaluation),
    /// Of several.
    Classes(ClassesPlan),
    /// Of a number.
    Number(NumberPlan),
}

impl OfModel {
    /// What it costs.
    pub(crate) fn tally(&self) -> &TallyPlan {
        match self {
            Self::Scores(plan) => &plan.tally,
            Self::Classes(plan) => &plan.tally,
            Self::Number(plan) => &plan.tally,
        }
    }
}

impl Planned {
    /// Of so many records, for `share` of the squared mu of the budget. Refuses what can't be made.
    pub(crate) fn new(
        (records, adjacency): (u64, Adjacency),
        (epsilon, delta): (Epsilon, Delta),
        share: f64,
        (label, bins): (&Label, Option<usize>),
    ) -> Result<Self, CliError> {
        // Rounded down by more than the accountant rounds up.
        let mu = gdp::mu_for(epsilon, delta)?.get() * share.sqrt() * (1.0 - 1e-9);
        let planned = Self {
            records,
            adjacency,
            mu: Mu::new(mu)?,
            kind: Kind::of(label, bins)?,
            delta,
        };
        // Of any model: only edges and caps depend on which.
        planned.plan(RANGE, None)?;
        Ok(planned)
    }

    /// How well it will tell the first of its numbers.
    pub(crate) fn foretold(&self) -> Result<String, CliError> {
        Ok(match self.plan(RANGE, Some(LARGEST_SCORE))? {
            OfModel::Scores(plan) => {
                format!("the accuracy to about +-{:.4}", plan.accuracy_half_width())
            }
            OfModel::Classes(plan) => {
                format!("the accuracy to about +-{:.4}", plan.accuracy_half_width())
            }
            OfModel::Number(plan) => format!(
                "the mean absolute error to about +-{:.4}",
                plan.error_half_width()
            ),
        })
    }

    fn plan(&self, range: f64, loss_cap: Option<f64>) -> Result<OfModel, CliError> {
        let of = (self.records, self.adjacency);
        let plan = match self.kind {
            Kind::Scores(bins) => {
                let settings = EvaluationSettings {
                    bins,
                    range,
                    loss_cap,
                    failure: FAILURE,
                };
                PrivateEvaluation::new(self.records, self.adjacency, self.mu, &settings)
                    .map(OfModel::Scores)
            }
            Kind::Classes(classes) => {
                ClassesPlan::new(of, self.mu, classes, (loss_cap, FAILURE)).map(OfModel::Classes)
            }
            Kind::Number(width) => {
                NumberPlan::new(of, self.mu, width, FAILURE).map(OfModel::Number)
            }
        };
        plan.map_err(CliError::from)
    }

    /// For a released point.
    pub(crate) fn of_model(
        &self,
        fit: &Fit,
        point: &[f64],
        row_norm: f64,
    ) -> Result<OfModel, CliError> {
        // No score of a linear model is larger.
        let hidden = fit.network.is_some() || fit.perceptron.is_some();
        let largest = match (hidden, fit.link) {
            (false, None) => norm(point) * row_norm,
            _ => f64::INFINITY,
        };
        let worst = |score: f64| Glm::Logistic.value(-score.min(LARGEST_SCORE), 1.0);
        let cap = match self.kind {
            // ln(1 + (K - 1) e^g) with g = sqrt(2) |W| |x|, no less than any difference of two outputs.
            Kind::Classes(classes) => {
                let others = (classes.max(2) as f64 - 1.0).ln();
                Some(worst(std::f64::consts::SQRT_2 * largest + others))
            }
            Kind::Scores(_) => fit.name().is_logistic_score().then(|| worst(largest)),
            Kind::Number(_) => None,
        };
        self.plan(largest.clamp(0.1, RANGE), cap)
    }

    /// Releases it from what this curator has reserved for it. What was released is there also where the ledger could not be settled,
    /// which is the last result.
    pub(crate) fn release(
        &self,
        plan: &OfModel,
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
        let score = |row: Row<'_>| fit.score(row, point);
        let outputs = |row: Row<'_>| fit.outputs(row, point).unwrap_or_default();
        let (told, mut curator) = match plan {
            OfModel::Scores(plan) => {
                let (counts, curator) = plan.release(data, score, curator, threads)?;
                (Told::Scores(Box::new(counts.evaluation())), curator)
            }
            OfModel::Classes(plan) => {
                let (counts, curator) = plan.release(data, outputs, curator, threads)?;
                (Told::Classes(counts.evaluation()), curator)
            }
            OfModel::Number(plan) => {
                let (sums, curator) = plan.release(data, score, curator, threads)?;
                (Told::Number(sums.evaluation()), curator)
            }
        };
        Ok(Released {
            told,
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
        let several = schema.label().several();
        Self {
            held_out,
            classes: several.map_or_else(Vec::new, |several| several.values.clone()),
            evaluation: told,
            privacy,
            event: Some(event.clone()),
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
            "Of {of}, with noise. Each number is in its interval with {confidence} % probability over the noise, whatever the records are; {}.",
            self.evaluation.covers()
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
