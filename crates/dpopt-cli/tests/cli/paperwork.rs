//! `dpopt explain`, model cards, completions and man pages.

use serde_json::Value;

use crate::support::{Place, stderr};

const TRAIN: &str = "train --data t.csv --schema s.toml --delta 1e-5 --max-steps 3 --quiet";

/// Every sentence of the statement is in it, and its own numbers are those of the statement.
#[test]
fn a_model_is_explained_in_the_words_of_its_statement() {
    let place = Place::new();
    for (flags, words) in [
        (
            "--epsilon 1",
            &["only, and not whether", "no certificate"][..],
        ),
        (
            "--epsilon 2 --adjacency add-remove --public-records 400",
            &["declared", "left out"],
        ),
        (
            "--epsilon 3 --holdout 0.3 --evaluate",
            &["area under the ROC curve", "cost the larger"],
        ),
        (
            "--epsilon 3 --objective auc --group-shares release",
            &["Shares of groups of records, with noise", "objective: auc"],
        ),
    ] {
        place.ok(&format!("{TRAIN} {flags} --out o --force"));
        let model = place.json("o/model.json");
        let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = flat(place.ok("explain o/model.json"));
        let said = model["privacy"]["words"].as_array().unwrap();
        for sentence in said {
            assert!(text.contains(sentence.as_str().unwrap()), "{flags}: {text}");
        }
        for word in words {
            assert!(text.contains(word), "{flags}: {word}: {text}");
        }
        for always in [
            "column \"x\": a number from 0 to 10",
            "label \"y\": one of \"no\", \"yes\"",
            "dpopt ledger show",
        ] {
            assert!(text.contains(always), "{flags}: {always}: {text}");
        }
        let markdown = place.ok("explain o/model.json --format markdown");
        let card = place.ok("explain o/model.json --format card");
        assert!(card.ends_with(&markdown), "one text in both forms");
        assert_eq!(markdown.matches("\n## ").count(), 11);
        let epsilon = model["privacy"]["epsilon"].as_f64().unwrap();
        assert!(
            card.contains(&format!("\n  epsilon: {epsilon:?}\n")),
            "{card}"
        );
        assert!(card.contains("\n  delta: 1.0e-5\n"), "{card}");
    }
}

/// A guess between two tables is right with probability 1/2 + (Phi(mu/2) - 1/2) at most; an epsilon of 1 at 1e-5 is mu = 0.2680, which
/// `gdp` of other tools has too: Phi(0.1340) = 0.5533.
#[test]
fn the_best_guess_is_that_of_the_trade_off_curve() {
    let place = Place::new();
    place.ok(&format!("{TRAIN} --epsilon 1 --out o"));
    let card = place.ok("explain o/model.json --format card");
    let line = card
        .lines()
        .find_map(|line| line.strip_prefix("  best_guess_of_two_tables: "));
    let guess: f64 = line.unwrap().parse().unwrap();
    assert!((guess - 0.5533).abs() < 2e-4, "{guess}");
}

/// A run that went on from a checkpoint: what all runs have together is said, and attacks are on all of them.
#[test]
fn earlier_runs_on_a_ledger_are_named() {
    let place = Place::new();
    let ledger = "--ledger l.json --checkpoint c.json";
    place.ok(&format!(
        "{TRAIN} --epsilon 0.5 {ledger} --budget 2 --budget-delta 1e-5 --out o"
    ));
    place.ok(&format!(
        "{TRAIN} --epsilon 0.5 {ledger} --resume c.json --out p"
    ));
    let text = place.ok("explain p/model.json");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "started where earlier runs on a ledger had ended",
        "(2, 1e-5)-differentially private",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(
        place
            .ok("explain p/model.json --format card")
            .contains("all_runs: {epsilon: 2.0, delta: 1.0e-5}")
    );
}

/// A column called like markup and like YAML: no line of it stands in a text, and the header of a card has its own lines alone.
#[test]
fn hostile_names_stay_names() {
    let place = Place::new();
    let schema = place.read("s.toml");
    // No header of a table has such a name, so the schema does not use that column.
    let column = "[[column]]\nname = \"x: [y] # \\\"*<b>\\n---\\n|`\\u202e\"\nkind = \"ignore\"\n";
    let listed = "[[column]]\nname = \"c\"\nkind = \"category\"\nvalues = [\"a\", \"b\", \"# <i> --- \\\"\"]\n";
    let (rest, _) = schema.split_once("[[column]]\nname = \"c\"").unwrap();
    place.put("s.toml", &format!("{rest}{listed}{column}"));
    place.ok(&format!("{TRAIN} --epsilon 1 --out o"));
    for form in ["text", "markdown", "card"] {
        let text = place.ok(&format!("explain o/model.json --format {form}"));
        assert!(!text.contains('\u{202e}'), "{text}");
        let rules = text.lines().filter(|line| line.trim() == "---").count();
        assert_eq!(rules, if form == "card" { 2 } else { 0 }, "{text}");
        let body = text.rsplit("---\n").next().unwrap();
        if form != "text" {
            assert!(!body.contains(" <i>") && !body.contains("*<b>"), "{body}");
        }
    }
}

/// What a file says of itself is not repeated where its words and its numbers disagree.
#[test]
fn statements_that_were_edited_are_refused() {
    let place = Place::new();
    place.ok(&format!("{TRAIN} --epsilon 1 --out o"));
    let model = place.json("o/model.json");
    let edited = |edit: &dyn Fn(&mut Value), words: &[&str]| {
        let mut model = model.clone();
        edit(&mut model["privacy"]);
        place.put("m.json", &model.to_string());
        for command in [
            "explain m.json",
            "export --model m.json --format json --out f.json",
        ] {
            let all: Vec<&str> = ["m.json"].iter().chain(words).copied().collect();
            place.fails(command, 1, &all);
        }
        place.ok("predict --model m.json --data t.csv");
    };
    edited(&|of| of["epsilon"] = 0.1.into(), &["(0.1, 1e-5)", "edited"]);
    edited(&|of| of["epsilon"] = (-1.0).into(), &["-1", "finite"]);
    edited(&|of| of["words"] = Value::Array(Vec::new()), &["words"]);
    edited(&|of| of["adjacency"] = "add-remove".into(), &["words"]);
    edited(
        &|of| of["mode"] = "simulated".into(),
        &["simulated", "no guarantee"],
    );
}

#[test]
fn shells_and_manuals_know_every_command() {
    let place = Place::new();
    let help = place.ok("--help");
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() >= 15, "{help}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.ok(&format!("completions {shell}"));
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
        // Values of --solver, with the last name of the list.
        assert!(
            script.contains("dp-sgd-decay") && script.contains("sgda"),
            "{shell}"
        );
    }
    place.ok("man pages");
    for command in commands {
        let page = place.read(&format!("pages/dpopt-{command}.1"));
        assert!(
            page.contains(".TH") && page.contains("\\-\\-help"),
            "{page}"
        );
    }
    assert!(place.read("pages/dpopt.1").contains("Exit codes"));
    assert!(place.path("pages/dpopt-ledger-show.1").is_file());
    place.fails("man pages", 1, &["DIR", "--force"]);
    place.ok("man pages --force");
    assert_eq!(stderr(&place.run("man pages --force")), "");
}

/// Kept columns stand first and as they were, unlisted ones too; the rest of a line is what it is without them, in both formats.
#[test]
fn predictions_stand_beside_columns_of_the_table() {
    let place = Place::new();
    place.ok(&format!("{TRAIN} --epsilon 1 --out o"));
    let ids = ["7", "\"a,b\"", "\"say \"\"so\"\"\"", "", "ü"];
    let lines: Vec<String> = crate::support::rows(9_000)
        .iter()
        .enumerate()
        .map(|(i, line)| format!("{},{line}\n", ids[i % 5]))
        .collect();
    place.put("ids.csv", &format!("\"i,d\",x,c,y\n{}", lines.concat()));
    place.put(
        "plain.csv",
        &crate::support::table(&crate::support::rows(9_000)),
    );
    let plain = place.ok("predict --model o/model.json --data plain.csv");
    let predict = "predict --model o/model.json --data ids.csv";
    place.fails(predict, 1, &["i,d"]);
    let kept = place.ok(&format!("{predict} --keep \"i,d\",c"));
    assert_eq!(kept.lines().count(), 9_001);
    for (i, (kept, plain)) in kept.lines().zip(plain.lines()).enumerate() {
        let (id, c) = match i {
            0 => ("\"i,d\"", "c"),
            i => (ids[(i - 1) % 5], if (i - 1) % 3 == 0 { "b" } else { "a" }),
        };
        assert_eq!(kept, format!("{id},{c},{plain}"));
    }
    let texts = ["7", "a,b", "say \"so\"", "", "ü"];
    place.ok(&format!(
        "{predict} --keep \"i,d\",c --out-format jsonl --out p.jsonl"
    ));
    let jsonl = place.read("p.jsonl");
    assert_eq!(jsonl.lines().count(), 9_000);
    for (i, (line, plain)) in jsonl.lines().zip(plain.lines().skip(1)).enumerate() {
        let json: Value = serde_json::from_str(line).unwrap();
        let cells: Vec<&str> = plain.split(',').collect();
        assert_eq!(json["i,d"], texts[i % 5]);
        assert_eq!(json["score"].as_f64(), cells[0].parse().ok());
        assert_eq!(json["probability"].as_f64(), cells[1].parse().ok());
        assert_eq!(json["prediction"], cells[2]);
        assert_eq!(json.as_object().unwrap().len(), 5);
    }
    // A table without records has its header alone.
    place.put("none.csv", "x,c\n");
    assert_eq!(
        place.ok("predict --model o/model.json --data none.csv --keep x"),
        "x,score,probability,prediction\n"
    );
    assert_eq!(
        place.ok("predict --model o/model.json --data none.csv --out-format jsonl"),
        ""
    );
}

/// The report has the version, and the command line and the date as the user wants them told; nothing is told on its own.
#[test]
fn a_report_says_how_it_was_made_as_far_as_the_user_wants() {
    let place = Place::new();
    let flags = format!("{TRAIN} --epsilon 1 --force --out o");
    place.ok(&format!("{flags} --date 2026-01-31"));
    let report = place.read("o/report.html");
    let version = format!("dpopt {}", env!("CARGO_PKG_VERSION"));
    for part in [
        &version,
        "2026-01-31",
        "dpopt train --data t.csv",
        "--max-steps 3",
    ] {
        assert!(report.contains(part), "{part}");
    }
    place.ok(&format!("{flags} --no-command-line"));
    let report = place.read("o/report.html");
    assert!(report.contains(&version));
    for part in ["t.csv --schema", "2026", "date, as given", "command line"] {
        assert!(!report.contains(part), "{part}");
    }
    let ledger = "--ledger l --budget 9 --budget-delta 1e-4";
    place.ok(&format!("{flags} --no-command-line {ledger}"));
    assert!(!place.read("l").contains("t.csv"));
}

const COLUMNS: &str = "
[[column]]
name = \"joined\"
kind = \"date\"
min = \"1990-01-01\"
max = \"2030-01-01\"
default = \"2010-01-31\"

[[column]]
name = \"employer\"
kind = \"hash\"
buckets = 16

[[column]]
name = \"note\"
kind = \"ignore\"
";

/// Each kind of column, in all three forms; a column that has a weight is never called unused.
#[test]
fn columns_that_have_weights_are_explained() {
    let place = Place::new();
    place.put("s.toml", &(place.read("s.toml") + COLUMNS));
    let lines = crate::support::rows(400);
    let lines: Vec<String> = lines
        .iter()
        .map(|line| line.replacen(',', ",2001-02-03,acme,hi,", 1))
        .collect();
    place.put(
        "t.csv",
        &format!("x,joined,employer,note,c,y\n{}\n", lines.join("\n")),
    );
    place.ok(&format!("{TRAIN} --epsilon 1 --out o"));
    let weights = place.json("o/model.json")["weights"].to_string();
    for form in ["text", "markdown", "card"] {
        let text = place.ok(&format!("explain o/model.json --format {form}"));
        let text = text.replace('\\', "");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (column, said) in [
            ("x", "a number from 0 to 10; anything else is read as 0"),
            ("c", "one of \"a\", \"b\", or another"),
            (
                "joined",
                "a date from 1990-01-01 to 2030-01-01; anything else is read as 2010-01-31",
            ),
            ("employer", "a text, in one of 16 buckets by a public hash"),
            ("note", "not used"),
        ] {
            let line = format!("column \"{column}\": {said}");
            assert!(text.contains(&line), "{form}: {line}: {text}");
            let weighted = weights.contains(&format!("\"{column}"));
            assert_eq!(weighted, said != "not used", "{column}: {weights}");
        }
    }
}

/// Epsilon 1 at delta 1e-5 is mu = 0.26805, of 5 records 1.34026: Phi(Phi^-1(0.01) + 1.34026) = Phi(-0.98609) = 16.204 %, rounded up.
/// Of two Gaussian parts a record is in one, so a hold-out with an evaluation changes nothing; explanation and report have one table.
#[test]
fn a_hold_out_leaves_the_attacks_on_a_gaussian_run_as_they_are() {
    let place = Place::new();
    for flags in ["", "--holdout 0.3 --evaluate"] {
        place.ok(&format!(
            "{TRAIN} --epsilon 1 --solver noisy-gd {flags} --out o --force"
        ));
        let text = place.ok("explain o/model.json");
        let line = text
            .lines()
            .find(|line| line.trim().starts_with("1 %"))
            .unwrap();
        assert!(line.trim().ends_with("16.3 %"), "{flags}: {line}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("trade-off curve"), "{flags}: {text}");
        let report = place.read("o/report.html");
        assert!(
            report.contains("From the trade-off curve of the run itself"),
            "{flags}"
        );
        assert!(report.contains("16.3\u{a0}%"), "{flags}");
    }
    // Of a run on samples the curve is another one, and the report has it.
    place.ok(&format!(
        "{TRAIN} --epsilon 1 --solver dp-sgd --out o --force"
    ));
    let text = place.ok("explain o/model.json");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("epsilon and delta alone"), "{text}");
}
