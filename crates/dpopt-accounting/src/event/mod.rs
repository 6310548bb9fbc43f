//! Events: what a mechanism did, in the vocabulary and JSON shape of Google's `dp_accounting`.
//!
//! A mechanism emits events, an accountant interprets them. An event fully specifies the
//! mathematics, its meaning never changes, and an accountant refuses an event it does not know.
//! Every sensitivity is that of the **unsampled** query under the stated adjacency.
//!
//! # JSON
//! Each event is an object with `module_name` and `class_name` as `DpEvent.to_named_tuple`
//! writes them, plus the fields of that class. Classes that `dp_accounting` lacks have the module
//! name `dpopt`.
//!
//! ```
//! use dpopt_accounting::{Event, NoiseMultiplier};
//! let event = Event::gaussian(NoiseMultiplier::new(2.0)?);
//! assert_eq!(
//!     serde_json::to_string(&event)?,
//!     r#"{"module_name":"dp_accounting.dp_event","class_name":"GaussianDpEvent","noise_multiplier":2.0}"#
//! );
//! let error = Event::from_json(
//!     r#"{"class_name":"ComposedDpEvent","events":[{"class_name":"GaussianDpEvent","noise_multiplier":0}]}"#,
//! ).unwrap_err();
//! assert_eq!(error.path, "events[0].noise_multiplier");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading accepts objects without `module_name`. A class that this crate does not know, or one
//! of another module, becomes [`Event::Unsupported`], which every accountant refuses. JSON has no
//! infinity: the `shape` of Poisson repetitions is the string `"inf"`, which Python's `float` reads.
//!
//! # Size
//! [`Event::check`], and so every accountant and every reader, refuses trees deeper than
//! [`MAX_DEPTH`] or with more than [`MAX_NODES`] events. Larger trees built by hand can still be
//! cloned, compared, printed (cut short) and dropped: nothing here recurses with the depth.

mod error;
mod file;
mod json;
mod tree;
mod walk;

pub use error::{EventError, EventProblem, MAX_DEPTH, MAX_NODES};
pub use file::EventFile;
pub use tree::{Event, StepCounts};

#[cfg(test)]
mod tests;
