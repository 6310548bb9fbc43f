//! A convex generalised linear population whose gradient and minimiser are known exactly.

use dpopt_linalg::Design;
use dpopt_oracle::{ConvexGlm, Examples, Glm, Scale};
use dpopt_privacy::ClipNorm;

use crate::problem::{ProblemError, in_range, positive};
use dpopt_certify::random::Normals;

/// Records (e_j, y): j uniform among d coordinates, y = 1 with probability (1 + v)/2 and -1 otherwise, under Huber's
/// loss with delta = 1.
///
/// # Formula
/// For |w_j| <= 1 the residual w_j - y is in [-2, 0] or [0, 2], so on 0 <= w_j <= 1 the slope is w_j - 1 with
/// probability (1 + v)/2 and 1 otherwise: grad_j F(w) = (1/d) (((1 + v)/2) s(w_j - 1) + ((1 - v)/2) s(w_j + 1)), s the
/// clamp to [-1, 1], for every w. It vanishes at w_j = 2v/(1 + v), which is sqrt(d) 2v/(1 + v) from the origin.
///
/// # Constants
/// L0 = L1 = 1, both for every record: rows have norm 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coins {
    dim: usize,
    bias: f64,
}

impl Coins {
    /// In dimension `dim`, with `bias` v in [0, 1].
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(dim: usize, bias: f64) -> Result<Self, ProblemError> {
        positive("dim", dim as f64)?;
        in_range("bias", bias, 0.0, 1.0)?;
        Ok(Self { dim, bias })
    }

    /// Huber's loss with delta = 1.
    ///
    /// # Errors
    /// None in practice: 1 is a scale.
    pub fn loss() -> Result<ConvexGlm, Box<dyn std::error::Error + Send + Sync>> {
        Ok(ConvexGlm::new(Glm::Huber(Scale::new(1.0)?))?)
    }

    /// The distance from the origin to the minimiser.
    #[must_use]
    pub fn radius(&self) -> f64 {
        (self.dim as f64).sqrt() * 2.0 * self.bias / (1.0 + self.bias)
    }

    /// Writes the gradient of the population risk at `point`.
    pub fn gradient(&self, point: &[f64], out: &mut [f64]) {
        let up = 0.5 * (1.0 + self.bias);
        for (out, w) in out.iter_mut().zip(point) {
            let slope = up * (w - 1.0).clamp(-1.0, 1.0) + (1.0 - up) * (w + 1.0).clamp(-1.0, 1.0);
            *out = slope / self.dim as f64;
        }
    }

    /// One of 2d kinds: coordinate and sign, as 2j for y = -1 and 2j + 1 for y = 1.
    fn draw(&self, random: &mut Normals) -> usize {
        let coordinate = ((random.uniform() * self.dim as f64) as usize).min(self.dim - 1);
        2 * coordinate + usize::from(random.uniform() < 0.5 * (1.0 + self.bias))
    }

    /// d.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// One record: its coordinate and its label.
    pub(crate) fn record(&self, random: &mut Normals) -> (usize, f64) {
        let kind = self.draw(random);
        (kind / 2, f64::from(label(kind)))
    }

    /// A sample of `records` independent records, in order.
    ///
    /// # Errors
    /// Those of [`Design`] and [`Examples`], none of which can happen.
    pub fn sample(
        &self,
        records: u64,
        seed: u64,
    ) -> Result<(Design, Vec<f32>), Box<dyn std::error::Error + Send + Sync>> {
        let mut random = Normals::new(seed);
        let mut design = Design::sparse(self.dim)?;
        let mut labels = Vec::with_capacity(records as usize);
        for _ in 0..records {
            let kind = self.draw(&mut random);
            design.push_row(&[((kind / 2) as u32, 1.0)])?;
            labels.push(label(kind));
        }
        Ok((design, labels))
    }

    /// A sample of `records` independent records, as the 2d kinds and how often each occurs.
    ///
    /// # Errors
    /// As [`Coins::sample`].
    pub fn counted(
        &self,
        records: u64,
        seed: u64,
    ) -> Result<(Examples, Vec<u64>), Box<dyn std::error::Error + Send + Sync>> {
        let mut random = Normals::new(seed);
        let mut counts = vec![0; 2 * self.dim];
        for _ in 0..records {
            counts[self.draw(&mut random)] += 1;
        }
        let mut design = Design::sparse(self.dim)?;
        for kind in 0..2 * self.dim {
            design.push_row(&[((kind / 2) as u32, 1.0)])?;
        }
        let labels = (0..2 * self.dim).map(label).collect();
        // A little room, so that the rows of norm 1 are not shortened in single precision.
        let bound = ClipNorm::new(1.0 + 1e-12)?;
        Ok((Examples::new(design, labels, bound)?, counts))
    }
}

fn label(kind: usize) -> f32 {
    if kind % 2 == 1 { 1.0 } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_oracle::{Differentiable, Records};

    #[test]
    fn the_gradient_is_the_mean_over_all_kinds_and_vanishes_where_it_should() {
        let coins = Coins::new(3, 0.3).unwrap();
        let (examples, _) = coins.counted(1, 0).unwrap();
        let loss = Coins::loss().unwrap();
        for point in [[0.0; 3], [0.4, -0.7, 1.9], [-5.0, 0.2, 3.0]] {
            let mut mean = [0.0; 3];
            for kind in 0..6 {
                let mut gradient = [0.0; 3];
                loss.gradient(examples.record(kind), &point, &mut gradient);
                let share = if kind % 2 == 1 { 0.65 } else { 0.35 };
                let weight = share / 3.0;
                for (mean, g) in mean.iter_mut().zip(gradient) {
                    *mean += weight * g;
                }
            }
            let mut stated = [0.0; 3];
            coins.gradient(&point, &mut stated);
            for (mean, stated) in mean.iter().zip(stated) {
                assert!((mean - stated).abs() < 1e-15);
            }
        }
        let best = [coins.radius() / 3f64.sqrt(); 3];
        let mut gradient = [1.0; 3];
        coins.gradient(&best, &mut gradient);
        assert!(gradient.iter().all(|g| g.abs() < 1e-15));
    }
}
