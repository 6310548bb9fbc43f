//! Quadratic measurements against the laws of losses.

use std::num::NonZeroUsize;

use dpopt_linalg::Design;
use dpopt_privacy::ClipNorm;

use super::*;
use crate::loss::laws::{changes, gradients_and_constants, hessian, passes, second_derivatives};
use crate::loss::{ClosureLoss, Differentiable, Glm, Loss, Scale, TwiceDifferentiable};
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
        let loss = QuadraticLink::phase_retrieval(phi, clip(RADIUS));
        every_law(loss);
    }
}

fn every_law(loss: QuadraticLink) {
    gradients_and_constants(&loss, &examples(false), RADIUS);
    changes(&loss, &examples(false), RADIUS);
    second_derivatives(&loss, &examples(false), RADIUS);
    passes(loss, examples(false), examples(true), 0.0);
}

#[test]
fn quadratic_links() {
    for phi in PHIS {
        // One whole vector of eight columns and a rest; a rest alone.
        for rank in [2, 9] {
            let rank = NonZeroUsize::new(rank).unwrap();
            let loss = QuadraticLink::new(phi, rank, clip(RADIUS));
            every_law(loss.with_threshold(Scale::new(0.7).unwrap()));
        }
    }
}

#[test]
fn matrix_sensing() {
    for phi in PHIS {
        let loss = MatrixSensing::new(phi, two(), clip(RADIUS));
        gradients_and_constants(&loss, &measurements(false), RADIUS);
        changes(&loss, &measurements(false), RADIUS);
        second_derivatives(&loss, &measurements(false), RADIUS);
        passes(loss, measurements(false), measurements(true), 0.0);
    }
}

#[test]
fn matrix_factorization() {
    for phi in PHIS {
        let loss = MatrixFactorization::new(phi, two(), clip(RADIUS));
        gradients_and_constants(&loss, &observed(false), RADIUS);
        changes(&loss, &observed(false), RADIUS);
        second_derivatives(&loss, &observed(false), RADIUS);
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
    let loss = QuadraticLink::phase_retrieval(phi, clip(1.0));
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
    let loss = QuadraticLink::phase_retrieval(Glm::Welsch, clip(RADIUS));
    let mut gradient = [0.0];
    loss.gradient(rows.record(0), &[RADIUS], &mut gradient);
    let claimed = loss.constants_on(&rows).lipschitz;
    assert!(
        (gradient[0] - claimed).abs() < 1e-12,
        "{gradient:?} {claimed}"
    );
}

/// A row x and its matrix x x^T, measured once more: another program for the same loss.
#[test]
fn a_link_is_a_measurement_of_rank_one() {
    let (rank, points) = (two(), crate::loss::laws::points(6, 3, 1.0));
    for phi in PHIS {
        let rows = examples(false);
        let link = QuadraticLink::new(phi, rank, clip(RADIUS));
        let sensing = MatrixSensing::new(phi, rank, clip(RADIUS));
        for i in 0..rows.len() {
            let mut x = [0.0; 3];
            rows.record(i).row.for_each(|c, v| x[c] = v);
            let matrix = x.iter().flat_map(|a| x.map(|b| a * b)).collect();
            let label = vec![rows.record(i).label];
            let dim = NonZeroUsize::new(3).unwrap();
            let measured = Measurements::new(dim, matrix, label, clip(2.0), None).unwrap();
            for point in &points {
                let (a, b) = (rows.record(i), measured.record(0));
                let apart = link.value(a, point) - sensing.value(b, point);
                assert!(apart.abs() < 1e-14);
                let (mut from, mut to) = (vec![0.0; 6], vec![0.0; 6]);
                link.gradient(a, point, &mut from);
                sensing.gradient(b, point, &mut to);
                let mut apart = dpopt_linalg::distance(&from, &to);
                let pairs = hessian(&link, a, point)
                    .into_iter()
                    .zip(hessian(&sensing, b, point));
                for (from, to) in pairs {
                    apart = apart.max(dpopt_linalg::distance(&from, &to));
                }
                assert!(apart < 1e-13, "{phi}: {apart}");
            }
        }
    }
}

/// C_F and L1 are attained at 0, by Huber's slope: the Hessian is phi' hess q there. On a small ball that is the whole of them.
#[test]
fn bounds_on_hessians_are_attained() {
    let (rank, small) = (NonZeroUsize::new(3).unwrap(), clip(1e-9));
    let phi = Glm::Huber(Scale::new(0.5).unwrap());
    let frobenius = |columns: Vec<Vec<f64>>| dpopt_linalg::norm(&columns.concat());
    let close = |found: f64, claimed: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        assert!((claimed / expected - 1.0).abs() < 1e-12, "{claimed}");
    };
    // ||x|| = X = 2: 2 s X^2 sqrt r.
    let design = Design::dense(2, vec![1.2, 1.6]).unwrap();
    let rows = Examples::new(design, vec![9.0], clip(2.0)).unwrap();
    let zeros = [0.0; 6];
    let link = QuadraticLink::new(phi, rank, clip(7.0));
    let here = link.constants_at(&rows, &zeros);
    let matrix = hessian(&link, rows.record(0), &zeros);
    close(frobenius(matrix), here.hessian_frobenius, 4.0 * 3f64.sqrt());
    assert_eq!((here.lipschitz, here.smoothness), (0.0, 4.0));
    assert!(link.constants_on(&rows).smoothness > 1e3);
    // ||S||_F = X = 2, the same.
    let flat = vec![1.0, 1.0, 1.0, 1.0];
    let measured = Measurements::new(two(), flat, vec![9.0], clip(2.0), None).unwrap();
    let sensing = MatrixSensing::new(phi, rank, small);
    let claimed = sensing.constants_on(&measured).hessian_frobenius;
    let matrix = hessian(&sensing, measured.record(0), &zeros);
    close(frobenius(matrix), claimed, 2.0 * 3f64.sqrt());
    // Two identities of order r.
    let entry = Observed {
        row: 0,
        column: 0,
        value: 9.0,
    };
    let entries = ObservedEntries::new(1, 1, vec![entry], None);
    let factors = MatrixFactorization::new(phi, rank, small);
    let claimed = factors.constants_on(&entries).hessian_frobenius;
    let matrix = hessian(&factors, entries.record(0), &zeros);
    close(frobenius(matrix), claimed, 0.5 * 6f64.sqrt());
}

/// Along e_1 = w/||w|| where q is largest, q = h ||w||^2/2: G = h ||w||, B = h. Where the residual is 0, Welsch's phi' = 0 and phi'' = 1, and the
/// Hessian is the c G^2 of L1 and C_F; where r^2 = 3 - sqrt 6 phi''' is largest, and phi''' G^3 + 3 phi'' G B is next to rho.
fn bounds_are_nearly_attained<L: TwiceDifferentiable>(
    loss: &L,
    measured: impl Fn(f64) -> L::Records,
    edge: &[f64],
    h: f64,
) {
    let size = dpopt_linalg::norm(edge);
    let (q, g) = (0.5 * h * size * size, h * size);
    let records = measured(q);
    let claimed = loss.constants_on(&records);
    let found = dpopt_linalg::norm(&hessian(loss, records.record(0), edge).concat());
    assert!((found / (g * g) - 1.0).abs() < 1e-9, "{found} {g}");
    for claimed in [claimed.smoothness, claimed.hessian_frobenius] {
        let ratio = found / claimed;
        assert!((0.9..=1.0).contains(&ratio), "{ratio}");
    }
    // z - y = -r, where phi''' = r (3 - r^2) e^(-r^2/2).
    let square = 3.0 - 6f64.sqrt();
    let records = measured(q + square.sqrt());
    let along = |by: f64| {
        let at: Vec<f64> = edge.iter().map(|w| w * (1.0 + by / size)).collect();
        let matrix = hessian(loss, records.record(0), &at);
        let rows = matrix.iter().zip(edge);
        let form: f64 = rows.map(|(row, w)| w * dpopt_linalg::dot(row, edge)).sum();
        form / (size * size)
    };
    let step = 1e-5;
    let found = (along(step) - along(-step)) / (2.0 * step);
    let bell = (-0.5 * square).exp();
    let third = square.sqrt() * (3.0 - square) * bell * g.powi(3);
    let expected = third + 3.0 * (1.0 - square) * bell * g * h;
    assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
    let ratio = found / loss.constants_on(&records).hessian_lipschitz;
    assert!((0.9..=1.0).contains(&ratio), "{ratio}");
}

/// On balls of radius 10 the terms that grow with the ball are nearly all of L1, C_F and rho.
#[test]
fn what_grows_with_the_ball_is_attained() {
    let (phi, ball) = (Glm::Welsch, clip(10.0));
    let edge = [10.0, 0.0];
    let threshold = 0.5;
    let link = QuadraticLink::phase_retrieval(phi, ball);
    let row = |label: f64| {
        let design = Design::dense(2, vec![1.0, 0.0]).unwrap();
        Examples::new(design, vec![(label - threshold) as f32], clip(1.0)).unwrap()
    };
    let link = link.with_threshold(Scale::new(threshold).unwrap());
    bounds_are_nearly_attained(&link, row, &edge, 2.0);
    let matrix = |label: f64| {
        let flat = vec![1.0, 0.0, 0.0, 0.0];
        Measurements::new(two(), flat, vec![label], clip(1.0), None).unwrap()
    };
    let sensing = MatrixSensing::new(phi, NonZeroUsize::MIN, ball);
    bounds_are_nearly_attained(&sensing, matrix, &edge, 2.0);
    let entry = |value: f64| {
        let (row, column) = (0, 0);
        ObservedEntries::new(1, 1, vec![Observed { row, column, value }], None)
    };
    let factors = MatrixFactorization::new(phi, NonZeroUsize::MIN, ball);
    let both = [50f64.sqrt(); 2];
    bounds_are_nearly_attained(&factors, entry, &both, 1.0);
}

/// At U = c (orthonormal columns) the operator norm is c, and at 0 the logistic slope is that of the threshold: 1/(1 + e^-b).
#[test]
fn constants_at_a_point_are_sharper() {
    let design = Design::dense(3, vec![3.0, 0.0, 0.0]).unwrap();
    let rows = Examples::new(design, vec![1.0], clip(3.0)).unwrap();
    let one = Scale::new(1.0).unwrap();
    let loss = QuadraticLink::new(Glm::Logistic, two(), clip(9.0)).with_threshold(one);
    let slope = 1.0 / (1.0 + (-1.0f64).exp());
    let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * b, "{a} {b}");
    let zero = loss.constants_at(&rows, &[0.0; 6]);
    close(zero.hessian_frobenius, 18.0 * slope * 2f64.sqrt());
    // The record's own gradient at 0, at b: f = ln(1 + e).
    close(loss.value(rows.record(0), &[0.0; 6]), 1f64.exp().ln_1p());
    close(zero.initial_gap, 1f64.exp().ln_1p());
    // c X = 1: q is in [0, 1], q - 1 in [-1, 0].
    let third = 1.0 / 3.0;
    let here = loss.constants_at(&rows, &[third, 0.0, 0.0, third, 0.0, 0.0]);
    close(here.lipschitz, 6.0 * slope);
    close(here.smoothness, 0.25 * 36.0 + 18.0 * slope);
    close(here.initial_gap, 1f64.exp().ln_1p());
    // c X = 3: q - 1 is in [-1, 8], and with y = -1 the loss is largest at 8.
    let eight = loss.constants_at(&rows, &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    close(eight.initial_gap, 8f64.exp().ln_1p());
    // A point of another length.
    assert_eq!(loss.constants_at(&rows, &[1.0]), loss.constants_on(&rows));
    // A long way out nothing is lost.
    let far = loss.constants_at(&rows, &[1e200; 6]);
    assert!(far.lipschitz >= loss.constants_on(&rows).lipschitz);
    // The sigmoid's slope is largest at 0: q - b reaches it at c X = 1 and not before.
    let sigmoid = QuadraticLink::new(Glm::Sigmoid, two(), clip(9.0)).with_threshold(one);
    let at = |c: f64| sigmoid.constants_at(&rows, &[c, 0.0, 0.0, c, 0.0, 0.0]);
    close(at(third).lipschitz, 0.25 * 6.0);
    assert!(at(0.3).lipschitz < 0.25 * 5.4 * 0.999);
}

#[test]
fn a_public_start_depends_on_its_seed_alone() {
    let loss = QuadraticLink::new(Glm::Logistic, two(), clip(1.0));
    let start = loss.start(5, 0.7, 3);
    assert_eq!(start.len(), 10);
    assert!((dpopt_linalg::norm(&start) - 0.7).abs() < 1e-15);
    assert_eq!(start, loss.start(5, 0.7, 3));
    assert_ne!(start, loss.start(5, 0.7, 4));
    assert_eq!(loss.of_one_column().rank(), 1);
}

/// f(w; x) = 1 - exp(-(w - x)^2/2): its second derivative by hand, (1 - r^2) e^(-r^2/2).
#[test]
fn a_third_closure_gives_second_derivatives() {
    let constants = Constants::new((-0.5f64).exp(), 1.0, 1.0, Convexity::Nonconvex)
        .with_hessian_lipschitz(1.4)
        .with_hessian_frobenius(1.0);
    let loss = ClosureLoss::new(
        1,
        constants,
        |x: &f64, w: &[f64]| -(-0.5 * (w[0] - x).powi(2)).exp_m1(),
        |x: &f64, w: &[f64], out: &mut [f64]| {
            let r = w[0] - x;
            out[0] += r * (-0.5 * r * r).exp();
        },
    )
    .with_hessian_vector(|x: &f64, w: &[f64], v: &[f64], out: &mut [f64]| {
        let square = (w[0] - x).powi(2);
        out[0] += (1.0 - square) * (-0.5 * square).exp() * v[0];
    });
    let records = vec![0.0, 0.3, -1.0];
    second_derivatives(&loss, &records, RADIUS);
    let mut out = [0.0];
    loss.hessian_vector(&0.0, &[2.0], &[1.0], &mut out);
    assert!((out[0] + 3.0 * (-2.0f64).exp()).abs() < 1e-15);
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
