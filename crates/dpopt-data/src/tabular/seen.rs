//! What was seen of one column of a table, and what it looks like. Not private.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::date;
use super::encode::{is_marker, parse};

/// Whole numbers with at most this many distinct values are taken for codes.
pub(super) const MOST_CODES: usize = 10;
/// Distinct values counted per column; a text column with more is taken for identifiers.
const MOST_COUNTED: usize = 2_000;
/// What a distinct value costs besides its bytes.
const KEPT_OVERHEAD: usize = 64;
/// Names of columns that number the records.
const INDEX_NAMES: [&str; 7] = ["", "id", "index", "idx", "row", "rownames", "unnamed: 0"];

/// What was seen of one column.
pub(super) struct Seen {
    counts: HashMap<Vec<u8>, u64>,
    pub(super) overflow: bool,
    /// Fields with a text.
    pub(super) fields: u64,
    /// Fields that are there and empty.
    empty: u64,
    /// Records that end before the column.
    absent: u64,
    markers: u64,
    pub(super) numbers: u64,
    whole: u64,
    /// Fields with a text that was there before.
    repeats: u64,
    /// Fields that look like a date.
    dates: u64,
    /// Those that a schema can read as one.
    days: u64,
    day_range: Option<(i64, i64)>,
    /// What the file says of the column, for people.
    pub(super) noted: Option<&'static str>,
    range: Option<(f64, f64)>,
    last: Option<f64>,
    order: Order,
}

/// How numbers follow each other.
struct Order {
    rising: bool,
    falling: bool,
    /// Each one more or one less than the one before.
    by_one: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            counts: HashMap::new(),
            overflow: false,
            fields: 0,
            empty: 0,
            absent: 0,
            markers: 0,
            numbers: 0,
            whole: 0,
            repeats: 0,
            dates: 0,
            days: 0,
            day_range: None,
            noted: None,
            range: None,
            last: None,
            order: Order {
                rising: true,
                falling: true,
                by_one: true,
            },
        }
    }
}

impl Seen {
    /// Looks at a field; `room` is how many bytes of texts may still be kept, of all columns together.
    pub(super) fn add(&mut self, text: Option<&[u8]>, room: &mut usize) {
        let text = match text {
            None => return self.absent += 1,
            Some(b"") => return self.empty += 1,
            Some(text) => text,
        };
        self.fields += 1;
        self.dates += u64::from(is_date(text));
        self.markers += u64::from(is_marker(text));
        if let Some(x) = parse(text) {
            self.add_number(x);
        }
        if let Some(day) = date::day(text) {
            self.days += 1;
            let (min, max) = self.day_range.unwrap_or((day, day));
            self.day_range = Some((min.min(day), max.max(day)));
        }
        if let Some(count) = self.counts.get_mut(text) {
            *count += 1;
            self.repeats += 1;
        } else if self.counts.len() < MOST_COUNTED && text.len() + KEPT_OVERHEAD <= *room {
            *room -= text.len() + KEPT_OVERHEAD;
            self.counts.insert(text.to_vec(), 1);
        } else {
            self.overflow = true;
        }
    }

    fn add_number(&mut self, x: f64) {
        self.numbers += 1;
        self.whole += u64::from(x.fract() == 0.0);
        let (min, max) = self.range.unwrap_or((x, x));
        self.range = Some((min.min(x), max.max(x)));
        if let Some(last) = self.last.replace(x) {
            self.order.rising &= x > last;
            self.order.falling &= x < last;
            self.order.by_one &= (x - last).abs() == 1.0;
        }
    }

    /// Distinct texts, those of the columns that are empty not counted.
    pub(super) fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// Whether all texts are numbers without a fraction.
    pub(super) fn is_whole(&self) -> bool {
        self.fields > 0 && self.whole == self.fields
    }

    /// Whether some field is there and empty.
    pub(super) fn has_empty(&self) -> bool {
        self.empty > 0
    }

    /// The range, if this looks like a number rather than a code.
    pub(super) fn number(&self) -> Option<(f64, f64)> {
        let distinct = self.counts.keys().filter(|text| parse(text).is_some());
        let many = self.overflow || distinct.count() > MOST_CODES || self.whole < self.numbers;
        // A few texts that are no number do not make a column of numbers categorical, and markers of a missing one none.
        let mostly = self.mostly(self.numbers);
        self.range
            .filter(|(min, max)| many && mostly && min < max && (max - min).is_finite())
    }

    /// Whether so many fields are all but a few.
    fn mostly(&self, fields: u64) -> bool {
        let strays = self.fields - fields - self.markers;
        fields > 0 && strays <= (fields + strays) / 20
    }

    /// The first and the last day, if this looks like dates.
    pub(super) fn days(&self) -> Option<(i64, i64)> {
        self.day_range
            .filter(|(min, max)| self.mostly(self.days) && min < max)
    }

    /// Fields that are empty, not there, or say that there is no number, where they are more than one in twenty.
    pub(super) fn missing(&self) -> Option<u64> {
        let missing = self.empty + self.absent + self.markers;
        let records = self.fields + self.empty + self.absent;
        (missing > records / 20).then_some(missing)
    }

    /// Why the column is one that tells records apart and says nothing else, if it looks like one.
    pub(super) fn identifier(&self, name: &str) -> Option<&'static str> {
        let named = is_index_name(name);
        let all = self.empty + self.absent == 0 && self.repeats == 0;
        let many = self.fields > MOST_CODES as u64;
        let ordered = self.order.rising || self.order.falling;
        let whole = self.is_whole();
        if self.fields < 2 {
            None
        } else if all && whole && ordered && (named || (many && self.order.by_one)) {
            Some("numbers the records: whole numbers in order, none of them twice")
        } else if all && whole && named {
            Some("identifiers, by its name and as none is there twice")
        } else if whole && named && self.overflow {
            Some("identifiers, by its name and as there are so many")
        } else if all && self.numbers == 0 && self.dates == 0 && many && !self.overflow {
            Some("identifiers? no text is there twice")
        } else {
            None
        }
    }

    /// Fields that are empty, not there or no number.
    pub(super) fn without_number(&self) -> u64 {
        self.empty + self.absent + self.fields - self.numbers
    }

    /// What a reader of the draft should know of the column.
    pub(super) fn note(&self) -> Option<&'static str> {
        let dates = self.fields > 0 && self.dates == self.fields && self.days().is_none();
        self.noted.or(dates.then_some(
            "dates that are text here: as YYYY-MM-DD or YYYY/MM/DD they would be kind = \"date\"",
        ))
    }

    /// The texts, the most common ones first; not the empty one.
    pub(super) fn values(&self) -> Vec<&str> {
        let mut all: Vec<(&str, u64)> = self
            .counts
            .iter()
            .filter_map(|(text, count)| Some((std::str::from_utf8(text).ok()?, *count)))
            .collect();
        all.sort_by_key(|&(text, count)| (Reverse(count), text));
        all.into_iter().map(|(text, _)| text).collect()
    }
}

/// Whether a column is called as those are that tell records apart: id, row_id, RowID.
fn is_index_name(name: &str) -> bool {
    let small = name.to_ascii_lowercase();
    let ends = ["_id", " id", "-id", ".id"];
    // A hump: not `paid`, nor `PAID`.
    let hump = ["Id", "ID"].iter().any(|end| {
        let before = name.strip_suffix(end).and_then(|rest| rest.chars().last());
        before.is_some_and(char::is_lowercase)
    });
    hump || INDEX_NAMES.contains(&small.as_str()) || ends.iter().any(|end| small.ends_with(end))
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
