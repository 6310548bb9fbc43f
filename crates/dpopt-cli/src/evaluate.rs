//! How good a point is on records outside the protection.

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

/// Scores every test record; the set must not be empty.
pub(crate) fn evaluate(test: &PublicData, point: &[f64], loss: Glm) -> TestMetrics {
    let scores = test.scores(point);
    let positive: Vec<bool> = test.labels().iter().map(|&y| y > 0.0).collect();
    let n = scores.len() as f64;
    let positives = positive.iter().filter(|&&p| p).count() as f64;
    let right = scores
        .iter()
        .zip(&positive)
        .filter(|&(&score, &label)| (score > 0.0) == label)
        .count() as f64;
    let log_loss = || {
        let total: f64 = scores
            .iter()
            .zip(test.labels())
            .map(|(&score, &label)| Glm::Logistic.value(score, f64::from(label)))
            .sum();
        total / n
    };
    TestMetrics {
        test_records: scores.len(),
        majority_accuracy: positives.max(n - positives) / n,
        test_accuracy: right / n,
        test_auc: auc(&scores, &positive),
        test_log_loss: (loss == Glm::Logistic).then(log_loss),
    }
}

/// Area under the ROC curve: the chance that a random positive scores above a random negative,
/// ties counting a half.
pub(crate) fn auc(scores: &[f64], positive: &[bool]) -> Option<f64> {
    let positives = positive.iter().filter(|&&p| p).count() as f64;
    let negatives = positive.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let mut rank_sum = 0.0;
    let mut at = 0;
    while at < order.len() {
        let value = scores[order[at]];
        let ties = order[at..]
            .iter()
            .take_while(|&&i| scores[i] == value)
            .count()
            .max(1);
        // Ranks from 1; tied ones share their mean.
        let rank = at as f64 + (ties as f64 + 1.0) / 2.0;
        let here = order[at..at + ties]
            .iter()
            .filter(|&&i| positive[i])
            .count();
        rank_sum += rank * here as f64;
        at += ties;
    }
    Some((rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auc_counts_ordered_pairs_and_half_the_ties() {
        let scores = [0.1, 0.4, 0.4, 0.8, -1.0, 0.0, -0.0];
        let labels = [false, true, false, true, false, true, false];
        let mut wins = 0.0;
        let mut pairs = 0.0;
        for (i, &p) in labels.iter().enumerate() {
            for (j, &q) in labels.iter().enumerate() {
                if p && !q {
                    pairs += 1.0;
                    if scores[i] > scores[j] {
                        wins += 1.0;
                    } else if scores[i] == scores[j] {
                        wins += 0.5;
                    }
                }
            }
        }
        let found = auc(&scores, &labels).unwrap();
        assert!((found - wins / pairs).abs() < 1e-15, "{found}");
        assert_eq!(auc(&[1.0, 2.0], &[true, true]), None);
        assert_eq!(auc(&[1.0, 2.0], &[false, true]), Some(1.0));
    }
}
