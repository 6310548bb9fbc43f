//! One row of a design, whatever its storage.

use crate::vector::{dot, norm_upper};

/// A view of one row.
#[derive(Clone, Copy)]
pub enum Row<'a> {
    /// All entries, `f64`.
    Dense(&'a [f64]),
    /// All entries, `f32`.
    Dense32(&'a [f32]),
    /// Column numbers (strictly increasing) and their entries.
    Sparse(&'a [u32], &'a [f32]),
    /// All entries as bytes, and the factor (finite, at least 0) that each of them stands with.
    Bytes(&'a [u8], f32),
    /// Column numbers (strictly increasing) and the one entry (finite) that all of them have.
    OneHot(&'a [u32], f32),
}

impl Row<'_> {
    /// Inner product with a dense point, in a fixed order.
    ///
    /// # Shapes
    /// `point` has one entry per column.
    #[must_use]
    pub fn dot(&self, point: &[f64]) -> f64 {
        match self {
            Row::Dense(x) => dot(x, point),
            Row::Dense32(x) => x.iter().zip(point).map(|(x, w)| f64::from(*x) * w).sum(),
            Row::Sparse(indices, values) => {
                let mut total = 0.0;
                for (&j, &x) in indices.iter().zip(*values) {
                    total += f64::from(x) * point[j as usize];
                }
                total
            }
            Row::Bytes(x, scale) => {
                let total: f64 = x.iter().zip(point).map(|(x, w)| f64::from(*x) * w).sum();
                times(total, *scale)
            }
            Row::OneHot(indices, value) => {
                let total: f64 = indices.iter().map(|&j| point[j as usize]).sum();
                times(total, *value)
            }
        }
    }

    /// A number that is at least the exact Euclidean norm of the row.
    #[must_use]
    pub fn norm_upper(&self) -> f64 {
        match self {
            Row::Dense(x) => norm_upper(x),
            Row::Dense32(x) | Row::Sparse(_, x) => {
                // Squares of f32 are exact in f64 and far from its range limits.
                let sum: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                sum.sqrt() * (1.0 + (x.len() as f64 + 4.0) * 4.0 * f64::EPSILON)
            }
            Row::Bytes(x, scale) => {
                // Exact in integers: 2^32 squares of bytes stay below 2^48.
                let sum: u64 = x.iter().map(|&x| u64::from(x) * u64::from(x)).sum();
                (sum as f64).sqrt() * f64::from(*scale) * (1.0 + 8.0 * f64::EPSILON)
            }
            Row::OneHot(indices, value) => {
                (indices.len() as f64).sqrt() * f64::from(value.abs()) * (1.0 + 8.0 * f64::EPSILON)
            }
        }
    }

    /// Whether every stored entry is finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        match self {
            Row::Dense(x) => x.iter().all(|x| x.is_finite()),
            Row::Dense32(x) | Row::Sparse(_, x) => x.iter().all(|x| x.is_finite()),
            Row::Bytes(_, scale) | Row::OneHot(_, scale) => scale.is_finite(),
        }
    }

    /// Calls `visit(column, entry)` for each stored entry, columns increasing.
    pub fn for_each(&self, mut visit: impl FnMut(usize, f64)) {
        match self {
            Row::Dense(x) => x.iter().enumerate().for_each(|(j, x)| visit(j, *x)),
            Row::Dense32(x) => x
                .iter()
                .enumerate()
                .for_each(|(j, x)| visit(j, f64::from(*x))),
            Row::Sparse(indices, values) => indices
                .iter()
                .zip(*values)
                .for_each(|(j, x)| visit(*j as usize, f64::from(*x))),
            // A product of a byte and an f32 is exact in f64.
            Row::Bytes(x, scale) => x
                .iter()
                .enumerate()
                .for_each(|(j, x)| visit(j, f64::from(*x) * f64::from(*scale))),
            Row::OneHot(indices, value) => indices
                .iter()
                .for_each(|j| visit(*j as usize, f64::from(*value))),
        }
    }
}

/// A row that was erased has factor 0 and contributes 0 whatever the point.
fn times(total: f64, factor: f32) -> f64 {
    if factor == 0.0 {
        0.0
    } else {
        total * f64::from(factor)
    }
}
