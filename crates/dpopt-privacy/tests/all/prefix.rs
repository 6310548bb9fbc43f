//! Periods of prefix sums through the curator: what is released, charged and refused.

use dpopt_privacy::{
    Adjacency, Bound, Curator, Event, LatticeSum, NoiseMultiplier, Participation, PoolError,
    Prefix, PrefixError, PrefixKind, PrefixNoise, Refused, SamplingRate, Slice, Spend, TicketError,
    Which,
};

use Participation::{Every, Repeated, Single};
use PrefixKind::{Banded, Honaker, Independent, Toeplitz, Tree};

use crate::common::{bound, on_slices, push, simulated, z};
use crate::factors;

fn kinds() -> [PrefixKind; 6] {
    [
        Independent,
        Tree,
        Honaker,
        Toeplitz,
        Banded { band: 2 },
        factors::tuned(),
    ]
}

fn sum(value: f64, bound: Bound) -> LatticeSum {
    let mut sum = LatticeSum::new(bound);
    sum.add_scaled(value, &vec![1.0; bound.dim()]);
    sum
}

fn all(period: &mut Prefix, value: f64, curator: &mut Curator) -> Result<Vec<f64>, Refused> {
    push(period, Which::All, sum(value, bound(1.0, 3)), curator)
}

fn on(period: &mut Prefix, slice: &Slice, curator: &mut Curator) -> Result<Vec<f64>, Refused> {
    push(
        period,
        Which::Slice(slice),
        sum(0.25, bound(1.0, 3)),
        curator,
    )
}

fn every(curator: &mut Curator, kind: PrefixKind, len: u64, z: NoiseMultiplier) -> Prefix {
    curator.prefix(kind, bound(1.0, 3), len, z, Every).unwrap()
}

/// The share that each slice needs for one step of a period.
fn shares(kind: PrefixKind, len: u64, participation: Participation, times: u64) -> Event {
    let design = PrefixNoise::new(kind, len, participation).unwrap();
    on_slices(design.event(z(1.0)).unwrap().repeated(times))
}

#[test]
fn releases_are_prefix_sums_with_little_noise_where_little_is_asked_for() {
    for kind in kinds() {
        for len in [1, 2, 5, 8] {
            // Noise below a thousandth: whatever is released is the sum so far.
            let mut curator = simulated(Adjacency::ReplaceOne, 1, Event::gaussian(z(1e-5)));
            let mut period = every(&mut curator, kind, len, z(1e-5));
            for t in 1..=len {
                let released = all(&mut period, 0.125, &mut curator).unwrap();
                for x in released {
                    assert!((x - 0.125 * t as f64).abs() < 2e-3, "{kind} {t}");
                    assert_ne!(x, 0.125 * t as f64, "{kind} {t}: no noise");
                }
            }
            assert_eq!(period.steps(), len);
        }
    }
}

#[test]
fn a_period_over_all_records_is_charged_once_and_before() {
    for kind in kinds() {
        let mut curator = simulated(
            Adjacency::ReplaceOne,
            1,
            Event::gaussian(z(1.0)).repeated(2),
        );
        let mut period = every(&mut curator, kind, 3, z(1.0));
        assert_eq!(curator.spent().release_count(), 1);
        for _ in 0..3 {
            all(&mut period, 0.5, &mut curator).unwrap();
            assert_eq!(curator.spent().release_count(), 1);
        }
        // The step after the last.
        assert!(matches!(
            all(&mut period, 0.5, &mut curator),
            Err(Refused::Prefix(PrefixError::Finished { len: 3 }))
        ));
        // A restart pays again, and stops early.
        let mut again = every(&mut curator, kind, 3, z(1.0));
        all(&mut again, 0.5, &mut curator).unwrap();
        drop(again);
        assert_eq!(curator.spent().release_count(), 2);
        assert!(matches!(
            curator.prefix(kind, bound(1.0, 3), 3, z(1.0), Every),
            Err(Refused::NotReserved { .. })
        ));
        assert_eq!(
            curator.settle().unwrap().leaves(),
            vec![(Event::gaussian(z(1.0)), 2)]
        );
    }
}

#[test]
fn other_bounds_adjacencies_records_and_curators_are_refused() {
    let mut curator = simulated(Adjacency::ReplaceOne, 1, Event::gaussian(z(1.0)));
    let mut period = every(&mut curator, Toeplitz, 3, z(1.0));
    for other in [bound(2.0, 3), bound(1.0, 4)] {
        assert!(matches!(
            push(&mut period, Which::All, sum(0.1, other), &mut curator),
            Err(Refused::Ticket(TicketError::OtherBound { .. }))
        ));
    }
    let zero_out = dpopt_privacy::FixedBlocks::of_all(Adjacency::ZeroOut).unwrap();
    let zero_out = LatticeSum::in_blocks(bound(1.0, 3), zero_out);
    assert!(matches!(
        push(&mut period, Which::All, zero_out, &mut curator),
        Err(Refused::Ticket(TicketError::OtherBlocks { .. }))
    ));
    let sampled = Which::Poisson(SamplingRate::new(0.5).unwrap());
    assert!(matches!(
        push(&mut period, sampled, sum(0.1, bound(1.0, 3)), &mut curator),
        Err(Refused::Prefix(PrefixError::WrongRecords { .. }))
    ));
    curator.open_pool(10, 0).unwrap();
    let slice = curator.take_slice(5).unwrap();
    assert!(matches!(
        on(&mut period, &slice, &mut curator),
        Err(Refused::Prefix(PrefixError::WrongRecords { .. }))
    ));
    let mut other = simulated(Adjacency::ReplaceOne, 1, Event::gaussian(z(1.0)));
    assert!(matches!(
        all(&mut period, 0.1, &mut other),
        Err(Refused::Prefix(PrefixError::OtherCurator))
    ));
    // Nothing of that was added or used up.
    assert_eq!(period.steps(), 0);
    assert!(all(&mut period, 0.1, &mut curator).is_ok());
}

#[test]
fn a_slice_pays_at_its_step_and_takes_part_once() {
    for kind in kinds() {
        let mut curator = simulated(Adjacency::ReplaceOne, 1, shares(kind, 3, Single, 1));
        curator.open_pool(30, 0).unwrap();
        let mut period = curator
            .prefix(kind, bound(1.0, 3), 3, z(1.0), Single)
            .unwrap();
        assert_eq!(curator.spent(), Event::NoOp);
        assert!(matches!(
            all(&mut period, 0.5, &mut curator),
            Err(Refused::Prefix(PrefixError::WrongRecords { .. }))
        ));
        let first = curator.take_slice(10).unwrap();
        on(&mut period, &first, &mut curator).unwrap();
        assert!(matches!(
            on(&mut period, &first, &mut curator),
            Err(Refused::Prefix(PrefixError::TookPart {
                slice: 0,
                times: 1,
                last: 1,
                step: 2
            }))
        ));
        let second = curator.take_slice(10).unwrap();
        on(&mut period, &second, &mut curator).unwrap();
        // Its share is used up, also for another period.
        let mut other = curator
            .prefix(kind, bound(1.0, 3), 3, z(1.0), Single)
            .unwrap();
        assert!(matches!(
            on(&mut other, &second, &mut curator),
            Err(Refused::NotReserved { slice: Some(1), .. })
        ));
        let third = curator.take_slice(10).unwrap();
        on(&mut other, &third, &mut curator).unwrap();
        let spent = curator.settle().unwrap();
        assert_eq!(spent, shares(kind, 3, Single, 1));
    }
}

/// Settling ends no period and pays for nothing: what was paid goes on, what was not is refused.
#[test]
fn a_period_goes_on_after_settling_as_far_as_it_was_paid() {
    let mut curator = simulated(Adjacency::ReplaceOne, 1, Event::gaussian(z(1.0)));
    let mut period = every(&mut curator, Toeplitz, 3, z(1.0));
    let paid = vec![(Event::gaussian(z(1.0)), 1)];
    assert_eq!(curator.settle().unwrap().leaves(), paid);
    all(&mut period, 0.5, &mut curator).unwrap();
    assert!(matches!(
        curator.prefix(Toeplitz, bound(1.0, 3), 3, z(1.0), Every),
        Err(Refused::NotReserved { .. })
    ));
    assert_eq!(curator.spent().leaves(), paid);

    let twice = Repeated { most: 2, apart: 2 };
    let share = shares(Toeplitz, 5, twice, 1);
    let mut curator = simulated(Adjacency::ReplaceOne, 1, share.clone());
    curator.open_pool(20, 0).unwrap();
    let [a, b] = [(); 2].map(|()| curator.take_slice(10).unwrap());
    let mut period = curator
        .prefix(Toeplitz, bound(1.0, 3), 5, z(1.0), twice)
        .unwrap();
    on(&mut period, &a, &mut curator).unwrap();
    assert_eq!(curator.settle().unwrap(), share);
    assert!(matches!(
        on(&mut period, &b, &mut curator),
        Err(Refused::NotReserved { .. })
    ));
    // The refused step was none: a is still one step away.
    assert!(matches!(
        on(&mut period, &a, &mut curator),
        Err(Refused::Prefix(PrefixError::TookPart { step: 2, .. }))
    ));
    // A later reservation pays for b, not again for a.
    curator.reserve(&Spend::Fixed(share.clone())).unwrap();
    on(&mut period, &b, &mut curator).unwrap();
    on(&mut period, &a, &mut curator).unwrap();
    assert_eq!(curator.settle().unwrap(), share);
}

/// Each period that a slice takes part in is paid for.
#[test]
fn a_slice_in_two_periods_pays_twice() {
    let mut curator = simulated(Adjacency::ReplaceOne, 1, shares(Tree, 4, Single, 2));
    curator.open_pool(10, 0).unwrap();
    let slice = curator.take_slice(10).unwrap();
    for paid in 1..=3 {
        let mut period = curator
            .prefix(Tree, bound(1.0, 3), 4, z(1.0), Single)
            .unwrap();
        let result = on(&mut period, &slice, &mut curator);
        if paid <= 2 {
            assert!(result.is_ok());
            assert_eq!(curator.spent(), shares(Tree, 4, Single, paid));
        } else {
            assert!(matches!(result, Err(Refused::NotReserved { .. })));
        }
    }
}

#[test]
fn a_slice_of_another_pool_is_refused() {
    let mut other = simulated(Adjacency::ReplaceOne, 1, Event::NoOp);
    other.open_pool(10, 0).unwrap();
    let foreign = other.take_slice(10).unwrap();
    for participation in [Single, Repeated { most: 2, apart: 1 }] {
        let mut curator = simulated(
            Adjacency::ReplaceOne,
            1,
            shares(Toeplitz, 3, participation, 1),
        );
        curator.open_pool(10, 0).unwrap();
        let mut period = curator
            .prefix(Toeplitz, bound(1.0, 3), 3, z(1.0), participation)
            .unwrap();
        for _ in 0..2 {
            assert!(matches!(
                on(&mut period, &foreign, &mut curator),
                Err(Refused::Pool(PoolError::ForeignSlice))
            ));
            // Also when the own slice of that number took part.
            if period.steps() == 0 {
                let own = curator.take_slice(10).unwrap();
                on(&mut period, &own, &mut curator).unwrap();
            }
        }
    }
}

#[test]
fn slices_come_again_only_as_often_and_as_far_apart_as_was_said() {
    let participation = Repeated { most: 2, apart: 2 };
    let mut curator = simulated(
        Adjacency::ReplaceOne,
        1,
        shares(Toeplitz, 8, participation, 1),
    );
    curator.open_pool(20, 0).unwrap();
    let mut period = curator
        .prefix(Toeplitz, bound(1.0, 3), 8, z(1.0), participation)
        .unwrap();
    let [a, b] = [(); 2].map(|()| curator.take_slice(10).unwrap());
    let refused = |result: Result<Vec<f64>, Refused>| {
        matches!(result, Err(Refused::Prefix(PrefixError::TookPart { .. })))
    };
    on(&mut period, &a, &mut curator).unwrap();
    assert!(refused(on(&mut period, &a, &mut curator)));
    on(&mut period, &b, &mut curator).unwrap();
    on(&mut period, &a, &mut curator).unwrap();
    on(&mut period, &b, &mut curator).unwrap();
    assert!(refused(on(&mut period, &a, &mut curator)));
    assert!(refused(on(&mut period, &b, &mut curator)));
    // Each slice paid once, for all its steps.
    assert_eq!(
        curator.settle().unwrap(),
        shares(Toeplitz, 8, participation, 1)
    );
}

#[test]
fn slices_need_positions_that_stay() {
    let mut curator = Curator::simulated(Adjacency::AddRemove, 1);
    let spend = Spend::Fixed(Event::gaussian(z(1.0)));
    curator.reserve(&spend).unwrap();
    for participation in [Single, Repeated { most: 2, apart: 1 }] {
        assert!(matches!(
            curator.prefix(Tree, bound(1.0, 3), 4, z(1.0), participation),
            Err(Refused::Pool(PoolError::Adjacency { .. }))
        ));
    }
    // All records in every step: add-remove is as good as any.
    let mut period = curator
        .prefix(Tree, bound(1.0, 3), 4, z(1.0), Every)
        .unwrap();
    assert!(all(&mut period, 0.5, &mut curator).is_ok());
}

#[test]
fn impossible_periods_are_refused_and_not_charged() {
    let mut curator = simulated(
        Adjacency::ReplaceOne,
        1,
        Event::gaussian(z(1e-20)).repeated(3),
    );
    let mut open = |kind, len, z| {
        curator
            .prefix(kind, bound(1.0, 3), len, z, Every)
            .err()
            .unwrap()
    };
    assert!(matches!(
        open(Tree, 0, z(1.0)),
        Refused::Prefix(PrefixError::NoSteps)
    ));
    assert!(matches!(
        open(Banded { band: 0 }, 4, z(1.0)),
        Refused::Prefix(PrefixError::NoBand)
    ));
    for bad in [1e-20, 1e30] {
        assert!(matches!(open(Toeplitz, 4, z(bad)), Refused::Noise(_)));
    }
    assert!(matches!(
        open(Toeplitz, 4, z(f64::MAX)),
        Refused::Prefix(PrefixError::NoiseOverflow { .. })
    ));
    assert_eq!(curator.spent(), Event::NoOp);
}
