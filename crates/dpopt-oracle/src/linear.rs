//! The pass of a loss of inner products: one read of the rows, in blocks that fit in the cache.
//!
//! For each block: inner products with one point or two, a multiple for each row, the scaled rows
//! onto the lattice, while the memory is asked for the block that follows. What a row adds depends on
//! that row alone: the kernels compute each row's products in an order of its own.

use dpopt_linalg::{Ahead, Entry, Row, row_products, sparse_products};
use dpopt_privacy::{LatticeSum, RowBound, RowEntry, SparseRow};

use crate::pass::Positions;
use crate::records::{Examples, Records};

/// Bytes in a block of rows. Tuned: two blocks, the points and the sum share the innermost cache.
const BLOCK_BYTES: usize = 8 << 10;
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
    match examples.design().row(0) {
        Row::Dense(_) => pass.dense(sum, |row| match row {
            Row::Dense(x) => (x, 1.0),
            _ => (&[][..], 1.0),
        }),
        Row::Dense32(_) => pass.dense(sum, |row| match row {
            Row::Dense32(x) => (x, 1.0),
            _ => (&[][..], 1.0),
        }),
        Row::Bytes(..) => pass.dense(sum, |row| match row {
            Row::Bytes(x, factor) => (x, f64::from(factor)),
            _ => (&[][..], 1.0),
        }),
        Row::Sparse(..) | Row::OneHot(..) => pass.sparse(sum),
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
        // A multiple of the four rows that the kernels take together.
        (BLOCK_BYTES / row_bytes.max(1) / 4 * 4).clamp(4, MAX_BLOCK_ROWS)
    }

    /// Dense rows, each with a factor.
    fn dense<'r, T: Entry + RowEntry + 'r>(
        &'r self,
        sum: &mut LatticeSum,
        entries: impl Fn(Row<'r>) -> (&'r [T], f64),
    ) {
        let step = self.block_rows(size_of::<T>() * self.examples.columns());
        let mut blocks = self.positions.blocks(step);
        let mut rows: Vec<&[T]> = Vec::with_capacity(step);
        let mut next: Vec<&[T]> = Vec::with_capacity(step);
        let mut scratch = Scratch::new(step);
        let design = self.examples.design();
        let gather = |block: &Positions<'_>, rows: &mut Vec<&'r [T]>| {
            rows.clear();
            rows.extend(block.iter().map(|i| entries(design.row(i)).0));
        };
        let mut current = blocks.next();
        if let Some(block) = &current {
            gather(block, &mut rows);
        }
        while let Some(block) = current {
            current = blocks.next();
            next.clear();
            if let Some(block) = &current {
                gather(block, &mut next);
            }
            let mut ahead = Ahead::new(&next);
            scratch.load(self.examples, &block, |row| entries(row).1);
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
        let split = |row: Row<'_>| match row {
            Row::OneHot(_, value) => f64::from(value),
            _ => 1.0,
        };
        let mut scratch = Scratch::new(MAX_BLOCK_ROWS);
        let mut rows: Vec<SparseRow<'_>> = Vec::with_capacity(MAX_BLOCK_ROWS);
        for block in self.positions.blocks(MAX_BLOCK_ROWS) {
            rows.clear();
            rows.extend(block.iter().map(|i| match design.row(i) {
                Row::Sparse(columns, values) => (columns, values),
                Row::OneHot(columns, _) => (columns, &ones[..columns.len().min(ones.len())]),
                _ => (&[][..], &[][..]),
            }));
            scratch.load(self.examples, &block, split);
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

    fn load<'r>(
        &mut self,
        examples: &'r Examples,
        block: &Positions<'_>,
        factor: impl Fn(Row<'r>) -> f64,
    ) {
        self.labels.clear();
        self.norms.clear();
        self.bounds.clear();
        self.factors.clear();
        let factored = matches!(examples.design().row(0), Row::Bytes(..) | Row::OneHot(..));
        for i in block.iter() {
            let bound = examples.bound(i);
            self.labels.push(f64::from(examples.labels()[i]));
            self.bounds.push(bound);
            if factored {
                let factor = factor(examples.design().row(i));
                self.factors.push(factor);
                // An erased row has factor 0, and a bound that may be anything.
                let norm = if factor == 0.0 {
                    0.0
                } else {
                    bound.norm() * factor.abs() * (1.0 + 2.0 * f64::EPSILON)
                };
                self.norms.push(norm);
            } else {
                self.norms.push(bound.norm());
            }
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
