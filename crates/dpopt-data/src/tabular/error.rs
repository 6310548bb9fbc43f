//! What can be said aloud: errors about files, headers and schemas, never about records.

use std::io;

use dpopt_linalg::{DesignError, RowFileError};

use super::value::ValueType;
use crate::formats::stream::StreamError;
use crate::formats::{FormatError, Limits};
use crate::names::meant;

/// A table or schema could not be used. No variant depends on what a record holds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TabularError {
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
    /// The compressed stream expands further than a table does.
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
    /// Not a Parquet file, or one whose description of itself is damaged.
    #[cfg(feature = "parquet")]
    #[error("{path}: not a usable Parquet file: {message}")]
    Parquet {
        /// The file.
        path: String,
        /// What the library said about the file's footer.
        message: String,
    },
    /// The columns of a Parquet file are damaged. Where is not said: that is among the records.
    #[cfg(feature = "parquet")]
    #[error("{path}: the Parquet file is damaged")]
    DamagedParquet {
        /// The file.
        path: String,
    },
    /// A column of a type that has no text, and that the schema does not ignore.
    #[cfg(feature = "parquet")]
    #[error(
        "{path}: the column {column:?} is {kind}, which is not read; write it as plain numbers or texts, or list it \
         with kind = \"ignore\""
    )]
    ColumnType {
        /// The file.
        path: String,
        /// The column.
        column: String,
        /// What its values are.
        kind: &'static str,
    },
    /// A column of values of one type, of which the schema takes none. The type is that of the
    /// column, and of no record.
    #[error("{path}: the column {column:?} holds {of}, {problem}")]
    ValueType {
        /// File, or the name given to a frame.
        path: String,
        /// The column.
        column: String,
        /// The type of its values.
        of: ValueType,
        /// What the schema takes.
        problem: TypeProblem,
    },
    /// A column of times whose zone is unknown, so that their days are.
    #[cfg(feature = "parquet")]
    #[error(
        "{path}: the column {column:?} has times in the zone {zone:?}, which is unknown; write local dates \
         (pandas: `.dt.tz_localize(None)`), or list the column with kind = \"ignore\""
    )]
    Zone {
        /// The file.
        path: String,
        /// The column.
        column: String,
        /// The zone that the file names.
        zone: String,
    },
    /// A column that is compressed in a way that is not read.
    #[cfg(feature = "parquet")]
    #[error(
        "{path}: the column {column:?} is compressed with {codec}, which is not read; snappy, gzip, lz4 and zstd are"
    )]
    Codec {
        /// The file.
        path: String,
        /// The column.
        column: String,
        /// The compression.
        codec: &'static str,
    },
    /// A file of numbers.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A file of rows.
    #[error(transparent)]
    Rows(#[from] RowFileError),
    /// A file of rows that was not made from a table with a schema, or whose schema is for other rows.
    #[error("{path}: the file of rows has no schema that fits its rows")]
    NoSchema {
        /// The file.
        path: String,
    },
    /// A schema of an array and a table, or the other way round.
    #[error("{path}: {problem}")]
    SchemaKind {
        /// File, or the name given to a stream.
        path: String,
        /// What does not fit.
        problem: &'static str,
    },
    /// An array has another number of columns than its schema says.
    #[error("{path}: {columns} columns, the schema says {declared}")]
    ArrayWidth {
        /// The file.
        path: String,
        /// Columns of the file.
        columns: usize,
        /// Columns in the schema.
        declared: usize,
    },
    /// Rows and labels differ in number. The numbers themselves may be private.
    #[error("{path}: rows and labels differ in number")]
    LabelCount {
        /// The file of the labels.
        path: String,
    },
    /// A format needs labels in a file of their own.
    #[error("{path}: its labels are in a file of their own, which is needed too")]
    LabelsMissing {
        /// The file of the rows.
        path: String,
    },
    /// The first line is missing or blank.
    #[error("{path}, line 1: the header (one line of column names) is missing")]
    MissingHeader {
        /// File, or the name given to a stream.
        path: String,
    },
    /// The first line is not a usable header.
    #[error("{path}, line 1: {problem}")]
    BadHeader {
        /// File, or the name given to a stream.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The header is cut by something else than the schema says.
    #[error(
        "{path}, line 1: the names are separated by {}, and the schema says {}; write `delimiter = {:?}` above [label] in the \
         schema (numbers with decimal commas are not read; in Python `pandas.read_csv(FILE, sep={:?}, \
         decimal=\",\").to_csv(OUT, index=False)` writes them with points, between commas)",
        name_of(*.separator), name_of(*.delimiter), .separator.to_string(), .separator.to_string()
    )]
    Separator {
        /// File, or the name given to a stream.
        path: String,
        /// What stands between the names.
        separator: char,
        /// What the schema says.
        delimiter: char,
    },
    /// The schema names columns that the header does not have.
    #[error(
        "{path}, line 1: the header lacks columns of the schema: {}",
        beside(columns, near)
    )]
    MissingColumns {
        /// File, or the name given to a stream.
        path: String,
        /// The missing names.
        columns: Vec<String>,
        /// For each of the first of them the name in the header that is nearest to it, of those that the schema does not have.
        near: Vec<Option<String>>,
    },
    /// The header, which has all columns of the schema, names a column twice.
    #[error("{path}, line 1: the header names the column {column:?} twice")]
    DuplicateColumn {
        /// File, or the name given to a stream.
        path: String,
        /// The name.
        column: String,
    },
    /// The header has columns that the schema does not name.
    #[error(
        "{path}, line 1: the schema does not name these columns: {} \
         (list them with kind = \"ignore\", or set ignore_unlisted = true){}",
        ten_of(columns),
        if columns.iter().any(String::is_empty) {
            "; the header has an empty name, as one that ends with a delimiter has"
        } else {
            ""
        }
    )]
    UnlistedColumns {
        /// File, or the name given to a stream.
        path: String,
        /// The names.
        columns: Vec<String>,
    },
    /// A draft is to have a label that is no column.
    #[error(
        "{path}: there is no column {column:?}; the columns are {}",
        ten_of(columns)
    )]
    NoColumn {
        /// File, or the name given to a stream.
        path: String,
        /// What was asked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A draft is to have a label that looks like none.
    #[error(
        "{path}: the column {column:?} makes no label: it has {texts} different texts, and two values, up to 100 texts, or numbers \
         of a range are needed; name another one"
    )]
    LabelUnfit {
        /// File, or the name given to a stream.
        path: String,
        /// The column.
        column: String,
        /// Different texts that were counted.
        texts: usize,
    },
    /// The schema is not valid TOML, misses a key or has an unknown one.
    #[error("{path}, line {line}: {message}")]
    Toml {
        /// File or origin of the schema.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// A key of the schema has a value that can't be used.
    #[error("{path}: {key}: {problem}")]
    Schema {
        /// File or origin of the schema.
        path: String,
        /// The key, with its column.
        key: String,
        /// What is wrong with it.
        problem: SchemaProblem,
    },
    /// Records can't be grouped as asked.
    #[error(transparent)]
    Group(#[from] GroupProblem),
    /// The schema asks for a matrix that can't exist (2^32 - 1 columns or more).
    #[error(transparent)]
    Design(#[from] DesignError),
}

/// Up to ten names, each cut short where it is long, and how many more there are: for messages, whose length must not
/// grow with a table.
#[must_use]
pub fn ten_of<S: AsRef<str>>(names: &[S]) -> String {
    beside(names, &[])
}

/// The same, each of the first ones with the name that was meant by it.
fn beside<S: AsRef<str>>(names: &[S], near: &[Option<String>]) -> String {
    const MOST: usize = 10;
    let near = near.iter().map(|near| near.as_deref().map(shortened));
    let near = near.chain(std::iter::repeat(None));
    let shown = names.iter().zip(near).take(MOST);
    let shown = shown.map(|(name, near)| shortened(name.as_ref()) + &meant(near.as_deref()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The first sixty characters of a name, without control characters.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 60;
    let plain = |c: char| match c.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    let text: String = name.chars().take(LONGEST).map(plain).collect();
    if text.is_empty() {
        "\"\"".to_owned()
    } else if name.chars().nth(LONGEST).is_some() {
        text + "..."
    } else {
        text
    }
}

/// Why a schema takes no value of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeProblem {
    /// A column, or a label, of another kind.
    #[error("and the schema says kind = {0:?}")]
    Kind(&'static str),
    /// Listed values that the type can't hold.
    #[error("which can't be the values {} of the schema", ten_of(.0))]
    Values(
        /// In quotes.
        Vec<String>,
    ),
}

impl TypeProblem {
    pub(super) fn values(all: &[&str]) -> Self {
        Self::Values(all.iter().map(|text| format!("{text:?}")).collect())
    }
}

fn name_of(separator: char) -> String {
    match separator {
        ',' => "commas".to_owned(),
        ' ' => "spaces".to_owned(),
        ';' => "semicolons".to_owned(),
        '\t' => "tabs".to_owned(),
        '|' => "bars (|)".to_owned(),
        other => format!("{other:?}"),
    }
}

impl From<StreamError> for TabularError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Read { path, source } => Self::Read { path, source },
            StreamError::Gzip { path, source } => Self::Gzip { path, source },
            StreamError::Expands { path, limits } => Self::Expands { path, limits },
            StreamError::Twice { path } => Self::GzipTwice { path },
        }
    }
}

/// What is wrong with a column that records are to be grouped by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupProblem {
    /// Not in the schema.
    #[error("the schema has no column {0:?}{near}", near = meant(.1.as_deref()))]
    Missing(String, Option<String>),
    /// Not a category.
    #[error("the column {0:?} is no category of the schema, and groups are values that are listed")]
    NotCategory(String),
    /// Named twice.
    #[error("the column {0:?} is named twice")]
    Twice(String),
    /// The label is a number, or has more than two values.
    #[error("the label {0:?} has not two values, and cells are groups of a label of two values")]
    NotClasses(String),
    /// More groups than can be listed.
    #[error("the columns have {groups} groups, at most {limit} are possible")]
    TooMany {
        /// How many there would be.
        groups: usize,
        /// The largest possible.
        limit: usize,
    },
    /// No shares.
    #[error("the schema has no [[share]] of {}", .0.join(" x "))]
    NoShares(Vec<String>),
}

/// What is wrong with a key of a schema.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// The section `[label]` is missing.
    #[error(
        "the schema has no [label]: write one, with column = \"..\" and its values or its range, or draft it with \
         `dpopt schema FILE --label COLUMN`"
    )]
    NoLabel,
    /// The file is of a later format.
    #[error("format {0} is unknown; this version reads format 1")]
    Format(u32),
    /// A number is infinite or not a number, or vanishes or overflows in single precision.
    #[error("{0} is not usable: a finite number of single-precision magnitude is needed")]
    NotFinite(f64),
    /// A norm whose square, or that of its inverse, is no number.
    #[error("{0:e} is out of reach: a number from 1e-100 to 1e100 is needed")]
    OutOfReach(f64),
    /// A number must be above zero.
    #[error("{0} must be above 0")]
    NotPositive(f64),
    /// A number must not be below zero.
    #[error("{0} must not be below 0")]
    Negative(f64),
    /// The range is empty or too wide for its width to be a number.
    #[error("min = {min} must be below max = {max}, and their difference finite")]
    EmptyRange {
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
    },
    /// A number lies outside the column's range.
    #[error("{value} is outside of [{min}, {max}]")]
    OutOfRange {
        /// The number.
        value: f64,
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
    },
    /// Bin edges must lie in (min, max].
    #[error("edge {edge} is outside of ({min}, {max}]")]
    EdgeOutOfRange {
        /// The edge.
        edge: f64,
        /// Lower end, excluded.
        min: f64,
        /// Upper end, included.
        max: f64,
    },
    /// Bin edges must increase strictly.
    #[error("edges must increase: {after} comes after {before}")]
    NotIncreasing {
        /// An edge.
        before: f64,
        /// The next one.
        after: f64,
    },
    /// What separates fields is one byte, and not one that quotes or ends lines.
    #[error(
        "{0:?} can't separate fields: one ASCII character is needed, no quote and no line break"
    )]
    Delimiter(String),
    /// A list must not be empty.
    #[error("the list is empty")]
    EmptyList,
    /// A label has two values or more.
    #[error("two values or more are needed, got {0}")]
    NotTwoValues(usize),
    /// More values than a label may have.
    #[error(
        "{values} values, at most {limit} can be told apart; a label that is a number has `kind = \"number\"`"
    )]
    TooManyValues {
        /// Values listed.
        values: usize,
        /// The largest possible.
        limit: usize,
    },
    /// Of three values or more all are told apart.
    #[error(
        "a label of {0} values has no positive one: leave `positive` out to tell all of them apart, or list two values to tell one \
         from the other"
    )]
    PositiveOfSeveral(usize),
    /// A value or a column is listed twice (white space around names does not count).
    #[error("{0:?} is listed twice")]
    Duplicate(String),
    /// A label that is a number has no values to choose a positive one from.
    #[error("the label {0:?} is a number, of which no value is positive")]
    NoPositive(String),
    /// A column that the schema says nothing of has no range.
    #[error(
        "the range of the label {former:?} is not that of {column:?}, of which the schema says nothing; describe it in [label]"
    )]
    OtherRange {
        /// The label of the schema.
        former: String,
        /// The column that was to take its place.
        column: String,
    },
    /// A number is due.
    #[error("{0:?} is not a number")]
    NotANumber(String),
    /// A date is due.
    #[error("{0:?} is not a date: \"YYYY-MM-DD\" is needed, in quotes, and a day that there is")]
    NotADate(String),
    /// Too few or too many buckets.
    #[error("{buckets} buckets, from 2 to {limit} are possible")]
    Buckets {
        /// How many there would be.
        buckets: u32,
        /// The most possible.
        limit: u32,
    },
    /// A value must be one of a list.
    #[error("{0:?} is not among the label's values")]
    NotAmongValues(String),
    /// A value that contains a line break can't occur in a record.
    #[error("{0:?} holds a line break, which no record can")]
    LineBreak(String),
    /// A key is needed for this kind of column.
    #[error("the key is missing")]
    Missing,
    /// A key does not apply to this kind of column.
    #[error("the key does not apply to kind = {0:?}")]
    NotApplicable(&'static str),
    /// More columns than an array may have.
    #[error("{columns} columns, at most {limit} can be read")]
    TooMany {
        /// Columns stated.
        columns: usize,
        /// The largest possible.
        limit: usize,
    },
    /// A number without bins and without its linear feature has no features.
    #[error("linear = false leaves no feature; give bins or say kind = \"ignore\"")]
    NoFeatureOfColumn,
    /// Buckets alone can't be centred.
    #[error(
        "it is said of the number itself, and only buckets are features here; give linear = true"
    )]
    OnlyBuckets,
    /// Standardised numbers are centred by their mean.
    #[error("transform = \"standard\" is centred by its mean already")]
    CentredTwice,
    /// Mean and standard deviation are of one map only.
    #[error("the key applies to transform = \"standard\" alone")]
    NotStandard,
    /// Where the number itself is no feature, nothing is transformed.
    #[error(
        "the number itself is no feature beside bins without `linear = true`, so there is nothing to transform"
    )]
    NothingToTransform,
    /// A standard deviation so small that the ends of the range overflow.
    #[error(
        "an end of the range is no number of single precision after scale * (x - {mean}) / {sd}"
    )]
    TooSteep {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        sd: f64,
    },
    /// A range of whole numbers has a first and a last one, and not too many.
    #[error(
        "[{from}, {to}] is no range of 1 to {limit} whole numbers, the first and the last of them"
    )]
    WholeRange {
        /// The first.
        from: i64,
        /// The last.
        to: i64,
        /// The most there may be.
        limit: u64,
    },
    /// A share names a column that is neither the label nor a category, or not the label.
    #[error(
        "a share is of a value of the label {label:?} and of values of categories, and {column:?} is {problem}"
    )]
    ShareOf {
        /// The column.
        column: String,
        /// The label.
        label: String,
        /// What of it.
        problem: &'static str,
    },
    /// A value that its column does not list.
    #[error("{value:?} is not among the values of {column:?}")]
    NotListed {
        /// The value.
        value: String,
        /// The column.
        column: String,
    },
    /// A share that is none.
    #[error("{0} is not a share: a number above 0 and at most 1 is needed")]
    NotAShare(f64),
    /// The schema yields no feature at all.
    #[error("the schema yields no feature: every column is ignored and the intercept is 0")]
    NoFeatures,
}
