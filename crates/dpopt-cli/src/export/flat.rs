//! The flat JSON file of a model: weights, features, and how each is encoded.
//!
//! Its keys are documented in `docs/paperwork.md`, with the lines of NumPy that read it.

use std::collections::BTreeMap;

use dpopt::data::tabular::{ColumnKind, LabelKind, Schema, Transform};
use dpopt::oracle::Glm;
use serde::Serialize;

use super::score::{Head, Score};
use crate::model::{Layer, Model};
use crate::statement::Statement;

const FORMAT: &str = "dpopt-flat-1";

#[derive(Serialize)]
pub(super) struct Flat<'a> {
    format: &'static str,
    /// A row that is longer is multiplied down to that length.
    row_norm: f64,
    features: Vec<Feature<'a>>,
    /// A row for each score, with one number for each feature.
    weights: &'a [Vec<f64>],
    head: HeadJson<'a>,
    label: LabelJson<'a>,
    /// Factors of records' losses in training, which probabilities are of too; absent where all counted alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    class_weights: Option<&'a BTreeMap<String, f64>>,
    privacy: &'a Statement,
}

/// One number of an encoded row.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Feature<'a> {
    /// scale times u, or 2u - 1 where it is centred: u = (x - from)/width, or the logarithms' ratio; x is clamped.
    Number {
        #[serde(flatten)]
        of: NumberOf<'a>,
        from: f64,
        width: f64,
        log1p: bool,
        centred: bool,
    },
    /// scale where the text is no finite number, or no date, else 0.
    Missing {
        column: &'a str,
        scale: f64,
        #[serde(skip_serializing_if = "is_number")]
        date: bool,
    },
    /// scale where as many edges as `bucket` are at or below the clamped number, else 0.
    Bucket {
        #[serde(flatten)]
        of: NumberOf<'a>,
        edges: &'a [f64],
        bucket: usize,
    },
    /// scale where the text is that value, else 0.
    Category {
        column: &'a str,
        value: &'a str,
        scale: f64,
    },
    /// scale where the text is none of the values, else 0.
    Other {
        column: &'a str,
        values: Vec<&'a str>,
        scale: f64,
    },
    /// scale where the text's bucket, of so many, is this, else 0.
    Hash {
        column: &'a str,
        buckets: u32,
        bucket: u32,
        scale: f64,
    },
    /// scale times the number at that place of an array.
    Entry { place: usize, scale: f64 },
    /// scale.
    Constant { scale: f64 },
}

#[derive(Serialize)]
struct NumberOf<'a> {
    column: &'a str,
    min: f64,
    max: f64,
    /// Of what is no number.
    default: f64,
    scale: f64,
    /// Whether the text is a date, and the number that of days since 1970-01-01.
    #[serde(skip_serializing_if = "is_number")]
    date: bool,
}

/// For serde, which asks by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_number(date: &bool) -> bool {
    !*date
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum HeadJson<'a> {
    Linear,
    Classes,
    Network {
        activation: String,
        output_weights: &'a [f64],
    },
    /// The outputs of a layer, through the activation, times the weights of the next (a row for each input) and its biases.
    Perceptron {
        activation: String,
        biases: &'a [f64],
        layers: &'a [Layer],
    },
    Factor {
        threshold: f64,
    },
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum LabelJson<'a> {
    /// Positive where the score is above 0.
    Two {
        column: &'a str,
        positive: &'a str,
        negative: &'a str,
        /// Whether 1/(1 + e^-score) is a probability of the positive value.
        logistic: bool,
    },
    /// The class with the largest score; softmax gives probabilities.
    Several {
        column: &'a str,
        values: &'a [String],
    },
    /// e^score, at most the largest.
    Count { column: &'a str, largest: f64 },
    /// middle + half times the score.
    Number {
        column: &'a str,
        middle: f64,
        half: f64,
    },
}

impl<'a> Flat<'a> {
    pub(super) fn new(model: &'a Model, score: &'a Score) -> Self {
        let label = model.schema.label();
        let column = label.column.as_str();
        Self {
            format: FORMAT,
            row_norm: model.schema.row_norm(),
            features: features(&model.schema),
            weights: &score.rows,
            head: match &score.head {
                Head::Linear => HeadJson::Linear,
                Head::Classes => HeadJson::Classes,
                Head::Network {
                    activation,
                    output_weights,
                } => HeadJson::Network {
                    activation: activation.to_string(),
                    output_weights,
                },
                Head::Perceptron {
                    activation,
                    biases,
                    layers,
                } => HeadJson::Perceptron {
                    activation: activation.to_string(),
                    biases,
                    layers,
                },
                Head::Factor { threshold } => HeadJson::Factor {
                    threshold: *threshold,
                },
            },
            label: match (&label.kind, largest_count(model)) {
                (LabelKind::Number(_), Some(largest)) => LabelJson::Count { column, largest },
                (LabelKind::Several(several), _) => LabelJson::Several {
                    column,
                    values: &several.values,
                },
                (LabelKind::Number(range), None) => LabelJson::Number {
                    column,
                    middle: range.number(0.0),
                    half: range.half(),
                },
                (LabelKind::Classes(classes), _) => LabelJson::Two {
                    column,
                    positive: &classes.positive,
                    negative: classes.negative(),
                    logistic: is_logistic(model),
                },
            },
            class_weights: model.class_weights.as_ref(),
            privacy: &model.privacy,
        }
    }
}

/// The largest count that is predicted, of a model of counts.
pub(super) fn largest_count(model: &Model) -> Option<f64> {
    match model.loss.scalar() {
        Some(Glm::Poisson(largest)) => Some(largest.get()),
        _ => None,
    }
}

/// Whether the score of two classes has a probability, as in `dpopt predict`.
pub(super) fn is_logistic(model: &Model) -> bool {
    model.schema.label().classes().is_some() && model.loss.scalar() == Some(Glm::Logistic)
}

/// In the order of [`Schema::feature_names`].
fn features(schema: &Schema) -> Vec<Feature<'_>> {
    let mut all = Vec::with_capacity(schema.dim());
    for column in schema.columns() {
        let name = column.name.as_str();
        match &column.kind {
            ColumnKind::Number(number) | ColumnKind::Date(number) => {
                let date = matches!(column.kind, ColumnKind::Date(_));
                let of = || NumberOf {
                    date,
                    column: name,
                    min: number.min,
                    max: number.max,
                    default: number.default,
                    scale: number.scale,
                };
                if number.linear {
                    let (from, width) = match number.transform {
                        Transform::Standard { mean, sd } => (mean, sd),
                        Transform::Linear | Transform::Log1p => {
                            (number.min, number.max - number.min)
                        }
                    };
                    all.push(Feature::Number {
                        of: of(),
                        from,
                        width,
                        log1p: number.transform == Transform::Log1p,
                        centred: number.centred,
                    });
                }
                let buckets = match number.bins.len() {
                    0 => 0,
                    edges => edges + 1,
                };
                all.extend((0..buckets).map(|bucket| Feature::Bucket {
                    of: of(),
                    edges: &number.bins,
                    bucket,
                }));
                all.extend(number.missing.then_some(Feature::Missing {
                    column: name,
                    scale: number.scale,
                    date,
                }));
            }
            ColumnKind::Category(category) => {
                let scale = category.scale;
                let reference = category.reference.as_deref();
                let values = category.values.iter().map(String::as_str);
                let coded = values.clone().filter(|value| Some(*value) != reference);
                all.extend(coded.map(|value| Feature::Category {
                    column: name,
                    value,
                    scale,
                }));
                let unlisted = reference.filter(|of| !category.values.iter().any(|v| v == of));
                all.push(Feature::Other {
                    column: name,
                    values: values.chain(unlisted).collect(),
                    scale,
                });
            }
            ColumnKind::Hash(hashed) => {
                all.extend((0..hashed.buckets).map(|bucket| Feature::Hash {
                    column: name,
                    buckets: hashed.buckets,
                    bucket,
                    scale: hashed.scale,
                }));
            }
            ColumnKind::Ignore => {}
        }
    }
    if let Some(array) = schema.array() {
        all.extend((0..array.columns).map(|place| Feature::Entry {
            place,
            scale: array.scale,
        }));
    }
    if schema.intercept() != 0.0 {
        all.push(Feature::Constant {
            scale: schema.intercept(),
        });
    }
    all
}
