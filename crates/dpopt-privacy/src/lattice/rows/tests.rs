//! The bulk path against a plain one, at the edge of the radius, and with everything wrong.

use dpopt_lanes::{Entry, Kernel, Lanes, Width, dispatch};
use proptest::prelude::*;

use super::super::{Bound, LatticeSum, MAX_RECORDS, RowBound};
use super::{BATCH, Clip, Dense, Multiple, SparseRow, Steps};
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

fn added<T: Entry>(bound: Bound, rows: &[&[T]], scales: &[f64]) -> Vec<i64> {
    let bounds: Vec<RowBound> = rows.iter().map(|row| RowBound::dense(row)).collect();
    let mut sum = LatticeSum::new(bound);
    sum.add_rows(rows, scales, &bounds, || {});
    assert_eq!(sum.added, rows.len() as u64);
    sum.sum
}

fn added_sparse(bound: Bound, rows: &[SparseRow<'_>], scales: &[f64]) -> Vec<i64> {
    let bounds: Vec<RowBound> = rows
        .iter()
        .map(|(columns, values)| RowBound::sparse(columns, values, bound.dim()))
        .collect();
    let mut sum = LatticeSum::new(bound);
    sum.add_sparse_rows(rows, scales, &bounds);
    assert_eq!(sum.added, rows.len() as u64);
    sum.sum
}

/// Whether this processor fuses; the rounding of a product then differs in the last place.
fn fuses() -> bool {
    struct Fuses;
    impl Kernel for Fuses {
        type Output = bool;

        fn run<L: Lanes>(self, _: L) -> bool {
            L::FUSED
        }
    }
    dispatch(Fuses)
}

/// The documented formula, one row and one entry at a time, rounded by the standard library.
fn plain(bound: &Bound, row: &[f64], scale: f64) -> Vec<i64> {
    let norm = RowBound::dense(row).norm();
    if !norm.is_finite() || !scale.is_finite() || norm == 0.0 {
        return vec![0; bound.dim()];
    }
    let mut kept = scale.abs();
    if kept * norm > bound.clip {
        kept = bound.clip / norm * (1.0 - 4.0 * f64::EPSILON);
    }
    let steps = (kept / bound.step()).copysign(scale);
    row.iter()
        .map(|&x| {
            if !fuses() {
                return (x * steps).round_ties_even() as i64;
            }
            // x * steps = high + low exactly, for numbers far from underflow.
            let high = x * steps;
            let low = x.mul_add(steps, -high);
            let k = high.round_ties_even();
            let off = high - k;
            if off.abs() == 0.5 && low != 0.0 {
                // A tie that the low part breaks.
                let down = if off > 0.0 { k } else { k - 1.0 };
                return (down + f64::from(u8::from(low > 0.0))) as i64;
            }
            k as i64
        })
        .collect()
}

fn rows_and_scales() -> impl Strategy<Value = (Vec<Vec<f64>>, Vec<f64>)> {
    (1usize..40, 1usize..80).prop_flat_map(|(dim, count)| {
        let entry = prop_oneof![8 => -1.0..1.0f64, 1 => Just(0.0), 1 => -1e6..1e6f64];
        (
            prop::collection::vec(prop::collection::vec(entry, dim), count),
            prop::collection::vec(prop_oneof![6 => -3.0..3.0f64, 1 => Just(0.0)], count),
        )
    })
}

/// Anything a row or a scale may hold.
fn wild() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => any::<f64>(),
        4 => -1.0..1.0f64,
        1 => prop::sample::select(vec![
            0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e308, f64::MAX, f64::NAN, f64::INFINITY,
            f64::NEG_INFINITY,
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn many_rows_are_the_sum_of_single_rows_to_the_bit((rows, scales) in rows_and_scales()) {
        let bound = bound(1.7, rows[0].len());
        let slices: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let mut expected = vec![0; bound.dim()];
        for (row, &scale) in rows.iter().zip(&scales) {
            for (sum, k) in expected.iter_mut().zip(plain(&bound, row, scale)) {
                *sum += k;
            }
        }
        prop_assert_eq!(added(bound, &slices, &scales), expected);
    }

    #[test]
    fn neither_order_nor_company_changes_what_a_row_adds(
        (rows, scales) in rows_and_scales(), turn in 0usize..80, split in 0usize..80,
    ) {
        let bound = bound(0.9, rows[0].len());
        let mut pairs: Vec<(&[f64], f64)> =
            rows.iter().map(Vec::as_slice).zip(scales.iter().copied()).collect();
        let all = |pairs: &[(&[f64], f64)]| {
            let (rows, scales): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            added(bound, &rows, &scales)
        };
        let whole = all(&pairs);
        let count = pairs.len();
        pairs.rotate_left(turn % count);
        let (first, second) = pairs.split_at(split % count);
        let both: Vec<i64> = all(first).iter().zip(all(second)).map(|(a, b)| a + b).collect();
        prop_assert_eq!(&whole, &both);
        // A row that counts as zero, put in the middle, changes nothing.
        let nan = vec![f64::NAN; bound.dim()];
        pairs.insert(split % count, (&nan, 1.0));
        prop_assert_eq!(&whole, &all(&pairs));
    }

    #[test]
    fn no_contribution_exceeds_the_radius_whatever_it_holds(
        row in prop::collection::vec(wild(), 1..40), scale in wild(), exponent in -320i32..270,
    ) {
        let radius = 1.2345 * 10f64.powi(exponent);
        prop_assume!(radius > 0.0);
        let bound = bound(radius, row.len());
        prop_assert!(squared(&added(bound, &[&row], &[scale])) <= limit(&bound));
        let columns: Vec<u32> = (0..row.len() as u32).collect();
        let values: Vec<f32> = row.iter().map(|&x| x as f32).collect();
        let sparse = added_sparse(bound, &[(&columns, &values)], &[scale]);
        prop_assert!(squared(&sparse) <= limit(&bound));
        // Sparse and dense rows are the same rows.
        prop_assert_eq!(sparse, added(bound, &[&values], &[scale]));
    }

    /// Rows whose scaled norm is near the radius, at all scales of row and multiple.
    #[test]
    fn contributions_near_the_radius_stay_within_it_and_nearly_fill_it(
        mantissas in prop::collection::vec(-1.0..1.0f64, 1..40),
        row_exponent in -1060i32..1000,
        product_exponent in -890i32..890,
        stretch in 0.3..3.0f64,
    ) {
        let power = |e: i32| 2f64.powi(e / 2) * 2f64.powi(e - e / 2);
        let scale_exponent = product_exponent - row_exponent;
        prop_assume!((-1070..1020).contains(&scale_exponent));
        let length = mantissas.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assume!(length > 0.1);
        let row: Vec<f64> = mantissas.iter().map(|x| x * power(row_exponent)).collect();
        let bound = bound(length * stretch * power(product_exponent), row.len());
        let sum = added(bound, &[&row], &[power(scale_exponent)]);
        prop_assert!(squared(&sum) <= limit(&bound));
        let normal = row_exponent > -1000 && scale_exponent > -1000;
        if normal && stretch < 1.0 {
            let filled = (squared(&sum) as f64 / limit(&bound) as f64).sqrt();
            prop_assert!(filled > 1.0 - 2f64.powi(-18), "{filled}");
        }
    }
}

/// The fused widths agree to the bit.
#[test]
fn the_width_of_the_processor_changes_no_bit() {
    // A group, half of one, and three more.
    let rows: Vec<Vec<f32>> = (0..15)
        .map(|i| {
            (0..53)
                .map(|j| ((i * 53 + j) as f32 * 0.37).sin())
                .collect()
        })
        .collect();
    let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let steps: Vec<f64> = (0..15).map(|i| 12_345.678_9 * f64::from(i)).collect();
    let mut all = Vec::new();
    for width in [Width::Fused, Width::V3, Width::V4] {
        let mut sum = vec![0; 53];
        let dense = Dense {
            sum: &mut sum,
            rows: &rows,
            steps: &steps,
            meanwhile: &mut || {},
        };
        if width.run(dense).is_some() {
            all.push(sum);
        }
    }
    assert!(all.iter().all(|sum| *sum == all[0]));
    assert!(all[0].iter().any(|&k| k != 0));
}

#[test]
fn the_entries_of_all_types_are_the_same_numbers() {
    let bytes: Vec<u8> = (0..21).map(|k| k * 12).collect();
    let singles: Vec<f32> = bytes.iter().map(|&x| f32::from(x)).collect();
    let doubles: Vec<f64> = bytes.iter().map(|&x| f64::from(x)).collect();
    let bound = bound(1.0, 21);
    let scales = [1.0 / 255.0; 5];
    let expected = added(bound, &[&doubles[..]; 5], &scales);
    assert_eq!(added(bound, &[&singles[..]; 5], &scales), expected);
    assert_eq!(added(bound, &[&bytes[..]; 5], &scales), expected);
}

#[test]
fn a_short_contribution_is_exact_to_half_a_step() {
    // 0.25 is a whole number of steps; 0.1 is not.
    let bound = bound(1.0, 9);
    let row = [0.25, 0.1, -0.1, 0.0, 0.25, 0.1, -0.1, 0.0, 0.25];
    let sum = added(bound, &[&row[..]; 4], &[1.0; 4]);
    for (k, x) in sum.iter().zip(row) {
        assert!((*k as f64 * bound.step() - 4.0 * x).abs() <= 2.0 * bound.step());
    }
    assert_eq!(sum[0] as f64 * bound.step(), 1.0);
}

#[test]
fn what_cannot_be_added_counts_and_adds_nothing() {
    let good = [0.5, 0.5];
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let bound = bound(1.0, 2);
        assert_eq!(
            added(bound, &[&[0.5, bad][..], &[bad, 0.5]], &[1.0, 1.0]),
            [0, 0]
        );
        assert_eq!(added(bound, &[&good], &[bad]), [0, 0]);
        let single = bad as f32;
        assert_eq!(
            added_sparse(bound, &[(&[0, 1], &[0.5, single])], &[1.0]),
            [0, 0]
        );
        assert_eq!(
            added_sparse(bound, &[(&[0, 1], &[0.5, 0.5])], &[bad]),
            [0, 0]
        );
    }
    // Rows of a wrong length, columns that repeat or do not exist.
    assert_eq!(
        added(bound(1.0, 2), &[&[0.5][..], &[0.5; 3], &[]], &[1.0; 3]),
        [0, 0]
    );
    for columns in [[1, 1], [1, 0], [0, 2]] {
        assert_eq!(
            added_sparse(bound(1.0, 2), &[(&columns, &[0.5, 0.5])], &[1.0]),
            [0, 0]
        );
    }
}

/// With scales of every kind: plain, cut, tiny, huge, none, and columns out of order or beyond the end.
#[test]
fn rows_of_ones_add_what_their_entries_add() {
    let bound = bound(1.0, 9);
    let columns: [&[u32]; 7] = [
        &[0, 3, 8],
        &[],
        &[1],
        &[2, 4, 5, 6, 7],
        &[4, 4],
        &[7, 9],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8],
    ];
    let ones = [1.0; 9];
    for scale in [
        0.1,
        -3.0,
        1e-12,
        1e-310,
        1e300,
        0.0,
        f64::NAN,
        f64::INFINITY,
    ] {
        let rows = columns.map(|columns| (columns, &ones[..columns.len()]));
        let bounds = rows.map(|(columns, ones)| RowBound::sparse(columns, ones, bound.dim()));
        let mut sum = LatticeSum::new(bound);
        sum.add_one_hot_rows(&columns, &[scale; 7], &bounds);
        assert_eq!(sum.added, 7);
        assert_eq!(sum.sum, added_sparse(bound, &rows, &[scale; 7]), "{scale}");
    }
}

#[test]
fn a_full_sum_takes_no_more_rows() {
    let bound = bound(1.0, 1);
    let mut sum = LatticeSum::new(bound);
    sum.added = MAX_RECORDS - 2;
    let row = [0.25];
    let bounds = [RowBound::dense(&row); 3];
    sum.add_rows(&[&row[..]; 3], &[1.0; 3], &bounds, || {});
    assert_eq!(sum.added, MAX_RECORDS);
    assert_eq!(sum.sum[0] as f64 * bound.step(), 0.5);
    sum.add_sparse_rows(&[(&[0], &[0.25])], &[1.0], &bounds[..1]);
    assert_eq!(sum.sum[0] as f64 * bound.step(), 0.5);
}

#[test]
fn sums_near_the_ends_of_the_range_are_exact() {
    // Rows of the whole radius in one coordinate: 2^30 steps nearly, many times, with both signs.
    let bound = bound(1.0, 3);
    let rows = vec![&[1.0, -1.0, 0.0][..]; 1000];
    let sum = added(bound, &rows, &vec![5.0; 1000]);
    assert_eq!(sum[0], -sum[1]);
    assert_eq!(sum[0] % 1000, 0);
    assert_eq!(sum[2], 0);
    let mut full = LatticeSum::new(bound);
    full.sum = vec![i64::MAX / 2, -(i64::MAX / 2), 0];
    let bounds = vec![RowBound::dense(rows[0]); 1000];
    full.add_rows(&rows, &vec![5.0; 1000], &bounds, || {});
    assert_eq!(full.sum[0], i64::MAX / 2 + sum[0]);
    assert_eq!(full.sum[1], -(i64::MAX / 2) + sum[1]);
}

/// A bound that is too small must be caught by the test of norms: the check is alive.
#[test]
fn a_bound_of_another_row_is_seen_by_the_test_of_norms() {
    let bound = bound(1.0, 2);
    let mut sum = LatticeSum::new(bound);
    sum.add_rows(
        &[&[30.0, 40.0]],
        &[1.0],
        &[RowBound::dense(&[0.3, 0.4])],
        || {},
    );
    assert!(squared(&sum.sum) > limit(&bound));
}

#[test]
fn meanwhile_is_called_once_for_32_entries() {
    let bound = bound(1.0, 16);
    let row = [0.1; 16];
    let mut count = 0;
    let bounds = [RowBound::dense(&row); 8];
    LatticeSum::new(bound).add_rows(&[&row[..]; 8], &[1.0; 8], &bounds, || count += 1);
    assert_eq!(count, 4);
}

/// Scales and bounds of every kind, alone and together: the batch finds what one row at a time finds, says of every
/// batch that has something odd in it that it is not plain, and gives rows that count as zero no steps.
#[test]
fn a_batch_of_scales_is_clipped_as_each_alone() {
    let norms = [
        0.0,
        1e-310,
        1e-30,
        0.3,
        1.0,
        7.0,
        1e300,
        1.7e308,
        f64::INFINITY,
    ];
    let tiny = f64::from_bits(1);
    let scales = [
        0.0,
        -0.0,
        tiny,
        -1e-300,
        0.2,
        -1.0,
        3.0,
        1e10,
        -1e300,
        f64::MAX,
    ];
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for radius in [1e-250, 1.0, 1e200] {
        let clip = Clip::new(&bound(radius, 5));
        let of = |scales: &[f64], bounds: &[RowBound]| {
            let (mut steps, mut plain) = (vec![f64::NAN; scales.len()], true);
            dispatch(Steps {
                weight: 1.0,
                clip,
                scales,
                bounds,
                steps: &mut steps,
                plain: &mut plain,
            });
            (steps, plain)
        };
        let mut together = (Vec::new(), Vec::new(), Vec::new());
        for norm in norms {
            for scale in scales.into_iter().chain(odd) {
                let bound = RowBound::dense(&[norm]);
                let (steps, plain) = of(&[scale], &[bound]);
                match clip.multiple(scale, bound) {
                    Multiple::Steps(expected) => {
                        assert!(plain && steps[0].to_bits() == expected.to_bits());
                        together.0.push(scale);
                        together.1.push(bound);
                        together.2.push(steps[0]);
                    }
                    // All entries are zero, or the steps are.
                    Multiple::Zero if plain => assert!(norm == 0.0 || steps[0] == 0.0),
                    // The careful way finds the zero of a NaN scale, too.
                    Multiple::Zero => {
                        assert!(norm == f64::INFINITY || norm == 0.0 || !scale.is_finite());
                    }
                    Multiple::Extreme => assert!(!plain, "{norm} {scale}"),
                }
            }
        }
        for batch in [1, 7, 8, 9, BATCH] {
            let all = together.0.chunks(batch).zip(together.1.chunks(batch));
            let found: Vec<f64> = all.flat_map(|(s, b)| of(s, b).0).collect();
            assert_eq!(found, together.2);
        }
    }
}
