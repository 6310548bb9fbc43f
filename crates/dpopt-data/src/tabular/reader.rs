//! Files to matrices.

use std::io::Read;
use std::path::Path;

use dpopt_linalg::Design;

use super::encode::Encoder;
use super::error::TabularError;
use super::header::{Layout, header_names, lacks, read_header};
use super::line::Fields;
use super::schema::Schema;
use crate::formats::lines::{Line, Lines};
use crate::formats::stream;

/// A table as rows and labels. It holds private records: nothing here prints them.
#[non_exhaustive]
pub struct EncodedTable {
    /// One row per line after the header.
    ///
    /// # Shapes
    /// (n, d), d = [`Schema::dim`].
    pub design: Design,
    /// One label per row: +1 or -1; of three values or more a whole number ([`Several`](super::Several)); of numbers from -1 to 1.
    pub labels: Vec<f32>,
    /// The public bound that every row keeps.
    pub row_norm: f64,
}

/// Reads a table (plain or gzip) with labels, for training or scoring.
///
/// # Errors
/// [`TabularError`] for the file and its header; never for a record.
pub fn read_table(path: impl AsRef<Path>, schema: &Schema) -> Result<EncodedTable, TabularError> {
    let (file, name) = stream::open(path.as_ref())?;
    read_table_from(file, &name, schema)
}

/// As [`read_table`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`read_table`].
pub fn read_table_from(
    source: impl Read,
    origin: &str,
    schema: &Schema,
) -> Result<EncodedTable, TabularError> {
    let (design, labels) = read(source, origin, schema, true)?;
    Ok(EncodedTable {
        design,
        labels,
        row_norm: schema.row_norm(),
    })
}

/// Reads the rows of a table for prediction: the label column may be absent and is not used.
///
/// # Errors
/// As for [`read_table`].
pub fn read_features(path: impl AsRef<Path>, schema: &Schema) -> Result<Design, TabularError> {
    let (file, name) = stream::open(path.as_ref())?;
    read_features_from(file, &name, schema)
}

/// As [`read_features`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`read_table`].
pub fn read_features_from(
    source: impl Read,
    origin: &str,
    schema: &Schema,
) -> Result<Design, TabularError> {
    Ok(read(source, origin, schema, false)?.0)
}

/// Calls `visit` with the row of each record of a table for prediction, one after the other, and its fields in the columns `kept`, as
/// they stand in the table: nothing is held longer than a line. A kept column may be one that the schema does not name.
///
/// # Privacy
/// Fields are what the records hold. Nothing is released here.
///
/// # Errors
/// As for [`read_table`], a kept column that the table lacks among them, and what `visit` returns.
pub fn visit_features_from<E: From<TabularError>>(
    source: impl Read,
    origin: &str,
    schema: &Schema,
    kept: &[String],
    mut visit: impl FnMut(&[(u32, f32)], &[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    let encoder = Encoder::new(schema);
    let mut lines = Lines::new(source, origin).map_err(TabularError::from)?;
    let header = read_header(&mut lines)?;
    let names = header_names(&header, schema.delimiter(), origin)?;
    let layout = Layout::beside((&header, &names), schema, false, kept, origin)?;
    let place = |name: &String| names.iter().position(|known| known == name);
    let missing: Vec<String> = kept
        .iter()
        .filter(|name| place(name).is_none())
        .cloned()
        .collect();
    if !missing.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return Err(lacks(origin, missing, &names).into());
    }
    let places: Vec<usize> = kept.iter().filter_map(place).collect();
    let (mut fields, mut row) = (Fields::new(), Vec::new());
    while let Some(line) = lines.next_line().map_err(TabularError::from)? {
        let text = match line {
            Line::Text(text) => text,
            // No fields at all: a record of defaults.
            Line::Overlong(_) => b"",
        };
        encoder.encode_line(&layout, text, &mut fields, &mut row);
        let found: Vec<&[u8]> = places
            .iter()
            .map(|at| fields.get(*at).unwrap_or_default())
            .collect();
        visit(&row, &found)?;
    }
    Ok(())
}

/// As [`visit_features_from`], from a file.
///
/// # Errors
/// As for [`visit_features_from`].
pub fn visit_features<E: From<TabularError>>(
    path: impl AsRef<Path>,
    schema: &Schema,
    kept: &[String],
    visit: impl FnMut(&[(u32, f32)], &[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    let (file, name) = stream::open(path.as_ref()).map_err(TabularError::from)?;
    visit_features_from(file, &name, schema, kept, visit)
}

fn read(
    source: impl Read,
    origin: &str,
    schema: &Schema,
    need_label: bool,
) -> Result<(Design, Vec<f32>), TabularError> {
    let mut design = Design::sparse(schema.dim())?;
    let mut labels = Vec::new();
    visit(source, origin, schema, need_label, |row, label| {
        labels.push(label);
        // The encoder's columns increase and are in range whatever the record, so this never
        // fails because of a record.
        Ok(design.push_row(row)?)
    })?;
    Ok((design, labels))
}

/// Calls `visit` with the row and the label of each record of a table, one after the other.
pub(super) fn visit(
    source: impl Read,
    origin: &str,
    schema: &Schema,
    need_label: bool,
    mut visit: impl FnMut(&[(u32, f32)], f32) -> Result<(), TabularError>,
) -> Result<(), TabularError> {
    visit_fields(source, origin, schema, need_label, |_, _, row, label| {
        visit(row, label)
    })
}

/// As [`visit`], with the fields too.
pub(super) fn visit_fields(
    source: impl Read,
    origin: &str,
    schema: &Schema,
    need_label: bool,
    mut visit: impl FnMut(&Layout, &Fields, &[(u32, f32)], f32) -> Result<(), TabularError>,
) -> Result<(), TabularError> {
    let encoder = Encoder::new(schema);
    let mut lines = Lines::new(source, origin)?;
    let layout = Layout::of(&mut lines, schema, need_label)?;
    let mut fields = Fields::new();
    let mut row = Vec::new();
    while let Some(line) = lines.next_line()? {
        let text = match line {
            Line::Text(text) => text,
            // No fields at all: a record of defaults.
            Line::Overlong(_) => b"",
        };
        let label = encoder.encode_line(&layout, text, &mut fields, &mut row);
        visit(&layout, &fields, &row, label)?;
    }
    Ok(())
}
