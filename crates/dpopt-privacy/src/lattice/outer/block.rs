//! Sums of clipped outer products in single precision, a block of fixed positions at a time.
//!
//! A floating-point sum may round differently when one of its terms changes, by no more than a bound that grows with
//! the number of terms. With few terms to a sum, and one sum at most that a record has a part in, this bound is a
//! small part of the radius, and contributions are cut by it. The proof is in `docs/privacy/sums.md`.

use std::ops::Range;

use super::super::{Bound, LatticeSum, MAGIC, pow2};
use super::singles::{AddProducts, Crossed, Squares};
use dpopt_lanes::{SINGLES, dispatch};

/// The factors of one matrix of the contributions of the records of a block, in single precision.
///
/// # Formula
/// Record r of `count` contributes sum_t `left[t count + r] right[t count + r]^T` over its terms t, with m rows and n columns.
///
/// # Shapes
/// Panel p of a factor starts at `p * places` and has a chunk for each term of each record: its entries 16 p to 16 p + 15, zeros
/// beyond the last.
pub struct BlockFactors<'a> {
    /// Panels of m entries per term. Erased where the record adds zero.
    pub left: &'a mut [[f32; SINGLES]],
    /// m.
    pub left_len: usize,
    /// Panels of n entries per term. Left scaled and clipped, in lattice steps.
    pub right: &'a mut [[f32; SINGLES]],
    /// n.
    pub right_len: usize,
    /// Chunks in a panel: at least as many as there are terms of all records.
    pub places: usize,
    /// Outer products of a record: from 1 to 4.
    pub terms: usize,
}

/// The most terms of a record.
const TERMS: usize = 4;
/// How much longer the terms of a record may be, one by one, than the whole that is left of them. Tuned: rounding errors grow with it, and
/// so does what contributions are cut by.
const CANCELLED: f64 = 2.0;

/// Buffers that [`LatticeSum::add_outer_block`] works in, to be used again. They hold norms of private records and
/// can't be read.
#[derive(Default)]
pub struct BlockWork {
    /// Squared norms of the two factors of each layer, one for each term of each record.
    squares: Vec<[Vec<f64>; 2]>,
    /// Of layers with more terms, the inner products of the factors of different terms, pair by pair.
    crossed: Vec<[Vec<f64>; 2]>,
    scales: Vec<f64>,
}

impl LatticeSum {
    /// Adds, for each of `count` records, the clipped row of matrices that its factors give; all of them from
    /// `positions` of the data, which lie in one block.
    ///
    /// # Formula
    /// The contribution is V = (left_1 right_1^T, ..., left_L right_L^T), row-major, one matrix after another, times the weight that the sum
    /// has ([`LatticeSum::times`]), and cut to
    /// the norm (C - sqrt(d) step) / (1 + 2^-23 k^2), with k = 160 for samples and 128 otherwise: 0.3 and 0.2 % below the
    /// radius. The contributions of the block are added in single precision, in order, and their sum is rounded to the lattice.
    ///
    /// Where a layer has t > 1 terms, its matrix is their sum and 2^-23 k^2 is 2^-22 k^2 t: 0.8 to 2.4 % for two to four. The root of the sum
    /// over layers of the squares of the terms' norms added up is cut to twice that limit too, which shortens records whose terms cancel by
    /// more than half.
    ///
    /// # Privacy
    /// One record more or less, or a record in the place of one of zero, moves the sum by at most the radius,
    /// whatever the factors hold; one in the place of another by at most twice that. The norm that is compared is an upper
    /// bound, computed in double precision, of the norm of the numbers that are multiplied. A record with a factor that is not finite
    /// adds zero and counts all the same. This holds under the adjacency of the sum's [`super::super::FixedBlocks`], and
    /// no curator of another one releases it. The caller's duties: one record's data are in its row of each factor
    /// only, and `count` and the order of the records are those of the records read among `positions`.
    ///
    /// # Panics
    /// When the sum was not made by [`LatticeSum::in_blocks`], when shapes don't fit, and when positions are not those
    /// of one block after the blocks before. None of these depends on what factors hold.
    pub fn add_outer_block(
        &mut self,
        positions: Range<u64>,
        count: usize,
        layers: &mut [BlockFactors<'_>],
        work: &mut BlockWork,
    ) {
        let dim: usize = layers.iter().map(|f| f.left_len * f.right_len).sum();
        assert!(dim == self.bound.dim, "the matrices must fill the sum");
        assert!(layers.iter().all(|f| f.fits(count)), "panels that fit");
        let terms = layers.iter().map(|f| f.terms).max().unwrap_or(1);
        assert!(
            count as u64 <= positions.end.saturating_sub(positions.start),
            "no more records than positions"
        );
        if count == 0 {
            return;
        }
        let Some(placed) = &mut self.placed else {
            panic!("a sum that is not in blocks");
        };
        placed.take(&positions);
        let most = placed.blocks.most();
        let room = self.take_room(count);
        let limit = limit(&self.bound, most, terms);
        work.clip(limit, (&self.bound, self.weight), count, layers);
        for r in room..count {
            layers
                .iter_mut()
                .for_each(|factors| factors.erase(r, count));
        }
        let mut offset = 0;
        for factors in layers {
            let (m, n) = (factors.left_len, factors.right_len);
            let sum = &mut self.sum[offset..][..m * n];
            offset += m * n;
            if count as u64 <= most {
                dispatch(AddProducts {
                    left: factors.left,
                    right: factors.right,
                    places: factors.places,
                    count: factors.terms * count,
                    sum,
                    columns: n,
                });
            } else {
                add_long(factors, factors.terms * count, sum);
            }
        }
    }
}

impl BlockFactors<'_> {
    fn fits(&self, count: usize) -> bool {
        let length = |entries: usize| entries.div_ceil(SINGLES) * self.places;
        (1..=TERMS).contains(&self.terms)
            && count * self.terms <= self.places
            && self.left.len() >= length(self.left_len)
            && self.right.len() >= length(self.right_len)
    }

    /// Makes the record's contribution zero, whatever it was.
    fn erase(&mut self, r: usize, count: usize) {
        for panels in [&mut *self.left, &mut *self.right] {
            for panel in panels.chunks_mut(self.places) {
                for chunk in panel.iter_mut().skip(r).step_by(count).take(self.terms) {
                    *chunk = [0.0; SINGLES];
                }
            }
        }
    }

    /// Squared norms of both factors of every term, and the inner products of those of different terms.
    fn measure(&self, count: usize, squares: &mut [Vec<f64>; 2], crossed: &mut [Vec<f64>; 2]) {
        let factors = [&*self.left, &*self.right];
        for (panels, (squares, crossed)) in factors.into_iter().zip(squares.iter_mut().zip(crossed))
        {
            squares.resize(self.terms * count, 0.0);
            dispatch(Squares {
                panels,
                places: self.places,
                out: squares,
            });
            crossed.resize(pairs(self.terms).count() * count, 0.0);
            for ((t, s), out) in pairs(self.terms).zip(crossed.chunks_exact_mut(count)) {
                dispatch(Crossed {
                    panels,
                    places: self.places,
                    starts: [t * count, s * count],
                    out,
                });
            }
        }
    }
}

impl BlockWork {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Scales the right factors so that every contribution, times the weight, is clipped to `limit`, in lattice steps.
    fn clip(
        &mut self,
        limit: f64,
        (bound, weight): (&Bound, f64),
        count: usize,
        layers: &mut [BlockFactors<'_>],
    ) {
        self.squares.resize_with(layers.len(), Default::default);
        self.crossed.resize_with(layers.len(), Default::default);
        self.measure(layers, count);
        let per_step = weight / bound.step;
        self.scales.clear();
        for r in 0..count {
            let norm = self.norm(layers, r, count);
            // Room for the rounding of the scaled factor.
            let reach = limit * (1.0 - pow2(-20));
            self.scales
                .push(if !(norm > 0.0 && norm.is_finite()) || weight.is_nan() {
                    0.0
                } else if norm * per_step.abs() <= reach {
                    per_step
                } else {
                    (reach / norm).copysign(weight)
                });
        }
        for factors in layers.iter_mut() {
            multiply_by(&self.scales, factors);
        }
        self.measure(layers, count);
        for r in 0..count {
            // What was not finite, or overflowed on the way, fails this.
            if !(self.scales[r] != 0.0 && self.norm(layers, r, count) <= limit) {
                for factors in &mut *layers {
                    factors.erase(r, count);
                }
            }
        }
    }

    fn measure(&mut self, layers: &[BlockFactors<'_>], count: usize) {
        let all = self.squares.iter_mut().zip(&mut self.crossed);
        for (factors, (squares, crossed)) in layers.iter().zip(all) {
            factors.measure(count, squares, crossed);
        }
    }

    /// At least the norm of a record's matrices, and at least half of the root of the sum of the squares of their terms' norms, added up for each
    /// matrix; not a number or infinite where a factor is not finite.
    ///
    /// Squares of singles are exact in double precision, and products of sums of them stay within its range, so only
    /// the additions, the product and the root round.
    fn norm(&self, layers: &[BlockFactors<'_>], r: usize, count: usize) -> f64 {
        let (mut total, mut apart) = (0.0, 0.0);
        let mut operations = 8.0 + layers.len() as f64;
        let mut several = false;
        let measured = self.squares.iter().zip(&self.crossed);
        for (([left, right], [left_crossed, right_crossed]), factors) in measured.zip(layers) {
            operations += (factors.left_len + factors.right_len) as f64 + 2.0 * SINGLES as f64;
            if factors.terms == 1 {
                total += left[r] * right[r];
                apart += left[r] * right[r];
                continue;
            }
            several = true;
            operations += (TERMS * TERMS) as f64;
            let mut lengths = 0.0;
            for at in (r..factors.terms * count).step_by(count) {
                let square = left[at] * right[at];
                total += square;
                lengths += square.sqrt();
            }
            apart += lengths * lengths;
            for at in (r..left_crossed.len()).step_by(count) {
                total += 2.0 * left_crossed[at] * right_crossed[at];
            }
        }
        let slack = 4.0 * f64::EPSILON * operations;
        if !several {
            return total.sqrt() * (1.0 + slack);
        }
        // The rounding of sums that cancel is small beside the terms, not beside what is left of them. Not `max`, which takes a number before
        // what is none.
        let whole = (total + slack * apart).max(0.0).sqrt() * (1.0 + slack);
        let terms = apart.sqrt() * (1.0 + slack) / CANCELLED;
        if total.is_nan() || terms > whole {
            terms
        } else {
            whole
        }
    }
}

/// Multiplies the right factor of every term of each record by its scale, rounding once to double and once to single precision.
fn multiply_by(scales: &[f64], factors: &mut BlockFactors<'_>) {
    for panel in factors.right.chunks_mut(factors.places.max(1)) {
        for term in panel.chunks_exact_mut(scales.len()).take(factors.terms) {
            for (chunk, &scale) in term.iter_mut().zip(scales) {
                for x in chunk {
                    *x = (f64::from(*x) * scale) as f32;
                }
            }
        }
    }
}

/// All pairs of different terms.
fn pairs(terms: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..terms).flat_map(|t| (0..t).map(move |s| (t, s)))
}

/// The largest norm G, in steps, of a contribution of t terms to sums of up to k of them:
/// G (1 + 2 k a gamma_(k t)) + sqrt(d) <= C / step, with gamma_k = k 2^-24 / (1 - k 2^-24), and the terms of a record adding up to at most a G: a
/// is 1 for one term.
fn limit(bound: &Bound, most: u64, terms: usize) -> f64 {
    let k = most as f64;
    let gamma = k * terms as f64 * pow2(-24) * (1.0 + pow2(-12));
    let apart = if terms == 1 { 1.0 } else { CANCELLED };
    let radius = bound.radius / bound.step - (bound.dim as f64).sqrt() - 2.0;
    radius / (1.0 + 2.0 * k * apart * gamma) * (1.0 - pow2(-40))
}

/// As [`AddProducts`], in double precision: for more records than single precision is good for.
#[cold]
fn add_long(factors: &BlockFactors<'_>, count: usize, sum: &mut [i64]) {
    let (n, places) = (factors.right_len, factors.places);
    let mut row = vec![0.0f64; n.next_multiple_of(SINGLES)];
    for (i, sum) in sum.chunks_exact_mut(n.max(1)).enumerate() {
        row.fill(0.0);
        let left = &factors.left[i / SINGLES * places..];
        for (q, row) in row.as_chunks_mut::<SINGLES>().0.iter_mut().enumerate() {
            let right = &factors.right[q * places..];
            for (left, right) in left[..count].iter().zip(&right[..count]) {
                let a = f64::from(left[i % SINGLES]);
                for (sum, &b) in row.iter_mut().zip(right) {
                    // Exact but for the addition.
                    *sum += a * f64::from(b);
                }
            }
        }
        for (sum, x) in sum.iter_mut().zip(&row) {
            *sum += (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i64;
        }
    }
}

#[cfg(test)]
mod tests;
