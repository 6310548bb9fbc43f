//! What a converter writes is what the reader of the same format gives, to the bit.

use std::path::{Path, PathBuf};

use dpopt_data::formats::{Format, FormatError};
use dpopt_data::tabular::{
    ArrayFiles, EncodedTable, Schema, TabularError, convert_table, read_rows, read_table,
    schema_of_rows,
};
use dpopt_linalg::{Design, FileEntry, FileLayout, Row};
use tempfile::TempDir;

use crate::support;

const TABLE: &str = "format = 1\nrow_norm = 2.0\nintercept = 1.0\nignore_unlisted = true\n\
    [label]\ncolumn = \"y\"\nvalues = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"\n\
    [[column]]\nname = \"x\"\nkind = \"number\"\nmin = 0.0\nmax = 10.0\ndefault = 0.0\nbins = [5.0]\nlinear = true\n\
    [[column]]\nname = \"c\"\nkind = \"category\"\nvalues = [\"a\", \"b,c\"]\n";

fn array_schema(intercept: f64, scale: f64, row_norm: f64) -> Schema {
    let text = format!(
        "format = 1\nrow_norm = {row_norm:?}\nintercept = {intercept:?}\n[label]\ncolumn = \"l\"\nvalues = [\"1\", \"other\"]\n\
         positive = \"1\"\ndefault = \"other\"\n[array]\ncolumns = 7\nscale = {scale:?}\n"
    );
    Schema::from_toml(&text, "schema").unwrap()
}

fn bits(design: &Design, i: usize) -> (Vec<u32>, Vec<u64>, u32) {
    match design.row(i) {
        Row::Dense(x) => (vec![0], x.iter().map(|x| x.to_bits()).collect(), 0),
        Row::Dense32(x) => (
            vec![1],
            x.iter().map(|x| u64::from(x.to_bits())).collect(),
            0,
        ),
        Row::Bytes(x, f) => (
            vec![2],
            x.iter().map(|&x| u64::from(x)).collect(),
            f.to_bits(),
        ),
        Row::Sparse(j, x) => (
            j.to_vec(),
            x.iter().map(|x| u64::from(x.to_bits())).collect(),
            1,
        ),
        Row::OneHot(j, f) => (j.to_vec(), vec![], f.to_bits()),
    }
}

fn assert_same(a: &EncodedTable, b: &EncodedTable) {
    assert_eq!(a.row_norm, b.row_norm);
    assert_eq!(a.labels, b.labels);
    assert_eq!(
        (a.design.rows(), a.design.columns()),
        (b.design.rows(), b.design.columns())
    );
    for i in 0..a.design.rows() {
        assert_eq!(bits(&a.design, i), bits(&b.design, i), "row {i}");
    }
}

fn write(path: &Path, bytes: &[u8], zip: bool) {
    let packed = if zip {
        support::gzip(bytes)
    } else {
        bytes.to_vec()
    };
    std::fs::write(path, packed).unwrap();
}

#[test]
fn tables_of_text() {
    let folder = TempDir::new().unwrap();
    let (path, out) = (folder.path().join("t.csv"), folder.path().join("t.dpr"));
    let schema = Schema::from_toml(TABLE, "schema").unwrap();
    // More records than are gathered at a time, some of them garbage, and none at all.
    for records in [0, 1, 40_000] {
        let mut text = String::from("x,c,y\n");
        for i in 0..records {
            match i % 5 {
                0 => text.push_str(&format!("{},a,yes\n", i % 13)),
                1 => text.push_str("\"oops\n"),
                2 => text.push_str("1e99,\"b,c\",no\n"),
                3 => text.push('\n'),
                _ => text.push_str("nan,,maybe,more,and more\n"),
            }
        }
        for zip in [false, true] {
            write(&path, text.as_bytes(), zip);
            convert_table(&path, &schema, &out).unwrap();
            let found = read_rows(&out).unwrap();
            assert_eq!(found.design.rows(), records);
            assert_same(&found, &read_table(&path, &schema).unwrap());
        }
    }
    let file = dpopt_linalg::RowFile::open(&out).unwrap();
    assert_eq!(schema_of_rows(&file).unwrap(), schema);
    // A file that can't be converted leaves what was there.
    write(&path, b"x,y\n", false);
    assert!(convert_table(&path, &schema, &out).is_err());
    assert_eq!(read_rows(&out).unwrap().design.rows(), 40_000);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

fn npy(descr: &str, shape: &str, fortran: &str, entries: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}}}");
    support::npy(&header, entries)
}

const ROWS: usize = 20_011;

struct Place(TempDir);

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn files(&self, format: Format, rows: &str, labels: Option<&str>) -> ArrayFiles {
        ArrayFiles {
            format,
            rows: self.path(rows),
            labels: labels.map(|labels| self.path(labels)),
        }
    }
}

#[test]
fn arrays_of_every_type() {
    let place = Place(TempDir::new().unwrap());
    let labels: Vec<u8> = (0..ROWS).map(|i| (i % 3) as u8).collect();
    write(
        &place.path("y.npy"),
        &npy("|u1", &format!("({ROWS},)"), "False", &labels),
        true,
    );
    let numbers = (0..ROWS * 7).map(|k| if k == 700 { f64::NAN } else { (k as f64).sin() });
    let types: [(&str, Vec<u8>); 5] = [
        ("<f8", numbers.clone().flat_map(f64::to_le_bytes).collect()),
        (
            "<f4",
            numbers
                .clone()
                .flat_map(|x| (x as f32).to_le_bytes())
                .collect(),
        ),
        (">f8", numbers.clone().flat_map(f64::to_be_bytes).collect()),
        (
            "<i2",
            (0..ROWS * 7)
                .flat_map(|k| (k as i16).to_le_bytes())
                .collect(),
        ),
        ("|u1", (0..ROWS * 7).map(|k| (k * 37 % 251) as u8).collect()),
    ];
    for (descr, entries) in types {
        for schema in [
            array_schema(0.0, 1.0, 1.5),
            array_schema(0.5, 0.25, 3.0),
            array_schema(0.3, 1.0, 0.1),
        ] {
            let shape = format!("({ROWS}, 7)");
            write(
                &place.path("x.npy"),
                &npy(descr, &shape, "False", &entries),
                descr == "<i2",
            );
            let files = place.files(Format::Npy, "x.npy", Some("y.npy"));
            let expected = files.read(&schema).unwrap();
            files.convert(&schema, place.path("x.dpr")).unwrap();
            assert_same(&read_rows(place.path("x.dpr")).unwrap(), &expected);
            // In place where nothing is changed but the length of rows.
            let in_place = files.in_place(&schema);
            if schema.intercept() == 0.0 && ["<f8", "<f4", "|u1"].contains(&descr) {
                let (rows, labels) = in_place.unwrap();
                assert_eq!(labels, expected.labels);
                let FileLayout {
                    entry,
                    rows,
                    columns,
                    ..
                } = rows.layout();
                assert_eq!((rows, columns), (ROWS, 7));
                assert_eq!(matches!(entry, FileEntry::F64), descr == "<f8");
            } else {
                assert!(matches!(
                    in_place,
                    Err(TabularError::Format(FormatError::NotInPlace { .. }))
                ));
            }
        }
    }
    let schema = array_schema(0.0, 1.0, 1.0);
    let entries: Vec<u8> = vec![1; ROWS * 7];
    write(
        &place.path("x.npy"),
        &npy("|u1", &format!("({ROWS}, 7)"), "True", &entries),
        false,
    );
    let files = place.files(Format::Npy, "x.npy", Some("y.npy"));
    assert!(matches!(
        files.convert(&schema, place.path("z.dpr")),
        Err(TabularError::Format(FormatError::ColumnOrder { .. }))
    ));
    // Fewer entries than the header says; labels of another number.
    write(
        &place.path("x.npy"),
        &npy("|u1", &format!("({ROWS}, 7)"), "False", &entries[1..]),
        false,
    );
    assert!(matches!(
        files.convert(&schema, place.path("z.dpr")),
        Err(TabularError::Format(FormatError::Truncated { .. }))
    ));
    write(
        &place.path("x.npy"),
        &npy("|u1", "(3, 7)", "False", &entries[..21]),
        false,
    );
    assert!(matches!(
        files.convert(&schema, place.path("z.dpr")),
        Err(TabularError::LabelCount { .. })
    ));
    let left = std::fs::read_dir(place.0.path()).unwrap();
    let left = left.map(|file| file.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().contains("z.dpr"))
    );
}

#[test]
fn idx_and_libsvm() {
    let place = Place(TempDir::new().unwrap());
    let idx = |sizes: &[u32], entries: &[u8]| support::idx(8, sizes, entries);
    let rows: Vec<u8> = (0..900 * 7).map(|k| (k * 37 % 251) as u8).collect();
    let labels: Vec<u8> = (0..900).map(|i| (i % 3) as u8).collect();
    write(&place.path("x"), &idx(&[900, 7, 1], &rows), true);
    write(&place.path("y"), &idx(&[900], &labels), false);
    let mut text = String::new();
    for i in 0..30_000 {
        match i % 4 {
            0 => text.push_str("1 1:0.5 3:2 7:-1e3\n"),
            1 => text.push_str("oops 1:1\n"),
            2 => text.push_str("2 2:1 9:4 # beyond\n"),
            _ => text.push('\n'),
        }
    }
    write(&place.path("t.svm"), text.as_bytes(), false);
    for schema in [array_schema(0.0, 1.0, 1.5), array_schema(0.5, 0.25, 3.0)] {
        for files in [
            place.files(Format::Idx, "x", Some("y")),
            place.files(Format::Libsvm, "t.svm", None),
        ] {
            files.convert(&schema, place.path("x.dpr")).unwrap();
            assert_same(
                &read_rows(place.path("x.dpr")).unwrap(),
                &files.read(&schema).unwrap(),
            );
        }
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_tables() {
    use dpopt_data::tabular::{convert_parquet, read_parquet};

    let place = Place(TempDir::new().unwrap());
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/table.parquet");
    let schema = Schema::from_toml(TABLE, "schema").unwrap();
    convert_parquet(&table, &schema, place.path("t.dpr")).unwrap();
    let expected = read_parquet(&table, &schema).unwrap();
    assert!(expected.design.rows() > 0);
    assert_same(&read_rows(place.path("t.dpr")).unwrap(), &expected);
}
