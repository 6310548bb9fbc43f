//! The pass of a loss of inner products: one read of the rows, in blocks that fit in the cache.
//!
//! For each block: inner products with one point or two (or with the weights of a layer of units), a multiple for each row (and
//! unit), the scaled rows onto the lattice, while the memory is asked for the block that follows. What a row adds depends on
//! that row alone: the kernels compute each row's products in an order of its own.

use dpopt_linalg::{
    Ahead, Entries, Entry, Row, UnitWeights, one_hot_products, row_products, sparse_products,
};
use dpopt_privacy::{LatticeSum, RowBound, SparseRow, Tails};

use crate::positions::Positions;
use crate::records::{Examples, Records};

/// Bytes in a block of rows. Tuned: where rows have 50 or 100 entries, a pass over blocks of 8 KiB takes a tenth longer; the points and the sum are in
/// the innermost cache beside one.
const BLOCK_BYTES: usize = 16 << 10;
/// Rows that the kernels take together.
const GROUP: usize = 8;
/// Most rows in a block.
const MAX_BLOCK_ROWS: usize = 256;

/// What the multiples of a block of rows are computed from. Of a layer, products and multiples are one for each unit, those of a
/// row beside each other.
pub(crate) struct Block<'a, const K: usize> {
    /// The inner products of each row with each of the points.
    pub(crate) products: [&'a mut [f64]; K],
    /// The labels.
    pub(crate) labels: &'a [f64],
    /// An upper bound on the norm of each row.
    pub(crate) norms: &'a [f64],
    /// To be filled: the multiple of each row that it contributes.
    pub(crate) multiples: &'a mut [f64],
    /// To be filled: the numbers behind each row, the first of all rows beside each other, then the second; they hold anything.
    pub(crate) tails: &'a mut [f64],
}

/// Vectors that rows are multiplied with, and what is added of each row.
pub(crate) trait Factors<const K: usize> {
    /// Whether what is added are multiples of rows.
    const OF_ROWS: bool = true;

    /// Products, and multiples, of a row.
    fn width(&self) -> usize;

    /// Numbers behind a row.
    fn tail(&self) -> usize {
        0
    }

    /// The products of dense rows.
    fn dense<T: Entry>(&self, rows: &[&[T]], out: [&mut [f64]; K], ahead: &mut Ahead<'_, T>);

    /// The products of sparse rows.
    fn sparse(&self, rows: &[SparseRow<'_>], out: [&mut [f64]; K]);

    /// Adds the multiples of dense rows.
    fn add_dense<T: Entry>(
        &self,
        sum: &mut LatticeSum,
        rows: &[&[T]],
        numbers: (&[f64], &[f64]),
        bounds: &[RowBound],
        ahead: &mut Ahead<'_, T>,
    );

    /// Adds the multiples of sparse rows.
    fn add_sparse(
        &self,
        sum: &mut LatticeSum,
        rows: &[SparseRow<'_>],
        numbers: (&[f64], &[f64]),
        bounds: &[RowBound],
    );

    /// The points, where these are no more than points: then rows of ones need no entries.
    fn points(&self) -> Option<[&[f64]; K]> {
        None
    }
}

/// Points: one product and one multiple for each row.
impl<const K: usize> Factors<K> for [&[f64]; K] {
    fn width(&self) -> usize {
        1
    }

    fn dense<T: Entry>(&self, rows: &[&[T]], out: [&mut [f64]; K], ahead: &mut Ahead<'_, T>) {
        row_products(rows, *self, out, ahead);
    }

    fn sparse(&self, rows: &[SparseRow<'_>], out: [&mut [f64]; K]) {
        for (i, (columns, values)) in rows.iter().enumerate() {
            let found = sparse_products(columns, values, *self);
            for k in 0..K {
                out[k][i] = found[k];
            }
        }
    }

    fn add_dense<T: Entry>(
        &self,
        sum: &mut LatticeSum,
        rows: &[&[T]],
        (multiples, _): (&[f64], &[f64]),
        bounds: &[RowBound],
        ahead: &mut Ahead<'_, T>,
    ) {
        sum.add_rows(rows, multiples, bounds, || ahead.step());
    }

    fn add_sparse(
        &self,
        sum: &mut LatticeSum,
        rows: &[SparseRow<'_>],
        (multiples, _): (&[f64], &[f64]),
        bounds: &[RowBound],
    ) {
        sum.add_sparse_rows(rows, multiples, bounds);
    }

    fn points(&self) -> Option<[&[f64]; K]> {
        Some(*self)
    }
}

/// A point of which the products alone are asked: what is added is a number of each row, in the place of its multiple.
pub(crate) struct Number<'a>(pub(crate) &'a [f64]);

impl<const K: usize> Factors<K> for [Number<'_>; K] {
    const OF_ROWS: bool = false;

    fn width(&self) -> usize {
        1
    }

    fn dense<T: Entry>(&self, rows: &[&[T]], out: [&mut [f64]; K], ahead: &mut Ahead<'_, T>) {
        row_products(rows, self.each_ref().map(|point| point.0), out, ahead);
    }

    fn sparse(&self, rows: &[SparseRow<'_>], out: [&mut [f64]; K]) {
        Factors::sparse(&self.each_ref().map(|point| point.0), rows, out);
    }

    fn add_dense<T: Entry>(
        &self,
        sum: &mut LatticeSum,
        rows: &[&[T]],
        (numbers, _): (&[f64], &[f64]),
        _: &[RowBound],
        _: &mut Ahead<'_, T>,
    ) {
        numbers[..rows.len()]
            .iter()
            .for_each(|x| sum.add_scaled(1.0, &[*x]));
    }

    fn add_sparse(
        &self,
        sum: &mut LatticeSum,
        rows: &[SparseRow<'_>],
        (numbers, _): (&[f64], &[f64]),
        _: &[RowBound],
    ) {
        numbers[..rows.len()]
            .iter()
            .for_each(|x| sum.add_scaled(1.0, &[*x]));
    }
}

/// Layers of as many units each: a product and a multiple for each unit.
impl<const K: usize> Factors<K> for [UnitWeights; K] {
    fn width(&self) -> usize {
        self.first().map_or(1, UnitWeights::units)
    }

    fn dense<T: Entry>(&self, rows: &[&[T]], out: [&mut [f64]; K], _: &mut Ahead<'_, T>) {
        for (weights, out) in self.iter().zip(out) {
            weights.products(rows, out);
        }
    }

    fn sparse(&self, rows: &[SparseRow<'_>], out: [&mut [f64]; K]) {
        for (weights, out) in self.iter().zip(out) {
            weights.sparse_products(rows, out);
        }
    }

    fn add_dense<T: Entry>(
        &self,
        sum: &mut LatticeSum,
        rows: &[&[T]],
        (multiples, _): (&[f64], &[f64]),
        bounds: &[RowBound],
        _: &mut Ahead<'_, T>,
    ) {
        sum.add_row_products(rows, multiples, self.width(), bounds);
    }

    fn add_sparse(
        &self,
        sum: &mut LatticeSum,
        rows: &[SparseRow<'_>],
        (multiples, _): (&[f64], &[f64]),
        bounds: &[RowBound],
    ) {
        sum.add_sparse_row_products(rows, multiples, self.width(), bounds);
    }
}

/// Layers as [`UnitWeights`] whose weights of a unit lie beside each other in the point.
pub(crate) struct Stacked(UnitWeights);

impl Stacked {
    /// # Shapes
    /// `point`: (k, p).
    pub(crate) fn new(units: usize, point: &[f64]) -> Self {
        Self(UnitWeights::transposed(units, point))
    }
}

impl<const K: usize> Factors<K> for [Stacked; K] {
    fn width(&self) -> usize {
        self.first().map_or(1, |weights| weights.0.units())
    }

    fn dense<T: Entry>(&self, rows: &[&[T]], out: [&mut [f64]; K], _: &mut Ahead<'_, T>) {
        for (weights, out) in self.iter().zip(out) {
            weights.0.products(rows, out);
        }
    }

    fn sparse(&self, rows: &[SparseRow<'_>], out: [&mut [f64]; K]) {
        for (weights, out) in self.iter().zip(out) {
            weights.0.sparse_products(rows, out);
        }
    }

    fn add_dense<T: Entry>(
        &self,
        sum: &mut LatticeSum,
        rows: &[&[T]],
        (multiples, _): (&[f64], &[f64]),
        bounds: &[RowBound],
        _: &mut Ahead<'_, T>,
    ) {
        sum.add_stacked_rows(rows, multiples, self.width(), bounds);
    }

    fn add_sparse(
        &self,
        sum: &mut LatticeSum,
        rows: &[SparseRow<'_>],
        (multiples, _): (&[f64], &[f64]),
        bounds: &[RowBound],
    ) {
        sum.add_sparse_stacked_rows(rows, multiples, self.width(), bounds);
    }
}

/// A point whose last coordinates are not those of columns: one product and one multiple for each row, and so many numbers behind it. Of more
/// than one point, all have the same.
pub(crate) struct Tailed<'a> {
    /// The coordinates of the columns.
    pub(crate) point: &'a [f64],
    /// The number of the others.
    pub(crate) tail: usize,
}

impl Tailed<'_> {
    fn tails<'t>(&self, numbers: &'t [f64]) -> Tails<'t> {
        let width = self.tail;
        Tails { width, numbers }
    }
}

impl<const K: usize> Factors<K> for [Tailed<'_>; K] {
    fn width(&self) -> usize {
        1
    }

    fn tail(&self) -> usize {
        self.first().map_or(0, |tailed| tailed.tail)
    }

    fn dense<T: Entry>(&self, rows: &[&[T]], out: [&mut [f64]; K], ahead: &mut Ahead<'_, T>) {
        row_products(rows, self.each_ref().map(|tailed| tailed.point), out, ahead);
    }

    fn sparse(&self, rows: &[SparseRow<'_>], out: [&mut [f64]; K]) {
        Factors::sparse(&self.each_ref().map(|tailed| tailed.point), rows, out);
    }

    fn add_dense<T: Entry>(
        &self,
        sum: &mut LatticeSum,
        rows: &[&[T]],
        (multiples, tails): (&[f64], &[f64]),
        bounds: &[RowBound],
        ahead: &mut Ahead<'_, T>,
    ) {
        let tails = self[0].tails(tails);
        sum.add_rows_with_tails(rows, multiples, bounds, tails, || ahead.step());
    }

    fn add_sparse(
        &self,
        sum: &mut LatticeSum,
        rows: &[SparseRow<'_>],
        (multiples, tails): (&[f64], &[f64]),
        bounds: &[RowBound],
    ) {
        sum.add_sparse_rows_with_tails(rows, multiples, bounds, self[0].tails(tails));
    }
}

/// Adds multiples of each row to `sum`.
pub(crate) fn linear_pass<M, const K: usize>(
    examples: &Examples,
    positions: &Positions<'_>,
    factors: [M; K],
    sum: &mut LatticeSum,
    multiples: impl FnMut(Block<'_, K>),
) where
    [M; K]: Factors<K>,
{
    if examples.is_empty() {
        return;
    }
    let pass = Pass {
        examples,
        positions,
        factors,
        multiples,
    };
    match examples.design().entries() {
        Entries::Doubles(all) => pass.dense(sum, all, &[]),
        Entries::Singles(all) => pass.dense(sum, all, &[]),
        Entries::Bytes(all, factors) => pass.dense(sum, all, factors),
        Entries::Sparse | Entries::OneHot => pass.sparse(sum),
    }
}

struct Pass<'a, M, F, const K: usize> {
    examples: &'a Examples,
    positions: &'a Positions<'a>,
    factors: [M; K],
    multiples: F,
}

impl<M, F, const K: usize> Pass<'_, M, F, K>
where
    [M; K]: Factors<K>,
    F: FnMut(Block<'_, K>),
{
    fn block_rows(&self, row_bytes: usize) -> usize {
        // A multiple of the rows that the kernels take together.
        (BLOCK_BYTES / row_bytes.max(1) / GROUP * GROUP).clamp(GROUP, MAX_BLOCK_ROWS)
    }

    /// Dense rows, each with a factor unless there are none.
    fn dense<T: Entry>(mut self, sum: &mut LatticeSum, all: &[T], factors: &[f32]) {
        let columns = self.examples.columns();
        let step = self.block_rows(size_of::<T>() * columns);
        let mut blocks = self.positions.blocks(step);
        let mut rows: Vec<&[T]> = Vec::with_capacity(step);
        let mut next: Vec<&[T]> = Vec::with_capacity(step);
        let mut scratch = Scratch::<K>::new(step, self.factors.width(), self.factors.tail());
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
            self.factors
                .dense(&rows, scratch.products(count), &mut ahead);
            scratch.scale_products(count);
            (self.multiples)(scratch.block(count));
            if <[M; K]>::OF_ROWS {
                scratch.scale_multiples();
            }
            let numbers = scratch.numbers(count);
            self.factors
                .add_dense(sum, &rows, numbers, &scratch.bounds, &mut ahead);
            std::mem::swap(&mut rows, &mut next);
        }
    }

    /// Sparse rows, with entries or with one entry for all columns.
    fn sparse(self, sum: &mut LatticeSum) {
        let design = self.examples.design();
        let is_one_hot = matches!(design.entries(), Entries::OneHot);
        if let (true, Some(points)) = (is_one_hot, self.factors.points()) {
            let points = points.map(<[f64]>::to_vec);
            let row = |i, factors: &mut Vec<f64>| match design.row(i) {
                Row::OneHot(columns, value) => {
                    factors.push(f64::from(value));
                    columns
                }
                _ => &[],
            };
            let products = |_: &_, rows: &[&[u32]], out: [&mut [f64]; K]| {
                let points = points.each_ref().map(Vec::as_slice);
                for (i, columns) in rows.iter().enumerate() {
                    let found = one_hot_products(columns, points);
                    for k in 0..K {
                        out[k][i] = found[k];
                    }
                }
            };
            self.in_blocks(
                sum,
                row,
                products,
                |_, sum, rows, (multiples, _), bounds| {
                    sum.add_one_hot_rows(rows, multiples, bounds);
                },
            );
            return;
        }
        let ones = vec![1.0f32; self.examples.columns()];
        let row = |i, factors: &mut Vec<f64>| match design.row(i) {
            Row::Sparse(columns, values) => (columns, values),
            Row::OneHot(columns, value) => {
                factors.push(f64::from(value));
                (columns, &ones[..columns.len().min(ones.len())])
            }
            _ => (&[][..], &[][..]),
        };
        self.in_blocks(sum, row, Factors::sparse, Factors::add_sparse);
    }

    /// Blocks of rows that `row` reads, pushing their factors where they have some.
    fn in_blocks<R>(
        mut self,
        sum: &mut LatticeSum,
        row: impl Fn(usize, &mut Vec<f64>) -> R,
        products: impl Fn(&[M; K], &[R], [&mut [f64]; K]),
        add: impl Fn(&[M; K], &mut LatticeSum, &[R], (&[f64], &[f64]), &[RowBound]),
    ) {
        let mut scratch =
            Scratch::<K>::new(MAX_BLOCK_ROWS, self.factors.width(), self.factors.tail());
        let mut rows = Vec::with_capacity(MAX_BLOCK_ROWS);
        for block in self.positions.blocks(MAX_BLOCK_ROWS) {
            rows.clear();
            scratch.factors.clear();
            rows.extend(block.iter().map(|i| row(i, &mut scratch.factors)));
            scratch.load(self.examples, &block);
            let count = rows.len();
            products(&self.factors, &rows, scratch.products(count));
            scratch.scale_products(count);
            (self.multiples)(scratch.block(count));
            if <[M; K]>::OF_ROWS {
                scratch.scale_multiples();
            }
            let numbers = scratch.numbers(count);
            add(&self.factors, sum, &rows, numbers, &scratch.bounds);
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
    /// Products and multiples of a row.
    width: usize,
    products: [Vec<f64>; K],
    multiples: Vec<f64>,
    /// Numbers behind a row, and all of them.
    tail: usize,
    tails: Vec<f64>,
    labels: Vec<f64>,
    norms: Vec<f64>,
    /// Factor of each stored entry; empty if it is 1 for all rows.
    factors: Vec<f64>,
    bounds: Vec<RowBound>,
}

impl<const K: usize> Scratch<K> {
    fn new(rows: usize, width: usize, tail: usize) -> Self {
        Self {
            width,
            products: std::array::from_fn(|_| vec![0.0; rows * width]),
            multiples: vec![0.0; rows * width],
            tail,
            tails: vec![0.0; rows * tail],
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
        let all = count * self.width;
        self.products
            .each_mut()
            .map(|products| &mut products[..all])
    }

    /// From products with stored entries to those with the entries that they stand for.
    fn scale_products(&mut self, count: usize) {
        if self.factors.is_empty() {
            return;
        }
        for products in &mut self.products {
            scale(
                &mut products[..count * self.width],
                self.width,
                &self.factors,
            );
        }
    }

    fn block(&mut self, count: usize) -> Block<'_, K> {
        Block {
            products: self
                .products
                .each_mut()
                .map(|all| &mut all[..count * self.width]),
            labels: &self.labels,
            norms: &self.norms,
            multiples: &mut self.multiples[..count * self.width],
            tails: &mut self.tails[..count * self.tail],
        }
    }

    /// Multiples, and what is behind the rows.
    fn numbers(&self, count: usize) -> (&[f64], &[f64]) {
        let multiples = &self.multiples[..count * self.width];
        (multiples, &self.tails[..count * self.tail])
    }

    /// From multiples of rows to multiples of what is stored of them.
    fn scale_multiples(&mut self) {
        scale(&mut self.multiples, self.width, &self.factors);
    }
}

/// Multiplies the numbers of each row by its factor; those of an erased row are 0, whatever they are.
fn scale(numbers: &mut [f64], width: usize, factors: &[f64]) {
    for (numbers, factor) in numbers.chunks_exact_mut(width).zip(factors) {
        for number in numbers {
            *number = if *factor == 0.0 {
                0.0
            } else {
                *number * factor
            };
        }
    }
}
