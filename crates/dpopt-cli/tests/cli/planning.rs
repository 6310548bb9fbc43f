//! Plans without records: `train --dry-run`, `plan --schema`, `--max-passes`.

use dpopt::nonconvex::SOLVERS;
use serde_json::Value;

use crate::support::{Place, stderr};

fn json(place: &Place, flags: &str) -> Value {
    serde_json::from_str(&place.ok(flags)).unwrap()
}

/// The same plan by the schema, by its numbers, by a dry run without records and by one that counts them; and the run has that plan.
#[test]
fn a_dry_run_is_the_plan_of_the_run() {
    let place = Place::new();
    place.put("header.csv", "x,c,y\n");
    let numbers = "--epsilon 2 --delta 1e-6 --json";
    let by_numbers = json(
        &place,
        &format!("plan dp-sgd --records 400 --dim 5 --row-norm 2 {numbers}"),
    );
    let before = place.listing();
    for flags in [
        "plan dp-sgd --public-records 400 --schema s.toml",
        "train --data header.csv --schema s.toml --solver dp-sgd --public-records 400 --dry-run",
        "train --data t.csv --schema s.toml --solver dp-sgd --dry-run --out new",
        "train --data t.csv --schema s.toml --solver dp-sgd --dry-run --ledger l --budget 3 --budget-delta 1e-5 --out new",
    ] {
        assert_eq!(
            json(&place, &format!("{flags} {numbers}")),
            by_numbers,
            "{flags}"
        );
    }
    assert_eq!(place.listing(), before);
    let run = place.train("--solver dp-sgd --epsilon 2");
    assert_eq!(run["planned_steps"], by_numbers["steps"]);
    let words = place.ok("train --data t.csv --schema s.toml --dry-run --holdout 0.25 --evaluate");
    for part in [
        "of 100 records held out",
        "nothing was charged",
        "passes over the data",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(place.listing(), before);
}

#[test]
fn what_a_dry_run_refuses() {
    let place = Place::new();
    let train = "train --data t.csv --schema s.toml --dry-run";
    for (flags, words) in [
        (format!("{train} --objective auc --group-shares release"), ["--dry-run", "dpopt plan"]),
        (format!("{train} --resume c.json"), ["--dry-run", "--resume"]),
        (format!("{train} --adjacency add-remove"), ["--public-records", "private"]),
        (format!("{train} --holdout 0.001 --evaluate"), ["--holdout", "0 of 400"]),
        (format!("{train} --solver noisy-gd --max-passes 0.5"), ["--max-passes", "dp-sgd"]),
        (format!("{train} --max-passes 0"), ["--max-passes", "positive"]),
        ("plan dp-sgd --records 9 --epsilon 1 --delta 1e-6".to_owned(), ["--dim", "not"]),
        (
            "plan dp-sgd --records 9 --epsilon 1 --delta 1e-6 --schema s.toml --dim 3".to_owned(),
            ["--schema", "--dim"],
        ),
        (
            "plan dp-sgd --records 9 --epsilon 1 --delta 1e-6 --schema no.toml".to_owned(),
            ["no.toml", ""],
        ),
        (
            "plan gda --objective auc --shares 0.5,0.5 --records 9 --dim 2 --epsilon 1 --delta 1e-6 --max-passes 2".to_owned(),
            ["--max-passes", "--max-steps"],
        ),
    ] {
        place.fails(&flags, 1, &words);
    }
}

/// Every solver plans within so many passes, or refuses; none plans more.
#[test]
fn no_plan_makes_more_passes_than_asked_for() {
    let place = Place::new();
    let mut within = 0;
    for solver in SOLVERS {
        for most in [0.5, 7.0] {
            let flags = format!(
                "plan {solver} --records 50000 --dim 8 --epsilon 4 --delta 1e-6 --max-passes {most} --json"
            );
            let output = place.run(&flags);
            if !output.status.success() {
                assert_eq!(
                    output.status.code(),
                    Some(1),
                    "{flags}: {}",
                    stderr(&output)
                );
                continue;
            }
            let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(plan["passes"].as_f64().unwrap() <= most, "{flags} {plan}");
            within += 1;
        }
    }
    assert!(within >= 10, "{within}");
}
