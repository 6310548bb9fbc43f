//! What a private evaluation tells, by the kind of the label.

use std::fmt::Write as _;

use dpopt::certify::{
    ClassesEvaluation, EvaluatedModel, Evaluation, MeanOf, Measured, NumberEvaluation, RocPoint,
};
use serde::{Deserialize, Serialize};

use crate::beside::{ANY, Beside, Figure, MAJORITY, Value, down, up};

/// Up to so many classes the terminal shows recalls of each. A tuned constant: the height of a terminal.
const SHOWN: usize = 12;

/// In the place of an estimate that its interval does not hold, or whose interval holds all that there can be.
const UNDETERMINED: &str = "not determined at this budget";

/// The numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Told {
    /// Of scores of two classes.
    Scores(Box<Evaluation>),
    /// Of several classes.
    Classes(ClassesEvaluation),
    /// Of a number.
    Number(NumberEvaluation),
}

/// The figures of a private evaluation beside those of a constant, from its release alone.
///
/// The share of the majority is known from that of the positives or from the sizes of classes; the
/// mean and the median of numbers are not released, and the middle of their range is at most half
/// its width away from every label. `plain`: no class weights and no objective, so that accuracy is
/// judged.
pub(crate) fn of_evaluation(of: &Told, plain: bool) -> Vec<Beside> {
    let majority = |model: &Measured, ends| {
        let model = (Figure::Accuracy, model.into());
        Beside::new(model, (MAJORITY, Value::Within(ends)), plain)
    };
    match of {
        Told::Scores(found) => {
            let [low, high] = [found.positives.low, found.positives.high];
            let ends = [low.max(1.0 - high).max(0.5), high.max(1.0 - low)];
            let auc = (Figure::Auc, (&found.auc).into());
            vec![majority(&found.accuracy, ends), Beside::new(auc, ANY, true)]
        }
        Told::Classes(found) => {
            let Some(records) = found.records else {
                return Vec::new();
            };
            let sizes = found.sizes.iter();
            let largest = sizes.fold([0.0f64; 2], |[low, high], size| {
                [low.max(size.low), high.max(size.high)]
            });
            let ends = largest.map(|size| (size / records as f64).min(1.0));
            vec![majority(&found.accuracy.records, ends)]
        }
        Told::Number(found) => {
            let middle = (
                "always the middle of the range",
                Value::Within([0.0, 0.5 * found.width]),
            );
            let errors = [
                (Figure::AbsoluteError, &found.mean_absolute_error.records),
                (Figure::RootMeanSquareError, &found.root_mean_squared_error),
            ];
            let beside =
                |(figure, of): (Figure, &Measured)| Beside::new((figure, of.into()), middle, true);
            errors.map(beside).to_vec()
        }
    }
}

impl From<EvaluatedModel> for Told {
    fn from(found: EvaluatedModel) -> Self {
        match found {
            EvaluatedModel::Scores(found) => Self::Scores(found),
            EvaluatedModel::Classes(found) => Self::Classes(found),
            EvaluatedModel::Number(found) => Self::Number(found),
        }
    }
}

impl Told {
    /// With this bound on the probability that an interval misses.
    pub(crate) fn missing(mut self, failure: f64) -> Self {
        match &mut self {
            Self::Scores(found) => found.failure = failure,
            Self::Classes(found) => found.failure = failure,
            Self::Number(found) => found.failure = failure,
        }
        self
    }

    /// An interval misses with at most this probability.
    pub(crate) fn failure(&self) -> f64 {
        match self {
            Self::Scores(found) => found.failure,
            Self::Classes(found) => found.failure,
            Self::Number(found) => found.failure,
        }
    }

    /// Whether an estimate is missing, of the numbers by which models are compared.
    pub(crate) fn is_undetermined(&self) -> bool {
        let precision = match self {
            Self::Scores(found) => Some(&found.precision),
            Self::Classes(_) | Self::Number(_) => None,
        };
        let metrics = self.metrics().into_iter().map(|(_, of)| of);
        metrics.chain(precision).any(|of| of.estimate.is_none())
    }

    /// The factor by which the noise over the number of records has to fall until no estimate is missing, where released counts say it.
    pub(crate) fn noise_too_large_by(&self) -> Option<f64> {
        match self {
            Self::Scores(found) => found.noise_too_large_by,
            Self::Classes(found) => found.noise_too_large_by,
            Self::Number(found) => found.noise_too_large_by,
        }
    }

    /// Number of records, where it is public.
    pub(crate) fn records(&self) -> Option<u64> {
        match self {
            Self::Scores(found) => found.records,
            Self::Classes(found) => found.records,
            Self::Number(found) => found.records,
        }
    }

    /// What intervals hold together, and what was capped.
    pub(crate) fn covers(&self) -> String {
        let capped = |cap: Option<f64>| {
            cap.map_or(String::new(), |cap| {
                format!("; log losses are capped at {cap:.2}")
            })
        };
        match self {
            Self::Scores(found) => {
                format!("the four counts hold together{}", capped(found.loss_cap))
            }
            Self::Classes(found) => {
                let table = match &found.confusion {
                    Some(table) => format!(
                        "all counts of the confusion table are within {:.0} at once",
                        table.half_width.ceil()
                    ),
                    None => "with so many classes there is no confusion table".to_owned(),
                };
                let cap = capped(found.loss_cap);
                format!("recalls hold together, and so do sizes; {table}{cap}")
            }
            Self::Number(found) => format!(
                "labels and predictions are clamped to the range of the label, {} wide",
                found.width
            ),
        }
    }

    /// What the rows of a table say: a name, and a number with its interval.
    pub(crate) fn rows(&self, names: &[String]) -> Vec<(String, String)> {
        match self {
            Self::Scores(found) => of_scores(found),
            Self::Classes(found) => of_classes(found, names),
            Self::Number(found) => of_number(found),
        }
    }

    /// The metrics by which models are compared, under the names that model cards have for them.
    pub(crate) fn metrics(&self) -> Vec<(&'static str, &Measured)> {
        match self {
            Self::Scores(found) => {
                let loss = found.log_loss.as_ref().map(|loss| ("log_loss", loss));
                let first = [("accuracy", &found.accuracy), ("roc_auc", &found.auc)];
                first.into_iter().chain(loss).collect()
            }
            Self::Classes(found) => {
                let loss = found
                    .log_loss
                    .as_ref()
                    .map(|loss| ("log_loss", &loss.records));
                let first = [("accuracy", &found.accuracy.records)];
                first.into_iter().chain(loss).collect()
            }
            Self::Number(found) => vec![
                ("mean_absolute_error", &found.mean_absolute_error.records),
                ("mean_squared_error", &found.mean_squared_error.records),
            ],
        }
    }

    /// The ROC curve.
    pub(crate) fn curve(&self) -> &[RocPoint] {
        match self {
            Self::Scores(found) => &found.roc,
            Self::Classes(_) | Self::Number(_) => &[],
        }
    }

    /// Lines of the ROC curve: threshold, false and true positive rate.
    pub(crate) fn roc(&self) -> Vec<Vec<String>> {
        let points = self.curve().iter();
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
        let Self::Scores(found) = self else {
            return Vec::new();
        };
        let probability = |score: f64| 1.0 / (1.0 + (-score).exp());
        let bins = found.calibration.iter();
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

    /// The confusion table of several classes: names of its columns, and its lines.
    pub(crate) fn table(&self, names: &[String]) -> Option<(Vec<String>, Vec<Vec<String>>)> {
        let Self::Classes(found) = self else {
            return None;
        };
        let lines = found.confusion.as_ref()?.counts.iter().zip(names);
        let lines = lines.map(|(row, name)| {
            let cells = row.iter().map(|count| format!("{:.0}", count + 0.0));
            [name.clone()].into_iter().chain(cells).collect()
        });
        let head = ["Class".to_owned()]
            .into_iter()
            .chain(names.iter().cloned());
        Some((head.collect(), lines.collect()))
    }

    /// In lines for the terminal, the first of them short.
    pub(crate) fn lines(&self, names: &[String]) -> String {
        let mut lines = match self {
            Self::Scores(found) => lines_of_scores(found),
            Self::Classes(found) => lines_of_classes(found, names),
            Self::Number(found) => lines_of_number(found),
        };
        for of in of_evaluation(self, true) {
            lines.push_str(&format!("           {}\n", of.words()));
        }
        lines
    }
}

fn named<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Vec<(String, String)> {
    let rows = rows.into_iter();
    rows.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn of_scores(found: &Evaluation) -> Vec<(String, String)> {
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
        let loss = of.log_loss.as_ref();
        rows.extend(loss.map(|loss| ("log loss in the population", part(loss))));
    }
    named(rows)
}

fn lines_of_scores(found: &Evaluation) -> String {
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
            "           of the population, if records are independent draws and the model was not trained on them:\n           accuracy {}, AUC {}",
            part(&of.accuracy),
            part(&of.auc)
        );
    }
    text
}

/// A mean, and the same of the population.
fn mean(name: &str, of: &MeanOf) -> Vec<(String, String)> {
    let mut rows = vec![(name.to_owned(), part(&of.records))];
    rows.extend(
        of.population
            .map(|of| (format!("{name} in the population"), part(&of))),
    );
    rows
}

fn of_classes(found: &ClassesEvaluation, names: &[String]) -> Vec<(String, String)> {
    let mut rows = mean("accuracy", &found.accuracy);
    rows.extend(
        found
            .log_loss
            .iter()
            .flat_map(|loss| mean("log loss", loss)),
    );
    let classes = names.iter().zip(found.recalls.iter().zip(&found.sizes));
    rows.extend(classes.map(|(name, (recall, size))| {
        let value = format!("{} of {} records", part(recall), whole(size));
        (format!("recall of {name}"), value)
    }));
    rows
}

fn of_number(found: &NumberEvaluation) -> Vec<(String, String)> {
    let mut rows = mean("mean absolute error", &found.mean_absolute_error);
    rows.extend(mean("mean squared error", &found.mean_squared_error));
    let root = part(&found.root_mean_squared_error);
    rows.push(("root mean squared error".to_owned(), root));
    rows
}

fn lines_of_classes(found: &ClassesEvaluation, names: &[String]) -> String {
    let mut text = format!("Evaluation accuracy {}\n", part(&found.accuracy.records));
    // Writing to a `String` can't fail.
    if let Some(loss) = &found.log_loss {
        let _ = writeln!(text, "           log loss {}", part(&loss.records));
    }
    if let Some(of) = &found.accuracy.population {
        let _ = writeln!(
            text,
            "           of the population, if records are independent draws and the model was not trained on them: accuracy\n           {}",
            part(of)
        );
    }
    let classes = names.iter().zip(&found.recalls);
    for (name, recall) in classes.take(SHOWN) {
        let name: String = name.chars().take(40).collect();
        let _ = writeln!(text, "           recall of {name}: {}", part(recall));
    }
    if found.recalls.len() > SHOWN {
        let _ = writeln!(
            text,
            "           and of {} classes more: --json has them all",
            found.recalls.len() - SHOWN
        );
    }
    text
}

fn lines_of_number(found: &NumberEvaluation) -> String {
    let mut text = String::from("Evaluation ");
    let lines = [
        ("mean absolute error", &found.mean_absolute_error.records),
        ("mean squared error", &found.mean_squared_error.records),
        ("root mean squared error", &found.root_mean_squared_error),
    ];
    for (k, (name, of)) in lines.into_iter().enumerate() {
        let indent = if k == 0 { "" } else { "           " };
        // Writing to a `String` can't fail.
        let _ = writeln!(text, "{indent}{name} {}", part(of));
    }
    if let Some(of) = &found.mean_absolute_error.population {
        let _ = writeln!(
            text,
            "           of the population, if records are independent draws and the model was not trained on them: mean absolute error\n           {}",
            part(of)
        );
    }
    text
}

/// 0.8512 (0.8401 to 0.8623).
fn part(of: &Measured) -> String {
    let ends = format!("{:.4} to {:.4}", down(of.low), up(of.high));
    shown(of, |estimate| format!("{estimate:.4}"), &ends)
}

fn whole(of: &Measured) -> String {
    let ends = format!("{:.0} to {:.0}", of.low.floor(), of.high.ceil());
    shown(of, |estimate| format!("{estimate:.0}"), &ends)
}

fn shown(of: &Measured, digits: impl Fn(f64) -> String, ends: &str) -> String {
    let estimate = of.estimate.map_or(UNDETERMINED.to_owned(), digits);
    format!("{estimate} ({ends})")
}
