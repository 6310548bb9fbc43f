//! Every loss through every query that it has.

use std::num::NonZeroUsize;

use dpopt_oracle::query::{
    Directional, Directions, HessianMatrix, HessianVector, HessianVectorDifference, RowAverage,
    Slopes, Value, ValueChange,
};
use dpopt_oracle::{
    Activation, AucSaddle, CellCounts, CellShares, ClassWeights, ClosureLoss, Constants, ConvexGlm,
    Convexity, Differentiable, Example, Glm, GroupDro, Head, Joint, Linear, Mlp, Momentum, Network,
    PrivateData, QuadraticLink, Scored, Segment, Softmax, Tally, TwiceDifferentiable, Weighted,
};
use dpopt_privacy::{Adjacency::AddRemove, Curator};

use crate::engine::{PUBLIC, Steps, contributions};
use crate::records::{DIM, STORES, Store, examples, norm, points, points_of_layer, private};

/// Gradients and their differences, clipped a little and a lot, and values.
fn first_order<T: Clone, L: Differentiable>(
    name: &str,
    loss: &impl Fn() -> L,
    (dim, outputs): (usize, usize),
    data: &impl Fn(&[T]) -> PrivateData<L::Records>,
    records: &[T],
) {
    let points = points_of_layer(dim, outputs);
    let mut moved = false;
    for (k, point) in points.iter().enumerate() {
        // A small radius clips all, a large one few.
        let clip = norm(if k % 2 == 0 { 0.03 } else { 1.7 });
        let query = Linear::field(point, clip);
        let found = contributions(
            &format!("{name}, gradient {k}"),
            loss,
            &query,
            data,
            records,
        );
        moved |= found.iter().flatten().any(|&k| k != 0);
        let value = Value {
            point,
            centre: 0.4,
            radius: norm(0.7),
        };
        contributions(&format!("{name}, value {k}"), loss, &value, data, records);
        let change = ValueChange {
            from: &points[0],
            to: point,
            radius: norm(if k % 2 == 0 { 0.03 } else { 1.7 }),
        };
        let named = format!("{name}, change of values {k}");
        contributions(&named, loss, &change, data, records);
        let along = Directional {
            point,
            direction: &points[(k + 1) % points.len()],
            radius: norm(if k % 2 == 0 { 0.03 } else { 1.7 }),
        };
        let name = format!("{name}, slope along a direction {k}");
        contributions(&name, loss, &along, data, records);
    }
    assert!(moved, "{name}: no record contributes a gradient");
    let mut curator = Curator::simulated(AddRemove, 4);
    let some = NonZeroUsize::new(3).unwrap();
    let directions = &Directions::draw(&mut curator, dim, some).unwrap();
    for (k, clip) in [(2, 0.03), (3, 1.7)] {
        let slopes = Slopes {
            point: &points[k],
            directions,
            smoothing: 0.3,
            clip: norm(clip),
        };
        let name = format!("{name}, slopes {k}");
        contributions(&name, loss, &slopes, data, records);
    }
    // What estimators ask.
    let field = Linear::field(&points[2], norm(0.2));
    contributions(&format!("{name}, field"), loss, &field, data, records);
    let by: Vec<f64> = points[3]
        .iter()
        .zip(&points[2])
        .map(|(a, b)| a - b)
        .collect();
    let change = Linear::change(
        Segment::new(&points[2], &points[3], &by).unwrap(),
        norm(0.6),
        norm(0.2),
    );
    contributions(&format!("{name}, change"), loss, &change, data, records);
    for (fresh, clip, radius) in [(1e-6, 0.6, 0.1), (0.3, 1.7, 0.9), (1.0, 0.03, 0.03)] {
        let momentum = Linear::momentum(
            Segment::new(&points[2], &points[3], &by).unwrap(),
            Momentum::new(fresh).unwrap(),
            norm(clip),
            norm(radius),
        );
        let name = format!("{name}, momentum {fresh}");
        contributions(&name, loss, &momentum, data, records);
    }
    for (k, (from, to, radius)) in [
        (1, 2, 0.2),
        (2, 3, 5.0),
        (3, 4, 1.0),
        (2, 5, 0.1),
        (6, 2, 0.1),
    ]
    .into_iter()
    .enumerate()
    {
        let by: Vec<f64> = points[to]
            .iter()
            .zip(&points[from])
            .map(|(a, b)| a - b)
            .collect();
        let query = Linear::change(
            Segment::new(&points[from], &points[to], &by).unwrap(),
            norm(0.6),
            norm(radius),
        );
        contributions(
            &format!("{name}, difference {k}"),
            loss,
            &query,
            data,
            records,
        );
    }
}

/// Products with the Hessian and their differences, whole Hessians, and all of [`first_order`].
fn second_order<T: Clone, L: TwiceDifferentiable>(
    name: &str,
    loss: &impl Fn() -> L,
    (dim, outputs): (usize, usize),
    data: &impl Fn(&[T]) -> PrivateData<L::Records>,
    records: &[T],
) {
    first_order(name, loss, (dim, outputs), data, records);
    let points = points_of_layer(dim, outputs);
    for (k, (from, to, along)) in [(1, 2, 3), (2, 5, 1), (3, 4, 5)].into_iter().enumerate() {
        let direction = &points[along];
        let product = HessianVector {
            point: &points[from],
            direction,
            radius: Some(norm(0.1)),
        };
        contributions(
            &format!("{name}, Hessian {k}"),
            loss,
            &product,
            data,
            records,
        );
        let change = HessianVectorDifference {
            from: &points[from],
            to: &points[to],
            direction,
            radius: Some(norm(0.1)),
        };
        let name = format!("{name}, Hessian difference {k}");
        contributions(&name, loss, &change, data, records);
    }
    // What certificates ask.
    let (point, radius) = (&points[2], norm(0.1));
    let matrix = HessianMatrix { point, radius };
    contributions(&format!("{name}, Hessian"), loss, &matrix, data, records);
}

#[test]
fn generalised_linear() {
    for (i, loss) in Glm::ALL.into_iter().enumerate() {
        for store in STORES {
            let (name, data) = (format!("{loss} {store:?}"), |r: &_| {
                private(store, r, AddRemove)
            });
            if store == STORES[i % STORES.len()] {
                second_order(&name, &|| loss, (DIM, 1), &data, &examples());
            } else {
                // The other stores, on one query each.
                let points = points(DIM);
                let query = Linear::field(&points[2], norm(0.2));
                contributions(&name, || loss, &query, data, &examples());
            }
        }
    }
}

/// Of losses averaged along their rows, in every store: the field, its change over a long and a short way, a step of momentum.
#[test]
fn averaged_along_their_rows() {
    let points = points(DIM);
    let (from, reach) = (&points[2], norm(0.3));
    for loss in Glm::ALL {
        for store in STORES {
            let data = |r: &_| private(store, r, AddRemove);
            let law = |name: &str, of: Linear<'_>| {
                let query = RowAverage::new(of, reach);
                let name = format!("{loss} {store:?}, averaged {name}");
                contributions(&name, || loss, &query, data, &examples())
            };
            let field = law("field", Linear::field(from, norm(0.7)));
            let moves = field.iter().flatten().any(|&k| k != 0);
            assert!(moves, "{loss}: no record contributes");
            for t in [1.0, 1e-4, 1e-300] {
                let by: Vec<f64> = points[3].iter().map(|x| t * x).collect();
                let to: Vec<f64> = from.iter().zip(&by).map(|(a, b)| a + b).collect();
                let segment = Segment::new(from, &to, &by).unwrap();
                law("change", Linear::change(segment, norm(1.7), norm(2.0 * t)));
                let momentum = Momentum::new(0.3).unwrap();
                let (clip, radius) = (norm(0.6), norm(0.2 + t));
                law(
                    "momentum",
                    Linear::momentum(segment, momentum, clip, radius),
                );
            }
        }
    }
}

#[test]
fn convex_generalised_linear() {
    let all: Vec<ConvexGlm> = Glm::ALL
        .into_iter()
        .filter_map(|glm| ConvexGlm::new(glm).ok())
        .collect();
    assert!(all.len() >= 2);
    for (i, loss) in all.into_iter().enumerate() {
        let store = STORES[i % STORES.len()];
        let data = |r: &_| private(store, r, AddRemove);
        let name = format!("convex {loss:?} {store:?}");
        first_order(&name, &|| loss, (DIM, 1), &data, &examples());
    }
}

#[test]
fn phase_retrieval() {
    for (i, phi) in Glm::ALL.into_iter().enumerate() {
        let store = STORES[i % STORES.len()];
        let data = |r: &_| private(store, r, AddRemove);
        let loss = || QuadraticLink::phase_retrieval(phi, norm(2.0));
        let name = format!("phase {phi} {store:?}");
        second_order(&name, &loss, (DIM, 1), &data, &examples());
    }
}

#[test]
fn quadratic_links() {
    for (i, phi) in Glm::ALL.into_iter().enumerate() {
        for (j, store) in STORES.into_iter().enumerate() {
            // One whole vector of eight columns and a rest; a rest alone.
            let rank = if i % 2 == 0 { 9 } else { 2 };
            let columns = NonZeroUsize::new(rank).unwrap();
            let loss = || QuadraticLink::new(phi, columns, norm(2.0));
            let data = |r: &_| private(store, r, AddRemove);
            let name = format!("link {phi} {rank} {store:?}");
            let shape = (DIM * rank, rank);
            if j == i % STORES.len() {
                // Whole Hessians of a few columns only.
                if rank == 2 {
                    second_order(&name, &loss, shape, &data, &examples());
                } else {
                    first_order(&name, &loss, shape, &data, &examples());
                }
            } else {
                let points = points_of_layer(shape.0, shape.1);
                let query = Linear::field(&points[2], norm(0.2));
                contributions(&name, loss, &query, &data, &examples());
            }
        }
    }
}

#[test]
fn softmax() {
    for (i, classes) in [2, 3, 5].into_iter().enumerate() {
        let store = STORES[i];
        let data = |r: &_| private(store, r, AddRemove);
        let loss = || Softmax::new(classes).unwrap();
        let name = format!("softmax {classes} {store:?}");
        second_order(&name, &loss, (DIM * classes, 1), &data, &examples());
    }
}

/// With factors of their labels, which the passes go through one after the other.
#[test]
fn weighted() {
    let factors = || ClassWeights::of_signs(0.3, 4.0).unwrap();
    for (i, glm) in Glm::ALL.into_iter().enumerate() {
        let store = STORES[i % STORES.len()];
        let data = |r: &_| private(store, r, AddRemove);
        let loss = || Weighted::new(glm, factors());
        let name = format!("weighted {glm} {store:?}");
        second_order(&name, &loss, (DIM, 1), &data, &examples());
        let points = points(DIM);
        let query = RowAverage::new(Linear::field(&points[2], norm(0.7)), norm(0.3));
        contributions(&name, loss, &query, data, &examples());
    }
    let data = |r: &_| private(STORES[0], r, AddRemove);
    let of_classes = || ClassWeights::of_classes(vec![1.0, 4.0, 0.3]).unwrap();
    let loss = || Weighted::new(Softmax::new(3).unwrap(), of_classes());
    second_order("weighted softmax", &loss, (DIM * 3, 1), &data, &examples());
    let sizes = [DIM, 4, 1];
    let mlp = || Mlp::new(&sizes, Activation::Tanh, Head::Scalar(Glm::Logistic)).unwrap();
    let loss = || Weighted::new(mlp(), factors());
    let dim: usize = sizes.windows(2).map(|s| (s[0] + 1) * s[1]).sum();
    second_order("weighted perceptron", &loss, (dim, 4), &data, &examples());
}

#[test]
fn perceptrons() {
    for (i, activation) in Activation::ALL.into_iter().enumerate() {
        for (sizes, head) in [
            (&[DIM, 9, 3][..], Head::Softmax),
            (&[DIM, 4, 1], Head::Squared),
            (&[DIM, 5, 4, 2], Head::Softmax),
            (&[DIM, 4, 1], Head::Scalar(Glm::Logistic)),
            (&[DIM, 4, 1], Head::Scalar(Glm::Absolute)),
        ] {
            let loss = || Mlp::new(sizes, activation, head).unwrap();
            let store = STORES[i % STORES.len()];
            let data = |r: &_| private(store, r, AddRemove);
            let dim: usize = sizes.windows(2).map(|s| (s[0] + 1) * s[1]).sum();
            let name = format!("perceptron {activation:?} {sizes:?} {store:?}");
            second_order(&name, &loss, (dim, sizes[1]), &data, &examples());
        }
    }
}

#[test]
fn networks_with_fixed_outputs() {
    for (i, head) in Glm::ALL.into_iter().enumerate() {
        for (j, store) in STORES.into_iter().enumerate() {
            let activation = Activation::ALL[(i + j) % Activation::ALL.len()];
            // One whole vector of eight units and a rest; a rest alone.
            let units = if i % 2 == 0 { 10 } else { 4 };
            let loss = || Network::new(units, activation, head).unwrap();
            let data = |r: &_| private(store, r, AddRemove);
            let name = format!("network {head} {activation:?} {units} {store:?}");
            let shape = (DIM * units, units);
            if j == i % STORES.len() {
                // Whole Hessians of a few units only.
                if units == 4 {
                    second_order(&name, &loss, shape, &data, &examples());
                } else {
                    first_order(&name, &loss, shape, &data, &examples());
                }
            } else {
                let points = points_of_layer(shape.0, shape.1);
                let query = Linear::field(&points[2], norm(0.2));
                contributions(&name, loss, &query, &data, &examples());
            }
        }
    }
}

/// What a hostile author of a loss may do: panic, return what is not finite, leave the buffer half written.
#[test]
fn closures() {
    let loss = || {
        ClosureLoss::new(
            DIM,
            Constants::new(1.0, 1.0, 1.0, Convexity::Nonconvex),
            |(x, y): &([f64; DIM], f32), w: &[f64]| {
                assert!(*y != 1.0, "a record that must not be told");
                x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>().sin()
            },
            |(x, y): &([f64; DIM], f32), w: &[f64], out: &mut [f64]| {
                let slope = x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>().cos();
                for (j, out) in out.iter_mut().enumerate() {
                    assert!(*y != 1.0 || j < 3, "a record that must not be told");
                    *out += slope * x[j];
                }
            },
        )
        .with_hessian_vector(
            |(x, y): &([f64; DIM], f32), w: &[f64], v: &[f64], out: &mut [f64]| {
                let dot = |v: &[f64]| x.iter().zip(v).map(|(x, v)| x * v).sum::<f64>();
                let second = -dot(w).sin() * dot(v);
                for (j, out) in out.iter_mut().enumerate() {
                    assert!(*y != 1.0 || j < 3, "a record that must not be told");
                    *out += second * x[j];
                }
            },
        )
    };
    let data =
        |records: &[_]| PrivateData::made_up_of(records.to_vec(), AddRemove, Some(PUBLIC)).unwrap();
    second_order("closure", &loss, (DIM, 1), &data, &examples());
}

/// A row of zeros is no record, in every store, and neither is one that can't be read.
#[test]
fn erased_records_contribute_no_gradient() {
    let zero = |name: &str, found: Vec<Steps>| {
        assert!(found.iter().flatten().all(|&k| k == 0), "{name}");
    };
    let (clip, point) = (norm(1.0), &points(DIM)[2]);
    let erased = [([0.0; DIM], 1.0), ([f64::NAN; DIM], 0.0)];
    for store in [Store::Dense, Store::Dense32, Store::Sparse] {
        let data = |r: &_| private(store, r, AddRemove);
        let query = Linear::field(point, clip);
        for loss in Glm::ALL {
            let found = contributions("erased", || loss, &query, data, &erased);
            zero(&format!("{loss} {store:?}"), found);
        }
    }
}

/// Objectives of scores, of which a row comes with a few numbers of its own, and counts of cells.
#[test]
fn scores_and_cells() {
    let shares = CellShares::even(2).unwrap();
    for store in STORES {
        let data = |r: &_| private(store, r, AddRemove);
        let dro = || {
            let objective = GroupDro::new(&shares, true, 1.0).unwrap();
            Joint::new(Scored::with_own_clips(objective, 1.0), 0.5).unwrap()
        };
        // Four cells.
        let name = format!("group DRO {store:?}");
        first_order(&name, &dro, (DIM + 4, 1), &data, &examples());
        let auc = || {
            let objective = AucSaddle::new(&shares).unwrap();
            Joint::new(Scored::with_own_clips(objective, 1.0), 2.0).unwrap()
        };
        let name = format!("AUC {store:?}");
        first_order(&name, &auc, (DIM + 3, 1), &data, &examples());
        let counts = || CellCounts { groups: 2 };
        let name = format!("counts {store:?}");
        first_order(&name, &counts, (4, 1), &data, &examples());
        let place = |record: Example<'_>, shares: &mut [f64]| {
            let score = record.row.dot(&[0.7; DIM]);
            shares[0] = 0.3 * score.abs();
            (8.0 * score.abs()) as usize
        };
        let tally = || Tally::new(15, 2, place);
        let name = format!("tally {store:?}");
        first_order(&name, &tally, (17, 1), &data, &examples());
    }
}
