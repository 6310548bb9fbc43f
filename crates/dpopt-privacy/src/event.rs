//! Events: what a mechanism did, in the vocabulary and JSON shape of Google's `dp_accounting`.
//!
//! A mechanism emits events, an accountant interprets them. An event fully specifies the
//! mathematics, its meaning never changes, and an accountant refuses an event it does not know.
//!
//! # JSON
//! Each event is an object with `module_name` and `class_name` as `DpEvent.to_named_tuple`
//! writes them, plus the fields of that class:
//!
//! ```
//! use dpopt_privacy::{Event, NoiseMultiplier};
//! let event = Event::gaussian(NoiseMultiplier::new(2.0)?);
//! assert_eq!(
//!     serde_json::to_string(&event)?,
//!     r#"{"module_name":"dp_accounting.dp_event","class_name":"GaussianDpEvent","noise_multiplier":2.0}"#
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading accepts objects without `module_name`. A class that this crate does not know becomes
//! [`Event::Unsupported`], which every accountant refuses.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::units::{NoiseMultiplier, SamplingRate};

/// What was done to the data, as far as privacy is concerned.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Nothing was released.
    NoOp,
    /// Something was released without protection.
    NonPrivate,
    /// Gaussian noise with standard deviation `noise_multiplier` times the L2 sensitivity
    /// (of the unsampled query, under the stated adjacency) was added.
    Gaussian {
        /// Standard deviation over sensitivity.
        noise_multiplier: NoiseMultiplier,
    },
    /// The inner event was applied to a Poisson sample of the records.
    PoissonSampled {
        /// Probability with which each record enters, independently.
        sampling_probability: SamplingRate,
        /// What was done with the sample.
        event: Box<Event>,
    },
    /// The inner event happened `count` times, each possibly chosen after the ones before.
    SelfComposed {
        /// The repeated event.
        event: Box<Event>,
        /// How many times.
        count: u64,
    },
    /// The inner events all happened, each possibly chosen after the ones before.
    Composed {
        /// The events.
        events: Vec<Event>,
    },
    /// An event of a class that this crate does not know; no accountant takes it.
    Unsupported {
        /// The class name that was read.
        class_name: String,
    },
}

impl Event {
    /// One Gaussian release.
    #[must_use]
    pub fn gaussian(noise_multiplier: NoiseMultiplier) -> Self {
        Event::Gaussian { noise_multiplier }
    }

    /// This event on a Poisson sample.
    #[must_use]
    pub fn poisson_sampled(self, rate: SamplingRate) -> Self {
        Event::PoissonSampled {
            sampling_probability: rate,
            event: Box::new(self),
        }
    }

    /// This event `count` times.
    #[must_use]
    pub fn repeated(self, count: u64) -> Self {
        Event::SelfComposed {
            event: Box::new(self),
            count,
        }
    }

    /// All of `events`.
    #[must_use]
    pub fn composed(events: Vec<Event>) -> Self {
        Event::Composed { events }
    }

    /// The elementary releases in this event with their multiplicities: compositions are
    /// flattened, equal leaves are counted together, in order of first appearance.
    /// A sampled event is a leaf. Counts saturate at `u64::MAX`.
    #[must_use]
    pub fn leaves(&self) -> Vec<(Event, u64)> {
        let mut out = Vec::new();
        self.collect_leaves(1, &mut out);
        out
    }

    /// Number of elementary releases, [`Event::NoOp`] excluded.
    #[must_use]
    pub fn release_count(&self) -> u64 {
        self.leaves()
            .iter()
            .fold(0, |total, (_, count)| total.saturating_add(*count))
    }

    fn collect_leaves(&self, times: u64, out: &mut Vec<(Event, u64)>) {
        if times == 0 {
            return;
        }
        match self {
            Event::NoOp => {}
            Event::SelfComposed { event, count } => {
                event.collect_leaves(times.saturating_mul(*count), out);
            }
            Event::Composed { events } => {
                for event in events {
                    event.collect_leaves(times, out);
                }
            }
            leaf => {
                if let Some((_, count)) = out.iter_mut().find(|(known, _)| known == leaf) {
                    *count = count.saturating_add(times);
                } else {
                    out.push((leaf.clone(), times));
                }
            }
        }
    }

    fn class_name(&self) -> &str {
        match self {
            Event::NoOp => "NoOpDpEvent",
            Event::NonPrivate => "NonPrivateDpEvent",
            Event::Gaussian { .. } => "GaussianDpEvent",
            Event::PoissonSampled { .. } => "PoissonSampledDpEvent",
            Event::SelfComposed { .. } => "SelfComposedDpEvent",
            Event::Composed { .. } => "ComposedDpEvent",
            Event::Unsupported { class_name } => class_name,
        }
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::NoOp => f.write_str("nothing"),
            Event::NonPrivate => f.write_str("an unprotected release"),
            Event::Gaussian { noise_multiplier } => {
                write!(f, "Gaussian(noise multiplier {noise_multiplier})")
            }
            Event::PoissonSampled {
                sampling_probability,
                event,
            } => write!(
                f,
                "{event} on a Poisson sample at rate {sampling_probability}"
            ),
            Event::SelfComposed { event, count } => write!(f, "{count} x ({event})"),
            Event::Composed { events } => {
                for (i, event) in events.iter().enumerate() {
                    if i > 0 {
                        f.write_str(" + ")?;
                    }
                    write!(f, "{event}")?;
                }
                Ok(())
            }
            Event::Unsupported { class_name } => write!(f, "unsupported event {class_name}"),
        }
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    module_name: &'static str,
    class_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_multiplier: Option<NoiseMultiplier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_probability: Option<SamplingRate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a [Event]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut wire = Wire {
            module_name: "dp_accounting.dp_event",
            class_name: self.class_name(),
            noise_multiplier: None,
            sampling_probability: None,
            event: None,
            events: None,
            count: None,
        };
        match self {
            Event::NoOp | Event::NonPrivate | Event::Unsupported { .. } => {}
            Event::Gaussian { noise_multiplier } => wire.noise_multiplier = Some(*noise_multiplier),
            Event::PoissonSampled {
                sampling_probability,
                event,
            } => {
                wire.sampling_probability = Some(*sampling_probability);
                wire.event = Some(event);
            }
            Event::SelfComposed { event, count } => {
                wire.event = Some(event);
                wire.count = Some(*count);
            }
            Event::Composed { events } => wire.events = Some(events),
        }
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        from_value(&value, 0).map_err(D::Error::custom)
    }
}

const MAX_DEPTH: usize = 64;

fn from_value(value: &Value, depth: usize) -> Result<Event, String> {
    if depth > MAX_DEPTH {
        return Err(format!("events are nested deeper than {MAX_DEPTH}"));
    }
    let object = value
        .as_object()
        .ok_or_else(|| "an event must be a JSON object".to_owned())?;
    let class = object
        .get("class_name")
        .and_then(Value::as_str)
        .ok_or_else(|| "an event needs a `class_name`".to_owned())?;
    let known: &[&str] = match class {
        "NoOpDpEvent" | "NonPrivateDpEvent" => &[],
        "GaussianDpEvent" => &["noise_multiplier"],
        "PoissonSampledDpEvent" => &["sampling_probability", "event"],
        "SelfComposedDpEvent" => &["event", "count"],
        "ComposedDpEvent" => &["events"],
        other => {
            return Ok(Event::Unsupported {
                class_name: other.to_owned(),
            });
        }
    };
    // A field that changes the mathematics must never be dropped silently.
    for key in object.keys() {
        if key != "module_name" && key != "class_name" && !known.contains(&key.as_str()) {
            return Err(format!("{class} has no field `{key}`"));
        }
    }
    let inner = |key: &str| -> Result<Event, String> {
        let value = object
            .get(key)
            .ok_or_else(|| format!("{class} needs `{key}`"))?;
        from_value(value, depth + 1)
    };
    Ok(match class {
        "NoOpDpEvent" => Event::NoOp,
        "NonPrivateDpEvent" => Event::NonPrivate,
        "GaussianDpEvent" => Event::gaussian(
            number(object, class, "noise_multiplier")
                .and_then(|v| NoiseMultiplier::new(v).map_err(|error| error.to_string()))?,
        ),
        "PoissonSampledDpEvent" => {
            let rate = number(object, class, "sampling_probability")
                .and_then(|v| SamplingRate::new(v).map_err(|error| error.to_string()))?;
            inner("event")?.poisson_sampled(rate)
        }
        "SelfComposedDpEvent" => {
            let count = object
                .get("count")
                .and_then(Value::as_u64)
                .ok_or_else(|| format!("{class} needs `count`, a whole number of at least 0"))?;
            inner("event")?.repeated(count)
        }
        _ => {
            let events = object
                .get("events")
                .and_then(Value::as_array)
                .ok_or_else(|| format!("{class} needs `events`, a list"))?;
            Event::composed(
                events
                    .iter()
                    .map(|event| from_value(event, depth + 1))
                    .collect::<Result<_, _>>()?,
            )
        }
    })
}

fn number(object: &Map<String, Value>, class: &str, key: &str) -> Result<f64, String> {
    object
        .get(key)
        .and_then(Value::as_f64)
        .ok_or_else(|| format!("{class} needs `{key}`, a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Event {
        let g = Event::gaussian(NoiseMultiplier::new(1.5).unwrap());
        Event::composed(vec![
            g.clone()
                .poisson_sampled(SamplingRate::new(0.01).unwrap())
                .repeated(1000),
            g.clone().repeated(3),
            Event::NoOp,
            g,
        ])
    }

    #[test]
    fn json_round_trip() {
        let json = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), sample());
    }

    #[test]
    fn leaves_count_equal_releases_together() {
        let leaves = sample().leaves();
        assert_eq!(leaves.len(), 2);
        assert_eq!(leaves[0].1, 1000);
        assert_eq!(leaves[1].1, 4);
        assert_eq!(sample().release_count(), 1004);
    }

    #[test]
    fn unknown_classes_are_kept_as_unsupported() {
        let json = r#"{"class_name":"LaplaceDpEvent","noise_multiplier":1.0}"#;
        let event: Event = serde_json::from_str(json).unwrap();
        assert!(
            matches!(event, Event::Unsupported { class_name } if class_name == "LaplaceDpEvent")
        );
    }

    #[test]
    fn bad_events_say_what_is_missing() {
        for (json, word) in [
            (r#"{"class_name":"GaussianDpEvent"}"#, "noise_multiplier"),
            (
                r#"{"class_name":"GaussianDpEvent","noise_multiplier":-1.0}"#,
                "-1",
            ),
            (
                r#"{"class_name":"GaussianDpEvent","noise_multiplier":1.0,"xi":2}"#,
                "xi",
            ),
            (
                r#"{"class_name":"SelfComposedDpEvent","event":{"class_name":"NoOpDpEvent"},"count":-1}"#,
                "count",
            ),
            (r#"{"class_name":"ComposedDpEvent"}"#, "events"),
            (r"[]", "object"),
        ] {
            let message = serde_json::from_str::<Event>(json).unwrap_err().to_string();
            assert!(message.contains(word), "{json}: {message}");
        }
    }
}
