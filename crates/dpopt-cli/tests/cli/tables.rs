//! `schema` and `predict`: the same schema from draft to prediction.

use crate::support::{Place, stderr};

/// A name of the header is repeated, and no cell of a line that may be the first record.
#[test]
fn a_name_that_a_schema_misspells_is_suggested() {
    let place = Place::new();
    for (header, said) in [
        ("agee,c,y", "age (did you mean agee?)"),
        ("customer_age,c,y", "age (did you mean customer_age?)"),
        ("income,c,y", "lacks columns of the schema: age"),
        ("agee,b,yes", "lacks columns of the schema: age, c, y"),
    ] {
        place.schema_with("name = \"x\"", "name = \"age\"");
        place.put("t.csv", &format!("{header}\n1,a,yes\n"));
        let output = place.run("train --data t.csv --schema s.toml");
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1));
        assert!(message.trim_end().ends_with(said), "{header}: {message}");
    }
}

#[test]
fn a_folder_of_a_run_stands_for_its_model() {
    let place = Place::new();
    place.train("--out run");
    place.ok("predict --model run --data t.csv --out p.csv");
    place.ok("evaluate --model run --data t.csv --epsilon 1");
    place.ok("certify --model run --data t.csv --epsilon 1");
    place.ok("export --model run --format json --out m.json");
    assert_eq!(place.ok("explain run"), place.ok("explain run/model.json"));
    std::fs::create_dir(place.path("empty")).unwrap();
    let words = ["empty/model.json"];
    place.fails("predict --model empty --data t.csv", 1, &words);
}

#[test]
fn a_draft_says_that_it_reads_the_data_and_can_be_trained_with_once_it_is_edited() {
    let place = Place::new();
    let output = place.run("schema t.csv");
    assert!(output.status.success());
    assert!(stderr(&output).contains("not private"));
    let draft = String::from_utf8(output.stdout).unwrap();
    assert!(draft.contains("READ FROM THE DATA"), "{draft}");
    place.put("s.toml", &draft);
    place.fails(
        "train --data t.csv --schema s.toml --out o",
        1,
        &["--schema", "draft = true", "--accept-draft"],
    );
    let edited = draft.replace("draft = true\n", "");
    assert_ne!(edited, draft);
    place.put("s.toml", &edited);
    assert_eq!(place.train("")["records"], crate::support::ROWS);
}

/// The prediction is the positive value where the probability in the same line is above the threshold.
#[test]
fn a_threshold_moves_predictions_and_nothing_else() {
    let place = Place::new();
    place.train("--epsilon 8 --max-steps 30 --out o");
    place.train("--epsilon 8 --max-steps 30 --loss hinge --out hinge");
    let plain = place.ok("predict --model o/model.json --data test.csv");
    let mut found = Vec::new();
    for threshold in [0.05, 0.4, 0.5, 0.9] {
        let flags = format!("predict --model o/model.json --data test.csv --threshold {threshold}");
        let text = place.ok(&flags);
        let mut positives = 0;
        for (line, plain) in text.lines().zip(plain.lines()).skip(1) {
            let (numbers, class) = line.rsplit_once(',').unwrap();
            assert_eq!(plain.rsplit_once(',').unwrap().0, numbers);
            let chance: f64 = numbers.split_once(',').unwrap().1.parse().unwrap();
            assert_eq!(class == "yes", chance > threshold, "{line} {threshold}");
            positives += usize::from(class == "yes");
        }
        found.push(positives);
    }
    assert!(
        found.is_sorted_by(|a, b| a >= b) && found[0] > found[3],
        "{found:?}"
    );
    let line = "predict --model hinge/model.json --data test.csv --out x --threshold 0.3";
    place.fails(line, 1, &["--threshold", "hinge", "score"]);
    for bad in ["0", "1", "-1", "nan"] {
        let line = format!("predict --model o/model.json --data test.csv --threshold {bad}");
        assert_eq!(place.run(&line).status.code(), Some(1), "{bad}");
    }
}

#[test]
fn predictions_use_the_schema_of_the_model() {
    let place = Place::new();
    place.train("--epsilon 100 --out o");
    // The schema file is gone: the model has its own. Columns in another order, one more
    // record out of range, no label.
    std::fs::remove_file(place.path("s.toml")).unwrap();
    place.put("p.csv", "c,x\na,0\nb,10\nb,1000\nzebra,NaN\n\n");
    let text = place.ok("predict --model o/model.json --data p.csv");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["score", "probability", "prediction"]);
    assert_eq!(lines[1][2], "no");
    assert_eq!(lines[2][2], "yes");
    // Clipped to the public range.
    assert_eq!(lines[3], lines[2]);
    let probability: f64 = lines[2][1].parse().unwrap();
    let score: f64 = lines[2][0].parse().unwrap();
    assert!((probability - 1.0 / (1.0 + (-score).exp())).abs() < 1e-12);
    // By hand from the weights.
    let model = place.json("o/model.json");
    let weight = |i: usize| model["weights"][i]["weight"].as_f64().unwrap();
    let features = [1.0, 0.0, 1.0, 0.0, 1.0];
    let norm: f64 = features.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!(norm < 2.0);
    let by_hand: f64 = features
        .iter()
        .enumerate()
        .map(|(i, x)| x * weight(i))
        .sum();
    assert!((score - by_hand).abs() < 1e-6, "{score} {by_hand}");

    place.ok("predict --model o/model.json --data p.csv --out q.csv");
    assert_eq!(place.read("q.csv"), text);
    place.fails(
        "predict --model o/model.json --data p.csv --out no/q.csv",
        1,
        &["--out", "no/q.csv"],
    );
    place.put("p.csv", "c\na\n");
    place.fails(
        "predict --model o/model.json --data p.csv",
        1,
        &["p.csv, line 1", "x"],
    );
}

#[test]
fn other_losses_state_no_probability() {
    let place = Place::new();
    place.train("--loss sigmoid --solver noisy-gd --out o");
    let text = place.ok("predict --model o/model.json --data t.csv");
    assert!(text.starts_with("score,prediction\n"));
    assert_eq!(text.lines().count(), 1 + crate::support::ROWS);
}

#[test]
fn a_draft_takes_the_label_that_is_named() {
    let place = Place::new();
    let draft = place.ok("schema t.csv --label x");
    assert!(
        draft.contains("column = \"x\"\nkind = \"number\""),
        "{draft}"
    );
    let draft = place.ok("schema t.csv --label c");
    assert!(draft.contains("column = \"c\"\nvalues = "), "{draft}");
    place.put("u.csv", "weight,height\n1,2\n2,3\n3,5\n");
    place.fails(
        "schema u.csv --label heigth",
        1,
        &["--label", "heigth", "did you mean height"],
    );
    place.fails("schema u.csv --label q", 1, &["--label", "\"q\""]);
    place.put("v.csv", "a,b\n1,2\n1,3\n1,5\n");
    place.fails("schema v.csv --label a", 1, &["--label", "1 different"]);
    place.put(
        "s.toml",
        &place.ok("schema v.csv").replace("draft = true", ""),
    );
    place.fails(
        "train --data v.csv --schema s.toml --out o",
        1,
        &["no [label]", "dpopt schema FILE --label COLUMN"],
    );
}

#[test]
fn help_promises_the_formats_that_the_build_reads() {
    let place = Place::new();
    for command in ["train", "schema", "check", "convert"] {
        let help = place.ok(&format!("{command} --help")).to_lowercase();
        assert_eq!(
            help.contains("parquet"),
            cfg!(feature = "parquet"),
            "{help}"
        );
    }
    let known = if cfg!(feature = "parquet") {
        "parquet"
    } else {
        "rows"
    };
    place.fails("schema t.csv --format q", 1, &["known are csv", known]);
}

#[test]
fn a_table_of_semicolons_dates_and_texts_is_trained_on_and_predicted() {
    let place = Place::new();
    let mut text = "when;who;x;y\n".to_owned();
    for i in 0..400 {
        let day = 1 + i * 7 % 28;
        let x = if i % 4 == 0 {
            String::new()
        } else {
            format!("{}.5", i % 13)
        };
        text += &format!(
            "2020-02-{day:02};u{i};{x};{}\n",
            ["no", "yes"][usize::from(day > 14)]
        );
    }
    place.put("t.csv", &text);
    let draft = place.ok("schema t.csv");
    for part in ["delimiter = \";\"", "kind = \"date\"", "missing = true"] {
        assert!(draft.contains(part), "{part}: {draft}");
    }
    let hashed = draft.replace("kind = \"ignore\"", "kind = \"hash\"\nbuckets = 8");
    place.put("s.toml", &hashed.replace("draft = true\n", ""));
    assert_eq!(place.train("--epsilon 100 --out o")["records"], 400);
    let predicted = place.ok("predict --model o/model.json --data t.csv");
    assert_eq!(predicted.lines().count(), 401);
    let names = place.read("o/model.json");
    for name in ["x = (missing)", "who in bucket 7 of 8", "\"when\""] {
        assert!(names.contains(name), "{name}: {names}");
    }
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    assert!(
        place
            .ok("check t.csv --schema s.toml")
            .contains("400 records")
    );
}

/// The tool's own draft shortens rows by design: one line with the share, and no list of lines.
#[test]
fn rows_that_are_shortened_are_counted_in_one_line() {
    let place = Place::new();
    place.put("d.toml", &place.ok("schema t.csv"));
    let report = place.ok("check t.csv --schema d.toml");
    let said =
        "400 of 400 rows (100.0 %) are longer than row_norm and are shortened to it, by design";
    assert!(report.lines().any(|line| line == said), "{report}");
    assert!(
        report.contains("the schema foresees every field"),
        "{report}"
    );
    assert!(!report.contains("    line "), "{report}");
}
