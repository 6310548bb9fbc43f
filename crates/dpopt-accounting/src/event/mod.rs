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

mod file;
mod json;
mod walk;

use crate::units::{Epsilon, NoiseMultiplier, Rho, SamplingRate};

pub use file::EventFile;

/// Levels of nesting that [`Event::check`] lets pass. Each takes at most two of the 128 levels that
/// `serde_json` reads, so an event fits inside a few more objects.
pub const MAX_DEPTH: usize = 60;

/// Events in one tree that [`Event::check`] lets pass.
pub const MAX_NODES: u64 = 1_000_000;

/// Numbers of steps of one tree or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepCounts {
    /// One tree with so many steps.
    One(u64),
    /// Several trees, each with its number of steps.
    Many(Box<[u64]>),
}

impl StepCounts {
    /// The counts as a list.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        match self {
            StepCounts::One(steps) => std::slice::from_ref(steps),
            StepCounts::Many(steps) => steps,
        }
    }
}

/// What was done to the data, as far as privacy is concerned.
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
    /// Laplace noise of scale `noise_multiplier` times the L1 sensitivity was added to each
    /// coordinate.
    Laplace {
        /// Scale over L1 sensitivity.
        noise_multiplier: NoiseMultiplier,
    },
    /// Discrete Gaussian noise on the integers (Canonne, Kamath and Steinke 2020), of parameter
    /// sigma `noise_multiplier` times the L2 sensitivity, was added to each coordinate of an
    /// integer vector. Not in `dp_accounting`.
    DiscreteGaussian {
        /// Parameter sigma over L2 sensitivity.
        noise_multiplier: NoiseMultiplier,
    },
    /// Noise with mass `tanh(a/2) e^(-a |x|)` at each integer x was added to each coordinate of an
    /// integer vector of the L1 sensitivity `sensitivity`.
    DiscreteLaplace {
        /// The parameter a: positive and finite.
        noise_parameter: f64,
        /// L1 sensitivity: at least 1.
        sensitivity: u64,
    },
    /// The record's bucket with probability `1 - noise_parameter`, otherwise a uniform one. The
    /// empty record of the zero-out relation answers as some bucket, fixed or random.
    RandomizedResponse {
        /// Probability of a uniform answer: between 0 and 1.
        noise_parameter: f64,
        /// Number of buckets: at least 1.
        num_buckets: u64,
    },
    /// The inner event was applied to a Poisson sample of the records.
    PoissonSampled {
        /// Probability with which each record enters, independently.
        sampling_probability: SamplingRate,
        /// What was done with the sample.
        event: Box<Event>,
    },
    /// The inner event was applied to `sample_size` records drawn with replacement.
    SampledWithReplacement {
        /// Records to draw from.
        source_dataset_size: u64,
        /// Draws.
        sample_size: u64,
        /// What was done with the sample.
        event: Box<Event>,
    },
    /// The inner event was applied to `sample_size` different records, uniformly drawn.
    SampledWithoutReplacement {
        /// Records to draw from.
        source_dataset_size: u64,
        /// Records drawn; at most as many as there are.
        sample_size: u64,
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
    /// The inner events happened on disjoint slices of the records, one each. A record's slice is
    /// fixed by its position and not by its content. Not in `dp_accounting`.
    ParallelComposed {
        /// The events, one for each slice.
        events: Vec<Event>,
    },
    /// Prefix sums by binary trees with Gaussian noise at each node. Each record takes part in at
    /// most one step **over all trees**; which, is fixed by its position.
    SingleEpochTreeAggregation {
        /// Standard deviation at each node over the sensitivity of one step.
        noise_multiplier: NoiseMultiplier,
        /// Steps of each tree.
        step_counts: StepCounts,
    },
    /// Prefix sums by binary trees with restarts: each record takes part in at most one step
    /// **of each tree**; which, is fixed by its position. Not in `dp_accounting`.
    PrefixSums {
        /// Standard deviation at each node over the sensitivity of one step.
        noise_multiplier: NoiseMultiplier,
        /// Steps between restarts.
        step_counts: StepCounts,
    },
    /// The inner event was run a random number of times and the best outcome was released
    /// (Papernot and Steinke 2022, arXiv 2110.03620).
    RepeatAndSelect {
        /// One run.
        event: Box<Event>,
        /// Mean number of runs: at least 1.
        mean: f64,
        /// Shape of the number's law: 0 logarithmic, 1 geometric, infinite Poisson, otherwise
        /// truncated negative binomial.
        shape: f64,
    },
    /// A mechanism with Renyi divergences of at most `xi + rho alpha` for every order alpha > 1.
    ZCdp {
        /// Factor of the order.
        rho: Rho,
        /// Constant: at least 0.
        xi: f64,
    },
    /// An (epsilon, delta)-DP mechanism of which nothing else is known. Not in `dp_accounting` 0.6.
    EpsilonDelta {
        /// Finite, at least 0.
        epsilon: f64,
        /// At least 0, below 1.
        delta: f64,
    },
    /// A mechanism of bounded range epsilon: privacy losses between any two outcomes of a pair of
    /// neighbours differ by at most epsilon. The exponential mechanism with weights
    /// `exp(epsilon u / (2 sensitivity))` is one, hence Gumbel report-noisy-max. Not in
    /// `dp_accounting` 0.6.
    ExponentialMechanism {
        /// The range.
        epsilon: Epsilon,
    },
    /// Permute-and-flip selection (McKenna and Sheldon 2020), epsilon-DP. Not in `dp_accounting` 0.6.
    PermuteAndFlip {
        /// Its pure epsilon.
        epsilon: Epsilon,
    },
    /// The sparse vector technique, stopped after its allotted answers; `epsilon` is that of the
    /// whole run (Lyu, Su and Li 2017, Algorithm 1). Not in `dp_accounting`.
    AboveThreshold {
        /// Pure epsilon of the run.
        epsilon: Epsilon,
    },
    /// The index of the largest score after Laplace or exponential noise. Not in `dp_accounting`.
    ReportNoisyMax {
        /// Its pure epsilon.
        epsilon: Epsilon,
    },
    /// An event of a class that this crate does not know; no accountant takes it.
    Unsupported {
        /// The class name that was read, after the module name where that is not one of ours.
        class_name: String,
    },
}

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
    /// A composition of nothing; use [`Event::NoOp`] to say that nothing was released.
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

/// A field of an event other than inner events.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Field<'a> {
    Real(f64),
    Whole(u64),
    Steps(&'a StepCounts),
}

type Fields<'a> = [Option<(&'static str, Field<'a>)>; 2];

const POSITIVE: &str = "a positive finite number";
const NOT_NEGATIVE: &str = "a finite number of at least 0";
const AT_LEAST_ONE: &str = "a whole number of at least 1";

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

    /// Reads an event from JSON text.
    ///
    /// # Errors
    /// [`EventError`] with the path of the offending event.
    pub fn from_json(text: &str) -> Result<Self, EventError> {
        json::read(text)
    }

    /// Name of the class and its module.
    fn class(&self) -> (&'static str, &str) {
        const THEIRS: &str = json::THEIRS;
        const OURS: &str = json::OURS;
        match self {
            Event::NoOp => (THEIRS, "NoOpDpEvent"),
            Event::NonPrivate => (THEIRS, "NonPrivateDpEvent"),
            Event::Gaussian { .. } => (THEIRS, "GaussianDpEvent"),
            Event::Laplace { .. } => (THEIRS, "LaplaceDpEvent"),
            Event::DiscreteLaplace { .. } => (THEIRS, "DiscreteLaplaceDpEvent"),
            Event::RandomizedResponse { .. } => (THEIRS, "RandomizedResponseDpEvent"),
            Event::PoissonSampled { .. } => (THEIRS, "PoissonSampledDpEvent"),
            Event::SampledWithReplacement { .. } => (THEIRS, "SampledWithReplacementDpEvent"),
            Event::SampledWithoutReplacement { .. } => (THEIRS, "SampledWithoutReplacementDpEvent"),
            Event::SelfComposed { .. } => (THEIRS, "SelfComposedDpEvent"),
            Event::Composed { .. } => (THEIRS, "ComposedDpEvent"),
            Event::SingleEpochTreeAggregation { .. } => {
                (THEIRS, "SingleEpochTreeAggregationDpEvent")
            }
            Event::RepeatAndSelect { .. } => (THEIRS, "RepeatAndSelectDpEvent"),
            Event::ZCdp { .. } => (THEIRS, "ZCDpEvent"),
            Event::DiscreteGaussian { .. } => (OURS, "DiscreteGaussianDpEvent"),
            Event::ParallelComposed { .. } => (OURS, "ParallelComposedDpEvent"),
            Event::PrefixSums { .. } => (OURS, "PrefixSumsDpEvent"),
            Event::EpsilonDelta { .. } => (OURS, "EpsilonDeltaDpEvent"),
            Event::ExponentialMechanism { .. } => (OURS, "ExponentialMechanismDpEvent"),
            Event::PermuteAndFlip { .. } => (OURS, "PermuteAndFlipDpEvent"),
            Event::AboveThreshold { .. } => (OURS, "AboveThresholdDpEvent"),
            Event::ReportNoisyMax { .. } => (OURS, "ReportNoisyMaxDpEvent"),
            Event::Unsupported { class_name } => (THEIRS, class_name),
        }
    }

    /// The fields other than inner events, in the order of the class.
    fn fields(&self) -> Fields<'_> {
        use Field::{Real, Steps, Whole};
        match self {
            Event::NoOp
            | Event::NonPrivate
            | Event::Composed { .. }
            | Event::ParallelComposed { .. }
            | Event::Unsupported { .. } => [None, None],
            Event::Gaussian { noise_multiplier }
            | Event::Laplace { noise_multiplier }
            | Event::DiscreteGaussian { noise_multiplier } => [
                Some(("noise_multiplier", Real(noise_multiplier.get()))),
                None,
            ],
            Event::DiscreteLaplace {
                noise_parameter,
                sensitivity,
            } => [
                Some(("noise_parameter", Real(*noise_parameter))),
                Some(("sensitivity", Whole(*sensitivity))),
            ],
            Event::RandomizedResponse {
                noise_parameter,
                num_buckets,
            } => [
                Some(("noise_parameter", Real(*noise_parameter))),
                Some(("num_buckets", Whole(*num_buckets))),
            ],
            Event::PoissonSampled {
                sampling_probability,
                ..
            } => [
                Some(("sampling_probability", Real(sampling_probability.get()))),
                None,
            ],
            Event::SampledWithReplacement {
                source_dataset_size,
                sample_size,
                ..
            }
            | Event::SampledWithoutReplacement {
                source_dataset_size,
                sample_size,
                ..
            } => [
                Some(("source_dataset_size", Whole(*source_dataset_size))),
                Some(("sample_size", Whole(*sample_size))),
            ],
            Event::SelfComposed { count, .. } => [Some(("count", Whole(*count))), None],
            Event::SingleEpochTreeAggregation {
                noise_multiplier,
                step_counts,
            }
            | Event::PrefixSums {
                noise_multiplier,
                step_counts,
            } => [
                Some(("noise_multiplier", Real(noise_multiplier.get()))),
                Some(("step_counts", Steps(step_counts))),
            ],
            Event::RepeatAndSelect { mean, shape, .. } => {
                [Some(("mean", Real(*mean))), Some(("shape", Real(*shape)))]
            }
            Event::ZCdp { rho, xi } => [Some(("rho", Real(rho.get()))), Some(("xi", Real(*xi)))],
            Event::EpsilonDelta { epsilon, delta } => [
                Some(("epsilon", Real(*epsilon))),
                Some(("delta", Real(*delta))),
            ],
            Event::ExponentialMechanism { epsilon }
            | Event::PermuteAndFlip { epsilon }
            | Event::AboveThreshold { epsilon }
            | Event::ReportNoisyMax { epsilon } => [Some(("epsilon", Real(epsilon.get()))), None],
        }
    }

    /// Checks the numbers of this event alone. Units were checked when they were made.
    fn check_fields(&self) -> Result<(), (&'static str, EventProblem)> {
        let range = |field, needs, value| Err((field, EventProblem::Range { needs, value }));
        let real = |ok: bool, field, needs, value: f64| {
            if ok {
                Ok(())
            } else {
                range(field, needs, value)
            }
        };
        let whole = |ok: bool, field, value: u64| {
            if ok {
                Ok(())
            } else {
                range(field, AT_LEAST_ONE, value as f64)
            }
        };
        match self {
            Event::DiscreteLaplace {
                noise_parameter: a,
                sensitivity,
            } => {
                real(a.is_finite() && *a > 0.0, "noise_parameter", POSITIVE, *a)?;
                whole(*sensitivity > 0, "sensitivity", *sensitivity)
            }
            Event::RandomizedResponse {
                noise_parameter: p,
                num_buckets,
            } => {
                let needs = "a number between 0 and 1";
                real((0.0..=1.0).contains(p), "noise_parameter", needs, *p)?;
                whole(*num_buckets > 0, "num_buckets", *num_buckets)
            }
            Event::SampledWithReplacement {
                source_dataset_size,
                sample_size,
                ..
            } => {
                whole(
                    *source_dataset_size > 0,
                    "source_dataset_size",
                    *source_dataset_size,
                )?;
                whole(*sample_size > 0, "sample_size", *sample_size)
            }
            Event::SampledWithoutReplacement {
                source_dataset_size: source,
                sample_size: size,
                ..
            } => {
                whole(*source > 0, "source_dataset_size", *source)?;
                whole(*size > 0, "sample_size", *size)?;
                let needs = "a sample no larger than its source";
                real(size <= source, "sample_size", needs, *size as f64)
            }
            Event::SelfComposed { count: 0, .. } => Err(("count", EventProblem::Empty)),
            Event::Composed { events } | Event::ParallelComposed { events }
                if events.is_empty() =>
            {
                Err(("events", EventProblem::Empty))
            }
            Event::SingleEpochTreeAggregation { step_counts, .. }
            | Event::PrefixSums { step_counts, .. } => {
                let steps = step_counts.as_slice();
                if steps.is_empty() {
                    return Err(("step_counts", EventProblem::Empty));
                }
                whole(!steps.contains(&0), "step_counts", 0)
            }
            Event::RepeatAndSelect { mean, shape, .. } => {
                let needs = "a finite number of at least 1";
                real(mean.is_finite() && *mean >= 1.0, "mean", needs, *mean)?;
                real(*shape >= 0.0, "shape", "a number of at least 0", *shape)
            }
            Event::ZCdp { xi, .. } => real(xi.is_finite() && *xi >= 0.0, "xi", NOT_NEGATIVE, *xi),
            Event::EpsilonDelta { epsilon, delta } => {
                let ok = epsilon.is_finite() && *epsilon >= 0.0;
                real(ok, "epsilon", NOT_NEGATIVE, *epsilon)?;
                let needs = "a number of at least 0 and below 1";
                real((0.0..1.0).contains(delta), "delta", needs, *delta)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
