//! Refusals when a selection is set up. None of it depends on what records hold, and on
//! how many there are only beyond 2^32.

use crate::exchange::ExchangeError;

/// A selection was asked for something that it can't do. Nothing was released or charged.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// The ranks of the run can't go on together.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// A selection needs something to select from.
    #[error("a selection needs at least one candidate")]
    NoCandidates,
    /// Norms can be compared where one record moves them by the same at most.
    #[error("a selection among norms needs one clip radius and one lattice for all of them")]
    NormsDiffer,
    /// Too many candidates.
    #[error("{candidates} candidates are more than the {limit} of one selection")]
    TooManyCandidates {
        /// Candidates asked for.
        candidates: usize,
        /// The largest possible number.
        limit: usize,
    },
    /// The range of a contribution does not hold zero, is empty, or is not on any lattice.
    #[error(
        "contributions between {low} and {high} are refused: the range must hold 0 and something else, and its larger end have a size from 2^-900 to {limit:e}"
    )]
    ScoreRange {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Largest size of an end.
        limit: f64,
    },
    /// More records than one sum can hold.
    #[error("{records} records are more than the {limit} that one exact sum can hold")]
    TooManyRecords {
        /// Records asked for.
        records: u64,
        /// The largest possible number.
        limit: u64,
    },
    /// Partial sums over different bounds or bins were to be merged.
    #[error("partial sums must share one bound")]
    BoundsDiffer,
    /// epsilon is outside the range of exact selection.
    #[error("a selection needs an epsilon between {low:e} and {high:e}, got {epsilon:e}")]
    EpsilonOutOfRange {
        /// The epsilon.
        epsilon: f64,
        /// The least possible.
        low: f64,
        /// The largest possible.
        high: f64,
    },
    /// The base measure has another length than the scores.
    #[error("a base measure of {got} weights does not fit {candidates} candidates")]
    BaseMeasureLength {
        /// Weights given.
        got: usize,
        /// Candidates.
        candidates: usize,
    },
    /// The base measure is zero everywhere.
    #[error("a base measure needs a positive weight")]
    BaseMeasureZero,
    /// The target of a quantile is not strictly between 0 and 1, or not simple enough.
    #[error(
        "the quantile {numerator}/{denominator} must lie strictly between 0 and 1 with a denominator of at most {limit}"
    )]
    Target {
        /// Numerator.
        numerator: u32,
        /// Denominator.
        denominator: u32,
        /// The largest possible denominator.
        limit: u32,
    },
    /// A histogram needs two edges for its first bin.
    #[error("{edges} edges make no bin")]
    TooFewEdges {
        /// Edges given.
        edges: usize,
    },
    /// An edge is not finite.
    #[error("edge {index} is {value}, which is not finite")]
    EdgeNotFinite {
        /// Its index.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// The edges are not increasing.
    #[error("edges {index} and the next, {left} and {right}, are not increasing")]
    EdgesNotIncreasing {
        /// Index of the first of the two.
        index: usize,
        /// Its value.
        left: f64,
        /// The value of the other.
        right: f64,
    },
    /// The widths of the bins have no common unit in which they are integers below 2^62.
    #[error(
        "edges up to {largest:e} in units of 2^{unit} are not integers below 2^62; round them to fewer digits"
    )]
    EdgesTooFine {
        /// Largest size of an edge.
        largest: f64,
        /// log2 of the last place of all edges.
        unit: i32,
    },
    /// The number of repetitions has no law of this mean and shape here.
    #[error(
        "repetitions need a mean from 1 to {limit} and a shape of 0, from 2^-10 to 8, or infinite; got mean {mean} and shape {shape}"
    )]
    Repetitions {
        /// The mean.
        mean: f64,
        /// The shape.
        shape: f64,
        /// Largest mean.
        limit: f64,
    },
}
