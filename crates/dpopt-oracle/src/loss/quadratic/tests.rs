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

/// Values against the definitions, at numbers that can be checked by hand.
#[test]
fn values_by_hand() {
    let phi = Glm::Absolute;
    let design = Design::dense(2, vec![1.0, 2.0]).unwrap();
    let rows = Examples::new(design, vec![5.0], clip(10.0)).unwrap();
    let loss = QuadraticLink::phase_retrieval(phi, clip(1.0));
    // (3 + 2 * 1)^2 - 5.
    assert_eq!(loss.value(rows.record(0), &[3.0, 1.0]), 20.0);
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

/// C_F and L1 are attained at 0, by Huber's slope: the Hessian is phi' hess q there.
#[test]
fn bounds_on_hessians_are_attained() {
    let rank = NonZeroUsize::new(3).unwrap();
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
