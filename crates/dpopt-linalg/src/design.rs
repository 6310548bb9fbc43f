//! Design matrices: one row per record, dense or sparse, in place.

use crate::row::Row;

mod buffer;

pub use buffer::Wanted;

/// Most times that a row is scaled to come under its bound. The second time corrects roundings; a row of numbers so small
/// that scaling does not move them becomes zero.
const BOUNDING: u32 = 4;

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
    /// The storage can't hold an entry (bytes: a multiple of the scale by 0 to 255;
    /// one-hot: the one value).
    #[error("row {row}, column {column}: the entry can't be held by this kind of design")]
    BadEntry {
        /// Row being added.
        row: usize,
        /// Its column.
        column: u32,
    },
    /// A row of bytes has another length than the design.
    #[error("row {row} has {entries} entries, the design has {columns} columns")]
    BadLength {
        /// Row being added.
        row: usize,
        /// Entries given.
        entries: usize,
        /// Number of columns.
        columns: usize,
    },
    /// The factor of bytes must be positive, the value of a one-hot design not zero; both finite.
    #[error("a finite factor other than 0 (above 0 for bytes) is needed, got {0}")]
    BadFactor(f32),
    /// A matrix must have at least one column and at most 2^32 - 1.
    #[error("a design needs between 1 and 2^32 - 1 columns, got {0}")]
    BadWidth(usize),
}

/// A matrix with one row per record.
///
/// # Shapes
/// (n, d): n rows, d columns. Entries are read as `f64`.
///
/// # Storage
/// | storage | bytes per record | for |
/// | --- | --- | --- |
/// | dense `f64`, `f32` | 8 d, 4 d | numbers |
/// | bytes with a factor | d + 4 | images, in place |
/// | sparse `f32` | 8 per stored entry + 8 | mixed tables, text |
/// | one-hot | 4 per stored entry + 12 | categories |
///
/// Bytes and one-hot rows keep one factor per row, so that a row can be rescaled without its
/// entries being touched.
#[derive(Clone)]
pub struct Design {
    columns: usize,
    store: Store,
}

/// The entries of a design as one slice.
#[derive(Debug, Clone, Copy)]
pub enum Entries<'a> {
    /// Double precision.
    Doubles(&'a [f64]),
    /// Single precision.
    Singles(&'a [f32]),
    /// Bytes, and the factor of each row.
    Bytes(&'a [u8], &'a [f32]),
    /// Zeros are left out: see [`Design::row`].
    Sparse,
    /// The same, with one entry for all columns of a row.
    OneHot,
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
    /// Entry j of row i is `scales[i]` times its byte; `scale` is the factor before rescaling.
    Bytes {
        entries: Vec<u8>,
        scale: f32,
        scales: Vec<f32>,
    },
    /// As sparse, with one entry for all columns of a row; `value` is it before rescaling.
    OneHot {
        starts: Vec<usize>,
        indices: Vec<u32>,
        value: f32,
        values: Vec<f32>,
    },
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

    /// A dense matrix from row-major bytes: entry = `scale` times byte (1/255 maps to [0, 1]).
    ///
    /// # Errors
    /// As for [`Design::dense`]; [`DesignError::BadFactor`] unless `scale` is positive and finite.
    pub fn bytes(columns: usize, entries: Vec<u8>, scale: f32) -> Result<Self, DesignError> {
        check_dense(columns, entries.len())?;
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(DesignError::BadFactor(scale));
        }
        let scales = vec![scale; entries.len() / columns];
        Ok(Self {
            columns,
            store: Store::Bytes {
                entries,
                scale,
                scales,
            },
        })
    }

    /// An empty matrix whose rows have the entry `value` at some columns and 0 elsewhere; only
    /// the columns are stored. Rows are added by [`Design::push_ones`].
    ///
    /// # Errors
    /// [`DesignError::BadWidth`]; [`DesignError::BadFactor`] where `value` is 0 or not finite.
    pub fn one_hot(columns: usize, value: f32) -> Result<Self, DesignError> {
        check_width(columns)?;
        if value == 0.0 || !value.is_finite() {
            return Err(DesignError::BadFactor(value));
        }
        Ok(Self {
            columns,
            store: Store::OneHot {
                starts: vec![0],
                indices: Vec::new(),
                value,
                values: Vec::new(),
            },
        })
    }

    /// Appends a row that has the one value (1 where the storage has none) at these columns,
    /// strictly increasing.
    ///
    /// # Errors
    /// As for [`Design::push_row`].
    pub fn push_ones(&mut self, columns: &[u32]) -> Result<(), DesignError> {
        let row = self.rows();
        check_columns(row, self.columns, columns.iter().copied())?;
        if let Store::OneHot {
            starts,
            indices,
            value,
            values,
        } = &mut self.store
        {
            indices.extend_from_slice(columns);
            starts.push(indices.len());
            values.push(*value);
            return Ok(());
        }
        let entries: Vec<(u32, f32)> = columns.iter().map(|&column| (column, 1.0)).collect();
        self.push_row(&entries)
    }

    /// Appends a row given by (column, entry) pairs with strictly increasing columns. On a dense
    /// matrix the missing entries are zero.
    ///
    /// # Errors
    /// [`DesignError::BadColumn`]; [`DesignError::BadEntry`] for an entry that bytes or a one-hot
    /// row can't hold exactly. The matrix is unchanged then.
    pub fn push_row(&mut self, entries: &[(u32, f32)]) -> Result<(), DesignError> {
        let row = self.rows();
        check_columns(row, self.columns, entries.iter().map(|&(column, _)| column))?;
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
            Store::Bytes {
                entries: all,
                scale,
                scales,
            } => {
                let mut bytes = vec![0u8; self.columns];
                for &(column, value) in entries {
                    // Saturates, and maps not-a-number to 0; the comparison tells.
                    let byte = (value / *scale).round() as u8;
                    if f32::from(byte) * *scale != value {
                        return Err(DesignError::BadEntry { row, column });
                    }
                    bytes[column as usize] = byte;
                }
                all.extend_from_slice(&bytes);
                scales.push(*scale);
            }
            Store::OneHot {
                starts,
                indices,
                value,
                values,
            } => {
                if let Some(&(column, _)) = entries.iter().find(|(_, entry)| entry != value) {
                    return Err(DesignError::BadEntry { row, column });
                }
                indices.extend(entries.iter().map(|&(column, _)| column));
                starts.push(indices.len());
                values.push(*value);
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
            Store::Bytes { scales, .. } => scales.len(),
            Store::Sparse { starts, .. } | Store::OneHot { starts, .. } => starts.len() - 1,
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
            Store::Bytes { entries, .. } => entries.len(),
            Store::Sparse { indices, .. } | Store::OneHot { indices, .. } => indices.len(),
        }
    }

    /// All entries of a design that leaves none out, row after row.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        match &self.store {
            Store::Dense(all) => Entries::Doubles(all),
            Store::Dense32(all) => Entries::Singles(all),
            Store::Bytes {
                entries, scales, ..
            } => Entries::Bytes(entries, scales),
            Store::Sparse { .. } => Entries::Sparse,
            Store::OneHot { .. } => Entries::OneHot,
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
            Store::Bytes {
                entries, scales, ..
            } => Row::Bytes(&entries[span], scales[i]),
            Store::OneHot {
                starts,
                indices,
                values,
                ..
            } => Row::OneHot(&indices[starts[i]..starts[i + 1]], values[i]),
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
            Store::Bytes { scales, .. } => scale_down_32(&mut scales[i..=i], factor),
            Store::OneHot { values, .. } => scale_down_32(&mut values[i..=i], factor),
        }
    }

    /// Brings row `i` under a bound on its norm: a longer row is rescaled, one that is not finite
    /// becomes zero. Returns a number that is at least the norm of what the row is now. A second call
    /// with the same bound changes nothing.
    ///
    /// What happens to a row depends on that row and `bound` alone.
    ///
    /// # Panics
    /// When `i` is not below [`Design::rows`].
    pub fn bound_row(&mut self, i: usize, bound: f64) -> f32 {
        let norm = self.row(i).norm_upper();
        if !norm.is_finite() || !self.row(i).is_finite() {
            self.scale_row(i, 0.0);
            return 0.0;
        }
        let mut norm = norm;
        // Once is enough but for roundings; what has been brought under the bound once is left alone the next time.
        for _ in 0..BOUNDING {
            if norm <= bound {
                return (norm as f32).next_up();
            }
            self.scale_row(i, bound / norm * (1.0 - 4.0 * f64::EPSILON));
            norm = self.row(i).norm_upper();
        }
        if norm <= bound {
            return (norm as f32).next_up();
        }
        self.scale_row(i, 0.0);
        0.0
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

fn check_columns(
    row: usize,
    columns: usize,
    entries: impl Iterator<Item = u32>,
) -> Result<(), DesignError> {
    let mut last = None;
    for column in entries {
        if column as usize >= columns || last.is_some_and(|last| column <= last) {
            return Err(DesignError::BadColumn {
                row,
                column,
                columns,
            });
        }
        last = Some(column);
    }
    Ok(())
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

#[cfg(test)]
mod tests;
