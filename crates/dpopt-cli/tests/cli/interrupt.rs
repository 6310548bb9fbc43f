//! Signals: a run that is stopped leaves a true statement and its model, with a code of its own.
#![cfg(unix)]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use signal_hook::consts::SIGHUP;

use crate::support::{Place, rows, stderr, table, until, until_said};

/// A plan of 1.3e9 steps, which take days: each run is ended by what the test does to it.
const LONG: &str = "train --data t.csv --schema s.toml --solver noisy-gd-theory --epsilon 2e12 \
                    --max-steps 1000000000000 --out o --ledger l.json --budget 2e12 --budget-delta 1e-6 \
                    --budget-filter gdp --threads 1";

fn place() -> Place {
    let place = Place::new();
    place.put("t.csv", &table(&rows(5_000)));
    place
}

/// Starts the command and waits until its ledger says that the run has begun to release.
fn started(place: &Place, mut command: Command) -> Child {
    // Signals that this process was started without are those of its children too; those that it handles are not.
    signal_hook::flag::register(SIGHUP, Arc::default()).unwrap();
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let ledger = place.path("l.json");
    until(&mut child, || {
        std::fs::read_to_string(&ledger).is_ok_and(|text| text.contains("\"draw\""))
    });
    child
}

/// Starts `train` on standard input and waits until it reads the records, which never end: by then it listens to signals.
fn reading(place: &Place) -> Child {
    let flags =
        "train --data - --schema s.toml --out o --ledger l.json --budget 2 --budget-delta 1e-5";
    let mut command = place.command(flags);
    let piped = command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // Far more than a pipe holds.
    let records = table(&rows(100_000));
    let input = child.stdin.as_mut().unwrap();
    input.write_all(records.as_bytes()).unwrap();
    child
}

fn send(signal: &str, child: &Child) {
    let mut kill = Command::new("kill");
    let sent = kill.args([signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success(), "{signal}");
}

#[test]
fn the_first_signal_stops_after_a_release_and_tells_the_truth() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let place = place();
        let child = started(&place, place.command(&format!("{LONG} --json")));
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{signal}: {said}");
        assert!(said.contains(&format!("SIG{}", &signal[1..])), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["stop"], "by-observer");
        let (made, planned) = (json["steps"].as_u64(), json["planned_steps"].as_u64());
        assert!(made >= Some(1) && made < planned, "{json}");
        // The statement is the plan's; the reading is smaller and names its theorem.
        let epsilon = json["epsilon"].as_f64().unwrap();
        let reading = json["odometer"]["epsilon"].as_f64().unwrap();
        assert!(epsilon > 1.999e12 && reading < epsilon, "{json}");
        assert!(
            json["odometer"]["theorem"]
                .as_str()
                .unwrap()
                .contains("Ville")
        );
        let file = place.json("o/events.json");
        // The proof is about a run to its end.
        for key in ["bound", "predicted_bound"] {
            assert!(json[key].is_null(), "{key}: {json}");
        }
        let why = json["no_bound_because"].as_str().unwrap();
        assert!(why.contains("was stopped"), "{json}");
        let report = place.read("o/report.html");
        assert!(!report.contains("gradient norm at its output is at most"));
        assert!(report.contains("This run was stopped, and states none."));
        assert!(report.contains("stopped by a signal before the end of its plan"));
        assert_eq!(file["event"]["count"].as_u64(), planned);
        assert_eq!(file["spent"]["count"].as_u64(), made);
        let words = place.json("o/model.json")["privacy"]["words"].to_string();
        assert!(words.contains("Odometer: with probability"), "{words}");
        let counted = "and the step at which a signal stopped the run,";
        assert!(words.contains(counted), "{words}");
        let left: serde_json::Value =
            serde_json::from_str(&place.ok("ledger show l.json --json")).unwrap();
        assert_eq!(left["runs"][0]["settled"], true);
        assert!(left["used"].as_f64() < left["capacity"].as_f64());
    }
}

#[test]
fn a_run_that_breaks_off_says_that_it_is_spent() {
    let place = place();
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let flags = LONG.replace("--data t.csv --schema s.toml", "--data t.dpr");
    let child = started(&place, place.command(&flags));
    // A file that changes under a run is found by its next pass.
    let mut bytes = std::fs::read(place.path("t.dpr")).unwrap();
    bytes.push(0);
    std::fs::write(place.path("t.dpr"), bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("broke off") && said.contains("counts as spent"),
        "{said}"
    );
    assert!(output.stdout.is_empty() && !place.path("o").exists());
}

/// Shares that were released before the run are in what was spent, however far the run came, and no message denies them.
#[test]
fn released_shares_are_spent_when_the_run_is_stopped() {
    let place = Place::new();
    place.put("t.csv", &table(&rows(20_000)));
    // A small weight of the dual is warned of after the release of the shares; 1e6 steps of 20,000 records take hours.
    let flags = "train --data t.csv --schema s.toml --delta 1e-6 --objective group-dro --group y,c --group-shares release \
                 --epsilon 1e14 --max-steps 1000000000 --dual-weight 0.1 --out o --force --threads 1";
    loop {
        let mut command = place.command(flags);
        let piped = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        until_said(&mut child, "--dual-weight");
        send("-INT", &child);
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        match output.status.code() {
            // Before the first step; then once more.
            Some(5) => assert!(said.contains("counts as spent"), "{said}"),
            Some(3) => {
                let file = place.json("o/events.json");
                let parts = |key: &str| file[key]["events"].as_array().unwrap().clone();
                let (reserved, spent) = (parts("event"), parts("spent"));
                assert_eq!((reserved.len(), spent.len()), (2, 2), "{file}");
                // One of a kind may stand alone.
                let one = |event: &serde_json::Value| match event.get("count") {
                    Some(count) if count == 1 => event["event"].clone(),
                    _ => event.clone(),
                };
                assert_eq!(one(&reserved[0]), one(&spent[0]), "the histogram");
                let count = |parts: &[serde_json::Value]| parts[1]["count"].as_u64().unwrap_or(1);
                assert!(
                    count(&spent) >= 1 && count(&spent) < count(&reserved),
                    "{file}"
                );
                return;
            }
            code => panic!("{code:?}: {said}"),
        }
    }
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let place = place();
    let mut nohup = Command::new("sh");
    let script = format!("trap '' HUP; exec \"$0\" {LONG} --json");
    nohup
        .args(["-c", &script, env!("CARGO_BIN_EXE_dpopt")])
        .current_dir(place.root());
    let child = started(&place, nohup);
    // If it were heard, the other would be the second.
    send("-HUP", &child);
    send("-TERM", &child);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("SIGTERM") && !said.contains("SIGHUP"),
        "{said}"
    );
    assert!(place.path("o/model.json").exists());
}

#[test]
fn a_reader_that_went_away_takes_no_run_with_it() {
    let place = place();
    let mut child = started(&place, place.command(LONG));
    // Nobody hears the sentence about the signal, nor the summary.
    drop(child.stderr.take());
    drop(child.stdout.take());
    send("-TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    for file in ["model.json", "events.json", "report.html"] {
        assert!(place.path("o").join(file).exists(), "{file}");
    }
}

#[test]
fn a_signal_before_the_first_release_charges_nothing() {
    let place = Place::new();
    let mut child = reading(&place);
    send("-TERM", &child);
    let mut said = until_said(&mut child, "SIGTERM");
    // The records end.
    drop(child.stdin.take());
    let mut errors = child.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("nothing was charged"), "{said}");
    assert!(!place.path("l.json").exists() && !place.path("o").exists());
}

#[test]
fn the_second_signal_leaves_at_once() {
    let place = Place::new();
    let mut child = reading(&place);
    send("-INT", &child);
    until_said(&mut child, "SIGINT");
    send("-INT", &child);
    // `wait` would end the records first.
    let input = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}
