//! Queries of one number, and Hessians, by passes: what single records give, whatever the threads.

use std::num::NonZeroUsize;

use dpopt_linalg::Design;
use dpopt_oracle::query::{
    HessianMatrix, HessianVector, HessianVectorDifference, Value, ValueChange,
};
use dpopt_oracle::{
    Activation, Examples, Glm, Head, Mlp, PrivateData, PrivateMean, QuadraticLink, Query,
    TwiceDifferentiable,
};
use dpopt_privacy::{Adjacency, Event, Which};

use crate::common::{OneByOne, clip, simulated, sparse, uniforms, z};

const DIM: usize = 5;
const ROWS: usize = 700;

fn designs() -> Vec<(&'static str, Design)> {
    let mut random = uniforms(3);
    let mut draw = || random().max(-0.2);
    let mut entries: Vec<f64> = (0..ROWS * DIM).map(|_| f64::from(draw() as f32)).collect();
    entries[7 * DIM + 2] = f64::NAN;
    entries[9 * DIM..10 * DIM].fill(1e200);
    entries[11 * DIM..12 * DIM].fill(0.0);
    let singles = entries.iter().map(|x| *x as f32).collect();
    let bytes = entries.iter().map(|x| (x * 255.0) as u8).collect();
    vec![
        ("sparse", sparse(DIM, entries.chunks(DIM))),
        ("dense", Design::dense(DIM, entries).unwrap()),
        ("singles", Design::dense32(DIM, singles).unwrap()),
        ("bytes", Design::bytes(DIM, bytes, 1.0 / 255.0).unwrap()),
    ]
}

fn released<L, Q>(design: &Design, loss: L, query: &Q, threads: usize) -> Vec<f64>
where
    L: TwiceDifferentiable<Records = Examples>,
    Q: Query<L>,
{
    let labels = (0..ROWS).map(|i| if i % 3 == 0 { 1.0 } else { 0.0 });
    let relation = Adjacency::ReplaceOne;
    let data = PrivateData::made_up(design.clone(), labels.collect(), clip(2.0), relation, None);
    let data = data.unwrap();
    let curator = simulated(relation, 11, Event::gaussian(z(1e-3)));
    let means = PrivateMean::new(&data, loss, curator).unwrap();
    let mut means = means.with_threads(NonZeroUsize::new(threads).unwrap());
    means
        .release(query, Which::All, z(1e-3))
        .unwrap()
        .unwrap()
        .mean
}

/// The noise is the same: inner products are summed in another order, so that a number may go to the step beside.
fn numbers<L: TwiceDifferentiable<Records = Examples>>(
    name: &str,
    dim: usize,
    make: impl Fn() -> L,
) {
    let mut random = uniforms(9);
    let mut draw = || (0..dim).map(|_| random()).collect::<Vec<f64>>();
    let (point, from) = (&draw(), &draw());
    for (storage, design) in designs() {
        for radius in [20.0, 0.01] {
            let (radius, centre) = (clip(radius), 0.25);
            let value = Value {
                point,
                centre,
                radius,
            };
            let change = ValueChange {
                from,
                to: point,
                radius,
            };
            let check = |fast: Vec<f64>, slow: Vec<f64>, what: &str| {
                let off = (fast[0] - slow[0]).abs();
                let share = off / radius.get();
                assert!(share <= 2f64.powi(-28), "{name} {storage} {what} {share}");
                assert!(
                    slow[0].abs() > 1e-5 * radius.get(),
                    "{name} {storage} {what} {}",
                    slow[0]
                );
            };
            let one = || OneByOne(make());
            let of = |threads| released(&design, make(), &value, threads);
            check(of(1), released(&design, one(), &value, 1), "value");
            assert_eq!(of(1), of(2));
            let of = |threads| released(&design, make(), &change, threads);
            check(of(1), released(&design, one(), &change, 1), "change");
            assert_eq!(of(1), of(2));
        }
    }
}

#[test]
fn numbers_by_passes_are_those_of_single_records() {
    for phi in [Glm::Logistic, Glm::Welsch, Glm::Sigmoid] {
        numbers("glm", DIM, || phi);
        for rank in [1, 2] {
            let columns = NonZeroUsize::new(rank).unwrap();
            numbers("link", rank * DIM, || {
                QuadraticLink::new(phi, columns, clip(2.0))
            });
        }
    }
    for activation in [Activation::Tanh, Activation::Silu, Activation::Softplus] {
        for sizes in [&[DIM, 2][..], &[DIM, 3, 2], &[DIM, 6, 4, 3]] {
            let mlp = Mlp::new(sizes, activation, Head::Softmax).unwrap();
            numbers("perceptron", mlp.parameters(), || mlp.clone());
        }
        let mlp = Mlp::new(&[DIM, 3, 1], activation, Head::Squared).unwrap();
        numbers("perceptron", mlp.parameters(), || mlp.clone());
    }
}

#[test]
fn threads_change_no_bit_of_a_second_derivative() {
    let mut random = uniforms(4);
    let mut draw = |dim: usize| (0..dim).map(|_| random()).collect::<Vec<f64>>();
    let point = &draw(DIM);
    let whole = HessianMatrix {
        point,
        radius: clip(0.3),
    };
    for (_, design) in designs() {
        let of = |threads| released(&design, Glm::Logistic, &whole, threads);
        assert_eq!(of(1), of(2));
    }
    let mlp = Mlp::new(&[DIM, 30, 10, 3], Activation::Tanh, Head::Softmax).unwrap();
    let dim = mlp.parameters();
    let (point, from, direction) = (&draw(dim), &draw(dim), &draw(dim));
    let radius = Some(clip(0.3));
    let product = HessianVector {
        point,
        direction,
        radius,
    };
    let change = HessianVectorDifference {
        from,
        to: point,
        direction,
        radius,
    };
    for (_, design) in designs() {
        let of = |threads| released(&design, mlp.clone(), &product, threads);
        assert_eq!(of(1), of(2));
        let of = |threads| released(&design, mlp.clone(), &change, threads);
        assert_eq!(of(1), of(2));
        assert!(of(1).iter().any(|x| x.abs() > 1e-3));
    }
}
