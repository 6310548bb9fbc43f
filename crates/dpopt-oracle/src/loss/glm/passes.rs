//! Passes over rows: contributions are multiples of rows.

use dpopt_linalg::{Row, add_scaled, logistic as logistic_in_place, logistic_changes};
use dpopt_privacy::LatticeSum;

use super::Glm;
use super::rays::add_slopes;
use super::scalar::sign;
use crate::loss::Momentum;
use crate::loss::rows::{Block, Number, linear_pass};
use crate::loss::{
    AlongRows, Constants, Differentiable, Less, Loss, Rays, RecordOf, Segment, TwiceDifferentiable,
    ValuesOf,
};
use crate::positions::Positions;
use crate::records::{Example, Examples};

impl Loss for Glm {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.constants_within(records.row_norm(), records.label_bound())
    }

    fn work(&self, records: &Examples) -> f64 {
        records.entries_per_row()
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        Glm::value(*self, record.row.dot(point), record.label)
    }

    fn add_values(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        of: &ValuesOf<'_>,
        sum: &mut LatticeSum,
    ) {
        match of.less {
            Less::Number(centre) => {
                linear_pass(records, &positions, [Number(of.point)], sum, |block| {
                    let [products] = block.products;
                    let rows = products.iter().zip(block.labels);
                    for (number, (z, label)) in block.multiples.iter_mut().zip(rows) {
                        *number = Glm::value(*self, *z, *label) - centre;
                    }
                });
            }
            Less::At(from) => {
                let points = [Number(of.point), Number(from)];
                linear_pass(records, &positions, points, sum, |block| {
                    let [products, before] = block.products;
                    for (i, number) in block.multiples.iter_mut().enumerate() {
                        let value = |z| Glm::value(*self, z, block.labels[i]);
                        *number = value(products[i]) - value(before[i]);
                    }
                });
            }
        }
    }

    fn add_slopes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        rays: &Rays<'_>,
        sum: &mut LatticeSum,
    ) {
        add_slopes(*self, records, &positions, rays, sum);
    }
}

impl TwiceDifferentiable for Glm {
    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let curvature = self.curvature(record.row.dot(point), record.label);
        add_multiple(curvature * record.row.dot(direction), record.row, out);
    }

    fn add_hessian_vectors(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        linear_pass(records, &positions, [point, direction], sum, |block| {
            let [products, along] = block.products;
            self.curvatures(products, block.labels, block.multiples);
            for (multiple, along) in block.multiples.iter_mut().zip(along) {
                *multiple *= *along;
            }
        });
    }

    fn add_hessian_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        (from, to): (&[f64], &[f64]),
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let points = [from, to, direction];
        linear_pass(records, &positions, points, sum, |block| {
            let [before, after, along] = block.products;
            self.curvatures(after, block.labels, block.multiples);
            // In the place of what `after` held.
            self.curvatures(before, block.labels, after);
            for ((multiple, before), along) in block.multiples.iter_mut().zip(after).zip(along) {
                *multiple = (*multiple - *before) * *along;
            }
        });
    }

    fn rank_one<'r>(&self, record: RecordOf<'r, Self>, point: &[f64]) -> Option<(f64, Row<'r>)> {
        let curvature = self.curvature(record.row.dot(point), record.label);
        Some((curvature, record.row))
    }
}

impl Differentiable for Glm {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        let slope = self.slope(record.row.dot(point), record.label);
        add_multiple(slope, record.row, out);
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let z = record.row.dot(segment.from);
        let dz = record.row.dot(segment.displacement);
        add_multiple(self.slope_change(z, dz, record.label), record.row, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        linear_pass(records, &positions, [point], sum, |block| {
            let Block {
                products: [products],
                labels,
                multiples,
                ..
            } = block;
            self.slopes(products, labels, multiples);
        });
    }

    /// A clipped gradient is the slope, clamped to clip / ||x||, times x; so is a difference of
    /// two, or of one and a part of another.
    fn add_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        let points = [segment.from, segment.displacement];
        linear_pass(records, &positions, points, sum, |block| {
            if *self == Glm::Logistic {
                logistic_multiples(block, clip, momentum);
                return;
            }
            let slope = |z, _, label| self.slope(z, label);
            let change = |z, dz, _, label| self.slope_change(z, dz, label);
            changes(block, clip, momentum, slope, change);
        });
    }

    const HAS_ROW_AVERAGES: bool = true;

    fn row_average(&self, record: Example<'_>, of: &AlongRows<'_>, out: &mut [f64]) {
        let label = record.label;
        let mut multiple = [0.0];
        let [mut product, mut change] = [[0.0], [0.0]];
        match of.before {
            None => {
                product[0] = record.row.dot(of.point);
                multiple[0] = self.mean_slope(product[0], of.reach * record.norm, label);
            }
            Some((segment, momentum)) => {
                product[0] = record.row.dot(segment.from);
                change[0] = record.row.dot(segment.displacement);
                let block = Block {
                    products: [&mut product, &mut change],
                    labels: &[label],
                    norms: &[record.norm],
                    multiples: &mut multiple,
                    tails: &mut [],
                };
                self.average_changes(block, of, momentum);
            }
        }
        add_multiple(multiple[0], record.row, out);
    }

    fn add_row_averages(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        of: &AlongRows<'_>,
        sum: &mut LatticeSum,
    ) {
        let Some((segment, momentum)) = of.before else {
            linear_pass(records, &positions, [of.point], sum, |block| {
                let [products] = block.products;
                let rows = products.iter().zip(block.norms).zip(block.labels);
                for (multiple, ((z, norm), label)) in block.multiples.iter_mut().zip(rows) {
                    *multiple = self.mean_slope(*z, of.reach * norm, *label);
                }
            });
            return;
        };
        let points = [segment.from, segment.displacement];
        linear_pass(records, &positions, points, sum, |block| {
            self.average_changes(block, of, momentum);
        });
    }
}

/// The multiples of a block's rows in the change of a field that has `slope(z, norm, label)` times the row and changes by
/// `change(z, dz, norm, label)` times it. Each end is clipped to `clip`, and the first counts as much as the momentum keeps.
pub(super) fn changes(
    block: Block<'_, 2>,
    clip: f64,
    momentum: Momentum,
    slope: impl Fn(f64, f64, f64) -> f64,
    change: impl Fn(f64, f64, f64, f64) -> f64,
) {
    let [products, changes] = block.products;
    for i in 0..block.multiples.len() {
        let (z, dz, norm, label) = (products[i], changes[i], block.norms[i], block.labels[i]);
        let cap = clip / norm;
        let (before, after) = (slope(z, norm, label), slope(z + dz, norm, label));
        block.multiples[i] = if before.abs() <= cap && after.abs() <= cap {
            momentum.combined(after, change(z, dz, norm, label))
        } else {
            after.clamp(-cap, cap) - momentum.kept() * before.clamp(-cap, cap)
        };
    }
}

impl Glm {
    fn average_changes(self, block: Block<'_, 2>, of: &AlongRows<'_>, momentum: Momentum) {
        let reach = of.reach;
        let slope = |z, norm: f64, label| self.mean_slope(z, reach * norm, label);
        let change = |z, dz, norm: f64, label| self.mean_slope_change(z, dz, reach * norm, label);
        changes(block, of.clip.get(), momentum, slope, change);
    }

    /// The slopes at `products`, which are overwritten.
    fn slopes(self, products: &mut [f64], labels: &[f64], slopes: &mut [f64]) {
        if self == Glm::Logistic {
            // -y / (1 + e^(yz)), with the exponentials of a block at a time.
            for (z, label) in products.iter_mut().zip(labels) {
                *z *= -sign(*label);
            }
            logistic_in_place(products);
            for ((slope, p), label) in slopes.iter_mut().zip(&*products).zip(labels) {
                *slope = -sign(*label) * p;
            }
            return;
        }
        for ((slope, z), label) in slopes.iter_mut().zip(&*products).zip(labels) {
            *slope = self.slope(*z, *label);
        }
    }
}

impl Glm {
    /// The second derivatives at `products`, which are overwritten.
    fn curvatures(self, products: &mut [f64], labels: &[f64], out: &mut [f64]) {
        if self == Glm::Logistic {
            logistic_in_place(products);
            for (out, p) in out.iter_mut().zip(&*products) {
                *out = p * (1.0 - p);
            }
            return;
        }
        for ((out, z), label) in out.iter_mut().zip(&*products).zip(labels) {
            *out = self.curvature(*z, *label);
        }
    }
}

/// The slopes of the logistic loss less (1 - a) times those before, all clipped, with the exponentials of a block at a time.
///
/// A row's multiple depends on its own products, label and norm: where no row's clip is below 1, the largest
/// slope, those of all rows are found as they would be one by one, without their slopes.
fn logistic_multiples(block: Block<'_, 2>, clip: f64, momentum: Momentum) {
    let Block {
        products: [products, changes],
        labels,
        norms,
        multiples,
        ..
    } = block;
    multiples.copy_from_slice(products);
    logistic_changes(multiples, changes);
    let fits = norms.iter().all(|norm| clip >= *norm);
    if fits && momentum == Momentum::NONE {
        return;
    }
    for ((z, dz), label) in products.iter_mut().zip(&mut *changes).zip(labels) {
        let sign = -sign(*label);
        (*z, *dz) = (sign * *z, sign * (*z + *dz));
    }
    if !fits {
        logistic_in_place(products);
    }
    logistic_in_place(changes);
    for (i, multiple) in multiples.iter_mut().enumerate() {
        let cap = clip / norms[i];
        let (before, after) = (products[i], changes[i]);
        // Slopes are these times minus the label's sign. A NaN, and a row of zeros, keep the change.
        let sign = -sign(labels[i]);
        *multiple = if !fits && (before > cap || after > cap) {
            sign * (after.min(cap) - momentum.kept() * before.min(cap))
        } else {
            momentum.combined(sign * after, *multiple)
        };
    }
}

/// Adds `multiple` times the row to `out`.
pub(crate) fn add_multiple(multiple: f64, row: Row<'_>, out: &mut [f64]) {
    match row {
        Row::Dense(x) => add_scaled(out, multiple, x),
        other => other.for_each(|j, x| out[j] += multiple * x),
    }
}
