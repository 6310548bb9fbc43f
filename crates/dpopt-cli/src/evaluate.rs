//! How good a point is on records outside the protection.

use dpopt::certify::{MetricError, accuracy, auc, log_loss, majority_accuracy};
use dpopt::data::tabular::{Label, LabelRange};
use dpopt::oracle::{Glm, PublicData};
use serde::Serialize;

use crate::beside::{ANY, Beside, Figure, MAJORITY, SHARES, Value, entropy};
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ClassMetrics {
    pub(crate) test_records: usize,
    /// Accuracy of always predicting the more common class of the test set.
    pub(crate) majority_accuracy: f64,
    pub(crate) test_accuracy: f64,
    /// None when the test set has one class only.
    pub(crate) test_auc: Option<f64>,
    /// Mean logistic loss; for the logistic model only.
    pub(crate) test_log_loss: Option<f64>,
    #[serde(skip)]
    pub(crate) beside: Vec<Beside>,
}

/// How well a number is predicted, in the unit of the label where a loss has one.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    #[serde(skip)]
    pub(crate) beside: Vec<Beside>,
}

impl TestMetrics {
    /// The figures beside those of a constant.
    pub(crate) fn beside(&self) -> &[Beside] {
        match self {
            Self::Classes(of) => &of.beside,
            Self::Several(of) => &of.beside,
            Self::Number(of) => &of.beside,
        }
    }
}

/// Scores every test record. `plain`: the model is of the mean loss, and not of an objective.
///
/// # Errors
/// [`MetricError`] when the set is empty or a score is not a number.
pub(crate) fn evaluate(
    test: &PublicData,
    point: &[f64],
    (fit, plain): (&Fit, bool),
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
        None => {
            let aimed = plain && fit.weights.is_none();
            classes(&scores, test.labels(), phi, aimed).map(TestMetrics::Classes)
        }
    }
}

fn classes(
    scores: &[f64],
    labels: &[f32],
    phi: Glm,
    aimed: bool,
) -> Result<ClassMetrics, MetricError> {
    let (majority, right) = (majority_accuracy(labels)?, accuracy(scores, labels)?);
    let area = match auc(scores, labels) {
        Err(MetricError::OneClass) => None,
        found => Some(found?),
    };
    let loss = match phi {
        Glm::Logistic => Some(log_loss(scores, labels)?),
        _ => None,
    };
    let mut beside = vec![Beside::exact(
        Figure::Accuracy,
        right,
        (MAJORITY, majority),
        aimed,
    )];
    beside.extend(area.map(|of| Beside::new((Figure::Auc, Value::Exact(of)), ANY, true)));
    let shares = (SHARES, entropy([majority, 1.0 - majority]));
    beside.extend(loss.map(|of| Beside::exact(Figure::LogLoss, of, shares, aimed)));
    Ok(ClassMetrics {
        test_records: scores.len(),
        majority_accuracy: majority,
        test_accuracy: right,
        test_auc: area,
        test_log_loss: loss,
        beside,
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
    let test_loss = unit * of_scores(&|z, y| loss.value(z, y));
    let root = range.half() * square.sqrt();
    let beside = match loss {
        Glm::Absolute | Glm::Pinball(_) => {
            let (always, at) = match loss {
                Glm::Pinball(tau) => ("always the quantile", quantile(labels, tau.get())),
                _ => ("always the median", quantile(labels, 0.5)),
            };
            let constant = unit * of_scores(&|_, y| loss.value(at, y));
            Beside::exact(Figure::MeanLoss, test_loss, (always, constant), true)
        }
        Glm::Poisson(largest) => {
            // The mean count is K (1 + y)/2.
            let at = (0.5 * largest.get() * (1.0 + middle)).max(f64::MIN_POSITIVE);
            let constant = 2.0 * of_scores(&|_, y| loss.value(at.ln(), y));
            let always = ("always the mean count", constant);
            Beside::exact(Figure::Deviance, 2.0 * test_loss, always, true)
        }
        _ => {
            let always = ("always the mean", range.half() * variance.sqrt());
            Beside::exact(Figure::RootMeanSquareError, root, always, true)
        }
    };
    Ok(NumberMetrics {
        test_records: scores.len(),
        test_loss,
        test_loss_in_label_units: is_linear(loss) || counts,
        test_deviance: counts.then_some(2.0 * test_loss),
        test_absolute_error: range.half() * mean(&|z, y| (z - y).abs()),
        test_root_mean_square_error: root,
        test_r2: (variance > 0.0).then(|| 1.0 - square / variance),
        test_coverage: mean(&|z, y| match y.total_cmp(&z) {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        }),
        beside: vec![beside],
    })
}

/// The least label that at least this share of the labels does not exceed: its mean pinball loss is the least.
fn quantile(labels: &[f32], share: f64) -> f64 {
    let mut sorted = labels.to_vec();
    sorted.sort_by(f32::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    let found = sorted.get(place.saturating_sub(1)).copied();
    f64::from(found.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use dpopt::data::tabular::Schema;
    use dpopt::oracle::{Quantile, Scale};

    use super::*;

    /// No constant prediction has a smaller figure than the one that stands beside the model's, and that of the best label (or mean) has it.
    #[test]
    fn the_constant_beside_a_number_is_the_best_one() {
        let labels = [-1.0, -0.6, -0.6, 0.2, 0.9f32];
        let schema = "format = 1\nrow_norm = 1.0\nintercept = 1.0\n[label]\ncolumn = \"y\"\nkind = \"number\"\n\
                      min = 0.0\nmax = 10.0\ndefault = 0.0\n[[column]]\nname = \"x\"\nkind = \"category\"\nvalues = [\"a\"]\n";
        let schema = Schema::from_toml(schema, "a test").unwrap();
        let range = schema.label().range().unwrap();
        let quantile = Quantile::new(0.7).unwrap();
        let counts = Scale::new(10.0).unwrap();
        let middle = f64::from(labels.iter().sum::<f32>()) / 5.0;
        for (loss, best) in [
            (Glm::Absolute, -0.6),
            (Glm::Pinball(quantile), 0.2),
            (Glm::Huber(Scale::new(1.345).unwrap()), middle),
            (Glm::Poisson(counts), (5.0 * (1.0 + middle)).ln()),
        ] {
            let figures = |score: f64| {
                let found = numbers(&[score; 5], &labels, loss, range).unwrap();
                let [beside] = &found.beside[..] else {
                    panic!("one figure")
                };
                beside.exactly().unwrap()
            };
            for step in -40..=40 {
                let (model, constant) = figures(f64::from(step) / 20.0);
                assert!(model >= constant - 1e-12, "{loss}: {model} {constant}");
            }
            let (model, constant) = figures(best);
            assert!(
                (model - constant).abs() < 1e-6,
                "{loss}: {model} {constant}"
            );
        }
    }
}
