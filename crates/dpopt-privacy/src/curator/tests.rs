//! What a fork, and an inner run, may not do.

use super::*;
use crate::filter::FilterKind;
use crate::noise::NoiseError;
use crate::units::{Epsilon, NoiseMultiplier};

fn gaussian(z: f64) -> Event {
    Event::gaussian(NoiseMultiplier::new(z).unwrap())
}

/// A child that gave back what its parent reserved would let the parent release unpaid.
#[test]
fn a_fork_gives_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let adjacency = Adjacency::AddRemove;
    let ledger = || {
        let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
        Ledger::open_or_create(&path, epsilon, delta, adjacency, FilterKind::Gdp).unwrap()
    };
    let curator = Curator::protected(adjacency).unwrap();
    let mut child = curator.with_ledger(ledger()).unwrap();
    child.reserve(&Spend::Fixed(gaussian(10.0))).unwrap();
    let before = ledger().state().unwrap();
    child.key = Key::of_another_process();
    let forked = |refused: Refused| matches!(refused, Refused::Noise(NoiseError::Forked { .. }));
    // Twice: the first attempt must not have closed it.
    assert!(forked(child.settle().unwrap_err()));
    assert!(forked(child.settle().unwrap_err()));
    assert_eq!(ledger().state().unwrap(), before);
    assert_eq!(before.open, 1);
    child.reservation = None;
    assert!(forked(
        child.reserve(&Spend::Fixed(gaussian(20.0))).unwrap_err()
    ));
    assert_eq!(ledger().state().unwrap(), before);
}

/// The best of several runs is less private than each, so none may state its own guarantee.
#[test]
fn an_inner_run_states_no_guarantee() {
    let delta = Delta::new(1e-6).unwrap();
    let tuning = crate::selection::Tuning::new(gaussian(5.0), 3.0, 1.0).unwrap();
    let mut curator = Curator::protected(Adjacency::AddRemove).unwrap();
    curator.reserve(&Spend::Fixed(tuning.event())).unwrap();
    let best = curator.repeat_and_select(&tuning, |inner| {
        let refused = inner.guarantee(delta);
        (matches!(refused, Err(Refused::NoGuarantee(_))), 0.0)
    });
    assert!(best.unwrap().unwrap().value);
    let mut alone = Curator::protected(Adjacency::AddRemove).unwrap();
    alone.reserve(&Spend::Fixed(gaussian(5.0))).unwrap();
    let one = alone.guarantee(delta).unwrap().epsilon();
    assert!(curator.guarantee(delta).unwrap().epsilon() > 1.5 * one);
}

/// Pools are counted over the process, and how many the inner runs opened is secret.
#[test]
fn a_slice_does_not_show_how_many_pools_there_were() {
    let shown = || {
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        curator.open_pool(10, 0).unwrap();
        format!("{:?}", curator.take_slice(4).unwrap())
    };
    assert_eq!(shown(), shown());
}
