//! Replay: displacements against closed forms, coupling of samples, and what it can't be used for.

use dpopt_privacy::selection::{
    BaseMeasure, QuantileBins, QuantileSum, ScoreBound, ScoreSum, Target,
};
use dpopt_privacy::{
    Adjacency, Body, Bound, ChangedRecord, Curator, Delta, Divergence, Epsilon, Event, FilterKind,
    LatticeSum, Ledger, LedgerError, Mode, NoiseMultiplier, Participation, PrefixKind, PrefixNoise,
    Refused, ReplayForAudits, ReplayReport, ReplayedMechanism, ReplayedReads, SamplingRate, Spend,
    Which,
};

use crate::common::{self, positions, release, z};

fn bound(radius: f64) -> Bound {
    common::bound(radius, 2)
}

fn fixed(event: Event) -> Spend {
    Spend::Fixed(event)
}

type Records = Vec<[f64; 2]>;

fn add(bound: Bound, records: &[[f64; 2]], positions: impl Iterator<Item = usize>) -> LatticeSum {
    let mut sum = LatticeSum::new(bound);
    for i in positions {
        sum.add_scaled(1.0, &records[i]);
    }
    sum
}

/// Both runs, and what the replay found.
fn audit(
    adjacency: Adjacency,
    changed: ChangedRecord,
    data: [&Records; 2],
    run: impl Fn(&mut Curator, &Records) -> Vec<f64>,
) -> ReplayReport {
    let tape = ReplayForAudits::new(adjacency, 5, changed).unwrap();
    let recorded = run(&mut tape.recorder(), data[0]);
    let replayed = run(&mut tape.replayer(), data[1]);
    assert_eq!(recorded, replayed, "the releases are forced");
    tape.report()
}

fn all(curator: &mut Curator, records: &Records, noise: f64) -> Vec<f64> {
    let sum = add(bound(1.0), records, 0..records.len());
    release(curator, Which::All, sum, z(noise)).unwrap()
}

/// Releases the sum of the records that are drawn.
fn over(
    curator: &mut Curator,
    records: &Records,
    which: Which<'_>,
    z: NoiseMultiplier,
) -> Vec<f64> {
    let body = Body::of(records.len() as u64);
    let ticket = curator.grant(which, body, bound(1.0), z).unwrap();
    let drawn = positions(ticket.sample());
    if let Which::FixedSize(size) = which {
        assert_eq!(drawn.len() as u64, size);
    }
    curator
        .redeem(ticket, add(bound(1.0), records, drawn.into_iter()))
        .unwrap()
}

#[test]
fn a_displacement_is_that_of_the_sum_over_the_noise() {
    // By 0.6 in one coordinate and 0.8 in the other: 1, of a sensitivity of 2.
    let report = audit(
        Adjacency::ReplaceOne,
        ChangedRecord::InPlace(1),
        [&vec![[0.5, 0.5], [0.0, 0.0]], &vec![[0.5, 0.5], [0.3, 0.4]]],
        |curator, records| {
            curator
                .reserve(&fixed(Event::gaussian(z(4.0)).repeated(2)))
                .unwrap();
            all(curator, records, 4.0);
            all(curator, records, 4.0)
        },
    );
    assert_eq!(report.divergence, None);
    assert_eq!(report.releases.len(), 2);
    for release in &report.releases {
        assert_eq!(release.mechanism, ReplayedMechanism::Sum);
        assert_eq!(release.reads, ReplayedReads::All);
        assert!((release.displacement - 0.5 / 8.0).abs() < 1e-8);
        assert!((release.limit - 0.25).abs() < 1e-12);
        assert!((release.noise_steps / (8.0 * release.radius_steps) - 1.0).abs() < 1e-12);
    }
}

#[test]
fn the_changed_record_is_in_every_sample_and_the_others_are_the_same() {
    let rate = SamplingRate::new(0.3).unwrap();
    let base: Records = (0..40).map(|i| [0.02 * f64::from(i), 0.1]).collect();
    for at in [0, 7, 40] {
        let mut more = base.clone();
        more.insert(at, [0.0, -50.0]);
        let run = |curator: &mut Curator, records: &Records| {
            let event = Event::gaussian(z(2.0)).poisson_sampled(rate).repeated(5);
            curator.reserve(&fixed(event)).unwrap();
            let mut last = Vec::new();
            for _ in 0..5 {
                last = over(curator, records, Which::Poisson(rate), z(2.0));
            }
            last
        };
        for (changed, data) in [
            (ChangedRecord::Added(at as u64), [&base, &more]),
            (ChangedRecord::Removed(at as u64), [&more, &base]),
        ] {
            let report = audit(Adjacency::AddRemove, changed, data, run);
            assert_eq!(report.divergence, None);
            assert_eq!(report.releases.len(), 5);
            for release in &report.releases {
                assert_eq!(release.reads, ReplayedReads::Poisson(rate));
                assert!((release.displacement - 0.5).abs() < 1e-8);
            }
        }
    }
}

#[test]
fn fixed_size_samples_keep_their_size() {
    let base: Records = vec![[0.1, 0.1]; 9];
    let mut other = base.clone();
    other[4] = [-0.9, 0.1];
    let report = audit(
        Adjacency::ReplaceOne,
        ChangedRecord::InPlace(4),
        [&base, &other],
        |curator, records| {
            let event = Event::SampledWithoutReplacement {
                source_dataset_size: 9,
                sample_size: 2,
                event: Box::new(Event::gaussian(z(1.0))),
            };
            curator.reserve(&fixed(event.repeated(8))).unwrap();
            for _ in 0..8 {
                over(curator, records, Which::FixedSize(2), z(1.0));
            }
            Vec::new()
        },
    );
    assert_eq!(report.divergence, None);
    assert!(
        report
            .releases
            .iter()
            .all(|r| (r.displacement - 0.5).abs() < 1e-8)
    );
}

/// The worst pattern meets the claim for every kind, and a slice in the middle stays below it.
#[test]
fn periods_are_as_displaced_as_they_claim() {
    for kind in [
        PrefixKind::Independent,
        PrefixKind::Tree,
        PrefixKind::Honaker,
        PrefixKind::Toeplitz,
        PrefixKind::Banded { band: 3 },
        crate::factors::tuned(),
    ] {
        let records: Records = vec![[0.7, 0.0]; 8];
        for at in [0, 3, 7] {
            let mut other = records.clone();
            other[at] = [-1e9, 0.0];
            let mut base = records.clone();
            base[at] = [5.0, 0.0];
            let report = audit(
                Adjacency::ReplaceOne,
                ChangedRecord::InPlace(at as u64),
                [&base, &other],
                |curator, records| {
                    let noise = PrefixNoise::new(kind, 8, Participation::Single).unwrap();
                    let event = noise.event(z(3.0)).unwrap();
                    let spend = Event::ParallelComposed {
                        events: vec![event],
                    };
                    curator.reserve(&fixed(spend)).unwrap();
                    curator.open_pool(8, 0).unwrap();
                    let mut period = curator
                        .prefix(kind, bound(1.0), 8, z(3.0), Participation::Single)
                        .unwrap();
                    let mut released = Vec::new();
                    for _ in 0..8 {
                        let ticket = period.grant(Which::Next(1), Body::of(8), curator).unwrap();
                        let drawn = positions(ticket.sample());
                        let sum = add(bound(1.0), records, drawn.into_iter());
                        released.extend(period.redeem(ticket, sum, curator).unwrap());
                    }
                    released
                },
            );
            assert_eq!(report.divergence, None);
            let [release] = report.releases.as_slice() else {
                panic!("one period")
            };
            assert_eq!(release.reads, ReplayedReads::Slices((0..8).collect()));
            assert!((release.limit - 1.0 / 3.0).abs() < 1e-12);
            let share = release.displacement / release.limit;
            assert!(share <= 1.0, "{kind} {at}: {share}");
            // The first step is in a node of every height, and its column of C is the longest.
            if at == 0 {
                assert!(share > 1.0 - 1e-6, "{kind}: {share}");
            }
        }
    }
}

#[test]
fn selections_report_how_far_scores_moved_apart() {
    let epsilon = Epsilon::new(0.5).unwrap();
    let adjacency = Adjacency::AddRemove;
    // The new record moves three scores by 1, -1 and 0: all of the spread of 2.
    let base: Records = vec![[1.0, 0.0], [0.0, 1.0]];
    let mut more = base.clone();
    more.push([1.0, -1.0]);
    let report = audit(
        adjacency,
        ChangedRecord::Added(2),
        [&base, &more],
        |curator, records| {
            let events = vec![Event::ExponentialMechanism { epsilon }];
            curator.reserve(&fixed(Event::composed(events))).unwrap();
            let mut sum = ScoreSum::new(ScoreBound::new(3, -1.0, 1.0).unwrap());
            for [a, b] in records {
                sum.add(&[*a, *b, 0.0]);
            }
            let scores = sum.finish(adjacency);
            vec![curator.exponential(&scores, epsilon).unwrap() as f64]
        },
    );
    assert_eq!(report.divergence, None);
    assert_eq!(report.releases.len(), 1);
    for release in &report.releases {
        assert!((release.displacement - 0.5).abs() < 1e-8 && release.limit == 0.5);
    }
}

#[test]
fn quantiles_are_measured_too() {
    let epsilon = Epsilon::new(1.0).unwrap();
    let adjacency = Adjacency::ReplaceOne;
    let base: Records = vec![[0.1, 1.0], [0.9, 1.0], [0.5, 1.0]];
    let mut other = base.clone();
    other[0] = [0.95, 0.0];
    let report = audit(
        adjacency,
        ChangedRecord::InPlace(0),
        [&base, &other],
        |curator, records| {
            let event = Event::ExponentialMechanism { epsilon };
            curator.reserve(&fixed(event)).unwrap();
            let bins = QuantileBins::new(&[0.0, 0.5, 1.0]).unwrap();
            let mut sum = QuantileSum::new(bins);
            records.iter().for_each(|record| sum.add(record[0]));
            let bin = curator.quantile(
                &sum.finish(adjacency),
                Target::median(),
                BaseMeasure::Width,
                epsilon,
            );
            vec![bin.unwrap().low]
        },
    );
    assert_eq!(report.divergence, None);
    let [quantile] = report.releases.as_slice() else {
        panic!("one selection")
    };
    // By hand: counts (1, 2) give (-1, 0), counts (0, 3) give (-3, 0). Spread 2 of the claimed 4.
    assert!((quantile.displacement - 0.5).abs() < 1e-12);
}

#[test]
fn public_behaviour_that_depends_on_a_record_is_a_divergence() {
    let data: [&Records; 2] = [&vec![[0.0, 0.0]], &vec![[1.0, 0.0]]];
    let tape = ReplayForAudits::new(Adjacency::ZeroOut, 1, ChangedRecord::InPlace(0)).unwrap();
    let run = |mut curator: Curator, records: &Records, twice: bool, noise: f64| {
        let events = vec![Event::gaussian(z(1.0)), Event::gaussian(z(2.0))];
        curator.reserve(&fixed(Event::composed(events))).unwrap();
        all(&mut curator, records, noise);
        if twice {
            all(&mut curator, records, 3.0 - noise);
        }
    };
    run(tape.recorder(), data[0], false, 1.0);
    run(tape.replayer(), data[1], false, 1.0);
    assert_eq!(tape.report().divergence, None);
    run(tape.replayer(), data[1], true, 1.0);
    assert!(matches!(
        tape.report().divergence,
        Some(Divergence::TooLong { .. })
    ));
    run(tape.replayer(), data[1], false, 2.0);
    assert!(matches!(
        tape.report().divergence,
        Some(Divergence::Different { entry: 0, .. })
    ));
    run(tape.recorder(), data[0], true, 1.0);
    run(tape.replayer(), data[1], false, 1.0);
    assert_eq!(
        tape.report().divergence,
        Some(Divergence::TooShort {
            recorded: 2,
            replayed: 1
        })
    );
}

#[test]
fn a_refusal_in_one_run_only_is_a_divergence() {
    let tape = ReplayForAudits::new(Adjacency::ZeroOut, 1, ChangedRecord::InPlace(0)).unwrap();
    let run = |mut curator: Curator, bad: bool| {
        curator.reserve(&fixed(Event::gaussian(z(1.0)))).unwrap();
        let sum = || add(bound(1.0), &[[0.5, 0.0]], 0..1);
        if bad {
            assert!(release(&mut curator, Which::All, sum(), z(9.0)).is_err());
        }
        release(&mut curator, Which::All, sum(), z(1.0)).unwrap();
    };
    run(tape.recorder(), false);
    run(tape.replayer(), true);
    assert!(tape.report().divergence.is_some());
    run(tape.recorder(), true);
    run(tape.replayer(), true);
    assert_eq!(tape.report().divergence, None);
}

/// What is refused before records are read must not depend on them either: nothing follows such a refusal that
/// would tell of it.
#[test]
fn a_refusal_before_records_are_read_is_on_the_tape() {
    let tape = ReplayForAudits::new(Adjacency::ZeroOut, 1, ChangedRecord::InPlace(0)).unwrap();
    let noise = PrefixNoise::new(PrefixKind::Independent, 1, Participation::Every).unwrap();
    let run = |mut curator: Curator, [release, step]: [bool; 2]| {
        let event = noise.event(z(1.0)).unwrap();
        curator.reserve(&fixed(event)).unwrap();
        let (kind, every) = (noise.kind(), noise.participation());
        let period = curator.prefix(kind, bound(1.0), 1, z(1.0), every).unwrap();
        if release {
            let asked = curator.grant(Which::All, Body::of(1), bound(1.0), z(9.0));
            assert!(matches!(asked, Err(Refused::NotReserved { .. })));
        }
        if step {
            let sampled = Which::Poisson(SamplingRate::new(0.5).unwrap());
            let asked = period.grant(sampled, Body::of(1), &mut curator);
            assert!(matches!(asked, Err(Refused::Prefix(_))));
        }
    };
    for refused in [[false, true], [true, false]] {
        for (recorded, replayed) in [([false; 2], refused), (refused, [false; 2])] {
            run(tape.recorder(), recorded);
            run(tape.replayer(), replayed);
            assert!(
                tape.report().divergence.is_some(),
                "{recorded:?} {replayed:?}"
            );
        }
        run(tape.recorder(), refused);
        run(tape.replayer(), refused);
        assert_eq!(tape.report().divergence, None);
    }
}

#[test]
fn it_states_no_guarantee_and_takes_no_ledger() {
    let adjacency = Adjacency::AddRemove;
    let tape = ReplayForAudits::new(adjacency, 1, ChangedRecord::Added(0)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (number, mut curator) in [tape.recorder(), tape.replayer()].into_iter().enumerate() {
        assert_eq!(curator.mode(), Mode::Replay);
        curator.reserve(&fixed(Event::gaussian(z(1.0)))).unwrap();
        assert!(matches!(
            curator.guarantee(Delta::new(1e-6).unwrap()),
            Err(Refused::NoGuarantee(_))
        ));
        let path = folder.path().join(number.to_string());
        let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
        let ledger =
            Ledger::open_or_create(&path, epsilon, delta, adjacency, FilterKind::Gdp).unwrap();
        let fresh = ReplayForAudits::new(adjacency, 1, ChangedRecord::Added(0)).unwrap();
        assert!(matches!(
            fresh.recorder().with_ledger(ledger),
            Err(LedgerError::Simulated)
        ));
    }
}

#[test]
fn data_sets_that_are_no_neighbours_are_refused() {
    for (adjacency, changed) in [
        (Adjacency::AddRemove, ChangedRecord::InPlace(0)),
        (Adjacency::ReplaceOne, ChangedRecord::Added(0)),
        (Adjacency::ZeroOut, ChangedRecord::Removed(3)),
    ] {
        assert!(ReplayForAudits::new(adjacency, 0, changed).is_err());
    }
}
