//! What a draft makes of the columns of a table.

use dpopt_data::tabular::{
    ColumnKind, LabelKind, Schema, TabularError, Transform, check_from, draft_schema_from,
};

/// A table of 60 records with this column and a label of two values.
fn table(name: &str, field: impl Fn(usize) -> String) -> String {
    let lines =
        (0..60).map(|i| format!("{},{}\n", field(i), ["no", "yes"][usize::from(i % 3 == 0)]));
    format!("{name},y\n{}", lines.collect::<String>())
}

/// The draft of that column, which loads and foresees all of the table.
#[track_caller]
fn drafted(name: &str, field: impl Fn(usize) -> String) -> (String, ColumnKind) {
    let text = table(name, field);
    let draft = draft_schema_from(text.as_bytes(), "t", None).unwrap();
    let schema = Schema::from_toml(&draft, "draft").unwrap();
    assert!(schema.is_draft());
    check_from(text.as_bytes(), "t", &schema).unwrap();
    let kind = schema.columns()[0].kind.clone();
    (draft, kind)
}

#[test]
fn many_whole_numbers_and_all_fractions_are_numbers() {
    for (what, field) in [
        (
            "11 whole numbers",
            (|i| (i % 11).to_string()) as fn(usize) -> String,
        ),
        ("two fractions", |i| ["0.5", "1"][i % 2].to_owned()),
        ("a text among numbers", |i| {
            if i == 3 {
                "x".to_owned()
            } else {
                (i % 30).to_string()
            }
        }),
    ] {
        let (draft, kind) = drafted("x", field);
        assert!(matches!(kind, ColumnKind::Number(_)), "{what}: {draft}");
    }
    let (draft, kind) = drafted("x", |i| (i % 10).to_string());
    let ColumnKind::Category(category) = kind else {
        panic!("{draft}")
    };
    assert_eq!(category.values.len(), 10);
    assert!(
        draft.contains("# if they are amounts: kind = \"number\""),
        "{draft}"
    );
    let (draft, _) = drafted("x", |i| (i % 11).to_string());
    assert!(
        draft.contains("# if they are codes: kind = \"category\""),
        "{draft}"
    );
    let (draft, kind) = drafted("x", |i| format!("u{}", i % 12));
    assert!(matches!(kind, ColumnKind::Category(_)), "{draft}");
}

#[test]
fn what_numbers_the_records_is_ignored_and_says_why() {
    for (name, field) in [
        ("", (|i| i.to_string()) as fn(usize) -> String),
        ("Unnamed: 0", |i| i.to_string()),
        ("id", |i| (1000 - 3 * i).to_string()),
        ("customer_id", |i| (i * 37 % 61).to_string()),
        ("AppointmentID", |i| (5_000_000 + 7 * i).to_string()),
        ("rowId", |i| (i * 37 % 61).to_string()),
        ("n", |i| (i + 5).to_string()),
        ("key", |i| format!("k{}", i * 37 % 61)),
    ] {
        let (draft, kind) = drafted(name, field);
        assert_eq!(kind, ColumnKind::Ignore, "{draft}");
        assert!(draft.contains("kind = \"ignore\" # "), "{draft}");
    }
    for (name, field) in [
        // Whole and in order, and with steps: it may be an amount.
        ("x", (|i| (i * i).to_string()) as fn(usize) -> String),
        ("id", |i| (i % 31).to_string()),
        ("x", |i| format!("{i}.5")),
        ("x", |i| (i * 37 % 61).to_string()),
        ("paid", |i| (i * 37 % 61).to_string()),
        ("PAID", |i| (i * 37 % 61).to_string()),
    ] {
        let (draft, kind) = drafted(name, field);
        assert!(matches!(kind, ColumnKind::Number(_)), "{name}: {draft}");
    }
    // Persons who come again have one number, and there are too many of them for amounts.
    let lines: String = (0..6000)
        .map(|i| format!("{},{}\n", 90_000 + 17 * (i % 2500), ["no", "yes"][i % 2]))
        .collect();
    let draft = draft_schema_from(format!("PatientId,y\n{lines}").as_bytes(), "t", None).unwrap();
    assert!(
        draft.contains("kind = \"ignore\" # identifiers, by its name"),
        "{draft}"
    );
}

#[test]
fn the_empty_text_is_a_value_where_it_occurs() {
    let (draft, kind) = drafted("x", |i| ["a", "", "b"][i % 3].to_owned());
    let ColumnKind::Category(category) = kind else {
        panic!("{draft}")
    };
    assert_eq!(category.values, ["", "a", "b"]);
    let (draft, kind) = drafted("x", |i| ["a", ""][i % 2].to_owned());
    let ColumnKind::Category(category) = kind else {
        panic!("{draft}")
    };
    assert_eq!(category.values, ["", "a"]);
    // A field that is not there is none.
    let text = "y,x\n".to_owned() + &"yes,a\nno\nno,b\n".repeat(9);
    let draft = draft_schema_from(text.as_bytes(), "t", Some("y")).unwrap();
    assert!(draft.contains("values = [\"a\", \"b\"]"), "{draft}");
    assert_eq!(drafted("x", |_| String::new()).1, ColumnKind::Ignore);
    assert_eq!(drafted("x", |_| "a".to_owned()).1, ColumnKind::Ignore);
}

#[test]
fn the_label_is_the_column_that_is_named() {
    let mut text = "two,digit,amount,text,one,y\n".to_owned();
    for i in 0..120 {
        let (two, text_of) = (["a", "b", "b"][i % 3], ["u", "v", "w"][i % 3]);
        text += &format!("{two},{},{}.5,{text_of},1,{}\n", i % 10, i % 50, i % 2);
    }
    let label = |name: &str| {
        let draft = draft_schema_from(text.as_bytes(), "t", Some(name)).unwrap();
        let schema = Schema::from_toml(&draft, "draft").unwrap();
        assert_eq!(schema.label().column, name.trim());
        // It is no feature, and the last column is one.
        let mut columns = schema.columns().iter().map(|column| column.name.as_str());
        assert!(name == "y" || columns.clone().any(|column| column == "y"));
        assert!(!columns.any(|column| column == name));
        schema.label().kind.clone()
    };
    let LabelKind::Classes(classes) = label(" two") else {
        panic!()
    };
    assert_eq!(
        (classes.positive.as_str(), classes.default.as_str()),
        ("a", "b")
    );
    let LabelKind::Several(several) = label("digit") else {
        panic!()
    };
    assert_eq!(
        several.values,
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
    );
    let LabelKind::Several(several) = label("text") else {
        panic!()
    };
    assert_eq!(several.values, ["u", "v", "w"]);
    let LabelKind::Number(range) = label("amount") else {
        panic!()
    };
    assert_eq!((range.min, range.max), (0.5, 49.5));
    assert!(matches!(label("y"), LabelKind::Classes(_)));
    let refuse = |name: &str| draft_schema_from(text.as_bytes(), "t", Some(name)).unwrap_err();
    assert!(matches!(
        refuse("one"),
        TabularError::LabelUnfit { texts: 1, .. }
    ));
    assert!(matches!(
        refuse("onee"),
        TabularError::NoColumn { columns, .. } if columns.len() == 6
    ));
}

#[test]
fn numbers_that_are_often_missing_have_a_feature_for_it() {
    for marker in ["", "?", "NA", "nan", "NULL", "-"] {
        let field = |every: usize| {
            move |i: usize| {
                if i.is_multiple_of(every) {
                    marker.to_owned()
                } else {
                    (20 + i % 37).to_string()
                }
            }
        };
        let (draft, kind) = drafted("x", field(10));
        let ColumnKind::Number(number) = kind else {
            panic!("{marker}: {draft}")
        };
        // In the middle, where the feature of a centred number is 0.
        assert!(number.missing && number.centred, "{draft}");
        assert_eq!(2.0 * number.default, number.min + number.max, "{draft}");
        // Two of sixty are few.
        let (draft, kind) = drafted("x", field(30));
        let ColumnKind::Number(number) = kind else {
            panic!("{marker}: {draft}")
        };
        assert!(!number.missing, "{draft}");
        assert_eq!(2.0 * number.default, number.min + number.max, "{draft}");
        assert!(
            draft.contains("# 2 fields are empty or no numbers"),
            "{draft}"
        );
        let text = table("x", field(10));
        let schema = Schema::from_toml(&drafted("x", field(10)).0, "draft").unwrap();
        assert!(
            check_from(text.as_bytes(), "t", &schema)
                .unwrap()
                .is_clean()
        );
    }
    // Other texts are no numbers that are missing.
    let (_, kind) = drafted("x", |i| {
        if i % 10 == 0 {
            "many".to_owned()
        } else {
            (i % 37).to_string()
        }
    });
    assert!(matches!(kind, ColumnKind::Category(_)));
}

#[test]
fn dates_and_texts_of_too_many_values_are_drafted_or_proposed() {
    let (draft, kind) = drafted("x", |i| format!("2021-03-{:02}T10:00", 1 + i % 28));
    let ColumnKind::Date(days) = kind else {
        panic!("{draft}")
    };
    // 2021-03-01 is day 18687.
    assert_eq!(
        (days.min, days.max, days.default, days.missing),
        (18687.0, 18714.0, 18687.0, false)
    );
    let (draft, kind) = drafted("x", |i| {
        if i % 5 == 0 {
            String::new()
        } else {
            format!("1999/12/{:02}", 1 + i % 28)
        }
    });
    assert!(
        matches!(kind, ColumnKind::Date(days) if days.missing),
        "{draft}"
    );
    let mut text = "x,y\n".to_owned();
    for i in 0..5000 {
        text += &format!("u{},{}\n", i % 2500, i % 2);
    }
    let draft = draft_schema_from(text.as_bytes(), "t", None).unwrap();
    assert!(
        draft.contains("# if equal texts stand for the same: kind = \"hash\""),
        "{draft}"
    );
    let hashed = draft.replace("kind = \"ignore\"", "kind = \"hash\"\nbuckets = 1024");
    assert_eq!(Schema::from_toml(&hashed, "s").unwrap().dim(), 1025);
}

/// Places of an even sequence in (0, 1), and a normal number of two of them.
fn uniform(i: usize, step: f64) -> f64 {
    ((i as f64 + 0.5) * step).fract()
}

fn normal(i: usize) -> f64 {
    let (u, v) = (
        uniform(i, 0.754_877_666_246_693),
        uniform(i, 0.569_840_290_998_053),
    );
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The draft of a column of so many records, and what it says of the column alone.
fn of_many(records: usize, name: &str, field: impl Fn(usize) -> String) -> (String, ColumnKind) {
    let lines = (0..records).map(|i| format!("{},{}\n", field(i), ["no", "yes"][i % 2]));
    let text = format!("{name},y\n{}", lines.collect::<String>());
    let draft = draft_schema_from(text.as_bytes(), "t", None).unwrap();
    let kind = Schema::from_toml(&draft, "draft").unwrap().columns()[0]
        .kind
        .clone();
    (draft, kind)
}

/// Skewed amounts of many sizes have a logarithm, other skewed numbers a range without their tails, and all others the
/// whole range: a logarithm of weights at birth, all of one size, would leave a tenth of the range to them.
#[test]
fn the_scale_of_a_number_follows_from_its_quantiles() {
    type Field = fn(usize) -> f64;
    const WHOLE: [bool; 2] = [true, true];
    for (what, field, log, whole) in [
        (
            "weights at birth",
            (|i| (3400.0 + 500.0 * normal(i)).round()) as Field,
            false,
            WHOLE,
        ),
        (
            "uniform",
            |i| (5000.0 * uniform(i, 0.618_033_988)).round(),
            false,
            WHOLE,
        ),
        (
            "heavy tails on both sides",
            |i| (1000.0 * normal(i).sinh()).round(),
            false,
            WHOLE,
        ),
        (
            "incomes",
            |i| (50_000.0 * normal(i).exp()).round(),
            true,
            WHOLE,
        ),
        (
            "waiting times",
            |i| -10.0 * uniform(i, 0.618_033_988).ln(),
            true,
            WHOLE,
        ),
        (
            "gains, mostly 0",
            |i| {
                if i % 10 > 0 {
                    0.0
                } else {
                    (5000.0 * normal(i).exp()).round()
                }
            },
            true,
            WHOLE,
        ),
        (
            "weights, mostly 0",
            |i| {
                if i % 3 > 0 {
                    0.0
                } else {
                    (3400.0 + 500.0 * normal(i)).round()
                }
            },
            false,
            WHOLE,
        ),
        (
            "somewhat skewed",
            |i| (50_000.0 * (0.5 * normal(i)).exp()).round(),
            false,
            [false, false],
        ),
        (
            "below the unit",
            |i| 0.001 * normal(i).exp(),
            false,
            [false, false],
        ),
        (
            "below 0",
            |i| -50_000.0 * normal(i).exp(),
            false,
            [false, false],
        ),
        (
            "below the unit, mostly 0",
            |i| {
                if i % 10 > 3 {
                    0.0
                } else {
                    0.001 * normal(i).exp()
                }
            },
            false,
            [true, false],
        ),
    ] {
        let (draft, kind) = of_many(4000, "x", |i| field(i).to_string());
        let ColumnKind::Number(number) = kind else {
            panic!("{what}: {draft}")
        };
        let all = || (0..4000).map(field);
        let (min, max) = (
            all().fold(f64::MAX, f64::min),
            all().fold(f64::MIN, f64::max),
        );
        assert_eq!(number.transform == Transform::Log1p, log, "{what}: {draft}");
        assert_eq!(
            [number.min == min, number.max == max],
            whole,
            "{what}: {draft}"
        );
        assert_eq!(
            draft.contains("# skewed numbers from "),
            whole != WHOLE,
            "{what}: {draft}"
        );
        // Two in a hundred are left out, and a few that the sample misses.
        let outside = all().filter(|x| *x < number.min || *x > number.max).count();
        assert!(outside <= 4000 * 4 / 100, "{what}: {outside}");
    }
}

#[test]
fn codes_and_times_are_no_numbers_to_learn_from() {
    type Field = fn(usize) -> String;
    for (name, field, why) in [
        (
            "x",
            (|i| (100_000 + i * 7919 % 900_001).to_string()) as Field,
            "identifiers?",
        ),
        (
            "zip",
            |i| (10_000 + i * 7919 % 90_001).to_string(),
            "codes and no amounts",
        ),
        (
            "ZIPCODE",
            |i| (10_000 + i * 37 % 2_001).to_string(),
            "codes and no amounts",
        ),
        (
            "x",
            |i| format!("{:05}", i * 7919 % 100_003),
            "codes and no amounts",
        ),
        (
            "seen",
            |i| (1_600_000_000 + 86_413 * i).to_string(),
            "seconds since 1970",
        ),
        (
            "seen",
            |i| format!("{}.5", 1_600_000_000 + 86_413 * (i % 97)),
            "seconds since 1970",
        ),
        (
            "seen",
            |i| (1_600_000_000_000 + 86_413_000 * i).to_string(),
            "milliseconds since 1970",
        ),
        (
            "seen",
            |i| (1_600_000_000_000_000_000 + 86_413_000_000_000 * i).to_string(),
            "nanoseconds since 1970",
        ),
        (
            "joined",
            |i| format!("20{:02}{:02}{:02}", i % 24, 1 + i % 12, 1 + i % 28),
            "dates without separators",
        ),
    ] {
        let (draft, kind) = of_many(3000, name, field);
        assert_eq!(kind, ColumnKind::Ignore, "{name}: {draft}");
        assert!(
            draft.contains(&format!("kind = \"ignore\" # {why}")),
            "{name}: {draft}"
        );
    }
    // Few codes are categories.
    let (draft, kind) = of_many(3000, "zip", |i| (10_115 + i % 20).to_string());
    assert!(
        matches!(kind, ColumnKind::Category(of) if of.values.len() == 20),
        "{draft}"
    );
    // Amounts of that size, and amounts of one length that come again, are numbers.
    for field in [
        (|i| (400_000_000 + 1_000_003 * i).to_string()) as Field,
        |i| (100_000 + 250 * (i % 1500)).to_string(),
    ] {
        let (draft, kind) = of_many(3000, "x", field);
        assert!(matches!(kind, ColumnKind::Number(_)), "{draft}");
    }
}

/// Numbers and dates that are written in another way are told, with what to write.
#[test]
fn a_draft_tells_how_numbers_and_dates_would_be_read() {
    type Field = fn(usize) -> String;
    for (field, words) in [
        (
            (|i| format!("\"{},{:03}\"", 1 + i % 90, i % 1000)) as Field,
            "separators of thousands",
        ),
        (
            |i| format!("1'{:03}'{:03}.50", i % 1000, i % 900),
            "separators of thousands",
        ),
        (
            |i| format!("1.{:03}.{:03}", i % 1000, i % 900),
            "separators of thousands",
        ),
        (
            |i| format!("\"{},{:02}\"", i % 90, i % 100),
            "a decimal comma",
        ),
        (
            |i| format!("{:02}/{:02}/2021", 1 + i % 28, 1 + i % 12),
            "(dd/mm/yyyy?)",
        ),
        (
            |i| format!("{}.{}.2021", 1 + i % 28, 1 + i % 12),
            "(dd/mm/yyyy?)",
        ),
        (
            |i| {
                if i % 5 == 0 {
                    "unknown".to_owned()
                } else {
                    (i % 37).to_string()
                }
            },
            "\"unknown\" is there 800 times among numbers",
        ),
        (
            |i| {
                if i % 20 == 0 {
                    "-999".to_owned()
                } else {
                    (20 + i % 50).to_string()
                }
            },
            "# -999 is there 200 times",
        ),
    ] {
        let (draft, _) = of_many(4000, "x", field);
        assert!(draft.contains(words), "{words}: {draft}");
    }
    // Where a text is among too many numbers to list, they are numbers.
    let (draft, kind) = of_many(4000, "x", |i| match i % 5 {
        0 => "unknown".to_owned(),
        _ => i.to_string(),
    });
    assert!(
        matches!(&kind, ColumnKind::Number(number) if number.missing),
        "{draft}"
    );
    for field in [
        (|i| (i % 100).to_string()) as Field,
        |i| (i % 999).to_string(),
        |i| format!("2021-01-{:02}", 1 + i % 28),
        |i| format!("v{}", i % 5),
    ] {
        let (draft, _) = of_many(4000, "x", field);
        let notes = draft.split("[[column]]").nth(1).unwrap();
        for words in ["separators", "comma", "dates", "is there"] {
            assert!(!notes.contains(words), "{draft}");
        }
    }
}
