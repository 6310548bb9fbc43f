//! Gaussian Johnson-Lindenstrauss maps, from a public seed, never stored whole.
//!
//! A map is k x d. It is made column by column, in blocks of columns, so that d = 10^5 takes no more
//! memory than d = 10^3; whoever knows the seed has the map. Numbers are made by integer and IEEE
//! operations alone (no logarithm of a system library), so every platform has the same map.

use crate::ahead::Ahead;
use crate::design::Design;
use crate::row::Row;
use crate::rows::row_products;
use dpopt_lanes::Entry;

/// Columns that are made, applied and forgotten together. Tuned.
const BLOCK: usize = 256;

/// A map could not be made, or does not fit what it is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// No rows, no columns, or too many.
    #[error("a map of {rows} x {columns}: both must be from 1 to 2^32 - 1")]
    Shape {
        /// k.
        rows: usize,
        /// d.
        columns: usize,
    },
    /// The argument has another dimension.
    #[error("the map takes {expected} coordinates, got {got}")]
    Dimension {
        /// Coordinates that the map takes.
        expected: usize,
        /// Coordinates that were there.
        got: usize,
    },
}

/// A linear map from d to k coordinates that anybody can repeat from its seed.
///
/// # Formula
/// Phi = G/sqrt(k), the entries of G independent standard normals; or the identity, k = d. For a
/// fixed x: E||Phi x||^2 = ||x||^2, and k ||Phi x||^2/||x||^2 is chi-squared with k degrees of freedom.
///
/// Entry (a, j) comes from number a of the stream of column j: SplitMix64 from a state that is a hash of
/// seed and j, made normal by Marsaglia's polar method.
///
/// # Privacy
/// None needed: the seed is public, and chosen without a look at data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JlMap {
    rows: usize,
    columns: usize,
    /// None: the identity.
    seed: Option<u64>,
}

impl JlMap {
    /// The Gaussian map of `seed`: `rows` = k, `columns` = d.
    ///
    /// # Errors
    /// [`MapError::Shape`].
    pub fn gaussian(rows: usize, columns: usize, seed: u64) -> Result<Self, MapError> {
        Self::checked(rows, columns, Some(seed))
    }

    /// The identity on `columns` coordinates.
    ///
    /// # Errors
    /// [`MapError::Shape`].
    pub fn identity(columns: usize) -> Result<Self, MapError> {
        Self::checked(columns, columns, None)
    }

    fn checked(rows: usize, columns: usize, seed: Option<u64>) -> Result<Self, MapError> {
        let fits = |size: usize| size >= 1 && size < u32::MAX as usize;
        if fits(rows) && fits(columns) {
            Ok(Self {
                rows,
                columns,
                seed,
            })
        } else {
            Err(MapError::Shape { rows, columns })
        }
    }

    /// k: coordinates after the map.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// d: coordinates before the map.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether it is the identity.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.seed.is_none()
    }

    /// Phi x for every row x of `design`, as a dense design; a copy of it under the identity.
    ///
    /// # Floating point
    /// The bits of an embedded row depend on that row (as it is stored) and the map alone: not on the other rows,
    /// their number or its place. Products of one block of columns come from [`row_products`] for dense storages and
    /// are summed by increasing column for sparse ones; blocks are added by increasing column. A row with an entry that
    /// is not finite has embedded entries that are not finite, but none that is finite is made so by another row.
    ///
    /// # Complexity
    /// n d k multiply-adds for dense rows (k for each stored entry of a sparse one), d k random
    /// numbers, n k numbers of result and a block of 256 k.
    ///
    /// # Errors
    /// [`MapError::Dimension`].
    pub fn embed(&self, design: &Design) -> Result<Design, MapError> {
        self.takes(self.columns, design.columns())?;
        if self.seed.is_none() {
            return Ok(design.clone());
        }
        let n = design.rows();
        let mut out = vec![0.0; n * self.rows];
        if n > 0 {
            match design.row(0) {
                Row::Dense(_) => self.embed_dense(design, &mut out, |row| match row {
                    Row::Dense(x) => (x, 1.0),
                    _ => (&[][..], 0.0),
                }),
                Row::Dense32(_) => self.embed_dense(design, &mut out, |row| match row {
                    Row::Dense32(x) => (x, 1.0),
                    _ => (&[][..], 0.0),
                }),
                Row::Bytes(..) => self.embed_dense(design, &mut out, |row| match row {
                    Row::Bytes(x, factor) => (x, f64::from(factor)),
                    _ => (&[][..], 0.0),
                }),
                Row::Sparse(..) | Row::OneHot(..) => self.embed_sparse(design, &mut out),
            }
        }
        let shape = MapError::Shape {
            rows: self.rows,
            columns: self.columns,
        };
        Design::dense(self.rows, out).map_err(|_| shape)
    }

    /// Phi^T w: the point of R^d whose inner products with rows x are those of `point` with Phi x.
    ///
    /// # Shapes
    /// `point`: k. Returns d numbers.
    ///
    /// # Errors
    /// [`MapError::Dimension`].
    pub fn lift(&self, point: &[f64]) -> Result<Vec<f64>, MapError> {
        self.takes(self.rows, point.len())?;
        if self.seed.is_none() {
            return Ok(point.to_vec());
        }
        let mut lifted = Vec::with_capacity(self.columns);
        let mut column = vec![0.0; self.rows];
        for j in 0..self.columns {
            self.column(j, &mut column);
            lifted.push(crate::vector::dot(&column, point));
        }
        Ok(lifted)
    }

    /// Phi x.
    ///
    /// # Shapes
    /// `vector`: d. Returns k numbers.
    ///
    /// # Errors
    /// [`MapError::Dimension`].
    pub fn apply(&self, vector: &[f64]) -> Result<Vec<f64>, MapError> {
        self.takes(self.columns, vector.len())?;
        if self.seed.is_none() {
            return Ok(vector.to_vec());
        }
        let mut image = vec![0.0; self.rows];
        let mut column = vec![0.0; self.rows];
        for (j, &x) in vector.iter().enumerate() {
            self.column(j, &mut column);
            crate::vector::add_scaled(&mut image, x, &column);
        }
        Ok(image)
    }

    /// Writes column j to `column`.
    ///
    /// # Shapes
    /// `column`: k; j below d. More numbers of the same stream follow where it is longer.
    pub fn column(&self, j: usize, column: &mut [f64]) {
        let Some(seed) = self.seed else {
            column.fill(0.0);
            if let Some(entry) = column.get_mut(j) {
                *entry = 1.0;
            }
            return;
        };
        let scale = 1.0 / (self.rows as f64).sqrt();
        let mut normals = Normals::new(seed, j as u64);
        for pair in column.chunks_mut(2) {
            let both = normals.pair();
            for (entry, normal) in pair.iter_mut().zip(both) {
                *entry = scale * normal;
            }
        }
    }

    fn takes(&self, expected: usize, got: usize) -> Result<(), MapError> {
        if expected == got {
            Ok(())
        } else {
            Err(MapError::Dimension { expected, got })
        }
    }

    fn embed_dense<'r, T: Entry>(
        &self,
        design: &'r Design,
        out: &mut [f64],
        entries: impl Fn(Row<'r>) -> (&'r [T], f64),
    ) {
        let n = design.rows();
        let stored: Vec<(&[T], f64)> = (0..n).map(|i| entries(design.row(i))).collect();
        let mut rows: Vec<&[T]> = Vec::with_capacity(n);
        let mut block = vec![0.0; BLOCK * self.rows];
        let mut column = vec![0.0; self.rows];
        let mut products = [vec![0.0; n], vec![0.0; n]];
        for start in (0..self.columns).step_by(BLOCK) {
            let end = self.columns.min(start + BLOCK);
            let width = end - start;
            for j in start..end {
                self.column(j, &mut column);
                for (a, x) in column.iter().enumerate() {
                    block[a * width + j - start] = *x;
                }
            }
            rows.clear();
            rows.extend(stored.iter().map(|(x, _)| &x[start..end]));
            for a in (0..self.rows).step_by(2) {
                // The last row of an odd number goes twice, and is added once.
                let second = (a + 1).min(self.rows - 1);
                let point = |a: usize| &block[a * width..(a + 1) * width];
                let [first_products, second_products] = &mut products;
                row_products(
                    &rows,
                    [point(a), point(second)],
                    [first_products, second_products],
                    &mut Ahead::new(&[]),
                );
                for i in 0..n {
                    out[i * self.rows + a] += first_products[i];
                    if second != a {
                        out[i * self.rows + second] += second_products[i];
                    }
                }
            }
        }
        for ((_, factor), row) in stored.iter().zip(out.chunks_exact_mut(self.rows)) {
            if *factor == 0.0 {
                // Erased: what is stored may be anything.
                row.fill(0.0);
            } else if *factor != 1.0 {
                row.iter_mut().for_each(|x| *x *= factor);
            }
        }
    }

    fn embed_sparse(&self, design: &Design, out: &mut [f64]) {
        let mut block = vec![0.0; BLOCK * self.rows];
        // How many stored entries of each row are done.
        let mut done = vec![0usize; design.rows()];
        for start in (0..self.columns).step_by(BLOCK) {
            let end = self.columns.min(start + BLOCK);
            for (j, column) in (start..end).zip(block.chunks_exact_mut(self.rows)) {
                self.column(j, column);
            }
            for (i, image) in out.chunks_exact_mut(self.rows).enumerate() {
                let (columns, values, factor) = match design.row(i) {
                    Row::Sparse(columns, values) => (columns, values, 1.0),
                    Row::OneHot(columns, factor) => (columns, &[][..], factor),
                    _ => continue,
                };
                if factor == 0.0 {
                    continue;
                }
                while let Some(&j) = columns.get(done[i]).filter(|j| (**j as usize) < end) {
                    let value = values.get(done[i]).copied().unwrap_or(factor);
                    let at = (j as usize - start) * self.rows;
                    let column = &block[at..at + self.rows];
                    crate::vector::add_scaled(image, f64::from(value), column);
                    done[i] += 1;
                }
            }
        }
    }
}

/// Standard normals in pairs.
struct Normals(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Normals {
    fn new(seed: u64, column: u64) -> Self {
        // Streams are stretches of one orbit of length 2^64: those of 10^5 columns with 10^3 numbers each
        // overlap with probability below 10^-6.
        Self(mix(
            mix(seed.wrapping_add(GOLDEN)) ^ column.wrapping_mul(0xd134_2543_de82_ef95)
        ))
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform on the odd multiples of 2^-52 in (-1, 1).
    fn uniform(&mut self) -> f64 {
        let half = (self.word() >> 12) as f64 + 0.5;
        half * (2.0 * f64::EPSILON) - 1.0
    }

    /// Two independent standard normals, by the polar method.
    fn pair(&mut self) -> [f64; 2] {
        loop {
            let (u, v) = (self.uniform(), self.uniform());
            let s = u * u + v * v;
            if s < 1.0 && s > 0.0 {
                let factor = (-2.0 * ln(s) / s).sqrt();
                return [u * factor, v * factor];
            }
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(word: u64) -> u64 {
    let z = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The natural logarithm of a normal number in (0, 1), by operations that all platforms round alike.
///
/// x = m 2^e with m in [sqrt(1/2), sqrt 2): ln x = e ln 2 + 2 artanh((m - 1)/(m + 1)), whose series in
/// s^2 <= 0.0295 is cut after s^25/25: below 2^-53 of the sum.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1.0;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut series = 0.0;
    for odd in (1..=25u32).rev().step_by(2) {
        series = series * square + 1.0 / f64::from(odd);
    }
    exponent * std::f64::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests;
