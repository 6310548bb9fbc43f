//! Sums of squares of rows against closed forms, other paths and hostile rows.

use dpopt_lanes::{Width, each_width};
use proptest::prelude::*;

use super::*;
use crate::lattice::Bound;
use crate::units::ClipNorm;

fn empty(radius: f64, columns: usize) -> LatticeSum {
    let radius = ClipNorm::new(radius).unwrap();
    LatticeSum::new(Bound::new(radius, triangle(columns)).unwrap())
}

fn dense(radius: f64, columns: usize, rows: &[f64], scales: &[f64]) -> LatticeSum {
    let mut sum = empty(radius, columns);
    sum.add_squares(rows, scales, &mut SquareWork::new());
    sum
}

/// The same rows without their zeros, from the last to the first.
fn sparse(radius: f64, columns: usize, rows: &[f64], scales: &[f64]) -> LatticeSum {
    let mut sum = empty(radius, columns);
    for (row, scale) in rows.chunks_exact(columns).zip(scales).rev() {
        let stored = (0..columns as u32).filter(|&j| row[j as usize] != 0.0);
        let places: Vec<u32> = stored.collect();
        let values: Vec<f64> = places.iter().map(|&j| row[j as usize]).collect();
        sum.add_sparse_square(columns, *scale, (&places, &values));
    }
    sum
}

fn squared(sum: &LatticeSum) -> u128 {
    sum.sum
        .iter()
        .map(|&k| (i128::from(k).pow(2)) as u128)
        .sum()
}

fn limit(bound: &Bound) -> u128 {
    let radius = (bound.radius() / bound.step()).floor() as u128;
    radius * radius
}

/// x = (3, 4) and c = 2: (18, 24 sqrt 2, 32). sqrt 2 to 16 places.
#[test]
fn the_square_of_three_four_is_the_closed_form() {
    let sum = dense(100.0, 2, &[3.0, 4.0], &[2.0]);
    let step = sum.bound.step();
    assert_eq!(sum.sum[0] as f64 * step, 18.0);
    assert_eq!(sum.sum[2] as f64 * step, 32.0);
    assert!((sum.sum[1] as f64 * step - 24.0 * std::f64::consts::SQRT_2).abs() <= step);
    // Longer than the radius: cut to it, in its own direction.
    let sum = dense(1.0, 2, &[3.0, 4.0], &[-2.0]);
    let step = sum.bound.step();
    for (k, exact) in sum
        .sum
        .iter()
        .zip([-0.36, -0.48 * std::f64::consts::SQRT_2, -0.64])
    {
        assert!((*k as f64 * step - exact).abs() < 1e-8, "{k} {exact}");
    }
    assert!(squared(&sum) <= limit(&sum.bound));
}

/// Exact integers: the diagonal and, where x_i x_j = 0 or c sqrt 2 x_i x_j is rounded by 128-bit integers, everything beside it.
#[test]
fn many_rows_are_the_sums_of_their_rounded_products() {
    for columns in [1, 2, 7, 8, 9, 16, 23, 24, 25, 33, 41] {
        for records in [1, 2, 63, 64, 65, 130] {
            let rows: Vec<f64> = (0..records * columns)
                .map(|k| f64::from((k * 37 % 101) as i32 - 50))
                .collect();
            let scales: Vec<f64> = (0..records).map(|r| f64::from(r as i32 % 7 - 3)).collect();
            // Step 2^-9: nothing is clipped, and every product is below 2^53 steps.
            let found = dense(1_000_000.0, columns, &rows, &scales);
            let per_step = (1.0 / found.bound.step()) as i128;
            let mut at = 0;
            for i in 0..columns {
                for j in 0..=i {
                    let mut total = 0i128;
                    let mut unsure = 0;
                    for (row, scale) in rows.chunks_exact(columns).zip(&scales) {
                        let product = (row[i] * row[j] * scale) as i128 * per_step;
                        if i == j {
                            total += product;
                            continue;
                        }
                        // sqrt 2 to 18 places. Doubles err by less than 1e-8 of a step: within that of a half nothing is said.
                        let (whole, unit) = (
                            1_414_213_562_373_095_048_801_688_724_209i128,
                            10i128.pow(30),
                        );
                        let shifted = product.unsigned_abs();
                        let (high, low) = (whole / 10i128.pow(12), unit / 10i128.pow(12));
                        let exact = shifted as i128 * high;
                        let nearest = (exact + low / 2).div_euclid(low);
                        let off = (exact + low / 2).rem_euclid(low);
                        if off < 10i128.pow(10) || off > low - 10i128.pow(10) {
                            unsure += 1;
                        }
                        total += nearest * product.signum();
                    }
                    let off = i128::from(found.sum[at]) - total;
                    assert!(off.abs() <= unsure, "{columns} {records} ({i}, {j}): {off}");
                    at += 1;
                }
            }
        }
    }
}

/// AVX-512, AVX2 and other fused instructions give the same bits.
#[test]
fn fused_instructions_agree_to_the_bit() {
    let columns = 29;
    let mut work = SquareWork::new();
    work.steps = (0..50).map(|r| 1e5 * (f64::from(r) + 0.3)).collect();
    let number = |k: usize| ((k * 7919 % 1009) as f64 / 1009.0 - 0.5) * 3.7;
    for (k, of) in [&mut work.rows, &mut work.multiples]
        .into_iter()
        .enumerate()
    {
        of.extend(
            (0..4 * BLOCK).map(|c| std::array::from_fn(|lane| number(k + 13 * c + lane) * 300.0)),
        );
    }
    struct Into<'a>(&'a SquareWork, usize);
    impl Kernel for Into<'_> {
        type Output = Vec<i64>;
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<i64> {
            let mut sum = vec![0; triangle(self.1)];
            let add = AddTriangle {
                work: self.0,
                sum: &mut sum,
                columns: self.1,
            };
            add.run(lanes);
            sum
        }
    }
    let all = each_width(|| Into(&work, columns));
    let fused: Vec<_> = all
        .iter()
        .filter(|(width, _)| *width != Width::Plain)
        .collect();
    assert!(!fused.is_empty());
    for (width, found) in &fused {
        assert_eq!(found, &fused[0].1, "{width:?}");
    }
}

#[test]
fn what_is_no_number_adds_zero_and_counts() {
    let inf = f64::INFINITY;
    for (row, scale) in [
        ([1.0, f64::NAN], 1.0),
        ([inf, 0.0], 1.0),
        ([1.0, 2.0], f64::NAN),
        ([1.0, 2.0], inf),
        ([0.0, 0.0], 1.0),
        ([1.0, 2.0], 0.0),
    ] {
        for sum in [
            dense(1.0, 2, &row, &[scale]),
            sparse(1.0, 2, &row, &[scale]),
        ] {
            assert_eq!(
                (&sum.sum[..], sum.added),
                (&[0, 0, 0][..], 1),
                "{row:?} {scale}"
            );
        }
    }
    for columns in [&[1u32, 1][..], &[1, 0], &[0, 2], &[0]] {
        let mut sum = empty(1.0, 2);
        sum.add_sparse_square(2, 1.0, (columns, &[0.5, 0.5]));
        assert_eq!(
            (&sum.sum[..], sum.added),
            (&[0, 0, 0][..], 1),
            "{columns:?}"
        );
    }
}

/// Twin: a clip by the norm of the row, not of its square.
#[test]
fn the_clip_is_on_the_square() {
    let clip = Clip::new(&empty(1.0, 1).bound);
    let steps = |multiple| match multiple {
        Multiple::Steps(steps) => steps,
        _ => 0.0,
    };
    let bound = crate::lattice::RowBound::dense(&[30.0]);
    let (right, twin) = (clip.square(1.0, 900.0, 1), clip.multiple(1.0, bound));
    let reach = 2f64.powi(29);
    assert!(steps(right) * 900.0 <= reach && steps(right) * 900.0 > reach * 0.999);
    assert!(steps(twin) * 900.0 > reach);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn no_square_exceeds_the_radius(
        row in prop::collection::vec(
            prop_oneof![any::<f64>(), -1.0..1.0f64, Just(0.0), Just(f64::MAX), Just(5e-324), Just(1e61), Just(1e-61)], 1..20),
        scale in prop_oneof![any::<f64>(), -2.0..2.0f64, Just(f64::MAX), Just(5e-324)],
        exponent in -320i32..290,
    ) {
        let radius = 1.2345 * 10f64.powi(exponent);
        prop_assume!(radius > 0.0 && radius < 1e270);
        let sum = dense(radius, row.len(), &row, &[scale]);
        prop_assert!(squared(&sum) <= limit(&sum.bound));
        prop_assert_eq!(&sum.sum, &sparse(radius, row.len(), &row, &[scale]).sum);
    }

    /// Squares about as long as the radius, at every scale: within it, and no shorter than they have to be.
    #[test]
    fn squares_near_the_radius_stay_within_it(
        mantissas in prop::collection::vec(-2.0..2.0f64, 1..12),
        row_exponent in -400i32..400,
        product_exponent in -880i32..880,
        stretch in 0.3..3.0f64,
    ) {
        let power = |e: i32| 2f64.powi(e / 2) * 2f64.powi(e - e / 2);
        let scale_exponent = product_exponent - 2 * row_exponent;
        prop_assume!((-1070..1023).contains(&scale_exponent));
        let row: Vec<f64> = mantissas.iter().map(|x| x * power(row_exponent)).collect();
        let square: f64 = mantissas.iter().map(|x| x * x).sum();
        prop_assume!(square > 0.01);
        let sum = dense(square * stretch * power(product_exponent), row.len(), &row, &[power(scale_exponent)]);
        prop_assert!(squared(&sum) <= limit(&sum.bound));
        let norm = (squared(&sum) as f64).sqrt() * sum.bound.step();
        let whole = square * stretch.min(1.0) * power(product_exponent);
        prop_assert!((norm / whole - 1.0).abs() < 1e-7, "{} {}", norm, whole);
    }

    #[test]
    fn neither_order_nor_grouping_nor_zeros_matter(
        rows in prop::collection::vec(prop_oneof![-1e3..1e3f64, Just(0.0)], 11 * 150),
        scales in prop::collection::vec(-3.0..3.0f64, 150),
        split in 0usize..=150,
    ) {
        let whole = dense(2.0, 11, &rows, &scales);
        let (front, back) = (split * 11, split);
        let parts = dense(2.0, 11, &rows[front..], &scales[back..])
            .merge(dense(2.0, 11, &rows[..front], &scales[..back])).unwrap();
        prop_assert_eq!(&whole.sum, &parts.sum);
        prop_assert_eq!(&whole.sum, &sparse(2.0, 11, &rows, &scales).sum);
        prop_assert_eq!(whole.added, 150);
    }
}
