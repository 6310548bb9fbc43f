//! That nothing is stated which is not so: bounds, conventions, times, drafts, attacks, empty results.

use dpopt::nonconvex::SOLVERS;
use serde_json::Value;

use crate::support::{Place, ROWS};

fn json(place: &Place, flags: &str) -> Value {
    serde_json::from_str(&place.ok(&format!("{flags} --json"))).unwrap()
}

fn train(place: &Place, flags: &str) -> String {
    place.ok(&format!("train --data t.csv --schema s.toml {flags}"))
}

#[test]
fn a_run_to_its_end_states_the_bound_of_its_plan_and_a_walk_from_elsewhere_none() {
    let place = Place::new();
    let mut stated = 0;
    let mut unstated = 0;
    for solver in SOLVERS.iter().filter(|solver| !solver.needs.kl) {
        place.table_for(solver);
        let quantity = solver.bound.map(|(quantity, _)| quantity.to_string());
        let quantity = quantity.unwrap_or_else(|| "gradient norm".to_owned());
        let (radius, subject) = match (solver.needs.radius, solver.needs.goldstein) {
            (true, _) => ("--radius 1", quantity),
            (_, true) => ("--goldstein-radius 1", format!("{quantity} at radius 1")),
            _ => ("", quantity),
        };
        let flags = format!("--epsilon 40 --solver {solver} --max-steps 40 {radius}");
        let run = place.train(&format!("{flags} --out {solver}"));
        let report = place.read(&format!("{solver}/report.html"));
        let claims = format!("the {subject} at its output is at most");
        assert_eq!(run["bound"].is_number(), report.contains(&claims), "{run}");
        assert_eq!(run["bound"], run["predicted_bound"], "{run}");
        let certified = run["bound"].is_number() && solver.needs.hessian;
        assert_eq!(run["bound_curvature"].is_number(), certified, "{run}");
        // Passes release no gradients to draw it against.
        let drawn = run["bound"].is_number() && run["solver"] != "recursive-sgd";
        assert_eq!(report.contains("released values only"), drawn, "{run}");
        assert_eq!(
            run["bound"].is_number(),
            run["no_bound_because"].is_null(),
            "{run}"
        );
        let words = train(&place, &flags);
        let says = words.contains(&format!("the {subject} at the result is at most"));
        // An output may be the start. Of it a mean over a drawn output says nothing; a bound with a probability holds.
        let start = words.contains("nothing was learnt");
        if start && says {
            assert!(words.contains("with the planned probability"), "{words}");
        }
        if start || run["learnt_nothing"] == true {
            continue;
        }
        assert_eq!(says, run["bound"].is_number(), "{words}");
        stated += u32::from(run["bound"].is_number());

        // Under add-remove the proof is about a number of records that nobody may know.
        let hidden = place.run(&format!(
            "train --data t.csv --schema s.toml --json {flags} --adjacency add-remove --public-records 400"
        ));
        // Single passes are refused there.
        if hidden.status.success() {
            let hidden: Value = serde_json::from_slice(&hidden.stdout).unwrap();
            assert_eq!(hidden["bound"], Value::Null, "{hidden}");
            let dry = "--adjacency add-remove --public-records 400 --dry-run --json";
            let dry = place.ok(&format!("train --data t.csv --schema s.toml {flags} {dry}"));
            let dry: Value = serde_json::from_str(&dry).unwrap();
            assert_eq!(dry["predicted_bound"], Value::Null, "{dry}");
            let why = "no_bound_because";
            assert!(
                dry[why] == hidden[why] || run["bound"].is_null(),
                "{dry} {hidden}"
            );
            unstated += u32::from(run["bound"].is_number());
        }
    }
    // Of nine; each draws its start with probability 1/40 or so.
    assert!(stated >= 5 && unstated >= 3, "{stated} {unstated}");

    // From a checkpoint: F(start) - min F is not known there.
    let flags = "--epsilon 40 --solver noisy-gd-theory --max-steps 40 --ledger l.json";
    place.train(&format!(
        "{flags} --budget 200 --budget-delta 1e-6 --checkpoint c.json"
    ));
    let again = place.train(&format!("{flags} --resume c.json --out again"));
    assert_eq!(again["bound"], Value::Null);
    assert!(
        again["no_bound_because"]
            .as_str()
            .unwrap()
            .contains("checkpoint")
    );
    let report = place.read("again/report.html");
    assert!(!report.contains("gradient norm at its output is at most"));
    assert!(report.contains("none stated for a walk from a checkpoint"));

    // The model tells of the earlier runs too: the page is about all of them, and so are its attacks.
    assert_eq!(again["all_runs"]["epsilon"], 200.0);
    let words = place.json("again/model.json")["privacy"]["words"].to_string();
    assert!(words.contains("but for the running times, is together, given the point"));
    assert!(report.contains("given the point that it started from"));
    assert!(report.contains("all of them together are (ε = 200,"));
    let first = place.train(&flags.replace("--ledger l.json", "--out first"));
    assert!(first.get("all_runs").is_none());
    let row = |report: &str| {
        let from = report.find("blind guessing").unwrap();
        report[from..].split("</tr>").nth(1).unwrap().to_owned()
    };
    assert_ne!(row(&report), row(&place.read("first/report.html")));
}

/// Noise of 1.1 C: C is the sensitivity under add-remove and zero-out, 2C that under replace-one.
#[test]
fn no_adjacency_and_no_convention_is_silent() {
    let place = Place::new();
    let numbers = "--noise-multiplier 1.1 --sampling-rate 0.01 --steps 2500 --delta 1e-5";
    let epsilon = |flags: &str| {
        let found = json(&place, &format!("account {numbers} {flags}"));
        (found["epsilon"].as_f64().unwrap(), found)
    };
    let (removed, words) = epsilon("--adjacency add-remove");
    let (explicit, _) = epsilon("--adjacency add-remove --noise-over sensitivity");
    let (zeroed, _) = epsilon("--adjacency zero-out");
    // Under both the sensitivity is C, so there is one number.
    assert_eq!(removed, explicit);
    assert!((zeroed / removed - 1.0).abs() < 0.05, "{zeroed} {removed}");
    assert!(
        words["noise_in_words"]
            .as_str()
            .unwrap()
            .contains("1.1 C, where C is the clip radius"),
        "{words}"
    );
    let (default, _) = epsilon("--adjacency replace-one");
    let (clip, _) = epsilon("--adjacency replace-one --noise-over clip");
    let (over, _) = epsilon("--adjacency replace-one --noise-over sensitivity");
    assert_eq!(default, clip);
    assert!(over < clip && removed < clip, "{over} {removed} {clip}");
    // sigma = 1.1 C is .55 times the sensitivity 2C.
    let half = json(
        &place,
        "account --noise-multiplier 0.55 --sampling-rate 0.01 --steps 2500 --delta 1e-5 \
         --adjacency replace-one --noise-over sensitivity",
    );
    assert_eq!(half["epsilon"].as_f64(), Some(clip));
    for (flags, said) in [
        (
            "--adjacency add-remove",
            "neighbours differ by one record, added or removed; noise of standard deviation 1.1 C",
        ),
        (
            "--adjacency replace-one --noise-over sensitivity",
            "1.1 times the sensitivity of the sum, which under replace-one is 2C",
        ),
    ] {
        let text = place.ok(&format!("account {numbers} {flags}"));
        assert!(text.contains(said), "{text}");
    }

    // What calibrate finds means the same to account.
    for relation in ["replace-one", "add-remove", "zero-out"] {
        for over in ["clip", "sensitivity"] {
            let how = format!("--delta 1e-5 --adjacency {relation} --noise-over {over}");
            let found = json(
                &place,
                &format!("calibrate --steps 100 --sampling-rate 0.01 --epsilon 1 {how}"),
            );
            let back = json(
                &place,
                &format!(
                    "account --noise-multiplier {} --steps 100 --sampling-rate 0.01 {how}",
                    found["noise_multiplier"]
                ),
            );
            let (there, back) = (found["epsilon"].as_f64(), back["epsilon"].as_f64());
            assert!((there.unwrap() / back.unwrap() - 1.0).abs() < 1e-6, "{how}");
            assert!(found["noise_in_words"].as_str().unwrap().contains(relation));
        }
    }
    place.put(
        "e.json",
        r#"{"class_name":"GaussianDpEvent","noise_multiplier":1}"#,
    );
    // Where the sensitivity is the clip radius there is nothing to say.
    place.ok("account --events e.json --delta 1e-5 --adjacency zero-out --noise-over clip");
}

#[test]
fn under_add_remove_no_output_has_a_time() {
    let place = Place::new();
    for (adjacency, out) in [
        ("", "public"),
        ("--adjacency add-remove --public-records 400", "secret"),
    ] {
        let run = place.train(&format!("{adjacency} --out {out}"));
        let text = train(&place, adjacency);
        let shown = adjacency.is_empty();
        for key in ["seconds", "train_seconds"] {
            assert_eq!(run.get(key).is_some(), shown, "{key}");
        }
        assert_eq!(text.contains(" s ("), shown, "{text}");
        let report = place.read(&format!("{out}/report.html"));
        assert_eq!(report.contains("Training time"), shown);
        assert_eq!(report.contains("of it training"), shown);
        let words = place.json(&format!("{out}/model.json"))["privacy"]["words"].to_string();
        assert_eq!(words.contains("but for the running times,"), shown);
        assert!(words.contains("running times are not protected"), "{words}");
        let files: String = ["model.json", "report.html"]
            .map(|name| place.read(&format!("{out}/{name}")))
            .concat();
        assert_eq!(files.contains("imes are an exception"), shown);
        // The table is read first: that is where a public number of records comes from.
        assert!(!report.contains("before any record was read"));
    }
}

/// What earlier runs rest on is not forgotten by one that starts from their point.
#[test]
fn a_resumed_run_rests_on_what_the_runs_before_it_do() {
    let place = Place::new();
    let ledger = "--delta 1e-6 --ledger l.json --max-steps 5";
    place.train(&format!(
        "--epsilon 40 --solver recursive-sgd --radius 1 --budget 100 --budget-delta 1e-6 --checkpoint c.json --out a {ledger}"
    ));
    let claim = place.json("a/model.json")["privacy"]["rests_on"].clone();
    assert!(claim[0].as_str().unwrap().contains("convex"));
    place.train(&format!(
        "--epsilon 1 --solver noisy-gd --resume c.json --out b {ledger}"
    ));
    let privacy = &place.json("b/model.json")["privacy"];
    assert_eq!(privacy["rests_on"], claim);
    assert!(
        privacy["words"].to_string().contains("Assumed besides"),
        "{privacy}"
    );
    // One from nowhere on the same ledger rests on its own solver.
    place.train(&format!("--epsilon 1 --solver noisy-gd --out d {ledger}"));
    assert!(place.json("d/model.json")["privacy"]["rests_on"].is_null());
}

/// Nor that the ranges came from the records: to take the word out of the schema does not undo it.
#[test]
fn a_run_that_goes_on_from_a_draft_owns_up_to_it() {
    let place = Place::new();
    let draft = place.ok("schema t.csv");
    place.put("s.toml", &draft);
    let ledger = "--epsilon 0.5 --delta 1e-6 --ledger l.json --max-steps 5 --checkpoint c.json";
    place.train(&format!(
        "--accept-draft --budget 3 --budget-delta 1e-6 --out a {ledger}"
    ));
    place.put("s.toml", &draft.replace("draft = true\n", ""));
    for out in ["b", "c"] {
        let run = place.train(&format!("--resume c.json --out {out} {ledger}"));
        assert!(run["warnings"].to_string().contains("draft"), "{run}");
        let privacy = &place.json(&format!("{out}/model.json"))["privacy"];
        assert_eq!(privacy["draft_schema"], true);
    }
    // And so does what is released of its model.
    let told = place.ok("evaluate --model c/model.json --data t.csv --epsilon 1");
    assert!(told.contains("NOT public"), "{told}");
}

#[test]
fn an_accepted_draft_is_owned_up_to() {
    let place = Place::new();
    let draft = place.ok("schema t.csv");
    place.put("s.toml", &draft);
    let run = place.train("--accept-draft --out o");
    assert!(
        run["warnings"].to_string().contains("draft that was read"),
        "{run}"
    );
    let privacy = &place.json("o/model.json")["privacy"];
    assert_eq!(privacy["draft_schema"], true);
    let words = privacy["words"].to_string();
    for said in [
        "but for the schema and what follows from it alone and the running times,",
        "NOT public, and not protected: the schema is an unedited draft",
    ] {
        assert!(words.contains(said), "{said}: {words}");
    }
    assert!(!words.contains("the schema and the flags were chosen without"));
    let report = place.read("o/report.html");
    assert!(report.contains("unedited draft"));
    assert!(!report.contains("without looking at the protected records"));

    // Looking at data that are not protected needs no flag, and a draft stays one in a file of rows.
    place.ok("check t.csv --schema s.toml");
    place.ok("predict --model o/model.json --data t.csv");
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    place.fails("train --data t.dpr", 1, &["--schema", "draft"]);
    place.ok("train --data t.dpr --accept-draft --quiet");
    // Once it is edited, the edited one counts: the rows are the same.
    place.put("s.toml", &draft.replace("draft = true\n", ""));
    let edited: Value =
        serde_json::from_str(&place.ok("train --data t.dpr --schema s.toml --json --out e"))
            .unwrap();
    assert_eq!(edited["records"], ROWS);
    assert!(place.json("e/model.json")["privacy"]["draft_schema"].is_null());
    assert!(
        place
            .read("e/report.html")
            .contains("without looking at the protected records")
    );
}

/// By bisection of Phi(mu/2 - 1/mu) - e Phi(-mu/2 - 1/mu) = 1e-6: mu = .236704, so Phi(Phi^-1(.01) + k mu) = .01832, .03195 and .12656
/// for k = 1, 2, 5, rounded up. From the pair alone the first would be e .01 + 1e-6 = .0272.
#[test]
fn the_attack_table_is_that_of_the_runs_own_curve() {
    let place = Place::new();
    place.train("--epsilon 1 --delta 1e-6 --out o");
    let report = place.read("o/report.html");
    let row = "<tr><td>1\u{a0}%</td><td>1.9\u{a0}%</td><td>3.2\u{a0}%</td><td>12.7\u{a0}%</td>";
    assert!(report.contains(row), "{report}");
    for said in [
        "the same for 2 records",
        "the same for 5 records",
        "true positives, one record, drawn",
        "k records have k times the μ of one",
    ] {
        assert!(report.contains(said), "{said}");
    }
    place.train("--epsilon 1 --delta 1e-6 --solver dp-sgd --out s");
    let report = place.read("s/report.html");
    assert!(report.contains("whole curve of δ over ε"));
    assert!(!report.contains("<tr><td>1\u{a0}%</td><td>2.8\u{a0}%</td>"));
}

#[test]
fn a_run_that_learnt_nothing_says_so() {
    let place = Place::new();
    // The gradient at the start is zero, so no norm is ever seen.
    place.put("t.csv", &balanced());
    let flags = "--solver adaptive-gd --epsilon 1 --out o";
    let run = place.train(flags);
    assert_eq!(
        (run["steps"].as_u64(), &run["learnt_nothing"]),
        (Some(0), &Value::Bool(true))
    );
    let weights = place.json("o/model.json")["weights"]
        .as_array()
        .unwrap()
        .clone();
    assert!(weights.iter().all(|weight| weight["weight"] == 0.0));
    assert!(place.read("o/report.html").contains("NOTHING WAS LEARNT"));
    // Public facts told that it might.
    let warning = run["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("otherwise it spends its budget"),
        "{warning}"
    );
    let facts = "plan adaptive-gd --dim 5 --epsilon 1 --delta 1e-6";
    let small = place.run(&format!("{facts} --records 400 --row-norm 2"));
    assert!(crate::support::stderr(&small).contains("makes a first step only if"));
    let large = place.run(&format!("{facts} --records 10000000"));
    assert!(large.status.success());
    assert!(!crate::support::stderr(&large).contains("first step"));
    let text = train(&place, "--solver adaptive-gd --epsilon 1");
    assert!(text.contains("nothing was learnt"), "{text}");

    let place = Place::new();
    let run = place.train("--epsilon 40 --out o");
    assert_eq!(run["learnt_nothing"], false);
    assert!(!place.read("o/report.html").contains("NOTHING WAS LEARNT"));
    assert!(!train(&place, "--epsilon 40").contains("nothing was learnt"));
}

/// Two lines for each pair of values, one of each label: the gradient at the start is zero.
fn balanced() -> String {
    let line = |i: usize| format!("{}.0,a,{}", (i / 2) % 10, ["yes", "no"][i % 2]);
    let lines: Vec<String> = (0..ROWS).map(line).collect();
    format!("x,c,y\n{}\n", lines.join("\n"))
}

#[test]
fn a_report_on_a_ledger_has_the_budget_of_all_runs() {
    let place = Place::new();
    let flags = "--epsilon 0.5 --ledger l.json --budget 2 --budget-delta 1e-6";
    place.train(&format!("{flags} --out a"));
    let run = place.train(&format!("{flags} --out b"));
    let left = run["budget_left"].as_str().unwrap();
    let report = place.read("b/report.html");
    assert!(
        report.contains("All runs on the ledger") && report.contains(left),
        "{left}"
    );
    place.train("--out c");
    assert!(
        !place
            .read("c/report.html")
            .contains("All runs on the ledger")
    );
}

#[test]
fn labels_that_a_public_test_set_shows_to_be_unforeseen_are_warned_of() {
    let place = Place::new();
    let test = place.read("test.csv");
    // At this budget a model may be no better than a constant, which is no matter of the labels.
    let of_labels = |json: &Value| {
        let all = json["warnings"].as_array().unwrap();
        let told = all
            .iter()
            .filter(|of| !of.as_str().unwrap().contains("than a constant"));
        told.count()
    };
    let clean = place.train("--test test.csv");
    assert_eq!(of_labels(&clean), 0, "{clean}");
    place.put("test.csv", &test.replace(",yes\n", ",TRUE\n"));
    // The code says it too, since nobody may read the warning.
    let train = "train --data t.csv --schema s.toml --json --test test.csv";
    let found: Value = serde_json::from_str(&place.ends(train, 4)).unwrap();
    let warning = found["warnings"][0].as_str().unwrap();
    let unknown = test.matches(",yes\n").count();
    for said in [
        format!("{unknown} of the 120 labels of the test set"),
        "such as \"TRUE\"".to_owned(),
        "count as \"no\"".to_owned(),
    ] {
        assert!(warning.contains(&said), "{said}: {warning}");
    }
    let output = place.run("train --data t.csv --schema s.toml --test test.csv --quiet");
    assert!(crate::support::stderr(&output).contains("TRUE"));

    // The same in the protected table is never a message.
    let train = place.read("t.csv");
    place.put("t.csv", &train.replace(",yes\n", ",TRUE\n"));
    place.put("test.csv", &test);
    let silent = place.train("--test test.csv");
    assert_eq!(of_labels(&silent), 0, "{silent}");
}

#[test]
fn labels_that_a_format_can_not_hold_are_warned_of() {
    let place = Place::new();
    let lines: Vec<String> = (0..60)
        .map(|i| format!("{} 1:0.{} 2:0.5", i % 2, i % 10))
        .collect();
    place.put("t.svm", &(lines.join("\n") + "\n"));
    let schema = |values: &str, positive: &str, default: &str| {
        format!(
            "format = 1\nrow_norm = 1.0\nintercept = 0.0\n[label]\ncolumn = \"y\"\nvalues = {values}\n\
             positive = {positive}\ndefault = {default}\n[array]\ncolumns = 2\n"
        )
    };
    let warnings = |text: &str, code| {
        place.put("a.toml", text);
        let out = place.ends("train --data t.svm --schema a.toml --json", code);
        let json: Value = serde_json::from_str(&out).unwrap();
        json["warnings"].to_string()
    };
    let bad = warnings(&schema("[\"no\", \"yes\"]", "\"yes\"", "\"no\""), 4);
    assert!(
        bad.contains("can't hold the schema's value \\\"yes\\\""),
        "{bad}"
    );
    assert!(!warnings(&schema("[\"0\", \"1.0\"]", "\"1.0\"", "\"0\""), 0).contains("hold"));
    // What catches all others need be no number.
    assert!(!warnings(&schema("[\"other\", \"1\"]", "\"1\"", "\"other\""), 0).contains("hold"));
}
