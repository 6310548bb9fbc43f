//! Second derivatives for certificates: along one direction, and all of them.

use dpopt_linalg::dot;
use dpopt_privacy::{Bound, ClipNorm, LatticeError};

use super::of_record::Query;
use crate::loss::{RecordOf, TwiceDifferentiable};

/// <v, hess f(w; x) v>, clipped to `[-radius, radius]` (L1 ||v||^2 leaves it whole): one coordinate.
#[derive(Debug, Clone, Copy)]
pub struct Curvature<'a> {
    /// w.
    pub point: &'a [f64],
    /// v; public.
    pub direction: &'a [f64],
    /// The clip radius; none for a zero direction.
    pub radius: Option<ClipNorm>,
}

impl<L: TwiceDifferentiable> Query<L> for Curvature<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        self.radius.map(|radius| Bound::new(radius, 1)).transpose()
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim && self.direction.len() == dim
    }

    /// A Hessian-vector product is counted as two gradients.
    fn gradients_per_record(&self) -> f64 {
        2.0
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut product = vec![0.0; self.point.len()];
        loss.hessian_vector(record, self.point, self.direction, &mut product);
        out[0] += dot(self.direction, &product);
    }
}

/// hess f(w; x) as a vector of d (d + 1)/2 coordinates, clipped to `radius` in Frobenius norm.
///
/// # Formula
/// Row by row of the lower triangle of the symmetric part, entries off the diagonal times sqrt 2:
/// the length of the vector is the Frobenius norm of the matrix, and independent noise of standard
/// deviation s on it is a symmetric matrix with standard deviation s on the diagonal and s/sqrt 2
/// beside it. [`unpack_symmetric`] goes back.
///
/// A Hessian of rank one, as a generalised linear loss has, is at most L1 long; any other at most
/// sqrt(d) L1.
#[derive(Debug, Clone, Copy)]
pub struct HessianMatrix<'a> {
    /// w.
    pub point: &'a [f64],
    /// The clip radius, in Frobenius norm.
    pub radius: ClipNorm,
}

impl<L: TwiceDifferentiable> Query<L> for HessianMatrix<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        let dim = self.point.len();
        Bound::new(self.radius, dim.saturating_mul(dim + 1) / 2).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim
    }

    /// d Hessian-vector products.
    fn gradients_per_record(&self) -> f64 {
        2.0 * self.point.len() as f64
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let dim = self.point.len();
        let mut unit = vec![0.0; dim];
        let mut column = vec![0.0; dim];
        for j in 0..dim {
            unit[j] = 1.0;
            column.fill(0.0);
            loss.hessian_vector(record, self.point, &unit, &mut column);
            unit[j] = 0.0;
            // Entry (i, j) is half of what stands in the symmetric part, from either side.
            let half = std::f64::consts::FRAC_1_SQRT_2;
            for (i, x) in column.iter().enumerate() {
                let (row, at) = (i.max(j), i.min(j));
                out[row * (row + 1) / 2 + at] += if i == j { *x } else { half * x };
            }
        }
    }
}

/// The symmetric matrix, row-major (d, d), of a vector laid out as [`HessianMatrix`] does; none
/// unless its length is d (d + 1)/2.
#[must_use]
pub fn unpack_symmetric(dim: usize, packed: &[f64]) -> Option<Vec<f64>> {
    if packed.len() != dim.checked_mul(dim + 1)? / 2 {
        return None;
    }
    let mut matrix = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let x = packed[i * (i + 1) / 2 + j];
            let x = if i == j {
                x
            } else {
                std::f64::consts::FRAC_1_SQRT_2 * x
            };
            matrix[i * dim + j] = x;
            matrix[j * dim + i] = x;
        }
    }
    Some(matrix)
}
