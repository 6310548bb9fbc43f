//! Designs as buffers: rows that are filled in from a file, taken over from another design, or dropped.

use super::{Design, DesignError, Store, check_columns};

/// The wanted rows of a whole.
#[derive(Debug, Clone)]
pub enum Wanted<'a> {
    /// Neighbouring ones.
    Range(std::ops::Range<usize>),
    /// Those at these positions, increasing.
    Listed(&'a [u32]),
}

impl Wanted<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Wanted::Range(range) => range.len(),
            Wanted::Listed(list) => list.len(),
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (range, list) = match self {
            Wanted::Range(range) => (range.clone(), &[][..]),
            Wanted::Listed(list) => (0..0, *list),
        };
        range.chain(list.iter().map(|&i| i as usize))
    }
}

impl Design {
    /// A design of the same storage, width and factor without rows.
    #[must_use]
    pub fn without_rows(&self) -> Self {
        let store = match &self.store {
            Store::Dense(_) => Store::Dense(Vec::new()),
            Store::Dense32(_) => Store::Dense32(Vec::new()),
            Store::Sparse { .. } => Store::Sparse {
                starts: vec![0],
                indices: Vec::new(),
                values: Vec::new(),
            },
            Store::Bytes { scale, .. } => Store::Bytes {
                entries: Vec::new(),
                scale: *scale,
                scales: Vec::new(),
            },
            Store::OneHot { value, .. } => Store::OneHot {
                starts: vec![0],
                indices: Vec::new(),
                value: *value,
                values: Vec::new(),
            },
        };
        Self {
            columns: self.columns,
            store,
        }
    }

    /// The rows at these positions, in this order.
    ///
    /// # Panics
    /// When a position is not below [`Design::rows`].
    #[must_use]
    pub fn gathered(&self, order: &[u32]) -> Self {
        let mut to = self.without_rows();
        let order = order.iter().map(|&i| i as usize);
        match (&self.store, &mut to.store) {
            (Store::Dense(all), Store::Dense(out)) => gather(all, self.columns, order, out),
            (Store::Dense32(all), Store::Dense32(out)) => gather(all, self.columns, order, out),
            (
                Store::Bytes {
                    entries, scales, ..
                },
                Store::Bytes {
                    entries: out,
                    scales: factors,
                    ..
                },
            ) => {
                gather(entries, self.columns, order.clone(), out);
                gather(scales, 1, order, factors);
            }
            (
                Store::Sparse {
                    starts,
                    indices,
                    values,
                },
                Store::Sparse {
                    starts: to_starts,
                    indices: to_indices,
                    values: to_values,
                },
            ) => {
                gather_ragged(starts, indices, order.clone(), Some(to_starts), to_indices);
                gather_ragged(starts, values, order, None, to_values);
            }
            (
                Store::OneHot {
                    starts,
                    indices,
                    values,
                    ..
                },
                Store::OneHot {
                    starts: to_starts,
                    indices: to_indices,
                    values: to_values,
                    ..
                },
            ) => {
                gather_ragged(starts, indices, order.clone(), Some(to_starts), to_indices);
                gather(values, 1, order, to_values);
            }
            // `without_rows` keeps the storage.
            _ => {}
        }
        to
    }

    /// Drops all rows and keeps the room that they took.
    pub fn clear(&mut self) {
        match &mut self.store {
            Store::Dense(all) => all.clear(),
            Store::Dense32(all) => all.clear(),
            Store::Bytes {
                entries, scales, ..
            } => {
                entries.clear();
                scales.clear();
            }
            Store::Sparse {
                starts,
                indices,
                values,
            }
            | Store::OneHot {
                starts,
                indices,
                values,
                ..
            } => {
                starts.truncate(1);
                indices.clear();
                values.clear();
            }
        }
    }

    /// Appends the rows of `other`, factors included.
    ///
    /// # Errors
    /// [`DesignError::BadLength`] where `other` has another width, [`DesignError::BadEntry`] where it has another storage.
    /// The matrix is unchanged then.
    pub fn append(&mut self, other: &Design) -> Result<(), DesignError> {
        let row = self.rows();
        if self.columns != other.columns {
            return Err(DesignError::BadLength {
                row,
                entries: other.columns,
                columns: self.columns,
            });
        }
        match (&mut self.store, &other.store) {
            (Store::Dense(all), Store::Dense(more)) => all.extend_from_slice(more),
            (Store::Dense32(all), Store::Dense32(more)) => all.extend_from_slice(more),
            (
                Store::Bytes {
                    entries, scales, ..
                },
                Store::Bytes {
                    entries: more,
                    scales: factors,
                    ..
                },
            ) => {
                entries.extend_from_slice(more);
                scales.extend_from_slice(factors);
            }
            (
                Store::Sparse {
                    starts,
                    indices,
                    values,
                },
                Store::Sparse {
                    starts: more,
                    indices: columns,
                    values: entries,
                },
            )
            | (
                Store::OneHot {
                    starts,
                    indices,
                    values,
                    ..
                },
                Store::OneHot {
                    starts: more,
                    indices: columns,
                    values: entries,
                    ..
                },
            ) => {
                let before = indices.len();
                starts.extend(more[1..].iter().map(|start| start + before));
                indices.extend_from_slice(columns);
                values.extend_from_slice(entries);
            }
            _ => return Err(DesignError::BadEntry { row, column: 0 }),
        }
        Ok(())
    }

    /// The bytes of `rows` rows to be filled in, little-endian, whatever they held before; to be
    /// followed by [`Design::settle_raw`]. Sparse rows have none: see [`Design::push_stored`].
    pub(crate) fn raw(&mut self, rows: usize) -> &mut [u8] {
        let entries = rows * self.columns;
        match &mut self.store {
            Store::Dense(all) => {
                all.resize(entries, 0.0);
                bytemuck::cast_slice_mut(all)
            }
            Store::Dense32(all) => {
                all.resize(entries, 0.0);
                bytemuck::cast_slice_mut(all)
            }
            Store::Bytes {
                entries: all,
                scale,
                scales,
            } => {
                all.resize(entries, 0);
                scales.clear();
                scales.resize(rows, *scale);
                all
            }
            Store::Sparse { .. } | Store::OneHot { .. } => &mut [],
        }
    }

    /// Brings what was filled in into the byte order of the machine.
    pub(crate) fn settle_raw(&mut self) {
        if cfg!(target_endian = "little") {
            return;
        }
        match &mut self.store {
            Store::Dense(all) => {
                for x in all {
                    *x = f64::from_bits(u64::from_le(x.to_bits()));
                }
            }
            Store::Dense32(all) => {
                for x in all {
                    *x = f32::from_bits(u32::from_le(x.to_bits()));
                }
            }
            Store::Bytes { .. } | Store::Sparse { .. } | Store::OneHot { .. } => {}
        }
    }

    /// Sets the factors of rows of bytes. An invalid one (negative, not finite) erases its row.
    pub(crate) fn set_factors(&mut self, factors: impl Iterator<Item = f32>) {
        if let Store::Bytes { scales, .. } = &mut self.store {
            for (scale, factor) in scales.iter_mut().zip(factors) {
                *scale = usable(factor, factor >= 0.0);
            }
        }
    }

    /// Appends a sparse row as a file holds it, little-endian: column numbers, entries (none for a one-hot row) and the
    /// factor of a one-hot row. A row whose columns don't increase or are out of range is stored empty.
    pub(crate) fn push_stored(&mut self, columns: &[u8], entries: &[u8], factor: f32) {
        let (width, row) = (self.columns, self.rows());
        let (columns, _) = columns.as_chunks::<4>();
        let (entries, _) = entries.as_chunks::<4>();
        match &mut self.store {
            Store::Sparse {
                starts,
                indices,
                values,
            } => {
                let before = indices.len();
                indices.extend(columns.iter().map(|&x| u32::from_le_bytes(x)));
                values.extend(entries.iter().map(|&x| f32::from_le_bytes(x)));
                let good = check_columns(row, width, indices[before..].iter().copied()).is_ok()
                    && values.len() == indices.len();
                if !good {
                    indices.truncate(before);
                    values.truncate(before);
                }
                starts.push(indices.len());
            }
            Store::OneHot {
                starts,
                indices,
                values,
                ..
            } => {
                let before = indices.len();
                indices.extend(columns.iter().map(|&x| u32::from_le_bytes(x)));
                if check_columns(row, width, indices[before..].iter().copied()).is_err() {
                    indices.truncate(before);
                }
                starts.push(indices.len());
                values.push(usable(factor, true));
            }
            Store::Dense(_) | Store::Dense32(_) | Store::Bytes { .. } => {}
        }
    }

    /// Which storage it is, and the factor that all its rows had at first.
    pub(crate) fn kind(&self) -> (u8, f32) {
        match &self.store {
            Store::Dense(_) => (0, 0.0),
            Store::Dense32(_) => (1, 0.0),
            Store::Bytes { scale, .. } => (2, *scale),
            Store::Sparse { .. } => (3, 0.0),
            Store::OneHot { value, .. } => (4, *value),
        }
    }
}

/// Appends the rows of `width` entries that `order` names.
fn gather<T: Copy>(
    all: &[T],
    width: usize,
    order: impl ExactSizeIterator<Item = usize>,
    out: &mut Vec<T>,
) {
    out.reserve_exact(width * order.len());
    for i in order {
        out.extend_from_slice(&all[i * width..(i + 1) * width]);
    }
}

/// Appends the rows that `order` names, of `starts[i]..starts[i + 1]` each, and where they end.
fn gather_ragged<T: Copy>(
    starts: &[usize],
    all: &[T],
    order: impl Iterator<Item = usize>,
    mut ends: Option<&mut Vec<usize>>,
    out: &mut Vec<T>,
) {
    for i in order {
        out.extend_from_slice(&all[starts[i]..starts[i + 1]]);
        if let Some(ends) = &mut ends {
            ends.push(out.len());
        }
    }
}

fn usable(factor: f32, sign: bool) -> f32 {
    if factor.is_finite() && sign {
        factor
    } else {
        0.0
    }
}
