//! The barrier for methods that ask an oracle: an instance on which private oracles are as bad as they may be.

use dpopt_oracle::{Constants, Convexity, Differentiable, Loss};

use super::over_mean::{AffineLoss, OverMean};
use crate::problem::{ProblemConstants, ProblemError, positive};

/// Half of the coordinates carry a record in their gradient, the others in the change of it.
///
/// # Formula
/// d = 2m, records x in {-1, 1}^d: f(w; x) = (L0/sqrt d) sum_{j <= m} w_j x_j + sum_{j > m} h(w_j) x_j, with
/// h(z) = (L1/2) z^2 for |z| <= B = L0/(L1 sqrt d), else (L0/sqrt d)|z| - L0^2/(2 d L1). (The paper prints another 1/2 in
/// front of the second part, with which it is L0/2 and L1/2 there, and leaves L0 and L1 out of the gradient.)
///
/// # Constants
/// Each coordinate of a gradient is at most L0/sqrt d, so L0, attained where all |w_j| >= B for j > m. |h''| <= L1 on its own
/// coordinate, so L1, attained. Nonconvex, and unbounded below: F0 is infinite. It measures oracles, not descents.
///
/// # Barrier
/// An anchor's mean has norm L0 times that of the mean record, over sqrt d, in the first half; a change along a
/// displacement v within B is L1 v_j times the mean record in the second. Releasing either means releasing a
/// mean of signs, so the root mean square errors of G private answers, t1 and t2 per unit of displacement, are Omega(L0 sqrt(G d)/(n mu)) and
/// Omega(L1 sqrt(G d)/(n mu)), up to logarithms. In the bound (F0 t2 t1/G)^(1/3) + t1/sqrt G for methods of G queries, G cancels.
///
/// Source: arXiv 2206.00846, Lemma 4 and Theorem 10, with the errata of `docs/evidence.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Barrier {
    half: usize,
    lipschitz: f64,
    smoothness: f64,
}

impl Barrier {
    /// In 2 `half` dimensions, with L0 and L1.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(half: usize, lipschitz: f64, smoothness: f64) -> Result<Self, ProblemError> {
        positive("half", half as f64)?;
        positive("lipschitz", lipschitz)?;
        positive("smoothness", smoothness)?;
        Ok(Self {
            half,
            lipschitz,
            smoothness,
        })
    }

    /// B: where h goes over into a line.
    #[must_use]
    pub fn knee(&self) -> f64 {
        self.slope() / self.smoothness
    }

    /// The mean loss over records of mean `mean`, a vector in [-1, 1]^d, as a problem.
    #[must_use]
    pub fn over(self, mean: Vec<f64>) -> OverMean<Self> {
        OverMean::new(self, mean)
    }

    /// L0/sqrt d.
    fn slope(&self) -> f64 {
        self.lipschitz / ((2 * self.half) as f64).sqrt()
    }

    fn well(&self, z: f64) -> f64 {
        if z.abs() <= self.knee() {
            0.5 * self.smoothness * z * z
        } else {
            self.slope() * (z.abs() - 0.5 * self.knee())
        }
    }

    fn well_slope(&self, z: f64) -> f64 {
        (self.smoothness * z).clamp(-self.slope(), self.slope())
    }
}

impl Loss for Barrier {
    type Records = Vec<Vec<f64>>;
    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Vec<Vec<f64>>) -> usize {
        2 * self.half
    }

    fn constants_on(&self, _: &Vec<Vec<f64>>) -> Constants {
        Constants::new(
            self.lipschitz,
            self.smoothness,
            f64::INFINITY,
            Convexity::Nonconvex,
        )
    }

    fn value(&self, record: &Vec<f64>, point: &[f64]) -> f64 {
        let parts = record.iter().zip(point).enumerate();
        parts
            .map(|(j, (x, w))| {
                let height = if j < self.half {
                    self.slope() * w
                } else {
                    self.well(*w)
                };
                x * height
            })
            .sum()
    }
}

impl Differentiable for Barrier {
    fn gradient(&self, record: &Vec<f64>, point: &[f64], out: &mut [f64]) {
        for (j, (out, (x, w))) in out.iter_mut().zip(record.iter().zip(point)).enumerate() {
            let slope = if j < self.half {
                self.slope()
            } else {
                self.well_slope(*w)
            };
            *out += x * slope;
        }
    }
}

/// L0 is the bound for every record; the mean's own is that times the size of the mean record.
impl AffineLoss for Barrier {
    fn constants_over(&self, _: &[f64]) -> ProblemConstants {
        ProblemConstants::first_order(self.lipschitz, self.smoothness, f64::INFINITY)
    }
}
