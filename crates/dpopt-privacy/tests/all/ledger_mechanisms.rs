//! What a shared ledger pays for beside Gaussian releases: slices of a pool, prefix sums,
//! selections, caps.

use std::path::Path;

use dpopt_privacy::{
    Adjacency, Body, Bound, ClipNorm, Curator, Epsilon, Event, FilterKind, Ledger, LedgerError,
    Numbering, Part, PoolError, PublicOrder, Refused, Spend, Which,
};

use crate::common::{delta, epsilon, protected, z};

fn ledger(path: &Path, adjacency: Adjacency, filter: FilterKind) -> Ledger {
    Ledger::open_or_create(path, epsilon(2.0), delta(1e-6), adjacency, filter).unwrap()
}

fn curator(path: &Path, adjacency: Adjacency, filter: FilterKind) -> Curator {
    protected(ledger(path, adjacency, filter))
}

/// The first run on a ledger knows that nobody read its records; later ones don't.
#[test]
fn only_the_first_run_of_a_ledger_knows_its_records_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let open = || curator(&path, Adjacency::ReplaceOne, FilterKind::Gdp);
    let mut first = open();
    assert!(first.knows_unread());
    first
        .reserve(&Spend::Fixed(Event::gaussian(z(20.0))))
        .unwrap();
    assert!(first.knows_unread());
    // While the first runs, and after it.
    assert!(!open().knows_unread());
    drop(first);
    assert!(!open().knows_unread());
}

/// A pool of the ledger holds unread records only where all runs before read such pools and nothing else.
#[test]
fn a_pool_of_a_ledger_is_unread_where_earlier_runs_kept_to_theirs() {
    let share = Event::ParallelComposed {
        events: vec![Event::gaussian(z(50.0))],
    };
    let all = Event::gaussian(z(50.0));
    let both = Event::composed(vec![share.clone(), all.clone()]);
    // What the run before reserved, whether the ledger opened its pool, and whether what is left counts as unread.
    let cases = [
        (share.clone(), true, true),
        (share.clone(), false, false),
        (all, true, false),
        (both, true, false),
    ];
    for (reserved, of_ledger, unread) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let open = || curator(&path, Adjacency::ReplaceOne, FilterKind::Gdp);
        let mut before = open();
        if of_ledger {
            before
                .open_pool_of_ledger("census", 100, 30, Numbering::default())
                .unwrap();
        } else {
            before.open_pool(100, 0).unwrap();
        }
        before.reserve(&Spend::Fixed(reserved)).unwrap();
        assert!(before.knows_unread());
        let mut after = open();
        after
            .open_pool_of_ledger("census", 100, 30, Numbering::default())
            .unwrap();
        assert_eq!(after.knows_unread(), unread);
        // The run before knows what it knew, and the one after too once it has reserved.
        after.reserve(&Spend::Fixed(share.clone())).unwrap();
        assert!(before.knows_unread());
        assert_eq!(after.knows_unread(), unread);
        // A pool of its own may hold what others read.
        let mut own = open();
        own.open_pool(100, 0).unwrap();
        assert!(!own.knows_unread());
    }
}

#[test]
fn a_pool_of_the_ledger_is_handed_out_once_over_all_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let open = || curator(&path, Adjacency::ReplaceOne, FilterKind::Gdp);
    let mut first = open();
    first
        .open_pool_of_ledger("census", 100, 30, Numbering::default())
        .unwrap();
    assert_eq!(first.take_slice(20).unwrap().positions(), 0..20);
    // The ten that are left are this run's, and no more.
    assert!(matches!(
        first.take_slice(11),
        Err(PoolError::UsedUp {
            asked: 11,
            left: 10
        })
    ));
    // Another run, while the first is open and after it died.
    let mut second = open();
    second
        .open_pool_of_ledger("census", 100, 50, Numbering::default())
        .unwrap();
    assert_eq!(second.take_slice(50).unwrap().positions(), 30..80);
    drop((first, second));
    let mut third = open();
    assert!(matches!(
        third.open_pool_of_ledger("census", 100, 21, Numbering::default()),
        Err(Refused::Ledger(LedgerError::PoolUsedUp { .. }))
    ));
    // A refusal claims nothing, and leaves the curator without a pool.
    third
        .open_pool_of_ledger("census", 100, 20, Numbering::default())
        .unwrap();
    assert_eq!(third.take_slice(20).unwrap().positions(), 80..100);
    assert!(matches!(
        third.open_pool_of_ledger("other", 5, 5, Numbering::default()),
        Err(Refused::Pool(PoolError::Twice))
    ));
    assert_eq!(
        ledger(&path, Adjacency::ReplaceOne, FilterKind::Gdp)
            .records_claimed("other")
            .unwrap(),
        0
    );
}

/// Positions of two orders are other records, and so are those of two parts: after a restart, too, and of those that the ledger handed out.
#[test]
fn a_pool_of_the_ledger_is_of_one_numbering() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let open = || curator(&path, Adjacency::ReplaceOne, FilterKind::Gdp);
    let (seed, run) = (7, 1);
    let [left, held] = Part::of_split(140, 40, 1);
    let of = |seed, run, part| Numbering {
        order: Some(PublicOrder { seed, run }),
        part: Some(part),
    };
    let ours = of(seed, run, left);
    let others = [
        Numbering::default(),
        Numbering {
            order: None,
            ..ours
        },
        Numbering { part: None, ..ours },
        of(8, run, left),
        of(seed, 2, left),
        of(seed, run, held),
        of(seed, run, Part::of_split(140, 40, 2)[0]),
    ];
    open().open_pool_of_ledger("census", 100, 30, ours).unwrap();
    for other in others {
        let refused = open().open_pool_of_ledger("census", 100, 30, other);
        let Err(Refused::Ledger(LedgerError::OtherNumbering { asked, known, .. })) = refused else {
            panic!("another numbering");
        };
        assert_eq!((*asked, *known), (other, ours));
    }
    let mut second = open();
    second.open_pool_of_ledger("census", 100, 30, ours).unwrap();
    let event = Event::gaussian(z(50.0));
    let each = Event::ParallelComposed {
        events: vec![event],
    };
    second.reserve(&Spend::Fixed(each)).unwrap();
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 2).unwrap();
    for other in others {
        let body = Body::of(100).numbered(other);
        let granted = second.grant(Which::Next(10), body, bound, z(50.0));
        assert!(matches!(
            granted.err(),
            Some(Refused::Pool(PoolError::OtherNumbering { .. }))
        ));
    }
    let body = Body::of(100).numbered(ours);
    let ticket = second.grant(Which::Next(10), body, bound, z(50.0)).unwrap();
    assert_eq!(ticket.sample().slice().unwrap().positions(), 30..40);
    // And the other way round: the table's order is one, too.
    open()
        .open_pool_of_ledger("plain", 100, 30, Numbering::default())
        .unwrap();
    assert!(matches!(
        open().open_pool_of_ledger("plain", 100, 30, ours),
        Err(Refused::Ledger(LedgerError::OtherNumbering { .. }))
    ));
}

#[test]
fn a_pool_of_the_ledger_needs_a_ledger_and_fixed_positions() {
    let mut alone = Curator::protected(Adjacency::ReplaceOne).unwrap();
    assert!(matches!(
        alone.open_pool_of_ledger("a", 10, 10, Numbering::default()),
        Err(Refused::Pool(PoolError::NoLedger))
    ));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let mut insertions = curator(&path, Adjacency::AddRemove, FilterKind::Gdp);
    assert!(matches!(
        insertions.open_pool_of_ledger("a", 10, 10, Numbering::default()),
        Err(Refused::Pool(PoolError::Adjacency { .. }))
    ));
}

/// Costs in the filter's own unit, by hand: zCDP takes epsilon^2/8 of a bounded range, the slice
/// share once, and a cap as the Gaussian that it is.
#[test]
fn what_each_filter_charges() {
    let epsilon = Epsilon::new(0.2).unwrap();
    let exponential = Event::ExponentialMechanism { epsilon };
    let share = Event::ParallelComposed {
        events: vec![Event::gaussian(z(10.0)).repeated(2)],
    };
    let cap = Event::gaussian(z(20.0)).repeated(4);
    let used = |filter, spend: &Spend| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut curator = curator(&path, Adjacency::ReplaceOne, filter);
        curator.reserve(spend)?;
        drop(curator);
        let mut file = ledger(&path, Adjacency::ReplaceOne, filter);
        Ok::<f64, Refused>(file.state().unwrap().used)
    };
    let close = |got: f64, expected: f64| {
        assert!(
            got >= expected && got < expected * (1.0 + 1e-8),
            "{got} {expected}"
        );
    };
    let fixed = Spend::Fixed;
    close(
        used(FilterKind::Zcdp, &fixed(exponential.clone())).unwrap(),
        0.04 / 8.0,
    );
    close(
        used(FilterKind::Zcdp, &fixed(share.clone())).unwrap(),
        0.5 * 2.0 / 100.0,
    );
    close(used(FilterKind::Gdp, &fixed(share)).unwrap(), 2.0 / 100.0);
    close(
        used(FilterKind::Gdp, &Spend::AtMost(cap)).unwrap(),
        4.0 / 400.0,
    );
    // A selection is no Gaussian.
    assert!(matches!(
        used(FilterKind::Gdp, &fixed(exponential)),
        Err(Refused::Ledger(LedgerError::OtherFilter { .. }))
    ));
}

#[test]
fn a_reservation_says_how_its_noise_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let exponential = Event::ExponentialMechanism {
        epsilon: Epsilon::new(0.1).unwrap(),
    };
    let both = Event::composed(vec![exponential.clone(), Event::gaussian(z(30.0))]);
    for event in [exponential, both, Event::gaussian(z(30.0))] {
        let mut curator = curator(&path, Adjacency::ReplaceOne, FilterKind::Zcdp);
        curator.reserve(&Spend::Fixed(event)).unwrap();
        curator.settle().unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    for noise in [
        "exact-selection",
        "rounded-gaussian and exact-selection",
        "rounded-gaussian",
    ] {
        assert_eq!(
            text.matches(&format!(r#""noise":"{noise}""#)).count(),
            1,
            "{noise}"
        );
    }
}
