//! A folder with a small table, its schema and the command.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use dpopt::nonconvex::Solver;
use serde_json::Value;
use tempfile::TempDir;

/// Rows of the small table.
pub(crate) const ROWS: usize = 400;

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

[[column]]
name = "c"
kind = "category"
values = ["a", "b"]
"#;

/// A temporary folder with `t.csv`, `test.csv` and `s.toml`, and another one for models that no test asks for.
pub(crate) struct Place(TempDir, TempDir);

/// The words of a command. A training on a table that leaves out `--epsilon` gets 1, and without a ledger the model that would be lost
/// goes to a new folder in `kept`: most tests are about something else.
pub(crate) fn words(flags: &str, kept: &Path) -> Vec<String> {
    let mut words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    let has = |flags: &[&str]| words.iter().any(|word| flags.contains(&word.as_str()));
    let trains = ["train ", "tune "]
        .iter()
        .any(|name| flags.starts_with(name));
    let first = words
        .get(1)
        .filter(|word| *word == "-" || !word.starts_with('-'));
    if trains && (first.is_some() || has(&["--data", "--schema"])) {
        let budget = flags.starts_with("train ") && !has(&["--epsilon", "--resume"]);
        let lost = !has(&["--out", "--json", "--dry-run", "--ledger"]);
        if budget {
            words.splice(1..1, ["--epsilon".to_owned(), "1".to_owned()]);
        }
        if lost {
            let folder = TempDir::new_in(kept).unwrap().keep();
            words.splice(1..1, ["--out".to_owned(), folder.display().to_string()]);
        }
    }
    words
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(TempDir::new().unwrap(), TempDir::new().unwrap());
        place.put("t.csv", &table(&rows(ROWS)));
        place.put("test.csv", &table(&rows(120)));
        place.put("s.toml", SCHEMA);
        place
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    /// The folder for models that no test asks for.
    pub(crate) fn kept(&self) -> &Path {
        self.1.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// A table with rows enough for this solver: one pass to a certificate of second order needs thousands.
    pub(crate) fn table_for(&self, solver: &Solver) {
        let needs = solver.needs;
        let times = if needs.hessian && needs.positions {
            10
        } else {
            1
        };
        self.put("t.csv", &table(&rows(times * ROWS)));
    }

    /// Edits the schema.
    pub(crate) fn schema_with(&self, old: &str, new: &str) {
        assert!(SCHEMA.contains(old), "{old}");
        self.put("s.toml", &SCHEMA.replace(old, new));
    }

    /// All files and folders below, sorted.
    pub(crate) fn listing(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, out);
                }
                out.push(path);
            }
        }
        let mut all = Vec::new();
        walk(self.0.path(), &mut all);
        all.sort();
        all
    }

    pub(crate) fn command(&self, flags: &str) -> Command {
        self.command_of(words(flags, self.kept()))
    }

    fn command_of(&self, words: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dpopt"));
        command.current_dir(self.0.path()).args(words);
        command
    }

    /// Exactly this command line, in which nothing is filled in.
    pub(crate) fn run_exactly(&self, flags: &str) -> Output {
        self.command_of(flags.split_whitespace()).output().unwrap()
    }

    pub(crate) fn run(&self, flags: &str) -> Output {
        self.command(flags).output().unwrap()
    }

    /// Standard output of a run that must succeed. That a model of few steps is no better than a
    /// constant is a warning, and no failure.
    pub(crate) fn ok(&self, flags: &str) -> String {
        let output = self.run(flags);
        let (said, code) = (stderr(&output), output.status.code());
        let poor = code == Some(4) && said.contains("no better than a constant");
        assert!(code == Some(0) || poor, "{flags}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard output of a run that must end with this code.
    pub(crate) fn ends(&self, flags: &str, code: i32) -> String {
        let output = self.run(flags);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{flags}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// `train` on the small table, as JSON.
    pub(crate) fn train(&self, flags: &str) -> Value {
        let flags = format!("train --data t.csv --schema s.toml --json {flags}");
        let text = self.ok(&flags);
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// A run that must fail with this code, one line on standard error, nothing on standard
    /// output and no trace in the folder.
    pub(crate) fn fails(&self, flags: &str, code: i32, words: &[&str]) {
        let before = self.listing();
        let output = self.run(flags);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{flags}: {message}");
        assert!(output.stdout.is_empty(), "{flags}");
        let errors = message.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{flags}: {message}");
        let sentence = message.lines().last().unwrap();
        for word in words {
            assert!(sentence.contains(word), "{flags}: {sentence}");
        }
        for debug in ["Some(", "Err(", "{ ", "panicked"] {
            assert!(!message.contains(debug), "{flags}: {message}");
        }
        assert_eq!(self.listing(), before, "{flags}: left something behind");
    }
}

/// Waits until a child has brought this about, however long that takes.
pub(crate) fn until(child: &mut Child, done: impl Fn() -> bool) {
    while !done() {
        let ended = child.try_wait().unwrap();
        if ended.is_some() && !done() {
            let mut said = String::new();
            let errors = child.stderr.as_mut();
            errors.map(|errors| errors.read_to_string(&mut said));
            panic!("it ended before: {said}");
        }
        std::thread::yield_now();
    }
}

/// Reads what a child says on standard error until it has said this.
pub(crate) fn until_said(child: &mut Child, words: &str) -> String {
    let mut said = String::new();
    let errors = child.stderr.as_mut().unwrap();
    while !said.contains(words) {
        let mut byte = [0];
        assert_eq!(errors.read(&mut byte).unwrap(), 1, "{said}");
        said.push(char::from(byte[0]));
    }
    said
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines in which a large `x` and `c = b` make "yes" likelier.
pub(crate) fn rows(n: usize) -> Vec<String> {
    (0..n)
        .map(|i| {
            let x = (i * 37 + 11) % 101;
            let c = if i % 3 == 0 { "b" } else { "a" };
            let score = x + if c == "b" { 30 } else { 0 } + (i * 53) % 40;
            let y = if score > 85 { "yes" } else { "no" };
            format!("{:.1},{c},{y}", x as f64 / 10.0)
        })
        .collect()
}

pub(crate) fn table(rows: &[String]) -> String {
    format!("x,c,y\n{}\n", rows.join("\n"))
}
