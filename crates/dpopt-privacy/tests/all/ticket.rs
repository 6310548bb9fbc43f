//! Tickets: what they grant, what they cost, and the ways in which they can't be used.

use dpopt_privacy::ticket::{ForClaim, ForStep};
use dpopt_privacy::{
    Adjacency, Allocation, Body, Bound, ClipNorm, Curator, Delta, Epsilon, Event, FilterKind,
    FixedBlocks, LatticeError, LatticeSum, Ledger, Participation, PoolError, PrefixError,
    PrefixKind, Refused, Sample, SensitivityClaim, Spend, Ticket, TicketError, Which,
};

use crate::common::{bound, on_slices, positions, rate, z};

const BODY: u64 = 10;

fn body() -> Body {
    Body::of(BODY)
}

fn gaussian(count: u64) -> Event {
    Event::gaussian(z(1.0)).repeated(count)
}

fn curator(adjacency: Adjacency, seed: u64, spend: Event) -> Curator {
    let mut curator = Curator::simulated(adjacency, seed);
    if adjacency.record_count_is_public() {
        curator.open_pool(BODY, 0).unwrap();
    }
    curator.reserve(&Spend::Fixed(spend)).unwrap();
    curator
}

fn replace_one(spend: Event) -> Curator {
    curator(Adjacency::ReplaceOne, 1, spend)
}

/// The sum of one contribution for each position.
fn sum_within(bound: Bound, sample: &Sample) -> LatticeSum {
    let mut sum = LatticeSum::new(bound);
    for i in positions(sample) {
        sum.add_scaled(1.0 / (i as f64 + 2.0), &vec![1.0; bound.dim()]);
    }
    sum
}

fn sum(sample: &Sample) -> LatticeSum {
    sum_within(bound(1.0, 2), sample)
}

fn granted(curator: &mut Curator, which: Which<'_>) -> Ticket {
    curator.grant(which, body(), bound(1.0, 2), z(1.0)).unwrap()
}

fn redeem(curator: &mut Curator, ticket: Ticket) -> Result<Vec<f64>, Refused> {
    let sum = sum(ticket.sample());
    curator.redeem(ticket, sum)
}

fn is_void<T>(released: Result<T, Refused>) -> bool {
    matches!(released, Err(Refused::Ticket(TicketError::Void)))
}

#[test]
fn a_ticket_names_its_records_and_its_divisor_and_is_charged_when_redeemed() {
    let sampled = Event::gaussian(z(1.0)).poisson_sampled(rate(0.5));
    let fixed = Event::SampledWithoutReplacement {
        source_dataset_size: BODY,
        sample_size: 3,
        event: Box::new(Event::gaussian(z(1.0))),
    };
    let events = vec![
        gaussian(1),
        sampled.clone(),
        fixed.clone(),
        on_slices(gaussian(2)),
    ];
    let mut curator = replace_one(Event::composed(events));
    for (which, divisor) in [
        (Which::All, 10.0),
        (Which::Poisson(rate(0.5)), 5.0),
        (Which::FixedSize(3), 3.0),
        (Which::Next(4), 4.0),
    ] {
        let before = curator.spent().release_count();
        let ticket = granted(&mut curator, which);
        assert_eq!(ticket.sample().denominator(), divisor);
        assert!(ticket.sample().blocks().is_some());
        let read = positions(ticket.sample());
        assert!(read.is_sorted() && read.iter().all(|&i| i < BODY as usize));
        match which {
            Which::All => assert_eq!(read, (0..BODY as usize).collect::<Vec<_>>()),
            Which::FixedSize(_) => assert_eq!(read.len(), 3),
            Which::Next(_) => assert_eq!(read, [0, 1, 2, 3]),
            _ => {}
        }
        assert_eq!(curator.spent().release_count(), before);
        redeem(&mut curator, ticket).unwrap();
        assert_eq!(curator.spent().release_count(), before + 1);
    }
    let leaves = curator.spent().leaves();
    assert!(leaves.contains(&(sampled, 1)) && leaves.contains(&(fixed, 1)));
}

/// Under add-remove the number of records is declared, and how many there are is secret.
#[test]
fn a_declared_number_of_records_is_what_means_divide_by() {
    let event = Event::gaussian(z(1.0)).poisson_sampled(rate(1.0));
    let mut curator = curator(
        Adjacency::AddRemove,
        1,
        Event::composed(vec![gaussian(1), event]),
    );
    for which in [Which::All, Which::Poisson(rate(1.0))] {
        let body = Body::declared(100, 3);
        let ticket = curator.grant(which, body, bound(1.0, 2), z(1.0)).unwrap();
        assert_eq!(ticket.sample().denominator(), 100.0);
        assert_eq!(positions(ticket.sample()), [0, 1, 2]);
        assert!(ticket.sample().blocks().is_none());
    }
}

#[test]
fn what_is_refused_draws_no_sample_and_takes_no_slice() {
    let sampled = Event::gaussian(z(1.0)).poisson_sampled(rate(0.5));
    let spend = Event::composed(vec![sampled.repeated(2), on_slices(gaussian(1))]);
    let draws = |ask: &dyn Fn(&mut Curator)| {
        let mut curator = replace_one(spend.clone());
        ask(&mut curator);
        let drawn = positions(granted(&mut curator, Which::Poisson(rate(0.5))).sample());
        (drawn, curator.records_left(), curator.spent())
    };
    let untouched = draws(&|_| {});
    let too_wide = Bound::new(ClipNorm::new(1.0).unwrap(), 1 << 37).unwrap();
    for which in [
        Which::All,
        Which::Poisson(rate(0.4)),
        Which::FixedSize(3),
        Which::Next(3),
    ] {
        let refused = draws(&|curator| {
            // Less noise than was reserved, noise below the lattice, a vector too long for a stream.
            for (bound, z) in [
                (bound(1.0, 2), z(0.5)),
                (bound(1.0, 2), z(1e-300)),
                (too_wide, z(1.0)),
            ] {
                assert!(curator.grant(which, body(), bound, z).is_err());
            }
        });
        assert_eq!(refused, untouched);
    }
    let refused = draws(&|curator| {
        for (which, records) in [
            (Which::FixedSize(0), BODY),
            (Which::FixedSize(11), BODY),
            (Which::Poisson(rate(0.5)), u64::MAX),
            (Which::Next(0), BODY),
            (Which::Next(11), BODY),
        ] {
            assert!(
                curator
                    .grant(which, Body::of(records), bound(1.0, 2), z(1.0))
                    .is_err()
            );
        }
    });
    assert_eq!(refused, untouched);
}

#[test]
fn samples_that_have_no_theorem_or_no_records_are_refused_by_name() {
    let mut curators = [Adjacency::AddRemove, Adjacency::ZeroOut]
        .map(|adjacency| (adjacency, curator(adjacency, 1, gaussian(1))));
    for (adjacency, curator) in &mut curators {
        let refused = curator.grant(Which::FixedSize(1), body(), bound(1.0, 2), z(1.0));
        assert!(
            matches!(refused, Err(Refused::FixedSizeAdjacency { adjacency: of }) if of == *adjacency)
        );
    }
    let mut curator = replace_one(gaussian(1));
    let mut refused = |which, records| {
        let granted = curator.grant(which, Body::of(records), bound(1.0, 2), z(1.0));
        granted.err().unwrap()
    };
    for (size, records) in [(0, 5), (6, 5), (0, 0)] {
        assert!(matches!(
            refused(Which::FixedSize(size), records),
            Refused::SampleSize { .. }
        ));
    }
    assert!(matches!(
        refused(Which::Poisson(rate(0.5)), (1 << 32) + 1),
        Refused::Lattice(LatticeError::TooManyRecords { .. })
    ));
    assert!(matches!(
        refused(Which::Next(0), BODY),
        Refused::Pool(PoolError::EmptySlice)
    ));
    assert!(matches!(
        refused(Which::Next(11), BODY),
        Refused::Pool(PoolError::UsedUp {
            asked: 11,
            left: 10
        })
    ));
    let mut poolless = Curator::simulated(Adjacency::ReplaceOne, 1);
    let refused = poolless.grant(Which::Next(1), body(), bound(1.0, 2), z(1.0));
    assert!(matches!(refused, Err(Refused::Pool(PoolError::NotOpen))));
}

#[test]
fn a_ticket_of_another_curator_is_refused() {
    let mut one = replace_one(gaussian(2));
    let mut other = replace_one(gaussian(2));
    // As many turns as the other has taken.
    let ticket = granted(&mut one, Which::All);
    let own = granted(&mut other, Which::All);
    assert!(matches!(
        redeem(&mut other, ticket),
        Err(Refused::Ticket(TicketError::OtherCurator))
    ));
    assert_eq!(other.spent(), Event::NoOp);
    // Its own ticket is as good as before.
    redeem(&mut other, own).unwrap();
}

/// What an inner run of repeat-and-select was granted is no use to the next one.
#[test]
fn a_ticket_smuggled_out_of_an_inner_run_is_refused() {
    let tuning = dpopt_privacy::selection::Tuning::new(gaussian(1), 50.0, 1.0).unwrap();
    let mut curator = Curator::simulated(Adjacency::AddRemove, 3);
    curator.reserve(&Spend::Fixed(tuning.event())).unwrap();
    let smuggled = std::cell::RefCell::new(None::<Ticket>);
    let foreign = std::cell::Cell::new(0);
    curator
        .repeat_and_select(&tuning, |inner| {
            if let Some(ticket) = smuggled.take() {
                let refused = redeem(inner, ticket);
                assert!(matches!(
                    refused,
                    Err(Refused::Ticket(TicketError::OtherCurator))
                ));
                foreign.set(foreign.get() + 1);
            }
            smuggled.replace(Some(granted(inner, Which::All)));
            ((), 0.0)
        })
        .unwrap();
    assert!(foreign.get() > 0);
    let left = smuggled.take().unwrap();
    assert!(redeem(&mut curator, left).is_err());
}

#[test]
fn a_ticket_is_good_until_anything_else_is_done() {
    let epsilon = Epsilon::new(1.0).unwrap();
    let choice = Event::ExponentialMechanism { epsilon };
    let spend = Event::composed(vec![gaussian(3), choice.repeated(2)]);
    let meanwhile: [&dyn Fn(&mut Curator); 6] = [
        // Another grant, redeemed or not.
        &|curator| drop(granted(curator, Which::All)),
        &|curator| {
            let ticket = granted(curator, Which::All);
            redeem(curator, ticket).unwrap();
        },
        &|curator| {
            let ticket = curator.grant_choice(body(), bound(1.0, 2), epsilon);
            drop(ticket.unwrap());
        },
        // A period is opened, and pays.
        &|curator| {
            let every = Participation::Every;
            let period = curator.prefix(PrefixKind::Tree, bound(1.0, 2), 2, z(1.0), every);
            drop(period.unwrap());
        },
        // The reservation ends, for good or for one like it.
        &|curator| drop(curator.settle().unwrap()),
        &|curator| {
            curator.settle().unwrap();
            curator.reserve(&Spend::Fixed(gaussian(3))).unwrap();
        },
    ];
    for act in meanwhile {
        let mut curator = replace_one(spend.clone());
        let ticket = granted(&mut curator, Which::All);
        act(&mut curator);
        let before = curator.spent();
        assert!(is_void(redeem(&mut curator, ticket)));
        assert_eq!(curator.spent(), before);
    }
    // What is refused, asked for or only looked at does it no harm; nor does taking a slice.
    let mut curator = replace_one(spend);
    let ticket = granted(&mut curator, Which::All);
    assert!(
        curator
            .grant(Which::All, body(), bound(1.0, 2), z(9.0))
            .is_err()
    );
    assert!(curator.reserve(&Spend::Fixed(gaussian(1))).is_err());
    curator.take_slice(2).unwrap();
    curator.draw_index(7);
    curator.draw_normals(&mut [0.0; 3]).unwrap();
    redeem(&mut curator, ticket).unwrap();
}

#[test]
fn a_dropped_ticket_costs_nothing_and_its_slice_stays_taken() {
    let mut curator = replace_one(on_slices(gaussian(1)));
    let ticket = granted(&mut curator, Which::Next(4));
    let slice = ticket.sample().slice().unwrap().clone();
    drop(ticket);
    assert_eq!(curator.spent(), Event::NoOp);
    assert_eq!(curator.records_taken(), 4);
    // The next slice holds other records; the dropped one has its whole share left.
    let next = granted(&mut curator, Which::Next(6));
    assert_eq!(positions(next.sample()), [4, 5, 6, 7, 8, 9]);
    redeem(&mut curator, next).unwrap();
    let again = granted(&mut curator, Which::Slice(&slice));
    assert_eq!(positions(again.sample()), [0, 1, 2, 3]);
    redeem(&mut curator, again).unwrap();
    for which in [Which::Slice(&slice), Which::Next(1)] {
        assert!(curator.grant(which, body(), bound(1.0, 2), z(1.0)).is_err());
    }
}

/// A dropped sample is not drawn again.
#[test]
fn the_sample_of_a_dropped_ticket_is_gone() {
    let event = Event::gaussian(z(1.0)).poisson_sampled(rate(0.5));
    let mut curator = replace_one(event.repeated(1));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let ticket = granted(&mut curator, Which::Poisson(rate(0.5)));
        seen.insert(positions(ticket.sample()));
    }
    assert!(seen.len() > 10, "{seen:?}");
    assert_eq!(curator.spent(), Event::NoOp);
}

#[test]
fn the_first_the_last_and_the_shortest_slice() {
    let mut curator = replace_one(on_slices(gaussian(1)));
    for (len, range) in [(1, 0..1), (8, 1..9), (1, 9..10)] {
        let ticket = granted(&mut curator, Which::Next(len));
        assert_eq!(positions(ticket.sample()), range.collect::<Vec<_>>());
        assert_eq!(ticket.sample().denominator(), len as f64);
        redeem(&mut curator, ticket).unwrap();
    }
    let refused = curator.grant(Which::Next(1), body(), bound(1.0, 2), z(1.0));
    assert!(matches!(
        refused,
        Err(Refused::Pool(PoolError::UsedUp { asked: 1, left: 0 }))
    ));
}

/// A pool of more positions than there are records ends with the records.
#[test]
fn a_slice_beyond_the_records_reads_none() {
    let mut curator = replace_one(on_slices(gaussian(1)));
    for expected in [0..3, 3..3] {
        let ticket = curator
            .grant(Which::Next(5), Body::of(3), bound(1.0, 2), z(1.0))
            .unwrap();
        assert_eq!(positions(ticket.sample()), expected.collect::<Vec<_>>());
        redeem(&mut curator, ticket).unwrap();
    }
}

/// A release over nothing is noise, and costs what it would cost over many.
#[test]
fn nothing_to_read_is_charged_like_anything_else() {
    let rare = Event::gaussian(z(1.0)).poisson_sampled(rate(1e-15));
    let mut curator = curator(
        Adjacency::AddRemove,
        1,
        Event::composed(vec![gaussian(1), rare]),
    );
    for (which, body) in [
        (Which::All, Body::declared(7, 0)),
        (Which::Poisson(rate(1e-15)), Body::declared(7, 7)),
    ] {
        let ticket = curator.grant(which, body, bound(1.0, 2), z(1.0)).unwrap();
        assert!(positions(ticket.sample()).is_empty());
        let released = redeem(&mut curator, ticket).unwrap();
        assert!(released.iter().all(|x| *x != 0.0));
    }
    assert_eq!(curator.spent().release_count(), 2);
}

#[test]
fn a_sample_of_one_record_out_of_one() {
    let event = Event::SampledWithoutReplacement {
        source_dataset_size: 1,
        sample_size: 1,
        event: Box::new(Event::gaussian(z(1.0))),
    };
    let mut curator = replace_one(event);
    let ticket = curator
        .grant(Which::FixedSize(1), Body::of(1), bound(1.0, 2), z(1.0))
        .unwrap();
    assert_eq!(positions(ticket.sample()), [0]);
    redeem(&mut curator, ticket).unwrap();
}

#[test]
fn a_sum_that_was_not_granted_is_refused() {
    let mut curator = replace_one(gaussian(1));
    let wide = |radius: f64, dim| Bound::new(ClipNorm::new(radius).unwrap(), dim).unwrap();
    let blocks = FixedBlocks::of_all(Adjacency::ZeroOut).unwrap();
    for other in [
        LatticeSum::new(wide(2.0, 2)),
        LatticeSum::new(wide(1.0, 3)),
        LatticeSum::new(wide(1.0, 1)),
        LatticeSum::new(wide(0.5, 2)),
        LatticeSum::weighted(wide(2.0, 2), 1.0, 1.0),
        LatticeSum::in_blocks(bound(1.0, 2), blocks),
    ] {
        let in_blocks = other.blocks().is_some();
        let ticket = granted(&mut curator, Which::All);
        match curator.redeem(ticket, other).unwrap_err() {
            Refused::Ticket(TicketError::OtherBound { granted_dim, .. }) => {
                assert!(granted_dim == 2 && !in_blocks);
            }
            Refused::Ticket(TicketError::OtherBlocks { .. }) => assert!(in_blocks),
            refused => panic!("{refused}"),
        }
    }
    let ticket = granted(&mut curator, Which::All);
    let norm = curator.redeem_norm(ticket, LatticeSum::new(wide(2.0, 2)), &[]);
    assert!(norm.is_err());
    assert_eq!(curator.spent(), Event::NoOp);
    // A shorter clip within the granted bound is a sum that was granted.
    let ticket = granted(&mut curator, Which::All);
    let shorter = LatticeSum::weighted(bound(1.0, 2), 0.5, 0.5);
    curator.redeem(ticket, shorter).unwrap();
}

/// A ledger that can't be written any more stops a release whose records were read already.
#[test]
fn a_ledger_that_is_gone_refuses_what_was_granted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let (epsilon, delta) = (Epsilon::new(5.0).unwrap(), Delta::new(1e-6).unwrap());
    let adjacency = Adjacency::ReplaceOne;
    let ledger = Ledger::open_or_create(&path, epsilon, delta, adjacency, FilterKind::Gdp).unwrap();
    let mut curator = Curator::protected(adjacency)
        .unwrap()
        .with_ledger(ledger)
        .unwrap();
    let spend = Event::gaussian(z(20.0)).repeated(2);
    curator.reserve(&Spend::Fixed(spend)).unwrap();
    let grant = |curator: &mut Curator| {
        curator
            .grant(Which::All, body(), bound(1.0, 2), z(20.0))
            .unwrap()
    };
    let ticket = grant(&mut curator);
    std::fs::remove_file(&path).unwrap();
    let refused = redeem(&mut curator, ticket).unwrap_err();
    assert!(matches!(refused, Refused::Ledger(_)), "{refused}");
    assert_eq!(curator.spent(), Event::NoOp);
    // Nor is a later one paid.
    let ticket = grant(&mut curator);
    assert!(redeem(&mut curator, ticket).is_err());
    assert_eq!(curator.spent(), Event::NoOp);
}

#[test]
fn a_claim_needs_a_reservation_that_names_it_before_anything_is_read() {
    let radius = ClipNorm::new(0.5).unwrap();
    let adjacency = Adjacency::ReplaceOne;
    let claim = SensitivityClaim::new(radius, 4.0, 2, adjacency, "a test").unwrap();
    let grant = |curator: &mut Curator| -> Result<Ticket<ForClaim>, Refused> {
        curator.grant_claimed(Which::Next(3), body(), &claim, z(1.0))
    };
    let share = Spend::Fixed(on_slices(gaussian(1)));
    let mut unnamed = Curator::simulated(adjacency, 1);
    unnamed.open_pool(BODY, 0).unwrap();
    unnamed.reserve(&share).unwrap();
    assert!(matches!(
        grant(&mut unnamed),
        Err(Refused::ClaimNotReserved { argument: "a test" })
    ));
    assert_eq!(unnamed.records_taken(), 0);
    let mut named = Curator::simulated(adjacency, 1);
    named.open_pool(BODY, 0).unwrap();
    named.reserve_claimed(&share, "a test").unwrap();
    let ticket = grant(&mut named).unwrap();
    assert_eq!(positions(ticket.sample()), [0, 1, 2]);
    let released = named.redeem_claimed(ticket, &[3.0, f64::NAN]).unwrap();
    assert_eq!(released.len(), 2);
    // A sum that is enforced may be released under it too, but no claim of another adjacency.
    let other = SensitivityClaim::new(radius, 4.0, 2, Adjacency::ZeroOut, "a test").unwrap();
    assert!(matches!(
        named.grant_claimed(Which::Next(3), body(), &other, z(1.0)),
        Err(Refused::AdjacencyMismatch { .. })
    ));
    assert_eq!(named.records_taken(), 3);
}

/// Of a sample the price is about a record that is in it or not. A claim between neighbours that replace a record says nothing of that: the
/// size of the sample, times any number, moves by nothing between them, and shows who was drawn.
#[test]
fn a_claim_between_neighbours_that_replace_a_record_is_none_of_a_sample() {
    let half = rate(0.5);
    let allocation = Allocation {
        steps: 3,
        participations: 1,
    };
    for adjacency in [
        Adjacency::ReplaceOne,
        Adjacency::ZeroOut,
        Adjacency::AddRemove,
    ] {
        let radius = ClipNorm::new(0.5).unwrap();
        let claim = SensitivityClaim::new(radius, 4.0, 2, adjacency, "a test").unwrap();
        let mut curator = Curator::simulated(adjacency, 1);
        let event = Event::gaussian(z(1.0)).poisson_sampled(half);
        curator
            .reserve_claimed(&Spend::Fixed(event), "a test")
            .unwrap();
        for which in [
            Which::Allocated(allocation),
            Which::Truncated(half, 9),
            Which::Poisson(half),
        ] {
            let granted = curator.grant_claimed(which, body(), &claim, z(1.0));
            let covered = adjacency == Adjacency::AddRemove && which == Which::Poisson(half);
            match granted.err() {
                None => assert!(covered, "{which:?} under {adjacency}"),
                Some(Refused::ClaimOfSample { .. }) => {
                    assert!(!covered, "{which:?} under {adjacency}");
                }
                Some(other) => panic!("{which:?} under {adjacency}: {other}"),
            }
        }
    }
}

fn period(curator: &mut Curator, participation: Participation) -> dpopt_privacy::Prefix {
    curator
        .prefix(
            PrefixKind::Independent,
            bound(1.0, 2),
            3,
            z(1.0),
            participation,
        )
        .unwrap()
}

#[test]
fn a_step_of_one_period_is_no_step_of_another() {
    let mut curator = replace_one(gaussian(2));
    let mut one = period(&mut curator, Participation::Every);
    let mut other = period(&mut curator, Participation::Every);
    let grant = |period: &dpopt_privacy::Prefix, curator: &mut Curator| -> Ticket<ForStep> {
        period.grant(Which::All, body(), curator).unwrap()
    };
    let ticket = grant(&one, &mut curator);
    let step = sum(ticket.sample());
    assert!(matches!(
        other.redeem(ticket, step, &mut curator),
        Err(Refused::Ticket(TicketError::OtherPeriod))
    ));
    assert_eq!((one.steps(), other.steps()), (0, 0));
    // A step after another one, of the same period or of the other.
    let stale = grant(&one, &mut curator);
    let ticket = grant(&other, &mut curator);
    let step = sum(ticket.sample());
    other.redeem(ticket, step, &mut curator).unwrap();
    let step = sum(stale.sample());
    assert!(is_void(one.redeem(stale, step, &mut curator)));
    let ticket = grant(&one, &mut curator);
    let wide = Bound::new(ClipNorm::new(2.0).unwrap(), 2).unwrap();
    assert!(matches!(
        one.redeem(ticket, LatticeSum::new(wide), &mut curator),
        Err(Refused::Ticket(TicketError::OtherBound { .. }))
    ));
    assert_eq!(one.steps(), 0);
    let mut stranger = replace_one(gaussian(2));
    let ticket = grant(&one, &mut curator);
    assert!(matches!(
        one.grant(Which::All, body(), &mut stranger),
        Err(Refused::Prefix(PrefixError::OtherCurator))
    ));
    let step = sum(ticket.sample());
    assert!(matches!(
        one.redeem(ticket, step, &mut stranger),
        Err(Refused::Ticket(TicketError::OtherCurator))
    ));
}

#[test]
fn a_slice_pays_when_its_first_step_is_redeemed() {
    let repeated = Participation::Repeated { most: 2, apart: 1 };
    let plan = dpopt_privacy::PrefixNoise::new(PrefixKind::Independent, 3, repeated).unwrap();
    let mut curator = replace_one(on_slices(plan.event(z(1.0)).unwrap()));
    let mut period = period(&mut curator, repeated);
    for which in [Which::All, Which::Poisson(rate(0.5)), Which::FixedSize(2)] {
        assert!(matches!(
            period.grant(which, body(), &mut curator),
            Err(Refused::Prefix(PrefixError::WrongRecords { .. }))
        ));
    }
    let ticket = period.grant(Which::Next(4), body(), &mut curator).unwrap();
    let slice = ticket.sample().slice().unwrap().clone();
    assert_eq!(curator.spent(), Event::NoOp);
    let step = sum(ticket.sample());
    period.redeem(ticket, step, &mut curator).unwrap();
    let paid = curator.spent();
    assert_ne!(paid, Event::NoOp);
    let ticket = period
        .grant(Which::Slice(&slice), body(), &mut curator)
        .unwrap();
    let step = sum(ticket.sample());
    period.redeem(ticket, step, &mut curator).unwrap();
    assert_eq!(curator.spent(), paid);
    assert!(matches!(
        period.grant(Which::Slice(&slice), body(), &mut curator),
        Err(Refused::Prefix(PrefixError::TookPart { times: 2, .. }))
    ));
}

#[test]
fn a_choice_reads_what_it_was_granted_and_pays_once() {
    let epsilon = Epsilon::new(50.0).unwrap();
    let choice = Event::ExponentialMechanism { epsilon };
    let mut curator = replace_one(choice.clone().repeated(1));
    let too_many = Epsilon::new(49.0).unwrap();
    assert!(
        curator
            .grant_choice(body(), bound(1.0, 2), too_many)
            .is_err()
    );
    // No candidates: nothing is charged.
    let ticket = curator
        .grant_choice(body(), bound(1.0, 2), epsilon)
        .unwrap();
    assert!(curator.redeem_choice(ticket).is_err());
    let mut ticket = curator
        .grant_choice(body(), bound(1.0, 2), epsilon)
        .unwrap();
    let wide = Bound::new(ClipNorm::new(2.0).unwrap(), 2).unwrap();
    assert!(matches!(
        ticket.add(LatticeSum::new(wide), &[]),
        Err(TicketError::OtherBound { .. })
    ));
    for shift in [[50.0, 0.0], [0.0, 0.0], [f64::NAN, 40.0]] {
        let sum = sum(ticket.sample());
        ticket.add(sum, &shift).unwrap();
    }
    assert_eq!(curator.redeem_choice(ticket).unwrap(), 1);
    assert_eq!(curator.spent().leaves(), [(choice, 1)]);
    assert!(
        curator
            .grant_choice(body(), bound(1.0, 2), epsilon)
            .is_err()
    );
}
