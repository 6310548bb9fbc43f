//! Why a run states no bound though its plan has one and its walk ended as the proof asks.

use dpopt_oracle::{Constants, NoSample, OracleFacts, Regularizer};
use dpopt_privacy::Adjacency;

use crate::bound::{BoundedQuantity, StatedBound};
use crate::facts::PublicFacts;

/// Why a run states no bound though its plan has one and its walk ended as the proof asks: the plan is not about these records, or not about
/// this field. The run itself is as good, and as private.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Withheld {
    /// The bound is on the population, and the records that the run was to read are no fresh sample of it.
    #[error(transparent)]
    NoSample(#[from] NoSample),
    /// The bound is about as many records as were planned for, and a noise that hangs on the adjacency.
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
    /// The field has a larger constant than the plan rests on, or none is known of it: clips may shorten contributions.
    #[error("{name} is {found} for these records as far as is known, and the plan rests on {planned}")]
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

/// Why no bound with these facts holds of a run on this oracle, of whatever sense it is.
///
/// The constants of an oracle are those of its records' losses, from the bounds that are enforced on the records. A larger one than was planned
/// for is not refused, since privacy does not rest on it; but the clips of the plan may bite then, and no proof covers that. The facts of a plan
/// may be larger than an oracle's, and they may not be smaller: not even where the caller knows better, since nothing tells that apart from
/// an error.
pub(crate) fn withheld(
    planned: &PublicFacts,
    exact: bool,
    oracle: &OracleFacts,
    regularizer: Option<Regularizer>,
) -> Option<Withheld> {
    if (planned.records, planned.adjacency) != (oracle.records, oracle.adjacency) {
        return Some(Withheld::OtherRecords {
            planned: planned.records,
            planned_under: planned.adjacency,
            found: oracle.records,
            found_under: oracle.adjacency,
        });
    }
    if !exact {
        return Some(Withheld::SinglePrecision);
    }
    let field = Constants::new(
        oracle.lipschitz,
        oracle.smoothness,
        planned.initial_gap,
        planned.convexity,
    );
    // A plan with a regulariser is one for the sum.
    let found = regularizer.map_or(field, |added| added.constants(field));
    let constants = [
        ("L0", planned.lipschitz, found.lipschitz),
        ("L1", planned.smoothness, found.smoothness),
    ];
    constants
        .into_iter()
        // For the rounding of both. NaN is no constant.
        .find(|(_, planned, found)| !(*found <= *planned * (1.0 + 1e-9)))
        .map(|(name, planned, found)| Withheld::Constant {
            name,
            planned,
            found,
        })
}

/// Why this bound does not hold though others might.
pub(crate) fn withheld_of(
    bound: &StatedBound,
    sample: &Result<(), NoSample>,
    regularized: bool,
) -> Option<Withheld> {
    if bound.sense.of_population()
        && let Err(why) = sample
    {
        return Some(why.clone().into());
    }
    let distance = matches!(
        bound.quantity,
        BoundedQuantity::GoldsteinDistance | BoundedQuantity::ComponentWiseGoldsteinDistance
    );
    (regularized && distance).then_some(Withheld::Regularized)
}
