//! One record to one row: a pure function of its fields and the schema.

use std::collections::HashMap;

use super::column::{
    Category, Column, ColumnKind, Label, LabelKind, LabelRange, Number, Transform,
};
use super::date;
use super::hash;
use super::header::Layout;
use super::line::Fields;
use super::schema::Schema;
use super::witness::{Place, ProblemKind, Silent, Witness};

/// Turns records into rows by a schema.
///
/// It has no state that a record could change, cannot fail, and never returns a row whose norm, in
/// exact arithmetic of the stored entries, exceeds [`Schema::row_norm`].
#[derive(Debug, Clone)]
pub struct Encoder {
    codes: Vec<Code>,
    intercept: Option<(u32, f32)>,
    row_norm: f64,
    label: LabelCode,
    dim: usize,
}

/// The label, ready to encode.
#[derive(Debug, Clone)]
enum LabelCode {
    Classes {
        positive: Vec<u8>,
        negative: Vec<u8>,
        default: f32,
    },
    Several {
        codes: HashMap<Vec<u8>, f32>,
        default: f32,
    },
    Number(LabelRange),
}

impl LabelCode {
    fn new(label: &Label) -> Self {
        match &label.kind {
            LabelKind::Classes(classes) => Self::Classes {
                positive: classes.positive.as_bytes().to_vec(),
                negative: classes.negative().as_bytes().to_vec(),
                default: classes.default_code(),
            },
            LabelKind::Several(several) => {
                let values = several.values.iter().enumerate();
                Self::Several {
                    codes: values
                        .map(|(code, value)| (value.as_bytes().to_vec(), code as f32))
                        .collect(),
                    default: several.default_code(),
                }
            }
            LabelKind::Number(range) => Self::Number(*range),
        }
    }

    fn encode(&self, text: Option<&[u8]>, witness: &mut impl Witness) -> f32 {
        match self {
            Self::Classes {
                positive,
                negative,
                default,
            } => match text {
                Some(text) if text == positive => 1.0,
                Some(text) if text == negative => -1.0,
                Some(text) => {
                    witness.note(Place::Label, ProblemKind::UnknownLabel, text);
                    *default
                }
                None => *default,
            },
            Self::Several { codes, default } => match text {
                Some(text) => codes.get(text).copied().unwrap_or_else(|| {
                    witness.note(Place::Label, ProblemKind::UnknownLabel, text);
                    *default
                }),
                None => *default,
            },
            Self::Number(range) => {
                let number = text.and_then(parse);
                if let Some(text) = text {
                    match number {
                        Some(y) if y < range.min || y > range.max => {
                            witness.note(Place::Label, ProblemKind::OutOfRange, text);
                        }
                        Some(_) => {}
                        None => witness.note(Place::Label, ProblemKind::NotANumber, text),
                    }
                }
                range.encode(number)
            }
        }
    }
}

/// A column, ready to encode.
#[derive(Debug, Clone)]
enum Code {
    Number {
        number: Number,
        linear: Option<u32>,
        first_bucket: u32,
        missing: Option<u32>,
        /// Whether the number is the day of a date.
        date: bool,
    },
    Hash {
        first: u32,
        buckets: u32,
        scale: f32,
    },
    Category {
        /// Feature of a listed value; `None` for the reference.
        features: HashMap<Vec<u8>, Option<u32>>,
        other: u32,
        scale: f32,
    },
    Ignore,
}

impl Encoder {
    /// An encoder for a schema.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let mut next = 0u32;
        let codes = schema
            .columns()
            .iter()
            .map(|Column { kind, .. }| match kind {
                ColumnKind::Ignore => Code::Ignore,
                ColumnKind::Number(number) => number_code(number, false, &mut next),
                ColumnKind::Date(number) => number_code(number, true, &mut next),
                ColumnKind::Hash(hashed) => {
                    let first = next;
                    next += hashed.buckets;
                    Code::Hash {
                        first,
                        buckets: hashed.buckets,
                        scale: hashed.scale as f32,
                    }
                }
                ColumnKind::Category(category) => category_code(category, &mut next),
            })
            .collect();
        let intercept = schema.intercept();
        Self {
            codes,
            intercept: (intercept != 0.0).then_some((next, intercept as f32)),
            row_norm: schema.row_norm(),
            label: LabelCode::new(schema.label()),
            dim: schema.dim(),
        }
    }

    /// Number of features.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Encodes a record given as one field per column of the schema, in the schema's order
    /// (ignored ones included), and its label last. Missing fields become defaults.
    ///
    /// `row` is overwritten with the non-zero entries, columns increasing. Returns the label: +1
    /// or -1 for two values, a whole number for more ([`Several`](super::Several)), from -1 to 1 for a number ([`LabelRange`]).
    pub fn encode_record(&self, fields: &[&[u8]], row: &mut Vec<(u32, f32)>) -> f32 {
        let field = |i: usize| fields.get(i).map(|field| field.trim_ascii());
        self.encode(field, field(self.codes.len()), row, &mut Silent)
    }

    /// Encodes a line of a table with the given layout; `fields` is a buffer to reuse. A blank
    /// line is a record of defaults.
    pub fn encode_line(
        &self,
        layout: &Layout,
        line: &[u8],
        fields: &mut Fields,
        row: &mut Vec<(u32, f32)>,
    ) -> f32 {
        fields.split(line, layout.delimiter(), layout.width());
        self.encode_fields(layout, fields, row, &mut Silent)
    }

    /// Encodes fields that were split already, and tells the witness what had no place.
    pub(super) fn encode_fields(
        &self,
        layout: &Layout,
        fields: &Fields,
        row: &mut Vec<(u32, f32)>,
        witness: &mut impl Witness,
    ) -> f32 {
        let label = layout.label().and_then(|at| fields.get(at));
        let field = |i: usize| layout.column(i).and_then(|at| fields.get(at));
        self.encode(field, label, row, witness)
    }

    pub(super) fn encode<'f>(
        &self,
        field: impl Fn(usize) -> Option<&'f [u8]>,
        label: Option<&[u8]>,
        row: &mut Vec<(u32, f32)>,
        witness: &mut impl Witness,
    ) -> f32 {
        row.clear();
        for (i, code) in self.codes.iter().enumerate() {
            match code {
                Code::Ignore => {}
                Code::Number {
                    number,
                    linear,
                    first_bucket,
                    missing,
                    date,
                } => {
                    let there = number.read(field(i), *date, Place::Column(i), witness);
                    let x = there.unwrap_or(number.default);
                    let scale = number.scale;
                    if let Some(feature) = *linear {
                        push(row, feature, (scale * number.feature(x)) as f32);
                    }
                    if !number.bins.is_empty() {
                        let bucket = number.bins.partition_point(|edge| *edge <= x);
                        push(row, first_bucket + bucket as u32, scale as f32);
                    }
                    if let Some(feature) = missing.filter(|_| there.is_none()) {
                        push(row, feature, scale as f32);
                    }
                }
                Code::Hash {
                    first,
                    buckets,
                    scale,
                } => {
                    // A missing field is the empty text.
                    let bucket = hash::bucket(field(i).unwrap_or_default(), *buckets);
                    push(row, first + bucket, *scale);
                }
                Code::Category {
                    features,
                    other,
                    scale,
                } => {
                    let feature = match field(i) {
                        None => Some(*other),
                        Some(text) => features.get(text).copied().unwrap_or_else(|| {
                            witness.note(Place::Column(i), ProblemKind::UnlistedCategory, text);
                            Some(*other)
                        }),
                    };
                    if let Some(feature) = feature {
                        push(row, feature, *scale);
                    }
                }
            }
        }
        if let Some((feature, value)) = self.intercept {
            push(row, feature, value);
        }
        if shorten(row, self.row_norm) {
            witness.note(Place::Record, ProblemKind::Rescaled, b"");
        }
        self.label.encode(label, witness)
    }
}

impl Number {
    /// The number in a field, or the day of a date, within the range.
    fn read(
        &self,
        field: Option<&[u8]>,
        date: bool,
        place: Place,
        witness: &mut impl Witness,
    ) -> Option<f64> {
        let text = field?;
        let (found, otherwise) = if date {
            let day = date::day(text).map(|day| day as f64);
            (day, ProblemKind::NotADate)
        } else {
            (parse(text), ProblemKind::NotANumber)
        };
        let Some(x) = found else {
            // A schema that has a feature for it foresees a field that says that there is none.
            if !(self.missing && is_marker(text)) {
                witness.note(place, otherwise, text);
            }
            return None;
        };
        if x < self.min || x > self.max {
            witness.note(place, ProblemKind::OutOfRange, text);
        }
        Some(x.clamp(self.min, self.max))
    }

    /// The feature of a number in the range, at scale 1.
    fn feature(&self, x: f64) -> f64 {
        let unit = self.unit(x);
        if self.centred { 2.0 * unit - 1.0 } else { unit }
    }

    /// Maps a number in the range.
    fn unit(&self, x: f64) -> f64 {
        let (part, whole) = (x - self.min, self.max - self.min);
        let unit = match self.transform {
            Transform::Linear => part / whole,
            // Not the system's logarithm: the bits of a row must not depend on the platform.
            Transform::Log1p => libm::log1p(part) / libm::log1p(whole),
            Transform::Standard { mean, sd } => return (x - mean) / sd,
        };
        unit.clamp(0.0, 1.0)
    }
}

/// A finite decimal number. Words ("nan", "inf") and numbers beyond the range of `f64` are none.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// Texts that stand for a number that is not there, in any case of letters.
const MARKERS: [&str; 6] = ["", "?", "NA", "NaN", "null", "-"];

/// Whether a text stands for a number that is not there.
pub(super) fn is_marker(text: &[u8]) -> bool {
    MARKERS
        .iter()
        .any(|marker| marker.as_bytes().eq_ignore_ascii_case(text))
}

fn push(row: &mut Vec<(u32, f32)>, feature: u32, value: f32) {
    if value != 0.0 {
        row.push((feature, value));
    }
}

/// Rescales a row that is, or may be by rounding, longer than `bound`; says whether it did.
///
/// # Proof
/// Squares of `f32` are exact in `f64`, so the computed norm errs by less than (k + 4) 2^-53 in
/// relative terms and `upper` is at least the exact norm. The factor is at most bound / upper less
/// four roundings; each product with it is rounded once (2^-53) and then towards zero. So each
/// entry is at most bound / norm times what it was.
fn shorten(row: &mut [(u32, f32)], bound: f64) -> bool {
    let sum: f64 = row.iter().map(|&(_, x)| f64::from(x) * f64::from(x)).sum();
    let slack = (row.len() as f64 + 4.0) * 4.0 * f64::EPSILON;
    let upper = sum.sqrt() * (1.0 + slack);
    if upper <= bound {
        return false;
    }
    let factor = bound / upper * (1.0 - 4.0 * f64::EPSILON);
    for (_, x) in row {
        *x = towards_zero(f64::from(*x) * factor);
    }
    true
}

/// The nearest `f32` that is not larger in size.
fn towards_zero(exact: f64) -> f32 {
    let rounded = exact as f32;
    if f64::from(rounded).abs() <= exact.abs() {
        rounded
    } else if rounded > 0.0 {
        rounded.next_down()
    } else {
        rounded.next_up()
    }
}

fn number_code(number: &Number, date: bool, next: &mut u32) -> Code {
    let linear = number.linear.then_some(*next);
    *next += u32::from(number.linear);
    let first_bucket = *next;
    if !number.bins.is_empty() {
        *next += number.bins.len() as u32 + 1;
    }
    let missing = number.missing.then_some(*next);
    *next += u32::from(number.missing);
    Code::Number {
        number: number.clone(),
        linear,
        first_bucket,
        missing,
        date,
    }
}

fn category_code(category: &Category, next: &mut u32) -> Code {
    let mut features = HashMap::new();
    for value in category.coded() {
        features.insert(value.as_bytes().to_vec(), Some(*next));
        *next += 1;
    }
    if let Some(reference) = &category.reference {
        features.insert(reference.as_bytes().to_vec(), None);
    }
    let other = *next;
    *next += 1;
    Code::Category {
        features,
        other,
        scale: category.scale as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact comparison of norms: entries are multiples of 2^-40 below 2^10, so that their
    /// squares add up exactly in 128 bits.
    fn exactly_within(row: &[(u32, f32)], bound: f64) -> bool {
        let unit = 2f64.powi(40);
        let integer = |x: f64| {
            let scaled = x.abs() * unit;
            assert_eq!(scaled, scaled.floor(), "{x} is no multiple of 2^-40");
            scaled.abs() as u128
        };
        let sum: u128 = row.iter().map(|&(_, x)| integer(f64::from(x)).pow(2)).sum();
        sum <= integer(bound).pow(2)
    }

    #[test]
    fn no_row_is_longer_than_the_bound_in_exact_arithmetic() {
        let mut state = 1u64;
        let mut below = 0.0f64;
        for round in 0..20_000 {
            let bound = 1.0 + f64::from(round % 7) / 4.0;
            let mut row: Vec<(u32, f32)> = (0..1 + round % 40)
                .map(|i| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    // Between 2^-12 and 16, 24 bits.
                    let mantissa = 1.0 + (state >> 41) as f32 / 8_388_608.0;
                    let sign = if state & (1 << 30) == 0 { 1.0 } else { -1.0 };
                    (
                        i as u32,
                        sign * mantissa * 2f32.powi((state % 16) as i32 - 12),
                    )
                })
                .collect();
            let changed = shorten(&mut row, bound);
            assert!(exactly_within(&row, bound));
            if changed {
                let norm: f64 = row.iter().map(|&(_, x)| f64::from(x).powi(2)).sum();
                below = below.max(1.0 - norm.sqrt() / bound);
            }
        }
        // And it is not shortened by more than single precision costs.
        assert!(below < 2e-7, "{below}");
    }

    #[test]
    fn a_row_at_the_bound_may_be_shortened_but_never_passes_it() {
        for k in 1..50u32 {
            let mut row: Vec<(u32, f32)> = (0..k).map(|i| (i, 1.0)).collect();
            let bound = f64::from(k).sqrt();
            shorten(&mut row, bound);
            let sum: f64 = row.iter().map(|&(_, x)| f64::from(x).powi(2)).sum();
            assert!(sum <= f64::from(k) && sum > f64::from(k) * (1.0 - 1e-6));
        }
    }

    #[test]
    fn tiny_and_huge_bounds_do_no_harm() {
        let row = vec![(0u32, f32::MAX), (1, -f32::MIN_POSITIVE), (2, -1.0)];
        for bound in [f64::MIN_POSITIVE, 1e-300, 1e-40, 1.0, 1e300] {
            let mut row = row.clone();
            shorten(&mut row, bound);
            let sum: f64 = row.iter().map(|&(_, x)| f64::from(x).powi(2)).sum();
            assert!(sum.sqrt() <= bound && row.iter().all(|(_, x)| x.is_finite()));
        }
    }

    #[test]
    fn only_finite_decimal_numbers_are_numbers() {
        for (text, number) in [
            ("12", Some(12.0)),
            ("-1.5e3", Some(-1500.0)),
            ("+.5", Some(0.5)),
            ("", None),
            ("NaN", None),
            ("inf", None),
            ("-infinity", None),
            ("1e400", None),
            ("1,5", None),
            ("0x10", None),
            ("1_000", None),
            ("1 000", None),
        ] {
            assert_eq!(parse(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(parse(b"1\xff"), None);
        assert_eq!(parse("\u{0661}".as_bytes()), None);
    }
}
