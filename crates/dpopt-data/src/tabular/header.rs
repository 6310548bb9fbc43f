//! The first line of a table, and where a schema's columns are by it.

use std::collections::{HashMap, HashSet};

use super::checks::COMMA;
use super::column::ColumnKind;
use super::error::TabularError;
use super::line::Fields;
use super::schema::Schema;
use crate::formats::binary;
use crate::formats::lines::{Line, Lines};
use crate::names::nearest;

/// Where the columns of a schema are in the lines of a table: all that the header decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    columns: Vec<Option<usize>>,
    label: Option<usize>,
    width: usize,
    delimiter: u8,
}

impl Layout {
    /// Finds the schema's columns in a header line; `path` names the file in errors. Ignored
    /// columns may be absent, and so may the label unless `need_label`.
    ///
    /// # Errors
    /// [`TabularError`] for a blank or unreadable header, a duplicate column, a column of the
    /// schema that is absent, and, unless the schema says `ignore_unlisted`, a column that the
    /// schema does not name.
    pub fn from_header(
        line: &[u8],
        schema: &Schema,
        need_label: bool,
        path: &str,
    ) -> Result<Self, TabularError> {
        let names = header_names(line, schema.delimiter(), path)?;
        Self::beside((line, &names), schema, need_label, &[], path)
    }

    /// As [`Layout::from_header`], from the names in it, where columns that the schema does not name may be there if they are `kept`.
    pub(super) fn beside(
        (line, names): (&[u8], &[String]),
        schema: &Schema,
        need_label: bool,
        kept: &[String],
        path: &str,
    ) -> Result<Self, TabularError> {
        let layout = Self::with_others(names, schema, need_label, kept, path);
        layout.map_err(|error| match error {
            TabularError::MissingColumns { .. } => {
                separated(line, schema.delimiter(), path).unwrap_or(error)
            }
            other => other,
        })
    }

    /// Reads the first line, and finds the columns by it.
    pub(super) fn of(
        lines: &mut Lines<'_>,
        schema: &Schema,
        need_label: bool,
    ) -> Result<Self, TabularError> {
        let header = read_header(lines)?;
        Self::from_header(&header, schema, need_label, lines.path())
    }

    /// As [`Layout::from_header`], from the names of a table's columns.
    pub(super) fn from_names(
        names: &[String],
        schema: &Schema,
        need_label: bool,
        path: &str,
    ) -> Result<Self, TabularError> {
        Self::with_others(names, schema, need_label, &[], path)
    }

    fn with_others(
        names: &[String],
        schema: &Schema,
        need_label: bool,
        others: &[String],
        path: &str,
    ) -> Result<Self, TabularError> {
        if schema.array().is_some() {
            return Err(TabularError::SchemaKind {
                path: path.to_owned(),
                problem: "a table, but the schema is one of an array",
            });
        }
        let places: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(at, name)| (name.as_str(), at))
            .collect();
        let place = |name: &str| places.get(name).copied();
        let mut missing = Vec::new();
        let columns = schema
            .columns()
            .iter()
            .map(|column| {
                let at = place(&column.name);
                if at.is_none() && column.kind != ColumnKind::Ignore {
                    missing.push(column.name.clone());
                }
                at
            })
            .collect();
        let label = place(&schema.label().column);
        if label.is_none() && need_label {
            missing.push(schema.label().column.clone());
        }
        if !missing.is_empty() {
            let mut listed: HashSet<&str> =
                schema.columns().iter().map(|c| c.name.as_str()).collect();
            listed.insert(&schema.label().column);
            // A label may be another column of the schema.
            let of_label = label.is_none() && need_label;
            let others = names.iter().map(String::as_str);
            let others = others.filter(|name| of_label || !listed.contains(name));
            let others: Vec<&str> = others.collect();
            // Without half of the columns the line may be a record, no cell of which is repeated.
            let is_header = 2 * missing.len() <= listed.len();
            return Err(lacks(path, missing, if is_header { &others } else { &[] }));
        }
        // After that: a line that holds all columns of the schema is a header. One that doesn't may be the first record of a table
        // without a header, and none of its cells is repeated.
        let mut seen = HashSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(TabularError::DuplicateColumn {
                path: path.to_owned(),
                column: name.clone(),
            });
        }
        if !schema.ignore_unlisted() {
            let mut listed: HashSet<&str> =
                schema.columns().iter().map(|c| c.name.as_str()).collect();
            listed.insert(&schema.label().column);
            listed.extend(others.iter().map(String::as_str));
            let unlisted: Vec<String> = names
                .iter()
                .filter(|name| !listed.contains(name.as_str()))
                .cloned()
                .collect();
            if !unlisted.is_empty() {
                return Err(TabularError::UnlistedColumns {
                    path: path.to_owned(),
                    columns: unlisted,
                });
            }
        }
        Ok(Self {
            columns,
            label,
            width: names.len(),
            delimiter: schema.delimiter(),
        })
    }

    /// Number of fields in the header.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// What separates the fields.
    #[must_use]
    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Field of the schema's column number `i`.
    #[must_use]
    pub fn column(&self, i: usize) -> Option<usize> {
        self.columns.get(i).copied().flatten()
    }

    /// The fields that an encoder looks at, each once, in increasing order.
    #[cfg(feature = "parquet")]
    pub(super) fn wanted(&self, schema: &Schema) -> Vec<usize> {
        let used = schema
            .columns()
            .iter()
            .map(|c| c.kind != ColumnKind::Ignore);
        let mut wanted: Vec<usize> = self
            .columns
            .iter()
            .zip(used)
            .filter_map(|(at, used)| at.filter(|_| used))
            .chain(self.label)
            .collect();
        wanted.sort_unstable();
        wanted
    }

    /// Field of the label.
    #[must_use]
    pub fn label(&self) -> Option<usize> {
        self.label
    }
}

/// What may separate the fields of a table that has no schema yet; of equals the first is taken.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// What separates the fields of a header: what splits it into the most columns, or spaces where nothing else splits it.
pub(super) fn find_delimiter(line: &[u8]) -> u8 {
    let mut found = (COMMA, 0);
    for delimiter in DELIMITERS {
        let columns = columns(line, delimiter);
        if columns > found.1 {
            found = (delimiter, columns);
        }
    }
    let spaced = found.1 == 1 && columns(line.trim_ascii(), b' ') > 1;
    if spaced { b' ' } else { found.0 }
}

fn columns(line: &[u8], delimiter: u8) -> usize {
    let mut fields = Fields::new();
    fields.split(line, delimiter, usize::MAX);
    fields.len()
}

/// The error for a header that another delimiter splits into more columns.
fn separated(line: &[u8], delimiter: u8, path: &str) -> Option<TabularError> {
    let separator = find_delimiter(line);
    (columns(line, separator) > columns(line, delimiter)).then(|| TabularError::Separator {
        path: path.to_owned(),
        separator: char::from(separator),
        delimiter: char::from(delimiter),
    })
}

/// Why a first line is no header, where its bytes say so. A file without line feeds is one line: none of it is repeated.
fn no_header(line: &[u8]) -> Option<&'static str> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if let Some(what) = binary(line) {
        return Some(what);
    }
    if line.trim_ascii_end().contains(&b'\r') {
        return Some(
            "lines end with carriage returns alone, and line feeds are needed (`tr '\\r' '\\n' < FILE > OUT` writes them)",
        );
    }
    let (start, rest) = line.split_at_checked(4)?;
    if start.eq_ignore_ascii_case(b"sep=") && rest.trim_ascii().len() <= 1 {
        return Some(
            "the line `sep=`, which is for spreadsheets, stands before the header; remove it (`tail -n +2 FILE > OUT`)",
        );
    }
    // `#id x y` may be a header whose names spaces separate.
    let spaced = line.contains(&b' ') && !line.starts_with(b"# ");
    let comment = line.starts_with(b"#")
        && !spaced
        && DELIMITERS
            .iter()
            .all(|delimiter| columns(line, *delimiter) == 1);
    comment.then_some(
        "a comment stands before the header; remove it (`grep -v '^#' FILE > OUT` removes all of them)",
    )
}

/// Names in a header line, which may be there twice.
pub(super) fn header_names(
    line: &[u8],
    delimiter: u8,
    path: &str,
) -> Result<Vec<String>, TabularError> {
    let bad = |problem| TabularError::BadHeader {
        path: path.to_owned(),
        problem,
    };
    if let Some(what) = no_header(line) {
        return Err(bad(what));
    }
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if std::str::from_utf8(line).is_err() {
        return Err(bad(
            "the header is not UTF-8 text (`iconv -f latin1 -t utf-8 FILE > OUT` turns Latin-1 into it)",
        ));
    }
    let mut fields = Fields::new();
    fields.split(line, delimiter, usize::MAX);
    if fields.is_empty() {
        return Err(TabularError::MissingHeader {
            path: path.to_owned(),
        });
    }
    if fields.open_quote() {
        return Err(bad(
            "a quote is left open in the header (a line feed in a name cuts it; names need one line)",
        ));
    }
    let name = |i| String::from_utf8_lossy(fields.get(i).unwrap_or_default()).into_owned();
    Ok((0..fields.len()).map(name).collect())
}

/// Reads the first line.
pub(super) fn read_header(lines: &mut Lines<'_>) -> Result<Vec<u8>, TabularError> {
    let path = lines.path().to_owned();
    match lines.next_line()? {
        None => Err(TabularError::MissingHeader { path }),
        Some(Line::Text(text)) => Ok(text.to_vec()),
        Some(Line::Overlong(start)) => Err(TabularError::BadHeader {
            path,
            problem: no_header(start).unwrap_or("the header is longer than 1 MiB"),
        }),
    }
}

/// Missing names for which a nearest one is looked for.
const MEANT: usize = 10;

/// The error of a header without these columns, which has `others` that nobody asks for.
pub(super) fn lacks(path: &str, columns: Vec<String>, others: &[&str]) -> TabularError {
    let near = |name: &String| nearest(name, others.iter().copied()).map(str::to_owned);
    TabularError::MissingColumns {
        path: path.to_owned(),
        near: columns.iter().take(MEANT).map(near).collect(),
        columns,
    }
}
