//! Differences along displacements from 1 down to 1e-300: norms neither cancel nor pass the radius, and the
//! direction is right as long as the lattice can show it.

use std::num::NonZeroUsize;

use dpopt_oracle::query::HessianVectorDifference;
use dpopt_oracle::{
    Activation, Differentiable, Glm, Head, Linear, Mlp, PrivateData, QuadraticLink, Query, Segment,
    Softmax,
};
use dpopt_privacy::Adjacency::AddRemove;

use crate::engine::contributions;
use crate::records::{DIM, Store, examples, norm, points, private};

const RANK: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// What the radius is, over the displacement: far above any change of a gradient per unit here, so that nothing is
/// clipped and directions can be compared.
const REACH: f64 = 64.0;

/// Losses that are linear between their kinks.
const LINEAR: [&str; 4] = ["hinge", "absolute", "pinball:0.5", "relu"];

const LENGTHS: [f64; 10] = [
    1.0, 1e-3, 1e-6, 1e-9, 1e-16, 1e-30, 1e-100, 1e-200, 1e-260, 1e-300,
];

fn length(v: &[f64]) -> f64 {
    let largest = v.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let sum: f64 = v.iter().map(|x| (x / largest).powi(2)).sum();
    if largest == 0.0 {
        0.0
    } else {
        largest * sum.sqrt()
    }
}

/// Compares what records contribute per unit of displacement with what they do at 1e-6, to `slack`.
fn law<T: Clone, L: Differentiable>(
    name: &str,
    loss: impl Fn() -> L,
    dim: usize,
    slack: f64,
    data: impl Fn(&[T]) -> PrivateData<L::Records>,
    records: &[T],
) {
    let points = points(dim);
    let from = &points[2];
    let unit = length(&points[1]);
    let way: Vec<f64> = points[1].iter().map(|x| x / unit).collect();
    let mut reference: Option<Vec<Vec<f64>>> = None;
    for t in [1e-6].into_iter().chain(LENGTHS) {
        let by: Vec<f64> = way.iter().map(|x| t * x).collect();
        let to: Vec<f64> = from.iter().zip(&by).map(|(a, b)| a + b).collect();
        let query = Linear::change(
            Segment::new(from, &to, &by).unwrap(),
            norm(1e6),
            norm(REACH * t),
        );
        let found = contributions(&format!("{name} at {t:e}"), &loss, &query, &data, records);
        let bound = query.bound(&loss()).unwrap().unwrap();
        let per_t: Vec<Vec<f64>> = found
            .iter()
            .map(|k| k.iter().map(|&k| k as f64 * (bound.step() / t)).collect())
            .collect();
        let Some(expected) = &reference else {
            let moves = per_t.iter().any(|change| length(change) > 0.01);
            assert!(moves || LINEAR.contains(&name), "{name}");
            reference = Some(per_t);
            continue;
        };
        // Longer ones bend, and radii are at least 2^-900.
        if !(1e-260..1e-5).contains(&t) {
            continue;
        }
        for (i, (found, expected)) in per_t.iter().zip(expected).enumerate() {
            let apart: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
            assert!(
                length(&apart) <= slack,
                "{name}, record {i} at {t:e}: {found:?} instead of {expected:?}"
            );
        }
    }
}

/// Second derivatives change by some 10 per unit at most, and the lattice has 2^-29 REACH.
const SMOOTH: f64 = 3e-5;

#[test]
fn of_inner_products() {
    for phi in Glm::ALL {
        for store in [Store::Dense, Store::Sparse] {
            let data = |r: &_| private(store, r, AddRemove);
            law(&format!("{phi}"), || phi, DIM, SMOOTH, data, &examples());
            let loss = || QuadraticLink::phase_retrieval(phi, norm(2.0));
            let link = || QuadraticLink::new(phi, RANK, norm(2.0));
            let dim = DIM * RANK.get();
            law(&format!("link {phi}"), link, dim, SMOOTH, data, &examples());
            law(
                &format!("phase {phi}"),
                loss,
                DIM,
                SMOOTH,
                data,
                &examples(),
            );
        }
    }
}

#[test]
fn of_a_softmax() {
    for classes in [2, 4] {
        let data = |r: &_| private(Store::Dense32, r, AddRemove);
        let loss = || Softmax::new(classes).unwrap();
        law("softmax", loss, DIM * classes, SMOOTH, data, &examples());
    }
}

#[test]
fn of_perceptrons() {
    for activation in Activation::ALL {
        for (sizes, head) in [
            (&[DIM, 4, 3][..], Head::Softmax),
            (&[DIM, 4, 3, 1], Head::Squared),
            (&[DIM, 4, 3, 1], Head::Scalar(Glm::Logistic)),
            (&[DIM, 4, 1], Head::Scalar(Glm::Welsch)),
        ] {
            let loss = || Mlp::new(sizes, activation, head).unwrap();
            let data = |r: &_| private(Store::Dense, r, AddRemove);
            let dim: usize = sizes.windows(2).map(|s| (s[0] + 1) * s[1]).sum();
            // Labels go up to 1e38, and gradients with them: those that fit.
            let records: Vec<_> = examples()
                .into_iter()
                .filter(|(_, y)| !(y.abs() > 10.0))
                .collect();
            let name = format!("{activation:?} {head:?}");
            law(&name, loss, dim, 1e-3, data, &records);
        }
    }
}

/// Products with the Hessian are subtracted, so short changes lose digits; their norms obey all the same.
#[test]
fn of_hessians_stay_within_the_radius() {
    let points = points(DIM);
    for phi in Glm::ALL {
        for t in LENGTHS {
            let from = &points[2];
            let to: Vec<f64> = from
                .iter()
                .zip(&points[3])
                .map(|(a, b)| a + t * b)
                .collect();
            let query = HessianVectorDifference {
                from,
                to: &to,
                direction: &points[3],
                radius: Some(norm(1e-3 * t)),
            };
            let data = |r: &_| private(Store::Dense, r, AddRemove);
            contributions(
                &format!("{phi} at {t:e}"),
                || phi,
                &query,
                data,
                &examples(),
            );
        }
    }
}
