//! What the encoder tells whoever watches it.

use std::fmt;

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
            Self::OverlongLine => "line above 1 MiB, a record of defaults",
            Self::OpenQuote => "quote left open, ended with its line",
            Self::InvalidUtf8 => "not UTF-8",
            Self::Rescaled => "row longer than row_norm, shortened",
        })
    }
}
