//! Losses of a user's own: they may be wrong in any way, and nothing shows.

use dpopt_oracle::query::{
    Directional, HessianVector, HessianVectorDifference, Value, ValueChange,
};
use dpopt_oracle::{
    AskError, CheckError, ClosureLoss, Constants, Convexity, Differentiable, Example, Examples,
    Glm, Linear, Loss, Momentum, Oracle as _, PrivateData, PrivateGradient, PrivateMean, Records,
    Segment, check_constants, check_gradient,
};
use dpopt_privacy::{Adjacency, Curator, Event, PoolError, Refused, Spend, Which};

use crate::common::{OneByOne, clip, z};

const DIM: usize = 3;

/// 1 - exp(-|w - x|^2 / 2) in three dimensions, and what goes wrong for some records.
fn value(x: &[f64; DIM], w: &[f64]) -> f64 {
    let square: f64 = x.iter().zip(w).map(|(x, w)| (w - x).powi(2)).sum();
    -(-0.5 * square).exp_m1()
}

fn gradient(x: &[f64; DIM], w: &[f64], out: &mut [f64]) {
    match x[0] as i64 {
        // Half a gradient is written before the panic.
        100 => {
            out[0] = 5.0;
            panic!("a record of {x:?}");
        }
        101 => out[1] = f64::NAN,
        102 => out[2] = f64::INFINITY,
        // Too short a vector for this index.
        103 => out[w.len()] = 1.0,
        104 => out.fill(1e300),
        _ => {
            let weight = 1.0 - value(x, w);
            for (out, (x, w)) in out.iter_mut().zip(x.iter().zip(w)) {
                *out += weight * (w - x);
            }
        }
    }
}

fn loss() -> impl Differentiable<Records = Vec<[f64; DIM]>> {
    let constants = Constants::new((-0.5f64).exp(), 1.0, 1.0, Convexity::Nonconvex);
    ClosureLoss::new(DIM, constants, value, gradient)
}

fn records() -> Vec<[f64; DIM]> {
    (0..30)
        .map(|i| {
            let t = f64::from(i);
            [t.sin(), (1.7 * t).cos(), (0.3 * t).sin()]
        })
        .collect()
}

fn releases(records: Vec<[f64; DIM]>) -> Vec<f64> {
    let data = PrivateData::made_up_of(records, Adjacency::AddRemove, Some(30)).unwrap();
    let mut curator = Curator::simulated(Adjacency::AddRemove, 4);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z(1e-3)).repeated(4)))
        .unwrap();
    let mut estimator = PrivateGradient::new(&data, loss(), curator).unwrap();
    let mut out = estimator
        .refresh(&[0.1, 0.2, 0.3], z(1e-3))
        .unwrap()
        .gradient
        .to_vec();
    for point in [[0.1, 0.25, 0.3], [2.0, -1.0, 0.0]] {
        out.extend(estimator.advance(&point, z(1e-3)).unwrap().gradient);
    }
    out
}

/// A record that panics, or whose gradient is not finite, is as good as absent.
#[test]
fn bad_records_leave_no_trace() {
    let plain = releases(records());
    for bad in [100.0, 101.0, 102.0, 103.0] {
        for at in [0, 17, 30] {
            let mut with = records();
            with.insert(at, [bad, 0.0, 0.0]);
            let with = releases(with);
            assert!(
                with.iter()
                    .zip(&plain)
                    .all(|(a, b)| a.to_bits() == b.to_bits()),
                "{bad} at {at}"
            );
        }
    }
}

/// A gradient far longer than claimed moves the release by no more than the clip radius.
#[test]
fn a_wrong_constant_is_clipped() {
    let plain = releases(records());
    let mut with = records();
    with.push([104.0, 0.0, 0.0]);
    let with = releases(with);
    let radius = (-0.5f64).exp();
    for (k, (with, plain)) in with.chunks(DIM).zip(plain.chunks(DIM)).enumerate() {
        let moved: f64 = with.iter().zip(plain).map(|(a, b)| (a - b).powi(2)).sum();
        let moved = moved.sqrt() * 30.0;
        // The anchor moves by the radius, and its differences are zero.
        assert!((moved - radius).abs() < 1e-6 * radius, "{k}: {moved}");
    }
}

#[test]
fn checkers_name_what_is_wrong() {
    let honest = loss();
    let points = [[0.0; DIM], [0.5, -0.2, 0.1], [1.5, 1.0, -1.0]];
    let points: Vec<&[f64]> = points.iter().map(|p| &p[..]).collect();
    let found = check_gradient(&honest, &records(), points[1]).unwrap();
    assert!(
        found.worst < 1e-8 && found.not_finite.is_empty(),
        "{found:?}"
    );
    assert!(
        check_constants(&honest, &records(), &points)
            .unwrap()
            .passed()
    );
    let mut bad = records();
    bad[3] = [101.0, 0.0, 0.0];
    let found = check_gradient(&honest, &bad, points[1]).unwrap();
    assert_eq!(found.not_finite, [3]);

    // A gradient with one wrong sign, and constants half as large as they are.
    let constants = Constants::new(0.3, 0.5, 1.0, Convexity::Nonconvex);
    let wrong = ClosureLoss::new(
        DIM,
        constants,
        value,
        |x: &[f64; DIM], w: &[f64], out: &mut [f64]| {
            gradient(x, w, out);
            out[2] = -out[2];
        },
    );
    let found = check_gradient(&wrong, &records(), points[1]).unwrap();
    assert!(found.worst > 0.05 && found.coordinate == 2, "{found:?}");
    let found = check_constants(&wrong, &records(), &points).unwrap();
    assert!(!found.too_long.is_empty() && !found.too_curved.is_empty());
    assert!(found.lipschitz > 0.3 && found.lipschitz < 0.61);

    assert_eq!(
        check_gradient(&honest, &records(), &[0.0]).unwrap_err(),
        CheckError::Dimension {
            loss: DIM,
            point: 1
        }
    );
    assert_eq!(
        check_gradient(&honest, &Vec::new(), points[0]).unwrap_err(),
        CheckError::Nothing
    );
}

fn examples(labels: &[f32]) -> PrivateData<Examples> {
    let rows: Vec<f64> = (0..2 * labels.len())
        .map(|k| ((k as f64) * 0.7).sin() / 2.0)
        .collect();
    let design = dpopt_linalg::Design::dense(2, rows).unwrap();
    PrivateData::made_up(
        design,
        labels.to_vec(),
        clip(1.0),
        Adjacency::ReplaceOne,
        None,
    )
    .unwrap()
}

/// Value, Hessian-vector product and its difference against sums of the scalar functions.
#[test]
fn queries_release_their_means() {
    let labels: Vec<f32> = (0..50)
        .map(|i| if i % 3 == 0 { 1.0 } else { -1.0 })
        .collect();
    let data = examples(&labels);
    let row = |i: usize| {
        [
            ((2 * i) as f64 * 0.7).sin() / 2.0,
            ((2 * i + 1) as f64 * 0.7).sin() / 2.0,
        ]
    };
    let (w, v, u) = ([0.4, -0.9], [0.6, 0.8], [0.5, -0.7]);
    let dot = |a: [f64; 2], b: [f64; 2]| a[0] * b[0] + a[1] * b[1];
    for loss in Glm::SMOOTH {
        let constants = loss.constants(1.0);
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 6);
        curator
            .reserve(&Spend::Fixed(Event::gaussian(z(1e-4)).repeated(7)))
            .unwrap();
        let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
        let (mut value, mut product, mut change) = (0.0, [0.0; 2], [0.0; 2]);
        for (i, &label) in labels.iter().enumerate() {
            let (x, y) = (row(i), f64::from(label));
            value += loss.value(dot(x, w), y) / 50.0;
            for j in 0..2 {
                product[j] += loss.curvature(dot(x, w), y) * dot(x, v) * x[j] / 50.0;
                change[j] += (loss.curvature(dot(x, w), y) - loss.curvature(dot(x, u), y))
                    * dot(x, v)
                    * x[j]
                    / 50.0;
            }
        }
        // Noise: 1e-4 of twice the radius over 50, so 4e-6 of the radius.
        let query = Value {
            point: &w,
            centre: 0.5,
            radius: clip(3.0),
        };
        let got = mean.release(&query, Which::All, z(1e-4)).unwrap().unwrap();
        assert!((got.mean[0] + 0.5 - value).abs() < 1e-4, "{loss}");
        let mut moved = 0.0;
        for (i, &label) in labels.iter().enumerate() {
            let (x, y) = (row(i), f64::from(label));
            // A radius that some are beyond.
            let change = loss.value(dot(x, w), y) - loss.value(dot(x, u), y);
            moved += change.clamp(-0.05, 0.05) / 50.0;
        }
        let query = ValueChange {
            from: &u,
            to: &w,
            radius: clip(0.05),
        };
        let got = mean.value_change(query, Which::All, z(1e-4)).unwrap();
        assert!((got.number - moved).abs() < 1e-5, "{loss}");
        assert!((got.noise_std / (1e-4 * 2.0 * 0.05 / 50.0) - 1.0).abs() < 1e-9);
        // The slope of the mean along v as a central difference of values, none clipped.
        let mean_value = |w: [f64; 2]| -> f64 {
            let all = labels.iter().enumerate();
            all.map(|(i, &label)| loss.value(dot(row(i), w), f64::from(label)))
                .sum::<f64>()
                / 50.0
        };
        let at = |t: f64| [w[0] + t * v[0], w[1] + t * v[1]];
        let slope = (mean_value(at(1e-5)) - mean_value(at(-1e-5))) / 2e-5;
        let query = Directional {
            point: &w,
            direction: &v,
            radius: clip(9.0),
        };
        let got = mean.directional(query, Which::All, z(1e-4)).unwrap();
        assert!((got.number - slope).abs() < 2e-4, "{loss}");
        assert!((got.noise_std / (1e-4 * 2.0 * 9.0 / 50.0) - 1.0).abs() < 1e-9);
        // Far below all slopes each record adds a sign.
        let query = Directional {
            radius: clip(1e-12),
            ..query
        };
        let got = mean.directional(query, Which::All, z(1e-4)).unwrap();
        assert!(got.number.abs() <= 1.001e-12, "{loss}");
        let radius = Some(clip(constants.smoothness));
        let query = HessianVector {
            point: &w,
            direction: &v,
            radius,
        };
        let got = mean.release(&query, Which::All, z(1e-4)).unwrap().unwrap();
        assert!(
            (0..2).all(|j| (got.mean[j] - product[j]).abs() < 1e-4),
            "{loss}"
        );
        let radius = Some(clip(constants.hessian_lipschitz * 0.1f64.hypot(0.2)));
        let query = HessianVectorDifference {
            from: &u,
            to: &w,
            direction: &v,
            radius,
        };
        let got = mean.release(&query, Which::All, z(1e-4)).unwrap().unwrap();
        assert!(
            (0..2).all(|j| (got.mean[j] - change[j]).abs() < 1e-4),
            "{loss}"
        );
        // A query without a bound releases nothing and is not charged.
        let query = HessianVector {
            point: &w,
            direction: &v,
            radius: None,
        };
        assert!(mean.release(&query, Which::All, z(1e-4)).unwrap().is_none());
        assert_eq!(mean.counts().releases, 6);
        assert_eq!(mean.counts().values, 150.0);
    }
}

/// One pass over disjoint slices: each record is read for one release, and then none is left.
#[test]
fn a_single_pass_reads_each_record_once() {
    let labels = vec![1.0; 50];
    let data = examples(&labels);
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 6);
    let share = Event::gaussian(z(0.5));
    curator
        .reserve(&Spend::Fixed(Event::ParallelComposed {
            events: vec![share],
        }))
        .unwrap();
    let mut estimator = PrivateGradient::new(&data, Glm::Welsch, curator)
        .unwrap()
        .reading(Which::Next(20), Which::Next(10));
    let start = [0.0, 0.0];
    let estimate = estimator.refresh(&start, z(0.5)).unwrap();
    // Replace-one: 2 C z / 20.
    let radius = (-0.5f64).exp();
    assert!((estimate.release_std - 2.0 * radius * 0.5 / 20.0).abs() < 1e-12);
    estimator.advance(&[0.1, 0.0], z(0.5)).unwrap();
    // No displacement: no release, and no records either.
    estimator.advance(&[0.1, 0.0], z(0.5)).unwrap();
    assert_eq!(estimator.curator().records_left(), 20);
    estimator.refresh(&start, z(0.5)).unwrap();
    assert!(matches!(
        estimator.refresh(&start, z(0.5)),
        Err(AskError::Refused(Refused::Pool(PoolError::UsedUp {
            asked: 20,
            left: 0
        })))
    ));
    let spent = estimator.settle().unwrap();
    assert_eq!(
        spent.to_string(),
        Event::ParallelComposed {
            events: vec![Event::gaussian(z(0.5)).repeated(1)]
        }
        .to_string()
    );
    // Anchors cost a gradient a record, variations two.
    assert_eq!(estimator.counts().gradients, 20.0 + 2.0 * 10.0 + 20.0);
}

/// The default pass of a loss gives the same sums as the one that a loss overrides.
#[test]
fn overridden_passes_agree_with_the_default() {
    let labels: Vec<f32> = (0..50).map(|i| (i as f32 * 0.37).sin()).collect();
    let data = examples(&labels);
    fn run<L: Differentiable<Records = Examples>>(
        data: &PrivateData,
        loss: L,
        at: f64,
    ) -> Vec<f64> {
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 6);
        let spend = Spend::Fixed(Event::gaussian(z(1e-3)).repeated(2));
        curator.reserve(&spend).unwrap();
        let mut estimator = PrivateGradient::clipped(data, loss, curator, clip(at)).unwrap();
        let mut out = estimator
            .refresh(&[0.4, -0.2], z(1e-3))
            .unwrap()
            .gradient
            .to_vec();
        out.extend(estimator.advance(&[0.1, 0.3], z(1e-3)).unwrap().gradient);
        out
    }
    for loss in Glm::ALL {
        for at in [1.0, 0.02] {
            let (plain, own) = (run(&data, OneByOne(loss), at), run(&data, loss, at));
            for (a, b) in plain.iter().zip(&own) {
                // One lattice step for each of 50 records: 50 * 2^-29 * 2 / 50.
                assert!((a - b).abs() < 1e-8, "{loss} {at}: {a} {b}");
            }
        }
    }
    let _ = Linear::field(&[0.0], clip(1.0));
    assert_eq!(data.public_records(), 50);
    assert_eq!(vec![1u8, 2].len(), Records::len(&vec![1u8, 2]));
}

/// A mean over a sample of fixed size divides by that size and is charged as one sampled event.
#[test]
fn a_fixed_size_mean_divides_by_its_size() {
    let data = examples(&[1.0; 50]);
    let event = Event::SampledWithoutReplacement {
        source_dataset_size: 50,
        sample_size: 10,
        event: Box::new(Event::gaussian(z(0.25))),
    };
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 6);
    curator
        .reserve(&Spend::Fixed(event.clone().repeated(2)))
        .unwrap();
    let mut estimator = PrivateGradient::new(&data, Glm::Welsch, curator)
        .unwrap()
        .reading(Which::FixedSize(10), Which::FixedSize(10));
    let estimate = estimator.refresh(&[0.1, 0.0], z(0.25)).unwrap();
    let radius = (-0.5f64).exp();
    assert!((estimate.release_std - 2.0 * radius * 0.25 / 10.0).abs() < 1e-12);
    assert_eq!(estimator.settle().unwrap().leaves(), vec![(event, 1)]);
    assert_eq!(estimator.counts().gradients, 10.0);
}

/// How far a sparse row reaches into a point that is too short is private. So a query of the wrong
/// shape is refused alike whatever the rows are, before one is read, and nothing is charged.
#[test]
fn a_query_of_the_wrong_shape_is_refused_whatever_the_records() {
    for column in [0, 2] {
        let mut design = dpopt_linalg::Design::sparse(3).unwrap();
        design.push_row(&[(column, 1.0)]).unwrap();
        let data = PrivateData::made_up(design, vec![1.0], clip(1.0), Adjacency::ReplaceOne, None)
            .unwrap();
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        curator
            .reserve(&Spend::Fixed(Event::gaussian(z(1.0)).repeated(9)))
            .unwrap();
        let mut mean = PrivateMean::new(&data, Glm::Logistic, curator).unwrap();
        let (short, whole, radius) = ([0.0; 2], [0.0; 3], clip(1.0));
        let mut refused = |query: &dyn Fn(&mut PrivateMean<'_, Glm>) -> bool| {
            assert!(query(&mut mean), "{column}");
        };
        macro_rules! is_refused {
            ($query:expr) => {
                refused(&|mean| {
                    matches!(
                        mean.release(&$query, Which::All, z(1.0)),
                        Err(AskError::Shape { dim: 3 })
                    )
                })
            };
        }
        is_refused!(Value {
            point: &short,
            centre: 0.0,
            radius
        });
        is_refused!(Linear::field(&short, radius));
        // Fields of a segment may be set after it was made.
        for part in 0..3 {
            let mut segment = Segment::new(&whole, &whole, &whole).unwrap();
            *[
                &mut segment.from,
                &mut segment.to,
                &mut segment.displacement,
            ][part] = &short;
            let clip = radius;
            is_refused!(Linear::change(segment, clip, radius));
            is_refused!(Linear::momentum(
                segment,
                Momentum::new(0.5).unwrap(),
                clip,
                radius
            ));
        }
        for (point, direction) in [(&short[..], &whole[..]), (&whole, &short)] {
            is_refused!(HessianVector {
                point,
                direction,
                radius: Some(radius)
            });
            is_refused!(HessianVectorDifference {
                from: &whole,
                to: point,
                direction,
                radius: Some(radius)
            });
        }
        assert_eq!(mean.curator().spent(), Event::NoOp);
    }
}

/// Under zero-out a record is exchanged for a row of zeros, which is charged as contributing
/// nothing. The logistic value there is ln 2: with this centre and radius the exchange could move
/// the sum by twice the radius.
#[test]
fn values_are_refused_where_a_row_of_zeros_stands_for_no_record() {
    let design = dpopt_linalg::Design::dense(1, vec![1.0]).unwrap();
    let data =
        PrivateData::made_up(design, vec![1.0], clip(1.0), Adjacency::ZeroOut, None).unwrap();
    let mut curator = Curator::simulated(Adjacency::ZeroOut, 1);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z(1.0)).repeated(2)))
        .unwrap();
    let mut mean = PrivateMean::new(&data, Glm::Logistic, curator).unwrap();
    let value = Value {
        point: &[9.0],
        centre: 0.35,
        radius: clip(0.3),
    };
    assert!(matches!(
        mean.release(&value, Which::All, z(1.0)),
        Err(AskError::ZeroRows)
    ));
    assert_eq!(mean.curator().spent(), Event::NoOp);
    // The gradient of a row of zeros is zero.
    let gradient = Linear::field(&[9.0], clip(1.0));
    assert!(mean.release(&gradient, Which::All, z(1.0)).is_ok());
}

/// A bias makes the gradient of a row of zeros something, so that exchanging a record for such a row may move a sum by
/// twice the radius. Nobody knows that of a loss of one's own, so it has to say so.
#[test]
fn a_loss_of_rows_that_may_not_vanish_on_zeros_is_refused_under_zero_out() {
    struct Biased<const VANISHES: bool>;
    impl<const VANISHES: bool> Loss for Biased<VANISHES> {
        type Records = Examples;
        const VANISHES_ON_ERASED: bool = VANISHES;
        fn dim(&self, _: &Examples) -> usize {
            1
        }
        fn constants_on(&self, _: &Examples) -> Constants {
            Constants::new(1.0, 1.0, 1.0, Convexity::Convex)
        }
        fn value(&self, record: Example<'_>, w: &[f64]) -> f64 {
            w[0] * (record.label - 0.5).signum()
        }
    }
    impl<const VANISHES: bool> Differentiable for Biased<VANISHES> {
        fn gradient(&self, record: Example<'_>, _: &[f64], out: &mut [f64]) {
            out[0] += (record.label - 0.5).signum();
        }
    }
    fn release<L: Differentiable>(
        data: &PrivateData<L::Records>,
        loss: L,
    ) -> Result<bool, AskError> {
        let mut curator = Curator::simulated(data.adjacency(), 1);
        curator.reserve(&Spend::Fixed(Event::gaussian(z(1.0))))?;
        let mut mean = PrivateMean::new(data, loss, curator).unwrap();
        let query = Linear::field(&[0.0], clip(1.0));
        let released = mean.release(&query, Which::All, z(1.0))?;
        Ok(released.is_some())
    }
    let rows = |adjacency| {
        let design = dpopt_linalg::Design::dense(1, vec![1.0]).unwrap();
        PrivateData::made_up(design, vec![1.0], clip(1.0), adjacency, None).unwrap()
    };
    let zero_out = rows(Adjacency::ZeroOut);
    assert!(matches!(
        release(&zero_out, Biased::<false>),
        Err(AskError::ZeroRows)
    ));
    assert!(release(&zero_out, Biased::<true>).unwrap());
    assert!(release(&rows(Adjacency::ReplaceOne), Biased::<false>).unwrap());
    // Records of one's own have no row of zeros; the one that contributes nothing exists in the proof only.
    let own = PrivateData::made_up_of(vec![[0.5; DIM]], Adjacency::ZeroOut, None).unwrap();
    let constants = Constants::new(1.0, 1.0, 1.0, Convexity::Convex);
    let closure = ClosureLoss::new(
        1,
        constants,
        |_: &[f64; DIM], w: &[f64]| w[0],
        |_: &[f64; DIM], _: &[f64], out: &mut [f64]| out[0] += 1.0,
    );
    assert!(release(&own, closure).unwrap());
}
