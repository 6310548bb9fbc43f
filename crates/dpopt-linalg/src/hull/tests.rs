//! Nearest points that are known, and the gap's own promise.

use proptest::prelude::*;

use super::*;

fn hull(dim: usize, points: &[&[f64]]) -> Hull {
    let mut hull = Hull::new(dim);
    for point in points {
        hull.push(point).unwrap();
    }
    hull
}

/// A pseudo-random number in (-1, 1).
fn noise(k: u64) -> f64 {
    let z = (k.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (((z ^ (z >> 32)) >> 11) as f64) / (1u64 << 52) as f64 - 1.0
}

#[test]
fn nearest_points_by_hand() {
    // A segment, a triangle that holds 0, one vertex, duplicates, and a point far away.
    let cases: [(&[&[f64]], f64); 6] = [
        (&[&[1.0, 1.0], &[1.0, -1.0]], 1.0),
        (&[&[1.0, 0.0], &[-1.0, 1.0], &[-1.0, -1.0]], 0.0),
        (&[&[3.0, 4.0], &[6.0, 8.0], &[5.0, 5.0]], 5.0),
        (&[&[2.0, 0.0], &[2.0, 0.0], &[2.0, 0.0]], 2.0),
        (&[&[1.0, 1.0], &[1.0, -1.0], &[1e8, 0.5]], 1.0),
        (&[&[0.0, 0.0]], 0.0),
    ];
    for (points, expected) in cases {
        let found = hull(2, points).nearest(1e-12).unwrap();
        assert!((found.norm - expected).abs() < 1e-9, "{found:?}");
        assert!(found.converged);
        assert!(found.lower_bound() <= expected + 1e-12);
    }
}

/// A regular simplex with n vertices e_i has its nearest point at 1/n, of norm 1/sqrt(n).
#[test]
fn simplices_of_all_sizes() {
    for n in [1usize, 2, 7, 40, 120] {
        let mut hull = Hull::new(n);
        for i in 0..n {
            let mut vertex = vec![0.0; n];
            vertex[i] = 1.0;
            hull.push(&vertex).unwrap();
            hull.push(&vertex).unwrap();
        }
        let found = hull.nearest(1e-13).unwrap();
        assert!((found.norm - (n as f64).sqrt().recip()).abs() < 1e-13);
        let total: f64 = found.weights.iter().map(|w| w.1).sum();
        assert!((total - 1.0).abs() < 1e-12 && found.weights.iter().all(|w| w.1 > 0.0));
    }
}

/// Points of a thin slab around a plane at distance 1: near-degenerate in all but one direction.
#[test]
fn flat_hulls() {
    for flatness in [1e-3, 1e-8, 1e-14, 0.0] {
        let dim = 6;
        let mut hull = Hull::new(dim);
        for k in 0..200u64 {
            let mut point: Vec<f64> = (0..dim as u64).map(|j| noise(k * 10 + j)).collect();
            point[0] = 1.0 + flatness * (1.0 + noise(k * 10));
            hull.push(&point).unwrap();
        }
        let found = hull.nearest(1e-10).unwrap();
        assert!(found.converged, "{flatness:e} {}", found.gap);
        assert!(found.norm >= 1.0 - 1e-12 && found.norm <= 1.0 + 2.0 * flatness + 1e-9);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The certificate is about the hull: a slow projected method finds nothing below the lower bound, and adding
    /// points with a warm start ends where a cold start does.
    #[test]
    fn the_gap_bounds_the_distance(dim in 1usize..8, count in 1usize..30, seed in any::<u32>(), shift in -2.0..2.0f64) {
        let points: Vec<Vec<f64>> = (0..count)
            .map(|i| (0..dim).map(|j| noise(u64::from(seed) + (i * 31 + j) as u64) + if j == 0 { shift } else { 0.0 }).collect())
            .collect();
        let mut warm = Hull::new(dim);
        for point in &points {
            warm.push(point).unwrap();
            let found = warm.nearest(1e-11).unwrap();
            prop_assert!(found.converged);
        }
        let found = warm.nearest(1e-11).unwrap();
        // Every point lies beyond the supporting plane.
        for u in &points {
            prop_assert!(dot(&found.point, u) >= found.norm * (found.norm - found.gap) - 1e-14);
        }
        // Any convex combination is at least as long as the lower bound.
        let mut mixed = vec![0.0; dim];
        let weights: Vec<f64> = (0..count).map(|i| 1.0 + noise(u64::from(seed) ^ (i as u64) << 32)).collect();
        let total: f64 = weights.iter().sum();
        for (u, w) in points.iter().zip(&weights) {
            add_scaled(&mut mixed, w / total, u);
        }
        prop_assert!(norm(&mixed) >= found.lower_bound() - 1e-12);
        prop_assert!(found.norm - found.lower_bound() <= 1.1e-11 || found.norm <= 1e-11);
        let cold = {
            let mut hull = Hull::new(dim);
            for point in points.iter().rev() {
                hull.push(point).unwrap();
            }
            hull.nearest(1e-11).unwrap()
        };
        prop_assert!((cold.norm - found.norm).abs() <= 3e-11);
    }
}

#[test]
fn scales_do_not_matter() {
    for scale in [1e-200, 1e-8, 1e150] {
        let found = hull(2, &[&[scale, scale], &[scale, -scale]])
            .nearest(1e-10 * scale)
            .unwrap();
        assert!(
            (found.norm / scale - 1.0).abs() < 1e-9,
            "{scale:e} {found:?}"
        );
    }
}

#[test]
fn bad_input_is_an_error() {
    let mut empty = Hull::new(2);
    assert_eq!(empty.nearest(1e-9), Err(HullError::Empty));
    assert_eq!(
        empty.push(&[1.0]),
        Err(HullError::Dimension { dim: 2, got: 1 })
    );
    assert_eq!(empty.push(&[1.0, f64::NAN]), Err(HullError::NotFinite));
    empty.push(&[1.0, 0.0]).unwrap();
    assert!(matches!(empty.nearest(0.0), Err(HullError::Tolerance(_))));
    assert!(matches!(
        empty.nearest(f64::NAN),
        Err(HullError::Tolerance(_))
    ));
}
