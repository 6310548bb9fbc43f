//! Class weights: public factors of records' losses, by the values of the label.

use std::collections::BTreeMap;

use clap::Args;
use dpopt::data::tabular::{Label, ten_of};
use dpopt::oracle::{ClassWeights, Constants};

use crate::error::CliError;

const FLAG: &str = "--class-weights";

/// The flag.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClassWeightsArg {
    /// Public factors of records' losses by the value of their label, 1 where none is given: yes=5,no=1. They act before the clip, and
    /// noise grows with the largest. Choose them without looking at the records: by costs, or by shares from elsewhere. Scores of the rare
    /// class rise, and probabilities are no longer those of the records
    #[arg(long, value_name = "VALUE=WEIGHT[,...]", allow_hyphen_values = true)]
    class_weights: Vec<String>,
}

/// A factor for each value of the label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelWeights {
    by_value: BTreeMap<String, f64>,
    factors: ClassWeights,
}

impl ClassWeightsArg {
    /// As given in one text.
    pub(crate) fn one(text: &str) -> Self {
        Self {
            class_weights: vec![text.to_owned()],
        }
    }

    /// Whether it was given.
    pub(crate) fn is_given(&self) -> bool {
        !self.class_weights.is_empty()
    }

    /// The factors, if some were given; refuses a label that has no values, and values that it has not.
    pub(crate) fn of(&self, label: &Label) -> Result<Option<LabelWeights>, CliError> {
        if !self.is_given() {
            return Ok(None);
        }
        let column = &label.column;
        let values = label.values();
        if values.is_empty() {
            let problem = format!(
                "the label {column:?} is a number, and weights are of classes; leave it out"
            );
            return Err(CliError::flag(FLAG, problem));
        }
        let mut given = BTreeMap::new();
        for text in &self.class_weights {
            for (value, weight) in pairs(text, values)? {
                if !values.contains(&value) {
                    let known: Vec<String> = values.iter().map(|v| format!("{v:?}")).collect();
                    let problem = format!(
                        "the label {column:?} has no value {value:?}; it has {}",
                        ten_of(&known)
                    );
                    return Err(CliError::flag(FLAG, problem));
                }
                if given.insert(value.clone(), weight).is_some() {
                    let problem = format!("{value:?} has two weights; give one");
                    return Err(CliError::flag(FLAG, problem));
                }
            }
        }
        LabelWeights::new(label, &given).map(Some)
    }
}

/// Values and their weights. A value may have commas and equals signs in it.
fn pairs(text: &str, values: &[String]) -> Result<Vec<(String, f64)>, CliError> {
    let pair = |text: &str| -> Result<(String, f64), CliError> {
        let refuse = |problem| Err(CliError::flag(FLAG, problem));
        if text == "balanced" {
            let problem = "balanced weights are counted from the records, and the count would leave without being paid for; write the \
                           weights, from shares that are public";
            return refuse(problem.to_owned());
        }
        let Some((value, weight)) = text.rsplit_once('=') else {
            return refuse(format!(
                "{text:?} is no pair of a value and its weight, such as yes=5"
            ));
        };
        match weight.trim().parse::<f64>() {
            // Spaces after the commas of a list.
            Ok(weight) if values.iter().any(|known| known == value) => {
                Ok((value.to_owned(), weight))
            }
            Ok(weight) => Ok((value.trim().to_owned(), weight)),
            Err(_) => refuse(format!(
                "{weight:?}, the weight of {value:?}, is not a number"
            )),
        }
    };
    let one = text.rsplit_once('=').map(|(value, _)| value);
    if one.is_some_and(|one| values.iter().any(|value| value == one)) {
        return pair(text).map(|pair| vec![pair]);
    }
    text.split(',').map(pair).collect()
}

impl LabelWeights {
    /// Of values of this label; 1 for those that are not given.
    pub(crate) fn new(label: &Label, given: &BTreeMap<String, f64>) -> Result<Self, CliError> {
        let of = |value: &str| given.get(value).copied().unwrap_or(1.0);
        let factors = match label.classes() {
            Some(classes) => ClassWeights::of_signs(of(classes.negative()), of(&classes.positive)),
            None => ClassWeights::of_classes(label.values().iter().map(|v| of(v)).collect()),
        };
        let factors = factors.map_err(|error| CliError::flag(FLAG, error.to_string()))?;
        let all = label
            .values()
            .iter()
            .map(|value| (value.clone(), of(value)));
        Ok(Self {
            by_value: all.collect(),
            factors,
        })
    }

    /// Of each value of the label.
    pub(crate) fn by_value(&self) -> &BTreeMap<String, f64> {
        &self.by_value
    }

    /// Whether all are 1, as without any.
    pub(crate) fn are_one(&self) -> bool {
        self.by_value.values().all(|weight| *weight == 1.0)
    }

    /// What a mean loss is of with these, as the end of a phrase.
    pub(crate) fn of_mean(weights: Option<&Self>) -> String {
        weights.map_or(String::new(), |of| {
            format!(", each loss times its class weight ({of})")
        })
    }

    pub(crate) fn factors(&self) -> &ClassWeights {
        &self.factors
    }

    /// Constants of the weighted loss.
    pub(crate) fn constants(&self, of: Constants) -> Constants {
        self.factors.constants(of)
    }
}

impl std::fmt::Display for LabelWeights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&in_words(&self.by_value))
    }
}

/// Values and their weights, for people.
pub(crate) fn in_words(by_value: &BTreeMap<String, f64>) -> String {
    let all = by_value.iter();
    let all: Vec<String> = all
        .map(|(value, weight)| format!("{value}={weight}"))
        .collect();
    all.join(", ")
}
