//! Ledgers and checkpoints that are damaged, of others, or used up.

use super::{Row, rows};

/// Ledgers that can't be read, and what is said of them.
const BROKEN: [(&str, &[&str]); 8] = [
    ("edited.json", &["edited.json, line 2"]),
    ("swapped.json", &["swapped.json, line 1"]),
    ("headless.json", &["headless.json, line 1"]),
    ("noise.json", &["noise.json, line"]),
    ("l-empty.json", &["l-empty.json", "empty"]),
    ("binary.json", &["binary.json, line 1"]),
    ("notes.txt", &["notes.txt, line 1", "not a ledger"]),
    ("dir", &["dir", "folder"]),
];

pub(super) fn all() -> Vec<Row> {
    let mut all = Vec::new();
    for (file, words) in BROKEN {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        for line in [
            format!(
                "train t.csv --schema s.toml --ledger {file} --epsilon 0.1 --delta 1e-5 --out new"
            ),
            format!("ledger show {file}"),
            format!("ledger verify {file}"),
        ] {
            all.push((line, 2, words.clone()));
        }
    }
    all.extend(rows(&[
        ("ledger show nope.json", 2, &["nope.json", "no such file"]),
        ("ledger show --json nope.json", 2, &["nope.json", "no such file"]),
        ("ledger verify nope.json", 2, &["nope.json", "no such file"]),
        ("ledger show dangling", 2, &["dangling", "no such file"]),
        ("ledger show o/events.json", 2, &["o/events.json", "not a ledger"]),
        ("ledger verify c.json", 2, &["c.json", "not a ledger"]),
        ("ledger verify l.json --checkpoint nope.json", 1, &["nope.json"]),
        ("ledger verify l.json --checkpoint l.json", 1, &["l.json", "not a checkpoint"]),
        ("ledger verify l.json --checkpoint c-edited.json", 1, &["c-edited.json"]),
        ("ledger verify l9.json --checkpoint c.json", 2, &["l9.json", "another ledger"]),
        ("ledger verify older.json --checkpoint c.json", 2, &["older.json", "lines"]),
        // Terms.
        ("train t.csv --schema s.toml --ledger l.json --budget 3 --out new", 2, &["--ledger", "can't be changed"]),
        ("train t.csv --schema s.toml --ledger l.json --budget-delta 1e-6 --out new", 2, &["--ledger", "can't be changed"]),
        ("train t.csv --schema s.toml --ledger l.json --budget-filter rdp --out new", 2, &["--ledger", "can't be changed"]),
        ("train t.csv --schema s.toml --ledger l.json --adjacency add-remove --public-records 400 --out new", 2, &["--ledger", "replace-one", "add-remove"]),
        ("train t.csv --schema s.toml --ledger fresh.json --out new", 1, &["--budget", "fresh.json"]),
        ("train t.csv --schema s.toml --ledger fresh.json --budget 1 --out new", 1, &["--budget-delta", "fresh.json"]),
        ("train t.csv --schema s.toml --ledger fresh.json --budget-delta 1e-5 --out new", 1, &["--budget", "fresh.json"]),
        ("train t.csv --schema s.toml --ledger no/fresh.json --budget 1 --budget-delta 1e-5 --out new", 1, &["--ledger", "no/fresh.json"]),
        ("train t.csv --schema s.toml --ledger loop --budget 1 --budget-delta 1e-5 --out new", 2, &["--ledger", "loop"]),
        ("train t.csv --schema s.toml --date 2026-01-01 --out new", 1, &["--ledger"]),
        ("train t.csv --schema s.toml --ledger l.json --date \"\" --out new", 1, &["--date"]),
        ("train t.csv --schema s.toml --ledger l.json --date a%0ab --out new", 1, &["--date", "one line"]),
        ("train t.csv --schema s.toml --ledger l.json --date 1234567890123456789012345678901234567890123456789012345678901234567890 --out new", 1, &["--date", "64"]),
        // Budgets.
        ("train t.csv --schema s.toml --ledger l.json --delta 1e-5 --epsilon 1.99 --out new", 2, &["--ledger", "can't pay", "nothing was released"]),
        ("train t.csv --schema s.toml --ledger l.json --delta 1e-5 --epsilon 1000 --json", 2, &["--ledger", "can't pay"]),
        ("train t.csv --schema s.toml --ledger full.json --delta 1e-5 --epsilon 0.5 --out new", 2, &["--ledger", "can't pay"]),
        ("train t.csv --schema s.toml --ledger fresh.json --budget 1 --budget-delta 1e-5 --delta 1e-5 --epsilon 5 --out new", 2, &["--ledger", "can't pay"]),
        ("train t.csv --schema s.toml --ledger fresh.json --budget 1 --budget-delta 1e-5 --budget-filter gdp --solver dp-sgd --out new", 2, &["--ledger", "--budget-filter rdp"]),
        ("train t.csv --schema s.toml --ledger l.json --solver dp-sgd --delta 1e-5 --epsilon 0.1 --out new", 2, &["--ledger", "gdp", "--budget-filter rdp"]),
        ("train t.csv --schema s.toml --ledger l.json --solver dp-adam --delta 1e-5 --epsilon 0.1 --out new", 2, &["--ledger", "--budget-filter rdp"]),
        // Checkpoints.
        ("train t.csv --schema s.toml --ledger l.json --resume nope.json --out new", 1, &["nope.json"]),
        ("train t.csv --schema s.toml --ledger l.json --resume dir --out new", 1, &["dir"]),
        ("train t.csv --schema s.toml --ledger l.json --resume t.csv --out new", 1, &["t.csv", "not a checkpoint"]),
        ("train t.csv --schema s.toml --ledger l.json --resume o/model.json --out new", 1, &["o/model.json", "not a checkpoint"]),
        ("train t.csv --schema s.toml --ledger l.json --resume c-empty.json --out new", 1, &["c-empty.json"]),
        ("train t.csv --schema s.toml --ledger l.json --resume c-cut.json --out new", 1, &["c-cut.json"]),
        ("train t.csv --schema s.toml --ledger l.json --resume c-edited.json --out new", 1, &["c-edited.json"]),
        ("train t.csv --schema s.toml --ledger l9.json --resume c.json --out new", 2, &["--ledger", "another ledger"]),
        ("train t.csv --schema s.toml --ledger older.json --resume c.json --out new", 2, &["--ledger", "older copy"]),
        ("train t.csv --schema s.toml --ledger fresh.json --budget 1 --budget-delta 1e-5 --resume c.json --out new", 2, &["no such file"]),
        ("train t.csv --schema s.toml --ledger l9.json --resume c9.json --epsilon 0.1 --out new", 1, &["--resume", "dimension 2"]),
        ("train t.csv --schema s.toml --ledger l.json --resume c.json --project 2 --out new", 1, &["--resume"]),
        ("train t.csv --schema s.toml --ledger l.json --checkpoint k.json --project 2 --out new", 1, &["--checkpoint"]),
    ]));
    all
}
