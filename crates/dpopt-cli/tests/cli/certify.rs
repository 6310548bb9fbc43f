//! `dpopt certify`: the intervals hold, targets are met or not, and what can't be certified costs nothing.

use serde_json::Value;

use crate::support::{Place, ROWS, rows};

/// Norm of the mean logistic gradient at the model's weights, and the value of the Hessian's form at (0, 1, 1, 0, -1), which is zero as
/// the constant feature is the sum of the categories: computed from the lines by hand.
fn exact(model: &Value) -> (f64, f64) {
    let weights = model["weights"].as_array().unwrap();
    let weights: Vec<f64> = weights
        .iter()
        .map(|w| w["weight"].as_f64().unwrap())
        .collect();
    let (mut gradient, mut form) = ([0.0; 5], 0.0);
    for line in rows(ROWS) {
        let fields: Vec<&str> = line.split(',').collect();
        let x: f64 = fields[0].parse().unwrap();
        let at = |name| f64::from(u8::from(fields[1] == name));
        let row = [x / 10.0, at("a"), at("b"), 0.0, 1.0];
        let label = if fields[2] == "yes" { 1.0 } else { -1.0 };
        let z: f64 = row.iter().zip(&weights).map(|(x, w)| x * w).sum();
        let slope = -label / (1.0 + (label * z).exp());
        for (g, x) in gradient.iter_mut().zip(row) {
            *g += slope * x / ROWS as f64;
        }
        let along = row[1] + row[2] - row[4];
        form += slope.abs() * (1.0 - slope.abs()) * along * along;
    }
    (gradient.iter().map(|g| g * g).sum::<f64>().sqrt(), form)
}

fn certify(place: &Place, flags: &str) -> Value {
    let flags = format!("certify --model out/model.json --data t.csv --json {flags}");
    serde_json::from_str(&place.ok(&flags)).unwrap()
}

#[test]
fn the_intervals_hold_what_they_are_about() {
    let place = Place::new();
    place.train("--epsilon 5 --out out");
    let model = place.json("out/model.json");
    assert_eq!(model["weights"][4]["feature"], "(intercept)", "{model}");
    let (gradient, form) = exact(&model);
    assert_eq!(form, 0.0);
    let found = certify(&place, "--epsilon 50 --failure 1e-6");
    let end = |name: &str, end: &str| found[name][end].as_f64().unwrap();
    let (low, high) = (end("gradient_norm", "low"), end("gradient_norm", "high"));
    assert!(low <= gradient && gradient <= high, "{gradient} {found}");
    assert!(high - low < 0.1, "{found}");
    let (low, high) = (
        end("least_eigenvalue", "low"),
        end("least_eigenvalue", "high"),
    );
    // The logistic loss is convex, and 0 is an eigenvalue.
    assert!(low == 0.0 && (0.0..0.2).contains(&high), "{found}");
    assert_eq!(found["certified"], Value::Null);
    assert!(found["privacy"]["epsilon"].as_f64().unwrap() <= 50.0);

    let words = place.ok(
        "certify --model out/model.json --data t.csv --epsilon 50 --gradient 0.9 --curvature 0.4 --failure 1e-6",
    );
    assert!(words.starts_with("Certified"), "{words}");
    assert!(words.contains("the loss is convex"), "{words}");
    let nearly = gradient * 0.5;
    let found = certify(
        &place,
        &format!("--epsilon 50 --gradient {nearly} --curvature 0.4"),
    );
    // The half of what it is: the Hessian is not paid for.
    assert_eq!(found["certified"], false);
    assert_eq!(found["least_eigenvalue"], Value::Null);
}

/// The true number of records is protected, so nothing is said of a mean over it.
#[test]
fn under_add_remove_the_mean_is_over_the_declared_number() {
    let place = Place::new();
    place.train("--epsilon 5 --out out --adjacency add-remove --public-records 500");
    let found = certify(&place, "--epsilon 50");
    assert_eq!(found["mean_over"], 500, "{found}");
    let words = place.ok("certify --model out/model.json --data t.csv --epsilon 50");
    assert!(words.contains("over 500, the declared number"), "{words}");
    assert!(!words.contains("mean loss of these records"), "{words}");
}

#[test]
fn one_ledger_pays_for_the_model_and_its_certificate() {
    let place = Place::new();
    place.train("--epsilon 2 --out out --ledger l.json --budget 4 --budget-delta 1e-5");
    let flags = "certify --model out/model.json --data t.csv --epsilon 2 --ledger l.json";
    place.ok(flags);
    let shown = place.ok("ledger show l.json");
    assert!(shown.contains("after 2 runs"), "{shown}");
    let more = flags.replace("--epsilon 2", "--epsilon 6");
    place.fails(&more, 2, &["--ledger", "nothing was released"]);
}

/// Lines are no longer than those of a run's summary, and what was printed is in the file.
#[test]
fn a_certificate_is_written_where_nothing_else_is() {
    let place = Place::new();
    place.train("--epsilon 5 --out out");
    let flags = "certify --model out/model.json --data t.csv --epsilon 50";
    let words = place.ok(&format!("{flags} --out c.json"));
    for line in words.lines() {
        assert!(line.chars().count() <= 120, "{line}");
        let of_paragraph = line.starts_with("           ");
        assert!(!of_paragraph || line.chars().count() <= 88, "{line}");
    }
    assert!(words.contains("\nPrivacy    epsilon 5"), "{words}");
    let first = place.json("c.json");
    assert_eq!(first["format"], "dpopt-certificate-1");
    // Not again, and by force only in the place of a certificate; nothing is spent on a refusal.
    let ledger = "--ledger l.json --budget 60 --budget-delta 1e-5";
    place.fails(
        &format!("{flags} --out c.json {ledger}"),
        1,
        &["--out", "exists"],
    );
    place.fails(
        &format!("{flags} --out t.csv --force {ledger}"),
        1,
        &["--out"],
    );
    place.fails(
        &format!("{flags} --out out/events.json --force {ledger}"),
        1,
        &["--out", "no certificate"],
    );
    // A file that holds nothing is somebody's too.
    std::fs::write(place.path("empty.json"), "").unwrap();
    for (force, words) in [("", "exists"), ("--force", "no certificate")] {
        let flags = format!("{flags} --out empty.json {force} {ledger}");
        place.fails(&flags, 1, &["--out", words]);
    }
    assert!(!place.path("l.json").exists());
    assert_eq!(place.json("c.json"), first);
    let printed = place.ok(&format!("{flags} --out c.json --force --json"));
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let second = place.json("c.json");
    assert_eq!(second, printed);
    assert_ne!(second["gradient_norm"], first["gradient_norm"]);
    place.fails(&format!("{flags} --force"), 1, &["--out"]);
}

#[test]
fn what_has_no_certificate_is_refused() {
    let place = Place::new();
    place.train("--epsilon 5 --out out");
    place.train("--epsilon 5 --out kinks --loss hinge --solver noisy-gd");
    place.train(
        "--epsilon 5 --out units --loss hinge --hidden 2 --output-weights fixed --solver noisy-gd",
    );
    let on = |model: &str, flags: &str| {
        format!("certify --model {model}/model.json --data t.csv --epsilon 1 {flags}")
    };
    place.fails(&on("kinks", ""), 1, &["--model", "second derivative"]);
    place.fails(&on("units", ""), 1, &["--model", "network"]);
    place.fails(
        &on("out", "--gradient 1e-9 --curvature 0.4"),
        1,
        &["the gradient norm", "more records"],
    );
    place.fails(
        &on("out", "--gradient 99 --curvature 0.4"),
        1,
        &["every point meets"],
    );
    place.fails(&on("out", "--failure 1"), 1, &["failure"]);
    place.fails(
        "certify --model t.csv --data t.csv --epsilon 1",
        1,
        &["t.csv"],
    );
}

/// By hand, from the lines of the table below, whose rows have a norm of 0.56.
fn norm_of_the_mean_gradient(model: &Value) -> f64 {
    let weights: Vec<f64> = model["weights"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["weight"].as_f64().unwrap())
        .collect();
    let mut gradient = vec![0.0; 1100];
    for i in 0..6_000usize {
        let (first, last) = (i % 7, 1099);
        let label = if i % 2 == 1 { 1.0 } else { -1.0 };
        let z = 0.5 * weights[first] + 0.25 * weights[last];
        let slope = -label / (1.0 + (label * z).exp());
        gradient[first] += 0.5 * slope / 6_000.0;
        gradient[last] += 0.25 * slope / 6_000.0;
    }
    gradient.iter().map(|g| g * g).sum::<f64>().sqrt()
}

/// Above 1,024 dimensions there is no Hessian, and products with it say hardly anything without a target: refused before anything is charged.
#[test]
fn in_many_dimensions_curvature_is_told_for_a_target() {
    let place = Place::new();
    let line = |i: usize| format!("{} {}:0.5 1100:0.25\n", i % 2, 1 + i % 7);
    place.put("w.svm", &(0..6_000).map(line).collect::<String>());
    let schema = "format = 1\nrow_norm = 2.0\nintercept = 0.0\n[label]\ncolumn = \"y\"\nvalues = [\"0\", \"1\"]\n\
                  positive = \"1\"\ndefault = \"0\"\n[array]\ncolumns = 1100\nscale = 1.0\n";
    place.put("w.toml", schema);
    // Of two in three models half of the gradient norm is enough to be told from zero: none of 20 are once in 1e9.
    let mut models = (0..20).map(|_| {
        let train =
            "train --data w.svm --schema w.toml --solver dp-sgd --epsilon 40 --out o --force";
        place.ok(train);
        norm_of_the_mean_gradient(&place.json("o/model.json"))
    });
    let exact = models.find(|exact| *exact > 1.6e-3).unwrap();
    let flags = "certify --model o/model.json --data w.svm --epsilon 50";
    let ledger = "--ledger l.json --budget 60 --budget-delta 1e-5";
    place.fails(&format!("{flags} {ledger}"), 1, &["--curvature", "1024"]);
    assert!(!place.path("l.json").exists());
    let told = format!("{flags} --gradient 0.9 --curvature 0.5 --failure 1e-6 --json");
    let found: Value = serde_json::from_str(&place.ok(&told)).unwrap();
    // A convex loss: no eigenvalue is below 0, whatever the target.
    assert_eq!(found["certified"], true, "{found}");
    assert_eq!(found["least_eigenvalue"]["low"], 0.0, "{found}");
    let of = found["of"].as_str().unwrap();
    assert!(
        of.contains("these records") && of.contains("population"),
        "{of}"
    );
    // The norm of the mean gradient lies in its interval.
    let end = |end: &str| found["gradient_norm"][end].as_f64().unwrap();
    // Outside in one run of a million.
    assert!(
        end("low") <= exact && exact <= end("high"),
        "{exact} {found}"
    );
    let none = flags.to_owned() + " --gradient 0.9 --curvature 0.5 --failure 1e-6";
    let words = place.ok(&none);
    assert!(
        words.starts_with("Certified  the gradient norm is at most 0.9"),
        "{words}"
    );
    assert!(words.contains("at least -0.5"), "{words}");
    // Half of what it is is not certified, and the curvature is then not paid for.
    let half = format!(
        "{flags} --gradient {} --curvature 0.5 --failure 1e-6 --json",
        0.5 * exact
    );
    let found: Value = serde_json::from_str(&place.ok(&half)).unwrap();
    assert_eq!(found["certified"], false, "{exact} {found}");
    assert_eq!(found["least_eigenvalue"], Value::Null, "{found}");
    // What no plan of products can tell at this budget costs nothing.
    let little = format!("{flags} --gradient 0.9 --curvature 1e-7 {ledger}");
    place.fails(&little, 1, &["1100"]);
    assert!(!place.path("l.json").exists());
}
