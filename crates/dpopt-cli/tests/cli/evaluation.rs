//! `dpopt evaluate` and `train --holdout --evaluate`: the numbers are those of the records, and what can't be evaluated costs nothing.

use serde_json::Value;

use crate::support::{Place, ROWS, rows, table};

/// Accuracy, mean log loss and positives of the model on all lines, by hand.
fn exact(model: &Value) -> [f64; 3] {
    let weights = model["weights"].as_array().unwrap();
    let weights: Vec<f64> = weights
        .iter()
        .map(|w| w["weight"].as_f64().unwrap())
        .collect();
    let mut sums = [0.0; 3];
    for line in rows(ROWS) {
        let fields: Vec<&str> = line.split(',').collect();
        let x: f64 = fields[0].parse().unwrap();
        let at = |name| f64::from(u8::from(fields[1] == name));
        let row = [x / 10.0, at("a"), at("b"), 0.0, 1.0];
        let label = if fields[2] == "yes" { 1.0 } else { -1.0 };
        let z: f64 = row.iter().zip(&weights).map(|(x, w)| x * w).sum();
        sums[0] += f64::from(u8::from((z > 0.0) == (label > 0.0)));
        sums[1] += (1.0 + (-label * z).exp()).ln();
        sums[2] += f64::from(u8::from(label > 0.0));
    }
    sums.map(|sum| sum / ROWS as f64)
}

fn number(of: &Value, name: &str) -> f64 {
    of[name]["estimate"].as_f64().unwrap()
}

/// Estimates are within seven deviations of the noise (rarer than 1e-11) of what the lines say.
#[test]
fn the_estimates_are_those_of_the_lines() {
    let place = Place::new();
    place.train("--epsilon 5 --out out");
    let [accuracy, log_loss, positives] = exact(&place.json("out/model.json"));
    let flags = "evaluate --model out/model.json --data t.csv --epsilon 50 --bins 8";
    let found: Value = serde_json::from_str(&place.ok(&format!("{flags} --json"))).unwrap();
    assert_eq!(found["format"], "dpopt-evaluation-1");
    assert_eq!(found["records"], ROWS);
    let unit = found["count_std"].as_f64().unwrap() / ROWS as f64;
    let cap = found["loss_cap"].as_f64().unwrap();
    for (name, exact, deviation) in [
        ("accuracy", accuracy, 2.0 * unit),
        ("positives", positives, 2.0 * unit),
        ("log_loss", log_loss, cap * unit),
    ] {
        let off = (number(&found, name) - exact).abs();
        assert!(off <= 7.0 * deviation + 1e-6, "{name} {exact} {found}");
        assert!(found[name]["low"].as_f64().unwrap() <= number(&found, name));
    }
    assert!(found["privacy"]["epsilon"].as_f64().unwrap() <= 50.0);
    assert_eq!(found["roc"].as_array().unwrap().len(), 7);
    assert_eq!(found["calibration"].as_array().unwrap().len(), 8);

    let words = place.ok(&format!("{flags} --out e.json"));
    assert!(words.starts_with("Evaluation accuracy"), "{words}");
    for line in words.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
    assert_eq!(place.json("e.json")["format"], "dpopt-evaluation-1");
    place.fails(&format!("{flags} --out no/e.json"), 1, &["--out", "no"]);
    place.fails(&format!("{flags} --out e.json"), 1, &["--out", "new file"]);
}

/// A hold-out costs the larger of the two parts, and the run has the guarantee that it has without.
#[test]
fn a_run_evaluates_what_it_did_not_train_on() {
    let place = Place::new();
    let flags = "--holdout 0.25 --holdout-seed 5 --epsilon 20 --out out";
    let found = place.train(&format!("{flags} --evaluate"));
    assert_eq!(found["records"], 300);
    assert!(found["epsilon"].as_f64().unwrap() <= 20.0);
    let of = &found["evaluation"];
    assert_eq!(of["held_out"]["records"], 100);
    assert_eq!(of["held_out"]["seed"], 5);
    assert_eq!(of["records"], 100);
    let inner = of["privacy"]["epsilon"].as_f64().unwrap();
    let run = found["epsilon"].as_f64().unwrap();
    assert!(inner <= run && inner > 0.999 * run, "{inner} {run}");
    let model = place.json("out/model.json");
    assert_eq!(model["evaluation"], *of);
    let words = model["privacy"]["words"].to_string();
    assert!(words.contains("the larger of both"), "{words}");
    let report = place.read("out/report.html");
    for part in [
        "Private evaluation",
        "ROC points",
        "Calibration",
        "id=\"roc",
    ] {
        assert!(report.contains(part), "{part}");
    }
    let events = place.json("out/events.json");
    assert_eq!(events["held_out"], of["event"]);
    assert!(events["held_out"].is_object() && events["held_out"] != events["event"]);
    // The model with its evaluation is read again.
    place.ok("predict --model out/model.json --data t.csv");

    // A share of the squared mu is about its root of mu: the noise is larger by that.
    let part = place.train("--holdout 0.25 --epsilon 20 --evaluate 0.25");
    let ratio =
        part["evaluation"]["count_std"].as_f64().unwrap() / of["count_std"].as_f64().unwrap();
    assert!((ratio - 2.0).abs() < 1e-3, "{ratio}");
}

/// With solvers on samples, in slices, of saddle problems and of networks.
#[test]
fn every_kind_of_run_holds_out() {
    let place = Place::new();
    for flags in [
        "--solver dp-sgd",
        "--solver storm",
        "--solver noisy-gd --loss huber",
        "--hidden 4 --output-weights fixed --solver noisy-gd",
        "--objective auc --group-shares release",
        "--solver auto",
    ] {
        let found = place.train(&format!("{flags} --epsilon 8 --holdout 0.5 --evaluate"));
        assert_eq!(found["records"], 200, "{flags}");
        let of = &found["evaluation"];
        assert_eq!(of["records"], 200, "{flags}");
        let logistic = found["loss"] == "logistic";
        assert_eq!(of["log_loss"].is_object(), logistic, "{flags} {of}");
    }
}

/// The odometer of a run that ended early is of training alone, and held-out records paid all of the budget.
#[test]
fn no_odometer_stands_beside_an_evaluation() {
    let place = Place::new();
    // So many that three steps cost a twentieth of the budget: of few, noise may have them spend it all.
    place.put("t.csv", &table(&rows(8000)));
    let flags = "--solver adaptive-gd --max-steps 3 --loss welsch --epsilon 8";
    let alone = place.train(flags);
    assert!(alone["odometer"]["epsilon"].as_f64().unwrap() < 8.0);
    let both = place.train(&format!("{flags} --holdout 0.5 --evaluate --out out"));
    assert_ne!(both["stop"], "completed");
    assert!(both["odometer"].is_null());
    let model = place.json("out/model.json");
    for text in [place.read("out/report.html"), model["privacy"].to_string()] {
        assert!(!text.contains("Odometer"), "{text}");
    }
    assert!(place.json("out/events.json")["odometer"].is_null());
}

/// Under add-remove the number of records is noised, and the planned one is the flag's.
#[test]
fn a_secret_number_of_records_is_not_told() {
    let place = Place::new();
    place.train("--epsilon 5 --out out --adjacency add-remove --public-records 500");
    let flags = "evaluate --model out/model.json --data t.csv --epsilon 20";
    place.fails(flags, 1, &["--public-records", "private"]);
    let found = place.ok(&format!("{flags} --public-records 500 --json"));
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["records"], Value::Null);
    assert_eq!(found["population"], Value::Null);
    assert!((0.0..=1.0).contains(&number(&found, "accuracy")));
    let words = place.ok(&format!("{flags} --public-records 500"));
    assert!(words.contains("whose number is protected"), "{words}");
}

#[test]
fn one_ledger_pays_for_the_model_and_its_evaluation() {
    let place = Place::new();
    place.train("--epsilon 2 --out out --ledger l.json --budget 4 --budget-delta 1e-5");
    let flags = "evaluate --model out/model.json --data t.csv --epsilon 2 --ledger l.json";
    place.ok(flags);
    assert!(place.ok("ledger show l.json").contains("after 2 runs"));
    let more = flags.replace("--epsilon 2", "--epsilon 6");
    place.fails(&more, 2, &["--ledger", "nothing was released"]);
}

const LABEL: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";

/// A table whose last column is made of the two others.
fn lines(place: &Place, label: &str, of: impl Fn(usize, usize) -> String) {
    place.schema_with(LABEL, label);
    let lines = (0..ROWS).map(|i| {
        let (x, c) = (i % 11, i % 3);
        format!("{x},{},{}\n", ["a", "b", "z"][c], of(x, c))
    });
    place.put("t.csv", &format!("x,c,y\n{}", lines.collect::<String>()));
}

/// Estimates of several classes against the predictions of the same model, within seven deviations (rarer than 1e-11).
#[test]
fn several_classes_are_evaluated() {
    let place = Place::new();
    let label = "values = [\"low\", \"mid\", \"high\"]\ndefault = \"mid\"";
    let class = |x: usize, c: usize| ["low", "mid", "high"][if x == 10 { 2 } else { c }];
    lines(&place, label, |x, c| class(x, c).to_owned());
    let found = place.train("--epsilon 9 --holdout 0.25 --evaluate --out out");
    let of = &found["evaluation"];
    assert_eq!(of["records"], 100);
    assert_eq!(of["classes"][2], "high");
    assert_eq!(of["recalls"].as_array().unwrap().len(), 3);
    assert_eq!(of["privacy"]["epsilon"].as_f64().unwrap().ceil(), 9.0);
    assert_eq!(place.json("out/model.json")["evaluation"], *of);
    let report = place.read("out/report.html");
    assert!(report.contains("Private evaluation") && report.contains("recall of high"));
    assert!(!report.contains("ROC points"));

    let predicted = place.ok("predict --model out/model.json --data t.csv");
    let mut table = [[0.0; 3]; 3];
    let place_of = |name: &str| ["low", "mid", "high"].iter().position(|of| *of == name);
    for (i, line) in predicted.lines().skip(1).enumerate() {
        let called = place_of(line.split(',').next().unwrap()).unwrap();
        table[place_of(class(i % 11, i % 3)).unwrap()][called] += 1.0;
    }
    let flags = "evaluate --model out/model.json --data t.csv --epsilon 60";
    let found: Value = serde_json::from_str(&place.ok(&format!("{flags} --json"))).unwrap();
    let deviation = found["count_std"].as_f64().unwrap();
    for (class, row) in table.iter().enumerate() {
        for (called, exact) in row.iter().enumerate() {
            let count = found["confusion"]["counts"][class][called]
                .as_f64()
                .unwrap();
            assert!(
                (count - exact).abs() <= 7.0 * deviation + 1e-6,
                "{table:?} {found}"
            );
        }
    }
    let right = (table[0][0] + table[1][1] + table[2][2]) / ROWS as f64;
    let off = number(&found["accuracy"], "records") - right;
    assert!(off.abs() <= 7.0 * deviation / ROWS as f64 + 1e-6, "{found}");
    assert!(place.ok(flags).starts_with("Evaluation accuracy"));
    place.fails(&format!("{flags} --bins 8"), 1, &["--bins", "3 values"]);
    let plan = "train --data t.csv --schema s.toml --epsilon 1 --holdout 0.5 --evaluate --dry-run";
    assert!(place.ok(plan).contains("the accuracy to about"));
}

/// Errors of numbers against the predictions of the same model, in the unit of the label.
#[test]
fn numbers_are_evaluated() {
    let place = Place::new();
    let label = "kind = \"number\"\nmin = -10.0\nmax = 30.0\ndefault = 0.0";
    let of = |x: usize, c: usize| (2 * x + 3 * c) as f64;
    lines(&place, label, |x, c| of(x, c).to_string());
    let found = place.train("--epsilon 9 --holdout 0.25 --evaluate --out out");
    assert_eq!(found["evaluation"]["width"], 40.0);
    assert_eq!(
        place.json("out/model.json")["evaluation"],
        found["evaluation"]
    );
    assert!(
        place
            .read("out/report.html")
            .contains("mean absolute error")
    );

    let predicted = place.ok("predict --model out/model.json --data t.csv");
    let errors: Vec<f64> = predicted
        .lines()
        .skip(1)
        .enumerate()
        .map(|(i, line)| {
            let z: f64 = line.split(',').next().unwrap().parse().unwrap();
            (z.clamp(-10.0, 30.0) - of(i % 11, i % 3)).abs()
        })
        .collect();
    let flags = "evaluate --model out/model.json --data t.csv --epsilon 60";
    let found: Value = serde_json::from_str(&place.ok(&format!("{flags} --json"))).unwrap();
    let unit = found["count_std"].as_f64().unwrap() / ROWS as f64;
    for (name, exact, scale) in [
        ("mean_absolute_error", mean(&errors, 1), 40.0),
        ("mean_squared_error", mean(&errors, 2), 1600.0),
    ] {
        let off = (number(&found[name], "records") - exact).abs();
        assert!(off <= 7.0 * scale * unit + 1e-3, "{name} {exact} {found}");
    }
    assert!(
        place
            .ok(flags)
            .starts_with("Evaluation mean absolute error")
    );
    place.fails(&format!("{flags} --bins 8"), 1, &["--bins", "number"]);
    place.train("--epsilon 9 --adjacency add-remove --public-records 400 --out other");
    let flags = "evaluate --model other/model.json --data t.csv --epsilon 9 --public-records 400";
    let found: Value = serde_json::from_str(&place.ok(&format!("{flags} --json"))).unwrap();
    assert_eq!(found["records"], Value::Null);
    assert_eq!(found["mean_absolute_error"]["population"], Value::Null);
}

fn mean(errors: &[f64], power: i32) -> f64 {
    errors.iter().map(|error| error.powi(power)).sum::<f64>() / errors.len() as f64
}

/// The statement is about the table that was read, and says that the model is public and the table is not.
#[test]
fn a_statement_protects_the_table_that_was_read() {
    let place = Place::new();
    let words = |of: &Value| of["privacy"]["words"].to_string();
    let run = place.train("--epsilon 5 --solver noisy-gd --holdout 0.25 --evaluate --out out");
    let trained = words(&place.json("out/model.json"));
    assert!(
        trained.contains("each line of the training table"),
        "{trained}"
    );
    let on = |command: &str| {
        let flags = format!("{command} --model out/model.json --data test.csv --epsilon 5 --json");
        words(&serde_json::from_str(&place.ok(&flags)).unwrap())
    };
    for (said, table) in [
        (words(&run["evaluation"]), "held-out part of the table"),
        (on("evaluate"), "table that the model was evaluated on"),
        (on("certify"), "table that the model was certified on"),
    ] {
        assert!(
            said.contains(&format!("Protected: each line of the {table}")),
            "{said}"
        );
        assert!(
            said.contains(&format!("one record of the {table} is exchanged")),
            "{said}"
        );
        for untrue in ["training table", "test set"] {
            assert!(!said.contains(untrue), "{untrue}: {said}");
        }
    }
}

/// Where noise hides a number there is no estimate of it, and the next budget is named; with that the number is there.
#[test]
fn a_number_that_noise_hides_is_not_estimated() {
    let place = Place::new();
    place.train("--epsilon 5 --out out");
    let run = |epsilon: f64| -> (Value, String) {
        let flags = format!("evaluate --model out/model.json --data t.csv --epsilon {epsilon}");
        let words = place.ok(&format!("{flags} --out e.json"));
        let found = place.json("e.json");
        std::fs::remove_file(place.path("e.json")).unwrap();
        (
            found,
            words.split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    let (found, words) = run(0.01);
    for name in ["auc", "precision"] {
        assert_eq!(found[name]["estimate"], Value::Null, "{found}");
    }
    let hidden = "AUC not determined at this budget (0.0000 to 1.0000)";
    assert!(words.contains(hidden), "{words}");
    let named = words.contains("such records, or an epsilon of ");
    assert!(
        named || words.contains("do not say how many records"),
        "{words}"
    );
    let (found, words) = run(60.0);
    assert!(found["auc"]["estimate"].is_number(), "{found}");
    assert!(!words.contains("not determined"), "{words}");
}
