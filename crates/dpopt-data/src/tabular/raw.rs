//! The schema as it is written: keys and types only, before any check.

use serde::{Deserialize, Serialize};

use super::column::{ColumnKind, Label, LabelKind, Number, Share, Transform};
use super::date;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSchema {
    /// First, so that a person who reads a draft meets it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) draft: bool,
    pub(super) format: u32,
    pub(super) row_norm: f64,
    pub(super) intercept: f64,
    #[serde(default)]
    pub(super) ignore_unlisted: bool,
    /// Between the fields of a line of text; a comma where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delimiter: Option<String>,
    /// Needed; an option so that the error can say how to get one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<RawLabel>,
    #[serde(default)]
    pub(super) column: Vec<RawColumn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) array: Option<RawArray>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) share: Vec<Share>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArray {
    pub(super) columns: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<f64>,
    /// Left out where it says nothing: older versions read what they can encode.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) zero_based: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLabel {
    pub(super) column: String,
    /// Values, where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<RawLabelKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) values: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) positive: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<RawDefault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawLabelKind {
    Classes,
    Number,
}

/// A number, or a text: a value of the label, or a date.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or a text in quotes")]
pub(super) enum RawDefault {
    Number(f64),
    Value(String),
}

impl RawLabel {
    pub(super) fn new(label: &Label) -> Self {
        let raw = Self {
            column: label.column.clone(),
            kind: None,
            values: None,
            positive: None,
            min: None,
            max: None,
            default: None,
        };
        match &label.kind {
            LabelKind::Classes(classes) => Self {
                values: Some(classes.values.to_vec()),
                positive: Some(classes.positive.clone()),
                default: Some(RawDefault::Value(classes.default.clone())),
                ..raw
            },
            LabelKind::Several(several) => Self {
                values: Some(several.values.clone()),
                default: Some(RawDefault::Value(several.default.clone())),
                ..raw
            },
            LabelKind::Number(range) => Self {
                kind: Some(RawLabelKind::Number),
                min: Some(range.min),
                max: Some(range.max),
                default: Some(RawDefault::Number(range.default)),
                ..raw
            },
        }
    }
}

/// One table for all kinds, so that a key of the wrong kind is named in the error (a tagged enum
/// loses the place of an error).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawColumn {
    pub(super) name: String,
    pub(super) kind: RawKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) min: Option<RawDefault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max: Option<RawDefault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) transform: Option<RawTransform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mean: Option<RawDefault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<RawDefault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bins: Option<Vec<RawDefault>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) linear: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) centred: Option<bool>,
    pub(super) missing: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) values: Option<Vec<String>>,
    /// The whole numbers from the first to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) range: Option<[i64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) buckets: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawKind {
    Number,
    Category,
    Date,
    Hash,
    Ignore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawTransform {
    Linear,
    Log1p,
    Standard,
}

impl RawTransform {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Log1p => "log1p",
            Self::Standard => "standard",
        }
    }
}

impl RawColumn {
    /// A column without features.
    pub(super) fn ignored(name: String) -> Self {
        Self {
            name,
            kind: RawKind::Ignore,
            min: None,
            max: None,
            transform: None,
            mean: None,
            sd: None,
            default: None,
            bins: None,
            linear: None,
            centred: None,
            missing: None,
            values: None,
            range: None,
            reference: None,
            buckets: None,
            scale: None,
        }
    }

    pub(super) fn new(name: &str, kind: &ColumnKind) -> Self {
        let mut raw = Self::ignored(name.to_owned());
        match kind {
            ColumnKind::Ignore => {}
            ColumnKind::Number(number) => {
                raw.kind = RawKind::Number;
                raw.take(number, RawDefault::Number);
            }
            ColumnKind::Date(number) => {
                raw.kind = RawKind::Date;
                raw.take(number, |day| RawDefault::Value(date::text(day as i64)));
            }
            ColumnKind::Hash(hashed) => {
                raw.kind = RawKind::Hash;
                raw.buckets = Some(hashed.buckets);
                raw.scale = Some(hashed.scale);
            }
            ColumnKind::Category(category) => {
                raw.kind = RawKind::Category;
                raw.values = Some(category.values.clone());
                raw.reference.clone_from(&category.reference);
                raw.scale = Some(category.scale);
            }
        }
        raw
    }

    /// The keys of a number, or of a date.
    fn take(&mut self, number: &Number, written: impl Fn(f64) -> RawDefault) {
        self.min = Some(written(number.min));
        self.max = Some(written(number.max));
        self.transform = Some(match number.transform {
            Transform::Linear => RawTransform::Linear,
            Transform::Log1p => RawTransform::Log1p,
            Transform::Standard { mean, sd } => {
                self.mean = Some(written(mean));
                self.sd = Some(sd);
                RawTransform::Standard
            }
        });
        self.default = Some(written(number.default));
        self.scale = Some(number.scale);
        // Left out where it says nothing: older versions read what they can encode.
        self.missing = number.missing.then_some(true);
        self.centred = number.centred.then_some(true);
        if !number.bins.is_empty() {
            self.bins = Some(number.bins.iter().map(|&edge| written(edge)).collect());
            self.linear = Some(number.linear);
        }
    }
}

/// For keys that are left out where they say nothing.
fn is_false(flag: &bool) -> bool {
    !flag
}
