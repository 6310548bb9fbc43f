//! What a run says of its gradients from its releases alone.

use dpopt::nonconvex::SOLVERS;
use serde_json::Value;

use crate::support::Place;

/// Solvers whose releases are fresh gradients with noise of one size.
const FRESH: [&str; 7] = [
    "noisy-gd",
    "noisy-gd-theory",
    "dp-sgd",
    "dp-adam",
    "goldstein",
    "goldstein-sampled",
    "goldstein-pass",
];

#[test]
fn fresh_releases_are_certified_and_others_say_why_not() {
    let place = Place::new();
    for solver in SOLVERS.iter().filter(|solver| !solver.needs.kl) {
        place.table_for(solver);
        let radius = match (solver.needs.radius, solver.needs.goldstein) {
            (true, _) => "--radius 1",
            (_, true) => "--goldstein-radius 1",
            _ => "",
        };
        let flags = format!("--epsilon 1e4 --solver {solver} --max-steps 40 {radius}");
        let run = place.train(&format!("{flags} --out {solver}"));
        let report = place.read(&format!("{solver}/report.html"));
        let words = place.ok(&format!("train --data t.csv --schema s.toml {flags}"));
        assert!(report.contains("<h2>Certificate</h2>"));
        if !FRESH.contains(&solver.name) {
            assert_eq!(run["certificate"], Value::Null, "{run}");
            let why = run["no_certificate_because"].as_str().unwrap();
            assert!(
                why.contains("fresh gradients") && why.contains(solver.name),
                "{why}"
            );
            assert!(!words.contains("Certificate"), "{words}");
            assert!(report.contains("None: windows need releases"));
            continue;
        }
        let certificate = &run["certificate"];
        let number = |name: &str| certificate[name].as_f64().unwrap();
        assert!(run.get("no_certificate_because").is_none(), "{run}");
        let parts = ["released", "noise", "sampling", "rounding"].map(number);
        let sum: f64 = parts.iter().sum();
        assert!((number("value") - sum).abs() <= 1e-12 * sum, "{run}");
        assert!(number("radius_around_result") >= number("radius"), "{run}");
        assert_eq!(number("probability"), 0.95);
        assert_eq!(certificate["population"], solver.name == "goldstein-pass");
        let all = ["noisy-gd", "noisy-gd-theory", "goldstein"].contains(&solver.name);
        assert_eq!(number("sampling") == 0.0, all, "{run}");
        let clipped = ["noisy-gd", "dp-sgd", "dp-adam"].contains(&solver.name);
        let of = if clipped {
            "clipped-gradients"
        } else {
            "goldstein-distance"
        };
        assert_eq!(certificate["of"], of);
        let line = words.lines().find(|line| line.starts_with("Certificate "));
        let line = line.unwrap_or_else(|| panic!("{words}"));
        for word in ["of the result", "probability 0.95", "at no cost in privacy"] {
            assert!(line.contains(word), "{line}");
        }
        assert_eq!(line.contains("clipped gradients"), clipped, "{line}");
        assert!(report.contains("length of the mean release"));
    }
}

#[test]
fn nothing_is_certified_of_a_private_number_of_records() {
    let place = Place::new();
    let flags = "--adjacency add-remove --public-records 400 --max-steps 20";
    let json = place.train(flags);
    assert_eq!(json["certificate"], Value::Null);
    let why = json["no_certificate_because"].as_str().unwrap();
    assert!(
        why.contains("add-remove") && why.contains("private"),
        "{why}"
    );
    let words = place.ok(&format!("train --data t.csv --schema s.toml {flags}"));
    assert!(!words.contains("Certificate"), "{words}");
}

#[test]
fn nothing_is_certified_under_a_projection() {
    let place = Place::new();
    let json = place.train("--solver noisy-gd --project 2 --max-steps 20");
    assert_eq!(json["certificate"], Value::Null);
    let why = json["no_certificate_because"].as_str().unwrap();
    assert!(why.contains("projection"), "{why}");
}

/// A certificate is about the points of this run, wherever it began; but records that an earlier run has read are no sample of
/// the population for a start that it made.
#[test]
fn a_walk_from_a_checkpoint_certifies_these_records_and_not_the_population() {
    let place = Place::new();
    let first = "--epsilon 40 --solver noisy-gd-theory --max-steps 40 --ledger l.json --budget 200 --budget-delta 1e-6";
    place.train(&format!("{first} --checkpoint c.json"));
    let again = "--epsilon 40 --ledger l.json --resume c.json --max-steps 40 --solver";
    let descent = place.train(&format!("{again} noisy-gd-theory"));
    assert_eq!(descent["bound"], Value::Null);
    assert!(descent["certificate"].is_object(), "{descent}");
    let pass = place.train(&format!("{again} goldstein-pass --goldstein-radius 1"));
    let why = pass["no_certificate_because"].as_str().unwrap();
    assert!(why.contains("population"), "{why}");
}
