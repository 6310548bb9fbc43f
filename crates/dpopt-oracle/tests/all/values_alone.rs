//! Losses that are programs without a gradient, and the slopes of generalised linear losses.

use std::num::NonZeroUsize;

use dpopt_linalg::Design;
use dpopt_oracle::query::{Directions, Slopes};
use dpopt_oracle::{
    AskError, ClosureLoss, Constants, Convexity, Examples, Glm, Linear, Loss, Offers, Oracle as _,
    PrivateData, PrivateMean, PrivateValues,
};
use dpopt_privacy::{Adjacency, Curator, Event, Spend, Which};

use crate::by_values::ByValues;
use crate::common::{clip, sparse, uniforms, z};

const DIM: usize = 5;
const ROWS: usize = 150;

/// 1 where the record is above the point.
fn jump() -> impl Loss<Records = Vec<f64>> {
    let constants = Constants::new(f64::INFINITY, f64::INFINITY, 1.0, Convexity::Nonconvex);
    ClosureLoss::values(1, constants, |x: &f64, w: &[f64]| {
        f64::from(u8::from(*x > w[0]))
    })
}

/// Values and slopes are those of means; all else is refused, and costs nothing.
#[test]
fn an_oracle_of_values_alone_answers_nothing_else() {
    let records: Vec<f64> = (0..40).map(|i| f64::from(i) / 40.0).collect();
    let data = PrivateData::made_up_of(records, Adjacency::ReplaceOne, None).unwrap();
    let curator = || {
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
        let event = Event::gaussian(z(1.0)).repeated(3);
        curator.reserve(&Spend::Fixed(event)).unwrap();
        curator
    };
    let mut values = PrivateValues::new(&data, jump(), curator()).unwrap();
    let facts = values.facts();
    let offered = Offers::VALUES | Offers::VALUE_CHANGES | Offers::SLOPES;
    assert_eq!(facts.offers, offered);
    assert_eq!((facts.dim, facts.records), (1, 40));
    let point = [0.5];
    let mean = values.mean(Linear::field(&point, clip(1.0)), Which::All, z(1.0));
    assert!(matches!(mean, Err(AskError::NotOffered { what: "means" })));
    assert_eq!(values.curator().spent(), Event::NoOp);
    let directions = Directions::draw(values.books().curator_mut(), 1, NonZeroUsize::MIN).unwrap();
    let of = Slopes {
        point: &point,
        directions: &directions,
        smoothing: 0.25,
        clip: clip(2.0),
    };
    let found = values.slopes(of, Which::All, z(1.0)).unwrap();
    let number = values
        .value(&point, 0.5, clip(0.5), Which::All, z(1.0))
        .unwrap();
    // The same bits as from means of the same key.
    let mut means = PrivateMean::new(&data, jump(), curator()).unwrap();
    let again = Directions::draw(means.curator_mut(), 1, NonZeroUsize::MIN).unwrap();
    assert_eq!(again, directions);
    assert_eq!(means.release(&of, Which::All, z(1.0)).unwrap(), Some(found));
    let same = means.release_value(&point, 0.5, clip(0.5), Which::All, z(1.0));
    assert_eq!(same.unwrap(), number);
    assert_eq!(values.counts(), means.counts());
    assert_eq!(values.counts().values, 40.0 * 3.0);
}

/// Entries that are not short, and labels of both signs.
fn designs() -> Vec<(&'static str, Design)> {
    let mut next = uniforms(8);
    let entries: Vec<f64> = (0..ROWS * DIM).map(|_| 0.4 * next()).collect();
    let singles: Vec<f32> = entries.iter().map(|x| *x as f32).collect();
    let bytes = entries.iter().map(|x| (100.0 * x.abs()) as u8).collect();
    let mut one_hot = Design::one_hot(DIM, 0.5).unwrap();
    for i in 0..ROWS as u32 {
        one_hot.push_ones(&[i % DIM as u32]).unwrap();
    }
    vec![
        ("sparse", sparse(DIM, entries.chunks_exact(DIM))),
        ("dense", Design::dense(DIM, entries).unwrap()),
        ("dense32", Design::dense32(DIM, singles).unwrap()),
        ("bytes", Design::bytes(DIM, bytes, 0.01).unwrap()),
        ("one-hot", one_hot),
    ]
}

/// The released mean slopes of rows, with next to no noise, which is the same for all data.
fn released<L: Loss<Records = Examples>>(
    loss: L,
    design: Design,
    labels: Vec<f32>,
    m: usize,
    smoothing: f64,
) -> (Vec<f64>, f64) {
    under(
        Adjacency::ReplaceOne,
        1.0,
        loss,
        design,
        labels,
        m,
        smoothing,
    )
}

/// The same under any adjacency, of rows at most so long.
fn under<L: Loss<Records = Examples>>(
    relation: Adjacency,
    row_norm: f64,
    loss: L,
    design: Design,
    labels: Vec<f32>,
    m: usize,
    smoothing: f64,
) -> (Vec<f64>, f64) {
    let mut next = uniforms(5);
    let point: Vec<f64> = (0..DIM).map(|_| 2.0 * next()).collect();
    let data = PrivateData::made_up(design, labels, clip(row_norm), relation, None).unwrap();
    let mut curator = Curator::simulated(relation, 4);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z(1e-9))))
        .unwrap();
    let some = NonZeroUsize::new(m).unwrap();
    let directions = Directions::draw(&mut curator, DIM, some).unwrap();
    let mut means = PrivateMean::new(&data, loss, curator).unwrap();
    let of = Slopes {
        point: &point,
        directions: &directions,
        smoothing,
        clip: clip(0.7),
    };
    let found = means.release(&of, Which::All, z(1e-9)).unwrap().unwrap();
    (found.mean, means.counts().values)
}

fn labels() -> Vec<f32> {
    (0..ROWS).map(|i| (i % 3) as f32 - 1.0).collect()
}

/// One product of matrices for all directions gives the slopes that two values for each give, on all losses and storages.
#[test]
fn slopes_of_rows_are_those_of_values() {
    for (storage, design) in designs() {
        for loss in Glm::ALL {
            for m in [1, 3, DIM] {
                let found = released(loss, design.clone(), labels(), m, 0.3);
                let expected = released(ByValues(loss), design.clone(), labels(), m, 0.3);
                for (a, b) in found.0.iter().zip(&expected.0) {
                    // Lattice steps, 2^-29 of the clip radius, and the noise, which is as small.
                    assert!((a - b).abs() < 1e-7, "{storage}, {loss}, {m}: {a} {b}");
                }
                assert_eq!(found.1, expected.1);
                // All rows may lie on the flat side of a unit.
                let some = found.0.iter().any(|slope| slope.abs() > 1e-3);
                assert!(some || loss == Glm::Relu, "{storage}, {loss}");
            }
        }
    }
}

/// Rows that hold what is no number are erased, and add nothing under zero-out: the mean is that of the others beside rows of zeros.
#[test]
fn erased_rows_add_no_slopes() {
    let mut next = uniforms(8);
    let rows: Vec<f64> = (0..ROWS * DIM).map(|_| 0.4 * next()).collect();
    for loss in Glm::ALL {
        for m in [1, DIM] {
            let of = |bad: f64, label: f32| {
                let (mut rows, mut labels) = (rows.clone(), labels());
                for i in [0, 63, 64, ROWS - 1] {
                    rows[i * DIM..(i + 1) * DIM].fill(0.0);
                    rows[i * DIM + 2] = bad;
                    labels[i] = label;
                }
                let design = Design::dense(DIM, rows).unwrap();
                under(Adjacency::ZeroOut, 1.0, loss, design, labels, m, 0.3).0
            };
            let zeros = of(0.0, 1.0);
            assert!(zeros.iter().all(|slope| slope.is_finite()));
            for (bad, label) in [
                (f64::NAN, 1.0),
                (f64::INFINITY, -1.0),
                (0.2, f32::NAN),
                (0.0, -3.0),
            ] {
                assert_eq!(of(bad, label), zeros, "{loss}, {m}, {bad}, {label}");
            }
        }
    }
}

/// A row so long that its product with a direction, times a, is no number: it adds what its values say, or nothing, and no other
/// row's slopes change.
#[test]
fn a_product_that_overflows_is_that_of_values() {
    let mut next = uniforms(8);
    let mut rows: Vec<f64> = (0..ROWS * DIM).map(|_| 0.4 * next()).collect();
    rows[3 * DIM..4 * DIM].fill(1e200);
    for loss in Glm::ALL {
        for m in [1, DIM] {
            let design = || Design::dense(DIM, rows.clone()).unwrap();
            let relation = Adjacency::ReplaceOne;
            let found = under(relation, 1e201, loss, design(), labels(), m, 1e150).0;
            let by_values = ByValues(loss);
            let expected = under(relation, 1e201, by_values, design(), labels(), m, 1e150).0;
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-7, "{loss}, {m}: {a} {b}");
            }
            let some = found.iter().any(|slope| slope.abs() > 1e-3);
            assert!(some || loss != Glm::Logistic);
        }
    }
}

/// A way so short that the values at its ends are the same numbers has its slope still.
#[test]
fn short_ways_keep_their_slopes() {
    let (_, design) = designs().swap_remove(1);
    for loss in [Glm::Logistic, Glm::Welsch, Glm::Absolute] {
        let of = |smoothing| released(loss, design.clone(), labels(), 2, smoothing).0;
        let usual = of(1e-7);
        for smoothing in [1e-12, 1e-100, 1e-300] {
            for (a, b) in of(smoothing).iter().zip(&usual) {
                assert!((a - b).abs() < 1e-6, "{loss}, {smoothing}: {a} {b}");
            }
        }
    }
}
