//! The plan for scores of two classes.

use dpopt_oracle::{ScoreBins, Tally};
use dpopt_privacy::{Adjacency, Mu};
use serde::Serialize;

use super::release::{EvaluationError, TallyPlan, check};

/// Fewest and most bins that a plan chooses.
const BINS: [f64; 2] = [16.0, 128.0];
/// Deviations of the noise in the records of a bin: chosen, so that ties within bins hide less of the area than the noise does.
const NOISE: f64 = 3.0;

/// Settings of an evaluation, from public numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EvaluationSettings {
    /// Number of bins, even; none for one that weighs the noise against ties within bins.
    pub bins: Option<usize>,
    /// Scores are binned from minus this to this; those beyond it are in the outermost bins.
    pub range: f64,
    /// Cap M on the log loss, if that is wanted.
    pub loss_cap: Option<f64>,
    /// Each interval misses with at most this probability.
    pub failure: f64,
}

/// A plan to evaluate scores of two classes once.
///
/// # Formula
/// Released is S + N(0, s^2 I) with S the sum of the contributions of a [`Tally`], s = 2 R z under replace-one and R z under add-remove,
/// z = 1/mu, R = sqrt(5/4), or sqrt(3/2) with the log loss. Of the 2 B cells number c B + k is of bin k and class c, 1 for a label above 0, and a record
/// adds the column of its cell in the square root of the matrix of prefix sums of its class; shares are whether the call is right and min(l, M)/M, l = ln(1 + e^(-y z)).
///
/// # Privacy
/// One `Gaussian(z)` on all records: mu-GDP. `docs/privacy/certificates.md`.
///
/// ```
/// use std::num::NonZeroUsize;
/// use dpopt_certify::{EvaluationSettings, PrivateEvaluation};
/// use dpopt_linalg::{Design, Row};
/// use dpopt_oracle::PrivateData;
/// use dpopt_privacy::{Adjacency, ClipNorm, Curator, Mu};
///
/// // Two thousand records whose label is the sign of their first feature.
/// let rows = (0..2000).flat_map(|i| [if i % 2 == 0 { 0.5 } else { -0.5 }, 0.1]).collect();
/// let labels = (0..2000).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
/// let (design, norm) = (Design::dense(2, rows)?, ClipNorm::new(1.0)?);
/// let data = PrivateData::new(design, labels, norm, Adjacency::ReplaceOne, None)?;
///
/// let of = EvaluationSettings { bins: None, range: 2.0, loss_cap: None, failure: 0.05 };
/// let plan = PrivateEvaluation::new(2000, data.adjacency(), Mu::new(0.5)?, &of)?;
/// let mut curator = Curator::protected(data.adjacency())?;
/// curator.reserve(&plan.tally.spend())?;
/// let score = |row: Row<'_>| row.dot(&[2.0, 0.0]);
/// let (counts, mut curator) = plan.release(&data, score, curator, NonZeroUsize::MIN)?;
/// curator.settle()?;
/// let found = counts.evaluation();
/// assert!(found.accuracy.low > 0.95 && found.auc.low > 0.9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PrivateEvaluation {
    /// Its cost and its noise.
    pub tally: TallyPlan,
    /// Edges.
    pub bins: ScoreBins,
    /// M.
    pub loss_cap: Option<f64>,
}

impl PrivateEvaluation {
    /// A plan that spends `mu`.
    ///
    /// The number of bins that it chooses is the even one next to n/(3 s), from 16 to 128: the noise of a sum of bins grows with the logarithm of
    /// their number alone, and the share of pairs that are tied falls with it.
    ///
    /// # Errors
    /// [`EvaluationError`] but for those of data and releases.
    pub fn new(
        records: u64,
        adjacency: Adjacency,
        mu: Mu,
        of: &EvaluationSettings,
    ) -> Result<Self, EvaluationError> {
        let cap = of.loss_cap.unwrap_or(1.0);
        check("the cap on the log loss", cap, cap > 0.0 && cap.is_finite())?;
        let radius = Tally::radius(2, Self::shares(of.loss_cap));
        let tally = TallyPlan::new((records, adjacency), mu, of.failure, radius)?;
        let bins = of.bins.unwrap_or_else(|| {
            let best = records as f64 / (NOISE * tally.count_std);
            2 * (0.5 * best.clamp(BINS[0], BINS[1])).round() as usize
        });
        Ok(Self {
            tally,
            bins: ScoreBins::new(bins, of.range)?,
            loss_cap: of.loss_cap,
        })
    }

    /// Whether the call is right, and the log loss.
    pub(super) fn shares(loss_cap: Option<f64>) -> usize {
        1 + usize::from(loss_cap.is_some())
    }

    /// Half of the width of the interval of the accuracy, where the number of records is public.
    #[must_use]
    pub fn accuracy_half_width(&self) -> f64 {
        self.tally.half_width()
    }
}
