//! What is wrong with an event, and how large one may be.

/// Levels of nesting that [`Event::check`](super::Event::check) lets pass. Each takes at most two of the 128 levels that
/// `serde_json` reads, so an event fits inside a few more objects.
pub const MAX_DEPTH: usize = 60;

/// Events in one tree that [`Event::check`](super::Event::check) lets pass.
pub const MAX_NODES: u64 = 1_000_000;

/// What is wrong with an event.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EventProblem {
    /// Something else stands where an event should.
    #[error("an event must be a JSON object")]
    NotAnObject,
    /// A field is missing.
    #[error("{class} needs `{field}`")]
    Missing {
        /// Class of the event.
        class: String,
        /// The field.
        field: &'static str,
    },
    /// A field that the class does not have, or that was given twice.
    #[error("{class} has no field `{field}`, or it is given twice")]
    UnknownField {
        /// Class of the event.
        class: String,
        /// The field.
        field: String,
    },
    /// A field is not of the right kind.
    #[error("{needs} is needed, got {got}")]
    Kind {
        /// What is needed.
        needs: &'static str,
        /// What was read.
        got: String,
    },
    /// A number is out of range.
    #[error("{needs} is needed, got {value}")]
    Range {
        /// What is needed.
        needs: &'static str,
        /// The number.
        value: f64,
    },
    /// A composition of nothing; use [`Event::NoOp`](super::Event::NoOp) to say that nothing was released.
    #[error("a composition of nothing")]
    Empty,
    /// Events are nested too deeply.
    #[error("events are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// There are too many events.
    #[error("there are more than {MAX_NODES} events")]
    TooMany,
    /// A file has neither an event nor events.
    #[error("neither an event (no `class_name`) nor a file of a run (no `event`, no `events`)")]
    NoEvent,
    /// A file has both `event` and `events`.
    #[error("the file has `event` and `events`, and only one of them can count")]
    TwoCompositions,
    /// The text is not JSON, or is cut off.
    #[error("{0}")]
    Json(String),
}

/// An event, or the text of one, is not valid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{problem}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct EventError {
    /// Where: for example `events[3].event.noise_multiplier`; empty for the outermost event.
    pub path: String,
    /// What is wrong there.
    pub problem: EventProblem,
}
