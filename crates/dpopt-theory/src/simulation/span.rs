//! The private gradient estimator where gradients stay in a span of few dimensions.

use dpopt_linalg::{distance, norm};
use dpopt_nonconvex::SolverPlan;
use dpopt_oracle::{Counts, Estimate, Estimator};
use dpopt_privacy::noise::{KeyedStream, NoiseError, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{Adjacency, Curator, Event, NoiseMultiplier, Reads, Refused, Spend};
use rand_distr::{ChiSquared, Distribution as _, StandardNormal};

/// A mean gradient that lies in the first r of d coordinates, whatever the point, and depends on those only.
pub trait SpanGradient {
    /// r: dimension of the span.
    fn rank(&self) -> usize;

    /// L0: bound on the norm of every record's gradient.
    fn lipschitz(&self) -> f64;

    /// L1: Lipschitz constant of every record's gradient.
    fn smoothness(&self) -> f64;

    /// Writes the r coordinates of the mean gradient at a point with these r coordinates.
    fn gradient(&self, point: &[f64], out: &mut [f64]);
}

/// The estimator of a protected run, **for simulation only**, for walks that add multiples of estimates to points, with
/// d normals for each release replaced by r + 2 numbers.
///
/// # Formula
/// Points and estimates have r + 1 coordinates. The first r are those of the span, as in [`crate::SimulatedEstimator`]; the last is
/// the *length* of the rest of the estimate. A release at noise s per coordinate adds a normal of d - r dimensions to the rest, so that
/// its length goes from l to sqrt((l + s z)^2 + s^2 c), z standard normal and c chi-squared with d - r - 1 degrees of freedom.
///
/// # Why it has the same law
/// The gradient does not depend on coordinates off the span, so all that they do is to lengthen displacements, by which
/// variations are scaled. A walk w <- w - eta g has the displacement eta g, whose length needs the length of g off the span
/// alone. Given that length, noise being the same in all directions, the length after the next release has the law above. So the
/// span coordinates and the displacements have jointly the law that they have with d normals. A walk with momentum adds
/// several estimates, whose directions off the span matter: it must not be run on this.
pub struct SpanEstimator<G> {
    problem: G,
    /// r + 1.
    dim: usize,
    /// d - r - 1.
    rest: f64,
    records: u64,
    curator: Curator,
    noise: KeyedStream,
    point: Vec<f64>,
    estimate: Vec<f64>,
    exact: [Vec<f64>; 2],
    variance: f64,
    counts: Counts,
}

impl<G: SpanGradient> SpanEstimator<G> {
    /// An estimator as over `records` records in `dim` dimensions (at least r + 2). Equal seeds give equal runs. Run plans for d
    /// dimensions on it by [`in_span`].
    #[must_use]
    pub fn new(problem: G, dim: usize, records: u64, adjacency: Adjacency, seed: u64) -> Self {
        let rank = problem.rank();
        let rest = dim.saturating_sub(rank + 1).max(1) as f64;
        let dim = rank + 1;
        let key = ReplayKeyForTests::from_seed(seed);
        Self {
            problem,
            dim,
            rest,
            records: records.max(1),
            curator: Curator::simulated(adjacency, seed),
            noise: key.stream(StreamId::new(Purpose::Noise, 0)),
            point: vec![0.0; dim],
            estimate: vec![0.0; dim],
            exact: [vec![0.0; rank], vec![0.0; rank]],
            variance: 0.0,
            counts: Counts::default(),
        }
    }

    fn release(&mut self, radius: f64, z: NoiseMultiplier) -> Result<f64, Refused> {
        let std =
            self.curator.adjacency().sum_sensitivity() * radius * z.get() / self.records as f64;
        let chi = ChiSquared::new(self.rest).map_err(|_| NoiseError::ScaleOutOfRange {
            scale: self.rest,
            min: 1.0,
            max: f64::MAX,
        })?;
        self.curator.charge_simulated(Reads::All, z)?;
        let rank = self.problem.rank();
        for x in &mut self.estimate[..rank] {
            let normal: f64 = StandardNormal.sample(&mut self.noise);
            *x += std * normal;
        }
        let normal: f64 = StandardNormal.sample(&mut self.noise);
        let along = self.estimate[rank] + std * normal;
        let square = chi.sample(&mut self.noise);
        self.estimate[rank] = along.hypot(std * square.sqrt());
        self.variance += std * std;
        self.counts.releases += 1;
        Ok(std)
    }

    fn count(&mut self, gradients: f64) {
        let n = self.records as f64;
        self.counts.records += n;
        self.counts.gradients += gradients * n;
        self.counts.passes += gradients;
    }

    fn check(&self, point: &[f64]) -> Result<(), Refused> {
        if point.len() == self.dim {
            Ok(())
        } else {
            Err(Refused::QueryShape { dim: self.dim })
        }
    }
}

impl<G: SpanGradient> Estimator for SpanEstimator<G> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.curator.reserve(spend)
    }

    fn refresh(&mut self, point: &[f64], z: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.check(point)?;
        let rank = self.problem.rank();
        self.problem.gradient(&point[..rank], &mut self.exact[0]);
        self.estimate[..rank].copy_from_slice(&self.exact[0]);
        self.estimate[rank] = 0.0;
        self.variance = 0.0;
        let std = self.release(self.problem.lipschitz(), z)?;
        self.point.copy_from_slice(point);
        self.count(1.0);
        Ok(Estimate::new(&self.estimate, self.variance.sqrt(), std))
    }

    fn advance(&mut self, point: &[f64], z: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.check(point)?;
        let rank = self.problem.rank();
        let length = distance(&point[..=rank], &self.point[..=rank]);
        let radius = (self.problem.smoothness() * length).min(2.0 * self.problem.lipschitz());
        if radius == 0.0 {
            return Ok(Estimate::new(&self.estimate, self.variance.sqrt(), 0.0));
        }
        let [old, new] = &mut self.exact;
        self.problem.gradient(&self.point[..rank], old);
        self.problem.gradient(&point[..rank], new);
        for ((x, old), new) in self.estimate.iter_mut().zip(old).zip(new) {
            *x += *new - *old;
        }
        let std = self.release(radius, z)?;
        self.point[..=rank].copy_from_slice(&point[..=rank]);
        self.count(2.0);
        Ok(Estimate::new(&self.estimate, self.variance.sqrt(), std))
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.curator.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.curator.settle()
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// A plan for d dimensions as one that walks in the r + 1 coordinates of a [`SpanEstimator`]: the same steps, noise and bound.
/// None for solvers whose walk adds several estimates.
#[must_use]
pub fn in_span(plan: &SolverPlan, rank: usize) -> Option<SolverPlan> {
    let mut plan = plan.clone();
    match &mut plan {
        SolverPlan::NoisyGd(plan) if plan.momentum == 0.0 => plan.facts.dim = rank + 1,
        SolverPlan::SpiderBoost(plan) => plan.facts.dim = rank + 1,
        _ => return None,
    }
    Some(plan)
}

/// Half of the records on one direction with a ramp, the others spread over r - 1 directions with Huber's loss: a generalised
/// linear problem of rank r, through a linear map.
///
/// # Formula
/// F(w) = 1/2 ramp(c_1 <m_1, w>) + 1/(2 (r-1)) sum_{j=2..r} huber(c_j <m_j, w>), where m_j is the image of the unit
/// vector e_j, and c_j <= 1 its rescaling. The ramp has slope -g up to its knee, rises with curvature 1 and is flat from where it has
/// fallen by 1; Huber's loss has curvature 1 and slope at most 1. So every record has L0 = X and L1 = X^2 for rows of norm X,
/// and F(0) - inf F = 1/2 for all maps.
#[derive(Debug, Clone)]
pub struct RampGlm {
    rank: usize,
    slope: f64,
    /// Image of e_j, rescaled: rows of r numbers.
    rows: Vec<f64>,
    scales: Vec<f64>,
    row_norm: f64,
}

impl RampGlm {
    /// F(0) - inf F.
    pub const GAP: f64 = 0.5;

    /// On the rows themselves: X = 1.
    #[must_use]
    pub fn plain(rank: usize, slope: f64) -> Self {
        let rank = rank.max(2);
        let mut rows = vec![0.0; rank * rank];
        for j in 0..rank {
            rows[j * rank + j] = 1.0;
        }
        Self {
            rank,
            slope,
            rows,
            scales: vec![1.0; rank],
            row_norm: 1.0,
        }
    }

    /// On images of e_1..e_r, rescaled to at most `row_norm`: `images` holds r vectors of k >= r numbers. In an orthonormal basis of
    /// their span the problem has r coordinates.
    #[must_use]
    pub fn embedded(images: &[Vec<f64>], slope: f64, row_norm: f64) -> Self {
        let rank = images.len();
        let mut basis: Vec<Vec<f64>> = Vec::with_capacity(rank);
        let mut rows = vec![0.0; rank * rank];
        let mut scales = Vec::with_capacity(rank);
        for (j, image) in images.iter().enumerate() {
            let scale = (row_norm / norm(image)).min(1.0);
            let mut rest = image.clone();
            for _ in 0..2 {
                for u in &basis {
                    let along = dpopt_linalg::dot(u, &rest);
                    dpopt_linalg::add_scaled(&mut rest, -along, u);
                }
            }
            let length = norm(&rest);
            rest.iter_mut().for_each(|x| *x /= length);
            basis.push(rest);
            for (a, u) in basis.iter().enumerate() {
                rows[j * rank + a] = scale * dpopt_linalg::dot(u, image);
            }
            scales.push(scale);
        }
        Self {
            rank,
            slope,
            rows,
            scales,
            row_norm,
        }
    }

    fn share(&self, j: usize) -> f64 {
        if j == 0 {
            0.5
        } else {
            0.5 / (self.rank - 1) as f64
        }
    }

    fn scalar_slope(&self, j: usize, z: f64) -> f64 {
        if j == 0 {
            // The drop of 1 is slope * knee + slope^2/2.
            let knee = 1.0 / self.slope - 0.5 * self.slope;
            (z - knee - self.slope).clamp(-self.slope, 0.0)
        } else {
            z.clamp(-1.0, 1.0)
        }
    }

    fn product(&self, j: usize, point: &[f64]) -> f64 {
        dpopt_linalg::dot(&self.rows[j * self.rank..][..self.rank], point)
    }

    /// The norm of the gradient of the problem before the map, at the lifted point. (A record that was not
    /// rescaled has the same inner product there.)
    #[must_use]
    pub fn original_norm(&self, point: &[f64]) -> f64 {
        let square = |j: usize| {
            let z = self.product(j, point) / self.scales[j];
            (self.share(j) * self.scalar_slope(j, z)).powi(2)
        };
        (0..self.rank).map(square).sum::<f64>().sqrt()
    }
}

impl SpanGradient for RampGlm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn lipschitz(&self) -> f64 {
        self.row_norm
    }

    fn smoothness(&self) -> f64 {
        self.row_norm * self.row_norm
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for j in 0..self.rank {
            let weight = self.share(j) * self.scalar_slope(j, self.product(j, point));
            let row = &self.rows[j * self.rank..][..self.rank];
            dpopt_linalg::add_scaled(out, weight, row);
        }
    }
}

#[cfg(test)]
#[path = "span_tests.rs"]
mod tests;
