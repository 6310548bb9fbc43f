//! Frames in memory: columns of values to the same fields that a line of CSV would hold.

use dpopt_linalg::Design;

use super::check::{CheckReport, Collector};
use super::encode::Encoder;
use super::error::TabularError;
use super::header::Layout;
use super::reader::EncodedTable;
use super::schema::Schema;
use super::typed::Wording;
use super::value::{ValueType, write_double, write_number, write_single};
use super::witness::{Silent, Witness};
use crate::formats::MAX_LINE_BYTES;

/// The values of a column, one for each record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values<'a> {
    /// Numbers of double precision; a NaN is a missing field.
    Doubles(&'a [f64]),
    /// Numbers of single precision, likewise.
    Singles(&'a [f32]),
    /// Whole numbers.
    Integers(&'a [i64]),
    /// Whole numbers without a sign.
    Unsigned(&'a [u64]),
    /// Truth values.
    Truths(&'a [bool]),
    /// Values of one type, each by the text that it would be in a CSV file; none is a missing
    /// field.
    Typed(ValueType, Vec<Option<&'a [u8]>>),
    /// Values that each have a type of their own, and a text likewise. Types are those of records
    /// here, so that none is an error.
    Objects(Vec<Option<(ValueType, &'a [u8])>>),
}

impl Values<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Doubles(values) => values.len(),
            Self::Singles(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Unsigned(values) => values.len(),
            Self::Truths(values) => values.len(),
            Self::Typed(_, values) => values.len(),
            Self::Objects(values) => values.len(),
        }
    }

    /// The type of all values, where they have the same one.
    fn value_type(&self) -> Option<ValueType> {
        match self {
            Self::Doubles(_) | Self::Singles(_) => Some(ValueType::Real),
            Self::Integers(_) | Self::Unsigned(_) => Some(ValueType::Whole),
            Self::Truths(_) => Some(ValueType::Truth),
            Self::Typed(of, _) => Some(*of),
            Self::Objects(_) => None,
        }
    }

    /// Writes a value as its text, and returns its type; none where it is missing.
    fn write(&self, record: usize, out: &mut Vec<u8>) -> Option<ValueType> {
        match self {
            Self::Doubles(of) => write_double(out, *of.get(record).filter(|x| !x.is_nan())?),
            Self::Singles(of) => write_single(out, *of.get(record).filter(|x| !x.is_nan())?),
            Self::Integers(of) => write_number(out, of.get(record)?),
            Self::Unsigned(of) => write_number(out, of.get(record)?),
            Self::Truths(of) => write_number(out, of.get(record)?),
            Self::Typed(_, of) => out.extend_from_slice(fits((*of.get(record)?)?)?),
            Self::Objects(of) => {
                let (each, text) = (*of.get(record)?)?;
                out.extend_from_slice(fits(text)?);
                return Some(each);
            }
        }
        self.value_type()
    }
}

/// A text that a line of CSV could hold.
fn fits(text: &[u8]) -> Option<&[u8]> {
    (text.len() <= MAX_LINE_BYTES).then_some(text)
}

/// Encodes a frame through a public schema; `origin` names it in errors. With `need_label` it has a label, for training or scoring;
/// otherwise labels mean nothing.
///
/// A value becomes the text that it would be in a CSV file, and is encoded as [`super::read_table`]
/// encodes that: a number in the shortest form that reads back to it, a truth value as `true` or
/// `false`, a day as `YYYY-MM-DD`, a text as its bytes. Where the schema lists the same number,
/// truth value or day in another form (`1.0`, `True`, `2020/01/31`), it becomes that one. A column
/// that is shorter than the longest has missing fields below its end.
///
/// # Privacy
/// As for [`super::read_table`]: one record, one row, and no error that depends on what a record holds.
///
/// # Errors
/// [`TabularError`] for the names of the columns, and for a type of which the schema takes no
/// value; never for a record.
pub fn encode_frame(
    columns: &[(String, Values<'_>)],
    schema: &Schema,
    need_label: bool,
    origin: &str,
) -> Result<EncodedTable, TabularError> {
    encode_before(&mut Silent, columns, schema, need_label, origin)
}

/// Compares a frame with a schema, as [`super::check`] compares a file; the first record is on line 2. **Not private.**
///
/// # Errors
/// As for [`encode_frame`].
pub fn check_frame(
    columns: &[(String, Values<'_>)],
    schema: &Schema,
    origin: &str,
) -> Result<CheckReport, TabularError> {
    let mut seen = Collector::new();
    let table = encode_before(&mut seen, columns, schema, true, origin)?;
    let positives = table.labels.iter().filter(|label| **label > 0.0).count();
    Ok(seen.report(origin, schema, table.labels.len() as u64, positives as u64))
}

fn encode_before(
    witness: &mut impl Witness,
    columns: &[(String, Values<'_>)],
    schema: &Schema,
    need_label: bool,
    origin: &str,
) -> Result<EncodedTable, TabularError> {
    let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    let layout = Layout::from_names(&names, schema, need_label, origin)?;
    let of = |at: usize| match columns.get(at) {
        Some((name, values)) => (name.as_str(), values.value_type()),
        None => ("", None),
    };
    let wordings = Wording::all(&layout, (schema, need_label), of, origin)?;
    let records = columns.iter().map(|(_, of)| of.len()).max().unwrap_or(0);
    let encoder = Encoder::new(schema);
    let mut design = Design::sparse(schema.dim())?;
    let mut labels = Vec::with_capacity(records);
    // Where each field of the schema's columns is in the text of a record, the label's last.
    let places: Vec<Option<usize>> = (0..schema.columns().len())
        .map(|column| layout.column(column))
        .chain([layout.label()])
        .collect();
    let (mut text, mut spans, mut row) = (Vec::new(), Vec::new(), Vec::new());
    for record in 0..records {
        text.clear();
        spans.clear();
        for place in &places {
            let start = text.len();
            let column = place.and_then(|at| columns.get(at).zip(wordings.get(at)));
            spans.push(column.and_then(|((_, values), wording)| {
                let of = values.write(record, &mut text)?;
                Some((start, text.len(), wording, of))
            }));
        }
        let field = |at: usize| {
            let (start, end, wording, of) = spans.get(at).copied().flatten()?;
            Some(wording.listed(of, text.get(start..end)?.trim_ascii()))
        };
        let blank = witness.blank();
        let field = |at: usize| field(at).or(blank);
        let label = field(schema.columns().len());
        witness.next_record();
        labels.push(encoder.encode(field, label, &mut row, witness));
        design.push_row(&row)?;
    }
    Ok(EncodedTable {
        design,
        labels,
        row_norm: schema.row_norm(),
    })
}
