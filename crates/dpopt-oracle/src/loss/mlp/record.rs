//! One record: outputs, gradient, and the change of the gradient between two points.

use dpopt_linalg::Row;

use super::network::{Layer, Mlp};
use crate::loss::Segment;

/// State of a forward pass of one record.
pub(super) struct Forward {
    /// Outputs of each layer's predecessor: the features first.
    inputs: Vec<Vec<f64>>,
    /// Inputs of each hidden unit.
    received: Vec<Vec<f64>>,
    /// Slope of each hidden unit.
    slopes: Vec<Vec<f64>>,
    pub(super) outputs: Vec<f64>,
}

impl Forward {
    pub(super) fn of(mlp: &Mlp, features: Vec<f64>, point: &[f64]) -> Self {
        let mut out = Self {
            inputs: vec![features],
            received: Vec::new(),
            slopes: Vec::new(),
            outputs: Vec::new(),
        };
        let last = mlp.sizes.len() - 2;
        for (l, layer) in mlp.layers().enumerate() {
            let mut z = vec![0.0; layer.outputs];
            add_affine(layer, layer.of(point), &out.inputs[l], 1.0, &mut z);
            if l == last {
                out.outputs = z;
                break;
            }
            out.received.push(z.clone());
            let mut slopes = vec![0.0; z.len()];
            mlp.activation.apply(&mut z, &mut slopes);
            out.inputs.push(z);
            out.slopes.push(slopes);
        }
        out
    }
}

/// All features of a row, one for each input.
pub(super) fn features(mlp: &Mlp, row: Row<'_>) -> Vec<f64> {
    let mut all = vec![0.0; mlp.sizes[0]];
    fill(row, &mut all);
    all
}

/// Puts the features of a row among zeros.
pub(super) fn fill(row: Row<'_>, zeros: &mut [f64]) {
    row.for_each(|j, x| {
        if let Some(to) = zeros.get_mut(j) {
            *to = x;
        }
    });
}

pub(super) fn gradient(mlp: &Mlp, row: Row<'_>, label: f64, point: &[f64], out: &mut [f64]) {
    let forward = Forward::of(mlp, features(mlp, row), point);
    let mut delta = forward.outputs.clone();
    mlp.head.gradient(&mut delta, label);
    for (l, layer) in mlp.layers().enumerate().rev() {
        add_outer(layer.of_mut(out), &forward.inputs[l], 1.0, &delta);
        if l > 0 {
            let mut back = vec![0.0; layer.inputs];
            add_back(layer, layer.of(point), &delta, &mut back);
            for (back, slope) in back.iter_mut().zip(&forward.slopes[l - 1]) {
                *back *= slope;
            }
            delta = back;
        }
    }
}

/// Changes are carried forward and back as such, so that short ones keep their digits:
/// (W + dW) a' - W a = dW a' + W da, and so on.
pub(super) fn change(mlp: &Mlp, row: Row<'_>, label: f64, segment: &Segment<'_>, out: &mut [f64]) {
    let before = Forward::of(mlp, features(mlp, row), segment.from);
    let layers: Vec<Layer> = mlp.layers().collect();
    let last = layers.len() - 1;
    // Changes of what goes into each layer, of the slopes, and then of the outputs.
    let mut moved = vec![vec![0.0; mlp.sizes[0]]];
    let mut slopes = Vec::new();
    for (l, &layer) in layers.iter().enumerate() {
        let after = sum(&before.inputs[l], &moved[l]);
        let mut dz = vec![0.0; layer.outputs];
        add_affine(layer, layer.of(segment.displacement), &after, 1.0, &mut dz);
        add_affine(layer, layer.of(segment.from), &moved[l], 0.0, &mut dz);
        if l < last {
            let mut slope = vec![0.0; layer.outputs];
            mlp.activation
                .change(&before.received[l], &mut dz, &mut slope);
            slopes.push(slope);
        }
        moved.push(dz);
    }
    let mut change = moved[last + 1].clone();
    mlp.head.change(&before.outputs, &mut change, label);
    let mut delta = before.outputs.clone();
    mlp.head.gradient(&mut delta, label);
    for (l, &layer) in layers.iter().enumerate().rev() {
        // a' x delta' - a x delta = da x delta' + a x ddelta; the 1 of the biases does not change.
        let after = sum(&delta, &change);
        add_outer(layer.of_mut(out), &moved[l], 0.0, &after);
        add_outer(layer.of_mut(out), &before.inputs[l], 1.0, &change);
        if l > 0 {
            let (mut back, mut dback) = (vec![0.0; layer.inputs], vec![0.0; layer.inputs]);
            add_back(layer, layer.of(segment.from), &delta, &mut back);
            add_back(layer, layer.of(segment.displacement), &after, &mut dback);
            add_back(layer, layer.of(segment.from), &change, &mut dback);
            delta.clear();
            change.clear();
            for i in 0..layer.inputs {
                let (slope, dslope) = (before.slopes[l - 1][i], slopes[l - 1][i]);
                delta.push(back[i] * slope);
                change.push(dback[i] * (slope + dslope) + back[i] * dslope);
            }
        }
    }
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Adds W^T a + one * b.
fn add_affine(layer: Layer, parameters: &[f64], a: &[f64], one: f64, out: &mut [f64]) {
    let rows = parameters.chunks_exact(layer.outputs);
    for (row, a) in rows.zip(a.iter().chain([&one])) {
        for (out, w) in out.iter_mut().zip(row) {
            *out += a * w;
        }
    }
}

/// Adds W delta.
fn add_back(layer: Layer, parameters: &[f64], delta: &[f64], out: &mut [f64]) {
    let rows = parameters.chunks_exact(layer.outputs);
    for (out, row) in out.iter_mut().zip(rows) {
        *out += row.iter().zip(delta).map(|(w, d)| w * d).sum::<f64>();
    }
}

/// Adds (a, one) x delta.
fn add_outer(out: &mut [f64], a: &[f64], one: f64, delta: &[f64]) {
    let rows = out.chunks_exact_mut(delta.len());
    for (row, a) in rows.zip(a.iter().chain([&one])) {
        for (out, d) in row.iter_mut().zip(delta) {
            *out += a * d;
        }
    }
}
