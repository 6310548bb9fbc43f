//! Each thing that is wrong in public gives one sentence, a code, and leaves nothing behind.

use crate::support::Place;

const TRAIN: &str =
    "train --data t.csv --schema s.toml --out o --ledger l.json --budget 3 --budget-delta 1e-5";

fn train(flags: &str) -> String {
    format!("{TRAIN} {flags}")
}

#[test]
fn numbers_out_of_range_name_their_flag() {
    let place = Place::new();
    for (flags, word) in [
        ("--epsilon 0", "--epsilon"),
        ("--epsilon -1", "--epsilon"),
        ("--epsilon NaN", "--epsilon"),
        ("--epsilon inf", "--epsilon"),
        ("--epsilon x", "--epsilon"),
        ("--delta 0", "--delta"),
        ("--delta 1", "--delta"),
        ("--delta 1.5", "--delta"),
        ("--delta -1e-6", "--delta"),
        ("--delta nan", "--delta"),
        ("--public-records 0", "--public-records"),
        ("--public-records -5", "--public-records"),
        ("--max-steps 0", "--max-steps"),
        ("--threads 0", "--threads"),
        ("--solver sgd", "--solver"),
        ("--loss hinge --solver spiderboost", "kinks"),
        ("--loss l2", "geman-mcclure, cauchy, tukey[:NUMBER]"),
        ("--loss huber:0", "between 1e-100 and 1e100"),
        ("--loss huber:x", "not a number"),
        ("--loss logistic:1", "takes no parameter"),
        ("--adjacency zero", "--adjacency"),
        ("--budget-filter pld", "--budget-filter"),
        ("--nonsense", "--nonsense"),
    ] {
        place.fails(&train(flags), 1, &[word]);
    }
    for (flags, word) in [
        ("--budget 0 --budget-delta 1e-5", "--budget"),
        ("--budget 1 --budget-delta 1", "--budget-delta"),
        ("--budget 1", "--budget-delta"),
        ("--budget-delta 1e-5", "--budget"),
    ] {
        let flags = format!("train --data t.csv --schema s.toml --out o --ledger l.json {flags}");
        place.fails(&flags, 1, &[word]);
    }
    place.fails("train --budget 1", 1, &["--ledger"]);
}

#[test]
fn files_and_flags_that_are_missing() {
    let place = Place::new();
    for (flags, words) in [
        (
            "train --data nope.csv --schema s.toml --out o",
            ["nope.csv", "can't read"],
        ),
        (
            "train --data t.csv --schema nope.toml --out o",
            ["nope.toml", "can't read"],
        ),
        (
            "train --data t.csv --schema s.toml --test nope.csv --out o",
            ["nope.csv", "can't read"],
        ),
        ("train --data t.csv --out o", ["--schema", "drafts one"]),
        ("train --schema s.toml --out o", ["--data", "table"]),
        (
            "train --data . --schema s.toml --out o",
            ["can't read", "directory"],
        ),
        (
            "train --data t.csv --schema s.toml --adjacency add-remove --out o",
            ["--public-records", "add-remove"],
        ),
        (
            "train --data t.csv --schema s.toml --public-records 7 --out o",
            ["7 records declared", "t.csv"],
        ),
        (
            "train --data t.csv --schema s.toml --test t.csv --out o",
            ["--test", "protected"],
        ),
        (
            "train --data t.csv --schema s.toml --out o --ledger no/l --budget 1 --budget-delta 1e-6",
            ["--ledger", "no/l"],
        ),
        (
            "train --data t.csv --schema s.toml --out t.csv",
            ["--out", "t.csv"],
        ),
        (
            "train --data t.csv --schema s.toml --out t.csv/o",
            ["--out", "t.csv"],
        ),
        (
            "plan spiderboost --records 100 --dim 3 --epsilon 1",
            ["--delta", "required"],
        ),
        ("schema nope.csv", ["nope.csv", "can't read"]),
        ("check nope.csv --schema s.toml", ["nope.csv", "can't read"]),
        ("check t.csv", ["--schema", "required"]),
        (
            "predict --model nope.json --data t.csv",
            ["nope.json", "can't read"],
        ),
        (
            "predict --model s.toml --data t.csv",
            ["s.toml", "not a model"],
        ),
    ] {
        place.fails(flags, 1, &words);
    }
    place.fails("ledger show nope.json", 2, &["nope.json", "no such file"]);
    place.fails("ledger show s.toml", 2, &["s.toml", "line 1"]);
}

#[test]
fn schemas_that_can_not_be_used() {
    let place = Place::new();
    for (old, new, words) in [
        (
            r#"["no", "yes"]"#,
            r#"["no", "yes", "maybe"]"#,
            ["label.positive", "two"],
        ),
        ("format = 1", "format = 2", ["format", "s.toml"]),
        ("row_norm = 2.0", "row_norm = 0.0", ["row_norm", "s.toml"]),
        ("max = 10.0", "max = -1.0", ["min", "x"]),
        ("kind = \"number\"", "kind = \"nubmer\"", ["line", "s.toml"]),
        ("name = \"x\"", "name = \"z\"", ["t.csv, line 1", "z"]),
        (
            "column = \"y\"",
            "column = \"why\"",
            ["t.csv, line 1", "why"],
        ),
    ] {
        place.schema_with(old, new);
        place.fails(TRAIN, 1, &words);
    }
    place.put(
        "s.toml",
        "format = 1\nrow_norm = 1.0\nintercept = 0.0\nignore_unlisted = true\n[label]\ncolumn = \"y\"\n\
         values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"\n",
    );
    place.fails(TRAIN, 1, &["no feature"]);
}

#[test]
fn labels_that_do_not_exist() {
    let place = Place::new();
    place.fails(&train("--label nope"), 1, &["nope", "line 1"]);
    place.fails(&train("--label x"), 1, &["--label", "two values"]);
    place.fails(&train("--positive maybe"), 1, &["--positive", "maybe"]);
}

#[test]
fn tables_without_records() {
    let place = Place::new();
    place.put("t.csv", "x,c,y\n");
    place.fails(TRAIN, 1, &["t.csv", "no records"]);
    place.put("t.csv", "");
    place.fails(TRAIN, 1, &["t.csv", "header"]);
    place.put("t.csv", "x,c,y,x\n1,a,no,2\n");
    place.fails(TRAIN, 1, &["t.csv", "twice"]);
    let place = Place::new();
    place.put("test.csv", "x,c,y\n");
    place.fails(&train("--test test.csv"), 1, &["--test", "no records"]);
}

#[test]
fn places_that_are_taken_are_seen_before_the_run() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("o/report.html")).unwrap();
    place.fails(TRAIN, 1, &["--out", "report.html"]);
}

#[test]
fn a_plan_that_says_nothing_is_not_run() {
    let place = Place::new();
    for solver in ["spiderboost", "noisy-gd-theory"] {
        let flags = train(&format!("--epsilon 0.01 --solver {solver}"));
        place.fails(&flags, 1, &[solver, "no useful plan"]);
    }
}
