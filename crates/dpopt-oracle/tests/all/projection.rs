//! Records through a Johnson-Lindenstrauss map: the gradient identity, and the bound that holds for every map.

use dpopt_linalg::{Design, JlMap, add_scaled, norm};
use dpopt_oracle::{
    DataError, Differentiable, Examples, Glm, PrivateData, PrivateGradient, Records,
};
use dpopt_privacy::{Adjacency, Curator, Event, NoiseMultiplier, Spend};

use crate::common::clip;

const D: usize = 300;
const K: usize = 60;

fn rows(n: usize) -> Vec<f64> {
    let entry = |at: usize| ((at * 7919 + 17) % 2003) as f64 / 2003.0 - 0.5;
    let mut all: Vec<f64> = (0..n * D).map(entry).collect();
    for row in all.chunks_mut(D) {
        let length = norm(row);
        row.iter_mut().for_each(|x| *x /= length * 1.000_001);
    }
    all
}

fn labels(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| if i % 3 == 0 { 1.0 } else { -0.5 })
        .collect()
}

fn examples(n: usize) -> Examples {
    let design = Design::dense(D, rows(n)).unwrap();
    Examples::new(design, labels(n), clip(1.0)).unwrap()
}

fn mean_gradient(loss: Glm, data: &Examples, point: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; point.len()];
    for i in 0..data.len() {
        let mut gradient = vec![0.0; point.len()];
        loss.gradient(data.record(i), point, &mut gradient);
        add_scaled(&mut sum, 1.0 / data.len() as f64, &gradient);
    }
    sum
}

/// grad F~(w~) = Phi grad F(Phi^T w~) where no row was rescaled.
#[test]
fn the_embedded_gradient_is_the_image_of_the_gradient() {
    let data = examples(40);
    for (seed, loss) in Glm::ALL.into_iter().enumerate() {
        let map = JlMap::gaussian(K, D, seed as u64).unwrap();
        let embedded = data.embedded(&map, clip(10.0)).unwrap();
        let point: Vec<f64> = (0..K).map(|a| (a as f64 * 0.7).sin()).collect();
        let gradient = mean_gradient(loss, &data, &map.lift(&point).unwrap());
        let expected = map.apply(&gradient).unwrap();
        let found = mean_gradient(loss, &embedded, &point);
        let off: Vec<f64> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
        assert!(norm(&off) < 1e-12 * (1.0 + norm(&expected)), "{loss:?}");
        assert!(norm(&expected) > 1e-3);
    }
}

/// Whatever the map does, rows are brought under the bound: one tighter than most images, a map of one row.
#[test]
fn rescaling_holds_for_every_map() {
    let data = examples(200);
    for (k, seed, bound) in [(1, 0, 1.0), (2, 1, 0.5), (5, 2, 1.0), (K, 3, 1.0)] {
        let map = JlMap::gaussian(k, D, seed).unwrap();
        let embedded = data.embedded(&map, clip(bound)).unwrap();
        let mut touched = 0;
        for i in 0..200 {
            let length = embedded.record(i).row.dot(&vec![0.0; k]).abs();
            assert_eq!(length, 0.0);
            assert!(embedded.record(i).norm <= bound * (1.0 + 1e-12), "{k}");
            let mut row = vec![0.0; k];
            embedded.record(i).row.for_each(|a, x| row[a] = x);
            let mut before = vec![0.0; D];
            data.record(i).row.for_each(|j, x| before[j] = x);
            let image = map.apply(&before).unwrap();
            let factor = (bound / norm(&image)).min(1.0);
            touched += usize::from(factor < 1.0);
            for (a, b) in row.iter().zip(&image) {
                assert!((a - factor * b).abs() < 1e-12);
            }
            assert_eq!(embedded.record(i).label, data.record(i).label);
        }
        assert!(touched > 20, "{touched}");
    }
}

/// Neighbours, one of them with the worst row for this map and one with no number at all: sums of the private estimator, read by
/// equal noise, differ by at most 2 C/n, and the difference is the exchanged record's alone.
#[test]
fn neighbours_stay_neighbours() {
    let n = 30;
    let map = JlMap::gaussian(3, D, 8).unwrap();
    // Of all unit vectors the first row of the map has (nearly) the longest image.
    let mut hostile: Vec<f64> = (0..D)
        .map(|j| {
            let mut column = [0.0; 3];
            map.column(j, &mut column);
            column[0]
        })
        .collect();
    let length = norm(&hostile);
    hostile.iter_mut().for_each(|x| *x /= length);
    assert!(norm(&map.apply(&hostile).unwrap()) > 5.0);
    let release = |replaced: Option<&[f64]>| {
        let mut all = rows(n);
        if let Some(row) = replaced {
            all[4 * D..5 * D].copy_from_slice(row);
        }
        let design = Design::dense(D, all).unwrap();
        let data = PrivateData::made_up(design, labels(n), clip(1.0), Adjacency::ReplaceOne, None)
            .unwrap();
        let data = data.embedded(&map, clip(1.2)).unwrap();
        assert_eq!(
            (data.dim(), data.row_norm(), data.public_records()),
            (3, 1.2, n as u64)
        );
        let curator = Curator::simulated(Adjacency::ReplaceOne, 5);
        let mut estimator = PrivateGradient::new(&data, Glm::Welsch, curator).unwrap();
        let z = NoiseMultiplier::new(1.0).unwrap();
        estimator
            .reserve(&Spend::Fixed(Event::gaussian(z)))
            .unwrap();
        estimator
            .refresh(&[0.3, -0.2, 0.1], z)
            .unwrap()
            .gradient
            .to_vec()
    };
    let base = release(None);
    let nothing = vec![f64::NAN; D];
    let radius = Glm::Welsch.constants(1.2).lipschitz;
    let mut largest = 0.0f64;
    for row in [&hostile[..], &nothing] {
        let other = release(Some(row));
        let off: Vec<f64> = base.iter().zip(&other).map(|(a, b)| a - b).collect();
        largest = largest.max(norm(&off));
        assert!(norm(&off) <= 2.0 * radius / n as f64 * (1.0 + 1e-6));
    }
    assert!(largest > 0.3 * radius / n as f64);
}

#[test]
fn the_identity_keeps_rows_and_a_misfit_is_refused() {
    let data = examples(5);
    let same = data
        .embedded(&JlMap::identity(D).unwrap(), clip(1.0))
        .unwrap();
    let point: Vec<f64> = (0..D).map(|j| (j as f64).cos()).collect();
    for i in 0..5 {
        assert_eq!(
            same.record(i).row.dot(&point),
            data.record(i).row.dot(&point)
        );
    }
    let misfit = JlMap::gaussian(4, D + 1, 0).unwrap();
    assert!(matches!(
        data.embedded(&misfit, clip(1.0)),
        Err(DataError::Map(_))
    ));
}
