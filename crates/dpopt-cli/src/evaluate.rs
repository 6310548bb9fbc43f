//! How good a point is on records outside the protection.

use dpopt::certify::{MetricError, accuracy, auc, log_loss, majority_accuracy};
use dpopt::oracle::{Glm, PublicData};
use serde::Serialize;

/// Metrics on a test set that was declared public.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct TestMetrics {
    pub(crate) test_records: usize,
    /// Accuracy of always predicting the more common class of the test set.
    pub(crate) majority_accuracy: f64,
    pub(crate) test_accuracy: f64,
    /// None when the test set has one class only.
    pub(crate) test_auc: Option<f64>,
    /// Mean logistic loss; for the logistic model only.
    pub(crate) test_log_loss: Option<f64>,
}

/// Scores every test record.
///
/// # Errors
/// [`MetricError`] when the set is empty or a score is not a number.
pub(crate) fn evaluate(
    test: &PublicData,
    point: &[f64],
    loss: Glm,
) -> Result<TestMetrics, MetricError> {
    let scores = test.scores(point);
    let labels = test.labels();
    Ok(TestMetrics {
        test_records: scores.len(),
        majority_accuracy: majority_accuracy(labels)?,
        test_accuracy: accuracy(&scores, labels)?,
        test_auc: match auc(&scores, labels) {
            Err(MetricError::OneClass) => None,
            found => Some(found?),
        },
        test_log_loss: match loss {
            Glm::Logistic => Some(log_loss(&scores, labels)?),
            _ => None,
        },
    })
}
