//! The Hessian on a public subspace.

use dpopt_linalg::dot;
use dpopt_privacy::{Bound, ClipNorm, LatticeError};

use super::of_record::Query;
use crate::loss::{RecordOf, TwiceDifferentiable};

/// Columns that span no subspace that a Hessian can be asked for on.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubspaceError {
    /// None, more than there are dimensions, or one of another length.
    #[error(
        "{numbers} numbers are no columns of {dim} coordinates each, of which there may be 1 to {dim}"
    )]
    Shape {
        /// d.
        dim: usize,
        /// Numbers given.
        numbers: usize,
    },
    /// The columns are not orthonormal.
    #[error(
        "columns {i} and {j} have inner product {found:e} and not {expected}: they are not orthonormal to within {tolerance:e}"
    )]
    NotOrthonormal {
        /// One of them, counted from 0.
        i: usize,
        /// The other one, or the same.
        j: usize,
        /// Their inner product.
        found: f64,
        /// 1 for the same, and otherwise 0.
        expected: f64,
        /// How far off it may be.
        tolerance: f64,
    },
}

/// The span of k public orthonormal columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Subspace {
    dim: usize,
    columns: Vec<f64>,
}

impl Subspace {
    /// How far an inner product of columns may be from 0 or 1.
    pub const TOLERANCE: f64 = 1e-10;

    /// The span of these columns, one after another.
    ///
    /// # Shapes
    /// `columns`: (k, d), k from 1 to d.
    ///
    /// # Errors
    /// [`SubspaceError`].
    pub fn new(dim: usize, columns: Vec<f64>) -> Result<Self, SubspaceError> {
        let numbers = columns.len();
        if dim == 0 || numbers == 0 || !numbers.is_multiple_of(dim) || numbers / dim > dim {
            return Err(SubspaceError::Shape { dim, numbers });
        }
        let all: Vec<&[f64]> = columns.chunks_exact(dim).collect();
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate().take(i + 1) {
                let (found, expected) = (dot(one, other), if i == j { 1.0 } else { 0.0 });
                let tolerance = Self::TOLERANCE;
                // NaN is refused.
                if !((found - expected).abs() <= tolerance) {
                    return Err(SubspaceError::NotOrthonormal {
                        i: j,
                        j: i,
                        found,
                        expected,
                        tolerance,
                    });
                }
            }
        }
        Ok(Self { dim, columns })
    }

    /// d.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// k.
    #[must_use]
    pub fn count(&self) -> usize {
        self.columns.len() / self.dim
    }

    /// The columns.
    pub fn columns(&self) -> impl Iterator<Item = &[f64]> {
        self.columns.chunks_exact(self.dim)
    }

    /// The vector of R^d that has these coordinates in the columns.
    ///
    /// # Shapes
    /// `coordinates`: k. Returns d.
    #[must_use]
    pub fn lift(&self, coordinates: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.dim];
        for (column, c) in self.columns().zip(coordinates) {
            dpopt_linalg::add_scaled(&mut out, *c, column);
        }
        out
    }
}

/// V^T hess f(w; x) V, V the columns of a public subspace, clipped to `radius` in Frobenius norm: k (k + 1)/2 coordinates, laid out as
/// [`HessianMatrix`](super::HessianMatrix) does.
///
/// # Formula
/// ||V^T H V||_F is at most ||H||_F, and at most sqrt(k) times the operator norm of H: a radius of min(C_F, sqrt(k) L1) leaves it whole.
#[derive(Debug, Clone, Copy)]
pub struct SubspaceHessian<'a> {
    /// w.
    pub point: &'a [f64],
    /// V; public.
    pub subspace: &'a Subspace,
    /// The clip radius, in Frobenius norm.
    pub radius: ClipNorm,
}

impl<L: TwiceDifferentiable> Query<L> for SubspaceHessian<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        let k = self.subspace.count();
        Bound::new(self.radius, k.saturating_mul(k + 1) / 2).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim && self.subspace.dim() == dim
    }

    /// k Hessian-vector products.
    fn gradients_per_record(&self) -> f64 {
        2.0 * self.subspace.count() as f64
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let entry = |i: usize, j: usize| i * (i + 1) / 2 + j;
        let double = std::f64::consts::SQRT_2;
        if let Some((factor, row)) = loss.rank_one(record, self.point) {
            let along: Vec<f64> = self.subspace.columns().map(|v| row.dot(v)).collect();
            for (i, x) in along.iter().enumerate() {
                for (j, y) in along.iter().enumerate().take(i) {
                    out[entry(i, j)] += double * factor * x * y;
                }
                out[entry(i, i)] += factor * x * x;
            }
            return;
        }
        let mut product = vec![0.0; self.point.len()];
        for (j, v) in self.subspace.columns().enumerate() {
            product.fill(0.0);
            loss.hessian_vector(record, self.point, v, &mut product);
            for (i, u) in self.subspace.columns().enumerate() {
                // Either side gives a half of what is beside the diagonal.
                let half = if i == j { 1.0 } else { 0.5 * double };
                out[entry(i.max(j), i.min(j))] += half * dot(u, &product);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_not_orthonormal_are_refused_with_their_numbers() {
        let half = 0.5f64.sqrt();
        let fine = Subspace::new(3, vec![half, half, 0.0, half, -half, 0.0]).unwrap();
        assert_eq!((fine.dim(), fine.count()), (3, 2));
        assert_eq!(fine.lift(&[1.0, -1.0]), [0.0, 2.0 * half, 0.0]);
        for (columns, expected) in [
            (vec![1.0, 0.0, 0.0, 1e-9, 1.0, 0.0], (0, 1, 1e-9)),
            (vec![1.0, 0.0, 0.0, 0.0, 2.0, 0.0], (1, 1, 4.0)),
            (vec![1.1, 0.0, 0.0], (0, 0, 1.1 * 1.1)),
        ] {
            match Subspace::new(3, columns).unwrap_err() {
                SubspaceError::NotOrthonormal { i, j, found, .. } => {
                    assert_eq!((i, j, found), expected);
                }
                other => panic!("{other}"),
            }
        }
        for (dim, columns) in [
            (3, vec![]),
            (3, vec![1.0; 4]),
            (2, vec![1.0; 6]),
            (0, vec![1.0]),
        ] {
            let error = Subspace::new(dim, columns).unwrap_err();
            assert!(matches!(error, SubspaceError::Shape { .. }), "{error}");
        }
        assert!(Subspace::new(1, vec![f64::NAN]).is_err());
    }
}
