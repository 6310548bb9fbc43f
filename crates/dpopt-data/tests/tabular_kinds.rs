//! What a schema can say beside ranges and lists: each kind by values from outside, round trips, and any bytes in a line.

use dpopt_data::tabular::{
    Encoder, Fields, Layout, Schema, SchemaProblem, TabularError, check_from, draft_schema_from,
    read_features_from, read_table_from,
};

const HEAD: &str = "format = 1\nrow_norm = 100.0\nintercept = 0.0\n";
const LABEL: &str =
    "[label]\ncolumn = \"y\"\nvalues = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"\n";

/// A schema with this at its top and these columns.
fn schema(top: &str, columns: &str) -> Result<Schema, TabularError> {
    Schema::from_toml(&format!("{HEAD}{top}\n{LABEL}{columns}"), "s.toml")
}

/// A schema that loads, and that is the same when it is written and read again.
#[track_caller]
fn good(top: &str, columns: &str) -> Schema {
    let schema = schema(top, columns).unwrap();
    let text = schema.to_toml();
    assert_eq!(Schema::from_toml(&text, "again").unwrap(), schema, "{text}");
    let json = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
    schema
}

#[track_caller]
fn refused(top: &str, columns: &str, of: &str) -> SchemaProblem {
    match schema(top, columns) {
        Err(TabularError::Schema { key, problem, .. }) => {
            assert!(key.contains(of), "{key}: {problem}");
            problem
        }
        other => panic!("{top}{columns}: {other:?}"),
    }
}

/// Rows of a table, dense, and labels.
fn rows(text: &str, schema: &Schema) -> (Vec<Vec<f64>>, Vec<f32>) {
    let table = read_table_from(text.as_bytes(), "t", schema).unwrap();
    let rows = (0..table.design.rows()).map(|i| {
        let mut all = vec![0.0; table.design.columns()];
        table.design.row(i).for_each(|j, x| all[j] = x);
        all
    });
    (rows.collect(), table.labels)
}

const X: &str =
    "[[column]]\nname = \"x\"\nkind = \"number\"\nmin = 0.0\nmax = 10.0\ndefault = 0.0\n";

#[test]
fn a_delimiter_is_one_byte_that_every_reader_cuts_at() {
    let comma = good("", X);
    let (values, labels) = rows("x,y\n5,yes\n\"2,5\",no\n,\n", &comma);
    assert_eq!(comma.delimiter(), b',');
    assert_eq!(good("delimiter = \",\"", X), comma);
    for (written, byte) in [(";", ";"), ("\\t", "\t"), ("|", "|"), (" ", " ")] {
        let schema = good(&format!("delimiter = \"{written}\""), X);
        assert_eq!(schema.delimiter(), byte.as_bytes()[0]);
        assert!(!schema.encodes_as(&comma));
        let text = format!("x{byte}y\n5{byte}yes\n\"2,5\"{byte}no\n{byte}\n");
        assert_eq!(
            rows(&text, &schema),
            (values.clone(), labels.clone()),
            "{written:?}"
        );
        let report = check_from(text.as_bytes(), "t", &schema).unwrap();
        assert_eq!((report.records, report.positives), (3, Some(1)));
        let features = read_features_from(format!("x{byte}z\n").as_bytes(), "t", &schema);
        assert!(
            matches!(features, Err(TabularError::UnlistedColumns { columns, .. }) if columns == ["z"])
        );
        // A quoted delimiter is text.
        let one = rows(&format!("x{byte}y\n\"5{byte}\"{byte}yes\n"), &schema);
        assert_eq!(one.1, [1.0]);
    }
    for bad in ["", ";;", "\\\"", "\\n", "\\r", "\u{a7}", "\\u00e9"] {
        let problem = refused(&format!("delimiter = \"{bad}\""), X, "delimiter");
        assert!(matches!(problem, SchemaProblem::Delimiter(_)), "{bad}");
    }
    let array = format!("{HEAD}delimiter = \";\"\n{LABEL}[array]\ncolumns = 2\n");
    assert!(matches!(
        Schema::from_toml(&array, "s"),
        Err(TabularError::Schema {
            problem: SchemaProblem::NotApplicable("array"),
            ..
        })
    ));
}

#[test]
fn a_draft_finds_the_delimiter() {
    for (delimiter, line) in [
        (",", None),
        (";", Some("delimiter = \";\"")),
        ("\t", Some("delimiter = \"\\u0009\"")),
        ("|", Some("delimiter = \"|\"")),
    ] {
        let d = delimiter;
        let mut text = format!("\u{feff}x{d}\"a, b; c\"{d}z{d}y\n");
        for i in 0..40 {
            text += &format!("{}{d}u{}{d}1,5{d}{}\n", i % 25, i % 3, ["no", "yes"][i % 2])
                .replace("1,5", if d == "," { "1.5" } else { "1,5" });
        }
        let draft = draft_schema_from(text.as_bytes(), "t", None).unwrap();
        assert_eq!(draft.contains("delimiter = "), line.is_some(), "{draft}");
        assert!(line.is_none_or(|line| draft.contains(line)), "{draft}");
        let schema = Schema::from_toml(&draft, "draft").unwrap();
        assert!(
            check_from(text.as_bytes(), "t", &schema)
                .unwrap()
                .is_clean()
        );
        assert_eq!(rows(&text, &schema).0.len(), 40);
    }
}

/// A line is a row: by the reader, by itself, and no longer than the norm.
#[track_caller]
fn purely(schema: &Schema, header: &str, words: &[&str]) {
    let mut random = dpopt_testkit::Draws::new(7);
    let encoder = Encoder::new(schema);
    let layout = Layout::from_header(header.as_bytes(), schema, true, "t").unwrap();
    let mut text = format!("{header}\n").into_bytes();
    let mut lines = Vec::new();
    for _ in 0..1000 {
        let mut line = Vec::new();
        for _ in 0..random.index(9) {
            match random.index(3) {
                0 => line.push(random.word() as u8),
                1 => line.push(schema.delimiter()),
                _ => line.extend_from_slice(words[random.index(words.len())].as_bytes()),
            }
        }
        line.retain(|byte| *byte != b'\n');
        text.extend_from_slice(&line);
        text.push(b'\n');
        // One carriage return before the line feed is no part of the line.
        lines.push(line.strip_suffix(b"\r").map(<[u8]>::to_vec).unwrap_or(line));
    }
    let table = read_table_from(&text[..], "t", schema).unwrap();
    assert_eq!((table.design.rows(), table.labels.len()), (1000, 1000));
    let (mut fields, mut row) = (Fields::new(), Vec::new());
    for (i, line) in lines.iter().enumerate() {
        let label = encoder.encode_line(&layout, line, &mut fields, &mut row);
        assert_eq!(label, table.labels[i]);
        let mut stored = Vec::new();
        table
            .design
            .row(i)
            .for_each(|j, x| stored.push((j as u32, x as f32)));
        assert_eq!(stored, row, "{:?}", String::from_utf8_lossy(line));
        assert!(
            row.iter()
                .all(|(j, x)| x.is_finite() && (*j as usize) < schema.dim())
        );
        assert!(row.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let norm = row
            .iter()
            .map(|(_, x)| f64::from(*x).powi(2))
            .sum::<f64>()
            .sqrt();
        assert!(norm <= schema.row_norm() * (1.0 + 1e-14), "{norm}");
    }
    assert_eq!(schema.feature_names().len(), schema.dim());
}

#[test]
fn any_bytes_between_other_delimiters_are_one_row() {
    for delimiter in [";", "\\t", "|", " "] {
        let schema = good(&format!("delimiter = \"{delimiter}\""), X);
        let byte = char::from(schema.delimiter());
        purely(
            &schema,
            &format!("x{byte}y"),
            &["5", "yes", "\"", "\"\"", "1,5", "\t", " ", "nan"],
        );
    }
}
