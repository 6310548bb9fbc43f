//! Draws on a reservation: what a killed run loses, what a run that is taken for dead may still
//! release, and a file that was rolled back.

use std::path::{Path, PathBuf};
use std::sync::Barrier;

use dpopt_privacy::ledger::{Damage, RunState};
use dpopt_privacy::{
    Bound, ClipNorm, Curator, Event, FilterKind, LatticeSum, Ledger, LedgerError, Numbering,
    Refused, Spend, Which,
};

use crate::common::{self, bound, ledger, protected, z};

/// One release costs 1/z^2 = 1e-4 in squared mu.
const Z: f64 = 100.0;
const COST: f64 = 1e-4;

fn open(path: &Path) -> Ledger {
    ledger(path, 1.0, FilterKind::Gdp).unwrap()
}

fn run(path: &Path, spend: &Spend) -> Curator {
    let mut curator = protected(open(path));
    curator.reserve(spend).unwrap();
    curator
}

fn gaussians(count: u64) -> Spend {
    common::gaussians(Z, count)
}

fn release(curator: &mut Curator) -> Result<Vec<f64>, Refused> {
    common::release(curator, Which::All, LatticeSum::new(bound(1.0, 1)), z(Z))
}

/// The files that say that runs live.
fn pulses(path: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|end| end == "run"))
        .collect()
}

/// Puts a file that nobody holds in the place of each pulse: what the processes of these runs are
/// taken for is dead.
fn declare_dead(path: &Path) {
    for pulse in pulses(path) {
        std::fs::remove_file(&pulse).unwrap();
        std::fs::write(&pulse, "").unwrap();
    }
}

fn close(got: f64, expected: f64) -> bool {
    got >= expected && got <= expected * (1.0 + 1e-8) + 1e-15
}

#[test]
fn a_run_that_died_loses_what_it_drew_and_the_next_gets_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    // mu(1, 1e-6) = 0.23670 (published value), so 560 releases fit, and 400 do once.
    for (releases, paid) in [(0, 0), (1, 20), (20, 20), (21, 40), (399, 400), (400, 400)] {
        let _ = std::fs::remove_file(&path);
        let mut first = run(&path, &gaussians(400));
        for _ in 0..releases {
            release(&mut first).unwrap();
        }
        // While it lives it holds all of its reservation.
        let state = open(&path).state().unwrap();
        assert!(close(state.used, 400.0 * COST) && state.reclaimable == 0.0);
        assert!(matches!(
            open(&path).can_pay(gaussians(200).event()),
            Err(LedgerError::Exhausted { .. })
        ));
        drop(first);
        let mut ledger = open(&path);
        let state = ledger.state().unwrap();
        assert_eq!((state.runs, state.open), (1, 1));
        assert!(close(state.used, 400.0 * COST));
        let back = (400 - paid) as f64 * COST;
        assert!((state.reclaimable - back).abs() < 1e-9, "{releases}");
        // What is said to be left is left.
        let fits = 559 - paid;
        ledger.can_pay(gaussians(fits).event()).unwrap();
        assert!(ledger.can_pay(gaussians(fits + 2).event()).is_err());
        let report = Ledger::report(&path).unwrap();
        assert_eq!(report.runs[0].state, RunState::Died);
        // Looking wrote nothing; a reservation closes the run.
        let second = run(&path, &gaussians(fits));
        let report = Ledger::verify(&path, None).unwrap();
        assert_eq!(report.runs[0].state, RunState::Lapsed);
        assert!(close(report.runs[0].cost, paid as f64 * COST));
        assert_eq!(report.runs[1].state, RunState::Open);
        assert_eq!(pulses(&path).len(), 1);
        drop(second);
        let reclaimed = open(&path).reclaim().unwrap();
        assert_eq!(reclaimed.runs, 1);
        assert!((reclaimed.cost - fits as f64 * COST).abs() < 1e-9);
        assert!(pulses(&path).is_empty());
        assert_eq!(open(&path).reclaim().unwrap().runs, 0);
    }
}

#[test]
fn a_run_that_is_taken_for_dead_releases_no_more_than_it_drew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut first = run(&path, &gaussians(400));
    for _ in 0..30 {
        release(&mut first).unwrap();
    }
    declare_dead(&path);
    // Another run takes all that is left, and spends it.
    let mut second = run(&path, &gaussians(519));
    for _ in 0..519 {
        release(&mut second).unwrap();
    }
    // Two draws are forty releases, and there are ten to come.
    let mut made = 30;
    let refused = loop {
        match release(&mut first) {
            Ok(_) => made += 1,
            Err(refused) => break refused,
        }
    };
    let Refused::Ledger(LedgerError::Lapsed { run: 0, drawn, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(made <= 40 && close(drawn, 40.0 * COST), "{made} {drawn}");
    // It stays refused, there is nothing to give back, and nothing is damaged.
    assert!(release(&mut first).is_err());
    first.settle().unwrap();
    second.settle().unwrap();
    let report = Ledger::verify(&path, None).unwrap();
    assert!(report.used >= 559.0 * COST && report.used <= report.capacity);
    assert_eq!(report.runs[0].state, RunState::Lapsed);
}

#[test]
fn two_that_find_a_dead_run_close_it_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(round.to_string());
        let mut first = run(&path, &gaussians(100));
        release(&mut first).unwrap();
        drop(first);
        let both = Barrier::new(2);
        let closed: u64 = std::thread::scope(|scope| {
            let closer = || {
                let mut ledger = open(&path);
                both.wait();
                ledger.reclaim().unwrap().runs
            };
            let threads = [scope.spawn(closer), scope.spawn(closer)];
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(closed, 1);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("\"lapse\"").count(), 1);
    }
}

/// What is charged when it begins is drawn then: a selection whose session goes on after the run
/// was closed, the share of all slices with the first of them, a cap release by release.
#[test]
fn what_is_paid_at_its_beginning_is_drawn_whole() {
    let folder = tempfile::tempdir().unwrap();
    let share = Event::ParallelComposed {
        events: vec![Event::gaussian(z(Z)).repeated(60)],
    };
    let path = folder.path().join("slices");
    let both = Event::composed(vec![Event::gaussian(z(Z)).repeated(100), share]);
    let mut curator = run(&path, &Spend::Fixed(both));
    curator.open_pool(100, 0).unwrap();
    for _ in 0..4 {
        let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
        common::release(&mut curator, Which::Next(10), LatticeSum::new(bound), z(Z)).unwrap();
    }
    release(&mut curator).unwrap();
    drop(curator);
    open(&path).reclaim().unwrap();
    // 60 for all slices, and the next draw of a twentieth of 160 for the release on all records.
    let used = open(&path).state().unwrap().used;
    assert!(close(used, 68.0 * COST), "{used}");

    let path = folder.path().join("cap");
    let cap = Spend::AtMost(Event::gaussian(z(Z)).repeated(100));
    let mut curator = run(&path, &cap);
    for _ in 0..6 {
        release(&mut curator).unwrap();
    }
    drop(curator);
    open(&path).reclaim().unwrap();
    let used = open(&path).state().unwrap().used;
    assert!((6.0 * COST..10.1 * COST).contains(&used), "{used}");
}

/// The attack of a backup that is restored: the same plan must not make the same lines again.
#[test]
fn the_same_plan_after_a_rollback_is_another_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    open(&path);
    let backup = std::fs::read(&path).unwrap();
    let mut first = run(&path, &gaussians(8));
    let kept = Ledger::open(&path).unwrap().checkpoint(&[], 0).unwrap();
    std::fs::write(&path, &backup).unwrap();
    let mut second = run(&path, &gaussians(8));
    assert!(matches!(
        release(&mut first).unwrap_err(),
        Refused::Ledger(LedgerError::Rewritten { line: 2, .. })
    ));
    release(&mut second).unwrap();
    assert!(matches!(
        Ledger::resume(&path, &kept).unwrap_err(),
        LedgerError::Rewritten { line: 2, .. }
    ));
    assert!(matches!(
        Ledger::verify(&path, Some(&kept)).unwrap_err(),
        LedgerError::Rewritten { line: 2, .. }
    ));
    assert!(first.settle().is_err());
}

/// The same of the records of a pool, which lines hand out.
#[test]
fn the_same_claim_after_a_rollback_is_another_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    open(&path);
    let backup = std::fs::read(&path).unwrap();
    let mut first = open(&path);
    assert_eq!(
        first
            .claim_records("a", 10, 100, Numbering::default())
            .unwrap(),
        0..10
    );
    std::fs::write(&path, &backup).unwrap();
    assert_eq!(
        open(&path)
            .claim_records("a", 10, 100, Numbering::default())
            .unwrap(),
        0..10
    );
    assert!(matches!(
        first
            .claim_records("a", 10, 100, Numbering::default())
            .unwrap_err(),
        LedgerError::Rewritten { line: 2, .. }
    ));
}

#[cfg(unix)]
#[test]
fn files_are_made_for_their_owner_and_gone_when_a_run_has_settled() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut curator = run(&path, &gaussians(8));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let [pulse] = &pulses(&path)[..] else {
        panic!("{:?}", pulses(&path));
    };
    assert_eq!((mode(&path), mode(pulse)), (0o600, 0o600));
    let kept = folder.path().join("checkpoint");
    let mut ledger = Ledger::open(&path).unwrap();
    ledger.checkpoint(&[1.0], 1).unwrap().write(&kept).unwrap();
    assert_eq!(mode(&kept), 0o600);
    curator.settle().unwrap();
    let mut left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["checkpoint", "ledger"]);
}

/// A run of before draws, a run whose pulse is gone (a copy of the ledger), and a run in a folder
/// where none could be made stand in full.
#[test]
fn a_run_without_a_pulse_is_never_taken_for_dead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut first = run(&path, &gaussians(100));
    release(&mut first).unwrap();
    drop(first);
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(open(&copy).reclaim().unwrap().runs, 0);
    let state = open(&copy).state().unwrap();
    assert!(close(state.used, 100.0 * COST) && state.reclaimable == 0.0);
    // The original is reclaimed all the same, also through a link.
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(open(&link).reclaim().unwrap().runs, 1);
    }
}

/// A name of a pulse that is longer than a file's name can be stands for a folder in which none
/// can be made: the run pays for all of it at once, and is made.
#[cfg(unix)]
#[test]
fn a_run_that_can_have_no_pulse_pays_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l".repeat(230));
    std::fs::write(&path, {
        let short = folder.path().join("short");
        open(&short);
        std::fs::read(short).unwrap()
    })
    .unwrap();
    let mut curator = run(&path, &gaussians(100));
    for _ in 0..50 {
        release(&mut curator).unwrap();
    }
    drop(curator);
    assert_eq!(open(&path).reclaim().unwrap().runs, 0);
    assert!(close(open(&path).state().unwrap().used, 100.0 * COST));
    let report = Ledger::verify(&path, None).unwrap();
    assert_eq!(report.runs[0].drawn, None);
}

/// Lines by hand, chained as the documentation says, with `sha256sum` of coreutils.
mod by_hand {
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn sha256(bytes: &[u8]) -> String {
        let mut child = Command::new("sha256sum")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()[..64].to_owned()
    }

    pub(super) fn with_lines(text: &str, contents: &[String]) -> String {
        let mut text = text.to_owned();
        for content in contents {
            let number = text.lines().count() + 1;
            let mut hashed = Vec::new();
            if number > 1 {
                let end = text.trim_end().len() - 2;
                let hash = &text[end - 64..end];
                let digits = |at: usize| u8::from_str_radix(&hash[at..at + 2], 16).unwrap();
                hashed.extend((0..64).step_by(2).map(digits));
            } else {
                hashed.extend([0; 32]);
            }
            let body = format!("{{\"line\":{number},{content}");
            hashed.extend_from_slice(body.as_bytes());
            text += &format!("{body},\"hash\":\"{}\"}}\n", sha256(&hashed));
        }
        text
    }
}

const GAUSSIANS: &str = r#"{"class_name":"SelfComposedDpEvent","event":{"class_name":"GaussianDpEvent","noise_multiplier":100.0},"count":100}"#;
const NONCE: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_ledger_of_version_1_is_read_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let now = {
        open(&path);
        std::fs::read_to_string(&path).unwrap()
    };
    assert!(now.contains("\"version\":2"));
    let first = now[10..].split(",\"hash\"").next().unwrap();
    let first = first.replace("\"version\":2", "\"version\":1");
    let reserve = |run: u64| {
        format!(
            r#""reserve":{{"run":{run},"cost":0.0101,"noise":"rounded-gaussian","event":{GAUSSIANS}}}"#
        )
    };
    let settle = r#""settle":{"run":0,"cost":0.0,"event":{"class_name":"NoOpDpEvent"}}"#.to_owned();
    let slices = r#""slices":{"pool":"p","from":0,"to":4,"of":9}"#.to_owned();
    let lines = [first, reserve(0), settle, reserve(1), slices];
    let old = by_hand::with_lines("", &lines);
    std::fs::write(&path, &old).unwrap();
    let report = Ledger::verify(&path, None).unwrap();
    assert_eq!((report.runs.len(), report.reclaimable), (2, 0.0));
    assert!(close(report.used, 0.0101));
    let kept = Ledger::open(&path).unwrap().checkpoint(&[], 0).unwrap();
    // What was open then stays paid in full.
    let mut curator = run(&path, &gaussians(100));
    release(&mut curator).unwrap();
    drop(curator);
    assert_eq!(open(&path).reclaim().unwrap().runs, 1);
    assert!(close(
        open(&path).state().unwrap().used,
        0.0101 + 5.0 * COST
    ));
    Ledger::resume(&path, &kept).unwrap();
    Ledger::verify(&path, Some(&kept)).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().starts_with(&old));
}

#[test]
fn draws_and_lapses_that_would_under_report_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    open(&path);
    let text = std::fs::read_to_string(&path).unwrap();
    let reserve = |more: &str| {
        format!(r#""reserve":{{"run":0,"cost":0.01,"noise":"x","event":{GAUSSIANS}{more}}}"#)
    };
    let drawing = || reserve(&format!(r#","nonce":"{NONCE}","draws":true"#));
    let draw = |cost: &str| format!(r#""draw":{{"run":0,"cost":{cost}}}"#);
    let lapse = |cost: &str| format!(r#""lapse":{{"run":0,"cost":{cost}}}"#);
    let settle =
        || r#""settle":{"run":0,"cost":0.0,"event":{"class_name":"NoOpDpEvent"}}"#.to_owned();
    type Is = fn(&Damage) -> bool;
    let drawn: Is = |damage| matches!(damage, Damage::Drawn { .. });
    let closed: Is = |damage| matches!(damage, Damage::NotOpen { run: 0 });
    let cases: [(Vec<String>, Option<Is>); 14] = [
        (
            vec![drawing(), draw("0.004"), draw("0.01"), lapse("0.01")],
            None,
        ),
        (vec![drawing(), lapse("0.0")], None),
        (vec![drawing(), draw("0.004"), settle()], None),
        // Below what was drawn.
        (vec![drawing(), draw("0.004"), draw("0.003")], Some(drawn)),
        (vec![drawing(), draw("0.004"), lapse("0.003")], Some(drawn)),
        // Above the reservation.
        (vec![drawing(), draw("0.011")], Some(drawn)),
        (vec![drawing(), lapse("0.011")], Some(drawn)),
        // A run that paid at once.
        (vec![reserve(""), draw("0.001")], Some(drawn)),
        (vec![reserve(""), lapse("0.0")], Some(drawn)),
        // Closed ones.
        (vec![drawing(), lapse("0.0"), draw("0.001")], Some(closed)),
        (vec![drawing(), lapse("0.0"), settle()], Some(closed)),
        (vec![drawing(), settle(), lapse("0.0")], Some(closed)),
        (
            vec![drawing(), draw("-1.0")],
            Some(|damage| matches!(damage, Damage::NotACost { .. })),
        ),
        (
            vec![reserve(r#","draws":true"#)],
            Some(|damage| matches!(damage, Damage::Nonce { run: 0 })),
        ),
    ];
    for (lines, expected) in cases {
        std::fs::write(&path, by_hand::with_lines(&text, &lines)).unwrap();
        match (Ledger::open(&path), expected) {
            (Ok(_), None) => {}
            (Err(LedgerError::Damaged { line, damage, .. }), Some(expected)) => {
                assert!(expected(&damage), "{lines:?}: {damage}");
                assert_eq!(line as usize, 1 + lines.len());
            }
            (other, _) => panic!("{lines:?}: {other:?}"),
        }
    }
}

/// A refusal because the file is gone is no hiccup: the same call again is refused too, also where its draw was paid.
#[test]
fn a_release_that_was_refused_is_refused_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.jsonl");
    let mut curator = run(&path, &gaussians(400));
    for _ in 0..3 {
        release(&mut curator).unwrap();
    }
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The fourth doubles the number of releases that are listed.
    for call in 4..12 {
        assert!(release(&mut curator).is_err(), "{call}");
    }
    // The same file at its place again: it was never opened by anybody else.
    std::fs::write(&path, kept).unwrap();
    release(&mut curator).unwrap();
}
