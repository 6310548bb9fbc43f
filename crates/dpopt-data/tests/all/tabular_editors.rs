//! `docs/schema.json`, by which editors complete and check schemas, has the keys that the reader has, and no others.

use std::collections::BTreeSet;
use std::path::Path;

use dpopt_data::tabular::{Schema, TabularError};
use serde_json::Value;

const HEAD: &str = "format = 1\nrow_norm = 1.0\nintercept = 1.0\n";
const LABEL: &str = "[label]\ncolumn = \"y\"\n";

/// What the reader would have taken in the place of a key or a word that nothing has.
fn expected(text: &str) -> BTreeSet<String> {
    let Err(TabularError::Toml { message, .. }) = Schema::from_toml(text, "s") else {
        panic!("{text}");
    };
    let (unknown, known) = message.split_once("expected").unwrap();
    assert!(unknown.contains("zzz"), "{message}");
    known
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn document() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_keys_are_those_of_the_reader() {
    let document = document();
    let of = |part: &str| match part {
        "" => &document,
        part => &document["definitions"][part],
    };
    for (part, text) in [
        ("", format!("zzz = 1\n{HEAD}{LABEL}")),
        ("label", format!("{HEAD}{LABEL}zzz = 1\n")),
        ("column", format!("{HEAD}{LABEL}[[column]]\nzzz = 1\n")),
        ("array", format!("{HEAD}{LABEL}[array]\nzzz = 1\n")),
        ("share", format!("{HEAD}{LABEL}[[share]]\nzzz = 1\n")),
    ] {
        let object = of(part);
        let keys: BTreeSet<String> = object["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert!(keys.len() > 1);
        assert_eq!(keys, expected(&text), "{part}");
        assert_eq!(object["additionalProperties"], false, "{part}");
        for key in object["required"].as_array().unwrap() {
            assert!(keys.contains(key.as_str().unwrap()), "{key}");
        }
        for (key, value) in object["properties"].as_object().unwrap() {
            assert!(value["description"].is_string(), "{part}: {key}");
        }
    }
    // All parts that there are.
    assert_eq!(document["definitions"].as_object().unwrap().len(), 4);
}

#[test]
fn the_words_are_those_of_the_reader() {
    let document = document();
    for (part, key, text) in [
        ("label", "kind", format!("{HEAD}{LABEL}kind = \"zzz\"\n")),
        (
            "column",
            "kind",
            format!("{HEAD}{LABEL}[[column]]\nname = \"x\"\nkind = \"zzz\"\n"),
        ),
        (
            "column",
            "transform",
            format!(
                "{HEAD}{LABEL}[[column]]\nname = \"x\"\nkind = \"number\"\ntransform = \"zzz\"\n"
            ),
        ),
    ] {
        let words = &document["definitions"][part]["properties"][key]["enum"];
        let words = words.as_array().unwrap().iter();
        let words: BTreeSet<String> = words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(words, expected(&text), "{part}: {key}");
    }
}
