//! A plan as JSON.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::bound::BoundedQuantity;
use crate::facts::PublicFacts;
use crate::plan::{Item, Plan, Value};

impl Serialize for dyn Plan + '_ {
    /// One object: facts, budget, the items by name, and the bound.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.wider_facts() {
            None => map.serialize_entry("facts", self.facts())?,
            Some((name, beside)) => map.serialize_entry(
                "facts",
                &Wider {
                    name,
                    facts: self.facts(),
                    beside: &beside,
                },
            )?,
        }
        map.serialize_entry("budget", self.budget())?;
        for item in self.items() {
            map.serialize_entry(item.name, &item.value)?;
        }
        let bound = self.bound();
        match bound {
            Some(bound) if bound.quantity == BoundedQuantity::ExcessRisk => {
                map.serialize_entry("excess_bound", &bound.value)?;
            }
            Some(bound) if bound.quantity == BoundedQuantity::GoldsteinDistance => {
                map.serialize_entry("goldstein_bound", &bound.value)?;
            }
            Some(bound) if bound.quantity == BoundedQuantity::ComponentWiseGoldsteinDistance => {
                map.serialize_entry("component_wise_goldstein_bound", &bound.value)?;
            }
            bound => map.serialize_entry("predicted_bound", &bound.map(|bound| bound.value))?,
        }
        map.end()
    }
}

struct Wider<'a> {
    name: &'static str,
    facts: &'a PublicFacts,
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
