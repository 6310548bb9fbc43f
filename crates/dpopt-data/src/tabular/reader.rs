//! Files to matrices.

use std::io::Read;
use std::path::Path;

use dpopt_linalg::Design;

use super::encode::Encoder;
use super::error::TabularError;
use super::header::Layout;
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
            Line::Overlong => b"",
        };
        let label = encoder.encode_line(&layout, text, &mut fields, &mut row);
        visit(&layout, &fields, &row, label)?;
    }
    Ok(())
}
