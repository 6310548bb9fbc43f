//! Samples of slices, by coins and by allocations: which records they hold, what they cost, and periods whose steps read them.

use dpopt_privacy::accounting::group::{self, Group};
use dpopt_privacy::{
    Accountant, Adjacency, Allocation, Body, Curator, Event, LatticeSum, Participation, PoolError,
    Prefix, PrefixError, PrefixKind, PrefixNoise, Refused, Slice, Spend, Which,
};

use crate::common::{bound, delta, on_slices, positions, push, rate, release, simulated, sum, z};

const Q: f64 = 0.3;

/// A share of so many samples.
fn samples(times: u64) -> Event {
    on_slices(
        Event::gaussian(z(2.0))
            .poisson_sampled(rate(Q))
            .repeated(times),
    )
}

fn with_slices(times: u64, slices: u64) -> (Curator, Vec<Slice>) {
    let mut curator = simulated(Adjacency::ReplaceOne, 7, samples(times));
    curator.open_pool(10, 0).unwrap();
    let taken = (0..slices).map(|_| curator.take_slice(10 / slices).unwrap());
    let taken = taken.collect();
    (curator, taken)
}

fn ones() -> LatticeSum {
    sum(&[[1.0]], 1.0)
}

fn period(curator: &mut Curator, kind: PrefixKind, apart: u64) -> Result<Prefix, Refused> {
    let participation = Participation::Sampled { apart };
    curator.prefix(kind, bound(1.0, 1), 6, z(2.0), participation)
}

/// Each slice once, whole.
fn period_of_slices(curator: &mut Curator) -> Prefix {
    let kind = PrefixKind::Independent;
    let opened = curator.prefix(kind, bound(1.0, 1), 6, z(2.0), Participation::Single);
    opened.unwrap()
}

/// Of 20,000 samples of a slice of five each record is in a share Q, to within five deviations (1e-6 for each of five records, two-sided),
/// no other record ever, and two records are together in a share Q^2, to within five again.
#[test]
fn a_sample_is_of_its_slice_and_independent() {
    let many = 20_000;
    let (mut curator, slices) = with_slices(many, 2);
    let (mut each, mut both) = ([0.0; 10], 0.0);
    for _ in 0..many {
        let which = Which::Sampled(&slices[1], rate(Q));
        let ticket = curator
            .grant(which, Body::of(10), bound(1.0, 1), z(2.0))
            .unwrap();
        assert_eq!(ticket.sample().denominator(), 5.0 * Q);
        assert!(ticket.sample().slice().is_none());
        let drawn = positions(ticket.sample());
        both += f64::from(u8::from(drawn.contains(&5) && drawn.contains(&9)));
        drawn.iter().for_each(|&i| each[i] += 1.0);
        curator.redeem(ticket, ones()).unwrap();
    }
    let near = |found: f64, p: f64| {
        let n = many as f64;
        (found - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt()
    };
    assert_eq!(each[..5], [0.0; 5]);
    assert!(each[5..].iter().all(|&k| near(k, Q)), "{each:?}");
    assert!(near(both, Q * Q), "{both}");
}

/// Each rank draws what is its own, and all of them what one process does, of slices and of all records: 40 samples of each.
#[test]
fn what_is_drawn_of_a_part_is_what_is_drawn_of_all() {
    let records = 1000;
    let drawn = |of_slice: bool, here: Option<std::ops::Range<u64>>| {
        let whole = Event::gaussian(z(2.0))
            .poisson_sampled(rate(Q))
            .repeated(40);
        let event = if of_slice { samples(40) } else { whole };
        let mut curator = simulated(Adjacency::ReplaceOne, 7, event);
        let slice = of_slice.then(|| {
            curator.open_pool(records, 0).unwrap();
            curator.take_slice(300).unwrap();
            curator.take_slice(500).unwrap()
        });
        let body = match here {
            Some(here) => Body::of(records).here(here),
            None => Body::of(records),
        };
        let mut all = Vec::new();
        for _ in 0..40 {
            let which = match &slice {
                Some(slice) => Which::Sampled(slice, rate(Q)),
                None => Which::Poisson(rate(Q)),
            };
            let ticket = curator.grant(which, body, bound(1.0, 1), z(2.0)).unwrap();
            let size = if of_slice { 500.0 } else { 1000.0 };
            assert_eq!(ticket.sample().denominator(), size * Q);
            all.push(positions(ticket.sample()));
            curator.redeem(ticket, ones()).unwrap();
        }
        all
    };
    for of_slice in [false, true] {
        let whole = drawn(of_slice, None);
        // Parts that meet the slice and that do not, an empty one, and one of all.
        for here in [
            0..1,
            0..300,
            250..310,
            299..801,
            400..400,
            799..1000,
            800..1000,
            0..1000,
        ] {
            let some = drawn(of_slice, Some(here.clone()));
            for (all, some) in whole.iter().zip(&some) {
                let mut own = all.clone();
                own.retain(|&i| here.contains(&(i as u64)));
                assert_eq!(*some, own, "{here:?}");
            }
        }
        assert!(whole.iter().map(Vec::len).sum::<usize>() > 40 * 100);
    }
}

#[test]
fn a_slice_pays_for_each_sample_and_for_no_other_release() {
    let (mut curator, slices) = with_slices(2, 2);
    for slice in &slices {
        let of = |q| Which::Sampled(slice, rate(q));
        for _ in 0..2 {
            release(&mut curator, of(Q), ones(), z(2.0)).unwrap();
        }
        // A third, another rate, more noise on all of it, all of it.
        for (which, noise) in [
            (of(Q), 2.0),
            (of(0.2), 2.0),
            (of(Q), 3.0),
            (Which::Slice(slice), 2.0),
        ] {
            let refused = release(&mut curator, which, ones(), z(noise));
            assert!(matches!(refused, Err(Refused::NotReserved { .. })));
        }
    }
    assert_eq!(curator.spent(), samples(2));
    // What it costs is what one record may lose: two samples.
    let on = |times| {
        let one = Event::gaussian(z(2.0)).poisson_sampled(rate(Q));
        one.repeated(times)
    };
    let inner = on(2);
    for accountant in [Accountant::Pld, Accountant::Rdp] {
        let of = |event| accountant.epsilon(event, delta(1e-6), Adjacency::ReplaceOne);
        assert_eq!(of(&samples(2)).unwrap(), of(&inner).unwrap());
        let moved = accountant.epsilon(&samples(2), delta(1e-6), Adjacency::AddRemove);
        assert!(moved.is_err());
    }
    // A run that stops has sampled some slices more often than others, and costs what the dearest do.
    let stopped = Event::ParallelComposed {
        events: vec![on(1), on(2), on(1)],
    };
    let of = |event| Accountant::Pld.epsilon(event, delta(1e-6), Adjacency::ReplaceOne);
    assert_eq!(of(&stopped).unwrap(), of(&inner).unwrap());
    let unlike = Event::ParallelComposed {
        events: vec![on(2), Event::gaussian(z(2.0)).poisson_sampled(rate(0.2))],
    };
    assert!(of(&unlike).is_err());
    // Two records may be in two slices: nothing is claimed for them together.
    let two = Group::new(2).unwrap();
    let together = group::interval(&samples(2), two, delta(1e-6), Adjacency::ReplaceOne);
    assert!(together.is_err());
}

#[test]
fn slices_of_others_and_add_remove_are_refused() {
    let (_, theirs) = with_slices(1, 2);
    let (mut curator, _) = with_slices(1, 2);
    let which = Which::Sampled(&theirs[0], rate(Q));
    let refused = release(&mut curator, which, ones(), z(2.0));
    assert!(matches!(
        refused,
        Err(Refused::Pool(PoolError::ForeignSlice))
    ));
    let mut moving = Curator::simulated(Adjacency::AddRemove, 1);
    assert!(moving.reserve(&Spend::Fixed(samples(1))).is_err());
    let opened = moving.prefix(
        PrefixKind::Independent,
        bound(1.0, 1),
        6,
        z(2.0),
        Participation::Sampled { apart: 6 },
    );
    assert!(matches!(
        opened.err(),
        Some(Refused::Pool(PoolError::Adjacency { .. }))
    ));
}

/// A cap counts squared mu, of which a sample has none.
#[test]
fn a_cap_on_slices_pays_for_no_sample() {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let cap = Event::gaussian(z(1.0));
    curator.reserve(&Spend::at_most_on_each_slice(cap)).unwrap();
    curator.open_pool(10, 0).unwrap();
    let slice = curator.take_slice(10).unwrap();
    let which = Which::Sampled(&slice, rate(Q));
    let refused = release(&mut curator, which, ones(), z(2.0));
    assert!(matches!(refused, Err(Refused::NotReserved { .. })));
}

#[test]
fn bands_that_would_meet_are_refused_before_anything_is_drawn() {
    let (mut curator, _) = with_slices(3, 2);
    let trees = [PrefixKind::Toeplitz, PrefixKind::Tree, PrefixKind::Honaker];
    let wide = [PrefixKind::Banded { band: 3 }].into_iter().chain(trees);
    for kind in wide {
        let refused = period(&mut curator, kind, 2).err();
        let Some(Refused::Prefix(PrefixError::BandsMeet { band, apart: 2 })) = refused else {
            panic!("{kind}");
        };
        assert_eq!(
            band,
            if kind == (PrefixKind::Banded { band: 3 }) {
                3
            } else {
                6
            }
        );
        // One sample in all.
        assert!(period(&mut curator, kind, 6).is_ok());
    }
    for kind in [PrefixKind::Independent, PrefixKind::Banded { band: 2 }] {
        assert!(period(&mut curator, kind, 2).is_ok());
    }
    assert!(matches!(
        period(&mut curator, PrefixKind::Independent, 0).err(),
        Some(Refused::Prefix(PrefixError::NoParticipation { .. }))
    ));
    assert_eq!(curator.spent(), Event::NoOp);
}

#[test]
fn a_period_of_samples_takes_nothing_else_and_no_slice_too_soon() {
    let (mut curator, slices) = with_slices(3, 2);
    let of = |k: usize| Which::Sampled(&slices[k], rate(Q));
    let mut period = period(&mut curator, PrefixKind::Banded { band: 2 }, 2).unwrap();
    let wrong = |refused: Result<_, Refused>| {
        matches!(
            refused,
            Err(Refused::Prefix(PrefixError::WrongRecords { .. }))
        )
    };
    let others = [
        Which::All,
        Which::Slice(&slices[0]),
        Which::Poisson(rate(Q)),
    ];
    for which in others {
        assert!(wrong(push(&mut period, which, ones(), &mut curator)));
    }
    push(&mut period, of(0), ones(), &mut curator).unwrap();
    let soon = push(&mut period, of(0), ones(), &mut curator);
    assert!(matches!(
        soon,
        Err(Refused::Prefix(PrefixError::TookPart {
            slice: 0,
            times: 1,
            last: 1,
            step: 2
        }))
    ));
    for k in [1, 0, 1, 0] {
        push(&mut period, of(k), ones(), &mut curator).unwrap();
    }
    // Slice 0 has had its three samples, slice 1 two.
    let release_of = push(&mut period, of(0), ones(), &mut curator);
    assert!(release_of.is_err());
    push(&mut period, of(1), ones(), &mut curator).unwrap();
    assert_eq!(curator.spent(), samples(3));
    // Nor does a period of slices take samples.
    let mut plain = period_of_slices(&mut curator);
    assert!(wrong(push(&mut plain, of(0), ones(), &mut curator)));
}

/// The noise of a period of samples is scaled to one column, that of epochs to all of them.
#[test]
fn noise_is_for_one_sample() {
    let kind = PrefixKind::Banded { band: 3 };
    let of = |participation| PrefixNoise::new(kind, 12, participation).unwrap();
    let column = 1.0 + 0.25 + 9.0 / 64.0;
    let sampled = of(Participation::Sampled { apart: 3 });
    assert!((sampled.sensitivity().powi(2) - column).abs() < 1e-12);
    let epochs = of(Participation::Repeated { most: 4, apart: 3 });
    assert!((epochs.sensitivity().powi(2) - 4.0 * column).abs() < 1e-12);
    assert_eq!(sampled.event(z(2.0)).unwrap(), Event::gaussian(z(2.0)));
}

/// Three steps over the records of a slice, so many times.
fn allocations(times: u64) -> Event {
    let one = Allocation::to_one_of(3).event(Event::gaussian(z(2.0)));
    on_slices(one.repeated(times))
}

/// Slices of these lengths, under a reservation of so many allocations.
fn with_lengths(times: u64, lengths: &[u64]) -> (Curator, Vec<Slice>) {
    let mut curator = simulated(Adjacency::ReplaceOne, 11, allocations(times));
    curator.open_pool(lengths.iter().sum(), 0).unwrap();
    let taken = lengths.iter().map(|&len| curator.take_slice(len).unwrap());
    let taken = taken.collect();
    (curator, taken)
}

/// The three steps of each allocation hold every record of the slice once and no other, whatever the steps of other slices between them. Each
/// record is in each step in a share of 1/3 of 3000 allocations to within five deviations (1e-6 for each of 21 counts, two-sided); two records
/// of a slice meet in a third of them, and so do two of different slices.
#[test]
fn allocations_within_slices_are_partitions_of_their_own() {
    let many = 3000;
    let (mut curator, slices) = with_lengths(many, &[3, 4]);
    let mut counts = [[0_u64; 3]; 7];
    let (mut within, mut across) = (0_u64, 0_u64);
    for _ in 0..many {
        let mut step_of = [usize::MAX; 7];
        for step in 0..3 {
            for (slice, (own, len)) in slices.iter().zip([(0..3, 3.0), (3..7, 4.0)]) {
                let which = Which::AllocatedIn(slice, Allocation::to_one_of(3));
                let ticket = curator
                    .grant(which, Body::of(7), bound(1.0, 1), z(2.0))
                    .unwrap();
                assert!((ticket.sample().denominator() - len / 3.0).abs() < 1e-15);
                for at in positions(ticket.sample()) {
                    assert!(own.contains(&at) && step_of[at] == usize::MAX);
                    step_of[at] = step;
                    counts[at][step] += 1;
                }
                curator.redeem(ticket, ones()).unwrap();
            }
        }
        assert!(step_of.iter().all(|&step| step < 3));
        within += u64::from(step_of[3] == step_of[6]);
        across += u64::from(step_of[2] == step_of[3]);
    }
    let near = |found: u64| {
        let (n, p) = (many as f64, 1.0 / 3.0);
        (found as f64 - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt()
    };
    assert!(counts.iter().flatten().all(|&n| near(n)), "{counts:?}");
    assert!(near(within) && near(across), "{within} {across}");
    assert_eq!(curator.spent(), allocations(many));
}

/// A slice pays with the first step of each allocation, and other slices, samples and allocations do not pay for it.
#[test]
fn a_slice_pays_for_each_of_its_allocations() {
    let (mut curator, slices) = with_lengths(2, &[5, 5]);
    let of = |slice: usize, steps| Which::AllocatedIn(&slices[slice], Allocation::to_one_of(steps));
    let release_of = |curator: &mut Curator, which| release(curator, which, ones(), z(2.0));
    release_of(&mut curator, of(0, 3)).unwrap();
    assert_eq!(curator.spent(), allocations(1));
    // Other terms within the open one; of the other slice there is none that is open.
    assert!(matches!(
        release_of(&mut curator, of(0, 4)),
        Err(Refused::OtherAllocation { left: 2 })
    ));
    for which in [
        of(1, 4),
        Which::Sampled(&slices[0], rate(1.0 / 3.0)),
        Which::Slice(&slices[0]),
        Which::Allocated(Allocation::to_one_of(3)),
    ] {
        assert!(release_of(&mut curator, which).is_err());
    }
    for _ in 0..5 {
        release_of(&mut curator, of(0, 3)).unwrap();
    }
    assert_eq!(curator.spent(), allocations(2));
    // A third allocation is not paid for, and the other slice has two of its own.
    assert!(matches!(
        release_of(&mut curator, of(0, 3)),
        Err(Refused::NotReserved { slice: Some(0), .. })
    ));
    for _ in 0..6 {
        release_of(&mut curator, of(1, 3)).unwrap();
    }
    assert!(release_of(&mut curator, of(1, 3)).is_err());
    assert_eq!(curator.spent(), allocations(2));
    // What it costs is what one record may lose, also where slices had unlike many.
    let worth = |event: &Event| Accountant::Pld.epsilon(event, delta(1e-6), Adjacency::ReplaceOne);
    let inner = Allocation::to_one_of(3)
        .event(Event::gaussian(z(2.0)))
        .repeated(2);
    assert_eq!(worth(&allocations(2)).unwrap(), worth(&inner).unwrap());
    let stopped = Event::ParallelComposed {
        events: vec![
            Allocation::to_one_of(3).event(Event::gaussian(z(2.0))),
            inner.clone(),
        ],
    };
    assert_eq!(worth(&stopped).unwrap(), worth(&inner).unwrap());
    let other = Allocation::to_one_of(4).event(Event::gaussian(z(2.0)));
    let unlike = Event::ParallelComposed {
        events: vec![inner, other],
    };
    assert!(
        Accountant::Pld
            .epsilon(&unlike, delta(1e-6), Adjacency::ReplaceOne)
            .is_err()
    );
    // A cap in squared mu pays for none.
    let mut capped = Curator::simulated(Adjacency::ReplaceOne, 1);
    let cap = Event::gaussian(z(1.0));
    capped.reserve(&Spend::at_most_on_each_slice(cap)).unwrap();
    capped.open_pool(10, 0).unwrap();
    let slice = capped.take_slice(10).unwrap();
    let which = Which::AllocatedIn(&slice, Allocation::to_one_of(3));
    let refused = release(&mut capped, which, ones(), z(2.0));
    assert!(matches!(refused, Err(Refused::NotReserved { .. })));
}

/// In a period a step of an allocation counts as one of its slice although it is charged to nobody: too soon is refused, and bands that
/// don't meet are what is paid for.
#[test]
fn a_period_of_samples_takes_allocations_in_turn() {
    let (mut curator, slices) = with_lengths(1, &[5, 5]);
    let of = |slice: usize| Which::AllocatedIn(&slices[slice], Allocation::to_one_of(3));
    let mut period = period(&mut curator, PrefixKind::Banded { band: 2 }, 2).unwrap();
    push(&mut period, of(0), ones(), &mut curator).unwrap();
    push(&mut period, of(1), ones(), &mut curator).unwrap();
    push(&mut period, of(0), ones(), &mut curator).unwrap();
    let soon = push(&mut period, of(0), ones(), &mut curator);
    assert!(matches!(
        soon,
        Err(Refused::Prefix(PrefixError::TookPart {
            slice: 0,
            times: 2,
            last: 3,
            step: 4
        }))
    ));
    let all = Which::Allocated(Allocation::to_one_of(3));
    assert!(push(&mut period, all, ones(), &mut curator).is_err());
    for slice in [1, 0, 1] {
        push(&mut period, of(slice), ones(), &mut curator).unwrap();
    }
    assert_eq!(curator.spent(), allocations(1));
    let mut plain = period_of_slices(&mut curator);
    let wrong = push(&mut plain, of(0), ones(), &mut curator);
    assert!(matches!(
        wrong,
        Err(Refused::Prefix(PrefixError::WrongRecords { .. }))
    ));
}
