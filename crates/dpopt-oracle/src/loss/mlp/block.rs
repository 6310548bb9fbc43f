//! Blocks of records: forward and back as products of matrices, gradients as sums of outer products.
//!
//! What a record adds depends on it and the point alone: the products compute every record's row in the same order
//! ([`Packed`]), activations and heads go number by number and record by record, buffers are filled anew.

use dpopt_linalg::Packed;
use dpopt_privacy::{Factors, LatticeSum, OuterWork};

use super::network::{Layer, Mlp};
use super::record::fill;
use crate::positions::Positions;
use crate::records::{Examples, Records};

/// Records in a block. Tuned: what the sum takes in one product of matrices.
const BLOCK: usize = 128;

/// Adds the clipped gradients of these records.
pub(super) fn add_gradients(
    mlp: &Mlp,
    records: &Examples,
    positions: &Positions<'_>,
    point: &[f64],
    sum: &mut LatticeSum,
) {
    let mut pass = Pass::new(mlp, point);
    let mut work = OuterWork::new();
    for block in positions.blocks(BLOCK) {
        pass.load(records, &block);
        pass.forward();
        pass.back();
        sum.add_outer_products(pass.labels.len(), &pass.factors(), &mut work);
    }
}

/// A point laid out for products, and the buffers of one block.
struct Pass<'a> {
    mlp: &'a Mlp,
    layers: Vec<Slab>,
    /// None for what is no record.
    labels: Vec<Option<f64>>,
}

/// One layer with what goes through it, a row for each record.
struct Slab {
    layer: Layer,
    forward: Packed,
    /// For the way back; the first layer has no use for it.
    back: Option<Packed>,
    /// Inputs, and a 1 for the biases.
    inputs: Vec<f64>,
    /// Outputs: received by the next units, then their slopes; and the gradient with respect to them.
    slopes: Vec<f64>,
    delta: Vec<f64>,
}

impl<'a> Pass<'a> {
    fn new(mlp: &'a Mlp, point: &[f64]) -> Self {
        let slab = |layer: Layer| {
            let (m, n) = (layer.inputs, layer.outputs);
            let w = layer.of(point);
            Slab {
                layer,
                forward: Packed::new(m + 1, n, |i, j| w[i * n + j]),
                back: (layer.start > 0).then(|| Packed::new(n, m, |j, i| w[i * n + j])),
                inputs: Vec::new(),
                slopes: Vec::new(),
                delta: Vec::new(),
            }
        };
        Self {
            mlp,
            layers: mlp.layers().map(slab).collect(),
            labels: Vec::with_capacity(BLOCK),
        }
    }

    /// Takes the features and labels of a block.
    fn load(&mut self, records: &Examples, block: &Positions<'_>) {
        let count = block.len();
        for slab in &mut self.layers {
            let (m, n) = (slab.layer.inputs, slab.layer.outputs);
            slab.inputs.clear();
            slab.inputs.resize(count * (m + 1), 0.0);
            slab.inputs
                .iter_mut()
                .skip(m)
                .step_by(m + 1)
                .for_each(|one| *one = 1.0);
            slab.slopes.resize(count * n, 0.0);
            slab.delta.resize(count * n, 0.0);
        }
        self.labels.clear();
        let Some(first) = self.layers.first_mut() else {
            return;
        };
        let m = first.layer.inputs;
        for (i, inputs) in block.iter().zip(first.inputs.chunks_exact_mut(m + 1)) {
            let record = records.record(i);
            self.labels.push(self.mlp.label(record));
            fill(record.row, &mut inputs[..m]);
        }
    }

    /// Leaves the inputs of every layer, the slopes of hidden units, and the head's gradient in the last delta.
    fn forward(&mut self) {
        for l in 0..self.layers.len() {
            let (done, rest) = self.layers.split_at_mut(l + 1);
            let Slab {
                layer,
                forward,
                inputs,
                slopes,
                delta,
                ..
            } = &mut done[l];
            forward.multiply(inputs, delta);
            let Some(next) = rest.first_mut() else {
                for (z, label) in delta.chunks_exact_mut(layer.outputs).zip(&self.labels) {
                    match label {
                        Some(label) => self.mlp.head.gradient(z, *label),
                        // A gradient of zero, whatever the network says.
                        None => z.fill(0.0),
                    }
                }
                return;
            };
            self.mlp.activation.apply(delta, slopes);
            let rows = next.inputs.chunks_exact_mut(layer.outputs + 1);
            for (to, from) in rows.zip(delta.chunks_exact(layer.outputs)) {
                to[..layer.outputs].copy_from_slice(from);
            }
        }
    }

    /// From the last delta to all others.
    fn back(&mut self) {
        for l in (1..self.layers.len()).rev() {
            let (before, rest) = self.layers.split_at_mut(l);
            let (to, from) = (&mut before[l - 1], &rest[0]);
            if let Some(back) = &from.back {
                back.multiply(&from.delta, &mut to.delta);
            }
            for (delta, slope) in to.delta.iter_mut().zip(&to.slopes) {
                *delta *= slope;
            }
        }
    }

    fn factors(&self) -> Vec<Factors<'_>> {
        let slabs = self.layers.iter();
        slabs
            .map(|slab| Factors {
                left: &slab.inputs,
                left_len: slab.layer.inputs + 1,
                right: &slab.delta,
                right_len: slab.layer.outputs,
            })
            .collect()
    }
}
