//! The public schema: what a table may hold and how it becomes features.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checks::{COMMA, delimiter, label_from, positive, scale, single};
use super::column::{ArrayColumns, Column, ColumnKind, Hashed, Label, Number, Share};
use super::date;
use super::error::{SchemaProblem, TabularError};
use super::raw::{RawArray, RawColumn, RawKind, RawLabel, RawLabelKind, RawSchema};
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
    delimiter: u8,
    label: Label,
    columns: Vec<Column>,
    array: Option<ArrayColumns>,
    shares: Vec<Share>,
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
    /// A category column of the schema with two values or more (its reference counts) can become
    /// the label: it stops being a feature, its values become the label's; of two the first one is positive
    /// unless `positive` says otherwise, and an unknown label becomes the other one; of more an unknown label becomes the reference, or
    /// the first one where there is none. The former
    /// label column is ignored. For a column that the schema ignores or doesn't name, only the
    /// name changes, and a label that is a number is refused: its range is of the former column. The value of an unknown label never changes with `positive` alone. A label that is a number has no
    /// positive value.
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
        let mut label = RawLabel::new(&self.label);
        let positive = positive.map(|value| value.trim_ascii().to_owned());
        let column = column.map(str::trim_ascii);
        if let Some(name) = column.filter(|name| *name != self.label.column) {
            let number = label.kind == Some(RawLabelKind::Number);
            let mut described = false;
            let former = std::mem::replace(&mut label.column, name.to_owned());
            // They are of the former label.
            raw.share.clear();
            if let Some(at) = raw.column.iter().position(|column| column.name == name) {
                let taken = raw.column.remove(at);
                if taken.kind != RawKind::Ignore {
                    label = label_from(taken, positive.as_deref(), ORIGIN)?;
                    described = true;
                }
            }
            if number && !described {
                return Err(TabularError::Schema {
                    path: ORIGIN.to_owned(),
                    key: "label.column".to_owned(),
                    problem: SchemaProblem::OtherRange {
                        former,
                        column: name.to_owned(),
                    },
                });
            }
            // An array has no columns with names.
            if raw.array.is_none() {
                raw.column.push(RawColumn::ignored(former));
            }
        }
        if let Some(positive) = positive {
            if label.kind == Some(RawLabelKind::Number) {
                return Err(TabularError::Schema {
                    path: ORIGIN.to_owned(),
                    key: "label.positive".to_owned(),
                    problem: SchemaProblem::NoPositive(label.column),
                });
            }
            let values = label.values.as_ref().map_or(2, Vec::len);
            if values > 2 {
                return Err(TabularError::Schema {
                    path: ORIGIN.to_owned(),
                    key: "label.positive".to_owned(),
                    problem: SchemaProblem::PositiveOfSeveral(values),
                });
            }
            label.positive = Some(positive);
        }
        raw.label = Some(label);
        Self::from_raw(raw, ORIGIN)
    }

    /// The same table with another bound on the norm of its rows.
    ///
    /// # Errors
    /// [`TabularError::Schema`] for a bound that is none.
    pub fn with_row_norm(&self, row_norm: f64) -> Result<Self, TabularError> {
        let mut raw = RawSchema::from(self.clone());
        raw.row_norm = row_norm;
        Self::from_raw(raw, "row norm override")
    }

    /// Whether the schema says of itself that it was read from the records and not edited since (`draft = true`). It encodes
    /// as any other, and what its ranges, categories and label values tell of the records no guarantee covers.
    #[must_use]
    pub fn is_draft(&self) -> bool {
        self.draft
    }

    /// Whether both turn every table into the same rows and labels: all but [`Schema::is_draft`] and [`Schema::shares`] is equal.
    #[must_use]
    pub fn encodes_as(&self, other: &Self) -> bool {
        let edited = |schema: &Self| Self {
            draft: false,
            shares: Vec::new(),
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

    /// The byte between the fields of a line. Formats that are no text have none, and do not look at it.
    #[must_use]
    pub fn delimiter(&self) -> u8 {
        self.delimiter
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

    /// Public shares of groups of records.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
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
                    number_names(&mut names, name, number, |x| x.to_string());
                }
                ColumnKind::Date(number) => {
                    number_names(&mut names, name, number, |day| date::text(day as i64));
                }
                ColumnKind::Hash(Hashed { buckets, .. }) => {
                    let name = |bucket| format!("{name} in bucket {bucket} of {buckets}");
                    names.extend((0..*buckets).map(name));
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
        let delimiter = match delimiter(raw.delimiter.as_deref()) {
            Ok(_) if raw.delimiter.is_some() && raw.array.is_some() => {
                return fail("delimiter", SchemaProblem::NotApplicable("array"));
            }
            Ok(delimiter) => delimiter,
            Err(problem) => return fail("delimiter", problem),
        };
        let Some(label) = raw.label else {
            return fail("label", SchemaProblem::NoLabel);
        };
        let label = match Label::from_raw(label) {
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
                    zero_based: array.zero_based,
                }),
                Err((_, problem)) => return fail("array.scale", problem),
            },
        };
        if let Err((i, problem)) = check_shares(&raw.share, &label, &columns) {
            return fail(&format!("share {}", i + 1), problem);
        }
        let schema = Self {
            draft: raw.draft,
            array,
            shares: raw.share,
            row_norm: raw.row_norm,
            intercept: raw.intercept,
            ignore_unlisted: raw.ignore_unlisted,
            delimiter,
            label,
            columns,
        };
        if schema.array.is_none() && schema.dim() > MAX_COLUMNS {
            let (columns, limit) = (schema.dim(), MAX_COLUMNS);
            return fail("column", SchemaProblem::TooMany { columns, limit });
        }
        if schema.dim() == 0 {
            return fail("column", SchemaProblem::NoFeatures);
        }
        Ok(schema)
    }
}

/// The names of the features of a number, whose ends are written by `written`.
fn number_names(
    names: &mut Vec<String>,
    name: &str,
    number: &Number,
    written: impl Fn(f64) -> String,
) {
    if number.linear {
        names.push(name.to_owned());
    }
    let mut low = number.min;
    for &edge in &number.bins {
        names.push(format!("{name} in [{}, {})", written(low), written(edge)));
        low = edge;
    }
    if !number.bins.is_empty() {
        names.push(format!(
            "{name} in [{}, {}]",
            written(low),
            written(number.max)
        ));
    }
    if number.missing {
        names.push(format!("{name} = (missing)"));
    }
}

impl From<Schema> for RawSchema {
    fn from(schema: Schema) -> Self {
        let label = schema.label();
        Self {
            draft: schema.is_draft(),
            format: 1,
            row_norm: schema.row_norm(),
            intercept: schema.intercept(),
            ignore_unlisted: schema.ignore_unlisted(),
            delimiter: (schema.delimiter != COMMA)
                .then(|| char::from(schema.delimiter).to_string()),
            label: Some(RawLabel::new(label)),
            column: schema
                .columns()
                .iter()
                .map(|column| RawColumn::new(&column.name, &column.kind))
                .collect(),
            array: schema.array().map(|array| RawArray {
                columns: array.columns,
                scale: Some(array.scale),
                zero_based: array.zero_based,
            }),
            share: schema.shares,
        }
    }
}

impl TryFrom<RawSchema> for Schema {
    type Error = TabularError;

    fn try_from(raw: RawSchema) -> Result<Self, TabularError> {
        Self::from_raw(raw, "embedded schema")
    }
}

/// The first share that is none, by its place.
fn check_shares(
    shares: &[Share],
    label: &Label,
    columns: &[Column],
) -> Result<(), (usize, SchemaProblem)> {
    for (i, Share { of, share }) in shares.iter().enumerate() {
        let fail = |problem| Err((i, problem));
        let unfit = |column: &str, problem| SchemaProblem::ShareOf {
            column: column.to_owned(),
            label: label.column.clone(),
            problem,
        };
        if !(*share > 0.0 && *share <= 1.0) {
            return fail(SchemaProblem::NotAShare(*share));
        }
        if shares[..i].iter().any(|other| other.of == *of) {
            let values: Vec<&str> = of.values().map(String::as_str).collect();
            return fail(SchemaProblem::Duplicate(values.join(", ")));
        }
        if !of.contains_key(&label.column) {
            return fail(unfit(&label.column, "missing"));
        }
        for (name, value) in of {
            let listed = if *name == label.column {
                label.values().contains(value)
            } else {
                let column = columns.iter().find(|column| column.name == *name);
                match column.map(|column| &column.kind) {
                    Some(ColumnKind::Category(category)) => {
                        let reference = category.reference.as_ref();
                        category.values.contains(value)
                            || reference == Some(value)
                            || value == "(other)"
                    }
                    _ => return fail(unfit(name, "none")),
                }
            };
            if !listed {
                let (value, column) = (value.clone(), name.clone());
                return fail(SchemaProblem::NotListed { value, column });
            }
        }
    }
    Ok(())
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}
