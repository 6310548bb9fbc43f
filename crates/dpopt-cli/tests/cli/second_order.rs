//! `sosp` for the population, and the order in which solvers of slices meet the records.

use crate::support::Place;

#[test]
fn solvers_of_slices_meet_the_records_in_an_order_that_is_named() {
    let place = Place::new();
    let tree = "--solver tree-spider --epsilon 50";
    let of = |flags: &str| place.train(&format!("{tree} {flags}"));
    assert_eq!(of("")["order"]["seed"], 0);
    let found = of("--order-seed 3 --out out");
    assert_eq!(
        (&found["order"]["seed"], &found["order"]["run"]),
        (&3.into(), &1.into())
    );
    assert_eq!(place.json("out/model.json")["order"]["seed"], 3);
    let report = place.read("out/report.html");
    assert!(report.contains("a random order of the records, from seed 3"));
    let words = place.ok(&format!(
        "train --data t.csv --schema s.toml {tree} --order-seed 4"
    ));
    assert!(
        words.contains("Order      a random order of the records, from seed 4"),
        "{words}"
    );
    // Of rows in a file runs stay together.
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let flags = format!("train --data t.dpr {tree} --order-seed 5 --json");
    let found: serde_json::Value = serde_json::from_str(&place.ok(&flags)).unwrap();
    assert!(found["order"]["run"].as_u64().unwrap() > 1, "{found}");
    // Who reads all records, or samples, has no use for one.
    assert!(place.train("--solver noisy-gd").get("order").is_none());
    let flags = "train --data t.csv --schema s.toml --solver dp-sgd --order-seed 3";
    place.fails(flags, 1, &["--order-seed", "dp-sgd", "tree-spider"]);
}

#[test]
fn what_a_certificate_says_of_the_population_is_more() {
    let place = Place::new();
    // 20,000 records of the two kinds of labels, in 5 dimensions.
    let rows = crate::support::rows(20_000);
    place.put("t.csv", &crate::support::table(&rows));
    let sosp = "--solver sosp --epsilon 20 --failure 0.02";
    let found = place.train(&format!("{sosp} --population"));
    let bound = |name: &str| found[name].as_f64().unwrap();
    let of = |name: &str| found["population"][name].as_f64().unwrap();
    assert!(
        of("gradient") > bound("bound") && of("gradient") < 2.0,
        "{found}"
    );
    assert!(of("curvature") > bound("bound_curvature") && of("curvature") < 1.0);
    let added = &found["population"]["added"];
    assert_eq!(
        of("gradient"),
        bound("bound") + added["gradient"].as_f64().unwrap()
    );
    assert_eq!(of("failure"), 0.04);
    let words = place.ok(&format!(
        "train --data t.csv --schema s.toml {sosp} --population"
    ));
    assert!(
        words.contains("Population the gradient norm is at most"),
        "{words}"
    );
    assert!(place.train(sosp).get("population").is_none());
    // From 400 records nothing follows, and that is said.
    let few: Vec<String> = rows[..40].to_vec();
    place.put("t.csv", &crate::support::table(&few));
    let found = place.train("--solver sosp --epsilon 200 --population");
    assert!(found["no_population_because"].is_string(), "{found}");
    let flags = "train --data t.csv --schema s.toml --solver noisy-gd --population";
    place.fails(flags, 1, &["--population", "noisy-gd", "sosp"]);
}
