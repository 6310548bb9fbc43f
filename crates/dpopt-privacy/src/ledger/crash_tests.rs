//! A small script of runs is cut short at every byte of every write and around every sync, and on
//! a disk that is full at every byte. Whatever is found afterwards, what it says was spent is at
//! least what was released; and the same check catches two ledgers that are broken on purpose.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use dpopt_testkit::one_in;

use super::book::Book;
use super::shelf::Shelf;
use super::terms::Terms;
use super::{Checkpoint, Ledger, LedgerError};
use crate::adjacency::Adjacency;
use crate::curator::{Curator, Spend};
use crate::event::Event;
use crate::filter::FilterKind;
use crate::lattice::{Bound, LatticeSum};
use crate::order::Numbering;
use crate::refused::Refused;
use crate::sample::Body;
use crate::units::{ClipNorm, Delta, Epsilon, NoiseMultiplier};
use crate::which::Which;

const ADJACENCY: Adjacency = Adjacency::ReplaceOne;

fn path() -> &'static Path {
    Path::new("shelf")
}

/// The Renyi filter: its order and a Gaussian's cost are closed forms.
fn terms() -> Terms {
    let (epsilon, delta) = (Epsilon::new(2.0).unwrap(), Delta::new(1e-6).unwrap());
    Terms::new(epsilon, delta, ADJACENCY, FilterKind::Rdp).unwrap()
}

/// order/(2 z^2), with the order 1 + 2 ln(1/delta)/epsilon.
fn cost(z: f64) -> f64 {
    let order = 1.0 + 1e6_f64.ln();
    order / (2.0 * z * z)
}

fn open(shelf: &Shelf) -> Result<Ledger, LedgerError> {
    Ledger::on(path(), Box::new(shelf.clone()), Some(terms()))
}

/// What the world outside knows.
#[derive(Clone, Default)]
struct Outside {
    /// Cost of the releases that were handed out.
    released: f64,
    /// Records that were read, at most.
    read: u64,
    checkpoint: Option<Checkpoint>,
}

/// What became known, in its order.
struct World<'a> {
    shelf: &'a Shelf,
    history: Vec<Outside>,
}

impl<'a> World<'a> {
    fn new(shelf: &'a Shelf) -> Self {
        let history = vec![Outside::default()];
        Self { shelf, history }
    }

    fn now(&self) -> Outside {
        self.history.last().cloned().unwrap_or_default()
    }

    fn learns(&mut self, change: impl FnOnce(&mut Outside)) {
        let mut now = self.now();
        change(&mut now);
        self.history.push(now);
        self.shelf.tell(self.history.len() - 1);
    }
}

/// Plans a few Gaussians, releases some of them and settles if asked to.
fn run(
    world: &mut World<'_>,
    plan: &[(f64, u64)],
    releases: &[f64],
    settle: bool,
) -> Result<(), Refused> {
    let z = |z: f64| NoiseMultiplier::new(z).unwrap();
    let events = plan.iter().map(|&(m, n)| Event::gaussian(z(m)).repeated(n));
    let mut curator = Curator::protected(ADJACENCY)?.with_ledger(open(world.shelf)?)?;
    curator.reserve(&Spend::Fixed(Event::composed(events.collect())))?;
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    for &m in releases {
        release(&mut curator, bound, z(m))?;
        world.learns(|outside| outside.released += cost(m));
    }
    if settle {
        curator.settle()?;
    }
    Ok(())
}

/// One release of an empty sum.
fn release(curator: &mut Curator, bound: Bound, z: NoiseMultiplier) -> Result<Vec<f64>, Refused> {
    let ticket = curator.grant(Which::All, Body::of(1), bound, z)?;
    curator.redeem(ticket, LatticeSum::new(bound))
}

/// Four runs; those after a failure still try.
fn script(world: &mut World<'_>) {
    let releases = [20.0, 20.0, 40.0, 20.0];
    let _ = run(world, &[(20.0, 4), (40.0, 2)], &releases, true);
    if let Ok(mut ledger) = open(world.shelf) {
        if let Ok(checkpoint) = ledger.checkpoint(&[0.5, -1.0], 4) {
            world.learns(|outside| outside.checkpoint = Some(checkpoint));
        }
        if let Ok(positions) = ledger.claim_records("p", 10, 25, Numbering::default()) {
            world.learns(|outside| outside.read = positions.end);
        }
    }
    let _ = run(world, &[(30.0, 5)], &[30.0, 30.0], false);
    let _ = run(world, &[(25.0, 3)], &[25.0, 25.0, 25.0], true);
    let _ = run(world, &[(35.0, 2)], &[], true);
}

/// What is wrong after a crash that leaves `image`; `cut` says that only the end is missing.
fn fault(
    image: Option<&Vec<u8>>,
    cut: bool,
    pulses: &BTreeSet<String>,
    outside: &Outside,
    used: fn(&Book) -> f64,
) -> Option<String> {
    let nothing_happened = outside.released == 0.0 && outside.checkpoint.is_none();
    let Some(bytes) = image else {
        return (!nothing_happened).then(|| "the file is gone".to_owned());
    };
    let (book, _) = match Book::read(path(), bytes, |_| {}) {
        Ok(read) => read,
        // Refusing is safe; but a crash that only cuts the end must not keep anybody out.
        Err(error) => return cut.then(|| format!("can't be read: {error}")),
    };
    if used(&book) < outside.released {
        return Some(format!("{} < {}", used(&book), outside.released));
    }
    if book.pools.get("p").map_or(0, |pool| pool.spent) < outside.read {
        return Some("records would be read again".to_owned());
    }
    // What died is closed at what it drew, and that is still no less than was released.
    let shelf = Shelf::after_crash(Some(bytes.clone()), pulses);
    let reclaimed = open(&shelf).and_then(|mut ledger| ledger.reclaim());
    let after = match Book::read(path(), &shelf.file().unwrap_or_default(), |_| {}) {
        Ok((after, _)) => used(&after),
        Err(error) => return Some(format!("can't be read after reclaiming: {error}")),
    };
    if let Err(error) = reclaimed {
        return Some(format!("can't be reclaimed: {error}"));
    }
    if after < outside.released {
        return Some(format!("reclaimed: {after} < {}", outside.released));
    }
    // Life goes on: another run is paid, or told that nothing is left.
    let went = run(&mut World::new(&shelf), &[(50.0, 1)], &[50.0], true);
    if let Err(refused) = went {
        return Some(format!("the next run is refused: {refused}"));
    }
    let mut ledger = open(&shelf).unwrap();
    if ledger.state().unwrap().used < after + cost(50.0) {
        return Some("the next run was not charged".to_owned());
    }
    if let Some(checkpoint) = &outside.checkpoint
        && let Err(error) = ledger.check_continues(checkpoint.head())
    {
        return Some(format!("the checkpoint is refused: {error}"));
    }
    None
}

/// Crashes the script at every moment; the number of different crashes, and the faults.
fn crash_everywhere(shelf: &Shelf, used: fn(&Book) -> f64) -> (usize, Vec<String>) {
    let mut world = World::new(shelf);
    script(&mut world);
    let (mut seen, mut faults) = (HashSet::new(), Vec::new());
    for (number, moment) in shelf.moments().into_iter().enumerate() {
        for (image, cut) in moment.images() {
            let outside = &world.history[moment.told];
            if seen.insert((image.clone(), moment.told, moment.pulses.clone())) {
                let fault = fault(image.as_ref(), cut, &moment.pulses, outside, used);
                faults.extend(fault.map(|fault| format!("moment {number}: {fault}")));
            }
        }
    }
    (seen.len(), faults)
}

#[test]
fn a_crash_at_any_byte_never_under_reports() {
    let (crashes, faults) = crash_everywhere(&Shelf::recording(), Book::used);
    assert!(crashes > 5000, "{crashes}");
    assert!(
        faults.is_empty(),
        "{} faults: {:?}",
        faults.len(),
        faults.first()
    );
}

#[test]
fn a_ledger_that_syncs_after_the_release_is_caught() {
    let (_, faults) = crash_everywhere(&Shelf::lazy(), Book::used);
    assert!(faults.iter().any(|fault| fault.contains('<')), "{faults:?}");
}

#[test]
fn a_ledger_that_refunds_an_unsettled_run_is_caught() {
    let refunding = |book: &Book| {
        let cost = |run: &super::book::Run| match &run.end {
            Some(_) => run.cost,
            None => {
                let listed = run.listed.iter();
                listed
                    .map(|kind| book.terms.cost(&kind.event).unwrap() * kind.count as f64)
                    .sum()
            }
        };
        book.runs.iter().map(cost).sum()
    };
    let (_, faults) = crash_everywhere(&Shelf::recording(), refunding);
    assert!(faults.iter().any(|fault| fault.contains('<')), "{faults:?}");
}

#[test]
fn a_disk_that_fills_up_at_any_byte_never_under_reports() {
    let whole = Shelf::new(None);
    script(&mut World::new(&whole));
    let size = whole.bytes();
    for room in one_in(5, 0..=size) {
        let shelf = Shelf::with_room(room);
        let mut world = World::new(&shelf);
        script(&mut world);
        let now = shelf.now();
        for (image, cut) in now.images() {
            let fault = fault(image.as_ref(), cut, &now.pulses, &world.now(), Book::used);
            assert!(fault.is_none(), "room {room}: {fault:?}");
        }
        // Room again: what the full disk left must not be in the way.
        shelf.make_room();
        script(&mut world);
        let mut ledger = open(&shelf).unwrap();
        let state = ledger.state().unwrap();
        assert!(
            state.runs >= 4 && state.used >= world.now().released,
            "room {room}"
        );
    }
}

/// A run that can't write its next draw gives up its pulse, for good, and so pays for all of its
/// reservation; and where it can't, it stops. The power may fail at any moment of it.
#[test]
fn a_draw_that_can_not_be_written_is_paid_in_full_or_stops_the_run() {
    let plan = [(20.0, 40)];
    let releases = vec![20.0; 40];
    for room in one_in(5, (0..400).step_by(7)) {
        for locked in [false, true] {
            let shelf = Shelf::recording();
            let mut world = World::new(&shelf);
            let z = NoiseMultiplier::new(20.0).unwrap();
            let mut curator = Curator::protected(ADJACENCY).unwrap();
            curator = curator.with_ledger(open(&shelf).unwrap()).unwrap();
            let spend = Spend::Fixed(Event::gaussian(z).repeated(plan[0].1));
            curator.reserve(&spend).unwrap();
            shelf.leave_room(room);
            if locked {
                shelf.lock_folder();
            }
            let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
            let mut stopped = false;
            for _ in &releases {
                match release(&mut curator, bound, z) {
                    Ok(_) => world.learns(|outside| outside.released += cost(20.0)),
                    Err(Refused::Ledger(LedgerError::DiskFull { .. })) => stopped = true,
                    Err(other) => panic!("room {room}: {other}"),
                }
            }
            assert_eq!(stopped, locked, "room {room}");
            drop(curator);
            for moment in shelf.moments() {
                for (image, cut) in moment.images() {
                    let outside = &world.history[moment.told];
                    let fault = fault(image.as_ref(), cut, &moment.pulses, outside, Book::used);
                    assert!(fault.is_none(), "room {room}: {fault:?}");
                }
            }
        }
    }
}

/// The record of a run whose pulse is gone for good says nothing of what it releases, so it must
/// never be closed: a disk that brings the pulse back is caught.
#[test]
fn a_pulse_that_comes_back_is_caught() {
    let shelf = Shelf::recording();
    let z = NoiseMultiplier::new(20.0).unwrap();
    let mut curator = Curator::protected(ADJACENCY).unwrap();
    curator = curator.with_ledger(open(&shelf).unwrap()).unwrap();
    let spend = Spend::Fixed(Event::gaussian(z).repeated(40));
    curator.reserve(&spend).unwrap();
    let pulses = shelf.now().pulses;
    shelf.leave_room(0);
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let mut outside = Outside::default();
    for _ in 0..40 {
        release(&mut curator, bound, z).unwrap();
        outside.released += cost(20.0);
    }
    let file = shelf.file();
    let none = fault(
        file.as_ref(),
        true,
        &shelf.now().pulses,
        &outside,
        Book::used,
    );
    assert_eq!(none, None);
    let caught = fault(file.as_ref(), true, &pulses, &outside, Book::used);
    assert!(caught.unwrap().contains("reclaimed: 0 <"));
}

#[test]
fn a_full_disk_is_an_error_of_its_own_and_stops_no_paid_run() {
    let whole = Shelf::with_room(usize::MAX);
    let mut ledger = open(&whole).unwrap();
    let z = NoiseMultiplier::new(30.0).unwrap();
    ledger
        .reserve(&Event::gaussian(z).repeated(3), "test", false)
        .unwrap();
    let paid = ledger.head().bytes as usize + 1;
    for (room, reserved) in [
        (0, false),
        (paid - 1, false),
        (paid, true),
        (paid + 5, true),
    ] {
        let (shelf, mut released) = (Shelf::with_room(room), 0.0);
        // The names in the first line and of the noise differ in nothing but their bytes.
        let went = {
            let ledger = open(&shelf);
            match ledger {
                Err(error) => Err(error),
                Ok(mut ledger) => ledger
                    .reserve(&Event::gaussian(z).repeated(3), "test", false)
                    .map(|id| {
                        for _ in 0..3 {
                            let whole = crate::which::Account::Whole;
                            ledger
                                .note_release(id, &Event::gaussian(z), &whole)
                                .unwrap();
                            released += cost(30.0);
                        }
                        let settled = ledger.settle(id, &Event::gaussian(z).repeated(3));
                        assert!(matches!(settled, Err(LedgerError::DiskFull { .. })));
                    }),
            }
        };
        match went {
            Ok(()) => assert!(reserved, "room {room}"),
            Err(LedgerError::DiskFull { .. }) => assert!(!reserved, "room {room}"),
            Err(other) => panic!("room {room}: {other}"),
        }
        if reserved {
            shelf.make_room();
            assert!(open(&shelf).unwrap().state().unwrap().used >= released);
        }
    }
}
