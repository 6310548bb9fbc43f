//! Parquet: the rows are those of the same table as CSV, and damage is an error and nothing else.
//!
//! `data/table.parquet` was written by pyarrow (`data/make_table_parquet.py`): two row groups,
//! small pages, four compressions, nulls, a text that is not UTF-8, types that are not read.
#![cfg(feature = "parquet")]

use std::path::{Path, PathBuf};

use dpopt_data::tabular::{
    ProblemKind, Schema, TabularError, check_parquet, draft_parquet, parquet_can_hold_the_label,
    read_parquet, read_parquet_features, read_table_from,
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
values = ["true", "false"]
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
kind = "number"
min = 0.0
max = 20.0
default = 0.0
"#;

/// The same six records, by hand. A null is a missing field: for a category it is none of the
/// listed ones, not even the empty one.
const CSV: &[u8] = b"x,f,i,u,b,c,raw,y,day\n\
    0.5,0.1,1,4294967295,true,red,red,yes,10\n\
    ,2.5,-2,0,false,green,\xff\xfe,no,10\n\
    NaN,3e38,3,1,(null),,,yes,10\n\
    1e300,,,2,true,(null),green,no,10\n\
    -0.1,1e-7,5,3,true,\"a,b\",(null),(null),10\n\
    7,1,9,4,false,red,red,maybe,10\n";

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
    let told = "name = \"day\"\n# dates in the file\n";
    assert!(draft.contains(told), "{draft}");
}

/// All records have the day 10, 1970-01-11.
#[test]
fn dates_of_the_file_are_dates_of_the_schema() {
    let number = "kind = \"number\"\nmin = 0.0\nmax = 20.0\ndefault = 0.0\n";
    let dates =
        "kind = \"date\"\nmin = \"1970-01-01\"\nmax = \"1970-01-21\"\ndefault = \"1970-01-01\"\n";
    let at = SCHEMA.rfind(number).unwrap();
    let text = format!("{}{dates}", &SCHEMA[..at]);
    let of_dates = schema(&text);
    let plain = read_parquet(fixture(), &schema(SCHEMA)).unwrap();
    let table = read_parquet(fixture(), &of_dates).unwrap();
    assert_eq!(bits(&table.design), bits(&plain.design));
    let report = check_parquet(fixture(), &of_dates).unwrap();
    assert_eq!(report.count(ProblemKind::NotADate), 0);
    let hashed = format!("{}kind = \"hash\"\nbuckets = 8\n", &SCHEMA[..at]);
    assert!(read_parquet(fixture(), &schema(&hashed)).is_ok());
    // Numbers are none, and texts are looked at one by one.
    for (name, fine) in [("i", false), ("b", false), ("x", false), ("c", true)] {
        let start = SCHEMA.find("[[column]]").unwrap();
        let text = format!("{}[[column]]\nname = \"{name}\"\n{dates}", &SCHEMA[..start]);
        let read = read_parquet(fixture(), &schema(&text));
        let refused = matches!(read, Err(TabularError::NotDates { column, .. }) if column == name);
        assert_eq!(refused, !fine, "{name}");
    }
}

/// The texts of a typed column: `true`, a number in its shortest form, any text.
#[test]
fn the_type_of_a_column_says_which_labels_it_can_hold() {
    let label = |column: &str, told_apart: &str| {
        schema(&format!(
            "format = 1\nrow_norm = 2.0\nintercept = 1.0\nignore_unlisted = true\n[label]\ncolumn = \"{column}\"\n\
             values = [\"rest\", \"{told_apart}\"]\npositive = \"{told_apart}\"\ndefault = \"rest\"\n"
        ))
    };
    for (column, can, can_not) in [
        ("b", vec!["true", "false"], vec!["1", "TRUE", "yes", "True"]),
        ("i", vec!["1", "-2"], vec!["1.0", "yes", "01", "+1"]),
        ("u", vec!["4294967295"], vec!["1.0"]),
        ("x", vec!["0.5", "7", "1e300"], vec!["7.0", "yes", "0,5"]),
        ("f", vec!["0.1", "1e-7"], vec!["1.0"]),
        ("y", vec!["yes", "1.0", "0,5"], vec![]),
    ] {
        for (values, wanted) in [(can, true), (can_not, false)] {
            for value in values {
                let found = parquet_can_hold_the_label(fixture(), &label(column, value)).unwrap();
                assert_eq!(found, wanted, "{column} {value}");
            }
        }
    }
    assert!(parquet_can_hold_the_label(fixture(), &label("z", "1")).is_err());
    // A label that is a number: truth values are none.
    for (column, wanted) in [
        ("b", false),
        ("i", true),
        ("f", true),
        ("x", true),
        ("y", true),
    ] {
        let schema = schema(&format!(
            "format = 1\nrow_norm = 2.0\nintercept = 1.0\nignore_unlisted = true\n[label]\ncolumn = \"{column}\"\n\
             kind = \"number\"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n"
        ));
        let found = parquet_can_hold_the_label(fixture(), &schema).unwrap();
        assert_eq!(found, wanted, "{column}");
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
