//! Parquet: the rows are those of the same table as CSV, and damage is an error and nothing else.
//!
//! `data/table.parquet` was written by pyarrow (`data/make_table_parquet.py`): two row groups,
//! small pages, four compressions, nulls, a text that is not UTF-8, types that are not read.
#![cfg(feature = "parquet")]

use std::path::{Path, PathBuf};

use dpopt_data::tabular::{
    ProblemKind, Schema, TabularError, check_parquet, draft_parquet, read_parquet,
    read_parquet_features, read_table_from,
};
use dpopt_linalg::{Design, Row};

const SCHEMA: &str = r#"
format = 1
row_norm = 2.0
intercept = 1.0
ignore_unlisted = true
[label]
column = "y"
values = ["no", "yes"]
positive = "yes"
default = "no"
[[column]]
name = "x"
kind = "number"
min = -1.0
max = 10.0
default = 3.0
[[column]]
name = "f"
kind = "number"
min = 0.0
max = 5.0
default = 4.0
[[column]]
name = "i"
kind = "number"
min = -10.0
max = 10.0
default = 10.0
[[column]]
name = "u"
kind = "number"
min = 0.0
max = 4294967295.0
default = 0.0
[[column]]
name = "b"
kind = "category"
values = ["True", "false"]
[[column]]
name = "c"
kind = "category"
values = ["red", "green", ""]
[[column]]
name = "raw"
kind = "category"
values = ["red", "green"]
[[column]]
name = "day"
kind = "date"
min = "1970-01-01"
max = "1970-01-21"
default = "1970-01-01"
"#;

/// The same six records, by hand, with truth values as the schema writes them. A null is a missing
/// field: for a category it is none of the
/// listed ones, not even the empty one.
const CSV: &[u8] = b"x,f,i,u,b,c,raw,y,day\n\
    0.5,0.1,1,4294967295,True,red,red,yes,1970-01-11\n\
    ,2.5,-2,0,false,green,\xff\xfe,no,1970-01-11\n\
    NaN,3e38,3,1,(null),,,yes,1970-01-11\n\
    1e300,,,2,True,(null),green,no,1970-01-11\n\
    -0.1,1e-7,5,3,True,\"a,b\",(null),(null),1970-01-11\n\
    7,1,9,4,false,red,red,maybe,1970-01-11\n";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/table.parquet")
}

fn schema(text: &str) -> Schema {
    Schema::from_toml(text, "schema").unwrap()
}

fn bits(design: &Design) -> Vec<Vec<(u32, u32)>> {
    (0..design.rows())
        .map(|i| {
            let Row::Sparse(columns, values) = design.row(i) else {
                panic!("tables are sparse");
            };
            columns
                .iter()
                .zip(values)
                .map(|(j, x)| (*j, x.to_bits()))
                .collect()
        })
        .collect()
}

#[test]
fn a_parquet_table_and_the_same_csv_give_the_same_bits() {
    let schema = schema(SCHEMA);
    let table = read_parquet(fixture(), &schema).unwrap();
    let csv = read_table_from(CSV, "csv", &schema).unwrap();
    assert_eq!(bits(&table.design), bits(&csv.design));
    assert_eq!(table.labels, csv.labels);
    assert_eq!(table.labels, [1.0, -1.0, 1.0, -1.0, -1.0, -1.0]);
    let features = read_parquet_features(fixture(), &schema).unwrap();
    assert_eq!(bits(&features), bits(&csv.design));
}

#[test]
fn columns_that_cannot_be_read_are_named_unless_they_are_ignored() {
    for name in ["price", "list.list.element"] {
        let text = format!(
            "{SCHEMA}[[column]]\nname = \"{name}\"\nkind = \"number\"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n"
        );
        let error = read_parquet(fixture(), &schema(&text)).err().unwrap();
        assert!(
            matches!(&error, TabularError::ColumnType { column, .. } if column == name),
            "{error}"
        );
    }
    let missing = SCHEMA.replace("name = \"x\"", "name = \"z\"");
    let error = read_parquet(fixture(), &schema(&missing)).err().unwrap();
    assert!(matches!(error, TabularError::MissingColumns { .. }));
    let strict = SCHEMA.replace("ignore_unlisted = true", "");
    let error = read_parquet(fixture(), &schema(&strict)).err().unwrap();
    assert!(
        error.to_string().contains("price, list.list.element"),
        "{error}"
    );
}

#[test]
fn the_check_and_the_draft_read_the_same_values() {
    let report = check_parquet(fixture(), &schema(SCHEMA)).unwrap();
    assert_eq!((report.records, report.positives), (6, Some(2)));
    assert_eq!(report.count(ProblemKind::NotANumber), 1);
    assert_eq!(report.count(ProblemKind::UnknownLabel), 1);
    let first = &report.listed[0];
    assert_eq!((first.line, first.text.as_str()), (4, "NaN"));
    let draft = draft_parquet(fixture(), None).unwrap();
    assert!(draft.contains("READ FROM THE DATA") && draft.contains("6 records"));
    assert!(
        draft.contains("name = \"price\"\nkind = \"ignore\""),
        "{draft}"
    );
}

#[test]
fn damage_is_an_error_or_goes_unnoticed_and_never_a_panic() {
    let whole = std::fs::read(fixture()).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("t.parquet");
    let schema = schema(SCHEMA);
    // The footer is last: whatever is cut off, it is gone.
    for cut in (0..whole.len()).step_by(97) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = read_parquet(&path, &schema).err().unwrap();
        assert!(
            matches!(error, TabularError::Parquet { .. }),
            "{cut}: {error}"
        );
    }
    std::fs::write(&path, b"x,y\n1,yes\n").unwrap();
    assert!(matches!(
        read_parquet(&path, &schema),
        Err(TabularError::Parquet { .. })
    ));
    for at in (4..whole.len()).step_by(31) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(table) = read_parquet(&path, &schema) {
            assert_eq!(table.design.rows(), table.labels.len());
        }
    }
    assert!(matches!(
        read_parquet(folder.path().join("none"), &schema),
        Err(TabularError::Read { .. })
    ));
}

#[test]
fn a_compression_that_is_not_read_is_named_with_its_column() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/brotli.parquet");
    let text = |kind: &str| {
        format!(
            "format = 1\nrow_norm = 2.0\nintercept = 1.0\n[label]\ncolumn = \"y\"\nvalues = [\"no\", \"yes\"]\n\
             positive = \"yes\"\ndefault = \"no\"\n[[column]]\nname = \"x\"\nkind = \"number\"\nmin = 0.0\nmax = 9.0\n\
             default = 0.0\n[[column]]\nname = \"z\"\n{kind}\n"
        )
    };
    let number = text("kind = \"number\"\nmin = 0.0\nmax = 9.0\ndefault = 0.0");
    let error = read_parquet(&path, &schema(&number)).err().unwrap();
    assert!(
        matches!(&error, TabularError::Codec { column, codec: "Brotli", .. } if column == "z"),
        "{error}"
    );
    // The other columns can be used.
    let table = read_parquet(&path, &schema(&text("kind = \"ignore\""))).unwrap();
    assert_eq!(table.design.rows(), 2);
}

#[test]
fn types_that_are_not_read_are_named_and_dates_are_told() {
    for (name, kind) in [("price", "decimal"), ("list.list.element", "nested")] {
        let text = format!(
            "{SCHEMA}[[column]]\nname = \"{name}\"\nkind = \"number\"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n"
        );
        let error = read_parquet(fixture(), &schema(&text)).err().unwrap();
        assert!(error.to_string().contains(kind), "{error}");
    }
    let draft = draft_parquet(fixture(), None).unwrap();
    // Days, and not their numbers: all of them are the same.
    let day = draft.split("name = \"day\"").nth(1).unwrap();
    assert!(
        day.contains("a single value") && !day.contains("since 1970"),
        "{draft}"
    );
}

/// All records have the day 1970-01-11.
#[test]
fn types_of_columns_are_those_that_the_schema_takes() {
    let head = SCHEMA.split_once("[[column]]").unwrap().0;
    let number = "kind = \"number\"\nmin = 0.0\nmax = 20.0\ndefault = 0.0";
    let dates =
        "kind = \"date\"\nmin = \"1970-01-01\"\nmax = \"1970-01-21\"\ndefault = \"1970-01-01\"";
    let listed = "kind = \"category\"\nvalues = [\"1.0\", \"2.50\", \"true\", \"1970/01/11\"]";
    let hashed = "kind = \"hash\"\nbuckets = 8";
    let words = "kind = \"category\"\nvalues = [\"red\"]";
    for (name, kind, taken) in [
        ("b", number, false),
        ("day", number, false),
        ("i", dates, false),
        ("b", dates, false),
        ("x", dates, false),
        ("c", dates, true),
        ("i", listed, true),
        ("f", listed, true),
        ("b", listed, true),
        ("day", listed, true),
        ("day", hashed, true),
        ("i", words, false),
        ("b", words, false),
        ("c", words, true),
    ] {
        let schema = schema(&format!("{head}[[column]]\nname = \"{name}\"\n{kind}\n"));
        let found = [
            read_parquet(fixture(), &schema).err(),
            read_parquet_features(fixture(), &schema).err(),
            check_parquet(fixture(), &schema).err(),
        ];
        for error in found {
            let refused =
                matches!(&error, Some(TabularError::ValueType { column, .. }) if column == name);
            assert_eq!(
                (refused, error.is_none()),
                (!taken, taken),
                "{name} {kind}: {error:?}"
            );
        }
    }
    // What is listed is found: 1, 2.5 and the day.
    for (name, value, records) in [
        ("i", "1.0", vec![0]),
        ("f", "2.50", vec![1]),
        ("b", "TRUE", vec![0, 3, 4]),
        ("day", "1970/01/11", vec![0, 1, 2, 3, 4, 5]),
    ] {
        let schema = schema(&format!(
            "{head}[[column]]\nname = \"{name}\"\nkind = \"category\"\nvalues = [\"{value}\"]\n"
        ));
        let rows = bits(&read_parquet(fixture(), &schema).unwrap().design);
        let found = (0..6).filter(|&i| rows[i].iter().any(|(feature, _)| *feature == 0));
        assert_eq!(found.collect::<Vec<_>>(), records, "{name}");
    }
    assert_eq!(
        check_parquet(fixture(), &schema(SCHEMA))
            .unwrap()
            .count(ProblemKind::NotADate),
        0
    );
}

#[test]
fn types_of_labels_are_those_that_the_schema_takes() {
    let label = |column: &str, told_apart: &str| {
        schema(&format!(
            "format = 1\nrow_norm = 2.0\nintercept = 1.0\nignore_unlisted = true\n[label]\ncolumn = \"{column}\"\n\
             values = [\"rest\", \"{told_apart}\"]\npositive = \"{told_apart}\"\ndefault = \"rest\"\n"
        ))
    };
    let positives = |table: &[f32]| table.iter().filter(|y| **y > 0.0).count();
    for (column, can, can_not) in [
        (
            "b",
            vec![("true", 3), ("TRUE", 3), ("False", 2)],
            vec!["1", "yes", "T"],
        ),
        (
            "i",
            vec![("1", 1), ("1.0", 1), ("-2", 1), ("01", 1)],
            vec!["1.5", "yes", "true"],
        ),
        ("u", vec![("4294967295", 1), ("1e0", 1)], vec!["0.5"]),
        (
            "x",
            vec![("0.5", 1), ("7.0", 1), ("1e300", 1)],
            vec!["yes", "0,5"],
        ),
        (
            "f",
            vec![("0.1", 1), ("1.0", 1), ("1e-7", 1)],
            vec!["", "nan"],
        ),
        (
            "day",
            vec![("1970-01-11", 6), ("1970/01/11", 6)],
            vec!["10", "yes"],
        ),
        ("y", vec![("yes", 2), ("0,5", 0)], vec![]),
    ] {
        for (value, count) in can {
            let table = read_parquet(fixture(), &label(column, value)).unwrap();
            assert_eq!(positives(&table.labels), count, "{column} {value}");
            read_parquet_features(fixture(), &label(column, value)).unwrap();
        }
        for value in can_not {
            let error = read_parquet(fixture(), &label(column, value))
                .err()
                .unwrap();
            assert!(
                error.to_string().contains(&format!("{column:?}")),
                "{error}"
            );
            assert!(matches!(error, TabularError::ValueType { .. }));
        }
    }
    for (column, taken) in [
        ("b", false),
        ("day", false),
        ("i", true),
        ("f", true),
        ("x", true),
        ("y", true),
    ] {
        let schema = schema(&format!(
            "format = 1\nrow_norm = 2.0\nintercept = 1.0\nignore_unlisted = true\n[label]\ncolumn = \"{column}\"\n\
             kind = \"number\"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n"
        ));
        assert_eq!(read_parquet(fixture(), &schema).is_ok(), taken, "{column}");
    }
}

/// `data/zones.csv` is the same frame, which pandas wrote as text with the local time of each zone
/// (`data/make_zones_parquet.py`): around midnight the local day is not that of UTC.
#[test]
fn a_time_with_a_zone_has_the_day_that_its_text_has() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let csv = std::fs::read(folder.join("zones.csv")).unwrap();
    let head = SCHEMA.split_once("[[column]]").unwrap().0;
    for name in [
        "berlin",
        "kathmandu",
        "honolulu",
        "fixed",
        "west",
        "utc",
        "naive",
    ] {
        let schema = schema(&format!(
            "{head}[[column]]\nname = \"{name}\"\nkind = \"date\"\nmin = \"1960-01-01\"\nmax = \"2030-01-01\"\n\
             default = \"1980-01-01\"\nmissing = true\n"
        ));
        let wanted = read_table_from(&csv[..], "csv", &schema).unwrap();
        let found = read_parquet(folder.join("zones.parquet"), &schema).unwrap();
        assert_eq!(bits(&found.design), bits(&wanted.design), "{name}");
    }
    let draft = draft_parquet(folder.join("zones.parquet"), None).unwrap();
    assert_eq!(draft.matches("kind = \"date\"").count(), 7, "{draft}");
}
