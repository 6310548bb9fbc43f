//! Random allocations, and samples with a largest batch: which records they hold, what they cost, and what is refused.

use dpopt_privacy::{
    Adjacency, Allocation, Body, Curator, Event, Refused, Spend, TicketError, Which,
};

use crate::common::{bound, positions, rate, release, simulated, sum, z};

const RELATIONS: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];

fn allocation(steps: u64, participations: u64) -> Allocation {
    Allocation {
        steps,
        participations,
    }
}

fn cost(of: Allocation, times: u64) -> Event {
    of.event(Event::gaussian(z(2.0))).repeated(times)
}

/// The steps that each of ten records is in.
fn epoch(curator: &mut Curator, of: Allocation) -> Vec<Vec<u64>> {
    let mut steps = vec![Vec::new(); 10];
    for step in 0..of.steps {
        let ticket = curator
            .grant(Which::Allocated(of), Body::of(10), bound(1.0, 1), z(2.0))
            .unwrap();
        assert_eq!(ticket.sample().denominator(), 10.0 * of.share());
        let read = positions(ticket.sample());
        assert!(read.windows(2).all(|pair| pair[0] < pair[1]));
        read.iter().for_each(|&i| steps[i].push(step));
        curator.redeem(ticket, sum(&[[1.0]], 1.0)).unwrap();
    }
    steps
}

/// Of 20,000 epochs: each record is in so many steps, in each set of them equally often, and in the same step as another one as often as
/// independent sets are, to within five deviations (a false alarm once in 10^5, over all numbers that are compared).
#[test]
fn each_record_is_in_a_uniform_set_of_steps_of_its_own() {
    for of in [allocation(4, 1), allocation(4, 2), allocation(3, 3)] {
        let many = 20_000;
        let mut curator = simulated(Adjacency::ZeroOut, 11, cost(of, many));
        let sets = [4.0, 6.0, 1.0][of.participations as usize - 1];
        let mut found = std::collections::BTreeMap::new();
        let mut same = 0.0;
        for _ in 0..many {
            let steps = epoch(&mut curator, of);
            assert!(
                steps
                    .iter()
                    .all(|own| own.len() as u64 == of.participations)
            );
            *found.entry(steps[3].clone()).or_insert(0.0) += 1.0;
            same += f64::from(u8::from(steps[3] == steps[8]));
        }
        let near = |k: f64| {
            let (n, p) = (many as f64, 1.0 / sets);
            (k - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt()
        };
        assert_eq!(found.len() as f64, sets);
        assert!(found.values().all(|&k| near(k)), "{found:?}");
        assert!(near(same), "{same}");
        assert_eq!(curator.spent(), cost(of, many));
    }
}

/// The whole is charged before the first release, and every step is handed out once, released or not.
#[test]
fn an_allocation_is_paid_for_once_and_first() {
    for adjacency in RELATIONS {
        let of = allocation(3, 1);
        let mut curator = simulated(adjacency, 1, cost(of, 2));
        let which = Which::Allocated(of);
        let one = || sum(&[[1.0]], 1.0);
        // A ticket that is dropped takes its step with it, and nothing is paid.
        drop(
            curator
                .grant(which, Body::of(10), bound(1.0, 1), z(2.0))
                .unwrap(),
        );
        assert_eq!(curator.spent(), Event::NoOp);
        release(&mut curator, which, one(), z(2.0)).unwrap();
        assert_eq!(curator.spent(), cost(of, 1));
        release(&mut curator, which, one(), z(2.0)).unwrap();
        assert_eq!(curator.spent(), cost(of, 1));
        // The second begins, and pays.
        for _ in 0..3 {
            release(&mut curator, which, one(), z(2.0)).unwrap();
            assert_eq!(curator.spent(), cost(of, 2));
        }
        let refused = release(&mut curator, which, one(), z(2.0));
        assert!(matches!(refused, Err(Refused::NotReserved { .. })));
    }
}

/// A step is no step of an allocation of other noise, steps, records or order; an older ticket is void; what is settled is over.
#[test]
fn steps_of_one_allocation_have_one_draw() {
    let of = allocation(3, 1);
    let mut curator = simulated(Adjacency::ZeroOut, 1, cost(of, 2));
    let grant = |curator: &mut Curator, of, records, noise| {
        curator.grant(
            Which::Allocated(of),
            Body::of(records),
            bound(1.0, 1),
            z(noise),
        )
    };
    let first = grant(&mut curator, of, 10, 2.0).unwrap();
    for (of, records, noise) in [
        (of, 10, 3.0),
        (of, 11, 2.0),
        (allocation(4, 1), 10, 2.0),
        (allocation(3, 2), 10, 2.0),
    ] {
        let refused = grant(&mut curator, of, records, noise).err();
        assert!(matches!(
            refused,
            Some(Refused::OtherAllocation { left: 2 })
        ));
    }
    curator.redeem(first, sum(&[[1.0]], 1.0)).unwrap();
    let second = grant(&mut curator, of, 10, 2.0).unwrap();
    let third = grant(&mut curator, of, 10, 2.0).unwrap();
    let void = curator.redeem(second, sum(&[[1.0]], 1.0));
    assert!(matches!(void, Err(Refused::Ticket(TicketError::Void))));
    curator.redeem(third, sum(&[[1.0]], 1.0)).unwrap();
    // What is settled is over: the next step needs a reservation.
    grant(&mut curator, of, 10, 2.0).map(drop).unwrap();
    assert_eq!(curator.settle().unwrap(), cost(of, 1));
    let refused = grant(&mut curator, of, 10, 2.0).err();
    assert!(matches!(refused, Some(Refused::NotReserved { .. })));
}

#[test]
fn allocations_and_limits_that_there_are_not_are_refused() {
    let mut curator = simulated(Adjacency::ZeroOut, 1, cost(allocation(3, 1), 1));
    for (steps, times) in [(0, 0), (3, 0), (3, 4), (0, 1)] {
        let which = Which::Allocated(allocation(steps, times));
        let refused = release(&mut curator, which, sum(&[[1.0]], 1.0), z(2.0));
        assert!(matches!(refused, Err(Refused::Allocation { .. })));
    }
    // Five of ten are the mean.
    for most in [0, 1, 4] {
        let which = Which::Truncated(rate(0.5), most);
        let refused = release(&mut curator, which, sum(&[[1.0]], 1.0), z(2.0));
        assert!(matches!(refused, Err(Refused::LargestBatch { .. })));
    }
    let mut moving = Curator::simulated(Adjacency::AddRemove, 1);
    assert!(moving.reserve(&Spend::Fixed(limited(0.5, 5))).is_err());
    let which = Which::Truncated(rate(0.5), 5);
    let refused = release(&mut moving, which, sum(&[[1.0]], 1.0), z(2.0));
    assert!(matches!(refused, Err(Refused::TruncatedAdjacency { .. })));
}

fn limited(q: f64, most: u32) -> Event {
    Event::TruncatedSubsampledGaussian {
        dataset_size: 10,
        sampling_probability: rate(q),
        truncated_batch_size: most,
        noise_multiplier: z(2.0),
    }
}

/// Of 20,000 samples of at most three of ten: sizes have the law of min(Bin(10, q), 3), and each record is in its share, to within five
/// deviations (once in 10^5 over all).
#[test]
fn a_largest_batch_is_never_passed_and_everybody_is_as_likely() {
    let (q, most, many) = (0.25_f64, 3_u32, 20_000_u64);
    let mut curator = simulated(Adjacency::ReplaceOne, 5, limited(q, most).repeated(many));
    let (mut sizes, mut each) = ([0.0; 4], [0.0; 10]);
    for _ in 0..many {
        let which = Which::Truncated(rate(q), most);
        let ticket = curator
            .grant(which, Body::of(10), bound(1.0, 1), z(2.0))
            .unwrap();
        assert_eq!(ticket.sample().denominator(), 2.5);
        let read = positions(ticket.sample());
        assert!(read.windows(2).all(|pair| pair[0] < pair[1]));
        sizes[read.len()] += 1.0;
        read.iter().for_each(|&i| each[i] += 1.0);
        curator.redeem(ticket, sum(&[[1.0]], 1.0)).unwrap();
    }
    let near = |found: f64, p: f64| {
        let n = many as f64;
        (found - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt()
    };
    let mut law = [0.0; 4];
    let mut choose = 1.0;
    for k in 0..=10_i32 {
        law[k.min(3) as usize] += choose * q.powi(k) * (1.0 - q).powi(10 - k);
        choose *= f64::from(10 - k) / f64::from(k + 1);
    }
    for (found, p) in sizes.into_iter().zip(law) {
        assert!(near(found, p), "{sizes:?} {law:?}");
    }
    let share = (law[1] + 2.0 * law[2] + 3.0 * law[3]) / 10.0;
    assert!(each.iter().all(|&k| near(k, share)), "{each:?} {share}");
    let refused = release(
        &mut curator,
        Which::Poisson(rate(q)),
        sum(&[[1.0]], 1.0),
        z(2.0),
    );
    assert!(matches!(refused, Err(Refused::NotReserved { .. })));
}
