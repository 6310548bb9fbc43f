//! The kernels in single precision: norms of factors, their scaling, and the product of two matrices.

use dpopt_lanes::{Kernel, LANES, Lanes, SINGLES};

use super::super::MAGIC;

/// Sixteen entries of one record's factor.
pub(super) type Single = [f32; SINGLES];

/// Rows of the product that one tile has.
const TALL: usize = 8;
/// Vectors of columns of a tile. Tuned: 24 sums and what is added to them fill the 32 registers of AVX-512.
const WIDE: usize = 3;

/// Squared norms of the factors of some records.
pub(super) struct Squares<'a> {
    pub(super) panels: &'a [Single],
    pub(super) places: usize,
    /// One for each record.
    pub(super) out: &'a mut [f64],
}

impl Kernel for Squares<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        self.out.fill(0.0);
        let records = self.out.len();
        // Records by eights: their sums stay in registers from panel to panel.
        for first in (0..records).step_by(LANES) {
            let some = LANES.min(records - first);
            let mut sums = [[lanes.splat(0.0); 2]; LANES];
            for panel in self.panels.chunks(self.places.max(1)) {
                for (sums, chunk) in sums.iter_mut().zip(&panel[first..][..some]) {
                    let (halves, _) = chunk.as_chunks::<LANES>();
                    for (sum, half) in sums.iter_mut().zip(halves) {
                        let x = lanes.singles(half);
                        *sum = lanes.mul_add(x, x, *sum);
                    }
                }
            }
            for (out, sums) in self.out[first..][..some].iter_mut().zip(sums) {
                let [a, b] = sums.map(|sum| lanes.to_doubles(sum).iter().sum::<f64>());
                *out = a + b;
            }
        }
    }
}

/// Inner products of two rows of panels, for each of some records.
pub(super) struct Crossed<'a> {
    pub(super) panels: &'a [Single],
    pub(super) places: usize,
    /// Where the rows of the first record are.
    pub(super) starts: [usize; 2],
    /// One for each record.
    pub(super) out: &'a mut [f64],
}

impl Kernel for Crossed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let [first, second] = self.starts;
        for (r, out) in self.out.iter_mut().enumerate() {
            let mut sum = lanes.splat(0.0);
            for panel in self.panels.chunks(self.places.max(1)) {
                let (one, _) = panel[first + r].as_chunks::<LANES>();
                let (other, _) = panel[second + r].as_chunks::<LANES>();
                for (one, other) in one.iter().zip(other) {
                    sum = lanes.mul_add(lanes.singles(one), lanes.singles(other), sum);
                }
            }
            *out = lanes.to_doubles(sum).iter().sum();
        }
    }
}

/// Adds the product of two matrices, transposed left times right, rounded to integers, to a sum of integers.
pub(super) struct AddProducts<'a> {
    /// Panel p, sixteen columns wide, starts at `p * places` and has a chunk for each record.
    pub(super) left: &'a [Single],
    pub(super) right: &'a [Single],
    pub(super) places: usize,
    /// Records.
    pub(super) count: usize,
    /// Row-major.
    pub(super) sum: &'a mut [i64],
    pub(super) columns: usize,
}

impl Kernel for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let panels = self.columns.div_ceil(SINGLES);
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

impl AddProducts<'_> {
    /// The J panels of right factors from `q` on, with all left ones.
    #[inline(always)]
    fn columns_of<L: Lanes, const J: usize>(&mut self, lanes: L, q: usize) {
        let right: [&[Single]; J] =
            std::array::from_fn(|j| &self.right[(q + j) * self.places..][..self.count]);
        let rows = self.sum.len().checked_div(self.columns).unwrap_or(0);
        for first in (0..rows).step_by(TALL) {
            let left = &self.left[first / SINGLES * self.places..][..self.count];
            let tile = if first.is_multiple_of(SINGLES) {
                tile::<L, J, 0>(lanes, left, right)
            } else {
                tile::<L, J, TALL>(lanes, left, right)
            };
            for (i, tile) in tile.iter().enumerate().take(rows - first) {
                let row = &mut self.sum[(first + i) * self.columns..][..self.columns];
                for (j, &singles) in tile.iter().enumerate() {
                    let singles = lanes.to_singles(singles);
                    let place = &mut row[(q + j) * SINGLES..];
                    if let Some(whole) = place.first_chunk_mut::<SINGLES>() {
                        add(lanes, whole, &singles);
                    } else {
                        let mut all = [0; SINGLES];
                        add(lanes, &mut all, &singles);
                        for (sum, k) in place.iter_mut().zip(all) {
                            *sum += k;
                        }
                    }
                }
            }
        }
    }
}

/// Adds the nearest integers. A double holds a single exactly, so the sum with [`MAGIC`] is the only rounding.
#[inline(always)]
fn add<L: Lanes>(lanes: L, sum: &mut [i64; SINGLES], singles: &Single) {
    let one = lanes.splat(1.0);
    let magic = lanes.splat(MAGIC);
    let less = lanes.words(&[0i64.wrapping_sub(MAGIC.to_bits() as i64); LANES]);
    let (halves, _) = singles.as_chunks::<LANES>();
    for (sum, half) in sum.as_chunks_mut::<LANES>().0.iter_mut().zip(halves) {
        let rounded = lanes.bits(lanes.mul_add(lanes.singles(half), one, magic));
        let total = lanes.add(lanes.add(lanes.words(sum), less), rounded);
        *sum = lanes.to_words(total);
    }
}

/// The sums over records of products of 8 left with 16 J right entries, one record after another.
#[inline(always)]
fn tile<L: Lanes, const J: usize, const FIRST: usize>(
    lanes: L,
    left: &[Single],
    right: [&[Single]; J],
) -> [[L::Singles; J]; TALL] {
    // One by one, not in a loop over an array: they have to stay in registers.
    let [mut s0, mut s1, mut s2, mut s3] = [[lanes.splat_single(0.0); J]; 4];
    let [mut s4, mut s5, mut s6, mut s7] = [[lanes.splat_single(0.0); J]; 4];
    let count = right.iter().fold(left.len(), |count, r| count.min(r.len()));
    let right = right.map(|right| &right[..count]);
    for (r, left) in left[..count].iter().enumerate() {
        let mut columns = [lanes.splat_single(0.0); J];
        for j in 0..J {
            columns[j] = lanes.load_singles(&right[j][r]);
        }
        s0 = lanes.add_single_multiples(left[FIRST], columns, s0);
        s1 = lanes.add_single_multiples(left[FIRST + 1], columns, s1);
        s2 = lanes.add_single_multiples(left[FIRST + 2], columns, s2);
        s3 = lanes.add_single_multiples(left[FIRST + 3], columns, s3);
        s4 = lanes.add_single_multiples(left[FIRST + 4], columns, s4);
        s5 = lanes.add_single_multiples(left[FIRST + 5], columns, s5);
        s6 = lanes.add_single_multiples(left[FIRST + 6], columns, s6);
        s7 = lanes.add_single_multiples(left[FIRST + 7], columns, s7);
    }
    [s0, s1, s2, s3, s4, s5, s6, s7]
}
