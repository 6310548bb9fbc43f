//! Frames in memory against CSV: the same texts are the same rows.

use dpopt_data::tabular::{Schema, TabularError, ValueType, Values, encode_frame, read_table_from};

use crate::support::dense as rows;

const SCHEMA: &str = r#"
format = 1
row_norm = 1.5
intercept = 1.0

[label]
column = "late"
values = ["0", "1"]
positive = "1"
default = "0"

[[column]]
name = "distance"
kind = "number"
min = 0.0
max = 100.0
default = 20.0
missing = true

[[column]]
name = "by"
kind = "category"
values = ["bicycle", "bus", "3", "true"]

[[column]]
name = "note"
kind = "ignore"
"#;

fn schema() -> Schema {
    Schema::from_toml(SCHEMA, "the schema").unwrap()
}

fn agrees(columns: &[(String, Values<'_>)], csv: &str) {
    let schema = schema();
    let frame = encode_frame(columns, &schema, true, "a frame").unwrap();
    let table = read_table_from(csv.as_bytes(), "a table", &schema).unwrap();
    assert_eq!(rows(&frame.design), rows(&table.design));
    assert_eq!(frame.labels, table.labels);
}

fn named<'a>(columns: Vec<(&str, Values<'a>)>) -> Vec<(String, Values<'a>)> {
    let named = columns.into_iter();
    named.map(|(name, of)| (name.to_owned(), of)).collect()
}

fn texts(of: Vec<Option<&[u8]>>) -> Values<'_> {
    Values::Typed(ValueType::Text, of)
}

#[test]
fn values_are_the_texts_of_a_table() {
    let distance = [0.0, -3.5, 1e300, f64::NAN, f64::INFINITY, 12.25, 1e-7];
    let by: [Option<&[u8]>; 7] = [
        Some(b"bus"),
        None,
        Some(b" bicycle "),
        Some(b"\xff\x00"),
        Some(b""),
        Some(b"3"),
        Some(b"other"),
    ];
    agrees(
        &named(vec![
            ("late", Values::Integers(&[0, 1, 1, 0, 7, -1, 1])),
            ("by", texts(by.to_vec())),
            ("distance", Values::Doubles(&distance)),
        ]),
        "late,by,distance,note\n0,bus,0,\n1,,-3.5,\n1, bicycle ,1e300,\n0,?,NaN,\n7,,inf,\n-1,3,12.25,\n1,other,1e-7,\n",
    );
}

#[test]
fn each_type_has_a_text() {
    agrees(
        &named(vec![
            ("late", Values::Singles(&[1.0, 0.0])),
            ("by", Values::Unsigned(&[3, u64::MAX])),
            ("distance", Values::Singles(&[0.1, 99.0])),
        ]),
        "late,by,distance\n1,3,0.1\n0,18446744073709551615,99\n",
    );
    agrees(
        &named(vec![
            ("by", Values::Truths(&[true, false])),
            ("late", Values::Doubles(&[1.0, 0.0])),
            ("distance", Values::Integers(&[i64::MIN, 50])),
        ]),
        "by,late,distance\ntrue,1,-9223372036854775808\nfalse,0,50\n",
    );
}

/// A schema of one column `x` and the label `y`.
fn small(column: &str, label: &str) -> Schema {
    let text = format!(
        "format = 1\nrow_norm = 2.0\nintercept = 1.0\n[label]\ncolumn = \"y\"\n{label}\n[[column]]\nname = \"x\"\n{column}\n"
    );
    Schema::from_toml(&text, "the schema").unwrap()
}

const NUMBER: &str = "kind = \"number\"\nmin = 0.0\nmax = 9.0\ndefault = 0.0";
const DAYS: &str =
    "kind = \"date\"\nmin = \"2020-01-01\"\nmax = \"2021-01-01\"\ndefault = \"2020-01-01\"";

fn category(values: &str) -> String {
    format!("kind = \"category\"\nvalues = {values}")
}

fn classes(values: &str) -> String {
    let positive = values.trim_matches(['[', ']']).rsplit(", ").next().unwrap();
    let default = values.trim_matches(['[', ']']).split(", ").next().unwrap();
    format!("values = {values}\npositive = {positive}\ndefault = {default}")
}

/// Values as a frame has them, and as a CSV file has them that the schema was drafted from.
#[test]
fn a_typed_value_is_the_one_that_the_schema_writes_in_another_form() {
    let of =
        |of, all: [&'static [u8]; 2]| Values::Typed(of, vec![Some(all[0]), Some(all[1]), None]);
    let objects = |of, all: [&'static [u8]; 2]| {
        Values::Objects(vec![Some((of, all[0])), Some((of, all[1])), None])
    };
    let cases = [
        (
            "[\"False\", \"True\"]",
            ValueType::Truth,
            [&b"false"[..], b"true"],
            "False",
            "True",
        ),
        (
            "[\"FALSE\", \"TRUE\"]",
            ValueType::Truth,
            [b"false", b"true"],
            "FALSE",
            "TRUE",
        ),
        (
            "[\"0.0\", \"1.0\"]",
            ValueType::Real,
            [b"0", b"1"],
            "0.0",
            "1.0",
        ),
        (
            "[\"0.0\", \"1.0\"]",
            ValueType::Whole,
            [b"0", b"1"],
            "0.0",
            "1.0",
        ),
        (
            "[\"-1\", \"1e0\"]",
            ValueType::Whole,
            [b"-1", b"1"],
            "-1",
            "1e0",
        ),
        (
            "[\"2.50\", \"3e17\"]",
            ValueType::Real,
            [b"2.5", b"3e17"],
            "2.50",
            "3e17",
        ),
        (
            "[\"1.0\", \"2\", \"1\"]",
            ValueType::Real,
            [b"2", b"1"],
            "2",
            "1",
        ),
        (
            "[\"2020/01/31\", \"2020/02/01\"]",
            ValueType::Date,
            [b"2020-01-31", b"2020-02-01"],
            "2020/01/31",
            "2020/02/01",
        ),
    ];
    for (values, each, written, first, second) in cases {
        let schema = small(&category(values), &classes("[\"no\", \"yes\"]"));
        let csv = format!("x,y\n{first},no\n{second},yes\n,no\n");
        let table = read_table_from(csv.as_bytes(), "csv", &schema).unwrap();
        let labels: [Option<&[u8]>; 3] = [Some(b"no"), Some(b"yes"), Some(b"no")];
        for x in [of(each, written), objects(each, written)] {
            let frame = named(vec![("x", x), ("y", texts(labels.to_vec()))]);
            let found = encode_frame(&frame, &schema, true, "frame").unwrap();
            // A CSV file has an empty text where a frame has nothing; both are other.
            assert_eq!(rows(&found.design), rows(&table.design), "{values}");
        }
        if values.matches(',').count() == 1 {
            let schema = small(NUMBER, &classes(values));
            for y in [of(each, written), objects(each, written)] {
                let frame = named(vec![("x", Values::Integers(&[1; 3])), ("y", y)]);
                let found = encode_frame(&frame, &schema, true, "frame").unwrap();
                assert_eq!(found.labels, [-1.0, 1.0, -1.0], "{values}");
            }
        }
    }
}

/// Each type under each kind of column and of label: taken, or refused by the names of the column
/// and of the type.
#[test]
fn a_column_of_a_type_that_the_schema_can_not_take_is_refused() {
    let one = |of: ValueType, text: &'static [u8]| Values::Typed(of, vec![Some(text)]);
    let types = [
        (one(ValueType::Truth, b"true"), "truth values"),
        (one(ValueType::Whole, b"1"), "whole numbers"),
        (one(ValueType::Real, b"1.5"), "numbers with a point"),
        (one(ValueType::Date, b"2020-01-31"), "dates or times"),
        (one(ValueType::Text, b"word"), "texts"),
    ];
    let two = classes("[\"no\", \"yes\"]");
    let columns = [
        (NUMBER.to_owned(), [false, true, true, false, true]),
        (DAYS.to_owned(), [false, false, false, true, true]),
        ("kind = \"hash\"\nbuckets = 4".to_owned(), [true; 5]),
        ("kind = \"ignore\"".to_owned(), [true; 5]),
        (
            category("[\"a\", \"True\"]"),
            [true, false, false, false, true],
        ),
        (
            category("[\"a\", \"1.0\"]"),
            [false, true, true, false, true],
        ),
        (
            category("[\"a\", \"1.5\"]"),
            [false, false, true, false, true],
        ),
        (
            category("[\"a\", \"2020-01-31\"]"),
            [false, false, false, true, true],
        ),
        (
            category("[\"a\", \"b\"]"),
            [false, false, false, false, true],
        ),
        (
            format!("{}\nreference = \"2\"", category("[\"a\"]")),
            [false, true, true, false, true],
        ),
    ];
    let labels = [
        (NUMBER.to_owned(), [false, true, true, false, true]),
        (
            classes("[\"other\", \"true\"]"),
            [true, false, false, false, true],
        ),
        (
            classes("[\"other\", \"1\"]"),
            [false, true, true, false, true],
        ),
        (
            classes("[\"1\", \"other\"]"),
            [false, false, false, false, true],
        ),
        (
            "values = [\"1\", \"2\", \"3\"]\ndefault = \"1\"".to_owned(),
            [false, true, true, false, true],
        ),
        (
            "values = [\"1\", \"2\", \"x\"]\ndefault = \"1\"".to_owned(),
            [false, false, false, false, true],
        ),
    ];
    let cases = columns
        .iter()
        .map(|(column, taken)| ("x", column, two.as_str(), taken));
    let ignored = "kind = \"ignore\"";
    let cases = cases.chain(
        labels
            .iter()
            .map(|(label, taken)| ("y", label, ignored, taken)),
    );
    for (at, of, other, taken) in cases {
        let schema = if at == "x" {
            small(of, other)
        } else {
            small(other, of)
        };
        for ((values, kind), taken) in types.iter().zip(taken) {
            let other = if at == "x" { "y" } else { "x" };
            let frame = named(vec![
                (at, values.clone()),
                (other, texts(vec![Some(b"no")])),
            ]);
            match encode_frame(&frame, &schema, true, "frame") {
                Ok(_) => assert!(taken, "{of}: {kind}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        !taken && said.contains(&format!("{at:?}")) && said.contains(kind),
                        "{of}: {said}"
                    );
                    assert!(matches!(error, TabularError::ValueType { .. }));
                }
            }
            // The type of one value is its record's.
            if let Values::Typed(of, all) = values {
                let each = Values::Objects(all.iter().map(|text| Some((*of, (*text)?))).collect());
                let frame = named(vec![(at, each), (other, texts(vec![Some(b"no")]))]);
                assert!(encode_frame(&frame, &schema, true, "frame").is_ok());
            }
        }
    }
}

#[test]
fn a_longer_text_than_a_line_is_missing() {
    let long = vec![b'7'; (1 << 20) + 1];
    let distance: [Option<&[u8]>; 2] = [Some(&long), None];
    agrees(
        &named(vec![
            ("distance", texts(distance.to_vec())),
            ("by", texts(vec![Some(b"bus"); 2])),
            // Shorter than the others.
            ("late", Values::Integers(&[1])),
        ]),
        "distance,by,late\n,bus,1\n,bus,\n",
    );
}

#[test]
fn one_value_changes_one_row() {
    let (mut one, mut other) = (vec![1.0; 50], vec![1.0; 50]);
    (one[7], other[7]) = (f64::NAN, 80.0);
    let [one, other] = [&one, &other].map(|distance| {
        let columns = named(vec![
            ("distance", Values::Doubles(distance)),
            ("by", texts(vec![Some(b"bus"); 50])),
        ]);
        rows(
            &encode_frame(&columns, &schema(), false, "a frame")
                .unwrap()
                .design,
        )
    });
    let changed: Vec<usize> = (0..50).filter(|&i| one[i] != other[i]).collect();
    assert_eq!(changed, [7]);
}

#[test]
fn names_are_those_of_the_schema() {
    let refused = |columns: Vec<(&str, Values<'_>)>, label| {
        let found = encode_frame(&named(columns), &schema(), label, "a frame");
        found.err().unwrap()
    };
    let whole = || Values::Integers(&[1]);
    assert!(matches!(
        refused(vec![("distance", whole()), ("by", whole())], true),
        TabularError::MissingColumns { columns, .. } if columns == ["late"]
    ));
    assert!(matches!(
        refused(vec![("distance", whole()), ("by", whole()), ("more", whole())], false),
        TabularError::UnlistedColumns { columns, .. } if columns == ["more"]
    ));
    assert!(matches!(
        refused(vec![("distance", whole()), ("by", whole()), ("by", whole())], false),
        TabularError::DuplicateColumn { column, .. } if column == "by"
    ));
}
