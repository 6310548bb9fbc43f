//! What can be said about a file of numbers: its structure, never a record.

use std::io;

use dpopt_linalg::{DesignError, DesignFileError};

use super::stream::{Limits, StreamError};

/// A file of numbers could not be used. No variant depends on what a record holds.
///
/// Lengths of the file are not in here either: where the number of records is private, they tell
/// it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A file is missing or can't be read.
    #[error("can't read {path}: {source}")]
    Read {
        /// File, or the name given to a stream.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The compressed stream is damaged or cut short.
    #[error("{path}: the gzip stream is damaged or cut short: {source}")]
    Gzip {
        /// File, or the name given to a stream.
        path: String,
        /// What the decompressor said.
        #[source]
        source: io::Error,
    },
    /// The compressed stream expands further than data do.
    #[error(
        "{path}: the gzip stream expands beyond the limits ({} to 1 after {} bytes, {} bytes in all)",
        limits.ratio, limits.ratio_from, limits.unpacked
    )]
    Expands {
        /// File, or the name given to a stream.
        path: String,
        /// The limits.
        limits: Limits,
    },
    /// A gzip stream inside of a gzip stream.
    #[error(
        "{path}: a gzip stream inside of a gzip stream; unpack it once (`gzip -dc FILE > OUT`)"
    )]
    GzipTwice {
        /// File, or the name given to a stream.
        path: String,
    },
    /// The first bytes are not those of the format.
    #[error("{path}: not {format} file{}", match found {
        Some(found) => format!(" but {found}"),
        None => ", by its first bytes".to_owned(),
    })]
    WrongMagic {
        /// File, or the name given to a stream.
        path: String,
        /// The format, with its article.
        format: &'static str,
        /// What it is, where its first bytes say so.
        found: Option<&'static str>,
    },
    /// The header is cut short, or is none.
    #[error("{path}: {problem}")]
    BadHeader {
        /// File, or the name given to a stream.
        path: String,
        /// What is wrong with it.
        problem: HeaderProblem,
    },
    /// More columns than a record may have.
    #[error("{path}: {columns} columns, at most {limit} can be read")]
    TooManyColumns {
        /// File, or the name given to a stream.
        path: String,
        /// The number of columns in the header, `u64::MAX` where it is above that.
        columns: u64,
        /// The largest possible.
        limit: u64,
    },
    /// The file ends before the last of the entries that its header states.
    #[error("{path}: the file is cut short: it ends before the last entry that its header states")]
    Truncated {
        /// File, or the name given to a stream.
        path: String,
    },
    /// The file goes on after the last of the entries that its header states.
    #[error("{path}: the file goes on after the last entry that its header states")]
    Trailing {
        /// File, or the name given to a stream.
        path: String,
    },
    /// More entries than memory can address.
    #[error("{path}: the shape in the header has more entries than memory can address")]
    TooLarge {
        /// File, or the name given to a stream.
        path: String,
    },
    /// A list of labels is needed, and the array has columns.
    #[error("{path}: labels need an array of one column, this one has {columns}")]
    NotLabels {
        /// File, or the name given to a stream.
        path: String,
        /// Its number of columns.
        columns: usize,
    },
    /// Rows can't be left in this file.
    #[error("{path}: rows can't stay in this file: {problem}; read it into memory")]
    NotInPlace {
        /// The file.
        path: String,
        /// Why.
        problem: &'static str,
    },
    /// Rows can't be taken one after the other.
    #[error(
        "{path}: it is in Fortran order, column after column, and can't be converted row by row \
         (numpy.ascontiguousarray turns it)"
    )]
    ColumnOrder {
        /// The file.
        path: String,
    },
    /// A matrix that can't exist.
    #[error("{path}: {source}")]
    Design {
        /// File, or the name given to a stream.
        path: String,
        /// What is wrong with it.
        #[source]
        source: DesignError,
    },
    /// A file of rows that can't be opened.
    #[error(transparent)]
    Rows(DesignFileError),
}

/// What is wrong with the header of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderProblem {
    /// The file ends inside of the header.
    #[error("the file ends inside of its header")]
    CutShort,
    /// A version that is not known.
    #[error("version {0}.{1} of the format is unknown")]
    Version(u8, u8),
    /// The header says that it is longer than any header.
    #[error("the header is {bytes} bytes long, at most {limit} are read")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The longest that is read.
        limit: u64,
    },
    /// The text of the header can't be understood.
    #[error("byte {at} of the header: {expected} is expected there")]
    Syntax {
        /// Position in the text of the header.
        at: usize,
        /// What is expected.
        expected: &'static str,
    },
    /// A key is missing.
    #[error("the header lacks {0:?}")]
    Lacks(&'static str),
    /// Entries of a type that is not read.
    #[error(
        "entries of type {0:?} are not read: floats of 4 or 8 bytes, integers of 1 to 8, and booleans are"
    )]
    EntryType(String),
    /// Fortran order in more than two dimensions, where a row is no run of columns.
    #[error("Fortran order is read in 2 dimensions, not in {0} (numpy.ascontiguousarray turns it)")]
    FortranOrder(usize),
    /// A number of dimensions that is not read.
    #[error("{0} dimensions; 1 (labels) to {limit} are read", limit = super::array::MAX_DIMENSIONS)]
    Dimensions(usize),
}

impl From<StreamError> for FormatError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Read { path, source } => Self::Read { path, source },
            StreamError::Gzip { path, source } => Self::Gzip { path, source },
            StreamError::Expands { path, limits } => Self::Expands { path, limits },
            StreamError::Twice { path } => Self::GzipTwice { path },
        }
    }
}

impl From<DesignFileError> for FormatError {
    fn from(error: DesignFileError) -> Self {
        match error {
            DesignFileError::TooShort { path, .. } => Self::Truncated { path },
            DesignFileError::TooLarge { path, .. } => Self::TooLarge { path },
            other => Self::Rows(other),
        }
    }
}
