//! The smoothed loss as the field of an oracle: offsets, recursive estimates, radii by the move, and refusals.

use std::num::NonZeroUsize;

use dpopt_oracle::query::{BallGradient, Offsets, SmoothedGradient};
use dpopt_oracle::{
    AskError, Batch, Books, ClosureLoss, Constants, Convexity, Differentiable, FnOracle, Level,
    Linear, Offers, Oracle, OracleFacts, PeriodAnchor, PeriodTerms, PrefixRecursive,
    PrefixSettings, PrivateData, PrivateMean, Recursive, RecursiveSettings, Refresh, Schedule,
    Segment, SmoothedDraw, SmoothedFields, SmoothedMeans, Smoothing, StepKind, share_of,
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

/// (i + 1) sum of w_j^4 for record i: gradients at offsets, slopes along frames and their changes tell which record had which. (Changes
/// of slopes of a cubic are the same along any frame.)
fn fourths() -> impl Differentiable<Records = Vec<Vec<f64>>> {
    let constants = Constants::new(1.0, f64::INFINITY, 1.0, Convexity::Nonconvex);
    ClosureLoss::new(
        DIM,
        constants,
        |x: &Vec<f64>, w: &[f64]| x[0] * fourth(w),
        |x: &Vec<f64>, w: &[f64], out: &mut [f64]| {
            for (out, w) in out.iter_mut().zip(w) {
                *out += x[0] * 4.0 * w.powi(3);
            }
        },
    )
}

fn fourth(w: &[f64]) -> f64 {
    w.iter().map(|w| w.powi(4)).sum()
}

/// What a record with number 1 in slot `slot` has to contribute: by the definition, from the vectors themselves.
fn of_slot(
    (drawn, radius): (&SmoothedDraw, f64),
    (before, point): (Option<&[f64]>, &[f64]),
    slot: usize,
) -> Vec<f64> {
    let zero = [0.0; DIM];
    let (mut moved, mut out) = ([0.0; DIM], vec![0.0; DIM]);
    match drawn {
        SmoothedDraw::Offsets(offsets) => {
            let ball = BallGradient {
                point: &zero,
                offsets,
                clip: clip(1.0),
            };
            // u_i itself.
            let mut u = [0.0; DIM];
            let copied = |at: &[f64], out: &mut [f64]| out.copy_from_slice(at);
            ball.write(slot, copied, &mut moved, &mut u);
            for (out, (w, u)) in out.iter_mut().zip(point.iter().zip(u)) {
                *out = 4.0 * (w + u).powi(3);
            }
        }
        SmoothedDraw::Frames(frames) => {
            let frame = SmoothedGradient {
                point: &zero,
                smoothing: 1.0,
                frames,
                clip: clip(1.0),
            };
            // y_1, -y_1, y_2, ...
            let mut ends = Vec::new();
            let noted = |at: &[f64]| {
                ends.push(at.to_vec());
                0.0
            };
            frame.write(slot, noted, &mut moved, &mut [0.0; DIM]);
            for y in ends.iter().step_by(2) {
                let at = |w: &[f64], step: f64| {
                    let sums: Vec<f64> = w.iter().zip(y).map(|(w, y)| w + step * y).collect();
                    fourth(&sums)
                };
                let slope = |w: &[f64]| (at(w, radius) - at(w, -radius)) / (2.0 * radius);
                let change = slope(point) - before.map_or(0.0, slope);
                out.iter_mut()
                    .zip(y)
                    .for_each(|(out, y)| *out += change * y);
            }
        }
    }
    out
}

/// Each record has an offset or a frame of its own, fresh for each question: what is released is what the vectors make that a
/// curator with the same seed draws. One for all, that of another record, or those of the question before make something else.
#[test]
fn each_record_has_vectors_of_its_own_and_each_question_new_ones() {
    let points = [vec![0.3, -0.2, 0.5], vec![0.25, -0.1, 0.45]];
    let mut told = 0;
    for fields in [SmoothedFields::Gradients, SmoothedFields::Values] {
        for (batches, groups) in [
            ([Which::All, Which::All], RECORDS),
            ([Which::All, Which::All], 5),
            ([Which::Next(7), Which::Next(5)], RECORDS),
        ] {
            let records = (0..RECORDS).map(|i| vec![i as f64 + 1.0; DIM]).collect();
            let data = PrivateData::made_up_of(records, Adjacency::ReplaceOne, None).unwrap();
            let curator = || Curator::simulated(Adjacency::ReplaceOne, 11);
            let mut means = PrivateMean::new(&data, fourths(), curator()).unwrap();
            let smoothing = Smoothing {
                radius: 0.5,
                lipschitz: 100.0,
                fields,
                offsets: count(groups),
                frames: count(groups),
            };
            let slices = matches!(batches[0], Which::Next(_));
            let schedule = Schedule::new(RECORDS as u64);
            let level = |batch| Level {
                batch,
                noise_multiplier: z(QUIET),
            };
            let spend = match slices {
                true => schedule.releases(level(Batch::Next(7)), 2),
                false => schedule.releases(level(Batch::All), 2),
            };
            means.books().reserve(&spend.spend()).unwrap();
            let known = means.facts();
            let mut twin = Books::new(curator(), RECORDS as u64);
            let segment = [-0.05, 0.1, -0.05];
            let change = Segment::new(&points[0], &points[1], &segment).unwrap();
            let wide = clip(1e4);
            let asked = [
                (Linear::field(&points[0], wide), None),
                (Linear::change(change, wide, wide), Some(&points[0][..])),
            ];
            let mut stale = None;
            let mut first = 0;
            for ((of, before), over) in asked.into_iter().zip(batches) {
                let drawn = smoothing.draw(&of, over, (known, &mut twin)).unwrap();
                let mut oracle = SmoothedMeans::new(&mut means, smoothing);
                let found = oracle.mean(of, over, z(QUIET)).unwrap().mean;
                let read = match over {
                    Which::Next(size) => size as usize,
                    _ => RECORDS,
                };
                let from = if slices { first } else { 0 };
                first += read;
                let mean = |drawn: &SmoothedDraw, groups: usize| {
                    let mut mean = vec![0.0; DIM];
                    for i in from..from + read {
                        let part = of_slot((drawn, 0.5), (before, of.point()), i % groups);
                        for (mean, part) in mean.iter_mut().zip(part) {
                            *mean += (i as f64 + 1.0) * part / read as f64;
                        }
                    }
                    mean
                };
                let off = |expected: &[f64]| {
                    let gaps = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
                    gaps.fold(0.0, f64::max)
                };
                let at = format!("{fields:?} {over:?} {groups}");
                let groups = groups.min(read);
                let right = off(&mean(&drawn, groups));
                assert!(right < 1e-2 / 3.0, "{at}: {right}");
                // One for all, and those of a question before.
                assert!(off(&mean(&drawn, 1)) > 1e-2, "{at}: shared");
                if let (Some(SmoothedDraw::Frames(_)), SmoothedDraw::Frames(_)) = (&stale, &drawn) {
                    let stale = stale.as_ref().unwrap();
                    assert!(off(&mean(stale, groups)) > 1e-2, "{at}: stale");
                    told += 1;
                }
                stale = Some(drawn);
            }
        }
    }
    assert_eq!(told, 3);
}

/// What is offered follows from what the oracle below offers of smoothed fields; slopes are as long as slopes can be.
#[test]
fn facts_are_those_of_the_smoothed_field() {
    let data = data(Adjacency::ReplaceOne);
    let curator = Curator::simulated(Adjacency::ReplaceOne, 8);
    let mut means = PrivateMean::new(&data, bowl(1.0), curator).unwrap();
    let offered = SmoothedMeans::new(&mut means, smoothing(SmoothedFields::Values)).facts();
    assert_eq!(offered.offers, Offers::MEANS | Offers::PERIODS);
    // kappa_3^2 = max(3/2, 1 + 2 (sqrt 2 - 1)^2).
    assert!((offered.lipschitz - 1.5f64.sqrt()).abs() < 1e-9);
    assert!((offered.smoothness / (3f64.sqrt() / 0.1) - 1.0).abs() < 1e-9);
    let gradients = SmoothedMeans::new(&mut means, smoothing(SmoothedFields::Gradients)).facts();
    assert_eq!(gradients.lipschitz, 1.0);
    for (inner, expected) in [
        (
            Offers::MEANS | Offers::PERIODS | Offers::NORMS,
            Offers::NOTHING,
        ),
        (Offers::SMOOTHED, Offers::MEANS),
    ] {
        let known = OracleFacts::new(DIM, 12, Adjacency::ReplaceOne, inner);
        let curator = Curator::simulated(Adjacency::ReplaceOne, 8);
        let mut oracle = FnOracle::new(known, curator, |_, question| panic!("{question:?}"));
        let fields = smoothing(SmoothedFields::Gradients);
        assert_eq!(
            SmoothedMeans::new(&mut oracle, fields).facts().offers,
            expected
        );
    }
    // A radius at which slopes are no numbers.
    let flat = Smoothing {
        radius: 0.0,
        ..smoothing(SmoothedFields::Values)
    };
    let mut oracle = SmoothedMeans::new(&mut means, flat);
    assert_eq!(oracle.facts().smoothness, f64::INFINITY);
    let field = Linear::field(&[0.1; DIM], clip(1.0));
    let refused = oracle.mean(field, Which::All, z(1.0));
    assert!(matches!(refused, Err(AskError::NotOffered { .. })));
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
