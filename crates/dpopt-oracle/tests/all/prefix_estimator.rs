//! Estimates under prefix-sum noise: law, sensitivity in integers, charges, periods.

use dpopt_oracle::{
    AskError, Batch, ClosureLoss, Constants, Convexity, Differentiable, Level, Linear, Oracle,
    PeriodAnchor, PeriodTerms, PrefixRecursive, PrefixSettings, PrivateData, PrivateMean, Refresh,
    Schedule, Segment, StepKind, share_of,
};
use dpopt_privacy::accounting::costs::squared_mu;
use dpopt_privacy::{
    Adjacency, Bound, Curator, Event, Participation, PoolError, PrefixError, PrefixKind, Refused,
    Spend, StepCounts, Which,
};

use crate::follow::{Follow, On};

use crate::common::{clip, z};

const KINDS: [PrefixKind; 5] = [
    PrefixKind::Independent,
    PrefixKind::Tree,
    PrefixKind::Honaker,
    PrefixKind::Toeplitz,
    PrefixKind::Banded { band: 3 },
];

/// The gradient is `scale` times the point times the record: as large as one likes, whatever is claimed.
fn loss(dim: usize, scale: f64, claimed: f64) -> impl Differentiable<Records = Vec<f64>> {
    let constants = Constants::new(claimed, claimed, 1.0, Convexity::Nonconvex);
    let gradient = move |x: &f64, w: &[f64], out: &mut [f64]| {
        for (out, w) in out.iter_mut().zip(w) {
            *out += scale * x * w;
        }
    };
    ClosureLoss::new(dim, constants, |_: &f64, _: &[f64]| 0.0, gradient)
}

fn data(records: Vec<f64>) -> PrivateData<Vec<f64>> {
    PrivateData::made_up_of(records, Adjacency::ReplaceOne, None).unwrap()
}

fn terms(kind: PrefixKind, len: u64, share: f64, multiplier: f64) -> PeriodTerms {
    PeriodTerms {
        kind,
        len,
        participation: Participation::Single,
        share: clip(share),
        noise_multiplier: z(multiplier),
    }
}

fn settings(anchor: PeriodAnchor, variation: Batch, period: PeriodTerms) -> PrefixSettings {
    PrefixSettings {
        clip: clip(1.0),
        anchor,
        variation,
        period,
        refresh: Refresh::by_phase(),
    }
}

fn tracker<L: Differentiable<Records = Vec<f64>>>(
    data: &PrivateData<Vec<f64>>,
    loss: L,
    settings: PrefixSettings,
    periods: u64,
    seed: u64,
) -> On<PrivateMean<'_, L>, PrefixRecursive> {
    let curator = Curator::simulated(data.adjacency(), seed);
    let mut oracle = PrivateMean::new(data, loss, curator).unwrap();
    let tracker = PrefixRecursive::new(oracle.dim(), settings).unwrap();
    oracle.books().reserve(&spend(&settings, periods)).unwrap();
    On { oracle, tracker }
}

fn spend(settings: &PrefixSettings, periods: u64) -> Spend {
    Schedule::new(64).prefix(settings, periods).unwrap().spend()
}

/// Variance of prefix t over (z times the sensitivity of one step)^2 for periods in which a record is in one step,
/// from the definition of each factorisation: the squared norm of row t of B times that of the longest column of C.
fn row_norm(kind: PrefixKind, len: usize, t: usize) -> f64 {
    let levels = f64::from(usize::BITS - len.leading_zeros());
    let ones = (0..usize::BITS).filter(|h| t >> h & 1 == 1);
    let root: Vec<f64> = (1..len).fold(vec![1.0], |mut c, k| {
        c.push(c[k - 1] * (2 * k - 1) as f64 / (2 * k) as f64);
        c
    });
    let squares = |c: &[f64]| c.iter().map(|x| x * x).sum::<f64>();
    match kind {
        PrefixKind::Independent => t as f64,
        PrefixKind::Tree => levels * f64::from(t.count_ones()),
        PrefixKind::Honaker => {
            levels
                * ones
                    .map(|h| 1.0 / (2.0 - (-f64::from(h)).exp2()))
                    .sum::<f64>()
        }
        PrefixKind::Toeplitz => squares(&root) * squares(&root[..t]),
        PrefixKind::Banded { band } => {
            // B = A C^-1: b_m solves the convolution of b with the band of c = all ones.
            let c: Vec<f64> = root.iter().copied().take(band as usize).collect();
            let mut b: Vec<f64> = Vec::new();
            for m in 0..len {
                let known: f64 = (1..c.len().min(m + 1)).map(|k| c[k] * b[m - k]).sum();
                b.push(1.0 - known);
            }
            squares(&c) * squares(&b[..t])
        }
        _ => unreachable!(),
    }
}

/// Records of zero have zero gradients, so what is released is the noise. In 4096 coordinates the empirical
/// variance is within 6 standard deviations, sqrt(2/4096) each, of the row norm: a false alarm in 2e-9 for
/// each of 70 checks.
#[test]
fn the_noise_of_an_estimate_has_the_row_norm_of_the_factorisation() {
    const DIM: usize = 4096;
    let (len, batch, multiplier) = (7, 4.0, 2.0);
    let records = data(vec![0.0; 64]);
    let within = 6.0 * (2.0 / DIM as f64).sqrt();
    for kind in KINDS {
        for apart in [false, true] {
            let anchor = match apart {
                true => PeriodAnchor::Apart(Level {
                    batch: Batch::Next(4),
                    noise_multiplier: z(multiplier),
                }),
                false => PeriodAnchor::FirstStep(Batch::Next(4)),
            };
            let period = terms(kind, len, 1.0 / batch, multiplier);
            let settings = settings(anchor, Batch::Next(4), period);
            let mut tracker = tracker(&records, loss(DIM, 1.0, 1.0), settings, 1, 5);
            // Standard deviation of an anchor apart, and the unit of the period: 2 z C / batch.
            let unit = 2.0 * multiplier / batch;
            let mut first = Vec::new();
            for t in 1..=len as usize {
                let point = vec![t as f64; DIM];
                let estimate = tracker.estimate(&point).unwrap().estimate;
                let expected = match (apart, t) {
                    (false, t) => row_norm(kind, len as usize, t),
                    (true, 1) => 1.0,
                    (true, t) => 1.0 + row_norm(kind, len as usize, t - 1),
                };
                let stated = (estimate.noise_std / unit).powi(2);
                assert!((stated / expected - 1.0).abs() < 1e-6, "{kind} {apart} {t}");
                let squares: f64 = estimate.gradient.iter().map(|g| (g / unit).powi(2)).sum();
                let found = squares / DIM as f64;
                assert!(
                    (found / expected - 1.0).abs() < within,
                    "{kind} {apart} {t}: {found} for {expected}"
                );
                if t == 1 {
                    first = estimate.gradient.to_vec();
                }
            }
            // The next period has noise of its own: uncorrelated with the first, within 6 / sqrt(DIM).
            tracker.begin_phase();
            let again = tracker.estimate(&vec![1.0; DIM]).unwrap();
            assert_eq!(again.kind, StepKind::Anchor);
            let product: f64 = first
                .iter()
                .zip(again.estimate.gradient)
                .map(|(a, b)| a * b)
                .sum();
            let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let correlation = product / norm(&first) / norm(again.estimate.gradient);
            assert!(
                correlation.abs() < 6.0 / (DIM as f64).sqrt(),
                "{kind} {correlation}"
            );
        }
    }
}

/// Records alike have the same mean in every batch: whatever the sizes of the batches, the estimate is the mean
/// gradient, half the point, up to its stated noise and the lattice.
#[test]
fn the_prefix_sum_of_changes_is_the_gradient() {
    let records = data(vec![0.5; 64]);
    let quiet = Level {
        batch: Batch::Next(10),
        noise_multiplier: z(1e-5),
    };
    let path = [
        [0.0, 0.0],
        [0.3, -0.1],
        [0.9, 0.8],
        [0.9, 0.9],
        [-1.0, 0.2],
        [0.0, 1.4],
    ];
    for kind in KINDS {
        for anchor in [
            PeriodAnchor::FirstStep(Batch::Next(10)),
            PeriodAnchor::Apart(quiet),
        ] {
            // An anchor of 10 records, and L1/beta = 0.5/5.
            let period = terms(kind, 4, 0.1 * (1.0 + 1e-9), 1e-5);
            let settings = settings(anchor, Batch::PerLength(5.0), period);
            let mut tracker = tracker(&records, loss(2, 1.0, 0.5), settings, 2, 6);
            for (t, point) in path.iter().enumerate() {
                let tracked = tracker.estimate(point).unwrap();
                let estimate = tracked.estimate;
                let tolerance = 7.0 * estimate.noise_std + 1e-7;
                assert!(tolerance < 1e-3);
                for (found, w) in estimate.gradient.iter().zip(point) {
                    assert!(
                        (found - 0.5 * w).abs() < tolerance,
                        "{kind} {t}: {estimate:?}"
                    );
                }
            }
        }
    }
}

/// The difference of two runs with the same noise, in lattice steps: exact integers.
fn displacement(a: &[f64], b: &[f64], step: f64) -> Vec<i128> {
    a.iter()
        .zip(b)
        .map(|(a, b)| {
            let (a, b) = (a / step, b / step);
            assert!(a.abs() < 2f64.powi(53) && a.fract() == 0.0 && b.fract() == 0.0);
            a as i128 - b as i128
        })
        .collect()
}

fn squared(v: &[i128]) -> i128 {
    v.iter().map(|k| k * k).sum()
}

/// A loss that claims L1 = 1e-3 and has 1e9; neighbours that differ in one record. In integers the
/// released sums differ by at most twice the share, from the step on that reads the record, and by nothing before;
/// and by nearly that much, so that it is the clip that holds.
#[test]
fn no_record_moves_a_period_by_more_than_its_share() {
    let (dim, len) = (3, 4);
    let (rate, share) = (4.0, 1e-3 / 4.0);
    let step = Bound::new(clip(share), dim).unwrap().step();
    // At lengths 1, 2.5 and 1.2 the batches are 4, 10 and 5; the anchor reads 12.
    let path = [
        [1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 2.5, 0.0],
        [0.0, 2.5, 1.2],
    ];
    let ends = [12, 16, 26, 31];
    for kind in KINDS {
        for changed in [0, 11, 12, 15, 16, 25, 26, 30] {
            let run = |value: f64| {
                let mut records = vec![0.5; 40];
                records[changed] = value;
                let records = data(records);
                let anchor = PeriodAnchor::FirstStep(Batch::Next(12));
                let period = terms(kind, len, share, 1e-3);
                let settings = settings(anchor, Batch::PerLength(rate), period);
                let loss = loss(dim, 1e9, 1e-3);
                let mut tracker = tracker(&records, loss, settings, 1, 8);
                path.map(|point| tracker.estimate(&point).unwrap().estimate.gradient.to_vec())
            };
            let (one, other) = (run(1.0), run(-1.0));
            let reads = ends.iter().position(|&end| changed < end).unwrap();
            let limit = (2.0 * share / step).floor() as i128;
            let mut last = None;
            for (t, (one, other)) in one.iter().zip(&other).enumerate() {
                let moved = displacement(one, other, step);
                if t < reads {
                    assert_eq!(squared(&moved), 0, "{kind} {changed} {t}");
                    continue;
                }
                assert!(squared(&moved) <= limit * limit, "{kind} {changed} {t}");
                assert!(squared(&moved) * 2 > limit * limit, "{kind} {changed} {t}");
                // The sum is shifted once and for all.
                assert_eq!(*last.get_or_insert(moved.clone()), moved);
            }
        }
    }
}

/// The same for one release: a change is clipped to min(L1 length, 2C) of the claimed L1, in integers. And a step's
/// own radius holds where it is shorter than the period's share.
#[test]
fn a_lie_about_a_constant_moves_a_change_by_its_radius() {
    let (dim, n) = (3, 32);
    let (from, to) = ([1.0, 0.0, 0.0], [-1.0, 0.5, 0.0]);
    let displacement_of: Vec<f64> = to.iter().zip(from).map(|(a, b)| a - b).collect();
    let segment = Segment::new(&from, &to, &displacement_of).unwrap();
    for radius in [1e-6, 0.01, 2.0] {
        let query = Linear::change(segment, clip(1.0), clip(radius));
        let run = |value: f64, in_period: bool| {
            let mut records = vec![0.5; n];
            records[7] = value;
            let records = data(records);
            let mut curator = Curator::simulated(Adjacency::ReplaceOne, 2);
            let spend = Spend::Fixed(Event::gaussian(z(1e-3)));
            curator.reserve(&spend).unwrap();
            let mut means = PrivateMean::new(&records, loss(dim, 1e9, 1e-3), curator).unwrap();
            if !in_period {
                return means.mean(query, Which::All, z(1e-3)).unwrap().mean;
            }
            let terms = PeriodTerms {
                participation: Participation::Every,
                ..terms(PrefixKind::Independent, 1, 4.0 / n as f64, 1e-3)
            };
            let mut period = means.open_period(&terms).unwrap();
            means.step(&mut period, query, Which::All).unwrap().mean
        };
        for in_period in [false, true] {
            // A mean is divided by 32, exactly; a period is on the lattice of the mean.
            let step = match in_period {
                false => Bound::new(clip(radius), dim).unwrap().step() / n as f64,
                true => Bound::new(clip(4.0 / n as f64), dim).unwrap().step(),
            };
            let (one, other) = (run(1.0, in_period), run(-1.0, in_period));
            let moved = squared(&displacement(&one, &other, step));
            let limit = (2.0 * radius / n as f64 / step).floor() as i128;
            // 1e-6/4 of the share is too short for its lattice: only the share itself holds there.
            if in_period && radius < 1e-5 {
                let share = (2.0 * 4.0 / n as f64 / step).floor() as i128;
                assert!(moved <= share * share);
            } else {
                assert!(moved <= limit * limit, "{radius} {in_period}");
                assert!(2 * moved > limit * limit, "{radius} {in_period}");
            }
        }
    }
}

fn kinds<O: Oracle, T: Follow>(tracker: &mut On<O, T>, steps: u64) -> Vec<bool> {
    (1..=steps)
        .map(|t| {
            let point = [t as f64, 0.0];
            tracker.estimate(&point).unwrap().kind == StepKind::Anchor
        })
        .collect()
}

/// Periods on unread records: whatever their number and length, each record pays for one Gaussian of the period's
/// multiplier; the events by hand.
#[test]
fn a_record_pays_for_its_period_once() {
    let records = data(vec![0.1; 64]);
    let near = Level {
        batch: Batch::Next(4),
        noise_multiplier: z(3.0),
    };
    for kind in KINDS {
        let tree = matches!(kind, PrefixKind::Tree | PrefixKind::Honaker);
        // Three steps: two levels, so a node has sqrt(2) times the multiplier of the period.
        let part = match tree {
            false => Event::gaussian(z(3.0)),
            true => Event::SingleEpochTreeAggregation {
                noise_multiplier: z((3.0 * 2f64.sqrt().next_up()).next_up()),
                step_counts: StepCounts::One(3),
            },
        };
        for (anchor, shares) in [
            (PeriodAnchor::FirstStep(Batch::Next(4)), vec![part.clone()]),
            (
                PeriodAnchor::Apart(near),
                if tree {
                    vec![Event::gaussian(z(3.0)), part.clone()]
                } else {
                    vec![part.clone()]
                },
            ),
        ] {
            let settings = settings(anchor, Batch::Next(2), terms(kind, 3, 1.0, 3.0));
            let expected = Event::ParallelComposed { events: shares };
            let found = spend(&settings, 5);
            assert_eq!(found, Spend::Fixed(expected), "{kind}");
            let cost = squared_mu(found.event(), Adjacency::ReplaceOne).unwrap();
            assert!((cost * 9.0 - 1.0).abs() < 1e-9, "{kind} {cost}");
            let mut tracker = tracker(&records, loss(2, 1.0, 1.0), settings, 5, 4);
            // Four estimates where the anchor is apart, and three where it is the first step.
            let length = if matches!(anchor, PeriodAnchor::Apart(_)) {
                4
            } else {
                3
            };
            let anchors = kinds(&mut tracker, 10);
            for (t, anchor) in anchors.iter().enumerate() {
                assert_eq!(*anchor, t % length == 0, "{kind} {t}");
            }
            let fresh = anchors.iter().filter(|a| **a).count() as f64;
            let counts = tracker.books().counts();
            assert_eq!(counts.releases, 10);
            assert_eq!(counts.records, 4.0 * fresh + 2.0 * (10.0 - fresh));
            assert_eq!(counts.gradients, 4.0 * fresh + 2.0 * 2.0 * (10.0 - fresh));
            let cost =
                squared_mu(&tracker.books().settle().unwrap(), Adjacency::ReplaceOne).unwrap();
            assert!((cost * 9.0 - 1.0).abs() < 1e-9, "{kind} {cost}");
        }
    }
}

/// Where every step reads all records each period is charged when it opens, also if it ends early; the one that is
/// not paid for is refused and the estimate stays.
#[test]
fn periods_on_all_records_are_charged_one_by_one() {
    let records = data(vec![0.1; 64]);
    let period = PeriodTerms {
        participation: Participation::Every,
        ..terms(PrefixKind::Toeplitz, 3, 1.0 / 64.0, 5.0)
    };
    let anchor = PeriodAnchor::FirstStep(Batch::All);
    let settings = settings(anchor, Batch::All, period);
    let two = Spend::Fixed(Event::gaussian(z(5.0)).repeated(2));
    assert_eq!(spend(&settings, 2), two);
    let mut tracker = tracker(&records, loss(2, 1.0, 1.0), settings, 2, 4);
    assert_eq!(kinds(&mut tracker, 2), [true, false]);
    tracker.begin_phase();
    assert_eq!(kinds(&mut tracker, 3), [true, false, false]);
    let at = [3.0, 0.0];
    let before = tracker.estimate(&at).unwrap();
    assert_eq!(
        (before.kind, before.estimate.release_std),
        (StepKind::Held, 0.0)
    );
    let before = before.estimate.gradient.to_vec();
    for _ in 0..2 {
        let refused = tracker.estimate(&[4.0, 0.0]).map(|_| ());
        assert!(matches!(
            refused,
            Err(AskError::Refused(Refused::NotReserved { slice: None, .. }))
        ));
    }
    assert_eq!(tracker.estimate(&at).unwrap().estimate.gradient, before);
    assert_eq!(tracker.books().counts().releases, 5);
    assert_eq!(
        tracker.books().settle().unwrap(),
        Event::gaussian(z(5.0)).repeated(2)
    );
}

/// A point that does not move takes no step of the period.
#[test]
fn a_held_estimate_takes_no_step() {
    let records = data(vec![0.1; 64]);
    let anchor = PeriodAnchor::FirstStep(Batch::Next(4));
    let settings = settings(anchor, Batch::Next(2), terms(PrefixKind::Tree, 2, 1.0, 3.0));
    let mut tracker = tracker(&records, loss(2, 1.0, 1.0), settings, 1, 4);
    let path = [1.0, 1.0, 1.0, 2.0, 2.0, 3.0];
    let kinds = path.map(|x| tracker.estimate(&[x, 0.0]).unwrap().kind);
    use StepKind::{Anchor, Held, Variation};
    // The second step of the period is the last; the next move begins another.
    assert_eq!(kinds, [Anchor, Held, Held, Variation, Held, Anchor]);
    assert_eq!(tracker.books().counts().records, 4.0 + 2.0 + 4.0);
}

/// A slice that comes again, in a period that allows for it, pays once a period.
#[test]
fn a_held_slice_takes_part_as_often_as_the_period_says() {
    let records = data(vec![0.1; 64]);
    let held = Batch::Held(16);
    for (most, works) in [(3, true), (2, false)] {
        let period = PeriodTerms {
            participation: Participation::Repeated { most, apart: 1 },
            ..terms(PrefixKind::Tree, 3, 1.0 / 16.0, 3.0)
        };
        let settings = settings(PeriodAnchor::FirstStep(held), held, period);
        let once = Event::ParallelComposed {
            events: vec![Event::gaussian(z(3.0))],
        };
        assert_eq!(spend(&settings, 1), Spend::Fixed(once));
        let mut tracker = tracker(&records, loss(2, 1.0, 1.0), settings, 1, 4);
        assert_eq!(kinds(&mut tracker, 2), [true, false]);
        let third = tracker.estimate(&[3.0, 0.0]).map(|_| ());
        if works {
            assert!(third.is_ok());
            // The period is full, and another one on this slice is not paid for.
            let fourth = tracker.estimate(&[4.0, 0.0]).map(|_| ());
            assert!(matches!(
                fourth,
                Err(AskError::Refused(Refused::NotReserved {
                    slice: Some(0),
                    ..
                }))
            ));
            // Another slice has a share of its own.
            tracker.begin_phase();
            assert!(tracker.estimate(&[4.0, 0.0]).is_ok());
        } else {
            let refused = third.unwrap_err();
            let expected = PrefixError::TookPart {
                slice: 0,
                times: 2,
                last: 2,
                step: 3,
            };
            assert!(
                matches!(refused, AskError::Refused(Refused::Prefix(found)) if found == expected)
            );
        }
    }
}

/// When fewer records are left than a step needs, it is refused, and what is left stays.
#[test]
fn an_exhausted_pool_refuses_the_step() {
    let records = data(vec![0.1; 20]);
    let anchor = PeriodAnchor::FirstStep(Batch::Next(12));
    let settings = settings(
        anchor,
        Batch::PerLength(3.0),
        terms(PrefixKind::Toeplitz, 9, 1.0, 3.0),
    );
    let mut tracker = tracker(&records, loss(2, 1.0, 1.0), settings, 1, 4);
    tracker.estimate(&[0.0, 1.0]).unwrap();
    tracker.estimate(&[2.0, 1.0]).unwrap();
    let refused = tracker.estimate(&[2.0, 2.0]).map(|_| ()).unwrap_err();
    assert!(matches!(
        refused,
        AskError::Refused(Refused::Pool(PoolError::UsedUp { asked: 3, left: 2 }))
    ));
    assert_eq!(tracker.books().records_left(), 2);
    // A shorter step still fits.
    let tracked = tracker.estimate(&[2.0, 1.5]).unwrap();
    assert_eq!(tracked.kind, StepKind::Variation);
    assert_eq!(tracker.books().counts().records, 20.0);
}

#[test]
fn a_share_covers_its_step() {
    for (radius, m) in [(1.0, 3.0), (0.1, 7.0), (1e-3, 1e9)] {
        let share = share_of(radius, m).unwrap().get();
        assert!(share * m >= radius && share * m < radius * (1.0 + 1e-11));
    }
    assert!(share_of(1.0, 0.0).is_err() && share_of(f64::NAN, 1.0).is_err());
}
