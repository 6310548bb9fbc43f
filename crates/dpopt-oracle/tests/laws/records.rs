//! Records of all kinds, hostile ones among them, and points.

use dpopt_linalg::Design;
use dpopt_oracle::PrivateData;
use dpopt_privacy::{Adjacency, ClipNorm};

use crate::engine::{PUBLIC, uniforms};

/// Features: one whole vector of eight and a rest.
pub(crate) const DIM: usize = 11;

/// A row with its label.
pub(crate) type Example = ([f64; DIM], f32);

pub(crate) fn norm(x: f64) -> ClipNorm {
    ClipNorm::new(x).unwrap()
}

/// How rows are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Store {
    Dense,
    Dense32,
    Sparse,
    Bytes,
    OneHot,
}

pub(crate) const STORES: [Store; 5] = [
    Store::Dense,
    Store::Dense32,
    Store::Sparse,
    Store::Bytes,
    Store::OneHot,
];

/// Rows of lengths around the bound 1, with labels that are classes, numbers, or neither; then the hostile ones.
pub(crate) fn examples() -> Vec<Example> {
    let mut next = uniforms(3);
    let mut all: Vec<Example> = (0..14)
        .map(|i| {
            let scale = 10f64.powf(1.5 * next() - 0.5);
            let row = std::array::from_fn(|_| {
                let x = next();
                f64::from((if x > 0.5 { 0.0 } else { scale * x }) as f32)
            });
            let label = if i % 2 == 0 {
                f64::from(i % 4)
            } else {
                2.0 * next()
            };
            (row, label as f32)
        })
        .collect();
    // Rows with equal neighbours.
    for i in 0..6 {
        let (mut row, mut last) = ([0.0; DIM], 0.0);
        for (j, x) in row.iter_mut().enumerate() {
            if j % 2 == 0 {
                last = f64::from((0.2 * next()) as f32);
            }
            *x = last;
        }
        all.push((row, (i % 3) as f32));
    }
    let one = |x: f64| {
        let mut row = [0.0; DIM];
        row[DIM - 1] = x;
        row
    };
    all.extend([
        ([0.0; DIM], 1.0),
        (one(1.0), 1.0),
        (one(-1.0), 1.0),
        (one(1.0), -1.0),
        (one(f64::NAN), 1.0),
        (one(f64::INFINITY), 0.0),
        (one(f64::NEG_INFINITY), 2.0),
        ([f64::NAN; DIM], f32::NAN),
        ([f64::MAX; DIM], 1.0),
        ([1e300; DIM], 1.0),
        ([3e38; DIM], -1.0),
        (one(1e-320), 1.0),
        ([1e-41; DIM], 1.0),
        ([5e-324; DIM], 2.0),
        (one(0.5), f32::NAN),
        (one(0.5), f32::INFINITY),
        (one(0.5), f32::MAX),
        (one(-0.5), f32::MIN),
        (one(0.5), 1e-45),
    ]);
    all
}

/// Private rows, of norm at most 1.
pub(crate) fn private(store: Store, records: &[Example], adjacency: Adjacency) -> PrivateData {
    let flat = || records.iter().flat_map(|(row, _)| row.iter().copied());
    // Numbers that a store can't hold become some that it can, each on its own.
    let byte = |x: f64| (x.abs() * 100.0).min(255.0) as u8;
    let design = match store {
        Store::Dense => Design::dense(DIM, flat().collect()),
        Store::Dense32 => Design::dense32(DIM, flat().map(|x| x as f32).collect()),
        Store::Bytes => Design::bytes(DIM, flat().map(byte).collect(), 1.0 / 128.0),
        Store::Sparse | Store::OneHot => {
            let mut design = match store {
                Store::Sparse => Design::sparse(DIM),
                _ => Design::one_hot(DIM, 0.3),
            }
            .unwrap();
            for (row, _) in records {
                let entries: Vec<(u32, f32)> = row
                    .iter()
                    .enumerate()
                    .filter(|(_, x)| **x != 0.0)
                    .map(|(j, x)| (j as u32, *x as f32))
                    .collect();
                if store == Store::Sparse {
                    design.push_row(&entries).unwrap();
                } else {
                    let columns: Vec<u32> = entries.iter().map(|(j, _)| *j).collect();
                    design.push_ones(&columns).unwrap();
                }
            }
            Ok(design)
        }
    }
    .unwrap();
    let labels = records.iter().map(|(_, label)| *label).collect();
    let declared = (adjacency == Adjacency::AddRemove).then_some(PUBLIC);
    PrivateData::made_up(design, labels, norm(1.0), adjacency, declared).unwrap()
}

/// Points of `dim` coordinates: the origin, three near it, one far off, one at which some products overflow, and one
/// at which all digits of a product cancel.
pub(crate) fn points(dim: usize) -> Vec<Vec<f64>> {
    points_of_layer(dim, 1)
}

/// [`points`] where so many weights of a point belong to one feature.
pub(crate) fn points_of_layer(dim: usize, outputs: usize) -> Vec<Vec<f64>> {
    let mut next = uniforms(19);
    let mut all = vec![vec![0.0; dim]];
    for scale in [1e-3, 0.4, 2.0, 1e4] {
        all.push((0..dim).map(|_| scale * next()).collect());
    }
    let mut far = all[2].clone();
    far[dim - 1] = 1e308;
    far[0] = -1e308;
    all.push(far);
    // Neighbouring features have opposite weights, so that of a row with equal neighbours only what rounding left
    // remains: another order of the sum is seen.
    let cancelling = (0..dim).map(|j| {
        let feature = (j / outputs) % DIM;
        let sign = if feature.is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * 1e14 * (1.0 + 0.37 * ((feature / 2) as f64).sin())
    });
    let mut cancelling: Vec<f64> = cancelling.collect();
    for (j, w) in cancelling.iter_mut().enumerate() {
        if (j / outputs) % DIM == DIM - 1 {
            *w = 0.3;
        }
    }
    all.push(cancelling);
    all
}
