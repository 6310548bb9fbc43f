//! Refusals when noise is set up. Drawing itself cannot fail.

use thiserror::Error;

use super::purpose::Purpose;

/// Why a key, a stream or a noise distribution could not be made.
///
/// None of these can depend on private data: they come from public parameters and from the
/// operating system.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// The scale is not a number in the supported range.
    #[error("noise scale {scale} is outside [{min}, {max}] lattice steps")]
    ScaleOutOfRange {
        /// The scale that was asked for, in lattice steps.
        scale: f64,
        /// The smallest scale that is supported.
        min: f64,
        /// The largest scale that is supported.
        max: f64,
    },
    /// The operating system gave no random bytes for a key.
    #[error("the operating system gave no random bytes for a {bytes}-byte key: {reason}")]
    NoEntropy {
        /// How many bytes were asked for.
        bytes: usize,
        /// The operating system's error.
        reason: String,
    },
    /// A block number does not fit into a stream identifier.
    #[error("block {block} of a release is above the largest one, {max}")]
    BlockOutOfRange {
        /// The block that was asked for.
        block: u32,
        /// The largest block number.
        max: u32,
    },
    /// A vector takes all blocks of a release, so its noise can't begin at a later one: two vectors
    /// of one release would get the same.
    #[error("noise for a vector begins at block 0 of a release of its own, not at block {block}")]
    NotFirstBlock {
        /// The block that was asked for.
        block: u32,
    },
    /// Every stream of one purpose has been handed out; going on would repeat randomness.
    #[error("all {count} {purpose} streams of this key are used up")]
    StreamsExhausted {
        /// The purpose whose streams ran out.
        purpose: Purpose,
        /// How many there were.
        count: u64,
    },
    /// The key was made by another process, of which this one is a fork: it would repeat the
    /// other's noise.
    #[error(
        "the key belongs to process {key} and would repeat its noise in process {process}: take a new key after a fork"
    )]
    Forked {
        /// The process that made the key.
        key: u32,
        /// This process.
        process: u32,
    },
    /// There is no coordinate to add noise to.
    #[error("a vector of length zero takes no noise")]
    EmptyVector,
}
