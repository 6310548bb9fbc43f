//! Parts of records on several ranks: orders, hold-outs, passes and positions across them, and what is refused. The recorded streams have
//! every kind of release; these are what a stream has no case for.

use std::time::Duration;

use dpopt_linalg::{Design, JlMap};
use dpopt_oracle::query::{BallGradient, Offsets};
use dpopt_oracle::{
    AskError, ClosureLoss, Constants, ConvexGlm, Convexity, DataError, EstimatorError, Glm, Linear,
    Oracle as _, OutputPerturbed, Pass, PrivateData, PrivateMean,
};
use dpopt_privacy::exchange::ThreadRanks;
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, ExchangeError, NoiseMultiplier, Refused, SensitivityClaim,
    Spend, Together, Which,
};

const RECORDS: usize = 90;
const DIM: usize = 3;
const ADJACENCY: Adjacency = Adjacency::ReplaceOne;

fn z(multiplier: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(multiplier).unwrap()
}

fn clip(radius: f64) -> ClipNorm {
    ClipNorm::new(radius).unwrap()
}

/// What each of these ranks makes of it.
fn on<T: Send>(ranks: usize, work: impl Fn(&Together) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let all = ThreadRanks::new(ranks, Duration::MAX);
        let started = all
            .into_iter()
            .map(|rank| scope.spawn(move || work(&Together::new(Box::new(rank)).unwrap())));
        let started: Vec<_> = started.collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// The rows of a rank; all, without one.
fn own(together: Option<&Together>) -> std::ops::Range<usize> {
    let Some(rank) = together else {
        return 0..RECORDS;
    };
    let all = rank.ranks() * rank.ranks();
    let at = |k: usize| RECORDS * k * k / all;
    at(rank.rank())..at(rank.rank() + 1)
}

fn part(together: Option<&Together>, row_norm: f64) -> PrivateData {
    let rows: Vec<f64> = (0..RECORDS * DIM).map(|k| 0.5 * (k as f64).sin()).collect();
    let labels: Vec<f32> = (0..RECORDS)
        .map(|i| if i % 3 == 0 { 1.0 } else { -1.0 })
        .collect();
    let own = own(together);
    let rows = rows[own.start * DIM..own.end * DIM].to_vec();
    let design = Design::dense(DIM, rows).unwrap();
    let labels = labels[own].to_vec();
    PrivateData::made_up(design, labels, clip(row_norm), ADJACENCY, None).unwrap()
}

fn data(together: Option<&Together>) -> PrivateData {
    let data = part(together, 1.0);
    match together {
        Some(together) => data.joined(together).unwrap(),
        None => data,
    }
}

fn curator(together: Option<&Together>) -> Curator {
    let curator = Curator::simulated(ADJACENCY, 7);
    match together {
        Some(together) => curator.joined(together).unwrap(),
        None => curator,
    }
}

/// Means over slices, and of everything.
fn means(data: &PrivateData, together: Option<&Together>) -> Vec<Vec<f64>> {
    let mut means = PrivateMean::new(data, Glm::Logistic, curator(together)).unwrap();
    let one = Event::gaussian(z(2.0));
    let on_slices = Event::ParallelComposed {
        events: vec![one.clone()],
    };
    let spend = Spend::Fixed(Event::composed(vec![one, on_slices]));
    means.books().reserve(&spend).unwrap();
    let point = [0.1, -0.3, 0.2];
    let query = Linear::field(&point, clip(1.0));
    [Which::Next(20), Which::All, Which::Next(31)]
        .map(|over| means.release(&query, over, z(2.0)).unwrap().unwrap().mean)
        .to_vec()
}

/// A random order of all records, whose slices lie across the ranks.
#[test]
fn an_order_is_of_the_records_of_all_ranks() {
    let ordered = |together: Option<&Together>, seed| {
        let data = data(together).in_random_order(seed).unwrap();
        assert_eq!(data.public_records(), RECORDS as u64);
        means(&data, together)
    };
    let expected = ordered(None, 5);
    assert_ne!(expected, means(&data(None), None));
    for ranks in [1, 2, 3] {
        let found = on(ranks, |together| ordered(Some(together), 5));
        assert_eq!(found, vec![expected.clone(); ranks]);
    }
    let other = on(2, |together| {
        let seed = together.rank() as u64;
        data(Some(together)).in_random_order(seed).err()
    });
    for error in other {
        assert!(matches!(
            error,
            Some(DataError::Exchange(ExchangeError::Disagree {
                what: "the seed of the order",
                ..
            }))
        ));
    }
}

/// Both parts of a split lie across the ranks, and each has its own releases.
#[test]
fn who_is_held_out_is_drawn_from_the_records_of_all_ranks() {
    let both = |together: Option<&Together>| {
        let (rest, held) = data(together).set_aside(30, 8).unwrap();
        [(rest, 60), (held, 30)].map(|(part, records)| {
            assert_eq!(part.public_records(), records);
            let mut means = PrivateMean::new(&part, Glm::Logistic, curator(together)).unwrap();
            let spend = Spend::Fixed(Event::gaussian(z(2.0)));
            means.books().reserve(&spend).unwrap();
            let query = Linear::field(&[0.2; DIM], clip(1.0));
            let released = means.release(&query, Which::All, z(2.0));
            released.unwrap().unwrap().mean
        })
    };
    let expected = both(None);
    assert_eq!(on(3, |together| both(Some(together))), vec![expected; 3]);
}

/// The point of a pass goes from rank to rank, in the order of the records.
#[test]
fn a_pass_goes_over_the_records_of_all_ranks_in_order() {
    let released = |together: Option<&Together>, seed: Option<u64>| {
        let data = match seed {
            Some(seed) => data(together).in_random_order(seed).unwrap(),
            None => data(together),
        };
        let loss = ConvexGlm::new(Glm::Logistic).unwrap();
        let mut passes = OutputPerturbed::new(&data, loss, curator(together)).unwrap();
        let events = vec![Event::gaussian(z(2.0))];
        let spend = Spend::Fixed(Event::ParallelComposed { events });
        passes.books().reserve(&spend).unwrap();
        let zeros = [0.0; DIM];
        [40, 50].map(|records| {
            let pass = Pass {
                start: &[0.5, 0.0, 0.0],
                centre: &zeros,
                modulus: 0.1,
                step_size: 0.5,
                origin: &zeros,
                radius: 2.0,
                records,
            };
            passes.pass(&pass, z(2.0)).unwrap().mean
        })
    };
    for seed in [None, Some(4)] {
        let expected = released(None, seed);
        for ranks in [2, 4] {
            let found = on(ranks, |together| released(Some(together), seed));
            assert_eq!(found, vec![expected.clone(); ranks]);
        }
    }
}

/// As a hold-out with a solver of slices asks for.
#[test]
fn a_part_that_was_set_aside_has_an_order_of_its_own() {
    let both = |together: Option<&Together>| {
        let (rest, held) = data(together).set_aside(30, 8).unwrap();
        let rest = rest.in_random_order(3).unwrap();
        let held = held.in_random_order(4).unwrap();
        assert_eq!((rest.public_records(), held.public_records()), (60, 30));
        means(&rest, together)
    };
    let expected = both(None);
    for ranks in [1, 2, 3] {
        let found = on(ranks, |together| both(Some(together)));
        assert_eq!(found, vec![expected.clone(); ranks]);
    }
}

/// Offsets are each position's own: that among all records, through a map of the rows too.
#[test]
fn a_query_that_goes_by_position_goes_by_that_of_all_ranks() {
    let released = |together: Option<&Together>, data: &PrivateData| {
        let dim = data.dim();
        let mut curator = curator(together);
        let offsets = Offsets::draw(&mut curator, dim, 0.5, RECORDS.try_into().unwrap()).unwrap();
        let mut means = PrivateMean::new(data, Glm::Logistic, curator).unwrap();
        let spend = Spend::Fixed(Event::gaussian(z(2.0)));
        means.books().reserve(&spend).unwrap();
        let query = BallGradient {
            point: &vec![0.2; dim],
            offsets: &offsets,
            clip: clip(1.0),
        };
        let released = means.release(&query, Which::All, z(2.0));
        released.unwrap().unwrap().mean
    };
    let both = |together: Option<&Together>| {
        let map = JlMap::gaussian(2, DIM, 5).unwrap();
        let data = data(together);
        let embedded = data.embedded(&map, clip(1.0)).unwrap();
        [&data, &embedded].map(|data| released(together, data))
    };
    let expected = both(None);
    let found = on(3, |together| both(Some(together)));
    assert_eq!(found, vec![expected; 3]);
}

/// Records of one's own don't say where they are among those of all ranks.
#[test]
fn records_that_do_not_know_their_position_are_not_asked_by_it() {
    let found = on(2, |together| {
        let rows = vec![[1.0], [2.0]];
        let data = PrivateData::made_up_of(rows, ADJACENCY, None).unwrap();
        let data = data.joined(together).unwrap();
        let constants = Constants::new(1.0, 1.0, 1.0, Convexity::Nonconvex);
        let value = |x: &[f64; 1], w: &[f64]| x[0] * w[0];
        let slope = |x: &[f64; 1], _: &[f64], out: &mut [f64]| out[0] += x[0];
        let loss = ClosureLoss::new(1, constants, value, slope);
        let mut curator = curator(Some(together));
        let offsets = Offsets::draw(&mut curator, 1, 0.5, 4.try_into().unwrap()).unwrap();
        let mut means = PrivateMean::new(&data, loss, curator).unwrap();
        let query = BallGradient {
            point: &[0.2],
            offsets: &offsets,
            clip: clip(1.0),
        };
        means.release(&query, Which::All, z(2.0)).err()
    });
    assert!(
        found
            .iter()
            .all(|error| matches!(error, Some(AskError::UnknownPositions)))
    );
}

/// A part of the records and a curator that is alone, or the other way round, or of other ranks: sums would lack records or have them twice.
#[test]
fn records_and_curators_of_other_ranks_are_refused() {
    let strangers = |error: Option<EstimatorError>| match error {
        Some(EstimatorError::Refused(Refused::Exchange(ExchangeError::Strangers {
            records,
            curator,
        }))) => (records, curator),
        other => panic!("{other:?}"),
    };
    let found = on(2, |together| {
        let (part, whole) = (data(Some(together)), data(None));
        let of = |data, curator| strangers(PrivateMean::new(data, Glm::Logistic, curator).err());
        (
            of(&part, curator(None)),
            of(&whole, curator(Some(together))),
        )
    });
    assert_eq!(found, vec![((true, false), (false, true)); 2]);
}

#[test]
fn what_can_not_join_is_told_on_all_ranks() {
    // Other public facts: the bound on rows.
    let found = on(2, |together| {
        let norm = 1.0 + together.rank() as f64;
        let data = part(Some(together), norm).joined(together).unwrap();
        let refused = PrivateMean::new(&data, Glm::Logistic, curator(Some(together)));
        refused.err().map(|error| error.to_string())
    });
    for error in found {
        let error = error.unwrap();
        assert!(
            error.contains("the public facts of the records and the loss"),
            "{error}"
        );
    }
    // Another number declared, where the true one is secret.
    let found = on(2, |together| {
        let design = Design::dense(1, vec![0.5; together.rank()]).unwrap();
        let labels = vec![1.0; together.rank()];
        let declared = Some(10 + together.rank() as u64);
        let data = PrivateData::made_up(design, labels, clip(1.0), Adjacency::AddRemove, declared);
        data.unwrap()
            .joined(together)
            .err()
            .map(|error| error.to_string())
    });
    for error in found {
        let error = error.unwrap();
        assert!(error.contains("the declared number of records"), "{error}");
    }
    // Records that were put in order before.
    let found = on(2, |together| {
        let data = part(Some(together), 1.0).in_random_order(3).unwrap();
        data.joined(together).err()
    });
    assert!(
        found
            .iter()
            .all(|error| *error == Some(DataError::JoinedLate))
    );
}

/// An output of claimed sensitivity is that of all records on each rank; one that a rank made of its own is refused.
#[test]
fn a_claimed_output_is_the_same_on_all_ranks() {
    let found = on(2, |together| {
        let mut curator = curator(Some(together));
        let claim = SensitivityClaim::new(clip(1.0), 5.0, 1, ADJACENCY, "a test").unwrap();
        let spend = Spend::Fixed(Event::gaussian(z(2.0)).repeated(2));
        curator.reserve_claimed(&spend, "a test").unwrap();
        let body = dpopt_privacy::Body::of(4);
        let ticket = curator
            .grant_claimed(Which::All, body, &claim, z(2.0))
            .unwrap();
        let same = curator.redeem_claimed(ticket, &[1.0]).unwrap();
        let ticket = curator
            .grant_claimed(Which::All, body, &claim, z(2.0))
            .unwrap();
        let own = [together.rank() as f64];
        (
            same,
            curator
                .redeem_claimed(ticket, &own)
                .err()
                .map(|error| error.to_string()),
        )
    });
    assert_eq!(found[0].0, found[1].0);
    for (_, error) in found {
        assert!(error.unwrap().contains("an output of claimed sensitivity"));
    }
}
