//! Files of events: one event, a list of them, or what a run wrote about itself.

use serde::Deserialize;

use super::json::{self, Builder, Fields, Json, kind, wrong};
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
        let json = json::parse(text)?;
        let mut events = Builder::default();
        let fields = match &json {
            Json::List(_) => return Ok(Event::composed(events.events(&json, 1)?).into()),
            Json::Object(fields) => Fields::read(fields, "the file")?,
            Json::Leaf(_) => return Err(wrong("", EventProblem::NoEvent)),
        };
        if fields.is_an_event() {
            return events.event(&json, 0).map(Self::from);
        }
        let event = match (events.inner(&fields, 0)?, events.all_inner(&fields, 0)?) {
            (Some(event), None) => event,
            (None, Some(events)) => Event::composed(events),
            (Some(_), Some(_)) => return Err(wrong("events", EventProblem::TwoCompositions)),
            (None, None) => return Err(wrong("", EventProblem::NoEvent)),
        };
        Ok(Self {
            event,
            delta: field(&fields, "delta", "a number above 0 and below 1")?,
            adjacency: field(&fields, "adjacency", "replace-one, add-remove or zero-out")?,
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

fn field<T: for<'de> Deserialize<'de>>(
    fields: &Fields<'_>,
    name: &'static str,
    needs: &'static str,
) -> Result<Option<T>, EventError> {
    let Some(json) = fields.get(name) else {
        return Ok(None);
    };
    match json.leaf().map(T::deserialize) {
        Some(Ok(value)) => Ok(Some(value)),
        _ => Err(kind(name, needs, json)),
    }
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
