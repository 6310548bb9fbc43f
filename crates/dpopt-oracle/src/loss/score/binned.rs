//! Public bins of scores.

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
