//! Laws that every storage obeys.

use super::*;

#[test]
fn the_three_stores_agree() {
    let rows = [vec![(0, 1.5), (2, -2.0)], vec![], vec![(1, 3.0)]];
    let mut sparse = Design::sparse(3).unwrap();
    let mut dense = Design::dense(3, vec![]).unwrap();
    let mut dense32 = Design::dense32(3, vec![]).unwrap();
    for row in &rows {
        sparse.push_row(row).unwrap();
        dense.push_row(row).unwrap();
        dense32.push_row(row).unwrap();
    }
    let w = [0.5, 1.0, 2.0];
    for i in 0..3 {
        assert_eq!(sparse.row(i).dot(&w), dense.row(i).dot(&w));
        assert_eq!(dense32.row(i).dot(&w), dense.row(i).dot(&w));
    }
    assert_eq!(sparse.row(0).dot(&w), 0.75 - 4.0);
    assert_eq!(sparse.stored(), 3);
}

#[test]
fn bad_rows_are_refused_and_leave_no_trace() {
    let mut sparse = Design::sparse(3).unwrap();
    for bad in [
        vec![(3, 1.0)],
        vec![(1, 1.0), (1, 2.0)],
        vec![(2, 1.0), (0, 1.0)],
    ] {
        assert!(matches!(
            sparse.push_row(&bad),
            Err(DesignError::BadColumn { .. })
        ));
    }
    assert_eq!((sparse.rows(), sparse.stored()), (0, 0));
    assert!(Design::sparse(0).is_err());
    assert!(Design::dense(2, vec![1.0; 3]).is_err());
}

#[test]
fn bytes_and_one_hot_rows_agree_with_dense_ones() {
    let mut bytes = Design::bytes(3, vec![0, 255, 7, 1, 2, 3], 0.25).unwrap();
    bytes.push_row(&[(1, 63.75)]).unwrap();
    let mut hot = Design::one_hot(4, -0.5).unwrap();
    hot.push_ones(&[0, 3]).unwrap();
    hot.push_ones(&[]).unwrap();
    hot.push_row(&[(2, -0.5)]).unwrap();
    let expected = [
        (
            &bytes,
            vec![
                [0.0, 63.75, 1.75, 0.0],
                [0.25, 0.5, 0.75, 0.0],
                [0.0, 63.75, 0.0, 0.0],
            ],
        ),
        (
            &hot,
            vec![[-0.5, 0.0, 0.0, -0.5], [0.0; 4], [0.0, 0.0, -0.5, 0.0]],
        ),
    ];
    let w = [3.0, -0.125, 2.0, 5.0];
    for (design, rows) in expected {
        assert_eq!(design.rows(), 3);
        for (i, row) in rows.iter().enumerate() {
            let mut found = [0.0; 4];
            design.row(i).for_each(|j, x| found[j] = x);
            assert_eq!(found, *row);
            let exact: f64 = row.iter().zip(&w).map(|(x, w)| x * w).sum();
            assert_eq!(design.row(i).dot(&w[..design.columns()]), exact);
            let norm: f64 = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            let upper = design.row(i).norm_upper();
            assert!(upper >= norm && upper <= norm * (1.0 + 1e-14));
        }
    }
    assert_eq!((bytes.stored(), hot.stored()), (9, 3));
    // What a storage can't hold is refused and leaves no trace.
    assert!(matches!(
        bytes.push_row(&[(0, 0.3)]),
        Err(DesignError::BadEntry { row: 3, column: 0 })
    ));
    assert!(bytes.push_row(&[(0, 64.0)]).is_err() && bytes.push_row(&[(0, f32::NAN)]).is_err());
    assert!(hot.push_row(&[(0, 1.0)]).is_err() && hot.push_ones(&[3, 3]).is_err());
    assert_eq!((bytes.rows(), hot.rows()), (3, 3));
    for factor in [0.0, f32::NAN, f32::INFINITY] {
        assert!(Design::bytes(1, vec![], factor).is_err());
        assert!(Design::one_hot(1, factor).is_err());
    }
}

#[test]
fn a_bounded_row_is_within_the_bound_and_others_are_untouched() {
    let designs = [
        Design::bytes(2, vec![3, 4, 30, 40, 0, 0], 1.0).unwrap(),
        Design::dense32(2, vec![3.0, 4.0, 30.0, 40.0, f32::NAN, 1.0]).unwrap(),
        Design::dense(2, vec![3.0, 4.0, 30.0, 40.0, 1.0, f64::INFINITY]).unwrap(),
    ];
    for mut design in designs {
        let norms: Vec<f32> = (0..3).map(|i| design.bound_row(i, 5.5)).collect();
        assert!(norms[0] >= 5.0 && norms[0] < 5.00001);
        assert!(norms[1] <= 5.500001 && norms[1] > 5.4999);
        assert_eq!(design.row(0).dot(&[1.0, 0.0]), 3.0);
        let mut row = [0.0; 2];
        design.row(1).for_each(|j, x| row[j] = x);
        // In exact arithmetic: squares of these f32 products fit 106 bits; f64 to 1e-15.
        assert!(row[0].hypot(row[1]) <= 5.5 && row[0].hypot(row[1]) > 5.5 * (1.0 - 3e-7));
        assert_eq!(design.row(2).dot(&[1.0, 1.0]), 0.0);
    }
}

#[test]
fn scaling_never_lengthens_a_row() {
    let mut design = Design::sparse(4).unwrap();
    design
        .push_row(&[(0, 0.1), (1, 1.0 / 3.0), (3, 7.7)])
        .unwrap();
    let before = design.row(0).norm_upper();
    design.scale_row(0, 1.0 / before);
    assert!(design.row(0).norm_upper() <= 1.0 + 1e-14);
    assert!(design.row(0).norm_upper() > 1.0 - 1e-6);
    design.scale_row(0, 0.0);
    assert_eq!(design.row(0).norm_upper(), 0.0);
}

#[test]
fn a_zero_factor_erases_not_a_number() {
    let mut design = Design::dense(2, vec![f64::NAN, f64::INFINITY]).unwrap();
    assert!(!design.row(0).is_finite());
    design.scale_row(0, 0.0);
    assert_eq!(design.row(0).dot(&[1.0, 1.0]), 0.0);
}

#[test]
fn gathered_rows_are_those_that_were_named() {
    let mut sparse = Design::sparse(3).unwrap();
    sparse.push_row(&[(0, 1.0), (2, 2.0)]).unwrap();
    sparse.push_row(&[]).unwrap();
    sparse.push_row(&[(1, 3.0)]).unwrap();
    let mut ones = Design::one_hot(3, 0.5).unwrap();
    ones.push_ones(&[0, 2]).unwrap();
    ones.push_ones(&[]).unwrap();
    ones.push_ones(&[1]).unwrap();
    ones.scale_row(2, 0.5);
    let entries = [1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0];
    let mut bytes = Design::bytes(3, entries.map(|x| x as u8).to_vec(), 1.0).unwrap();
    bytes.scale_row(0, 0.25);
    for design in [
        sparse,
        ones,
        bytes,
        Design::dense(3, entries.to_vec()).unwrap(),
        Design::dense32(3, entries.map(|x| x as f32).to_vec()).unwrap(),
    ] {
        let entries = |design: &Design, i: usize| {
            let mut row = [0.0; 3];
            design.row(i).for_each(|j, x| row[j] = x);
            row
        };
        let order = [2, 0, 1, 0];
        let gathered = design.gathered(&order);
        assert_eq!(gathered.rows(), order.len());
        for (to, from) in order.into_iter().enumerate() {
            assert_eq!(entries(&gathered, to), entries(&design, from as usize));
        }
        assert_eq!(design.gathered(&[]).rows(), 0);
    }
}
