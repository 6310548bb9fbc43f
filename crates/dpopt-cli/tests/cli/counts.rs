//! Counts: from a table to means, their deviance, and what is no count.

use serde_json::Value;

use crate::support::{Place, table};

const CLASSES: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";

fn range(min: &str, max: &str) -> String {
    format!("kind = \"number\"\nmin = {min}\nmax = {max}\ndefault = 0.0")
}

/// 1 to 5 where the category is a, 7 to 11 where it is b: means of 3 and 9.
fn place() -> Place {
    let place = Place::new();
    place.schema_with(CLASSES, &range("0.0", "20.0"));
    let lines = |n: usize| -> Vec<String> {
        (0..n)
            .map(|i| {
                let (c, least) = if i % 2 == 0 { ("a", 1) } else { ("b", 7) };
                format!("5,{c},{}", least + (i / 2) % 5)
            })
            .collect()
    };
    place.put("t.csv", &table(&lines(2_000)));
    place.put("test.csv", &table(&lines(600)));
    place
}

const TRAIN: &str =
    "--test test.csv --epsilon 200 --loss poisson --solver noisy-gd --max-steps 400";

/// Means are e^score, at most the largest; the deviance and the errors are those of the predictions, computed here.
#[test]
fn means_of_counts_are_learnt_and_scored() {
    let place = place();
    let found = place.train(&format!("{TRAIN} --out o"));
    assert_eq!(found["loss"], "poisson:20");
    let predicted = place.ok("predict --model o/model.json --data test.csv");
    let predicted: Vec<f64> = predicted
        .lines()
        .skip(1)
        .map(|z| z.parse().unwrap())
        .collect();
    let test = place.read("test.csv");
    let labels = test
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap());
    let labels: Vec<f64> = labels.map(|y| y.parse().unwrap()).collect();
    for (mean, y) in predicted.iter().zip(&labels) {
        let expected = if *y <= 5.0 { 3.0 } else { 9.0 };
        assert!((mean / expected - 1.0).abs() < 0.15, "{mean} {y}");
    }
    let mean_of = |of: &dyn Fn(f64, f64) -> f64| {
        let pairs = predicted.iter().zip(&labels);
        pairs.map(|(m, y)| of(*m, *y)).sum::<f64>() / labels.len() as f64
    };
    let deviance = mean_of(&|m, y| 2.0 * (y * (y / m).ln() - (y - m)));
    for (key, expected) in [
        ("test_deviance", deviance),
        ("test_loss", 0.5 * deviance),
        ("test_absolute_error", mean_of(&|m, y| (m - y).abs())),
    ] {
        let of = found[key].as_f64().unwrap();
        assert!((of - expected).abs() < 1e-4, "{key} {of} {expected}");
    }
    assert_eq!(found["test_loss_in_label_units"], true);
    assert!(
        place
            .read("o/report.html")
            .contains("mean Poisson deviance")
    );
    let told = place.ok("evaluate --model o/model.json --data test.csv --epsilon 100 --json");
    let told: Value = serde_json::from_str(&told).unwrap();
    let error = &told["mean_absolute_error"]["records"];
    let expected = mean_of(&|m, y| (m - y).abs());
    let within = |key: &str| error[key].as_f64().unwrap();
    // The interval holds 95 % of the noise; four times as wide it misses once in 1e14.
    let (middle, half) = (
        (within("low") + within("high")) / 2.0,
        (within("high") - within("low")) / 2.0,
    );
    assert!((middle - expected).abs() <= 4.0 * half, "{error}");
    assert!(half > 0.0, "{error}");
    // Of other counts it is no model.
    let edited = place
        .read("o/model.json")
        .replace("poisson:20", "poisson:30");
    place.put("edited.json", &edited);
    place.fails(
        "predict --model edited.json --data test.csv",
        1,
        &["poisson:30"],
    );
}

/// The largest count bounds slopes: L0 = L1 = 20 for rows of norm 1, and the gap is that of a mean of 1, 20 ln 20 - 19.
#[test]
fn plans_know_the_largest_count() {
    let place = Place::new();
    let plan =
        "plan noisy-gd --records 100000 --dim 5 --epsilon 1 --delta 1e-6 --json --loss poisson:20";
    let found: Value = serde_json::from_str(&place.ok(plan)).unwrap();
    let gap = 20.0 * 20f64.ln() - 19.0;
    // The start satisfies the smaller of L0 and sqrt(2 L1 F0).
    let trivial = found["trivial_bound"].as_f64().unwrap();
    assert!(
        (trivial - f64::min(20.0, (40.0 * gap).sqrt())).abs() < 1e-9,
        "{trivial}"
    );
    assert!((found["clip"].as_f64().unwrap() - 4.0).abs() < 1e-9);
}
