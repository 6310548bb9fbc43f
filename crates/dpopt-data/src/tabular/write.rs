//! A schema as TOML text.

use std::fmt::Write as _;

use super::checks::COMMA;
use super::column::{Classes, ColumnKind, Label, LabelKind, Number, Several, Transform};
use super::date;
use super::raw::RawTransform;
use super::schema::Schema;

impl Schema {
    /// The schema as TOML that [`Schema::from_toml`] reads back to an equal schema.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` can't fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        if self.is_draft() {
            writeln!(out, "draft = true")?;
        }
        writeln!(out, "format = 1")?;
        writeln!(out, "row_norm = {:?}", self.row_norm())?;
        writeln!(out, "intercept = {:?}", self.intercept())?;
        if self.ignore_unlisted() {
            writeln!(out, "ignore_unlisted = true")?;
        }
        if self.delimiter() != COMMA {
            let delimiter = char::from(self.delimiter()).to_string();
            writeln!(out, "delimiter = {}", quoted(&delimiter))?;
        }
        let Label { column, kind } = self.label();
        writeln!(out, "\n[label]")?;
        writeln!(out, "column = {}", quoted(column))?;
        match kind {
            LabelKind::Classes(Classes {
                values,
                positive,
                default,
            }) => {
                writeln!(out, "values = {}", list(values.iter().map(|v| quoted(v))))?;
                writeln!(out, "positive = {}", quoted(positive))?;
                writeln!(out, "default = {}", quoted(default))?;
            }
            LabelKind::Several(Several { values, default }) => {
                writeln!(out, "values = {}", list(values.iter().map(|v| quoted(v))))?;
                writeln!(out, "default = {}", quoted(default))?;
            }
            LabelKind::Number(range) => {
                writeln!(out, "kind = \"number\"")?;
                writeln!(out, "min = {:?}", range.min)?;
                writeln!(out, "max = {:?}", range.max)?;
                writeln!(out, "default = {:?}", range.default)?;
            }
        }
        if let Some(array) = self.array() {
            writeln!(out, "\n[array]")?;
            writeln!(out, "columns = {}", array.columns)?;
            writeln!(out, "scale = {:?}", array.scale)?;
            if array.zero_based {
                writeln!(out, "zero_based = true")?;
            }
        }
        for column in self.columns() {
            writeln!(out, "\n[[column]]")?;
            writeln!(out, "name = {}", quoted(&column.name))?;
            match &column.kind {
                ColumnKind::Ignore => writeln!(out, "kind = \"ignore\"")?,
                ColumnKind::Number(number) => {
                    writeln!(out, "kind = \"number\"")?;
                    write_number(out, number, |x| format!("{x:?}"))?;
                }
                ColumnKind::Date(number) => {
                    writeln!(out, "kind = \"date\"")?;
                    write_number(out, number, |day| quoted(&date::text(day as i64)))?;
                }
                ColumnKind::Hash(hashed) => {
                    writeln!(out, "kind = \"hash\"")?;
                    writeln!(out, "buckets = {}", hashed.buckets)?;
                    writeln!(out, "scale = {:?}", hashed.scale)?;
                }
                ColumnKind::Category(category) => {
                    writeln!(out, "kind = \"category\"")?;
                    let values = list(category.values.iter().map(|v| quoted(v)));
                    writeln!(out, "values = {values}")?;
                    if let Some(reference) = &category.reference {
                        writeln!(out, "reference = {}", quoted(reference))?;
                    }
                    writeln!(out, "scale = {:?}", category.scale)?;
                }
            }
        }
        Ok(())
    }
}

/// The keys of a number, or of a date.
fn write_number(
    out: &mut String,
    number: &Number,
    written: impl Fn(f64) -> String,
) -> std::fmt::Result {
    writeln!(out, "min = {}", written(number.min))?;
    writeln!(out, "max = {}", written(number.max))?;
    let transform = match number.transform {
        Transform::Linear => RawTransform::Linear,
        Transform::Log1p => RawTransform::Log1p,
        Transform::Standard { .. } => RawTransform::Standard,
    };
    writeln!(out, "transform = {}", quoted(transform.name()))?;
    if let Transform::Standard { mean, sd } = number.transform {
        writeln!(out, "mean = {}", written(mean))?;
        writeln!(out, "sd = {sd:?}")?;
    }
    writeln!(out, "default = {}", written(number.default))?;
    writeln!(out, "scale = {:?}", number.scale)?;
    if number.centred {
        writeln!(out, "centred = true")?;
    }
    if !number.bins.is_empty() {
        let edges = list(number.bins.iter().map(|&edge| written(edge)));
        writeln!(out, "bins = {edges}")?;
        writeln!(out, "linear = {}", number.linear)?;
    }
    if number.missing {
        writeln!(out, "missing = true")?;
    }
    Ok(())
}

/// A TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A TOML array: on one line when short, else one element per line.
pub(super) fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let line = format!("[{}]", items.join(", "));
    if line.len() <= 80 {
        line
    } else {
        format!("[\n  {},\n]", items.join(",\n  "))
    }
}
