//! Maps: entries, storages, bits of images, the lift, lengths.

use super::*;

fn dense(rows: &[Vec<f64>]) -> Design {
    Design::dense(rows[0].len(), rows.concat()).unwrap()
}

fn image(design: &Design, i: usize) -> Vec<f64> {
    match design.row(i) {
        Row::Dense(x) => x.to_vec(),
        _ => unreachable!(),
    }
}

/// Rows of plain numbers that have nothing to do with the map's generator.
fn rows(n: usize, d: usize) -> Vec<Vec<f64>> {
    let entry = |i: usize, j: usize| ((i * 37 + j * 101 + 13) % 997) as f64 / 997.0 - 0.5;
    (0..n)
        .map(|i| (0..d).map(|j| entry(i, j)).collect())
        .collect()
}

#[test]
fn the_logarithm_is_that_of_the_library() {
    let mut x = 1e-300;
    while x < 1.0 {
        assert!(
            (ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1e-3),
            "{x}"
        );
        x *= 1.037;
    }
    assert!((ln(1.0 - 1e-12) - (-1e-12f64).ln_1p()).abs() < 1e-15);
}

/// Moments of 2 * 10^6 entries: each within 5 standard errors (false alarm below 10^-5 together),
/// and none of 20 columns correlated with its neighbour.
#[test]
fn entries_are_independent_standard_normals() {
    let (k, d) = (1000, 2000);
    let map = JlMap::gaussian(k, d, 7).unwrap();
    let mut column = vec![0.0; k];
    let mut before = vec![0.0; k];
    let (mut moments, mut tail, mut cross, mut lag) = ([0.0; 4], 0.0, 0.0, 0.0);
    for j in 0..d {
        map.column(j, &mut column);
        column.iter_mut().for_each(|x| *x *= (k as f64).sqrt());
        for (a, x) in column.iter().enumerate() {
            for (p, moment) in moments.iter_mut().enumerate() {
                *moment += x.powi(p as i32 + 1);
            }
            tail += f64::from(x.abs() > 3.0);
            cross += x * before[a];
            lag += if a > 0 { x * column[a - 1] } else { 0.0 };
        }
        before.copy_from_slice(&column);
    }
    let n = (k * d) as f64;
    // Means and variances of z, z^2, z^3, z^4.
    for (moment, (mean, variance)) in
        moments
            .iter()
            .zip([(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)])
    {
        assert!(
            (moment / n - mean).abs() < 5.0 * (variance / n).sqrt(),
            "{moments:?}"
        );
    }
    // P(|z| > 3) = 0.0026998.
    assert!((tail / n - 0.002_699_8).abs() < 5.0 * (0.0027 / n).sqrt());
    assert!(cross.abs() < 5.0 * n.sqrt() && lag.abs() < 5.0 * n.sqrt());
}

#[test]
fn all_storages_have_one_image() {
    let d = 700;
    let map = JlMap::gaussian(33, d, 1).unwrap();
    let single: Vec<f32> = rows(9, d).concat().iter().map(|x| *x as f32).collect();
    let double: Vec<f64> = single.iter().map(|x| f64::from(*x)).collect();
    let mut sparse = Design::sparse(d).unwrap();
    for row in single.chunks(d) {
        let entries: Vec<(u32, f32)> = row
            .iter()
            .enumerate()
            .map(|(j, x)| (j as u32, *x))
            .collect();
        sparse.push_row(&entries).unwrap();
    }
    let wide = map
        .embed(&Design::dense(d, double.clone()).unwrap())
        .unwrap();
    let narrow = map.embed(&Design::dense32(d, single).unwrap()).unwrap();
    let thin = map.embed(&sparse).unwrap();
    for i in 0..9 {
        let expected = map.apply(&double[i * d..(i + 1) * d]).unwrap();
        for design in [&wide, &narrow, &thin] {
            for (x, y) in image(design, i).iter().zip(&expected) {
                assert!((x - y).abs() < 1e-13, "{x} {y}");
            }
        }
    }
    let mut ones = Design::one_hot(d, 0.5).unwrap();
    ones.push_ones(&[3, 255, 256, 699]).unwrap();
    let mut row = vec![0u8; d];
    for j in [3, 255, 256, 699] {
        row[j] = 2;
    }
    let bytes = Design::bytes(d, row.clone(), 0.25).unwrap();
    let hot: Vec<f64> = row.iter().map(|b| 0.25 * f64::from(*b)).collect();
    let expected = map.apply(&hot).unwrap();
    let found = [
        image(&map.embed(&ones).unwrap(), 0),
        image(&map.embed(&bytes).unwrap(), 0),
    ];
    for image in found {
        for (x, y) in image.iter().zip(&expected) {
            assert!((x - y).abs() < 1e-14);
        }
    }
}

/// The bits of a row's image are the row's own: whoever stands beside it, before it, or how many.
#[test]
fn bits_of_an_image_are_those_of_its_row_alone() {
    let d = 515;
    let map = JlMap::gaussian(21, d, 3).unwrap();
    let mut all = rows(13, d);
    all[5][100] = f64::NAN;
    all[6][3] = f64::INFINITY;
    let together = map.embed(&dense(&all)).unwrap();
    for (i, row) in all.iter().enumerate() {
        let alone = map.embed(&dense(std::slice::from_ref(row))).unwrap();
        let bits = |v: Vec<f64>| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let (with, without) = (image(&together, i), image(&alone, 0));
        assert_eq!(
            with.iter().all(|x| x.is_finite()),
            row.iter().all(|x| x.is_finite())
        );
        if row.iter().all(|x| x.is_finite()) {
            assert_eq!(bits(with), bits(without), "{i}");
        }
    }
    let mut reversed = all.clone();
    reversed.reverse();
    let turned = map.embed(&dense(&reversed)).unwrap();
    for i in [0, 1, 2, 9, 12] {
        assert_eq!(image(&together, i), image(&turned, 12 - i));
    }
    let mut one = Design::sparse(d).unwrap();
    one.push_row(&[(2, 0.3), (300, -0.7)]).unwrap();
    let mut two = Design::sparse(d).unwrap();
    for columns in [
        &[(0u32, 9.0f32)][..],
        &[(2, 0.3), (300, -0.7)],
        &[(299, f32::NAN)],
    ] {
        two.push_row(columns).unwrap();
    }
    assert_eq!(
        image(&map.embed(&one).unwrap(), 0),
        image(&map.embed(&two).unwrap(), 1)
    );
}

/// <Phi x, w> = <x, Phi^T w>.
#[test]
fn the_lift_is_the_adjoint() {
    let map = JlMap::gaussian(40, 600, 11).unwrap();
    let point: Vec<f64> = (0..40).map(|a| f64::from(a).sin()).collect();
    let lifted = map.lift(&point).unwrap();
    let design = dense(&rows(5, 600));
    let embedded = map.embed(&design).unwrap();
    for i in 0..5 {
        let (a, b) = (design.row(i).dot(&lifted), embedded.row(i).dot(&point));
        assert!((a - b).abs() < 1e-12 * (1.0 + a.abs()));
    }
}

/// E||Phi x||^2 = ||x||^2, and for 2000 vertices of a cross-polytope
/// max | ||Phi x_i|| - 1 | < (sqrt(2 ln 2n) + 2)/sqrt(k). The expectation is at most
/// (sqrt(2 ln 2n) + 1)/sqrt(k), and 1/sqrt(k) is a standard deviation of a 1-Lipschitz function of a
/// Gaussian of variance 1/k: above with probability e^(-1/2) at most by that bound, in truth far less.
#[test]
fn lengths_are_kept() {
    let (n, k) = (2000, 200);
    let bound = ((2.0 * (2.0 * n as f64).ln()).sqrt() + 2.0) / (k as f64).sqrt();
    let mut mean = 0.0;
    for seed in 0..5 {
        let map = JlMap::gaussian(k, n, seed).unwrap();
        let mut column = vec![0.0; k];
        let mut worst = 0.0f64;
        for j in 0..n {
            map.column(j, &mut column);
            let length = crate::vector::norm(&column);
            worst = worst.max((length - 1.0).abs());
            mean += length * length / (5 * n) as f64;
        }
        assert!(worst < bound, "{worst} {bound}");
        assert!(worst > 0.3 * bound);
    }
    // Variance of a square length: 2/k. Five standard errors.
    assert!((mean - 1.0).abs() < 5.0 * (2.0 / (k * 5 * n) as f64).sqrt());
}

/// d = 10^5 takes a block and the result.
#[test]
fn wide_rows_are_embedded_in_blocks() {
    let d = 100_000;
    let map = JlMap::gaussian(24, d, 5).unwrap();
    let mut design = Design::sparse(d).unwrap();
    design
        .push_row(&[(0, 0.5), (50_000, 0.5), (99_999, -0.5)])
        .unwrap();
    let embedded = image(&map.embed(&design).unwrap(), 0);
    let mut expected = vec![0.0; 24];
    let mut column = vec![0.0; 24];
    for (j, x) in [(0, 0.5), (50_000, 0.5), (99_999, -0.5)] {
        map.column(j, &mut column);
        crate::vector::add_scaled(&mut expected, x, &column);
    }
    assert_eq!(embedded, expected);
}

#[test]
fn the_identity_changes_nothing_and_misfits_are_refused() {
    let map = JlMap::identity(3).unwrap();
    let design = dense(&[vec![1.0, -2.0, 0.5]]);
    assert_eq!(image(&map.embed(&design).unwrap(), 0), [1.0, -2.0, 0.5]);
    assert_eq!(map.lift(&[1.0, 2.0, 3.0]).unwrap(), [1.0, 2.0, 3.0]);
    assert!(map.is_identity());
    let map = JlMap::gaussian(2, 4, 0).unwrap();
    let misfit = MapError::Dimension {
        expected: 4,
        got: 3,
    };
    assert_eq!(map.embed(&design).err(), Some(misfit));
    assert_eq!(map.apply(&[0.0; 3]).err(), Some(misfit));
    assert_eq!(
        map.lift(&[0.0; 3]).err(),
        Some(MapError::Dimension {
            expected: 2,
            got: 3
        })
    );
    assert!(JlMap::gaussian(0, 4, 0).is_err() && JlMap::gaussian(4, 0, 0).is_err());
}
