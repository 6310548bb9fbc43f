//! Frames in memory against CSV: the same texts are the same rows.

use dpopt_data::tabular::{Schema, TabularError, Values, encode_frame, read_table_from};
use dpopt_linalg::Design;

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

fn rows(design: &Design) -> Vec<Vec<f64>> {
    let dense = |i: usize| {
        let unit = |j: usize| {
            let mut at = vec![0.0; design.columns()];
            at[j] = 1.0;
            at
        };
        (0..design.columns())
            .map(|j| design.row(i).dot(&unit(j)))
            .collect()
    };
    (0..design.rows()).map(dense).collect()
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

#[test]
fn values_are_the_texts_of_a_table() {
    let distance = [0.0, -3.5, 1e300, f64::NAN, f64::INFINITY, 12.25, 1e-7];
    let texts: [Option<&[u8]>; 7] = [
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
            ("by", Values::Texts(texts.to_vec())),
            ("distance", Values::Doubles(&distance)),
        ]),
        "late,by,distance,note\n0,bus,0,\n1,,-3.5,\n1, bicycle ,1e300,\n0,?,NaN,\n7,,inf,\n-1,3,12.25,\n1,other,1e-7,\n",
    );
}

#[test]
fn each_type_has_a_text() {
    agrees(
        &named(vec![
            ("late", Values::Truths(&[true, false])),
            ("by", Values::Unsigned(&[3, u64::MAX])),
            ("distance", Values::Singles(&[0.1, 99.0])),
        ]),
        "late,by,distance\ntrue,3,0.1\nfalse,18446744073709551615,99\n",
    );
    agrees(
        &named(vec![
            ("by", Values::Truths(&[true, false])),
            // What was whole stays whole, so that 1.0 is the class "1".
            ("late", Values::Doubles(&[1.0, 0.0])),
            ("distance", Values::Integers(&[i64::MIN, 50])),
        ]),
        "by,late,distance\ntrue,1,-9223372036854775808\nfalse,0,50\n",
    );
}

#[test]
fn a_longer_text_than_a_line_is_missing() {
    let long = vec![b'7'; (1 << 20) + 1];
    let texts: [Option<&[u8]>; 2] = [Some(&long), None];
    agrees(
        &named(vec![
            ("distance", Values::Texts(texts.to_vec())),
            ("by", Values::Texts(vec![Some(b"bus"); 2])),
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
            ("by", Values::Texts(vec![Some(b"bus"); 50])),
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
