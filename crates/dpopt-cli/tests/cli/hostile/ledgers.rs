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
    all.extend(rows(include_str!("ledgers.tsv")));
    all
}
