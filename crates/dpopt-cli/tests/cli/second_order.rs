//! `sosp` for the population, and the order in which solvers of slices meet the records.

use serde_json::Value;

use crate::support::Place;

#[test]
fn solvers_of_slices_meet_the_records_in_an_order_that_is_named() {
    let place = Place::new();
    let tree = "--solver tree-spider --epsilon 50";
    let of = |flags: &str| place.train(&format!("{tree} {flags}"));
    // Drawn, and named: two that are equal have a probability of 2^-53.
    let drawn = [(); 2].map(|()| of("")["order"]["seed"].as_u64().unwrap());
    assert_ne!(drawn[0], drawn[1]);
    assert!(of("--order-seed none").get("order").is_none());
    let kept = format!("train --data t.csv --schema s.toml {tree} --order-seed none");
    assert!(place.ok(&kept).contains("Order      that of the table"));
    let found = of("--order-seed 3 --out out");
    assert_eq!(
        (&found["order"]["seed"], &found["order"]["run"]),
        (&3.into(), &1.into())
    );
    assert_eq!(place.json("out/model.json")["order"]["seed"], 3);
    let report = place.read("out/report.html");
    assert!(report.contains("a pseudo-random order of the records, from seed 3"));
    let words = place.ok(&format!(
        "train --data t.csv --schema s.toml {tree} --order-seed 4"
    ));
    assert!(
        words.contains("Order      a pseudo-random order of the records, from seed 4"),
        "{words}"
    );
    // Of rows in a file runs stay together.
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let flags = format!("train --data t.dpr {tree} --order-seed 5 --json");
    let found: Value = serde_json::from_str(&place.ok(&flags)).unwrap();
    assert!(found["order"]["run"].as_u64().unwrap() > 1, "{found}");
    // Then slices are samples of clusters, of which no theorem speaks; those of the file's own order may be samples.
    assert_eq!(found["bound"], Value::Null);
    let why = found["no_bound_because"].as_str().unwrap();
    assert!(why.contains("neighbours"), "{why}");
    let found: Value =
        serde_json::from_str(&place.ok(&flags.replace("-seed 5", "-seed none"))).unwrap();
    let why = found["no_bound_because"].as_str().unwrap_or_default();
    assert!(!why.contains("neighbours"), "{why}");
    // Who reads all records, or samples, has no use for one.
    assert!(place.train("--solver noisy-gd").get("order").is_none());
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
    // Either fails with this probability: together they are none.
    place.put("t.csv", &crate::support::table(&rows));
    let found = place.train("--solver sosp --epsilon 20 --failure 0.6 --population");
    let why = found["no_population_because"].as_str().unwrap();
    assert!(why.contains("0.6"), "{why}");
}

/// What is read once certifies the population for a start, targets and an order that do not hang on the records, and for no others.
#[test]
fn one_pass_certifies_the_population_for_a_fresh_start_only() {
    let place = Place::new();
    let rows = crate::support::rows(40_000);
    place.put("t.csv", &crate::support::table(&rows));
    let pass = "--solver adaptive-batch --epsilon 40";
    let budget = "--ledger l.json --budget 400 --budget-delta 1e-6";
    let first = place.train(&format!("{pass} {budget} --checkpoint c.json"));
    assert_eq!(first["stop"], "certified", "{first}");
    assert!(first["bound"].is_number() && first["bound_curvature"].is_number());
    // On a ledger that has paid for a run on them, and from where that run ended.
    for (more, why) in [("", "earlier runs"), ("--resume c.json", "checkpoint")] {
        let again = place.train(&format!("{pass} --ledger l.json {more}"));
        assert_eq!(again["bound"], Value::Null, "{again}");
        let told = again["no_bound_because"].as_str().unwrap();
        assert!(told.contains(why), "{told}");
    }
    let flags = format!("train --data t.csv --schema s.toml {pass} --population");
    place.fails(
        &flags,
        1,
        &["--population", "of the population already", "sosp"],
    );
}

/// At d = 10 and n = 10^6 the net's gap is an order below what one pass reaches; where nothing can be said the reason is there.
#[test]
fn what_solvers_promise_of_the_population_is_compared() {
    let flags = "--records 1000000 --dim 10 --epsilon 1 --delta 1e-6 --lipschitz 1 --smoothness 1 --initial-gap 0.5 --hessian-lipschitz 1 \
                 --hessian-frobenius 1";
    let place = Place::new();
    for (solver, more) in [
        ("sosp", ""),
        ("sosp", "--estimates recursive"),
        ("adaptive-batch", "--walk-constants rigorous"),
    ] {
        let words = format!("plan {solver} {flags} {more} --population 30 --json");
        let found: Value = serde_json::from_str(&place.ok(&words)).unwrap();
        assert_eq!(found["population"]["least"], "sosp");
        let plans = found["population"]["plans"].as_array().unwrap();
        let of = |name: &str| plans.iter().find(|plan| plan["solver"] == name).unwrap();
        // .0178 of Theorem 3 at R = 32, beside the certificate's.
        let all = of("sosp");
        let gradient = all["gradient"].as_f64().unwrap();
        assert!(gradient > 0.0178 && gradient < 0.0178 + 0.019, "{gradient}");
        assert_eq!(all["failure"], 0.1);
        assert_eq!(of("adaptive-batch")["failure"], 0.05);
        if solver == "adaptive-batch" {
            assert_eq!(of(solver)["gradient"], found["predicted_bound"]);
        }
    }
    let far = format!("plan sosp {flags} --population 1e300 --json");
    let found: Value = serde_json::from_str(&place.ok(&far)).unwrap();
    let plans = found["population"]["plans"].as_array().unwrap();
    assert!(plans[0]["no_bound_because"].is_string(), "{found}");
    assert_eq!(found["population"]["least"], "adaptive-batch");
}

/// What was asked for is what is planned and run, and is told wherever the run is; a certificate says of whom it is, and what it does not say.
#[test]
fn how_sosp_goes_about_it_is_chosen_and_told() {
    let place = Place::new();
    place.put(
        "t.csv",
        &crate::support::table(&crate::support::rows(4_000)),
    );
    let facts = "plan sosp --records 100000 --dim 10 --epsilon 1 --delta 1e-6 --lipschitz 1 --smoothness 1 --initial-gap 0.5 \
                 --hessian-lipschitz 1 --hessian-frobenius 1 --json";
    for (flags, key, value) in [
        ("--estimates fresh", "estimates", "fresh"),
        ("--estimates recursive", "estimates", "recursive"),
        ("--steps measured", "steps", "measured"),
        (
            "--steps planned --curvature-by direct",
            "curvature_by",
            "direct",
        ),
        ("--curvature-by episodes", "curvature_by", "episodes"),
        ("--estimates auto --curvature-by auto", "steps", "planned"),
    ] {
        let plan: Value = serde_json::from_str(&place.ok(&format!("{facts} {flags}"))).unwrap();
        assert_eq!(plan["how"][key], value, "{flags}: {plan}");
        let out = flags.replace([' ', '-'], "");
        let run = place.train(&format!("--solver sosp --epsilon 400 {flags} --out {out}"));
        let told = &run["second_order"];
        assert_eq!(told["how"][key], value, "{flags}: {run}");
        let model = place.json(&format!("{out}/model.json"));
        assert_eq!(model["second_order"], *told, "{flags}");
        let report = place.read(&format!("{out}/report.html"));
        assert!(report.contains("chosen: estimates"), "{flags}");
        let found = &told["certificate"];
        if run["stop"] == "certified" || found.is_object() {
            assert_eq!(found["gradient"], run["bound"], "{flags}: {run}");
            assert_eq!(found["of_population"], false);
            assert_eq!(found["probability"], 0.95);
            let words = found["words"].as_str().unwrap();
            for part in [
                "of the mean loss of these records",
                "does not say",
                "nor of the population",
            ] {
                assert!(words.contains(part), "{words}");
            }
            assert!(
                report.contains("of the mean loss of these records"),
                "{flags}"
            );
        } else {
            assert!(told["no_certificate_because"].is_string(), "{run}");
        }
        // Which of them certify hangs on noise; these do with a budget like this.
        assert!(found.is_object(), "{flags}: {run}");
    }
    place.put(
        "t.csv",
        &crate::support::table(&crate::support::rows(40_000)),
    );
    let pass = place.train("--solver adaptive-batch --epsilon 40");
    let found = &pass["second_order"]["certificate"];
    assert_eq!(found["of_population"], true, "{pass}");
    assert!(
        found["words"]
            .as_str()
            .unwrap()
            .contains("of the population, if the records are independent draws")
    );
    assert!(pass["second_order"].get("how").is_none());
    // Others certify nothing of the kind.
    assert!(
        place
            .train("--solver noisy-gd --max-steps 3")
            .get("second_order")
            .is_none()
    );
}
