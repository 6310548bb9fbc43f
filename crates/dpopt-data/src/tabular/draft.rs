//! A first schema, read off a table. Not private.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use super::checks::COMMA;
use super::column::Transform;
use super::date;
use super::encode::parse;
use super::error::TabularError;
use super::header::{find_delimiter, header_names, read_header};
use super::line::Fields;
use super::seen::Seen;
use super::witness::{Counts, counted, note_shape};
use super::write::{list, quoted};
use crate::formats::lines::{Line, Lines};
use crate::formats::stream;

/// Values listed per category.
const MOST_LISTED: usize = 200;
/// Bytes of distinct values kept, of all columns together: a table of a million columns must not
/// fill the memory of whoever looks at it.
const MOST_KEPT: usize = 1 << 28;

const HEAD: &str = "\
# DRAFT. Everything below was READ FROM THE DATA: ranges, categories, label values.
# A schema is public. Before a private run, replace each of them with what is public (a codebook,
# a law, a round number); a range or a category that only one record has reveals that record.
#
# transform: \"linear\", \"log1p\" or \"standard\" (with a public mean and sd). default: what anything but a number becomes.
# centred = true: from -1 to 1 in place of 0 to 1, which private training is better at.
# bins = [..]: optional edges, one feature per bucket (linear = true keeps the number as well).
# reference = \"..\": optional category that is encoded as all zeros.
";

/// The line that makes a schema a draft, with what to do about it.
pub(super) const DRAFT_LINE: &str = "\
# `dpopt train` refuses a draft. Remove the next line when nothing below comes from the records.
draft = true";

/// Starts the lines of a draft that tell what is wrong with the file.
pub(super) const WARNING: &str = "# WARNING: ";

/// What is wrong with the file, as a draft says it. **Not private**.
pub fn draft_warnings(draft: &str) -> impl Iterator<Item = &str> {
    draft.lines().filter_map(|line| line.strip_prefix(WARNING))
}

/// Most texts of a column that is named as the label; of the last one, which is a guess, and of which none is a number.
const MOST_CLASSES: usize = 100;
const MOST_GUESSED: usize = 20;

/// What a column is as a label.
enum Guess<'a> {
    /// Two values, the commoner first.
    Classes([&'a str; 2]),
    /// More, the commonest first.
    Several(Vec<&'a str>),
    /// A range.
    Number(f64, f64),
}

/// A first schema for a table, with comments. **Not private**: it holds what the records hold, and
/// says so in its first lines.
///
/// Numbers and categories are guessed. The label is the column of that name: two values (the rarer one positive), up to 100 texts or 10
/// whole numbers, or numbers, whose range is drafted. Without a name it is the last column if it has two values, or a few more and no
/// number among them; otherwise the `[label]` section is left for a person to write, and the draft does not load until then.
///
/// # Errors
/// [`TabularError`] for the file and its header; [`TabularError::NoColumn`] and [`TabularError::LabelUnfit`] for the label.
pub fn draft_schema(path: impl AsRef<Path>, label: Option<&str>) -> Result<String, TabularError> {
    let (file, name) = stream::open(path.as_ref())?;
    draft_schema_from(file, &name, label)
}

/// As [`draft_schema`], from a stream that errors call `origin`. **Not private**.
///
/// # Errors
/// As for [`draft_schema`].
pub fn draft_schema_from(
    source: impl Read,
    origin: &str,
    label: Option<&str>,
) -> Result<String, TabularError> {
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
    let mut draft = Draft::new(&names, delimiter, label, origin)?;
    let mut fields = Fields::new();
    while let Some(line) = lines.next_line()? {
        let text = match line {
            Line::Text(text) => text,
            Line::Overlong(_) => b"",
        };
        // One more than the header has, to see that there is one, as in a check.
        fields.split(text, delimiter, names.len().saturating_add(1));
        note_shape(line, &fields, names.len(), &mut draft.shape);
        draft.add((0..names.len()).map(|i| fields.get(i)));
    }
    draft.finish(origin)
}

/// A draft in the making.
pub(super) struct Draft<'n> {
    names: &'n [String],
    columns: Vec<Seen>,
    records: u64,
    /// Problems of whole lines.
    shape: Counts,
    delimiter: u8,
    /// The column that is to be the label.
    label: Option<usize>,
    /// Distinct texts that may still be kept, of all columns together.
    room: usize,
}

impl<'n> Draft<'n> {
    pub(super) fn new(
        names: &'n [String],
        delimiter: u8,
        label: Option<&str>,
        path: &str,
    ) -> Result<Self, TabularError> {
        let label = match label.map(str::trim_ascii) {
            None => None,
            Some(label) => {
                let at = names.iter().position(|name| name == label);
                Some(at.ok_or_else(|| TabularError::NoColumn {
                    path: path.to_owned(),
                    column: label.to_owned(),
                    columns: names.to_vec(),
                })?)
            }
        };
        Ok(Self {
            names,
            label,
            delimiter,
            columns: names.iter().map(|_| Seen::default()).collect(),
            records: 0,
            shape: Counts::default(),
            room: MOST_KEPT,
        })
    }

    /// Says something of a column.
    #[cfg(feature = "parquet")]
    pub(super) fn note(&mut self, column: usize, note: &'static str) {
        if let Some(seen) = self.columns.get_mut(column) {
            seen.noted = Some(note);
        }
    }

    /// Looks at a record, given by the texts of its columns.
    pub(super) fn add<'f>(&mut self, fields: impl Iterator<Item = Option<&'f [u8]>>) {
        self.records += 1;
        for (column, field) in self.columns.iter_mut().zip(fields) {
            column.add(field, &mut self.room);
        }
    }

    pub(super) fn finish(&self, path: &str) -> Result<String, TabularError> {
        let label = self.guess(path)?;
        let mut out = String::new();
        // Writing to a `String` can't fail.
        let _ = write_draft(&mut out, path, self, label);
        Ok(out)
    }

    /// The label, by its place: the column that was named, or the last one where it looks like one.
    fn guess(&self, path: &str) -> Result<Option<(usize, Guess<'_>)>, TabularError> {
        // A header that ends with a delimiter has a last column of nothing.
        let mut columns = self.names.iter().zip(&self.columns);
        let last = columns.rposition(|(name, seen)| !name.is_empty() || seen.fields > 0);
        let Some(at) = self.label.or(last) else {
            return Ok(None);
        };
        let (Some(name), Some(seen)) = (self.names.get(at), self.columns.get(at)) else {
            return Ok(None);
        };
        let most = if self.label.is_some() {
            MOST_CLASSES
        } else {
            MOST_GUESSED
        };
        let values = seen.values();
        let texts = values.len();
        let listed = texts == seen.distinct() && !seen.overflow;
        let classes = self.label.is_some() || seen.numbers == 0;
        let guess = match (values.as_slice(), seen.number()) {
            (&[common, rare], _) if listed => Guess::Classes([common, rare]),
            (_, Some((min, max))) if self.label.is_some() => Guess::Number(min, max),
            _ if listed && classes && (3..=most).contains(&texts) => Guess::Several(values),
            _ if self.label.is_none() => return Ok(None),
            _ => {
                return Err(TabularError::LabelUnfit {
                    path: path.to_owned(),
                    column: name.clone(),
                    texts,
                });
            }
        };
        Ok(Some((at, guess)))
    }
}

fn write_draft(
    out: &mut String,
    path: &str,
    draft: &Draft<'_>,
    label: Option<(usize, Guess<'_>)>,
) -> std::fmt::Result {
    let (records, names, columns) = (draft.records, draft.names, &draft.columns);
    let mut body = String::new();
    let (mut numbers, mut categories) = (0u32, 0u32);
    let taken = label.as_ref().map(|(at, _)| *at);
    for (at, (name, seen)) in names.iter().zip(columns).enumerate() {
        if taken == Some(at) {
            continue;
        }
        match write_column(&mut body, name, seen)? {
            Written::Number => numbers += 1,
            Written::Category => categories += 1,
            Written::Nothing => {}
        }
    }
    let used = numbers + categories;
    let typical = (1.0 + f64::from(categories) + f64::from(numbers) / 3.0).sqrt();

    out.push_str(HEAD);
    writeln!(out, "# Read: {records} records of {}.", quoted(path))?;
    for (kind, count) in &draft.shape.0 {
        writeln!(out, "{WARNING}{}", counted(*kind, *count, records))?;
    }
    out.push('\n');
    writeln!(out, "{DRAFT_LINE}")?;
    writeln!(out, "format = 1")?;
    writeln!(
        out,
        "# Longer rows are rescaled: a smaller bound means less noise. Drafted: half the root of 1 for the intercept, 1 for each category\n\
         # and 1/3 for each centred number ({used} columns), by the shape of the table alone (docs/solvers.md)."
    )?;
    writeln!(out, "row_norm = {:?}", (0.5 * typical * 10.0).ceil() / 10.0)?;
    writeln!(out, "intercept = 1.0")?;
    if draft.delimiter != COMMA {
        let delimiter = char::from(draft.delimiter).to_string();
        writeln!(out, "delimiter = {}", quoted(&delimiter))?;
    }
    out.push('\n');
    write_label(out, names, label)?;
    out.push_str(&body);
    Ok(())
}

fn write_label(
    out: &mut String,
    names: &[String],
    label: Option<(usize, Guess<'_>)>,
) -> std::fmt::Result {
    let Some((at, guess)) = label else {
        return writeln!(
            out,
            "# The last column does not have two values or a few texts. `dpopt schema FILE --label COLUMN` drafts\n\
             # another one, or a range of numbers; or name the label here, and remove its [[column]] below.\n\
             # [label]\n# column = \"..\"\n# values = [\"..\", \"..\"]\n\
             # positive = \"..\"  # left out where there are more than two values\n# default = \"..\"\n\
             # A label that is a number has its public range instead of values:\n\
             # kind = \"number\"\n# min = ..\n# max = ..\n# default = ..  # of what is no number"
        );
    };
    writeln!(out, "[label]")?;
    let name = names.get(at).map_or("", String::as_str);
    writeln!(out, "column = {}", quoted(name))?;
    match guess {
        Guess::Classes([common, rare]) => {
            let values = [common, rare].map(quoted);
            writeln!(out, "values = {}", list(values.into_iter()))?;
            writeln!(out, "positive = {} # the rarer one: a guess", quoted(rare))?;
            let common = quoted(common);
            writeln!(out, "default = {common} # what any other text becomes")
        }
        Guess::Several(values) => {
            let common = quoted(values.first().copied().unwrap_or_default());
            let listed = list(sorted(values).into_iter().map(quoted));
            writeln!(
                out,
                "values = {listed} # all of them, for a model of several classes"
            )?;
            writeln!(
                out,
                "default = {common} # the commonest one: what any other text becomes"
            )
        }
        Guess::Number(min, max) => {
            writeln!(out, "kind = \"number\"")?;
            writeln!(out, "min = {min:?} # read from the data")?;
            writeln!(out, "max = {max:?} # read from the data")?;
            let default = 0f64.clamp(min, max);
            writeln!(out, "default = {default:?} # of what is no number")
        }
    }
}

/// Numbers by their size, all else by its letters.
fn sorted(mut values: Vec<&str>) -> Vec<&str> {
    values.sort_unstable();
    let number = |text: &str| parse(text.as_bytes());
    if values.iter().all(|text| number(text).is_some()) {
        values.sort_by(|a, b| f64::total_cmp(&number(a).unwrap_or(0.0), &number(b).unwrap_or(0.0)));
    }
    values
}

/// What a column was written as.
enum Written {
    /// A number in [-1, 1], whose square is 1/3 in the mean if it is uniform.
    Number,
    /// A category, one of whose features is 1.
    Category,
    /// No feature.
    Nothing,
}

/// Writes a column.
fn write_column(out: &mut String, name: &str, seen: &Seen) -> Result<Written, std::fmt::Error> {
    writeln!(out, "\n[[column]]\nname = {}", quoted(name))?;
    if let Some(note) = seen.note() {
        writeln!(out, "# {note}")?;
    }
    if let Some(why) = seen.identifier(name) {
        writeln!(out, "kind = \"ignore\" # {why}")?;
        if let Some((min, max)) = seen.number() {
            writeln!(
                out,
                "# if they are amounts: kind = \"number\", min = {min:?}, max = {max:?}, default = {min:?}"
            )?;
        }
        return Ok(Written::Nothing);
    }
    if let Some((min, max)) = seen.days() {
        write_days(out, seen, min, max)?;
        return Ok(Written::Number);
    }
    let code = seen.is_code(name);
    // Where nothing but one text keeps a column from being numbers, and there are too many for values.
    let range = seen
        .number()
        .or_else(|| seen.number_but_filler().filter(|_| seen.overflow));
    if let Some(range) = range.filter(|_| !code) {
        write_number(out, seen, range)?;
        return Ok(Written::Number);
    }
    let mut values = seen.values();
    let distinct = seen.distinct() + usize::from(seen.has_empty());
    let why = if values.is_empty() && name.is_empty() {
        "no name and no text in it: the header ends with a delimiter"
    } else if values.is_empty() {
        "no text in it"
    } else if distinct < 2 {
        "a single value"
    } else if code && (seen.overflow || distinct > MOST_LISTED) {
        "codes and no amounts, too many to list"
    } else if seen.overflow {
        "too many different texts; identifiers?"
    } else {
        if seen.has_empty() {
            values.insert(0, "");
        }
        values.truncate(MOST_LISTED);
        write_category(out, seen, distinct, values)?;
        return Ok(Written::Category);
    };
    writeln!(out, "kind = \"ignore\" # {why}")?;
    if seen.overflow || code {
        writeln!(
            out,
            "# if equal texts stand for the same: kind = \"hash\", buckets = 1024"
        )?;
    }
    Ok(Written::Nothing)
}

fn write_days(out: &mut String, seen: &Seen, min: i64, max: i64) -> std::fmt::Result {
    let [min, max] = [min, max].map(|day| quoted(&date::text(day)));
    writeln!(out, "kind = \"date\"")?;
    writeln!(out, "min = {min} # read from the data")?;
    writeln!(out, "max = {max} # read from the data")?;
    writeln!(out, "default = {min} # of what is no date")?;
    writeln!(out, "centred = true")?;
    if let Some(missing) = seen.missing() {
        writeln!(
            out,
            "missing = true # {missing} fields are empty or say that there is no date"
        )?;
    }
    Ok(())
}

/// How far a quantile of a distribution is off the middle of those at its ends, over half of the distance of these: 0 for a
/// symmetric one, 1 and -1 at most.
fn skew([low, middle, high]: [f64; 3]) -> f64 {
    (high + low - 2.0 * middle) / (high - low)
}

/// The skew from which on amounts of many sizes are mapped by a logarithm (exponential: 0.56, log-normal of sd 1: 0.68 of the logarithm),
/// and that from which on the ends of the range are quantiles (log-normal of sd 0.5: 0.39). Tuned on made-up tables.
const STEEP: f64 = 0.5;
const SKEWED: f64 = 0.3;
/// Where the numbers between these quantiles take more of the range than that, the range is kept whole. Tuned.
const MOST_OF_RANGE: f64 = 2.0 / 3.0;

/// The transform and the range of a number, by its quantiles.
fn scale_of(seen: &Seen, (min, max): (f64, f64)) -> (Transform, (f64, f64)) {
    let (numbers, repeated) = seen.sorted();
    let quantile = |part: f64| {
        let at = part * numbers.len().saturating_sub(1) as f64;
        numbers.get(at.round() as usize).copied().unwrap_or(min)
    };
    let ends = [0.05, 0.5, 0.95].map(quantile);
    let whole = (Transform::Linear, (min, max));
    if ends[0] >= ends[2] {
        return whole;
    }
    let (linear, log) = (skew(ends), skew(ends.map(|x| (x - min).ln_1p())));
    // A logarithm whose unit is 1 does nothing to amounts below it.
    if linear > STEEP && min >= 0.0 && log.abs() <= 0.5 * linear {
        return (Transform::Log1p, (min, max));
    }
    let low = if repeated { min } else { quantile(0.01) };
    let high = quantile(0.99);
    let narrow = low < high && high - low < (max - min) * MOST_OF_RANGE;
    if linear.abs() > SKEWED && narrow {
        (Transform::Linear, (low, high))
    } else {
        whole
    }
}

fn write_number(out: &mut String, seen: &Seen, whole: (f64, f64)) -> std::fmt::Result {
    let (transform, (min, max)) = scale_of(seen, whole);
    let wide = transform == Transform::Log1p;
    let transform = if wide { "log1p" } else { "linear" };
    let without = seen.without_number();
    // The number's own feature is about 0 there, so that the column counts no more than another.
    let middle = match wide {
        true => min + (0.5 * (max - min).ln_1p()).exp_m1(),
        false => min + 0.5 * (max - min),
    }
    .clamp(min, max);
    writeln!(out, "kind = \"number\"")?;
    if whole != (min, max) {
        let (least, largest) = whole;
        writeln!(
            out,
            "# skewed numbers from {least:?} to {largest:?}: the range leaves out a hundredth at its ends, which is clipped"
        )?;
    }
    writeln!(out, "min = {min:?} # read from the data")?;
    writeln!(out, "max = {max:?} # read from the data")?;
    writeln!(out, "transform = {}", quoted(transform))?;
    writeln!(out, "centred = true")?;
    if let Some(missing) = seen.missing() {
        writeln!(out, "default = {middle:?}")?;
        writeln!(
            out,
            "missing = true # {missing} fields are empty or say that there is no number"
        )?;
    } else {
        let default = if without > 0 {
            middle
        } else {
            0f64.clamp(min, max)
        };
        writeln!(
            out,
            "default = {default:?} # {without} fields are empty or no numbers"
        )?;
    }
    if seen.is_whole() && seen.distinct() <= MOST_LISTED && !seen.overflow {
        writeln!(
            out,
            "# if they are codes: kind = \"category\", range = [{min}, {max}]"
        )?;
    }
    Ok(())
}

/// `distinct` values, of which `values` are listed.
fn write_category(
    out: &mut String,
    seen: &Seen,
    distinct: usize,
    values: Vec<&str>,
) -> std::fmt::Result {
    let listed = values.len();
    writeln!(out, "kind = \"category\"")?;
    writeln!(
        out,
        "# {distinct} values read from the data, {listed} listed; all others share a feature"
    )?;
    if seen.is_whole() {
        writeln!(
            out,
            "# if they are amounts: kind = \"number\", min = .., max = .., default = .."
        )?;
    }
    let values = list(sorted(values).into_iter().map(quoted));
    writeln!(out, "values = {values}")
}
