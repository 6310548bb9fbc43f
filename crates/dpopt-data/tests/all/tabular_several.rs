//! Labels of three values or more: a public list, in every format; what is none of them becomes the default, without a word.

use dpopt_data::formats::Format;
use dpopt_data::tabular::{
    ArrayFiles, Groups, ProblemKind, Schema, SchemaProblem, Several, TabularError, check_from,
    convert_table_from, draft_schema_from, read_rows, read_table_from, schema_of_rows,
};
use dpopt_linalg::RowFile;
use tempfile::TempDir;

use crate::support::idx;

const COLUMN: &str = "[[column]]\nname = \"x\"\nkind = \"number\"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n\
    [[column]]\nname = \"c\"\nkind = \"category\"\nvalues = [\"a\", \"b\"]\nreference = \"z\"\n";

fn text(label: &str) -> String {
    format!(
        "format = 1\nrow_norm = 2.0\nintercept = 1.0\n[label]\ncolumn = \"y\"\n{label}\n{COLUMN}"
    )
}

fn schema() -> Schema {
    let label = "values = [\"red\", \"green\", \"blue\", \"3\"]\ndefault = \"green\"";
    Schema::from_toml(&text(label), "schema").unwrap()
}

/// A line's label, and what it becomes.
const LABELS: [(&str, f32); 9] = [
    ("red", 0.0),
    ("green", 1.0),
    (" blue ", 2.0),
    ("\"blue\"", 2.0),
    ("3", 3.0),
    // The default.
    ("3.0", 1.0),
    ("", 1.0),
    ("purple", 1.0),
    ("RED", 1.0),
];

#[test]
fn a_label_is_its_place_in_the_list_and_anything_else_the_default() {
    let lines = LABELS.iter().map(|(label, _)| format!("0.5,a,{label}\n"));
    let table = format!("x,c,y\n{}0.5\n\n", lines.collect::<String>());
    let expected: Vec<f32> = LABELS
        .iter()
        .map(|(_, code)| *code)
        .chain([1.0, 1.0])
        .collect();
    let schema = schema();
    let read = read_table_from(table.as_bytes(), "table", &schema).unwrap();
    assert_eq!(read.labels, expected);
    let label = schema.label();
    assert!(label.classes().is_none() && label.range().is_none());
    assert_eq!(label.values().len(), 4);
    assert_eq!(label.told_apart().collect::<Vec<_>>(), ["red", "blue", "3"]);
    assert_eq!(label.largest_code().to_bits(), 3f64.to_bits());
    // The report counts what is none of the values: "3.0", "", "purple" and "RED".
    let report = check_from(table.as_bytes(), "table", &schema).unwrap();
    assert_eq!(report.count(ProblemKind::UnknownLabel), 4);
    assert!(report.positives.is_none());
    // A file of rows keeps codes and schema.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.dpr");
    convert_table_from(table.as_bytes(), "table", &schema, &path).unwrap();
    assert_eq!(read_rows(&path).unwrap().labels, expected);
    assert_eq!(
        schema_of_rows(&RowFile::open(&path).unwrap()).unwrap(),
        schema
    );
}

#[test]
fn a_schema_is_written_as_it_is_read() {
    let schema = schema();
    assert_eq!(
        Schema::from_toml(&schema.to_toml(), "again").unwrap(),
        schema
    );
    let json = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
}

#[test]
fn labels_of_arrays_are_compared_as_numbers() {
    let folder = TempDir::new().unwrap();
    let labels = [7u8, 0, 4, 9, 4, 0];
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let files = ArrayFiles {
        format: Format::Idx,
        rows: put("x", &idx(8, &[6, 2], &[10; 12])),
        labels: Some(put("y", &idx(8, &[6], &labels))),
    };
    let label = "values = [\"0\", \"4.0\", \"9\"]\ndefault = \"4.0\"";
    let head = text(label).replace(COLUMN, "[array]\ncolumns = 2\n");
    let schema = Schema::from_toml(&head, "schema").unwrap();
    assert_eq!(
        files.read(&schema).unwrap().labels,
        [1.0, 0.0, 1.0, 2.0, 1.0, 0.0]
    );
    assert!(files.can_hold_the_label(&schema));
    let report = files.check(&schema).unwrap();
    assert_eq!((report.unknown_labels, report.positives), (1, None));
    assert!(
        report
            .to_string()
            .contains("unknown label, default used: 1")
    );
    // A draft lists all of them, in the order of the numbers, the commonest as the default.
    let draft = files.draft().unwrap();
    assert!(
        draft.contains("values = [\"0\", \"4\", \"7\", \"9\"]"),
        "{draft}"
    );
    assert!(draft.contains("default = \"4\""), "{draft}");
    Schema::from_toml(&draft, "draft").unwrap();
    // A word is no number.
    let words = head.replace("\"9\"", "\"nine\"");
    assert!(!files.can_hold_the_label(&Schema::from_toml(&words, "schema").unwrap()));
}

#[test]
fn a_draft_of_a_table_lists_a_few_values() {
    let lines: String = (0..40)
        .map(|i| format!("{i},{}\n", ["u", "v", "w", "u"][i % 4]))
        .collect();
    let draft = draft_schema_from(format!("x,y\n{lines}").as_bytes(), "t", None).unwrap();
    assert!(draft.contains("values = [\"u\", \"v\", \"w\"]"), "{draft}");
    assert!(draft.contains("default = \"u\""), "{draft}");
    let schema = Schema::from_toml(&draft, "draft").unwrap();
    assert_eq!(schema.label().several().unwrap().values, ["u", "v", "w"]);
}

#[test]
fn a_category_of_more_values_becomes_the_label() {
    let column = COLUMN.replace("[\"a\", \"b\"]", "[\"a\", \"b\", \"c\"]");
    let two = "values = [\"0\", \"1\"]\npositive = \"1\"\ndefault = \"0\"";
    let text = text(two).replace(COLUMN, &column);
    let schema = Schema::from_toml(&text, "schema").unwrap();
    let moved = schema.with_label(Some("c"), None).unwrap();
    let several = moved.label().several().unwrap();
    // The reference is the default; without one the first value is.
    assert_eq!((several.values.len(), several.default.as_str()), (4, "z"));
    let without = text.replace("reference = \"z\"\n", "");
    let schema = Schema::from_toml(&without, "schema").unwrap();
    let moved = schema.with_label(Some("c"), None).unwrap();
    assert_eq!(moved.label().several().unwrap().default, "a");
    let refused = schema.with_label(Some("c"), Some("b")).unwrap_err();
    let problem = |error: TabularError| match error {
        TabularError::Schema { problem, .. } => problem,
        other => panic!("{other}"),
    };
    assert_eq!(problem(refused), SchemaProblem::PositiveOfSeveral(3));
    assert!(Groups::new(&moved, &[]).is_err());
}

#[test]
fn a_label_of_too_many_values_is_refused() {
    let many: Vec<String> = (0..=Several::MOST).map(|i| format!("\"{i}\"")).collect();
    let label = format!("values = [{}]\ndefault = \"0\"", many.join(","));
    assert!(matches!(
        Schema::from_toml(&text(&label), "schema"),
        Err(TabularError::Schema {
            problem: SchemaProblem::TooManyValues { .. },
            ..
        })
    ));
}
