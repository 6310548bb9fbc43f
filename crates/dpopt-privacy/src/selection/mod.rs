//! Private selection: which of several candidates is best, without saying more.
//!
//! | for | look at |
//! | --- | --- |
//! | the best of k candidates | [`ScoreSum`], [`Curator::exponential`] |
//! | a quantile over public bins | [`QuantileSum`], [`Curator::quantile`] |
//! | the best of several private runs | [`Tuning`], [`Curator::repeat_and_select`] |
//!
//! Every mechanism here is drawn exactly: scores are integers, and coins and masses have exact
//! rational parameters or certified intervals, so that no probability depends on how a floating
//! point number was rounded. Which to choose, with bounds on the error of each, and all proofs:
//! `docs/privacy/selection.md`.
//!
//! ```
//! use dpopt_privacy::selection::{ScoreBound, ScoreSum};
//! use dpopt_privacy::{Adjacency, Curator, Epsilon, Event, Spend};
//!
//! let epsilon = Epsilon::new(1.0)?;
//! let mut curator = Curator::protected(Adjacency::AddRemove)?;
//! curator.reserve(&Spend::Fixed(Event::ExponentialMechanism { epsilon }))?;
//!
//! // Three candidates; contributions are clipped to [0, 1], whatever they are.
//! let mut sum = ScoreSum::new(ScoreBound::new(3, 0.0, 1.0)?);
//! for record in [[0.2, 0.9, 0.0], [0.1, 7.0, -1.0], [0.5, f64::NAN, 0.5]] {
//!     sum.add(&record);
//! }
//! let scores = sum.finish(Adjacency::AddRemove);
//! assert!(curator.exponential(&scores, epsilon)? < 3);
//! assert!(curator.exponential(&scores, epsilon).is_err()); // nothing is left
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Curator::exponential`]: crate::Curator::exponential
//! [`Curator::quantile`]: crate::Curator::quantile
//! [`Curator::repeat_and_select`]: crate::Curator::repeat_and_select

mod choice;
mod error;
mod exponential;
mod fixed;
mod quantile;
mod rate;
mod repetitions;
mod scores;

#[cfg(test)]
mod neighbours_tests;
#[cfg(test)]
mod testkit;

pub use error::SelectionError;
pub use quantile::{
    BaseMeasure, MAX_TARGET, QuantileBin, QuantileBins, QuantileSum, SensitiveQuantile, Target,
};
pub use rate::{MAX_EPSILON, MIN_EPSILON};
pub use repetitions::{Best, MAX_MEAN, Tuning};
pub use scores::{MAX_CANDIDATES, MAX_WHOLE, ScoreBound, ScoreSum, SensitiveScores};

pub(crate) use exponential::exponential;
pub(crate) use rate::Rate;
pub(crate) use repetitions::Repetitions;
