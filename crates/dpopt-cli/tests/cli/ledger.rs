//! Several runs on one budget.

use crate::support::{Place, rows, stderr, table, until};

const SHARED: &str = "--ledger l.json --budget 2 --budget-delta 1e-5 --delta 1e-5";

fn left(place: &Place) -> serde_json::Value {
    serde_json::from_str(&place.ok("ledger show l.json --json")).unwrap()
}

fn runs(shown: &serde_json::Value) -> usize {
    shown["runs"].as_array().unwrap().len()
}

#[test]
fn runs_share_a_budget_until_it_is_used_up() {
    let place = Place::new();
    let first = place.train(&format!("{SHARED} --epsilon 1.2"));
    assert!(
        first["budget_left"]
            .as_str()
            .unwrap()
            .contains("% of epsilon 2")
    );
    let after_one = left(&place);
    assert_eq!(runs(&after_one), 1);
    assert_eq!(after_one["runs"][0]["settled"], true);
    assert_eq!(after_one["runs"][0]["noise"], "rounded-gaussian");
    assert_eq!(after_one["filter"], "gdp");
    // The terms are in the file: later runs need not repeat them.
    place.train("--ledger l.json --epsilon 1.2 --delta 1e-5");
    let after_two = left(&place);
    assert!(after_two["epsilon_left"].as_f64() < after_one["epsilon_left"].as_f64());

    let before = place.read("l.json");
    let flags = format!("train --data t.csv --schema s.toml --out o {SHARED} --epsilon 1.9");
    place.fails(
        &flags,
        2,
        &["--ledger", "can't pay", "nothing was released"],
    );
    assert_eq!(place.read("l.json"), before);

    let shown = place.ok("ledger show l.json");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let at = words
        .windows(2)
        .position(|pair| pair == ["of", "epsilon"])
        .unwrap();
    assert_eq!(words[at + 2], "2");
    let would = words.iter().position(|word| *word == "would").unwrap();
    let fits = words[would - 1];
    place.train(&format!("{SHARED} --epsilon {fits}"));
    assert_eq!(runs(&left(&place)), 3);
    let text = place.ok("ledger show l.json");
    assert!(text.contains("after 3 runs"), "{text}");
}

#[test]
fn show_tells_of_each_run_what_it_was_and_what_it_cost() {
    let place = Place::new();
    place.train(&format!("{SHARED} --epsilon 0.8 --out one"));
    let text = place.ok("ledger show l.json");
    assert!(text.contains("after 1 run:"), "{text}");
    let mut flags: Vec<&str> = "train --data t.csv --schema s.toml --json --ledger l.json"
        .split(' ')
        .collect();
    flags.extend(["--epsilon", "0.6", "--delta", "1e-5", "--date", "1 May"]);
    let second = place.command("").args(flags).output().unwrap();
    assert!(second.status.success());
    let text = place.ok("ledger show l.json");
    for words in [
        "after 2 runs:",
        "command: dpopt train --data t.csv --schema s.toml --json --ledger l.json --budget 2",
        "model: one/model.json",
        "date: not recorded",
        "model: not recorded",
        "--date '1 May'\n",
        "date: 1 May\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let shown = left(&place);
    let [one, two] = &shown["runs"].as_array().unwrap()[..] else {
        panic!("{shown}");
    };
    assert_eq!(one["output"], "one/model.json");
    assert_eq!(one["date"], serde_json::Value::Null);
    assert_eq!(two["date"], "1 May");
    // A run to its end costs what it was asked for, and squared mu add up.
    let mu = |epsilon: f64| {
        let delta = dpopt::privacy::Delta::new(1e-5).unwrap();
        let epsilon = dpopt::privacy::Epsilon::new(epsilon).unwrap();
        dpopt::privacy::mu_for(epsilon, delta).unwrap().get()
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!((number(&one["epsilon"]) - 0.8).abs() < 1e-3, "{one}");
    assert!((number(&two["epsilon"]) - 0.6).abs() < 1e-3, "{two}");
    let first = number(&one["epsilon_so_far"]);
    assert!((first - number(&one["epsilon"])).abs() < 1e-9, "{one}");
    let together = mu(number(&two["epsilon_so_far"])).powi(2);
    let apart = mu(0.8).powi(2) + mu(0.6).powi(2);
    assert!((together / apart - 1.0).abs() < 1e-3, "{together} {apart}");
}

#[cfg(unix)]
#[test]
fn a_killed_run_pays_for_what_it_drew() {
    let place = Place::new();
    let ledger = "--ledger l.json --budget 2e12 --budget-delta 1e-5 --delta 1e-5";
    place.train(&format!("{ledger} --epsilon 3e11 --max-steps 50"));
    let before = left(&place)["used"].as_f64().unwrap();
    // A plan of 9e7 steps, a twentieth of which takes minutes.
    let flags = format!(
        "train --data t.csv --schema s.toml --out o {ledger} --epsilon 1.5e12 \
         --solver noisy-gd-theory --max-steps 1000000000000 --threads 1"
    );
    let mut child = place
        .command(&flags)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Killed as soon as it has drawn.
    let drawn = "\"draw\":{\"run\":1,";
    until(&mut child, || place.read("l.json").contains(drawn));
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = left(&place);
    let run = &shown["runs"][1];
    assert_eq!(run["state"], "died");
    let drawn = run["drawn"].as_f64().unwrap();
    let text = place.ok("ledger show l.json");
    assert!(
        text.contains("1 run died, and the next one takes back"),
        "{text}"
    );
    // The next run, of what the killed one had reserved and not drawn: 1.25e12 would not fit beside all of 1.5e12.
    place.train(&format!("{ledger} --epsilon 1.25e12 --max-steps 50"));
    let shown = left(&place);
    assert_eq!(shown["runs"][1]["state"], "lapsed");
    assert_eq!(shown["runs"][1]["cost"].as_f64().unwrap(), drawn);
    let used = shown["used"].as_f64().unwrap();
    assert!(used >= before + drawn, "{shown}");
    place.ok("ledger verify l.json");
    assert!(
        place
            .listing()
            .iter()
            .all(|file| file.extension().is_none_or(|end| end != "run"))
    );
}

#[test]
fn sampled_runs_get_a_renyi_filter() {
    let place = Place::new();
    place.train(&format!(
        "{SHARED} --solver dp-sgd --epsilon 1 --max-steps 20"
    ));
    let after = left(&place);
    assert_eq!(after["filter"], "rdp");
    assert!(after["epsilon_left"].as_f64().unwrap() > 0.0);
    place.train("--ledger l.json --epsilon 0.5 --delta 1e-5");
    assert_eq!(runs(&left(&place)), 2);
}

/// At its creation a ledger says what it will refuse, and a refusal which filter takes the run; what no filter takes it does not promise.
#[test]
fn a_filter_says_what_it_refuses_and_which_other_takes_it() {
    let place = Place::new();
    let train = "train --data t.csv --schema s.toml --json";
    let said = |flags: &str| {
        let output = place.run(&format!("{train} {flags}"));
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let terms = "--budget 2 --budget-delta 1e-5 --delta 1e-5 --epsilon 0.5 --max-steps 20";
    let created = said(&format!("--ledger l.json {terms}"));
    for words in [
        "created with filter gdp",
        "refuses samples",
        "--budget-filter rdp",
    ] {
        assert!(created.contains(words), "{words}: {created}");
    }
    let created = said(&format!("--ledger r.json {terms} --solver dp-sgd"));
    assert!(created.contains("created with filter rdp"), "{created}");
    // Said once, and not to who has named it.
    let later = said("--ledger l.json --epsilon 0.1 --delta 1e-5 --max-steps 20");
    let named = said(&format!("--ledger n.json {terms} --budget-filter gdp"));
    assert!(!later.contains("created with") && !named.contains("created with"));

    let sampled = format!("{train} --out o --delta 1e-5 --epsilon 0.1 --solver dp-sgd");
    let remedy = [
        "filter rdp takes it",
        "--budget-filter rdp",
        "nothing charged",
    ];
    place.fails(&format!("{sampled} --ledger l.json"), 2, &remedy);
    let new = "--ledger new.json --budget 2 --budget-delta 1e-5";
    for batches in ["--batches allocation", "--largest-batch 60"] {
        for ledger in ["--ledger l.json", new] {
            let flags = format!("{sampled} {ledger} {batches} --max-steps 20");
            place.fails(&flags, 2, &["--ledger", "no other filter has one"]);
        }
    }
}

/// The number of records and the label are public: a run that differs from the last in one of them says so before it is paid for.
#[test]
fn another_table_on_the_same_ledger_is_warned_of() {
    let place = Place::new();
    let train = |flags: &str| {
        let json = place.train(&format!(
            "{flags} --delta 1e-5 --epsilon 0.2 --max-steps 20"
        ));
        json["warnings"].to_string()
    };
    let first = train("--ledger l.json --budget 2 --budget-delta 1e-5");
    let again = train("--ledger l.json");
    assert!(
        !first.contains("ledger") && !again.contains("ledger"),
        "{again}"
    );
    assert_eq!(left(&place)["runs"][0]["records"], 400);
    assert_eq!(left(&place)["runs"][0]["label"], "y");
    let shown = place.ok("ledger show l.json");
    assert!(shown.contains("records: 400, label: y"), "{shown}");

    place.put("t.csv", &place.read("test.csv"));
    let fewer = train("--ledger l.json");
    for words in ["run 1", "400 records", "on 120"] {
        assert!(fewer.contains(words), "{words}: {fewer}");
    }
    place.put("t.csv", &place.read("t.csv").replacen("x,c,y", "x,c,z", 1));
    place.schema_with("column = \"y\"", "column = \"z\"");
    let other = train("--ledger l.json");
    assert!(
        other.contains("run 2") && !other.contains("records and"),
        "{other}"
    );
    place.train("--out m --epsilon 0.2 --delta 1e-5 --loss welsch --max-steps 20");
    place.put("t.csv", &table(&rows(200)).replacen("x,c,y", "x,c,z", 1));
    let on = "--model m/model.json --data t.csv --epsilon 0.2 --delta 1e-5 --ledger l.json";
    for command in ["certify", "evaluate"] {
        let output = place.run(&format!("{command} {on}"));
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("on 200"), command == "certify", "{said}");
    }
}

#[test]
fn verify_names_the_first_damaged_line() {
    let place = Place::new();
    for _ in 0..2 {
        place.train(&format!("{SHARED} --epsilon 0.5"));
    }
    let whole = place.ok("ledger verify l.json");
    assert!(
        whole.contains("whole") && whole.contains("2 runs"),
        "{whole}"
    );
    let text = place.read("l.json");
    // A cheaper second run: some line after the second.
    let at = text.rfind("\"reserve\"").unwrap();
    let line = 1 + text[..at].matches('\n').count();
    let (before, after) = text.split_at(at);
    let edited = before.to_owned() + &after.replacen("\"cost\":0.0", "\"cost\":0.00", 1);
    assert_ne!(edited, text);
    place.put("l.json", &edited);
    let named = format!("line {line}:");
    place.fails("ledger verify l.json", 2, &["l.json", &named, "hash"]);
    place.fails("ledger show l.json", 2, &["l.json", &named]);
    let flags = format!("train --data t.csv --schema s.toml --out o {SHARED} --epsilon 0.1");
    place.fails(&flags, 2, &["--ledger", &named]);
    // What a crash leaves is not damage.
    place.put("l.json", &text[..text.len() - 9]);
    let torn = place.ok("ledger verify l.json");
    assert!(torn.contains("torn"), "{torn}");
}

#[test]
fn a_run_resumes_from_a_checkpoint_on_what_is_left() {
    let place = Place::new();
    place.train(&format!(
        "{SHARED} --epsilon 1 --checkpoint c.json --checkpoint-every 10"
    ));
    let kept = place.json("c.json");
    assert_eq!(kept["checkpoint"]["point"].as_array().unwrap().len(), 5);
    place.ok("ledger verify l.json --checkpoint c.json");
    let left_before = left(&place)["epsilon_left"].as_f64().unwrap();
    let cut = place.read("l.json");

    let flags = "--ledger l.json --resume c.json --out o";
    let output = place.run(&format!(
        "train --data t.csv --schema s.toml --json {flags}"
    ));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    // What is left, in the words of the ledger, and what the run takes.
    let could = (left_before * 1e4).floor() / 1e4;
    for words in [
        "resuming:",
        "% of the budget in l.json are left",
        "takes up to",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(
        told.contains(&format!("epsilon {could} at delta 1e-5")),
        "{told}"
    );
    let second: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let epsilon = second["epsilon"].as_f64().unwrap();
    assert!(
        epsilon <= left_before && epsilon > 0.9 * left_before,
        "{second}"
    );
    assert_eq!(second["delta"], 1e-5);
    assert_eq!(second["predicted_bound"], serde_json::Value::Null);
    let words = place.json("o/model.json")["privacy"]["words"].to_string();
    assert!(words.contains("All runs on the ledger together"), "{words}");
    assert!(left(&place)["epsilon_left"].as_f64().unwrap() < 0.3 * left_before);

    // A ledger that lost lines, and a checkpoint of another table.
    let train = format!("train --data t.csv --schema s.toml {flags} --force");
    let without_settlement = &cut[..cut.trim_end().rfind('\n').unwrap() + 1];
    place.put("l.json", without_settlement);
    place.fails(&train, 2, &["--ledger", "restored from an older copy"]);
    place.fails(
        "ledger verify l.json --checkpoint c.json",
        2,
        &["l.json", "lines"],
    );
    place.put("l.json", &cut);
    let builtin = "train --solver noisy-gd --max-steps 2 --json --ledger l.json --resume c.json";
    place.fails(builtin, 1, &["--resume", "dimension 5"]);
}

/// Nothing is paid for and nothing thrown away.
#[test]
fn a_dry_run_on_a_ledger_needs_no_place_for_a_model() {
    let place = Place::new();
    let flags = "train --data t.csv --schema s.toml --dry-run --delta 1e-6 --ledger l.json --budget 2 --budget-delta 1e-6";
    place.ok(flags);
    assert!(!place.path("l.json").exists());
}

#[cfg(unix)]
#[test]
fn a_ledger_is_made_where_a_link_leads() {
    let place = Place::new();
    std::os::unix::fs::symlink("real.json", place.path("l.json")).unwrap();
    place.train("--out o --delta 1e-6 --ledger l.json --budget 2 --budget-delta 1e-6");
    assert!(place.path("real.json").is_file());
    place.ok("ledger verify l.json");
    // And none is there, unless it can be made.
    std::os::unix::fs::symlink("missing/real.json", place.path("m.json")).unwrap();
    place.fails(
        "train --data t.csv --schema s.toml --out p --delta 1e-6 --ledger m.json --budget 2 --budget-delta 1e-6",
        1,
        &["--ledger", "No such file"],
    );
}

#[cfg(unix)]
#[test]
fn a_test_set_that_is_read_once_is_refused() {
    let place = Place::new();
    let made = std::process::Command::new("mkfifo")
        .arg(place.path("pipe"))
        .status();
    assert!(made.unwrap().success());
    place.fails(
        "train --data t.csv --schema s.toml --test pipe",
        1,
        &["--test", "read twice"],
    );
}
