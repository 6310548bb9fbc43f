//! Sums of clipped outer products: the gradients of layered models, never formed for one record.
//!
//! A record's contribution is a row of matrices, each an outer product of two vectors. Both vectors are rounded to
//! integers, short enough that a product of matrices in `f64` adds up many records' outer products without any
//! rounding. The norm that is clipped is the norm of these integers, checked exactly. The argument is in
//! `docs/privacy/sums.md`.

mod block;
mod scale;
mod singles;
mod tiles;

pub use block::{BlockFactors, BlockWork};

use scale::{Measured, Scales};
use tiles::{AddTiles, Chunk, Measure, Round};

use super::{Bound, LatticeSum};
use dpopt_lanes::{LANES, dispatch};

/// Records that are added by one product of matrices. Tuned: two panels of this many rows share the innermost cache.
/// Exactness would allow 2^21.
const BLOCK: usize = 128;

/// The two factors of one matrix of the contributions of some records.
///
/// # Formula
/// Record r contributes `left[r] right[r]^T`, with m rows and n columns.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a> {
    /// One vector of `left_len` entries per record, one after another.
    pub left: &'a [f64],
    /// m.
    pub left_len: usize,
    /// One vector of `right_len` entries per record, one after another.
    pub right: &'a [f64],
    /// n.
    pub right_len: usize,
}

/// Buffers that [`LatticeSum::add_outer_products`] works in, to be used again. They hold integers made from private
/// records and can't be read.
#[derive(Default)]
pub struct OuterWork {
    layers: Vec<Panels>,
    measured: Vec<[Measured; 2]>,
    scales: Vec<[f64; 2]>,
}

/// The rounded factors of one layer: `panels[p * BLOCK + r]` has entries 8 p to 8 p + 7 of record r.
#[derive(Default)]
struct Panels {
    left: Vec<Chunk>,
    right: Vec<Chunk>,
}

impl LatticeSum {
    /// Adds, for each of `records` records, the clipped row of matrices that its factors give.
    ///
    /// # Formula
    /// The contribution is V = (left_1 right_1^T, ..., left_L right_L^T), row-major, one matrix after another. With g
    /// its norm, cut to the radius C less the slack below, both factors of each matrix are scaled so that their norms
    /// are as sqrt(m) to sqrt(n) and their product is that of the matrix in lattice steps, and rounded to integers.
    /// What is added differs from the clipped V by at most sqrt(g step) d^(1/4) + sqrt(d) step / 4. The slack,
    /// relative to C, is at most d^(1/4) 2^-14.5.
    ///
    /// # Privacy
    /// Each record is one contribution of norm at most the radius, whatever the factors hold: the norm of its integers
    /// is computed exactly and compared. It depends on the record's own factors and the bound alone, and the
    /// sum is exact: neither order, nor grouping, nor threads matter. A record with a factor that is not finite adds
    /// zero, and counts all the same. The caller's duty is that one record's data are in one row of each factor.
    ///
    /// # Shapes
    /// `layers[l].left`: (records, m), `right`: (records, n); the products m n sum to d.
    ///
    /// # Panics
    /// When shapes don't fit, which doesn't depend on what factors hold.
    pub fn add_outer_products(
        &mut self,
        records: usize,
        layers: &[Factors<'_>],
        work: &mut OuterWork,
    ) {
        let dim: usize = layers.iter().map(|f| f.left_len * f.right_len).sum();
        assert!(dim == self.bound.dim, "the matrices must fill the sum");
        assert!(
            layers.iter().all(|f| {
                f.left.len() == records * f.left_len && f.right.len() == records * f.right_len
            }),
            "one row of each factor per record"
        );
        let room = self.take_room(records);
        work.prepare(layers);
        for start in (0..room).step_by(BLOCK) {
            let count = (room - start).min(BLOCK);
            for r in 0..count {
                work.load((&self.bound, self.weight), layers, start + r, r);
            }
            let mut offset = 0;
            for (factors, panels) in layers.iter().zip(&work.layers) {
                let (m, n) = (factors.left_len, factors.right_len);
                dispatch(AddTiles {
                    left: &panels.left,
                    right: &panels.right,
                    stride: BLOCK,
                    count,
                    sum: &mut self.sum[offset..][..m * n],
                    columns: n,
                });
                offset += m * n;
            }
        }
    }
}

impl OuterWork {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn prepare(&mut self, layers: &[Factors<'_>]) {
        self.layers.resize_with(layers.len(), Panels::default);
        for (factors, panels) in layers.iter().zip(&mut self.layers) {
            let zero = [0.0; LANES];
            let length = |entries: usize| entries.div_ceil(LANES) * BLOCK;
            panels.left.resize(length(factors.left_len), zero);
            panels.right.resize(length(factors.right_len), zero);
        }
    }

    /// Puts the rounded factors of `record` at place `r` of the panels; zeros where it adds nothing.
    fn load(
        &mut self,
        (bound, weight): (&Bound, f64),
        layers: &[Factors<'_>],
        record: usize,
        r: usize,
    ) {
        if self.scales((bound, weight), layers, record) {
            // Exact, or at least 2^53.
            let mut squares = 0u128;
            let found = self.measured.iter().zip(&self.scales);
            let all = layers.iter().zip(&mut self.layers).zip(found);
            for ((factors, panels), (measured, scales)) in all {
                let left = row(factors.left, factors.left_len, record);
                let right = row(factors.right, factors.right_len, record);
                let left = round(left, measured[0], scales[0], &mut panels.left[r..]);
                let right = round(right, measured[1], scales[1], &mut panels.right[r..]);
                squares = squares.saturating_add(product(left, right));
            }
            let radius = (bound.radius / bound.step) as u128;
            if squares <= radius * radius {
                return;
            }
        }
        for (factors, panels) in layers.iter().zip(&mut self.layers) {
            erase(&mut panels.left, factors.left_len, r);
            erase(&mut panels.right, factors.right_len, r);
        }
    }

    /// Finds the scales of one record's factors; false where it adds nothing.
    fn scales(
        &mut self,
        (bound, weight): (&Bound, f64),
        layers: &[Factors<'_>],
        record: usize,
    ) -> bool {
        self.measured.clear();
        for factors in layers {
            let (Some(left), Some(right)) = (
                measure(row(factors.left, factors.left_len, record)),
                measure(row(factors.right, factors.right_len, record)),
            ) else {
                return false;
            };
            self.measured.push([left, right]);
        }
        let scales = Scales::new(bound, weight, &self.measured);
        let Some(scales) = scales else { return false };
        self.scales.clear();
        for (factors, measured) in layers.iter().zip(&self.measured) {
            let aspect = factors.left_len as f64 / factors.right_len as f64;
            self.scales.push(scales.of(measured, aspect));
        }
        true
    }
}

fn row(all: &[f64], len: usize, record: usize) -> &[f64] {
    &all[record * len..][..len]
}

fn measure(row: &[f64]) -> Option<Measured> {
    let mut out = None;
    dispatch(Measure { row, out: &mut out });
    out
}

/// Rounds a factor into its place in the panels; the sum of the squares of its integers, exact if below 2^53.
fn round(row: &[f64], measured: Measured, scale: f64, panels: &mut [Chunk]) -> f64 {
    let mut squares = f64::INFINITY;
    dispatch(Round {
        row,
        shrink: measured.shrink(),
        scale,
        panels,
        stride: BLOCK,
        squares: &mut squares,
    });
    squares
}

fn erase(panels: &mut [Chunk], len: usize, r: usize) {
    for p in 0..len.div_ceil(LANES) {
        panels[p * BLOCK + r] = [0.0; LANES];
    }
}

/// The product of two sums of squares; too large for any radius where one of them may not be exact.
fn product(left: f64, right: f64) -> u128 {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if left < EXACT && right < EXACT {
        u128::from(left as u64) * u128::from(right as u64)
    } else {
        u128::MAX
    }
}

#[cfg(test)]
mod tests;
