//! The evaluation of a model whose point is known late: what it costs is fixed before, its bins and caps follow the point.

use std::num::NonZeroUsize;

use dpopt_linalg::{Row, norm};
use dpopt_oracle::{Glm, Head, Mlp, Network, PrivateData, QuadraticLink, Softmax};
use dpopt_privacy::{Adjacency, Curator, Mu};

use super::plan::{EvaluationSettings, PrivateEvaluation};
use super::release::{EvaluationError, TallyPlan};
use super::{ClassesEvaluation, ClassesPlan, Evaluation, NumberEvaluation, NumberPlan};

/// Scores beyond this are in the outermost bins: a probability of 0.9975.
const RANGE: f64 = 6.0;
/// The log loss of a probability of 0.0003 is the largest that is told apart.
const LARGEST_SCORE: f64 = 8.0;

/// The fitted model.
#[derive(Debug, Clone, PartialEq)]
pub enum FittedModel {
    /// A loss of one inner product.
    Linear(Glm),
    /// The same of the output of a network.
    Network(Network),
    /// The same of a quadratic link.
    Link(QuadraticLink),
    /// Several classes, linear in the row.
    Classes(Softmax),
    /// A perceptron whose weights are all trained, with one output or one for each class.
    Perceptron(Mlp),
}

impl FittedModel {
    /// The output for a row, of models with one.
    #[must_use]
    pub fn score(&self, row: Row<'_>, point: &[f64]) -> f64 {
        match self {
            Self::Network(network) => network.output(row, point),
            Self::Link(link) => link.square(row, point) - link.threshold(),
            Self::Perceptron(mlp) => mlp
                .outputs_of(row, point)
                .first()
                .copied()
                .unwrap_or(f64::NAN),
            Self::Linear(_) | Self::Classes(_) => row.dot(point),
        }
    }

    /// The encoded label that it predicts for a row, of models of a number.
    #[must_use]
    pub fn predicted(&self, row: Row<'_>, point: &[f64]) -> f64 {
        let score = self.score(row, point);
        match self {
            Self::Linear(phi) => phi.predicted(score),
            Self::Network(network) => network.head().predicted(score),
            Self::Link(link) => link.phi().predicted(score),
            Self::Perceptron(mlp) => match mlp.head() {
                Head::Scalar(phi) => phi.predicted(score),
                _ => score,
            },
            Self::Classes(_) => score,
        }
    }

    /// The outputs for a row, of models with several.
    #[must_use]
    pub fn outputs(&self, row: Row<'_>, point: &[f64]) -> Option<Vec<f64>> {
        match self {
            Self::Classes(classes) => Some(classes.outputs(row, point)),
            Self::Perceptron(mlp) => Some(mlp.outputs_of(row, point)),
            _ => None,
        }
    }

    /// Weights for rows of so many features; none where it can't be fitted to them.
    #[must_use]
    pub fn weights(&self, features: usize) -> Option<usize> {
        let each = match self {
            Self::Linear(_) => 1,
            Self::Network(network) => network.units(),
            Self::Link(link) => link.rank(),
            Self::Classes(classes) => classes.classes(),
            Self::Perceptron(mlp) => {
                let fits = mlp.sizes().first() == Some(&features);
                return fits.then(|| mlp.parameters());
            }
        };
        features.checked_mul(each)
    }

    /// Whether the score is a logit of the label.
    #[must_use]
    pub fn is_logistic_score(&self) -> bool {
        match self {
            Self::Linear(phi) => *phi == Glm::Logistic,
            Self::Network(network) => network.head() == Glm::Logistic,
            Self::Perceptron(mlp) => mlp.head() == Head::Scalar(Glm::Logistic),
            Self::Link(_) | Self::Classes(_) => false,
        }
    }

    fn is_linear(&self) -> bool {
        matches!(self, Self::Linear(_) | Self::Classes(_))
    }
}

/// Kind of evaluation, by the label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EvaluatedLabel {
    /// Two classes, whose scores are counted in so many bins; none: the plan chooses.
    Two(Option<usize>),
    /// So many classes.
    Several(usize),
    /// A number on a range of this width.
    Number(f64),
}

/// An evaluation that spends `mu`, before the model is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelEvaluation {
    records: u64,
    adjacency: Adjacency,
    mu: Mu,
    label: EvaluatedLabel,
    failure: f64,
}

/// The plan for a model.
#[derive(Debug, Clone, Copy)]
pub enum EvaluationOfModel {
    /// Two classes.
    Scores(PrivateEvaluation),
    /// Several classes.
    Classes(ClassesPlan),
    /// A number.
    Number(NumberPlan),
}

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub enum EvaluatedModel {
    /// Scores of two classes.
    Scores(Box<Evaluation>),
    /// Several classes.
    Classes(ClassesEvaluation),
    /// A number.
    Number(NumberEvaluation),
}

impl EvaluationOfModel {
    /// Its cost.
    #[must_use]
    pub fn tally(&self) -> &TallyPlan {
        match self {
            Self::Scores(plan) => &plan.tally,
            Self::Classes(plan) => &plan.tally,
            Self::Number(plan) => &plan.tally,
        }
    }
}

impl ModelEvaluation {
    /// A plan for so many records. Each interval misses with at most the probability `failure`.
    ///
    /// # Errors
    /// [`EvaluationError`] for what can't be made of any model.
    pub fn new(
        (records, adjacency): (u64, Adjacency),
        mu: Mu,
        label: EvaluatedLabel,
        failure: f64,
    ) -> Result<Self, EvaluationError> {
        let planned = Self {
            records,
            adjacency,
            mu,
            label,
            failure,
        };
        planned.typical()?;
        Ok(planned)
    }

    /// How many records it is of.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// For a model of typical scores: what it costs is that of any.
    ///
    /// # Errors
    /// None that [`ModelEvaluation::new`] had not.
    pub fn typical(&self) -> Result<EvaluationOfModel, EvaluationError> {
        self.plan(RANGE, Some(LARGEST_SCORE))
    }

    fn plan(
        &self,
        range: f64,
        loss_cap: Option<f64>,
    ) -> Result<EvaluationOfModel, EvaluationError> {
        let of = (self.records, self.adjacency);
        let failure = self.failure;
        match self.label {
            EvaluatedLabel::Two(bins) => {
                let settings = EvaluationSettings {
                    bins,
                    range,
                    loss_cap,
                    failure,
                };
                PrivateEvaluation::new(self.records, self.adjacency, self.mu, &settings)
                    .map(EvaluationOfModel::Scores)
            }
            EvaluatedLabel::Several(classes) => {
                ClassesPlan::new(of, self.mu, classes, (loss_cap, failure))
                    .map(EvaluationOfModel::Classes)
            }
            EvaluatedLabel::Number(width) => {
                NumberPlan::new(of, self.mu, width, failure).map(EvaluationOfModel::Number)
            }
        }
    }

    /// For a released point, of rows that are no longer than that.
    ///
    /// # Errors
    /// As [`ModelEvaluation::new`].
    pub fn of_point(
        &self,
        model: &FittedModel,
        point: &[f64],
        row_norm: f64,
    ) -> Result<EvaluationOfModel, EvaluationError> {
        // No score of a linear model is larger.
        let largest = match model.is_linear() {
            true => norm(point) * row_norm,
            false => f64::INFINITY,
        };
        let worst = |score: f64| Glm::Logistic.value(-score.min(LARGEST_SCORE), 1.0);
        let cap = match self.label {
            // ln(1 + (K - 1) e^g) with g = sqrt(2) |W| |x|, no less than any difference of two outputs.
            EvaluatedLabel::Several(classes) => {
                let others = (classes.max(2) as f64 - 1.0).ln();
                Some(worst(std::f64::consts::SQRT_2 * largest + others))
            }
            EvaluatedLabel::Two(_) => model.is_logistic_score().then(|| worst(largest)),
            EvaluatedLabel::Number(_) => None,
        };
        self.plan(largest.clamp(0.1, RANGE), cap)
    }
}

impl EvaluationOfModel {
    /// Releases it, from what the curator has reserved: [`TallyPlan::spend`] of [`EvaluationOfModel::tally`].
    ///
    /// # Errors
    /// As [`PrivateEvaluation::release`].
    pub fn release(
        &self,
        data: &PrivateData,
        (model, point): (&FittedModel, &[f64]),
        curator: Curator,
        threads: NonZeroUsize,
    ) -> Result<(EvaluatedModel, Curator), EvaluationError> {
        let score = |row: Row<'_>| model.score(row, point);
        let outputs = |row: Row<'_>| model.outputs(row, point).unwrap_or_default();
        Ok(match self {
            Self::Scores(plan) => {
                let (counts, curator) = plan.release(data, score, curator, threads)?;
                let told = Box::new(counts.evaluation());
                (EvaluatedModel::Scores(told), curator)
            }
            Self::Classes(plan) => {
                let (counts, curator) = plan.release(data, outputs, curator, threads)?;
                (EvaluatedModel::Classes(counts.evaluation()), curator)
            }
            Self::Number(plan) => {
                let predicted = |row: Row<'_>| model.predicted(row, point);
                let (sums, curator) = plan.release(data, predicted, curator, threads)?;
                (EvaluatedModel::Number(sums.evaluation()), curator)
            }
        })
    }
}
