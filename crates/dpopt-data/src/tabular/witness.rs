//! What the encoder tells whoever watches it.

use std::collections::BTreeMap;
use std::fmt;

use super::line::Fields;
use crate::formats::lines::{Line, MAX_LINE_BYTES};

/// Where a problem is within a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Record,
    /// Column of the schema, by number.
    Column(usize),
    Label,
}

/// Is told what the encoder replaced. The encoder behaves the same whoever watches, so a report
/// can't drift from the encoding.
pub(super) trait Witness {
    /// The next record begins.
    fn next_record(&mut self) {}
    /// What stands for a value that a frame has not; in a file of CSV it would be an empty field, which is noted.
    fn blank(&self) -> Option<&'static [u8]> {
        None
    }
    fn note(&mut self, place: Place, kind: ProblemKind, text: &[u8]);
}

/// Training's witness: it learns nothing.
pub(super) struct Silent;

impl Witness for Silent {
    #[inline(always)]
    fn note(&mut self, _: Place, _: ProblemKind, _: &[u8]) {}
}

/// Counts each kind.
#[derive(Default)]
pub(super) struct Counts(pub(super) BTreeMap<ProblemKind, u64>);

impl Witness for Counts {
    fn note(&mut self, _: Place, kind: ProblemKind, _: &[u8]) {
        *self.0.entry(kind).or_insert(0) += 1;
    }
}

/// Notes the problems of a line as a whole. `fields`: those of the line, up to one more than `width`, the fields of the header.
pub(super) fn note_shape(line: Line<'_>, fields: &Fields, width: usize, seen: &mut impl Witness) {
    let Line::Text(text) = line else {
        let what = format!("more than {MAX_LINE_BYTES} bytes");
        return seen.note(Place::Record, ProblemKind::OverlongLine, what.as_bytes());
    };
    let mut note = |kind| seen.note(Place::Record, kind, text);
    if fields.is_empty() {
        note(ProblemKind::BlankLine);
    } else if fields.len() != width && text.starts_with(b"#") {
        note(ProblemKind::Comment);
    } else if fields.len() < width {
        note(ProblemKind::TooFewFields);
    } else if fields.len() > width {
        note(ProblemKind::TooManyFields);
    }
    if fields.open_quote() {
        note(ProblemKind::OpenQuote);
    }
    if std::str::from_utf8(text).is_err() {
        note(ProblemKind::InvalidUtf8);
    }
}

/// A count of a kind of problem among so many records, in words, with a remedy where there is one.
pub(super) fn counted(kind: ProblemKind, count: u64, records: u64) -> String {
    let remedy = match kind {
        ProblemKind::TooManyFields if count == records => {
            " (in every record, as where a header leaves out the name of the first column, which shifts all names: in R \
             `write.csv(.., row.names = FALSE)` does not)"
        }
        ProblemKind::OpenQuote => {
            " (a line feed within a field makes two records of one: replace it by a space before the table is written)"
        }
        ProblemKind::InvalidUtf8 => " (`iconv -f latin1 -t utf-8` turns Latin-1 into UTF-8)",
        _ => "",
    };
    format!("{kind}: {count}{remedy}")
}

/// What a schema does not foresee about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Not a finite number where one is due; the default is used.
    NotANumber,
    /// Not a date where one is due; the default is used.
    NotADate,
    /// A number outside the range; it is clipped.
    OutOfRange,
    /// A category that the schema does not list; the `(other)` feature is used.
    UnlistedCategory,
    /// A label that is none of the values; the default is used.
    UnknownLabel,
    /// Fewer fields than the header; defaults are used.
    TooFewFields,
    /// More fields than the header; they are ignored.
    TooManyFields,
    /// A blank line: a record of defaults.
    BlankLine,
    /// A line that starts with `#` and has another number of fields than the header: it is a record all the same.
    Comment,
    /// More than [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES): a record of defaults.
    OverlongLine,
    /// A quote is not closed; it ends with the line.
    OpenQuote,
    /// Bytes that are not UTF-8; the fields that hold them match nothing.
    InvalidUtf8,
    /// The row was longer than the row norm and was rescaled.
    Rescaled,
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotANumber => "not a number, default used",
            Self::NotADate => "not a date, default used",
            Self::OutOfRange => "out of range, clipped",
            Self::UnlistedCategory => "unlisted category, counted as (other)",
            Self::UnknownLabel => "unknown label, default used",
            Self::TooFewFields => "too few fields, defaults used",
            Self::TooManyFields => "too many fields, extra ones ignored",
            Self::BlankLine => "blank line, a record of defaults",
            Self::Comment => "a comment, read as a record",
            Self::OverlongLine => "line above 1 MiB, a record of defaults",
            Self::OpenQuote => "quote left open, ended with its line",
            Self::InvalidUtf8 => "not UTF-8",
            Self::Rescaled => "row longer than row_norm, shortened",
        })
    }
}
