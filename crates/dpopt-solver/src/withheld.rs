//! Why something is not stated though its plan has it and the walk ended as the proof asks.

use dpopt_oracle::NoSample;
use dpopt_privacy::Adjacency;

/// Why something is not stated: a premise does not hold of these records or of this field. What was released is as good, and as private.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Withheld {
    /// The claim is about the population, and the records that were to be read are no fresh sample of it.
    #[error(transparent)]
    NoSample(#[from] NoSample),
    /// The claim is about the mean over the true number of records, and the mean is over a declared one.
    #[error("the claim is about the true number of records, and under {adjacency} that is private")]
    DeclaredSize {
        /// The relation.
        adjacency: Adjacency,
    },
    /// The claim is about as many records as were planned for, and a noise that hangs on the adjacency.
    #[error(
        "the plan is for {planned} records under {planned_under}, and the run read {found} under {found_under}"
    )]
    OtherRecords {
        /// In the plan.
        planned: u64,
        /// Its adjacency.
        planned_under: Adjacency,
        /// Of the oracle.
        found: u64,
        /// Its adjacency.
        found_under: Adjacency,
    },
    /// Sums in single precision shorten contributions.
    #[error("sums are in single precision, which no bound is about")]
    SinglePrecision,
    /// The points of the plan and of the oracle are split otherwise, or under another scale of y.
    #[error(
        "the plan and the oracle are of different saddle problems, or of one under two scales of y"
    )]
    Blocks,
    /// y is in another set than was planned for.
    #[error("y is in another domain than was planned for, and where it is best hangs on that")]
    Domain,
    /// The field is not the gradient of the loss.
    #[error(
        "this loss shortens what records contribute, or its constants are not proven at every point: its field is not a gradient that \
         a claim could be about"
    )]
    Shortened,
    /// The field has a larger constant than the claim rests on, or none is known of it: clips may shorten contributions.
    #[error(
        "{name} is {found} for these records as far as is known, and the plan rests on {planned}"
    )]
    Constant {
        /// Which.
        name: &'static str,
        /// In the plan.
        planned: f64,
        /// Of the oracle; infinite where none is known.
        found: f64,
    },
    /// A Goldstein distance is one of the mean loss: a regulariser is averaged nowhere, and the gradients of the sum are longer than L.
    #[error("the bound is on a Goldstein distance, and a regulariser was added")]
    Regularized,
}
