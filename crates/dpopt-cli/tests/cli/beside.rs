//! A model beside a constant: the default is better than one, and a run that is worse says so everywhere.

use serde_json::Value;

use crate::support::{Place, stderr, table};

const CLASSES: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";

/// Numbers from the bits of a counter, without a pattern that a column shares.
fn mixed(i: usize) -> usize {
    let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as usize
}

/// Labels by x from 0 to 9, whether the category is b, and a number from 0 to 4.
fn place(range: Option<&str>, label: impl Fn(usize, usize, usize) -> String) -> Place {
    let place = Place::new();
    if let Some(range) = range {
        place.schema_with(CLASSES, range);
    }
    place.put("t.csv", &table(&lines(0, 4_000, &label)));
    place.put("test.csv", &table(&lines(100_000, 4_000, &label)));
    place
}

fn lines(from: usize, n: usize, label: impl Fn(usize, usize, usize) -> String) -> Vec<String> {
    let line = |i: usize| {
        let (x, b, noise) = (mixed(i) % 10, mixed(i) / 10 % 2, mixed(i) / 20 % 5);
        let category = if b == 1 { "b" } else { "a" };
        format!("{x},{category},{}", label(x, b, noise))
    };
    (from..from + n).map(line).collect()
}

const NUMBER: &str = "kind = \"number\"\nmin = 0.0\nmax = 40.0\ndefault = 0.0";
const COUNT: &str = "kind = \"number\"\nmin = 0.0\nmax = 20.0\ndefault = 0.0";

/// The label has a deviation of a fifth of half its range, so that noise of 1.5 half ranges would have an R2 near -50.
#[test]
fn the_default_is_better_than_a_constant() {
    let number = |x: usize, b: usize, noise: usize| (12 + x + 4 * b + noise).to_string();
    let count = |x: usize, b: usize, noise: usize| ((x + noise) / 3 + 4 * b).to_string();
    let (numbers, counts) = (place(Some(NUMBER), number), place(Some(COUNT), count));
    for solver in ["auto", "dp-sgd", "dp-sgd-decay", "dp-adam"] {
        for (place, loss) in [(&numbers, "huber"), (&counts, "poisson")] {
            let out = place.run(&format!(
                "train t.csv --schema s.toml --test test.csv --json --epsilon 2 --loss {loss} --solver {solver}"
            ));
            assert_eq!(out.status.code(), Some(0), "{solver}: {}", stderr(&out));
            let out: Value = serde_json::from_slice(&out.stdout).unwrap();
            let constant = &out["constants"][0];
            let (model, of) = (&constant["model"], &constant["constant"]);
            assert!(model.as_f64() < of.as_f64(), "{solver}: {out}");
            assert_eq!(constant["worse"], false);
        }
    }
}

/// Next to no budget: the noise decides.
#[test]
fn a_model_worse_than_a_constant_says_so() {
    // Deviations of a tenth of a unit in a range of 40; one label in ten is yes; counts near 3.
    let narrow = place(Some(NUMBER), |_, _, noise| {
        format!("{}", 20.0 + 0.1 * noise as f64)
    });
    let rare = place(None, |x, b, noise| {
        let yes = x < 2 && noise + b < 3;
        (if yes { "yes" } else { "no" }).to_owned()
    });
    let counts = place(Some(COUNT), |_, _, noise| (1 + noise).to_string());
    for (place, loss, figure, constant) in [
        (
            &narrow,
            "huber",
            "root mean square error",
            "always the mean",
        ),
        (&narrow, "absolute", "mean loss", "always the median"),
        (&narrow, "pinball:0.8", "mean loss", "always the quantile"),
        (&rare, "logistic", "accuracy", "always the majority"),
        (&counts, "poisson", "deviance", "always the mean count"),
    ] {
        let flags = format!(
            "train t.csv --schema s.toml --test test.csv --epsilon 0.0005 --loss {loss} --solver noisy-gd --force --out o"
        );
        // A result that is better by chance is at most every second: forty of forty are below 1e-12.
        let worse = |flags: &str| {
            let mut runs = (0..40).map(|_| place.run(flags));
            runs.find(|out| out.status.code() == Some(4)).expect(loss)
        };
        let (text, json) = (worse(&flags), worse(&format!("{flags} --json")));
        let warning = "no better than a constant on the test set";
        assert!(stderr(&text).contains(warning), "{}", stderr(&text));
        let words = String::from_utf8(text.stdout).unwrap();
        assert!(words.contains(&format!("({constant}: ")), "{words}");
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        let constants = json["constants"].as_array().unwrap();
        assert!(constants.iter().any(|of| of["worse"] == true), "{json}");
        let told = json["warnings"].to_string();
        assert!(told.contains(warning), "{told}");
        let report = place.read("o/report.html");
        for word in [
            &format!("{figure}, {constant}"),
            "no better than a constant",
        ] {
            assert!(report.contains(word), "{loss}: {word}");
        }
    }
}

/// A release whose intervals leave it open claims nothing; one that decides it says so, and so do the files.
#[test]
fn a_private_evaluation_claims_what_its_intervals_decide() {
    // What the models predict is no in none of their records, and yes in all.
    let rare = place(None, |x, _, noise| {
        (if x == 0 && noise < 2 { "yes" } else { "no" }).to_owned()
    });
    rare.ok("train t.csv --schema s.toml --epsilon 5 --out o --solver noisy-gd");
    let model = rare.json("o/model.json");
    let mut wrong = model.clone();
    for weight in wrong["weights"].as_array_mut().unwrap() {
        // The intercept and the features are at least 0.
        weight["weight"] = 1.0.into();
    }
    rare.put("wrong.json", &wrong.to_string());
    // A model of dear errors on the rare class isn't judged by its accuracy.
    wrong["class_weights"] = serde_json::json!({"yes": 15.0, "no": 1.0});
    rare.put("weighted.json", &wrong.to_string());
    let evaluate = "evaluate --data test.csv --json --model";
    for (model, epsilon, code, worse) in [
        ("wrong.json", 20.0, 4, true),
        ("wrong.json", 0.001, 0, false),
        ("o/model.json", 20.0, 0, false),
        // By its area alone.
        ("weighted.json", 20.0, 4, false),
    ] {
        let out = rare.run(&format!("{evaluate} {model} --epsilon {epsilon}"));
        assert_eq!(
            out.status.code(),
            Some(code),
            "{model} {epsilon}: {}",
            stderr(&out)
        );
        let found: Value = serde_json::from_slice(&out.stdout).unwrap();
        let accuracy = &found["constants"][0];
        assert_eq!(accuracy["figure"], "accuracy");
        assert_eq!(accuracy["worse"], worse, "{found}");
        assert_eq!(
            stderr(&out).contains("no better than a constant on the private evaluation"),
            code == 4
        );
    }
    let words = rare.ok("evaluate --data test.csv --model wrong.json --epsilon 20");
    assert!(words.contains("(always the majority: "), "{words}");
}

/// Labels that no column tells: the area under the curve of 40,000 records is within 0.02 of a half (six deviations).
#[test]
fn an_objective_that_reached_nothing_says_so() {
    let unrelated =
        |_: usize, _: usize, noise: usize| (if noise < 2 { "yes" } else { "no" }).to_owned();
    let place = place(None, unrelated);
    place.put("test.csv", &table(&lines(100_000, 40_000, unrelated)));
    let out = place.run(
        "train t.csv --schema s.toml --test test.csv --json --epsilon 1 --delta 1e-5 --objective group-dro --group c --group-shares release",
    );
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(4), "{said}");
    assert!(
        said.contains("no better than a constant on the test set"),
        "{said}"
    );
    assert!(
        said.contains("AUC 0.") && said.contains("(any constant: 0.5"),
        "{said}"
    );
    let out: Value = serde_json::from_slice(&out.stdout).unwrap();
    let figures = out["constants"].as_array().unwrap();
    let worst = figures
        .iter()
        .find(|of| of["figure"] == "worst-group-accuracy")
        .unwrap();
    assert_eq!(
        worst["worse"],
        worst["model"].as_f64() == Some(0.0),
        "{out}"
    );
}
