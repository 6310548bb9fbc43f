//! Labels and columns as they are written, checked.

use std::collections::HashSet;

use super::column::{
    Category, Classes, ColumnKind, Hashed, Label, LabelKind, LabelRange, Number, Several, Transform,
};
use super::date;
use super::error::{SchemaProblem, TabularError};
use super::raw::{RawColumn, RawDefault, RawKind, RawLabel, RawLabelKind, RawTransform};

/// What separates fields unless a schema says otherwise.
pub(super) const COMMA: u8 = b',';

/// A key and what is wrong with it.
type Fault = (&'static str, SchemaProblem);

impl Label {
    pub(super) fn from_raw(raw: RawLabel) -> Result<Self, Fault> {
        let column = raw.column.trim_ascii().to_owned();
        let kind = match raw.kind {
            None | Some(RawLabelKind::Classes) => {
                not_for(
                    "classes",
                    &[("min", raw.min.is_some()), ("max", raw.max.is_some())],
                )?;
                classes_from(raw)?
            }
            Some(RawLabelKind::Number) => {
                let of_classes = [
                    ("values", raw.values.is_some()),
                    ("positive", raw.positive.is_some()),
                ];
                not_for("number", &of_classes)?;
                LabelKind::Number(LabelRange::from_raw(&raw)?)
            }
        };
        Ok(Self { column, kind })
    }
}

/// A label of values: of two, or of more.
fn classes_from(raw: RawLabel) -> Result<LabelKind, Fault> {
    let values = raw.values.ok_or(("values", SchemaProblem::Missing))?;
    let values = texts(values).map_err(|problem| ("values", problem))?;
    let among = |key, value: Option<String>| {
        let value = value.ok_or((key, SchemaProblem::Missing))?;
        let value = value.trim_ascii().to_owned();
        if values.contains(&value) {
            Ok(value)
        } else {
            Err((key, SchemaProblem::NotAmongValues(value)))
        }
    };
    let default = match raw.default {
        Some(RawDefault::Number(number)) => Some(number.to_string()),
        Some(RawDefault::Value(value)) => Some(value),
        None => None,
    };
    let count = values.len();
    if count < 2 {
        return Err(("values", SchemaProblem::NotTwoValues(count)));
    }
    if count > Several::MOST {
        let (values, limit) = (count, Several::MOST);
        return Err(("values", SchemaProblem::TooManyValues { values, limit }));
    }
    if count > 2 {
        if raw.positive.is_some() {
            return Err(("positive", SchemaProblem::PositiveOfSeveral(count)));
        }
        let default = among("default", default)?;
        return Ok(LabelKind::Several(Several { values, default }));
    }
    let positive = among("positive", raw.positive)?;
    let default = among("default", default)?;
    let values: [String; 2] = values
        .try_into()
        .map_err(|all: Vec<String>| ("values", SchemaProblem::NotTwoValues(all.len())))?;
    Ok(LabelKind::Classes(Classes {
        values,
        positive,
        default,
    }))
}

impl LabelRange {
    fn from_raw(raw: &RawLabel) -> Result<Self, Fault> {
        let default = match &raw.default {
            Some(RawDefault::Number(number)) => Some(*number),
            Some(RawDefault::Value(text)) => {
                let problem = SchemaProblem::NotANumber(text.clone());
                return Err(("default", problem));
            }
            None => None,
        };
        let (min, max, default) = range(raw.min, raw.max, default)?;
        let label = Self { min, max, default };
        // Losses are reported in the unit of the label, and squares of it are taken.
        if !(1e-100..=1e100).contains(&label.half()) {
            return Err(("max", SchemaProblem::OutOfReach(label.half())));
        }
        Ok(label)
    }
}

/// What separates fields: one byte of text that is not used for something else.
pub(super) fn delimiter(text: Option<&str>) -> Result<u8, SchemaProblem> {
    match text.map(str::as_bytes) {
        None => Ok(COMMA),
        Some(&[byte]) if !matches!(byte, b'"' | b'\n' | b'\r') => Ok(byte),
        Some(_) => Err(SchemaProblem::Delimiter(
            text.unwrap_or_default().to_owned(),
        )),
    }
}

/// The keys of a range.
fn range(
    min: Option<f64>,
    max: Option<f64>,
    default: Option<f64>,
) -> Result<(f64, f64, f64), Fault> {
    let needed = |key, value: Option<f64>| match value {
        None => Err((key, SchemaProblem::Missing)),
        Some(value) if value.is_finite() => Ok(value),
        Some(value) => Err((key, SchemaProblem::NotFinite(value))),
    };
    let min = needed("min", min)?;
    let max = needed("max", max)?;
    let default = needed("default", default)?;
    if min >= max || !(max - min).is_finite() {
        return Err(("min", SchemaProblem::EmptyRange { min, max }));
    }
    if default < min || default > max {
        let value = default;
        return Err(("default", SchemaProblem::OutOfRange { value, min, max }));
    }
    Ok((min, max, default))
}

/// Refuses keys that are given and say nothing of this kind.
fn not_for(kind: &'static str, keys: &[(&'static str, bool)]) -> Result<(), Fault> {
    match keys.iter().find(|key| key.1) {
        Some((key, _)) => Err((*key, SchemaProblem::NotApplicable(kind))),
        None => Ok(()),
    }
}

impl ColumnKind {
    pub(super) fn from_raw(raw: RawColumn) -> Result<Self, Fault> {
        let of_numbers = [
            ("min", raw.min.is_some()),
            ("max", raw.max.is_some()),
            ("transform", raw.transform.is_some()),
            ("mean", raw.mean.is_some()),
            ("sd", raw.sd.is_some()),
            ("missing", raw.missing.is_some()),
            ("default", raw.default.is_some()),
            ("bins", raw.bins.is_some()),
            ("linear", raw.linear.is_some()),
            ("centred", raw.centred.is_some()),
        ];
        let of_hashes = [("buckets", raw.buckets.is_some())];
        let of_categories = [
            ("values", raw.values.is_some()),
            ("range", raw.range.is_some()),
            ("reference", raw.reference.is_some()),
        ];
        match raw.kind {
            RawKind::Ignore => {
                not_for("ignore", &of_numbers)?;
                not_for("ignore", &of_categories)?;
                not_for("ignore", &of_hashes)?;
                not_for("ignore", &[("scale", raw.scale.is_some())])?;
                Ok(Self::Ignore)
            }
            RawKind::Number => {
                not_for("number", &of_categories)?;
                not_for("number", &of_hashes)?;
                Number::from_raw(raw, as_number).map(Self::Number)
            }
            RawKind::Date => {
                not_for("date", &of_categories)?;
                not_for("date", &of_hashes)?;
                Number::from_raw(raw, as_day).map(Self::Date)
            }
            RawKind::Hash => {
                not_for("hash", &of_numbers)?;
                not_for("hash", &of_categories)?;
                let buckets = raw.buckets.ok_or(("buckets", SchemaProblem::Missing))?;
                if !(2..=Hashed::MOST).contains(&buckets) {
                    let limit = Hashed::MOST;
                    return Err(("buckets", SchemaProblem::Buckets { buckets, limit }));
                }
                let scale = scale(raw.scale)?;
                Ok(Self::Hash(Hashed { buckets, scale }))
            }
            RawKind::Category => {
                not_for("category", &of_numbers)?;
                not_for("category", &of_hashes)?;
                Category::from_raw(raw).map(Self::Category)
            }
        }
    }
}

/// A number of a column of numbers.
fn as_number(written: &RawDefault) -> Result<f64, SchemaProblem> {
    match written {
        RawDefault::Number(number) => Ok(*number),
        RawDefault::Value(text) => Err(SchemaProblem::NotANumber(text.clone())),
    }
}

/// A day of a column of dates.
fn as_day(written: &RawDefault) -> Result<f64, SchemaProblem> {
    let text = match written {
        RawDefault::Number(number) => number.to_string(),
        RawDefault::Value(text) => text.trim_ascii().to_owned(),
    };
    match date::day(text.as_bytes()) {
        // Days of four digits of years are exact.
        Some(day) if text.len() == DATE_LENGTH => Ok(day as f64),
        _ => Err(SchemaProblem::NotADate(text)),
    }
}

/// Bytes of `YYYY-MM-DD`.
const DATE_LENGTH: usize = 10;

impl Number {
    /// `read` gives the number that a number, or a date, of the column stands for.
    fn from_raw(
        raw: RawColumn,
        read: impl Fn(&RawDefault) -> Result<f64, SchemaProblem>,
    ) -> Result<Self, Fault> {
        let read = |key, written: &Option<RawDefault>| {
            let number = written.as_ref().map(&read).transpose();
            number.map_err(|problem| (key, problem))
        };
        let (min, max, default) = range(
            read("min", &raw.min)?,
            read("max", &raw.max)?,
            read("default", &raw.default)?,
        )?;
        let mean = read("mean", &raw.mean)?;
        let binned = raw.bins.is_some();
        let mut bins = Vec::new();
        for edge in raw.bins.iter().flatten() {
            bins.extend(read("bins", &Some(edge.clone()))?);
        }
        if binned && bins.is_empty() {
            return Err(("bins", SchemaProblem::EmptyList));
        }
        for &edge in &bins {
            if !edge.is_finite() {
                return Err(("bins", SchemaProblem::NotFinite(edge)));
            }
            // An edge at `max` is allowed: it sets the numbers that were clipped there apart.
            if edge <= min || edge > max {
                return Err(("bins", SchemaProblem::EdgeOutOfRange { edge, min, max }));
            }
        }
        for pair in bins.windows(2) {
            if let &[before, after] = pair
                && before >= after
            {
                return Err(("bins", SchemaProblem::NotIncreasing { before, after }));
            }
        }
        let linear = raw.linear.unwrap_or(!binned);
        if !linear && !binned {
            return Err(("linear", SchemaProblem::NoFeatureOfColumn));
        }
        let scale = scale(raw.scale)?;
        let transform = transform(&raw, mean, (min, max), scale, linear)?;
        let centred = raw.centred.unwrap_or(false);
        if centred && !linear {
            return Err(("centred", SchemaProblem::OnlyBuckets));
        }
        if centred && matches!(transform, Transform::Standard { .. }) {
            return Err(("centred", SchemaProblem::CentredTwice));
        }
        Ok(Self {
            min,
            max,
            transform,
            default,
            scale,
            bins,
            linear,
            centred,
            missing: raw.missing.unwrap_or(false),
        })
    }
}

/// The map of a number: what (x - mean) / sd takes, and whether all that it gives are numbers of single precision.
fn transform(
    raw: &RawColumn,
    mean: Option<f64>,
    (min, max): (f64, f64),
    scale: f64,
    linear: bool,
) -> Result<Transform, Fault> {
    let given = match raw.transform.unwrap_or(RawTransform::Linear) {
        RawTransform::Linear => Transform::Linear,
        RawTransform::Log1p => Transform::Log1p,
        RawTransform::Standard => {
            let mean = mean.ok_or(("mean", SchemaProblem::Missing))?;
            let sd = raw.sd.ok_or(("sd", SchemaProblem::Missing))?;
            if !mean.is_finite() {
                return Err(("mean", SchemaProblem::NotFinite(mean)));
            }
            if mean < min || mean > max {
                let value = mean;
                return Err(("mean", SchemaProblem::OutOfRange { value, min, max }));
            }
            positive(sd).map_err(|problem| ("sd", problem))?;
            if !linear {
                return Err(("transform", SchemaProblem::NothingToTransform));
            }
            let far = scale * ((max - mean) / sd).max((mean - min) / sd);
            if !(far as f32).is_finite() {
                return Err(("sd", SchemaProblem::TooSteep { mean, sd }));
            }
            return Ok(Transform::Standard { mean, sd });
        }
    };
    let extra = [("mean", mean.is_some()), ("sd", raw.sd.is_some())];
    match extra.iter().find(|key| key.1) {
        Some((key, _)) => Err((*key, SchemaProblem::NotStandard)),
        None => Ok(given),
    }
}

impl Category {
    /// The most values that a range stands for: each is a feature.
    const LONGEST_RANGE: u64 = 10_000;

    pub(super) fn from_raw(raw: RawColumn) -> Result<Self, Fault> {
        let mut values = match (raw.values, raw.range) {
            (None, None) => return Err(("values", SchemaProblem::Missing)),
            (None, Some(_)) => Vec::new(),
            (Some(values), _) if values.is_empty() => {
                return Err(("values", SchemaProblem::EmptyList));
            }
            (Some(values), _) => values,
        };
        if let Some([from, to]) = raw.range {
            let limit = Self::LONGEST_RANGE;
            if from > to || to.abs_diff(from) >= limit {
                return Err(("range", SchemaProblem::WholeRange { from, to, limit }));
            }
            values.extend((from..=to).map(|value| value.to_string()));
        }
        let values = texts(values).map_err(|problem| ("values", problem))?;
        let reference = match raw.reference {
            None => None,
            Some(value) => texts(vec![value])
                .map_err(|problem| ("reference", problem))?
                .pop(),
        };
        Ok(Self {
            values,
            reference,
            scale: scale(raw.scale)?,
        })
    }
}

/// A label made of a category column. Of two values the first is positive, unless `positive` is the second, and an unknown label is the
/// other one; of more an unknown label is the reference, or the first one where there is none.
pub(super) fn label_from(
    column: RawColumn,
    positive: Option<&str>,
    origin: &str,
) -> Result<RawLabel, TabularError> {
    let mut values = column.values.unwrap_or_default();
    let reference = column.reference;
    values.extend(reference.clone().filter(|value| !values.contains(value)));
    let (positive, default) = match values.as_slice() {
        [] | [_] => {
            return Err(TabularError::Schema {
                path: origin.to_owned(),
                key: format!("column {:?}", column.name),
                problem: SchemaProblem::NotTwoValues(values.len()),
            });
        }
        [first, second] if positive == Some(second) => (Some(second.clone()), first.clone()),
        [first, second] => (Some(first.clone()), second.clone()),
        [first, ..] => (None, reference.unwrap_or_else(|| first.clone())),
    };
    Ok(RawLabel {
        column: column.name,
        kind: None,
        values: Some(values),
        positive,
        min: None,
        max: None,
        default: Some(RawDefault::Value(default)),
    })
}

/// Strips and checks a list of texts.
fn texts(values: Vec<String>) -> Result<Vec<String>, SchemaProblem> {
    let mut seen = HashSet::new();
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        let value = value.trim_ascii().to_owned();
        if value.contains('\n') {
            return Err(SchemaProblem::LineBreak(value));
        }
        if !seen.insert(value.clone()) {
            return Err(SchemaProblem::Duplicate(value));
        }
        kept.push(value);
    }
    Ok(kept)
}

pub(super) fn scale(value: Option<f64>) -> Result<f64, Fault> {
    let value = value.unwrap_or(1.0);
    positive(value)
        .and_then(|()| single(value))
        .map_err(|problem| ("scale", problem))?;
    Ok(value)
}

pub(super) fn positive(value: f64) -> Result<(), SchemaProblem> {
    if !value.is_finite() {
        Err(SchemaProblem::NotFinite(value))
    } else if value <= 0.0 {
        Err(SchemaProblem::NotPositive(value))
    } else {
        Ok(())
    }
}

/// Features are stored in single precision: neither overflow nor vanish there.
pub(super) fn single(value: f64) -> Result<(), SchemaProblem> {
    if (value as f32).is_normal() {
        Ok(())
    } else {
        Err(SchemaProblem::NotFinite(value))
    }
}
