//! LIBSVM: a line gives one row, whatever it holds, and nobody else's.

use dpopt_data::formats::{
    FirstIndex, Format, FormatError, LabelledRows, LibsvmProblem, check_libsvm_from,
    read_libsvm_from,
};
use dpopt_data::tabular::{ArrayFiles, Schema, draft_warnings, read_rows};
use dpopt_linalg::{Design, Row};
use proptest::prelude::*;

fn read(text: &[u8], columns: usize) -> LabelledRows {
    read_libsvm_from(text, "x.svm", FirstIndex::One, columns).unwrap()
}

type Bits = (Vec<(u32, u32)>, u32);

fn bits(design: &Design, labels: &[f32]) -> Vec<Bits> {
    assert_eq!(design.rows(), labels.len());
    (0..labels.len())
        .map(|i| {
            let Row::Sparse(columns, values) = design.row(i) else {
                panic!("sparse rows");
            };
            let entries = columns.iter().zip(values).map(|(j, x)| (*j, x.to_bits()));
            (entries.collect(), labels[i].to_bits())
        })
        .collect()
}

fn row(line: &str) -> (Vec<(u32, f32)>, f32) {
    let rows = read(line.as_bytes(), 5);
    assert_eq!(rows.labels.len(), 1, "{line:?}");
    let Row::Sparse(columns, values) = rows.design.row(0) else {
        panic!("sparse rows");
    };
    let entries = columns.iter().copied().zip(values.iter().copied());
    (entries.collect(), rows.labels[0])
}

#[test]
fn good_lines_mean_what_the_readme_of_libsvm_says() {
    assert_eq!(
        row("+1 1:0.5 3:-2e1 5:7"),
        (vec![(0, 0.5), (2, -20.0), (4, 7.0)], 1.0)
    );
    assert_eq!(row("-1\n"), (vec![], -1.0));
    assert_eq!(row("2.5\t 2:1 \r\n"), (vec![(1, 1.0)], 2.5));
    assert_eq!(row("3 qid:7 2:1 # a comment 3:4"), (vec![(1, 1.0)], 3.0));
    // A zero that is written down is a zero.
    assert_eq!(row("1 1:0 2:1"), (vec![(1, 1.0)], 1.0));
    // What the declared width does not foresee is dropped alone.
    assert_eq!(row("1 2:1 6:9"), (vec![(1, 1.0)], 1.0));
    assert_eq!(row("1 2:1 18446744073709551615:9"), (vec![(1, 1.0)], 1.0));
}

#[test]
fn a_line_that_cannot_be_read_is_a_record_that_contributes_nothing() {
    let overlong = format!("1 {}", "1:1 ".repeat(300_000));
    let bad = "|   |# comment|yes 1:1|nan 1:1|inf|1 1|1 1:|1 :1|1 a:1|1 -1:1|1 +1:1|1 1.0:1|1 18446744073709551616:1|\
               1 1:nan|1 1:1e39|1 1:1:1|1 2:1 1:1|1 2:1 2:1|1 1:1 qid:3|1 1:1 \u{661}:1";
    for line in bad.split('|').chain([overlong.as_str()]) {
        // Its neighbours are there, and as they would be without it.
        let text = format!("1 1:1\n{line}\n-1 2:2\n");
        let rows = read(text.as_bytes(), 5);
        assert_eq!(rows.labels.len(), 3, "{line:.20?}");
        assert!(rows.labels[1].is_nan(), "{line:.20?}");
        assert_eq!(rows.design.row(1).norm_upper(), 0.0);
        let alone = read(b"1 1:1\n-1 2:2\n", 5);
        let (with, without) = (
            bits(&rows.design, &rows.labels),
            bits(&alone.design, &alone.labels),
        );
        assert_eq!([&with[0], &with[2]], [&without[0], &without[1]]);
    }
}

#[test]
fn the_check_lists_what_reading_hides() {
    let text = b"1 1:1\nx 1:1\n1 2:1 1:1\n1 9:1\n1 1:x\n-1 2:2\n";
    let report = check_libsvm_from(&text[..], "x.svm", FirstIndex::One, 5).unwrap();
    assert_eq!((report.records, report.largest_index), (6, 9));
    let listed: Vec<_> = report.listed.iter().map(|(k, v)| (*k, v.clone())).collect();
    assert_eq!(
        listed,
        [
            (LibsvmProblem::BadLabel, vec![2]),
            (LibsvmProblem::BadPair, vec![5]),
            (LibsvmProblem::Unsorted, vec![3]),
            (LibsvmProblem::BeyondColumns, vec![4]),
        ]
    );
    assert!(!report.is_clean() && report.to_string().contains("not private"));
    assert!(
        check_libsvm_from(&b"1 1:1\n"[..], "x", FirstIndex::One, 1)
            .unwrap()
            .is_clean()
    );
}

#[test]
fn the_number_of_columns_is_checked() {
    let error = |columns| {
        read_libsvm_from(&b"1 1:1\n"[..], "x.svm", FirstIndex::One, columns)
            .err()
            .unwrap()
    };
    assert!(matches!(error(0), FormatError::Design { .. }));
    assert!(error(1 << 25).to_string().contains("33554432 columns"));
    assert_eq!(
        read(b"1 1000000:1\n", 1_000_000).design.columns(),
        1_000_000
    );
}

proptest! {
    #[test]
    fn a_row_depends_on_its_line_alone(
        lines in proptest::collection::vec("([-+0-9.:#eqid ]|[a-z]|\\PC){0,30}", 1..8),
        at in 0usize..8,
        other in "[0-9: .#-]{0,30}",
    ) {
        // A regular expression's `.` has no line feed, nor has this.
        let lines: Vec<String> = lines.into_iter().map(|line| line.replace(['\n', '\r'], " ")).collect();
        let text = |lines: &[String]| format!("{}\n", lines.join("\n"));
        let first = read(text(&lines).as_bytes(), 4);
        prop_assert_eq!(first.labels.len(), lines.len());
        let mut changed = lines.clone();
        let at = at % lines.len();
        changed[at] = other;
        let second = read(text(&changed).as_bytes(), 4);
        let (a, b) = (bits(&first.design, &first.labels), bits(&second.design, &second.labels));
        for i in (0..lines.len()).filter(|&i| i != at) {
            prop_assert_eq!(&a[i], &b[i]);
        }
        for i in 0..lines.len() {
            prop_assert!(first.design.row(i).is_finite());
        }
    }
}

/// A file that counts from 0, as scikit-learn's `dump_svmlight_file` writes unless it is asked otherwise.
#[test]
fn a_file_that_counts_from_0_keeps_its_records() {
    let text = b"1 0:5 2:7\n-1 1:3\n1 0:2\n";
    let dense = |first| {
        let rows = read_libsvm_from(&text[..], "x.svm", first, 3).unwrap();
        let row = |i: usize| {
            let Row::Sparse(columns, values) = rows.design.row(i) else {
                panic!("sparse")
            };
            columns
                .iter()
                .copied()
                .zip(values.iter().copied())
                .collect::<Vec<_>>()
        };
        (rows.labels.clone(), [row(0), row(1), row(2)])
    };
    let (labels, rows) = dense(FirstIndex::Zero);
    assert_eq!(labels, [1.0, -1.0, 1.0]);
    assert_eq!(
        rows,
        [vec![(0, 5.0), (2, 7.0)], vec![(1, 3.0)], vec![(0, 2.0)]]
    );
    // Where it is not said, the entry is lost and not the record.
    let (labels, rows) = dense(FirstIndex::One);
    assert_eq!(labels, [1.0, -1.0, 1.0]);
    assert_eq!(rows, [vec![(1, 7.0)], vec![(0, 3.0)], vec![]]);
    let report = check_libsvm_from(&text[..], "x.svm", FirstIndex::One, 3).unwrap();
    assert_eq!(report.counts[&LibsvmProblem::ZeroIndex], 2);
    assert!(
        report
            .to_string()
            .contains("`zero_based = true` in [array]")
    );
    let report = check_libsvm_from(&text[..], "x.svm", FirstIndex::Zero, 3).unwrap();
    assert!(report.is_clean(), "{report}");
    let beyond = check_libsvm_from(&b"1 3:1\n"[..], "x.svm", FirstIndex::Zero, 3).unwrap();
    assert_eq!(beyond.counts[&LibsvmProblem::BeyondColumns], 1);
    let spoilt = check_libsvm_from(&b"1 1:1 0:1\n"[..], "x.svm", FirstIndex::Zero, 3).unwrap();
    assert_eq!(spoilt.counts[&LibsvmProblem::Unsorted], 1);
}

#[test]
fn a_draft_says_that_a_file_counts_from_0() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("t.svm");
    std::fs::write(&path, "1 0:5 2:7\n0 1:3\n".repeat(20)).unwrap();
    let files = ArrayFiles {
        format: Format::Libsvm,
        rows: path.clone(),
        labels: None,
    };
    let draft = files.draft().unwrap();
    let warning = draft_warnings(&draft).next().unwrap();
    assert!(
        warning.starts_with("20 records have an index 0"),
        "{warning}"
    );
    let schema = Schema::from_toml(&draft, "draft").unwrap();
    let array = schema.array().unwrap();
    assert_eq!((array.columns, array.zero_based), (3, true));
    assert_eq!(
        Schema::from_toml(&schema.to_toml(), "again").unwrap(),
        schema
    );
    assert!(files.check(&schema).unwrap().lines.unwrap().is_clean());
    let table = files.read(&schema).unwrap();
    let norm = |i: usize| table.design.row(i).norm_upper();
    assert!((norm(0) - 74f64.sqrt()).abs() < 1e-6 && (norm(1) - 3.0).abs() < 1e-6);
    // A file of rows is the same.
    let out = folder.path().join("t.dpr");
    files.convert(&schema, &out).unwrap();
    assert_eq!(read_rows(&out).unwrap().labels, table.labels);
    // From 1 nothing is said.
    std::fs::write(&path, "1 1:5 3:7\n0 2:3\n".repeat(20)).unwrap();
    let draft = files.draft().unwrap();
    assert!(
        draft_warnings(&draft).next().is_none() && !draft.contains("zero_based"),
        "{draft}"
    );
}
