//! Quadratic losses of a factor, for tables of differences.

use std::fmt::Write as _;

use dpopt::nonconvex::SOLVERS;
use serde_json::Value;

use crate::support::Place;

const SCHEMA: &str = "format = 1\nrow_norm = 2.0\nintercept = 0.0\n[label]\ncolumn = \"differ\"\nvalues = [\"0\", \"1\"]\n\
                      positive = \"1\"\ndefault = \"0\"\n[array]\ncolumns = 3\nscale = 1.0\n";
const LOSS: &str = "--loss quadratic:logistic --rank 2 --ball 3";

/// Differences x of two things, which differ (1) where 4 x_1^2 + x_2^2 > 1; the third entry tells nothing.
fn place(records: usize) -> Place {
    let place = Place::new();
    let mut state = 7u64;
    let mut number = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    };
    let mut text = String::new();
    for _ in 0..records {
        let x = [number(), number(), number()];
        let differ = u8::from(4.0 * x[0] * x[0] + x[1] * x[1] > 1.0);
        writeln!(text, "{differ} 1:{} 2:{} 3:{}", x[0], x[1], x[2]).unwrap();
    }
    place.put("d.svm", &text);
    place.put(
        "test.svm",
        &text.lines().take(300).collect::<Vec<_>>().join("\n"),
    );
    place.put("d.toml", SCHEMA);
    place
}

fn train(place: &Place, flags: &str) -> Value {
    let flags = format!("train --data d.svm --schema d.toml --json {flags}");
    serde_json::from_str(&place.ok(&flags)).unwrap()
}

fn plan(place: &Place, flags: &str) -> Value {
    serde_json::from_str(&place.ok(&format!("plan {flags} --json"))).unwrap()
}

/// The score in the file of predictions is ||U^T x||^2 - 1 of the U in the model.
#[test]
fn a_factor_is_trained_applied_and_certified() {
    let place = place(6_000);
    let found = train(
        &place,
        &format!("{LOSS} --solver dp-sgd --epsilon 40 --test test.svm --out o"),
    );
    assert_eq!(
        (
            &found["loss"],
            &found["rank"],
            &found["ball"],
            &found["factor_seed"],
            &found["dim"]
        ),
        (
            &"quadratic:logistic".into(),
            &2.into(),
            &3.0.into(),
            &0.into(),
            &6.into()
        )
    );
    // By the side of x alone no half-plane tells them apart; by its square one does.
    assert!(found["test_auc"].as_f64().unwrap() > 0.9, "{found}");
    let model = place.json("o/model.json");
    assert_eq!(model["loss"], "quadratic:logistic");
    assert_eq!(model["factor"]["threshold"], 1.0);
    let weights: Vec<Vec<f64>> = model["weights"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| serde_json::from_value(one["weight"].clone()).unwrap())
        .collect();
    let predicted = place.ok("predict --model o/model.json --data test.svm");
    let rows = place.read("test.svm");
    for (line, row) in predicted.lines().skip(1).zip(rows.lines()).take(50) {
        let x: Vec<f64> = row
            .split_whitespace()
            .skip(1)
            .map(|entry| f64::from(entry.split_once(':').unwrap().1.parse::<f32>().unwrap()))
            .collect();
        let square: f64 = (0..2)
            .map(|j| {
                let t: f64 = x.iter().zip(&weights).map(|(x, u)| x * u[j]).sum();
                t * t
            })
            .sum();
        let fields: Vec<&str> = line.split(',').collect();
        let score: f64 = fields[0].parse().unwrap();
        assert!((score - (square - 1.0)).abs() < 1e-9, "{line} {square}");
        assert_eq!(fields[2], if square > 1.0 { "1" } else { "0" });
    }
    let flags = "certify --model o/model.json --data d.svm --epsilon 20 --json";
    let certificate: Value = serde_json::from_str(&place.ok(flags)).unwrap();
    assert_eq!(
        (&certificate["loss"], &certificate["dim"]),
        (&"quadratic:logistic".into(), &6.into())
    );
    assert!(certificate["least_eigenvalue"]["low"].is_number());
    // A model whose factor and loss don't fit each other is none.
    let text = place.read("o/model.json");
    for (old, new) in [
        ("\"quadratic:logistic\"", "\"logistic\""),
        ("\"threshold\": 1.0", "\"threshold\": 2.0"),
        ("\"rank\": 2", "\"rank\": 3"),
    ] {
        assert!(text.contains(old), "{old}");
        place.put("bad.json", &text.replacen(old, new, 1));
        place.fails("predict --model bad.json --data d.svm", 1, &["bad.json"]);
    }
}

/// The solvers that the page names between these words.
fn named(from: &str, to: &str) -> Vec<&'static str> {
    let page = include_str!("../../../../docs/solvers.md");
    let rest = page.split_once(from).expect("the section on factors").1;
    let list = rest.split_once(to).expect("the section on factors").0;
    list.split('`').skip(1).step_by(2).collect()
}

/// Each solver of a table runs it or is refused by name before anything is released; plans of the command and of a run are the same.
#[test]
fn every_solver_runs_it_or_is_refused() {
    let place = place(2_000);
    let mut refused = Vec::new();
    for solver in SOLVERS.iter().filter(|solver| !solver.needs.kl) {
        let more = match (solver.needs.radius, solver.needs.goldstein) {
            (true, _) => "--radius 0.01",
            (_, true) => "--goldstein-radius 5",
            _ => "",
        };
        let flags = format!("{LOSS} --solver {solver} --epsilon 1e6 --max-steps 3000 {more}");
        let output = place.run(&format!(
            "train --data d.svm --schema d.toml --json {flags}"
        ));
        match output.status.code() {
            Some(0) => {
                let found: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(found["dim"], 6, "{solver}");
                // Who leaves saddles starts at one.
                assert_eq!(
                    found.get("factor_seed").is_none(),
                    solver.needs.hessian,
                    "{solver}: {found}"
                );
            }
            _ => {
                let words = crate::support::stderr(&output);
                assert_eq!(output.status.code(), Some(1), "{solver}: {words}");
                refused.push(solver.name);
            }
        }
    }
    // The first two are for convex losses, the third asks for averages along rows; a pass to a certificate of the population needs more records.
    let expected = named("Refused: ", ", `--project`");
    for name in &expected {
        assert!(refused.contains(name), "{name} {refused:?}");
    }
    let mut at_zero = named("all gradients are 0 there. ", " start at it");
    let mut saddles: Vec<&str> = SOLVERS
        .iter()
        .filter(|solver| solver.needs.hessian)
        .map(|solver| solver.name)
        .collect();
    at_zero.sort_unstable();
    saddles.sort_unstable();
    assert_eq!(at_zero, saddles);
    refused.retain(|name| !expected.contains(name) && *name != "adaptive-batch");
    assert!(refused.is_empty(), "{refused:?}");
    let facts = "--records 2000 --dim 3 --row-norm 2 --delta 1e-6";
    let planned = plan(&place, &format!("noisy-gd {facts} {LOSS} --epsilon 5"));
    let found = train(&place, &format!("{LOSS} --solver noisy-gd --epsilon 5"));
    assert_eq!(planned["dim"], found["dim"]);
    assert_eq!(planned["steps"], found["planned_steps"]);
    // U = 0 is a saddle; where one starts is a choice.
    let none = train(
        &place,
        &format!("{LOSS} --solver noisy-gd --epsilon 5 --factor-seed none --max-steps 1"),
    );
    assert!(none.get("factor_seed").is_none(), "{none}");
    let seed = train(
        &place,
        &format!("{LOSS} --solver noisy-gd --epsilon 5 --factor-seed 9 --max-steps 1"),
    );
    assert_eq!(seed["factor_seed"], 9);
}

/// A step so long that the walk leaves the ball, and a bound that is none then.
#[test]
fn a_walk_that_leaves_its_ball_states_no_bound() {
    let place = place(2_000);
    let run = |ball: &str| {
        train(
            &place,
            &format!(
                "--loss quadratic:logistic --rank 2 --ball {ball} --solver noisy-gd-theory --epsilon 1e5 --max-steps 400"
            ),
        )
    };
    // The minimiser is at about 2.
    let (inside, outside) = (run("20"), run("0.6"));
    let why = |found: &Value| {
        found["no_bound_because"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(!why(&inside).contains("--ball"), "{inside}");
    assert_eq!(outside["bound"], Value::Null);
    assert!(why(&outside).contains("--ball"), "{outside}");
    assert_eq!(outside["certificate"], Value::Null, "{outside}");
}

/// How `adaptive-batch` is planned is a choice that changes the plan, and is of use with nothing else.
#[test]
fn constants_of_the_walk_are_chosen() {
    let place = Place::new();
    let facts = "--records 500000 --dim 10 --epsilon 1 --delta 1e-6 --lipschitz 1 --smoothness 1 --initial-gap 0.5 \
                 --hessian-lipschitz 1 --hessian-frobenius 1";
    let of = |flags: &str| plan(&place, &format!("adaptive-batch {facts} {flags}"));
    let [default, typical, rigorous] = ["", "typical", "rigorous"].map(|how| match how {
        "" => of(""),
        how => of(&format!("--walk-constants {how}")),
    });
    assert_eq!(default, typical);
    assert_eq!(rigorous["plan"]["constants"], "rigorous");
    let bound = |plan: &Value| plan["predicted_bound"].as_f64().unwrap();
    assert!(bound(&rigorous) > 1.5 * bound(&typical), "{rigorous}");
}

/// A bound on Hessians that only adds noise is warned of.
#[test]
fn facts_of_hessians_that_are_odd_are_warned_of() {
    let place = Place::new();
    let facts = "--records 100000 --dim 9 --epsilon 1 --delta 1e-6 --lipschitz 1 --smoothness 2 --initial-gap 0.5";
    for solver in SOLVERS.iter().filter(|solver| solver.needs.hessian) {
        for (frobenius, warned) in [("6", false), ("6.1", true)] {
            let flags = format!(
                "plan {solver} {facts} --hessian-lipschitz 1 --hessian-frobenius {frobenius}"
            );
            let output = place.run(&flags);
            assert!(output.status.success(), "{flags}");
            let said = crate::support::stderr(&output);
            assert_eq!(said.contains("sqrt(d) L1"), warned, "{flags}: {said}");
        }
    }
}
