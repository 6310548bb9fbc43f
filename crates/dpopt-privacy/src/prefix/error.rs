//! What is wrong with a period of prefix sums, or with a step of one.

/// A period of prefix sums can't be planned, or a step of one was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// A period needs at least one step.
    #[error("a period of prefix sums needs at least one step")]
    NoSteps,
    /// A period is too long.
    #[error("a period of {len} steps is longer than the largest possible, {limit}")]
    TooLong {
        /// Steps asked for.
        len: u64,
        /// Most steps possible.
        limit: u64,
    },
    /// A band needs at least one diagonal.
    #[error("a banded factor needs at least one diagonal")]
    NoBand,
    /// A tuned factor is given up to a place.
    #[error("a tuned factor has at most {limit} diagonals; got a band of {band}")]
    BandTooWide {
        /// Band asked for.
        band: u64,
        /// Widest band.
        limit: u64,
    },
    /// A coefficient that would void the sensitivity.
    #[error(
        "coefficient {place} of a tuned factor must be from 0 to the one before, {before}; got {value}"
    )]
    Coefficient {
        /// Its place.
        place: u64,
        /// Its value.
        value: f64,
        /// The one before.
        before: f64,
    },
    /// A participation of no step, or with no distance.
    #[error(
        "a record takes part at least once, at a distance of at least 1; got {most} times, {apart} apart"
    )]
    NoParticipation {
        /// Times asked for.
        most: u64,
        /// Distance asked for.
        apart: u64,
    },
    /// Samples of a slice are apart only where the bands of two of its steps don't meet.
    #[error(
        "steps that sample one slice are {apart} apart, and bands of {band} steps would meet: such samples have no amplification"
    )]
    BandsMeet {
        /// Bands of the factor.
        band: u64,
        /// Distance of two steps.
        apart: u64,
    },
    /// The noise multiplier of a tree's nodes is not a number.
    #[error("a noise multiplier of {noise_multiplier:e} for the period overflows at the nodes")]
    NoiseOverflow {
        /// The period's noise multiplier.
        noise_multiplier: f64,
    },
    /// Every step of the period was taken.
    #[error("all {len} steps of this period were taken; open another")]
    Finished {
        /// Steps of the period.
        len: u64,
    },
    /// The step belongs to another curator's period.
    #[error("this period was opened by another curator")]
    OtherCurator,
    /// The step reads other records than the participation says.
    #[error("a step of this period must be a sum over {expected}")]
    WrongRecords {
        /// The expected value.
        expected: &'static str,
    },
    /// The slice took part too often, or too short a time ago.
    #[error(
        "slice {slice} took part {times} times, last at step {last}, and can't take part at step {step}"
    )]
    TookPart {
        /// Number of the slice.
        slice: u64,
        /// How often it took part.
        times: u64,
        /// The last step at which it did, counted from 1.
        last: u64,
        /// The step that was refused.
        step: u64,
    },
    /// The noise of an earlier step could not be drawn.
    #[error("the noise of an earlier step of this period failed; open another")]
    Broken,
}
