//! Blocks of records at fixed positions, in single precision: forward and back as products of matrices, gradients as
//! floating-point sums of few outer products.
//!
//! What a record adds depends on it and the point alone: the products compute every record's row in the same order
//! ([`PackedSingles`]), activations and heads go number by number and record by record.

use dpopt_linalg::{PackedSingles, Panels};
use dpopt_privacy::{BlockFactors, BlockWork, FixedBlocks, LatticeSum};

use super::activation::Activation;
use super::network::{Layer, Mlp};
use crate::positions::Positions;
use crate::records::Examples;

/// Entries of a chunk.
const LANES: usize = Panels::LANES;

/// Adds the clipped gradients of these records.
pub(super) fn add_gradients(
    mlp: &Mlp,
    records: &Examples,
    positions: &Positions<'_>,
    point: &[f64],
    blocks: FixedBlocks,
    sum: &mut LatticeSum,
) {
    let mut pass = Pass::new(mlp, point);
    let mut work = BlockWork::new();
    for (range, block) in positions.by_block(blocks.width() as usize) {
        pass.load(records, &block);
        pass.forward();
        pass.back();
        let count = pass.labels.len();
        sum.add_outer_block(range, count, &mut pass.factors(), &mut work);
    }
}

/// A point laid out for products, and the buffers of one block.
struct Pass<'a> {
    mlp: &'a Mlp,
    layers: Vec<Slab>,
    /// None for what is no record.
    labels: Vec<Option<f64>>,
    /// Room for what is computed in double precision.
    values: Vec<f64>,
    slopes: Vec<f64>,
}

/// One layer with what goes through it, a row for each record.
struct Slab {
    layer: Layer,
    forward: PackedSingles,
    /// For the way back; the first layer has no use for it.
    back: Option<PackedSingles>,
    /// Inputs, and a 1 for the biases.
    inputs: Panels,
    /// Slopes of the units; the gradient with respect to what they receive.
    slopes: Panels,
    delta: Panels,
}

impl<'a> Pass<'a> {
    fn new(mlp: &'a Mlp, point: &[f64]) -> Self {
        let slab = |layer: Layer| {
            let (weights, biases) = layer.of(point).split_at(layer.inputs * layer.outputs);
            let hidden = layer.start > 0;
            Slab {
                layer,
                forward: PackedSingles::new(layer.outputs, weights, biases),
                back: hidden.then(|| PackedSingles::transposed(layer.outputs, weights)),
                inputs: Panels::default(),
                slopes: Panels::default(),
                delta: Panels::default(),
            }
        };
        Self {
            mlp,
            layers: mlp.layers().map(slab).collect(),
            labels: Vec::new(),
            values: Vec::new(),
            slopes: Vec::new(),
        }
    }

    /// Takes the features and labels of a block.
    fn load(&mut self, records: &Examples, block: &Positions<'_>) {
        let count = block.len();
        for slab in &mut self.layers {
            if slab.inputs.places() < count {
                let (m, n) = (slab.layer.inputs, slab.layer.outputs);
                slab.inputs = Panels::zeros(count, m + 1);
                slab.slopes = Panels::zeros(count, n);
                slab.delta = Panels::zeros(count, n);
            }
        }
        let outputs = self.mlp.outputs_len();
        self.labels.clear();
        self.labels.extend(block.iter().map(|i| {
            let label = f64::from(records.labels()[i]);
            (!records.is_zero(i) && self.mlp.head.accepts(label, outputs)).then_some(label)
        }));
        let Some(Slab { layer, inputs, .. }) = self.layers.first_mut() else {
            return;
        };
        let rows = block.iter().map(|i| records.design().row(i));
        inputs.load(layer.inputs, rows);
    }

    /// Leaves the inputs of every layer, the slopes of hidden units, and the head's gradient in the last delta.
    fn forward(&mut self) {
        let count = self.labels.len();
        for l in 0..self.layers.len() {
            let (done, rest) = self.layers.split_at_mut(l + 1);
            let slab = &mut done[l];
            let Some(next) = rest.first_mut() else {
                slab.forward.multiply(&slab.inputs, count, &mut slab.delta);
                self.head();
                return;
            };
            slab.forward.multiply(&slab.inputs, count, &mut next.inputs);
            let places = next.inputs.places();
            let received = next.inputs.chunks_mut().chunks_mut(places);
            for (received, slopes) in received.zip(slab.slopes.chunks_mut().chunks_mut(places)) {
                let (received, slopes) = (&mut received[..count], &mut slopes[..count]);
                let numbers = (received.as_flattened_mut(), slopes.as_flattened_mut());
                if self.mlp.activation == Activation::Relu {
                    rectify(numbers.0, numbers.1);
                    continue;
                }
                self.values.clear();
                self.values.extend(numbers.0.iter().copied().map(f64::from));
                self.slopes.resize(self.values.len(), 0.0);
                self.mlp
                    .activation
                    .apply(&mut self.values, &mut self.slopes);
                for (to, from) in numbers.0.iter_mut().zip(&self.values) {
                    *to = *from as f32;
                }
                for (to, from) in numbers.1.iter_mut().zip(&self.slopes) {
                    *to = *from as f32;
                }
            }
            set_ones(&mut next.inputs, slab.layer.outputs, count);
        }
    }

    /// The last layer's outputs to the gradient with respect to them.
    fn head(&mut self) {
        let Some(last) = self.layers.last_mut() else {
            return;
        };
        let n = last.layer.outputs;
        for (r, label) in self.labels.iter().enumerate() {
            let Some(label) = label else {
                // A gradient of zero, whatever the network says.
                last.delta.row_mut(r).for_each(|chunk| chunk.fill(0.0));
                continue;
            };
            self.values.clear();
            let outputs = last.delta.row(r).flatten().copied().map(f64::from);
            self.values.extend(outputs.take(n));
            self.mlp.head.gradient(&mut self.values, *label);
            for (to, from) in last.delta.row_mut(r).zip(self.values.chunks(LANES)) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *from as f32;
                }
            }
        }
    }

    /// From the last delta to all others.
    fn back(&mut self) {
        let count = self.labels.len();
        for l in (1..self.layers.len()).rev() {
            let (before, rest) = self.layers.split_at_mut(l);
            let (to, from) = (&mut before[l - 1], &rest[0]);
            if let Some(back) = &from.back {
                back.multiply(&from.delta, count, &mut to.delta);
            }
            let delta = to.delta.chunks_mut().as_flattened_mut();
            let slopes = to.slopes.chunks().as_flattened();
            for (delta, slope) in delta.iter_mut().zip(slopes) {
                *delta *= slope;
            }
        }
    }

    fn factors(&mut self) -> Vec<BlockFactors<'_>> {
        let slabs = self.layers.iter_mut();
        slabs
            .map(|slab| BlockFactors {
                places: slab.inputs.places(),
                terms: 1,
                left: slab.inputs.chunks_mut(),
                left_len: slab.layer.inputs + 1,
                right: slab.delta.chunks_mut(),
                right_len: slab.layer.outputs,
            })
            .collect()
    }
}

/// Puts a 1 after the last of the entries of each row, and zeros after that.
fn set_ones(panels: &mut Panels, entries: usize, count: usize) {
    let places = panels.places();
    let (panel, lane) = (entries / LANES, entries % LANES);
    for chunk in panels
        .chunks_mut()
        .iter_mut()
        .skip(panel * places)
        .take(count)
    {
        chunk[lane..].fill(0.0);
        chunk[lane] = 1.0;
    }
}

/// max(z, 0) and its slopes.
fn rectify(values: &mut [f32], slopes: &mut [f32]) {
    for (z, slope) in values.iter_mut().zip(slopes) {
        *slope = if *z > 0.0 { 1.0 } else { 0.0 };
        // NaN passes.
        *z = if *z < 0.0 { 0.0 } else { *z };
    }
}
