//! Tuning in parts: what inner runs may reserve and read, what is charged, and the law of candidates.

use std::cell::{Cell, RefCell};

use dpopt_privacy::selection::Tuning;
use dpopt_privacy::{
    Accountant, Adjacency, Body, Bound, ClipNorm, Curator, Delta, Epsilon, Event, FilterKind,
    LatticeSum, Ledger, NoiseMultiplier, Part, Refused, Spend, TuningInParts, Which,
};

const RECORDS: u64 = 10;

fn z(of: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(of).unwrap()
}

fn gaussian(of: f64) -> Spend {
    Spend::Fixed(Event::gaussian(z(of)))
}

fn parts() -> [Part; 2] {
    Part::of_split(RECORDS, 3, 7)
}

/// Three candidates of their own noise, and a score.
fn tuning(shape: f64) -> TuningInParts {
    let trained = [4.0, 5.0, 6.0].map(gaussian).to_vec();
    let of = (trained, gaussian(3.0));
    TuningInParts::new(Adjacency::ReplaceOne, parts(), of, (4.0, shape)).unwrap()
}

fn release(curator: &mut Curator, body: Body, noise: f64) -> Result<Vec<f64>, Refused> {
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let ticket = curator.grant(Which::All, body, bound, z(noise))?;
    curator.redeem(ticket, LatticeSum::new(bound))
}

fn of_part(part: Part) -> Body {
    Body::of(5).numbered(part.into())
}

fn reserved(shape: f64) -> (TuningInParts, Curator) {
    let tuning = tuning(shape);
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    curator.reserve(&Spend::Fixed(tuning.event())).unwrap();
    (tuning, curator)
}

/// A run reserves its candidate's spend, once, on its part, and the score's on the other; all else is refused before noise is drawn.
#[test]
fn an_inner_run_has_its_candidate_and_its_part_and_no_more() {
    let (tuning, mut curator) = reserved(1.0);
    let [train, score] = parts();
    let noises = [4.0, 5.0, 6.0];
    let calls = Cell::new(0);
    let best = curator.repeat_and_select_in_parts(&tuning, |mut inner| {
        calls.set(calls.get() + 1);
        let own = noises[inner.candidate];
        for other in noises.into_iter().chain([3.0]).filter(|z| *z != own) {
            let refused = inner.train.reserve(&gaussian(other));
            assert!(matches!(refused, Err(Refused::InnerRun)), "{other}");
        }
        let later = inner.train.promise(&[gaussian(own)]);
        assert!(matches!(later, Err(Refused::InnerRun)));
        let both = inner.train.reserve_then(&gaussian(own), &[gaussian(3.0)]);
        assert!(matches!(both, Err(Refused::InnerRun)));
        assert!(matches!(
            release(&mut inner.train, of_part(train), own),
            Err(Refused::NotReserved { .. })
        ));
        inner.train.reserve(&gaussian(own)).unwrap();
        let whole = release(&mut inner.train, Body::of(5), own);
        assert!(matches!(whole, Err(Refused::OtherPart { found: None, .. })));
        let other = release(&mut inner.train, of_part(score), own);
        assert!(matches!(
            other,
            Err(Refused::OtherPart { own, found: Some(found) }) if own == train && found == score
        ));
        let elsewhere = Part::of_split(RECORDS, 3, 8)[0];
        assert!(release(&mut inner.train, of_part(elsewhere), own).is_err());
        release(&mut inner.train, of_part(train), own).unwrap();
        assert!(release(&mut inner.train, of_part(train), own).is_err());
        inner.train.settle().unwrap();
        let again = inner.train.reserve(&gaussian(own));
        assert!(matches!(again, Err(Refused::InnerRun)));

        inner.score.reserve(&gaussian(3.0)).unwrap();
        assert!(release(&mut inner.score, of_part(train), 3.0).is_err());
        let found = release(&mut inner.score, of_part(score), 3.0).unwrap();
        let guarantee = inner.score.guarantee(Delta::new(1e-6).unwrap());
        assert!(guarantee.is_err() && !inner.train.knows_unread());
        (inner.candidate, found[0])
    });
    assert!(best.unwrap().is_some() && calls.get() > 0);
    assert_eq!(curator.spent().leaves(), vec![(tuning.event(), 1)]);
}

/// Curators that a run hands out of the tuning release nothing: not from a reservation that they have not made, nor from one that they
/// have, nor for a ticket that was granted.
#[test]
fn curators_that_are_kept_beyond_their_run_are_dead() {
    let (tuning, mut curator) = reserved(1.0);
    let [train, _] = parts();
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let kept = RefCell::new(Vec::new());
    let best = curator.repeat_and_select_in_parts(&tuning, |mut inner| {
        let own = [4.0, 5.0, 6.0][inner.candidate];
        inner.train.reserve(&gaussian(own)).unwrap();
        let body = of_part(train);
        let ticket = inner.train.grant(Which::All, body, bound, z(own)).unwrap();
        kept.borrow_mut().push((inner, own, ticket));
        ((), 0.0)
    });
    assert!(best.unwrap().is_some());
    for (mut inner, own, ticket) in kept.into_inner() {
        let redeemed = inner.train.redeem(ticket, LatticeSum::new(bound));
        assert!(matches!(redeemed, Err(Refused::InnerRunOver)));
        let released = release(&mut inner.train, of_part(train), own);
        assert!(matches!(released, Err(Refused::InnerRunOver)));
        let reserved = inner.score.reserve(&gaussian(3.0));
        assert!(matches!(reserved, Err(Refused::InnerRunOver)));
    }
    assert_eq!(curator.spent().leaves(), vec![(tuning.event(), 1)]);
}

/// Each candidate is as likely: 3000 runs or so, and a share off by six deviations in 1 of 1e8 seeds.
#[test]
fn candidates_are_drawn_uniformly() {
    let tuning = tuning(f64::INFINITY);
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 5);
    let event = tuning.event().repeated(1000);
    curator.reserve(&Spend::Fixed(event)).unwrap();
    let counts = RefCell::new([0u32; 3]);
    for _ in 0..1000 {
        let run = |inner: dpopt_privacy::InnerRun| {
            counts.borrow_mut()[inner.candidate] += 1;
            ((), 0.0)
        };
        curator.repeat_and_select_in_parts(&tuning, run).unwrap();
    }
    let counts = counts.into_inner();
    let all = f64::from(counts.iter().sum::<u32>());
    // 1000 Poisson numbers of mean 4.
    assert!((all - 4000.0).abs() < 6.0 * 4000f64.sqrt(), "{all}");
    for count in counts {
        let off = (f64::from(count) - all / 3.0) / (all * 2.0 / 9.0).sqrt();
        assert!(off.abs() < 6.0, "{counts:?}");
    }
}

/// A run costs a record the dearest of what may happen to it: the price of the score here, not the sum of it and of training.
#[test]
fn a_run_costs_the_dearest_of_its_parts() {
    let delta = Delta::new(1e-6).unwrap();
    let epsilon = |event: &Event| {
        Accountant::least(event, delta, Adjacency::ReplaceOne)
            .unwrap()
            .1
    };
    for shape in [0.0, 1.0, f64::INFINITY] {
        let found = epsilon(&tuning(shape).event());
        let dearest = epsilon(
            &Tuning::new(Event::gaussian(z(3.0)), 4.0, shape)
                .unwrap()
                .event(),
        );
        assert!((found / dearest - 1.0).abs() < 1e-9, "{found} {dearest}");
        let both = Event::gaussian(z(2.4));
        assert!(found < 0.95 * epsilon(&Tuning::new(both, 4.0, shape).unwrap().event()));
    }
}

#[test]
fn what_can_not_be_tuned_is_refused_at_once() {
    let of = |trained: Vec<Spend>| (trained, gaussian(3.0));
    let new = |adjacency, parts, of| TuningInParts::new(adjacency, parts, of, (4.0, 1.0));
    let two = || vec![gaussian(4.0), gaussian(5.0)];
    // One more record moves others to the other part.
    let hidden = new(Adjacency::AddRemove, parts(), of(two()));
    assert!(matches!(hidden, Err(Refused::UnsupportedSpend { .. })));
    let none = new(Adjacency::ReplaceOne, parts(), of(Vec::new()));
    assert!(matches!(none, Err(Refused::UnsupportedSpend { .. })));
    // Both are the same part, or parts of two splits.
    let [train, score] = parts();
    for parts in [[train, train], [train, Part::of_split(RECORDS, 3, 8)[1]]] {
        let overlap = new(Adjacency::ReplaceOne, parts, of(two()));
        assert!(matches!(overlap, Err(Refused::OtherPart { .. })));
    }
    let epsilon = Epsilon::new(1.0).unwrap();
    let choice = Spend::Fixed(Event::ExponentialMechanism { epsilon });
    let selects = new(Adjacency::ReplaceOne, [train, score], of(vec![choice]));
    assert!(matches!(selects, Err(Refused::UnsupportedSpend { .. })));
    let few = TuningInParts::new(Adjacency::ReplaceOne, parts(), of(two()), (0.5, 1.0));
    assert!(matches!(few, Err(Refused::Selection(_))));
    // Another relation, and nothing reserved.
    let tuning = tuning(1.0);
    let mut other = Curator::simulated(Adjacency::ZeroOut, 1);
    other.reserve(&Spend::Fixed(tuning.event())).unwrap();
    let never = |_: dpopt_privacy::InnerRun| -> ((), f64) { panic!("nothing runs") };
    let refused = other.repeat_and_select_in_parts(&tuning, never);
    assert!(matches!(refused, Err(Refused::AdjacencyMismatch { .. })));
    let mut bare = Curator::simulated(Adjacency::ReplaceOne, 1);
    let refused = bare.repeat_and_select_in_parts(&tuning, never);
    assert!(matches!(refused, Err(Refused::NotReserved { .. })));
}

/// The ledger has one run with one release, however many runs there were, and it is charged before the first of them.
#[test]
fn a_ledger_holds_one_reservation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let (epsilon, delta) = (Epsilon::new(20.0).unwrap(), Delta::new(1e-6).unwrap());
    let terms = (epsilon, delta, Adjacency::ReplaceOne);
    let lines = |path| std::fs::read_to_string(path).unwrap().lines().count();
    let mut seen = Vec::new();
    for _ in 0..8 {
        let _ = std::fs::remove_file(&path);
        let ledger = Ledger::open_or_create(&path, terms.0, terms.1, terms.2, FilterKind::Rdp);
        let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        let mut curator = curator.with_ledger(ledger.unwrap()).unwrap();
        let tuning = tuning(1.0);
        curator.reserve(&Spend::Fixed(tuning.event())).unwrap();
        let (runs, at_first) = (Cell::new(0), Cell::new(None));
        let best = curator.repeat_and_select_in_parts(&tuning, |mut inner| {
            runs.set(runs.get() + 1);
            let now = lines(&path);
            if let Some(before) = at_first.replace(Some(now)) {
                assert_eq!(before, now);
            }
            let own = [4.0, 5.0, 6.0][inner.candidate];
            inner.train.reserve(&gaussian(own)).unwrap();
            release(&mut inner.train, of_part(parts()[0]), own).unwrap();
            inner.train.settle().unwrap();
            assert_eq!(lines(&path), now);
            ((), 0.0)
        });
        assert!(best.unwrap().is_some());
        assert_eq!(at_first.get(), Some(lines(&path)));
        curator.settle().unwrap();
        assert_eq!(Ledger::report(&path).unwrap().runs.len(), 1);
        seen.push((runs.get(), lines(&path)));
    }
    // Of many lengths, and one number of lines.
    assert!(seen.iter().any(|(runs, _)| *runs != seen[0].0), "{seen:?}");
    assert!(
        seen.iter().all(|(_, lines)| *lines == seen[0].1),
        "{seen:?}"
    );
}
