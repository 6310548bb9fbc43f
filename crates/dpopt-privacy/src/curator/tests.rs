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

/// Parts that were named before the first release compose as one reservation of both; another second part has no guarantee.
#[test]
fn parts_that_were_named_before_compose() {
    let delta = Delta::new(1e-6).unwrap();
    let spend = |z| Spend::Fixed(gaussian(z));
    let release = |curator: &mut Curator, z: f64| {
        let bound = crate::Bound::new(crate::ClipNorm::new(1.0).unwrap(), 1).unwrap();
        let z = NoiseMultiplier::new(z).unwrap();
        let body = crate::Body::of(1);
        let ticket = curator.grant(crate::Which::All, body, bound, z).unwrap();
        let mut sum = crate::LatticeSum::new(bound);
        sum.add_scaled(1.0, &[0.5]);
        curator.redeem(ticket, sum).unwrap();
        curator.settle().unwrap();
    };
    let in_parts = |second: f64, promised: bool| {
        let mut curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        if promised {
            curator.promise(&[spend(3.0), spend(4.0)]).unwrap();
            curator.reserve(&spend(3.0)).unwrap();
        } else {
            curator.reserve_then(&spend(3.0), &[spend(4.0)]).unwrap();
        }
        let whole = curator.guarantee(delta).unwrap().epsilon();
        release(&mut curator, 3.0);
        curator.reserve(&spend(second)).unwrap();
        release(&mut curator, second);
        (whole, curator.guarantee(delta))
    };
    // 1/3^2 + 1/4^2 = (5/12)^2.
    let mut one = Curator::protected(Adjacency::ReplaceOne).unwrap();
    one.reserve(&spend(12.0 / 5.0)).unwrap();
    let one = one.guarantee(delta).unwrap().epsilon();
    for promised in [false, true] {
        let (before, after) = in_parts(4.0, promised);
        let after = after.unwrap().epsilon();
        assert!((before / one - 1.0).abs() < 1e-6 && (after / one - 1.0).abs() < 1e-6);
        let other = in_parts(5.0, promised).1;
        assert!(matches!(other, Err(Refused::NoGuarantee(_))));
    }
    // Named after a release.
    let mut late = Curator::protected(Adjacency::ReplaceOne).unwrap();
    late.reserve(&spend(3.0)).unwrap();
    release(&mut late, 3.0);
    late.promise(&[spend(4.0)]).unwrap();
    assert!(matches!(
        late.guarantee(delta),
        Err(Refused::NoGuarantee(_))
    ));
}
