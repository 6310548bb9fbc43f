//! Files of numbers: NPY, IDX, LIBSVM, and what every reader here shares.
//!
//! # What may be an error
//! A file has a *structure* (magic number, header, shape, length, compression) and *records*. The
//! structure is the owner's own and is checked when the file is opened: a [`FormatError`] names
//! what is wrong with it. What a record holds is never an error, a message or a count: in the
//! binary formats every bit pattern is a number, and one that is not finite makes its record
//! contribute nothing; in LIBSVM a line that can't be read is a record that contributes nothing.
//! `docs/tables.md` has the rules and the argument, format by format.
//!
//! # Bounds
//! Headers are limited before they are read, lengths multiplied with overflow checks, entries
//! read in pieces so that memory follows the bytes that are there and not the header's promise,
//! and a compressed stream is unpacked up to [`Limits`].
//!
//! # In memory or not
//! [`read_npy`] and [`read_idx`] read into memory. [`npy_rows`] and [`idx_rows`] leave the entries
//! in the file, from which a [`dpopt_linalg::DesignFile`] reads blocks: data larger than memory. Every other format can be
//! converted to a [`dpopt_linalg::RowFile`] in one pass.

mod array;
mod error;
mod idx;
mod libsvm;
pub(crate) mod lines;
mod npy;
pub(crate) mod stream;

pub use array::{Array, MAX_COLUMNS};
pub(crate) use array::{ArrayRows, saturated};
pub use error::{FormatError, HeaderProblem};
pub(crate) use idx::idx_stream;
pub use idx::{idx_rows, read_idx, read_idx_from};
pub use libsvm::{
    FirstIndex, LabelledRows, LibsvmProblem, LibsvmReport, check_libsvm, check_libsvm_from,
    read_libsvm, read_libsvm_from,
};
pub(crate) use libsvm::{read_edited, visit_edited};
pub use lines::MAX_LINE_BYTES;
pub(crate) use npy::npy_stream;
pub use npy::{npy_rows, read_npy, read_npy_from};
pub use stream::Limits;

use std::path::Path;

/// A kind of data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A table of text with a header.
    Csv,
    /// An array of NumPy.
    Npy,
    /// Sparse rows of text.
    Libsvm,
    /// The array format of MNIST.
    Idx,
    /// A table in columns.
    Parquet,
    /// Rows made for reading in blocks (see [`dpopt_linalg::RowFile`]).
    Rows,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 6] = [
        Format::Csv,
        Format::Npy,
        Format::Libsvm,
        Format::Idx,
        Format::Parquet,
        Format::Rows,
    ];

    /// The format that a file's name stands for; `.gz` at its end is skipped, and a name that says
    /// nothing stands for CSV.
    #[must_use]
    pub fn of_name(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if ends(&[".npy"]) {
            Format::Npy
        } else if ends(&[".libsvm", ".svm", ".svmlight"]) {
            Format::Libsvm
        } else if ends(&[".idx", "-ubyte", ".idx1", ".idx2", ".idx3"]) {
            Format::Idx
        } else if ends(&[".parquet", ".pq"]) {
            Format::Parquet
        } else if ends(&[".dpr"]) {
            Format::Rows
        } else {
            Format::Csv
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Csv => "csv",
            Format::Npy => "npy",
            Format::Libsvm => "libsvm",
            Format::Idx => "idx",
            Format::Parquet => "parquet",
            Format::Rows => "rows",
        })
    }
}

/// First bytes of files that are read as another format or not at all, and what to say of them.
const BINARY: [(&[u8], &str); 9] = [
    (
        b"PAR1",
        "a Parquet file by its first bytes, read as another format (name its format)",
    ),
    (
        b"\x93NUM",
        "an NPY file by its first bytes, read as another format (name its format)",
    ),
    (
        b"\x89DPR",
        "a file of rows by its first bytes, read as another format (name its format)",
    ),
    (
        b"PK\x03\x04",
        "a zip archive by its first bytes: save a spreadsheet as CSV, and each array of an NPZ file by itself \
         (`numpy.save(\"X.npy\", numpy.load(\"FILE.npz\")[\"X\"])`)",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed with zstd by its first bytes; gzip is read",
    ),
    (
        b"BZh",
        "compressed with bzip2 by its first bytes; gzip is read",
    ),
    (
        b"\xfd7zX",
        "compressed with xz by its first bytes; gzip is read",
    ),
    (
        b"\xff\xfe",
        "UTF-16 text by its first bytes; UTF-8 is needed",
    ),
    (
        b"\xfe\xff",
        "UTF-16 text by its first bytes; UTF-8 is needed",
    ),
];

/// What a file is by its first bytes, if it is one of those.
pub(crate) fn binary(start: &[u8]) -> Option<&'static str> {
    let found = BINARY.iter().find(|(magic, _)| start.starts_with(magic));
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn names_tell_the_format() {
        for (name, format) in [
            ("a.csv", Format::Csv),
            ("a.csv.gz", Format::Csv),
            ("data", Format::Csv),
            ("X.NPY", Format::Npy),
            ("x.npy.gz", Format::Npy),
            ("a9a.libsvm", Format::Libsvm),
            ("a.svm", Format::Libsvm),
            ("train-images-idx3-ubyte.gz", Format::Idx),
            ("t.parquet", Format::Parquet),
            ("t.dpr", Format::Rows),
        ] {
            assert_eq!(Format::of_name(name.as_ref()), format, "{name}");
        }
    }
}
