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
        let mut shown = json(&place, &format!("{flags} {numbers}"));
        let notes = shown.as_object_mut().unwrap().remove("notes");
        assert_eq!(shown, by_numbers, "{flags}");
        assert_eq!(notes.is_some(), flags.starts_with("train"), "{flags}");
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

/// A plan by a schema is of its label: by its default loss, and as many classes.
#[test]
fn a_plan_by_a_schema_fits_its_label() {
    let place = Place::new();
    place.put("header.csv", "x,c,y\n");
    let two = place.read("s.toml");
    let label = two.find("[label]").unwrap();
    let column = two[label..].find("[[column]]").unwrap() + label;
    let budget = "--epsilon 2 --delta 1e-6 --json";
    for (name, of, loss, times) in [
        (
            "number",
            "kind = \"number\"\nmin = 0.0\nmax = 9.0\ndefault = 0.0",
            "huber",
            1,
        ),
        (
            "three",
            "values = [\"a\", \"b\", \"c\"]\ndefault = \"a\"",
            "softmax --classes 3",
            3,
        ),
    ] {
        let text = format!(
            "{}[label]\ncolumn = \"y\"\n{of}\n\n{}",
            &two[..label],
            &two[column..]
        );
        place.put(&format!("{name}.toml"), &text);
        let by_schema = json(
            &place,
            &format!("plan noisy-gd --public-records 400 --schema {name}.toml {budget}"),
        );
        let by_numbers = json(
            &place,
            &format!("plan noisy-gd --records 400 --dim 5 --row-norm 2 --loss {loss} {budget}"),
        );
        assert_eq!(by_schema, by_numbers, "{name}");
        assert_eq!(by_schema["dim"], 5 * times);
        let mut dry = json(
            &place,
            &format!(
                "train --data header.csv --schema {name}.toml --solver noisy-gd --public-records 400 --dry-run {budget}"
            ),
        );
        dry.as_object_mut().unwrap().remove("notes");
        assert_eq!(dry, by_schema, "{name}");
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

/// auto weighs time where nobody says how many steps, and says so; a number that is given is kept to.
#[test]
fn steps_that_are_asked_of_auto_are_its_steps() {
    let place = Place::new();
    let convex = "plan auto --records 5000000 --dim 7 --epsilon 1 --delta 1e-8 --json";
    assert_eq!(json(&place, convex)["steps"], 395);
    let asked = json(&place, &format!("{convex} --max-steps 1200"));
    assert_eq!(asked["steps"], 1200);
    let bent = "plan auto --records 1000000 --dim 10 --loss welsch --epsilon 1 --delta 1e-8 --json";
    let found = json(&place, bent);
    assert!(
        found["gradients"].as_f64().unwrap() * 10.0 <= 2e11,
        "{found}"
    );
    assert!(found["predicted_bound"].as_f64().unwrap() < found["trivial_bound"].as_f64().unwrap());
    let reason = found["solver_reason"].as_str().unwrap();
    assert!(reason.contains("a limit on time or passes"), "{reason}");
}

/// A plan states the bound that a run states, or why a run states none.
#[test]
fn a_plan_states_no_bound_that_a_run_does_not() {
    let place = Place::new();
    let plan = |more: &str| {
        let flags = "plan noisy-gd-theory --records 200000 --dim 5 --epsilon 2 --delta 1e-6";
        place.ok(&format!("{flags} {more}"))
    };
    assert!(plan("").contains("on the gradient norm"));
    let words = plan("--adjacency add-remove");
    assert!(words.contains("none stated under add-remove"), "{words}");
    assert!(!words.contains("on the gradient norm"), "{words}");
    let found: Value = serde_json::from_str(&plan("--adjacency add-remove --json")).unwrap();
    assert_eq!(found["predicted_bound"], Value::Null, "{found}");
    assert_eq!(found["bound_on"], Value::Null, "{found}");
}
