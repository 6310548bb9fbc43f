//! `calibrate` and `account --curve`.

use serde_json::Value;

use crate::support::Place;

fn json(place: &Place, flags: &str) -> Value {
    serde_json::from_str(&place.ok(&format!("{flags} --json"))).unwrap()
}

const BUDGET: &str = "--epsilon 1 --delta 1e-5 --adjacency add-remove";

#[test]
fn each_parameter_is_found_from_the_other_two() {
    let place = Place::new();
    let known = [
        ("--noise-multiplier", "noise_multiplier", "2"),
        ("--steps", "steps", "500"),
        ("--sampling-rate", "sampling_rate", "0.02"),
    ];
    for (free, key, _) in known {
        let given: Vec<String> = known
            .iter()
            .filter(|(flag, ..)| *flag != free)
            .map(|(flag, _, value)| format!("{flag} {value}"))
            .collect();
        let flags = format!("calibrate {} {BUDGET} --accountant rdp", given.join(" "));
        let found = json(&place, &flags);
        assert_eq!(found["found"], key);
        let epsilon = found["epsilon"].as_f64().unwrap();
        assert!(epsilon <= 1.0 && epsilon > 0.99, "{found}");
        // `account` says the same of what was found.
        let account = format!(
            "account --noise-multiplier {} --steps {} --sampling-rate {} --delta 1e-5 \
             --adjacency add-remove --accountant rdp",
            found["noise_multiplier"], found["steps"], found["sampling_rate"]
        );
        assert_eq!(json(&place, &account)["epsilon"], found["epsilon"]);
        assert!(place.ok(&flags).contains("by the rdp accountant"));
    }
}

#[test]
fn the_accountant_is_picked_by_the_sampling() {
    let place = Place::new();
    let exact = json(
        &place,
        "calibrate --steps 1 --sampling-rate 1 --epsilon 1 --delta 1e-5 --adjacency replace-one --noise-over sensitivity",
    );
    assert_eq!(exact["accountant"], "gdp");
    assert_eq!(exact["adjacency"], "replace-one");
    let noise = exact["noise_multiplier"].as_f64().unwrap();
    assert!((noise / 3.730_631_634_8 - 1.0).abs() < 1e-6, "{noise}");
    let flags = format!("calibrate --steps 100 --sampling-rate 0.01 {BUDGET}");
    let sampled = json(&place, &flags);
    assert_ne!(sampled["accountant"], "gdp");
    assert!(sampled["noise_multiplier"].as_f64().unwrap() < 1.0);
}

#[test]
fn calibrations_that_make_no_sense() {
    let place = Place::new();
    for (flags, words) in [
        (
            format!("calibrate --steps 3 {BUDGET}"),
            &["two of them"][..],
        ),
        (format!("calibrate {BUDGET}"), &["--steps"]),
        (
            format!("calibrate --steps 3 --noise-multiplier 1 --sampling-rate 1 {BUDGET}"),
            &["leave one out"],
        ),
        (
            "calibrate --steps 3 --sampling-rate 1 --epsilon 1 --adjacency zero-out".to_owned(),
            &["--delta"],
        ),
        (
            format!("calibrate --steps 3 --sampling-rate 2 {BUDGET}"),
            &["--sampling-rate"],
        ),
        (
            format!("calibrate --steps 3 --sampling-rate 0.1 --accountant gdp {BUDGET}"),
            &["gdp", "Poisson"],
        ),
        (
            format!("calibrate --noise-multiplier 1 --sampling-rate 1 {BUDGET}"),
            &["out of reach", "number of steps 1", "4.37"],
        ),
    ] {
        place.fails(&flags, 1, words);
    }
}

#[test]
fn a_curve_bounds_the_attacker() {
    let place = Place::new();
    // Three Gaussians of deviation sqrt 3: mu = 1, published read-outs.
    let flags = "account --noise-multiplier 1.7320508075688772 --steps 3 --delta 1e-5 --curve --adjacency add-remove";
    let found = json(&place, flags);
    let advantage = found["attack"]["advantage"].as_f64().unwrap();
    assert!((0.382_924..0.3831).contains(&advantage), "{advantage}");
    let rates = found["attack"]["rates"].as_array().unwrap();
    let tenth = rates
        .iter()
        .find(|row| row["false_positive_rate"] == 0.1)
        .unwrap();
    let hit = tenth["true_positive_rate"].as_f64().unwrap();
    assert!((0.389_14..0.3895).contains(&hit), "{hit}");
    let curve = found["curve"].as_array().unwrap();
    assert_eq!(curve[0]["epsilon"], 0.0);
    assert!(curve.len() > 10);
    let text = place.ok(flags);
    assert!(
        text.contains("false positive rate") && text.contains("0.383"),
        "{text}"
    );
    assert!(
        json(
            &place,
            "account --noise-multiplier 2 --delta 1e-5 --adjacency zero-out"
        )["curve"]
            .is_null()
    );
}
