//! How good the scores of a two-class classifier are, on public data.
//!
//! A label above zero is the positive class, any other finite label the negative one, as in the
//! losses. None of these numbers is private: use them on public data only.

/// A metric is undefined for these inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// Scores and labels differ in number.
    #[error("{scores} scores but {labels} labels")]
    LabelCount {
        /// Scores.
        scores: usize,
        /// Labels.
        labels: usize,
    },
    /// There are no records.
    #[error("no records")]
    NoRecords,
    /// A score or label is not a number.
    #[error("the score or label of record {record} is not a number")]
    NotANumber {
        /// Position of the record.
        record: usize,
    },
    /// All labels are of one class, where both are needed.
    #[error("all labels are of one class")]
    OneClass,
}

/// Area under the ROC curve: the probability that a random positive record scores above a random
/// negative one, ties counting one half.
///
/// # Formula
/// (sum of the mid-ranks of the positives - P(P+1)/2)/(P N) (Mann-Whitney).
///
/// # Shapes
/// One label per score. Infinite scores are ordered as usual.
///
/// # Errors
/// [`MetricError`], with [`MetricError::OneClass`] when a class is empty.
///
/// # Complexity
/// O(n log n).
pub fn auc(scores: &[f64], labels: &[f32]) -> Result<f64, MetricError> {
    check(scores, labels)?;
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // Adding zero makes -0.0 and 0.0 one tie in the total order too.
    order.sort_unstable_by(|&a, &b| (scores[a] + 0.0).total_cmp(&(scores[b] + 0.0)));
    // Twice the sum of ranks is an integer: exact up to 2^63.
    let (mut twice_rank_sum, mut positives, mut seen) = (0u128, 0u128, 0u128);
    for tie in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let inside = tie.iter().filter(|&&i| labels[i] > 0.0).count() as u128;
        let length = tie.len() as u128;
        // Ranks seen + 1 ..= seen + length, whose mean is seen + (length + 1)/2.
        twice_rank_sum += inside * (2 * seen + length + 1);
        positives += inside;
        seen += length;
    }
    let negatives = seen - positives;
    if positives == 0 || negatives == 0 {
        return Err(MetricError::OneClass);
    }
    let twice_wins = twice_rank_sum - positives * (positives + 1);
    Ok(twice_wins as f64 / (2 * positives * negatives) as f64)
}

/// Share of records whose score has the sign of their label; a score of 0 is a negative.
///
/// # Errors
/// [`MetricError`].
pub fn accuracy(scores: &[f64], labels: &[f32]) -> Result<f64, MetricError> {
    check(scores, labels)?;
    let right = scores
        .iter()
        .zip(labels)
        .filter(|(score, label)| (**score > 0.0) == (**label > 0.0))
        .count();
    Ok(right as f64 / scores.len() as f64)
}

/// Accuracy of always naming the more frequent class.
///
/// # Errors
/// [`MetricError`].
pub fn majority_accuracy(labels: &[f32]) -> Result<f64, MetricError> {
    if let Some(record) = labels.iter().position(|y| y.is_nan()) {
        return Err(MetricError::NotANumber { record });
    }
    if labels.is_empty() {
        return Err(MetricError::NoRecords);
    }
    let positives = labels.iter().filter(|y| **y > 0.0).count();
    Ok(positives.max(labels.len() - positives) as f64 / labels.len() as f64)
}

/// Mean of ln(1 + e^(-y z)), with z the score and y = +1 or -1 the class: the log loss of the
/// probabilities 1/(1 + e^-z).
///
/// # Errors
/// [`MetricError`].
pub fn log_loss(scores: &[f64], labels: &[f32]) -> Result<f64, MetricError> {
    check(scores, labels)?;
    let total: f64 = scores
        .iter()
        .zip(labels)
        .map(|(z, y)| dpopt_oracle::Glm::Logistic.value(*z, f64::from(*y)))
        .sum();
    Ok(total / scores.len() as f64)
}

fn check(scores: &[f64], labels: &[f32]) -> Result<(), MetricError> {
    if scores.len() != labels.len() {
        return Err(MetricError::LabelCount {
            scores: scores.len(),
            labels: labels.len(),
        });
    }
    if scores.is_empty() {
        return Err(MetricError::NoRecords);
    }
    match scores
        .iter()
        .zip(labels)
        .position(|(score, label)| score.is_nan() || label.is_nan())
    {
        Some(record) => Err(MetricError::NotANumber { record }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn brute_force(scores: &[f64], labels: &[f32]) -> Option<f64> {
        let (mut wins, mut pairs) = (0.0, 0.0);
        for (a, y) in scores.iter().zip(labels) {
            for (b, v) in scores.iter().zip(labels) {
                if *y > 0.0 && *v <= 0.0 {
                    pairs += 1.0;
                    wins += if a > b {
                        1.0
                    } else if a == b {
                        0.5
                    } else {
                        0.0
                    };
                }
            }
        }
        (pairs > 0.0).then(|| wins / pairs)
    }

    proptest! {
        #[test]
        fn auc_counts_the_pairs(
            records in prop::collection::vec(
                (
                    prop_oneof![
                        (-3i32..3).prop_map(f64::from),
                        -1.0..1.0f64,
                        Just(-0.0),
                        Just(f64::INFINITY),
                        Just(f64::NEG_INFINITY)
                    ],
                    prop_oneof![Just(-1.0f32), Just(0.0f32), Just(1.0f32)],
                ),
                1..60,
            )
        ) {
            let (scores, labels): (Vec<f64>, Vec<f32>) = records.into_iter().unzip();
            match brute_force(&scores, &labels) {
                Some(expected) => {
                    let found = auc(&scores, &labels).unwrap();
                    prop_assert!((found - expected).abs() < 1e-14, "{found} {expected}");
                    // Naming the classes the other way round mirrors it.
                    let mirrored: Vec<f32> =
                        labels.iter().map(|y| if *y > 0.0 { -1.0 } else { 1.0 }).collect();
                    prop_assert!((auc(&scores, &mirrored).unwrap() + found - 1.0).abs() < 1e-14);
                }
                None => prop_assert_eq!(auc(&scores, &labels), Err(MetricError::OneClass)),
            }
        }
    }

    #[test]
    fn small_cases_by_hand() {
        let labels = [1.0, -1.0, 1.0, -1.0];
        assert_eq!(auc(&[0.9, 0.1, 0.8, 0.2], &labels), Ok(1.0));
        assert_eq!(auc(&[0.5; 4], &labels), Ok(0.5));
        assert_eq!(accuracy(&[1.0, -1.0, -0.5, 0.0], &labels), Ok(0.75));
        assert_eq!(majority_accuracy(&[1.0, 1.0, -1.0]), Ok(2.0 / 3.0));
        assert_eq!(majority_accuracy(&[0.0, -1.0]), Ok(1.0));
        let loss = log_loss(&[0.0; 4], &labels).unwrap();
        assert!((loss - std::f64::consts::LN_2).abs() < 1e-15);
        // No overflow far out.
        assert_eq!(log_loss(&[1e300], &[-1.0]), Ok(1e300));
    }

    #[test]
    fn undefined_metrics_are_errors() {
        assert_eq!(auc(&[], &[]), Err(MetricError::NoRecords));
        assert_eq!(majority_accuracy(&[]), Err(MetricError::NoRecords));
        assert_eq!(auc(&[1.0], &[1.0]), Err(MetricError::OneClass));
        assert_eq!(
            accuracy(&[1.0], &[1.0, 1.0]),
            Err(MetricError::LabelCount {
                scores: 1,
                labels: 2
            })
        );
        assert_eq!(
            log_loss(&[1.0, f64::NAN], &[1.0, 1.0]),
            Err(MetricError::NotANumber { record: 1 })
        );
        assert_eq!(
            majority_accuracy(&[f32::NAN]),
            Err(MetricError::NotANumber { record: 0 })
        );
    }
}
