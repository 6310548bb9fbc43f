//! What a walk asks: an estimate at the next point, however the estimator comes by it.

use dpopt_privacy::{Event, NoiseMultiplier, Refused, SamplingRate, Spend};
use serde::Serialize;

use super::{Counts, Estimate, EstimatorError, Means, Over};

/// How an estimate came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StepKind {
    /// The field at the point was released.
    Anchor,
    /// A change was released and added.
    Variation,
    /// The point is where the estimate was: nothing was released and nothing charged.
    Held,
}

/// An estimate, and how it came about.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Tracked<'a> {
    /// The estimate at the point that was asked for.
    pub estimate: Estimate<'a>,
    /// What was released for it.
    pub kind: StepKind,
}

impl<'a> Tracked<'a> {
    /// What an implementation of [`Tracker`] returns.
    #[must_use]
    pub fn new(estimate: Estimate<'a>, kind: StepKind) -> Self {
        Self { estimate, kind }
    }
}

/// What a solver may ask of an estimator that has its refresh rule, batches and noise from a plan: the
/// estimate at the next public point.
///
/// The trait is dyn-safe. An implementation draws, clips and charges; a solver does none of it. The [`Estimator`](super::Estimator)
/// differs in that its solver says which release is an anchor, and names its noise.
pub trait Tracker {
    /// Dimension of points and estimates.
    fn dim(&self) -> usize;

    /// Sets aside what the run will spend. Called once, before the first release.
    ///
    /// # Errors
    /// [`Refused`] when the budget can't pay.
    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused>;

    /// The estimate at `point`.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then, and the estimate and its rule stay what they were.
    fn estimate(&mut self, point: &[f64]) -> Result<Tracked<'_>, Refused>;

    /// Begins a phase: the next estimate is an anchor, with new noise, on new records where a phase
    /// has its own.
    fn begin_phase(&mut self);

    /// A number below `bound`, uniform and independent of the data.
    fn draw_index(&mut self, bound: u64) -> u64;

    /// Fills `out` with standard normals that are independent of the data: public, for perturbations.
    ///
    /// # Errors
    /// [`Refused`] when there are none left.
    fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused>;

    /// Ends the run and says what was spent.
    ///
    /// # Errors
    /// [`Refused`] when a shared budget can't be written; the reservation then stands.
    fn settle(&mut self) -> Result<Event, Refused>;

    /// Nominal counts so far.
    fn counts(&self) -> Counts;
}

/// The methods of a [`Tracker`] that go to its means, in the field or method `$means`.
macro_rules! delegate_to_means {
    ($($means:tt)+) => {
        fn dim(&self) -> usize {
            self.$($means)+.dim()
        }

        fn reserve(&mut self, spend: &dpopt_privacy::Spend) -> Result<(), dpopt_privacy::Refused> {
            self.$($means)+.reserve(spend)
        }

        fn draw_index(&mut self, bound: u64) -> u64 {
            self.$($means)+.draw_index(bound)
        }

        fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), dpopt_privacy::Refused> {
            self.$($means)+.draw_normals(out)
        }

        fn settle(&mut self) -> Result<dpopt_privacy::Event, dpopt_privacy::Refused> {
            self.$($means)+.settle()
        }

        fn counts(&self) -> $crate::Counts {
            self.$($means)+.counts()
        }
    };
}
pub(super) use delegate_to_means;

/// Which records one kind of release reads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Batch {
    /// All of them.
    Everything,
    /// A fresh Poisson sample.
    Poisson(SamplingRate),
    /// A fresh sample of so many records; under replace-one only.
    FixedSize(u64),
    /// The next so many unread records.
    Next(u64),
    /// The next max(1, ceil(rate ||w - w'||)) unread records: a batch in proportion to the displacement,
    /// so that what one record adds to the mean of the changes is at most L1 / rate. For variations only.
    PerLength(f64),
    /// The slice of the phase: so many records, taken when a release of the phase first reads them,
    /// and read by all others.
    Held(u64),
}

impl Batch {
    /// How many records a step of this length reads, where it reads unread ones.
    pub(super) fn unread(self, length: f64) -> Option<u64> {
        match self {
            Batch::Next(len) => Some(len),
            // A product that is not finite is more than any pool holds.
            Batch::PerLength(rate) => Some(((rate * length).ceil() as u64).max(1)),
            _ => None,
        }
    }
}

/// Which records one kind of release reads, and with how much noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Level {
    /// The records.
    pub batch: Batch,
    /// Noise multiplier z: standard deviation over the sensitivity.
    pub noise_multiplier: NoiseMultiplier,
}

/// The slice of a phase.
pub(super) struct HeldSlice<S> {
    slice: Option<S>,
}

impl<S> HeldSlice<S> {
    pub(super) fn none() -> Self {
        Self { slice: None }
    }

    /// The next release takes another one.
    pub(super) fn release(&mut self) {
        self.slice = None;
    }

    /// The records of a release after a step of this length.
    pub(super) fn over<M: Means<Slice = S>>(
        &mut self,
        batch: Batch,
        length: f64,
        means: &mut M,
    ) -> Result<Over<'_, S>, Refused> {
        Ok(match batch {
            Batch::Everything => Over::Everything,
            Batch::Poisson(rate) => Over::Poisson(rate),
            Batch::FixedSize(size) => Over::FixedSize(size),
            Batch::Next(_) | Batch::PerLength(_) => {
                Over::Next(batch.unread(length).unwrap_or_default())
            }
            Batch::Held(len) => {
                let slice = match self.slice.take() {
                    Some(slice) => slice,
                    None => means.take_slice(len)?,
                };
                Over::Slice(self.slice.insert(slice))
            }
        })
    }
}

/// Refuses batches that don't say how many records are read.
pub(super) fn check_batches(anchor: Batch, variation: Batch) -> Result<(), EstimatorError> {
    if let Batch::PerLength(rate) = anchor {
        return Err(EstimatorError::AnchorPerLength { rate });
    }
    if let Batch::PerLength(rate) = variation
        && !(rate > 0.0 && rate.is_finite())
    {
        return Err(EstimatorError::BatchRate { rate });
    }
    if let (Batch::Held(anchor), Batch::Held(variation)) = (anchor, variation)
        && anchor != variation
    {
        return Err(EstimatorError::HeldLengths { anchor, variation });
    }
    Ok(())
}

/// Whether an anchor reads no more unread records than a variation of this length would: then it is better
/// in every way.
pub(super) fn anchor_is_cheaper(anchor: Batch, variation: Batch, length: f64) -> bool {
    matches!(
        (anchor, variation, variation.unread(length)),
        (Batch::Next(fresh), Batch::PerLength(_), Some(needed)) if needed >= fresh
    )
}
