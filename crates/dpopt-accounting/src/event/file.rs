//! Files of events: one event, a list of them, or what a run wrote about itself.

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::json::{Fields, NodesSeed, Reader, Seed};
use super::{Event, EventError, EventProblem};
use crate::adjacency::Adjacency;
use crate::units::Delta;

/// Events from a file, and under which relation and at which delta a run stated its guarantee for them.
///
/// # Shapes
/// One of: an object with `class_name`, as [`Event::from_json`] reads it; a list of such objects, which stands for
/// their composition; an object without `class_name` that has either `event`, an event, or `events`, a list, and may
/// have `delta` and `adjacency` (further fields are what a run wrote for others, and have no part in this).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EventFile {
    /// The events.
    pub event: Event,
    /// The delta of the guarantee, where the file has one.
    pub delta: Option<Delta>,
    /// The neighbouring relation that the file states, where it does.
    pub adjacency: Option<Adjacency>,
}

impl EventFile {
    /// Reads JSON text. A field that is there twice is refused, and so is a file with both `event` and `events`: which of
    /// them counts would be a guess.
    ///
    /// # Errors
    /// [`EventError`] with the path of the offending event, its place in a list included.
    pub fn from_json(text: &str) -> Result<Self, EventError> {
        super::json::read_with(text, |reader, deserializer| {
            FileSeed(reader).deserialize(deserializer)
        })
    }
}

impl From<Event> for EventFile {
    /// Events of which no more is known.
    fn from(event: Event) -> Self {
        Self {
            event,
            delta: None,
            adjacency: None,
        }
    }
}

struct FileSeed<'a>(&'a Reader);

impl<'de> DeserializeSeed<'de> for FileSeed<'_> {
    type Value = EventFile;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<EventFile, D::Error> {
        let reader = self.0;
        reader.located(deserializer.deserialize_any(self))
    }
}

impl<'de> Visitor<'de> for FileSeed<'_> {
    type Value = EventFile;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event, a list of events, or an object with `event` or `events`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<EventFile, A::Error> {
        let events = NodesSeed(self.0.node(1)).visit_seq(seq)?;
        Ok(Event::composed(events).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EventFile, A::Error> {
        let reader = self.0;
        let mut fields = Fields::read(reader.node(0), map, Seed::File)?;
        if fields.is_an_event() {
            return fields.into_event(reader).map(EventFile::from);
        }
        let event = match (fields.event.take(), fields.events.take()) {
            (Some(event), None) => event,
            (None, Some(events)) => Event::composed(events),
            (Some(_), Some(_)) => {
                return Err(reader.fail("events", EventProblem::TwoCompositions));
            }
            (None, None) => return Err(reader.fail("", EventProblem::NoEvent)),
        };
        Ok(EventFile {
            event,
            delta: field(reader, &fields, "delta", "a number above 0 and below 1")?,
            adjacency: field(
                reader,
                &fields,
                "adjacency",
                "replace-one, add-remove or zero-out",
            )?,
        })
    }
}

fn field<T: for<'de> Deserialize<'de>, E: serde::de::Error>(
    reader: &Reader,
    fields: &Fields,
    name: &'static str,
    needs: &'static str,
) -> Result<Option<T>, E> {
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    T::deserialize(value)
        .map(Some)
        .map_err(|_| reader.fail(name, super::json::kind(needs, value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NoiseMultiplier;

    const ONE: &str = r#"{"class_name":"GaussianDpEvent","noise_multiplier":1}"#;

    fn refused(text: &str) -> EventError {
        EventFile::from_json(text).unwrap_err()
    }

    #[test]
    fn all_shapes_are_read() {
        let one = || Event::gaussian(NoiseMultiplier::new(1.0).unwrap());
        let two = Event::composed(vec![one(), one()]);
        for (text, event) in [
            (ONE.to_owned(), one()),
            (format!("[{ONE},{ONE}]"), two.clone()),
            (format!(r#"{{"events":[{ONE},{ONE}]}}"#), two),
            (format!(r#"{{"event":{ONE}}}"#), one()),
            // The field of an event comes before its class.
            (
                format!(r#"{{"event":{ONE},"count":2,"class_name":"SelfComposedDpEvent"}}"#),
                one().repeated(2),
            ),
        ] {
            assert_eq!(EventFile::from_json(&text), Ok(event.into()), "{text}");
        }
    }

    #[test]
    fn what_a_run_wrote_beside_its_event_is_read_or_left() {
        let text = format!(
            r#"{{"format":"x","epsilon":1.0,"delta":1e-6,"adjacency":"zero-out","conventions":{{"a":1}},"event":{ONE},"spent":{ONE},"odometer":null}}"#
        );
        let file = EventFile::from_json(&text).unwrap();
        assert_eq!(file.delta.map(Delta::get), Some(1e-6));
        assert_eq!(file.adjacency, Some(Adjacency::ZeroOut));
        for (text, path) in [
            (format!(r#"{{"event":{ONE},"delta":2}}"#), "delta"),
            (format!(r#"{{"event":{ONE},"delta":null}}"#), "delta"),
            (
                format!(r#"{{"event":{ONE},"adjacency":"near"}}"#),
                "adjacency",
            ),
        ] {
            assert_eq!(refused(&text).path, path);
        }
    }

    /// The last one won, so that a multiplier of 100 hid one of 1.
    #[test]
    fn nothing_may_be_said_twice() {
        let twice =
            r#"{"class_name":"GaussianDpEvent","noise_multiplier":1,"noise_multiplier":100}"#;
        for (text, path) in [
            (twice.to_owned(), "noise_multiplier"),
            (format!("[{ONE},{twice}]"), "[1].noise_multiplier"),
            (format!(r#"{{"event":{twice}}}"#), "event.noise_multiplier"),
            (format!(r#"{{"event":{ONE},"event":{ONE}}}"#), "event"),
            (
                format!(r#"{{"event":{ONE},"delta":0.1,"delta":0.2}}"#),
                "delta",
            ),
        ] {
            let error = refused(&text);
            assert_eq!(error.path, path);
            assert!(
                matches!(error.problem, EventProblem::UnknownField { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn events_beside_an_event_are_not_ignored() {
        let text = format!(r#"{{"event":{{"class_name":"NoOpDpEvent"}},"events":[{ONE}]}}"#);
        assert_eq!(refused(&text).problem, EventProblem::TwoCompositions);
        assert_eq!(refused("{}").problem, EventProblem::NoEvent);
    }

    #[test]
    fn errors_say_which_of_a_list() {
        let bad = r#"{"class_name":"GaussianDpEvent","noise_multiplier":0}"#;
        assert_eq!(
            refused(&format!("[{ONE},{ONE},{bad}]")).path,
            "[2].noise_multiplier"
        );
        assert_eq!(refused("[1]").path, "[0]");
        assert_eq!(
            refused(&format!(r#"{{"events":[{bad}]}}"#)).path,
            "events[0].noise_multiplier"
        );
        assert!(matches!(refused("[").problem, EventProblem::Json(_)));
    }
}
