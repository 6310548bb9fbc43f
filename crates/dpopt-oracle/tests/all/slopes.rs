//! Slopes along shared directions: their means, their sure bounds, and what hostile records can do.

use std::f64::consts::SQRT_2;
use std::num::NonZeroUsize;

use dpopt_oracle::query::{Directions, Slopes, smoothed_gradient_bound};
use dpopt_oracle::{
    Answer, AskError, Batch, ClosureLoss, Constants, Convexity, Counts, Differentiable, FnOracle,
    FreshSlopes, Level, Mean, Offers, Oracle as _, OracleFacts, PrivateData, PrivateMean,
    Query as _, Question,
};
use dpopt_privacy::{Adjacency, Curator, Event, SamplingRate, Spend, Which};

use crate::common::{clip, uniforms, z};

const DIM: usize = 6;
const POINT: [f64; DIM] = [0.3, -0.2, 0.1, 0.5, 0.0, -0.4];
const RELATIONS: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];

fn directions(dim: usize, count: usize, seed: u64) -> Directions {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    Directions::draw(&mut curator, dim, NonZeroUsize::new(count).unwrap()).unwrap()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

/// The slopes of a function, before the clip.
fn slopes(
    point: &[f64],
    directions: &Directions,
    smoothing: f64,
    value: impl FnMut(&[f64]) -> f64,
) -> Vec<f64> {
    let mut out = vec![0.0; directions.count()];
    let query = Slopes {
        point,
        directions,
        smoothing,
        clip: clip(1.0),
    };
    query.write(value, &mut out);
    out
}

#[test]
fn directions_are_orthonormal_and_no_more_than_dimensions() {
    for (dim, count) in [(1, 1), (7, 1), (7, 3), (7, 7), (7, 20)] {
        let found = directions(dim, count, 3);
        assert_eq!((found.dim(), found.count()), (dim, count.min(dim)));
        let all: Vec<&[f64]> = found.iter().collect();
        assert_eq!(all.len(), found.count());
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                let expected = f64::from(u8::from(i == j));
                assert!((dot(a, b) - expected).abs() < 1e-14);
            }
        }
    }
}

const GRADIENT: [f64; DIM] = [0.1, -0.7, 0.3, 0.2, 0.0, 0.4];

/// sum_j <c, y_j> y_j = c for a whole frame, and on average for fewer directions.
#[test]
fn a_linear_loss_has_its_gradient_at_every_smoothing() {
    let linear = |w: &[f64]| dot(&GRADIENT, w);
    for smoothing in [1e-3, 0.25, 1.0, 40.0] {
        let whole = directions(DIM, DIM, 1);
        let found = whole.lift(&slopes(&POINT, &whole, smoothing, linear));
        for (found, c) in found.iter().zip(&GRADIENT) {
            assert!((found - c).abs() < 1e-11, "{smoothing}: {found} for {c}");
        }
    }
    let (smoothing, draws) = (0.5, 20_000);
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 5);
    for count in [1, 2, 4] {
        let mut mean = [0.0; DIM];
        for _ in 0..draws {
            let some = NonZeroUsize::new(count).unwrap();
            let some = Directions::draw(&mut curator, DIM, some).unwrap();
            let lifted = some.lift(&slopes(&POINT, &some, smoothing, linear));
            for (mean, x) in mean.iter_mut().zip(lifted) {
                *mean += x / f64::from(draws);
            }
        }
        // Six standard errors: a lifted vector has a mean square of (d/m) ||c||^2.
        let most = 6.0 * (DIM as f64 / count as f64 / f64::from(draws)).sqrt() * norm(&GRADIENT);
        let off: Vec<f64> = mean.iter().zip(&GRADIENT).map(|(a, b)| a - b).collect();
        assert!(norm(&off) < most, "{count}: {mean:?}");
    }
}

/// The largest 1-Lipschitz function with the given values at the given points, where there is one.
fn extended(values: Vec<(Vec<f64>, f64)>) -> impl Fn(&[f64]) -> f64 {
    move |w| {
        let from = |(p, value): &(Vec<f64>, f64)| {
            let apart: Vec<f64> = p.iter().zip(w).map(|(p, w)| p - w).collect();
            value + norm(&apart)
        };
        values.iter().map(from).fold(f64::INFINITY, f64::min)
    }
}

/// One steep direction and flat others, or all alike: kappa_m is the length of either.
#[test]
fn the_longest_slopes_are_as_long_as_kappa_says() {
    for m in 1..=DIM {
        for seed in 0..4 {
            let y = directions(DIM, m, seed);
            let mut most = 0.0f64;
            for (steep, flat) in [(1.0, SQRT_2 - 1.0), (0.5 * SQRT_2, 0.5 * SQRT_2)] {
                let smoothing = 0.3;
                let at = |j: usize, step: f64| {
                    let y = y.iter().nth(j).unwrap();
                    POINT.iter().zip(y).map(|(w, y)| w + step * y).collect()
                };
                let value = |j: usize| smoothing * if j == 0 { steep } else { flat };
                let values = (0..m)
                    .flat_map(|j| [(at(j, smoothing), value(j)), (at(j, -smoothing), -value(j))]);
                let found = slopes(&POINT, &y, smoothing, extended(values.collect()));
                assert!((found[0] - steep).abs() < 1e-12, "{m}: {found:?}");
                most = most.max(norm(&found));
            }
            let kappa = smoothed_gradient_bound(1.0, m);
            assert!((most / kappa - 1.0).abs() < 1e-9, "{m}: {most} {kappa}");
        }
        // And no function is steeper: cones at random places.
        let mut next = uniforms(m as u64);
        let kappa = smoothed_gradient_bound(1.0, m) * (1.0 + 1e-9);
        for seed in 0..200 {
            let y = directions(DIM, m, seed);
            let smoothing = 10f64.powf(next());
            let cones = (0..1 + seed % 5).map(|_| {
                let place = (0..DIM).map(|_| 2.0 * next()).collect();
                (place, next())
            });
            let found = slopes(&POINT, &y, smoothing, extended(cones.collect()));
            assert!(norm(&found) <= kappa, "{m}: {found:?}");
        }
    }
}

/// Records by what they do.
const KINDS: usize = 9;

/// Of a 1-Lipschitz loss, it says. Which side of the point is asked for is told by the sign of a coordinate.
fn hostile(y: &Directions) -> impl Differentiable<Records = Vec<usize>> {
    let constants = Constants::new(1.0, f64::INFINITY, 1.0, Convexity::Nonconvex);
    let along = move |w: &[f64], j: usize| -> f64 {
        let moved: Vec<f64> = w.iter().zip(&POINT).map(|(w, p)| w - p).collect();
        y.iter().nth(j).map_or(0.0, |y| dot(y, &moved))
    };
    let value = move |kind: &usize, w: &[f64]| -> f64 {
        let all =
            |sign: fn(usize) -> f64| -> f64 { (0..y.count()).map(|j| sign(j) * along(w, j)).sum() };
        match *kind {
            // An erased record.
            0 => 0.0,
            1 => all(|_| 1.0),
            2 => all(|_| -1.0),
            3 => all(|j| if j % 2 == 0 { 1.0 } else { -1.0 }),
            4 => 100.0 * along(w, 0),
            5 => -1e300 * along(w, 0),
            // At one of two values of one direction.
            6 if along(w, 0) > 1e-6 => f64::NAN,
            7 if along(w, 0) < -1e-6 => f64::INFINITY,
            8 => {
                assert!(along(w, 0) < 1e-6, "a record that must not be told");
                1e3 * along(w, 0)
            }
            _ => all(|_| 1.0),
        }
    };
    let gradient = |_: &usize, _: &[f64], _: &mut [f64]| panic!("no gradient is asked for");
    ClosureLoss::new(DIM, constants, value, gradient)
}

const MULTIPLIER: f64 = 1e-3;

/// The released sum of these records' slopes, with a noise that is the same for all of them.
fn released(
    records: &[usize],
    relation: Adjacency,
    y: &Directions,
    (over, radius): (Which<'_>, f64),
) -> (Vec<f64>, Counts) {
    let declared = (relation == Adjacency::AddRemove).then_some(8);
    let data = PrivateData::made_up_of(records.to_vec(), relation, declared).unwrap();
    let mut curator = Curator::simulated(relation, 6);
    let event = Event::gaussian(z(MULTIPLIER));
    let (event, share) = match over {
        Which::Poisson(rate) => (event.poisson_sampled(rate), rate.get()),
        _ => (event, 1.0),
    };
    curator.reserve(&Spend::Fixed(event)).unwrap();
    let mut means = PrivateMean::new(&data, hostile(y), curator).unwrap();
    let of = Slopes {
        point: &POINT,
        directions: y,
        smoothing: 0.1,
        clip: clip(radius),
    };
    let mean = means.slopes(of, over, z(MULTIPLIER)).unwrap();
    assert_eq!(mean.mean.len(), y.count());
    let size = data.public_records() as f64 * share;
    let sum = mean.mean.iter().map(|x| x * size).collect();
    (sum, means.counts())
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    let apart: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    norm(&apart)
}

/// Neighbours' sums are no farther apart than the sensitivity, in R^m, whatever records do; and as far as that.
#[test]
fn one_record_moves_the_slopes_by_the_clip() {
    let radius = 0.8;
    for m in [1, 2, DIM] {
        let y = directions(DIM, m, 2);
        for relation in RELATIONS {
            let sum = |records: &[usize]| released(records, relation, &y, (Which::All, radius)).0;
            let mut most = 0.0f64;
            let company = [1, 4, 3, 8, 6, 2, 7, 5];
            for place in 0..company.len() {
                for kind in 0..KINDS {
                    let mut one = company.to_vec();
                    let mut other = company.to_vec();
                    match relation {
                        Adjacency::AddRemove => {
                            one.pop();
                            other = one.clone();
                            other.insert(place, kind);
                        }
                        Adjacency::ZeroOut => {
                            one[place] = 0;
                            other[place] = kind;
                        }
                        _ => one[place] = kind,
                    }
                    most = most.max(apart(&sum(&one), &sum(&other)));
                }
            }
            let sensitivity = relation.sum_sensitivity() * radius;
            let at = format!("{m} directions, {relation}: {most}");
            assert!(most <= sensitivity * (1.0 + 1e-9), "{at}");
            assert!(most >= sensitivity * (1.0 - 1e-6), "{at}");
        }
    }
}

/// A value that is not finite, or a panic, at one direction makes the whole record zero, and moves no other.
#[test]
fn a_record_with_one_bad_value_is_no_record() {
    let y = directions(DIM, 3, 2);
    for over in [Which::All, Which::Poisson(SamplingRate::new(0.5).unwrap())] {
        let sum = |records: &[usize]| released(records, Adjacency::ReplaceOne, &y, (over, 1.0)).0;
        let without = sum(&[1, 0, 3, 0, 2, 0, 4, 1]);
        for bad in [6, 7, 8] {
            let with = sum(&[1, bad, 3, bad, 2, bad, 4, 1]);
            assert_eq!(with, without, "{bad} {over:?}");
        }
    }
}

#[test]
fn values_are_counted_and_gradients_are_not() {
    let y = directions(DIM, 4, 2);
    let (_, counts) = released(&[1; 8], Adjacency::ReplaceOne, &y, (Which::All, 1.0));
    assert_eq!(counts.values, 2.0 * 4.0 * 8.0);
    assert_eq!(counts.gradients, 0.0);
    assert_eq!(counts.releases, 1);
    let half = Which::Poisson(SamplingRate::new(0.5).unwrap());
    let (_, counts) = released(&[1; 8], Adjacency::ReplaceOne, &y, (half, 1.0));
    assert_eq!(counts.values, 2.0 * 4.0 * 4.0);
}

/// Refused before a record is read, and not charged.
#[test]
fn points_and_directions_must_fit() {
    let data = PrivateData::made_up_of(vec![1; 8], Adjacency::ReplaceOne, None).unwrap();
    let (right, wrong) = (directions(DIM, 2, 1), directions(DIM + 1, 2, 1));
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 6);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z(1.0))))
        .unwrap();
    let mut means = PrivateMean::new(&data, hostile(&right), curator).unwrap();
    for (point, directions) in [(&POINT[..], &wrong), (&POINT[1..], &right), (&[], &right)] {
        let of = Slopes {
            point,
            directions,
            smoothing: 0.1,
            clip: clip(1.0),
        };
        let refused = means.slopes(of, Which::All, z(1.0));
        assert!(matches!(refused, Err(AskError::Shape { dim: DIM })));
    }
    assert_eq!(means.curator().spent(), Event::NoOp);
}

/// The estimator asks once for each point, along new directions, and lifts.
#[test]
fn an_estimate_is_the_lifted_answer() {
    let facts = OracleFacts::new(DIM, 8, Adjacency::ReplaceOne, Offers::SLOPES);
    let mut seen: Vec<Vec<f64>> = Vec::new();
    let mut oracle = FnOracle::new(
        facts,
        Curator::simulated(Adjacency::ReplaceOne, 1),
        |_, question| {
            let Question::Slopes { of, .. } = question else {
                return Err(AskError::NotOffered {
                    what: question.kind(),
                });
            };
            seen.push(of.directions.iter().flatten().copied().collect());
            let mut out = vec![0.0; of.directions.count()];
            of.write(|w| dot(&GRADIENT, w), &mut out);
            Ok(Answer::Mean(Mean::new(out, 0.5)))
        },
    );
    let level = Level {
        batch: Batch::All,
        noise_multiplier: z(1.0),
    };
    let by = |m: usize| (NonZeroUsize::new(m).unwrap(), 0.2);
    let mut whole = FreshSlopes::new(DIM, by(DIM), clip(1.0), level).unwrap();
    let mut few = FreshSlopes::new(DIM, by(2), clip(1.0), level).unwrap();
    for _ in 0..2 {
        let estimate = whole.estimate(&mut oracle, &POINT).unwrap().estimate;
        assert!(apart(estimate.gradient, &GRADIENT) < 1e-11);
        assert!((estimate.noise_std - 0.5).abs() < 1e-12);
    }
    let estimate = few.estimate(&mut oracle, &POINT).unwrap().estimate;
    assert!((estimate.noise_std - 0.5 * 3f64.sqrt()).abs() < 1e-12);
    assert!(few.estimate(&mut oracle, &POINT[1..]).is_err());
    assert_eq!(seen.len(), 3);
    assert!(seen[0] != seen[1]);
}

#[test]
fn the_bound_lives_in_as_many_dimensions_as_directions() {
    for m in [1, 3, DIM] {
        let y = directions(DIM, m, 1);
        let of = Slopes {
            point: &POINT,
            directions: &y,
            smoothing: 0.1,
            clip: clip(0.4),
        };
        let bound = of.bound(&hostile(&y)).unwrap().unwrap();
        assert_eq!(bound.dim(), m);
        assert!((bound.radius() - 0.4).abs() < 1e-9);
    }
}
