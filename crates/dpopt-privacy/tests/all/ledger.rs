//! A shared ledger: what it refuses, what it refunds, and what it reads.

use std::path::{Path, PathBuf};

use dpopt_privacy::{
    Adjacency, Bound, ClipNorm, Curator, Delta, Epsilon, Event, FilterKind, LatticeSum, Ledger,
    LedgerError, NoiseMultiplier, Numbering, Refused, SamplingRate, Spend, Which,
};

use crate::common::{gaussians, ledger as open, protected, release};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("ledger.jsonl")
    }
}

fn curator(path: &Path, epsilon: f64, filter: FilterKind) -> Curator {
    protected(open(path, epsilon, filter).unwrap())
}

#[test]
fn a_budget_that_does_not_exist_says_what_it_could_pay() {
    let could_pay = |z: f64, filter| {
        let spend = gaussians(z, 100);
        Ledger::could_pay(
            Epsilon::new(1.0).unwrap(),
            Delta::new(1e-6).unwrap(),
            Adjacency::ReplaceOne,
            filter,
            spend.event(),
        )
    };
    let z = 10.0 / 0.2367;
    could_pay(z * 1.0001, FilterKind::Gdp).unwrap();
    assert!(matches!(
        could_pay(z * 0.999, FilterKind::Gdp),
        Err(LedgerError::Exhausted { .. })
    ));
    // The looser measure needs more noise.
    assert!(could_pay(z * 1.0001, FilterKind::Rdp).is_err());
    let folder = Folder::new();
    let mut file = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    let state = file.state().unwrap();
    let left = file.epsilon_left(&state);
    assert!((left - 1.0).abs() < 1e-6, "{left}");
    assert_eq!((file.epsilon().get(), file.delta().get()), (1.0, 1e-6));
    assert_eq!(
        (file.adjacency(), file.filter()),
        (Adjacency::ReplaceOne, FilterKind::Gdp)
    );
}

#[test]
fn a_plan_of_the_same_epsilon_fits_once() {
    let folder = Folder::new();
    let z = 10.0 / 0.2367 * 1.0001;
    let mut first = curator(&folder.file(), 1.0, FilterKind::Gdp);
    first.reserve(&gaussians(z, 100)).unwrap();
    let mut second = curator(&folder.file(), 1.0, FilterKind::Gdp);
    match second.reserve(&gaussians(z, 100)) {
        Err(Refused::Ledger(LedgerError::Exhausted {
            cost,
            left,
            capacity,
            ..
        })) => {
            assert!(left < 1e-3 * capacity && cost > left);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn half_and_half_fits_and_the_third_does_not() {
    let folder = Folder::new();
    let z = 0.5f64.sqrt().recip() * 10.0 / 0.2367 * 1.0001;
    let mut both = [(); 2].map(|()| curator(&folder.file(), 1.0, FilterKind::Gdp));
    for run in &mut both {
        run.reserve(&gaussians(z, 100)).unwrap();
    }
    assert!(
        curator(&folder.file(), 1.0, FilterKind::Gdp)
            .reserve(&gaussians(z, 1))
            .is_err()
    );
}

#[test]
fn a_settled_run_pays_for_what_it_released() {
    let folder = Folder::new();
    let z = 10.0 / 0.2367 * 1.0001;
    let mut run = curator(&folder.file(), 1.0, FilterKind::Gdp);
    run.reserve(&gaussians(z, 100)).unwrap();
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let secret = || LatticeSum::new(bound);
    for _ in 0..25 {
        release(
            &mut run,
            Which::All,
            secret(),
            NoiseMultiplier::new(z).unwrap(),
        )
        .unwrap();
    }
    run.settle().unwrap();
    let state = open(&folder.file(), 1.0, FilterKind::Gdp)
        .unwrap()
        .state()
        .unwrap();
    assert!((state.used / state.capacity - 0.25).abs() < 1e-3);
    assert_eq!((state.runs, state.open), (1, 0));
    // Three quarters are left, so a run of 75 more fits and one of 76 does not.
    assert!(
        curator(&folder.file(), 1.0, FilterKind::Gdp)
            .reserve(&gaussians(z, 76))
            .is_err()
    );
    curator(&folder.file(), 1.0, FilterKind::Gdp)
        .reserve(&gaussians(z, 75))
        .unwrap();
}

#[test]
fn a_run_that_died_counts_in_full_until_it_is_closed() {
    let folder = Folder::new();
    {
        let mut run = curator(&folder.file(), 1.0, FilterKind::Gdp);
        run.reserve(&gaussians(60.0, 100)).unwrap();
        // Dropped without settling, as a killed process leaves it.
    }
    let state = open(&folder.file(), 1.0, FilterKind::Gdp)
        .unwrap()
        .state()
        .unwrap();
    assert!((state.used - 100.0 / 3600.0).abs() < 1e-9);
    assert!((state.reclaimable - 100.0 / 3600.0).abs() < 1e-9);
    assert_eq!((state.runs, state.open), (1, 1));
    // It released nothing, and all of it comes back.
    let mut ledger = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    assert_eq!(ledger.reclaim().unwrap().runs, 1);
    let state = ledger.state().unwrap();
    assert_eq!((state.used, state.runs, state.open), (0.0, 1, 0));
}

#[test]
fn a_half_written_line_is_cut_off_and_the_rest_counts() {
    let folder = Folder::new();
    let mut run = curator(&folder.file(), 1.0, FilterKind::Gdp);
    run.reserve(&gaussians(60.0, 100)).unwrap();
    let whole = std::fs::read(folder.file()).unwrap();
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|&b| b == b'\n')
        .unwrap()
        + 1;
    let line = whole[last..].to_vec();
    // Without its line break the line is whole, and it can't stand there twice.
    for cut in 1..line.len() - 1 {
        let mut torn = whole.clone();
        torn.extend_from_slice(&line[..cut]);
        std::fs::write(folder.file(), &torn).unwrap();
        let mut budget = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
        assert_eq!(budget.state().unwrap().runs, 1, "cut at {cut}");
    }
    // The next reservation starts on a line of its own.
    let mut next = curator(&folder.file(), 1.0, FilterKind::Gdp);
    next.reserve(&gaussians(60.0, 50)).unwrap();
    next.settle().unwrap();
    let state = open(&folder.file(), 1.0, FilterKind::Gdp)
        .unwrap()
        .state()
        .unwrap();
    assert_eq!((state.runs, state.open), (2, 1));
}

#[test]
fn damage_in_the_middle_is_refused() {
    let folder = Folder::new();
    for _ in 0..2 {
        curator(&folder.file(), 1.0, FilterKind::Gdp)
            .reserve(&gaussians(100.0, 1))
            .unwrap();
    }
    let text = std::fs::read_to_string(folder.file()).unwrap();
    for (from, to, line) in [
        ("\"reserve\":{\"run\":0", "\"reserve\":{\"run\":7", 2),
        ("\"reserve\":{\"run\":0", "\"reverse\":{\"run\":0", 2),
        ("{\"line\":3", "{\"line\":2", 3),
        ("\"cost\":0", "\"cost\":-0", 2),
        ("\"capacity\":0", "\"capacity\":9", 1),
        ("\n", "\n\n", 2),
        ("\n", " \n", 1),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        std::fs::write(folder.file(), text.replacen(from, to, 1)).unwrap();
        let error = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap_err();
        let found = matches!(error, LedgerError::Damaged { line: at, .. } if at == line);
        assert!(found, "{from} -> {to}: {error:?}");
    }
}

#[test]
fn other_files_are_told_apart() {
    let folder = Folder::new();
    open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    let text = std::fs::read_to_string(folder.file()).unwrap();
    let opened = |content: &str| {
        std::fs::write(folder.file(), content).unwrap();
        let error = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap_err();
        // Nothing was put in the place of what was there.
        assert_eq!(std::fs::read_to_string(folder.file()).unwrap(), content);
        error
    };
    let newer = text.replacen("\"version\":2", "\"version\":3", 1);
    let error = opened(&newer);
    assert!(matches!(
        error,
        LedgerError::NewerVersion {
            found: 3,
            known: 2,
            ..
        }
    ));
    assert!(error.to_string().contains("newer"), "{error}");
    let old = r#"{"format":"dpopt-budget-1","epsilon":1.0,"delta":1e-6,"adjacency":"replace-one","filter":"gdp","capacity":0.056}"#;
    let error = opened(&format!("{old}\n"));
    assert!(matches!(&error, LedgerError::OldFormat { format, .. } if format == "dpopt-budget-1"));
    assert!(error.to_string().contains("create a new ledger"), "{error}");
    assert!(matches!(opened(""), LedgerError::Empty { .. }));
    for other in ["\n", "x", "{}\n", "[1]\n", "{\"ledger\":1}\n", "name,age\n"] {
        assert!(
            matches!(opened(other), LedgerError::OtherFile { .. }),
            "{other}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        open(folder.path(), 1.0, FilterKind::Gdp).unwrap_err(),
        LedgerError::IsAFolder { .. }
    ));
    assert!(matches!(
        Ledger::open(&folder.path().join("none")).unwrap_err(),
        LedgerError::Missing { .. }
    ));
    assert!(matches!(
        open(&folder.path().join("no/ledger"), 1.0, FilterKind::Gdp).unwrap_err(),
        LedgerError::Missing { .. }
    ));
}

/// A ledger written by hand, with hashes from outside this crate.
mod by_hand {
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// `sha256sum` of coreutils.
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

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    }

    pub(super) fn last_hash(text: &str) -> String {
        let end = text.trim_end().len() - 2;
        text[end - 64..end].to_owned()
    }

    /// `text` with more lines, chained as the documentation says.
    pub(super) fn with_lines(text: &str, contents: &[&str]) -> String {
        let mut text = text.to_owned();
        for content in contents {
            let number = text.lines().count() + 1;
            let body = format!("{{\"line\":{number},{content}");
            let mut hashed = bytes_of(&last_hash(&text));
            hashed.extend_from_slice(body.as_bytes());
            text += &format!("{body},\"hash\":\"{}\"}}\n", sha256(&hashed));
        }
        text
    }
}

const NO_OP: &str = r#"{"class_name":"NoOpDpEvent"}"#;

#[test]
fn well_chained_nonsense_is_refused() {
    let folder = Folder::new();
    curator(&folder.file(), 1.0, FilterKind::Gdp)
        .reserve(&gaussians(60.0, 100))
        .unwrap();
    let text = std::fs::read_to_string(folder.file()).unwrap();
    let state = |contents: &[&str]| {
        std::fs::write(folder.file(), by_hand::with_lines(&text, contents)).unwrap();
        open(&folder.file(), 1.0, FilterKind::Gdp).and_then(|mut ledger| ledger.state())
    };
    let settle = |cost: &str| format!(r#""settle":{{"run":0,"cost":{cost},"event":{NO_OP}}}"#);
    let reserve = |run: u64, cost: &str| {
        format!(r#""reserve":{{"run":{run},"cost":{cost},"noise":"x","event":{NO_OP}}}"#)
    };
    let slices = |from: u64, to: u64, of: u64| {
        format!(r#""slices":{{"pool":"p","from":{from},"to":{to},"of":{of}}}"#)
    };
    let release = format!(r#""release":{{"run":0,"count":3,"event":{NO_OP}}}"#);
    // First that lines written by hand are read at all.
    let lines = [&release, &slices(0, 4, 9), &slices(4, 9, 9), &settle("0.0")];
    assert_eq!(state(&lines.map(String::as_str)).unwrap().open, 0);
    assert_eq!(state(&[&reserve(1, "0.01")]).unwrap().runs, 2);
    for (damaged, contents) in [
        (3, vec![settle("0.5")]),
        (4, vec![settle("0.0"), settle("0.0")]),
        (4, vec![settle("0.0"), release.clone()]),
        (3, vec![settle("-1.0")]),
        (3, vec![reserve(1, "-0.01")]),
        (3, vec![reserve(1, "1e999")]),
        (3, vec![reserve(2, "0.0")]),
        (3, vec![reserve(0, "0.0")]),
        (
            3,
            vec![r#""release":{"run":1,"count":1,"event":{}}"#.to_owned()],
        ),
        (3, vec![slices(1, 2, 9)]),
        (3, vec![slices(0, 10, 9)]),
        (4, vec![slices(0, 4, 9), slices(3, 6, 9)]),
        (4, vec![slices(0, 4, 9), slices(4, 6, 10)]),
        (3, vec![r#""refund":{"run":0}"#.to_owned()]),
        (3, vec![r#""settle":{"run":0}"#.to_owned()]),
        (
            3,
            vec![
                text.lines().next().unwrap()[10..]
                    .split(",\"hash")
                    .next()
                    .unwrap()
                    .to_owned(),
            ],
        ),
    ] {
        let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
        let error = state(&contents).unwrap_err();
        let found = matches!(error, LedgerError::Damaged { line, .. } if line == damaged);
        assert!(found, "{contents:?}: {error:?}");
    }
}

#[test]
fn verify_recomputes_costs_and_open_does_not() {
    let folder = Folder::new();
    let mut run = curator(&folder.file(), 1.0, FilterKind::Gdp);
    run.reserve(&gaussians(60.0, 100)).unwrap();
    let text = std::fs::read_to_string(folder.file()).unwrap();
    Ledger::verify(&folder.file(), None).unwrap();
    // One Gaussian of multiplier 10 costs 0.01.
    let gaussian = r#"{"class_name":"GaussianDpEvent","noise_multiplier":10.0}"#;
    let reserve = |cost: f64| {
        format!(r#""reserve":{{"run":1,"cost":{cost},"noise":"x","event":{gaussian}}}"#)
    };
    let release =
        |count: u64| format!(r#""release":{{"run":1,"count":{count},"event":{gaussian}}}"#);
    let settle = |cost: f64| format!(r#""settle":{{"run":1,"cost":{cost},"event":{gaussian}}}"#);
    for (contents, damaged) in [
        (vec![reserve(0.01)], None),
        (vec![reserve(0.0099)], Some(3)),
        (vec![reserve(0.01), release(1)], None),
        (vec![reserve(0.01), release(1), settle(0.01)], None),
        (vec![reserve(0.01), release(1), release(1)], Some(3)),
        (vec![reserve(0.02), release(1), settle(0.009)], Some(5)),
        (vec![reserve(0.02), release(2), settle(0.01)], Some(5)),
    ] {
        let lines: Vec<&str> = contents.iter().map(String::as_str).collect();
        std::fs::write(folder.file(), by_hand::with_lines(&text, &lines)).unwrap();
        Ledger::open(&folder.file()).unwrap();
        match (Ledger::verify(&folder.file(), None), damaged) {
            (Ok(_), None) => {}
            (Err(LedgerError::Damaged { line, .. }), Some(damaged)) if line == damaged => {}
            (other, _) => panic!("{contents:?}: {other:?}"),
        }
    }
}

#[test]
fn terms_are_fixed_at_creation() {
    let folder = Folder::new();
    open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    assert!(matches!(
        open(&folder.file(), 2.0, FilterKind::Gdp).map(|_| ()),
        Err(LedgerError::OtherTerms { .. })
    ));
    assert!(matches!(
        open(&folder.file(), 1.0, FilterKind::Rdp).map(|_| ()),
        Err(LedgerError::OtherTerms { .. })
    ));
    let other = Curator::protected(Adjacency::AddRemove)
        .unwrap()
        .with_ledger(open(&folder.file(), 1.0, FilterKind::Gdp).unwrap());
    assert!(matches!(
        other.err(),
        Some(LedgerError::AdjacencyMismatch { .. })
    ));
}

#[test]
fn sampled_runs_need_the_renyi_filter() {
    let folder = Folder::new();
    let event = Event::gaussian(NoiseMultiplier::new(2.0).unwrap())
        .poisson_sampled(SamplingRate::new(0.001).unwrap());
    let spend = Spend::Fixed(event.repeated(10));
    for filter in [FilterKind::Gdp, FilterKind::Zcdp] {
        let path = folder.0.path().join(format!("{filter:?}"));
        let refused = curator(&path, 1.0, filter).reserve(&spend).unwrap_err();
        let Refused::Ledger(LedgerError::OtherFilter { ref others, .. }) = refused else {
            panic!("{refused}");
        };
        assert_eq!(others, &[FilterKind::Rdp]);
        assert!(
            refused.to_string().contains("filter rdp takes it"),
            "{refused}"
        );
    }
    let path = folder.0.path().join("rdp");
    curator(&path, 1.0, FilterKind::Rdp)
        .reserve(&spend)
        .unwrap();
}

#[test]
fn what_a_filter_admits_is_within_its_epsilon() {
    // Whatever is admitted in full must have an exact epsilon of at most the budget.
    for filter in [FilterKind::Gdp, FilterKind::Zcdp, FilterKind::Rdp] {
        for epsilon in [0.3, 1.0, 4.0] {
            let folder = Folder::new();
            let mut z = 1.0;
            let (wanted, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(1e-6).unwrap());
            let admitted = loop {
                let spend = gaussians(z, 10);
                let event = spend.event();
                if Ledger::could_pay(wanted, delta, Adjacency::ReplaceOne, filter, event).is_ok() {
                    break spend;
                }
                z *= 1.01;
            };
            curator(&folder.file(), epsilon, filter)
                .reserve(&admitted)
                .unwrap();
            let exact = dpopt_privacy::Accountant::Gdp
                .epsilon(
                    admitted.event(),
                    Delta::new(1e-6).unwrap(),
                    Adjacency::ReplaceOne,
                )
                .unwrap();
            assert!(exact <= epsilon, "{filter:?} {epsilon}: {exact}");
            assert!(exact > 0.6 * epsilon, "{filter:?} {epsilon}: {exact}");
        }
    }
}

#[test]
fn a_simulation_can_not_be_charged() {
    // Its noise is public, so the budget would promise what does not hold.
    let folder = Folder::new();
    let budget = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    assert!(matches!(
        Curator::simulated(Adjacency::ReplaceOne, 3)
            .with_ledger(budget)
            .err(),
        Some(LedgerError::Simulated)
    ));
}

#[test]
fn a_budget_comes_before_the_first_reservation_and_alone() {
    // Otherwise releases go unpaid, and a settlement goes to a file that holds another run under
    // the same number.
    let folder = Folder::new();
    let budget = || open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    let mut late = Curator::protected(Adjacency::ReplaceOne).unwrap();
    late.reserve(&gaussians(50.0, 1)).unwrap();
    assert!(matches!(
        late.with_ledger(budget()).err(),
        Some(LedgerError::TooLate)
    ));
    let one = Curator::protected(Adjacency::ReplaceOne)
        .unwrap()
        .with_ledger(budget())
        .unwrap();
    assert!(matches!(
        one.with_ledger(budget()).err(),
        Some(LedgerError::TooLate)
    ));
}

#[test]
fn a_ledger_that_is_exchanged_in_use_is_refused() {
    let z = NoiseMultiplier::new(100.0).unwrap();
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let secret = || LatticeSum::new(bound);
    type Deed = fn(&Path, &str);
    type Is = fn(&LedgerError) -> bool;
    let deeds: [(Deed, Is); 5] = [
        (
            |path, _| std::fs::remove_file(path).unwrap(),
            |error| matches!(error, LedgerError::Missing { .. }),
        ),
        (
            |path, before| std::fs::write(path, before).unwrap(),
            |error| matches!(error, LedgerError::RolledBack { .. }),
        ),
        (
            |path, _| {
                std::fs::remove_file(path).unwrap();
                curator(path, 1.0, FilterKind::Gdp)
                    .reserve(&gaussians(50.0, 1))
                    .unwrap();
            },
            |error| matches!(error, LedgerError::OtherLedger { .. }),
        ),
        (
            |path, before| {
                std::fs::write(path, before).unwrap();
                curator(path, 1.0, FilterKind::Gdp)
                    .reserve(&gaussians(50.0, 1))
                    .unwrap();
            },
            |error| matches!(error, LedgerError::Rewritten { line: 2, .. }),
        ),
        (
            |path, _| std::fs::write(path, "").unwrap(),
            |error| matches!(error, LedgerError::Empty { .. }),
        ),
    ];
    for (number, (deed, expected)) in deeds.into_iter().enumerate() {
        let folder = Folder::new();
        let path = folder.file();
        let mut watcher = open(&path, 1.0, FilterKind::Gdp).unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        let mut run = curator(&path, 1.0, FilterKind::Gdp);
        run.reserve(&gaussians(100.0, 4)).unwrap();
        watcher.state().unwrap();
        deed(&path, &before);
        let is_expected = |refused: Refused| match refused {
            Refused::Ledger(error) => assert!(expected(&error), "deed {number}: {error:?}"),
            other => panic!("deed {number}: {other:?}"),
        };
        assert!(expected(&watcher.state().unwrap_err()), "deed {number}");
        let there = std::fs::read(&path).ok();
        // The payment is not on record any more: no release, and no refund from another's money.
        is_expected(release(&mut run, Which::All, secret(), z).unwrap_err());
        is_expected(run.settle().unwrap_err());
        assert_eq!(std::fs::read(&path).ok(), there, "deed {number}");
    }
}

#[test]
fn records_are_handed_out_once() {
    let folder = Folder::new();
    let mut one = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    let mut two = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    assert_eq!(
        one.claim_records("a", 40, 100, Numbering::default())
            .unwrap(),
        0..40
    );
    assert_eq!(
        two.claim_records("a", 10, 100, Numbering::default())
            .unwrap(),
        40..50
    );
    assert_eq!(
        one.claim_records("a", 50, 100, Numbering::default())
            .unwrap(),
        50..100
    );
    assert_eq!(
        two.claim_records("b", 1, 7, Numbering::default()).unwrap(),
        0..1
    );
    assert!(matches!(
        two.claim_records("a", 1, 100, Numbering::default())
            .unwrap_err(),
        LedgerError::PoolUsedUp { left: 0, .. }
    ));
    assert!(matches!(
        two.claim_records("b", 1, 8, Numbering::default())
            .unwrap_err(),
        LedgerError::OtherPool { known: 7, .. }
    ));
    let mut after = Ledger::open(&folder.file()).unwrap();
    assert_eq!(after.records_claimed("b").unwrap(), 1);
    assert_eq!(after.records_claimed("c").unwrap(), 0);
    assert_eq!(
        after
            .claim_records("b", 6, 7, Numbering::default())
            .unwrap(),
        1..7
    );
}

#[test]
fn releases_are_listed_in_few_lines() {
    let folder = Folder::new();
    let mut run = curator(&folder.file(), 10.0, FilterKind::Gdp);
    let (a, b) = (100.0, 200.0);
    let noise = |z: f64| NoiseMultiplier::new(z).unwrap();
    let plan = [a, b].map(|z| Event::gaussian(noise(z)).repeated(1000));
    run.reserve(&Spend::Fixed(Event::composed(plan.to_vec())))
        .unwrap();
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let secret = || LatticeSum::new(bound);
    let listed = || {
        let report = Ledger::verify(&folder.file(), None).unwrap();
        report.runs[0].released.release_count()
    };
    for step in 1..=1000_u64 {
        for z in [a, b] {
            release(&mut run, Which::All, secret(), noise(z)).unwrap();
        }
        // The last line before the next doubling stands for all but less than half.
        assert!(listed() <= 2 * step && 2 * listed() >= 2 * step, "{step}");
    }
    run.settle().unwrap();
    assert_eq!(listed(), 2000);
    let text = std::fs::read_to_string(folder.file()).unwrap();
    // Two lines for each of 11 doublings at most, 20 draws and one for what rounding left of the
    // last, the terms, the reservation, the settlement.
    assert!(text.lines().count() <= 2 * 12 + 21 + 3, "{text}");
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .contains(r#""noise":"rounded-gaussian""#)
    );
}

#[test]
fn a_run_of_the_epsilon_that_is_left_fits() {
    for filter in [FilterKind::Gdp, FilterKind::Zcdp, FilterKind::Rdp] {
        let folder = Folder::new();
        curator(&folder.file(), 2.0, filter)
            .reserve(&gaussians(30.0, 10))
            .unwrap();
        let mut ledger = open(&folder.file(), 2.0, filter).unwrap();
        let state = ledger.state().unwrap();
        let epsilon = ledger.epsilon_left(&state);
        let plan = |epsilon: f64| {
            let epsilon = Epsilon::new(epsilon).unwrap();
            let mu = dpopt_privacy::mu_for(epsilon, Delta::new(1e-6).unwrap()).unwrap();
            gaussians(1.0 / mu.get(), 1)
        };
        ledger.can_pay(plan(epsilon * 0.9999).event()).unwrap();
        let error = ledger.can_pay(plan(epsilon * 1.0001).event()).unwrap_err();
        assert!(matches!(error, LedgerError::Exhausted { .. }), "{filter}");
    }
}
