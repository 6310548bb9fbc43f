//! Models of several classes: how good they are on records outside the protection.

use dpopt::certify::{Confusion, MetricError, class_of};
use dpopt::data::tabular::Several;
use dpopt::linalg::Design;
use dpopt::oracle::{PublicData, Softmax};
use serde::Serialize;

use crate::beside::{Beside, Figure, MAJORITY, SHARES, entropy};
use crate::fit::Fit;

/// Up to so many classes the summary shows the confusion table; JSON has it always. A tuned constant: the width of a terminal.
const SHOWN: usize = 12;

/// How well several classes are told apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SeveralMetrics {
    pub(crate) test_records: usize,
    /// Accuracy of always predicting the commonest class of the test set.
    pub(crate) majority_accuracy: f64,
    pub(crate) test_accuracy: f64,
    /// Mean cross-entropy.
    pub(crate) test_log_loss: f64,
    /// In the order of the schema.
    pub(crate) classes: Vec<ClassRow>,
    #[serde(skip)]
    pub(crate) beside: Vec<Beside>,
}

/// One class of the test set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ClassRow {
    pub(crate) class: String,
    pub(crate) test_records: u64,
    /// Share of them that was predicted; none where there are none.
    pub(crate) recall: Option<f64>,
    /// How many of them were predicted to be of each class: a row of the confusion table.
    pub(crate) predicted: Vec<u64>,
}

/// Scores every test record.
pub(crate) fn several(
    test: &PublicData,
    point: &[f64],
    fit: &Fit,
    label: &Several,
) -> Result<SeveralMetrics, MetricError> {
    let (outputs, labels) = (outputs(fit, test.design(), point), test.labels());
    let classes = label.values.len();
    let found = Confusion::of(classes, outputs.iter().map(Vec::as_slice), labels)?;
    let pairs = outputs.iter().zip(labels);
    let loss: f64 = pairs
        .map(|(outputs, label)| Softmax::cross_entropy(outputs, class_of(*label, classes)))
        .sum();
    let rows = label.values.iter().zip(found.rows()).zip(found.recalls());
    let records = labels.len() as f64;
    let (right, majority) = (found.accuracy(), found.majority_accuracy());
    let sizes = found.rows().map(|row| row.iter().sum::<u64>() as f64);
    let shares = (SHARES, entropy(sizes.map(|size| size / records)));
    let (loss, aimed) = (loss / records, fit.weights.is_none());
    let beside = vec![
        Beside::exact(Figure::Accuracy, right, (MAJORITY, majority), aimed),
        Beside::exact(Figure::LogLoss, loss, shares, aimed),
    ];
    Ok(SeveralMetrics {
        test_records: labels.len(),
        majority_accuracy: majority,
        test_accuracy: right,
        test_log_loss: loss,
        beside,
        classes: rows
            .map(|((class, row), recall)| ClassRow {
                class: class.clone(),
                test_records: row.iter().sum(),
                recall,
                predicted: row.to_vec(),
            })
            .collect(),
    })
}

fn outputs(fit: &Fit, design: &Design, point: &[f64]) -> Vec<Vec<f64>> {
    let of = |i| fit.outputs(design.row(i), point).unwrap_or_default();
    (0..design.rows()).map(of).collect()
}

impl SeveralMetrics {
    /// Lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let figures: Vec<String> = self.beside.iter().map(Beside::words).collect();
        let figures = figures.join(", ");
        let mut lines = vec![format!("{figures} on {} records", self.test_records)];
        let shown = self.classes.iter().map(|row| {
            let recall = row.recall.map_or("none".to_owned(), |r| format!("{r:.4}"));
            format!("{} {recall}", row.class)
        });
        lines.push(format!("Recall: {}", shown.collect::<Vec<_>>().join(", ")));
        if self.classes.len() <= SHOWN {
            lines.extend(self.table());
        }
        lines
    }

    /// The confusion table: a row for each class, a column for each prediction.
    fn table(&self) -> Vec<String> {
        const LONGEST: usize = 14;
        let short = |name: &str| -> String { name.chars().take(LONGEST).collect() };
        let names: Vec<String> = self.classes.iter().map(|row| short(&row.class)).collect();
        let first = names.iter().map(|name| name.chars().count()).max();
        let first = first.unwrap_or(0).max(4);
        let cells = |row: &ClassRow| row.predicted.iter().map(u64::to_string).collect();
        let rows: Vec<Vec<String>> = self.classes.iter().map(cells).collect();
        let width = |k: usize| {
            let column = rows.iter().map(|row| row[k].len());
            column.max().unwrap_or(0).max(names[k].chars().count())
        };
        let line = |name: &str, cells: &[String]| {
            let cells = cells.iter().enumerate();
            let cells: String = cells
                .map(|(k, cell)| format!(" {cell:>width$}", width = width(k)))
                .collect();
            format!("{name:<first$}{cells}")
        };
        let mut lines = vec!["Records by class (rows) and prediction (columns):".to_owned()];
        lines.push(line("", &names));
        let body = names.iter().zip(&rows);
        lines.extend(body.map(|(name, row)| line(name, row)));
        lines
    }

    /// Names and values, for a table.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let mut rows = vec![
            ("records".to_owned(), self.test_records.to_string()),
            ("accuracy".to_owned(), format!("{:.4}", self.test_accuracy)),
            ("log loss".to_owned(), format!("{:.4}", self.test_log_loss)),
        ];
        rows.extend(Beside::rows(&self.beside));
        for (k, row) in self.classes.iter().enumerate() {
            let others = row.predicted.iter().enumerate().filter(|(j, _)| *j != k);
            let worst = others.max_by_key(|(_, count)| **count);
            let mistaken = worst.filter(|(_, count)| **count > 0).map(|(j, count)| {
                let other = &self.classes[j].class;
                format!(", most often mistaken for {other} ({count})")
            });
            let recall = row.recall.map_or("none".to_owned(), |r| format!("{r:.4}"));
            rows.push((
                format!("recall of {}", row.class),
                format!(
                    "{recall} of {} records{}",
                    row.test_records,
                    mistaken.unwrap_or_default()
                ),
            ));
        }
        rows
    }
}
