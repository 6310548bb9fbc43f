//! Several runs on one budget.

use crate::support::Place;

const SHARED: &str = "--ledger l.json --budget 2 --budget-delta 1e-5 --delta 1e-5";

fn left(place: &Place) -> serde_json::Value {
    serde_json::from_str(&place.ok("budget l.json --json")).unwrap()
}

#[test]
fn runs_share_a_budget_until_it_is_used_up() {
    let place = Place::new();
    let first = place.train(&format!("{SHARED} --epsilon 1.2"));
    assert!(
        first["budget_left"]
            .as_str()
            .unwrap()
            .contains("% of epsilon 2")
    );
    let after_one = left(&place);
    assert_eq!(after_one["runs"], 1);
    assert_eq!(after_one["unsettled"], 0);
    assert_eq!(after_one["filter"], "gdp");
    // The terms are in the file: later runs need not repeat them.
    place.train("--ledger l.json --epsilon 1.2 --delta 1e-5");
    let after_two = left(&place);
    assert!(after_two["epsilon_left"].as_f64() < after_one["epsilon_left"].as_f64());

    let before = place.read("l.json");
    let flags = format!("train --data t.csv --schema s.toml --out o {SHARED} --epsilon 1.9");
    place.fails(
        &flags,
        1,
        &["--ledger", "can't pay", "nothing was released"],
    );
    assert_eq!(place.read("l.json"), before);

    let shown = place.ok("budget l.json");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let at = words
        .windows(2)
        .position(|pair| pair == ["of", "epsilon"])
        .unwrap();
    assert_eq!(words[at + 2], "2");
    let fits = words[words.len() - 3];
    place.train(&format!("{SHARED} --epsilon {fits}"));
    assert_eq!(left(&place)["runs"], 3);
    let text = place.ok("budget l.json");
    assert!(text.contains("after 3 runs"), "{text}");
}

#[test]
fn a_first_run_that_is_too_large_makes_no_ledger() {
    let place = Place::new();
    let flags = format!("train --data t.csv --schema s.toml --out o {SHARED} --epsilon 5");
    place.fails(&flags, 1, &["can't pay", "2"]);
}

#[test]
fn terms_are_fixed_at_creation() {
    let place = Place::new();
    place.train(&format!("{SHARED} --epsilon 0.5"));
    let before = place.read("l.json");
    let train = "train --data t.csv --schema s.toml --ledger l.json --out o";
    for flags in ["--budget 3", "--budget-delta 1e-6", "--budget-filter rdp"] {
        place.fails(
            &format!("{train} {flags}"),
            2,
            &["--ledger", "can't be changed"],
        );
    }
    let flags = format!("{train} --adjacency add-remove --public-records 400");
    place.fails(&flags, 2, &["--ledger", "replace-one", "add-remove"]);
    let flags = format!("{train} --solver dp-sgd --epsilon 0.5");
    place.fails(&flags, 1, &["--ledger", "gdp"]);
    assert_eq!(place.read("l.json"), before);
}

#[test]
fn sampled_runs_get_a_renyi_filter() {
    let place = Place::new();
    place.train(&format!(
        "{SHARED} --solver dp-sgd --epsilon 1 --max-steps 20"
    ));
    let after = left(&place);
    assert_eq!(after["filter"], "rdp");
    assert!(after["epsilon_left"].as_f64().unwrap() > 0.0);
    place.train("--ledger l.json --epsilon 0.5 --delta 1e-5");
    assert_eq!(left(&place)["runs"], 2);
}

#[test]
fn a_damaged_ledger_is_refused() {
    let place = Place::new();
    place.put("l.json", "not a budget\n");
    let flags = format!("train --data t.csv --schema s.toml --out o {SHARED}");
    place.fails(&flags, 2, &["l.json", "line 1"]);
    assert_eq!(place.read("l.json"), "not a budget\n");
}
