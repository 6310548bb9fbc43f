//! Numbers of records, blocks of them at a time: values, their changes, and curvatures along a direction.
//!
//! Beside z and a of the forward pass (see [`super::second`]) go their first two derivatives along V:
//! RRz_l = 2 V^T Ra_{l-1} + W^T RRa_{l-1} and RRa_l = act' RRz_l + act'' (Rz_l)^2. The curvature is <head', RRz> + <Rz, head'' Rz>.
//!
//! What a record adds depends on it and public points alone, as there.

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
    let mut forward = Forward::new(mlp, of.point, None);
    let (mut before, centre) = match of.less {
        Less::Number(centre) => (None, centre),
        Less::At(from) => (Some(Forward::new(mlp, from, None)), 0.0),
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

/// Adds the clipped curvatures of these records.
pub(super) fn add_curvatures(
    mlp: &Mlp,
    records: &Examples,
    positions: &Positions<'_>,
    point: &[f64],
    direction: &[f64],
    sum: &mut LatticeSum,
) {
    let mut forward = Forward::new(mlp, point, Some(direction));
    let mut features = Features::default();
    let (mut slopes, mut turned) = (Vec::new(), Vec::new());
    for block in positions.blocks(BLOCK) {
        features.load(mlp, records, &block);
        forward.walk(&features);
        for (r, label) in features.labels.iter().enumerate() {
            let mut along = 0.0;
            if let Some(label) = label {
                let [moves, bends] = forward.moves(r);
                slopes.clear();
                slopes.extend_from_slice(forward.outputs(r));
                turned.clear();
                turned.extend_from_slice(moves);
                mlp.head
                    .gradient_and_second(&mut slopes, &mut turned, *label);
                for (i, bend) in bends.iter().enumerate() {
                    along += slopes[i] * bend + moves[i] * turned[i];
                }
            }
            add_contribution(sum, true, &[along]);
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

/// A point, perhaps with a direction, laid out for products, and what goes through each layer: a row for each record.
struct Forward<'a> {
    mlp: &'a Mlp,
    layers: Vec<Slab>,
}

struct Slab {
    layer: Layer,
    /// W with b, and V with c.
    at: Packed,
    along: Option<Packed>,
    /// What goes in, with a 1 for the biases, and its two derivatives, with a 0; of the first layer none of them.
    inputs: [Vec<f64>; 3],
    /// What comes out, and its two derivatives.
    outputs: [Vec<f64>; 3],
    slopes: Vec<f64>,
    bends: Vec<f64>,
    work: Vec<f64>,
}

impl<'a> Forward<'a> {
    fn new(mlp: &'a Mlp, point: &[f64], direction: Option<&[f64]>) -> Self {
        let slab = |layer: Layer| {
            let pack = |point: &[f64]| {
                let (n, w) = (layer.outputs, layer.of(point));
                Packed::new(layer.inputs + 1, n, |i, j| w[i * n + j])
            };
            Slab {
                layer,
                at: pack(point),
                along: direction.map(pack),
                inputs: Default::default(),
                outputs: Default::default(),
                slopes: Vec::new(),
                bends: Vec::new(),
                work: Vec::new(),
            }
        };
        let layers = mlp.layers().map(slab).collect();
        Self { mlp, layers }
    }

    /// The last layer's outputs for record r.
    fn outputs(&self, r: usize) -> &[f64] {
        self.last(r, 0)
    }

    /// Their derivatives along the direction.
    fn moves(&self, r: usize) -> [&[f64]; 2] {
        [self.last(r, 1), self.last(r, 2)]
    }

    fn last(&self, r: usize, derivative: usize) -> &[f64] {
        let n = self.mlp.outputs_len();
        let last = self.layers.last();
        last.map_or(&[], |slab| &slab.outputs[derivative][r * n..][..n])
    }

    fn walk(&mut self, features: &Features) {
        let count = features.labels.len();
        for l in 0..self.layers.len() {
            let (done, rest) = self.layers.split_at_mut(l);
            let slab = &mut rest[0];
            if let Some(before) = done.last_mut() {
                slab.take(self.mlp, before, count);
            }
            slab.multiply((l == 0).then_some(&features.rows), count);
        }
    }
}

impl Slab {
    /// What comes out of the layer before, through its units.
    fn take(&mut self, mlp: &Mlp, before: &mut Slab, count: usize) {
        let n = before.layer.outputs;
        let [z, moves, bent] = &mut before.outputs;
        before.slopes.resize(count * n, 0.0);
        if self.along.is_some() {
            before.bends.resize(count * n, 0.0);
            let (slopes, bends) = (&mut before.slopes, &mut before.bends);
            mlp.activation.apply_twice(z, slopes, bends);
            for i in 0..count * n {
                bent[i] = before.slopes[i] * bent[i] + before.bends[i] * moves[i] * moves[i];
                moves[i] *= before.slopes[i];
            }
        } else {
            mlp.activation.apply(z, &mut before.slopes);
        }
        let derivatives = if self.along.is_some() { 3 } else { 1 };
        let all = self.inputs.iter_mut().zip(&before.outputs);
        for (k, (inputs, outputs)) in all.enumerate().take(derivatives) {
            inputs.resize(count * (n + 1), 0.0);
            let rows = inputs.chunks_exact_mut(n + 1);
            for (to, from) in rows.zip(outputs.chunks_exact(n)) {
                to[..n].copy_from_slice(from);
                to[n] = if k == 0 { 1.0 } else { 0.0 };
            }
        }
    }

    fn multiply(&mut self, features: Option<&Vec<f64>>, count: usize) {
        let n = self.layer.outputs;
        let [z, moves, bent] = &mut self.outputs;
        let [a, ra, rra] = &self.inputs;
        let a = features.unwrap_or(a);
        z.resize(count * n, 0.0);
        self.at.multiply(a, z);
        let Some(along) = &self.along else { return };
        moves.resize(count * n, 0.0);
        along.multiply(a, moves);
        bent.clear();
        bent.resize(count * n, 0.0);
        if features.is_some() {
            return;
        }
        self.work.resize(count * n, 0.0);
        self.at.multiply(ra, &mut self.work);
        add(moves, &self.work, 1.0);
        self.at.multiply(rra, bent);
        along.multiply(ra, &mut self.work);
        add(bent, &self.work, 2.0);
    }
}

fn add(to: &mut [f64], from: &[f64], times: f64) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += times * from;
    }
}
