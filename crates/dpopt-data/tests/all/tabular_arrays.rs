//! Arrays through a public schema: what a record becomes, and what is an error.

use std::path::PathBuf;

use dpopt_data::formats::Format;
use dpopt_data::tabular::{ArrayFiles, Schema, TabularError, read_table_from};
use dpopt_linalg::Row;
use tempfile::TempDir;

use crate::support::{dense, idx, npy};

fn schema(columns: usize, scale: &str, norm: f64, intercept: f64) -> Schema {
    Schema::from_toml(&text(columns, scale, norm, intercept), "schema").unwrap()
}

fn text(columns: usize, scale: &str, norm: f64, intercept: f64) -> String {
    format!(
        "format = 1\nrow_norm = {norm:?}\nintercept = {intercept:?}\n\
         [label]\ncolumn = \"digit\"\nvalues = [\"3\", \"other\"]\npositive = \"3\"\n\
         default = \"other\"\n[array]\ncolumns = {columns}\nscale = {scale}\n"
    )
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn idx(&self, name: &str, sizes: &[u32], entries: &[u8]) -> PathBuf {
        self.put(name, &idx(8, sizes, entries))
    }

    fn npy(&self, name: &str, shape: &str, entries: &[f32]) -> PathBuf {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
        self.put(
            name,
            &npy(
                &header,
                &entries
                    .iter()
                    .flat_map(|x| x.to_le_bytes())
                    .collect::<Vec<u8>>(),
            ),
        )
    }
}

#[test]
fn images_stay_bytes_and_labels_become_signs() {
    let place = Place::new();
    let files = ArrayFiles {
        format: Format::Idx,
        rows: place.idx("images", &[3, 1, 2], &[0, 4, 8, 12, 255, 255]),
        labels: Some(place.idx("labels", &[3], &[3, 7, 0])),
    };
    let table = files.read(&schema(2, "0.25", 1000.0, 0.0)).unwrap();
    assert!(matches!(table.design.row(1), Row::Bytes([8, 12], 0.25)));
    assert_eq!(table.labels, [1.0, -1.0, -1.0]);
    // An intercept that is a byte keeps them bytes, another one does not; the values are the same.
    let table = files.read(&schema(2, "0.25", 1000.0, 1.0)).unwrap();
    assert!(matches!(table.design.row(1), Row::Bytes([8, 12, 4], 0.25)));
    let table = files.read(&schema(2, "0.25", 1000.0, 0.3)).unwrap();
    let third = f64::from(0.3f32);
    assert_eq!(dense(&table.design)[1], [2.0, 3.0, third]);
    // The bound is public and kept: 2^2 + 3^2 = 13, and bytes are rescaled in place.
    let table = files.read(&schema(2, "0.25", 3.0, 0.0)).unwrap();
    assert_eq!(table.row_norm, 3.0);
    let rows = dense(&table.design);
    assert_eq!(rows[0], [0.0, 1.0]);
    assert!(rows[1][0].hypot(rows[1][1]) <= 3.0 && rows[1][0].hypot(rows[1][1]) > 3.0 - 1e-5);
    assert!((rows[1][0] / rows[1][1] - 2.0 / 3.0).abs() < 1e-15);

    let report = files.check(&schema(2, "0.25", 3.0, 0.0)).unwrap();
    assert_eq!(
        (
            report.records,
            report.positives,
            report.unknown_labels,
            report.rescaled
        ),
        (3, Some(1), 2, 2)
    );
    let draft = files.draft().unwrap();
    assert!(
        draft.contains("READ FROM THE") && draft.contains("columns = 2"),
        "{draft}"
    );
    Schema::from_toml(&draft, "draft").unwrap();
}

#[test]
fn a_record_that_is_not_finite_contributes_nothing_and_changes_no_other() {
    let place = Place::new();
    let labels = Some(place.npy("y.npy", "(3,)", &[3.0, f32::NAN, 1.0]));
    let read = |middle: [f32; 2]| {
        let rows = [[1.0, 2.0], middle, [5.0, 6.0]].concat();
        let files = ArrayFiles {
            format: Format::Npy,
            rows: place.npy("x.npy", "(3, 2)", &rows),
            labels: labels.clone(),
        };
        files.read(&schema(2, "1.0", 100.0, 0.5)).unwrap()
    };
    let good = read([3.0, 4.0]);
    assert_eq!(dense(&good.design)[1], [3.0, 4.0, 0.5]);
    assert_eq!(good.labels, [1.0, -1.0, -1.0]);
    for bad in [[f32::NAN, 1.0], [0.0, f32::INFINITY]] {
        let table = read(bad);
        let rows = dense(&table.design);
        assert_eq!(rows[1], [0.0; 3]);
        assert_eq!(
            [&rows[0], &rows[2]],
            [&dense(&good.design)[0], &dense(&good.design)[2]]
        );
    }
}

/// Labels of these files are in single precision, and so are the values that they are compared with.
#[test]
fn decimal_labels_are_those_of_the_schema() {
    let place = Place::new();
    let files = ArrayFiles {
        format: Format::Libsvm,
        rows: place.put("x.svm", b"0.1 1:1\n0.2 1:1\n0.3 1:1\n0.2 1:1\n"),
        labels: None,
    };
    let with = |values: &str, rest: &str| {
        let text = text(1, "1.0", 10.0, 0.0);
        let label = text.find("values = ").unwrap();
        let array = text.find("[array]").unwrap();
        let text = format!(
            "{}values = {values}\n{rest}\n{}",
            &text[..label],
            &text[array..]
        );
        Schema::from_toml(&text, "schema").unwrap()
    };
    let several = with(r#"["0.1", "0.2", "0.3"]"#, r#"default = "0.1""#);
    assert!(files.can_hold_the_label(&several));
    assert_eq!(files.read(&several).unwrap().labels, [0.0, 1.0, 2.0, 1.0]);
    assert_eq!(files.check(&several).unwrap().unknown_labels, 0);
    let two = with(r#"["0.2", "0.3"]"#, "positive = \"0.2\"\ndefault = \"0.3\"");
    assert_eq!(files.read(&two).unwrap().labels, [-1.0, 1.0, -1.0, 1.0]);
    // Two values that are one number in single precision.
    let codes = with(
        r#"["20230100", "20230101"]"#,
        "positive = \"20230100\"\ndefault = \"20230101\"",
    );
    assert!(!files.can_hold_the_label(&codes));
}

#[test]
fn libsvm_lines_bring_their_labels() {
    let place = Place::new();
    let files = ArrayFiles {
        format: Format::Libsvm,
        rows: place.put("x.svm", b"3 1:2 3:4\nbroken\n7 2:1 9:9\n"),
        labels: None,
    };
    let table = files.read(&schema(3, "0.5", 100.0, 1.0)).unwrap();
    assert_eq!(
        dense(&table.design),
        [[1.0, 0.0, 2.0, 1.0], [0.0; 4], [0.0, 0.5, 0.0, 1.0]]
    );
    assert_eq!(table.labels, [1.0, -1.0, -1.0]);
    let report = files.check(&schema(3, "0.5", 100.0, 1.0)).unwrap();
    assert!(!report.lines.as_ref().unwrap().is_clean());
    assert!(report.to_string().contains("line 2"));
    let draft = files.draft().unwrap();
    assert!(draft.contains("columns = 9"), "{draft}");
    assert_eq!(
        files
            .read_features(&schema(3, "0.5", 100.0, 1.0))
            .unwrap()
            .rows(),
        3
    );
}

#[test]
fn what_does_not_fit_is_an_error_without_a_count_of_records() {
    let place = Place::new();
    let files = |labels: Option<PathBuf>| ArrayFiles {
        format: Format::Npy,
        rows: place.npy("x.npy", "(3, 2)", &[0.0; 6]),
        labels,
    };
    let fit = schema(2, "1.0", 1.0, 0.0);
    assert!(matches!(
        files(None).read(&fit),
        Err(TabularError::LabelsMissing { .. })
    ));
    let two = files(Some(place.npy("y.npy", "(2,)", &[0.0; 2])));
    let error = two.read(&fit).err().unwrap();
    assert!(matches!(error, TabularError::LabelCount { .. }));
    assert!(
        error
            .to_string()
            .ends_with("y.npy: rows and labels differ in number")
    );
    assert!(two.read_features(&fit).is_ok());
    let wide = files(Some(place.npy("z.npy", "(3, 1)", &[0.0; 3])));
    assert!(wide.read(&fit).is_ok());
    let error = wide.read(&schema(3, "1.0", 1.0, 0.0)).err().unwrap();
    assert!(matches!(
        error,
        TabularError::ArrayWidth {
            columns: 2,
            declared: 3,
            ..
        }
    ));
    let matrix = files(Some(place.npy("m.npy", "(3, 2)", &[0.0; 6])));
    assert!(matches!(matrix.read(&fit), Err(TabularError::Format(_))));
    // A schema of a table is none of an array, nor the other way round.
    let table = text(2, "1.0", 1.0, 1.0);
    let table = table.split("[array]").next().unwrap();
    let table = Schema::from_toml(table, "schema").unwrap();
    assert!(matches!(
        wide.read(&table),
        Err(TabularError::SchemaKind { .. })
    ));
    let error = read_table_from(&b"digit\n3\n"[..], "t.csv", &fit)
        .err()
        .unwrap();
    assert!(matches!(error, TabularError::SchemaKind { .. }));
}

#[test]
fn a_schema_of_an_array_is_checked_and_survives_toml() {
    let good = schema(3, "0.5", 2.0, 1.0);
    assert_eq!(good.dim(), 4);
    assert_eq!(good.feature_names(), ["x0", "x1", "x2", "(intercept)"]);
    assert_eq!(Schema::from_toml(&good.to_toml(), "again").unwrap(), good);
    let json = serde_json::to_string(&good).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), good);
    let other = good.with_label(None, Some("other")).unwrap();
    assert_eq!(other.label().classes().unwrap().positive, "other");
    assert_eq!(good.with_label(Some("name"), None).unwrap().dim(), 4);
}
