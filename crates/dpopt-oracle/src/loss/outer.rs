//! Losses of the products U^T x of a row with the columns of a matrix: gradients, and products of Hessians with a direction, are outer
//! products of the row and of a multiple for each column.

use dpopt_linalg::Row;
use dpopt_privacy::LatticeSum;

use super::rows::{Factors, linear_pass};
use crate::positions::Positions;
use crate::records::Examples;

/// U^T x, for U of (p, `width`), row-major. Columns of the row beyond p are left out.
pub(super) fn products(row: Row<'_>, point: &[f64], width: usize) -> Vec<f64> {
    let mut products = vec![0.0; width];
    row.for_each(|c, x| {
        let factors = point.iter().skip(c.saturating_mul(width));
        for (product, u) in products.iter_mut().zip(factors) {
            *product += x * u;
        }
    });
    products
}

/// Adds the outer product of a row with `multiples`.
pub(super) fn add_outer(row: Row<'_>, multiples: &[f64], out: &mut [f64]) {
    row.for_each(|c, x| {
        let cells = out.iter_mut().skip(c.saturating_mul(multiples.len()));
        for (cell, m) in cells.zip(multiples) {
            *cell += x * m;
        }
    });
}

/// Adds products of Hessians: `factors` are those of the point and of the direction.
///
/// `bend(products, along, label, times, out)` adds `times` the multiples of the product with a direction along which the products of the
/// row move by `along`. It may overwrite the products.
pub(super) fn hessian_pass<M>(
    records: &Examples,
    positions: &Positions<'_>,
    factors: [M; 2],
    sum: &mut LatticeSum,
    mut bend: impl FnMut(&mut [f64], &[f64], f64, f64, &mut [f64]),
) where
    [M; 2]: Factors<2>,
{
    let width = factors.width();
    linear_pass(records, positions, factors, sum, |block| {
        let [products, along] = block.products;
        let rows = products.chunks_exact_mut(width);
        let rows = rows.zip(along.chunks_exact(width)).zip(block.labels);
        let rows = rows.zip(block.multiples.chunks_exact_mut(width));
        for (((products, along), label), out) in rows {
            out.fill(0.0);
            bend(products, along, *label, 1.0, out);
        }
    });
}

/// Adds products of changes of Hessians: `factors` are those of both points and of the direction, `bend` as above.
pub(super) fn hessian_changes<M>(
    records: &Examples,
    positions: &Positions<'_>,
    factors: [M; 3],
    sum: &mut LatticeSum,
    mut bend: impl FnMut(&mut [f64], &[f64], f64, f64, &mut [f64]),
) where
    [M; 3]: Factors<3>,
{
    let width = factors.width();
    linear_pass(records, positions, factors, sum, |block| {
        let [before, after, along] = block.products;
        let rows = before.chunks_exact_mut(width);
        let rows = rows.zip(after.chunks_exact_mut(width));
        let rows = rows.zip(along.chunks_exact(width)).zip(block.labels);
        let rows = rows.zip(block.multiples.chunks_exact_mut(width));
        for ((((before, after), along), label), out) in rows {
            out.fill(0.0);
            bend(after, along, *label, 1.0, out);
            bend(before, along, *label, -1.0, out);
        }
    });
}
