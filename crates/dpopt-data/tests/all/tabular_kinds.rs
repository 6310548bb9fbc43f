//! What a schema can say beside ranges and lists: each kind by values from outside, round trips, and any bytes in a line.

use dpopt_data::tabular::{
    Encoder, Fields, Layout, Schema, SchemaProblem, TabularError, check_from, draft_schema_from,
    read_features_from, read_table_from,
};

use crate::support::dense;

const HEAD: &str = "format = 1\nrow_norm = 1e9\nintercept = 0.0\n";
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
    (dense(&table.design), table.labels)
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
fn purely(schema: &Schema, header: &str, words: &str) {
    let words: Vec<&str> = words.split('|').collect();
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
        purely(&schema, &format!("x{byte}y"), "5|yes|\"|\"\"|1,5|\t| |nan");
    }
}

const MISSING: &str = "missing = true\n";

#[test]
fn a_missing_number_has_a_feature() {
    let with = |more: &str| {
        good(
            "",
            &format!(
                "{}{MISSING}{more}",
                X.replace("default = 0.0", "default = 5.0")
            ),
        )
    };
    let plain = with("");
    assert_eq!(plain.feature_names(), ["x", "x = (missing)"]);
    let lines = "x,y\n10,no\n0,no\n,no\nNA,no\nabc,no\nnan,no\ninf,no\n1e999,no\n\n";
    let expected = [[1.0, 0.0], [0.0, 0.0]].into_iter().chain([[0.5, 1.0]; 7]);
    assert_eq!(
        rows(lines, &plain).0,
        expected.map(Vec::from).collect::<Vec<_>>()
    );
    // A record that ends before the column lacks it.
    assert_eq!(rows("y,x\nno\n", &plain).0, [[0.5, 1.0]]);
    let binned = with("bins = [4.0, 8.0]\nscale = 2.0\n");
    assert_eq!(
        binned.feature_names(),
        [
            "x in [0, 4)",
            "x in [4, 8)",
            "x in [8, 10]",
            "x = (missing)"
        ]
    );
    assert_eq!(
        rows("x,y\n9,no\n?,no\n", &binned).0,
        [[0.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 2.0]]
    );
    let both = with("bins = [4.0]\nlinear = true\n");
    assert_eq!(both.dim(), 4);
    // What says that there is no number is foreseen, another text is not.
    let report = check_from(lines.as_bytes(), "t", &plain).unwrap();
    assert_eq!(
        report.count(dpopt_data::tabular::ProblemKind::NotANumber),
        3
    );
    assert_eq!(good("", &format!("{X}missing = false\n")), good("", X));
    for schema in [plain, binned, both] {
        purely(&schema, "x,y", "5|NA|?|\"\"|1e9|nan|yes");
    }
}

#[test]
fn a_standard_number_is_clipped_and_then_standardised() {
    let keys = "transform = \"standard\"\nmean = 4.0\nsd = 2.0\n";
    let standard = good("", &format!("{X}{keys}"));
    let lines = "x,y\n4,no\n7,no\n0,no\n10,no\n-1e300,no\n1e300,no\nabc,no\n";
    // (x - 4)/2 of 4, 7, 0, 10, 0, 10 and the default, 0.
    let expected = [0.0, 1.5, -2.0, 3.0, -2.0, 3.0, -2.0];
    assert_eq!(rows(lines, &standard).0, expected.map(|u| vec![u]));
    // Shortened to the norm with its sign.
    let text = standard
        .to_toml()
        .replace("row_norm = 1000000000.0", "row_norm = 0.1");
    let short = Schema::from_toml(&text, "s").unwrap();
    let (values, _) = rows("x,y\n0,no\n10,no\n", &short);
    let size = 0.1 * (1.0 - 1e-6)..=0.1;
    assert!(
        size.contains(&-values[0][0]) && size.contains(&values[1][0]),
        "{values:?}"
    );
    for schema in [&standard, &short] {
        purely(schema, "x,y", "5|-7|1e308|-1e308|yes|nan");
    }
    let both = format!("{X}{keys}bins = [5.0]\nlinear = true\nmissing = true\nscale = 0.5\n");
    assert_eq!(
        rows("x,y\n8,no\n", &good("", &both)).0,
        [[1.0, 0.0, 0.5, 0.0]]
    );
}

#[test]
fn a_range_of_whole_numbers_is_a_list_of_them() {
    let column = |keys: &str| format!("[[column]]\nname = \"x\"\nkind = \"category\"\n{keys}\n");
    let listed = good("", &column("values = [\"-1\", \"0\", \"1\"]"));
    let range = good("", &column("range = [-1, 1]"));
    assert_eq!(range, listed);
    let more = good(
        "",
        &column("values = [\"?\"]\nrange = [0, 1]\nreference = \"0\""),
    );
    assert_eq!(more.feature_names(), ["x = ?", "x = 1", "x = (other)"]);
    // The texts of the numbers, and no other way to write them.
    let (values, _) = rows("x,y\n1,no\n1.0,no\n01,no\n+1,no\n 1 ,no\n2,no\n", &range);
    let at: Vec<_> = values
        .iter()
        .map(|row| row.iter().position(|x| *x == 1.0))
        .collect();
    assert_eq!(at, [2, 3, 3, 3, 2, 3].map(Some));
    purely(&range, "x,y", "-1|0|1|2|yes|\"");
    good("", &column("range = [1, 10000]"));
    good("", &column(&format!("range = [{0}, {0}]", i64::MAX)));
    assert!(matches!(
        schema("", &column("range = [0.5, 2.0]")),
        Err(TabularError::Toml { .. })
    ));
}

const HASH: &str = "[[column]]\nname = \"x\"\nkind = \"hash\"\nbuckets = 1024\n";

/// The bucket that a text is on in, of a schema without an intercept.
fn bucket(text: &[u8], schema: &Schema) -> usize {
    let line = [b"x,y\n", text, b",no\n"].concat();
    let table = read_table_from(&line[..], "t", schema).unwrap();
    let mut on = Vec::new();
    table.design.row(0).for_each(|j, x| on.push((j, x)));
    assert_eq!(on.len(), 1);
    assert_eq!(on[0].1, 1.0);
    on[0].0
}

/// Buckets computed by the formula of the documentation in exact integers, outside of this library.
#[test]
fn texts_are_in_the_buckets_of_the_documented_hash() {
    let many = good("", HASH);
    let few = good("", &HASH.replace("1024", "10"));
    assert_eq!((many.dim(), few.dim()), (1024, 10));
    assert_eq!(few.feature_names()[9], "x in bucket 9 of 10");
    for (text, of_many, of_few) in [
        (&b""[..], 533, 5),
        (b"a", 522, 5),
        (b"foobar", 411, 4),
        (b"\xff", 163, 1),
        (b"1", 979, 9),
        ("Z\u{fc}rich".as_bytes(), 722, 7),
        (b"  1 ", 979, 9),
        (b"\"\"", 533, 5),
    ] {
        assert_eq!(
            (bucket(text, &many), bucket(text, &few)),
            (of_many, of_few),
            "{text:?}"
        );
    }
    // A field that is not there is the empty text.
    assert_eq!(rows("y,x\nno\n", &few).0[0][5], 1.0);
    // 10,240 different texts: the sum of squares is 1023 +- 45 for random buckets, 5 of these either way.
    let mut counts = vec![0.0; 1024];
    for i in 0..10_240 {
        counts[bucket(i.to_string().as_bytes(), &many)] += 1.0;
    }
    let squares: f64 = counts.iter().map(|n| (n - 10.0f64).powi(2) / 10.0).sum();
    assert!((squares - 1023.0).abs() < 226.0, "{squares}");

    let report = check_from(&b"x,y\nanything,no\n,yes\n"[..], "t", &many).unwrap();
    assert!(report.is_clean());
    purely(&many, "x,y", "a|b|\"|\"\"|yes|\u{fc}");
    assert!(matches!(
        schema("", &HASH.replace("1024", "-1")),
        Err(TabularError::Toml { .. })
    ));
    // Rows have at most 2^24 columns, whatever a few lines of a schema ask for.
    let wide: String = (0..17)
        .map(|i| {
            HASH.replace("\"x\"", &format!("\"x{i}\""))
                .replace("1024", "1048576")
        })
        .collect();
    assert!(matches!(
        refused("", &wide, "column"),
        SchemaProblem::TooMany { .. }
    ));
}

/// A schema whose one feature is the day over 4,000,000, from the first date to the last one.
const DATE: &str = "[[column]]\nname = \"x\"\nkind = \"date\"\nmin = \"0000-01-01\"\nmax = \"9999-12-31\"\n\
    default = \"1970-01-01\"\ntransform = \"standard\"\nmean = \"1970-01-01\"\nsd = 1.0\n";

/// Day numbers from a calendar outside of this library; the year 0 has 366 days.
#[test]
fn dates_are_days_since_1970() {
    let schema = good("", DATE);
    let day = |text: &str| rows(&format!("x,y\n{text},no\n"), &schema).0[0][0];
    for (text, number) in [
        ("1970-01-01", 0.0),
        ("0000-01-01", -719_528.0),
        ("0000-12-31", -719_163.0),
        ("0001-01-01", -719_162.0),
        ("1582-10-15", -141_427.0),
        ("1600-02-29", -135_081.0),
        ("1900-03-01", -25_508.0),
        ("1969-12-31", -1.0),
        ("2000-02-29", 11_016.0),
        ("2024-02-29", 19_782.0),
        ("2026-11-24", 20_781.0),
        ("9999-12-31", 2_932_896.0),
        ("2026/11/24", 20_781.0),
        ("2026-11-24 23:59", 20_781.0),
        ("2026-11-24T23:59:59.123+01:00", 20_781.0),
        ("2026-11-24T00:00:00Z", 20_781.0),
        ("\" 2026/11/24 \"", 20_781.0),
    ] {
        assert_eq!(day(text), number, "{text}");
    }
    // A day after each month's last one; texts that are no dates. All become the default, day 0.
    let months = "2023-02-29|1900-02-29|2100-02-29|2024-02-30|2024-04-31|2024-06-31|2024-09-31|2024-11-31|\
                  2024-01-32|2024-12-32|2024-13-01|2024-00-10|2024-01-00";
    let others = "|20781|24.11.2026|11/24/2026|2026-11/24|2026-11-24x|2026-11-24 noon|2026-11-24T|2026-11-24 1:30|\
                  26-11-24|-026-11-24|2026-1-24|+026-11-24|2026-11-2|20261124|\u{662}026-11-24";
    for text in months.split('|').chain(others.split('|')) {
        assert_eq!(day(text), 0.0, "{text}");
    }
    // Every day of 800 years, one after the other.
    let mut expected = -135_140.0; // 1600-01-01: 59 days before 1600-02-29.
    for year in 1600..2400 {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if leap { 29 } else { 28 };
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut text = "x,y\n".to_owned();
        for (month, days) in lengths.iter().enumerate() {
            for day in 1..=*days {
                text += &format!("{year}-{:02}-{day:02},no\n", month + 1);
            }
        }
        for row in rows(&text, &schema).0 {
            // Whole numbers below 2^24 are exact in single precision.
            assert_eq!(row[0], expected, "{year}");
            expected += 1.0;
        }
    }
}

#[test]
fn a_date_is_a_number_otherwise() {
    let keys = "[[column]]\nname = \"x\"\nkind = \"date\"\nmin = \"2000-01-01\"\nmax = \"2000-01-11\"\ndefault = \"2000-01-06\"\n";
    let plain = good("", keys);
    let text = "x,y\n2000-01-02,no\n1999-12-31,no\n2000-02-01T10:00,no\nnever,no\n,no\n";
    let tenth = f64::from(0.1f32);
    assert_eq!(rows(text, &plain).0.concat(), [tenth, 0.0, 1.0, 0.5, 0.5]);
    let report = check_from(text.as_bytes(), "t", &plain).unwrap();
    use dpopt_data::tabular::ProblemKind;
    assert_eq!(
        (
            report.count(ProblemKind::NotADate),
            report.count(ProblemKind::OutOfRange)
        ),
        (2, 2)
    );
    let all =
        format!("{keys}bins = [\"2000-01-06\"]\nlinear = true\nmissing = true\nscale = 2.0\n");
    let all = good("", &all);
    assert_eq!(
        all.feature_names(),
        [
            "x",
            "x in [2000-01-01, 2000-01-06)",
            "x in [2000-01-06, 2000-01-11]",
            "x = (missing)"
        ]
    );
    assert_eq!(
        rows("x,y\n2000-01-05,no\n?,no\n", &all).0[1],
        [1.0, 0.0, 2.0, 2.0]
    );
    let log = good("", &format!("{keys}transform = \"log1p\"\n"));
    let unit = f64::from((5f64.ln() / 11f64.ln()) as f32);
    assert_eq!(rows("x,y\n2000-01-05,no\n", &log).0, [[unit]]);
    for schema in [plain, all, log, good("", DATE)] {
        purely(
            &schema,
            "x,y",
            "2000-01-05|2000/01/0|-|9|T10:00|yes|1970-01-01",
        );
    }
}
