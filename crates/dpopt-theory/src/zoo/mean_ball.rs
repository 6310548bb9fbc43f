//! The lower bound for stationary points: balls around the records.

use dpopt_linalg::distance;
use dpopt_oracle::{Constants, Convexity, Differentiable, Loss, Segment, TwiceDifferentiable};

use crate::problem::{Problem, ProblemConstants, ProblemError, in_range, positive};

/// The loss whose stationary point is the mean of the records: a ball of curvature L1 with slope at
/// most L0 around each record.
///
/// # Formula
/// With B = L0/L1: f(w; x) = (L1/2) ||w - x||^2 where ||w - x|| <= B, else L0 ||w - x|| - L0^2/(2 L1).
/// Records lie within B/4 of 0.
///
/// # Constants
/// The gradient is L1 (w - x) cut to length L0: L0-Lipschitz, L1-smooth (cutting to a ball is
/// 1-Lipschitz), both attained; convex. Each least value is 0, and f(0; x) <= (L1/2)(B/4)^2, so F0 <=
/// L0^2/(32 L1).
///
/// For every w, ||grad F(w)|| >= L1 ||P(w) - mean x||, P the projection to the ball of radius B/4. An
/// (epsilon, delta)-DP solver has a mean gradient norm of Omega(L0 min(1, sqrt(d)/(n epsilon)))
/// where the records are a [`Fingerprint`](crate::Fingerprint) of size B/(4 sqrt d).
///
/// Source: arXiv 2206.00846, Theorem 2, with the errata of `docs/evidence.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanBall {
    dim: usize,
    lipschitz: f64,
    smoothness: f64,
}

impl MeanBall {
    /// Dimension, L0 and L1.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(dim: usize, lipschitz: f64, smoothness: f64) -> Result<Self, ProblemError> {
        positive("lipschitz", lipschitz)?;
        positive("smoothness", smoothness)?;
        Ok(Self {
            dim,
            lipschitz,
            smoothness,
        })
    }

    /// B/4: how far records may be from 0.
    #[must_use]
    pub fn record_radius(&self) -> f64 {
        0.25 * self.lipschitz / self.smoothness
    }

    /// 0.3 L0 sqrt(d)/(n mu): below it no solver with Gaussian noise comes in the mean, where records are a
    /// [`Fingerprint`](crate::Fingerprint) of size B/(4 sqrt d) with d >= 10, and sqrt(d)/(n mu) <= 0.05.
    ///
    /// # Where it comes from
    /// The Gaussian mechanism that knows B/4 releases the mean of the records once and has the error (L0/2) sqrt(d)/(n mu) under replace-one; the
    /// floor is below it by a margin and above what half of that noise would give. Not a theorem: for d <= 5 other
    /// mechanisms may do better.
    #[must_use]
    pub fn floor(&self, records: u64, mu: f64) -> f64 {
        0.3 * self.lipschitz * (self.dim as f64).sqrt() / (records as f64 * mu)
    }

    /// The mean loss over `records`, as a problem.
    ///
    /// # Errors
    /// [`ProblemError::OutOfRange`] for a record further than B/4 from 0, or none.
    pub fn over(self, records: Vec<Vec<f64>>) -> Result<MeanBallMean, ProblemError> {
        let high = self.record_radius() * (1.0 + 1e-12);
        let longest = records.iter().map(|x| dpopt_linalg::norm(x));
        let longest = longest.fold(f64::NEG_INFINITY, f64::max);
        in_range("record", longest, 0.0, high)?;
        let mut mean = vec![0.0; self.dim];
        for record in &records {
            dpopt_linalg::add_scaled(&mut mean, 1.0 / records.len() as f64, record);
        }
        Ok(MeanBallMean {
            loss: self,
            records,
            mean,
        })
    }
}

impl Loss for MeanBall {
    type Records = Vec<Vec<f64>>;
    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Vec<Vec<f64>>) -> usize {
        self.dim
    }

    fn constants_on(&self, _: &Vec<Vec<f64>>) -> Constants {
        let gap = self.lipschitz * self.lipschitz / (32.0 * self.smoothness);
        Constants::new(self.lipschitz, self.smoothness, gap, Convexity::Convex)
    }

    fn value(&self, record: &Vec<f64>, point: &[f64]) -> f64 {
        let away = distance(point, record);
        let (l0, l1) = (self.lipschitz, self.smoothness);
        if l1 * away <= l0 {
            0.5 * l1 * away * away
        } else {
            l0 * away - 0.5 * l0 * l0 / l1
        }
    }
}

impl Differentiable for MeanBall {
    fn gradient(&self, record: &Vec<f64>, point: &[f64], out: &mut [f64]) {
        let away = distance(point, record);
        let factor = if self.smoothness * away <= self.lipschitz {
            self.smoothness
        } else {
            self.lipschitz / away
        };
        for ((out, w), x) in out.iter_mut().zip(point).zip(record) {
            *out += factor * (w - x);
        }
    }

    fn gradient_change(&self, record: &Vec<f64>, segment: &Segment<'_>, out: &mut [f64]) {
        let far = |w: &[f64]| self.smoothness * distance(w, record) > self.lipschitz;
        if far(segment.from) || far(segment.to) {
            let mut before = vec![0.0; out.len()];
            self.gradient(record, segment.from, &mut before);
            self.gradient(record, segment.to, out);
            dpopt_linalg::add_scaled(out, -1.0, &before);
        } else {
            dpopt_linalg::add_scaled(out, self.smoothness, segment.displacement);
        }
    }
}

/// From one side where it jumps, at the rim of the ball.
impl TwiceDifferentiable for MeanBall {
    fn hessian_vector(&self, record: &Vec<f64>, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let away = distance(point, record);
        if self.smoothness * away <= self.lipschitz {
            dpopt_linalg::add_scaled(out, self.smoothness, direction);
            return;
        }
        let factor = self.lipschitz / away;
        let apart = point.iter().zip(record).map(|(w, x)| (w - x) / away);
        let along: f64 = apart.clone().zip(direction).map(|(u, v)| u * v).sum();
        for ((out, v), u) in out.iter_mut().zip(direction).zip(apart) {
            *out += factor * (v - along * u);
        }
    }
}

/// The mean of [`MeanBall`] over records, whose least point is their mean.
///
/// # Formula
/// For ||w|| <= 3B/4 all records are within B, and grad F(w) = L1 (w - mean x); beyond it is summed record by record.
/// F0 = (L1/2) ||mean x||^2.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanBallMean {
    loss: MeanBall,
    records: Vec<Vec<f64>>,
    mean: Vec<f64>,
}

impl MeanBallMean {
    fn near(&self, point: &[f64]) -> bool {
        dpopt_linalg::norm(point) <= 2.99 * self.loss.record_radius()
    }
}

impl Problem for MeanBallMean {
    fn dim(&self) -> usize {
        self.loss.dim
    }

    fn constants(&self) -> ProblemConstants {
        let gap = 0.5 * self.loss.smoothness * dpopt_linalg::dot(&self.mean, &self.mean);
        ProblemConstants::first_order(self.loss.lipschitz, self.loss.smoothness, gap)
            .with_weak_convexity(0.0)
    }

    fn value(&self, point: &[f64]) -> f64 {
        let values = self.records.iter().map(|x| self.loss.value(x, point));
        values.sum::<f64>() / self.records.len() as f64
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        if self.near(point) {
            dpopt_linalg::add_scaled(out, self.loss.smoothness, point);
            dpopt_linalg::add_scaled(out, -self.loss.smoothness, &self.mean);
            return;
        }
        for record in &self.records {
            self.loss.gradient(record, point, out);
        }
        let share = 1.0 / self.records.len() as f64;
        out.iter_mut().for_each(|x| *x *= share);
    }
}
