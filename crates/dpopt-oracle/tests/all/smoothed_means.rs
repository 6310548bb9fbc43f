//! The smoothed loss as the field of an oracle: offsets, recursive estimates, radii by the move, and refusals.

use std::num::NonZeroUsize;

use dpopt_oracle::query::Offsets;
use dpopt_oracle::{
    AskError, Batch, ClosureLoss, Constants, Convexity, Differentiable, Level, Linear, Oracle,
    PeriodAnchor, PeriodTerms, PrefixRecursive, PrefixSettings, PrivateData, PrivateMean,
    Recursive, RecursiveSettings, Refresh, Schedule, SmoothedFields, SmoothedMeans, Smoothing,
    StepKind, share_of,
};
use dpopt_privacy::{
    Adjacency, Curator, Event, Participation, PoolError, PrefixKind, Refused, Which,
};

use crate::common::{clip, z};

const DIM: usize = 3;
const RECORDS: usize = 12;
/// So little noise that a mean is right to six digits or so.
const QUIET: f64 = 1e-7;

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn smoothing(fields: SmoothedFields) -> Smoothing {
    Smoothing {
        radius: 0.1,
        lipschitz: 1.0,
        fields,
        offsets: count(RECORDS),
        frames: count(RECORDS),
    }
}

/// (c/2) ||w - x||^2.
fn bowl(c: f64) -> impl Differentiable<Records = Vec<Vec<f64>>> {
    let constants = Constants::new(1.0, f64::INFINITY, 1.0, Convexity::Nonconvex);
    ClosureLoss::new(
        DIM,
        constants,
        move |x: &Vec<f64>, w: &[f64]| {
            0.5 * c * x.iter().zip(w).map(|(x, w)| (w - x).powi(2)).sum::<f64>()
        },
        move |x: &Vec<f64>, w: &[f64], out: &mut [f64]| {
            for (out, (x, w)) in out.iter_mut().zip(x.iter().zip(w)) {
                *out += c * (w - x);
            }
        },
    )
}

fn data(adjacency: Adjacency) -> PrivateData<Vec<Vec<f64>>> {
    let record = |i: usize| (0..DIM).map(|j| coordinate(i, j)).collect();
    let declared = (!adjacency.record_count_is_public()).then_some(RECORDS as u64);
    PrivateData::made_up_of((0..RECORDS).map(record).collect(), adjacency, declared).unwrap()
}

/// (||u||/a)^d is uniform on [0, 1], and directions have no preference: five standard errors.
#[test]
fn offsets_fill_the_ball() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    for dim in [1, 2, 5] {
        let n = 20_000;
        let offsets = Offsets::draw(&mut curator, dim, 0.25, count(n)).unwrap();
        let query = |slot| {
            let mut u = vec![0.0; dim];
            let zero = vec![0.0; dim];
            let ball = dpopt_oracle::query::BallGradient {
                point: &zero,
                offsets: &offsets,
                clip: clip(1.0),
            };
            let mut moved = vec![0.0; dim];
            ball.write(
                slot,
                |point, out| out.copy_from_slice(point),
                &mut moved,
                &mut u,
            );
            u
        };
        let (mut volume, mut square, mut first) = (0.0, 0.0, 0.0);
        for slot in 0..n {
            let u = query(slot);
            let length = u.iter().map(|x| x * x).sum::<f64>().sqrt() / 0.25;
            assert!(length <= 1.0);
            let share = length.powi(dim as i32);
            volume += share / n as f64;
            square += share * share / n as f64;
            first += u[0] / 0.25 / n as f64;
        }
        let error = 5.0 / (n as f64).sqrt();
        assert!(
            (volume - 0.5).abs() < error * (1.0 / 12.0_f64).sqrt(),
            "{dim} {volume}"
        );
        assert!(
            (square - 1.0 / 3.0).abs() < error * (4.0 / 45.0_f64).sqrt(),
            "{dim} {square}"
        );
        assert!(first.abs() < error, "{dim} {first}");
    }
}

/// Points of a walk, none far from the one before.
fn points() -> Vec<Vec<f64>> {
    (0..7)
        .map(|t| {
            let t = f64::from(t);
            vec![0.02 * t, 0.3 - 0.01 * t * t, 0.01 * (3.0 * t).sin()]
        })
        .collect()
}

/// On a bowl slopes along any frame are exact, so that estimates move with the point by as much; an anchor is off by the mean
/// of its offsets, or by nothing with frames.
#[test]
fn recursive_estimates_follow_the_smoothed_loss() {
    for fields in [SmoothedFields::Gradients, SmoothedFields::Values] {
        for kind in [None, Some(PrefixKind::Toeplitz), Some(PrefixKind::Tree)] {
            let data = data(Adjacency::ReplaceOne);
            let curator = Curator::simulated(Adjacency::ReplaceOne, 8);
            let mut means = PrivateMean::new(&data, bowl(1.0), curator).unwrap();
            let level = |batch| Level {
                batch,
                noise_multiplier: z(QUIET),
            };
            let smoothing = smoothing(fields);
            let longest = (DIM as f64).sqrt() * 0.1 / smoothing.radius;
            let independent = RecursiveSettings {
                clip: clip(2.0),
                anchor: level(Batch::All),
                variation: level(Batch::All),
                refresh: Refresh::every(4),
            };
            let period = PrefixSettings {
                clip: clip(2.0),
                anchor: PeriodAnchor::Apart(level(Batch::All)),
                variation: Batch::All,
                period: PeriodTerms {
                    kind: kind.unwrap_or(PrefixKind::Independent),
                    len: 3,
                    participation: Participation::Every,
                    share: share_of(longest, RECORDS as f64).unwrap(),
                    noise_multiplier: z(QUIET),
                },
                refresh: Refresh::every(4),
            };
            let schedule = Schedule::new(RECORDS as u64);
            let spend = match kind {
                None => schedule.recursive(&independent, 2, 5),
                Some(_) => schedule.prefix(&period, 2).unwrap(),
            };
            means.books().reserve(&spend.spend()).unwrap();
            let mut recursive = Recursive::new(DIM, independent).unwrap();
            let mut prefix = PrefixRecursive::new(DIM, period).unwrap();
            let mut before: Option<(Vec<f64>, Vec<f64>)> = None;
            for (t, point) in points().iter().enumerate() {
                let mut oracle = SmoothedMeans::new(&mut means, smoothing);
                let tracked = match kind {
                    None => recursive.estimate(&mut oracle, point),
                    Some(_) => prefix.estimate(&mut oracle, point),
                }
                .unwrap();
                let anchor = t.is_multiple_of(4);
                assert_eq!(tracked.kind == StepKind::Anchor, anchor);
                let found = tracked.estimate.gradient.to_vec();
                for j in 0..DIM {
                    let exact = point[j] - data_mean(j);
                    let off = found[j] - exact;
                    if anchor {
                        let allowed = match fields {
                            SmoothedFields::Values => 1e-5,
                            // Twelve offsets of at most 0.1.
                            _ => 0.1,
                        };
                        assert!(off.abs() < allowed, "{kind:?} {t} {off}");
                    } else if let Some((point_before, found_before)) = &before {
                        let moved = point[j] - point_before[j];
                        let changed = found[j] - found_before[j];
                        assert!((moved - changed).abs() < 1e-5, "{kind:?} {t}");
                    }
                }
                before = Some((point.clone(), found));
            }
            let counts = means.counts();
            let n = RECORDS as f64;
            let (anchors, changes) = (2.0 * n, 5.0 * n);
            let d = DIM as f64;
            match fields {
                SmoothedFields::Values => {
                    assert_eq!(counts.gradients, 0.0);
                    assert_eq!(counts.values, anchors * 2.0 * d + changes * 4.0 * d);
                }
                _ => {
                    assert_eq!(counts.gradients, anchors);
                    assert_eq!(counts.values, changes * 4.0 * d);
                }
            }
        }
    }
}

/// Coordinate `j` of record `i`.
fn coordinate(i: usize, j: usize) -> f64 {
    0.2 * (1.3 * i as f64 + 0.7 * j as f64).sin()
}

fn data_mean(j: usize) -> f64 {
    (0..RECORDS).map(|i| coordinate(i, j)).sum::<f64>() / RECORDS as f64
}

/// A loss a hundred times as steep as it says: a change is as long as its own move allows and not longer, and so is the noise.
#[test]
fn changes_are_clipped_to_the_radius_of_their_move() {
    let data = data(Adjacency::ReplaceOne);
    let curator = Curator::simulated(Adjacency::ReplaceOne, 8);
    let mut means = PrivateMean::new(&data, bowl(2_000.0), curator).unwrap();
    let level = Level {
        batch: Batch::All,
        noise_multiplier: z(QUIET),
    };
    let settings = RecursiveSettings {
        clip: clip(1.0),
        anchor: level,
        variation: level,
        refresh: Refresh::by_phase(),
    };
    let spend = Schedule::new(RECORDS as u64).recursive(&settings, 1, 3);
    means.books().reserve(&spend.spend()).unwrap();
    let mut estimate = Recursive::new(DIM, settings).unwrap();
    let mut before = vec![0.0; DIM];
    let mut at = 0.0;
    for (t, length) in [0.0, 1e-3, 1e-6, 1e-9].into_iter().enumerate() {
        at += length;
        let mut oracle = SmoothedMeans::new(&mut means, smoothing(SmoothedFields::Gradients));
        let tracked = estimate.estimate(&mut oracle, &[at, 0.0, 0.0]).unwrap();
        let found = tracked.estimate.gradient.to_vec();
        if t > 0 {
            let radius = 3f64.sqrt() * length / 0.1;
            let changed: f64 = found
                .iter()
                .zip(&before)
                .map(|(a, b)| (a - b).powi(2))
                .sum();
            let ratio = changed.sqrt() / radius;
            assert!((0.999..1.001).contains(&ratio), "{length} {ratio}");
            let noise = QUIET * 2.0 * radius / RECORDS as f64;
            let ratio = tracked.estimate.release_std / noise;
            assert!((ratio - 1.0).abs() < 1e-6, "{length} {ratio}");
        }
        before = found;
    }
}

/// Offsets and frames go by position: refused where positions shift, with nothing charged.
#[test]
fn shifting_positions_are_refused() {
    let data = data(Adjacency::AddRemove);
    let mut curator = Curator::simulated(Adjacency::AddRemove, 6);
    let event = Event::gaussian(z(1.0)).repeated(2);
    curator
        .reserve(&dpopt_privacy::Spend::Fixed(event))
        .unwrap();
    let mut means = PrivateMean::new(&data, bowl(1.0), curator).unwrap();
    for fields in [SmoothedFields::Gradients, SmoothedFields::Values] {
        let mut oracle = SmoothedMeans::new(&mut means, smoothing(fields));
        let field = Linear::field(&[0.1; DIM], clip(1.0));
        assert!(matches!(
            oracle.mean(field, Which::All, z(1.0)),
            Err(AskError::Refused(Refused::Pool(
                PoolError::Adjacency { .. }
            )))
        ));
        let short = Linear::field(&[0.1; 2], clip(1.0));
        assert!(matches!(
            oracle.mean(short, Which::All, z(1.0)),
            Err(AskError::Shape { dim: DIM })
        ));
        assert!(matches!(
            oracle.norm(field, &[], Which::All, z(1.0)),
            Err(AskError::NotOffered { .. })
        ));
    }
    assert_eq!(means.curator().spent(), Event::NoOp);
}
