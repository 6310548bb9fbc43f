//! `dpopt tune`: one budget for all, the best run and nothing of the others, and what can't be tuned costs nothing.

use serde_json::Value;

use crate::support::{Place, rows};

const FLAGS: &str = "tune --data t.csv --schema s.toml";

fn tuned(place: &Place, flags: &str) -> Value {
    let text = place.ok(&format!("{FLAGS} {flags} --json"));
    serde_json::from_str(&text).unwrap()
}

/// The budget is kept, each run gets less, and a second accountant reads the event. Files say how it was chosen, and none how many runs.
#[test]
fn a_model_is_chosen_within_one_budget() {
    let place = Place::new();
    let grid = "--solver noisy-gd,dp-sgd --row-norm 1,2 --repeats 12 --holdout-seed 4";
    let found = tuned(&place, &format!("--epsilon 8 {grid} --out out"));
    let epsilon = found["epsilon"].as_f64().unwrap();
    assert!(epsilon <= 8.0 && epsilon > 7.0, "{epsilon}");
    let tuning = &found["tuning"];
    let of_a_run = tuning["epsilon_of_a_run"].as_f64().unwrap();
    assert!(of_a_run < 0.75 * epsilon, "{of_a_run}");
    assert_eq!(tuning["candidates"].as_array().unwrap().len(), 4);
    let chosen = tuning["chosen"].as_u64().unwrap() as usize;
    let named = &tuning["candidates"][chosen - 1];

    let model = place.json("out/model.json");
    assert_eq!(model["tuning"], *tuning);
    assert_eq!(model["solver"], named["solver"]);
    assert_eq!(model["schema"]["row_norm"], named["row_norm"]);
    assert_eq!(model["evaluation"]["held_out"]["records"], 80);
    assert_eq!(model["evaluation"]["failure"], 0.05);
    let words = model["privacy"]["words"].to_string();
    for part in [
        "The choice of settings is paid for",
        "Theorem 6",
        "how long",
    ] {
        assert!(words.contains(part), "{words}");
    }
    let events = place.json("out/events.json");
    assert_eq!(events["event"]["class_name"], "RepeatAndSelectDpEvent");
    assert_eq!(events["spent"]["event"], events["event"]);
    assert_eq!(events["spent"]["count"], 1);
    assert!(events.get("held_out").is_none());
    let second = place.ok("account --events out/events.json --json");
    let second: Value = serde_json::from_str(&second).unwrap();
    assert!((second["epsilon"].as_f64().unwrap() / epsilon - 1.0).abs() < 1e-9);
    let report = place.read("out/report.html");
    assert!(report.contains("best of several runs"), "no bound");
    assert!(report.contains("Private evaluation") && !report.contains("seconds"));
    assert!(
        !report.contains("cost the larger of both"),
        "a tuning costs more"
    );
    let explained = place.ok("explain out/model.json");
    assert!(explained.contains("repeat-and-select") && explained.contains("candidate 4:"));
    place.ok("predict --model out/model.json --data t.csv");
    place.ok("export --model out/model.json --format json --out flat.json");
}

/// As many lines for one run as for forty, and one run in the ledger.
#[test]
fn a_ledger_has_one_run() {
    let place = Place::new();
    let ledger = "--ledger l --budget 40 --budget-delta 1e-6";
    tuned(&place, &format!("--epsilon 4 --law geometric {ledger}"));
    let lines = place.read("l").lines().count();
    tuned(&place, "--epsilon 4 --law geometric --ledger l");
    let shown = place.ok("ledger show l");
    assert!(shown.contains("2 runs"), "{shown}");
    let after = place.read("l").lines().count();
    tuned(
        &place,
        "--epsilon 4 --law geometric --repeats 30 --ledger l",
    );
    assert_eq!(place.read("l").lines().count() - after, after - lines);
    place.fails(
        &format!("{FLAGS} --epsilon 400 --ledger l --json"),
        2,
        &["--ledger", "nothing was released and nothing charged"],
    );
}

/// A number and three classes.
#[test]
fn other_labels_have_other_scores() {
    let place = Place::new();
    place.schema_with(
        "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"",
        "values = [\"no\", \"yes\", \"maybe\"]\ndefault = \"no\"",
    );
    let found = tuned(&place, "--epsilon 20 --law geometric");
    assert_eq!(found["tuning"]["score"], "accuracy");
    assert_eq!(found["evaluation"]["classes"].as_array().unwrap().len(), 3);
    let number = "kind = \"number\"\nmin = 0.0\nmax = 10.0\ndefault = 0.0";
    place.schema_with(
        "column = \"y\"\nvalues = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"",
        &format!("column = \"z\"\n{number}"),
    );
    let lines: String = rows(200)
        .iter()
        .enumerate()
        .map(|(i, line)| {
            let cut = line.rfind(',').unwrap();
            format!("{},{}\n", &line[..cut], i % 10)
        })
        .collect();
    place.put("t.csv", &format!("x,c,z\n{lines}"));
    let found = tuned(&place, "--epsilon 20 --law geometric --loss huber,absolute");
    assert_eq!(found["tuning"]["score"], "absolute-error");
    assert!(found["evaluation"]["mean_absolute_error"].is_object());
}

/// Networks and class weights are tried too, and what `auto` picks is no second choice beside the same solver by its name.
#[test]
fn widths_and_weights_are_tried_and_the_same_run_counts_once() {
    let place = Place::new();
    let grid = "--hidden none --hidden 4 --hidden 5,3 --class-weights none --class-weights yes=3";
    let found = tuned(
        &place,
        &format!("--epsilon 8 {grid} --repeats 3 --law geometric --out out"),
    );
    let candidates = found["tuning"]["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 6);
    assert_eq!(candidates[4]["hidden"], serde_json::json!([5, 3]));
    assert_eq!(candidates[5]["class_weights"]["yes"], 3.0);
    assert!(candidates[0].get("hidden").is_none() && candidates[0].get("class_weights").is_none());
    let chosen = found["tuning"]["chosen"].as_u64().unwrap() as usize;
    let model = place.json("out/model.json");
    let weights = &candidates[chosen - 1]["class_weights"];
    assert_eq!(model.get("class_weights").unwrap_or(&Value::Null), weights);
    place.ok("predict --model out/model.json --data t.csv");
    assert!(
        place
            .ok("explain out/model.json")
            .contains("5, 3 hidden units")
    );

    let two = tuned(&place, "--epsilon 2 --dry-run --solver noisy-gd,dp-sgd");
    let out = place.run(&format!(
        "{FLAGS} --epsilon 2 --dry-run --json --solver auto,noisy-gd,dp-sgd"
    ));
    let warned = crate::support::stderr(&out);
    assert!(warned.contains("same run, and count once"), "{warned}");
    let three: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(three["candidates"], two["candidates"]);
    assert_eq!(three["epsilon_of_a_run"], two["epsilon_of_a_run"]);
    assert_eq!(three["never_tried"], two["never_tried"]);
}

/// Weights of 1 are none, and all candidates that are the same run go at once: what is left is what was named once.
#[test]
fn all_that_are_the_same_go_at_once() {
    let place = Place::new();
    let two = "--candidate solver=noisy-gd --candidate class-weights=no=1,yes=3";
    let two = tuned(&place, &format!("--epsilon 2 --dry-run {two}"));
    assert_eq!(two["candidates"][1]["class_weights"]["yes"], 3.0);
    let mut many = "--candidate solver=noisy-gd --candidate class-weights=no=1,yes=3".to_owned();
    for solver in ["auto", "noisy-gd"] {
        for weights in ["yes=1", "no=1,yes=1", "none", "yes=3", "no=1,yes=3"] {
            many += &format!(" --candidate solver={solver},class-weights={weights}");
        }
    }
    let out = place.run(&format!("{FLAGS} --epsilon 2 --dry-run --json {many}"));
    let warned = crate::support::stderr(&out);
    let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(found["candidates"], two["candidates"], "{warned}");
    assert_eq!(found["epsilon_of_a_run"], two["epsilon_of_a_run"]);
    // Of twelve two are, setting by setting, one of the first two, and two stay.
    assert_eq!(warned.matches("count once").count(), 8, "{warned}");
}

/// Values of a label with spaces and commas in them, in a list that ends where the next setting begins.
#[test]
fn a_candidate_has_a_list_of_weights() {
    let place = Place::new();
    place.schema_with(
        "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"",
        "values = [\"no\", \"yes\", \"not, yet\"]\ndefault = \"no\"",
    );
    let mut command = place.command(&format!(
        "{FLAGS} --epsilon 2 --dry-run --json --candidate solver=auto"
    ));
    let out = command
        .args(["--candidate", "class-weights=yes=2,not, yet=3 row-norm=0.5"])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    // A value with a comma can't be told from two in a list.
    assert!(
        text.contains("--class-weights") && text.contains("not"),
        "{text}"
    );
    let mut command = place.command(&format!(
        "{FLAGS} --epsilon 2 --dry-run --json --candidate solver=auto"
    ));
    let out = command
        .args(["--candidate", "class-weights=not, yet=3 row-norm=0.5"])
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let second = &found["candidates"][1];
    assert_eq!(
        second["class_weights"],
        serde_json::json!({"no": 1.0, "yes": 1.0, "not, yet": 3.0})
    );
    assert_eq!(second["row_norm"], 0.5);
}

/// `plan tune` needs a schema and a number, and says what the dry run of a table of so many records says.
#[test]
fn a_tuning_is_planned_without_records() {
    let place = Place::new();
    let flags = "--epsilon 2 --delta 1e-6 --solver noisy-gd,dp-sgd --law geometric --json";
    let dry = place.ok(&format!("{FLAGS} --dry-run {flags}"));
    std::fs::remove_file(place.path("t.csv")).unwrap();
    let before = place.listing();
    let planned = place.ok(&format!("plan tune --schema s.toml --records 400 {flags}"));
    let read = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let without_seed = |mut of: Value| {
        // Who is held out differs, and costs nothing.
        of.as_object_mut().unwrap().remove("event");
        of
    };
    assert_eq!(without_seed(read(&planned)), without_seed(read(&dry)));
    let words = place.ok("plan tune --schema s.toml --public-records 400 --epsilon 2 --delta 1e-6");
    for part in ["candidate 4", "each run", "all together"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(place.listing(), before);
}

/// The plan comes from public numbers, and the same ones with a table and without.
#[test]
fn a_dry_run_says_what_a_run_gets_and_writes_nothing() {
    let place = Place::new();
    let before = place.listing();
    let with: Value = tuned(&place, "--epsilon 2 --dry-run");
    let without = tuned(&place, "--epsilon 2 --dry-run --public-records 400");
    for of in [&with, &without] {
        assert!(of["epsilon"].as_f64().unwrap() <= 2.0);
        assert_eq!(
            (&of["records"], &of["held_out"]),
            (&with["records"], &with["held_out"])
        );
        assert_eq!(of["epsilon_of_a_run"], with["epsilon_of_a_run"]);
    }
    // Four candidates, five runs: exp(-5/4) and exp(-5).
    assert!((with["never_tried"].as_f64().unwrap() - 0.286_504_796_86).abs() < 1e-9);
    assert!((with["no_run"].as_f64().unwrap() - 0.006_737_946_999).abs() < 1e-9);
    let words = place.ok(&format!("{FLAGS} --epsilon 2 --dry-run"));
    for part in [
        "candidate 4",
        "each run",
        "all together",
        "nothing was charged",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(place.listing(), before);
}
