//! From any format to a file of rows: in one pass, with the memory of a few blocks.
//!
//! What is written is what the readers give, to the bit: a model of the file of rows is the model of the table. The schema goes with the
//! rows, so that the file stands for itself.

use std::io::Read;
use std::path::Path;

use dpopt_linalg::{Design, DesignFile, RowFile, RowFileWriter};

use super::arrays::{ArrayFiles, Codes};
use super::error::TabularError;
use super::reader::{self, EncodedTable};
use super::schema::Schema;
use crate::formats::{
    ArrayRows, Format, FormatError, idx_rows, idx_stream, npy_rows, npy_stream, stream,
    visit_edited,
};

/// Entries that are gathered before they are handed to the writer, at least one row of them. Tuned.
const PIECE: usize = 1 << 16;

/// Converts a table (CSV, plain or gzip) to a file of rows at `out`.
///
/// # Privacy
/// As for [`super::read_table`]. The file holds private records.
///
/// # Errors
/// [`TabularError`] for the files and the header; never for a record. There is no file at `out` then, or the one that was.
pub fn convert_table(
    path: impl AsRef<Path>,
    schema: &Schema,
    out: impl AsRef<Path>,
) -> Result<(), TabularError> {
    let (file, name) = stream::open(path.as_ref())?;
    convert_table_from(file, &name, schema, out)
}

/// As [`convert_table`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`convert_table`].
pub fn convert_table_from(
    source: impl Read,
    origin: &str,
    schema: &Schema,
    out: impl AsRef<Path>,
) -> Result<(), TabularError> {
    let mut sink = Sink::sparse(schema, out.as_ref(), false)?;
    reader::visit(source, origin, schema, true, |row, label| {
        sink.push(row, label)
    })?;
    sink.finish()
}

/// Converts a Parquet table to a file of rows at `out`.
///
/// # Privacy
/// As for [`super::read_parquet`].
///
/// # Errors
/// As for [`convert_table`].
#[cfg(feature = "parquet")]
pub fn convert_parquet(
    path: impl AsRef<Path>,
    schema: &Schema,
    out: impl AsRef<Path>,
) -> Result<(), TabularError> {
    let mut sink = Sink::sparse(schema, out.as_ref(), false)?;
    super::parquet::visit(path.as_ref(), schema, true, |row, label| {
        sink.push(row, label)
    })?;
    sink.finish()
}

/// The schema that a file of rows was made with.
///
/// # Errors
/// [`TabularError::NoSchema`], and what [`Schema::from_toml`] says.
pub fn schema_of_rows(file: &RowFile) -> Result<Schema, TabularError> {
    let none = || TabularError::NoSchema {
        path: file.path().to_owned(),
    };
    if file.note().is_empty() {
        return Err(none());
    }
    let schema = Schema::from_toml(file.note(), file.path())?;
    if schema.dim() != file.columns() || file.row_norm() != Some(schema.row_norm()) {
        return Err(none());
    }
    Ok(schema)
}

/// All rows of a file of rows, in memory.
///
/// # Errors
/// As for [`schema_of_rows`], and [`TabularError::Rows`].
pub fn read_rows(path: impl AsRef<Path>) -> Result<EncodedTable, TabularError> {
    let file = RowFile::open(path)?;
    let row_norm = schema_of_rows(&file)?.row_norm();
    let (design, labels) = file.load()?;
    Ok(EncodedTable {
        design,
        labels,
        row_norm,
    })
}

impl ArrayFiles {
    /// Converts rows and labels to a file of rows at `out`. What is written is what [`ArrayFiles::read`] gives.
    ///
    /// # Errors
    /// As for [`ArrayFiles::read`]; [`FormatError::ColumnOrder`]. There is no file at `out` then, or the one that was.
    pub fn convert(&self, schema: &Schema, out: impl AsRef<Path>) -> Result<(), TabularError> {
        let declared = self.declared(schema)?;
        let (scale, intercept) = (declared.scale as f32, schema.intercept() as f32);
        let codes = Codes::new(schema.label());
        let (file, name) = stream::open(&self.rows)?;
        if self.format == Format::Libsvm {
            let last = (intercept != 0.0).then_some((declared.columns as u32, intercept));
            let mut sink = Sink::sparse(schema, out.as_ref(), true)?;
            let edit = |row: &mut Vec<(u32, f32)>| {
                for (_, value) in row.iter_mut() {
                    *value *= scale;
                }
                row.extend(last);
            };
            let columns = (declared.first_index(), declared.columns);
            visit_edited(file, &name, columns, edit, |row, label| {
                sink.push(row, codes.label(label))
            })?;
            return sink.finish();
        }
        let Some(label_path) = &self.labels else {
            return Err(TabularError::LabelsMissing { path: name });
        };
        let (label_file, label_name) = stream::open(label_path)?;
        let mut rows = self.stream(file, &name)?;
        let mut labels = self.stream(label_file, &label_name)?;
        if rows.rows() != labels.rows() {
            return Err(TabularError::LabelCount { path: label_name });
        }
        let empty = rows.take(0)?;
        if empty.columns() != declared.columns {
            return Err(TabularError::ArrayWidth {
                path: name,
                columns: empty.columns(),
                declared: declared.columns,
            });
        }
        let step = (PIECE / declared.columns.max(1)).max(1);
        let like = empty.into_features(scale, intercept)?;
        // Also tells whether there is one label for each row.
        labels.take(0)?.into_labels()?;
        let mut writer = writer(out.as_ref(), &like, schema)?;
        loop {
            let piece = rows.take(step)?;
            let values = labels.take(step)?.into_labels()?;
            if values.is_empty() {
                break;
            }
            let mut piece = piece.into_features(scale, intercept)?;
            for i in 0..piece.rows() {
                piece.bound_row(i, schema.row_norm());
            }
            let values: Vec<f32> = values.into_iter().map(|value| codes.label(value)).collect();
            writer.push(&piece, &values)?;
        }
        Ok(writer.finish()?)
    }

    /// The rows where they lie, and the labels in memory: NPY or IDX, uncompressed, in an order that can be read in place.
    ///
    /// # Errors
    /// As for [`ArrayFiles::read`]; [`FormatError::NotInPlace`] for other files, and where the schema
    /// changes entries: an intercept, or a scale of numbers other than bytes.
    pub fn in_place(&self, schema: &Schema) -> Result<(DesignFile, Vec<f32>), TabularError> {
        let declared = self.declared(schema)?;
        let path = || self.rows.display().to_string();
        let refuse = |problem| {
            let path = path();
            TabularError::from(FormatError::NotInPlace { path, problem })
        };
        let scale = declared.scale as f32;
        let file = match self.format {
            Format::Npy => npy_rows(&self.rows, scale)?,
            Format::Idx => idx_rows(&self.rows, scale)?,
            _ => return Err(refuse("it is no array")),
        };
        if file.columns() != declared.columns {
            return Err(TabularError::ArrayWidth {
                path: path(),
                columns: file.columns(),
                declared: declared.columns,
            });
        }
        let bytes = matches!(file.layout().entry, dpopt_linalg::FileEntry::U8 { .. });
        if schema.intercept() != 0.0 || (scale != 1.0 && !bytes) {
            return Err(refuse("the schema changes its entries (intercept, scale)"));
        }
        let codes = Codes::new(schema.label());
        let labels: Vec<f32> = self
            .label_values()?
            .into_iter()
            .map(|x| codes.label(x))
            .collect();
        if labels.len() != file.rows() {
            let path = self.labels.as_ref().unwrap_or(&self.rows);
            return Err(TabularError::LabelCount {
                path: path.display().to_string(),
            });
        }
        Ok((file, labels))
    }

    fn stream<'r>(&self, source: impl Read + 'r, name: &str) -> Result<ArrayRows<'r>, FormatError> {
        match self.format {
            Format::Idx => idx_stream(source, name),
            _ => npy_stream(source, name),
        }
    }
}

fn writer(out: &Path, like: &Design, schema: &Schema) -> Result<RowFileWriter, TabularError> {
    let note = schema.to_toml();
    Ok(RowFileWriter::create(out, like, schema.row_norm(), &note)?)
}

/// Sparse rows on their way into a file.
struct Sink {
    writer: RowFileWriter,
    rows: Design,
    labels: Vec<f32>,
    row_norm: Option<f64>,
}

impl Sink {
    /// `bounded`: rows are to be brought under the row norm; those of an encoder are.
    fn sparse(schema: &Schema, out: &Path, bounded: bool) -> Result<Self, TabularError> {
        let rows = Design::sparse(schema.dim())?;
        Ok(Self {
            writer: writer(out, &rows, schema)?,
            rows,
            labels: Vec::new(),
            row_norm: bounded.then(|| schema.row_norm()),
        })
    }

    fn push(&mut self, row: &[(u32, f32)], label: f32) -> Result<(), TabularError> {
        // As for the readers, this never fails because of a record.
        self.rows.push_row(row)?;
        self.labels.push(label);
        if self.rows.stored() + self.labels.len() >= PIECE {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TabularError> {
        if let Some(row_norm) = self.row_norm {
            for i in 0..self.rows.rows() {
                self.rows.bound_row(i, row_norm);
            }
        }
        self.writer.push(&self.rows, &self.labels)?;
        self.rows.clear();
        self.labels.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), TabularError> {
        self.flush()?;
        Ok(self.writer.finish()?)
    }
}
