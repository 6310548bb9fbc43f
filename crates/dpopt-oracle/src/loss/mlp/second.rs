//! Products with the Hessian: forward over reverse (Pearlmutter 1994), blocks of records at a time.
//!
//! Beside the forward pass goes its derivative along a direction V, and beside the backward pass that of the gradients:
//!
//! - a_l = act(z_l), z_l = W^T a_{l-1} + b;  Rz_l = V^T a_{l-1} + c + W^T Ra_{l-1},  Ra_l = act' Rz_l;
//! - delta_{l-1} = act' (W delta_l);  Rdelta_{l-1} = act' (V delta_l + W Rdelta_l) + act'' Rz_{l-1} (W delta_l);
//! - the product's part of a layer is Ra x delta + a x Rdelta, and a x Rdelta in the first, whose inputs don't move.
//!
//! Where positions are fixed these outer products are added up by blocks, as those of gradients are; otherwise each record's product is formed.
//! Changes of products are sums of outer products of which one factor is a change, so that short ones keep their digits where both are rounded
//! to single precision.
//!
//! What a record adds depends on it and public points alone: the products compute every record's row in the same order ([`Packed`]), and
//! the rest goes number by number and record by record.

use dpopt_linalg::{Packed, Panels};
use dpopt_privacy::{BlockFactors, BlockWork, FixedBlocks, LatticeSum};

use super::network::{Layer, Mlp};
use super::record::fill;
use crate::positions::Positions;
use crate::records::{Example, Examples, Records};

/// Records in a block, as in the pass of gradients.
const BLOCK: usize = 128;

/// Adds the clipped products of these records' Hessians at a point with a direction or, with a point to start from, of their changes to it.
pub(super) fn add_products(
    mlp: &Mlp,
    records: &Examples,
    positions: &Positions<'_>,
    (from, point): (Option<&[f64]>, &[f64]),
    direction: &[f64],
    sum: &mut LatticeSum,
) {
    let mut pass = Pass::new(mlp, point, direction);
    let mut before = from.map(|from| Pass::new(mlp, from, direction));
    if let Some(blocks) = sum.blocks() {
        add_blocks(records, positions, (before, pass), blocks, sum);
        return;
    }
    let mut product = vec![0.0; mlp.dim];
    for block in positions.blocks(BLOCK) {
        pass.walk(block.iter().map(|i| records.record(i)));
        if let Some(before) = &mut before {
            before.walk(block.iter().map(|i| records.record(i)));
        }
        for r in 0..pass.labels.len() {
            product.fill(0.0);
            pass.add(r, 1.0, &mut product);
            if let Some(before) = &before {
                before.add(r, -1.0, &mut product);
            }
            sum.add_scaled(1.0, &product);
        }
    }
}

/// The same by blocks of fixed positions.
fn add_blocks(
    records: &Examples,
    positions: &Positions<'_>,
    (mut before, mut pass): (Option<Pass<'_>>, Pass<'_>),
    blocks: FixedBlocks,
    sum: &mut LatticeSum,
) {
    let mut work = BlockWork::new();
    let mut terms = Vec::new();
    terms.resize_with(pass.layers.len(), Terms::default);
    for (range, block) in positions.by_block(blocks.width() as usize) {
        let read = || block.iter().map(|i| records.record(i));
        pass.walk(read());
        if let Some(before) = &mut before {
            before.walk(read());
        }
        let count = pass.labels.len();
        for (l, (terms, slab)) in terms.iter_mut().zip(&pass.layers).enumerate() {
            terms.load(count, slab, before.as_ref().map(|before| &before.layers[l]));
        }
        let mut factors: Vec<_> = terms.iter_mut().map(Terms::factors).collect();
        sum.add_outer_block(range, count, &mut factors, &mut work);
    }
}

/// The outer products of one layer in single precision, those of all records one term after another.
#[derive(Default)]
struct Terms {
    count: usize,
    shape: (usize, usize),
    left: Panels,
    right: Panels,
}

impl Terms {
    fn load(&mut self, records: usize, slab: &Slab, before: Option<&Slab>) {
        let (m, n) = (slab.layer.inputs + 1, slab.layer.outputs);
        let first = slab.layer.start == 0;
        self.count = match (first, before) {
            (true, _) => 1,
            (false, None) => 2,
            (false, Some(_)) => 4,
        };
        self.shape = (m, n);
        if self.left.places() < self.count * records {
            self.left = Panels::zeros(self.count * records, m);
            self.right = Panels::zeros(self.count * records, n);
        }
        let [a, ra] = &slab.inputs;
        let [delta, rdelta] = &slab.delta;
        let Some(before) = before else {
            // a x Rdelta, Ra x delta.
            put(&mut self.left, 0, m, a, None);
            put(&mut self.right, 0, n, rdelta, None);
            if !first {
                put(&mut self.left, records, m, ra, None);
                put(&mut self.right, records, n, delta, None);
            }
            return;
        };
        let [a0, ra0] = &before.inputs;
        let [delta0, rdelta0] = &before.delta;
        // a0 x (Rdelta - Rdelta0), (a - a0) x Rdelta, Ra0 x (delta - delta0), (Ra - Ra0) x delta.
        put(&mut self.left, 0, m, a0, None);
        put(&mut self.right, 0, n, rdelta, Some(rdelta0));
        if !first {
            put(&mut self.left, records, m, a, Some(a0));
            put(&mut self.right, records, n, rdelta, None);
            put(&mut self.left, 2 * records, m, ra0, None);
            put(&mut self.right, 2 * records, n, delta, Some(delta0));
            put(&mut self.left, 3 * records, m, ra, Some(ra0));
            put(&mut self.right, 3 * records, n, delta, None);
        }
    }

    fn factors(&mut self) -> BlockFactors<'_> {
        let (left_len, right_len) = self.shape;
        BlockFactors {
            places: self.left.places(),
            terms: self.count,
            left: self.left.chunks_mut(),
            left_len,
            right: self.right.chunks_mut(),
            right_len,
        }
    }
}

/// Puts rows of `columns` numbers, or what they have beyond others, rounded to single precision, into the places from `at` on.
fn put(panels: &mut Panels, at: usize, columns: usize, rows: &[f64], others: Option<&Vec<f64>>) {
    let places = panels.places();
    for (r, row) in rows.chunks_exact(columns).enumerate() {
        let chunks = panels.chunks_mut().chunks_exact_mut(places);
        let other = others.map(|others| &others[r * columns..][..columns]);
        for (p, (chunks, row)) in chunks.zip(row.chunks(Panels::LANES)).enumerate() {
            let to = chunks[at + r].iter_mut();
            match other {
                None => to.zip(row).for_each(|(to, x)| *to = *x as f32),
                Some(other) => to
                    .zip(row.iter().zip(&other[p * Panels::LANES..]))
                    .for_each(|(to, (x, y))| *to = (x - y) as f32),
            }
        }
    }
}

/// Adds the product of one record's Hessian with a direction.
pub(super) fn product(
    mlp: &Mlp,
    record: Example<'_>,
    point: &[f64],
    direction: &[f64],
    out: &mut [f64],
) {
    let mut pass = Pass::new(mlp, point, direction);
    pass.walk(std::iter::once(record));
    pass.add(0, 1.0, out);
}

/// A point and a direction laid out for products, and the buffers of one block.
struct Pass<'a> {
    mlp: &'a Mlp,
    layers: Vec<Slab>,
    /// None for what is no record.
    labels: Vec<Option<f64>>,
}

/// One layer with what goes through it, a row for each record.
struct Slab {
    layer: Layer,
    /// W with b, and V with c.
    forward: [Packed; 2],
    /// For the way back.
    back: [Packed; 2],
    /// Inputs with a 1 for the biases, and their derivatives with a 0.
    inputs: [Vec<f64>; 2],
    /// First and second derivatives of the units.
    slopes: Vec<f64>,
    bends: Vec<f64>,
    /// How what is received moves.
    moves: Vec<f64>,
    /// The gradient with respect to what is received, and how it moves.
    delta: [Vec<f64>; 2],
    work: Vec<f64>,
}

impl<'a> Pass<'a> {
    fn new(mlp: &'a Mlp, point: &[f64], direction: &[f64]) -> Self {
        let slab = |layer: Layer| {
            let (m, n) = (layer.inputs, layer.outputs);
            let both = [layer.of(point), layer.of(direction)];
            Slab {
                layer,
                forward: both.map(|w| Packed::new(m + 1, n, |i, j| w[i * n + j])),
                back: both.map(|w| Packed::new(n, m, |j, i| w[i * n + j])),
                inputs: Default::default(),
                slopes: Vec::new(),
                bends: Vec::new(),
                moves: Vec::new(),
                delta: Default::default(),
                work: Vec::new(),
            }
        };
        Self {
            mlp,
            layers: mlp.layers().map(slab).collect(),
            labels: Vec::with_capacity(BLOCK),
        }
    }

    /// All four ways, of some records.
    fn walk<'r>(&mut self, records: impl Iterator<Item = Example<'r>>) {
        self.load(records);
        for l in 0..self.layers.len() {
            self.forward(l);
        }
        for l in (1..self.layers.len()).rev() {
            self.back(l);
        }
    }

    fn load<'r>(&mut self, records: impl Iterator<Item = Example<'r>>) {
        self.labels.clear();
        let Some(first) = self.layers.first_mut() else {
            return;
        };
        let m = first.layer.inputs;
        first.inputs[0].clear();
        for record in records {
            self.labels.push(self.mlp.label(record));
            let start = first.inputs[0].len();
            first.inputs[0].resize(start + m + 1, 0.0);
            fill(record.row, &mut first.inputs[0][start..start + m]);
        }
        let count = self.labels.len();
        for (l, slab) in self.layers.iter_mut().enumerate() {
            let (m, n) = (slab.layer.inputs, slab.layer.outputs);
            if l > 0 {
                slab.inputs[0].clear();
                slab.inputs[0].resize(count * (m + 1), 0.0);
            }
            slab.inputs[1].clear();
            slab.inputs[1].resize(count * (m + 1), 0.0);
            let ones = slab.inputs[0].iter_mut().skip(m).step_by(m + 1);
            ones.for_each(|one| *one = 1.0);
            for buffer in [&mut slab.slopes, &mut slab.bends, &mut slab.moves] {
                buffer.resize(count * n, 0.0);
            }
            slab.delta.iter_mut().for_each(|d| d.resize(count * n, 0.0));
            slab.work.resize(count * n.max(m), 0.0);
        }
    }

    /// Through layer l: into the inputs of the next, or the head's gradient and its movement.
    fn forward(&mut self, l: usize) {
        let (done, rest) = self.layers.split_at_mut(l + 1);
        let slab = &mut done[l];
        let n = slab.layer.outputs;
        let count = self.labels.len();
        let [z, _] = &mut slab.delta;
        slab.forward[0].multiply(&slab.inputs[0], z);
        // V^T a + c, and W^T Ra: the biases don't move with a.
        slab.forward[1].multiply(&slab.inputs[0], &mut slab.moves);
        // Inputs of the first layer have derivative zero.
        if l > 0 {
            let more = &mut slab.work[..count * n];
            slab.forward[0].multiply(&slab.inputs[1], more);
            for (moves, more) in slab.moves.iter_mut().zip(&*more) {
                *moves += more;
            }
        }
        let Some(next) = rest.first_mut() else {
            let [z, moved] = &mut slab.delta;
            moved.copy_from_slice(&slab.moves);
            let rows = z.chunks_exact_mut(n).zip(moved.chunks_exact_mut(n));
            for ((z, moved), label) in rows.zip(&self.labels) {
                match label {
                    Some(label) => {
                        self.mlp.head.gradient_and_second(z, moved, *label);
                    }
                    // Zero, whatever the network says.
                    None => {
                        z.fill(0.0);
                        moved.fill(0.0);
                    }
                }
            }
            return;
        };
        let (slopes, bends) = (&mut slab.slopes, &mut slab.bends);
        self.mlp.activation.apply_twice(z, slopes, bends);
        let [inputs, moved] = &mut next.inputs;
        let rows = inputs.chunks_exact_mut(n + 1);
        for (to, from) in rows.zip(z.chunks_exact(n)) {
            to[..n].copy_from_slice(from);
        }
        let rows = moved.chunks_exact_mut(n + 1).enumerate();
        for (r, to) in rows {
            for j in 0..n {
                to[j] = slab.slopes[r * n + j] * slab.moves[r * n + j];
            }
        }
    }

    /// From the gradients of layer l to those of the one before.
    fn back(&mut self, l: usize) {
        let (before, rest) = self.layers.split_at_mut(l);
        let (to, from) = (&mut before[l - 1], &mut rest[0]);
        let count = self.labels.len() * from.layer.inputs;
        let [delta, moved] = &mut to.delta;
        from.back[0].multiply(&from.delta[0], delta);
        from.back[1].multiply(&from.delta[0], moved);
        let more = &mut from.work[..count];
        from.back[0].multiply(&from.delta[1], more);
        for i in 0..count {
            let back = delta[i];
            delta[i] = back * to.slopes[i];
            moved[i] = (moved[i] + more[i]) * to.slopes[i] + back * to.bends[i] * to.moves[i];
        }
    }

    /// Adds `times` the product of record r.
    fn add(&self, r: usize, times: f64, out: &mut [f64]) {
        for slab in &self.layers {
            let (m, n) = (slab.layer.inputs, slab.layer.outputs);
            let [a, ra] = [0, 1].map(|k| &slab.inputs[k][r * (m + 1)..][..m + 1]);
            let [delta, rdelta] = [0, 1].map(|k| &slab.delta[k][r * n..][..n]);
            let rows = slab.layer.of_mut(out).chunks_exact_mut(n);
            for (out, (a, ra)) in rows.zip(a.iter().zip(ra)) {
                let (a, ra) = (times * a, times * ra);
                for ((out, d), rd) in out.iter_mut().zip(delta).zip(rdelta) {
                    *out += ra * d + a * rd;
                }
            }
        }
    }
}
