//! Processes that are killed in the middle of a run: at random times by a signal, and by their own
//! hand at a chosen operation on the disk, before it, after it, or half-way through a write.
//! Afterwards the ledger says at least what was released, and little more.
//!
//! A release is what left the process: the child writes a line to a pipe when it has one, and the
//! parent reads all lines that came through. So what is counted was released, and a release that
//! nobody saw counts as a loss.
//!
//! A short form runs with the tests, the long one with `cargo xtask kills`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpopt_testkit::{Draws, is_long};

use super::disk::{Access, Disk, FileDisk, OpenFile, Pulse};
use super::terms::Terms;
use super::{Ledger, LedgerState, RunState};
use crate::adjacency::Adjacency;
use crate::curator::{Curator, Spend};
use crate::event::Event;
use crate::filter::FilterKind;
use crate::lattice::{Bound, LatticeSum};
use crate::sample::Body;
use crate::units::{ClipNorm, Delta, Epsilon, NoiseMultiplier};
use crate::which::Which;

/// Says in the environment of a child where its ledger is.
const PLACE: &str = "DPOPT_KILLS_PLACE";
/// Says in the environment of a child at which operation it ends, and how.
const FAULT: &str = "DPOPT_KILLS_FAULT";

/// Noise multiplier of every release; one costs 1e-4 in squared mu.
const Z: f64 = 100.0;
const COST: f64 = 1e-4;
/// Releases of a plan.
const PLAN: u64 = 400;
/// Kills after which a new ledger is begun.
const KILLS_PER_LEDGER: usize = 25;
/// What a run that was killed may lose in the median, as a share of its plan.
const MEDIAN_LOSS: f64 = 0.06;
/// What one may lose at most: a draw. Costs and their sums are rounded up.
const MOST_LOST: f64 = 0.05 * (1.0 + 1e-6);

fn open(path: &Path, disk: impl Disk + 'static) -> Ledger {
    let (epsilon, delta) = (Epsilon::new(50.0).unwrap(), Delta::new(1e-6).unwrap());
    let terms = Terms::new(epsilon, delta, Adjacency::ReplaceOne, FilterKind::Gdp);
    Ledger::on(path, Box::new(disk), Some(terms.unwrap())).unwrap()
}

/// How a process ends at its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Before,
    After,
    /// With half of a write done.
    Half,
}

/// The disk of the system, on which the process ends itself at one operation.
#[derive(Debug, Clone)]
struct Fatal {
    disk: Arc<FileDisk>,
    made: Arc<AtomicU64>,
    at: u64,
    way: Way,
}

impl Fatal {
    /// Makes an operation, or not.
    fn pass<T>(&self, operation: impl FnOnce() -> T, half: impl FnOnce()) -> T {
        let now = 1 + self.made.fetch_add(1, Ordering::Relaxed);
        if now != self.at {
            return operation();
        }
        match self.way {
            Way::Before => {}
            Way::After => drop(operation()),
            Way::Half => half(),
        }
        std::process::abort()
    }
}

#[derive(Debug)]
struct FatalPulse(#[expect(dead_code, reason = "held for its lock")] Box<dyn Pulse>);

impl Pulse for FatalPulse {}

impl Disk for Fatal {
    fn create(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.pass(|| self.disk.create(bytes), || {})
    }

    fn open(&self, access: Access) -> std::io::Result<Box<dyn OpenFile>> {
        let file = self.pass(|| self.disk.open(access), || {})?;
        let fatal = self.clone();
        Ok(Box::new(FatalFile { file, fatal }))
    }

    fn sync_place(&self) -> std::io::Result<()> {
        self.pass(|| self.disk.sync_place(), || {})
    }

    fn start_pulse(&self, nonce: &str) -> std::io::Result<Box<dyn Pulse>> {
        let pulse = self.pass(|| self.disk.start_pulse(nonce), || {})?;
        Ok(Box::new(FatalPulse(pulse)))
    }

    fn pulse_stopped(&self, nonce: &str) -> bool {
        self.pass(|| self.disk.pulse_stopped(nonce), || {})
    }

    fn remove_pulse(&self, nonce: &str) -> std::io::Result<()> {
        self.pass(|| self.disk.remove_pulse(nonce), || {})
    }

    fn pulses(&self) -> std::io::Result<Vec<String>> {
        self.pass(|| self.disk.pulses(), || {})
    }
}

struct FatalFile {
    file: Box<dyn OpenFile>,
    fatal: Fatal,
}

impl OpenFile for FatalFile {
    fn read(&mut self, from: u64) -> std::io::Result<Vec<u8>> {
        self.fatal.pass(|| self.file.read(from), || {})
    }

    fn truncate(&mut self, len: u64) -> std::io::Result<()> {
        self.fatal.pass(|| self.file.truncate(len), || {})
    }

    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let (fatal, file) = (self.fatal.clone(), &mut self.file);
        let file = std::cell::RefCell::new(file);
        fatal.pass(
            || file.borrow_mut().append(bytes),
            || {
                let _ = file.borrow_mut().append(&bytes[..bytes.len() / 2]);
            },
        )
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.fatal.pass(|| self.file.sync(), || {})
    }
}

/// One line that no output of the test harness can be part of.
fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{word}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// What the children do: one run; nothing in the process of the tests itself.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a child of these tests is told by its environment what it is for"
)]
fn child() {
    let (Ok(place), Ok(fault)) = (std::env::var(PLACE), std::env::var(FAULT)) else {
        return;
    };
    let path = PathBuf::from(place);
    let (at, way) = fault.split_once(' ').unwrap();
    let disk = Fatal {
        disk: Arc::new(FileDisk::new(&path)),
        made: Arc::default(),
        at: at.parse().unwrap(),
        way: match way {
            "before" => Way::Before,
            "after" => Way::After,
            _ => Way::Half,
        },
    };
    let ledger = open(&path, disk.clone());
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let mut curator = curator.with_ledger(ledger).unwrap();
    let z = NoiseMultiplier::new(Z).unwrap();
    let plan = Event::gaussian(z).repeated(PLAN);
    curator.reserve(&Spend::Fixed(plan)).unwrap();
    say("ready");
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    for _ in 0..PLAN {
        // Each release waits until it may be made.
        std::io::stdin().read_exact(&mut [0]).unwrap();
        let ticket = curator.grant(Which::All, Body::of(1), bound, z).unwrap();
        curator.redeem(ticket, LatticeSum::new(bound)).unwrap();
        say("made");
    }
    curator.settle().unwrap();
    say(&format!("done {}", disk.made.load(Ordering::Relaxed)));
}

/// A child that may make so many releases.
fn start(path: &Path, fault: &str, releases: u64) -> Child {
    let name = format!("{}::child", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(PLACE, path)
        .env(FAULT, fault)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // One that is dead already reads nothing.
    let _ = child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(&vec![0; releases as usize]);
    child
}

/// Lets a child make a whole run; the number of its operations.
fn operations() -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let output = start(&folder.path().join("ledger"), "0 before", PLAN).wait_with_output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    let done = said.lines().find_map(|line| line.strip_prefix("done "));
    done.unwrap().parse().unwrap()
}

/// What was found after all kills.
#[derive(Default)]
struct Found {
    kills: usize,
    released: u64,
    /// For each run that was killed: what it paid and nobody saw, over its plan.
    losses: Vec<f64>,
}

impl Found {
    fn median(&mut self) -> f64 {
        self.losses.sort_by(f64::total_cmp);
        self.losses[self.losses.len() / 2]
    }

    /// Prints and checks the losses.
    fn check(&mut self, what: &str, at_least: usize) {
        let median = self.median();
        let most = self.losses.last().copied().unwrap();
        let line = format!(
            "{} kills {what}, {} of them in a run; {} releases; lost of a plan: median {:.2} %, at most {:.2} %",
            self.kills,
            self.losses.len(),
            self.released,
            100.0 * median,
            100.0 * most,
        );
        say(&line);
        assert!(self.losses.len() >= at_least, "{line}");
        assert!(median < MEDIAN_LOSS && most <= MOST_LOST, "{line}");
    }
}

/// One ledger and what was released on it.
struct Subject {
    folder: tempfile::TempDir,
    released: u64,
    used: f64,
}

impl Subject {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            released: 0,
            used: 0.0,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    fn state(&self) -> Option<LedgerState> {
        let mut ledger = self
            .path()
            .exists()
            .then(|| Ledger::open(&self.path()).unwrap())?;
        Some(ledger.state().unwrap())
    }

    /// Looks at what a dead child left, before and after its run is closed.
    fn look(&mut self, said: &str, found: &mut Found) {
        found.kills += 1;
        let made = said.matches("\nmade\n").count() as u64;
        self.released += made;
        found.released += made;
        let Some(before) = self.state() else {
            assert_eq!(self.released, 0);
            return;
        };
        let paid = self.released as f64 * COST;
        assert!(before.used >= paid, "{} < {paid}", before.used);
        let report = Ledger::verify(&self.path(), None).unwrap();
        let died = report.runs.last().filter(|run| run.state == RunState::Died);
        let (died, drawn) = (died.is_some(), died.and_then(|run| run.drawn));
        let mut ledger = Ledger::open(&self.path()).unwrap();
        let reclaimed = ledger.reclaim().unwrap();
        let after = ledger.state().unwrap();
        assert_eq!(reclaimed.runs, u64::from(died));
        assert!(after.used >= paid, "{} < {paid}", after.used);
        assert_eq!((after.open, after.reclaimable), (0, 0.0));
        if let Some(drawn) = drawn {
            assert!((after.used - self.used - drawn).abs() < 1e-9);
            let loss = (drawn - made as f64 * COST) / (PLAN as f64 * COST);
            found.losses.push(loss);
        }
        self.used = after.used;
        // No pulse is left.
        let disk = FileDisk::new(&self.path());
        assert_eq!(disk.pulses().unwrap(), [""; 0]);
        Ledger::verify(&self.path(), None).unwrap();
    }
}

#[test]
fn a_run_killed_at_a_random_time_has_paid_for_what_it_released_and_little_more() {
    let kills = if is_long() { 1000 } else { 60 };
    let (mut mixer, mut found) = (Draws::new(11), Found::default());
    let mut subject = Subject::new();
    for number in 0..kills {
        if number % KILLS_PER_LEDGER == 0 {
            subject = Subject::new();
        }
        // One in ten dies before or while it reserves.
        let until = if mixer.below(10) == 0 {
            0
        } else {
            1 + mixer.below(PLAN - 40)
        };
        // It can't come to the end of its plan.
        let mut child = start(&subject.path(), "0 before", until + mixer.below(40));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (mut said, mut seen) = (String::new(), 0);
        while seen < until && output.read_line(&mut said).unwrap() > 0 {
            seen += u64::from(said.ends_with("\nmade\n"));
        }
        // A random moment, and not a wait for one.
        (0..mixer.below(100_000)).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        output.read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        subject.look(&said, &mut found);
    }
    found.check("at random times", kills / 2);
}

#[test]
fn a_run_killed_at_a_chosen_operation_has_paid_for_what_it_released_and_little_more() {
    let kills = if is_long() { 900 } else { 60 };
    let operations = operations();
    // A draw has four operations, and there are twenty.
    assert!(operations > 80, "{operations}");
    let mut found = Found::default();
    let mut subject = Subject::new();
    for number in 0..kills {
        // Each part of the runs with each way, on a new ledger and on one with a past.
        if number % KILLS_PER_LEDGER == 0 {
            subject = Subject::new();
        }
        let at = 1 + number as u64 * operations / kills as u64;
        let way = ["before", "after", "half"][number % 3];
        let child = start(&subject.path(), &format!("{at} {way}"), PLAN);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        subject.look(&said, &mut found);
    }
    found.check("at chosen operations", kills / 2);
}
