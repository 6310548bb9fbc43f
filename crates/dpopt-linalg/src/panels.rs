//! Products in single precision of a block of rows with a matrix, each row's computed in the same order wherever it
//! stands.

use crate::row::Row;
use dpopt_lanes::{Kernel, Lanes, SINGLES, dispatch};

/// Places for rows are a multiple of this.
const ROWS: usize = 8;
/// Vectors of columns that are summed together where there are registers for it. Tuned: with eight rows 24 sums and what is
/// added to them fill the 32 registers of AVX-512. With fewer it is one vector of columns, and six rows.
const WIDE: usize = 3;
/// Panels of the rows that are read before the sums go back to memory. Tuned: the matrix's rows for this many share
/// the innermost cache with the rows.
const DEPTH: usize = 8;

/// A block of rows in single precision.
///
/// Panel p has columns 16 p to 16 p + 15 of all rows, a chunk for each row, zeros beyond the last column. Rows are
/// places for a multiple of eight records.
#[derive(Default)]
pub struct Panels {
    places: usize,
    columns: usize,
    chunks: Vec<[f32; Panels::LANES]>,
}

impl Panels {
    /// Columns in a panel.
    pub const LANES: usize = SINGLES;

    /// Zeros, for at least `rows` rows.
    #[must_use]
    pub fn zeros(rows: usize, columns: usize) -> Self {
        // An odd multiple: the panels of a row don't fall on the same lines of a cache.
        let places = rows.next_multiple_of(ROWS) | ROWS;
        Self {
            places,
            columns,
            chunks: vec![[0.0; SINGLES]; places * columns.div_ceil(SINGLES)],
        }
    }

    /// Places for rows; a panel has as many chunks.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places
    }

    /// Columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All panels, one after another.
    #[must_use]
    pub fn chunks(&self) -> &[[f32; SINGLES]] {
        &self.chunks
    }

    /// All panels, one after another. Keep zeros beyond the last column.
    pub fn chunks_mut(&mut self) -> &mut [[f32; SINGLES]] {
        &mut self.chunks
    }

    /// Puts rows of a design, rounded to single precision, into the first places, and ones into the column after their last. What
    /// a row becomes depends on it alone. Rows beyond the places are left out, and entries beyond the columns.
    ///
    /// # Panics
    /// When there is no column for the ones: rows have `inputs` columns, the panels one more at least.
    pub fn load<'r>(&mut self, inputs: usize, rows: impl Iterator<Item = Row<'r>>) {
        assert!(inputs < self.columns, "a column for the ones");
        dispatch(Load {
            inputs,
            rows,
            panels: self,
        });
    }

    /// The chunks of one row, from the first panel on.
    pub fn row_mut(&mut self, row: usize) -> impl Iterator<Item = &mut [f32; SINGLES]> {
        self.chunks.iter_mut().skip(row).step_by(self.places.max(1))
    }

    /// The chunks of one row, from the first panel on.
    pub fn row(&self, row: usize) -> impl Iterator<Item = &[f32; SINGLES]> {
        self.chunks.iter().skip(row).step_by(self.places.max(1))
    }
}

/// A matrix laid out for [`PackedSingles::multiply`], in single precision.
pub struct PackedSingles {
    /// Panels of the rows that it is multiplied with.
    depth: usize,
    columns: usize,
    start: Vec<[f32; SINGLES]>,
    /// Panel p has columns 16 p to 16 p + 15, zeros beyond the last: a vector for each row, and zeros to fill up the
    /// last panel of the other factor.
    panels: Vec<[f32; SINGLES]>,
}

impl PackedSingles {
    /// The matrix of k rows and n columns that `entries` holds row by row, rounded to single precision; products start from `start`.
    ///
    /// # Shapes
    /// `entries`: (k, n); `start`: n, or nothing for zeros.
    ///
    /// # Panics
    /// When the shapes don't fit.
    #[must_use]
    pub fn new(columns: usize, entries: &[f64], start: &[f64]) -> Self {
        let rows = entries.len().checked_div(columns).unwrap_or(0);
        assert!(
            entries.len() == rows * columns && (start.is_empty() || start.len() == columns),
            "entries that fill rows, and one start for each column"
        );
        let depth = rows.div_ceil(SINGLES);
        let wide = columns.div_ceil(SINGLES);
        let mut panels = vec![[0.0; SINGLES]; depth * SINGLES * wide];
        for (k, row) in entries.chunks_exact(columns.max(1)).enumerate() {
            for (p, from) in row.chunks(SINGLES).enumerate() {
                round(from, &mut panels[p * depth * SINGLES + k]);
            }
        }
        let mut first = vec![[0.0; SINGLES]; wide];
        for (from, to) in start.chunks(SINGLES).zip(&mut first) {
            round(from, to);
        }
        Self {
            depth,
            columns,
            start: first,
            panels,
        }
    }

    /// The transpose of the matrix of k rows and n columns that `entries` holds row by row; products start from zero.
    ///
    /// # Panics
    /// When the entries don't fill rows.
    #[must_use]
    pub fn transposed(columns: usize, entries: &[f64]) -> Self {
        let rows = entries.len().checked_div(columns).unwrap_or(0);
        let mut turned = vec![0.0; entries.len()];
        for (k, row) in entries.chunks_exact(columns.max(1)).enumerate() {
            for (j, &x) in row.iter().enumerate() {
                turned[j * rows + k] = x;
            }
        }
        Self::new(rows, &turned, &[])
    }

    /// Products of the first `count` rows with this matrix.
    ///
    /// # Formula
    /// `out[i][j] = start[j] + sum_k rows[i][k] M[k][j]`, in increasing order of k, by fused multiply-adds where the
    /// processor has them. The bits of a row of the result depend on that row and the matrix alone: not on the other
    /// rows, their number or the row's place among them. Columns of the rows beyond k meet zeros, if there is room
    /// for them in the last panel, and are left out otherwise.
    ///
    /// # Panics
    /// When the shapes don't fit, which does not depend on what the rows hold.
    pub fn multiply(&self, rows: &Panels, count: usize, out: &mut Panels) {
        assert!(
            rows.columns.div_ceil(SINGLES) >= self.depth
                && out.columns.div_ceil(SINGLES) >= self.start.len()
                && rows.places == out.places
                && count <= rows.places,
            "rows and products don't fit the matrix"
        );
        dispatch(Multiply {
            matrix: self,
            rows: &rows.chunks,
            out: &mut out.chunks,
            places: rows.places,
            count,
        });
    }

    /// Columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }
}

fn round(from: &[f64], to: &mut [f32; SINGLES]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from as f32;
    }
}

struct Load<'a, I> {
    inputs: usize,
    rows: I,
    panels: &'a mut Panels,
}

impl<'r, I: Iterator<Item = Row<'r>>> Kernel for Load<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let (inputs, places) = (self.inputs, self.panels.places);
        let (last, lane) = (inputs / SINGLES, inputs % SINGLES);
        for (r, row) in self.rows.take(places).enumerate() {
            let chunks = &mut self.panels.chunks[r..];
            chunks[last * places] = [0.0; SINGLES];
            match row {
                Row::Dense(x) => convert(x, inputs, chunks, places, |x| x as f32),
                Row::Dense32(x) => convert(x, inputs, chunks, places, |x| x),
                Row::Bytes(x, scale) => {
                    convert(x, inputs, chunks, places, |x| f32::from(x) * scale);
                }
                Row::Sparse(..) | Row::OneHot(..) => {
                    for p in 0..last {
                        chunks[p * places] = [0.0; SINGLES];
                    }
                    row.for_each(|j, x| {
                        if j < inputs {
                            chunks[j / SINGLES * places][j % SINGLES] = x as f32;
                        }
                    });
                }
            }
            chunks[last * places][lane] = 1.0;
        }
    }
}

/// The first `inputs` entries of a row to every one of `places` chunks.
#[inline(always)]
fn convert<T: Copy>(
    row: &[T],
    inputs: usize,
    chunks: &mut [[f32; SINGLES]],
    places: usize,
    single: impl Fn(T) -> f32,
) {
    let (whole, rest) = row[..inputs].as_chunks::<SINGLES>();
    for (p, from) in whole.iter().enumerate() {
        let to = &mut chunks[p * places];
        for lane in 0..SINGLES {
            to[lane] = single(from[lane]);
        }
    }
    for (lane, &x) in rest.iter().enumerate() {
        chunks[whole.len() * places][lane] = single(x);
    }
}

struct Multiply<'a> {
    matrix: &'a PackedSingles,
    rows: &'a [[f32; SINGLES]],
    out: &'a mut [[f32; SINGLES]],
    places: usize,
    count: usize,
}

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        for (p, start) in self.matrix.start.iter().enumerate() {
            self.out[p * self.places..][..self.count].fill(*start);
        }
        let panels = self.matrix.start.len();
        for start in (0..self.matrix.depth).step_by(DEPTH) {
            let mut p = 0;
            while L::REGISTERS >= 32 && p + WIDE <= panels {
                self.columns_of::<L, WIDE, 8>(lanes, p, start);
                p += WIDE;
            }
            while L::REGISTERS >= 32 && p + 2 <= panels {
                self.columns_of::<L, 2, 8>(lanes, p, start);
                p += 2;
            }
            while p < panels {
                if L::REGISTERS >= 32 {
                    self.columns_of::<L, 1, 8>(lanes, p, start);
                } else {
                    self.columns_of::<L, 1, 6>(lanes, p, start);
                }
                p += 1;
            }
        }
    }
}

impl Multiply<'_> {
    /// Adds what the panels of rows from `start` on give in the J panels from `first` on, R rows at a time.
    #[inline(always)]
    fn columns_of<L: Lanes, const J: usize, const R: usize>(
        &mut self,
        lanes: L,
        first: usize,
        start: usize,
    ) {
        let mut row = 0;
        while row + R <= self.count {
            self.rows_of::<L, J, R>(lanes, first, start, row);
            row += R;
        }
        while row + 4 <= self.count {
            self.rows_of::<L, J, 4>(lanes, first, start, row);
            row += 4;
        }
        while row < self.count {
            self.rows_of::<L, J, 1>(lanes, first, start, row);
            row += 1;
        }
    }

    /// R rows from `row` on.
    #[inline(always)]
    fn rows_of<L: Lanes, const J: usize, const R: usize>(
        &mut self,
        lanes: L,
        first: usize,
        start: usize,
        row: usize,
    ) {
        let all = self.matrix.depth;
        let depth = DEPTH.min(all - start);
        let matrix: [&[[f32; SINGLES]]; J] = std::array::from_fn(|j| {
            &self.matrix.panels[((first + j) * all + start) * SINGLES..][..depth * SINGLES]
        });
        let mut sums = [[lanes.splat_single(0.0); J]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = lanes.load_singles(&self.out[(first + j) * self.places + row + r]);
            }
        }
        let from = &self.rows[start * self.places + row..];
        let sums = group(lanes, from, self.places, matrix, sums);
        for (r, sums) in sums.iter().enumerate() {
            for (j, &sum) in sums.iter().enumerate() {
                self.out[(first + j) * self.places + row + r] = lanes.to_singles(sum);
            }
        }
    }
}

/// R rows and J panels of the matrix. Each sum takes up one product after the other, whatever these are.
#[inline(always)]
fn group<L: Lanes, const J: usize, const R: usize>(
    lanes: L,
    rows: &[[f32; SINGLES]],
    places: usize,
    matrix: [&[[f32; SINGLES]]; J],
    mut sums: [[L::Singles; J]; R],
) -> [[L::Singles; J]; R] {
    let depth = matrix
        .iter()
        .fold(usize::MAX, |d, panel| d.min(panel.len() / SINGLES));
    let matrix = matrix.map(|panel| &panel.as_chunks::<SINGLES>().0[..depth]);
    for p in 0..depth {
        let Some(entries) = rows[p * places..].first_chunk::<R>() else {
            break;
        };
        for k in 0..SINGLES {
            let mut columns = [lanes.splat_single(0.0); J];
            for j in 0..J {
                columns[j] = lanes.load_singles(&matrix[j][p][k]);
            }
            for r in 0..R {
                sums[r] = lanes.add_single_multiples(entries[r][k], columns, sums[r]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests;
