//! Blocked products against exact ones, and their bits in every company.

use proptest::prelude::*;

use super::*;
use dpopt_lanes::each_width;

fn products<T: Entry>(rows: &[&[T]], w: &[f64]) -> Vec<f64> {
    let mut out = vec![7.0; rows.len()];
    row_products(rows, [w], [&mut out], &mut Ahead::new(rows));
    out
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn matrix() -> impl Strategy<Value = (Vec<Vec<f32>>, Vec<f64>, Vec<f64>)> {
    (1usize..70, 1usize..14).prop_flat_map(|(dim, count)| {
        let point = || prop::collection::vec(-1.0..1.0f64, dim);
        let row = prop::collection::vec(-10.0..10.0f32, dim);
        (prop::collection::vec(row, count), point(), point())
    })
}

proptest! {
    /// Small integers have exact products and sums in any order.
    #[test]
    fn integer_products_are_exact(
        (dim, count) in (0usize..70, 0usize..14), seed in any::<u32>(),
    ) {
        let number = |k: usize| (seed.wrapping_add(k as u32).wrapping_mul(2_654_435_761) >> 20) as i64 - 2048;
        let entries: Vec<i64> = (0..dim * count).map(number).collect();
        let w: Vec<i64> = (0..dim).map(|j| number(j + 1_000_000)).collect();
        let exact: Vec<f64> = (0..count)
            .map(|i| (0..dim).map(|j| entries[i * dim + j] * w[j]).sum::<i64>() as f64)
            .collect();
        let w: Vec<f64> = w.iter().map(|&x| x as f64).collect();
        let singles: Vec<f32> = entries.iter().map(|&x| x as f32).collect();
        let doubles: Vec<f64> = entries.iter().map(|&x| x as f64).collect();
        let at = |i: usize| i * dim..(i + 1) * dim;
        let rows: Vec<&[f32]> = (0..count).map(|i| &singles[at(i)]).collect();
        prop_assert_eq!(&products(&rows, &w), &exact);
        let rows: Vec<&[f64]> = (0..count).map(|i| &doubles[at(i)]).collect();
        prop_assert_eq!(&products(&rows, &w), &exact);
        let columns: Vec<u32> = (0..dim as u32).collect();
        for i in 0..count {
            let twice: Vec<f64> = w.iter().map(|x| 2.0 * x).collect();
            let [one, two] = sparse_products(&columns, &singles[at(i)], [&w, &twice]);
            prop_assert_eq!((one, two), (exact[i], 2.0 * exact[i]));
        }
    }

    /// A product has the same bits alone, in a group of four, at its end, after a rotation, beside NaN, and
    /// with a second point in the same read.
    #[test]
    fn company_changes_no_bit((rows, w, v) in matrix(), turn in 0usize..14, place in 0usize..14) {
        let mut slices: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let mut expected: Vec<f64> = slices.iter().map(|row| products(&[*row], &w)[0]).collect();
        prop_assert_eq!(bits(&products(&slices, &w)), bits(&expected));
        let (mut first, mut second) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
        row_products(&slices, [&w, &v], [&mut first, &mut second], &mut Ahead::new(&[]));
        prop_assert_eq!(bits(&first), bits(&expected));
        prop_assert_eq!(bits(&second), bits(&products(&slices, &v)));
        let turn = turn % rows.len();
        slices.rotate_left(turn);
        expected.rotate_left(turn);
        let nan = vec![f32::NAN; w.len()];
        let place = place % (rows.len() + 1);
        slices.insert(place, &nan);
        let mut found = products(&slices, &w);
        prop_assert!(found.remove(place).is_nan());
        prop_assert_eq!(bits(&found), bits(&expected));
    }

    /// Fused widths agree to the bit; the plain one within the error of a sum.
    #[test]
    fn widths_agree((rows, w, _) in matrix()) {
        let slices: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        struct Owned<'a>(&'a [&'a [f32]], &'a [f64]);
        impl Kernel for Owned<'_> {
            type Output = Vec<f64>;
            fn run<L: Lanes>(self, lanes: L) -> Vec<f64> {
                let mut out = vec![0.0; self.0.len()];
                Products { rows: self.0, points: [self.1], products: [&mut out], ahead: &mut Ahead::new(&[]) }
                    .run(lanes);
                out
            }
        }
        let all = each_width(|| Owned(&slices, &w));
        for (width, found) in &all[1..] {
            prop_assert_eq!(bits(found), bits(&all[1].1), "{:?}", width);
        }
        for (row, (plain, fused)) in rows.iter().zip(all[0].1.iter().zip(&all[1].1)) {
            let size: f64 = row.iter().zip(&w).map(|(x, w)| (f64::from(*x) * w).abs()).sum();
            prop_assert!((plain - fused).abs() <= size * f64::EPSILON * (w.len() as f64));
        }
    }
}

#[test]
fn bytes_are_read_as_numbers() {
    let row: Vec<u8> = (0..=255).collect();
    let w: Vec<f64> = (0..256).map(f64::from).collect();
    // Sum of the squares of 0..=255.
    assert_eq!(products(&[&row[..]; 5], &w), [5_559_680.0; 5]);
}

#[test]
fn a_row_of_a_wrong_length_gives_nan_and_leaves_the_others() {
    let w = [1.0, 2.0];
    let rows: [&[f64]; 5] = [&[1.0, 1.0], &[1.0], &[1.0, 1.0, 1.0], &[2.0, 0.5], &[]];
    let found = products(&rows, &w);
    assert_eq!((found[0], found[3]), (3.0, 3.0));
    for i in [1, 2, 4] {
        assert!(found[i].is_nan());
    }
    let [beyond] = sparse_products(&[0, 2], &[1.0, 1.0], [&w]);
    assert!(beyond.is_nan());
}

#[test]
fn rows_of_ones_have_the_products_of_their_entries() {
    let points: [Vec<f64>; 2] =
        [0.3, 1.7].map(|a| (0..40).map(|j| (a * f64::from(j)).sin()).collect());
    let points = points.each_ref().map(|point| &point[..]);
    for length in 0..20 {
        let columns: Vec<u32> = (0..length).map(|j| 2 * j + 1).collect();
        let ones = vec![1.0; columns.len()];
        let bits = |products: [f64; 2]| products.map(f64::to_bits);
        assert_eq!(
            bits(one_hot_products(&columns, points)),
            bits(sparse_products(&columns, &ones, points))
        );
    }
    let [beyond] = one_hot_products(&[40], [points[0]]);
    assert!(beyond.is_nan());
}

#[test]
fn no_points_and_no_rows_are_legal() {
    row_products::<f64, 0>(&[&[1.0]], [], [], &mut Ahead::new(&[]));
    row_products::<f64, 1>(&[], [&[1.0]], [&mut []], &mut Ahead::new(&[]));
}
