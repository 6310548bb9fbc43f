//! Lines and headers that are not as a table has them: counted for their owner, or named with a remedy.

use dpopt_data::tabular::{
    ProblemKind, Schema, TabularError, check_from, draft_schema_from, draft_warnings,
    read_table_from, ten_of,
};

/// One function counts what is wrong with lines, for the draft and for the check: each warning stands in the report, and no
/// line of one kind is counted in the one alone.
#[test]
fn a_draft_counts_the_lines_that_a_check_counts() {
    let plain = "a,b,y\n".to_owned() + &"1,2,no\n3,4,yes\n".repeat(30);
    let lines = |line: &str| plain.clone() + &format!("{line}\n").repeat(3);
    let long = format!("1,{},no", "9".repeat(1 << 20));
    for (what, text, kind, count) in [
        (
            "R",
            plain
                .replace("\n1,", "\n7,1,")
                .replace("\n3,", "\n8,3,")
                .into_bytes(),
            ProblemKind::TooManyFields,
            60,
        ),
        (
            "line feeds",
            lines("1,\"two\nlines\",no").into_bytes(),
            ProblemKind::OpenQuote,
            3,
        ),
        (
            "long",
            lines(&long).into_bytes(),
            ProblemKind::OverlongLine,
            3,
        ),
        (
            "comments",
            lines("# a comment").into_bytes(),
            ProblemKind::Comment,
            3,
        ),
        ("blank", lines("").into_bytes(), ProblemKind::BlankLine, 3),
        (
            "Latin-1",
            [lines("").into_bytes(), b"1,K\xf6ln,no\n".to_vec()].concat(),
            ProblemKind::InvalidUtf8,
            1,
        ),
    ] {
        let draft = draft_schema_from(&text[..], "t", Some("y")).unwrap();
        let report = check_from(&text[..], "t", &Schema::from_toml(&draft, "d").unwrap()).unwrap();
        assert_eq!(report.count(kind), count, "{what}: {report}");
        let warnings: Vec<&str> = draft_warnings(&draft).collect();
        assert!(
            warnings
                .iter()
                .any(|line| line.starts_with(&format!("{kind}: {count}"))),
            "{what}: {warnings:?}"
        );
        let shown = report.to_string();
        for warning in &warnings {
            assert!(
                shown.lines().any(|line| line == *warning),
                "{what}: {warning}"
            );
        }
        let of_lines = [
            ProblemKind::TooManyFields,
            ProblemKind::TooFewFields,
            ProblemKind::OpenQuote,
            ProblemKind::OverlongLine,
            ProblemKind::Comment,
            ProblemKind::BlankLine,
            ProblemKind::InvalidUtf8,
        ];
        let counted = of_lines
            .iter()
            .filter(|kind| report.count(**kind) > 0)
            .count();
        assert_eq!(counted, warnings.len(), "{what}: {warnings:?}\n{shown}");
    }
    let draft = draft_schema_from(plain.as_bytes(), "t", None).unwrap();
    assert_eq!(draft_warnings(&draft).count(), 0);
}

/// R's `write.table` separates by spaces, and leaves the name of the first column out.
#[test]
fn a_table_of_r_is_cut_at_spaces() {
    let text =
        "\"a\" \"b\" \"y\"\n".to_owned() + &"\"1\" 0.5 2 \"no\"\n\"2\" 1.5 7 \"yes\"\n".repeat(30);
    let draft = draft_schema_from(text.as_bytes(), "t", Some("y")).unwrap();
    assert!(draft.contains("\ndelimiter = \" \"\n"), "{draft}");
    let warning = draft_warnings(&draft).next().unwrap();
    assert!(
        warning.contains(": 60 ") && warning.contains("row.names = FALSE"),
        "{warning}"
    );
}

/// What stands in the place of a header is named with its remedy, before a cell is repeated.
#[test]
fn first_lines_that_are_no_header_are_named() {
    let schema = Schema::from_toml(
        "format = 1\nrow_norm = 1.0\nintercept = 1.0\n[label]\ncolumn = \"a\"\nvalues = [\"no\", \"yes\"]\npositive = \"yes\"\n\
         default = \"no\"\n[[column]]\nname = \"b\"\nkind = \"ignore\"\n",
        "s",
    )
    .unwrap();
    let long = format!("a,b\rno,secret\r{}", "yes,1\r".repeat(300_000));
    for (text, words) in [
        (&b"a,b\rno,secret\ryes,2\r"[..], "carriage returns"),
        (long.as_bytes(), "carriage returns"),
        (b"sep=,\na,b\nno,secret\n", "tail -n +2"),
        (b"\xef\xbb\xbfSEP=;\na;b\nno;secret\n", "tail -n +2"),
        (b"# made by secret\na,b\nno,1\n", "comment"),
        (b"#made\na,b\nno,1\n", "comment"),
        (b"PK\x03\x04\x14\0\0\0\0\0X.npy,secret", "numpy.save"),
        (b"a,b\xf6\nno,secret\n", "iconv"),
        (b"a,\"b\nc\"\nno,secret\n", "quote"),
        (b"a,b,\nno,1,\n", "ends with a delimiter"),
    ] {
        let error = read_table_from(text, "t", &schema)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains(words) && !error.contains("secret"),
            "{error}"
        );
        assert!(error.len() < 400, "{error}");
    }
    for header in ["#a,b", "a,b\r", "\"a\",\"b\""] {
        let text = format!("{header}\nno,1\n");
        let renamed = schema.to_toml().replace(
            "\"a\"",
            if header.starts_with('#') {
                "\"#a\""
            } else {
                "\"a\""
            },
        );
        let schema = Schema::from_toml(&renamed, "s").unwrap();
        assert!(
            read_table_from(text.as_bytes(), "t", &schema).is_ok(),
            "{header}"
        );
    }
    // A draft of a header that ends with a delimiter: the label is the last column that has a name.
    let text = "x,y,\n".to_owned() + &"1,no,\n2,yes,\n".repeat(20);
    let draft = draft_schema_from(text.as_bytes(), "t", None).unwrap();
    let schema = Schema::from_toml(&draft, "d").unwrap();
    assert_eq!(schema.label().column, "y");
    assert!(
        draft.contains("the header ends with a delimiter"),
        "{draft}"
    );
}

/// Messages do not grow with a table.
#[test]
fn messages_list_ten_names_and_a_count() {
    let names: Vec<String> = (0..20_000).map(|i| format!("column {i}")).collect();
    let columns = || names.clone();
    let path = || "t".to_owned();
    for error in [
        TabularError::MissingColumns {
            path: path(),
            columns: columns(),
            near: vec![None, Some("n".repeat(100_000))],
        },
        TabularError::UnlistedColumns {
            path: path(),
            columns: columns(),
        },
    ] {
        let text = error.to_string();
        assert!(text.len() < 400, "{text}");
        assert!(text.contains("column 9 and 19990 more"), "{text}");
    }
    let long = vec!["n".repeat(100_000)];
    let text = TabularError::MissingColumns {
        path: path(),
        columns: long,
        near: Vec::new(),
    }
    .to_string();
    assert!(text.len() < 200, "{text}");
    assert_eq!(ten_of(&["a", ""]), "a, \"\"");
}
