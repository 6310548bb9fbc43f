//! What a schema says of the label and of each column.

use serde::{Deserialize, Serialize};

/// The columns of an array, all alike: each is a feature, `scale` times the number that is there.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ArrayColumns {
    /// Number of columns, without the constant feature.
    pub columns: usize,
    /// Factor of every entry.
    pub scale: f64,
}

/// The column to predict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// Name of the column.
    pub column: String,
    /// Its two values.
    pub values: [String; 2],
    /// The value that becomes +1; the other becomes -1.
    pub positive: String,
    /// The value that any other text stands for.
    pub default: String,
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
#[non_exhaustive]
pub enum ColumnKind {
    /// A number: one feature in [0, scale], buckets, or both.
    Number(Number),
    /// One feature per category and one for all others.
    Category(Category),
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
    /// Map from [min, max] to [0, 1].
    pub transform: Transform,
    /// What anything but a finite number stands for.
    pub default: f64,
    /// Factor of every feature of the column.
    pub scale: f64,
    /// Edges of the buckets; none for no buckets.
    pub bins: Vec<f64>,
    /// Whether the transformed number itself is a feature.
    pub linear: bool,
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

/// Map from a range [min, max] to [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Transform {
    /// (x - min) / (max - min).
    Linear,
    /// ln(1 + x - min) / ln(1 + max - min).
    Log1p,
}

impl Label {
    /// The value that is not the default: where no text is this one, every record has the default.
    #[must_use]
    pub fn told_apart(&self) -> &str {
        self.other_than(&self.default)
    }

    /// The value that becomes -1.
    #[must_use]
    pub fn negative(&self) -> &str {
        self.other_than(&self.positive)
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
            Self::Number(number) => {
                let buckets = match number.bins.len() {
                    0 => 0,
                    edges => edges + 1,
                };
                usize::from(number.linear) + buckets
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
