//! Bounded robust regression over a weighted design of low rank.

use dpopt_linalg::{Design, add_scaled, dot, norm, symmetric_spectrum};
use dpopt_oracle::{Examples, Glm, Loss as _, Records as _};
use dpopt_privacy::ClipNorm;
use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use rand::Rng as _;
use rand_distr::{Distribution as _, StandardNormal};

use crate::problem::{
    Problem, ProblemConstants, ProblemError, SecondOrderProblem, in_range, positive,
};
use crate::simulation::WeightedRecords;

/// The settings of a [`RobustGlm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RobustGlmShape {
    /// Number of coefficients d.
    pub dim: usize,
    /// Rank r of the design, at most 256 and at most d.
    pub rank: usize,
    /// Number of distinct records.
    pub atoms: usize,
    /// Number of records, shared out evenly among the atoms.
    pub records: u64,
    /// X: the norm of every row.
    pub row_norm: f64,
    /// Norm of the planted coefficients.
    pub planted: f64,
    /// One atom in this number has a label that does not depend on its row; 0: no such atom.
    pub outlier_every: usize,
}

/// F(w) = (1/n) sum_i m_i phi(<w, x_i>, y_i), n = sum_i m_i: a scalar loss over weighted atoms.
///
/// # Formula
/// x_i = X U z_i with U^T U = I_r and z_i uniform on the sphere, so that the design has rank r and
/// every row the norm X. Labels of the residual losses are <w*, x_i>, or uniform in
/// [-2 X ||w*||, 2 X ||w*||] for an outlier; for the logistic and sigmoid losses their signs. (Labels
/// are held in single precision.)
///
/// # Constants, everywhere
/// L0, L1, rho from [`Glm::constants`] at X: each record's gradient is phi' x, its Hessian phi'' x x^T.
/// They hold for every record; the mean attains a share only. F0 <= F(0), as phi >= 0: exact where
/// there are no outliers and the loss is one of residuals, since then F(w*) = 0 (to the rounding of the
/// labels). Range 1 for Welsch, Geman-McClure and sigmoid, for which phi is in [0, 1].
///
/// Value, gradient and Hessian are exact sums over the atoms; the least eigenvalue is that of U^T hess
/// U, or 0 if that is larger and r < d. `data` and `loss` are the same problem record by record.
#[derive(Clone)]
pub struct RobustGlm {
    loss: Glm,
    shape: RobustGlmShape,
    data: WeightedRecords<Examples>,
    /// r orthonormal vectors, side by side.
    basis: Vec<f64>,
    gap: f64,
}

impl RobustGlm {
    /// The problem that `seed` makes.
    ///
    /// # Errors
    /// [`ProblemError`] for a shape that can't be.
    pub fn new(loss: Glm, shape: RobustGlmShape, seed: u64) -> Result<Self, ProblemError> {
        positive("row_norm", shape.row_norm)?;
        positive("planted", shape.planted)?;
        let most = shape.dim.min(256);
        in_range("rank", shape.rank as f64, 1.0, most as f64)?;
        in_range("atoms", shape.atoms as f64, 1.0, f64::from(1 << 24))?;
        let mut stream =
            ReplayKeyForTests::from_seed(seed).stream(StreamId::new(Purpose::Perturbation, 0));
        let basis = orthonormal(shape.dim, shape.rank, &mut stream);
        let planted = combination(&basis, &on_sphere(shape.rank, shape.planted, &mut stream));
        let signs = matches!(loss, Glm::Logistic | Glm::Sigmoid | Glm::Hinge);
        let mut rows = Vec::with_capacity(shape.atoms * shape.dim);
        let mut labels = Vec::with_capacity(shape.atoms);
        for i in 0..shape.atoms {
            // A rounding below the bound, so that enforcing it changes nothing.
            let inside = shape.row_norm * (1.0 - 1e-12);
            let row = combination(&basis, &on_sphere(shape.rank, inside, &mut stream));
            let outlier = shape.outlier_every > 0 && i % shape.outlier_every == 0;
            let label = if outlier {
                let uniform = (stream.next_u64() >> 11) as f64 * f64::EPSILON - 1.0;
                2.0 * shape.row_norm * shape.planted * uniform
            } else {
                dot(&row, &planted)
            };
            labels.push(if signs { label.signum() } else { label } as f32);
            rows.extend(row);
        }
        let data = examples(shape, rows, labels)?;
        let mut problem = Self {
            loss,
            shape,
            data,
            basis,
            gap: f64::INFINITY,
        };
        problem.gap = problem.value(&vec![0.0; shape.dim]);
        Ok(problem)
    }

    /// The loss of one record.
    #[must_use]
    pub fn loss(&self) -> Glm {
        self.loss
    }

    /// The records.
    #[must_use]
    pub fn data(&self) -> &WeightedRecords<Examples> {
        &self.data
    }

    /// sum_i (m_i/n) weight(<w, x_i>, y_i) times what `add` makes of record i.
    fn over_records(&self, point: &[f64], mut add: impl FnMut(f64, f64, f64, usize)) {
        let total = self.data.total() as f64;
        for (i, &m) in self.data.multiplicities().iter().enumerate() {
            let example = self.data.records().record(i);
            add(m as f64 / total, example.row.dot(point), example.label, i);
        }
    }
}

fn examples(
    shape: RobustGlmShape,
    rows: Vec<f64>,
    labels: Vec<f32>,
) -> Result<WeightedRecords<Examples>, ProblemError> {
    let bad = |name| ProblemError::NotPositive {
        name,
        value: f64::NAN,
    };
    let design = Design::dense(shape.dim, rows).map_err(|_| bad("dim"))?;
    let bound = ClipNorm::new(shape.row_norm).map_err(|_| bad("row_norm"))?;
    let examples = Examples::new(design, labels, bound).map_err(|_| bad("atoms"))?;
    let (each, rest) = (
        shape.records / shape.atoms as u64,
        shape.records % shape.atoms as u64,
    );
    let multiplicities = (0..shape.atoms as u64).map(|i| each + u64::from(i < rest));
    WeightedRecords::new(examples, multiplicities.collect()).map_err(|_| bad("records"))
}

/// `rank` orthonormal vectors of `dim` coordinates, side by side.
fn orthonormal(dim: usize, rank: usize, stream: &mut KeyedStream) -> Vec<f64> {
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(rank);
    while basis.len() < rank {
        let mut v = on_sphere(dim, 1.0, stream);
        // Gram-Schmidt, twice over.
        for _ in 0..2 {
            for u in &basis {
                let along = dot(u, &v);
                add_scaled(&mut v, -along, u);
            }
        }
        let length = norm(&v);
        // What is left is too short with probability near zero: drawn again.
        if length > 1e-6 {
            v.iter_mut().for_each(|x| *x /= length);
            basis.push(v);
        }
    }
    basis.concat()
}

fn on_sphere(dim: usize, radius: f64, stream: &mut KeyedStream) -> Vec<f64> {
    let z: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(stream)).collect();
    let length = norm(&z);
    z.into_iter().map(|x| radius * x / length).collect()
}

/// sum_k z_k u_k.
fn combination(basis: &[f64], z: &[f64]) -> Vec<f64> {
    let dim = basis.len() / z.len();
    let mut sum = vec![0.0; dim];
    for (z, u) in z.iter().zip(basis.chunks_exact(dim)) {
        add_scaled(&mut sum, *z, u);
    }
    sum
}

impl Problem for RobustGlm {
    fn dim(&self) -> usize {
        self.shape.dim
    }

    fn constants(&self) -> ProblemConstants {
        let known = self.loss.constants_on(self.data.records());
        let constants = ProblemConstants::first_order(known.lipschitz, known.smoothness, self.gap)
            .with_hessian_lipschitz(known.hessian_lipschitz);
        match self.loss {
            Glm::Welsch | Glm::GemanMcClure | Glm::Sigmoid => constants.with_range(1.0),
            Glm::Logistic | Glm::Huber(_) => constants.with_weak_convexity(0.0),
            _ => constants,
        }
    }

    fn value(&self, point: &[f64]) -> f64 {
        let mut sum = 0.0;
        self.over_records(point, |share, z, y, _| sum += share * self.loss.value(z, y));
        sum
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.over_records(point, |share, z, y, i| {
            let weight = share * self.loss.slope(z, y);
            let row = self.data.records().record(i).row;
            row.for_each(|j, x| out[j] += weight * x);
        });
    }
}

impl SecondOrderProblem for RobustGlm {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.over_records(point, |share, z, y, i| {
            let row = self.data.records().record(i).row;
            let weight = share * self.loss.curvature(z, y) * row.dot(direction);
            row.for_each(|j, x| out[j] += weight * x);
        });
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let (dim, rank) = (self.shape.dim, self.shape.rank);
        let mut matrix = vec![0.0; rank * rank];
        let mut image = vec![0.0; dim];
        for (k, u) in self.basis.chunks_exact(dim).enumerate() {
            self.hessian_vector(point, u, &mut image);
            for (l, v) in self.basis.chunks_exact(dim).enumerate() {
                matrix[k * rank + l] = dot(v, &image);
            }
        }
        let rest = if rank < dim { 0.0 } else { f64::INFINITY };
        symmetric_spectrum(rank, &matrix)
            .map_or(f64::NAN, |spectrum| spectrum.eigenvalues[0].min(rest))
    }
}
