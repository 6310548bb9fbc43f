//! Numbers as labels, and networks: from a table to predictions in the unit of the label.

use serde_json::Value;

use crate::support::{Place, table};

const NUMBER: &str = "kind = \"number\"\nmin = 0.0\nmax = 200.0\ndefault = 100.0";
const CLASSES: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";

/// y = 15 x, give or take 10, with hostile labels among them: n records.
fn lines(n: usize) -> Vec<String> {
    (0..n)
        .map(|i| {
            let x = ((i * 37 + 11) % 101) as f64 / 10.0;
            let y = match i % 97 {
                3 => "nan".to_owned(),
                4 => String::new(),
                5 => "1e300".to_owned(),
                _ => format!("{}", 15.0 * x + ((i * 53) % 21) as f64 - 10.0),
            };
            let c = if i % 3 == 0 { "b" } else { "a" };
            format!("{x:.1},{c},{y}")
        })
        .collect()
}

fn place() -> Place {
    let place = Place::new();
    place.schema_with(CLASSES, NUMBER);
    place.put("t.csv", &table(&lines(2_000)));
    let clean: Vec<String> = lines(600)
        .into_iter()
        .enumerate()
        .filter(|(i, line)| !(3..6).contains(&(i % 97)) && !line.contains(",-"))
        .map(|(_, line)| line)
        .collect();
    place.put("test.csv", &table(&clean));
    place
}

#[test]
fn a_quantile_is_learnt_by_a_line_and_by_a_network() {
    let place = place();
    for (hidden, width) in [("", 1), ("--hidden 8 --output-weights fixed", 8)] {
        for tau in [0.2, 0.8] {
            let flags = format!(
                "--test test.csv --epsilon 200 --loss pinball:{tau} --solver noisy-gd --force --out o {hidden}"
            );
            let json = place.train(&flags);
            assert_eq!(json["dim"], 5 * width);
            assert_eq!(json["hidden"].as_u64().unwrap_or(1), width);
            // The noise is uniform over 21 numbers: a pinball loss of at best 21 tau (1 - tau)/2 = 1.7; a constant has about 9.
            let loss = json["test_loss"].as_f64().unwrap();
            assert!(loss < 4.0, "{json}");
            let coverage = json["test_coverage"].as_f64().unwrap();
            assert!((coverage - tau).abs() < 0.12, "{json}");
            assert_eq!(json["test_loss_in_label_units"], true);
            for key in [
                "test_auc",
                "test_accuracy",
                "majority_accuracy",
                "test_log_loss",
            ] {
                assert!(json.get(key).is_none(), "{key}");
            }
            let model = place.json("o/model.json");
            let weights = model["weights"].as_array().unwrap();
            let of = |weight: &Value| weight["weight"].as_array().map_or(1, Vec::len) as u64;
            assert!(weights.iter().all(|weight| of(weight) == width));
            assert_eq!(model.get("hidden").is_some(), width > 1);
            let report = place.read("o/report.html");
            for words in ["range of the label", "share of labels below the prediction"] {
                assert!(report.contains(words), "{words}");
            }
            assert!(!report.contains("ROC") && !report.contains("positive value"));
            // Predictions are numbers near 15 x.
            let predicted = place.ok("predict --model o/model.json --data test.csv");
            let mut predicted = predicted.lines();
            assert_eq!(predicted.next(), Some("prediction"));
            let predicted: Vec<f64> = predicted.map(|line| line.parse().unwrap()).collect();
            let test = place.read("test.csv");
            let xs = test
                .lines()
                .skip(1)
                .map(|line| line.split(',').next().unwrap());
            let apart = xs
                .zip(&predicted)
                .map(|(x, y)| (15.0 * x.parse::<f64>().unwrap() - y).abs());
            assert!(
                apart.sum::<f64>() / (predicted.len() as f64) < 16.0,
                "{predicted:?}"
            );
        }
    }
}

#[test]
fn the_summary_speaks_of_the_label_in_its_unit() {
    let place = place();
    let text = place.ok(
        "train t.csv --schema s.toml --test test.csv --loss pinball:0.9 --hidden 4 --output-weights fixed --max-steps 5",
    );
    for word in [
        "4 hidden units (relu)",
        "in units of y",
        "below the prediction",
        "20 weights",
        "noisy-gd (auto",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("AUC"));
    // A loss that is not linear in the residual has no unit.
    let text =
        place.ok("train t.csv --schema s.toml --test test.csv --loss huber:0.1 --max-steps 5");
    assert!(text.contains("scaled to [-1, 1]"), "{text}");
}

#[test]
fn networks_have_bounds_and_certificates() {
    let place = place();
    let flags = "--loss pinball:0.5 --hidden 4 --output-weights fixed --solver goldstein --goldstein-radius 40 --epsilon 100 --max-steps 300";
    let json = place.train(flags);
    assert!(json["bound"].as_f64().unwrap() < 1.0, "{json}");
    let on = json["bound_on"].as_str().unwrap();
    assert!(on.starts_with("Goldstein distance"), "{json}");
    assert!(json["certificate"]["value"].is_number(), "{json}");
    assert_eq!(json["certificate"]["of"], "goldstein-distance");
    // The command that reads no data plans the same.
    let plan = "plan goldstein --records 2000 --dim 5 --row-norm 2 --hidden 4 --output-weights fixed --loss pinball:0.5 --goldstein-radius 40 --epsilon 100 \
                --delta 1e-6 --max-steps 300 --json";
    let plan: Value = serde_json::from_str(&place.ok(plan)).unwrap();
    assert_eq!(
        (&plan["dim"], &plan["predicted_bound"]),
        (&json["dim"], &json["bound"])
    );
    // A smooth network under a smooth loss has a bound on its gradient.
    let flags = "--loss welsch --hidden 4 --output-weights fixed --activation tanh --solver spiderboost --epsilon 2000 --max-steps 300";
    // The output is drawn, and of the start nothing is proven: that is drawn once in the number of steps.
    let runs = (0..20).map(|_| place.train(flags));
    let json = runs
        .into_iter()
        .find(|json| json["learnt_nothing"] == false);
    let json = json.expect("the start was drawn twenty times");
    assert_eq!(
        (&json["hidden"], &json["activation"]),
        (&4.into(), &"tanh".into())
    );
    assert!(json["bound"].as_f64().unwrap() > 0.0, "{json}");
    let plan = "plan spiderboost --records 2000 --dim 5 --row-norm 2 --hidden 4 --output-weights fixed --activation tanh --loss welsch --epsilon 2000 --delta 1e-6 \
                --max-steps 300 --json";
    let plan: Value = serde_json::from_str(&place.ok(plan)).unwrap();
    assert_eq!(plan["predicted_bound"], json["bound"]);
    assert_eq!(
        (&plan["hidden"], &plan["activation"]),
        (&json["hidden"], &json["activation"])
    );
}

/// Gradients of k units on rows of rank r span r k dimensions: noise in fewer would be a bound that is not proven.
#[test]
fn the_rank_of_a_network_is_that_of_the_rows_times_its_units() {
    let place = Place::new();
    let plan = |flags: &str| -> Value {
        let flags = format!(
            "plan noisy-gd-theory --records 100000 --epsilon 4 --delta 1e-6 --loss welsch --activation tanh --hidden 4 --output-weights fixed --json {flags}"
        );
        serde_json::from_str(&place.ok(&flags)).unwrap()
    };
    let (whole, within) = (plan("--dim 2"), plan("--dim 50 --rank 2"));
    assert_eq!((&whole["dim"], &within["dim"]), (&8.into(), &200.into()));
    assert_eq!(whole["predicted_bound"], within["predicted_bound"]);
    assert_eq!(within["plan"]["rank"], 8);
}

#[test]
fn auto_knows_losses_with_kinks() {
    let place = Place::new();
    let plan = |flags: &str| -> Value {
        let flags = format!("plan auto --epsilon 4 --delta 1e-6 --json {flags}");
        serde_json::from_str(&place.ok(&flags)).unwrap()
    };
    let network = "--dim 3 --loss pinball:0.5 --hidden 4 --output-weights fixed";
    let reason = |json: &Value| json["solver_reason"].as_str().unwrap().to_owned();
    let without = plan(&format!("{network} --records 100000"));
    assert_eq!(without["solver"], "noisy-gd");
    assert!(
        reason(&without).contains("no Goldstein radius"),
        "{without}"
    );
    let with = plan(&format!(
        "{network} --records 100000 --goldstein-radius 20 --max-steps 2000"
    ));
    assert!(
        with["solver"].as_str().unwrap().starts_with("goldstein"),
        "{with}"
    );
    assert!(
        with["predicted_bound"].is_number() && reason(&with).contains("1.25"),
        "{with}"
    );
    let few = plan(&format!(
        "{network} --records 10 --goldstein-radius 20 --max-steps 2000"
    ));
    assert_eq!(few["solver"], "noisy-gd");
    assert!(reason(&few).contains("at this radius"), "{few}");
    // Two constants and no smoothness are those of a loss with kinks: the logistic loss's are not mixed in.
    let free = "plan noisy-gd --epsilon 4 --delta 1e-6 --records 100000 --dim 3 --lipschitz 3 --initial-gap 2 --json";
    let free: Value = serde_json::from_str(&place.ok(free)).unwrap();
    assert_eq!(free["clip"], 3.0);
    let step = free["plan"]["step_size"].as_f64().unwrap();
    assert!((step - 0.1 * 2.0 / 9.0).abs() < 1e-12, "{free}");
}

#[test]
fn the_start_is_a_function_of_its_seed_and_a_checkpoint_goes_on() {
    let place = place();
    let train = |flags: &str| {
        place.train(&format!(
            "--loss pinball:0.5 --hidden 4 --output-weights fixed --max-steps 3 {flags}"
        ))
    };
    let weights = |json: &Value| json["model"]["weights"].to_string();
    // With hardly any noise a few steps end near where they started.
    let near = |a: &Value, b: &Value| {
        let all = |json: &Value| -> Vec<f64> {
            let weights = json["model"]["weights"].as_array().unwrap();
            let each = weights.iter().flat_map(|w| w["weight"].as_array().unwrap());
            each.map(|w| w.as_f64().unwrap()).collect()
        };
        all(a)
            .iter()
            .zip(all(b))
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max)
    };
    let [a, b, c] = ["", "", "--hidden-seed 5"].map(|seed| train(&format!("--epsilon 1e6 {seed}")));
    assert!(
        near(&a, &b) < 1e-2 && near(&a, &c) > 0.1,
        "{} {}",
        weights(&a),
        weights(&c)
    );
    let budget = "--ledger l.json --budget 4 --budget-delta 1e-5 --delta 1e-6 --epsilon 1 --out";
    train(&format!("{budget} first --checkpoint c.json"));
    // From a point far from that of the default seed: three steps of at most 0.05 end near it.
    let far = train(
        "--hidden-seed 5 --ledger l2.json --budget 2e6 --budget-delta 1e-5 --delta 1e-6 --epsilon 1e6 --checkpoint c2.json",
    );
    assert_eq!(
        (&far["activation"], &far["hidden_seed"]),
        (&"relu".into(), &5.into())
    );
    assert_eq!(far["model"]["hidden"]["start_seed"], 5);
    assert_eq!(a["hidden_seed"], 0);
    let on = train("--ledger l2.json --delta 1e-6 --epsilon 9e5 --resume c2.json");
    assert!(near(&on, &far) < 0.2 && near(&on, &a) > 0.5, "{on}");
    assert!(on.get("hidden_seed").is_none() && on["model"]["hidden"].get("start_seed").is_none());
    place.fails(
        "train --data t.csv --schema s.toml --json --loss pinball:0.5 --hidden 4 --output-weights fixed --hidden-seed 5 --resume c2.json --ledger l2.json",
        1,
        &[],
    );
    place.fails(
        "train --data t.csv --schema s.toml --json --loss pinball:0.5 --hidden 4 --output-weights fixed --activation tanh --resume c2.json --ledger l2.json",
        1,
        &["--resume", "4 hidden units (relu)", "4 hidden units (tanh)"],
    );
    let resumed = train("--ledger l.json --delta 1e-6 --epsilon 1 --out second --resume c.json");
    assert_eq!(resumed["dim"], 20);
    place.fails(
        "train --data t.csv --schema s.toml --json --loss pinball:0.5 --hidden 6 --output-weights fixed --resume c.json --ledger l.json",
        1,
        &["--resume", "dimension 20", "30"],
    );
}

/// What the public test set and the types of columns tell before a record is read.
#[test]
fn labels_out_of_range_are_told_of_the_test_set() {
    let place = place();
    place.put(
        "odd.csv",
        "x,c,y\n1,a,50\n1,a,250\n1,a,forty\n1,a,-1\n99,a,3\n",
    );
    let flags =
        "train --data t.csv --schema s.toml --json --loss absolute --max-steps 3 --test odd.csv";
    let json: Value = serde_json::from_str(&place.ends(flags, 4)).unwrap();
    for (warning, words) in [
        (0, ["1 of the 5 labels", "\"forty\"", "count as 100"]),
        (1, ["2 of the 5 labels", "from 0 to 200", "are clipped"]),
    ] {
        let warning = json["warnings"][warning].as_str().unwrap();
        for words in words {
            assert!(warning.contains(words), "{warning}");
        }
    }
}

/// The hostile labels of the training table change nothing but themselves, and `check` tells of them.
#[test]
fn labels_that_are_no_numbers_are_no_errors() {
    let place = place();
    let report = place.ok("check t.csv --schema s.toml");
    assert!(
        report.contains("not a number") && report.contains("out of range"),
        "{report}"
    );
    assert!(!report.contains("positive"));
    place.put("bad.csv", &table(&vec!["nan,?,inf".to_owned(); 50]));
    let json =
        place.ok("train bad.csv --schema s.toml --json --loss absolute --hidden 2 --output-weights fixed --max-steps 3");
    assert!(json.contains("\"stop\":\"completed\""), "{json}");
    // As a file of rows.
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    place.ok("train t.dpr --loss pinball:0.5 --hidden 2 --output-weights fixed --max-steps 3");
}

/// RMSE, MAE and R^2 of the JSON are those of the predictions that the command writes, computed here in the unit of the label.
#[test]
fn a_number_is_fitted_by_default_and_scored_in_its_unit() {
    let place = place();
    let json = place.train("--test test.csv --epsilon 200 --force --out o");
    assert!(
        json["loss"].as_str().unwrap().starts_with("huber"),
        "{json}"
    );
    let predicted = place.ok("predict --model o/model.json --data test.csv");
    let predicted: Vec<f64> = predicted
        .lines()
        .skip(1)
        .map(|z| z.parse().unwrap())
        .collect();
    let test = place.read("test.csv");
    let labels: Vec<f64> = test
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap())
        .map(|y| y.clamp(0.0, 200.0))
        .collect();
    assert_eq!(predicted.len(), labels.len());
    let n = labels.len() as f64;
    let mean = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        predicted
            .iter()
            .zip(&labels)
            .map(|(z, y)| of(*z, *y))
            .sum::<f64>()
            / n
    };
    let middle = mean(&|_, y| y);
    let square = mean(&|z, y| (z - y).powi(2));
    let r2 = 1.0 - square / mean(&|_, y| (y - middle).powi(2));
    for (key, expected) in [
        ("test_absolute_error", mean(&|z, y| (z - y).abs())),
        ("test_root_mean_square_error", square.sqrt()),
        ("test_r2", r2),
    ] {
        let found = json[key].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-4, "{key}: {found} {expected}");
    }
    // The noise has a standard deviation of sqrt((21^2 - 1)/12) = 6.06, the label one of about 43.
    assert!(r2 > 0.9, "{r2}");
    let report = place.read("o/report.html");
    assert!(report.contains("root mean square error") && report.contains("R²"));
}

/// Labels of a public test set beyond the range are clipped, as the schema says, which is no reason to look at the data again; labels that
/// are not numbers count as the default, which is one.
#[test]
fn clipped_labels_of_a_test_set_end_with_code_0() {
    let place = place();
    let test = place.read("test.csv");
    let records = test.lines().count() - 1;
    for (labels, code, said) in [
        (
            [500.0, -7.0].map(|y| y.to_string()),
            0,
            "2 of the {} labels of the test set test.csv are outside of the range",
        ),
        (
            ["?".to_owned(), "500".to_owned()],
            4,
            "1 of the {} labels of the test set test.csv are not numbers",
        ),
    ] {
        let mut lines: Vec<String> = test.lines().map(str::to_owned).collect();
        for (line, label) in lines.iter_mut().skip(1).zip(labels) {
            line.truncate(line.rfind(',').unwrap() + 1);
            line.push_str(&label);
        }
        place.put("test.csv", &(lines.join("\n") + "\n"));
        let flags = "train --data t.csv --schema s.toml --test test.csv --epsilon 5 --json";
        let found: serde_json::Value = serde_json::from_str(&place.ends(flags, code)).unwrap();
        let warnings = found["warnings"].to_string();
        let said = said.replace("{}", &records.to_string());
        assert!(warnings.contains(&said), "{warnings}");
    }
}
