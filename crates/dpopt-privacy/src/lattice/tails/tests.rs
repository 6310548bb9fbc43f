//! What row and tail add, and that they are clipped as one.

use super::*;
use crate::units::ClipNorm;

const DIM: usize = 7;

fn sum(radius: f64) -> LatticeSum {
    LatticeSum::new(Bound::new(ClipNorm::new(radius).unwrap(), DIM).unwrap())
}

/// What one record adds, in units, by both ways, which have to agree.
fn added(radius: f64, scale: f64, row: &[f32], tail: &[f64]) -> Vec<f64> {
    let columns: Vec<u32> = (0..row.len() as u32).collect();
    let head = DIM - tail.len();
    let mut dense = sum(radius);
    let tails = Tails {
        width: tail.len(),
        numbers: tail,
    };
    dense.add_rows_with_tails(&[row], &[scale], &[RowBound::dense(row)], tails, || {});
    let mut sparse = sum(radius);
    let bound = RowBound::sparse(&columns, row, head);
    sparse.add_sparse_rows_with_tails(&[(&columns, row)], &[scale], &[bound], tails);
    assert_eq!(
        (dense.added, sparse.added),
        (1, 1),
        "it counts whatever it holds"
    );
    assert_eq!(dense.sum, sparse.sum);
    let step = dense.bound.step();
    let norm = dense.sum.iter().map(|&k| (k as f64).powi(2)).sum::<f64>();
    assert!(
        norm.sqrt() * step <= radius,
        "{} above {radius}",
        norm.sqrt() * step
    );
    dense.sum.iter().map(|&k| k as f64 * step).collect()
}

#[test]
fn short_contributions_are_added_as_they_are() {
    let found = added(100.0, -2.0, &[1.0, 0.0, 3.0, 0.5], &[4.0, -8.0, 0.25]);
    assert_eq!(found, [-2.0, -0.0, -6.0, -1.0, 4.0, -8.0, 0.25]);
}

/// Long in the row, in the tail, in both: both parts shrink alike, to the radius and not below it.
#[test]
fn long_contributions_keep_their_direction() {
    let row = [3.0f32, 0.0, 4.0, 0.0];
    for (scale, tail) in [
        (1e6, [0.0, 1.0, 0.0]),
        (1e-3, [1e9, 0.0, -1e9]),
        (1e6, [1e6, 1e6, -1e6]),
        (-1e100, [1e100, 0.0, 0.0]),
        (1e200, [0.0, 1e200, 0.0]),
    ] {
        let found = added(2.0, scale, &row, &tail);
        let exact: Vec<f64> = row
            .iter()
            .map(|&x| scale * f64::from(x))
            .chain(tail)
            .collect();
        let norm = exact.iter().fold(0.0f64, |sum, x| sum.hypot(*x));
        for (found, exact) in found.iter().zip(&exact) {
            // The bound on the row exceeds its norm by up to 2^-20 of it.
            assert!((found - 2.0 * exact / norm).abs() < 1e-5, "{found} {exact}");
        }
    }
}

#[test]
fn what_is_no_number_adds_zero_as_a_whole() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let row = [1.0f32, 2.0, 0.0, 0.0];
    for (scale, tail) in [
        (nan, [1.0, 0.0, 0.0]),
        (inf, [1.0, 0.0, 0.0]),
        (1.0, [0.0, nan, 0.0]),
        (1.0, [inf, nan, 1.0]),
        (1.0, [-inf, 0.0, 0.0]),
        (1.0, [f64::MAX, f64::MAX, f64::MAX]),
    ] {
        assert_eq!(
            added(2.0, scale, &row, &tail),
            [0.0; DIM],
            "{scale} {tail:?}"
        );
    }
    for entry in [f32::NAN, f32::INFINITY] {
        assert_eq!(
            added(2.0, 1.0, &[entry, 1.0, 0.0, 0.0], &[1.0, 1.0, 1.0]),
            [0.0; DIM]
        );
        assert_eq!(
            added(2.0, 0.0, &[entry, 1.0, 0.0, 0.0], &[1.0, 1.0, 1.0]),
            [0.0; DIM]
        );
    }
}

/// A multiple without digits to round: the row is left out where it would not be seen, and the whole where it would.
#[test]
fn subnormal_multiples_do_not_lengthen() {
    let added = |radius: f64, scale: f64, entry: f64, number: f64| {
        let row = [entry, 0.0, 0.0, 0.0];
        let numbers = [number, 0.0, 0.0];
        let mut sum = sum(radius);
        let bounds = [RowBound::dense(&row)];
        let tails = Tails {
            width: 3,
            numbers: &numbers,
        };
        sum.add_rows_with_tails(&[&row[..]], &[scale], &bounds, tails, || {});
        assert_eq!(sum.added, 1);
        let step = sum.bound.step();
        [sum.sum[0] as f64 * step, sum.sum[4] as f64 * step]
    };
    // By exact products the clipped pair is (1.8e-16, 3.2e-16); a multiple of the least double would be (3.7e-16, 3.2e-16).
    let found = added(3.70e-16, 1.86e-321, 7.44e307, 2.4e-13);
    assert_eq!(found, [0.0, 0.0]);
    let least = f64::from_bits(1);
    for radius in [1e-16, 3.7e-16, 1e-12, 0.3] {
        for scale in (1..600).map(|k| least * f64::from(k)) {
            for (entry, number) in [(7.44e307, 2.4e-13), (1e308, 1e-15), (3e300, 1.0)] {
                let [x, y] = added(radius, scale, entry, number);
                assert!(x.hypot(y) <= radius, "{radius} {scale} {entry} {number}");
            }
        }
    }
    // Where the row is nothing beside a step its tail still counts.
    let [x, y] = added(1.0, 1e-320, 1.0, 4.0);
    assert!(x == 0.0 && (y - 1.0).abs() < 1e-5, "{x} {y}");
}

/// Squares that underflow, and radii at the end of the range.
#[test]
fn tiny_contributions_are_clipped_too() {
    for radius in [1e-260, 1e-170, 1e-100, 1e100] {
        for size in [1e-240, 1e-160, 1e-90, 1.0, 1e120] {
            added(radius, 1.0, &[0.0; 4], &[size, size, -size]);
            added(radius, size, &[1.0, 2.0, 0.0, 0.0], &[0.0, size, 0.0]);
        }
    }
}

/// A row without entries leaves its tail; many rows at once are those one by one.
#[test]
fn batches_are_sums_of_single_rows() {
    let rows: Vec<Vec<f32>> = (0..150)
        .map(|i| {
            (0..4)
                .map(|j| ((i * 7 + j * 3) % 11) as f32 - 5.0)
                .collect()
        })
        .collect();
    let views: Vec<&[f32]> = rows.iter().map(|row| &row[..]).collect();
    let scales: Vec<f64> = (0..150).map(|i| (i % 13) as f64 - 6.0).collect();
    let numbers: Vec<f64> = (0..450).map(|i| (i % 17) as f64 - 8.0).collect();
    let bounds: Vec<RowBound> = rows.iter().map(|row| RowBound::dense(row)).collect();
    let mut all = sum(20.0);
    let tails = Tails {
        width: 3,
        numbers: &numbers,
    };
    all.add_rows_with_tails(&views, &scales, &bounds, tails, || {});
    let mut single = vec![0.0; DIM];
    for i in 0..150 {
        let tail = [numbers[i], numbers[150 + i], numbers[300 + i]];
        let found = added(20.0, scales[i], &rows[i], &tail);
        single.iter_mut().zip(found).for_each(|(sum, x)| *sum += x);
    }
    let step = all.bound.step();
    let all: Vec<f64> = all.sum.iter().map(|&k| k as f64 * step).collect();
    assert_eq!(all, single);
}

/// Rows of every length beside each other: each adds what it adds alone, in any order and split in two, and none is longer than the radius.
#[test]
fn odd_rows_leave_the_others_as_they_are() {
    let least = f64::from_bits(1);
    let scales = [
        1.0,
        1e-300,
        least,
        0.0,
        -3e5,
        f64::NAN,
        1e200,
        1e-170,
        -0.25,
        f64::INFINITY,
    ];
    let numbers = [0.5, 1e9, 1e-200, 0.0, f64::NAN, -1e170, 1e308, 3.0];
    let count = scales.len() * numbers.len();
    let rows: Vec<[f32; 5]> = (0..count)
        .map(|i| match i % 7 {
            3 => [0.0; 5],
            5 => [f32::MAX, 0.0, 1e-40, 0.0, 1.0],
            k => [k as f32, -1.0, 0.5, 0.0, 2.0],
        })
        .collect();
    for (radius, weight) in [
        (2.0, 1.0),
        (2.0, 1e-300),
        (2.0, 1e-310),
        (2.0, 1e100),
        (5e-224, 1e100),
        (1e200, 1e-3),
    ] {
        keeps_odd_rows_apart(&scales, &numbers, &rows, (radius, weight));
    }
}

/// No record adds more than the radius allows, and all of them add what each adds alone. Every 11th row is too short, and adds nothing.
fn keeps_odd_rows_apart(
    scales: &[f64],
    numbers: &[f64],
    rows: &[[f32; 5]],
    (radius, weight): (f64, f64),
) {
    let count = rows.len();
    let bound = Bound::new(ClipNorm::new(radius).unwrap(), DIM).unwrap();
    let of = |order: &[usize]| {
        let mut sum = LatticeSum::weighted(bound, weight, radius);
        let length = |i: usize| if i % 11 == 10 { 4 } else { 5 };
        let views: Vec<&[f32]> = order.iter().map(|&i| &rows[i][..length(i)]).collect();
        let factors: Vec<f64> = order.iter().map(|&i| scales[i % scales.len()]).collect();
        let bounds: Vec<RowBound> = views.iter().map(|row| RowBound::dense(row)).collect();
        let own = |i: usize| numbers[i / scales.len()];
        let second = order.iter().map(|&i| 1e-3 * own(i));
        let tails: Vec<f64> = order.iter().map(|&i| own(i)).chain(second).collect();
        let tails = Tails {
            width: 2,
            numbers: &tails,
        };
        sum.add_rows_with_tails(&views, &factors, &bounds, tails, || {});
        sum.sum
    };
    let mut total = vec![0; DIM];
    for i in 0..count {
        let one = of(&[i]);
        let norm = one.iter().map(|&k| (k as f64).powi(2)).sum::<f64>().sqrt();
        let most = radius / bound.step();
        assert!(norm <= most, "{i}: {norm} {most}, {radius} {weight}");
        if i % 11 == 10 {
            assert_eq!(norm, 0.0);
            continue;
        }
        // A small multiple of the row does not hide a long tail from the clip.
        let (scale, number) = (scales[i % scales.len()], numbers[i / scales.len()]);
        let plain = weight == 1.0 && radius == 2.0;
        if plain && scale.abs() <= 1e-300 && number == 1e9 && i % 7 != 5 {
            assert!(norm > 0.9999 * most, "{i}: {norm} {most}");
        }
        total.iter_mut().zip(one).for_each(|(sum, k)| *sum += k);
    }
    let order: Vec<usize> = (0..count).collect();
    let backwards: Vec<usize> = (0..count).rev().collect();
    let mixed: Vec<usize> = (0..count).map(|i| i * 37 % count).collect();
    for order in [order, backwards, mixed] {
        assert_eq!(of(&order), total);
        let (first, second) = order.split_at(29);
        let parts = of(first).into_iter().zip(of(second));
        assert!(parts.zip(&total).all(|((a, b), sum)| a + b == *sum));
    }
}

/// Weights of a sum act before the clip, on the tail too: the long one of a small weight, and the short one of a large.
#[test]
fn weights_act_on_both_parts() {
    for (weight, number) in [
        (1e-200, 1e200),
        (1e200, 1e-200),
        (0.5, 2.0),
        (1e-310, 1e308),
    ] {
        let bound = Bound::new(ClipNorm::new(0.75).unwrap(), DIM).unwrap();
        let mut sum = LatticeSum::weighted(bound, weight, 0.75);
        let row = [1.0f32, 0.0, 0.0, 0.0, 0.0, 0.0];
        let tails = Tails {
            width: 1,
            numbers: &[number],
        };
        sum.add_rows_with_tails(&[&row[..]], &[0.0], &[RowBound::dense(&row)], tails, || {});
        let found = sum.sum[6] as f64 * bound.step();
        assert!(found <= 0.75, "{weight}: {found}");
        if weight > 1e-300 {
            assert!(found > 0.7499, "{weight}: {found}");
        }
    }
}
