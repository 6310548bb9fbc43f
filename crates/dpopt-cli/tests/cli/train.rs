//! Training: what is printed, what is written, with which options.

use dpopt::oracle::Glm;
use serde_json::Value;

use crate::support::{Place, ROWS, stderr};

const KEYS: [&str; 12] = [
    "solver",
    "records",
    "dim",
    "steps",
    "epsilon",
    "delta",
    "adjacency",
    "accountant",
    "predicted_bound",
    "train_seconds",
    "seconds",
    "passes",
];

const TEST_KEYS: [&str; 3] = ["majority_accuracy", "test_accuracy", "test_auc"];

#[test]
fn without_arguments_the_sample_is_used_and_summarised() {
    let place = Place::new();
    let before = place.listing();
    let text = place.ok("train --max-steps 3");
    for word in [
        "built-in sample",
        "noisy-gd (auto: the loss is convex",
        "3 of 3",
        "none stated",
        "AUC",
        "epsilon 1 at delta 1e-6",
        "replace-one",
        "exchanged for any other",
        "nothing written",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(place.listing(), before);
}

#[test]
fn json_has_its_keys_with_and_without_a_test_set() {
    let place = Place::new();
    let plain = place.train("--delta 1e-4");
    for key in KEYS {
        assert!(plain.get(key).is_some(), "{key}");
    }
    for key in TEST_KEYS {
        assert!(plain.get(key).is_none(), "{key}");
    }
    assert_eq!(plain["records"], ROWS);
    assert_eq!(plain["dim"], 5);
    assert_eq!(plain["predicted_bound"], Value::Null);
    assert_eq!(plain["delta"], 1e-4);
    let epsilon = plain["epsilon"].as_f64().unwrap();
    assert!(epsilon <= 1.0 && epsilon > 0.999, "{epsilon}");

    let tested = place.train("--test test.csv");
    for key in KEYS.iter().chain(&TEST_KEYS) {
        assert!(tested.get(*key).is_some(), "{key}");
    }
}

#[test]
fn a_generous_budget_learns_the_small_table() {
    let place = Place::new();
    let json = place.train("--test test.csv --epsilon 50");
    assert!(json["test_auc"].as_f64().unwrap() > 0.9, "{json}");
    assert!(json["test_accuracy"].as_f64() > json["majority_accuracy"].as_f64());
    assert!(json["test_log_loss"].as_f64().unwrap() < 0.6);
}

/// But for the one whose label is no class: tables of numbers have tests of their own.
#[test]
fn every_loss_trains_a_table() {
    let place = Place::new();
    for loss in Glm::ALL {
        let flags = format!("--epsilon 20 --solver noisy-gd --loss {loss} --max-steps 50");
        if matches!(loss, Glm::Pinball(_) | Glm::Poisson(_)) {
            let train = format!("train --data t.csv --schema s.toml {flags}");
            place.fails(&train, 1, &["--loss", "is a loss of numbers"]);
            continue;
        }
        let json = place.train(&flags);
        assert_eq!(json["loss"], loss.to_string());
        assert_ne!(json["learnt_nothing"], true, "{json}");
    }
}

#[test]
fn what_is_shown_of_a_run_follows_from_its_solver() {
    let place = Place::new();
    for (solver, loss) in [
        ("noisy-gd", "huber:0.5"),
        ("noisy-gd-theory", "sigmoid"),
        ("dp-sgd", "logistic"),
        ("spiderboost", "geman-mcclure"),
        ("spiderboost", "tukey:2"),
        ("tree-spider", "sigmoid"),
        ("auto", "sigmoid"),
    ] {
        let flags = format!("--epsilon 20 --solver {solver} --loss {loss} --max-steps 50");
        let json = place.train(&flags);
        let bound = &json["predicted_bound"];
        let theory = ["spiderboost", "noisy-gd-theory", "tree-spider"]
            .contains(&json["solver"].as_str().unwrap());
        // Of an output that is drawn and is the start nothing is stated.
        let drew_the_start = json["learnt_nothing"] == true;
        assert_eq!(bound.is_number(), theory && !drew_the_start, "{json}");
        assert_eq!(json["loss"], loss);
        if solver != "auto" {
            assert_eq!(json["solver"], solver);
        }
        assert_eq!(json["accountant"] == "gdp", solver != "dp-sgd", "{json}");
    }
}

#[test]
fn under_add_remove_only_the_declared_size_is_shown() {
    let place = Place::new();
    let flags = "--adjacency add-remove --public-records 1000 --threads 1";
    let json = place.train(flags);
    assert_eq!(json["records"], 1000);
    assert_eq!(json["adjacency"], "add-remove");
    let human = place.ok(&format!("train --data t.csv --schema s.toml {flags}"));
    assert!(human.contains("1000 records declared"), "{human}");
    assert!(!human.contains(&ROWS.to_string()), "{human}");
    // No record at all is legal there, and looks the same.
    place.put("t.csv", "x,c,y\n");
    let empty = place.train(flags);
    for key in ["records", "dim", "steps", "epsilon", "passes"] {
        assert_eq!(empty[key], json[key], "{key}");
    }
}

#[test]
fn another_label_and_another_positive_value() {
    let place = Place::new();
    let json = place.train("--positive no --test test.csv");
    assert_eq!(json["dim"], 5);
    let json = place.train("--label c --positive b --test test.csv");
    // The former label is ignored, so c's three features are gone.
    assert_eq!(json["dim"], 2);
}

#[test]
fn quiet_says_nothing() {
    let place = Place::new();
    let output = place.run("train --data t.csv --schema s.toml --quiet --out o");
    assert!(output.status.success());
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert!(place.path("o/model.json").exists());
}

#[test]
fn no_progress_bar_off_a_terminal() {
    let place = Place::new();
    let output = place.run("train --data t.csv --schema s.toml");
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn a_run_on_a_table_names_its_budget_and_keeps_its_model() {
    let place = Place::new();
    let before = place.listing();
    for (flags, named) in [
        ("train --data t.csv --schema s.toml --epsilon 1", "--out"),
        ("train t.csv --schema s.toml --epsilon 1 --quiet", "--out"),
        ("train t.csv --schema s.toml --json", "--epsilon"),
        ("train t.csv --schema s.toml --out o", "--epsilon"),
        ("train t.csv --schema s.toml --dry-run", "--epsilon"),
        (
            "train t.csv --schema s.toml --objective auc --group-shares release --json",
            "--epsilon",
        ),
        (
            "tune t.csv --schema s.toml --epsilon 1 --max-passes 2,3",
            "--out",
        ),
        (
            "tune t.csv --schema s.toml --max-passes 2,3 --json",
            "--epsilon",
        ),
    ] {
        let output = place.run_exactly(flags);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{flags}: {said}");
        assert!(
            said.starts_with(&format!("error: {named}: ")) && output.stdout.is_empty(),
            "{flags}: {said}"
        );
        assert_eq!(place.listing(), before, "{flags}");
    }
    for flags in ["--dry-run", "--json", "--quiet --out o"] {
        let flags = format!("train t.csv --schema s.toml --epsilon 1 {flags}");
        let output = place.run_exactly(&flags);
        assert!(output.status.success(), "{flags}: {}", stderr(&output));
    }
}

#[test]
fn a_budget_that_hides_next_to_nothing_is_warned_of_wherever_one_is_named() {
    let place = Place::new();
    place.train("--delta 1e-5 --out o");
    // 400 records: one over their number is 0.0025.
    for (budget, warned) in [
        ("--epsilon 10 --delta 0.0024", [false, false]),
        ("--epsilon 10.01 --delta 0.0024", [true, false]),
        ("--epsilon 1 --delta 0.0025", [false, true]),
        ("--epsilon 300 --delta 0.5", [true, true]),
    ] {
        for command in [
            "train t.csv --schema s.toml --max-steps 2 --json",
            "train t.csv --schema s.toml --max-steps 2 --dry-run",
            "plan noisy-gd --records 400 --dim 5",
            "tune t.csv --schema s.toml --max-passes 2,3 --holdout 0.2 --dry-run",
            "plan tune --schema s.toml --records 400 --max-passes 2,3 --holdout 0.2",
            "evaluate --model o/model.json --data t.csv",
            "certify --model o/model.json --data t.csv",
        ] {
            let flags = format!("{command} {budget}");
            let output = place.run_exactly(&flags);
            let said = stderr(&output);
            assert!(output.status.success(), "{flags}: {said}");
            let found =
                ["--epsilon", "--delta"].map(|flag| said.contains(&format!("warning: {flag} ")));
            assert_eq!(found, warned, "{flags}: {said}");
            if command.ends_with("--json") {
                let json: Value = serde_json::from_slice(&output.stdout).unwrap();
                let count = json["warnings"].as_array().map_or(0, Vec::len);
                assert_eq!(
                    count,
                    warned.iter().filter(|warned| **warned).count(),
                    "{json}"
                );
            }
        }
    }
}

#[test]
fn artefacts_hold_the_model_and_the_ledger() {
    let place = Place::new();
    let json = place.train("--out deep/er/o");
    let model = place.json("deep/er/o/model.json");
    assert_eq!(model["weights"].as_array().unwrap().len(), 5);
    assert_eq!(model["weights"][0]["feature"], "x");
    assert_eq!(model["weights"][4]["feature"], "(intercept)");
    assert_eq!(model["schema"]["label"]["positive"], "yes");
    assert_eq!(model["privacy"]["epsilon"], json["epsilon"]);
    assert_eq!(model["privacy"]["mode"], "protected");
    let ledger = place.json("deep/er/o/events.json");
    assert_eq!(ledger["event"]["class_name"], "SelfComposedDpEvent");
    assert_eq!(ledger["event"]["count"], json["steps"]);
    assert_eq!(ledger["epsilon"], json["epsilon"]);
    assert!(
        ledger["conventions"]
            .as_str()
            .unwrap()
            .contains("2C under replace-one")
    );
    let names = place
        .listing()
        .into_iter()
        .map(|path| path.file_name().unwrap().to_owned());
    assert_eq!(
        names
            .filter(|name| name.to_string_lossy().starts_with('.'))
            .count(),
        0
    );
    // A second run replaces the files if it is told to.
    place.train("--out deep/er/o --epsilon 2 --force");
    assert!(
        place.json("deep/er/o/events.json")["epsilon"]
            .as_f64()
            .unwrap()
            > 1.5
    );
}

#[test]
fn a_last_line_without_its_end_is_a_record() {
    let place = Place::new();
    let text = place.read("t.csv");
    place.put("t.csv", text.trim_end());
    assert_eq!(place.train("")["records"], ROWS);
}
