//! The kernels in single precision: norms of factors, their scaling, and the product of two matrices.

use dpopt_lanes::{Kernel, LANES, Lanes, SINGLES};

use super::super::MAGIC;

/// Sixteen entries of one record's factor.
pub(super) type Single = [f32; SINGLES];

/// Vectors of columns of a tile where there are registers for it. Tuned: with eight rows 24 sums and what is added to them fill
/// the 32 registers of AVX-512. With fewer a tile has one vector of columns, and five or six rows.
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
        let rows = self.sum.len().checked_div(self.columns).unwrap_or(0);
        let panels = self.columns.div_ceil(SINGLES);
        // The left panel, and the rows of the sum that it has a part in, stay in the innermost cache.
        for first in (0..rows).step_by(SINGLES) {
            let mut q = 0;
            while L::REGISTERS >= 32 && q + WIDE <= panels {
                self.tiles::<L, WIDE>(lanes, first, q);
                q += WIDE;
            }
            while L::REGISTERS >= 32 && q + 2 <= panels {
                self.tiles::<L, 2>(lanes, first, q);
                q += 2;
            }
            while q < panels {
                self.tiles::<L, 1>(lanes, first, q);
                q += 1;
            }
        }
    }
}

impl AddProducts<'_> {
    /// The sixteen rows from `first` on, and J panels of columns from `q` on.
    #[inline(always)]
    fn tiles<L: Lanes, const J: usize>(&mut self, lanes: L, first: usize, q: usize) {
        if L::REGISTERS >= 32 {
            self.tile::<L, J, 0, 8>(lanes, first, q);
            self.tile::<L, J, 8, 8>(lanes, first, q);
        } else {
            self.tile::<L, J, 0, 6>(lanes, first, q);
            self.tile::<L, J, 6, 5>(lanes, first, q);
            self.tile::<L, J, 11, 5>(lanes, first, q);
        }
    }

    /// T of these rows, from entry FROM of their panel on.
    #[inline(always)]
    fn tile<L: Lanes, const J: usize, const FROM: usize, const T: usize>(
        &mut self,
        lanes: L,
        first: usize,
        q: usize,
    ) {
        let Some(some) = (self.sum.len() / self.columns).checked_sub(first + FROM) else {
            return;
        };
        let right: [&[Single]; J] =
            std::array::from_fn(|j| &self.right[(q + j) * self.places..][..self.count]);
        let left = &self.left[first / SINGLES * self.places..][..self.count];
        let tile = products::<L, J, FROM, T>(lanes, left, right);
        for (i, tile) in tile.iter().enumerate().take(some) {
            let row = &mut self.sum[(first + FROM + i) * self.columns..][..self.columns];
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

/// The sums over records of products of T left with 16 J right entries, one record after another.
#[inline(always)]
fn products<L: Lanes, const J: usize, const FROM: usize, const T: usize>(
    lanes: L,
    left: &[Single],
    right: [&[Single]; J],
) -> [[L::Singles; J]; T] {
    let mut sums = [[lanes.splat_single(0.0); J]; T];
    let count = right.iter().fold(left.len(), |count, r| count.min(r.len()));
    let right = right.map(|right| &right[..count]);
    for (r, left) in left[..count].iter().enumerate() {
        let mut columns = [lanes.splat_single(0.0); J];
        for j in 0..J {
            columns[j] = lanes.load_singles(&right[j][r]);
        }
        for t in 0..T {
            sums[t] = lanes.add_single_multiples(left[FROM + t], columns, sums[t]);
        }
    }
    sums
}
