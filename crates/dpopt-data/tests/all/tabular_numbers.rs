//! Labels that are numbers: a public range, in every format; what a record holds is clipped, or becomes the default, without a word.

use dpopt_data::formats::Format;
use dpopt_data::tabular::{
    ArrayFiles, ColumnKind, ProblemKind, Schema, SchemaProblem, TabularError, check_from,
    convert_table_from, draft_schema_from, read_features_from, read_rows, read_table_from,
    schema_of_rows,
};
use dpopt_linalg::RowFile;
use tempfile::TempDir;

use crate::support::npy;

const COLUMN: &str = "[[column]]\nname = \"x\"\nkind = \"number\"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n\
    [[column]]\nname = \"c\"\nkind = \"category\"\nvalues = [\"a\", \"b\"]\nreference = \"a\"\n";

fn text(label: &str) -> String {
    format!(
        "format = 1\nrow_norm = 2.0\nintercept = 1.0\n[label]\ncolumn = \"y\"\n{label}\n{COLUMN}"
    )
}

/// From 20 to 60: the middle is 40 and half of the width 20.
fn schema() -> Schema {
    let label = "kind = \"number\"\nmin = 20.0\nmax = 60\ndefault = 30";
    Schema::from_toml(&text(label), "schema").unwrap()
}

/// A line's label, and what it becomes.
const LABELS: [(&str, f32); 17] = [
    ("40", 0.0),
    ("20", -1.0),
    ("60", 1.0),
    ("50", 0.5),
    (" 5e1 ", 0.5),
    ("\"50\"", 0.5),
    ("45.5", 0.275),
    // Clipped.
    ("0", -1.0),
    ("-1e300", -1.0),
    ("61", 1.0),
    ("1e308", 1.0),
    // The default, 30.
    ("NaN", -0.5),
    ("inf", -0.5),
    ("1e400", -0.5),
    ("", -0.5),
    ("forty", -0.5),
    ("40 years", -0.5),
];

fn table() -> String {
    let lines = LABELS.iter().map(|(label, _)| format!("0.5,a,{label}\n"));
    // A ragged line and a blank one have the default too.
    format!("x,c,y\n{}0.5\n\n", lines.collect::<String>())
}

fn expected() -> Vec<f32> {
    let labels = LABELS.iter().map(|(_, label)| *label);
    labels.chain([-0.5, -0.5]).collect()
}

#[test]
fn a_number_is_clipped_and_scaled_and_anything_else_is_the_default() {
    let schema = schema();
    let range = schema.label().range().unwrap();
    assert_eq!(
        (range.min, range.max, range.default, range.half()),
        (20.0, 60.0, 30.0, 20.0)
    );
    assert!(schema.label().classes().is_none());
    let read = read_table_from(table().as_bytes(), "table", &schema).unwrap();
    assert_eq!(read.labels, expected());
    // And back.
    for (encoded, number) in [
        (-1.0, 20.0),
        (0.0, 40.0),
        (1.0, 60.0),
        (0.275, 45.5),
        (2.0, 80.0),
    ] {
        assert!((range.number(encoded) - number).abs() < 1e-12);
    }
    // For prediction the label may be absent.
    let rows = read_features_from("x,c\n0.5,a\n".as_bytes(), "table", &schema).unwrap();
    assert_eq!(rows.rows(), 1);
}

#[test]
fn the_widest_ranges_do_no_harm() {
    for (min, max) in [(-1e100, 1e100), (0.0, 1e100), (1e90, 2e90), (-1e-99, 1e-99)] {
        let label = format!("kind = \"number\"\nmin = {min:?}\nmax = {max:?}\ndefault = {min:?}");
        let schema = Schema::from_toml(&text(&label), "schema").unwrap();
        let lines = format!("x,c,y\n0,a,{min:e}\n0,a,{max:e}\n0,a,0\n0,a,1e308\n0,a,\n");
        let read = read_table_from(lines.as_bytes(), "table", &schema).unwrap();
        assert_eq!((read.labels[0], read.labels[1]), (-1.0, 1.0));
        assert_eq!((read.labels[3], read.labels[4]), (1.0, -1.0));
        assert!(read.labels.iter().all(|y| y.abs() <= 1.0));
    }
}

#[test]
fn a_schema_is_written_and_read_back() {
    let schema = schema();
    let again = Schema::from_toml(&schema.to_toml(), "again").unwrap();
    assert_eq!(schema, again);
    let json = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
    // The kind can be said of two values too, and is left out when written.
    let classes = "kind = \"classes\"\nvalues = [\"0\", \"1\"]\npositive = \"1\"\ndefault = \"0\"";
    let classes = Schema::from_toml(&text(classes), "classes").unwrap();
    assert!(!classes.to_toml().contains("classes"));
    assert_eq!(
        Schema::from_toml(&classes.to_toml(), "again").unwrap(),
        classes
    );
}

/// A finite label beyond single precision is clipped like any other, in every format, and its row stays.
#[test]
fn huge_labels_are_clipped_in_every_format() {
    let place = TempDir::new().unwrap();
    let path = |name: &str| place.path().join(name);
    let array = "format = 1\nrow_norm = 2.0\nintercept = 0.0\n[label]\ncolumn = \"y\"\nkind = \"number\"\nmin = 20.0\nmax = 60.0\n\
        default = 30.0\n[array]\ncolumns = 1\n";
    let array = Schema::from_toml(array, "array").unwrap();
    let wanted = [1.0, -1.0, -0.5];
    std::fs::write(path("t.libsvm"), "1e39 1:0.5\n-1e300 1:0.5\n1e400 1:0.5\n").unwrap();
    let files = ArrayFiles {
        format: Format::Libsvm,
        rows: path("t.libsvm"),
        labels: None,
    };
    let read = files.read(&array).unwrap();
    assert_eq!(read.labels, wanted);
    assert_eq!(
        read.design.row(0).norm_upper(),
        read.design.row(1).norm_upper()
    );
    assert!(read.design.row(0).norm_upper() >= 0.5);
    let doubles = |values: &[f64]| {
        let header = format!(
            "{{'descr': '<f8', 'fortran_order': False, 'shape': ({},), }}",
            values.len()
        );
        let header = format!("{header:<117}\n");
        npy(
            &header,
            &values
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect::<Vec<u8>>(),
        )
    };
    std::fs::write(path("x.npy"), doubles(&[0.5; 3])).unwrap();
    std::fs::write(path("y.npy"), doubles(&[1e39, -1e300, f64::INFINITY])).unwrap();
    let files = ArrayFiles {
        format: Format::Npy,
        rows: path("x.npy"),
        labels: Some(path("y.npy")),
    };
    assert_eq!(files.read(&array).unwrap().labels, wanted);
    let table = "x,c,y\n0.5,a,1e39\n0.5,a,-1e300\n0.5,a,1e400\n";
    let read = read_table_from(table.as_bytes(), "table", &schema()).unwrap();
    assert_eq!(read.labels, wanted);
}

/// A number has no positive value; another column can take its place.
#[test]
fn a_label_of_numbers_is_replaced_and_has_no_positive_value() {
    let error = schema().with_label(None, Some("40")).unwrap_err();
    assert!(matches!(
        error,
        TabularError::Schema { problem: SchemaProblem::NoPositive(ref column), .. } if column == "y"
    ));
    // Of a column that the schema says nothing of no range is known: the former one would be wrong without a word.
    let error = schema().with_label(Some("z"), None).unwrap_err();
    assert!(matches!(
        error,
        TabularError::Schema { problem: SchemaProblem::OtherRange { ref former, ref column }, .. } if former == "y" && column == "z"
    ));
    let classes = schema().with_label(Some("c"), Some("b")).unwrap();
    assert_eq!(classes.label().classes().unwrap().positive, "b");
    let kinds = classes
        .columns()
        .iter()
        .map(|column| (&column.name[..], &column.kind));
    assert!(
        kinds
            .into_iter()
            .any(|(name, kind)| name == "y" && *kind == ColumnKind::Ignore)
    );
}

#[test]
fn a_check_tells_what_is_clipped_and_what_is_no_number() {
    let report = check_from(table().as_bytes(), "table", &schema()).unwrap();
    assert_eq!((report.records, report.positives), (19, None));
    assert_eq!(report.count(ProblemKind::OutOfRange), 4);
    assert_eq!(report.count(ProblemKind::NotANumber), 6);
    assert_eq!(report.count(ProblemKind::UnknownLabel), 0);
    assert!(!report.to_string().contains("positive"));
    let draft = draft_schema_from(table().as_bytes(), "table", None).unwrap();
    assert!(draft.contains("kind = \"number\"") && draft.contains("public range"));
}

#[test]
fn arrays_and_files_of_rows_hold_numbers() {
    let place = TempDir::new().unwrap();
    let path = |name: &str| place.path().join(name);
    // LIBSVM: labels are numbers in single precision.
    std::fs::write(path("t.libsvm"), "40 1:0.5\n70 1:1\nnan 1:0\n-5 1:0.25\n").unwrap();
    let array = "format = 1\nrow_norm = 2.0\nintercept = 0.0\n[label]\ncolumn = \"y\"\nkind = \"number\"\nmin = 20.0\nmax = 60.0\n\
        default = 30.0\n[array]\ncolumns = 1\n";
    let array = Schema::from_toml(array, "array").unwrap();
    let files = ArrayFiles {
        format: Format::Libsvm,
        rows: path("t.libsvm"),
        labels: None,
    };
    let labels = files.read(&array).unwrap().labels;
    assert_eq!((labels[0], labels[1], labels[3]), (0.0, 1.0, -1.0));
    // A label that can't be read makes a row of zeros of its line.
    assert_eq!(labels[2], -0.5);
    assert!(files.can_hold_the_label(&array));
    let report = files.check(&array).unwrap();
    assert_eq!(report.positives, None);
    assert!(!report.to_string().contains("positive"));
    // A table as a file of rows.
    convert_table_from(table().as_bytes(), "table", &schema(), path("t.dpr")).unwrap();
    assert_eq!(read_rows(path("t.dpr")).unwrap().labels, expected());
    let rows = RowFile::open(path("t.dpr")).unwrap();
    assert_eq!(schema_of_rows(&rows).unwrap(), schema());
}
