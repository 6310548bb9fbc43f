//! Events as JSON objects in the shape of `DpEvent.to_named_tuple`.

use std::cell::{Cell, RefCell};

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::walk::join;
use super::{
    AT_LEAST_ONE, Event, EventError, EventProblem, Field, MAX_DEPTH, MAX_NODES, POSITIVE,
    StepCounts,
};
use crate::units::{Epsilon, NoiseMultiplier, Rho, SamplingRate, UnitError};

pub(super) const THEIRS: &str = "dp_accounting.dp_event";
pub(super) const OURS: &str = "dpopt";

/// Every class: module, name, its fields.
const CLASSES: [(&str, &str, &[&str]); 22] = [
    (THEIRS, "NoOpDpEvent", &[]),
    (THEIRS, "NonPrivateDpEvent", &[]),
    (THEIRS, "GaussianDpEvent", &["noise_multiplier"]),
    (THEIRS, "LaplaceDpEvent", &["noise_multiplier"]),
    (OURS, "DiscreteGaussianDpEvent", &["noise_multiplier"]),
    (
        THEIRS,
        "DiscreteLaplaceDpEvent",
        &["noise_parameter", "sensitivity"],
    ),
    (
        THEIRS,
        "RandomizedResponseDpEvent",
        &["noise_parameter", "num_buckets"],
    ),
    (
        THEIRS,
        "PoissonSampledDpEvent",
        &["sampling_probability", "event"],
    ),
    (
        THEIRS,
        "SampledWithReplacementDpEvent",
        &["source_dataset_size", "sample_size", "event"],
    ),
    (
        THEIRS,
        "SampledWithoutReplacementDpEvent",
        &["source_dataset_size", "sample_size", "event"],
    ),
    (THEIRS, "SelfComposedDpEvent", &["event", "count"]),
    (THEIRS, "ComposedDpEvent", &["events"]),
    (OURS, "ParallelComposedDpEvent", &["events"]),
    (
        THEIRS,
        "SingleEpochTreeAggregationDpEvent",
        &["noise_multiplier", "step_counts"],
    ),
    (
        OURS,
        "PrefixSumsDpEvent",
        &["noise_multiplier", "step_counts"],
    ),
    (
        THEIRS,
        "RepeatAndSelectDpEvent",
        &["event", "mean", "shape"],
    ),
    (THEIRS, "ZCDpEvent", &["rho", "xi"]),
    (OURS, "EpsilonDeltaDpEvent", &["epsilon", "delta"]),
    (OURS, "ExponentialMechanismDpEvent", &["epsilon"]),
    (OURS, "PermuteAndFlipDpEvent", &["epsilon"]),
    (OURS, "AboveThresholdDpEvent", &["epsilon"]),
    (OURS, "ReportNoisyMaxDpEvent", &["epsilon"]),
];

fn class_of(
    module: Option<&str>,
    name: &str,
) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    CLASSES
        .iter()
        .find(|(theirs, known, _)| *known == name && module.is_none_or(|module| module == *theirs))
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
        let (module, class) = event.class();
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
        Reader::default().node(0).deserialize(deserializer)
    }
}

pub(super) fn read(text: &str) -> Result<Event, EventError> {
    read_with(text, |reader, deserializer| {
        reader.node(0).deserialize(deserializer)
    })
}

/// The whole of `text` by `read`, with the place of the first failure.
pub(super) fn read_with<'de, T>(
    text: &'de str,
    read: impl FnOnce(
        &Reader,
        &mut serde_json::Deserializer<serde_json::de::StrRead<'de>>,
    ) -> Result<T, serde_json::Error>,
) -> Result<T, EventError> {
    let reader = Reader::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = read(&reader, &mut deserializer);
    match found.and_then(|found| deserializer.end().map(|()| found)) {
        Ok(found) => Ok(found),
        Err(error) => Err(reader.failure.take().unwrap_or_else(|| EventError {
            path: String::new(),
            problem: EventProblem::Json(error.to_string()),
        })),
    }
}

enum Step {
    Field(&'static str),
    Index(usize),
}

/// Where the reading of one text is.
#[derive(Default)]
pub(super) struct Reader {
    nodes: Cell<u64>,
    path: RefCell<Vec<Step>>,
    /// The first failure; later ones only pass it on.
    failure: RefCell<Option<EventError>>,
}

impl Reader {
    pub(super) fn node(&self, depth: usize) -> NodeSeed<'_> {
        NodeSeed {
            reader: self,
            depth,
        }
    }

    pub(super) fn fail<E: serde::de::Error>(&self, field: &str, problem: EventProblem) -> E {
        let mut path = String::new();
        for step in self.path.borrow().iter() {
            match step {
                Step::Field(name) => path = join(path, name),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let error = EventError {
            path: join(path, field),
            problem,
        };
        let message = E::custom(&error);
        self.failure.borrow_mut().get_or_insert(error);
        message
    }

    /// Gives an error of the parser the path at which it happened.
    pub(super) fn located<T, E: serde::de::Error>(&self, result: Result<T, E>) -> Result<T, E> {
        result.map_err(|error| {
            if self.failure.borrow().is_some() {
                error
            } else {
                self.fail("", EventProblem::Json(error.to_string()))
            }
        })
    }

    fn inside<T, E>(&self, step: Step, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.path.borrow_mut().push(step);
        let result = f();
        self.path.borrow_mut().pop();
        result
    }
}

#[derive(Clone, Copy)]
pub(super) struct NodeSeed<'a> {
    reader: &'a Reader,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Event;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Event, D::Error> {
        let reader = self.reader;
        if self.depth > MAX_DEPTH {
            return Err(reader.fail("", EventProblem::TooDeep));
        }
        reader.nodes.set(reader.nodes.get() + 1);
        if reader.nodes.get() > MAX_NODES {
            return Err(reader.fail("", EventProblem::TooMany));
        }
        reader.located(deserializer.deserialize_any(self))
    }
}

macro_rules! not_an_object {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E: serde::de::Error>(self, _: $kind) -> Result<Event, E> {
            Err(self.reader.fail("", EventProblem::NotAnObject))
        })*
    };
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Event;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event as a JSON object")
    }

    not_an_object!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: serde::de::Error>(self) -> Result<Event, E> {
        Err(self.reader.fail("", EventProblem::NotAnObject))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Event, A::Error> {
        Err(self.reader.fail("", EventProblem::NotAnObject))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Event, A::Error> {
        Fields::read(self, map, Seed::Event)?.into_event(self.reader)
    }
}

/// What an object is expected to be.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Seed {
    Event,
    /// An event, or an object that has events.
    File,
}

pub(super) struct NodesSeed<'a>(pub(super) NodeSeed<'a>);

impl<'de> DeserializeSeed<'de> for NodesSeed<'_> {
    type Value = Vec<Event>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Event>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NodesSeed<'_> {
    type Value = Vec<Event>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Event>, A::Error> {
        let reader = self.0.reader;
        let mut events = Vec::new();
        loop {
            let next = reader.inside(Step::Index(events.len()), || {
                reader.located(seq.next_element_seed(self.0))
            })?;
            match next {
                Some(event) => events.push(event),
                None => return Ok(events),
            }
        }
    }
}

pub(super) fn kind(needs: &'static str, got: &Value) -> EventProblem {
    let mut got = match got {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    if got.len() > 40 {
        got = "a long text".to_owned();
    }
    EventProblem::Kind { needs, got }
}

type Wrong = (String, EventProblem);

/// The fields of one object, as they were read.
#[derive(Default)]
pub(super) struct Fields {
    keys: std::collections::HashSet<String>,
    module: Option<String>,
    class: Option<String>,
    values: Vec<(String, Value)>,
    pub(super) event: Option<Event>,
    pub(super) events: Option<Vec<Event>>,
}

impl Fields {
    /// Reads an object, in which no field may be twice.
    pub(super) fn read<'de, A: MapAccess<'de>>(
        node: NodeSeed<'_>,
        mut map: A,
        seed: Seed,
    ) -> Result<Self, A::Error> {
        let reader = node.reader;
        let mut raw = Self::default();
        while let Some(key) = reader.located(map.next_key::<String>())? {
            if raw.is_foreign() {
                match key.as_str() {
                    "class_name" | "module_name" => {}
                    _ => {
                        reader.located(map.next_value::<IgnoredAny>())?;
                        continue;
                    }
                }
            }
            if !raw.keys.insert(key.clone()) {
                let class = raw.class.unwrap_or_else(|| {
                    let what = match seed {
                        Seed::Event => "an event",
                        Seed::File => "the file",
                    };
                    what.to_owned()
                });
                let field = key.clone();
                return Err(reader.fail(&key, EventProblem::UnknownField { class, field }));
            }
            match key.as_str() {
                "event" => {
                    let child = reader.node(node.depth + 1);
                    raw.event =
                        Some(reader.inside(Step::Field("event"), || map.next_value_seed(child))?);
                }
                "events" => {
                    let children = NodesSeed(reader.node(node.depth + 1));
                    raw.events = Some(reader.inside(Step::Field("events"), || {
                        reader.located(map.next_value_seed(children))
                    })?);
                }
                _ => {
                    let value: Value = reader.located(map.next_value())?;
                    match (key.as_str(), value) {
                        ("class_name", Value::String(name)) => raw.class = Some(name),
                        ("module_name", Value::String(name)) => raw.module = Some(name),
                        ("class_name" | "module_name", other) => {
                            return Err(reader.fail(&key, kind("a name", &other)));
                        }
                        (_, value) => raw.values.push((key, value)),
                    }
                }
            }
        }
        Ok(raw)
    }

    /// Whether they say that they are an event's.
    pub(super) fn is_an_event(&self) -> bool {
        self.class.is_some()
    }

    /// The event that they make up.
    pub(super) fn into_event<E: serde::de::Error>(self, reader: &Reader) -> Result<Event, E> {
        self.build()
            .and_then(|event| match event.check_fields() {
                Ok(()) => Ok(event),
                Err((field, problem)) => Err((field.to_owned(), problem)),
            })
            .map_err(|(field, problem)| reader.fail(&field, problem))
    }

    /// A field other than the class and inner events, where it is there.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.values
            .iter()
            .find(|(key, _)| key == field)
            .map(|(_, value)| value)
    }

    /// Whether the class is already known to be unknown.
    fn is_foreign(&self) -> bool {
        self.class
            .as_deref()
            .is_some_and(|name| class_of(self.module.as_deref(), name).is_none())
    }

    fn missing(&self, field: &'static str) -> Wrong {
        let class = self.class.clone().unwrap_or_else(|| "an event".to_owned());
        (field.to_owned(), EventProblem::Missing { class, field })
    }

    fn value(&self, field: &'static str) -> Result<&Value, Wrong> {
        self.get(field).ok_or_else(|| self.missing(field))
    }

    fn real(&self, field: &'static str) -> Result<f64, Wrong> {
        let value = self.value(field)?;
        value
            .as_f64()
            .ok_or_else(|| (field.to_owned(), kind("a number", value)))
    }

    fn unit<T>(
        &self,
        field: &'static str,
        make: fn(f64) -> Result<T, UnitError>,
    ) -> Result<T, Wrong> {
        let value = self.real(field)?;
        make(value).map_err(|error| {
            let needs = match error {
                UnitError::NotAProbability { .. } => "a number above 0 and at most 1",
                _ => POSITIVE,
            };
            (field.to_owned(), EventProblem::Range { needs, value })
        })
    }

    fn whole(&self, field: &'static str) -> Result<u64, Wrong> {
        let value = self.value(field)?;
        value
            .as_u64()
            .ok_or_else(|| (field.to_owned(), kind(AT_LEAST_ONE, value)))
    }

    fn steps(&self) -> Result<StepCounts, Wrong> {
        const FIELD: &str = "step_counts";
        match self.value(FIELD)? {
            Value::Array(list) => list
                .iter()
                .enumerate()
                .map(|(i, value)| {
                    let wrong = || (format!("{FIELD}[{i}]"), kind(AT_LEAST_ONE, value));
                    value.as_u64().ok_or_else(wrong)
                })
                .collect::<Result<_, _>>()
                .map(StepCounts::Many),
            _ => self.whole(FIELD).map(StepCounts::One),
        }
    }

    fn shape(&self) -> Result<f64, Wrong> {
        match self.value("shape")? {
            Value::String(text) if text == "inf" || text == "Infinity" => Ok(f64::INFINITY),
            _ => self.real("shape"),
        }
    }

    fn build(mut self) -> Result<Event, Wrong> {
        let Some(name) = self.class.clone() else {
            return Err(self.missing("class_name"));
        };
        let Some((_, class, known)) = class_of(self.module.as_deref(), &name) else {
            let class_name = match self.module.as_deref() {
                Some(module) if module != THEIRS => format!("{module}.{name}"),
                _ => name,
            };
            return Ok(Event::Unsupported { class_name });
        };
        // A field that changes the mathematics must never be dropped silently.
        for key in &self.keys {
            if key != "module_name" && key != "class_name" && !known.contains(&key.as_str()) {
                let field = key.clone();
                return Err((
                    key.clone(),
                    EventProblem::UnknownField { class: name, field },
                ));
            }
        }
        let event = match (self.event.take(), known.contains(&"event")) {
            (None, true) => return Err(self.missing("event")),
            (event, _) => Box::new(event.unwrap_or(Event::NoOp)),
        };
        let events = match (self.events.take(), known.contains(&"events")) {
            (None, true) => return Err(self.missing("events")),
            (events, _) => events.unwrap_or_default(),
        };
        let noise = || self.unit("noise_multiplier", NoiseMultiplier::new);
        let epsilon = || self.unit("epsilon", Epsilon::new);
        Ok(match *class {
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
                noise_parameter: self.real("noise_parameter")?,
                sensitivity: self.whole("sensitivity")?,
            },
            "RandomizedResponseDpEvent" => Event::RandomizedResponse {
                noise_parameter: self.real("noise_parameter")?,
                num_buckets: self.whole("num_buckets")?,
            },
            "PoissonSampledDpEvent" => Event::PoissonSampled {
                sampling_probability: self.unit("sampling_probability", SamplingRate::new)?,
                event,
            },
            "SampledWithReplacementDpEvent" => Event::SampledWithReplacement {
                source_dataset_size: self.whole("source_dataset_size")?,
                sample_size: self.whole("sample_size")?,
                event,
            },
            "SampledWithoutReplacementDpEvent" => Event::SampledWithoutReplacement {
                source_dataset_size: self.whole("source_dataset_size")?,
                sample_size: self.whole("sample_size")?,
                event,
            },
            "SelfComposedDpEvent" => Event::SelfComposed {
                event,
                count: self.whole("count")?,
            },
            "ComposedDpEvent" => Event::Composed { events },
            "ParallelComposedDpEvent" => Event::ParallelComposed { events },
            "SingleEpochTreeAggregationDpEvent" => Event::SingleEpochTreeAggregation {
                noise_multiplier: noise()?,
                step_counts: self.steps()?,
            },
            "PrefixSumsDpEvent" => Event::PrefixSums {
                noise_multiplier: noise()?,
                step_counts: self.steps()?,
            },
            "RepeatAndSelectDpEvent" => Event::RepeatAndSelect {
                event,
                mean: self.real("mean")?,
                shape: self.shape()?,
            },
            "ZCDpEvent" => Event::ZCdp {
                rho: self.unit("rho", Rho::new)?,
                xi: match self.value("xi") {
                    Ok(_) => self.real("xi")?,
                    Err(_) => 0.0,
                },
            },
            "EpsilonDeltaDpEvent" => Event::EpsilonDelta {
                epsilon: self.real("epsilon")?,
                delta: self.real("delta")?,
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
            other => Event::Unsupported {
                class_name: other.to_owned(),
            },
        })
    }
}
