//! Parquet tables: columns of values to the same fields that a line of CSV would hold.
//!
//! Values are read through the low-level column readers and never through the row interface of
//! the library, which turns a text that is not UTF-8 into an error: one record would stop a run.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use dpopt_linalg::Design;
use parquet::basic::{Compression, ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::check::{CheckReport, Collector};
use super::checks::COMMA;
use super::date;
use super::draft::Draft;
use super::encode::Encoder;
use super::error::TabularError;
use super::header::Layout;
use super::reader::EncodedTable;
use super::schema::Schema;
use super::typed::Wording;
use super::value::{ValueType, write_double, write_number, write_single};
use super::witness::{Silent, Witness};
use super::zone::{Zone, zones};
use crate::formats::{Limits, MAX_LINE_BYTES, stream};

/// Records decoded at a time. Tuned.
const BATCH: usize = 1024;
/// Seconds of a day.
const SECONDS: i64 = 86_400;

/// Reads a Parquet table with labels, for training or scoring, through a public schema.
///
/// A value becomes the text that [`super::encode_frame`] makes of it and is encoded as
/// [`super::read_table`] encodes that; null is a missing field, and so is a text above 1 MiB (no
/// line of CSV could hold it).
///
/// # Privacy
/// As for [`super::read_table`]: one record, one row, and no error that depends on what a record
/// holds. Values are compressed together, so damage is noticed where the file is damaged, or not
/// at all, and is an error of the file.
///
/// # Errors
/// [`TabularError`] for the file and its columns; never for a record.
///
/// # References
/// Apache Parquet, *File format*. Read with the `parquet` crate of Apache Arrow.
pub fn read_parquet(path: impl AsRef<Path>, schema: &Schema) -> Result<EncodedTable, TabularError> {
    let (design, labels) = read(path.as_ref(), schema, true)?;
    Ok(EncodedTable {
        design,
        labels,
        row_norm: schema.row_norm(),
    })
}

/// Reads the rows of a Parquet table for prediction: the label column may be absent and is not
/// used.
///
/// # Errors
/// As for [`read_parquet`].
pub fn read_parquet_features(
    path: impl AsRef<Path>,
    schema: &Schema,
) -> Result<Design, TabularError> {
    Ok(read(path.as_ref(), schema, false)?.0)
}

/// Compares a Parquet table with a schema, as [`super::check()`] does a CSV file. **Not private**.
/// Record number k is shown as line k + 1, where it would be below a header.
///
/// # Errors
/// As for [`read_parquet`].
pub fn check_parquet(path: impl AsRef<Path>, schema: &Schema) -> Result<CheckReport, TabularError> {
    let table = Table::open(path.as_ref())?;
    let layout = Layout::from_names(&table.names, schema, true, &table.path)?;
    let wordings = table.wordings(&layout, (schema, true))?;
    let encoder = Encoder::new(schema);
    let mut seen = Collector::new();
    let mut row = Vec::new();
    let (mut records, mut positives) = (0, 0);
    table.visit(&layout.wanted(schema), &wordings, |record| {
        seen.next_record();
        records += 1;
        if record.encode(&encoder, &layout, &mut row, &mut seen) > 0.0 {
            positives += 1;
        }
        Ok(())
    })?;
    Ok(seen.report(&table.path, schema, records, positives))
}

/// A first schema for a Parquet table, as [`super::draft_schema`]. **Not private**. Columns of types
/// that are not read have no text in it.
///
/// # Errors
/// As for [`read_parquet`] and [`super::draft_schema`].
pub fn draft_parquet(path: impl AsRef<Path>, label: Option<&str>) -> Result<String, TabularError> {
    let table = Table::open(path.as_ref())?;
    let known = |&column: &usize| table.kinds.get(column).is_some_and(Result::is_ok);
    let wanted: Vec<usize> = (0..table.names.len()).filter(known).collect();
    let mut draft = Draft::new(&table.names, COMMA, label, &table.path)?;
    for (column, time) in table.times.iter().enumerate() {
        if let Some(note) = time {
            draft.note(column, note);
        }
    }
    table.visit(&wanted, &[], |record| {
        draft.add((0..table.names.len()).map(|column| record.get(column)));
        Ok(())
    })?;
    draft.finish(&table.path)
}

fn read(
    path: &Path,
    schema: &Schema,
    need_label: bool,
) -> Result<(Design, Vec<f32>), TabularError> {
    let mut design = Design::sparse(schema.dim())?;
    let mut labels = Vec::new();
    visit(path, schema, need_label, |row, label| {
        labels.push(label);
        Ok(design.push_row(row)?)
    })?;
    Ok((design, labels))
}

/// Calls `visit` with the row and the label of each record of a table, one after the other.
pub(super) fn visit(
    path: &Path,
    schema: &Schema,
    need_label: bool,
    mut visit: impl FnMut(&[(u32, f32)], f32) -> Result<(), TabularError>,
) -> Result<(), TabularError> {
    let table = Table::open(path)?;
    let layout = Layout::from_names(&table.names, schema, need_label, &table.path)?;
    let wordings = table.wordings(&layout, (schema, need_label))?;
    let encoder = Encoder::new(schema);
    let mut row = Vec::new();
    table.visit(&layout.wanted(schema), &wordings, |record| {
        let label = record.encode(&encoder, &layout, &mut row, &mut Silent);
        visit(&row, label)
    })
}

/// An open file: its columns are known and none of its records.
struct Table {
    path: String,
    bytes: u64,
    reader: SerializedFileReader<File>,
    names: Vec<String>,
    /// How a column is read, or what it is that it is not read.
    kinds: Vec<Result<Kind, &'static str>>,
    /// What the numbers of a column stand for, where they are times.
    times: Vec<Option<&'static str>>,
}

/// How the values of a column become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Integers whose sign bit is a digit.
    Unsigned,
    /// Dates and times, so many units to a day.
    Date(i64),
}

impl Table {
    fn open(path: &Path) -> Result<Self, TabularError> {
        let (file, path) = stream::open(path)?;
        let bytes = file.metadata().map_err(|source| TabularError::Read {
            path: path.clone(),
            source,
        })?;
        let reader =
            guarded(|| SerializedFileReader::new(file)).map_err(|error| TabularError::Parquet {
                path: path.clone(),
                message: error.map_or_else(String::new, |error| error.to_string()),
            })?;
        let columns = reader.metadata().file_metadata().schema_descr().columns();
        let names = columns.iter().map(|c| c.path().string()).collect();
        let kinds = columns.iter().map(|column| kind(column)).collect();
        let times = columns.iter().map(|column| time(column)).collect();
        Ok(Self {
            path,
            bytes: bytes.len(),
            reader,
            names,
            kinds,
            times,
        })
    }

    /// How the values of its columns become the texts that the schema compares.
    fn wordings(
        &self,
        layout: &Layout,
        schema: (&Schema, bool),
    ) -> Result<Vec<Wording>, TabularError> {
        let of = |at: usize| {
            let name = self.names.get(at).map_or("", String::as_str);
            (name, self.value_type(at))
        };
        Wording::all(layout, schema, of, &self.path)
    }

    /// The type of a column's values; none for a column that is not read.
    fn value_type(&self, at: usize) -> Option<ValueType> {
        let columns = self.reader.metadata().file_metadata().schema_descr();
        match (
            self.kinds.get(at)?.ok()?,
            columns.column(at).physical_type(),
        ) {
            (Kind::Date(_), _) => Some(ValueType::Date),
            (Kind::Plain | Kind::Unsigned, physical) => match physical {
                Physical::BOOLEAN => Some(ValueType::Truth),
                Physical::INT32 | Physical::INT64 => Some(ValueType::Whole),
                Physical::FLOAT | Physical::DOUBLE => Some(ValueType::Real),
                Physical::BYTE_ARRAY => Some(ValueType::Text),
                Physical::INT96 | Physical::FIXED_LEN_BYTE_ARRAY => None,
            },
        }
    }

    /// Units to a day and the zone of a column of dates or times. The day of an instant is that of its
    /// zone, as in a text; where the file names no zone it is that of UTC.
    fn days(&self, at: usize) -> Result<Option<(i64, Zone)>, TabularError> {
        let Some(Ok(Kind::Date(units))) = self.kinds.get(at) else {
            return Ok(None);
        };
        let file = self.reader.metadata().file_metadata();
        let column = file.schema_descr().column(at);
        let adjusted = match column.logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => time.is_adjusted_to_u_t_c,
            _ => false,
        };
        let arrow = file.key_value_metadata().into_iter().flatten();
        let arrow = arrow.filter(|pair| adjusted && pair.key == "ARROW:schema");
        let name = column.name();
        let zone = arrow
            .filter_map(|pair| zones(pair.value.as_deref()?).remove(name))
            .next();
        let zone = match zone {
            None => Zone::UTC,
            Some(zone) => Zone::of_name(&zone).ok_or_else(|| TabularError::Zone {
                path: self.path.clone(),
                column: name.to_owned(),
                zone,
            })?,
        };
        Ok(Some((*units, zone)))
    }

    /// Calls `visit` for each record, with the values of the wanted columns.
    fn visit(
        &self,
        wanted: &[usize],
        wordings: &[Wording],
        mut visit: impl FnMut(&Record<'_>) -> Result<(), TabularError>,
    ) -> Result<(), TabularError> {
        let damaged = || TabularError::DamagedParquet {
            path: self.path.clone(),
        };
        for &column in wanted {
            let name = || self.names.get(column).cloned().unwrap_or_default();
            if let Some(Err(kind)) = self.kinds.get(column) {
                return Err(TabularError::ColumnType {
                    path: self.path.clone(),
                    column: name(),
                    kind,
                });
            }
            if let Some(codec) = self.foreign_codec(column) {
                return Err(TabularError::Codec {
                    path: self.path.clone(),
                    column: name(),
                    codec,
                });
            }
        }
        let days = wanted.iter().map(|&column| self.days(column));
        let days = days.collect::<Result<Vec<_>, _>>()?;
        self.check_size(wanted.len())?;
        let mut record = Record {
            columns: self.names.iter().map(|_| Batch::default()).collect(),
            types: (0..self.names.len())
                .map(|at| self.value_type(at))
                .collect(),
            wordings,
            at: 0,
        };
        for group in 0..self.reader.num_row_groups() {
            let group = guarded(|| self.reader.get_row_group(group)).map_err(|_| damaged())?;
            let mut readers = Vec::with_capacity(wanted.len());
            for (&column, &days) in wanted.iter().zip(&days) {
                let reader = guarded(|| group.get_column_reader(column)).map_err(|_| damaged())?;
                readers.push((column, days, reader));
            }
            let rows = usize::try_from(group.metadata().num_rows()).map_err(|_| damaged())?;
            let mut done = 0;
            while done < rows {
                let count = BATCH.min(rows - done);
                for (column, days, reader) in &mut readers {
                    let unsigned = self.kinds.get(*column) == Some(&Ok(Kind::Unsigned));
                    let Some(batch) = record.columns.get_mut(*column) else {
                        return Err(damaged());
                    };
                    let filled = guarded(|| batch.fill(reader, unsigned, *days, count));
                    if filled.map_err(|_| damaged())? != count {
                        return Err(damaged());
                    }
                }
                for at in 0..count {
                    record.at = at;
                    visit(&record)?;
                }
                done += count;
            }
        }
        Ok(())
    }

    /// The compression of a column, if it is one that is not read.
    fn foreign_codec(&self, column: usize) -> Option<&'static str> {
        let groups = self.reader.metadata().row_groups();
        groups
            .iter()
            .find_map(|group| match group.columns().get(column)?.compression() {
                Compression::BROTLI(_) => Some("Brotli"),
                Compression::LZO => Some("LZO"),
                _ => None,
            })
    }

    /// A few bytes can stand for any number of equal values: the same limit as for a stream that
    /// is unpacked, a value counted as one byte.
    fn check_size(&self, columns: usize) -> Result<(), TabularError> {
        let limits = Limits::default();
        let rows: u64 = self
            .reader
            .metadata()
            .row_groups()
            .iter()
            .map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX))
            .fold(0, u64::saturating_add);
        let values = rows.saturating_mul(columns.max(1) as u64);
        if limits.passed(self.bytes, values) {
            return Err(TabularError::Expands {
                path: self.path.clone(),
                limits,
            });
        }
        Ok(())
    }
}

/// One record of the batch that was decoded.
struct Record<'w> {
    columns: Vec<Batch>,
    types: Vec<Option<ValueType>>,
    /// None for a draft, which has no schema.
    wordings: &'w [Wording],
    at: usize,
}

impl Record<'_> {
    /// The text of a column, without white space around it; `None` for null and for columns that
    /// were not wanted.
    fn get(&self, column: usize) -> Option<&[u8]> {
        let batch = self.columns.get(column)?;
        let (start, end) = (*batch.spans.get(self.at)?)?;
        let text = batch.text.get(start..end)?.trim_ascii();
        let of = self.wordings.get(column).zip(*self.types.get(column)?);
        Some(of.map_or(text, |(wording, of)| wording.listed(of, text)))
    }

    fn encode(
        &self,
        encoder: &Encoder,
        layout: &Layout,
        row: &mut Vec<(u32, f32)>,
        witness: &mut impl Witness,
    ) -> f32 {
        let label = layout.label().and_then(|at| self.get(at));
        let field = |i: usize| layout.column(i).and_then(|at| self.get(at));
        encoder.encode(field, label, row, witness)
    }
}

/// Values of one column, as text.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    spans: Vec<Option<(usize, usize)>>,
}

impl Batch {
    /// Decodes up to `count` values; says how many there were.
    fn fill(
        &mut self,
        reader: &mut ColumnReader,
        unsigned: bool,
        days: Option<(i64, Zone)>,
        count: usize,
    ) -> Result<usize, ParquetError> {
        self.text.clear();
        self.spans.clear();
        match reader {
            ColumnReader::Int32ColumnReader(r) if let Some(of) = days => {
                self.read(r, count, |x, out| write_day(out, i64::from(*x), of))
            }
            ColumnReader::Int64ColumnReader(r) if let Some(of) = days => {
                self.read(r, count, |x, out| write_day(out, *x, of))
            }
            ColumnReader::BoolColumnReader(r) => self.read(r, count, |x, out| write_number(out, x)),
            ColumnReader::Int32ColumnReader(r) if unsigned => {
                self.read(r, count, |x, out| write_number(out, x.cast_unsigned()))
            }
            ColumnReader::Int64ColumnReader(r) if unsigned => {
                self.read(r, count, |x, out| write_number(out, x.cast_unsigned()))
            }
            ColumnReader::Int32ColumnReader(r) => {
                self.read(r, count, |x, out| write_number(out, x))
            }
            ColumnReader::Int64ColumnReader(r) => {
                self.read(r, count, |x, out| write_number(out, x))
            }
            ColumnReader::FloatColumnReader(r) => {
                self.read(r, count, |x, out| write_single(out, *x))
            }
            ColumnReader::DoubleColumnReader(r) => {
                self.read(r, count, |x, out| write_double(out, *x))
            }
            ColumnReader::ByteArrayColumnReader(r) => {
                self.read(r, count, |x, out| out.extend_from_slice(x.data()))
            }
            // Refused before the first record.
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                Ok(0)
            }
        }
    }

    fn read<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        count: usize,
        write: impl Fn(&T::T, &mut Vec<u8>),
    ) -> Result<usize, ParquetError> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let mut records = 0;
        while records < count {
            levels.clear();
            values.clear();
            let wanted = count - records;
            let (read, ..) = reader.read_records(wanted, Some(&mut levels), None, &mut values)?;
            if read == 0 {
                break;
            }
            let mut values = values.iter();
            for at in 0..read {
                // A column that is never null has no levels.
                let null = levels.get(at).is_some_and(|&level| level == 0);
                let value = if null { None } else { values.next() };
                self.spans.push(value.and_then(|value| {
                    let start = self.text.len();
                    write(value, &mut self.text);
                    // One dictionary entry may stand for a whole batch, so that copies of a long one would
                    // fill the memory.
                    if self.text.len() - start > MAX_LINE_BYTES {
                        self.text.truncate(start);
                        return None;
                    }
                    Some((start, self.text.len()))
                }));
            }
            records += read;
        }
        Ok(records)
    }
}

/// Writes the local date of an instant: a number of units since 1970-01-01, so many units to a day.
fn write_day(out: &mut Vec<u8>, time: i64, (units, zone): (i64, Zone)) {
    let local = match zone {
        Zone::Fixed(0) => time,
        _ => {
            let per_second = units / SECONDS;
            let ahead = zone.seconds_ahead(time.div_euclid(per_second));
            time.saturating_add(ahead * per_second)
        }
    };
    out.extend_from_slice(date::text(local.div_euclid(units)).as_bytes());
}

/// How a column is read: one value or null per record, of a type that has a text. Otherwise what it is.
fn kind(column: &ColumnDescriptor) -> Result<Kind, &'static str> {
    if column.max_rep_level() > 0 || column.path().parts().len() > 1 {
        return Err("nested (a list, a map or a struct)");
    }
    let decimal = column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }));
    if decimal {
        return Err("decimal");
    }
    match (column.physical_type(), column.converted_type()) {
        (Physical::INT96, _) => Err("a time of 96 bits"),
        (Physical::FIXED_LEN_BYTE_ARRAY, _) => Err("of bytes of a fixed length"),
        _ if let Some(units) = units_per_day(column) => Ok(Kind::Date(units)),
        (
            Physical::INT32 | Physical::INT64,
            ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64,
        ) => Ok(Kind::Unsigned),
        _ => Ok(Kind::Plain),
    }
}

/// How many units of a column of dates or times are a day.
fn units_per_day(column: &ColumnDescriptor) -> Option<i64> {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Date), _) | (_, ConvertedType::DATE) => Some(1),
        (Some(LogicalType::Timestamp(time)), _) => Some(match time.unit {
            TimeUnit::MILLIS => 1_000 * SECONDS,
            TimeUnit::MICROS => 1_000_000 * SECONDS,
            TimeUnit::NANOS => 1_000_000_000 * SECONDS,
        }),
        (_, ConvertedType::TIMESTAMP_MILLIS) => Some(1_000 * SECONDS),
        (_, ConvertedType::TIMESTAMP_MICROS) => Some(1_000_000 * SECONDS),
        _ => None,
    }
}

/// What the numbers of a column of dates or times are.
fn time(column: &ColumnDescriptor) -> Option<&'static str> {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(time)), _) if time.is_adjusted_to_u_t_c => Some(
            "times in the file, of which the day counts, in the zone that the file names for the column, otherwise in UTC",
        ),
        (Some(LogicalType::Timestamp { .. }), _)
        | (_, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS) => {
            Some("times in the file, of which the day counts")
        }
        (Some(LogicalType::Time { .. }), _)
        | (_, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS) => {
            Some("times of day in the file, read as its units (ms, us or ns) since midnight")
        }
        _ => None,
    }
}

/// The library checks most of what it reads and panics on some of the rest: a damaged file must be
/// an error all the same. `Err(None)` stands for a panic.
fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Option<ParquetError>> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(Some),
        Err(_) => Err(None),
    }
}
