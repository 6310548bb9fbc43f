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

#[track_caller]
fn refused(from: &str, to: &str, key_part: &str) -> SchemaProblem {
    match edited(from, to) {
        Err(TabularError::Schema { path, key, problem }) => {
            assert_eq!(path, "s.toml");
            assert!(key.contains(key_part), "{key} for {to}");
            problem
        }
        other => panic!("{to}: {other:?}"),
    }
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

#[test]
fn every_bad_number_is_refused_with_its_key() {
    use SchemaProblem as P;
    for value in ["nan", "inf", "-inf"] {
        assert!(matches!(
            refused("row_norm = 3.0", &format!("row_norm = {value}"), "row_norm"),
            P::NotFinite(_)
        ));
        assert!(matches!(
            refused("scale = 1.0", &format!("scale = {value}"), "scale"),
            P::NotFinite(_)
        ));
        assert!(matches!(
            refused("max = 90.0", &format!("max = {value}"), "\"age\", max"),
            P::NotFinite(_)
        ));
        assert!(matches!(
            refused("default = 0.0", &format!("default = {value}"), "default"),
            P::NotFinite(_)
        ));
        assert!(matches!(
            refused("[18.0, 25.0]", &format!("[18.0, {value}]"), "bins"),
            P::NotFinite(_)
        ));
        refused(
            "intercept = 1.0",
            &format!("intercept = {value}"),
            "intercept",
        );
    }
    for value in ["0.0", "-1.0"] {
        assert!(matches!(
            refused("row_norm = 3.0", &format!("row_norm = {value}"), "row_norm"),
            P::NotPositive(_)
        ));
        assert!(matches!(
            refused("scale = 1.0", &format!("scale = {value}"), "scale"),
            P::NotPositive(_)
        ));
    }
    assert!(matches!(
        refused("scale = 1.0", "scale = 1e-60", "scale"),
        P::NotFinite(_)
    ));
    assert!(matches!(
        refused("scale = 1.0", "scale = 1e60", "scale"),
        P::NotFinite(_)
    ));
    assert!(matches!(
        refused("intercept = 1.0", "intercept = -1.0", "intercept"),
        P::Negative(_)
    ));
    assert!(matches!(
        refused("max = 90.0", "max = 0.0", "min"),
        P::EmptyRange { .. }
    ));
    assert!(matches!(
        refused("max = 90.0", "max = -1.0", "min"),
        P::EmptyRange { .. }
    ));
    assert!(matches!(
        refused(
            "min = 0.0\nmax = 90.0",
            "min = -1.5e308\nmax = 1.5e308",
            "min"
        ),
        P::EmptyRange { .. }
    ));
    assert!(matches!(
        refused("default = 0.0", "default = 91.0", "default"),
        P::OutOfRange { .. }
    ));
    assert!(matches!(
        refused("[18.0, 25.0]", "[]", "bins"),
        P::EmptyList
    ));
    assert!(matches!(
        refused("[18.0, 25.0]", "[25.0, 18.0]", "bins"),
        P::NotIncreasing { .. }
    ));
    assert!(matches!(
        refused("[18.0, 25.0]", "[18.0, 18.0]", "bins"),
        P::NotIncreasing { .. }
    ));
    assert!(matches!(
        refused("[18.0, 25.0]", "[0.0, 18.0]", "bins"),
        P::EdgeOutOfRange { .. }
    ));
    assert!(matches!(
        refused("[18.0, 25.0]", "[18.0, 90.5]", "bins"),
        P::EdgeOutOfRange { .. }
    ));
    assert!(edited("[18.0, 25.0]", "[18.0, 90.0]").is_ok());
}

#[test]
fn every_bad_text_is_refused_with_its_key() {
    use SchemaProblem as P;
    assert_eq!(refused("format = 1", "format = 2", "format"), P::Format(2));
    let three = r#"["- 50000.", "50000+.", "?"]"#;
    let problem = refused(r#"["- 50000.", "50000+."]"#, three, "label.positive");
    assert_eq!(problem, P::PositiveOfSeveral(3));
    for (values, count) in [("[]", 0), (r#"["50000+."]"#, 1)] {
        let problem = refused(r#"["- 50000.", "50000+."]"#, values, "label.values");
        assert_eq!(problem, P::NotTwoValues(count));
    }
    assert!(matches!(
        refused(
            r#"["- 50000.", "50000+."]"#,
            r#"["50000+.", " 50000+. "]"#,
            "label.values"
        ),
        P::Duplicate(_)
    ));
    assert!(matches!(
        refused(
            r#"positive = "50000+.""#,
            r#"positive = "yes""#,
            "label.positive"
        ),
        P::NotAmongValues(_)
    ));
    assert!(matches!(
        refused(
            r#"default = "- 50000.""#,
            r#"default = "no""#,
            "label.default"
        ),
        P::NotAmongValues(_)
    ));
    assert!(matches!(
        refused(r#"name = "gains""#, r#"name = " age""#, "column"),
        P::Duplicate(_)
    ));
    assert!(matches!(
        refused(r#"name = "gains""#, r#"name = "income""#, "column"),
        P::Duplicate(_)
    ));
    assert!(matches!(
        refused(
            r#"["Private", "Not in universe"]"#,
            "[]",
            "\"class\", values"
        ),
        P::EmptyList
    ));
    assert!(matches!(
        refused(
            r#"["Private", "Not in universe"]"#,
            r#"["a", "a"]"#,
            "values"
        ),
        P::Duplicate(_)
    ));
    assert!(matches!(
        refused(r#"["Private", "Not in universe"]"#, r#"["a\nb"]"#, "values"),
        P::LineBreak(_)
    ));
    assert_eq!(refused("max = 90.0\n", "", "max"), P::Missing);
    assert_eq!(refused("default = 0.0\n", "", "default"), P::Missing);
    assert_eq!(
        refused(
            "values = [\"Private\", \"Not in universe\"]\n",
            "",
            "values"
        ),
        P::Missing
    );
    assert_eq!(
        refused("bins = [18.0, 25.0]", "linear = false", "linear"),
        P::NoFeatureOfColumn
    );
    assert_eq!(
        refused("kind = \"ignore\"", "kind = \"ignore\"\nmin = 1.0", "min"),
        P::NotApplicable("ignore")
    );
    assert_eq!(
        refused(
            "kind = \"ignore\"",
            "kind = \"ignore\"\nscale = 1.0",
            "scale"
        ),
        P::NotApplicable("ignore")
    );
    assert_eq!(
        refused("bins = [18.0, 25.0]", "values = [\"a\"]", "values"),
        P::NotApplicable("number")
    );
    assert_eq!(
        refused("reference =", "bins = [1.0]\nreference =", "bins"),
        P::NotApplicable("category")
    );
    let nothing = r#"
format = 1
row_norm = 1.0
intercept = 0.0
label = { column = "y", values = ["0", "1"], positive = "1", default = "0" }
column = [{ name = "x", kind = "ignore" }]
"#;
    assert!(matches!(
        schema(nothing),
        Err(TabularError::Schema {
            problem: P::NoFeatures,
            ..
        })
    ));
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
