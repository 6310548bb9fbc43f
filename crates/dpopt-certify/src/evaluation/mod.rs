//! How good a model is on private records, by one charged release.
//!
//! For two classes the release has weighted counts of both in public bins of the score (a binned ROC
//! curve) and, if wanted, the sum of log losses; for several classes a table of classes and
//! predictions, and sums of right calls and of log losses; for numbers the sums of errors.
//! All else is computed from them: see [`EvaluationCounts::evaluation`], [`ClassCounts::evaluation`] and
//! [`NumberSums::evaluation`]. The argument is in `docs/privacy/certificates.md`.

mod measured;
mod model;
mod number;
mod plan;
mod prefix;
mod ranking;
mod ratio;
mod release;
mod several;
mod statement;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;

use dpopt_linalg::Row;
use dpopt_oracle::{Example, Glm, PrivateData, Tally};
use dpopt_privacy::Curator;

pub use measured::Measured;
pub use model::{EvaluatedLabel, EvaluatedModel, EvaluationOfModel, FittedModel, ModelEvaluation};
pub use number::{NumberEvaluation, NumberPlan, NumberSums};
use prefix::Prefix;

pub use plan::{EvaluationSettings, PrivateEvaluation};
pub use release::{EvaluationError, MeanOf, TallyPlan};
pub use several::{ClassCounts, ClassesEvaluation, ClassesPlan, ReleasedTable};
pub use statement::{
    BinaryConfusion, Calibrated, Evaluation, EvaluationCounts, OfPopulation, RocPoint,
};

impl PrivateEvaluation {
    /// Releases the counts of these scores, from what the curator has reserved: [`TallyPlan::spend`]. Settling is the caller's.
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
        let (bins, cap) = (self.bins, self.loss_cap);
        let place = |record: Example<'_>, shares: &mut [f64]| {
            let score = score(record.row);
            let positive = record.label > 0.0;
            let bin = bins.place(score);
            let right = (bin >= bins.count() / 2) == positive;
            // `min` takes the cap where the loss is NaN.
            let loss = |cap: f64| {
                let loss = Glm::Logistic.value(score, if positive { 1.0 } else { -1.0 });
                loss.min(cap) / cap
            };
            let of = [Some(f64::from(u8::from(right))), cap.map(loss)];
            for (share, of) in shares.iter_mut().zip(of.into_iter().flatten()) {
                *share = of;
            }
            usize::from(positive) * bins.count() + bin
        };
        let tally = Tally::new(2 * bins.count(), Self::shares(cap), place);
        let tally = tally.spread(Prefix::new(bins.count()).column().to_vec());
        let (sums, curator) = self.tally.release(data, tally, curator, threads)?;
        let (deviation, rounding) = (sums.deviation, sums.rounding);
        let counts = EvaluationCounts::new(self, &sums.values, deviation, rounding);
        Ok((counts, curator))
    }
}
