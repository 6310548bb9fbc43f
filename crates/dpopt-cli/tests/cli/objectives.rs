//! Objectives other than the mean loss: what is trained, shown and refused.

use serde_json::Value;

use crate::support::Place;

/// Shares of the cells of the small table, as if they were known from elsewhere. Nobody is `(other)`.
const SHARES: [(&str, &str, f64); 4] = [
    ("no", "a", 0.55),
    ("yes", "a", 0.12),
    ("no", "b", 0.18),
    ("yes", "b", 0.15),
];

fn with_shares(of: &[(&str, &str, f64)]) -> Place {
    let place = Place::new();
    let shares = of.iter().map(|(y, c, share)| {
        format!("\n[[share]]\nof = {{ y = \"{y}\", c = \"{c}\" }}\nshare = {share:?}\n")
    });
    let text = place.read("s.toml") + &shares.collect::<String>();
    place.put("s.toml", &text);
    place
}

const FLAGS: [&str; 4] = [
    "--objective group-dro --group y,c",
    "--objective group-dro --group c --dual-weight 2",
    "--objective equal-opportunity --group c",
    "--objective auc --group c",
];

/// Each objective trains a model that can be applied, within its budget, with a line for each group of the test set.
#[test]
fn objectives_train_models() {
    for (shares, note) in [
        ("", "public, by the schema"),
        ("--group-shares release", "released, and paid for"),
    ] {
        for (i, flags) in FLAGS.iter().enumerate() {
            let place = with_shares(&SHARES);
            let flags =
                format!("{flags} {shares} --test test.csv --epsilon 50 --delta 1e-5 --out o");
            let json = place.train(&flags);
            assert_eq!(
                (&json["solver"], &json["predicted_bound"]),
                (&Value::from("gda"), &Value::Null)
            );
            let epsilon = json["epsilon"].as_f64().unwrap();
            assert!(epsilon <= 50.0 && epsilon > 49.9, "{flags}: {epsilon}");
            let groups = json["groups"].as_array().unwrap();
            assert_eq!(groups.len(), 4);
            assert_eq!(groups[0]["group"], "c = a, y = no");
            // How good they are is tested with noise that can be repeated, in the crate of the solver.
            for key in ["test_auc", "worst_group_accuracy"] {
                let metric = json[key].as_f64().unwrap();
                assert!((0.0..=1.0).contains(&metric), "{flags}: {json}");
            }
            // The ranking knows no groups.
            assert_eq!(groups[0].get("share").is_some(), i < 3);
            let model = place.json("o/model.json");
            assert_eq!(model["weights"].as_array().unwrap().len(), 5);
            assert_eq!(model["objective"]["shares_released"], !shares.is_empty());
            let scores = place.ok("predict --model o/model.json --data test.csv");
            assert_eq!(scores.lines().count(), 121);
            assert!(
                place
                    .read("o/report.html")
                    .contains("worst accuracy of a group")
            );
            let text = place.ok(&format!(
                "train --data t.csv --schema s.toml {} {shares} --epsilon 50 --delta 1e-5",
                FLAGS[i]
            ));
            assert!(text.contains(note), "{text}");
        }
    }
}

/// The mean loss has lines for groups of the test set too.
#[test]
fn groups_of_the_test_set_need_no_objective() {
    let place = with_shares(&SHARES);
    let json = place.train("--group c --test test.csv --max-steps 3 --delta 1e-5");
    assert_eq!(json["groups"].as_array().unwrap().len(), 4);
    assert!(json.get("objective").is_none());
}

/// At this epsilon a cell is seen from 0.487 of the records on, four deviations of the noise, and there are no positives: two groups of them are seen
/// with probability below 1e-8. The release was made, and the command says so.
#[test]
fn errors_after_a_release_say_that_it_is_spent() {
    let place = with_shares(&SHARES);
    place.put("t.csv", &place.read("t.csv").replace("yes", "no"));
    let flags = "train --data t.csv --schema s.toml --delta 1e-5 --objective equal-opportunity --group c --group-shares release --epsilon 1.6";
    place.fails(
        flags,
        5,
        &["counts as spent", "its privacy loss is at most"],
    );
    // Before the release it is a matter of flags.
    let flags = flags.replace("--epsilon 1.6", "--epsilon 1.6 --rank 2");
    place.fails(&flags, 1, &["--rank"]);
}

/// The plan of the same problem, from public facts alone.
#[test]
fn plans_need_no_table() {
    let place = Place::new();
    let flags = "plan auto --records 200000 --dim 500 --epsilon 1 --delta 1e-6 --row-norm 4 --objective group-dro";
    let text = place.ok(&format!("{flags} --shares 0.508,0.0133,0.43,0.0487 --json"));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["solver"], "gda");
    // 500 weights and four groups.
    assert_eq!(json["dim"], 504);
    assert_eq!(json["passes"], json["steps"].as_u64().unwrap() as f64);
}

/// A dual weight under which whole groups may weigh nothing is told, in plans and before runs.
#[test]
fn small_dual_weights_are_told() {
    let place = with_shares(&SHARES);
    let plan = "plan auto --records 200000 --dim 500 --epsilon 1 --delta 1e-6 --row-norm 4 --objective group-dro --shares 0.508,0.0133,0.43,0.0487";
    let train = "train --data t.csv --schema s.toml --delta 1e-5 --epsilon 50 --max-steps 3 --objective group-dro --group y,c";
    for flags in [plan, train] {
        for (weight, told) in [("0.99", true), ("1", false)] {
            let out = place.run(&format!("{flags} --dual-weight {weight}"));
            let words = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{words}");
            let says = words.contains("--dual-weight 0.99 is below 1 for 4 groups");
            assert_eq!(says, told, "{words}");
        }
    }
}

/// A solver that is named is the one that runs, or its refusal is given; and no flag is refused after shares were paid for.
#[test]
fn what_is_asked_for_is_run_or_refused_before_a_release() {
    let place = Place::new();
    let flags = "train --data t.csv --schema s.toml --delta 1e-5 --epsilon 8 --objective group-dro --group y,c --group-shares release";
    for solver in dpopt::minimax::SOLVERS {
        let name = solver.name;
        let named = format!("{flags} --solver {name}");
        if solver.bound.is_none() {
            let json: Value = serde_json::from_str(&place.ok(&format!("{named} --json"))).unwrap();
            assert_eq!(json["solver"], name);
        } else {
            let words = [
                "--solver",
                name,
                "no bound follows",
                "n = 400, d = ",
                "rarest share 0.1667",
            ];
            place.fails(&named, 1, &words);
            let plan = format!("plan {name} --records 1000 --dim 5 --epsilon 1 --delta 1e-6");
            place.fails(&plan, 1, &[name, "saddle problems"]);
        }
    }
    for (flag, word) in [("--population", "sosp"), ("--order-seed 3", "tree-spider")] {
        place.fails(
            &format!("{flags} {flag}"),
            1,
            &[flag.split(' ').next().unwrap(), word],
        );
    }
}

/// A plan that says nothing is refused with its numbers, the share that hurts most and what would run, before anything is released.
#[test]
fn vacuous_plans_are_refused_with_their_numbers() {
    let place = with_shares(&SHARES);
    let numbers = [
        "no useful plan",
        "its best bound on the gradient norm of the largest value over y is",
        "already satisfies",
        "gda would run",
    ];
    let told = |more: &[&'static str]| [&numbers[..], more].concat();
    for solver in ["rgda", "sampled-rgda", "spider-gda", "rgda-chain"] {
        let plan = format!(
            "plan {solver} --records 2000 --dim 10 --epsilon 1 --delta 1e-6 --objective equal-opportunity --shares 0.5,0.1,0.38,0.02"
        );
        let words = told(&["n = 2000, d = 12, mu = ", "rarest share 0.0200"]);
        place.fails(&plan, 1, &words);
        // Where the bound would say something, that fields are shortened is what is left.
        let many = plan.replace("2000", "2000000000");
        let words = ["no bound follows", "rarest share 0.0200", "gda, sgda"];
        place.fails(&many, 1, &words);
        let train = format!(
            "train --data t.csv --schema s.toml --delta 1e-5 --epsilon 1 --objective equal-opportunity --group c --solver {solver}"
        );
        place.fails(&train, 1, &told(&["n = 400", "rarest share 0.1200"]));
    }
    let certify = "train --data t.csv --schema s.toml --delta 1e-5 --epsilon 0.1 --certify";
    for shares in ["", "--group-shares release"] {
        let flags = format!("{certify} {} {shares}", FLAGS[0]);
        // Of shares that are not released yet, all are even.
        let rarest = match shares {
            "" => "rarest share 0.1200",
            _ => "rarest share 0.1667",
        };
        let words = ["saddle-certificate", "n = 400", rarest, "the solver alone"];
        place.fails(&flags, 1, &words);
    }
}

/// A certificate is a part of the same budget, and is told in the summary, the report and the model, with its reasons.
#[test]
fn certificates_are_paid_from_the_budget_and_told() {
    for shares in ["", "--group-shares release"] {
        for (i, flags) in FLAGS.iter().enumerate() {
            let place = with_shares(&SHARES);
            let flags = format!(
                "{flags} {shares} --test test.csv --epsilon 50 --delta 1e-5 --certify --out o"
            );
            let json = place.train(&flags);
            let epsilon = json["epsilon"].as_f64().unwrap();
            assert!(epsilon <= 50.0 && epsilon > 49.9, "{flags}: {epsilon}");
            let found = &json["objective"]["certificate"];
            for key in ["gradient", "gradient_by_shares_alone", "distance_of_dual"] {
                assert!(found[key].as_f64().unwrap() > 0.0, "{flags}: {found}");
            }
            assert_eq!(found["probability"], 0.95);
            assert_eq!(found["needs_shares_of_schema"], shares.is_empty());
            // Of 400 draws from shares of 0.12 and more: above one, and no more than Chernoff's bound at 0.01 of four cells.
            let factor = &found["no_cell_exceeds_its_share_by_more_than_factor"];
            let factor = factor.as_f64().unwrap();
            assert!(
                factor > 1.0 && (factor < 1.7 || !shares.is_empty()),
                "{found}"
            );
            let reason = found["no_curvature_because"].as_str();
            match (i, reason) {
                (0 | 1, reason) => assert!(reason.unwrap().contains("convex"), "{found}"),
                (_, None) => {
                    let least = found["least_curvature"].as_f64().unwrap();
                    assert!(least.is_finite(), "{found}");
                }
                (_, Some(reason)) => assert!(reason.contains("boundary"), "{found}"),
            }
            let model = place.json("o/model.json");
            assert_eq!(model["objective"]["certificate"], *found);
            let report = place.read("o/report.html");
            for words in [
                "By releases at the result: the gradient norm of the largest value over y is at most",
                "Log loss of each group of the test set",
            ] {
                assert!(report.contains(words), "{flags}");
            }
            // Two norms, and a Hessian where one was planned: shares, run and certificate are what was reserved.
            let events = place.json("o/events.json");
            let reserved = events["event"]["events"].as_array().unwrap();
            let parts = 2 + usize::from(!shares.is_empty());
            assert_eq!(reserved.len(), parts, "{flags}: {events}");
        }
    }
}

/// Groups of public data are counted on request, and small ones are named.
#[test]
fn check_names_groups_that_are_empty_or_tiny() {
    let place = Place::new();
    let text = place.ok("check test.csv --schema s.toml --group c");
    let count = |name: &str| -> usize {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        let size = line.rsplit(": ").find_map(|part| part.parse().ok());
        size.unwrap()
    };
    let all = ["a, y = no", "a, y = yes", "b, y = no", "b, y = yes"].map(count);
    assert_eq!(all.iter().sum::<usize>(), 120, "{text}");
    assert!(text.contains(": tiny"), "{text}");
    let table = place.read("test.csv");
    let (header, rest) = table.split_once('\n').unwrap();
    // Only the first group is left.
    let of_first = |line: &&str| line.split(',').any(|field| field == "a");
    let kept: Vec<&str> = rest.lines().filter(of_first).collect();
    place.put("one.csv", &format!("{header}\n{}\n", kept.join("\n")));
    let text = place.ok("check one.csv --schema s.toml --group c");
    assert!(text.contains("c = b, y = no: 0: empty"), "{text}");
}
