//! A first schema, read off a table. Not private.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use super::checks::COMMA;
use super::encode::parse;
use super::error::TabularError;
use super::header::{find_delimiter, header_names, read_header};
use super::line::Fields;
use super::write::{list, quoted};
use crate::formats::lines::{Line, Lines};
use crate::formats::stream;

/// Numeric columns with at most this many distinct values are taken for codes.
const MOST_CODES: usize = 20;
/// Values listed per category.
const MOST_LISTED: usize = 200;
/// Bytes of distinct values kept, of all columns together: a table of a million columns must not
/// fill the memory of whoever looks at it.
const MOST_KEPT: usize = 1 << 28;
/// What a distinct value costs besides its bytes.
const KEPT_OVERHEAD: usize = 64;
/// Distinct values counted per column; a text column with more is taken for identifiers.
const MOST_COUNTED: usize = 2_000;

const WARNING: &str = "\
# DRAFT. Everything below was READ FROM THE DATA: ranges, categories, label values.
# A schema is public. Before a private run, replace each of them by public knowledge (a codebook,
# a law, a round number); a range or a category that only one record has reveals that record.
#
# transform: \"linear\" or \"log1p\". default: what anything but a number becomes.
# bins = [..]: optional edges, one feature per bucket (linear = true keeps the number as well).
# reference = \"..\": optional category that is encoded as all zeros.
";

/// The line that makes a schema a draft, with what to do about it.
pub(super) const DRAFT_LINE: &str = "\
# `dpopt train` refuses a draft. Remove the next line when everything below is public knowledge.
draft = true";

/// What was seen of one column.
#[derive(Default)]
struct Seen {
    counts: HashMap<Vec<u8>, u64>,
    overflow: bool,
    fields: u64,
    numbers: u64,
    /// Fields that look like a date.
    dates: u64,
    /// What the file says of the column, for people.
    note: Option<&'static str>,
    range: Option<(f64, f64)>,
}

impl Seen {
    fn add(&mut self, text: &[u8], room: &mut usize) {
        if text.is_empty() {
            return;
        }
        self.fields += 1;
        self.dates += u64::from(is_date(text));
        if let Some(x) = parse(text) {
            self.numbers += 1;
            let (min, max) = self.range.unwrap_or((x, x));
            self.range = Some((min.min(x), max.max(x)));
        }
        if let Some(count) = self.counts.get_mut(text) {
            *count += 1;
        } else if self.counts.len() < MOST_COUNTED && text.len() + KEPT_OVERHEAD <= *room {
            *room -= text.len() + KEPT_OVERHEAD;
            self.counts.insert(text.to_vec(), 1);
        } else {
            self.overflow = true;
        }
    }

    /// The range, if this looks like a number rather than a code.
    fn number(&self) -> Option<(f64, f64)> {
        let many = self.overflow || self.counts.len() > MOST_CODES;
        // A few markers of a missing value do not make a column of numbers categorical.
        let mostly = self.numbers >= self.fields - self.fields / 20;
        self.range
            .filter(|(min, max)| many && mostly && min < max && (max - min).is_finite())
    }

    /// What a reader of the draft should know of the column.
    fn note(&self) -> Option<&'static str> {
        let dates = self.fields > 0 && self.dates == self.fields;
        self.note.or(dates.then_some(
            "dates, which are text here: a number of days since a fixed date would be a feature",
        ))
    }

    /// The texts, the most common ones first.
    fn values(&self) -> Vec<&str> {
        let mut all: Vec<(&str, u64)> = self
            .counts
            .iter()
            .filter_map(|(text, count)| Some((std::str::from_utf8(text).ok()?, *count)))
            .collect();
        all.sort_by_key(|&(text, count)| (Reverse(count), text));
        all.into_iter().map(|(text, _)| text).collect()
    }
}

/// Whether a text starts with a date: numbers of 4, 2 and 2 digits (or 2, 2 and 4) between dashes, slashes or dots.
fn is_date(text: &[u8]) -> bool {
    let separator = |c: &u8| matches!(c, b'-' | b'/' | b'.');
    let day = text.split(|c| matches!(c, b' ' | b'T')).next();
    let parts: Vec<&[u8]> = day.unwrap_or_default().split(separator).collect();
    let digits = parts.iter().all(|part| part.iter().all(u8::is_ascii_digit));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    digits && matches!(lengths[..], [4, 1..=2, 1..=2] | [1..=2, 1..=2, 4])
}

/// A first schema for a table, with comments. **Not private**: it holds what the records hold, and
/// says so in its first lines.
///
/// Numbers and categories are guessed; the last column is the label if it has two values (the
/// rarer one positive) or a few more and no number among them. Otherwise the `[label]` section is left for a person to write, and the
/// draft does not load until then.
///
/// # Errors
/// [`TabularError`] for the file and its header.
pub fn draft_schema(path: impl AsRef<Path>) -> Result<String, TabularError> {
    let (file, name) = stream::open(path.as_ref())?;
    draft_schema_from(file, &name)
}

/// As [`draft_schema`], from a stream that errors call `origin`. **Not private**.
///
/// # Errors
/// As for [`draft_schema`].
pub fn draft_schema_from(source: impl Read, origin: &str) -> Result<String, TabularError> {
    let mut lines = Lines::new(source, origin)?;
    let header = read_header(&mut lines)?;
    let delimiter = find_delimiter(&header);
    let names = header_names(&header, delimiter, origin)?;
    let mut seen = HashSet::new();
    if !names.iter().all(|column| seen.insert(column)) {
        // Without a schema it may be a record, whose cells are not repeated.
        return Err(TabularError::BadHeader {
            path: origin.to_owned(),
            problem: "a column name is there twice; is the first line a header?",
        });
    }
    let mut draft = Draft::new(&names, delimiter);
    let mut fields = Fields::new();
    while let Some(line) = lines.next_line()? {
        let text = match line {
            Line::Text(text) => text,
            Line::Overlong => b"",
        };
        fields.split(text, delimiter, names.len());
        draft.add((0..names.len()).map(|i| fields.get(i).unwrap_or_default()));
    }
    Ok(draft.finish(origin))
}

/// A draft in the making.
pub(super) struct Draft<'n> {
    names: &'n [String],
    columns: Vec<Seen>,
    records: u64,
    delimiter: u8,
    /// Distinct texts that may still be kept, of all columns together.
    room: usize,
}

impl<'n> Draft<'n> {
    pub(super) fn new(names: &'n [String], delimiter: u8) -> Self {
        Self {
            names,
            delimiter,
            columns: names.iter().map(|_| Seen::default()).collect(),
            records: 0,
            room: MOST_KEPT,
        }
    }

    /// Says something of a column.
    #[cfg(feature = "parquet")]
    pub(super) fn note(&mut self, column: usize, note: &'static str) {
        if let Some(seen) = self.columns.get_mut(column) {
            seen.note = Some(note);
        }
    }

    /// Looks at a record, given by the texts of its columns.
    pub(super) fn add<'f>(&mut self, fields: impl Iterator<Item = &'f [u8]>) {
        self.records += 1;
        for (column, field) in self.columns.iter_mut().zip(fields) {
            column.add(field, &mut self.room);
        }
    }

    pub(super) fn finish(&self, path: &str) -> String {
        let mut out = String::new();
        // Writing to a `String` can't fail.
        let _ = write_draft(&mut out, path, self);
        out
    }
}

fn write_draft(out: &mut String, path: &str, draft: &Draft<'_>) -> std::fmt::Result {
    let (records, names, columns) = (draft.records, draft.names, &draft.columns);
    let mut body = String::new();
    let mut used = 0u32;
    let label = label(names, columns);
    let features = names.len() - usize::from(label.is_some());
    for (name, seen) in names.iter().zip(columns).take(features) {
        used += u32::from(write_column(&mut body, name, seen)?);
    }
    let longest = f64::from(1 + used).sqrt();

    out.push_str(WARNING);
    writeln!(out, "# Read: {records} records of {}.\n", quoted(path))?;
    writeln!(out, "{DRAFT_LINE}")?;
    writeln!(out, "format = 1")?;
    writeln!(
        out,
        "# No row of this draft is longer: each of {used} columns and the intercept count at most 1.\n\
         # Longer rows are rescaled, and a smaller bound means less noise: try a half of it."
    )?;
    writeln!(out, "row_norm = {:?}", (longest * 10.0).ceil() / 10.0)?;
    writeln!(out, "intercept = 1.0")?;
    if draft.delimiter != COMMA {
        let delimiter = char::from(draft.delimiter).to_string();
        writeln!(out, "delimiter = {}", quoted(&delimiter))?;
    }
    out.push('\n');
    match label {
        Some((name, ref values)) if values.len() > 2 => {
            let mut listed = values.clone();
            listed.sort_unstable();
            writeln!(out, "[label]")?;
            writeln!(out, "column = {}", quoted(name))?;
            let listed = list(listed.into_iter().map(quoted));
            writeln!(
                out,
                "values = {listed} # all of them, for a model of several classes"
            )?;
            let common = values.first().copied().unwrap_or_default();
            writeln!(
                out,
                "default = {} # the commonest one: what any other text becomes",
                quoted(common)
            )?;
        }
        Some((name, values)) => {
            let (common, rare) = (values[0], values[1]);
            writeln!(out, "[label]")?;
            writeln!(out, "column = {}", quoted(name))?;
            let values = [common, rare].map(quoted);
            writeln!(out, "values = {}", list(values.into_iter()))?;
            writeln!(out, "positive = {} # the rarer one: a guess", quoted(rare))?;
            writeln!(
                out,
                "default = {} # what any other text becomes",
                quoted(common)
            )?;
        }
        None => writeln!(
            out,
            "# The last column does not have two values or a few texts: name the label, and remove its\n\
             # [[column]] below.\n\
             # [label]\n# column = \"..\"\n# values = [\"..\", \"..\"]\n\
             # positive = \"..\"  # left out where there are more than two values\n# default = \"..\"\n\
             # A label that is a number has its public range instead of values:\n\
             # kind = \"number\"\n# min = ..\n# max = ..\n# default = ..  # of what is no number"
        )?,
    }
    out.push_str(&body);
    Ok(())
}

/// The last column, if it has two values, or a few more of which none is a number (whether those are classes a person knows): its name, and
/// the values, the commonest first.
fn label<'a>(names: &'a [String], columns: &'a [Seen]) -> Option<(&'a str, Vec<&'a str>)> {
    let (name, seen) = (names.last()?, columns.last()?);
    let values = seen.values();
    let few = match values.len() {
        2 => true,
        count => (3..=MOST_CODES).contains(&count) && seen.numbers == 0,
    };
    (few && seen.counts.len() == values.len() && !seen.overflow).then_some((name, values))
}

/// Writes a column; says whether it yields features.
fn write_column(out: &mut String, name: &str, seen: &Seen) -> Result<bool, std::fmt::Error> {
    writeln!(out, "\n[[column]]\nname = {}", quoted(name))?;
    if let Some(note) = seen.note() {
        writeln!(out, "# {note}")?;
    }
    let distinct = seen.counts.len();
    let mut values = seen.values();
    if let Some((min, max)) = seen.number() {
        // Amounts spread over orders of magnitude.
        let wide = min >= 0.0 && max - min >= 1000.0;
        let transform = if wide { "log1p" } else { "linear" };
        let strays = seen.fields - seen.numbers;
        writeln!(out, "kind = \"number\"")?;
        writeln!(out, "min = {min:?} # read from the data")?;
        writeln!(out, "max = {max:?} # read from the data")?;
        writeln!(out, "transform = {}", quoted(transform))?;
        writeln!(
            out,
            "default = {:?} # {strays} fields are not numbers",
            0f64.clamp(min, max)
        )?;
        return Ok(true);
    }
    let why = if values.is_empty() {
        "no text in it"
    } else if distinct < 2 {
        "a single value"
    } else if seen.overflow {
        "too many different texts; identifiers?"
    } else {
        let listed = values.len().min(MOST_LISTED);
        values.truncate(MOST_LISTED);
        values.sort_unstable();
        writeln!(out, "kind = \"category\"")?;
        writeln!(
            out,
            "# {distinct} values read from the data, {listed} listed; all others share a feature"
        )?;
        let values = list(values.into_iter().map(quoted));
        writeln!(out, "values = {values}")?;
        return Ok(true);
    };
    writeln!(out, "kind = \"ignore\" # {why}")?;
    Ok(false)
}
