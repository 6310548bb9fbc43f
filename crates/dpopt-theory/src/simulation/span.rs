//! A private oracle where gradients stay in a span of few dimensions.

use dpopt_linalg::{JlMap, norm};
use dpopt_oracle::{Answer, AskError, Books, Linear, Mean, Offers, Oracle, OracleFacts, Question};
use dpopt_privacy::noise::{KeyedStream, NoiseError, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{Adjacency, Curator, NoiseMultiplier, Which};
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

/// The oracle of a protected run, **for simulation only**, for walks that add multiples of estimates to points, with
/// d normals for each release replaced by r + 2 numbers.
///
/// # Formula
/// Points and estimates have r + 1 coordinates. The first r are those of the span, as in [`crate::SimulatedOracle`]; the last is
/// the *length* of the rest of the estimate. A release at noise s per coordinate adds a normal of d - r dimensions to the rest, so that
/// its length goes from l to sqrt((l + s z)^2 + s^2 c), z standard normal and c chi-squared with d - r - 1 degrees of freedom.
///
/// # Why it has the same law
/// The gradient does not depend on coordinates off the span, so all that they do is to lengthen displacements, by which
/// variations are scaled. A walk w <- w - eta g has the displacement eta g, whose length needs the length of g off the span
/// alone. Given that length, noise being the same in all directions, the length after the next release has the law above. So the
/// span coordinates and the displacements have jointly the law that they have with d normals. A walk with momentum adds
/// several estimates, whose directions off the span matter: it must not be run on this.
pub struct SpanOracle<G> {
    problem: G,
    /// d - r - 1.
    rest: f64,
    facts: OracleFacts,
    books: Books,
    noise: KeyedStream,
    /// Length of the rest of the estimate.
    length: f64,
}

impl<G: SpanGradient> SpanOracle<G> {
    /// As over `records` records in `dim` dimensions (at least r + 2). Equal seeds give equal runs. Run plans for d
    /// dimensions on it by [`crate::in_span`].
    #[must_use]
    pub fn new(problem: G, dim: usize, records: u64, adjacency: Adjacency, seed: u64) -> Self {
        let rank = problem.rank();
        let (rest, records) = (dim.saturating_sub(rank + 1).max(1) as f64, records.max(1));
        let key = ReplayKeyForTests::from_seed(seed);
        Self {
            rest,
            facts: OracleFacts::new(rank + 1, records, adjacency, Offers::MEANS)
                .with_constants(problem.lipschitz(), problem.smoothness()),
            books: Books::new(Curator::simulated(adjacency, seed), records),
            noise: key.stream(StreamId::new(Purpose::Noise, 0)),
            length: 0.0,
            problem,
        }
    }

    fn release(&mut self, of: Linear<'_>, z: NoiseMultiplier) -> Result<Mean, AskError> {
        let (dim, rank) = (self.facts.dim, self.problem.rank());
        if !of.fits(dim) {
            return Err(AskError::Shape { dim });
        }
        let records = self.facts.records as f64;
        let std = self.facts.adjacency.sum_sensitivity() * of.radius().get() * z.get() / records;
        let chi = ChiSquared::new(self.rest).map_err(|_| NoiseError::ScaleOutOfRange {
            scale: self.rest,
            min: 1.0,
            max: f64::MAX,
        })?;
        let public = self.facts.records;
        let curator = self.books.curator_mut();
        curator.charge_simulated(Which::All, public, z)?;
        self.books.count(records, of.gradients(), 0.0);
        let mut mean = vec![0.0; dim];
        self.problem
            .gradient(&of.point()[..rank], &mut mean[..rank]);
        // What a change is added to has this length off the span; a field is an estimate by itself.
        let mut before = 0.0;
        if let Some((segment, momentum)) = of.before() {
            let mut old = vec![0.0; rank];
            self.problem.gradient(&segment.from[..rank], &mut old);
            dpopt_linalg::add_scaled(&mut mean[..rank], -momentum.kept(), &old);
            before = momentum.kept() * self.length;
        }
        for x in &mut mean[..rank] {
            let normal: f64 = StandardNormal.sample(&mut self.noise);
            *x += std * normal;
        }
        let normal: f64 = StandardNormal.sample(&mut self.noise);
        let across = std * chi.sample(&mut self.noise).sqrt();
        self.length = (before + std * normal).hypot(across);
        mean[rank] = self.length - before;
        Ok(Mean::new(mean, std))
    }
}

impl<G: SpanGradient> Oracle for SpanOracle<G> {
    fn facts(&self) -> OracleFacts {
        self.facts
    }

    fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        match question {
            Question::Mean {
                of,
                over: Which::All,
                noise,
            } => Ok(Answer::Mean(self.release(of, noise)?)),
            other => Err(AskError::NotOffered { what: other.kind() }),
        }
    }
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

    /// The same on the images under a map of the first `rank` unit vectors.
    #[must_use]
    pub fn projected(map: &JlMap, rank: usize, slope: f64, row_norm: f64) -> Self {
        let image = |j| {
            let mut column = vec![0.0; map.rows()];
            map.column(j, &mut column);
            column
        };
        let images: Vec<Vec<f64>> = (0..rank).map(image).collect();
        Self::embedded(&images, slope, row_norm)
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
