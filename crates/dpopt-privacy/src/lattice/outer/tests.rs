//! Rounded outer products against exact integers, at the edge of the radius, and with everything wrong.

use proptest::prelude::*;

use super::super::{Bound, LatticeSum};
use super::{BLOCK, Factors, OuterWork};
use crate::units::ClipNorm;

fn bound(radius: f64, dim: usize) -> Bound {
    Bound::new(ClipNorm::new(radius).unwrap(), dim).unwrap()
}

fn squared(sum: &[i64]) -> u128 {
    sum.iter()
        .map(|&k| (i128::from(k) * i128::from(k)) as u128)
        .sum()
}

/// The radius in steps, rounded down, squared.
fn limit(bound: &Bound) -> u128 {
    let radius = (bound.radius() / bound.step()).floor() as u128;
    radius * radius
}

/// One record: the two factors of each matrix.
type Parts = Vec<(Vec<f64>, Vec<f64>)>;

fn added(bound: Bound, records: &[Parts]) -> Vec<i64> {
    let mut sum = LatticeSum::new(bound);
    add(&mut sum, records);
    assert_eq!(sum.added, records.len() as u64);
    sum.sum
}

fn add(sum: &mut LatticeSum, records: &[Parts]) {
    let Some(first) = records.first() else { return };
    let all: Vec<(Vec<f64>, Vec<f64>)> = (0..first.len())
        .map(|l| {
            let left = records.iter().flat_map(|r| r[l].0.clone()).collect();
            (left, records.iter().flat_map(|r| r[l].1.clone()).collect())
        })
        .collect();
    let layers: Vec<Factors<'_>> = all
        .iter()
        .zip(first)
        .map(|((left, right), (a, b))| Factors {
            left,
            left_len: a.len(),
            right,
            right_len: b.len(),
        })
        .collect();
    sum.add_outer_products(records.len(), &layers, &mut OuterWork::new());
}

/// The clipped matrices of one record in lattice steps, by the formula.
fn plain(bound: &Bound, record: &Parts) -> Vec<f64> {
    let all: Vec<f64> = record
        .iter()
        .flat_map(|(a, b)| a.iter().flat_map(move |x| b.iter().map(move |y| x * y)))
        .collect();
    let norm = all.iter().map(|x| x * x).sum::<f64>().sqrt();
    let radius = bound.radius() / bound.step();
    let slack = radius.sqrt() - (bound.dim() as f64).powf(0.25) / 2.0;
    let steps = (1.0 / bound.step()).min(slack * slack / norm);
    all.iter().map(|x| x * steps).collect()
}

fn record(seed: u64, shapes: &[(usize, usize)], size: f64) -> Parts {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 11) as f64 / 2f64.powi(53) - 0.5) * size
    };
    shapes
        .iter()
        .map(|&(m, n)| {
            (
                (0..m).map(|_| next()).collect(),
                (0..n).map(|_| next()).collect(),
            )
        })
        .collect()
}

const SHAPES: [(usize, usize); 3] = [(17, 9), (10, 25), (1, 3)];
const DIM: usize = 17 * 9 + 250 + 3;

#[test]
fn a_contribution_is_the_clipped_one_within_the_stated_error() {
    for (seed, size) in [(1, 0.1), (2, 1.0), (3, 30.0), (4, 1e-3), (5, 1e150)] {
        let bound = bound(1.5, DIM);
        let record = record(seed, &SHAPES, size);
        let record = if size == 1e150 {
            // Products and norms beyond the largest double, in proportion.
            record
                .iter()
                .map(|(a, b)| (a.clone(), b.iter().map(|x| x * 1e10).collect()))
                .collect()
        } else {
            record
        };
        let expected = if size == 1e150 {
            plain(
                &bound,
                &record
                    .iter()
                    .map(|(a, b)| {
                        let shrink =
                            |v: &[f64], by: f64| v.iter().map(|x| x / by).collect::<Vec<f64>>();
                        (shrink(a, 1e148), shrink(b, 1e158))
                    })
                    .collect(),
            )
        } else {
            plain(&bound, &record)
        };
        let found = added(bound, std::slice::from_ref(&record));
        let apart: f64 = found
            .iter()
            .zip(&expected)
            .map(|(k, x)| (*k as f64 - x).powi(2))
            .sum();
        let size = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
        let d = DIM as f64;
        assert!(
            apart.sqrt() <= size.sqrt() * d.powf(0.25) + d.sqrt() / 4.0 + 1e-3,
            "{seed}"
        );
        assert!(size > 1e2);
    }
}

#[test]
fn a_long_record_reaches_nearly_to_the_radius() {
    let bound = bound(1.5, DIM);
    let found = added(bound, &[record(7, &SHAPES, 100.0)]);
    let norm = (squared(&found) as f64).sqrt() * bound.step();
    assert!(norm <= 1.5 && norm > 1.5 * (1.0 - (DIM as f64).powf(0.25) * 2f64.powi(-13)));
}

#[test]
fn the_sum_is_that_of_its_records_however_they_are_grouped() {
    // Longer than a block, twice.
    let records: Vec<Parts> = (0..2 * BLOCK as u64 + 37)
        .map(|i| record(i, &SHAPES, if i % 3 == 0 { 9.0 } else { 0.2 }))
        .collect();
    let bound = bound(0.7, DIM);
    let together = added(bound, &records);
    let mut singles = vec![0i64; DIM];
    for record in &records {
        let one = added(bound, std::slice::from_ref(record));
        singles.iter_mut().zip(&one).for_each(|(s, k)| *s += k);
    }
    assert_eq!(together, singles);
    let reversed: Vec<Parts> = records.iter().rev().cloned().collect();
    assert_eq!(together, added(bound, &reversed));
    let mut parts = LatticeSum::new(bound);
    add(&mut parts, &records[..5]);
    add(&mut parts, &records[5..200]);
    let mut other = LatticeSum::new(bound);
    add(&mut other, &records[200..]);
    assert_eq!(together, parts.merge(other).unwrap().sum);
}

#[test]
fn what_is_not_finite_removes_its_record_and_no_other() {
    let bound = bound(1.0, DIM);
    let good: Vec<Parts> = (0..20).map(|i| record(i, &SHAPES, 1.0)).collect();
    let expected = added(bound, &good);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for layer in 0..3 {
            for side in 0..2 {
                let mut hostile = record(99, &SHAPES, 1.0);
                let (left, right) = &mut hostile[layer];
                let factor = if side == 0 { left } else { right };
                *factor.last_mut().unwrap() = bad;
                assert_eq!(added(bound, std::slice::from_ref(&hostile)), vec![0; DIM]);
                for place in [0, 7, 20] {
                    let mut all = good.clone();
                    all.insert(place, hostile.clone());
                    assert_eq!(added(bound, &all), expected);
                }
            }
        }
    }
}

#[test]
fn a_place_that_held_a_record_before_does_not_keep_it() {
    let bound = bound(1.0, DIM);
    let mut bad = record(3, &SHAPES, 1.0);
    bad[2].1[0] = f64::NAN;
    let mut all = vec![record(1, &SHAPES, 1.0); BLOCK];
    let first = added(bound, &all);
    all.extend(vec![bad; BLOCK]);
    assert_eq!(added(bound, &all), first);
}

#[test]
#[should_panic(expected = "fill the sum")]
fn matrices_of_another_size_are_refused() {
    let _ = added(bound(1.0, DIM + 1), &[record(1, &SHAPES, 1.0)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn no_contribution_exceeds_the_radius(
        left in prop::collection::vec(
            prop_oneof![any::<f64>(), -1.0..1.0f64, Just(0.0), Just(f64::MAX), Just(5e-324)], 14),
        right in prop::collection::vec(
            prop_oneof![any::<f64>(), -1.0..1.0f64, Just(0.0), Just(f64::MAX), Just(5e-324)], 14),
        cut in 1usize..13,
        exponent in -320i32..290,
    ) {
        let radius = 1.2345 * 10f64.powi(exponent);
        prop_assume!(radius > 0.0 && radius < 1e270);
        let record: Parts = vec![
            (left[..cut].to_vec(), right[..14 - cut].to_vec()),
            (left[cut..].to_vec(), right[14 - cut..].to_vec()),
        ];
        let bound = bound(radius, 2 * cut * (14 - cut));
        prop_assert!(squared(&added(bound, &[record])) <= limit(&bound));
    }

    /// Finite records near the radius are kept, at every scale: the exact check refuses none of them.
    #[test]
    fn records_near_the_radius_are_kept(
        seed in any::<u64>(),
        left_exponent in -1060i32..1000,
        product_exponent in -880i32..880,
        stretch in 0.3..3.0f64,
        shapes in prop::collection::vec((1usize..30, 1usize..30), 1..4),
    ) {
        let power = |e: i32| 2f64.powi(e / 2) * 2f64.powi(e - e / 2);
        let right_exponent = product_exponent - left_exponent;
        prop_assume!((-1060..1000).contains(&right_exponent));
        let plain = record(seed, &shapes, 1.0);
        let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let length = plain.iter().map(|(a, b)| (norm(a) * norm(b)).powi(2)).sum::<f64>().sqrt();
        prop_assume!(length > 1e-3);
        let scaled: Parts = plain.iter().map(|(a, b)| (
            a.iter().map(|x| x * power(left_exponent)).collect(),
            b.iter().map(|x| x * power(right_exponent)).collect(),
        )).collect();
        let dim = shapes.iter().map(|(m, n)| m * n).sum();
        let bound = bound(length * stretch * power(product_exponent), dim);
        let found = squared(&added(bound, &[scaled]));
        prop_assert!(found <= limit(&bound));
        // Entries near the smallest double have few digits.
        if left_exponent > -1000 && right_exponent > -1000 {
            let kept = (found as f64).sqrt() * bound.step() / (length * power(product_exponent));
            prop_assert!((kept / stretch.min(1.0) - 1.0).abs() < 0.01, "{kept} {stretch}");
        }
    }
}
