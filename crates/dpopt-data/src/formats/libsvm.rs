//! LIBSVM: sparse rows of text, a label and `index:value` pairs on each line.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

use dpopt_linalg::{Design, DesignError};

use super::array::{MAX_COLUMNS, saturated};
use super::error::FormatError;
use super::lines::{Line, Lines};
use super::stream::open;

/// Problems listed per kind; the rest are counted.
const LISTED_PER_KIND: usize = 10;

/// The index of the first column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstIndex {
    /// As scikit-learn writes files unless it is asked otherwise.
    Zero = 0,
    /// As the format says.
    #[default]
    One = 1,
}

/// Sparse rows with labels. They are private records: nothing here prints them.
#[non_exhaustive]
pub struct LabelledRows {
    /// One row per line.
    ///
    /// # Shapes
    /// (n, d), d as declared.
    pub design: Design,
    /// One label per line; not a number where the line has none that can be read.
    pub labels: Vec<f32>,
}

/// What is wrong with a line, as [`check_libsvm`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LibsvmProblem {
    /// No number stands first.
    BadLabel,
    /// Something that is not `index:value` with a whole index and a finite value of single precision.
    BadPair,
    /// An index that does not exceed the one before it.
    Unsorted,
    /// An index above the declared number of columns. Only this entry is dropped.
    BeyondColumns,
    /// An index of 0 where indices start at 1. Only this entry is dropped.
    ZeroIndex,
    /// A line above 1 MiB.
    OverlongLine,
}

impl fmt::Display for LibsvmProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadLabel => "no label that is a number, a record that contributes nothing",
            Self::BadPair => "not index:value, a record that contributes nothing",
            Self::Unsorted => "indices do not increase, a record that contributes nothing",
            Self::BeyondColumns => "index above the declared columns, the entry is dropped",
            Self::ZeroIndex => {
                "index 0, the entry is dropped: the file counts from 0, which `zero_based = true` in [array] reads"
            }
            Self::OverlongLine => "line above 1 MiB, a record that contributes nothing",
        })
    }
}

/// What [`check_libsvm`] found. **Not private**: it shows and counts records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibsvmReport {
    /// File, or the name given to a stream.
    pub path: String,
    /// Number of records.
    pub records: u64,
    /// Largest index of a pair that can be read; 0 for none.
    pub largest_index: u64,
    /// Lines with each kind of problem.
    pub counts: BTreeMap<LibsvmProblem, u64>,
    /// The first lines of each kind, from 1.
    pub listed: BTreeMap<LibsvmProblem, Vec<u64>>,
}

impl LibsvmReport {
    /// Whether every line is read as it stands.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }
}

impl fmt::Display for LibsvmReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            records,
            largest_index,
            ..
        } = self;
        writeln!(
            f,
            "{path}: {records} records, largest index {largest_index}"
        )?;
        writeln!(f, "(this report reads the records; it is not private)")?;
        if self.counts.is_empty() {
            return writeln!(f, "every line can be read");
        }
        for (problem, count) in &self.counts {
            writeln!(f, "{problem}: {count}")?;
            for line in self.listed.get(problem).into_iter().flatten() {
                writeln!(f, "    line {line}")?;
            }
        }
        Ok(())
    }
}

/// Reads a LIBSVM file, plain or gzip, into memory.
///
/// # Formula
/// A line is a record: `label index:value index:value ...`, separated by white space, indices
/// increasing from the `first` one, `qid:k` before the first of them skipped, and whatever follows
/// a `#`. A feature with index j goes to column j - first.
///
/// # Privacy
/// `columns` is public and never read off the records: the largest index that occurs may be one
/// record's. A line gives one row whatever it holds, and a function of that line and `columns`.
/// What can't be read is a row of zeros without a label, which contributes nothing
/// ([`check_libsvm`] lists such lines, for public data).
///
/// # Errors
/// [`FormatError`] for the file and the number of columns; never for a record.
///
/// # References
/// C.-C. Chang, C.-J. Lin, *LIBSVM: a library for support vector machines*, README.
pub fn read_libsvm(
    path: impl AsRef<Path>,
    first: FirstIndex,
    columns: usize,
) -> Result<LabelledRows, FormatError> {
    let (file, name) = open(path.as_ref())?;
    read_libsvm_from(file, &name, first, columns)
}

/// As [`read_libsvm`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`read_libsvm`].
pub fn read_libsvm_from(
    source: impl Read,
    origin: &str,
    first: FirstIndex,
    columns: usize,
) -> Result<LabelledRows, FormatError> {
    read_edited(source, origin, (first, columns), columns, |_| {})
}

/// As [`read_libsvm_from`], with rows of `width` columns and what `edit` makes of those that could
/// be read.
pub(crate) fn read_edited(
    source: impl Read,
    origin: &str,
    columns: (FirstIndex, usize),
    width: usize,
    edit: impl FnMut(&mut Vec<(u32, f32)>),
) -> Result<LabelledRows, FormatError> {
    let design = |source: DesignError| FormatError::Design {
        path: origin.to_owned(),
        source,
    };
    let mut rows = LabelledRows {
        design: Design::sparse(width).map_err(design)?,
        labels: Vec::new(),
    };
    visit_edited(source, origin, columns, edit, |row, label| {
        rows.labels.push(label);
        // Indices increase and are in range whatever the line, so this never fails because of one.
        rows.design.push_row(row).map_err(design)
    })?;
    Ok(rows)
}

/// Calls `visit` with what `edit` makes of each row, and its label.
pub(crate) fn visit_edited<E: From<FormatError>>(
    source: impl Read,
    origin: &str,
    (first, columns): (FirstIndex, usize),
    mut edit: impl FnMut(&mut Vec<(u32, f32)>),
    mut visit: impl FnMut(&[(u32, f32)], f32) -> Result<(), E>,
) -> Result<(), E> {
    if columns > MAX_COLUMNS {
        return Err(E::from(FormatError::TooManyColumns {
            path: origin.to_owned(),
            columns: columns as u64,
            limit: MAX_COLUMNS as u64,
        }));
    }
    let mut row = Row::default();
    let mut lines = Lines::new(source, origin).map_err(FormatError::from)?;
    while let Some(line) = lines.next_line().map_err(FormatError::from)? {
        let label = row.read(line, first, columns as u64);
        if row.spoilt.is_none() {
            edit(&mut row.entries);
        }
        visit(&row.entries, label)?;
    }
    Ok(())
}

/// Lists the lines of a file that [`read_libsvm`] can't read. **Not private**: for public or
/// synthetic data, or for the eyes of those who may see the records.
///
/// # Errors
/// [`FormatError`] for the file.
pub fn check_libsvm(
    path: impl AsRef<Path>,
    first: FirstIndex,
    columns: usize,
) -> Result<LibsvmReport, FormatError> {
    let (file, name) = open(path.as_ref())?;
    check_libsvm_from(file, &name, first, columns)
}

/// As [`check_libsvm`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`check_libsvm`].
pub fn check_libsvm_from(
    source: impl Read,
    origin: &str,
    first: FirstIndex,
    columns: usize,
) -> Result<LibsvmReport, FormatError> {
    let mut report = LibsvmReport {
        path: origin.to_owned(),
        records: 0,
        largest_index: 0,
        counts: BTreeMap::new(),
        listed: BTreeMap::new(),
    };
    let mut row = Row::default();
    let mut lines = Lines::new(source, origin)?;
    while let Some(line) = lines.next_line()? {
        report.records += 1;
        row.read(line, first, columns as u64);
        report.largest_index = report.largest_index.max(row.largest);
        for &problem in [row.spoilt, row.beyond, row.zero].iter().flatten() {
            *report.counts.entry(problem).or_insert(0) += 1;
            let listed = report.listed.entry(problem).or_default();
            if listed.len() < LISTED_PER_KIND {
                listed.push(report.records);
            }
        }
    }
    Ok(report)
}

/// One line, read.
#[derive(Default)]
struct Row {
    entries: Vec<(u32, f32)>,
    /// Largest index, dropped ones too.
    largest: u64,
    /// Why the line as a whole is not read.
    spoilt: Option<LibsvmProblem>,
    /// Whether entries were dropped: above the columns, and of index 0.
    beyond: Option<LibsvmProblem>,
    zero: Option<LibsvmProblem>,
}

impl Row {
    /// Reads a line and returns its label. A line that can't be read leaves no entries and has no
    /// label. The reader behaves the same whoever looks at what is noted.
    fn read(&mut self, line: Line<'_>, first: FirstIndex, columns: u64) -> f32 {
        self.entries.clear();
        (self.largest, self.spoilt) = (0, None);
        (self.beyond, self.zero) = (None, None);
        match self.parse(line, first as u64, columns) {
            Ok(label) => label,
            Err(problem) => {
                self.spoilt = Some(problem);
                self.entries.clear();
                f32::NAN
            }
        }
    }

    fn parse(&mut self, line: Line<'_>, first: u64, columns: u64) -> Result<f32, LibsvmProblem> {
        let Line::Text(text) = line else {
            return Err(LibsvmProblem::OverlongLine);
        };
        let end = text.iter().position(|&byte| byte == b'#');
        let text = &text[..end.unwrap_or(text.len())];
        let mut words = text
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let label = words.next().and_then(label_number);
        let label = label.ok_or(LibsvmProblem::BadLabel)?;
        let mut last = None;
        for word in words {
            let (index, value) = split(word).ok_or(LibsvmProblem::BadPair)?;
            if index == b"qid" && last.is_none() {
                continue;
            }
            let index = whole(index).ok_or(LibsvmProblem::BadPair)?;
            let value = number(value).ok_or(LibsvmProblem::BadPair)?;
            if last.is_some_and(|last| index <= last) {
                return Err(LibsvmProblem::Unsorted);
            }
            (last, self.largest) = (Some(index), index);
            match index.checked_sub(first) {
                None => self.zero = Some(LibsvmProblem::ZeroIndex),
                Some(column) if column >= columns => {
                    self.beyond = Some(LibsvmProblem::BeyondColumns);
                }
                // Columns are far below 2^32.
                Some(column) if value != 0.0 => self.entries.push((column as u32, value)),
                Some(_) => {}
            }
        }
        Ok(label)
    }
}

fn split(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = word.iter().position(|&byte| byte == b':')?;
    Some((&word[..colon], &word[colon + 1..]))
}

fn whole(text: &[u8]) -> Option<u64> {
    // A sign is none of an index.
    let digits = text.iter().all(u8::is_ascii_digit);
    digits
        .then(|| std::str::from_utf8(text).ok()?.parse().ok())
        .flatten()
}

/// A finite number in single precision; one beyond its range is the largest of its sign.
fn label_number(text: &[u8]) -> Option<f32> {
    number(text).or_else(|| {
        let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        number.is_finite().then(|| saturated(number))
    })
}

/// A finite number of single precision.
fn number(text: &[u8]) -> Option<f32> {
    let number: f32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}
