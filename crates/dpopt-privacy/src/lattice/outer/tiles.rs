//! The kernels: norms of factors, their rounding, and the product of two matrices of integers.

use dpopt_lanes::{Kernel, LANES, Lanes, zeros_after};

use super::super::{MAGIC, norm_inflation, pow2};
use super::scale::Measured;

/// Eight entries of one record's factor.
pub(super) type Chunk = [f64; LANES];

/// Chunks of right factors that one tile of the product takes together. Tuned: with 8 rows of the tile, 24 sums and
/// what is added to them fill the 32 registers of AVX-512.
const WIDE: usize = 3;

/// Measures a factor; nothing where an entry is not finite.
pub(super) struct Measure<'a> {
    pub(super) row: &'a [f64],
    pub(super) out: &'a mut Option<Measured>,
}

impl Kernel for Measure<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // Of non-negative doubles the larger has the larger bits; those of infinity and NaN are above all others.
        let mut largest = [0u64; LANES];
        for p in 0..self.row.len().div_ceil(LANES) {
            let chunk = chunk(self.row, p);
            for lane in 0..LANES {
                largest[lane] = largest[lane].max(chunk[lane].abs().to_bits());
            }
        }
        let largest = largest.into_iter().max().unwrap_or(0);
        if largest >= f64::INFINITY.to_bits() {
            return;
        }
        let exponent = ((largest >> 52) as i32 - 1023).clamp(-1000, 1000);
        let shrink = lanes.splat(pow2(-exponent));
        let zero = lanes.splat(0.0);
        let mut squares = zero;
        for p in 0..self.row.len().div_ceil(LANES) {
            // Exact, up to underflow.
            let y = lanes.mul_add(lanes.doubles(&chunk(self.row, p)), shrink, zero);
            squares = lanes.mul_add(y, y, squares);
        }
        let squares: f64 = lanes.to_doubles(squares).iter().sum();
        *self.out = Some(Measured {
            norm: squares.sqrt() * norm_inflation(self.row.len()),
            exponent,
        });
    }
}

/// Rounds the multiple of a factor to integers.
pub(super) struct Round<'a> {
    pub(super) row: &'a [f64],
    /// A power of two that the entries are multiplied by first, exactly.
    pub(super) shrink: f64,
    pub(super) scale: f64,
    /// Chunk p goes to `panels[p * stride]`.
    pub(super) panels: &'a mut [Chunk],
    pub(super) stride: usize,
    /// The sum of their squares, exact if below 2^53.
    pub(super) squares: &'a mut f64,
}

impl Kernel for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (shrink, scale) = (lanes.splat(self.shrink), lanes.splat(self.scale));
        let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
        let (up, down) = (lanes.splat(MAGIC), lanes.splat(-MAGIC));
        let mut squares = zero;
        for p in 0..self.row.len().div_ceil(LANES) {
            let y = lanes.mul_add(lanes.doubles(&chunk(self.row, p)), shrink, zero);
            let k = lanes.mul_add(lanes.mul_add(y, scale, up), one, down);
            squares = lanes.mul_add(k, k, squares);
            self.panels[p * self.stride] = lanes.to_doubles(k);
        }
        *self.squares = lanes.to_doubles(squares).iter().sum();
    }
}

/// Chunk `p` of a row, the last one filled up with zeros.
#[inline(always)]
fn chunk(row: &[f64], p: usize) -> Chunk {
    zeros_after(&row[p * LANES..])
}

/// Adds the product of two matrices of integers, transposed left times right, to a sum of integers.
pub(super) struct AddTiles<'a> {
    /// Panel p, eight columns wide, starts at `p * stride` and has a chunk for each record.
    pub(super) left: &'a [Chunk],
    pub(super) right: &'a [Chunk],
    pub(super) stride: usize,
    /// Records.
    pub(super) count: usize,
    /// Row-major.
    pub(super) sum: &'a mut [i64],
    pub(super) columns: usize,
}

impl Kernel for AddTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let panels = self.columns.div_ceil(LANES);
        let mut q = 0;
        while q + WIDE <= panels {
            self.columns_of::<L, WIDE>(lanes, q);
            q += WIDE;
        }
        match panels - q {
            2 => self.columns_of::<L, 2>(lanes, q),
            1 => self.columns_of::<L, 1>(lanes, q),
            _ => {}
        }
    }
}

impl AddTiles<'_> {
    /// The J panels of right factors from `q` on, with all left ones.
    #[inline(always)]
    fn columns_of<L: Lanes, const J: usize>(&mut self, lanes: L, q: usize) {
        let right: [&[Chunk]; J] =
            std::array::from_fn(|j| &self.right[(q + j) * self.stride..][..self.count]);
        let rows = self.sum.len().checked_div(self.columns).unwrap_or(0);
        for p in 0..rows.div_ceil(LANES) {
            let left = &self.left[p * self.stride..][..self.count];
            let tile = tile(lanes, left, right);
            for (i, tile) in tile.iter().enumerate().take(rows - p * LANES) {
                let row = &mut self.sum[(p * LANES + i) * self.columns..][..self.columns];
                for (j, words) in tile.iter().enumerate() {
                    let place = &mut row[(q + j) * LANES..];
                    for (sum, bits) in place.iter_mut().zip(words) {
                        *sum = sum.wrapping_add(bits.wrapping_sub(MAGIC.to_bits()) as i64);
                    }
                }
            }
        }
    }
}

/// The bits of [`MAGIC`] plus the sums over records of products of 8 left with 8 J right entries. Every partial
/// sum is an integer below 2^51, so nothing is rounded, fused or not.
#[inline(always)]
fn tile<L: Lanes, const J: usize>(
    lanes: L,
    left: &[Chunk],
    right: [&[Chunk]; J],
) -> [[[u64; LANES]; J]; LANES] {
    // One by one, not in a loop over an array: they have to stay in registers.
    let [mut s0, mut s1, mut s2, mut s3] = [[lanes.splat(MAGIC); J]; 4];
    let [mut s4, mut s5, mut s6, mut s7] = [[lanes.splat(MAGIC); J]; 4];
    let count = right.iter().fold(left.len(), |count, r| count.min(r.len()));
    let right = right.map(|right| &right[..count]);
    for (r, left) in left[..count].iter().enumerate() {
        let mut columns = [lanes.splat(0.0); J];
        for j in 0..J {
            columns[j] = lanes.doubles(&right[j][r]);
        }
        s0 = lanes.add_multiples(left[0], columns, s0);
        s1 = lanes.add_multiples(left[1], columns, s1);
        s2 = lanes.add_multiples(left[2], columns, s2);
        s3 = lanes.add_multiples(left[3], columns, s3);
        s4 = lanes.add_multiples(left[4], columns, s4);
        s5 = lanes.add_multiples(left[5], columns, s5);
        s6 = lanes.add_multiples(left[6], columns, s6);
        s7 = lanes.add_multiples(left[7], columns, s7);
    }
    let mut bits = [[[0; LANES]; J]; LANES];
    for (bits, sums) in bits.iter_mut().zip([s0, s1, s2, s3, s4, s5, s6, s7]) {
        for j in 0..J {
            bits[j] = lanes.to_doubles(sums[j]).map(f64::to_bits);
        }
    }
    bits
}
