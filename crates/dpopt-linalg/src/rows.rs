//! Inner products of many rows with one or two points, each row read once.

use dpopt_lanes::{Entry, Kernel, LANES, Lanes, dispatch, zeros_before};

use crate::ahead::Ahead;

/// Rows that share one walk over the points.
const GROUP: usize = 4;

/// Inner products of dense rows with each of K points, in one read of the rows.
///
/// # Formula
/// `products[k][i] = <rows[i], points[k]>`, in `f64`: lane l of eight adds up the columns congruent to l
/// modulo 8 in increasing order (those after the last multiple of 8 in the last lanes), by fused multiply-adds where
/// the processor has them, and the lanes are added in a fixed tree.
///
/// A product's bits depend on its row and the points alone: not on the other rows, their number or
/// the row's place among them. Every caller that must agree on those bits uses this function.
///
/// # Shapes
/// `rows`: slices of d entries; `points`: K slices of d; `products`: K slices, one entry per row.
/// A row of another length has NaN for its products.
///
/// `ahead` takes one step for each 32 entries.
///
/// # Panics
/// When the points differ in length, or `products` and `rows` do; neither depends on what the
/// rows hold.
pub fn row_products<T: Entry, const K: usize>(
    rows: &[&[T]],
    points: [&[f64]; K],
    products: [&mut [f64]; K],
    ahead: &mut Ahead<'_, T>,
) {
    let columns = points.first().map_or(0, |point| point.len());
    assert!(
        points.iter().all(|point| point.len() == columns),
        "the points differ in length"
    );
    assert!(
        products.iter().all(|out| out.len() == rows.len()),
        "one product per row and point"
    );
    dispatch(Products {
        rows,
        points,
        products,
        ahead,
    });
}

/// Inner product of one sparse row with each of K points.
///
/// # Formula
/// `sum_j values[j] points[k][columns[j]]` in four interleaved partial sums over j, added in a fixed
/// tree. The bits depend on the row and the points alone.
///
/// # Shapes
/// `columns` and `values` have the same length; the shorter one decides otherwise. A column beyond
/// a point's end gives NaN.
#[must_use]
pub fn sparse_products<const K: usize>(
    columns: &[u32],
    values: &[f32],
    points: [&[f64]; K],
) -> [f64; K] {
    let entries = columns.len().min(values.len());
    products_at(&columns[..entries], |j| f64::from(values[j]), points)
}

/// As [`sparse_products`] where all values are 1: the same bits, in less time.
#[must_use]
pub fn one_hot_products<const K: usize>(columns: &[u32], points: [&[f64]; K]) -> [f64; K] {
    products_at(columns, |_| 1.0, points)
}

#[inline(always)]
fn products_at<const K: usize>(
    columns: &[u32],
    value: impl Fn(usize) -> f64,
    points: [&[f64]; K],
) -> [f64; K] {
    const PARTS: usize = 4;
    let mut parts = [[0.0; PARTS]; K];
    let (groups, rest) = columns.as_chunks::<PARTS>();
    for (g, columns) in groups.iter().enumerate() {
        for part in 0..PARTS {
            let value = value(PARTS * g + part);
            for k in 0..K {
                parts[k][part] += value * at(points[k], columns[part]);
            }
        }
    }
    for (part, &column) in rest.iter().enumerate() {
        let value = value(PARTS * groups.len() + part);
        for k in 0..K {
            parts[k][part] += value * at(points[k], column);
        }
    }
    parts.map(|[a, b, c, d]| (a + c) + (b + d))
}

#[inline(always)]
fn at(point: &[f64], column: u32) -> f64 {
    point.get(column as usize).copied().unwrap_or(f64::NAN)
}

/// The blocked kernel behind [`row_products`].
struct Products<'a, 'b, T, const K: usize> {
    rows: &'a [&'a [T]],
    points: [&'a [f64]; K],
    products: [&'a mut [f64]; K],
    ahead: &'a mut Ahead<'b, T>,
}

impl<T: Entry, const K: usize> Kernel for Products<'_, '_, T, K> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let points = self.points.map(Point::new);
        let (groups, rest) = self.rows.as_chunks::<GROUP>();
        for (g, group) in groups.iter().enumerate() {
            let products = products_of(lanes, group, &points, self.ahead);
            for k in 0..K {
                self.products[k][g * GROUP..][..GROUP].copy_from_slice(&products[k]);
            }
        }
        for (i, row) in rest.iter().enumerate() {
            let products = products_of(lanes, &[*row], &points, self.ahead);
            for k in 0..K {
                self.products[k][groups.len() * GROUP + i] = products[k][0];
            }
        }
    }
}

/// A point in chunks of lanes.
#[derive(Clone, Copy)]
struct Point<'a> {
    all: &'a [f64],
    chunks: &'a [[f64; LANES]],
    /// The last entries, with zeros before them: the columns after the last whole chunk are read
    /// together with the columns before them, which must not count twice.
    last: [f64; LANES],
}

impl<'a> Point<'a> {
    #[inline(always)]
    fn new(all: &'a [f64]) -> Self {
        let (chunks, rest) = all.as_chunks::<LANES>();
        let mut last = [0.0; LANES];
        last[LANES - rest.len()..].copy_from_slice(rest);
        Self { all, chunks, last }
    }
}

/// The products of R rows, each exactly as if it were alone.
#[inline(always)]
fn products_of<L: Lanes, T: Entry, const R: usize, const K: usize>(
    lanes: L,
    rows: &[&[T]; R],
    points: &[Point<'_>; K],
    ahead: &mut Ahead<'_, T>,
) -> [[f64; R]; K] {
    let Some(first) = points.first() else {
        return [[0.0; R]; K];
    };
    let columns = first.all.len();
    if rows.iter().any(|row| row.len() != columns) {
        return products_of_uneven(lanes, rows, points, ahead, columns);
    }
    let zero = lanes.doubles(&[0.0; LANES]);
    let mut sums = [[zero; R]; K];
    let whole = first.chunks.len();
    let chunks = rows.map(|row| &row.as_chunks::<LANES>().0[..whole]);
    let points_in_chunks = points.map(|point| &point.chunks[..whole]);
    for j in 0..whole {
        if R == GROUP {
            ahead.step();
        }
        let at = points_in_chunks.map(|chunks| lanes.doubles(&chunks[j]));
        for r in 0..R {
            let x = T::load(lanes, &chunks[r][j]);
            for k in 0..K {
                sums[k][r] = lanes.mul_add(x, at[k], sums[k][r]);
            }
        }
    }
    if !columns.is_multiple_of(LANES) {
        let last = points.map(|point| lanes.doubles(&point.last));
        for r in 0..R {
            let x = match rows[r].last_chunk::<LANES>() {
                Some(x) => T::load(lanes, x),
                None => lanes.doubles(&zeros_before(rows[r])),
            };
            for k in 0..K {
                sums[k][r] = lanes.mul_add(x, last[k], sums[k][r]);
            }
        }
    }
    let mut products = [[0.0; R]; K];
    for k in 0..K {
        products[k] = lanes.sums(sums[k]);
    }
    products
}

/// As [`products_of`] where some rows have a wrong length.
#[cold]
fn products_of_uneven<L: Lanes, T: Entry, const R: usize, const K: usize>(
    lanes: L,
    rows: &[&[T]; R],
    points: &[Point<'_>; K],
    ahead: &mut Ahead<'_, T>,
    columns: usize,
) -> [[f64; R]; K] {
    let mut products = [[f64::NAN; R]; K];
    for r in 0..R {
        if rows[r].len() == columns {
            let one = products_of(lanes, &[rows[r]], points, ahead);
            for k in 0..K {
                products[k][r] = one[k][0];
            }
        }
    }
    products
}

#[cfg(test)]
mod tests;
