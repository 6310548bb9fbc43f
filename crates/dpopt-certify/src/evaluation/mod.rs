//! How good scores of two classes are on private records, by one charged release.
//!
//! What is released are the counts of both classes in public bins of the score (a binned ROC curve) and, where it is wanted, the sum of
//! the log losses. All else is computed from them: see [`EvaluationCounts::evaluation`]. The argument is in `docs/privacy/evaluation.md`.

mod measured;
mod plan;
mod ranking;
mod ratio;
mod statement;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;

use dpopt_linalg::Row;
use dpopt_oracle::{BinnedScores, EstimatorError, PrivateData, PrivateMean, Running};
use dpopt_privacy::{ClipNorm, Curator, Which};
use dpopt_solver::PublicFacts;

pub use measured::Measured;
pub use plan::{EvaluationError, EvaluationSettings, PrivateEvaluation};
pub use statement::{
    BinaryConfusion, Calibrated, Evaluation, EvaluationCounts, OfPopulation, RocPoint,
};

use plan::radius;

impl PrivateEvaluation {
    /// Releases the counts of these scores, from what the curator has reserved: [`PrivateEvaluation::spend`]. Settling is the caller's.
    ///
    /// # Privacy
    /// The scores have to be a function of the row and of what is public.
    ///
    /// # Errors
    /// [`EvaluationError`]. What was spent before an error is in no curator any more, but in the ledger; nothing is spent before the
    /// release, which is the last step that can fail.
    pub fn release<S: Fn(Row<'_>) -> f64 + Sync>(
        &self,
        data: &PrivateData,
        score: S,
        curator: Curator,
        threads: NonZeroUsize,
    ) -> Result<(EvaluationCounts, Curator), EvaluationError> {
        let (planned, found) = (self.adjacency, data.adjacency());
        if planned != found {
            return Err(EvaluationError::OtherAdjacency { planned, found });
        }
        let (planned, found) = (self.records, data.public_records());
        if planned != found {
            return Err(EvaluationError::OtherData { planned, found });
        }
        let loss = BinnedScores::new(score, self.bins, self.loss_cap);
        let radius = radius(self.loss_cap.is_some());
        let clip = ClipNorm::new(radius).map_err(EstimatorError::from)?;
        let mut means = PrivateMean::new(data, loss, curator)?.with_threads(threads);
        let dim = means.dim();
        let mut running = Running::new(dim, clip);
        let at = vec![0.0; dim];
        let released = running.anchor(&mut means, &at, Which::All, self.noise_multiplier)?;
        let estimate = released.estimate();
        let records = self.records as f64;
        let sums: Vec<f64> = estimate.gradient.iter().map(|x| x * records).collect();
        let rounding = PublicFacts::rounding(radius, dim);
        let deviation = estimate.noise_std * records;
        let counts = EvaluationCounts::new(self, &sums, deviation, rounding);
        Ok((counts, means.into_curator()))
    }
}
