//! A ledger against real processes, racing for the last of a budget, out of room, without
//! permission; and against files that were cut or have a flipped bit.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dpopt_privacy::{
    Checkpoint, Curator, FilterKind, LatticeSum, Ledger, LedgerError, Numbering, Refused, Which,
};

use dpopt_testkit::Draws;

use crate::common::{self, bound, gaussians, ledger, protected, z};

/// Says in the environment of a child what it is for.
const ROLE: &str = "DPOPT_LEDGER_TEST_ROLE";
const PLACE: &str = "DPOPT_LEDGER_TEST_PLACE";

/// Noise multiplier of every release here; one costs 1e-4 in squared mu.
const Z: f64 = 100.0;

fn open(path: &Path, epsilon: f64) -> Result<Ledger, LedgerError> {
    ledger(path, epsilon, FilterKind::Gdp)
}

fn release(curator: &mut Curator) -> Result<Vec<f64>, Refused> {
    common::release(curator, Which::All, LatticeSum::new(bound(1.0, 1)), z(Z))
}

/// One line that no output of the test harness can be part of.
fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{word}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// What the children of the other tests do; nothing in the process of the tests itself.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a child of these tests is told by its environment what it is for"
)]
fn child() {
    let (Ok(role), Ok(place)) = (std::env::var(ROLE), std::env::var(PLACE)) else {
        return;
    };
    let place = PathBuf::from(place);
    match role.as_str() {
        "race" => race(),
        "fill" => fill(&place),
        other => panic!("no role is called {other}"),
    }
}

/// For each path on standard input: reserves as much as fits once, and says whether it could.
fn race() {
    say("ready");
    // A run that is dropped is dead, and its reservation is anybody's.
    let mut winners = Vec::new();
    for path in std::io::stdin().lock().lines() {
        let path = PathBuf::from(path.unwrap());
        let mut run = protected(Ledger::open(&path).unwrap());
        match run.reserve(&gaussians(Z, 300)) {
            Ok(()) => {
                winners.push(run);
                say("won");
            }
            Err(Refused::Ledger(LedgerError::Exhausted { .. })) => say("lost"),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Runs until the file may not grow any more.
fn fill(place: &Path) {
    let path = place.join("ledger");
    let mut full = 0;
    while full < 3 {
        let mut run = protected(open(&path, 50.0).unwrap());
        match run.reserve(&gaussians(Z, 3)) {
            Ok(()) => {
                // Paid is paid: a line that can't be written stops no release.
                for _ in 0..3 {
                    release(&mut run).unwrap();
                    say("made");
                }
                match run.settle() {
                    Ok(_) | Err(Refused::Ledger(LedgerError::DiskFull { .. })) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            Err(Refused::Ledger(LedgerError::DiskFull { .. })) => {
                full += 1;
                say("full");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn start(role: &str, place: &Path, shell: Option<&str>) -> Child {
    let this = std::env::current_exe().unwrap();
    let mut command = match shell {
        None => Command::new(this),
        Some(words) => {
            let mut command = Command::new("sh");
            command
                .arg("-c")
                .arg(format!("{words}; exec \"$0\" \"$@\""))
                .arg(this);
            command
        }
    };
    command
        .args(["--exact", "ledger_crash::child"])
        .args(["--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(PLACE, place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

fn wait_for(child: &mut BufReader<impl Read>, words: &[&str]) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(child.read_line(&mut line).unwrap() > 0, "the child ended");
        if words.contains(&line.trim_end()) {
            return line.trim_end().to_owned();
        }
    }
}

#[test]
fn of_two_processes_one_gets_the_last_of_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let mut children = [
        start("race", folder.path(), None),
        start("race", folder.path(), None),
    ];
    let mut outputs = children
        .each_mut()
        .map(|child| BufReader::new(child.stdout.take().unwrap()));
    for output in &mut outputs {
        wait_for(output, &["ready"]);
    }
    for round in 0..50 {
        let path = folder.path().join(round.to_string());
        // mu(1, 1e-6) = 0.23670 (published), so 300 of the 560 releases that fit do so once.
        open(&path, 1.0).unwrap();
        for child in &mut children {
            let line = format!("{}\n", path.display());
            child
                .stdin
                .as_mut()
                .unwrap()
                .write_all(line.as_bytes())
                .unwrap();
        }
        let mut answers: Vec<String> = outputs
            .iter_mut()
            .map(|output| wait_for(output, &["won", "lost"]))
            .collect();
        answers.sort();
        assert_eq!(answers, ["lost", "won"], "round {round}");
        let report = Ledger::verify(&path, None).unwrap();
        assert_eq!(report.runs.len(), 1);
    }
    for mut child in children {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_refuses_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    // Blocks of 512 or 1024 bytes, by the shell; the signal would end the process.
    let child = start("fill", folder.path(), Some("ulimit -f 8; trap '' XFSZ"));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("\nfull\n").count(), 3);
    let made = said.matches("\nmade\n").count();
    assert!(made >= 6, "{said}");
    let path = folder.path().join("ledger");
    let report = Ledger::verify(&path, None).unwrap();
    assert!(report.used >= made as f64 * 1e-4);
    // Where there is room the ledger goes on.
    let mut run = protected(open(&path, 50.0).unwrap());
    run.reserve(&gaussians(Z, 1)).unwrap();
    run.settle().unwrap();
}

#[cfg(unix)]
#[test]
fn without_permission_nothing_is_released() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut run = protected(open(&path, 50.0).unwrap());
    let before = std::fs::read(&path).unwrap();
    let forbid = std::fs::Permissions::from_mode(0o400);
    std::fs::set_permissions(&path, forbid).unwrap();
    // The administrator of a machine may write all the same.
    if std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .is_err()
    {
        assert!(matches!(
            run.reserve(&gaussians(Z, 1)).unwrap_err(),
            Refused::Ledger(LedgerError::PermissionDenied { .. })
        ));
        assert!(release(&mut run).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), before);
        Ledger::verify(&path, None).unwrap();
    }
    // Nobody makes files among the processes of Linux.
    if Path::new("/proc/self").exists() {
        assert!(matches!(
            open(Path::new("/proc/dpopt-ledger"), 1.0).unwrap_err(),
            LedgerError::Missing { .. }
                | LedgerError::PermissionDenied { .. }
                | LedgerError::ReadOnly { .. }
        ));
    }
    // A folder that takes the file's place in use.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(
        run.reserve(&gaussians(Z, 1)).unwrap_err(),
        Refused::Ledger(LedgerError::IsAFolder { .. })
    ));
}

/// A ledger of settled, open and killed runs.
fn lived_in(folder: &Path) -> PathBuf {
    let path = folder.join("ledger");
    for (releases, settles) in [(4, true), (2, false), (0, true), (3, true)] {
        let mut run = protected(open(&path, 1.0).unwrap());
        run.reserve(&gaussians(Z, 4)).unwrap();
        for _ in 0..releases {
            release(&mut run).unwrap();
        }
        if settles {
            run.settle().unwrap();
        }
    }
    protected(open(&path, 1.0).unwrap())
        .reserve(&gaussians(Z, 4))
        .unwrap();
    path
}

/// What the first `lines` lines say was spent, read without the crate.
fn spent(text: &str, lines: usize) -> f64 {
    let mut costs: Vec<f64> = Vec::new();
    for line in text.lines().take(lines) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(cost) = line["reserve"]["cost"].as_f64() {
            costs.push(cost);
        }
        for end in ["settle", "lapse"] {
            if let Some(cost) = line[end]["cost"].as_f64() {
                costs[line[end]["run"].as_u64().unwrap() as usize] = cost;
            }
        }
    }
    costs.iter().sum()
}

#[test]
fn a_ledger_that_is_cut_anywhere_counts_its_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = lived_in(folder.path());
    let text = std::fs::read_to_string(&path).unwrap();
    let checkpoint = Ledger::open(&path).unwrap().checkpoint(&[], 0).unwrap();
    assert_eq!(checkpoint.head().bytes as usize, text.len() - 1);
    let first_line = text.find('\n').unwrap();
    for length in 0..=text.len() {
        std::fs::write(&path, &text[..length]).unwrap();
        // A line counts as soon as all of it but the line break is there.
        let ends = text.match_indices('\n').map(|(end, _)| end);
        let whole = ends.take_while(|end| *end <= length).count();
        match Ledger::open(&path) {
            Ok(mut ledger) => {
                assert!(length >= first_line, "{length}");
                let used = ledger.state().unwrap().used;
                let expected = spent(&text, whole);
                assert!(
                    used >= expected && used <= expected * (1.0 + 1e-12),
                    "{length}: {used}"
                );
            }
            Err(error) => {
                let told = matches!(
                    error,
                    LedgerError::Empty { .. }
                        | LedgerError::OtherFile { .. }
                        | LedgerError::Damaged { line: 1, .. }
                );
                assert!(told && length < first_line, "{length}: {error}");
            }
        }
        // The file alone can't tell that lines are missing; a head that was kept can.
        let continues = Ledger::resume(&path, &checkpoint);
        assert_eq!(continues.is_ok(), length >= text.len() - 1, "{length}");
        if length >= first_line
            && let Err(error) = continues
        {
            assert!(
                matches!(error, LedgerError::RolledBack { .. }),
                "{length}: {error}"
            );
        }
    }
}

#[test]
fn a_flipped_bit_is_found_and_its_line_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = lived_in(folder.path());
    let bytes = std::fs::read(&path).unwrap();
    let mut mixer = Draws::new(9);
    let last = bytes.len() - 80;
    let mut bits: Vec<usize> = (0..2500)
        .map(|_| mixer.below(8 * bytes.len() as u64) as usize)
        .collect();
    // Where lines end a flip could pass for something else.
    bits.extend(8 * last..8 * bytes.len());
    let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    bits.extend(breaks.flat_map(|(at, _)| 8 * at..8 * at + 8));
    for bit in bits {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &flipped).unwrap();
        let at = 1 + bytes[..bit / 8]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count() as u64;
        match Ledger::verify(&path, None) {
            Err(LedgerError::Damaged { line, .. }) => assert_eq!(line, at, "bit {bit}"),
            // The first line says what the file is.
            Err(LedgerError::OtherFile { .. } | LedgerError::NewerVersion { .. }) => {
                assert_eq!(at, 1, "bit {bit}");
            }
            other => panic!("bit {bit}: {other:?}"),
        }
        assert!(Ledger::open(&path).is_err());
    }
}

#[test]
fn a_checkpoint_is_whole_or_refused() {
    use dpopt_privacy::CheckpointError;
    let folder = tempfile::tempdir().unwrap();
    let path = lived_in(folder.path());
    let place = folder.path().join("checkpoint");
    let mut ledger = Ledger::open(&path).unwrap();
    ledger
        .claim_records("all", 5, 9, Numbering::default())
        .unwrap();
    let point = [1.0 / 3.0, -1e-300, 2.5e300];
    let checkpoint = ledger.checkpoint(&point, 17).unwrap();
    checkpoint.write(&place).unwrap();
    let read = Checkpoint::read(&place).unwrap();
    assert_eq!(read, checkpoint);
    assert_eq!((read.point(), read.step()), (&point[..], 17));
    let pool = &read.pools()[0];
    assert_eq!(
        (pool.pool.as_str(), pool.spent, pool.records),
        ("all", 5, 9)
    );
    // The ledger may grow.
    protected(ledger).reserve(&gaussians(Z, 1)).unwrap();
    Ledger::resume(&path, &read).unwrap();
    Ledger::verify(&path, Some(&read)).unwrap();
    // Another ledger, with equal terms.
    let other = folder.path().join("other");
    open(&other, 1.0).unwrap();
    assert!(matches!(
        Ledger::resume(&other, &read).unwrap_err(),
        LedgerError::OtherLedger { .. }
    ));
    let bytes = std::fs::read(&place).unwrap();
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&place, &flipped).unwrap();
        assert!(Checkpoint::read(&place).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() - 1 {
        std::fs::write(&place, &bytes[..length]).unwrap();
        assert!(Checkpoint::read(&place).is_err(), "{length}");
    }
    let text = String::from_utf8(bytes).unwrap();
    std::fs::write(&place, text.replacen("\"version\":1", "\"version\":2", 1)).unwrap();
    assert!(matches!(
        Checkpoint::read(&place).unwrap_err(),
        CheckpointError::NewerVersion { found: 2, .. }
    ));
    assert!(matches!(
        Checkpoint::read(&path).unwrap_err(),
        CheckpointError::OtherFile { .. }
    ));
    for bad in [f64::NAN, f64::INFINITY] {
        let mut ledger = Ledger::open(&path).unwrap();
        assert!(matches!(
            ledger.checkpoint(&[0.0, bad], 1).unwrap_err(),
            CheckpointError::NotFinite { coordinate: 1, .. }
        ));
    }
}

/// A file in the format of 0.1, which names no model, written by hand with the hash of another program: it reads, and is written as it was.
#[test]
fn a_checkpoint_of_0_1_is_read() {
    const STORED: &str = include_str!("../data/checkpoint-0.1.json");
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c.json");
    std::fs::write(&place, STORED).unwrap();
    let read = Checkpoint::read(&place).unwrap();
    assert_eq!(read.point(), [0.5, -1.25, 3e-300]);
    assert_eq!((read.step(), read.model()), (17, None));
    let (head, pool) = (read.head(), &read.pools()[0]);
    assert_eq!((head.lines, head.bytes), (3, 1234));
    assert_eq!(head.ledger.to_string(), "ab".repeat(32));
    assert_eq!((pool.spent, pool.records), (40, 100));
    read.write(&place).unwrap();
    assert_eq!(std::fs::read_to_string(&place).unwrap(), STORED);
    // One digit of the point is another.
    std::fs::write(&place, STORED.replace("-1.25", "-1.26")).unwrap();
    assert!(Checkpoint::read(&place).is_err());
}
