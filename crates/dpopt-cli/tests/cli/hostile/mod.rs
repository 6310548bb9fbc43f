//! Hostile command lines: each is refused with one sentence that names what is wrong, a code of the table, and a folder
//! in which not a byte has changed.

mod fixture;
mod flags;
mod ledgers;
mod tables;

use std::ffi::OsString;
use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixture::{Folder, snapshot};

use crate::support;

/// A command line, its exit code, and what its message must name.
///
/// In a line, `%41` stands for the byte 41 (so `%20` for a space), `""` for an empty argument, and `< file` at the end
/// gives a file on standard input.
pub(crate) type Row = (String, i32, Vec<String>);

/// Rows of a table: an exit code, a command line and words, with tabs between them.
fn rows(table: &str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut cells = line.split('\t').map(str::to_owned);
            let code = cells.next().unwrap().parse().unwrap();
            (cells.next().unwrap(), code, cells.collect())
        })
        .collect()
}

/// The least number of rows.
const LEAST: usize = 300;
const WORKERS: usize = 4;

#[test]
fn hostile_command_lines_are_refused_and_change_nothing() {
    let mut all = flags::all();
    all.extend(tables::all());
    all.extend(rows(include_str!("collisions.tsv")));
    all.extend(ledgers::all());
    all.extend(rows(include_str!("accounting.tsv")));
    all.extend(rows(include_str!("refusals.tsv")));
    assert!(all.len() >= LEAST, "{} rows", all.len());
    let mut lines: Vec<&str> = all.iter().map(|(line, ..)| line.as_str()).collect();
    lines.sort_unstable();
    if let Some(pair) = lines.windows(2).find(|pair| pair[0] == pair[1]) {
        panic!("twice in the table: {}", pair[0]);
    }

    let template = Folder::new();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut folder = template.copy();
                while let Some(row) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(problem) = check(&folder, row) {
                        wrong.lock().unwrap().push(problem);
                        folder = template.copy();
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {} rows are wrong:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

/// Runs a row in a folder, and says what is wrong with how it ended.
fn check(of: &Folder, (line, code, words): &Row) -> Result<(), String> {
    let folder = of.path();
    let before = snapshot(folder);
    let (arguments, input) = match line.split_once(" < ") {
        Some((arguments, file)) => (
            arguments,
            Stdio::from(File::open(folder.join(file)).unwrap()),
        ),
        None => (line.as_str(), Stdio::null()),
    };
    let output = Command::new(env!("CARGO_BIN_EXE_dpopt"))
        .current_dir(folder)
        .args(
            support::words(arguments, of.kept())
                .iter()
                .map(|word| argument(word)),
        )
        .stdin(input)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let fail = |what: &str| Err(format!("- `dpopt {line}`: {what}: {}", message.trim_end()));
    if output.status.code() != Some(*code) {
        return fail(&format!("{} instead of {code}", output.status));
    }
    if !output.stdout.is_empty() {
        return fail("something on standard output");
    }
    let Some((sentence, others)) =
        message
            .lines()
            .collect::<Vec<_>>()
            .split_last()
            .map(|(last, others)| {
                (
                    (*last).to_owned(),
                    others.iter().all(|line| line.starts_with("warning: ")),
                )
            })
    else {
        return fail("silence");
    };
    if !others || !sentence.starts_with("error: ") || sentence.len() > 800 {
        return fail("not one sentence");
    }
    for internal in [
        "Some(",
        "Err(",
        "None",
        "{ ",
        "panicked",
        "RUST_BACKTRACE",
        "os error 0",
    ] {
        if message.contains(internal) {
            return fail(&format!("{internal:?} is for nobody"));
        }
    }
    if let Some(word) = words.iter().find(|word| !sentence.contains(word.as_str())) {
        return fail(&format!("{word:?} is not named"));
    }
    let after = snapshot(folder);
    if after != before {
        let changed = before.keys().chain(after.keys());
        let changed = changed.filter(|name| before.get(*name) != after.get(*name));
        let names: Vec<String> = changed.map(|name| name.display().to_string()).collect();
        return fail(&format!("changed on disk: {}", names.join(", ")));
    }
    Ok(())
}

/// The argument that a word of a line stands for.
fn argument(word: &str) -> OsString {
    if word == "\"\"" {
        return OsString::new();
    }
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        (rest, bytes) = match (first, code) {
            (b'%', Some(byte)) => (&tail[2..], [bytes, vec![byte]].concat()),
            _ => (tail, [bytes, vec![first]].concat()),
        };
    }
    from_bytes(bytes)
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}
