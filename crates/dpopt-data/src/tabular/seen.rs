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

/// Numbers of a column that are kept for its quantiles. Tuned: a quantile is off by a rank of a hundredth or two.
const MOST_SAMPLED: usize = 1024;
/// From so many records on long whole numbers that all differ are taken for identifiers.
const MANY: u64 = 100;
/// Parts of names of columns that hold codes, however much they look like amounts.
const CODE_NAMES: [&str; 5] = ["zip", "postal", "postcode", "plz", "fips"];

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
    /// Every number whose place is a multiple of the stride.
    sample: Vec<f64>,
    stride: u64,
    /// The fewest and the most bytes of a whole number.
    lengths: (usize, usize),
    /// Whole numbers of two digits or more that start with 0.
    padded: u64,
    /// Whole numbers that are a date without separators, YYYYMMDD.
    compact_dates: u64,
    /// Texts that are a number but for separators of thousands, and those whose comma can only be a decimal one.
    separated: u64,
    decimal_commas: u64,
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
            sample: Vec::new(),
            stride: 1,
            lengths: (usize::MAX, 0),
            padded: 0,
            compact_dates: 0,
            separated: 0,
            decimal_commas: 0,
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
        match parse(text) {
            Some(x) => {
                self.add_number(x, room);
                self.add_digits(text);
            }
            None => {
                self.separated += u64::from(is_separated(text));
                self.decimal_commas += u64::from(has_decimal_comma(text));
            }
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

    fn add_digits(&mut self, text: &[u8]) {
        if !text.iter().all(u8::is_ascii_digit) {
            return;
        }
        let (fewest, most) = self.lengths;
        self.lengths = (fewest.min(text.len()), most.max(text.len()));
        self.padded += u64::from(text.len() > 1 && text.starts_with(b"0"));
        if let [y3, y2, y1, y0, m1, m0, d1, d0] = *text {
            let dashed = [y3, y2, y1, y0, b'-', m1, m0, b'-', d1, d0];
            let plausible = matches!((y3, y2), (b'1', b'9') | (b'2', b'0'));
            self.compact_dates += u64::from(plausible && date::day(&dashed).is_some());
        }
    }

    fn add_number(&mut self, x: f64, room: &mut usize) {
        if self.numbers.is_multiple_of(self.stride) && size_of::<f64>() <= *room {
            *room -= size_of::<f64>();
            self.sample.push(x);
        }
        if self.sample.len() > MOST_SAMPLED {
            let mut at = 0;
            self.sample.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
            *room += size_of::<f64>() * (at / 2);
        }
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
        self.number_but(self.numbers)
    }

    /// As [`Seen::number`], if a text that may stand for a missing number does.
    pub(super) fn number_but_filler(&self) -> Option<(f64, f64)> {
        let (_, count) = self.filler()?;
        self.number_but(self.numbers + count)
    }

    /// As [`Seen::number`], if so many fields are taken for numbers.
    fn number_but(&self, taken: u64) -> Option<(f64, f64)> {
        let distinct = self.counts.keys().filter(|text| parse(text).is_some());
        let many = self.overflow || distinct.count() > MOST_CODES || self.whole < self.numbers;
        // A few texts that are no number do not make a column of numbers categorical, and markers of a missing one none.
        let mostly = self.mostly(taken);
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
        let filler = self
            .filler()
            .filter(|(text, _)| parse(text.as_bytes()).is_none());
        let missing =
            self.empty + self.absent + self.markers + filler.map_or(0, |(_, count)| count);
        let records = self.fields + self.empty + self.absent;
        (missing > records / 20).then_some(missing)
    }

    /// A sample of the numbers, in increasing order; where most of them are the least one, of the others, and `true`.
    pub(super) fn sorted(&self) -> (Vec<f64>, bool) {
        let mut sorted = self.sample.clone();
        sorted.sort_by(f64::total_cmp);
        let least = sorted.first().copied();
        let repeated =
            sorted.get(sorted.len() / 2).copied() == least && sorted.last().copied() != least;
        if repeated {
            sorted.retain(|x| Some(*x) != least);
        }
        (sorted, repeated)
    }

    /// Whether whole numbers are codes: by their name, or as some of them start with 0.
    pub(super) fn is_code(&self, name: &str) -> bool {
        let small = name.to_ascii_lowercase();
        let named = CODE_NAMES.iter().any(|part| small.contains(part));
        self.mostly(self.whole) && (named || self.padded > self.fields / 100)
    }

    /// What times the numbers are, if they look like some.
    fn times(&self) -> Option<&'static str> {
        const UNITS: [(f64, &str); 4] = [
            (
                1.0,
                "seconds since 1970, by their size: as YYYY-MM-DD they would be kind = \"date\"",
            ),
            (
                1e3,
                "milliseconds since 1970, by their size: as YYYY-MM-DD they would be kind = \"date\"",
            ),
            (
                1e6,
                "microseconds since 1970, by their size: as YYYY-MM-DD they would be kind = \"date\"",
            ),
            (
                1e9,
                "nanoseconds since 1970, by their size: as YYYY-MM-DD they would be kind = \"date\"",
            ),
        ];
        // From November 1985 to September 2039.
        let (first, last) = (5e8, 2.2e9);
        let (min, max) = self.number()?;
        if self.compact_dates > 0 && self.mostly(self.compact_dates) {
            return Some("dates without separators: as YYYY-MM-DD they would be kind = \"date\"");
        }
        let within = |unit: f64| min >= first * unit && max <= last * unit;
        let found = UNITS.iter().find(|(unit, _)| within(*unit));
        found.map(|(_, what)| *what)
    }

    /// Why the column is one that tells records apart and says nothing else, or times as numbers, if it looks like that.
    pub(super) fn identifier(&self, name: &str) -> Option<&'static str> {
        let named = is_index_name(name);
        let (fewest, most) = self.lengths;
        let long = fewest == most && most >= 6 && self.fields >= MANY;
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
        } else if let Some(times) = self.times() {
            Some(times)
        } else if all && whole && long {
            Some("identifiers? whole numbers of one length, none of them twice")
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
    pub(super) fn note(&self) -> Option<String> {
        if let Some(noted) = self.noted {
            return Some(noted.to_owned());
        }
        let separated = self.separated + self.decimal_commas;
        if self.mostly(self.days) && self.day_range.is_some_and(|(min, max)| min == max) {
            return Some(
                "one date alone, and a text here: with a range from a codebook it would be kind = \"date\"".to_owned(),
            );
        }
        if self.dates > 0 && self.mostly(self.dates) && self.days().is_none() {
            return Some(
                "dates that are text here (dd/mm/yyyy?): as YYYY-MM-DD or YYYY/MM/DD they would be kind = \"date\"".to_owned(),
            );
        }
        if separated > 0 && self.mostly(self.numbers + separated) {
            return Some(match self.decimal_commas {
                0 => format!(
                    "{separated} numbers have separators of thousands, and are texts here: as 1234 they would be kind = \"number\""
                ),
                _ => format!(
                    "{separated} numbers have a decimal comma, and are texts here: as 3.14 they would be kind = \"number\""
                ),
            });
        }
        self.filler().map(|(text, count)| match parse(text.as_bytes()) {
            Some(_) => format!(
                "{text} is there {count} times: if it says that there is no number, replace it by an empty field, with missing = true"
            ),
            None => format!(
                "{text:?} is there {count} times among numbers: if it says that there is none, kind = \"number\" with missing = true reads it so"
            ),
        })
    }

    /// A text that may stand for a missing number, and how often it is there: in one record of a hundred, and the commonest that is no
    /// number nor says so by itself, or nines alone far from all other numbers.
    pub(super) fn filler(&self) -> Option<(&str, u64)> {
        let texts = self.counts.iter().filter_map(|(text, count)| {
            let text = std::str::from_utf8(text).ok()?;
            let stands = match parse(text.as_bytes()) {
                Some(x) => is_nines(text) && self.is_far(x),
                None => !is_marker(text.as_bytes()),
            };
            stands.then_some((text, *count))
        });
        let (text, count) = texts.max_by_key(|&(text, count)| (count, Reverse(text)))?;
        let taken = match parse(text.as_bytes()) {
            Some(_) => self.numbers,
            None => self.numbers + count,
        };
        let common = count > 2 && count >= self.fields / 100;
        (common && self.number_but(taken).is_some()).then_some((text, count))
    }

    /// Whether a number is as far from the others, or farther, as half of their range.
    fn is_far(&self, x: f64) -> bool {
        let others = self.sample.iter().filter(|other| **other != x);
        let (min, max) = others.fold((f64::MAX, f64::MIN), |(min, max), y| {
            (min.min(*y), max.max(*y))
        });
        min <= max && (x - max).max(min - x) >= 0.5 * (max - min)
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

/// Whether a text is 99, -999 or another number of nines.
fn is_nines(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() > 1 && digits.bytes().all(|digit| digit == b'9')
}

/// Whether a text is a number whose digits before the decimal sign stand in groups of three.
fn is_separated(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let Some(&mark) = digits.iter().find(|c| !c.is_ascii_digit()) else {
        return false;
    };
    if !matches!(mark, b',' | b'.' | b' ' | b'\'' | b'_') {
        return false;
    }
    let decimal = digits
        .iter()
        .rposition(|c| matches!(c, b'.' | b',') && *c != mark);
    let (whole, tail) = digits.split_at(decimal.unwrap_or(digits.len()));
    let mut groups = whole.split(|c| *c == mark);
    let figures = |group: &[u8]| group.iter().all(u8::is_ascii_digit);
    let first = groups
        .next()
        .is_some_and(|group| (1..=3).contains(&group.len()) && figures(group));
    first
        && groups.all(|group| group.len() == 3 && figures(group))
        && tail.iter().skip(1).all(u8::is_ascii_digit)
}

/// Whether a text is a number but for its one comma, which does not separate thousands.
fn has_decimal_comma(text: &[u8]) -> bool {
    let mut parts = text.splitn(2, |c| *c == b',');
    let (Some(_), Some(tail)) = (parts.next(), parts.next()) else {
        return false;
    };
    let point: Vec<u8> = text
        .iter()
        .map(|c| if *c == b',' { b'.' } else { *c })
        .collect();
    tail.iter().all(u8::is_ascii_digit) && !is_separated(text) && parse(&point).is_some()
}
