//! Flags: numbers that are none, names that nobody knows, combinations that make no sense.

use super::{Row, rows};

const TRAIN: &str = "train t.csv --schema s.toml --out new";
const PLAN: &str = "plan spiderboost --records 1000 --dim 5 --epsilon 1 --delta 1e-5";

/// Each flag with each value.
fn product(line: &str, flags: &[&str], values: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    for flag in flags {
        for value in values {
            rows.push((
                format!("{line} {flag} {value}"),
                1,
                vec![(*flag).to_owned()],
            ));
        }
    }
    rows
}

fn numbers() -> Vec<Row> {
    let mut all = product(
        TRAIN,
        &["--epsilon"],
        &[
            "0", "-1", "NaN", "inf", "1e999", "one", "\"\"", "1,5", "0x1",
        ],
    );
    all.extend(product(
        TRAIN,
        &["--delta"],
        &["0", "1", "1.5", "-1e-6", "nan", "%25", "1e-400"],
    ));
    all.extend(product(
        TRAIN,
        &["--max-steps", "--public-records"],
        &["0", "-5", "1.5", "ten", "99999999999999999999"],
    ));
    all.extend(product(
        TRAIN,
        &["--threads"],
        &["0", "-1", "two", "1025", "99999999999", "1.0"],
    ));
    all.extend(product(
        TRAIN,
        &["--solver", "--loss", "--adjacency", "--format"],
        &["nonsense", "\"\"", "--json"],
    ));
    all.extend(product(
        TRAIN,
        &["--radius"],
        &["0", "-1", "NaN", "inf", "wide"],
    ));
    all.extend(product(TRAIN, &["--rank"], &["0", "-1", "2.5"]));
    all.extend(product(TRAIN, &["--project"], &["0", "-1", "none", "2.5"]));
    all.extend(
        product(TRAIN, &["--project 2 --project-seed"], &["-1", "x"])
            .into_iter()
            .map(seed),
    );
    all.extend(product(
        PLAN,
        &["--row-norm", "--lipschitz", "--smoothness", "--initial-gap"],
        &["0", "-1", "nan", "inf"],
    ));
    all.extend(product(
        "plan dp-sgd --epsilon 1 --delta 1e-5 --dim 5",
        &["--records"],
        &["0", "-1", "many"],
    ));
    all.extend(product(
        "plan dp-sgd --epsilon 1 --delta 1e-5 --records 100",
        &["--dim"],
        &["0", "-1", "1.5"],
    ));
    let ledger = format!("{TRAIN} --ledger fresh.json --budget-delta 1e-5");
    all.extend(product(&ledger, &["--budget"], &["0", "-1", "nan", "all"]));
    let ledger = format!("{TRAIN} --ledger fresh.json --budget 1");
    all.extend(product(
        &ledger,
        &["--budget-delta"],
        &["0", "1", "-1", "nan"],
    ));
    all.extend(product(
        &format!("{ledger} --budget-delta 1e-5"),
        &["--budget-filter"],
        &["pld", "GDP", "\"\""],
    ));
    let checkpoint = format!("{TRAIN} --ledger l.json --checkpoint k.json");
    all.extend(product(
        &checkpoint,
        &["--checkpoint-every"],
        &["0", "-1", "x"],
    ));
    all
}

fn seed((line, code, _): Row) -> Row {
    (line, code, vec!["--project-seed".to_owned()])
}

pub(super) fn all() -> Vec<Row> {
    let mut all = numbers();
    all.extend(rows(include_str!("flags.tsv")));
    all
}
