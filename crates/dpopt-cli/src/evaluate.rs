//! How good a point is on records outside the protection.

use dpopt::certify::{MetricError, accuracy, auc, log_loss, majority_accuracy};
use dpopt::data::tabular::{Label, LabelRange};
use dpopt::oracle::{Glm, PublicData};
use serde::Serialize;

use crate::classes::{SeveralMetrics, several};
use crate::fit::Fit;
use crate::head::Head;

/// Metrics on a test set that was declared public.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum TestMetrics {
    /// Of a label of two values.
    Classes(ClassMetrics),
    /// Of a label of more.
    Several(SeveralMetrics),
    /// Of a label that is a number.
    Number(NumberMetrics),
}

/// How well classes are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ClassMetrics {
    pub(crate) test_records: usize,
    /// Accuracy of always predicting the more common class of the test set.
    pub(crate) majority_accuracy: f64,
    pub(crate) test_accuracy: f64,
    /// None when the test set has one class only.
    pub(crate) test_auc: Option<f64>,
    /// Mean logistic loss; for the logistic model only.
    pub(crate) test_log_loss: Option<f64>,
}

/// How well a number is predicted, in the unit of the label where a loss has one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct NumberMetrics {
    pub(crate) test_records: usize,
    /// Mean loss: in the unit of the label for losses that are linear in the residual, of the encoded label otherwise.
    pub(crate) test_loss: f64,
    /// Whether it is in the unit of the label.
    pub(crate) test_loss_in_label_units: bool,
    /// Mean Poisson deviance, along its tangent where the mean is beyond the largest count; for the loss of counts only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) test_deviance: Option<f64>,
    /// Mean of the absolute residuals, in the unit of the label.
    pub(crate) test_absolute_error: f64,
    /// Root of the mean of their squares, in the unit of the label.
    pub(crate) test_root_mean_square_error: f64,
    /// R^2: one less the mean of their squares over the variance of the labels of the test set; none where those are all the same.
    pub(crate) test_r2: Option<f64>,
    /// Share of the labels below their prediction, those equal to it counted half: for a pinball loss its quantile, at best.
    pub(crate) test_coverage: f64,
}

/// Scores every test record.
///
/// # Errors
/// [`MetricError`] when the set is empty or a score is not a number.
pub(crate) fn evaluate(
    test: &PublicData,
    point: &[f64],
    fit: &Fit,
    label: &Label,
) -> Result<TestMetrics, MetricError> {
    let phi = match (fit.head, label.several()) {
        (Head::Scalar(phi), _) => phi,
        (Head::Classes(_), Some(label)) => {
            return several(test, point, fit, label).map(TestMetrics::Several);
        }
        // A model of several classes is of such a label.
        (Head::Classes(_), None) => return Err(MetricError::OneClass),
    };
    let design = test.design();
    let scores: Vec<f64> = (0..design.rows())
        .map(|i| fit.score(design.row(i), point))
        .collect();
    match label.range() {
        Some(range) => numbers(&scores, test.labels(), phi, range).map(TestMetrics::Number),
        None => classes(&scores, test.labels(), phi).map(TestMetrics::Classes),
    }
}

fn classes(scores: &[f64], labels: &[f32], phi: Glm) -> Result<ClassMetrics, MetricError> {
    Ok(ClassMetrics {
        test_records: scores.len(),
        majority_accuracy: majority_accuracy(labels)?,
        test_accuracy: accuracy(scores, labels)?,
        test_auc: match auc(scores, labels) {
            Err(MetricError::OneClass) => None,
            found => Some(found?),
        },
        test_log_loss: match phi {
            Glm::Logistic => Some(log_loss(scores, labels)?),
            _ => None,
        },
    })
}

/// Whether k times as large residuals have k times the loss.
pub(crate) fn is_linear(loss: Glm) -> bool {
    matches!(loss, Glm::Absolute | Glm::Pinball(_))
}

fn numbers(
    scores: &[f64],
    labels: &[f32],
    loss: Glm,
    range: LabelRange,
) -> Result<NumberMetrics, MetricError> {
    if scores.is_empty() {
        return Err(MetricError::NoRecords);
    }
    if let Some(record) = scores.iter().position(|score| score.is_nan()) {
        return Err(MetricError::NotANumber { record });
    }
    let records = scores.len() as f64;
    let of_scores = |of: &dyn Fn(f64, f64) -> f64| {
        let pairs = scores.iter().zip(labels);
        pairs.map(|(z, y)| of(*z, f64::from(*y))).sum::<f64>() / records
    };
    let mean = |of: &dyn Fn(f64, f64) -> f64| of_scores(&|z, y| of(loss.predicted(z), y));
    let square = mean(&|z, y| (z - y).powi(2));
    let middle = mean(&|_, y| y);
    let variance = mean(&|_, y| (y - middle).powi(2));
    let unit = if is_linear(loss) { range.half() } else { 1.0 };
    let counts = matches!(loss, Glm::Poisson(_));
    Ok(NumberMetrics {
        test_records: scores.len(),
        test_loss: unit * of_scores(&|z, y| loss.value(z, y)),
        test_loss_in_label_units: is_linear(loss) || counts,
        test_deviance: counts.then(|| 2.0 * of_scores(&|z, y| loss.value(z, y))),
        test_absolute_error: range.half() * mean(&|z, y| (z - y).abs()),
        test_root_mean_square_error: range.half() * square.sqrt(),
        test_r2: (variance > 0.0).then(|| 1.0 - square / variance),
        test_coverage: mean(&|z, y| match y.total_cmp(&z) {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        }),
    })
}
