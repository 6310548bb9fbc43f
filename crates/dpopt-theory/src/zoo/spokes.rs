//! Why gradients of wide generalised linear losses on a sample are not those of the population.

use dpopt_oracle::{Glm, Scale};

use crate::problem::{ProblemError, positive};
use dpopt_certify::random::Normals;

/// Rows x_j = (e_0 + e_j)/sqrt 2, j = 1..N, N = 4n, uniformly distributed, under Huber's loss of <w, x> with delta = 1: X = L0 = L1 = 1.
///
/// # Formula
/// For a sample of n rows take w_0 = 0 and w_j = sqrt 2 where row j was drawn, else -sqrt 2. Then <w, x_j> = 1 or -1, and the slope is the
/// same: on the sample always 1. With s <= 1/4 the share of rows that were drawn at least once, coordinate 0 of the
/// gradient is 1/sqrt 2 on the sample and (2s - 1)/sqrt 2 for the population. So the two are at least
///
/// sqrt 2 (1 - s) >= 3/(2 sqrt 2) = 1.06
///
/// apart, for every n and every sample, at a point of norm sqrt(8n). The printed Lemma E.2 bounds the difference over all w
/// by something that goes to 0 with n: its cover of points is chosen for each record, where it has to serve all of them.
///
/// A true statement needs the rank, a bound on ||w||, or one pass: erratum E17 in `docs/theory/faster-rates.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct Spokes {
    /// How often each row was drawn.
    drawn: Vec<u64>,
    records: u64,
}

impl Spokes {
    /// A sample of `records` of the 4 `records` rows.
    ///
    /// # Errors
    /// [`ProblemError`] for an empty sample.
    pub fn new(records: u64, seed: u64) -> Result<Self, ProblemError> {
        positive("records", records as f64)?;
        let rows = 4 * records;
        let mut random = Normals::new(seed);
        let mut drawn = vec![0; rows as usize];
        for _ in 0..records {
            let row = (random.uniform() * rows as f64) as usize;
            drawn[row.min(rows as usize - 1)] += 1;
        }
        Ok(Self { drawn, records })
    }

    /// The point of the counterexample: d = 4n + 1 coordinates.
    #[must_use]
    pub fn point(&self) -> Vec<f64> {
        let side = |&times: &u64| {
            if times > 0 {
                std::f64::consts::SQRT_2
            } else {
                -std::f64::consts::SQRT_2
            }
        };
        std::iter::once(0.0)
            .chain(self.drawn.iter().map(side))
            .collect()
    }

    /// The gradients at `point` on the sample and of the population.
    ///
    /// # Shapes
    /// `point`: 4n + 1.
    ///
    /// # Errors
    /// None in practice: 1 is a scale.
    pub fn gradients(
        &self,
        point: &[f64],
    ) -> Result<[Vec<f64>; 2], Box<dyn std::error::Error + Send + Sync>> {
        let huber = Glm::Huber(Scale::new(1.0)?);
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let mut gradients = [vec![0.0; point.len()], vec![0.0; point.len()]];
        for (j, &times) in self.drawn.iter().enumerate() {
            let slope = half * huber.slope(half * (point[0] + point[j + 1]), 0.0);
            let shares = [
                times as f64 / self.records as f64,
                1.0 / self.drawn.len() as f64,
            ];
            for (gradient, share) in gradients.iter_mut().zip(shares) {
                gradient[0] += share * slope;
                gradient[j + 1] += share * slope;
            }
        }
        Ok(gradients)
    }
}
