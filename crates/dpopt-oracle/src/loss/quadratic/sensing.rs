//! Matrix sensing: a low-rank positive semidefinite matrix from linear measurements.

use std::num::NonZeroUsize;

use dpopt_linalg::{dot, norm, norm_upper};
use dpopt_privacy::ClipNorm;

use super::constants;
use crate::data_error::DataError;
use crate::loss::{Constants, Differentiable, Glm, Loss, Segment, TwiceDifferentiable};
use crate::records::Records;

/// Symmetric measurement matrices with a measured number each, brought under public bounds.
///
/// # Privacy
/// Each matrix is rescaled to the public bound on its Frobenius norm and each number clamped to
/// its own; a record that is not finite becomes a zero matrix with number 0. What is done to one
/// record does not depend on another.
#[derive(Clone)]
pub struct Measurements {
    dim: usize,
    matrices: Vec<f64>,
    labels: Vec<f64>,
    norm_bound: f64,
    label_bound: Option<f64>,
}

/// One measurement.
#[derive(Clone, Copy)]
pub struct Measurement<'a> {
    /// The symmetric part S of A: (d, d), row-major.
    pub matrix: &'a [f64],
    /// d.
    pub dim: usize,
    /// The measured number y.
    pub label: f64,
}

impl Measurements {
    /// Takes the symmetric parts of `matrices`, which alone matter, under the bound `norm` on their
    /// Frobenius norms, and the `labels`, under `label_bound` where there is one.
    ///
    /// # Shapes
    /// `matrices`: (n, d, d); `labels`: n.
    ///
    /// # Errors
    /// [`DataError::LabelCount`].
    pub fn new(
        dim: NonZeroUsize,
        mut matrices: Vec<f64>,
        mut labels: Vec<f64>,
        norm: ClipNorm,
        label_bound: Option<ClipNorm>,
    ) -> Result<Self, DataError> {
        let dim = dim.get();
        let entries = dim.checked_mul(dim).ok_or(DataError::LabelCount)?;
        if Some(matrices.len()) != labels.len().checked_mul(entries) {
            return Err(DataError::LabelCount);
        }
        for (matrix, label) in matrices.chunks_exact_mut(entries).zip(&mut labels) {
            bring_under(matrix, dim, norm.get());
            if !label.is_finite() || matrix.iter().any(|x| !x.is_finite()) {
                matrix.fill(0.0);
                *label = 0.0;
            }
            if let Some(bound) = label_bound {
                *label = label.clamp(-bound.get(), bound.get());
            }
        }
        Ok(Self {
            dim,
            matrices,
            labels,
            norm_bound: norm.get(),
            label_bound: label_bound.map(ClipNorm::get),
        })
    }

    /// d: the measured matrix is (d, d).
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }
}

/// Symmetrises a matrix and rescales it to a Frobenius norm of at most `bound`.
fn bring_under(matrix: &mut [f64], dim: usize, bound: f64) {
    for i in 0..dim {
        for j in 0..i {
            let half = 0.5 * matrix[i * dim + j] + 0.5 * matrix[j * dim + i];
            matrix[i * dim + j] = half;
            matrix[j * dim + i] = half;
        }
    }
    let upper = norm_upper(matrix);
    if upper > bound && upper.is_finite() {
        let factor = bound / upper * (1.0 - 4.0 * f64::EPSILON);
        for x in matrix {
            *x *= factor;
        }
    } else if !(norm(matrix) <= bound) {
        // A finite matrix may have a norm beyond all numbers.
        matrix.fill(f64::NAN);
    }
}

impl Records for Measurements {
    type Record<'a> = Measurement<'a>;

    const HAS_ERASED: bool = true;

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn record(&self, i: usize) -> Measurement<'_> {
        let entries = self.dim * self.dim;
        Measurement {
            matrix: &self.matrices[i * entries..(i + 1) * entries],
            dim: self.dim,
            label: self.labels[i],
        }
    }
}

/// Matrix sensing in factored form, with a scalar loss phi.
///
/// # Formula
/// f(U; (A, y)) = phi(<A, U U^T>, y), with gradient 2 phi' S U for S the symmetric part of A. With
/// ||A||_F <= X and ||U||_F <= R: G = 2 X R, B = 2 X; see the constants of the module's page.
///
/// # Shapes
/// A point is U: (d, r), row-major.
///
/// # Privacy
/// Never panics, no state; clipped wherever U is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatrixSensing {
    phi: Glm,
    rank: usize,
    ball: f64,
}

impl MatrixSensing {
    /// With factors of `rank` columns and constants for the ball ||U||_F <= `ball`.
    #[must_use]
    pub fn new(phi: Glm, rank: NonZeroUsize, ball: ClipNorm) -> Self {
        Self {
            phi,
            rank: rank.get(),
            ball: ball.get(),
        }
    }

    /// Adds S U to `out`.
    fn multiply(&self, record: &Measurement<'_>, factor: &[f64], out: &mut [f64]) {
        let rows = record.matrix.chunks_exact(record.dim.max(1));
        for (row, out) in rows.zip(out.chunks_exact_mut(self.rank)) {
            for (s, factor) in row.iter().zip(factor.chunks_exact(self.rank)) {
                for (out, u) in out.iter_mut().zip(factor) {
                    *out += s * u;
                }
            }
        }
    }
}

impl Loss for MatrixSensing {
    type Records = Measurements;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Measurements) -> usize {
        records.dim * self.rank
    }

    /// A product of a measurement with the factor.
    fn work(&self, records: &Measurements) -> f64 {
        let dim = records.dim as f64;
        dim * dim * self.rank as f64
    }

    fn constants_on(&self, records: &Measurements) -> Constants {
        let (gradient, hessian) = (
            2.0 * records.norm_bound * self.ball,
            2.0 * records.norm_bound,
        );
        // The symmetric part of A, twice, once for each column of U.
        let norms = (hessian, hessian * (self.rank as f64).sqrt());
        let scalar = self.phi.constants_within(1.0, records.label_bound);
        constants(scalar, gradient, norms)
    }

    fn value(&self, record: Measurement<'_>, point: &[f64]) -> f64 {
        let mut product = vec![0.0; point.len()];
        self.multiply(&record, point, &mut product);
        self.phi.value(dot(&product, point), record.label)
    }
}

impl Differentiable for MatrixSensing {
    fn gradient(&self, record: Measurement<'_>, point: &[f64], out: &mut [f64]) {
        let mut product = vec![0.0; point.len()];
        self.multiply(&record, point, &mut product);
        let slope = self.phi.slope(dot(&product, point), record.label);
        for (out, g) in out.iter_mut().zip(&product) {
            *out += 2.0 * slope * g;
        }
    }

    /// 2 (phi'(z') S D + (phi'(z') - phi'(z)) S U) with D the displacement and z' - z = <S D, 2U +
    /// D>.
    fn gradient_change(&self, record: Measurement<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let mut at = vec![0.0; out.len()];
        let mut moved = vec![0.0; out.len()];
        self.multiply(&record, segment.from, &mut at);
        self.multiply(&record, segment.displacement, &mut moved);
        let z = dot(&at, segment.from);
        let dz = 2.0 * dot(&moved, segment.from) + dot(&moved, segment.displacement);
        let after = self.phi.slope(z + dz, record.label);
        let change = self.phi.slope_change(z, dz, record.label);
        for ((out, at), moved) in out.iter_mut().zip(&at).zip(&moved) {
            *out += 2.0 * (after * moved + change * at);
        }
    }
}

impl TwiceDifferentiable for MatrixSensing {
    /// 2 phi' S V + 4 phi'' <S U, V> S U.
    fn hessian_vector(
        &self,
        record: Measurement<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let mut at = vec![0.0; out.len()];
        let mut along = vec![0.0; out.len()];
        self.multiply(&record, point, &mut at);
        self.multiply(&record, direction, &mut along);
        let z = dot(&at, point);
        let slope = 2.0 * self.phi.slope(z, record.label);
        let bend = 4.0 * self.phi.curvature(z, record.label) * dot(&at, direction);
        for ((out, at), along) in out.iter_mut().zip(&at).zip(&along) {
            *out += slope * along + bend * at;
        }
    }
}
