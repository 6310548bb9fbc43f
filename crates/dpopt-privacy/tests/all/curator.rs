//! The curator: what it refuses, what it charges, and the law of what it releases.

use dpopt_privacy::{
    Adjacency, Body, Curator, Delta, Event, LatticeSum, Mode, NoiseMultiplier, PoolError, Refused,
    SamplingRate, Slice, Spend, TicketError, Which,
};

use crate::common::{bound, gaussians, on_slices, positions, release, release_norm, sum, z};

fn release_all(
    curator: &mut Curator,
    sum: LatticeSum,
    z: NoiseMultiplier,
) -> Result<Vec<f64>, Refused> {
    release(curator, Which::All, sum, z)
}

#[test]
fn nothing_leaves_without_a_reservation() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let secret = || sum(&[[1.0, 0.0]], 1.0);
    assert!(matches!(
        release_all(&mut curator, secret(), z(1.0)),
        Err(Refused::NotReserved { .. })
    ));
    curator.reserve(&gaussians(1.0, 2)).unwrap();
    // Less noise than reserved is another event.
    assert!(matches!(
        release_all(&mut curator, secret(), z(0.5)),
        Err(Refused::NotReserved { .. })
    ));
    assert!(release_all(&mut curator, secret(), z(1.0)).is_ok());
    assert!(release_all(&mut curator, secret(), z(1.0)).is_ok());
    assert!(matches!(
        release_all(&mut curator, secret(), z(1.0)),
        Err(Refused::NotReserved { .. })
    ));
    assert_eq!(curator.spent().release_count(), 2);
    curator.settle().unwrap();
    assert!(release_all(&mut curator, secret(), z(1.0)).is_err());
}

#[test]
fn a_refused_release_is_not_charged() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator.reserve(&gaussians(1.0, 1)).unwrap();
    for z in [z(0.5), z(1e-300)] {
        assert!(release_all(&mut curator, sum(&[[1.0, 0.0]], 1.0), z).is_err());
    }
    assert_eq!(curator.spent().release_count(), 0);
}

#[test]
fn an_early_stop_settles_for_what_was_released() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator.reserve(&gaussians(3.0, 10)).unwrap();
    assert!(matches!(
        curator.reserve(&gaussians(3.0, 10)),
        Err(Refused::AlreadyReserved)
    ));
    let secret = || sum(&[[1.0, 0.0]], 1.0);
    for _ in 0..4 {
        release_all(&mut curator, secret(), z(3.0)).unwrap();
    }
    let spent = curator.settle().unwrap();
    assert_eq!(spent.leaves(), vec![(Event::gaussian(z(3.0)), 4)]);
    // The guarantee stays that of the reservation.
    assert_eq!(curator.reserved().release_count(), 10);
}

#[test]
fn one_sample_is_one_event() {
    let rate = SamplingRate::new(0.5).unwrap();
    let mut curator = Curator::simulated(Adjacency::AddRemove, 1);
    let event = Event::gaussian(z(1.0)).poisson_sampled(rate);
    curator.reserve(&Spend::Fixed(event.repeated(5))).unwrap();
    let sampled = |curator: &mut Curator| {
        let bound = bound(1.0, 1);
        let ticket = curator
            .grant(Which::Poisson(rate), Body::of(10), bound, z(1.0))
            .unwrap();
        let mut sum = LatticeSum::new(bound);
        for _ in positions(ticket.sample()) {
            sum.add_scaled(1.0, &[1.0]);
        }
        (ticket, sum)
    };
    let (first, sum) = sampled(&mut curator);
    curator.redeem(first, sum).unwrap();
    let mut other = Curator::simulated(Adjacency::AddRemove, 2);
    let event = Event::gaussian(z(1.0)).poisson_sampled(rate);
    other.reserve(&Spend::Fixed(event)).unwrap();
    let (stranger, sum) = sampled(&mut other);
    assert!(matches!(
        curator.redeem(stranger, sum),
        Err(Refused::Ticket(TicketError::OtherCurator))
    ));
    let (second, sum) = sampled(&mut curator);
    assert!(curator.redeem(second, sum).is_ok());
    assert_eq!(curator.spent().release_count(), 2);
}

#[test]
fn what_has_no_release_is_not_reserved() {
    let mut curator = Curator::simulated(Adjacency::AddRemove, 1);
    let others = include_str!("../../../dpopt-accounting/tests/data/dp_events.jsonl").lines();
    let others = others.chain([r#"{"class_name":"ThingDpEvent"}"#]);
    let events = others.map(|line| Event::from_json(line).unwrap());
    let mut refused = Vec::new();
    for event in events.chain([Event::ParallelComposed {
        events: vec![Event::gaussian(z(1.0))],
    }]) {
        let has_release = |leaf: &Event| match leaf {
            Event::PoissonSampled { event, .. } => matches!(**event, Event::Gaussian { .. }),
            other => matches!(
                other,
                Event::Gaussian { .. }
                    | Event::PrefixSums { .. }
                    | Event::ExponentialMechanism { .. }
                    | Event::RepeatAndSelect { .. }
            ),
        };
        if event.leaves().iter().all(|(leaf, _)| has_release(leaf)) {
            continue;
        }
        refused.push(event.to_string());
        assert!(matches!(
            curator.reserve(&Spend::Fixed(event)),
            Err(Refused::UnsupportedSpend { .. })
        ));
    }
    // Nothing, Laplace, sampling of other kinds, what is unknown or unprotected, and so on.
    assert!(refused.len() >= 10, "{refused:?}");
}

#[test]
fn a_simulation_states_no_guarantee() {
    let delta = Delta::new(1e-6).unwrap();
    let mut simulated = Curator::simulated(Adjacency::ReplaceOne, 1);
    simulated.reserve(&gaussians(4.0, 1)).unwrap();
    assert_eq!(simulated.mode(), Mode::Simulated);
    assert!(matches!(
        simulated.guarantee(delta),
        Err(Refused::NoGuarantee(_))
    ));
    let mut protected = Curator::protected(Adjacency::ReplaceOne).unwrap();
    protected.reserve(&gaussians(4.0, 1)).unwrap();
    // Exact Gaussian mechanism: epsilon(4, 1e-6) = 1.060701862328 (published reference value).
    let guarantee = protected.guarantee(delta).unwrap();
    assert!((guarantee.epsilon() - 1.060_701_862_328).abs() < 1e-10);
}

#[test]
fn a_reservation_after_a_release_ends_the_guarantee() {
    // "Run again if the first result is bad": the accountants compose fixed events only.
    let mut curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let secret = || sum(&[[1.0, 0.0]], 1.0);
    let delta = Delta::new(1e-6).unwrap();
    curator.reserve(&gaussians(4.0, 1)).unwrap();
    curator.settle().unwrap();
    // Nothing was released yet.
    curator.reserve(&gaussians(4.0, 1)).unwrap();
    release_all(&mut curator, secret(), z(4.0)).unwrap();
    assert!(curator.guarantee(delta).is_ok());
    curator.settle().unwrap();
    curator.reserve(&gaussians(4.0, 1)).unwrap();
    assert!(matches!(
        curator.guarantee(delta),
        Err(Refused::NoGuarantee(_))
    ));
}

/// Kolmogorov's distribution at sqrt(n) D = 2.9 has a tail of 1e-7: the false-alarm rate of each
/// of the checks below (fixed seeds).
fn kolmogorov(mut sample: Vec<f64>) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let cdf = |x: f64| 0.5 * libm::erfc(-x / 2f64.sqrt());
    let distance = sample
        .iter()
        .enumerate()
        .map(|(i, &x)| {
            let p = cdf(x);
            (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
        })
        .fold(0.0, f64::max);
    distance * n.sqrt()
}

fn residuals(adjacency: Adjacency, radius: f64, multiplier: f64, claimed: f64) -> Vec<f64> {
    let mut curator = Curator::simulated(adjacency, 7);
    curator.reserve(&gaussians(multiplier, 4000)).unwrap();
    let secret = || sum(&[[0.25 * radius, -0.5 * radius]], radius);
    (0..4000)
        .flat_map(|_| {
            let released = release_all(&mut curator, secret(), z(multiplier)).unwrap();
            [
                (released[0] - 0.25 * radius) / claimed,
                (released[1] + 0.5 * radius) / claimed,
            ]
        })
        .collect()
}

#[test]
fn the_noise_is_the_multiplier_times_the_sensitivity() {
    for (adjacency, factor) in [(Adjacency::ReplaceOne, 2.0), (Adjacency::AddRemove, 1.0)] {
        for radius in [1e-250, 1e-3, 1.0, 3.7, 1e200] {
            for multiplier in [0.3, 5.0] {
                let std = factor * radius * multiplier;
                let statistic = kolmogorov(residuals(adjacency, radius, multiplier, std));
                assert!(
                    statistic < 2.9,
                    "{adjacency} {radius} {multiplier}: {statistic}"
                );
            }
        }
    }
}

#[test]
fn the_check_would_see_half_the_noise_missing() {
    // The broken twin: add/remove noise claimed as replace-one noise.
    let statistic = kolmogorov(residuals(Adjacency::AddRemove, 1.0, 1.0, 2.0));
    assert!(statistic > 2.9, "{statistic}");
}

#[test]
fn two_runs_do_not_share_noise() {
    let mut a = Curator::protected(Adjacency::AddRemove).unwrap();
    let mut b = Curator::protected(Adjacency::AddRemove).unwrap();
    let secret = || sum(&[[0.0, 0.0]], 1.0);
    for curator in [&mut a, &mut b] {
        curator.reserve(&gaussians(1.0, 2)).unwrap();
    }
    let (x, y) = (
        release_all(&mut a, secret(), z(1.0)).unwrap(),
        release_all(&mut b, secret(), z(1.0)).unwrap(),
    );
    assert_ne!(x, y);
    assert_ne!(x, release_all(&mut a, secret(), z(1.0)).unwrap());
}

fn on_slice(
    curator: &mut Curator,
    value: f64,
    slice: &Slice,
    z: NoiseMultiplier,
) -> Result<Vec<f64>, Refused> {
    release(curator, Which::Slice(slice), sum(&[[value]], 1.0), z)
}

fn per_slice(share: Event) -> Spend {
    Spend::Fixed(on_slices(share))
}

#[test]
fn every_slice_has_its_own_share() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    curator.open_pool(10, 2).unwrap();
    let (a, b) = (
        curator.take_slice(3).unwrap(),
        curator.take_slice(5).unwrap(),
    );
    assert_eq!((a.positions(), b.positions()), (2..5, 5..10));
    assert_eq!((curator.records_left(), curator.records_taken()), (0, 10));
    let share = Event::composed(vec![
        Event::gaussian(z(1.0)).repeated(2),
        Event::gaussian(z(3.0)),
    ]);
    curator.reserve(&per_slice(share)).unwrap();
    for _ in 0..2 {
        on_slice(&mut curator, 0.5, &a, z(1.0)).unwrap();
    }
    assert!(matches!(
        on_slice(&mut curator, 0.5, &a, z(1.0)),
        Err(Refused::NotReserved { slice: Some(0), .. })
    ));
    on_slice(&mut curator, 0.5, &b, z(1.0)).unwrap();
    on_slice(&mut curator, 0.5, &b, z(3.0)).unwrap();
    // A release on all records has no share.
    assert!(matches!(
        release_all(&mut curator, sum(&[[1.0, 0.0]], 1.0), z(3.0)),
        Err(Refused::NotReserved { slice: None, .. })
    ));
    // The worst slice: two releases at 1, or one at 1 and one at 3.
    let spent = curator.settle().unwrap();
    let mu = dpopt_privacy::accounting::costs::squared_mu(&spent, Adjacency::ReplaceOne).unwrap();
    assert!((mu - 2.0).abs() < 1e-9, "{mu}");
}

#[test]
fn a_pool_hands_out_each_record_once() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    assert_eq!(curator.take_slice(1), Err(PoolError::NotOpen));
    assert_eq!(
        curator.open_pool(4, 5),
        Err(PoolError::SkippedTooMany {
            skipped: 5,
            records: 4
        })
    );
    curator.open_pool(4, 0).unwrap();
    assert_eq!(curator.open_pool(4, 0), Err(PoolError::Twice));
    assert_eq!(curator.take_slice(0), Err(PoolError::EmptySlice));
    assert_eq!(
        curator.take_slice(5),
        Err(PoolError::UsedUp { asked: 5, left: 4 })
    );
    assert_eq!(curator.take_slice(4).unwrap().positions(), 0..4);
    assert_eq!(
        curator.take_slice(1),
        Err(PoolError::UsedUp { asked: 1, left: 0 })
    );
    let mut insertions = Curator::simulated(Adjacency::AddRemove, 3);
    assert!(matches!(
        insertions.open_pool(4, 0),
        Err(PoolError::Adjacency { .. })
    ));
}

#[test]
fn a_slice_of_another_pool_is_refused() {
    let mut curators = [4, 5].map(|seed| {
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        curator.open_pool(4, 0).unwrap();
        curator
            .reserve(&per_slice(Event::gaussian(z(1.0))))
            .unwrap();
        curator
    });
    let foreign = curators[0].take_slice(2).unwrap();
    assert!(matches!(
        on_slice(&mut curators[1], 1.0, &foreign, z(1.0)),
        Err(Refused::Pool(PoolError::ForeignSlice))
    ));
    assert!(on_slice(&mut curators[0], 1.0, &foreign, z(1.0)).is_ok());
}

#[test]
fn shares_of_slices_are_apart_and_gaussian() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    let (one, other) = (Event::gaussian(z(1.0)), Event::gaussian(z(2.0)));
    for bad in [
        // A release at 1 would not say which share it begins.
        Event::ParallelComposed {
            events: vec![
                one.clone(),
                Event::composed(vec![one.clone(), other.clone()]),
            ],
        },
        Event::ParallelComposed {
            events: vec![one.clone()],
        }
        .repeated(2),
        Event::ParallelComposed {
            events: vec![Event::SampledWithoutReplacement {
                source_dataset_size: 10,
                sample_size: 2,
                event: Box::new(one.clone()),
            }],
        },
        // Samples of pure releases, of slices as of all records.
        Event::ParallelComposed {
            events: vec![
                Event::EpsilonDelta {
                    epsilon: 1.0,
                    delta: 0.0,
                }
                .poisson_sampled(SamplingRate::new(0.5).unwrap()),
            ],
        },
    ] {
        assert!(matches!(
            curator.reserve(&Spend::Fixed(bad)),
            Err(Refused::UnsupportedSpend { .. })
        ));
    }
}

/// Each slice takes one of the shares, whichever its first release belongs to, and what the run costs is
/// the dearest of them, not their sum.
#[test]
fn a_slice_takes_one_of_the_shares() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    curator.open_pool(10, 0).unwrap();
    let [a, b, c] = [3, 5, 2].map(|len| curator.take_slice(len).unwrap());
    let shares = vec![
        Event::gaussian(z(1.0)),
        Event::composed(vec![
            Event::gaussian(z(2.0)).repeated(2),
            Event::gaussian(z(3.0)),
        ]),
    ];
    let spend = Spend::Fixed(Event::ParallelComposed { events: shares });
    curator.reserve(&spend).unwrap();
    let refused = |result: Result<Vec<f64>, Refused>| {
        matches!(result, Err(Refused::NotReserved { slice: Some(_), .. }))
    };
    on_slice(&mut curator, 0.5, &a, z(1.0)).unwrap();
    assert!(refused(on_slice(&mut curator, 0.5, &a, z(1.0))));
    assert!(refused(on_slice(&mut curator, 0.5, &a, z(2.0))));
    on_slice(&mut curator, 0.5, &b, z(3.0)).unwrap();
    assert!(refused(on_slice(&mut curator, 0.5, &b, z(1.0))));
    on_slice(&mut curator, 0.5, &b, z(2.0)).unwrap();
    on_slice(&mut curator, 0.5, &b, z(2.0)).unwrap();
    assert!(refused(on_slice(&mut curator, 0.5, &b, z(2.0))));
    assert!(refused(on_slice(&mut curator, 0.5, &c, z(4.0))));
    let squared = |event: &Event| {
        dpopt_privacy::accounting::costs::squared_mu(event, Adjacency::ReplaceOne).unwrap()
    };
    // max(1, 2/4 + 1/9).
    assert!((squared(spend.event()) - 1.0).abs() < 1e-9);
    assert!((squared(&curator.settle().unwrap()) - 1.0).abs() < 1e-9);
}

#[test]
fn a_cap_admits_what_its_sum_of_squares_pays() {
    let secret = || sum(&[[1.0, 0.0]], 1.0);
    let mut curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let cap = Event::gaussian(z(2.0)).repeated(4); // 4 / 4 = 1
    curator.reserve(&Spend::AtMost(cap.clone())).unwrap();
    // 1/4 + 9/16 + 3/16 = 1, though none of it was named before.
    release_all(&mut curator, secret(), z(2.0)).unwrap();
    for _ in 0..9 {
        release_all(&mut curator, secret(), z(4.0)).unwrap();
    }
    let refused = release_all(&mut curator, secret(), z(2.0)).unwrap_err();
    assert!(matches!(refused, Refused::OverCap { .. }), "{refused}");
    for _ in 0..3 {
        release_all(&mut curator, secret(), z(4.0)).unwrap();
    }
    assert!(matches!(
        release_all(&mut curator, secret(), z(1000.0)),
        Err(Refused::OverCap { .. })
    ));
    // The guarantee is that of the cap.
    let delta = Delta::new(1e-6).unwrap();
    let stated = curator.guarantee(delta).unwrap().epsilon();
    let (_, of_cap) = dpopt_privacy::Accountant::least(&cap, delta, Adjacency::ReplaceOne).unwrap();
    assert!(stated >= of_cap && stated < of_cap * (1.0 + 1e-8));
    assert_eq!(curator.settle().unwrap().release_count(), 13);
}

/// Every slice has the cap to itself, whatever its releases are; what is settled is the dearest one.
#[test]
fn each_slice_has_a_cap_of_its_own() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    curator.open_pool(10, 0).unwrap();
    let [a, b, c] = [3, 5, 2].map(|len| curator.take_slice(len).unwrap());
    let spend = Spend::at_most_on_each_slice(Event::gaussian(z(2.0)).repeated(4));
    curator.reserve(&spend).unwrap();
    let over = |result: Result<Vec<f64>, Refused>| matches!(result, Err(Refused::OverCap { .. }));
    // 1/4 + 3/4, turn by turn with another slice: 12/16.
    on_slice(&mut curator, 0.5, &a, z(2.0)).unwrap();
    for _ in 0..12 {
        on_slice(&mut curator, 0.5, &a, z(4.0)).unwrap();
        on_slice(&mut curator, 0.5, &b, z(4.0)).unwrap();
    }
    assert!(over(on_slice(&mut curator, 0.5, &a, z(1000.0))));
    assert!(over(on_slice(&mut curator, 0.5, &b, z(1.5))));
    on_slice(&mut curator, 0.5, &b, z(3.0)).unwrap();
    // All of it at once, and nothing after; more than all of it not at all.
    assert!(over(on_slice(&mut curator, 0.5, &c, z(0.999))));
    on_slice(&mut curator, 0.5, &c, z(1.0)).unwrap();
    assert!(over(on_slice(&mut curator, 0.5, &c, z(1000.0))));
    // No release on all records, which would read them all.
    let whole = release_all(&mut curator, sum(&[[1.0, 0.0]], 1.0), z(1000.0));
    assert!(matches!(
        whole,
        Err(Refused::NotReserved { slice: None, .. })
    ));
    let squared = |event: &Event| {
        dpopt_privacy::accounting::costs::squared_mu(event, Adjacency::ReplaceOne).unwrap()
    };
    assert!((squared(spend.event()) - 1.0).abs() < 1e-9);
    let settled = curator.settle().unwrap();
    assert!((squared(&settled) - 1.0).abs() < 1e-9);
    let Event::ParallelComposed { events } = &settled else {
        panic!("{settled:?}")
    };
    let mut costs: Vec<f64> = events.iter().map(squared).collect();
    costs.sort_by(f64::total_cmp);
    // 12/16 + 1/9.
    let known = [12.0 / 16.0 + 1.0 / 9.0, 1.0, 1.0];
    for (cost, known) in costs.iter().zip(known) {
        assert!((cost / known - 1.0).abs() < 1e-9, "{costs:?}");
    }
}

/// Positions move under add-remove, and a cap is made of Gaussians.
#[test]
fn a_cap_for_each_slice_needs_positions_and_gaussians() {
    let gaussian = Event::gaussian(z(1.0));
    for (adjacency, cap) in [
        (Adjacency::AddRemove, gaussian.clone()),
        (
            Adjacency::ReplaceOne,
            gaussian.poisson_sampled(SamplingRate::new(0.1).unwrap()),
        ),
        (Adjacency::ReplaceOne, Event::NoOp),
    ] {
        let mut curator = Curator::simulated(adjacency, 1);
        let refused = curator.reserve(&Spend::at_most_on_each_slice(cap));
        assert!(matches!(refused, Err(Refused::UnsupportedSpend { .. })));
    }
}

#[test]
fn a_cap_is_made_of_gaussians() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let sampled = Event::gaussian(z(1.0)).poisson_sampled(SamplingRate::new(0.1).unwrap());
    for bad in [sampled, Event::NoOp] {
        assert!(matches!(
            curator.reserve(&Spend::AtMost(bad)),
            Err(Refused::UnsupportedSpend { .. })
        ));
    }
}

/// The norm of (3, 4) and then of its noisy releases: mean and spread as its own formula says.
#[test]
fn the_norm_of_a_sum_is_a_release_of_its_own() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 8);
    let draws = 4000;
    curator.reserve(&gaussians(0.5, draws)).unwrap();
    let secret = || sum(&[[3.0, 0.0], [0.0, 4.0]], 4.0);
    let norms: Vec<f64> = (0..draws)
        .map(|_| release_norm(&mut curator, Which::All, secret(), &[], z(0.5)).unwrap())
        .collect();
    // Standard deviation 0.5 x 2 x 4 = 4: five standard errors, false alarm below 1e-6 each.
    let n = draws as f64;
    let mean = norms.iter().sum::<f64>() / n;
    let variance = norms.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    assert!((mean - 5.0).abs() < 5.0 * 4.0 / n.sqrt(), "{mean}");
    assert!(
        (variance / 16.0 - 1.0).abs() < 5.0 * (2.0 / n).sqrt(),
        "{variance}"
    );
    assert!(release_all(&mut curator, secret(), z(0.5)).is_err());
}

fn fixed_size(size: u64, records: u64, noise: f64) -> Event {
    Event::SampledWithoutReplacement {
        source_dataset_size: records,
        sample_size: size,
        event: Box::new(Event::gaussian(z(noise))),
    }
}

#[test]
fn a_sample_of_fixed_size_is_one_event() {
    let mut curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let event = fixed_size(3, 10, 2.0);
    curator
        .reserve(&Spend::Fixed(event.clone().repeated(2)))
        .unwrap();
    let bound = bound(1.0, 1);
    let take = |curator: &mut Curator, size: u64| {
        let which = Which::FixedSize(size);
        let ticket = curator.grant(which, Body::of(10), bound, z(2.0))?;
        assert_eq!(positions(ticket.sample()).len() as u64, size);
        Ok::<_, Refused>((ticket, LatticeSum::new(bound)))
    };
    let (old, sum) = take(&mut curator, 3).unwrap();
    let (new, other) = take(&mut curator, 3).unwrap();
    assert!(matches!(
        curator.redeem(old, sum),
        Err(Refused::Ticket(TicketError::Void))
    ));
    curator.redeem(new, other).unwrap();
    // A larger sample is another event.
    assert!(matches!(
        take(&mut curator, 4),
        Err(Refused::NotReserved { .. })
    ));
    assert_eq!(curator.settle().unwrap().leaves(), vec![(event, 1)]);
    assert!(curator.guarantee(Delta::new(1e-5).unwrap()).is_ok());
}

/// A sample that is drawn and not released.
fn of_size(curator: &mut Curator, size: u64, records: u64) -> Result<Vec<usize>, Refused> {
    let bound = bound(1.0, 1);
    let ticket = curator.grant(Which::FixedSize(size), Body::of(records), bound, z(1.0))?;
    Ok(positions(ticket.sample()))
}

#[test]
fn samples_of_fixed_size_are_refused_where_they_have_no_theorem() {
    for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
        let mut curator = Curator::simulated(adjacency, 1);
        assert!(matches!(
            of_size(&mut curator, 1, 2),
            Err(Refused::FixedSizeAdjacency { .. })
        ));
    }
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator
        .reserve(&Spend::Fixed(fixed_size(5, 5, 1.0)))
        .unwrap();
    for (size, records) in [(0, 5), (6, 5), (0, 0)] {
        assert!(matches!(
            of_size(&mut curator, size, records),
            Err(Refused::SampleSize { .. })
        ));
    }
    assert_eq!(of_size(&mut curator, 5, 5).unwrap(), [0, 1, 2, 3, 4]);
}

/// All ten subsets of two out of five are equally likely: chi-square with nine degrees of freedom,
/// which exceeds 52.3 with probability 4e-8.
#[test]
fn every_subset_is_equally_likely() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 77);
    curator
        .reserve(&Spend::Fixed(fixed_size(2, 5, 1.0)))
        .unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..20_000 {
        let drawn = of_size(&mut curator, 2, 5).unwrap();
        *counts.entry(drawn).or_insert(0.0) += 1.0;
    }
    assert_eq!(counts.len(), 10);
    let statistic: f64 = counts
        .values()
        .map(|count: &f64| (count - 2000.0).powi(2) / 2000.0)
        .sum();
    assert!(statistic < 52.3, "{statistic}");
}
