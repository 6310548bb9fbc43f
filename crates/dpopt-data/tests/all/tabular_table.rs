//! Tables: what a record can do (nothing but its own row), what a file can do wrong.

use std::io::{self, Read};

use dpopt_data::tabular::{
    EncodedTable, Encoder, MAX_LINE_BYTES, ProblemKind, Schema, TabularError, check_from,
    draft_schema, draft_schema_from, read_features_from, read_table, read_table_from,
};
use dpopt_linalg::Row;
use proptest::prelude::*;

use crate::support::gzip;

const SCHEMA: &str = r#"
format = 1
row_norm = 1.7
intercept = 1.0
[label]
column = "y"
values = ["no", "yes"]
positive = "yes"
default = "no"
[[column]]
name = "age"
kind = "number"
min = 10.0
max = 90.0
default = 50.0
bins = [18.0, 25.0]
linear = true
[[column]]
name = "class"
kind = "category"
values = ["a", "b,c", "d"]
reference = "d"
[[column]]
name = "note"
kind = "ignore"
[[column]]
name = "gain"
kind = "number"
min = 0.0
max = 1000.0
transform = "log1p"
default = 0.0
scale = 0.5
"#;
const HEADER: &str = "age,class,note,gain,y\n";

fn schema() -> Schema {
    Schema::from_toml(SCHEMA, "schema").unwrap()
}

/// A schema whose norm bound is out of the way.
fn loose() -> Schema {
    Schema::from_toml(
        &SCHEMA.replace("row_norm = 1.7", "row_norm = 100.0"),
        "schema",
    )
    .unwrap()
}

fn read(bytes: &[u8]) -> Result<EncodedTable, TabularError> {
    read_table_from(bytes, "table", &schema())
}

type Bits = (Vec<(u32, u32)>, u32);

fn bits_of(table: &EncodedTable) -> Vec<Bits> {
    (0..table.design.rows())
        .map(|i| {
            let Row::Sparse(columns, values) = table.design.row(i) else {
                panic!("tables are sparse");
            };
            let row = columns.iter().zip(values);
            (
                row.map(|(column, value)| (*column, value.to_bits()))
                    .collect(),
                table.labels[i].to_bits(),
            )
        })
        .collect()
}

/// Rows of a table with these lines.
fn rows(lines: &[&[u8]]) -> Vec<Bits> {
    let mut bytes = HEADER.as_bytes().to_vec();
    for line in lines {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    let table = read(&bytes).unwrap();
    assert_eq!(table.design.rows(), lines.len());
    assert_eq!(table.labels.len(), lines.len());
    bits_of(&table)
}

/// The row of a line alone.
fn row(line: &[u8]) -> Bits {
    rows(&[line]).remove(0)
}

/// Dense values of a line under the loose schema.
fn dense(line: &str) -> (Vec<f64>, f32) {
    let text = format!("{HEADER}{line}\n");
    let table = read_table_from(text.as_bytes(), "table", &loose()).unwrap();
    let mut all = vec![0.0; table.design.columns()];
    table.design.row(0).for_each(|j, x| all[j] = x);
    (all, table.labels[0])
}

#[test]
fn a_good_line_is_encoded_as_the_schema_says() {
    // age, three buckets, a, "b,c", other, gain, intercept
    let (x, y) = dense("50, \"b,c\" ,whatever,1000,yes");
    assert_eq!(x, [0.5, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.5, 1.0]);
    assert_eq!(y, 1.0);
    // On an edge the upper bucket counts; the reference is all zeros.
    let (x, y) = dense("18,d,,0,no");
    assert_eq!(
        x,
        [f64::from(0.1f32), 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    );
    assert_eq!(y, -1.0);
    // Clipped below and above.
    assert_eq!(dense("-7,a,,0,no").0[..4], [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(dense("1e9,a,,0,no").0[..4], [1.0, 0.0, 0.0, 1.0]);
    for (gain, value) in [("-7", 0.0), ("-1e308", 0.0), ("1e308", 0.5)] {
        assert_eq!(dense(&format!("10,a,,{gain},no")).0[7], value, "{gain}");
    }
    let (x, _) = dense("10,a,,9,no");
    assert_eq!(x[7], f64::from((0.5 * 10f64.ln() / 1001f64.ln()) as f32));
}

#[test]
fn bad_content_becomes_defaults_silently() {
    let default = dense("50,zzz,,0,no");
    assert_eq!(default.0[6], 1.0, "(other)");
    for age in [
        "NaN", "inf", "-inf", "1e999", "", "  ", "old", "1 2", "\u{ff11}", "\"\"",
    ] {
        assert_eq!(dense(&format!("{age},zzz,,0,no")), default, "{age:?}");
    }
    for class in ["", "A", "b", "?", "other", "(other)"] {
        assert_eq!(dense(&format!("50,{class},,0,no")), default, "{class:?}");
    }
    for label in ["", "YES", "maybe", "1"] {
        assert_eq!(dense(&format!("50,zzz,,0,{label}")), default, "{label:?}");
    }
    // Ragged: missing fields are defaults, extra ones are ignored.
    for line in [
        "50,zzz,,0",
        "50,zzz",
        "50",
        "",
        "   ",
        "\r",
        "50,zzz,,0,no,yes,1,,,\"",
        "50,zzz\r",
    ] {
        assert_eq!(dense(line), default, "{line:?}");
    }
    // Bytes that are no text, in every field.
    assert_eq!(row(b"\xff\xfe,\x80,\xc3,\xff,\xff"), row(b""));
    assert_eq!(row(b"20\0,a\0,,,yes\0"), row(b"x,x,,x,x"));
    // An ignored field matters to nobody.
    assert_eq!(row(b"20,a,\xff\"x,1,yes"), row(b"20,a,,1,yes"));
}

#[test]
fn an_open_quote_swallows_its_own_line_and_no_other() {
    let good: &[u8] = b"20,a,,5,yes";
    for bad in [
        &b"\"20,a,,5,yes"[..],
        b"20,\"a,,5,yes",
        b"20,a,,5,\"yes",
        b"\"",
        b"\"\"\"",
    ] {
        let alone = row(bad);
        assert_eq!(
            rows(&[good, bad, good, good]),
            [row(good), alone, row(good), row(good)]
        );
    }
    assert_eq!(row(b"20,a,,5,\"yes"), row(b"20,a,,5,yes"));
    assert_eq!(row(b"20,\"a,,5,yes"), row(b"20,a;;5;yes,,,"));
}

#[test]
fn an_overlong_line_is_a_record_of_defaults() {
    let good: &[u8] = b"20,a,,5,yes";
    for extra in [0, 1, 2, 3 << 20] {
        let mut long = b"20,a,".to_vec();
        long.resize(MAX_LINE_BYTES - 6, b'x');
        long.extend_from_slice(b",5,yes");
        assert_eq!(long.len(), MAX_LINE_BYTES);
        long.resize(MAX_LINE_BYTES + extra, b' ');
        let expected = if extra == 0 { row(good) } else { row(b"") };
        assert_eq!(rows(&[good, &long, good]), [row(good), expected, row(good)]);
    }
}

#[test]
fn blank_lines_are_records_except_after_the_last_line_feed() {
    let table = |text: &str| read(text.as_bytes()).unwrap().design.rows();
    assert_eq!(table("age,class,note,gain,y"), 0);
    assert_eq!(table(HEADER), 0);
    assert_eq!(table(&format!("{HEADER}20,a,,5,yes")), 1);
    assert_eq!(table(&format!("{HEADER}20,a,,5,yes\n")), 1);
    assert_eq!(table(&format!("{HEADER}20,a,,5,yes\n\n")), 2);
    assert_eq!(table(&format!("{HEADER}\n\n20,a,,5,yes\r\n")), 3);
    assert_eq!(
        rows(&[b"", b"20,a,,5,yes"]),
        [row(b""), row(b"20,a,,5,yes\r")]
    );
}

#[test]
fn column_order_of_the_file_does_not_matter() {
    let a = read(b"age,class,note,gain,y\n20,a,,5,yes\n").unwrap();
    let b = read(b"\xef\xbb\xbf y , \"gain\",class,age\r\nyes,5,a,20\r\n").unwrap();
    assert_eq!(bits_of(&a), bits_of(&b));
    // The encoder on fields in the schema's order agrees with the file.
    let mut row = Vec::new();
    let fields: [&[u8]; 5] = [b"20", b" a", b"", b"5", b"yes"];
    let label = Encoder::new(&schema()).encode_record(&fields, &mut row);
    let found: Vec<_> = row.iter().map(|&(j, x)| (j, x.to_bits())).collect();
    assert_eq!((found, label.to_bits()), bits_of(&a).remove(0));
}

#[test]
fn headers_are_public_and_checked() {
    let fail = |text: &[u8]| read(text).err().unwrap();
    assert!(matches!(fail(b""), TabularError::MissingHeader { .. }));
    assert!(matches!(
        fail(b"\n20,a,,5,yes\n"),
        TabularError::MissingHeader { .. }
    ));
    match fail(b"age,note,y\n") {
        TabularError::MissingColumns { path, columns, .. } => {
            assert_eq!(
                (path.as_str(), columns),
                ("table", vec!["class".into(), "gain".into()])
            );
        }
        other => panic!("{other}"),
    }
    assert!(matches!(
        fail(b"age,class,gain\n"),
        TabularError::MissingColumns { columns, .. } if columns == ["y"]
    ));
    assert!(matches!(
        fail(b"age,class,age,gain,y\n"),
        TabularError::DuplicateColumn { column, .. } if column == "age"
    ));
    // A table without a header: its first record is not repeated, whatever it holds.
    for record in [
        &b"37,37,rare disease,yes\n"[..],
        b"age,rare disease,rare disease,y\n",
    ] {
        let refused = fail(record);
        assert!(matches!(refused, TabularError::MissingColumns { .. }));
        let said = refused.to_string();
        assert!(!said.contains("37") && !said.contains("disease"), "{said}");
    }
    match fail(b"age,class,gain,y,id,zip\n") {
        TabularError::UnlistedColumns { columns, .. } => assert_eq!(columns, ["id", "zip"]),
        other => panic!("{other}"),
    }
    assert!(matches!(
        fail(b"age,class,gain,y,\"note\n"),
        TabularError::BadHeader { .. }
    ));
    assert!(matches!(
        fail(b"age,class,gain,y,\xff\n"),
        TabularError::BadHeader { .. }
    ));
    let long = vec![b'a'; MAX_LINE_BYTES + 1];
    assert!(matches!(fail(&long), TabularError::BadHeader { .. }));
    let lenient = SCHEMA.replace("[label]", "ignore_unlisted = true\n[label]");
    let lenient = Schema::from_toml(&lenient, "schema").unwrap();
    let text = b"id,age,class,gain,y,zip\n7,20,a,5,yes,9\n";
    let table = read_table_from(&text[..], "table", &lenient).unwrap();
    assert_eq!(bits_of(&table), [row(b"20,a,,5,yes")]);
}

#[test]
fn features_need_no_label() {
    let with = read(b"age,class,gain,y\n20,a,5,yes\nx\n").unwrap();
    for text in [
        &b"age,class,gain\n20,a,5\nx\n"[..],
        b"y,age,class,gain\n?,20,a,5\n?,x\n",
    ] {
        let design = read_features_from(text, "table", &schema()).unwrap();
        for i in 0..2 {
            let (Row::Sparse(j, x), Row::Sparse(k, z)) = (design.row(i), with.design.row(i)) else {
                panic!("tables are sparse");
            };
            assert_eq!((j, x), (k, z));
        }
    }
    let missing = read_features_from(&b"age,gain\n"[..], "table", &schema());
    assert!(matches!(missing, Err(TabularError::MissingColumns { .. })));
}

#[test]
fn gzip_is_recognised_and_a_cut_stream_is_an_error_of_the_file() {
    let mut text = HEADER.as_bytes().to_vec();
    for i in 0..5000 {
        text.extend_from_slice(format!("{},a,{},{},yes\n", i % 80, i * 7919, i % 100).as_bytes());
    }
    let plain = bits_of(&read(&text).unwrap());
    let whole = gzip(&text);
    assert_eq!(bits_of(&read(&whole).unwrap()), plain);
    // Members may end within a line.
    let mut members = gzip(&text[..1234]);
    members.extend(gzip(&text[1234..]));
    assert_eq!(bits_of(&read(&members).unwrap()), plain);
    for length in [2, 9, 30, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        match read(&whole[..length]) {
            Err(TabularError::Gzip { path, .. }) => assert_eq!(path, "table"),
            other => panic!("{length}: {:?}", other.err()),
        }
    }
    let mut damaged = whole.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 1;
    assert!(matches!(read(&damaged), Err(TabularError::Gzip { .. })));
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    match read_table("/no/such/table.csv", &schema()).err().unwrap() {
        TabularError::Read { path, source } => {
            assert_eq!(path, "/no/such/table.csv");
            assert_eq!(source.kind(), io::ErrorKind::NotFound);
        }
        other => panic!("{other}"),
    }
    assert!(matches!(
        read_table(std::env::temp_dir(), &schema()),
        Err(TabularError::Read { .. })
    ));
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("disk on fire"))
        }
    }
    let half = HEADER.as_bytes().chain(Broken);
    let error = read_table_from(half, "table", &schema()).err().unwrap();
    assert_eq!(error.to_string(), "can't read table: disk on fire");
}

#[test]
fn check_reports_what_training_swallows() {
    let mut text = HEADER.as_bytes().to_vec();
    for line in [
        &b"20,a,,5,yes"[..],       // 2: fine
        b"old,a,,5,yes",           // 3: not a number
        b"200,a,,5,no",            // 4: out of range
        b"20,zzz,,5,no",           // 5: unlisted
        b"20,a,,5,maybe",          // 6: unknown label
        b"20,a",                   // 7: too few
        b"20,a,,5,yes,1",          // 8: too many
        b"",                       // 9: blank
        b"20,a,,5,\"yes",          // 10: open quote
        b"20,a,\xff\x1b[2J,5,yes", // 11: not UTF-8
        b"90,a,,1000,yes",         // 12: rescaled
    ] {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.resize(text.len() + MAX_LINE_BYTES + 1, b'x'); // 13: too long
    for _ in 0..50 {
        text.extend_from_slice(b"\n?,d,,0,no");
    }
    let report = check_from(&text[..], "table", &schema()).unwrap();
    assert_eq!(report.records, 62);
    assert_eq!(report.positives, Some(6));
    for (kind, line, count) in [
        (ProblemKind::NotANumber, 3, 51),
        (ProblemKind::OutOfRange, 4, 1),
        (ProblemKind::UnlistedCategory, 5, 1),
        (ProblemKind::UnknownLabel, 6, 1),
        (ProblemKind::TooFewFields, 7, 1),
        (ProblemKind::TooManyFields, 8, 1),
        (ProblemKind::BlankLine, 9, 1),
        (ProblemKind::OpenQuote, 10, 1),
        (ProblemKind::InvalidUtf8, 11, 1),
        (ProblemKind::OverlongLine, 13, 1),
    ] {
        assert_eq!(report.count(kind), count, "{kind}");
        let first = report.listed.iter().find(|p| p.kind == kind).unwrap();
        assert_eq!(first.line, line, "{kind}");
    }
    assert!(report.count(ProblemKind::Rescaled) > 0);
    assert!(!report.is_clean());
    let listed = |kind| report.listed.iter().filter(|p| p.kind == kind).count();
    assert_eq!(listed(ProblemKind::NotANumber), 10);
    let age = report.listed.iter().find(|p| p.line == 3).unwrap();
    assert_eq!(
        (age.column.as_deref(), age.text.as_str()),
        (Some("age"), "old")
    );
    assert_eq!(
        report.by_column[&(ProblemKind::NotANumber, "age".to_owned())],
        51
    );
    let text = report.to_string();
    assert!(text.contains("not a number, default used: 51"), "{text}");
    assert!(text.contains("not private"));
    assert!(!text.contains('\x1b'), "control characters are escaped");
}

#[test]
fn a_draft_loads_and_fits_its_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv.gz");
    let mut text = "id,age,job,code,const,gain,y\n".to_owned();
    for i in 0..3000 {
        let (job, y) = (
            ["clerk", "smith, \"\"b\"\"", "x y"][i % 3],
            ["no", "yes"][usize::from(i % 5 == 0)],
        );
        let age = if i % 50 == 7 {
            "?".to_owned()
        } else {
            (i % 83).to_string()
        };
        text += &format!("k{i},{age},\"{job}\",{},same,{},{y}\n", i % 4, i * i);
    }
    std::fs::write(&path, gzip(text.as_bytes())).unwrap();
    let draft = draft_schema(&path, None).unwrap();
    assert!(draft.contains("READ FROM THE DATA"));
    let schema = Schema::from_toml(&draft, "draft").unwrap();
    assert!(schema.is_draft());
    assert_eq!(
        (
            schema.label().classes().unwrap().positive.as_str(),
            schema.label().classes().unwrap().default.as_str()
        ),
        ("yes", "no")
    );
    let names = schema.feature_names();
    assert_eq!(names[..3], ["age", "job = clerk", "job = smith, \"b\""]);
    assert!(names.contains(&"gain".to_owned()) && names.contains(&"code = 3".to_owned()));
    assert!(
        !names
            .iter()
            .any(|n| n.starts_with("id") || n.starts_with("const"))
    );
    let report = dpopt_data::tabular::check(&path, &schema).unwrap();
    assert_eq!(report.records, 3000);
    assert_eq!(report.positives, Some(600));
    assert_eq!(
        report.counts.keys().copied().collect::<Vec<_>>(),
        [ProblemKind::NotANumber, ProblemKind::Rescaled]
    );
    assert_eq!(report.count(ProblemKind::NotANumber), 60);
    // Half the root of 1 for the intercept, 1 for a category and 1/3 for a centred number, rounded up.
    let features = |from: &str| names.iter().any(|name| name.starts_with(from));
    assert!(features("age") && features("gain") && features("job") && features("code"));
    let half = 0.5 * (1.0 + 2.0 + 2.0 / 3.0_f64).sqrt();
    assert!(schema.row_norm() >= half && schema.row_norm() <= half + 0.1 + 1e-12);
    // A row is at least as long as its intercept and its two categories, so all are rescaled.
    assert_eq!(report.count(ProblemKind::Rescaled), 3000);
    assert!(report.to_string().contains("3000 of 3000 rows (100.0 %)"));
    let listed = |problem: &&dpopt_data::tabular::Problem| problem.kind == ProblemKind::Rescaled;
    assert_eq!(report.listed.iter().filter(listed).count(), 0);

    // Without a label to guess the draft asks for one instead of inventing it.
    std::fs::write(&path, "a,b\n1,2\n2,3\n3,4\n").unwrap();
    let draft = draft_schema(&path, None).unwrap();
    assert!(matches!(
        Schema::from_toml(&draft, "draft"),
        Err(error @ TabularError::Schema { .. }) if error.to_string().contains("--label COLUMN")
    ));
    assert!(matches!(
        draft_schema(directory.path().join("none"), None),
        Err(TabularError::Read { .. })
    ));
    // Without a schema the first line may be a record.
    std::fs::write(&path, "secret,secret\n").unwrap();
    let refused = draft_schema(&path, None).unwrap_err();
    assert!(matches!(refused, TabularError::BadHeader { .. }));
    assert!(!refused.to_string().contains("secret"));
}

/// Lines that look like records, like attacks, and like noise.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static [u8]> = vec![
        b"20", b"1e3", b"-5", b"nan", b"a", b"\"b,c\"", b"\"", b",", b",", b",", b"yes", b"no",
        b" ", b"\r", b"\xff", b"\0",
    ];
    let piece = prop::sample::select(pieces);
    let shaped = prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat());
    let noise = prop::collection::vec(any::<u8>(), 0..80)
        .prop_map(|bytes| bytes.into_iter().filter(|b| *b != b'\n').collect());
    prop_oneof![3 => shaped, 1 => noise]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_row_depends_on_its_line_alone(
        lines in prop::collection::vec(line(), 1..12),
        seed in any::<usize>(),
    ) {
        let alone: Vec<Bits> = lines.iter().map(|line| row(line)).collect();
        // Together, rotated, reversed, with an insertion, with one line replaced.
        let all: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(&rows(&all), &alone);
        let at = seed % lines.len();
        let (mut turned, mut turned_alone) = (all.clone(), alone.clone());
        turned.rotate_left(at);
        turned_alone.rotate_left(at);
        turned.reverse();
        turned_alone.reverse();
        prop_assert_eq!(&rows(&turned), &turned_alone);
        let (mut padded, mut padded_alone) = (all.clone(), alone.clone());
        padded.insert(at, b"\"\"\",\"x");
        padded_alone.insert(at, row(b"\"\"\",\"x"));
        prop_assert_eq!(&rows(&padded), &padded_alone);
        let (mut replaced, mut replaced_alone) = (all, alone);
        replaced[at] = b"30,a,\"";
        replaced_alone[at] = row(b"30,a,\"");
        prop_assert_eq!(&rows(&replaced), &replaced_alone);
    }

    #[test]
    fn any_bytes_give_one_short_row_per_line(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut text = HEADER.as_bytes().to_vec();
        text.extend_from_slice(&bytes);
        let mut count = bytes.iter().filter(|b| **b == b'\n').count();
        count += usize::from(bytes.last().is_some_and(|b| *b != b'\n'));
        let table = read(&text).unwrap();
        prop_assert_eq!(table.design.rows(), count);
        prop_assert_eq!(table.labels.len(), count);
        for i in 0..count {
            prop_assert!(table.design.row(i).is_finite());
            // The computed norm errs by a few roundings; the exact comparison is a unit test.
            let mut sum = 0.0;
            table.design.row(i).for_each(|_, x| sum += x * x);
            prop_assert!(sum.sqrt() <= 1.7 * (1.0 + 1e-15));
            prop_assert!(table.labels[i].abs() == 1.0);
        }
        let report = check_from(&text[..], "table", &schema()).unwrap();
        prop_assert_eq!(report.records, count as u64);
        let positives = table.labels.iter().filter(|y| **y > 0.0).count();
        prop_assert_eq!(report.positives, Some(positives as u64));
        // A whole file of noise: an error or a table, never a panic.
        let _ = read(&bytes);
        let _ = read(&[&[0x1f, 0x8b][..], &bytes].concat());
        let _ = Schema::from_toml(&String::from_utf8_lossy(&bytes), "noise");
    }
}

/// What is said of a header that does not fit the schema.
fn header_error(text: &[u8]) -> String {
    let schema = Schema::from_toml(
        "format = 1\nrow_norm = 1.0\nintercept = 1.0\n[label]\ncolumn = \"y\"\nvalues = [\"0\", \"1\"]\n\
         positive = \"1\"\ndefault = \"0\"\n[[column]]\nname = \"x\"\nkind = \"ignore\"\n",
        "s.toml",
    );
    let read = read_table_from(text, "t", &schema.unwrap());
    read.err().unwrap().to_string()
}

#[test]
fn another_separator_is_named_with_the_way_out() {
    for (text, name, key) in [
        (&b"x;y\n1;0\n"[..], "semicolons", "delimiter = \";\""),
        (b"x\ty\n1\t0\n", "tabs", "delimiter = \"\\t\""),
        (b"x|y\n1|0\n", "bars", "delimiter = \"|\""),
        // Decimal commas in a name change nothing.
        (b"x;y;\"1,5\";z\n", "semicolons", "decimal"),
    ] {
        let error = header_error(text);
        assert!(error.contains(name) && error.contains(key), "{error}");
    }
    // A column may be called so.
    let error = header_error(b"x;1,z\n");
    assert!(error.contains("lacks columns"), "{error}");
}

#[test]
fn files_that_are_no_text_are_named() {
    for (bytes, name) in [
        (&b"PAR1\x15\x04"[..], "Parquet"),
        (b"\x93NUMPY\x01\x00", "NPY"),
        (b"PK\x03\x04", "spreadsheet"),
        (b"BZh91AY", "bzip2"),
        (b"\xff\xfex\x00,\x00y\x00", "UTF-16"),
    ] {
        let error = header_error(bytes);
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn dates_are_told_in_a_draft() {
    let days = |day: fn(u32) -> String| {
        let lines: Vec<String> = (1..=28)
            .map(|i| format!("{},{}\n", day(i), i % 2))
            .collect();
        let text = format!("when,y\n{}", lines.concat());
        draft_schema_from(text.as_bytes(), "t", None).unwrap()
    };
    let draft = days(|i| format!("2021-03-{i:02}"));
    assert!(
        draft.contains("kind = \"date\"\nmin = \"2021-03-01\""),
        "{draft}"
    );
    for draft in [
        days(|i| format!("{i}.3.2021")),
        days(|i| format!("2021/3/{i} 12:00")),
    ] {
        assert!(draft.contains("# dates that are text here"), "{draft}");
    }
    for draft in [days(|i| i.to_string()), days(|i| format!("A-{i}-7"))] {
        assert!(!draft.contains("# dates"), "{draft}");
    }
}
