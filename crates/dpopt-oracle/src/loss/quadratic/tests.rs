//! Quadratic measurements against the laws of losses.

use std::num::NonZeroUsize;

use dpopt_linalg::Design;
use dpopt_privacy::ClipNorm;

use super::*;
use crate::loss::laws::{changes, gradients_and_constants, passes};
use crate::loss::{Differentiable, Loss};
use crate::records::{Examples, Records};
use dpopt_testkit::uniforms;

const RADIUS: f64 = 1.5;
const PHIS: [Glm; 4] = [Glm::Welsch, Glm::GemanMcClure, Glm::Cauchy, Glm::Logistic];

fn clip(x: f64) -> ClipNorm {
    ClipNorm::new(x).unwrap()
}

fn two() -> NonZeroUsize {
    NonZeroUsize::new(2).unwrap()
}

/// Rows of norm up to 1.2 with labels up to 2, in this order or the other.
fn examples(backward: bool) -> Examples {
    let mut next = uniforms(5);
    let mut all: Vec<([f64; 3], f32)> = (0..30)
        .map(|_| {
            (
                [next() * 0.8, next() * 0.8, next() * 0.8],
                2.0 * next() as f32,
            )
        })
        .collect();
    if backward {
        all.reverse();
    }
    let rows = all.iter().flat_map(|(row, _)| *row).collect();
    let labels = all.iter().map(|(_, label)| *label).collect();
    let design = Design::dense(3, rows).unwrap();
    let mut examples = Examples::new(design, labels, clip(1.2)).unwrap();
    examples.bound_labels(clip(1.5));
    examples
}

fn measurements(backward: bool) -> Measurements {
    let mut next = uniforms(6);
    let mut all: Vec<(Vec<f64>, f64)> = (0..20)
        .map(|_| ((0..9).map(|_| 0.6 * next()).collect(), 2.0 * next()))
        .collect();
    if backward {
        all.reverse();
    }
    let matrices = all.iter().flat_map(|(matrix, _)| matrix.clone()).collect();
    let labels = all.iter().map(|(_, label)| *label).collect();
    let dim = NonZeroUsize::new(3).unwrap();
    Measurements::new(dim, matrices, labels, clip(1.0), Some(clip(1.5))).unwrap()
}

fn observed(backward: bool) -> ObservedEntries {
    let mut next = uniforms(7);
    let mut all: Vec<Observed> = (0..12)
        .map(|k| Observed {
            row: k % 4,
            column: k / 4,
            value: 2.0 * next(),
        })
        .collect();
    if backward {
        all.reverse();
    }
    ObservedEntries::new(4, 3, all, Some(clip(1.5)))
}

#[test]
fn phase_retrieval() {
    for phi in PHIS {
        let loss = PhaseRetrieval::new(phi, clip(RADIUS));
        gradients_and_constants(&loss, &examples(false), RADIUS);
        changes(&loss, &examples(false), RADIUS);
        passes(loss, examples(false), examples(true), 0.0);
    }
}

#[test]
fn matrix_sensing() {
    for phi in PHIS {
        let loss = MatrixSensing::new(phi, two(), clip(RADIUS));
        gradients_and_constants(&loss, &measurements(false), RADIUS);
        changes(&loss, &measurements(false), RADIUS);
        passes(loss, measurements(false), measurements(true), 0.0);
    }
}

#[test]
fn matrix_factorization() {
    for phi in PHIS {
        let loss = MatrixFactorization::new(phi, two(), clip(RADIUS));
        gradients_and_constants(&loss, &observed(false), RADIUS);
        changes(&loss, &observed(false), RADIUS);
        // Single precision of the two rows.
        passes(loss, observed(false), observed(true), 2f64.powi(-23));
    }
}

/// Values against the definitions, at numbers that can be checked by hand.
#[test]
fn values_by_hand() {
    let phi = Glm::Absolute;
    let design = Design::dense(2, vec![1.0, 2.0]).unwrap();
    let rows = Examples::new(design, vec![5.0], clip(10.0)).unwrap();
    let loss = PhaseRetrieval::new(phi, clip(1.0));
    // (3 + 2 * 1)^2 - 5.
    assert_eq!(loss.value(rows.record(0), &[3.0, 1.0]), 20.0);

    // A = (1 2; 0 3), S = (1 1; 1 3), u = (1, 2): u^T A u = 1 + 4 + 12 = 17; gradient 2 S u.
    let dim = two();
    let a = Measurements::new(dim, vec![1.0, 2.0, 0.0, 3.0], vec![5.0], clip(10.0), None).unwrap();
    let loss = MatrixSensing::new(phi, NonZeroUsize::MIN, clip(1.0));
    assert_eq!(loss.value(a.record(0), &[1.0, 2.0]), 12.0);
    let mut gradient = [0.0; 2];
    loss.gradient(a.record(0), &[1.0, 2.0], &mut gradient);
    assert_eq!(gradient, [6.0, 14.0]);

    let entry = |row, column, value| Observed { row, column, value };
    let entries = vec![entry(1, 0, 1.0), entry(2, 0, 1.0), entry(0, 0, f64::NAN)];
    let entries = ObservedEntries::new(2, 1, entries, None);
    let loss = MatrixFactorization::new(phi, two(), clip(1.0));
    let point = [9.0, 9.0, 1.0, 2.0, 3.0, 4.0];
    // <(1, 2), (3, 4)> - 1.
    assert_eq!(loss.value(entries.record(0), &point), 10.0);
    let mut gradient = [0.0; 6];
    loss.gradient(entries.record(0), &point, &mut gradient);
    assert_eq!(gradient, [0.0, 0.0, 3.0, 4.0, 1.0, 2.0]);
    // Out of the shape, or not a number: nothing.
    for i in [1, 2] {
        let mut gradient = [0.0; 6];
        loss.gradient(entries.record(i), &point, &mut gradient);
        assert_eq!(
            (loss.value(entries.record(i), &point), gradient),
            (0.0, [0.0; 6])
        );
    }
}

/// L0 is attained at the edge of the ball, where the residual makes the slope largest.
#[test]
fn the_gradient_bound_is_attained() {
    let design = Design::dense(1, vec![1.0]).unwrap();
    // w^2 - y = 1 at w = 1.5, the arg-max of Welsch's slope.
    let rows = Examples::new(design, vec![1.25], clip(1.0)).unwrap();
    let loss = PhaseRetrieval::new(Glm::Welsch, clip(RADIUS));
    let mut gradient = [0.0];
    loss.gradient(rows.record(0), &[RADIUS], &mut gradient);
    let claimed = loss.constants_on(&rows).lipschitz;
    assert!(
        (gradient[0] - claimed).abs() < 1e-12,
        "{gradient:?} {claimed}"
    );
}

#[test]
fn measurements_are_brought_under_their_bounds() {
    let nan = f64::NAN;
    let matrices = vec![
        3.0,
        0.0,
        0.0,
        4.0,
        nan,
        0.0,
        0.0,
        0.0,
        1e300,
        1e300,
        1e300,
        1e300,
        0.1,
        0.0,
        0.0,
        0.0,
        f64::MAX,
        f64::MAX,
        f64::MAX,
        f64::MAX,
    ];
    let labels = vec![7.0, 1.0, -9.0, f64::INFINITY, 1.0];
    let all = Measurements::new(two(), matrices, labels, clip(1.0), Some(clip(2.0))).unwrap();
    for i in 0..5 {
        assert!(dpopt_linalg::norm(all.record(i).matrix) <= 1.0 + 1e-15);
        assert!(all.record(i).label.abs() <= 2.0);
    }
    assert!((all.record(0).matrix[0] - 0.6).abs() < 1e-12);
    assert_eq!((all.record(1).matrix[0], all.record(1).label), (0.0, 0.0));
    assert_eq!((all.record(3).matrix[0], all.record(3).label), (0.0, 0.0));
    assert!(Measurements::new(two(), vec![0.0; 7], vec![1.0], clip(1.0), None).is_err());
}
