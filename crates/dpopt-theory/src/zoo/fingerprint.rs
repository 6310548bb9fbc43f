//! Records of random signs with random biases: what makes private means hard, and gives members
//! away.

use dpopt_linalg::dot;
use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, StreamId};
use rand::Rng as _;

use crate::problem::ProblemError;

/// Records x_i in {-s, s}^d with independent coordinates of mean s p_j, where the biases p_j are
/// themselves uniform in [-1, 1].
///
/// # Formula
/// The statistic of a point w (in units of s) for a vector x is T(w; x) = <w/s - p, x/s - p>. For a
/// vector that w does not depend on, it has mean 0 given w, and variance sum_j (w_j/s - p_j)^2
/// (1 - p_j^2). For the members of the data that w is the mean of, it sums to n ||w/s - p||^2, of
/// mean sum_j (1 - p_j^2), which is 2d/3 on average over the biases: 2d/(3n) each. A mean that
/// satisfies (epsilon, delta)-DP can't favour members more than its epsilon allows; that is the
/// fingerprinting lower bound.
///
/// The random biases matter: with p = 0 the point w = 0 would be a good answer without any data.
///
/// # References
/// Bun, Ullman and Vadhan 2014; Dwork, Smith, Steinke, Ullman and Vadhan 2015.
#[derive(Debug, Clone, PartialEq)]
pub struct Fingerprint {
    biases: Vec<f64>,
    size: f64,
    records: Vec<Vec<f64>>,
}

impl Fingerprint {
    /// `count` records in dimension `dim` with coordinates of size `size`, from `seed`.
    ///
    /// # Errors
    /// [`ProblemError`] for a size that is not positive and finite, or no dimension.
    pub fn new(dim: usize, count: usize, size: f64, seed: u64) -> Result<Self, ProblemError> {
        crate::problem::positive("size", size)?;
        if dim == 0 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        let mut stream =
            ReplayKeyForTests::from_seed(seed).stream(StreamId::new(Purpose::Perturbation, 0));
        // Uniform in [-1, 1).
        let mut uniform = move || (stream.next_u64() >> 11) as f64 * f64::EPSILON - 1.0;
        let biases: Vec<f64> = (0..dim).map(|_| uniform()).collect();
        let mut record = || -> Vec<f64> {
            biases
                .iter()
                .map(|p| if uniform() < *p { size } else { -size })
                .collect()
        };
        let records = (0..count).map(|_| record()).collect();
        Ok(Self {
            biases,
            size,
            records,
        })
    }

    /// The records.
    #[must_use]
    pub fn records(&self) -> &[Vec<f64>] {
        &self.records
    }

    /// The biases p.
    #[must_use]
    pub fn biases(&self) -> &[f64] {
        &self.biases
    }

    /// The mean record.
    #[must_use]
    pub fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.biases.len()];
        for record in &self.records {
            dpopt_linalg::add_scaled(&mut mean, 1.0 / self.records.len() as f64, record);
        }
        mean
    }

    /// T(w; x).
    ///
    /// # Shapes
    /// `point` and `record`: d.
    #[must_use]
    pub fn statistic(&self, point: &[f64], record: &[f64]) -> f64 {
        let centred = |v: &[f64]| -> Vec<f64> {
            let parts = v.iter().zip(&self.biases);
            parts.map(|(v, p)| v / self.size - p).collect()
        };
        dot(&centred(point), &centred(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identity behind the statistic, and its two means. False alarms: the sums are of at least
    /// 400 d bounded terms; 6 standard deviations of each, below 1e-8.
    #[test]
    fn members_stand_out_and_strangers_do_not() {
        let (dim, count) = (200, 400);
        let data = Fingerprint::new(dim, count, 0.5, 1).unwrap();
        let mean = data.mean();
        let members: f64 = data
            .records()
            .iter()
            .map(|x| data.statistic(&mean, x))
            .sum();
        let distance: f64 = mean
            .iter()
            .zip(data.biases())
            .map(|(m, p)| (m / 0.5 - p).powi(2))
            .sum();
        assert!((members / (count as f64 * distance) - 1.0).abs() < 1e-9);
        // Mean sum (1 - p^2), a chi-squared-like sum of d terms of relative deviation sqrt(2/d).
        let expected: f64 = data.biases().iter().map(|p| 1.0 - p * p).sum();
        assert!((members / expected - 1.0).abs() < 6.0 * (2.0 / dim as f64).sqrt());
        assert!((expected / dim as f64 - 2.0 / 3.0).abs() < 6.0 * 0.3 / (dim as f64).sqrt());
        // A stranger: the same biases, other records. The mean of the first half never saw the second.
        let (old, new) = data.records().split_at(count / 2);
        let half = Fingerprint {
            records: old.to_vec(),
            ..data.clone()
        };
        let mean = half.mean();
        let strangers: f64 = new.iter().map(|x| data.statistic(&mean, x)).sum();
        let variance: f64 = mean
            .iter()
            .zip(data.biases())
            .map(|(m, p)| (m / 0.5 - p).powi(2) * (1.0 - p * p))
            .sum();
        assert!(strangers.abs() < 6.0 * (variance * new.len() as f64).sqrt());
    }
}
