//! Bytes and one-hot rows contribute what the same numbers do in single precision.
//!
//! Un-noised sums can't be read. Two simulated curators with the same seed draw the same noise, so
//! equal releases mean equal sums, and the difference of two releases is that of the sums.

use dpopt_linalg::{Design, distance};
use dpopt_oracle::{Glm, PrivateData, PrivateGradient};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};

const DIM: usize = 6;
const ROWS: usize = 200;
/// A power of two: a multiple of it is exact.
const SCALE: f32 = 1.0 / 512.0;

fn byte(i: usize, j: usize) -> u8 {
    ((i * 73 + j * 29 + i * j) % 256) as u8
}

fn bytes(change: Option<[u8; DIM]>) -> Vec<u8> {
    let mut all: Vec<u8> = (0..ROWS * DIM).map(|k| byte(k / DIM, k % DIM)).collect();
    if let Some(row) = change {
        all[17 * DIM..18 * DIM].copy_from_slice(&row);
    }
    all
}

/// Two releases, a gradient and a variation, on rows of norm at most `row_norm`.
fn releases(design: Design, row_norm: f64, clip: f64) -> Vec<Vec<f64>> {
    let labels = (0..ROWS).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 });
    let norm = ClipNorm::new(row_norm).unwrap();
    let data =
        PrivateData::made_up(design, labels.collect(), norm, Adjacency::ReplaceOne, None).unwrap();
    let z = NoiseMultiplier::new(1e-3).unwrap();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 7);
    let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator)
        .unwrap()
        .with_clip(ClipNorm::new(clip).unwrap());
    let event = Event::gaussian(z).repeated(2);
    estimator.reserve(&Spend::Fixed(event)).unwrap();
    let point = [0.3, -0.2, 0.5, 0.0, -0.7, 0.1];
    let anchor = estimator.refresh(&point, z).unwrap().gradient.to_vec();
    let next = point.map(|x| 1.25 * x);
    let moved = estimator.advance(&next, z).unwrap().gradient.to_vec();
    vec![anchor, moved]
}

#[test]
fn bytes_and_floats_give_the_same_release() {
    let floats = || {
        bytes(None)
            .into_iter()
            .map(|x| f32::from(x) * SCALE)
            .collect()
    };
    // No row is longer than sqrt(6) / 2, and the clip does not bite: the sums are those of the
    // same numbers, to the bit.
    let a = releases(Design::bytes(DIM, bytes(None), SCALE).unwrap(), 2.0, 2.0);
    let b = releases(Design::dense32(DIM, floats()).unwrap(), 2.0, 2.0);
    assert_eq!(a, b);
    // Where rows are rescaled, by one factor or entry by entry, rounding differs and no more.
    let a = releases(Design::bytes(DIM, bytes(None), SCALE).unwrap(), 0.5, 2.0);
    let b = releases(Design::dense32(DIM, floats()).unwrap(), 0.5, 2.0);
    for (a, b) in a.iter().zip(&b) {
        assert!(distance(a, b) < 1e-6, "{a:?} {b:?}");
    }
}

#[test]
fn one_hot_and_sparse_rows_give_the_same_release() {
    let columns = |i: usize| -> Vec<u32> {
        let all = 0..DIM as u32;
        all.filter(|&j| byte(i, j as usize).is_multiple_of(3))
            .collect()
    };
    let mut hot = Design::one_hot(DIM, 0.5).unwrap();
    let mut sparse = Design::sparse(DIM).unwrap();
    for i in 0..ROWS {
        let columns = columns(i);
        hot.push_ones(&columns).unwrap();
        let entries: Vec<(u32, f32)> = columns.iter().map(|&j| (j, 0.5)).collect();
        sparse.push_row(&entries).unwrap();
    }
    for clip in [0.1, 2.0] {
        let (a, b) = (
            releases(hot.clone(), 2.0, clip),
            releases(sparse.clone(), 2.0, clip),
        );
        for (a, b) in a.iter().zip(&b) {
            assert!(distance(a, b) < 1e-9, "{clip}: {a:?} {b:?}");
        }
    }
}
