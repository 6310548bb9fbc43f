//! The pass of a loss of inner products: one read of the rows, in blocks that fit in the cache.
//!
//! For each block: inner products with one point or two, a multiple for each row, the scaled rows
//! onto the lattice, while the memory is asked for the block that follows. What a row adds depends on
//! that row alone: the kernels compute each row's products in an order of its own.

use dpopt_linalg::{Ahead, Entries, Entry, Row, row_products, sparse_products};
use dpopt_privacy::{LatticeSum, RowBound, SparseRow};

use crate::positions::Positions;
use crate::records::{Examples, Records};

/// Bytes in a block of rows. Tuned: two blocks, the points and the sum share the innermost cache.
const BLOCK_BYTES: usize = 8 << 10;
/// Rows that the kernels take together.
const GROUP: usize = 8;
/// Most rows in a block.
const MAX_BLOCK_ROWS: usize = 256;

/// What the multiples of a block of rows are computed from.
pub(crate) struct Block<'a, const K: usize> {
    /// The inner products of each row with each of the points.
    pub(crate) products: [&'a mut [f64]; K],
    /// The labels.
    pub(crate) labels: &'a [f64],
    /// An upper bound on the norm of each row.
    pub(crate) norms: &'a [f64],
    /// To be filled: the multiple of each row that it contributes.
    pub(crate) multiples: &'a mut [f64],
}

/// Adds a multiple of each row to `sum`.
pub(crate) fn linear_pass<const K: usize>(
    examples: &Examples,
    positions: &Positions<'_>,
    points: [&[f64]; K],
    sum: &mut LatticeSum,
    multiples: impl Fn(Block<'_, K>),
) {
    if examples.is_empty() {
        return;
    }
    let pass = Pass {
        examples,
        positions,
        points,
        multiples,
    };
    match examples.design().entries() {
        Entries::Doubles(all) => pass.dense(sum, all, &[]),
        Entries::Singles(all) => pass.dense(sum, all, &[]),
        Entries::Bytes(all, factors) => pass.dense(sum, all, factors),
        Entries::Sparse => pass.sparse(sum),
    }
}

struct Pass<'a, const K: usize, F> {
    examples: &'a Examples,
    positions: &'a Positions<'a>,
    points: [&'a [f64]; K],
    multiples: F,
}

impl<const K: usize, F: Fn(Block<'_, K>)> Pass<'_, K, F> {
    fn block_rows(&self, row_bytes: usize) -> usize {
        // A multiple of the rows that the kernels take together.
        (BLOCK_BYTES / row_bytes.max(1) / GROUP * GROUP).clamp(GROUP, MAX_BLOCK_ROWS)
    }

    /// Dense rows, each with a factor unless there are none.
    fn dense<T: Entry>(&self, sum: &mut LatticeSum, all: &[T], factors: &[f32]) {
        let columns = self.examples.columns();
        let step = self.block_rows(size_of::<T>() * columns);
        let mut blocks = self.positions.blocks(step);
        let mut rows: Vec<&[T]> = Vec::with_capacity(step);
        let mut next: Vec<&[T]> = Vec::with_capacity(step);
        let mut scratch = Scratch::new(step);
        let mut current = blocks.next();
        gather(all, columns, current.as_ref(), &mut rows);
        while let Some(block) = current {
            current = blocks.next();
            gather(all, columns, current.as_ref(), &mut next);
            let mut ahead = Ahead::new(&next);
            if !factors.is_empty() {
                block.copy(factors, &mut scratch.factors, f64::from);
            }
            scratch.load(self.examples, &block);
            let count = rows.len();
            row_products(&rows, self.points, scratch.products(count), &mut ahead);
            scratch.scale_products(count);
            (self.multiples)(scratch.block(count));
            scratch.scale_multiples();
            sum.add_rows(&rows, &scratch.multiples[..count], &scratch.bounds, || {
                ahead.step();
            });
            std::mem::swap(&mut rows, &mut next);
        }
    }

    /// Sparse rows, with entries or with one entry for all columns.
    fn sparse(&self, sum: &mut LatticeSum) {
        let design = self.examples.design();
        let ones = vec![1.0f32; self.examples.columns()];
        let mut scratch = Scratch::new(MAX_BLOCK_ROWS);
        let mut rows: Vec<SparseRow<'_>> = Vec::with_capacity(MAX_BLOCK_ROWS);
        for block in self.positions.blocks(MAX_BLOCK_ROWS) {
            rows.clear();
            scratch.factors.clear();
            rows.extend(block.iter().map(|i| match design.row(i) {
                Row::Sparse(columns, values) => (columns, values),
                Row::OneHot(columns, value) => {
                    scratch.factors.push(f64::from(value));
                    (columns, &ones[..columns.len().min(ones.len())])
                }
                _ => (&[][..], &[][..]),
            }));
            scratch.load(self.examples, &block);
            let count = rows.len();
            let products = scratch.products(count);
            for (i, (columns, values)) in rows.iter().enumerate() {
                let found = sparse_products(columns, values, self.points);
                for k in 0..K {
                    products[k][i] = found[k];
                }
            }
            scratch.scale_products(count);
            (self.multiples)(scratch.block(count));
            scratch.scale_multiples();
            sum.add_sparse_rows(&rows, &scratch.multiples[..count], &scratch.bounds);
        }
    }
}

/// The rows at the positions of a block; none for no block.
fn gather<'r, T>(
    all: &'r [T],
    columns: usize,
    block: Option<&Positions<'_>>,
    rows: &mut Vec<&'r [T]>,
) {
    rows.clear();
    match block {
        Some(Positions::Range(range)) => {
            let span = &all[range.start * columns..range.end * columns];
            rows.extend(span.chunks_exact(columns));
        }
        Some(Positions::Listed(list)) => {
            rows.extend(
                list.iter()
                    .map(|&i| &all[i as usize * columns..][..columns]),
            );
        }
        None => {}
    }
}

/// Buffers of one block.
struct Scratch<const K: usize> {
    products: [Vec<f64>; K],
    multiples: Vec<f64>,
    labels: Vec<f64>,
    norms: Vec<f64>,
    /// What each stored entry is multiplied by; empty when that is 1 for all rows.
    factors: Vec<f64>,
    bounds: Vec<RowBound>,
}

impl<const K: usize> Scratch<K> {
    fn new(rows: usize) -> Self {
        Self {
            products: std::array::from_fn(|_| vec![0.0; rows]),
            multiples: vec![0.0; rows],
            labels: Vec::with_capacity(rows),
            norms: Vec::with_capacity(rows),
            factors: Vec::with_capacity(rows),
            bounds: Vec::with_capacity(rows),
        }
    }

    /// Labels, bounds and norms of a block; after the factors.
    fn load(&mut self, examples: &Examples, block: &Positions<'_>) {
        block.copy(examples.labels(), &mut self.labels, f64::from);
        block.copy(examples.bounds(), &mut self.bounds, |bound| bound);
        self.norms.clear();
        self.norms
            .extend(self.bounds.iter().map(|bound| bound.norm()));
        for (norm, factor) in self.norms.iter_mut().zip(&self.factors) {
            // An erased row has factor 0, and a bound that may be anything.
            *norm = if *factor == 0.0 {
                0.0
            } else {
                *norm * factor.abs() * (1.0 + 2.0 * f64::EPSILON)
            };
        }
    }

    fn products(&mut self, count: usize) -> [&mut [f64]; K] {
        self.products.each_mut().map(|all| &mut all[..count])
    }

    /// From products with stored entries to those with the entries that they stand for.
    fn scale_products(&mut self, count: usize) {
        if self.factors.is_empty() {
            return;
        }
        for products in &mut self.products {
            for (product, factor) in products[..count].iter_mut().zip(&self.factors) {
                *product = if *factor == 0.0 {
                    0.0
                } else {
                    *product * factor
                };
            }
        }
    }

    fn block(&mut self, count: usize) -> Block<'_, K> {
        Block {
            products: self.products.each_mut().map(|all| &mut all[..count]),
            labels: &self.labels,
            norms: &self.norms,
            multiples: &mut self.multiples[..count],
        }
    }

    /// From multiples of rows to multiples of what is stored of them.
    fn scale_multiples(&mut self) {
        for (multiple, factor) in self.multiples.iter_mut().zip(&self.factors) {
            *multiple = if *factor == 0.0 {
                0.0
            } else {
                *multiple * factor
            };
        }
    }
}
