//! Every solver on the command line, with what some of them need: a radius, a rank, a projection.

use dpopt::nonconvex::{SOLVERS, Solver};
use serde_json::Value;

use crate::support::{Place, rows, stderr, table};

fn plan(place: &Place, flags: &str) -> Value {
    serde_json::from_str(&place.ok(&format!("plan {flags} --json"))).unwrap()
}

/// Facts at which every solver has a plan.
const FACTS: &str = "--records 100000 --dim 10 --epsilon 1 --delta 1e-5 --lipschitz 1 --smoothness 1 \
                     --initial-gap 0.5 --convex";

/// The solvers that a table can be planned for.
fn offered() -> impl Iterator<Item = &'static Solver> {
    SOLVERS.iter().copied().filter(|solver| !solver.needs.kl)
}

fn radius(solver: &Solver) -> &'static str {
    match (solver.needs.radius, solver.needs.goldstein) {
        (true, _) => "--radius 1",
        (_, true) => "--goldstein-radius 1",
        _ if solver.needs.hessian => "--hessian-lipschitz 1 --hessian-frobenius 1",
        _ => "",
    }
}

#[test]
fn every_solver_is_planned_and_named_in_the_help() {
    let place = Place::new();
    let help = [place.ok("plan --help"), place.ok("train --help")];
    for solver in offered() {
        let json = plan(&place, &format!("{solver} {FACTS} {}", radius(solver)));
        assert_eq!(json["solver"], solver.name);
        let epsilon = json["epsilon"].as_f64().unwrap();
        assert!(
            epsilon <= 1.0 + 1e-9 && epsilon > 0.95,
            "{solver} {epsilon}"
        );
        assert_eq!(json["predicted_bound"].is_number(), solver.states_a_bound());
        for text in &help {
            assert!(text.contains(solver.name), "{solver}");
        }
        let words = place.ok(&format!("plan {solver} {FACTS} {}", radius(solver)));
        assert!(
            words.contains(solver.name) && !words.contains('{'),
            "{words}"
        );
    }
}

#[test]
fn directions_are_as_many_as_one_asks_for() {
    let place = Place::new();
    for solver in [
        "goldstein-zo --goldstein-radius 1",
        "goldstein-zo-sampled --goldstein-radius 1",
        "goldstein-zo-pass --goldstein-radius 1",
    ] {
        let default = plan(&place, &format!("{solver} {FACTS}"));
        assert!(default["plan"]["directions"].is_u64());
        for directions in [1, 4, 10] {
            let json = plan(
                &place,
                &format!("{solver} {FACTS} --directions {directions}"),
            );
            assert_eq!(json["plan"]["directions"], directions, "{solver}");
        }
        let json = place.train(&format!(
            "--epsilon 1e6 --max-steps 400 --solver {solver} --directions 2"
        ));
        assert!(json["releases"].as_u64().unwrap() > 0, "{solver}: {json}");
    }
}

/// The bound is on the smoothed loss, and says so.
#[test]
fn bounded_losses_are_planned_without_a_lipschitz_constant() {
    let place = Place::new();
    let flags = "--goldstein-radius 0.5 --value-range 1 --smoothing 0.5";
    // Without --lipschitz c_d c0/(2 a), c_10 = 2.5869; and what is claimed, where that is less.
    let unknown = "--records 100000 --dim 10 --epsilon 1 --delta 1e-5";
    for (facts, steepest) in [(unknown, 2.58689939), (FACTS, 1.0)] {
        for solver in ["goldstein-zo", "goldstein-zo-sampled", "goldstein-zo-pass"] {
            let json = plan(&place, &format!("{solver} {facts} {flags}"));
            let trivial = json["trivial_bound"].as_f64().unwrap();
            assert!((trivial - steepest).abs() < 1e-6, "{solver}: {trivial}");
        }
    }
    for solver in ["goldstein-zo", "goldstein-zo-sampled", "goldstein-zo-pass"] {
        let json = plan(&place, &format!("{solver} {FACTS} {flags}"));
        let on = "Goldstein distance at radius 0.5 of the smoothed loss F_a, at smoothing a = 0.5";
        assert_eq!(json["bound_on"], on, "{solver}");
        let trivial = json["trivial_bound"].as_f64().unwrap();
        assert!(json["predicted_bound"].as_f64().unwrap() < trivial);
    }
    let words = place.ok(&format!("plan goldstein-zo {FACTS} {flags}"));
    assert!(words.contains("smoothed loss F_a"), "{words}");
    for (solver, flags, word) in [
        ("goldstein", flags, "--value-range"),
        (
            "dp-sgd",
            "--value-range 1 --smoothing 1",
            "goldstein-zo-pass",
        ),
        (
            "goldstein-zo",
            "--goldstein-radius 1 --value-range 1",
            "--smoothing",
        ),
        (
            "goldstein-zo",
            "--goldstein-radius 1 --smoothing 1",
            "--value-range",
        ),
    ] {
        place.fails(&format!("plan {solver} {FACTS} {flags}"), 1, &[word]);
    }
}

#[test]
fn every_solver_trains_a_table() {
    let place = Place::new();
    for solver in offered() {
        place.table_for(solver);
        let flags = format!(
            "--epsilon 1e6 --solver {solver} --max-steps 40 --test test.csv {}",
            radius(solver)
        );
        // One pass over so few rows certifies its start.
        let stays = ["sosp", "adaptive-batch"].contains(&solver.name);
        // A drawn output is the start itself in one run of 40: eight of eight are once in 1e12.
        let mut runs = (0..if stays { 1 } else { 8 }).map(|_| {
            let json = place.train(&flags);
            assert_eq!(json["solver"], solver.name);
            assert!(json["epsilon"].as_f64().unwrap() <= 1e6, "{json}");
            assert!(json["releases"].as_u64().unwrap() > 0, "{json}");
            assert_eq!(
                json.get("rests_on").is_some(),
                solver.name == "recursive-sgd"
            );
            json
        });
        let moved = runs.find(|json| json["learnt_nothing"] != true);
        // With next to no noise its model is better than that of the origin, where every log loss is ln 2.
        if let Some(json) = moved {
            let loss = json["test_log_loss"].as_f64().unwrap();
            assert!(loss < 0.99 * 2f64.ln(), "{solver}: {loss}");
        } else {
            assert!(stays, "{solver} learnt nothing");
        }
    }
}

/// Solvers on samples take allocations, and say what Poisson samples would need.
#[test]
fn every_solver_on_samples_trains_on_allocations() {
    let place = Place::new();
    for solver in offered().filter(|solver| solver.needs.samples) {
        place.table_for(solver);
        let flags = format!("--epsilon 1e3 --solver {solver} --max-steps 40 --batches allocation");
        let json = place.train(&flags);
        assert!(json["epsilon"].as_f64().unwrap() <= 1e3, "{json}");
        assert!(json["releases"].as_u64().unwrap() > 0, "{json}");
        let planned = plan(&place, &format!("{solver} {FACTS} --batches allocation"));
        let beside = planned["plan"]["poisson_noise_multiplier"].as_f64();
        assert!(beside.is_some_and(|z| z > 0.0), "{planned}");
    }
}

#[test]
fn claims_are_stated_with_the_guarantee() {
    let place = Place::new();
    let flags =
        "train --data t.csv --schema s.toml --solver recursive-sgd --radius 1 --epsilon 40 --out o";
    let words = place.ok(flags);
    for part in [
        "Assumed besides",
        "convex and smooth",
        "there is no guarantee",
    ] {
        // Lines are wrapped.
        let flat = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(part), "{part}: {flat}");
    }
    let ledger = place.json("o/events.json");
    assert!(ledger["rests_on"][0].as_str().unwrap().contains("convex"));
    let model = place.json("o/model.json");
    assert_eq!(model["privacy"]["rests_on"], ledger["rests_on"]);
    let report = place.read("o/report.html");
    for part in [
        "Claimed, and not enforced",
        "Length of passes",
        "no gradient is released",
        "distance from the start to a minimiser",
    ] {
        assert!(report.contains(part), "{part}");
    }
    // The other recursive solver enforces its sensitivity, and claims a radius for its bound alone.
    let flags = "train --data t.csv --schema s.toml --solver recursive-gd --radius 2 --epsilon 40 --out o --force";
    assert!(!place.ok(flags).contains("Assumed besides"));
    assert!(place.json("o/events.json").get("rests_on").is_none());
    let report = place.read("o/report.html");
    assert!(!report.contains("Claimed, and") && report.contains("stage 1: records"));
}

#[test]
fn rows_are_projected_where_it_is_asked_for() {
    let place = Place::new();
    let wide = "--records 100000 --dim 100000 --epsilon 1 --delta 1e-5 --lipschitz 1 --smoothness 1 --initial-gap 0.5";
    let ranked = plan(
        &place,
        &format!("spiderboost {wide} --project rank --rank 5"),
    );
    assert_eq!(ranked["plan"]["branch"], "rank");
    let free = plan(
        &place,
        &format!("spiderboost {wide} --project rank-free --epsilon 4").replacen(
            "--epsilon 1 ",
            "",
            1,
        ),
    );
    assert_eq!(free["plan"]["branch"], "rank-free");
    assert!(ranked["predicted_bound"].as_f64() < free["predicted_bound"].as_f64());
    // With auto: whichever base has the smaller bound.
    let picked = plan(&place, &format!("auto {wide} --project auto --rank 5"));
    assert!(picked["predicted_bound"].as_f64() <= ranked["predicted_bound"].as_f64());
    let words = place.ok(&format!("plan auto {wide} --project auto --rank 5"));
    assert!(words.contains("auto: its proven bound"), "{words}");
    let words = place.ok(&format!("plan spiderboost {wide} --project rank --rank 5"));
    assert!(words.contains("over the projection too"), "{words}");
    // Without a bound there is nothing to pick a dimension by.
    place.fails(
        &format!("plan dp-sgd {wide} --project rank-free"),
        1,
        &["--project", "no bound"],
    );

    let json = place.train("--solver noisy-gd --epsilon 40 --project 3 --out o");
    assert_eq!(
        (json["dim"].as_u64(), &json["predicted_bound"]),
        (Some(5), &Value::Null)
    );
    assert_eq!(
        place.json("o/model.json")["weights"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    assert!(place.read("o/report.html").contains("given"));
}

#[test]
fn what_a_solver_has_no_use_for_or_lacks_is_said() {
    let place = Place::new();
    let train = "train --data t.csv --schema s.toml --out o --ledger l.json --budget 60 --budget-delta 1e-5 --epsilon 40";
    for (flags, words) in [
        (
            "--solver recursive-gd",
            &["--radius", "recursive-gd", "L0 = 2", "none was given"][..],
        ),
        ("--solver recursive-sgd", &["--radius", "L1 = 1"]),
        (
            "--solver recursive-gd --radius 0",
            &["--radius", "positive"],
        ),
        (
            "--solver recursive-gd --radius 1 --loss sigmoid",
            &["--loss", "recursive-gd", "convex", "L0 = 0.5"],
        ),
        (
            "--solver recursive-sgd --radius 1 --loss welsch",
            &["--loss", "convex"],
        ),
        (
            "--solver dp-sgd --radius 3",
            &["--radius", "dp-sgd has no use", "3"],
        ),
        ("--radius 3", &["--radius", "recursive-gd"]),
        (
            "--solver goldstein",
            &["--goldstein-radius", "none was given"],
        ),
        (
            "--solver noisy-gd --goldstein-radius 3",
            &["--goldstein-radius", "goldstein-pass", "3"],
        ),
        (
            "--solver goldstein --goldstein-radius 0",
            &["--goldstein-radius", "positive"],
        ),
        (
            "--solver goldstein --goldstein-radius 1e-9",
            &["Goldstein distance at radius", "more steps"],
        ),
        (
            "--solver goldstein-zo --goldstein-radius 1 --directions 6",
            &["--directions", "6 orthogonal directions", "from 1 to 5"],
        ),
        (
            "--solver goldstein-zo --goldstein-radius 1 --directions 0",
            &["--directions", "at least 1"],
        ),
        (
            "--solver dp-sgd --directions 2",
            &["--directions", "goldstein-zo", "got 2"],
        ),
        (
            "--solver goldstein-pass --goldstein-radius 1 --project 2",
            &["--project", "no proof"],
        ),
        ("--solver dp-adam --rank 2", &["--rank", "dp-adam", "2"]),
        ("--solver spiderboost --rank 0", &["--rank"]),
        (
            "--solver spiderboost --project rank",
            &["--rank", "public bound"],
        ),
        (
            "--solver noisy-gd --project 5",
            &["--project", "5 dimensions", "5 features"],
        ),
        (
            "--solver recursive-gd --radius 1 --project 2",
            &["--project", "minimiser"],
        ),
        (
            "--solver tree-spider --project rank-free",
            &["--project", "tree-spider"],
        ),
        ("--solver noisy-gd --project 0", &["--project", "rank-free"]),
        ("--solver noisy-gd --project-seed 3", &["--project"]),
        (
            "--solver noisy-gd --project 3 --checkpoint c.json",
            &["--checkpoint", "projected"],
        ),
    ] {
        place.fails(&format!("{train} {flags}"), 1, words);
    }
    for solver in [
        "tree-spider",
        "recursive-gd --radius 1",
        "recursive-sgd --radius 1",
        "goldstein-pass --goldstein-radius 1",
        "goldstein-zo-pass --goldstein-radius 1",
    ] {
        let flags = format!("plan {solver} {FACTS} --adjacency add-remove");
        place.fails(
            &flags,
            1,
            &["--adjacency", "100000 records in slices", "shifts"],
        );
    }
    place.fails(
        &format!(
            "plan auto {} --convex",
            "--records 9 --dim 1 --epsilon 1 --delta 1e-5"
        ),
        1,
        &["--lipschitz"],
    );
}

#[test]
fn records_in_a_file_are_not_read_one_by_one_or_projected() {
    let place = Place::new();
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let train =
        "train --data t.dpr --epsilon 40 --out o --ledger l.json --budget 60 --budget-delta 1e-5";
    for (flags, word) in [
        ("--solver recursive-sgd --radius 1", "recursive-sgd"),
        ("--solver noisy-gd --project 3", "projection"),
    ] {
        place.fails(
            &format!("{train} {flags}"),
            1,
            &["--data", word, "in memory"],
        );
    }
    // The others read them where they are.
    let output = place.run(&format!("{train} --solver recursive-gd --radius 1"));
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A slice of a file comes from few places of it where it is not much longer than the runs that stay together: public numbers tell.
#[test]
fn slices_of_few_runs_of_a_file_are_warned_of() {
    let place = Place::new();
    place.put("t.csv", &table(&rows(3000)));
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let said = |flags: &str| {
        let flags = format!("train {flags} --epsilon 8 --delta 1e-5 --json");
        let json: serde_json::Value = serde_json::from_str(&place.ok(&flags)).unwrap();
        json["warnings"]
            .to_string()
            .contains("runs of 1024 neighbours")
    };
    for solver in ["--solver dp-mf", "--solver dp-mf-sampled"] {
        assert!(said(&format!("--data t.dpr {solver}")));
        assert!(!said(&format!("--data t.dpr {solver} --order-seed none")));
        assert!(!said(&format!("--data t.csv --schema s.toml {solver}")));
    }
    assert!(!said("--data t.dpr --solver noisy-gd"));
}

#[test]
fn a_ledger_takes_sampled_and_sliced_runs() {
    let place = Place::new();
    for (name, solver, filter) in [
        ("a", "sampled-spiderboost", "rdp"),
        ("b", "recursive-gd --radius 2", "gdp"),
        ("c", "recursive-sgd --radius 1", "gdp"),
    ] {
        let json = place.train(&format!(
            "--epsilon 40 --max-steps 40 --solver {solver} --ledger {name}.jsonl --budget 80 --budget-delta 1e-5"
        ));
        assert!(
            json["budget_left"].as_str().unwrap().contains(filter),
            "{json}"
        );
        place.ok(&format!("ledger verify {name}.jsonl"));
    }
}

/// A removed solver is refused with the ones to use instead, and models that it trained are still read.
#[test]
fn removed_solvers_are_named_and_their_models_are_read() {
    let place = Place::new();
    place.train("--epsilon 40 --max-steps 5 --solver dp-sgd --out o");
    let model = place.read("o/model.json");
    for (removed, instead) in [("dp-zo", "goldstein-zo-sampled"), ("privatediff", "sgda")] {
        let flags = format!("plan {removed} {FACTS}");
        place.fails(&flags, 1, &[removed, "removed", instead]);
        place.put(
            "o/model.json",
            &model.replace("\"dp-sgd\"", &format!("\"{removed}\"")),
        );
        place.ok("predict --model o/model.json --data t.csv --out p.csv --force");
        place.ok("explain o/model.json");
    }
}
