//! How each group of a test set fares.

use dpopt::data::tabular::Groups;
use dpopt::oracle::{Cell, CellShares, Glm, PublicData};
use serde::Serialize;

use crate::beside::{Beside, Figure};
use crate::fit::Fit;
use crate::objective::{Dual, Objective, Ready};

/// One class of one group of the test set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GroupRow {
    pub(crate) group: String,
    pub(crate) test_records: usize,
    /// What the weights were made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<f64>,
    /// Its weight, or price, at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dual: Option<f64>,
    pub(crate) test_accuracy: f64,
    pub(crate) test_log_loss: f64,
    /// Of positives: how many are among the highest scores, of as many records as there are positives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) true_positive_rate: Option<f64>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ByGroup {
    pub(crate) worst_group_accuracy: f64,
    /// The largest less the smallest true positive rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) true_positive_rate_difference: Option<f64>,
    pub(crate) groups: Vec<GroupRow>,
    #[serde(skip)]
    pub(crate) beside: Beside,
}

/// The classes of all groups that the test set has records of.
pub(crate) fn by_group(
    test: &PublicData,
    of: &[u32],
    point: &[f64],
    fit: &Fit,
    groups: &Groups,
    trained: Option<(&Ready, &Dual)>,
) -> Option<ByGroup> {
    let design = test.design();
    let scores: Vec<f64> = (0..design.rows())
        .map(|i| fit.score(design.row(i), point))
        .collect();
    let labels = test.labels();
    let positives = labels.iter().filter(|label| **label > 0.0).count();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let mut flagged = vec![false; scores.len()];
    order
        .iter()
        .take(positives)
        .for_each(|i| flagged[*i] = true);

    let mut rows = Vec::new();
    for group in 0..groups.count() {
        for positive in [false, true] {
            let cell = Cell { positive, group };
            let own: Vec<usize> = (0..scores.len())
                .filter(|&i| of[i] as usize == group && (labels[i] > 0.0) == positive)
                .collect();
            if own.is_empty() {
                continue;
            }
            let mean = |value: &dyn Fn(usize) -> f64| {
                own.iter().map(|&i| value(i)).sum::<f64>() / own.len() as f64
            };
            // Those of the ranking are of the classes alone.
            let share = |shares: &CellShares| {
                shares
                    .of(cell)
                    .filter(|_| shares.groups() == groups.count())
            };
            let dual =
                |(ready, dual): (&Ready, &Dual)| dual.values.get(ready.dual_of(cell)?).copied();
            let rate = mean(&|i| f64::from(u8::from(flagged[i])));
            rows.push(GroupRow {
                group: groups.name(group, Some(positive)),
                test_records: own.len(),
                share: trained.and_then(|(ready, _)| share(&ready.shares)),
                dual: trained.and_then(dual),
                test_accuracy: mean(&|i| f64::from(u8::from((scores[i] > 0.0) == positive))),
                test_log_loss: mean(&|i| Glm::Logistic.value(scores[i], cell.sign())),
                true_positive_rate: positive.then_some(rate),
            });
        }
    }
    let rates: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.true_positive_rate)
        .collect();
    let ends = rates
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), rate| {
            (low.min(*rate), high.max(*rate))
        });
    let worst = rows.iter().map(|row| row.test_accuracy).reduce(f64::min)?;
    let aimed = trained.is_some_and(|(ready, _)| ready.objective == Objective::GroupDro);
    Some(ByGroup {
        // A constant is wrong about all records of one class.
        beside: Beside::exact(
            Figure::WorstGroupAccuracy,
            worst,
            ("any constant", 0.0),
            aimed,
        ),
        worst_group_accuracy: worst,
        true_positive_rate_difference: (rates.len() > 1).then_some(ends.1 - ends.0),
        groups: rows,
    })
}

impl ByGroup {
    /// For a table: what is largest and smallest, then a line for each group.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let number = |value: f64| format!("{value:.4}");
        let mut rows = vec![(
            "worst accuracy of a group".to_owned(),
            number(self.worst_group_accuracy),
        )];
        rows.extend(Beside::rows(std::slice::from_ref(&self.beside)));
        let rate = self.true_positive_rate_difference;
        rows.extend(
            rate.map(|rate| ("difference of true positive rates".to_owned(), number(rate))),
        );
        rows.extend(
            self.groups
                .iter()
                .map(|row| (row.group.clone(), row.words())),
        );
        rows
    }
}

impl GroupRow {
    /// In one line.
    pub(crate) fn words(&self) -> String {
        let mut words = format!(
            "accuracy {:.4}, log loss {:.4}",
            self.test_accuracy, self.test_log_loss
        );
        let mut add = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                words.push_str(&format!(", {name} {value:.4}"));
            }
        };
        add("true positive rate", self.true_positive_rate);
        add("share", self.share);
        add("dual", self.dual);
        format!("{words} on {} records", self.test_records)
    }
}
