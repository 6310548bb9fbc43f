//! Passes over rows: contributions are multiples of rows.

use dpopt_linalg::{Row, add_scaled, logistic as logistic_in_place, logistic_changes};
use dpopt_privacy::LatticeSum;

use super::Glm;
use super::rays::add_slopes;
use super::scalar::sign;
use crate::loss::Momentum;
use crate::loss::rows::{Block, linear_pass};
use crate::loss::{Constants, Differentiable, Loss, Rays, RecordOf, Segment, TwiceDifferentiable};
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
            let [products, changes] = block.products;
            for i in 0..block.multiples.len() {
                let (z, dz, label) = (products[i], changes[i], block.labels[i]);
                let cap = clip / block.norms[i];
                let (before, after) = (self.slope(z, label), self.slope(z + dz, label));
                block.multiples[i] = if before.abs() <= cap && after.abs() <= cap {
                    momentum.combined(after, self.slope_change(z, dz, label))
                } else {
                    after.clamp(-cap, cap) - momentum.kept() * before.clamp(-cap, cap)
                };
            }
        });
    }
}

impl Glm {
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
