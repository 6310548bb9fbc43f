//! What a schema says of the label and of each column.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::formats::FirstIndex;

/// The columns of an array, all alike: each is a feature, `scale` times the number that is there.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ArrayColumns {
    /// Number of columns, without the constant feature.
    pub columns: usize,
    /// Factor of every entry.
    pub scale: f64,
    /// Whether indices of a LIBSVM file start at 0; other files have no indices.
    pub zero_based: bool,
}

impl ArrayColumns {
    /// The index of the first column.
    #[must_use]
    pub fn first_index(&self) -> FirstIndex {
        if self.zero_based {
            FirstIndex::Zero
        } else {
            FirstIndex::One
        }
    }
}

/// The column to predict.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Label {
    /// Name of the column.
    pub column: String,
    /// What is in it.
    pub kind: LabelKind,
}

/// What a label is.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelKind {
    /// One of two values.
    Classes(Classes),
    /// One of three values or more.
    Several(Several),
    /// A number.
    Number(LabelRange),
}

/// A label of two values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Classes {
    /// The two values.
    pub values: [String; 2],
    /// The value that becomes +1; the other becomes -1.
    pub positive: String,
    /// The value that any other text stands for.
    pub default: String,
}

/// A label of three values or more.
///
/// # Formula
/// The value at place k of the list, counted from 0, is encoded as k.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Several {
    /// The values.
    pub values: Vec<String>,
    /// The value that any other text stands for.
    pub default: String,
}

/// The public range of a label that is a number.
///
/// # Formula
/// A number y, clipped to the range, is encoded as u = (y - middle)/half, middle = (min + max)/2 and half = (max - min)/2: from -1 to 1,
/// whatever the unit of the label is. Losses that are made of residuals are those of the label over `half`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LabelRange {
    /// Numbers below are clipped to it.
    pub min: f64,
    /// Numbers above are clipped to it.
    pub max: f64,
    /// What anything but a finite number stands for.
    pub default: f64,
}

/// A column of the table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Column {
    /// Its name in the header.
    pub name: String,
    /// How it is encoded.
    pub kind: ColumnKind,
}

/// How a column is encoded.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnKind {
    /// A number: one feature (in [0, scale], or in [-scale, scale] where it is centred, unless it is standardised), buckets, or both, and
    /// one for a number that is missing.
    Number(Number),
    /// One feature per category and one for all others.
    Category(Category),
    /// A date, as the number of its day since 1970-01-01 (proleptic Gregorian calendar).
    Date(Number),
    /// Texts in buckets, by a fixed public hash: one feature per bucket.
    Hash(Hashed),
    /// No feature.
    Ignore,
}

/// A column of numbers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Number {
    /// Numbers below are clipped to it.
    pub min: f64,
    /// Numbers above are clipped to it.
    pub max: f64,
    /// Map of a number in [min, max].
    pub transform: Transform,
    /// What anything but a finite number stands for.
    pub default: f64,
    /// Factor of every feature of the column.
    pub scale: f64,
    /// Edges of the buckets; none for no buckets.
    pub bins: Vec<f64>,
    /// Whether the transformed number itself is a feature.
    pub linear: bool,
    /// Whether that feature is scale (2u - 1) in place of scale u, with u in [0, 1] the transformed number.
    pub centred: bool,
    /// Whether one more feature, of value `scale`, is on where the field is not a finite number.
    pub missing: bool,
}

/// A column of categories.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Category {
    /// The listed categories.
    pub values: Vec<String>,
    /// The category without a feature (all zeros). It need not be listed.
    pub reference: Option<String>,
    /// Value of the features.
    pub scale: f64,
}

/// A column of texts in buckets.
///
/// # Formula
/// One feature of value `scale`, that of the text's bucket (`docs/tables.md`).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Hashed {
    /// Number of buckets.
    pub buckets: u32,
    /// Value of the features.
    pub scale: f64,
}

impl Hashed {
    /// The most buckets: each is a feature.
    pub const MOST: u32 = 1 << 20;
}

/// The public share, among all records, of those with these values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Column to value: of the label, and of categories. A value may be `(other)`.
    pub of: BTreeMap<String, String>,
    /// Their share, above 0 and at most 1.
    pub share: f64,
}

/// Map of a number in [min, max].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transform {
    /// (x - min) / (max - min), from 0 to 1.
    Linear,
    /// ln(1 + x - min) / ln(1 + max - min), from 0 to 1.
    Log1p,
    /// (x - mean) / sd, from (min - mean) / sd to (max - mean) / sd.
    Standard {
        /// A public mean, within the range.
        mean: f64,
        /// A public standard deviation, above 0.
        sd: f64,
    },
}

impl Label {
    /// The two values, where it has two.
    #[must_use]
    pub fn classes(&self) -> Option<&Classes> {
        match &self.kind {
            LabelKind::Classes(classes) => Some(classes),
            LabelKind::Several(_) | LabelKind::Number(_) => None,
        }
    }

    /// The values, where it has three or more.
    #[must_use]
    pub fn several(&self) -> Option<&Several> {
        match &self.kind {
            LabelKind::Several(several) => Some(several),
            LabelKind::Classes(_) | LabelKind::Number(_) => None,
        }
    }

    /// The values, where it has some; none where it is a number.
    #[must_use]
    pub fn values(&self) -> &[String] {
        match &self.kind {
            LabelKind::Classes(classes) => &classes.values,
            LabelKind::Several(several) => &several.values,
            LabelKind::Number(_) => &[],
        }
    }

    /// What a text that is none of the values stands for; none where it is a number.
    #[must_use]
    pub fn default_value(&self) -> Option<&str> {
        match &self.kind {
            LabelKind::Classes(classes) => Some(&classes.default),
            LabelKind::Several(several) => Some(&several.default),
            LabelKind::Number(_) => None,
        }
    }

    /// The values that are not the default: where no text is one of these, every record has the default.
    pub fn told_apart(&self) -> impl Iterator<Item = &str> {
        let default = self.default_value();
        let values = self.values().iter().map(String::as_str);
        values.filter(move |value| Some(*value) != default)
    }

    /// The largest size of an encoded label: K - 1 for K values from three on, otherwise 1.
    #[must_use]
    pub fn largest_code(&self) -> f64 {
        self.several()
            .map_or(1.0, |several| (several.values.len() - 1) as f64)
    }

    /// The range, where it is a number.
    #[must_use]
    pub fn range(&self) -> Option<LabelRange> {
        match self.kind {
            LabelKind::Classes(_) | LabelKind::Several(_) => None,
            LabelKind::Number(range) => Some(range),
        }
    }
}

impl Several {
    /// The most values: each has as many weights as there are features.
    pub const MOST: usize = 1000;

    /// The code of the default.
    pub(super) fn default_code(&self) -> f32 {
        let at = self.values.iter().position(|value| *value == self.default);
        at.unwrap_or(0) as f32
    }
}

impl LabelRange {
    /// Half of the width: one unit of an encoded label in units of the label.
    #[must_use]
    pub fn half(&self) -> f64 {
        0.5 * (self.max - self.min)
    }

    /// From an encoded label, or a prediction of one, to a number in the unit of the label; it may be outside of the range.
    #[must_use]
    pub fn number(&self, encoded: f64) -> f64 {
        // The middle so that it does not overflow.
        (0.5 * self.min + 0.5 * self.max) + self.half() * encoded
    }

    /// The encoded label of a number; of none, and of one that is not finite, that of the default.
    pub(super) fn encode(&self, number: Option<f64>) -> f32 {
        let number = number.filter(|y| y.is_finite()).unwrap_or(self.default);
        let number = number.clamp(self.min, self.max);
        let unit = (number - (0.5 * self.min + 0.5 * self.max)) / self.half();
        unit.clamp(-1.0, 1.0) as f32
    }
}

impl Classes {
    /// The value that becomes -1.
    #[must_use]
    pub fn negative(&self) -> &str {
        self.other_than(&self.positive)
    }

    /// What any other text than the two becomes.
    pub(super) fn default_code(&self) -> f32 {
        if self.default == self.positive {
            1.0
        } else {
            -1.0
        }
    }

    fn other_than(&self, value: &str) -> &str {
        let [first, second] = &self.values;
        if first == value { second } else { first }
    }
}

impl ColumnKind {
    /// Number of features of the column.
    pub(super) fn features(&self) -> usize {
        match self {
            Self::Ignore => 0,
            Self::Hash(hashed) => hashed.buckets as usize,
            Self::Number(number) | Self::Date(number) => {
                let buckets = match number.bins.len() {
                    0 => 0,
                    edges => edges + 1,
                };
                usize::from(number.linear) + buckets + usize::from(number.missing)
            }
            Self::Category(category) => category.coded().count() + 1,
        }
    }
}

impl Category {
    /// The categories with a feature of their own.
    pub(super) fn coded(&self) -> impl Iterator<Item = &String> {
        self.values
            .iter()
            .filter(|value| Some(*value) != self.reference.as_ref())
    }
}
