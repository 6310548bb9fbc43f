//! The lower bound for population risk without privacy: two populations that a sample can't tell apart.

use dpopt_oracle::{Constants, Convexity, Differentiable, Loss, TwiceDifferentiable};
use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, StreamId};

use super::two_point::Majority;
use crate::problem::{Problem, ProblemConstants, ProblemError, in_range, positive};
use crate::simulation::binomial;
use dpopt_certify::random::Normals;

/// Signs of mean v p in one dimension, v = 1 or -1: Le Cam's two hypotheses for stationary points.
///
/// # Formula
/// f(w; x) = (L0/2) w x + (L1/2) D(w), x = 1 or -1, D(w) = w^2 for |w| <= L0/(2 L1), else L0 |w|/L1 - L0^2/(4 L1^2). The
/// population has E x = v p, so F'(w) = L0 v p/2 + L1 w, with L1 w cut to [-L0/2, L0/2], and the minimiser -L0 v p/(2 L1).
///
/// # Constants
/// L0 for every record (from |w| = L0/(2 L1) on) and L1, both attained; convex; F0 = L0^2 p^2/(8 L1). The
/// population's own slope is at most L0 (1 + p)/2.
///
/// # Lower bound
/// F' for v = 1 less F' for v = -1 is L0 p everywhere, so |F'| for one of the two is at least half of that. At p = 1/(4 sqrt n) the
/// two laws of a sample are within 1/4 in total variation. So for every solver the larger of the two means of |F'(w)| is at
/// least (3/8) L0 p = 3 L0/(32 sqrt n), with or without privacy. (The paper's argument gives half of it, 0.047 L0/sqrt n.)
///
/// Source: arXiv 2206.00846, Theorem 7, with the errata of `docs/evidence.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeCam {
    lipschitz: f64,
    smoothness: f64,
    bias: f64,
    sign: f64,
}

impl LeCam {
    /// L0, L1, p in (0, 1], and which sign is the more frequent.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(
        lipschitz: f64,
        smoothness: f64,
        bias: f64,
        majority: Majority,
    ) -> Result<Self, ProblemError> {
        positive("lipschitz", lipschitz)?;
        positive("smoothness", smoothness)?;
        in_range("bias", bias, f64::MIN_POSITIVE, 1.0)?;
        Ok(Self {
            lipschitz,
            smoothness,
            bias,
            sign: majority.sign(),
        })
    }

    /// 1/(4 sqrt n): the bias of the lower bound.
    #[must_use]
    pub fn hardest_bias(records: u64) -> f64 {
        0.25 / (records as f64).sqrt()
    }

    /// 3 L0/(32 sqrt n): the least mean of |F'| that a solver can have on the worse of the two populations of
    /// [`LeCam::hardest_bias`], from `records` records.
    #[must_use]
    pub fn floor(&self, records: u64) -> f64 {
        3.0 * self.lipschitz / (32.0 * (records as f64).sqrt())
    }

    /// A sample of `records` independent records.
    #[must_use]
    pub fn sample(&self, records: u64, seed: u64) -> Vec<f64> {
        let mut random = Normals::new(seed);
        let ones = 0.5 * (1.0 + self.sign * self.bias);
        let one = |_| if random.uniform() < ones { 1.0 } else { -1.0 };
        (0..records).map(one).collect()
    }

    /// A sample of `records` independent records, as how many of them are 1 and -1.
    #[must_use]
    pub fn counted(&self, records: u64, seed: u64) -> [u64; 2] {
        let key = ReplayKeyForTests::from_seed(seed);
        let mut stream = key.stream(StreamId::new(Purpose::Sampling, 0));
        let ones = binomial(records, 0.5 * (1.0 + self.sign * self.bias), &mut stream);
        [ones, records - ones]
    }

    /// The slope of (L1/2) D.
    fn bowl_slope(&self, w: f64) -> f64 {
        let most = 0.5 * self.lipschitz;
        (self.smoothness * w).clamp(-most, most)
    }

    fn bowl(&self, w: f64) -> f64 {
        let (l0, l1) = (self.lipschitz, self.smoothness);
        if 2.0 * l1 * w.abs() <= l0 {
            0.5 * l1 * w * w
        } else {
            0.5 * l0 * w.abs() - 0.125 * l0 * l0 / l1
        }
    }
}

impl Loss for LeCam {
    type Records = Vec<f64>;
    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Vec<f64>) -> usize {
        1
    }

    /// F0 for any data: that of records which are all alike.
    fn constants_on(&self, _: &Vec<f64>) -> Constants {
        let gap = 0.125 * self.lipschitz * self.lipschitz / self.smoothness;
        Constants::new(self.lipschitz, self.smoothness, gap, Convexity::Convex)
    }

    fn value(&self, record: &f64, point: &[f64]) -> f64 {
        0.5 * self.lipschitz * point[0] * record + self.bowl(point[0])
    }
}

impl Differentiable for LeCam {
    fn gradient(&self, record: &f64, point: &[f64], out: &mut [f64]) {
        out[0] += 0.5 * self.lipschitz * record + self.bowl_slope(point[0]);
    }

    fn gradient_change(&self, _: &f64, segment: &dpopt_oracle::Segment<'_>, out: &mut [f64]) {
        let most = 0.5 * self.lipschitz / self.smoothness;
        let inside = |w: &[f64]| w[0].abs() <= most;
        out[0] += if inside(segment.from) && inside(segment.to) {
            self.smoothness * segment.displacement[0]
        } else {
            self.bowl_slope(segment.to[0]) - self.bowl_slope(segment.from[0])
        };
    }
}

/// From one side where it jumps, at the end of the parabola.
impl TwiceDifferentiable for LeCam {
    fn hessian_vector(&self, _: &f64, point: &[f64], direction: &[f64], out: &mut [f64]) {
        if self.smoothness * point[0].abs() <= 0.5 * self.lipschitz {
            out[0] += self.smoothness * direction[0];
        }
    }
}

/// The population.
impl Problem for LeCam {
    fn dim(&self) -> usize {
        1
    }

    fn constants(&self) -> ProblemConstants {
        let gap = (self.lipschitz * self.bias).powi(2) / (8.0 * self.smoothness);
        ProblemConstants::first_order(self.lipschitz, self.smoothness, gap).with_weak_convexity(0.0)
    }

    fn value(&self, point: &[f64]) -> f64 {
        Loss::value(self, &(self.sign * self.bias), point)
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out[0] = 0.0;
        Differentiable::gradient(self, &(self.sign * self.bias), point, out);
    }
}
