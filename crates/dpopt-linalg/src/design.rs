//! Design matrices: one row per record, dense or sparse, in place.

use crate::vector::{dot, norm_upper};

/// A design matrix could not be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// A dense buffer does not hold a whole number of rows.
    #[error(
        "a dense design with {columns} columns needs a multiple of {columns} entries, got {entries}"
    )]
    RaggedDense {
        /// Entries given.
        entries: usize,
        /// Columns stated.
        columns: usize,
    },
    /// A sparse row names a column that does not exist, or names columns out of order.
    #[error(
        "sparse row {row}: column {column} is out of range or out of order ({columns} columns)"
    )]
    BadColumn {
        /// Row being added.
        row: usize,
        /// Offending column.
        column: u32,
        /// Number of columns.
        columns: usize,
    },
    /// A matrix must have at least one column and at most 2^32 - 1.
    #[error("a design needs between 1 and 2^32 - 1 columns, got {0}")]
    BadWidth(usize),
}

/// A matrix with one row per record.
///
/// # Shapes
/// (n, d): n rows, d columns. Entries are stored as `f32` or `f64` and read as `f64`.
#[derive(Clone)]
pub struct Design {
    columns: usize,
    store: Store,
}

#[derive(Clone)]
enum Store {
    Dense(Vec<f64>),
    Dense32(Vec<f32>),
    /// Compressed sparse rows; columns strictly increasing within a row.
    Sparse {
        starts: Vec<usize>,
        indices: Vec<u32>,
        values: Vec<f32>,
    },
}

/// A view of one row.
#[derive(Clone, Copy)]
pub enum Row<'a> {
    /// All entries, `f64`.
    Dense(&'a [f64]),
    /// All entries, `f32`.
    Dense32(&'a [f32]),
    /// Column numbers (strictly increasing) and their entries.
    Sparse(&'a [u32], &'a [f32]),
}

impl Design {
    /// A dense matrix from row-major entries.
    ///
    /// # Errors
    /// [`DesignError`] when `columns` is zero or does not divide the number of entries.
    pub fn dense(columns: usize, entries: Vec<f64>) -> Result<Self, DesignError> {
        check_dense(columns, entries.len())?;
        Ok(Self {
            columns,
            store: Store::Dense(entries),
        })
    }

    /// A dense matrix from row-major single-precision entries.
    ///
    /// # Errors
    /// As for [`Design::dense`].
    pub fn dense32(columns: usize, entries: Vec<f32>) -> Result<Self, DesignError> {
        check_dense(columns, entries.len())?;
        Ok(Self {
            columns,
            store: Store::Dense32(entries),
        })
    }

    /// An empty sparse matrix to which rows are pushed.
    ///
    /// # Errors
    /// [`DesignError::BadWidth`].
    pub fn sparse(columns: usize) -> Result<Self, DesignError> {
        check_width(columns)?;
        Ok(Self {
            columns,
            store: Store::Sparse {
                starts: vec![0],
                indices: Vec::new(),
                values: Vec::new(),
            },
        })
    }

    /// Appends a row given by (column, entry) pairs with strictly increasing columns. On a dense
    /// matrix the missing entries are zero.
    ///
    /// # Errors
    /// [`DesignError::BadColumn`]; the matrix is unchanged then.
    pub fn push_row(&mut self, entries: &[(u32, f32)]) -> Result<(), DesignError> {
        let row = self.rows();
        let mut last = None;
        for &(column, _) in entries {
            if column as usize >= self.columns || last.is_some_and(|last| column <= last) {
                return Err(DesignError::BadColumn {
                    row,
                    column,
                    columns: self.columns,
                });
            }
            last = Some(column);
        }
        match &mut self.store {
            Store::Dense(all) => {
                let start = all.len();
                all.resize(start + self.columns, 0.0);
                for &(column, value) in entries {
                    all[start + column as usize] = f64::from(value);
                }
            }
            Store::Dense32(all) => {
                let start = all.len();
                all.resize(start + self.columns, 0.0);
                for &(column, value) in entries {
                    all[start + column as usize] = value;
                }
            }
            Store::Sparse {
                starts,
                indices,
                values,
            } => {
                indices.extend(entries.iter().map(|&(column, _)| column));
                values.extend(entries.iter().map(|&(_, value)| value));
                starts.push(indices.len());
            }
        }
        Ok(())
    }

    /// Number of rows, n.
    #[must_use]
    pub fn rows(&self) -> usize {
        match &self.store {
            Store::Dense(all) => all.len() / self.columns,
            Store::Dense32(all) => all.len() / self.columns,
            Store::Sparse { starts, .. } => starts.len() - 1,
        }
    }

    /// Number of columns, d.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of stored entries.
    #[must_use]
    pub fn stored(&self) -> usize {
        match &self.store {
            Store::Dense(all) => all.len(),
            Store::Dense32(all) => all.len(),
            Store::Sparse { values, .. } => values.len(),
        }
    }

    /// View of row `i`.
    ///
    /// # Panics
    /// When `i` is not below [`Design::rows`].
    #[must_use]
    pub fn row(&self, i: usize) -> Row<'_> {
        let span = i * self.columns..(i + 1) * self.columns;
        match &self.store {
            Store::Dense(all) => Row::Dense(&all[span]),
            Store::Dense32(all) => Row::Dense32(&all[span]),
            Store::Sparse {
                starts,
                indices,
                values,
            } => {
                let span = starts[i]..starts[i + 1];
                Row::Sparse(&indices[span.clone()], &values[span])
            }
        }
    }

    /// Multiplies row `i` by `factor`, rounding each entry towards zero so that the norm of the
    /// stored row is at most `factor` times what it was. A factor of 0 writes zeros whatever the
    /// row holds (not-a-number included).
    ///
    /// # Panics
    /// When `i` is not below [`Design::rows`].
    pub fn scale_row(&mut self, i: usize, factor: f64) {
        let span = i * self.columns..(i + 1) * self.columns;
        match &mut self.store {
            Store::Dense(all) => {
                for x in &mut all[span] {
                    *x = if factor == 0.0 {
                        0.0
                    } else {
                        *x * factor * (1.0 - f64::EPSILON)
                    };
                }
            }
            Store::Dense32(all) => scale_down_32(&mut all[span], factor),
            Store::Sparse { starts, values, .. } => {
                scale_down_32(&mut values[starts[i]..starts[i + 1]], factor);
            }
        }
    }
}

fn scale_down_32(values: &mut [f32], factor: f64) {
    for x in values {
        if factor == 0.0 {
            *x = 0.0;
            continue;
        }
        let exact = f64::from(*x) * factor;
        let rounded = exact as f32;
        // Round towards zero: the bits just below have the smaller magnitude.
        *x = if f64::from(rounded).abs() > exact.abs() {
            f32::from_bits(rounded.to_bits() - 1)
        } else {
            rounded
        };
    }
}

fn check_width(columns: usize) -> Result<(), DesignError> {
    if columns == 0 || columns >= u32::MAX as usize {
        return Err(DesignError::BadWidth(columns));
    }
    Ok(())
}

fn check_dense(columns: usize, entries: usize) -> Result<(), DesignError> {
    check_width(columns)?;
    if !entries.is_multiple_of(columns) {
        return Err(DesignError::RaggedDense { entries, columns });
    }
    Ok(())
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
        }
    }

    /// Whether every stored entry is finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        match self {
            Row::Dense(x) => x.iter().all(|x| x.is_finite()),
            Row::Dense32(x) | Row::Sparse(_, x) => x.iter().all(|x| x.is_finite()),
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_stores_agree() {
        let rows = [vec![(0, 1.5), (2, -2.0)], vec![], vec![(1, 3.0)]];
        let mut sparse = Design::sparse(3).unwrap();
        let mut dense = Design::dense(3, vec![]).unwrap();
        let mut dense32 = Design::dense32(3, vec![]).unwrap();
        for row in &rows {
            sparse.push_row(row).unwrap();
            dense.push_row(row).unwrap();
            dense32.push_row(row).unwrap();
        }
        let w = [0.5, 1.0, 2.0];
        for i in 0..3 {
            assert_eq!(sparse.row(i).dot(&w), dense.row(i).dot(&w));
            assert_eq!(dense32.row(i).dot(&w), dense.row(i).dot(&w));
        }
        assert_eq!(sparse.row(0).dot(&w), 0.75 - 4.0);
        assert_eq!(sparse.stored(), 3);
    }

    #[test]
    fn bad_rows_are_refused_and_leave_no_trace() {
        let mut sparse = Design::sparse(3).unwrap();
        for bad in [
            vec![(3, 1.0)],
            vec![(1, 1.0), (1, 2.0)],
            vec![(2, 1.0), (0, 1.0)],
        ] {
            assert!(matches!(
                sparse.push_row(&bad),
                Err(DesignError::BadColumn { .. })
            ));
        }
        assert_eq!((sparse.rows(), sparse.stored()), (0, 0));
        assert!(Design::sparse(0).is_err());
        assert!(Design::dense(2, vec![1.0; 3]).is_err());
    }

    #[test]
    fn scaling_never_lengthens_a_row() {
        let mut design = Design::sparse(4).unwrap();
        design
            .push_row(&[(0, 0.1), (1, 1.0 / 3.0), (3, 7.7)])
            .unwrap();
        let before = design.row(0).norm_upper();
        design.scale_row(0, 1.0 / before);
        assert!(design.row(0).norm_upper() <= 1.0 + 1e-14);
        assert!(design.row(0).norm_upper() > 1.0 - 1e-6);
        design.scale_row(0, 0.0);
        assert_eq!(design.row(0).norm_upper(), 0.0);
    }

    #[test]
    fn a_zero_factor_erases_not_a_number() {
        let mut design = Design::dense(2, vec![f64::NAN, f64::INFINITY]).unwrap();
        assert!(!design.row(0).is_finite());
        design.scale_row(0, 0.0);
        assert_eq!(design.row(0).dot(&[1.0, 1.0]), 0.0);
    }
}
