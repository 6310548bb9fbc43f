//! Why a question has no answer, and why an oracle or estimator can't be set up.

use dpopt_privacy::noise::NoiseError;
use dpopt_privacy::selection::SelectionError;
use dpopt_privacy::{
    Adjacency, LatticeError, LedgerError, PoolError, PrefixError, Refused, UnitError,
};

use crate::oracle::NoSample;

/// A question was not answered. Nothing was released and nothing charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The curator refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The oracle does not answer such questions.
    #[error("this oracle does not release {what}")]
    NotOffered {
        /// What was asked for.
        what: &'static str,
    },
    /// The points of a question don't have as many coordinates as the oracle's.
    #[error("the points of the query don't have {dim} coordinates, one for each parameter")]
    Shape {
        /// Coordinates of the oracle's points.
        dim: usize,
    },
    /// Under zero-out adjacency a row of zeros must contribute nothing, and here it may not.
    #[error(
        "under zero-out adjacency a row of zeros stands for no record, and this query may not vanish on it"
    )]
    ZeroRows,
    /// What each record contributes depends on its position among all, which records of one's own kind on several ranks don't know.
    #[error(
        "these records are a part of those of several ranks and don't know their positions among all, on which this query depends (Records::place)"
    )]
    UnknownPositions,
    /// Records that stay in a file could not be read, or the file was changed. Which of them, and what they hold, has no part
    /// in it.
    #[error("{path}: the records can't be read ({kind}); nothing was released and nothing charged")]
    Unreadable {
        /// The file.
        path: String,
        /// What kind of error the system reported; [`std::io::ErrorKind::InvalidData`] for a file that is damaged or was changed.
        kind: std::io::ErrorKind,
    },
    /// The parts of the ranks don't make up the records: nobody has this position, or several have.
    #[error("position {position} is not at one rank")]
    NotOneOwner {
        /// The position.
        position: u64,
    },
    /// The terms of a pass over single records are out of range.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A period of prefix sums was opened by another kind of oracle.
    #[error("this period of prefix sums was opened by another oracle")]
    ForeignPeriod,
    /// An oracle answered another question than the one it was asked: its author's mistake.
    #[error("the oracle's answer to a question about {to} is of another kind")]
    WrongAnswer {
        /// What was asked for.
        to: &'static str,
    },
    /// A release came with another noise than what is made of it was planned for.
    #[error(
        "a release came with noise of deviation {found:.6e}, and was planned for {planned:.6e}"
    )]
    OtherNoise {
        /// The deviation that was planned for.
        planned: f64,
        /// That of the release.
        found: f64,
    },
    /// Records that something of the population was to be said from are no fresh sample of it.
    #[error(transparent)]
    NoSample(#[from] NoSample),
}

macro_rules! through_refused {
    ($($error:ty),+) => {$(
        impl From<$error> for AskError {
            fn from(error: $error) -> Self {
                Self::Refused(error.into())
            }
        }
    )+};
}
through_refused!(
    LatticeError,
    LedgerError,
    NoiseError,
    PoolError,
    PrefixError,
    SelectionError
);

/// A number or point of a pass over single records is out of range. Nothing was released, charged, or handed out of the
/// pool.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// A number of the pass is out of range.
    #[error("{name} of a pass can't be {value}")]
    Terms {
        /// Which.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A point of the pass has the wrong number of coordinates.
    #[error("a point of the pass has {found} coordinates, and the loss {dim}")]
    Shape {
        /// Coordinates found.
        found: usize,
        /// Parameters of the loss.
        dim: usize,
    },
    /// The step size is too long for steps to be contractions, on which privacy rests.
    #[error(
        "a step size of {step_size:e} is above 1/(L1 + M) = {limit:e}, up to which steps bring neighbours no further apart"
    )]
    StepTooLong {
        /// eta.
        step_size: f64,
        /// 1/(L1 + M).
        limit: f64,
    },
}

/// An estimator could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EstimatorError {
    /// The curator and the data disagree about the neighbouring relation.
    #[error("the curator works under {curator} adjacency, the data under {data}")]
    AdjacencyMismatch {
        /// Adjacency of the curator.
        curator: Adjacency,
        /// Adjacency of the data.
        data: Adjacency,
    },
    /// The curator is not let at these records ([`Refused::NotMadeUp`]).
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A derived constant is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The records can't be handed out in slices.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Records in a file are summed block by block; a pass that takes them one by one is not made over them.
    #[error(
        "passes over one record after the other need records in memory, and these are in a file"
    )]
    InAFile,
    /// An anchor has no displacement to be in proportion to.
    #[error("an anchor can't read {rate} records per unit of displacement: it has none")]
    AnchorPerLength {
        /// The rate asked for.
        rate: f64,
    },
    /// A rate of records per unit of displacement is not positive and finite.
    #[error("a variation can't read {rate} records per unit of displacement")]
    BatchRate {
        /// The rate asked for.
        rate: f64,
    },
    /// Anchors and variations of a phase read the same slice, so it has one length.
    #[error(
        "the slice of a phase can't have {anchor} records for anchors and {variation} for variations"
    )]
    HeldLengths {
        /// Length for anchors.
        anchor: u64,
        /// Length for variations.
        variation: u64,
    },
    /// A tree of rounds has a root, and is not too deep.
    #[error("a tree of rounds has 1 to 41 levels, not {levels}")]
    Depth {
        /// Levels asked for.
        levels: usize,
    },
}
