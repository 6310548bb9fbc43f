//! Values of records and their changes, a block of records at a time.

use dpopt_linalg::Packed;
use dpopt_privacy::LatticeSum;

use super::network::{Layer, Mlp};
use super::record::fill;
use crate::loss::{Less, ValuesOf, add_contribution};
use crate::positions::Positions;
use crate::records::{Examples, Records};

/// Records in a block, as in the pass of gradients.
const BLOCK: usize = 128;

/// Adds the clipped values of these records, or their changes.
pub(super) fn add_values(
    mlp: &Mlp,
    records: &Examples,
    positions: &Positions<'_>,
    of: &ValuesOf<'_>,
    sum: &mut LatticeSum,
) {
    let mut forward = Forward::new(mlp, of.point);
    let (mut before, centre) = match of.less {
        Less::Number(centre) => (None, centre),
        Less::At(from) => (Some(Forward::new(mlp, from)), 0.0),
    };
    let mut features = Features::default();
    for block in positions.blocks(BLOCK) {
        features.load(mlp, records, &block);
        forward.walk(&features);
        if let Some(before) = &mut before {
            before.walk(&features);
        }
        for (r, label) in features.labels.iter().enumerate() {
            let value = |forward: &Forward<'_>| match label {
                Some(label) => mlp.head.value(forward.outputs(r), *label),
                None => 0.0,
            };
            let less = before.as_ref().map_or(centre, value);
            add_contribution(sum, true, &[value(&forward) - less]);
        }
    }
}

/// The rows of a block, with a 1 for the biases, and their labels: none for what is no record.
#[derive(Default)]
struct Features {
    rows: Vec<f64>,
    labels: Vec<Option<f64>>,
}

impl Features {
    fn load(&mut self, mlp: &Mlp, records: &Examples, block: &Positions<'_>) {
        let m = mlp.sizes[0];
        self.rows.clear();
        self.labels.clear();
        for i in block.iter() {
            let record = records.record(i);
            self.labels.push(mlp.label(record));
            let start = self.rows.len();
            self.rows.resize(start + m, 0.0);
            fill(record.row, &mut self.rows[start..]);
            self.rows.push(1.0);
        }
    }
}

/// A point laid out for products, and the units of each layer: a row for each record.
struct Forward<'a> {
    mlp: &'a Mlp,
    layers: Vec<Slab>,
}

struct Slab {
    layer: Layer,
    /// W with b.
    at: Packed,
    /// Inputs, with a 1 for the biases; unused in the first layer.
    inputs: Vec<f64>,
    outputs: Vec<f64>,
    slopes: Vec<f64>,
}

impl<'a> Forward<'a> {
    fn new(mlp: &'a Mlp, point: &[f64]) -> Self {
        let slab = |layer: Layer| {
            let (n, w) = (layer.outputs, layer.of(point));
            Slab {
                at: Packed::new(layer.inputs + 1, n, |i, j| w[i * n + j]),
                layer,
                inputs: Vec::new(),
                outputs: Vec::new(),
                slopes: Vec::new(),
            }
        };
        let layers = mlp.layers().map(slab).collect();
        Self { mlp, layers }
    }

    /// The last layer's outputs for record r.
    fn outputs(&self, r: usize) -> &[f64] {
        let n = self.mlp.outputs_len();
        let last = self.layers.last();
        last.map_or(&[], |slab| &slab.outputs[r * n..][..n])
    }

    fn walk(&mut self, features: &Features) {
        let count = features.labels.len();
        for l in 0..self.layers.len() {
            let (done, rest) = self.layers.split_at_mut(l);
            let slab = &mut rest[0];
            if let Some(before) = done.last_mut() {
                slab.take(self.mlp, before, count);
            }
            slab.outputs.resize(count * slab.layer.outputs, 0.0);
            let inputs = if l == 0 { &features.rows } else { &slab.inputs };
            slab.at.multiply(inputs, &mut slab.outputs);
        }
    }
}

impl Slab {
    /// Takes the outputs of the layer before as inputs, through its units.
    fn take(&mut self, mlp: &Mlp, before: &mut Slab, count: usize) {
        let n = before.layer.outputs;
        before.slopes.resize(count * n, 0.0);
        mlp.activation
            .apply(&mut before.outputs, &mut before.slopes);
        self.inputs.resize(count * (n + 1), 0.0);
        let rows = self.inputs.chunks_exact_mut(n + 1);
        for (to, from) in rows.zip(before.outputs.chunks_exact(n)) {
            to[..n].copy_from_slice(from);
            to[n] = 1.0;
        }
    }
}
