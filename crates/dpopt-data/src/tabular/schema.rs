//! The public schema: what a table may hold and how it becomes features.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{SchemaProblem, TabularError};
use super::raw::{RawColumn, RawKind, RawLabel, RawSchema};
use crate::formats::MAX_COLUMNS;

/// A public description of a table: columns, ranges, categories, scales and the row norm.
///
/// It is read from TOML ([`Schema::load`]) or as a part of another document (serde); both ways
/// apply the same checks, so a `Schema` that exists is valid. White space around names and values
/// is dropped, as it is in the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSchema", into = "RawSchema")]
pub struct Schema {
    draft: bool,
    row_norm: f64,
    intercept: f64,
    ignore_unlisted: bool,
    label: Label,
    columns: Vec<Column>,
    array: Option<ArrayColumns>,
}

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

impl Schema {
    /// Reads a schema from TOML text; `origin` names it in errors.
    ///
    /// # Errors
    /// [`TabularError::Toml`] and [`TabularError::Schema`].
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, TabularError> {
        let raw: RawSchema = toml::from_str(text).map_err(|error| TabularError::Toml {
            path: origin.to_owned(),
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            message: error.message().to_owned(),
        })?;
        Self::from_raw(raw, origin)
    }

    /// Reads a schema from a TOML file.
    ///
    /// # Errors
    /// [`TabularError::Read`], and as for [`Schema::from_toml`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TabularError> {
        let path = path.as_ref();
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| TabularError::Read {
            path: origin.clone(),
            source,
        })?;
        Self::from_toml(&text, &origin)
    }

    /// The same table with another label column or another positive value.
    ///
    /// # Rules
    /// A category column of the schema with exactly two values (its reference counts) can become
    /// the label: it stops being a feature, its values become the label's, the first one positive
    /// unless `positive` says otherwise, and an unknown label becomes the other one; the former
    /// label column is ignored. For a column that the schema ignores or doesn't name, only the
    /// name changes. The value of an unknown label never changes with `positive` alone.
    ///
    /// # Errors
    /// [`TabularError::Schema`] when the column can't be a label or `positive` is not among its
    /// values.
    pub fn with_label(
        &self,
        column: Option<&str>,
        positive: Option<&str>,
    ) -> Result<Self, TabularError> {
        const ORIGIN: &str = "label override";
        let mut raw = RawSchema::from(self.clone());
        let positive = positive.map(|value| value.trim_ascii().to_owned());
        let column = column.map(str::trim_ascii);
        if let Some(name) = column.filter(|name| *name != self.label.column) {
            let former = std::mem::replace(&mut raw.label.column, name.to_owned());
            if let Some(at) = raw.column.iter().position(|column| column.name == name) {
                let taken = raw.column.remove(at);
                if taken.kind != RawKind::Ignore {
                    raw.label = label_from(taken, positive.as_deref(), ORIGIN)?;
                }
            }
            // An array has no columns with names.
            if raw.array.is_none() {
                raw.column.push(RawColumn::ignored(former));
            }
        }
        if let Some(positive) = positive {
            raw.label.positive = positive;
        }
        Self::from_raw(raw, ORIGIN)
    }

    /// Whether the schema says of itself that it was read from the records and not edited since (`draft = true`). It encodes
    /// as any other, and what its ranges, categories and label values tell of the records no guarantee covers.
    #[must_use]
    pub fn is_draft(&self) -> bool {
        self.draft
    }

    /// Whether both turn every table into the same rows and labels: all but [`Schema::is_draft`] is equal.
    #[must_use]
    pub fn encodes_as(&self, other: &Self) -> bool {
        let edited = |schema: &Self| Self {
            draft: false,
            ..schema.clone()
        };
        edited(self) == edited(other)
    }

    /// Public bound on the Euclidean norm of every encoded row.
    #[must_use]
    pub fn row_norm(&self) -> f64 {
        self.row_norm
    }

    /// Value of the constant feature; 0 for none.
    #[must_use]
    pub fn intercept(&self) -> f64 {
        self.intercept
    }

    /// Whether columns that the schema does not name are skipped rather than refused.
    #[must_use]
    pub fn ignore_unlisted(&self) -> bool {
        self.ignore_unlisted
    }

    /// The column to predict.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The other columns, in the order of their features.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns of an array, for a schema of one (such a schema has no other columns).
    #[must_use]
    pub fn array(&self) -> Option<ArrayColumns> {
        self.array
    }

    /// Number of features, the constant one included.
    #[must_use]
    pub fn dim(&self) -> usize {
        let columns: usize = self.columns.iter().map(|c| c.kind.features()).sum();
        let array = self.array.map_or(0, |array| array.columns);
        columns + array + usize::from(self.intercept != 0.0)
    }

    /// One name per feature, in the order of the matrix's columns.
    ///
    /// # Examples
    /// `age`, `age in [18, 25)`, `sex = Female`, `sex = (other)`, `(intercept)`; of an array, `x0`,
    /// `x1`, ...
    #[must_use]
    pub fn feature_names(&self) -> Vec<String> {
        let mut names = Vec::with_capacity(self.dim());
        for Column { name, kind } in &self.columns {
            match kind {
                ColumnKind::Ignore => {}
                ColumnKind::Number(number) => {
                    if number.linear {
                        names.push(name.clone());
                    }
                    let mut low = number.min;
                    for &edge in &number.bins {
                        names.push(format!("{name} in [{low}, {edge})"));
                        low = edge;
                    }
                    if !number.bins.is_empty() {
                        names.push(format!("{name} in [{low}, {}]", number.max));
                    }
                }
                ColumnKind::Category(category) => {
                    names.extend(category.coded().map(|value| format!("{name} = {value}")));
                    names.push(format!("{name} = (other)"));
                }
            }
        }
        let array = self.array.map_or(0, |array| array.columns);
        names.extend((0..array).map(|j| format!("x{j}")));
        if self.intercept != 0.0 {
            names.push("(intercept)".to_owned());
        }
        names
    }

    fn from_raw(raw: RawSchema, origin: &str) -> Result<Self, TabularError> {
        let fail = |key: &str, problem| {
            Err(TabularError::Schema {
                path: origin.to_owned(),
                key: key.to_owned(),
                problem,
            })
        };
        if raw.format != 1 {
            return fail("format", SchemaProblem::Format(raw.format));
        }
        if let Err(problem) = positive(raw.row_norm) {
            return fail("row_norm", problem);
        }
        // What is planned from it takes squares.
        if !(1e-100..=1e100).contains(&raw.row_norm) {
            return fail("row_norm", SchemaProblem::OutOfReach(raw.row_norm));
        }
        if raw.intercept < 0.0 {
            return fail("intercept", SchemaProblem::Negative(raw.intercept));
        }
        if raw.intercept != 0.0
            && let Err(problem) = single(raw.intercept)
        {
            return fail("intercept", problem);
        }
        let label = match Label::from_raw(raw.label) {
            Ok(label) => label,
            Err((key, problem)) => return fail(&format!("label.{key}"), problem),
        };
        let mut columns: Vec<Column> = Vec::with_capacity(raw.column.len());
        let mut names = HashSet::from([label.column.clone()]);
        for column in raw.column {
            let name = column.name.trim_ascii().to_owned();
            if !names.insert(name.clone()) {
                return fail("column", SchemaProblem::Duplicate(name));
            }
            match ColumnKind::from_raw(column) {
                Ok(kind) => columns.push(Column { name, kind }),
                Err((key, problem)) => {
                    return fail(&format!("column {name:?}, {key}"), problem);
                }
            }
        }
        let array = match raw.array {
            None => None,
            Some(_) if !columns.is_empty() => {
                return fail("column", SchemaProblem::NotApplicable("array"));
            }
            Some(array) if array.columns > MAX_COLUMNS => {
                let (columns, limit) = (array.columns, MAX_COLUMNS);
                return fail("array.columns", SchemaProblem::TooMany { columns, limit });
            }
            Some(array) => match scale(array.scale) {
                Ok(scale) => Some(ArrayColumns {
                    columns: array.columns,
                    scale,
                }),
                Err((_, problem)) => return fail("array.scale", problem),
            },
        };
        let schema = Self {
            draft: raw.draft,
            array,
            row_norm: raw.row_norm,
            intercept: raw.intercept,
            ignore_unlisted: raw.ignore_unlisted,
            label,
            columns,
        };
        if schema.dim() == 0 {
            return fail("column", SchemaProblem::NoFeatures);
        }
        Ok(schema)
    }
}

impl TryFrom<RawSchema> for Schema {
    type Error = TabularError;

    fn try_from(raw: RawSchema) -> Result<Self, TabularError> {
        Self::from_raw(raw, "embedded schema")
    }
}

/// A key and what is wrong with it.
type Fault = (&'static str, SchemaProblem);

impl Label {
    fn from_raw(raw: RawLabel) -> Result<Self, Fault> {
        let values = texts(raw.values).map_err(|problem| ("values", problem))?;
        let values: [String; 2] = values
            .try_into()
            .map_err(|all: Vec<String>| ("values", SchemaProblem::NotTwoValues(all.len())))?;
        let among = |key, value: String| {
            let value = value.trim_ascii().to_owned();
            if values.contains(&value) {
                Ok(value)
            } else {
                Err((key, SchemaProblem::NotAmongValues(value)))
            }
        };
        Ok(Self {
            column: raw.column.trim_ascii().to_owned(),
            positive: among("positive", raw.positive)?,
            default: among("default", raw.default)?,
            values,
        })
    }

    /// The value that is not the default: where no text is this one, every record has the default.
    #[must_use]
    pub fn told_apart(&self) -> &str {
        let [first, second] = &self.values;
        if *first == self.default {
            second
        } else {
            first
        }
    }

    /// The value that becomes -1.
    #[must_use]
    pub fn negative(&self) -> &str {
        let [first, second] = &self.values;
        if *first == self.positive {
            second
        } else {
            first
        }
    }
}

impl ColumnKind {
    /// Number of features of the column.
    fn features(&self) -> usize {
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

    fn from_raw(raw: RawColumn) -> Result<Self, Fault> {
        let not_for = |kind, keys: &[(&'static str, bool)]| match keys.iter().find(|k| k.1) {
            Some((key, _)) => Err((*key, SchemaProblem::NotApplicable(kind))),
            None => Ok(()),
        };
        let of_numbers = [
            ("min", raw.min.is_some()),
            ("max", raw.max.is_some()),
            ("transform", raw.transform.is_some()),
            ("default", raw.default.is_some()),
            ("bins", raw.bins.is_some()),
            ("linear", raw.linear.is_some()),
        ];
        let of_categories = [
            ("values", raw.values.is_some()),
            ("reference", raw.reference.is_some()),
        ];
        match raw.kind {
            RawKind::Ignore => {
                not_for("ignore", &of_numbers)?;
                not_for("ignore", &of_categories)?;
                not_for("ignore", &[("scale", raw.scale.is_some())])?;
                Ok(Self::Ignore)
            }
            RawKind::Number => {
                not_for("number", &of_categories)?;
                Number::from_raw(raw).map(Self::Number)
            }
            RawKind::Category => {
                not_for("category", &of_numbers)?;
                Category::from_raw(raw).map(Self::Category)
            }
        }
    }
}

impl Number {
    fn from_raw(raw: RawColumn) -> Result<Self, Fault> {
        let needed = |key, value: Option<f64>| match value {
            None => Err((key, SchemaProblem::Missing)),
            Some(value) if value.is_finite() => Ok(value),
            Some(value) => Err((key, SchemaProblem::NotFinite(value))),
        };
        let min = needed("min", raw.min)?;
        let max = needed("max", raw.max)?;
        let default = needed("default", raw.default)?;
        if min >= max || !(max - min).is_finite() {
            return Err(("min", SchemaProblem::EmptyRange { min, max }));
        }
        if default < min || default > max {
            let value = default;
            return Err(("default", SchemaProblem::OutOfRange { value, min, max }));
        }
        let binned = raw.bins.is_some();
        let bins = raw.bins.unwrap_or_default();
        if binned && bins.is_empty() {
            return Err(("bins", SchemaProblem::EmptyList));
        }
        for &edge in &bins {
            if !edge.is_finite() {
                return Err(("bins", SchemaProblem::NotFinite(edge)));
            }
            // An edge at `max` is allowed: it sets the numbers that were clipped there apart.
            if edge <= min || edge > max {
                return Err(("bins", SchemaProblem::EdgeOutOfRange { edge, min, max }));
            }
        }
        for pair in bins.windows(2) {
            if let &[before, after] = pair
                && before >= after
            {
                return Err(("bins", SchemaProblem::NotIncreasing { before, after }));
            }
        }
        let linear = raw.linear.unwrap_or(!binned);
        if !linear && !binned {
            return Err(("linear", SchemaProblem::NoFeatureOfColumn));
        }
        Ok(Self {
            min,
            max,
            transform: raw.transform.unwrap_or(Transform::Linear),
            default,
            scale: scale(raw.scale)?,
            bins,
            linear,
        })
    }
}

impl Category {
    fn from_raw(raw: RawColumn) -> Result<Self, Fault> {
        let values = raw.values.ok_or(("values", SchemaProblem::Missing))?;
        if values.is_empty() {
            return Err(("values", SchemaProblem::EmptyList));
        }
        let values = texts(values).map_err(|problem| ("values", problem))?;
        let reference = match raw.reference {
            None => None,
            Some(value) => texts(vec![value])
                .map_err(|problem| ("reference", problem))?
                .pop(),
        };
        Ok(Self {
            values,
            reference,
            scale: scale(raw.scale)?,
        })
    }

    /// The categories with a feature of their own.
    pub(super) fn coded(&self) -> impl Iterator<Item = &String> {
        self.values
            .iter()
            .filter(|value| Some(*value) != self.reference.as_ref())
    }
}

/// A label made of a category column.
fn label_from(
    column: RawColumn,
    positive: Option<&str>,
    origin: &str,
) -> Result<RawLabel, TabularError> {
    let mut values = column.values.unwrap_or_default();
    values.extend(column.reference.filter(|value| !values.contains(value)));
    let [first, second] = values.as_slice() else {
        return Err(TabularError::Schema {
            path: origin.to_owned(),
            key: format!("column {:?}", column.name),
            problem: SchemaProblem::NotTwoValues(values.len()),
        });
    };
    let (positive, default) = if positive == Some(second) {
        (second.clone(), first.clone())
    } else {
        (first.clone(), second.clone())
    };
    Ok(RawLabel {
        column: column.name,
        values,
        positive,
        default,
    })
}

/// Strips and checks a list of texts.
fn texts(values: Vec<String>) -> Result<Vec<String>, SchemaProblem> {
    let mut seen = HashSet::new();
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        let value = value.trim_ascii().to_owned();
        if value.contains('\n') {
            return Err(SchemaProblem::LineBreak(value));
        }
        if !seen.insert(value.clone()) {
            return Err(SchemaProblem::Duplicate(value));
        }
        kept.push(value);
    }
    Ok(kept)
}

fn scale(value: Option<f64>) -> Result<f64, Fault> {
    let value = value.unwrap_or(1.0);
    positive(value)
        .and_then(|()| single(value))
        .map_err(|problem| ("scale", problem))?;
    Ok(value)
}

fn positive(value: f64) -> Result<(), SchemaProblem> {
    if !value.is_finite() {
        Err(SchemaProblem::NotFinite(value))
    } else if value <= 0.0 {
        Err(SchemaProblem::NotPositive(value))
    } else {
        Ok(())
    }
}

/// Features are stored in single precision: neither overflow nor vanish there.
fn single(value: f64) -> Result<(), SchemaProblem> {
    if (value as f32).is_normal() {
        Ok(())
    } else {
        Err(SchemaProblem::NotFinite(value))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}
