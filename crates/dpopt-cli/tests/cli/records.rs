//! What a record holds is never an error, and never changes what is shown.

use serde_json::Value;

use crate::support::{Place, rows, table};

const GARBAGE: [&str; 12] = [
    "NaN,a,yes",
    "inf,b,no",
    "1e999,b,no",
    "seven,a,yes",
    "5.0,zebra,no",
    "5.0,a,perhaps",
    "5.0",
    "5.0,a,yes,1,2,3",
    "",
    "\"5.0,a,yes",
    ",,",
    "\u{1F600}\u{0},\t,\u{FEFF}",
];

/// Keys of the object and the values that must not depend on a record.
fn shape(json: &Value) -> Vec<(String, Value)> {
    let public = [
        "records", "dim", "steps", "epsilon", "delta", "passes", "solver", "stop",
    ];
    json.as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| {
            let value = if public.contains(&key.as_str()) {
                value.clone()
            } else {
                Value::Null
            };
            (key.clone(), value)
        })
        .collect()
}

#[test]
fn garbage_in_a_record_changes_nothing_that_is_shown() {
    let place = Place::new();
    let flags = "train --data t.csv --schema s.toml --json --out o --force";
    let normal = place.run(flags);
    let expected = shape(&serde_json::from_slice(&normal.stdout).unwrap());
    for garbage in GARBAGE {
        let mut lines = rows(crate::support::ROWS);
        lines[17] = garbage.to_owned();
        place.put("t.csv", &table(&lines));
        let output = place.run(flags);
        assert!(output.status.success(), "{garbage:?}");
        assert_eq!(output.stderr, normal.stderr, "{garbage:?}");
        let json = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(shape(&json), expected, "{garbage:?}");
        let model = place.json("o/model.json");
        assert!(
            model["weights"]
                .as_array()
                .unwrap()
                .iter()
                .all(|w| w["weight"].is_number())
        );
    }
}

#[test]
fn a_table_of_nothing_but_garbage_trains() {
    let place = Place::new();
    let lines: Vec<String> = (0..40)
        .map(|i| GARBAGE[i % GARBAGE.len()].to_owned())
        .collect();
    place.put("t.csv", &table(&lines));
    assert_eq!(place.train("--delta 1e-3")["records"], 40);
}

#[test]
fn bytes_that_are_no_text_are_a_record_too() {
    let place = Place::new();
    let mut bytes = table(&rows(60)).into_bytes();
    bytes.extend([0xff, 0xfe, b',', 0x80, b',', 0xc0, b'\n']);
    std::fs::write(place.path("t.csv"), bytes).unwrap();
    assert_eq!(place.train("")["records"], 61);
}

#[test]
fn check_lists_what_training_hides() {
    let place = Place::new();
    let mut lines = rows(50);
    lines[4] = "NaN,zebra,perhaps".to_owned();
    place.put("t.csv", &table(&lines));
    let output = place.run("check t.csv --schema s.toml");
    assert!(output.status.success());
    assert!(crate::support::stderr(&output).contains("not private"));
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["50 records", "line 6", "zebra", "perhaps", "NaN"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
