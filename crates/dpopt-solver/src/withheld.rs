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
    /// Each of several parties added its share of the noise, of which fewer were counted on.
    #[error(
        "releases have {factor} times the noise that was planned for, since not all parties are counted on"
    )]
    Noise {
        /// Of the standard deviation.
        factor: f64,
    },
    /// Sums in single precision shorten contributions.
    #[error("sums are in single precision, which no bound is about")]
    SinglePrecision,
    /// The field has a larger constant than the plan rests on, or none is known of it: clips may shorten contributions.
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

/// What a bound is about.
pub(crate) struct Covers<'a> {
    pub(crate) planned: &'a PublicFacts,
    /// Whether answers are as they should be.
    pub(crate) exact: bool,
    /// [`dpopt_privacy::Curator::noise_excess`].
    pub(crate) noise_excess: f64,
    pub(crate) rests_on: RestsOn,
    pub(crate) regularizer: Option<Regularizer>,
}

/// Which constants it rests on beside L0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RestsOn {
    /// Whether it holds whatever L1 is.
    pub(crate) any_smoothness: bool,
    /// C_F, to which records' Hessians were clipped, where it does.
    pub(crate) frobenius: Option<f64>,
}

impl Covers<'_> {
    /// Why the bound does not hold of a run on this oracle.
    ///
    /// The constants of an oracle are those of its records' losses, from the bounds that are enforced on the records. A larger one than was
    /// planned for is not refused, since privacy does not rest on it; but the clips of the plan may bite then, and no proof covers that. The
    /// facts of a plan may be larger than an oracle's, and they may not be smaller: not even where the caller knows better, since nothing
    /// tells that apart from an error. Only of an oracle that was told no constants the caller's word is taken.
    pub(crate) fn withheld(&self, oracle: &OracleFacts) -> Option<Withheld> {
        let planned = self.planned;
        if (planned.records, planned.adjacency) != (oracle.records, oracle.adjacency) {
            return Some(Withheld::OtherRecords {
                planned: planned.records,
                planned_under: planned.adjacency,
                found: oracle.records,
                found_under: oracle.adjacency,
            });
        }
        if self.noise_excess > 1.0 {
            return Some(Withheld::Noise {
                factor: self.noise_excess,
            });
        }
        if !self.exact {
            return Some(Withheld::SinglePrecision);
        }
        if !oracle.told {
            // The noise of a saddle walk is planned for L1, and an oracle without one adds more.
            let joint = oracle.blocks.is_some() && !self.rests_on.any_smoothness;
            return (joint && !within(oracle.smoothness, planned.smoothness)).then_some(
                Withheld::Constant {
                    name: "L1",
                    planned: planned.smoothness,
                    found: oracle.smoothness,
                },
            );
        }
        let gap = planned.initial_gap;
        let field = Constants::new(oracle.lipschitz, oracle.smoothness, gap, planned.convexity);
        // A plan with a regulariser is one for the sum.
        let found = self
            .regularizer
            .map_or(field, |added| added.constants(field));
        let smoothness = match self.rests_on.any_smoothness {
            true => 0.0,
            false => found.smoothness,
        };
        let constants = [
            ("L0", planned.lipschitz, found.lipschitz),
            ("L1", planned.smoothness, smoothness),
        ];
        // A regulariser's Hessian is public, and added after the clip. Nobody's Hessian is longer than sqrt(d) L1.
        let most = (oracle.dim as f64).sqrt() * oracle.smoothness;
        let curved = self.rests_on.frobenius.zip(oracle.hessian_frobenius);
        let curved = curved.map(|(clip, told)| ("C_F", clip, told.min(most)));
        let larger = |(_, planned, found): &(_, f64, f64)| !within(*found, *planned);
        let mut all = constants.into_iter().chain(curved);
        let (name, planned, found) = all.find(larger)?;
        Some(Withheld::Constant {
            name,
            planned,
            found,
        })
    }
}

/// Whether a constant is at most the planned one, but for the rounding of both. NaN is no constant.
pub(crate) fn within(found: f64, planned: f64) -> bool {
    found <= planned * (1.0 + 1e-9)
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
