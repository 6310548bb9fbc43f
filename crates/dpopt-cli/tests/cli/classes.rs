//! Labels of three values or more: from a schema to a model, its evaluation and its predictions.

use dpopt::nonconvex::SOLVERS;
use serde_json::Value;

use crate::support::{Place, stderr};

const LABEL: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";
const SEVERAL: &str = "values = [\"low\", \"mid\", \"hi, gh\"]\ndefault = \"mid\"";

/// The class hangs on the category alone, but for one record in ten.
fn table(records: usize) -> String {
    let lines = (0..records).map(|i| {
        let class = if i % 10 == 9 { (i + 1) % 3 } else { i % 3 };
        let (c, y) = (["a", "b", "z"][i % 3], ["low", "mid", "\"hi, gh\""][class]);
        format!("{},{c},{y}\n", i % 11)
    });
    format!("x,c,y\n{}", lines.collect::<String>())
}

fn place() -> Place {
    let place = Place::new();
    place.schema_with(LABEL, SEVERAL);
    place.put("t.csv", &table(3000));
    place.put("test.csv", &table(300));
    place
}

const TRAIN: &str = "train t.csv --schema s.toml --test test.csv --epsilon 3 --delta 1e-6";

/// 270 of 300 records follow their category, so a model that has learnt it is right on nine in ten.
#[test]
fn several_classes_are_learnt_scored_and_predicted() {
    let place = place();
    let out = place.ok(&format!(
        "{TRAIN} --solver noisy-gd --max-steps 100 --json --out out"
    ));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["loss"], "softmax");
    assert_eq!(json["dim"], 3 * 5);
    let accuracy = json["test_accuracy"].as_f64().unwrap();
    assert!((accuracy - 0.9).abs() < 1e-12, "{accuracy}");
    let classes = json["classes"].as_array().unwrap();
    let of = |class: &Value| class["predicted"].as_array().unwrap().clone();
    let mut all = 0;
    for (k, class) in classes.iter().enumerate() {
        let row: Vec<u64> = of(class).iter().map(|n| n.as_u64().unwrap()).collect();
        let records = class["test_records"].as_u64().unwrap();
        assert_eq!(row.iter().sum::<u64>(), records);
        let recall = class["recall"].as_f64().unwrap();
        assert!((recall - row[k] as f64 / records as f64).abs() < 1e-12);
        all += records;
    }
    assert_eq!(all, 300);
    let model = place.json("out/model.json");
    assert_eq!(
        model["classes"],
        serde_json::json!(["low", "mid", "hi, gh"])
    );
    assert_eq!(model["weights"][0]["weight"].as_array().unwrap().len(), 3);
    let report = place.read("out/report.html");
    assert!(report.contains("recall of hi, gh") && report.contains("low, mid, hi, gh"));
    // The probabilities are the softmax of the weights in the file.
    let lines = place.ok("predict --model out/model.json --data test.csv");
    let mut lines = lines.lines();
    assert_eq!(lines.next(), Some("prediction,p(low),p(mid),\"p(hi, gh)\""));
    let weights = |k: usize| -> Vec<f64> {
        let all = model["weights"].as_array().unwrap().iter();
        all.map(|w| w["weight"][k].as_f64().unwrap()).collect()
    };
    // Features: x, c = a, c = b, (other), intercept. The second line: x = 1, c = b.
    let row = [0.1, 0.0, 1.0, 0.0, 1.0];
    let z: Vec<f64> = (0..3)
        .map(|k| weights(k).iter().zip(row).map(|(w, x)| w * x).sum())
        .collect();
    let sum: f64 = z.iter().map(|z| z.exp()).sum();
    let second = lines.nth(1).unwrap();
    let fields: Vec<&str> = second.split(',').collect();
    assert_eq!(fields[0], "mid");
    for (field, z) in fields[1..].iter().zip(z) {
        let found: f64 = field.parse().unwrap();
        assert!((found - z.exp() / sum).abs() < 1e-6, "{second} {z}");
    }
    let third = lines.next().unwrap();
    assert!(third.starts_with("\"hi, gh\","), "{third}");
}

#[test]
fn the_summary_has_recalls_and_a_table() {
    let out = place().ok(&format!("{TRAIN} --solver noisy-gd --max-steps 20"));
    assert!(out.contains("15 weights, softmax loss"), "{out}");
    assert!(
        out.contains("Recall: low ") && out.contains("Records by class"),
        "{out}"
    );
}

/// Of each solver of the registry: it runs, or is refused by name before anything is charged.
#[test]
fn every_solver_runs_on_several_classes_or_is_refused() {
    let place = place();
    let mut ran = 0;
    for solver in SOLVERS.iter().filter(|solver| !solver.needs.kl) {
        let needs = solver.needs;
        let radius = if needs.radius { " --radius 5" } else { "" };
        let goldstein = if needs.goldstein {
            " --goldstein-radius 1"
        } else {
            ""
        };
        let flags = format!(
            "{TRAIN} --solver {solver}{radius}{goldstein} --max-steps 5 --json --out {solver} --ledger {solver}.ledger --budget 30 --budget-delta 1e-6"
        );
        let out = place.run(&flags);
        match out.status.code() {
            Some(0) => ran += 1,
            Some(1) => {
                let text = stderr(&out);
                assert!(text.contains(solver.name), "{solver}: {text}");
                assert!(
                    !place.path(&format!("{solver}.ledger")).exists(),
                    "{solver}"
                );
            }
            other => panic!("{solver}: {other:?} {}", stderr(&out)),
        }
    }
    assert!(ran >= 6, "{ran}");
    let refused = |flags: &str| {
        let out = place.run(&format!("{TRAIN} {flags}"));
        assert_eq!(out.status.code(), Some(1), "{flags}");
        stderr(&out)
    };
    let text = refused("--solver goldstein-envelope --goldstein-radius 1");
    assert!(text.contains("goldstein-envelope"), "{text}");
    let text = refused("--solver recursive-sgd --radius 5");
    assert!(text.contains("recursive-sgd"), "{text}");
}

/// What several classes can't do ends with 1 and a remedy, and leaves no ledger.
#[test]
fn what_several_classes_cannot_do_is_refused_with_a_remedy() {
    let place = place();
    let number = place.path("number.toml");
    let two = place.path("two.toml");
    let text = place.read("s.toml");
    let ranged = "kind = \"number\"\nmin = 0.0\nmax = 9.0\ndefault = 0.0";
    std::fs::write(number, text.replace(SEVERAL, ranged)).unwrap();
    std::fs::write(two, text.replace(SEVERAL, LABEL)).unwrap();
    place.put(
        "one.toml",
        &text.replace(SEVERAL, "values = [\"low\"]\ndefault = \"low\""),
    );
    place.put(
        "pos.toml",
        &text.replace(SEVERAL, &format!("{SEVERAL}\npositive = \"low\"")),
    );
    for (flags, words) in [
        ("--schema s.toml --loss logistic", "take softmax"),
        ("--schema s.toml --loss absolute", "take softmax"),
        (
            "--schema s.toml --loss quadratic:logistic --rank 1 --ball 2",
            "take softmax",
        ),
        ("--schema two.toml --loss softmax", "take logistic"),
        ("--schema number.toml --loss softmax", "loss of residuals"),
        (
            "--schema number.toml --loss logistic",
            "loss of two classes",
        ),
        ("--schema one.toml", "two values or more"),
        ("--schema pos.toml", "leave `positive` out"),
        ("--schema s.toml --positive low", "leave `positive` out"),
        ("--schema s.toml --objective auc", "has 3"),
        (
            "--schema s.toml --objective group-dro --group c",
            "not two values",
        ),
        ("--schema s.toml --group c", "not two values"),
        (
            "--schema s.toml --hidden 8 --output-weights fixed",
            "one output",
        ),
        ("--schema s.toml --ball 3", "--ball"),
        ("--schema s.toml --project 2", "several classes"),
        ("--schema s.toml --solver sosp --population", "one output"),
        ("--schema s.toml --loss softmaxx", "did you mean softmax"),
        (
            "--schema s.toml --loss quadratic:softmax",
            "several outputs",
        ),
        ("--schema s.toml --loss softmax:3", "softmax"),
        ("--schema s.toml --label x", "numbers"),
    ] {
        let out = place.run(&format!("train t.csv {flags} --ledger l --out out"));
        let text = stderr(&out);
        assert_eq!(out.status.code(), Some(1), "{flags}: {text}");
        assert!(text.contains(words), "{flags}: {text}");
        assert!(
            !place.path("l").exists() && !place.path("out/model.json").exists(),
            "{flags}"
        );
    }
    place.ok(&format!(
        "{TRAIN} --solver noisy-gd --max-steps 3 --out out --quiet"
    ));
    let out = place.run("certify --model out/model.json --data t.csv --epsilon 1");
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("several classes"), "{}", stderr(&out));
    // A model whose classes were edited is none.
    let edited = place
        .read("out/model.json")
        .replacen("\"mid\"", "\"middle\"", 1);
    place.put("edited.json", &edited);
    let out = place.run("predict --model edited.json --data test.csv");
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
}

#[test]
fn a_plan_of_several_classes_needs_their_number() {
    let place = Place::new();
    let plan = "plan noisy-gd --records 60000 --dim 785 --epsilon 1 --delta 1e-6 --loss softmax";
    let json: Value =
        serde_json::from_str(&place.ok(&format!("{plan} --classes 10 --json"))).unwrap();
    assert_eq!(json["dim"], 7850);
    // L0 = sqrt 2 for rows of norm 1, which is below sqrt(2 L1 ln 10) = 1.517.
    let trivial = json["trivial_bound"].as_f64().unwrap();
    assert!((trivial - 2f64.sqrt()).abs() < 1e-9, "{trivial}");
    for flags in [
        "",
        " --classes 2",
        " --classes 1001",
        " --classes 10 --hidden 4 --output-weights fixed",
    ] {
        assert_eq!(
            place.run(&format!("{plan}{flags}")).status.code(),
            Some(1),
            "{flags}"
        );
    }
    let other = plan.replace("softmax", "logistic --classes 3");
    assert_eq!(place.run(&other).status.code(), Some(1));
}
