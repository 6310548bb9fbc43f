//! Schemas: what is refused, what comes back.

use dpopt_data::tabular::{ColumnKind, Schema, SchemaProblem, TabularError, read_table_from};

const GOOD: &str = r#"
format = 1
row_norm = 3.0
intercept = 1.0
[label]
column = "income"
values = ["- 50000.", "50000+."]
positive = "50000+."
default = "- 50000."
[[column]]
name = "age"
kind = "number"
min = 0.0
max = 90.0
transform = "linear"
default = 0.0
scale = 1.0
bins = [18.0, 25.0]
[[column]]
name = "gains"
kind = "number"
min = 0
max = 99999
transform = "log1p"
default = 0
[[column]]
name = "class"
kind = "category"
values = ["Private", "Not in universe"]
reference = "Not in universe"
[[column]]
name = "weight"
kind = "ignore"
"#;

fn schema(text: &str) -> Result<Schema, TabularError> {
    Schema::from_toml(text, "s.toml")
}

/// The good schema with one piece replaced.
fn edited(from: &str, to: &str) -> Result<Schema, TabularError> {
    assert!(GOOD.contains(from), "{from}");
    schema(&GOOD.replacen(from, to, 1))
}

#[test]
fn features_are_named_in_order() {
    let schema = schema(GOOD).unwrap();
    assert_eq!(
        schema.feature_names(),
        [
            "age in [0, 18)",
            "age in [18, 25)",
            "age in [25, 90]",
            "gains",
            "class = Private",
            "class = (other)",
            "(intercept)",
        ]
    );
    assert_eq!(schema.dim(), 7);
    assert_eq!(schema.row_norm(), 3.0);
    let both = edited("bins = [18.0, 25.0]", "bins = [18.0, 25.0]\nlinear = true").unwrap();
    assert_eq!(both.feature_names()[0], "age");
    assert_eq!(both.dim(), 8);
}

const HEAD: &str = "format = 1\nrow_norm = 3.0\nintercept = 1.0\n";
const LABEL: &str =
    "[label]\ncolumn = \"y\"\nvalues = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"\n";

/// The schema of this name that the rows of `schemas.tsv` edit.
fn base(name: &str) -> String {
    let keys = match name {
        "good" => return GOOD.to_owned(),
        "array" => {
            let head = HEAD.replace("intercept = 1.0", "intercept = 0.0");
            return format!("{head}{LABEL}[array]\ncolumns = 3\nscale = 1.0\n");
        }
        "number" => "min = 0.0\nmax = 10.0\ndefault = 0.0",
        "category" => "values = [\"a\"]",
        "hash" => "buckets = 1024\n",
        "date" => "min = \"2000-01-01\"\nmax = \"2000-01-11\"\ndefault = \"2000-01-06\"",
        _ => "",
    };
    let kind = name.replace("ignored", "ignore");
    format!("{HEAD}{LABEL}[[column]]\nname = \"x\"\nkind = \"{kind}\"\n{keys}\n")
}

#[test]
fn every_bad_schema_is_refused_with_its_key() {
    let table = include_str!("../data/schemas.tsv");
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let cells: Vec<String> = row
            .split('\t')
            .map(|cell| cell.replace("\\n", "\n"))
            .collect();
        let [name, from, to, key, problem] = &cells[..] else {
            panic!("{row}");
        };
        let good = base(name);
        assert!(schema(&good).is_ok() && good.contains(from), "{row}");
        let edited = match from.as_str() {
            "" => good + to,
            from => good.replacen(from, to, 1),
        };
        match schema(&edited) {
            Err(TabularError::Schema {
                path,
                key: of,
                problem: found,
            }) => {
                assert_eq!(path, "s.toml");
                assert!(of.contains(key), "{of} for {row}");
                let found = format!("{found:?}");
                assert!(found.starts_with(problem), "{found} for {row}");
            }
            other => panic!("{row}: {other:?}"),
        }
    }
    assert!(edited("[18.0, 25.0]", "[18.0, 90.0]").is_ok());
}

#[test]
fn bad_toml_names_its_line() {
    for (from, to, line, word) in [
        ("format = 1", "format = = 1", 2, ""),
        (
            "row_norm = 3.0",
            "row_norm = 3.0\nrownorm = 2.0",
            4,
            "rownorm",
        ),
        ("scale = 1.0", "scael = 1.0", 17, "scael"),
        ("positive =", "negative =", 8, "negative"),
        ("kind = \"ignore\"", "kind = \"skip\"", 33, "skip"),
        ("transform = \"linear\"", "transform = \"log\"", 15, "log"),
        ("row_norm = 3.0", "row_norm = \"3\"", 3, ""),
        ("row_norm = 3.0", "", 1, "row_norm"),
        ("[label]", "[labels]", 5, "labels"),
    ] {
        match edited(from, to) {
            Err(TabularError::Toml {
                path,
                line: at,
                message,
            }) => {
                assert_eq!(path, "s.toml");
                assert_eq!(at, line, "{to}: {message}");
                assert!(message.contains(word), "{message}");
            }
            other => panic!("{to}: {other:?}"),
        }
    }
    assert!(matches!(
        Schema::load("/no/such/schema.toml"),
        Err(TabularError::Read { path, .. }) if path == "/no/such/schema.toml"
    ));
}

#[test]
fn a_schema_survives_toml_and_json_and_is_checked_again() {
    let odd = GOOD
        .replace("Private", "a \\\"quoted\\\" \\\\ \\u0007 é")
        .replace("max = 90.0", "max = 90.00000000000001")
        .replace("row_norm = 3.0", "row_norm = 0.1\nignore_unlisted = true");
    for text in [GOOD, &odd] {
        let first = schema(text).unwrap();
        assert_eq!(schema(&first.to_toml()).unwrap(), first);
        let json = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), first);
        for bad in [
            json.replace("\"format\":1", "\"format\":7"),
            json.replace("\"kind\":\"ignore\"", "\"kind\":\"ignore\",\"extra\":1"),
            json.replace("\"min\":0.0", "\"min\":100.0"),
        ] {
            assert_ne!(bad, json);
            assert!(serde_json::from_str::<Schema>(&bad).is_err());
        }
    }
}

#[test]
fn a_reference_need_not_be_listed() {
    let listed = schema(GOOD).unwrap();
    let unlisted = edited(r#"["Private", "Not in universe"]"#, r#"["Private"]"#).unwrap();
    assert_eq!(listed.feature_names(), unlisted.feature_names());
    let csv = "age,gains,class,weight,income\n1,1,Not in universe,0,50000+.\n1,1,x,0,50000+.\n";
    let (a, b) = (
        read_table_from(csv.as_bytes(), "t", &listed).unwrap(),
        read_table_from(csv.as_bytes(), "t", &unlisted).unwrap(),
    );
    for i in 0..2 {
        assert_eq!(
            a.design.row(i).dot(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
            b.design.row(i).dot(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
        );
    }
}

#[test]
fn the_label_can_be_overridden() {
    let first = schema(GOOD).unwrap();
    let same = first.with_label(None, None).unwrap();
    assert_eq!(same, first);
    assert_eq!(
        first.with_label(Some("income"), Some("50000+.")).unwrap(),
        first
    );

    let flipped = first.with_label(None, Some(" - 50000.")).unwrap();
    assert_eq!(flipped.label().classes().unwrap().positive, "- 50000.");
    assert_eq!(flipped.label().classes().unwrap().negative(), "50000+.");
    assert_eq!(
        flipped.label().classes().unwrap().default,
        first.label().classes().unwrap().default
    );

    // A category column becomes the label and stops being a feature.
    let class = first
        .with_label(Some("class"), Some("Not in universe"))
        .unwrap();
    assert_eq!(class.label().column, "class");
    assert_eq!(class.label().classes().unwrap().positive, "Not in universe");
    assert_eq!(class.label().classes().unwrap().default, "Private");
    assert_eq!(class.dim(), first.dim() - 2);
    let income = class.columns().iter().find(|c| c.name == "income").unwrap();
    assert_eq!(income.kind, ColumnKind::Ignore);

    // A column that the schema ignores or doesn't know has the label's values.
    for name in ["weight", "outcome"] {
        let moved = first.with_label(Some(name), None).unwrap();
        assert_eq!(
            moved.label().classes().unwrap().values,
            first.label().classes().unwrap().values
        );
        assert_eq!(moved.label().column, name);
        assert_eq!(moved.dim(), first.dim());
    }
    assert!(matches!(
        first.with_label(Some("age"), None),
        Err(TabularError::Schema {
            problem: SchemaProblem::NotTwoValues(0),
            ..
        })
    ));
    for column in [None, Some("class"), Some("outcome")] {
        assert!(matches!(
            first.with_label(column, Some("maybe")),
            Err(TabularError::Schema {
                problem: SchemaProblem::NotAmongValues(_),
                ..
            })
        ));
    }
}

#[test]
fn a_draft_stays_one_until_its_line_is_removed() {
    let edited = schema(GOOD).unwrap();
    assert!(!edited.is_draft(), "a schema without the key is none");
    let draft = schema(&format!("draft = true\n{GOOD}")).unwrap();
    assert!(draft.is_draft() && draft != edited && draft.encodes_as(&edited));
    assert!(
        !schema(&format!("draft = false\n{GOOD}"))
            .unwrap()
            .is_draft()
    );
    // As text, as a part of another document, and with another label.
    let written = draft.to_toml();
    assert!(written.starts_with("draft = true\n"), "{written}");
    assert_eq!(schema(&written).unwrap(), draft);
    assert!(!edited.to_toml().contains("draft"));
    let json = serde_json::to_string(&draft).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), draft);
    let plain = serde_json::to_string(&edited).unwrap();
    assert!(!plain.contains("draft"), "older versions read it");
    let other = draft.with_label(None, Some("- 50000.")).unwrap();
    assert!(other.is_draft() && !other.encodes_as(&draft));
    let wider = schema(&GOOD.replace("max = 90.0", "max = 91.0")).unwrap();
    assert!(!wider.encodes_as(&edited));
}

/// The blocks of TOML of the page about schemas.
fn shown() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```toml\n").skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_example_of_the_page_loads_beside_what_it_leaves_out() {
    let blocks = shown();
    assert!(blocks.len() > 3);
    for block in blocks {
        let mut text = String::new();
        if !block.contains("format = 1") {
            text.push_str("format = 1\nrow_norm = 1.0\nintercept = 1.0\n");
        }
        if !block.contains("[label]") {
            text.push_str("[label]\ncolumn = \"y\"\nvalues = [\"a\", \"b\"]\npositive = \"a\"\ndefault = \"b\"\n");
        }
        text.push_str(&block);
        let schema = Schema::from_toml(&text, "docs/tables.md").unwrap();
        assert_eq!(
            Schema::from_toml(&schema.to_toml(), "again").unwrap().dim(),
            schema.dim()
        );
    }
}

#[test]
fn the_page_names_every_key() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md");
    let page = std::fs::read_to_string(page).unwrap();
    let whole = &shown()[0];
    let mut named = 0;
    // The reader itself says which keys there are, in its error about one that it does not know.
    for (section, known) in [
        ("format = 1", "row_norm"),
        ("[label]", "positive"),
        ("[[column]]", "transform"),
        ("[[share]]", "of"),
        ("[array]\ncolumns = 1", "scale"),
    ] {
        let text = match whole.contains(section) {
            true => whole.replacen(section, &format!("{section}\nzebra = 1"), 1),
            false => format!("{whole}\n{section}\nzebra = 1\n"),
        };
        let error = Schema::from_toml(&text, "s").unwrap_err().to_string();
        let (_, keys) = error.split_once("expected ").unwrap();
        let keys: Vec<&str> = keys.split('`').skip(1).step_by(2).collect();
        assert!(keys.contains(&known), "{section}: {error}");
        for key in &keys {
            let said = [format!("`{key}`"), format!("[{key}]")];
            assert!(said.iter().any(|said| page.contains(said)), "{key}");
        }
        named += keys.len();
    }
    assert!(named > 25, "{named}");
}
