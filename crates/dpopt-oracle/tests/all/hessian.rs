//! A Hessian of rank one is added from the entries of a row, and is what products with unit vectors make.

use std::num::NonZeroUsize;

use dpopt_linalg::Design;
use dpopt_oracle::query::{
    HessianMatrix, HessianVector, HessianVectorDifference, unpack_symmetric,
};
use dpopt_oracle::{
    Activation, ClosureLoss, Constants, Convexity, Examples, Glm, Head, Mlp, Network, PrivateData,
    PrivateMean, QuadraticLink, Query, TwiceDifferentiable, check_hessian_vector,
};
use dpopt_privacy::{Adjacency, Event, Which};

use crate::common::{OneByOne, clip, simulated, sparse, uniforms, z};

const DIM: usize = 5;
const ROWS: usize = 60;

/// Entries of which about a half are zero, one row that is not finite, and one so large that its products overflow.
fn entries() -> Vec<f64> {
    let mut random = uniforms(3);
    let mut all: Vec<f64> = (0..ROWS * DIM)
        .map(|_| f64::from(random().max(0.0) as f32))
        .collect();
    all[7 * DIM + 2] = f64::NAN;
    all[9 * DIM..10 * DIM].fill(1e200);
    all
}

fn storages() -> Vec<(&'static str, Design)> {
    let entries = entries();
    let singles = entries.iter().map(|x| *x as f32).collect();
    let bytes = entries.iter().map(|x| (x * 255.0) as u8).collect();
    let columns = |row: &[f64]| -> Vec<u32> {
        let set = (0..).zip(row).filter(|(_, x)| **x > 0.4);
        set.map(|(j, _)| j).collect()
    };
    let mut one_hot = Design::one_hot(DIM, 0.5).unwrap();
    for row in entries.chunks(DIM) {
        one_hot.push_ones(&columns(row)).unwrap();
    }
    vec![
        ("sparse", sparse(DIM, entries.chunks(DIM))),
        ("dense", Design::dense(DIM, entries.clone()).unwrap()),
        ("singles", Design::dense32(DIM, singles).unwrap()),
        ("bytes", Design::bytes(DIM, bytes, 1.0 / 255.0).unwrap()),
        ("one-hot", one_hot),
    ]
}

fn released<L>(design: &Design, loss: L, radius: f64) -> Vec<f64>
where
    L: TwiceDifferentiable<Records = dpopt_oracle::Examples>,
{
    let labels = (0..ROWS).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 });
    let relation = Adjacency::ReplaceOne;
    let data = PrivateData::made_up(design.clone(), labels.collect(), clip(2.0), relation, None);
    let curator = simulated(relation, 11, Event::gaussian(z(1e-3)));
    let data = data.unwrap();
    let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
    let point = &[0.3, -0.2, 0.5, 0.1, -0.7];
    let query = HessianMatrix {
        point,
        radius: clip(radius),
    };
    let found = mean.release(&query, Which::All, z(1e-3)).unwrap();
    found.unwrap().mean
}

/// The noise is the same, so what differs is the rounding of at most [`ROWS`] contributions. At the smaller radius every
/// clip bites.
#[test]
fn the_form_does_not_change_the_release() {
    for (name, design) in storages() {
        for radius in [1.0, 0.01] {
            let fast = released(&design, Glm::Logistic, radius);
            let slow = released(&design, OneByOne(Glm::Logistic), radius);
            let worst = fast.iter().zip(&slow).map(|(a, b)| (a - b).abs());
            let worst = worst.fold(0.0, f64::max);
            // Each contribution is rounded to a multiple of at most 2^-29 of the radius.
            assert!(worst <= radius * 2f64.powi(-28), "{name} {radius} {worst}");
            let other = released(&design, Glm::Sigmoid, radius);
            assert!(
                fast.iter()
                    .zip(&other)
                    .any(|(a, b)| (a - b).abs() > 1e-4 * radius)
            );
            assert_eq!(unpack_symmetric(DIM, &fast).unwrap().len(), DIM * DIM);
        }
    }
}

fn mean_of<L>(
    design: &Design,
    relation: Adjacency,
    loss: L,
    query: impl Fn(usize) -> Asked,
) -> Vec<f64>
where
    L: TwiceDifferentiable<Records = Examples>,
{
    let labels = (0..ROWS).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 });
    let declared = (relation == Adjacency::AddRemove).then_some(ROWS as u64);
    let data = PrivateData::made_up(
        design.clone(),
        labels.collect(),
        clip(2.0),
        relation,
        declared,
    );
    let data = data.unwrap();
    let curator = simulated(relation, 11, Event::gaussian(z(1e-3)));
    let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
    let asked = query(mean.dim());
    fn released<L: TwiceDifferentiable>(
        mean: &mut PrivateMean<'_, L>,
        query: &impl Query<L>,
    ) -> Vec<f64> {
        mean.release(query, Which::All, z(1e-3))
            .unwrap()
            .unwrap()
            .mean
    }
    let (point, direction) = (&asked.point, &asked.direction);
    let radius = Some(clip(asked.radius));
    match asked.from {
        None => released(
            &mut mean,
            &HessianVector {
                point,
                direction,
                radius,
            },
        ),
        Some(ref from) => {
            let to = point;
            released(
                &mut mean,
                &HessianVectorDifference {
                    from,
                    to,
                    direction,
                    radius,
                },
            )
        }
    }
}

struct Asked {
    from: Option<Vec<f64>>,
    point: Vec<f64>,
    direction: Vec<f64>,
    radius: f64,
}

fn asked(dim: usize, change: bool, radius: f64) -> Asked {
    let mut random = uniforms(9);
    let mut draw = || (0..dim).map(|_| random()).collect::<Vec<f64>>();
    let (point, direction, from) = (draw(), draw(), draw());
    Asked {
        from: change.then_some(from),
        point,
        direction,
        radius,
    }
}

/// The noise is the same: what differs is the rounding of contributions, and of what is clipped by the row's bound, which exceeds its norm by
/// up to 2^-20 of it. A small radius clips all.
fn passes_are_single_records<L>(name: &str, make: impl Fn() -> L)
where
    L: TwiceDifferentiable<Records = Examples>,
{
    passes_are_near(name, Adjacency::ReplaceOne, 2f64.powi(-19), make);
}

/// Within `share` of the radius.
fn passes_are_near<L>(name: &str, relation: Adjacency, share: f64, make: impl Fn() -> L)
where
    L: TwiceDifferentiable<Records = Examples>,
{
    for (storage, design) in storages() {
        for change in [false, true] {
            for radius in [1.0, 0.01] {
                let of = |dim| asked(dim, change, radius);
                let fast = mean_of(&design, relation, make(), of);
                let slow = mean_of(&design, relation, OneByOne(make()), of);
                let worst = fast.iter().zip(&slow).map(|(a, b)| (a - b).abs());
                let worst = worst.fold(0.0, f64::max);
                assert!(worst <= radius * share, "{name} {storage} {radius} {worst}");
                assert!(slow.iter().any(|x| x.abs() > 1e-4 * radius), "{name}");
            }
        }
    }
}

#[test]
fn products_in_a_pass_are_those_of_single_records() {
    for phi in [
        Glm::Logistic,
        Glm::Welsch,
        Glm::Huber(dpopt_oracle::Scale::new(0.5).unwrap()),
    ] {
        passes_are_single_records("glm", || phi);
        for rank in [1, 2] {
            let columns = NonZeroUsize::new(rank).unwrap();
            passes_are_single_records("link", || QuadraticLink::new(phi, columns, clip(2.0)));
        }
        let network = || Network::new(4, Activation::Tanh, phi).unwrap();
        passes_are_single_records("network", network);
    }
    for (sizes, head) in [
        (&[DIM, 3, 4, 2][..], Head::Softmax),
        (&[DIM, 3, 1], Head::Squared),
        (&[DIM, 3, 1], Head::Scalar(Glm::Logistic)),
    ] {
        let mlp = || Mlp::new(sizes, Activation::Silu, head).unwrap();
        let exact = 2f64.powi(-19);
        passes_are_near("perceptron", Adjacency::AddRemove, exact, mlp);
        // At fixed positions contributions of up to four terms are cut by 2^-6 of the radius where they are cut, and their factors are in single
        // precision.
        let blocks = 1.02 * 2f64.powi(-6);
        passes_are_near("perceptron", Adjacency::ReplaceOne, blocks, mlp);
    }
}

/// Numbers of rows of four entries, with labels of classes.
fn small() -> Examples {
    let mut random = uniforms(17);
    let rows = (0..6 * 4).map(|_| random()).collect();
    let design = Design::dense(4, rows).unwrap();
    let labels = vec![0.0, 1.0, 2.0, 1.0, 0.0, 5.0];
    Examples::new(design, labels, clip(2.0)).unwrap()
}

/// Products of perceptrons are the derivatives of their gradients, and symmetric; a label that is no class has none.
#[test]
fn perceptrons_have_the_hessian_of_their_gradient() {
    for activation in Activation::ALL.into_iter().filter(|a| a.is_smooth()) {
        for sizes in [&[4, 3][..], &[4, 5, 3], &[4, 5, 4, 3]] {
            let mlp = Mlp::new(sizes, activation, Head::Softmax).unwrap();
            let dim = mlp.parameters();
            let mut random = uniforms(5);
            let mut draw = || (0..dim).map(|_| 2.0 * random()).collect::<Vec<f64>>();
            let (point, directions) = (draw(), [draw(), draw(), draw()]);
            let directions: Vec<&[f64]> = directions.iter().map(Vec::as_slice).collect();
            let found = check_hessian_vector(&mlp, &small(), &point, &directions).unwrap();
            assert!(found.worst < 1e-7, "{activation} {sizes:?} {found:?}");
            assert!(found.asymmetry < 1e-13, "{activation} {sizes:?} {found:?}");
            assert!(found.not_finite.is_empty());
            let mut out = vec![0.0; dim];
            let records = small();
            let no_class = dpopt_oracle::Records::record(&records, 5);
            mlp.hessian_vector(no_class, &point, directions[0], &mut out);
            assert!(out.iter().all(|x| *x == 0.0));
        }
    }
}

/// f = (1/2) (w_1 + 2 w_2)^2 + w_1^3/6, whose Hessian is ((1 + w_1, 2), (2, 4)); products that are another's are caught.
#[test]
fn a_product_that_is_no_hessian_is_caught() {
    type Product = fn(&f64, &[f64], &[f64], &mut [f64]);
    let right: Product = |x, w, v, out| {
        out[0] += x * ((1.0 + w[0]) * v[0] + 2.0 * v[1]);
        out[1] += x * (2.0 * v[0] + 4.0 * v[1]);
    };
    // Not symmetric; symmetric, and not the derivative; right at all records but those above 2; not a number.
    let turned: Product = |x, w, v, out| {
        out[0] += x * ((1.0 + w[0]) * v[0] + 2.5 * v[1]);
        out[1] += x * (1.5 * v[0] + 4.0 * v[1]);
    };
    let other: Product = |x, _, v, out| {
        out[0] += x * (v[0] + 2.0 * v[1]);
        out[1] += x * (2.0 * v[0] + 4.0 * v[1]);
    };
    let rarely: Product = |x, w, v, out| {
        let y = if *x > 2.0 { 2.0 } else { *x };
        out[0] += y * ((1.0 + w[0]) * v[0] + 2.0 * v[1]);
        out[1] += y * (2.0 * v[0] + 4.0 * v[1]);
    };
    let lost: Product = |_, _, _, out| out[0] = f64::NAN;
    let check = |product: Product| {
        let loss = ClosureLoss::new(
            2,
            Constants::new(9.0, 9.0, 9.0, Convexity::Nonconvex),
            |x: &f64, w: &[f64]| x * (0.5 * (w[0] + 2.0 * w[1]).powi(2) + w[0].powi(3) / 6.0),
            |x: &f64, w: &[f64], out: &mut [f64]| {
                let slope = w[0] + 2.0 * w[1];
                out[0] += x * (slope + 0.5 * w[0] * w[0]);
                out[1] += x * 2.0 * slope;
            },
        );
        let loss = loss.with_hessian_vector(product);
        let records = vec![1.0, -0.5, 3.0];
        check_hessian_vector(
            &loss,
            &records,
            &[0.4, -0.3],
            &[&[1.0, 0.2], &[0.1, -0.9], &[0.0, 0.0]],
        )
        .unwrap()
    };
    let found = check(right);
    assert!(found.worst < 1e-8 && found.asymmetry < 1e-15, "{found:?}");
    let found = check(turned);
    assert!(found.worst > 0.01 && found.asymmetry > 0.01, "{found:?}");
    let found = check(other);
    assert!(found.worst > 0.01 && found.asymmetry < 1e-15, "{found:?}");
    let found = check(rarely);
    assert!(found.worst > 0.01 && found.record == 2, "{found:?}");
    assert_eq!(check(lost).not_finite, [0, 1, 2]);
    let loss = Glm::Logistic;
    let one_short = check_hessian_vector(&loss, &small(), &[0.0; 4], &[&[1.0; 3]]);
    assert!(one_short.is_err());
}
