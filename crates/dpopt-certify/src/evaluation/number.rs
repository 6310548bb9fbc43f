//! Models of a number.

use std::num::NonZeroUsize;

use dpopt_linalg::Row;
use dpopt_oracle::{Example, PrivateData, Tally};
use dpopt_privacy::{Adjacency, Curator, Mu};
use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::release::{EvaluationError, MeanOf, Sums, TallyPlan, check, too_large_by};

/// A plan to evaluate predictions of a number with a public range once.
///
/// # Formula
/// Labels y are encoded in [-1, 1], predictions z are clamped to it, and e = |z - y|/2 is the error as a share of the width w of the range.
/// Released is a [`Tally`] without cells and with the shares e and e^2; under add-remove with a constant 1 too. R^2 = m/4 with m shares.
/// A prediction that is NaN has e = 1; a record without a label is one of zeros, as everywhere.
///
/// # Privacy
/// One `Gaussian(z)` on all records. `docs/privacy/certificates.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NumberPlan {
    /// What it costs, and its noise.
    pub tally: TallyPlan,
    /// w, in the unit of the label: the largest error that there is.
    pub width: f64,
}

impl NumberPlan {
    /// A plan that spends `mu` on so many records, for a range of this width.
    ///
    /// # Errors
    /// [`EvaluationError`] but for those of data and releases: a width or a failure probability that is none.
    pub fn new(
        (records, adjacency): (u64, Adjacency),
        mu: Mu,
        width: f64,
        failure: f64,
    ) -> Result<Self, EvaluationError> {
        let fits = width > 0.0 && (width * width).is_finite();
        check("the width of the range of the label", width, fits)?;
        let radius = Tally::radius(0, 2 + TallyPlan::extra(adjacency));
        let tally = TallyPlan::new((records, adjacency), mu, failure, radius)?;
        Ok(Self { tally, width })
    }

    /// Half of the width of the interval of the mean absolute error, where the number of records is public.
    #[must_use]
    pub fn error_half_width(&self) -> f64 {
        self.width * self.tally.half_width()
    }

    /// Releases the sums of the errors of these predictions, encoded as labels are, from what the curator has reserved:
    /// [`TallyPlan::spend`]. Settling is the caller's.
    ///
    /// # Privacy
    /// The predictions have to be a function of the row and of what is public.
    ///
    /// # Errors
    /// [`EvaluationError`], as [`super::PrivateEvaluation::release`].
    pub fn release<S: Fn(Row<'_>) -> f64 + Sync>(
        &self,
        data: &PrivateData,
        prediction: S,
        curator: Curator,
        threads: NonZeroUsize,
    ) -> Result<(NumberSums, Curator), EvaluationError> {
        let place = |record: Example<'_>, shares: &mut [f64]| {
            let [z, y] = [prediction(record.row), record.label].map(|x| x.clamp(-1.0, 1.0));
            let error = 0.5 * (z - y).abs();
            for (share, of) in shares.iter_mut().zip([error, error * error]) {
                *share = of;
            }
            0
        };
        let tally = Tally::new(0, 2 + TallyPlan::extra(self.tally.adjacency), place);
        let (sums, curator) = self.tally.release(data, tally, curator, threads)?;
        Ok((NumberSums { plan: *self, sums }, curator))
    }
}

/// Released sums of errors, and what their noise is.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberSums {
    plan: NumberPlan,
    sums: Sums,
}

/// An evaluation of predictions of a number on private records, in the unit of the label.
///
/// Each interval holds with probability 1 - `failure` over the noise, for these records, whatever they are: of labels and predictions as they
/// are on the range of the label.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NumberEvaluation {
    /// Of each interval.
    pub failure: f64,
    /// Number of records: none where it is private.
    pub records: Option<u64>,
    /// Deviation of the noise of each sum, of errors over `width`.
    pub count_std: f64,
    /// Width of the range of the label.
    pub width: f64,
    /// Mean of |z - y|.
    pub mean_absolute_error: MeanOf,
    /// Mean of (z - y)^2.
    pub mean_squared_error: MeanOf,
    /// Its root.
    pub root_mean_squared_error: Measured,
    /// Where an estimate is missing: the factor by which the noise over the number of records has to fall until none is, by the released sums,
    /// to a power of 2. None where no estimate is missing, or where the sums do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_too_large_by: Option<f64>,
}

impl NumberSums {
    /// All that they say: post-processing, at no cost.
    #[must_use]
    pub fn evaluation(&self) -> NumberEvaluation {
        let noise_too_large_by = too_large_by(|factor| {
            let less = Self {
                plan: self.plan,
                sums: self.sums.with_noise_over(factor),
            };
            let found = less.all();
            let of = [&found.mean_absolute_error, &found.mean_squared_error];
            of.iter().all(|of| of.records.estimate.is_some())
        });
        NumberEvaluation {
            noise_too_large_by,
            ..self.all()
        }
    }

    fn all(&self) -> NumberEvaluation {
        let (width, sums) = (self.plan.width, &self.sums);
        let (absolute, squared) = (
            sums.mean(0).scaled(width),
            sums.mean(1).scaled(width * width),
        );
        // By Jensen's inequality no mean square is below the squared mean.
        let least = absolute.records.estimate.unwrap_or(0.0);
        let mut root = squared.records.map(f64::sqrt);
        root.estimate = root.estimate.map(|of| of.max(least).min(root.high));
        NumberEvaluation {
            failure: self.plan.tally.failure,
            records: sums.known(),
            count_std: sums.deviation,
            width,
            mean_absolute_error: absolute,
            mean_squared_error: squared,
            root_mean_squared_error: root,
            noise_too_large_by: None,
        }
    }
}
