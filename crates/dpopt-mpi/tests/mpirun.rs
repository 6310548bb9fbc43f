//! Ranks that `mpirun` starts: the recorded bits, how runs end, what a killed rank has paid, and the command.
//!
//! Two cores are enough: ranks are oversubscribed. `DPOPT_LONG` asks for 200 kills.
#![allow(clippy::print_stdout, reason = "what the kills showed")]
#![allow(
    clippy::disallowed_methods,
    reason = "the long form is asked for by the environment"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use dpopt_privacy::Ledger;
use tempfile::TempDir;

/// Squared mu of a release of the example.
const COST: f64 = 1e-4;

/// The example, which is built with the tests.
fn example() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let target = this.parent().and_then(Path::parent).unwrap();
    target.join("examples/ranks")
}

fn mpirun(ranks: usize, program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command
        .args(["--oversubscribe", "--allow-run-as-root", "-n"])
        .arg(ranks.to_string())
        .arg(program)
        .args(words)
        .env("OMPI_MCA_btl_vader_single_copy_mechanism", "none")
        .env("OMPI_MCA_mpi_yield_when_idle", "1")
        .stdin(Stdio::null());
    command
}

fn ran(ranks: usize, words: &[&str]) -> (bool, String) {
    let output = mpirun(ranks, &example(), words).output().unwrap();
    (output.status.success(), both(&output))
}

fn both(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn every_solver_releases_the_recorded_bits() {
    for (ranks, what) in [
        (2, "streams"),
        (4, "streams"),
        (2, "saddles"),
        (4, "saddles"),
    ] {
        let (fine, said) = ran(ranks, &[what]);
        assert!(fine, "{ranks} ranks, {what}: {said}");
        assert_eq!(said.matches("done").count(), ranks, "{said}");
    }
}

#[test]
fn ranks_that_differ_are_told_on_what_on_all_ranks() {
    for (what, on) in [
        ("seed", "the seed"),
        ("plan", "what is reserved"),
        ("adjacency", "the adjacency"),
    ] {
        let (fine, said) = ran(3, &["differ", what]);
        assert!(!fine);
        for rank in 0..3 {
            let told = format!("rank {rank}: the ranks do not agree on {on}");
            assert!(said.contains(&told), "{said}");
        }
    }
}

#[test]
fn a_rank_with_an_error_of_its_own_ends_all() {
    let (fine, said) = ran(3, &["leave"]);
    assert!(!fine);
    assert!(said.contains("rank 1: no records here"), "{said}");
    for rank in [0, 2] {
        let told = format!("rank {rank}: rank 1 ended the run before the plan");
        assert!(said.contains(&told), "{said}");
    }
}

#[test]
fn a_rank_that_hangs_ends_all_within_the_limit() {
    // Without a limit this waits for the rank that hangs, for ever.
    let (fine, said) = ran(3, &["late"]);
    assert!(!fine, "{said}");
    assert!(said.contains("a rank did not answer within 5 s"), "{said}");
    assert!(!said.contains("done"), "{said}");
}

fn kills() -> u64 {
    match std::env::var_os("DPOPT_LONG") {
        Some(_) => 200,
        None => 6,
    }
}

/// Numbers below `bound`, the same ones each time.
fn draws() -> impl FnMut(u64) -> u64 {
    let mut state = 11u64;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
    // One that nobody has waited for is dead as well.
    status.is_ok_and(|text| !text.contains(") Z "))
}

fn kill(process: u32) {
    let killed = Command::new("kill")
        .args(["-9", &process.to_string()])
        .status();
    // It may have ended by itself.
    let _ = killed.unwrap();
}

/// One run, in which a rank is killed after so many releases and a moment. What all ranks said; they are gone.
fn killed(child: &mut Child, rank: usize, after: u64, moment: u64) -> String {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let (mut said, mut seen) = (String::new(), 0);
    let mut processes = [0; 3];
    let mut known = 0;
    while known < processes.len() || seen < after {
        let from = said.len();
        if output.read_line(&mut said).unwrap() == 0 {
            break;
        }
        let words: Vec<&str> = said[from..].split_whitespace().collect();
        match words.as_slice() {
            ["process", of, number] => {
                processes[of.parse::<usize>().unwrap()] = number.parse().unwrap();
                known += 1;
            }
            ["made", "0"] => seen += 1,
            _ => {}
        }
    }
    // Number 0 is no process: it would be those of this test.
    assert_eq!(known, processes.len(), "{said}");
    (0..moment).for_each(|_| std::hint::spin_loop());
    kill(processes[rank]);
    output.read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    while processes.iter().any(|process| is_alive(*process)) {
        std::thread::yield_now();
    }
    said
}

/// Kills a rank of so many runs of the example; how many were in a run, and what was under-reported: charged for less than a rank has shown.
fn kill_runs(what: &str, kills: u64) -> (u64, Vec<String>) {
    let folder = TempDir::new().unwrap();
    let mut draw = draws();
    let mut inside = 0;
    let mut faults = Vec::new();
    for number in 0..kills {
        // Each has books of its own: they would grow, and be read 40 times a run.
        let ledger = folder.path().join(format!("ledger-{number}"));
        let path = ledger.to_str().unwrap();
        let rank = draw(3) as usize;
        let (after, moment) = (draw(380), draw(100_000));
        let mut command = mpirun(3, &example(), &[what, path]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = killed(&mut child, rank, after, moment);
        inside += u64::from(!said.contains("done"));
        let shown = (0..3).map(|rank: u32| {
            let file = ledger.with_extension(rank.to_string());
            std::fs::read(file).map_or(0, |shown| shown.len())
        });
        let made = shown.max().unwrap() as f64;
        let mut charged = 0.0;
        if ledger.exists() {
            let mut books = Ledger::open(&ledger).unwrap();
            books.reclaim().unwrap();
            charged = books.state().unwrap().used;
        }
        if charged < made * COST * (1.0 - 1e-9) {
            faults.push(format!("kill {number}: {charged} for {made}"));
        }
    }
    println!("{kills} kills, {inside} of them in a run");
    (inside, faults)
}

/// What any rank has shown was charged before, whichever rank is killed and when; all ranks end.
#[test]
fn a_killed_rank_ends_all_and_the_books_have_what_was_released() {
    let (inside, faults) = kill_runs("releases", kills());
    assert!(faults.is_empty(), "{faults:?}");
    assert!(inside >= kills() / 2);
}

#[test]
fn ranks_that_show_what_is_not_charged_yet_are_caught() {
    let (_, faults) = kill_runs("early", 4);
    assert!(!faults.is_empty());
}

/// The command: a folder with a table in parts.
struct Place(TempDir);

const SCHEMA: &str = r#"format = 1
row_norm = 2.0
intercept = 1.0

[label]
column = "y"
values = ["no", "yes"]
positive = "yes"
default = "no"

[[column]]
name = "x"
kind = "number"
min = 0.0
max = 10.0
transform = "linear"
default = 0.0
"#;

impl Place {
    fn new(parts: usize) -> Self {
        let place = Self(TempDir::new().unwrap());
        place.put("s.toml", SCHEMA);
        for part in 0..parts {
            let mut table = "x,y\n".to_owned();
            for i in 0..300 + 50 * part {
                let x = (i * 7 + part) % 11;
                table += &format!("{x},{}\n", if x > 5 { "yes" } else { "no" });
            }
            place.put(&format!("part-{part}.csv"), &table);
        }
        place
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn run(&self, ranks: usize, words: &str) -> Output {
        let words: Vec<&str> = words.split_whitespace().collect();
        let program = Path::new(env!("CARGO_BIN_EXE_dpopt-mpi"));
        let mut command = mpirun(ranks, program, &words);
        command.current_dir(self.0.path()).output().unwrap()
    }

    fn refused(&self, ranks: usize, words: &str, why: &str) {
        let output = self.run(ranks, words);
        let said = both(&output);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{said}"
        );
        assert!(said.contains(why), "{why}: {said}");
        assert!(!self.0.path().join("b.jsonl").exists() && !self.0.path().join("o").exists());
    }
}

#[test]
fn the_command_trains_on_a_file_for_each_rank_and_the_first_rank_tells() {
    for (solver, data) in [
        ("noisy-gd", "part-*.csv"),
        ("dp-sgd", "part-{rank}.csv"),
        ("spiderboost", "part-*.csv"),
        ("recursive-sgd --radius 1", "part-*.csv"),
    ] {
        let place = Place::new(4);
        let output = place.run(
            4,
            &format!(
                "train --data {data} --schema s.toml --solver {solver} --max-steps 400 --epsilon 1e6 --ledger b.jsonl --budget 2e6 --budget-delta 1e-3 --out o --threads 1"
            ),
        );
        let said = both(&output);
        assert!(output.status.success(), "{solver}: {said}");
        assert_eq!(said.matches("Table  ").count(), 1, "{said}");
        assert!(said.contains("1500 records"), "{said}");
        for name in ["model.json", "events.json", "report.html"] {
            assert!(place.0.path().join("o").join(name).exists(), "{name}");
        }
        let mut books = Ledger::open(&place.0.path().join("b.jsonl")).unwrap();
        let state = books.state().unwrap();
        assert_eq!((state.runs, state.open), (1, 0));
    }
}

#[test]
fn what_ranks_can_not_share_is_refused_and_nothing_is_charged() {
    let place = Place::new(3);
    let with =
        "--schema s.toml --ledger b.jsonl --budget 5 --budget-delta 1e-3 --out o --epsilon 1";
    let all = [
        (
            "train --data part-0.csv",
            "is one file, and there are 4 ranks",
        ),
        (
            "train --data part-*.csv",
            "3 files match part-*.csv, and there are 4 ranks",
        ),
        ("train --data part-{rank}.csv", "part-3.csv"),
        ("train --data -", "standard input is that of one process"),
    ];
    for (words, why) in all {
        place.refused(4, &format!("{words} {with}"), why);
    }
    place.refused(
        4,
        "train --data part-*.csv --out o --ledger b.jsonl --budget 5 --budget-delta 1e-3",
        "",
    );
    // A part without records.
    place.put("part-3.csv", "x,y\n");
    place.refused(
        4,
        &format!("train --data part-*.csv {with}"),
        "rank 3: error: part-*.csv: no records",
    );
    // How many records there are is secret, and nobody said how many to plan with.
    let secret = format!("train --data part-*.csv --adjacency add-remove {with}");
    place.refused(
        4,
        &secret,
        "--public-records: required with --adjacency add-remove",
    );
    place.put("part-3.csv", "x,y\n1,no\n2,yes\n");
    let other = format!("train --data part-*.csv --public-records 7 {with}");
    place.refused(4, &other, "7 records declared");
    place.refused(
        2,
        "tune --data part-*.csv --schema s.toml",
        "only `train` runs on several ranks",
    );
}

/// A plan is of all records, and told once; a run goes on from a checkpoint that the first rank alone has, with what its ledger has left.
#[test]
fn ranks_show_a_plan_and_go_on_with_a_run() {
    let place = Place::new(3);
    let with = "--data part-*.csv --schema s.toml --solver noisy-gd --threads 1";
    let output = place.run(3, &format!("train {with} --epsilon 1 --dry-run"));
    let said = both(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("dry run").count(), 1, "{said}");
    // As of one process with all of the table.
    let mut table = "x,y\n".to_owned();
    for part in 0..3 {
        let name = place.0.path().join(format!("part-{part}.csv"));
        let text = std::fs::read_to_string(name).unwrap();
        table += text.split_once('\n').unwrap().1;
    }
    place.put("all.csv", &table);
    let alone = with.replace("part-*.csv", "all.csv");
    let one = both(&place.run(1, &format!("train {alone} --epsilon 1 --dry-run")));
    assert_eq!(said, one);

    let books = "--ledger b.jsonl --budget 2e3 --budget-delta 1e-3";
    let first =
        format!("train {with} {books} --max-steps 40 --epsilon 5e2 --checkpoint c.json --out o");
    let output = place.run(3, &first);
    assert!(output.status.success(), "{}", both(&output));
    let output = place.run(
        3,
        &format!("train {with} {books} --max-steps 40 --resume c.json --out again"),
    );
    let said = both(&output);
    assert!(output.status.success(), "{said}");
    let mut books = Ledger::open(&place.0.path().join("b.jsonl")).unwrap();
    let state = books.state().unwrap();
    assert_eq!((state.runs, state.open), (2, 0));
    assert!(
        books.epsilon_left(&state) < 1e3,
        "what was left was not spent"
    );

    let gone = format!("train {with} --ledger b.jsonl --resume none.json --out third");
    let output = place.run(3, &gone);
    let said = both(&output);
    assert!(
        !output.status.success() && said.contains("none.json"),
        "{said}"
    );
}

/// Ranks that were started with other words: another plan, another schema.
#[test]
fn ranks_with_other_words_are_told() {
    let place = Place::new(2);
    place.put("other.toml", &SCHEMA.replace("max = 10.0", "max = 12.0"));
    let program = env!("CARGO_BIN_EXE_dpopt-mpi");
    let words = |schema: &str, epsilon: &str| {
        let words = format!("train --data part-*.csv --schema {schema} --epsilon {epsilon}");
        words
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for other in [words("s.toml", "2"), words("other.toml", "1")] {
        let mut command = Command::new("mpirun");
        command.args(["--oversubscribe", "--allow-run-as-root", "-n", "1", program]);
        command
            .args(words("s.toml", "1"))
            .args([":", "-n", "1", program])
            .args(other);
        let output = command.current_dir(place.0.path()).output().unwrap();
        let said = both(&output);
        assert!(!output.status.success(), "{said}");
        assert!(
            said.contains("the ranks do not agree on the command"),
            "{said}"
        );
    }
    // The same words, and another file of that name on one of two machines.
    for (rank, name) in ["a", "b"].iter().enumerate() {
        let folder = place.0.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        for part in ["part-0.csv", "part-1.csv"] {
            std::fs::copy(place.0.path().join(part), folder.join(part)).unwrap();
        }
        let schema = ["s.toml", "other.toml"][rank];
        std::fs::copy(place.0.path().join(schema), folder.join("s.toml")).unwrap();
    }
    let mut command = Command::new("mpirun");
    command.args([
        "--oversubscribe",
        "--allow-run-as-root",
        "-n",
        "1",
        "--wdir",
        "a",
        program,
    ]);
    command.args(words("s.toml", "1"));
    command
        .args([":", "-n", "1", "--wdir", "b", program])
        .args(words("s.toml", "1"));
    let output = command.current_dir(place.0.path()).output().unwrap();
    let said = both(&output);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("the ranks do not agree on the schema"),
        "{said}"
    );
}

/// Masked sums were removed: the flag of them is refused, with what to use instead.
#[test]
fn ranks_with_masks_are_refused() {
    let words = "--honest-parties 2 train --data part-{rank}.csv --schema s.toml --out o";
    let why = "--honest-parties: masked sums were removed";
    Place::new(3).refused(3, words, why);
}
