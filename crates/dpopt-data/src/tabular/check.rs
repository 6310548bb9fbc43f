//! What a table holds that its schema does not foresee. Not private.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

use super::encode::Encoder;
use super::error::TabularError;
use super::header::Layout;
use super::line::Fields;
use super::schema::Schema;
use super::witness::{Place, ProblemKind, Witness, counted, note_shape};
use crate::formats::lines::{Line, Lines};
use crate::formats::stream;

/// Problems listed per kind; the rest are counted.
const LISTED_PER_KIND: usize = 10;
/// Characters of a text that are shown.
const SHOWN_CHARS: usize = 40;

/// A listed problem.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Line of the file; the header is line 1.
    pub line: u64,
    /// The column, where the problem is in one.
    pub column: Option<String>,
    /// What it is.
    pub kind: ProblemKind,
    /// The text, escaped and cut short.
    pub text: String,
}

/// What [`check`] found. **Not private**: it shows and counts records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// File, or the name given to a stream.
    pub path: String,
    /// Number of records.
    pub records: u64,
    /// Number of records with the positive label (unknown labels as their default); none where the label is a number.
    pub positives: Option<u64>,
    /// Occurrences of each kind of problem, listed or not.
    pub counts: BTreeMap<ProblemKind, u64>,
    /// The same by column, for the problems that are in one.
    pub by_column: BTreeMap<(ProblemKind, String), u64>,
    /// The first few of each kind, by kind and line.
    pub listed: Vec<Problem>,
}

impl CheckReport {
    /// Occurrences of a kind of problem.
    #[must_use]
    pub fn count(&self, kind: ProblemKind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// Whether the schema foresees all of the table. Rows are shortened by design: that is no defect of a record.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.defects().next().is_none()
    }

    /// Kinds of problems with their occurrences.
    fn defects(&self) -> impl Iterator<Item = (&ProblemKind, &u64)> {
        let all = self.counts.iter();
        all.filter(|(kind, count)| **kind != ProblemKind::Rescaled && **count > 0)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            records,
            positives,
            ..
        } = self;
        match positives {
            Some(positives) => writeln!(f, "{path}: {records} records, {positives} positive")?,
            None => writeln!(f, "{path}: {records} records")?,
        }
        writeln!(f, "(this report reads the records; it is not private)")?;
        write!(
            f,
            "{}",
            Shortened(self.count(ProblemKind::Rescaled), *records)
        )?;
        if self.is_clean() {
            return writeln!(f, "the schema foresees every field");
        }
        for (kind, count) in self.defects() {
            writeln!(f, "{}", counted(*kind, *count, *records))?;
            for ((of, column), count) in &self.by_column {
                if of == kind {
                    writeln!(f, "  {column}: {count}")?;
                }
            }
            let shown = self.listed.iter().filter(|problem| problem.kind == *kind);
            for problem in shown {
                write!(f, "    line {}", problem.line)?;
                if let Some(column) = &problem.column {
                    write!(f, ", {column}")?;
                }
                if problem.text.is_empty() {
                    writeln!(f)?;
                } else {
                    writeln!(f, ": {}", problem.text)?;
                }
            }
        }
        Ok(())
    }
}

/// How many of all rows are longer than the row norm: one line, and nothing where there is no such row.
pub(super) struct Shortened(pub(super) u64, pub(super) u64);

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(rows, records) = *self;
        if rows == 0 {
            return Ok(());
        }
        let share = 100.0 * rows as f64 / records as f64;
        writeln!(
            f,
            "{rows} of {records} rows ({share:.1} %) are longer than row_norm and are shortened to it, by design"
        )
    }
}

/// Collects what the encoder notes.
pub(super) struct Collector {
    line: u64,
    counts: BTreeMap<(ProblemKind, Place), u64>,
    listed: BTreeMap<ProblemKind, Vec<(u64, Place, String)>>,
}

impl Witness for Collector {
    fn next_record(&mut self) {
        self.line += 1;
    }

    fn blank(&self) -> Option<&'static [u8]> {
        Some(b"")
    }

    fn note(&mut self, place: Place, kind: ProblemKind, text: &[u8]) {
        *self.counts.entry((kind, place)).or_insert(0) += 1;
        let listed = self.listed.entry(kind).or_default();
        if kind != ProblemKind::Rescaled && listed.len() < LISTED_PER_KIND {
            listed.push((self.line, place, shown(text)));
        }
    }
}

/// Compares a table with a schema. **Not private**: for public or synthetic data, or for the eyes
/// of those who may see the records.
///
/// # Errors
/// As for [`super::read_table`]: the file and its header.
pub fn check(path: impl AsRef<Path>, schema: &Schema) -> Result<CheckReport, TabularError> {
    let (file, name) = stream::open(path.as_ref())?;
    check_from(file, &name, schema)
}

/// As [`check`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`check`].
pub fn check_from(
    source: impl Read,
    origin: &str,
    schema: &Schema,
) -> Result<CheckReport, TabularError> {
    let encoder = Encoder::new(schema);
    let mut lines = Lines::new(source, origin)?;
    let layout = Layout::of(&mut lines, schema, true)?;
    let mut seen = Collector::new();
    let (mut records, mut positives) = (0, 0);
    let mut fields = Fields::new();
    let mut row = Vec::new();
    while let Some(line) = lines.next_line()? {
        seen.next_record();
        records += 1;
        let text: &[u8] = match line {
            Line::Text(text) => text,
            Line::Overlong(_) => b"",
        };
        // One field more than training looks at, to see that there is one. What lies beyond the
        // header's width has no place in the layout, so the row is the same.
        let most = layout.width().saturating_add(1);
        fields.split(text, layout.delimiter(), most);
        note_shape(line, &fields, layout.width(), &mut seen);
        if encoder.encode_fields(&layout, &fields, &mut row, &mut seen) > 0.0 {
            positives += 1;
        }
    }
    Ok(seen.report(origin, schema, records, positives))
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            line: 1,
            counts: BTreeMap::new(),
            listed: BTreeMap::new(),
        }
    }

    pub(super) fn report(
        self,
        path: &str,
        schema: &Schema,
        records: u64,
        positives: u64,
    ) -> CheckReport {
        let name = |place: Place| match place {
            Place::Record => None,
            Place::Label => Some(schema.label().column.clone()),
            Place::Column(i) => schema.columns().get(i).map(|column| column.name.clone()),
        };
        let mut counts = BTreeMap::new();
        let mut by_column = BTreeMap::new();
        for ((kind, place), count) in self.counts {
            *counts.entry(kind).or_insert(0) += count;
            if let Some(column) = name(place) {
                by_column.insert((kind, column), count);
            }
        }
        let listed = self
            .listed
            .into_iter()
            .flat_map(|(kind, all)| all.into_iter().map(move |one| (kind, one)))
            .map(|(kind, (line, place, text))| Problem {
                line,
                column: name(place),
                kind,
                text,
            })
            .collect();
        CheckReport {
            path: path.to_owned(),
            records,
            positives: schema.label().classes().map(|_| positives),
            counts,
            by_column,
            listed,
        }
    }
}

/// A text as a person can read it on a terminal, cut short.
fn shown(text: &[u8]) -> String {
    // Four bytes per character at most: what lies beyond is not shown anyway.
    let head = text.get(..4 * SHOWN_CHARS).unwrap_or(text);
    let lossy = String::from_utf8_lossy(head);
    let mut out: String = lossy
        .chars()
        .take(SHOWN_CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if head.len() < text.len() || lossy.chars().count() > SHOWN_CHARS {
        out.push_str("...");
    }
    out
}
