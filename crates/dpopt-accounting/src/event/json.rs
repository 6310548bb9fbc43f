//! Events as JSON objects in the shape of `DpEvent.to_named_tuple`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::error::{EventError, EventProblem, MAX_DEPTH, MAX_NODES};
use super::tree::{AT_LEAST_ONE, Event, Field, POSITIVE, StepCounts};
use super::walk::join;
use crate::units::{Epsilon, NoiseMultiplier, Rho, SamplingRate, UnitError};

/// The module of the classes of `dp_accounting`.
const THEIRS: &str = "dp_accounting.dp_event";
/// That of the others.
const OURS: &str = "dpopt";

/// Classes of ours; all others are of `dp_accounting`.
const OUR_CLASSES: [&str; 9] = [
    "DiscreteGaussianDpEvent",
    "RandomAllocationDpEvent",
    "ParallelComposedDpEvent",
    "PrefixSumsDpEvent",
    "EpsilonDeltaDpEvent",
    "ExponentialMechanismDpEvent",
    "PermuteAndFlipDpEvent",
    "AboveThresholdDpEvent",
    "ReportNoisyMaxDpEvent",
];

fn module_of(class: &str) -> &'static str {
    match OUR_CLASSES.contains(&class) {
        true => OURS,
        false => THEIRS,
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.check_depth().map_err(S::Error::custom)?;
        Node(self).serialize(serializer)
    }
}

/// An event that is known not to be too deep.
struct Node<'a>(&'a Event);

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.0;
        let class = event.class();
        let module = match event {
            Event::Unsupported { .. } => THEIRS,
            _ => module_of(class),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("module_name", module)?;
        map.serialize_entry("class_name", class)?;
        let inner_first = matches!(
            event,
            Event::SelfComposed { .. } | Event::RepeatAndSelect { .. }
        );
        if inner_first {
            inner(event, &mut map)?;
        }
        for (name, field) in event.fields().into_iter().flatten() {
            match field {
                Field::Real(value) if value == f64::INFINITY => map.serialize_entry(name, "inf")?,
                Field::Real(value) => map.serialize_entry(name, &value)?,
                Field::Whole(value) => map.serialize_entry(name, &value)?,
                Field::Steps(StepCounts::One(steps)) => map.serialize_entry(name, steps)?,
                Field::Steps(StepCounts::Many(steps)) => map.serialize_entry(name, steps)?,
            }
        }
        if !inner_first {
            inner(event, &mut map)?;
        }
        map.end()
    }
}

fn inner<M: SerializeMap>(event: &Event, map: &mut M) -> Result<(), M::Error> {
    match event.child_key() {
        Some((key, true)) => map.serialize_entry(key, &Nodes(event.children())),
        Some((key, false)) => match event.children() {
            [one] => map.serialize_entry(key, &Node(one)),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

struct Nodes<'a>(&'a [Event]);

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Node))
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Levels::new(&Cell::new(false)).deserialize(deserializer)?;
        Builder::default()
            .event(&json, 0)
            .map_err(serde::de::Error::custom)
    }
}

impl Event {
    /// Reads an event from JSON text.
    ///
    /// # Errors
    /// [`EventError`] with the path of the offending event.
    pub fn from_json(text: &str) -> Result<Self, EventError> {
        Builder::default().event(&parse(text)?, 0)
    }
}

/// A JSON value. Unlike `serde_json::Value` it keeps a key that is there twice, so that it can be refused: the last one
/// would win.
pub(super) enum Json {
    /// No list and no object.
    Leaf(Value),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(super) fn leaf(&self) -> Option<&Value> {
        match self {
            Json::Leaf(value) => Some(value),
            _ => None,
        }
    }
}

/// The whole of a text.
pub(super) fn parse(text: &str) -> Result<Json, EventError> {
    let too_deep = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let json = Levels::new(&too_deep).deserialize(&mut deserializer);
    json.and_then(|json| deserializer.end().map(|()| json))
        .map_err(|error| match too_deep.get() {
            true => wrong("", EventProblem::TooDeep),
            false => wrong("", EventProblem::Json(error.to_string())),
        })
}

/// Reads a value with at most so many more levels: two for each level of events, and a few for what stands beside them.
/// One level less than `serde_json` reads, so that the error has a type.
struct Levels<'a> {
    left: usize,
    too_deep: &'a Cell<bool>,
}

impl<'a> Levels<'a> {
    fn new(too_deep: &'a Cell<bool>) -> Self {
        let left = 2 * MAX_DEPTH + 6;
        Self { left, too_deep }
    }

    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        let Some(left) = self.left.checked_sub(1) else {
            self.too_deep.set(true);
            return Err(E::custom(EventProblem::TooDeep));
        };
        let too_deep = self.too_deep;
        Ok(Self { left, too_deep })
    }
}

impl<'de> DeserializeSeed<'de> for Levels<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! leaves {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E: serde::de::Error>(self, value: $kind) -> Result<Json, E> {
            Ok(Json::Leaf(value.into()))
        })*
    };
}

impl<'de> Visitor<'de> for Levels<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event as a JSON object")
    }

    leaves!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: serde::de::Error>(self) -> Result<Json, E> {
        Ok(Json::Leaf(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(self.inner()?)? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key()? {
            fields.push((key, map.next_value_seed(self.inner()?)?));
        }
        Ok(Json::Object(fields))
    }
}

pub(super) fn wrong(path: &str, problem: EventProblem) -> EventError {
    let path = path.to_owned();
    EventError { path, problem }
}

/// The value of a field, or an item of a list, is not of the right kind.
pub(super) fn kind(field: &str, needs: &'static str, got: &Json) -> EventError {
    let mut got = match got {
        Json::List(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        Json::Leaf(leaf) => leaf.to_string(),
    };
    if got.len() > 40 {
        got = "a long text".to_owned();
    }
    wrong(field, EventProblem::Kind { needs, got })
}

fn inside(place: &str, error: EventError) -> EventError {
    let path = join(place.to_owned(), &error.path);
    EventError { path, ..error }
}

/// Makes events of one text, and counts them.
#[derive(Default)]
pub(super) struct Builder {
    nodes: u64,
}

impl Builder {
    /// The event below `depth` others.
    pub(super) fn event(&mut self, json: &Json, depth: usize) -> Result<Event, EventError> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return Err(wrong("", EventProblem::TooDeep));
        }
        if self.nodes > MAX_NODES {
            return Err(wrong("", EventProblem::TooMany));
        }
        let Json::Object(fields) = json else {
            return Err(wrong("", EventProblem::NotAnObject));
        };
        let event = self.build(&Fields::read(fields, "an event")?, depth)?;
        match event.check_fields() {
            Ok(()) => Ok(event),
            Err((field, problem)) => Err(wrong(field, problem)),
        }
    }

    /// The events of a list.
    pub(super) fn events(&mut self, json: &Json, depth: usize) -> Result<Vec<Event>, EventError> {
        let Json::List(list) = json else {
            return Err(kind("", "a list of events", json));
        };
        let one = |(i, json)| {
            self.event(json, depth)
                .map_err(|error| inside(&format!("[{i}]"), error))
        };
        list.iter().enumerate().map(one).collect()
    }

    /// The inner event of a file or of an event at `depth`, where there is one.
    pub(super) fn inner(
        &mut self,
        fields: &Fields<'_>,
        depth: usize,
    ) -> Result<Option<Event>, EventError> {
        let read = fields.get("event").map(|json| self.event(json, depth + 1));
        read.transpose().map_err(|error| inside("event", error))
    }

    /// The inner events of a file or of an event at `depth`, where there are some.
    pub(super) fn all_inner(
        &mut self,
        fields: &Fields<'_>,
        depth: usize,
    ) -> Result<Option<Vec<Event>>, EventError> {
        let read = fields
            .get("events")
            .map(|json| self.events(json, depth + 1));
        read.transpose().map_err(|error| inside("events", error))
    }

    fn build(&mut self, fields: &Fields<'_>, depth: usize) -> Result<Event, EventError> {
        let Some(name) = fields.class else {
            return Err(fields.missing("class_name"));
        };
        let unknown = || {
            let class_name = match fields.module {
                Some(module) if module != THEIRS => format!("{module}.{name}"),
                _ => name.to_owned(),
            };
            Event::Unsupported { class_name }
        };
        if fields
            .module
            .is_some_and(|module| module != module_of(name))
        {
            return Ok(unknown());
        }
        let noise = || fields.unit("noise_multiplier", NoiseMultiplier::new);
        let epsilon = || fields.unit("epsilon", Epsilon::new);
        let event = match name {
            "NoOpDpEvent" => Event::NoOp,
            "NonPrivateDpEvent" => Event::NonPrivate,
            "GaussianDpEvent" => Event::gaussian(noise()?),
            "LaplaceDpEvent" => Event::Laplace {
                noise_multiplier: noise()?,
            },
            "DiscreteGaussianDpEvent" => Event::DiscreteGaussian {
                noise_multiplier: noise()?,
            },
            "DiscreteLaplaceDpEvent" => Event::DiscreteLaplace {
                noise_parameter: fields.real("noise_parameter")?,
                sensitivity: fields.whole("sensitivity")?,
            },
            "RandomizedResponseDpEvent" => Event::RandomizedResponse {
                noise_parameter: fields.real("noise_parameter")?,
                num_buckets: fields.whole("num_buckets")?,
            },
            "PoissonSampledDpEvent" => Event::PoissonSampled {
                event: self.one(fields, depth)?,
                sampling_probability: fields.unit("sampling_probability", SamplingRate::new)?,
            },
            "SampledWithReplacementDpEvent" => Event::SampledWithReplacement {
                event: self.one(fields, depth)?,
                source_dataset_size: fields.whole("source_dataset_size")?,
                sample_size: fields.whole("sample_size")?,
            },
            "SampledWithoutReplacementDpEvent" => Event::SampledWithoutReplacement {
                event: self.one(fields, depth)?,
                source_dataset_size: fields.whole("source_dataset_size")?,
                sample_size: fields.whole("sample_size")?,
            },
            "RandomAllocationDpEvent" => Event::RandomAllocation {
                event: self.one(fields, depth)?,
                num_steps: fields.whole("num_steps")?,
                num_participations: fields.whole("num_participations")?,
            },
            "TruncatedSubsampledGaussianDpEvent" => Event::TruncatedSubsampledGaussian {
                dataset_size: fields.whole("dataset_size")?,
                sampling_probability: fields.unit("sampling_probability", SamplingRate::new)?,
                truncated_batch_size: fields.small("truncated_batch_size")?,
                noise_multiplier: noise()?,
            },
            "SelfComposedDpEvent" => Event::SelfComposed {
                event: self.one(fields, depth)?,
                count: fields.whole("count")?,
            },
            "ComposedDpEvent" => Event::Composed {
                events: self.many(fields, depth)?,
            },
            "ParallelComposedDpEvent" => Event::ParallelComposed {
                events: self.many(fields, depth)?,
            },
            "SingleEpochTreeAggregationDpEvent" => Event::SingleEpochTreeAggregation {
                noise_multiplier: noise()?,
                step_counts: fields.steps()?,
            },
            "PrefixSumsDpEvent" => Event::PrefixSums {
                noise_multiplier: noise()?,
                step_counts: fields.steps()?,
            },
            "RepeatAndSelectDpEvent" => Event::RepeatAndSelect {
                event: self.one(fields, depth)?,
                mean: fields.real("mean")?,
                shape: fields.shape()?,
            },
            "ZCDpEvent" => Event::ZCdp {
                rho: fields.unit("rho", Rho::new)?,
                xi: match fields.value("xi") {
                    Ok(_) => fields.real("xi")?,
                    Err(_) => 0.0,
                },
            },
            "EpsilonDeltaDpEvent" => Event::EpsilonDelta {
                epsilon: fields.real("epsilon")?,
                delta: fields.real("delta")?,
            },
            "ExponentialMechanismDpEvent" => Event::ExponentialMechanism {
                epsilon: epsilon()?,
            },
            "PermuteAndFlipDpEvent" => Event::PermuteAndFlip {
                epsilon: epsilon()?,
            },
            "AboveThresholdDpEvent" => Event::AboveThreshold {
                epsilon: epsilon()?,
            },
            "ReportNoisyMaxDpEvent" => Event::ReportNoisyMax {
                epsilon: epsilon()?,
            },
            _ => return Ok(unknown()),
        };
        // A field that changes the mathematics must never be dropped silently.
        match fields.unread() {
            Some(field) => Err(fields.unknown(field, name)),
            None => Ok(event),
        }
    }

    /// The one inner event.
    fn one(&mut self, fields: &Fields<'_>, depth: usize) -> Result<Box<Event>, EventError> {
        let event = self.inner(fields, depth)?;
        event.map(Box::new).ok_or_else(|| fields.missing("event"))
    }

    /// The inner events.
    fn many(&mut self, fields: &Fields<'_>, depth: usize) -> Result<Vec<Event>, EventError> {
        let events = self.all_inner(fields, depth)?;
        events.ok_or_else(|| fields.missing("events"))
    }
}

/// The fields of one object.
pub(super) struct Fields<'a> {
    class: Option<&'a str>,
    module: Option<&'a str>,
    values: BTreeMap<&'a str, &'a Json>,
    read: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Fields<'a> {
    /// The fields of `what`, in which none may be twice.
    pub(super) fn read(fields: &'a [(String, Json)], what: &str) -> Result<Self, EventError> {
        let mut read = Self {
            class: None,
            module: None,
            values: BTreeMap::new(),
            read: RefCell::default(),
        };
        for (key, json) in fields {
            if read.values.insert(key, json).is_some() {
                return Err(read.unknown(key, read.class.unwrap_or(what)));
            }
            let name = match key.as_str() {
                "class_name" => &mut read.class,
                "module_name" => &mut read.module,
                _ => continue,
            };
            let Json::Leaf(Value::String(text)) = json else {
                return Err(kind(key, "a name", json));
            };
            *name = Some(text);
        }
        Ok(read)
    }

    /// Whether they say that they are an event's.
    pub(super) fn is_an_event(&self) -> bool {
        self.class.is_some()
    }

    pub(super) fn get(&self, field: &str) -> Option<&'a Json> {
        let (key, value) = self.values.get_key_value(field)?;
        self.read.borrow_mut().insert(key);
        Some(value)
    }

    /// A field beside the names that was not asked for.
    fn unread(&self) -> Option<&'a str> {
        let read = self.read.borrow();
        let mut keys = self.values.keys().copied();
        keys.find(|key| !["module_name", "class_name"].contains(key) && !read.contains(key))
    }

    fn unknown(&self, field: &str, class: &str) -> EventError {
        let problem = EventProblem::UnknownField {
            class: class.to_owned(),
            field: field.to_owned(),
        };
        wrong(field, problem)
    }

    fn missing(&self, field: &'static str) -> EventError {
        let class = self.class.unwrap_or("an event").to_owned();
        wrong(field, EventProblem::Missing { class, field })
    }

    fn value(&self, field: &'static str) -> Result<&'a Json, EventError> {
        self.get(field).ok_or_else(|| self.missing(field))
    }

    fn real(&self, field: &'static str) -> Result<f64, EventError> {
        let json = self.value(field)?;
        json.leaf()
            .and_then(Value::as_f64)
            .ok_or_else(|| kind(field, "a number", json))
    }

    fn unit<T>(
        &self,
        field: &'static str,
        make: fn(f64) -> Result<T, UnitError>,
    ) -> Result<T, EventError> {
        let value = self.real(field)?;
        make(value).map_err(|error| {
            let needs = match error {
                UnitError::NotAProbability { .. } => "a number above 0 and at most 1",
                _ => POSITIVE,
            };
            wrong(field, EventProblem::Range { needs, value })
        })
    }

    fn whole(&self, field: &'static str) -> Result<u64, EventError> {
        whole(field, self.value(field)?)
    }

    fn small(&self, field: &'static str) -> Result<u32, EventError> {
        let value = self.whole(field)?;
        let needs = "a whole number below 2^32";
        let problem = EventProblem::Range {
            needs,
            value: value as f64,
        };
        u32::try_from(value).map_err(|_| wrong(field, problem))
    }

    fn steps(&self) -> Result<StepCounts, EventError> {
        const FIELD: &str = "step_counts";
        match self.value(FIELD)? {
            Json::List(list) => list
                .iter()
                .enumerate()
                .map(|(i, json)| whole(&format!("{FIELD}[{i}]"), json))
                .collect::<Result<_, _>>()
                .map(StepCounts::Many),
            json => whole(FIELD, json).map(StepCounts::One),
        }
    }

    fn shape(&self) -> Result<f64, EventError> {
        let text = self.value("shape")?.leaf().and_then(Value::as_str);
        match text {
            Some("inf" | "Infinity") => Ok(f64::INFINITY),
            _ => self.real("shape"),
        }
    }
}

fn whole(field: &str, json: &Json) -> Result<u64, EventError> {
    json.leaf()
        .and_then(Value::as_u64)
        .ok_or_else(|| kind(field, AT_LEAST_ONE, json))
}
