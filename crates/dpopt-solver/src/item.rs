//! What is shown of a plan: names, values, units.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::bound::BoundedQuantity;
use crate::plan::Plan;

/// One number or word of a plan.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// The name, in snake case: the key in JSON.
    pub name: &'static str,
    /// What it is.
    pub value: Value<'a>,
    /// In which unit, if it is a number.
    pub unit: Unit,
}

/// What an item holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A whole number.
    Count(u64),
    /// A number; none where there is none.
    Number(Option<f64>),
    /// Yes or no.
    Flag(bool),
    /// A word.
    Word(String),
    /// Whole numbers.
    Counts(Vec<u64>),
    /// Items that belong together.
    Group(Vec<Item<'a>>),
    /// The same items again and again: of phases, of stages.
    Rows(Vec<Vec<Item<'a>>>),
    /// Another plan.
    Plan(&'a dyn Plan),
}

/// A unit, as powers of those of the loss and of the length of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Power of the unit of the loss.
    pub loss: i8,
    /// Power of the unit of a point's length.
    pub length: i8,
}

impl Unit {
    /// A number without a unit.
    pub const NONE: Self = Self::of(0, 0);
    /// That of a loss.
    pub const LOSS: Self = Self::of(1, 0);
    /// That of a point's length.
    pub const LENGTH: Self = Self::of(0, 1);
    /// That of a row, whose product with a point is a number.
    pub const ROW: Self = Self::of(0, -1);
    /// That of a gradient.
    pub const GRADIENT: Self = Self::of(1, -1);
    /// That of a step over a gradient.
    pub const STEP_SIZE: Self = Self::of(-1, 2);
    /// That of L1, or of the weight of a squared distance.
    pub const CURVATURE: Self = Self::of(1, -2);

    const fn of(loss: i8, length: i8) -> Self {
        Self { loss, length }
    }
}

/// As a product of powers, such as "loss length^-1".
impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let powers = [("loss", self.loss), ("length", self.length)];
        let mut before = "";
        for (name, power) in powers.into_iter().filter(|(_, power)| *power != 0) {
            f.write_str(before)?;
            match power {
                1 => f.write_str(name)?,
                _ => write!(f, "{name}^{power}")?,
            }
            before = " ";
        }
        Ok(())
    }
}

impl<'a> Item<'a> {
    /// A number in a unit.
    #[must_use]
    pub fn number(name: &'static str, number: f64, unit: Unit) -> Self {
        Self::maybe(name, Some(number), unit)
    }

    /// A number in a unit, or none.
    #[must_use]
    pub fn maybe(name: &'static str, number: Option<f64>, unit: Unit) -> Self {
        Self {
            name,
            value: Value::Number(number),
            unit,
        }
    }

    /// A number without a unit: a share, a noise multiplier.
    #[must_use]
    pub fn ratio(name: &'static str, number: f64) -> Self {
        Self::number(name, number, Unit::NONE)
    }

    /// A whole number.
    #[must_use]
    pub fn count(name: &'static str, count: u64) -> Self {
        Self::plain(name, Value::Count(count))
    }

    /// A word of a type that is written as one.
    #[must_use]
    pub fn word(name: &'static str, word: impl std::fmt::Display) -> Self {
        Self::plain(name, Value::Word(word.to_string()))
    }

    /// Any value without a unit.
    #[must_use]
    pub fn plain(name: &'static str, value: Value<'a>) -> Self {
        Self {
            name,
            value,
            unit: Unit::NONE,
        }
    }
}

/// Writes a plan as one object.
pub(crate) fn serialize<P: Plan + ?Sized, S: Serializer>(
    plan: &P,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    match plan.wider_facts() {
        None => map.serialize_entry("facts", plan.facts())?,
        Some((name, beside)) => map.serialize_entry(
            "facts",
            &Wider {
                name,
                facts: plan.facts(),
                beside: &beside,
            },
        )?,
    }
    map.serialize_entry("budget", plan.budget())?;
    for item in plan.items() {
        map.serialize_entry(item.name, &item.value)?;
    }
    let bound = plan.bound();
    match bound {
        Some(bound) if bound.quantity == BoundedQuantity::ExcessRisk => {
            map.serialize_entry("excess_bound", &bound.value)?;
        }
        Some(bound) if bound.quantity == BoundedQuantity::GoldsteinDistance => {
            map.serialize_entry("goldstein_bound", &bound.value)?;
            map.serialize_entry("goldstein_radius", &bound.radius)?;
        }
        bound => map.serialize_entry("predicted_bound", &bound.map(|bound| bound.value))?,
    }
    map.end()
}

struct Wider<'a> {
    name: &'static str,
    facts: &'a crate::PublicFacts,
    beside: &'a [Item<'a>],
}

impl Serialize for Wider<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name, self.facts)?;
        for item in self.beside {
            map.serialize_entry(item.name, &item.value)?;
        }
        map.end()
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Count(count) => serializer.serialize_u64(*count),
            Value::Number(number) => number.serialize(serializer),
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Word(word) => serializer.serialize_str(word),
            Value::Counts(counts) => counts.serialize(serializer),
            Value::Group(items) => Object(items).serialize(serializer),
            Value::Rows(rows) => {
                let rows: Vec<Object<'_>> = rows.iter().map(|row| Object(row)).collect();
                rows.serialize(serializer)
            }
            Value::Plan(plan) => plan.serialize(serializer),
        }
    }
}

struct Object<'a>(&'a [Item<'a>]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|item| (item.name, &item.value)))
    }
}
