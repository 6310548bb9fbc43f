//! In which of some public bins a record's score is, to be released.

use dpopt_linalg::Row;

use crate::loss::{Constants, Convexity, Differentiable, Glm, Loss};
use crate::records::{Example, Examples};

/// Most bins.
const MOST: usize = 1024;

/// Public bins of scores: equally wide, with the threshold 0 between the two in the middle, and open at both ends.
///
/// # Formula
/// Edges e_k = (k - B/2) 2 r/B for k = 0..=B. Bin k holds the scores in (e_k, e_(k+1)]; the first also all below and what is not a number, the
/// last also all above. A score of 0 is below the threshold, as in all metrics here.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ScoreBins {
    bins: usize,
    range: f64,
}

/// Bins that are none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreBinsError {
    /// Their number.
    #[error(
        "the number of bins is {0}, and it is even, so that the threshold is an edge, and from 2 to {MOST}"
    )]
    Number(usize),
    /// How far they go.
    #[error("the range of the bins is {0}, and it is a positive finite number")]
    Range(f64),
}

impl ScoreBins {
    /// So many bins, from -`range` to `range`.
    ///
    /// # Errors
    /// [`ScoreBinsError`].
    pub fn new(bins: usize, range: f64) -> Result<Self, ScoreBinsError> {
        if !bins.is_multiple_of(2) || !(2..=MOST).contains(&bins) {
            return Err(ScoreBinsError::Number(bins));
        }
        // Half a bin has to be a number above 0 too.
        if !(range / bins as f64 > 0.0 && range.is_finite()) {
            return Err(ScoreBinsError::Range(range));
        }
        Ok(Self { bins, range })
    }

    /// B.
    #[must_use]
    pub fn count(self) -> usize {
        self.bins
    }

    /// e_k.
    #[must_use]
    pub fn edge(self, k: usize) -> f64 {
        (2.0 * k as f64 / self.bins as f64 - 1.0) * self.range
    }

    /// The bin of a score.
    #[must_use]
    pub fn place(self, score: f64) -> usize {
        let half = self.bins / 2;
        let inside = score.abs() / self.range * half as f64;
        if score > 0.0 {
            // The smallest scores may underflow to 0 bins.
            half + (inside.ceil() as usize).clamp(1, half) - 1
        } else if score.is_nan() {
            0
        } else {
            half - 1 - (inside.floor() as usize).min(half - 1)
        }
    }
}

/// A loss whose gradient says in which bin a record's score is, of which class it is, and how large its log loss is, at every point: the
/// mean gradient is a binned ROC curve, and its release the way to an evaluation on private records.
///
/// # Formula
/// 2 B numbers, of which number 2 k + c is 1 for a score in bin k and class c (1 for a label above 0), the others 0; and with a cap M on the log
/// loss l = ln(1 + e^(-y z)), one more: (2 min(l, M)/M - 1)/2. A loss that is no number counts as M.
///
/// # Privacy
/// A contribution has norm 1, with a cap at most sqrt(5/4), which the clip enforces: see [`BinnedScores::RADIUS`]. The score is a function of
/// the row and of public numbers, on the word of whoever wrote it.
#[derive(Debug, Clone, Copy)]
pub struct BinnedScores<S> {
    score: S,
    bins: ScoreBins,
    cap: Option<f64>,
}

impl<S: Fn(Row<'_>) -> f64 + Sync> BinnedScores<S> {
    /// The length of contributions: without a cap, and with one (rounded up).
    pub const RADIUS: [f64; 2] = [1.0, 1.118_033_988_749_895];

    /// Of the model that gives rows these scores. `cap`: on the log loss, where that is wanted; a positive finite number.
    #[must_use]
    pub fn new(score: S, bins: ScoreBins, cap: Option<f64>) -> Self {
        Self { score, bins, cap }
    }
}

impl<S: Fn(Row<'_>) -> f64 + Sync> Loss for BinnedScores<S> {
    type Records = Examples;

    fn dim(&self, _: &Examples) -> usize {
        2 * self.bins.count() + usize::from(self.cap.is_some())
    }

    fn constants_on(&self, _: &Examples) -> Constants {
        let radius = Self::RADIUS[usize::from(self.cap.is_some())];
        Constants::new(radius, 0.0, f64::INFINITY, Convexity::Convex)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        let mut own = vec![0.0; point.len()];
        self.gradient(record, point, &mut own);
        own.iter().zip(point).map(|(a, b)| a * b).sum()
    }
}

impl<S: Fn(Row<'_>) -> f64 + Sync> Differentiable for BinnedScores<S> {
    fn gradient(&self, record: Example<'_>, _: &[f64], out: &mut [f64]) {
        let score = (self.score)(record.row);
        let positive = record.label > 0.0;
        out[2 * self.bins.place(score) + usize::from(positive)] += 1.0;
        if let (Some(cap), Some(last)) = (self.cap, out.last_mut()) {
            let loss = Glm::Logistic.value(score, if positive { 1.0 } else { -1.0 });
            // `min` takes the cap where the loss is no number.
            *last += loss.min(cap) / cap - 0.5;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_ordered_and_the_threshold_is_an_edge() {
        let bins = ScoreBins::new(4, 2.0).unwrap();
        let edges: Vec<f64> = (0..=4).map(|k| bins.edge(k)).collect();
        assert_eq!(edges, [-2.0, -1.0, 0.0, 1.0, 2.0]);
        for (score, bin) in [
            (f64::NAN, 0),
            (f64::NEG_INFINITY, 0),
            (-2.0, 0),
            (-1.5, 0),
            // The upper end of the first.
            (-1.0, 0),
            (-0.5, 1),
            (-0.0, 1),
            (0.0, 1),
            (1e-320, 2),
            (1.0, 2),
            (1.5, 3),
            (2.0, 3),
            (f64::INFINITY, 3),
        ] {
            assert_eq!(bins.place(score), bin, "{score}");
        }
    }

    #[test]
    fn bins_that_are_none() {
        for number in [0, 1, 3, 1026] {
            assert_eq!(
                ScoreBins::new(number, 1.0),
                Err(ScoreBinsError::Number(number))
            );
        }
        for range in [0.0, -1.0, f64::INFINITY, f64::NAN, 1e-323] {
            assert!(matches!(
                ScoreBins::new(8, range),
                Err(ScoreBinsError::Range(_))
            ));
        }
    }
}
