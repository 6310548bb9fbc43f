//! Sums of clipped multiples of x x^T: Hessians of losses of one inner product.
//!
//! A triangle of a sum is made tile by tile, each for a block of records, with the sums in registers. Every product goes onto the lattice by
//! a multiply-add and an addition of integers, as in [`LatticeSum::add_rows`]: what a record adds does not depend on the block.

use dpopt_lanes::{Kernel, LANES, Lanes, dispatch, zeros_after};

use super::rows::{Clip, Multiple, nearest};
use super::{LatticeSum, MAGIC, norm_inflation, shrunk_norm};

/// Records that a tile adds up. Tuned: with both factors of 64 rows of 535 the second cache is half full.
const BLOCK: usize = 64;
/// Chunks of columns that one tile takes together. Tuned: with 8 rows of the tile, 24 sums fill most of the 32 registers of AVX-512.
const WIDE: usize = 3;
/// 2^-400 and 2^400: squared norms that are far inside the range of numbers, and so is what they are multiplied by.
const MODERATE: std::ops::RangeInclusive<f64> =
    f64::from_bits((1023 - 400) << 52)..=f64::from_bits((1023 + 400) << 52);

/// Eight entries of one record.
type Chunk = [f64; LANES];

/// Buffers that [`LatticeSum::add_squares`] works in, to be used again. They hold rows of private records and can't be read.
#[derive(Default)]
pub struct SquareWork {
    /// `rows[p * BLOCK + r]` has entries 8 p to 8 p + 7 of record r.
    rows: Vec<Chunk>,
    /// The same times the multiple, in lattice steps, and the root of 2.
    multiples: Vec<Chunk>,
    /// The multiple of each record, in lattice steps.
    steps: Vec<f64>,
}

impl SquareWork {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl LatticeSum {
    /// Adds clip(`scales[i]` x x^T) for every row x of `rows`.
    ///
    /// # Formula
    /// The coordinates are those of the lower triangle, row by row, each beside the diagonal times sqrt 2: the norm of the vector is that of
    /// the matrix, |c| ||x||^2, which is cut to the clip. Every product is rounded to the nearest step, ties to even.
    ///
    /// # Privacy
    /// Each row is one contribution of norm at most the radius, whatever it holds. What it adds depends on it, its scale and the radius
    /// alone, and the sum is exact: neither order, nor grouping, nor threads matter. A row adds zero, and counts all the same, where an
    /// entry or its scale is not finite.
    ///
    /// # Shapes
    /// `rows`: (m, d); `scales`: m; the dimension of the sum is d (d + 1)/2.
    ///
    /// # Panics
    /// When shapes don't fit, which doesn't depend on what rows hold.
    pub fn add_squares(&mut self, rows: &[f64], scales: &[f64], work: &mut SquareWork) {
        let columns = rows.len().checked_div(scales.len()).unwrap_or(0);
        assert!(
            rows.len() == scales.len() * columns
                && (scales.is_empty() || triangle(columns) == self.bound.dim),
            "rows whose squares fill the sum"
        );
        let room = self.take_room(scales.len());
        let clip = Clip::new(&self.bound);
        let panels = columns.div_ceil(LANES);
        for chunks in [&mut work.rows, &mut work.multiples] {
            chunks.resize(panels * BLOCK, [0.0; LANES]);
        }
        let mut left = rows.chunks_exact(columns.max(1)).zip(scales).take(room);
        loop {
            work.steps.clear();
            let mut block: [&[f64]; BLOCK] = [&[]; BLOCK];
            for (row, scale) in left.by_ref() {
                let scale = scale * self.weight;
                match clip.square(scale, dense_square(row), columns) {
                    Multiple::Zero => continue,
                    Multiple::Extreme => {
                        self.add_extreme_square(scale, row);
                        continue;
                    }
                    Multiple::Steps(steps) => {
                        block[work.steps.len()] = row;
                        work.steps.push(steps);
                    }
                }
                if work.steps.len() == BLOCK {
                    break;
                }
            }
            let count = work.steps.len();
            if count == 0 {
                return;
            }
            dispatch(Load {
                block: &block[..count],
                work,
            });
            dispatch(AddTriangle {
                work,
                sum: &mut self.sum,
                columns,
            });
        }
    }

    /// Adds clip(`scale` x x^T) for the sparse row x with entries `values` at `columns`, in time proportional to the square of their number.
    /// It adds what [`LatticeSum::add_squares`] adds for the row with its zeros; zero, where the columns don't increase strictly below d.
    ///
    /// # Privacy
    /// As for [`LatticeSum::add_squares`].
    ///
    /// # Panics
    /// When the dimension of the sum is not that of a triangle of `dim` columns.
    pub fn add_sparse_square(
        &mut self,
        dim: usize,
        scale: f64,
        (columns, values): (&[u32], &[f64]),
    ) {
        assert!(
            triangle(dim) == self.bound.dim,
            "a square that fills the sum"
        );
        let fits = columns.len() == values.len()
            && columns.windows(2).all(|pair| pair[0] < pair[1])
            && columns.last().is_none_or(|&last| (last as usize) < dim);
        if self.take_room(1) == 0 || !fits {
            return;
        }
        let scale = scale * self.weight;
        match Clip::new(&self.bound).square(scale, sparse_square(columns, values), dim) {
            Multiple::Zero => {}
            Multiple::Steps(steps) => dispatch(AddSparse {
                steps,
                columns,
                values,
                sum: &mut self.sum,
            }),
            Multiple::Extreme => {
                let mut row = vec![0.0; dim];
                for (&column, &x) in columns.iter().zip(values) {
                    row[column as usize] = x;
                }
                self.add_extreme_square(scale, &row);
            }
        }
    }

    /// Adds the square of a row that is far longer or shorter than usual, or needs a scale that is: product by product.
    #[cold]
    fn add_extreme_square(&mut self, scale: f64, row: &[f64]) {
        let Some(unit) = shrunk_norm(row.iter().copied()).map(|shrunk| shrunk.unit) else {
            return;
        };
        let shrink = 1.0 / unit;
        let mut products = Vec::with_capacity(self.bound.dim);
        for (i, x) in row.iter().enumerate() {
            let (x, double) = (x * shrink, root_two(x * shrink));
            products.extend(row[..i].iter().map(|y| double * (y * shrink)));
            products.push(x * x);
        }
        // Too long for a number is too long for the clip.
        let scale = (scale * unit * unit).clamp(-f64::MAX, f64::MAX);
        let entries = products.iter().copied();
        if let Some(scaling) = self.bound.scaling(scale, entries.clone()) {
            for (sum, x) in self.sum.iter_mut().zip(entries) {
                *sum += scaling.round(x);
            }
        }
    }
}

impl Clip {
    /// How the square of a row of so many entries is scaled and clipped: as [`Clip::multiple`], for its squared norm as computed.
    #[inline]
    fn square(self, scale: f64, squares: f64, entries: usize) -> Multiple {
        if !scale.is_finite() || scale == 0.0 {
            return Multiple::Zero;
        }
        // A NaN, and a sum that overflowed or vanished, are looked at with care.
        if !MODERATE.contains(&squares) {
            return Multiple::Extreme;
        }
        self.scaled(scale, squares * norm_inflation(entries))
    }
}

/// The squared norm of a row. Columns are added up by their place in a chunk, so that zeros change nothing.
fn dense_square(row: &[f64]) -> f64 {
    let mut sums = [0.0f64; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x * x;
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum += x * x;
    }
    sums.iter().sum()
}

/// The same of a sparse row, to the bit.
fn sparse_square(columns: &[u32], values: &[f64]) -> f64 {
    let mut sums = [0.0f64; LANES];
    for (&column, x) in columns.iter().zip(values) {
        sums[column as usize % LANES] += x * x;
    }
    sums.iter().sum()
}

/// d (d + 1)/2.
fn triangle(columns: usize) -> usize {
    columns.saturating_mul(columns + 1) / 2
}

fn root_two(x: f64) -> f64 {
    std::f64::consts::SQRT_2 * x
}

/// Puts rows at their places in the panels, as they are and times their multiple and the root of 2. Panel by panel: written row by row, chunks
/// would lie a page apart, in the same few lines of the caches.
struct Load<'a> {
    block: &'a [&'a [f64]],
    work: &'a mut SquareWork,
}

impl Kernel for Load<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let zero = lanes.splat(0.0);
        let SquareWork {
            rows,
            multiples,
            steps,
        } = self.work;
        let panels = rows.chunks_exact_mut(BLOCK);
        let panels = panels.zip(multiples.chunks_exact_mut(BLOCK));
        for (p, (rows, multiples)) in panels.enumerate() {
            let places = rows.iter_mut().zip(multiples);
            for ((row, steps), (chunk, multiple)) in self.block.iter().zip(&*steps).zip(places) {
                *chunk = zeros_after(&row[p * LANES..]);
                let scale = lanes.splat(root_two(*steps));
                *multiple = lanes.to_doubles(lanes.mul_add(lanes.doubles(chunk), scale, zero));
            }
        }
    }
}

/// Adds the squares of the rows in the panels to a triangle.
struct AddTriangle<'a> {
    work: &'a SquareWork,
    sum: &'a mut [i64],
    columns: usize,
}

impl Kernel for AddTriangle<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        for p in 0..self.columns.div_ceil(LANES) {
            let mut q = 0;
            while q + WIDE <= p + 1 {
                self.tile_at::<L, WIDE>(lanes, p, q);
                q += WIDE;
            }
            match p + 1 - q {
                2 => self.tile_at::<L, 2>(lanes, p, q),
                1 => self.tile_at::<L, 1>(lanes, p, q),
                _ => {}
            }
            self.diagonal(lanes, p);
        }
    }
}

impl AddTriangle<'_> {
    /// Rows 8 p to 8 p + 7 of the J chunks of columns from `q` on, the diagonal left out.
    #[inline(always)]
    fn tile_at<L: Lanes, const J: usize>(&mut self, lanes: L, p: usize, q: usize) {
        let count = self.work.steps.len();
        let left = &self.work.multiples[p * BLOCK..][..count];
        let right: [&[Chunk]; J] =
            std::array::from_fn(|j| &self.work.rows[(q + j) * BLOCK..][..count]);
        let tile = tile(lanes, left, right);
        for i in 0..LANES.min(self.columns - p * LANES) {
            let row = p * LANES + i;
            let place = &mut self.sum[triangle_start(row)..][q * LANES..row];
            let (whole, rest) = place.as_chunks_mut::<LANES>();
            for j in 0..J {
                if let Some(whole) = whole.get_mut(j) {
                    *whole = lanes.to_words(lanes.add(lanes.words(whole), tile[i][j]));
                } else {
                    for (sum, word) in rest.iter_mut().zip(lanes.to_words(tile[i][j])) {
                        *sum = sum.wrapping_add(word);
                    }
                }
            }
        }
    }

    /// The diagonal of rows 8 p to 8 p + 7.
    #[inline(always)]
    fn diagonal<L: Lanes>(&mut self, lanes: L, p: usize) {
        let (magic, zero) = (lanes.splat(MAGIC), lanes.splat(0.0));
        let mut total = lanes.words(&[less_magic(self.work.steps.len()); LANES]);
        let rows = &self.work.rows[p * BLOCK..][..BLOCK];
        for (chunk, steps) in rows.iter().zip(&self.work.steps) {
            let x = lanes.doubles(chunk);
            let multiple = lanes.mul_add(x, lanes.splat(*steps), zero);
            total = lanes.add(total, lanes.bits(lanes.mul_add(multiple, x, magic)));
        }
        for (i, word) in lanes.to_words(total).into_iter().enumerate() {
            if let Some(sum) = self.sum.get_mut(triangle(p * LANES + i + 1) - 1) {
                *sum = sum.wrapping_add(word);
            }
        }
    }
}

/// Where row i of a triangle starts.
fn triangle_start(row: usize) -> usize {
    row * (row + 1) / 2
}

/// What takes the constant's own bits off, once for each of `count` records.
fn less_magic(count: usize) -> i64 {
    0u64.wrapping_sub(MAGIC.to_bits().wrapping_mul(count as u64)) as i64
}

/// The sums over records of the rounded products of 8 left with 8 J right entries.
#[inline(always)]
fn tile<L: Lanes, const J: usize>(
    lanes: L,
    left: &[Chunk],
    right: [&[Chunk]; J],
) -> [[L::Words; J]; LANES] {
    let start = lanes.words(&[less_magic(left.len()); LANES]);
    let magic = lanes.splat(MAGIC);
    // One by one, not in a loop over an array: they have to stay in registers.
    let [mut s0, mut s1, mut s2, mut s3] = [[start; J]; 4];
    let [mut s4, mut s5, mut s6, mut s7] = [[start; J]; 4];
    let count = right.iter().fold(left.len(), |count, r| count.min(r.len()));
    let right = right.map(|right| &right[..count]);
    for (r, left) in left[..count].iter().enumerate() {
        let mut columns = [magic; J];
        for j in 0..J {
            columns[j] = lanes.doubles(&right[j][r]);
        }
        s0 = add_rounded(lanes, left[0], columns, magic, s0);
        s1 = add_rounded(lanes, left[1], columns, magic, s1);
        s2 = add_rounded(lanes, left[2], columns, magic, s2);
        s3 = add_rounded(lanes, left[3], columns, magic, s3);
        s4 = add_rounded(lanes, left[4], columns, magic, s4);
        s5 = add_rounded(lanes, left[5], columns, magic, s5);
        s6 = add_rounded(lanes, left[6], columns, magic, s6);
        s7 = add_rounded(lanes, left[7], columns, magic, s7);
    }
    [s0, s1, s2, s3, s4, s5, s6, s7]
}

/// Adds the bits of the constant plus `entry` times each column.
#[inline(always)]
fn add_rounded<L: Lanes, const J: usize>(
    lanes: L,
    entry: f64,
    columns: [L::Doubles; J],
    magic: L::Doubles,
    mut sums: [L::Words; J],
) -> [L::Words; J] {
    let entry = lanes.splat(entry);
    for j in 0..J {
        let product = lanes.mul_add(entry, columns[j], magic);
        sums[j] = lanes.add(sums[j], lanes.bits(product));
    }
    sums
}

/// Adds the square of a sparse row, by the operations of the tiles.
struct AddSparse<'a> {
    steps: f64,
    columns: &'a [u32],
    values: &'a [f64],
    sum: &'a mut [i64],
}

impl Kernel for AddSparse<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let scale = root_two(self.steps);
        for (i, (&column, &x)) in self.columns.iter().zip(self.values).enumerate() {
            let row = &mut self.sum[triangle_start(column as usize)..][..=column as usize];
            let multiple = x * scale;
            for (&column, &y) in self.columns[..i].iter().zip(self.values) {
                let sum = &mut row[column as usize];
                *sum = sum.wrapping_add(nearest(lanes, multiple, y));
            }
            let sum = &mut row[column as usize];
            *sum = sum.wrapping_add(nearest(lanes, x * self.steps, x));
        }
    }
}

#[cfg(test)]
mod tests;
