//! Perceptrons: from a schema to a model, what it says of itself, and what is refused.

use dpopt::nonconvex::SOLVERS;
use serde_json::{Value, json};

use crate::support::{Place, stderr};

const LABEL: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";
const SEVERAL: &str = "values = [\"no\", \"yes\", \"odd\"]\ndefault = \"no\"";

/// The label is "yes" where x is large or c is "a", and not both: no linear score is right on more than three of the four cases.
fn table(records: usize) -> String {
    let lines = (0..records).map(|i| {
        let (large, c) = (i % 2 == 1, if i % 4 < 2 { "a" } else { "b" });
        let x = if large { 9.0 } else { 1.0 } + 0.1 * (i % 7) as f64;
        let y = if large == (c == "a") { "no" } else { "yes" };
        format!("{x},{c},{y}\n")
    });
    format!("x,c,y\n{}", lines.collect::<String>())
}

fn place(records: usize) -> Place {
    let place = Place::new();
    place.put("t.csv", &table(records));
    place.put("test.csv", &table(400));
    place
}

const TRAIN: &str = "train t.csv --schema s.toml --test test.csv --epsilon 8 --delta 1e-6";

#[test]
fn an_exclusive_or_is_learnt_by_a_perceptron_and_by_no_linear_score() {
    let place = place(8000);
    let accuracy = |flags: &str| {
        let out = place.ok(&format!("{TRAIN} --solver dp-sgd --json {flags}"));
        let out: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(out["bound"], Value::Null, "{flags}");
        out["test_accuracy"].as_f64().unwrap()
    };
    assert!(accuracy("") <= 0.75);
    for flags in [
        "--hidden 16,8",
        "--hidden 16",
        "--hidden 16,8 --activation tanh --adjacency add-remove --public-records 8000",
    ] {
        let found = accuracy(flags);
        assert!(found > 0.95, "{flags}: {found}");
    }
}

/// What the file says of the layers is what `predict` computes, by a calculation of this test.
#[test]
fn the_file_holds_the_network_and_the_statement_of_no_bound() {
    let place = place(400);
    let out = place.ok(&format!("{TRAIN} --hidden 3,2 --max-steps 5 --out o"));
    assert!(
        out.contains("perceptron with 3, 2 hidden units (relu)"),
        "{out}"
    );
    assert!(out.contains("none stated"), "{out}");
    let plan = "plan dp-sgd --records 400 --dim 5 --epsilon 1 --delta 1e-6 --hidden 4,3";
    assert!(place.ok(plan).contains("none stated"));
    let model = place.json("o/model.json");
    let of = &model["perceptron"];
    assert_eq!(of["hidden"], json!([3, 2]));
    assert_eq!(
        (&of["activation"], &of["start_seed"]),
        (&json!("relu"), &json!(0))
    );
    let numbers = |of: &Value| -> Vec<f64> {
        let all = of.as_array().unwrap().iter();
        all.map(|x| x.as_f64().unwrap()).collect()
    };
    let rows =
        |of: &Value| -> Vec<Vec<f64>> { of.as_array().unwrap().iter().map(numbers).collect() };
    let first = model["weights"].as_array().unwrap().iter();
    let mut layers = vec![(
        first.map(|w| numbers(&w["weight"])).collect(),
        numbers(&of["biases"]),
    )];
    for layer in of["layers"].as_array().unwrap() {
        layers.push((rows(&layer["weights"]), numbers(&layer["biases"])));
    }
    assert_eq!(layers.len(), 3);
    // The second record of the test set: x = 9.1, c = a; features x, c = a, c = b, other, intercept.
    let mut z: Vec<f64> = vec![0.91, 1.0, 0.0, 0.0, 1.0];
    for (l, (weights, biases)) in layers.iter().enumerate() {
        let next: &dyn Fn(usize) -> f64 = &|j| {
            biases[j]
                + z.iter()
                    .zip(weights)
                    .map(|(z, row): (&f64, &Vec<f64>)| z * row[j])
                    .sum::<f64>()
        };
        z = (0..biases.len()).map(next).collect();
        if l < 2 {
            z.iter_mut().for_each(|z| *z = z.max(0.0));
        }
    }
    let lines = place.ok("predict --model o/model.json --data test.csv");
    let second = lines.lines().nth(2).unwrap();
    let score: f64 = second.split(',').next().unwrap().parse().unwrap();
    assert!((score - z[0]).abs() < 1e-6, "{second} {z:?}");
    let told = place.ok("explain o/model.json");
    assert!(
        told.contains("a perceptron of 3, 2 hidden units (relu)"),
        "{told}"
    );
    assert!(
        told.contains("no bound: the loss of a perceptron"),
        "{told}"
    );
    assert!(
        place
            .read("o/report.html")
            .contains("perceptron of 3, 2 hidden units")
    );
    place.fails(
        "certify --model o/model.json --data t.csv --epsilon 1 --delta 1e-6",
        1,
        &["--model", "perceptron"],
    );
    place.ok("evaluate --model o/model.json --data t.csv --epsilon 1 --delta 1e-6");
    // Files that were edited.
    let fixed = json!({"units": 2, "activation": "relu", "head": "logistic", "output_scale": 1.0, "output_weights": [0.7, -0.7]});
    for (name, at, value) in [
        ("no later layers", "/perceptron/layers", json!([])),
        ("a bias less", "/perceptron/biases", json!([0.5, 0.5])),
        ("another width", "/perceptron/hidden", json!([3, 3])),
        ("a width of 0", "/perceptron/hidden", json!([3, 0])),
        (
            "nine layers",
            "/perceptron/hidden",
            json!([1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ),
        ("no layers", "/perceptron/hidden", json!([])),
        (
            "a row of another length",
            "/perceptron/layers/0/weights/1",
            json!([1.0]),
        ),
        (
            "a number that is too large",
            "/perceptron/layers/0/biases/0",
            json!(null),
        ),
        ("a fixed layer as well", "/hidden", fixed),
        ("another loss", "/loss", json!("softmax")),
    ] {
        let mut edited = model.clone();
        match edited.pointer_mut(at) {
            Some(old) => *old = value,
            None => edited["hidden"] = value,
        }
        place.put("edited.json", &edited.to_string());
        for command in [
            "predict --data test.csv --model",
            "export --format onnx --out x --model",
        ] {
            let out = place.run(&format!("{command} edited.json"));
            let said = stderr(&out);
            assert_eq!(out.status.code(), Some(1), "{name}: {said}");
            assert!(
                said.contains("edited.json") && !said.contains("panicked"),
                "{name}: {said}"
            );
        }
    }
}

/// Of each solver of the registry: it trains a perceptron, or is refused with those that do before anything is charged.
#[test]
fn solvers_that_need_constants_are_refused_and_the_others_run() {
    let place = place(400);
    for solver in SOLVERS.iter().filter(|solver| !solver.needs.kl) {
        let needs = solver.needs;
        let radius = if needs.radius { " --radius 5" } else { "" };
        let goldstein = if needs.goldstein {
            " --goldstein-radius 1"
        } else {
            ""
        };
        let flags = format!("--solver {solver}{radius}{goldstein} --max-steps 5");
        let run = format!(
            "{TRAIN} --hidden 4,3 {flags} --json --out {solver} --ledger {solver}.ledger --budget 30 --budget-delta 1e-6"
        );
        if needs.no_constants {
            let out: Value = serde_json::from_str(&place.ok(&run)).unwrap();
            assert_eq!(
                out["perceptron"],
                json!({"hidden": [4, 3], "activation": "relu"})
            );
            assert_eq!(
                (&out["bound"], &out["dim"]),
                (&Value::Null, &json!(5 * 4 + 4 + 4 * 3 + 3 + 3 + 1))
            );
        } else {
            place.fails(&run, 1, &["--solver", solver.name, "dp-sgd", "noisy-gd"]);
        }
        let dry = format!("{TRAIN} --hidden 4,3 {flags} --dry-run");
        assert_eq!(
            place.run(&dry).status.success(),
            needs.no_constants,
            "{solver}"
        );
    }
}

/// A checkpoint goes on as the same network alone: another shape of as many weights, another activation and a linear model are refused.
#[test]
fn a_perceptron_resumes_as_itself_alone() {
    let place = place(400);
    let of = "--data t.csv --schema s.toml --solver noisy-gd --json --ledger l --max-steps 8";
    let first = format!(
        "train {of} --hidden 4,3 --budget 20 --budget-delta 1e-5 --delta 1e-6 --epsilon 2 --checkpoint c --checkpoint-every 2"
    );
    place.ok(&first);
    // 5 features and 4, 3 units: 43 weights, as of one hidden layer of 6 units (5 + 1 + 1) 6 + 1.
    for (flags, words) in [
        (
            "--hidden 6 --output-weights trained",
            "4, 3 hidden units (relu)",
        ),
        ("--hidden 4,3 --activation tanh", "4, 3 hidden units (tanh)"),
        ("--hidden 4,4", "dimension 43"),
        ("", "dimension 43"),
    ] {
        place.fails(
            &format!("train {of} --resume c {flags}"),
            1,
            &["--resume", words],
        );
    }
    let on = place.ok(&format!("train {of} --resume c --hidden 4,3"));
    let on: Value = serde_json::from_str(&on).unwrap();
    assert!(on["model"]["perceptron"].get("start_seed").is_none());
}

/// Records that are no numbers, huge ones, and a class without records.
#[test]
fn hostile_records_and_absent_classes_leave_finite_models() {
    let place = place(400);
    let mut text = table(100);
    for line in [
        "nan,a,yes",
        "1e400,b,no",
        "-1e308,,",
        ",,,",
        "x",
        "5,a,maybe",
    ] {
        text.push_str(line);
        text.push('\n');
    }
    place.put("t.csv", &text);
    for (flags, several) in [("", false), ("--activation softplus", true)] {
        if several {
            place.schema_with(LABEL, SEVERAL);
        }
        let out = place.ok(&format!("train t.csv --schema s.toml --epsilon 3 --delta 1e-6 --hidden 4,4 --max-steps 20 --json {flags}"));
        let out: Value = serde_json::from_str(&out).unwrap();
        let of = &out["model"]["perceptron"];
        assert!(
            of["biases"].as_array().unwrap().iter().all(Value::is_f64),
            "{of}"
        );
    }
}

/// Held-out records score it privately, and several classes have probabilities.
#[test]
fn a_perceptron_of_several_classes_is_evaluated_and_predicts() {
    let place = place(400);
    place.schema_with(LABEL, SEVERAL);
    let train = "train t.csv --schema s.toml --epsilon 3 --delta 1e-6 --hidden 4 --max-steps 5";
    let out = place.ok(&format!("{train} --holdout 0.2 --evaluate --json --out o"));
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["perceptron"]["hidden"], json!([4]));
    assert!(out["evaluation"].is_object(), "{out}");
    let lines = place.ok("predict --model o/model.json --data test.csv");
    for line in lines.lines().skip(1) {
        let chances = line.split(',').skip(1).map(|p| p.parse::<f64>().unwrap());
        assert!((chances.sum::<f64>() - 1.0).abs() < 1e-6, "{line}");
    }
}
