//! Class weights: what they do to plans, models and predictions, and what refuses them.

use dpopt::nonconvex::SOLVERS;
use serde_json::Value;

use crate::support::{Place, stderr};

const SEVERAL: &str = "values = [\"low\", \"mid\", \"hi, gh\"]\ndefault = \"mid\"";
const LABEL: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The planner's constants grow with the largest weight: the clip of a loss whose slope is at most 1 is the largest weight itself, for
/// rows of norm 1. Weights of 1 change nothing.
#[test]
fn plans_scale_with_the_largest_weight() {
    let place = Place::new();
    let plan =
        "plan spiderboost --schema s.toml --public-records 100000 --epsilon 1 --delta 1e-6 --json";
    let plain = json(&place.ok(plan));
    let mut one = json(&place.ok(&format!("{plan} --class-weights yes=1")));
    assert_eq!(
        one["class_weights"],
        serde_json::json!({"no": 1.0, "yes": 1.0})
    );
    one.as_object_mut().unwrap().remove("class_weights");
    assert_eq!(one, plain);
    let five = json(&place.ok(&format!("{plan} --class-weights yes=5,no=0.5")));
    let of = |of: &Value, key: &str| of[key].as_f64().unwrap();
    for key in ["clip", "trivial_bound", "predicted_bound"] {
        let times = of(&five, key) / of(&plain, key);
        assert!((times - 5.0).abs() < 1e-9, "{key} {times}");
    }
    // A multiple of the whole loss is another unit: the same steps under the same noise multiplier.
    assert_eq!(five["event"], plain["event"]);
}

/// One record in ten is a "yes", and its category says so two times of three. The test set is the same.
fn unbalanced() -> Place {
    let place = Place::new();
    let lines: String = (0..4000)
        .map(|i| {
            let yes = i % 10 == 0;
            let c = if yes == (i % 3 == 0) { "a" } else { "b" };
            format!("{},{c},{}\n", i % 7, if yes { "yes" } else { "no" })
        })
        .collect();
    place.put("t.csv", &format!("x,c,y\n{lines}"));
    place.put("u.csv", &format!("x,c,y\n{lines}"));
    place
}

/// The heavier class is found more often, and what was asked for stands in every document.
#[test]
fn the_heavier_class_is_found_more_often() {
    let place = unbalanced();
    let train = "train t.csv --schema s.toml --epsilon 5 --delta 1e-6 --solver noisy-gd --max-steps 200 --test u.csv";
    place.ok(&format!("{train} --quiet --out plain"));
    place.ok(&format!(
        "{train} --quiet --out heavy --class-weights yes=20"
    ));
    let positives = |model: &str| {
        let lines = place.ok(&format!("predict --model {model}/model.json --data t.csv"));
        lines.lines().filter(|line| line.ends_with(",yes")).count()
    };
    assert!(positives("heavy") > positives("plain") + 500);
    let model = place.json("heavy/model.json");
    assert_eq!(
        model["class_weights"],
        serde_json::json!({"no": 1.0, "yes": 20.0})
    );
    assert!(
        place
            .json("plain/model.json")
            .get("class_weights")
            .is_none()
    );
    assert!(place.read("heavy/report.html").contains("no=1, yes=20"));
    let told = place.ok("explain heavy/model.json");
    assert!(told.contains("no=1, yes=20"), "{told}");
    let summary = place.ok(&format!("{train} --class-weights yes=20"));
    assert!(summary.contains("class weights no=1, yes=20"), "{summary}");
    let dry = place.ok(&format!("{train} --class-weights yes=20 --dry-run --json"));
    assert_eq!(json(&dry)["class_weights"]["yes"], 20.0);
    place.ok("evaluate --model heavy/model.json --data t.csv --epsilon 1");
    let certified = place.ok("certify --model heavy/model.json --data t.csv --epsilon 1");
    let certified: String = certified.split_whitespace().collect::<Vec<_>>().join(" ");
    let of = "mean loss of these records, each loss times its class weight (no=1, yes=20)";
    assert!(certified.contains(of), "{certified}");
    let certified = place.ok("certify --model heavy/model.json --data t.csv --epsilon 1 --json");
    assert_eq!(json(&certified)["class_weights"]["yes"], 20.0);
    assert!(json(&certified)["of"].as_str().unwrap().contains(of));
    let plain = place.ok("certify --model plain/model.json --data t.csv --epsilon 1 --json");
    assert!(json(&plain).get("class_weights").is_none());
    // Whoever applies it learns that its probabilities are not those of the records.
    for (model, weighted) in [("plain", false), ("heavy", true)] {
        let model = format!("--model {model}/model.json");
        place.ok(&format!(
            "export {model} --format json --out flat.json --force"
        ));
        let flat = place.json("flat.json");
        let weights = serde_json::json!({"no": 1.0, "yes": 20.0});
        assert_eq!(
            flat.get("class_weights"),
            Some(&weights).filter(|_| weighted)
        );
        place.ok(&format!(
            "export {model} --format onnx --out m.onnx --force"
        ));
        let onnx = std::fs::read(place.path("m.onnx")).unwrap();
        let named = b"class_weights";
        assert_eq!(onnx.windows(named.len()).any(|of| of == named), weighted);
        let out = place.run(&format!("predict {model} --data t.csv"));
        let told = stderr(&out);
        assert_eq!(
            told.contains("class weights no=1, yes=20: probabilities"),
            weighted,
            "{told}"
        );
        assert!(String::from_utf8(out.stdout).unwrap().starts_with("score,"));
    }
    let card = place.ok("explain heavy/model.json --format card");
    assert!(
        card.contains("  class_weights:\n    \"no\": 1.0\n    \"yes\": 20.0\n"),
        "{card}"
    );
    assert!(
        card.contains("probabilities are of records weighted so"),
        "{card}"
    );
    // A file whose weights are of other classes is no model.
    let edited = place
        .read("heavy/model.json")
        .replace("\"yes\": 20", "\"ja\": 20");
    place.put("edited.json", &edited);
    place.fails(
        "predict --model edited.json --data t.csv",
        1,
        &["class weights"],
    );
}

/// Names with commas are told from lists, and several classes have a weight each.
#[test]
fn several_classes_have_weights_of_their_own() {
    let place = Place::new();
    place.schema_with(LABEL, SEVERAL);
    place.put("t.csv", "x,c,y\n1,a,low\n2,b,mid\n3,a,\"hi, gh\"\n");
    let plan = "plan auto --schema s.toml --public-records 9000 --epsilon 1 --delta 1e-6 --json --class-weights";
    let mut command = place.command(plan);
    let out = command
        .args(["hi, gh=3", "--class-weights", "low=2,mid=0.5"])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    let found = json(&String::from_utf8(out.stdout).unwrap());
    assert_eq!(
        found["class_weights"],
        serde_json::json!({"hi, gh": 3.0, "low": 2.0, "mid": 0.5})
    );
    place.ok("train t.csv --schema s.toml --max-steps 3 --class-weights low=2 --out o --quiet");
    place.ok("predict --model o/model.json --data t.csv");
}

/// Of the solver that makes passes over single records, whose sensitivity rests on the constants of the weighted loss, too.
#[test]
fn passes_over_single_records_run() {
    let place = unbalanced();
    let flags = "--epsilon 5 --solver recursive-sgd --radius 1 --class-weights yes=3";
    let found = place.train(flags);
    assert_eq!(found["class_weights"]["yes"], 3.0);
    assert!(
        found["rests_on"].to_string().contains("convex and smooth"),
        "{found}"
    );
}

/// Of each solver of the registry: it runs on the weighted loss, or is refused by name for the facts before anything is charged.
#[test]
fn every_solver_runs_with_weights_or_is_refused() {
    let place = unbalanced();
    let mut ran = 0;
    for solver in SOLVERS.iter().filter(|solver| !solver.needs.kl) {
        let needs = solver.needs;
        let radius = if needs.radius { " --radius 1" } else { "" };
        let goldstein = if needs.goldstein {
            " --goldstein-radius 1"
        } else {
            ""
        };
        let ledger = format!("--ledger {solver}.ledger --budget 30 --budget-delta 1e-6");
        let flags = format!(
            "train t.csv --schema s.toml --epsilon 20 --solver {solver}{radius}{goldstein} --max-steps 5 --json --out {solver} {ledger} \
             --class-weights yes=2"
        );
        let out = place.run(&flags);
        match out.status.code() {
            Some(0) => ran += 1,
            Some(1) => {
                let text = stderr(&out);
                assert!(text.contains(solver.name), "{solver}: {text}");
                let ledger = place.path(&format!("{solver}.ledger"));
                assert!(!ledger.exists(), "{solver}");
            }
            other => panic!("{solver}: {other:?} {}", stderr(&out)),
        }
    }
    assert!(ran >= 15, "{ran}");
}

/// A run goes on with the problem that it began with: the loss, the weights of records and the rows of the checkpoint. Weights of 1 are none.
#[test]
fn a_run_goes_on_with_the_weights_that_it_began_with() {
    let place = Place::new();
    let ledger = "--ledger l.json --budget 9 --budget-delta 1e-5 --delta 1e-5 --epsilon 1";
    let begin = "--class-weights yes=4 --checkpoint c.json --checkpoint-every 10";
    place.train(&format!("{ledger} {begin}"));
    let resume =
        "train --data t.csv --schema s.toml --ledger l.json --delta 1e-5 --epsilon 0.5 --json";
    let before = place.read("l.json");
    place.put(
        "wide.toml",
        &place.read("s.toml").replace("row_norm = 2", "row_norm = 3"),
    );
    assert_ne!(place.read("wide.toml"), place.read("s.toml"));
    for (flags, words) in [
        ("--resume c.json", ["class weights", "no=1, yes=4"]),
        (
            "--resume c.json --class-weights yes=5",
            ["no=1, yes=4", "no=1, yes=5"],
        ),
        (
            "--resume c.json --class-weights yes=4 --loss sigmoid",
            ["logistic", "sigmoid"],
        ),
        (
            "--resume c.json --class-weights yes=4 --schema wide.toml",
            ["row_norm", "3"],
        ),
    ] {
        let resume = match flags.contains("wide") {
            true => resume.replace(" --schema s.toml", ""),
            false => resume.to_owned(),
        };
        let words = ["--resume", words[0], words[1]];
        place.fails(&format!("{resume} {flags}"), 1, &words);
    }
    assert_eq!(place.read("l.json"), before);
    place.ok(&format!(
        "{resume} --resume c.json --class-weights no=1,yes=4"
    ));
    // Without weights, and with weights of 1.
    place.train("--ledger l.json --delta 1e-5 --epsilon 0.5 --checkpoint d.json");
    place.ok(&format!("{resume} --resume d.json --class-weights yes=1"));
}
