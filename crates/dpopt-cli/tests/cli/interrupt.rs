//! Ctrl-C: a true statement on disk.
#![cfg(unix)]

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Place, rows, table};

/// A plan far too long to finish.
const LONG: &str = "train --data t.csv --schema s.toml --solver noisy-gd-theory --epsilon 2000 \
                    --max-steps 10000000 --out o --ledger l.json --budget 2000 --budget-delta 1e-6 \
                    --budget-filter gdp --threads 1";

#[test]
fn the_first_interrupt_stops_after_a_release_and_tells_the_truth() {
    let place = Place::new();
    place.put("t.csv", &table(&rows(5_000)));
    let child = place
        .command(&format!("{LONG} --json"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The reservation on disk says that the run is about to release.
    let reserved = |text: &str| text.lines().count() >= 2;
    let ledger = place.path("l.json");
    for _ in 0..2_000 {
        if std::fs::read_to_string(&ledger).is_ok_and(|text| reserved(&text)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        crate::support::stderr(&output)
    );
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["stop"], "by-observer");
    let (made, planned) = (json["steps"].as_u64(), json["planned_steps"].as_u64());
    assert!(made >= Some(1) && made < planned, "{json}");
    // The statement is the plan's; the reading is smaller and names its theorem.
    let epsilon = json["epsilon"].as_f64().unwrap();
    let reading = json["odometer"]["epsilon"].as_f64().unwrap();
    assert!(epsilon > 1_999.0 && reading < epsilon, "{json}");
    assert!(
        json["odometer"]["theorem"]
            .as_str()
            .unwrap()
            .contains("Ville")
    );
    // The proof is about a run to its end.
    for key in ["bound", "predicted_bound"] {
        assert!(json[key].is_null(), "{key}: {json}");
    }
    assert!(
        json["no_bound_because"]
            .as_str()
            .unwrap()
            .contains("stopped before"),
        "{json}"
    );
    let report = place.read("o/report.html");
    assert!(!report.contains("gradient norm at its output is at most"));
    assert!(report.contains("This run stopped before, and states none."));
    assert!(report.contains("stopped by a signal before the end of its plan"));
    let file = place.json("o/ledger.json");
    assert_eq!(file["event"]["count"].as_u64(), planned);
    assert_eq!(file["spent"]["count"].as_u64(), made);
    let words = place.json("o/model.json")["privacy"]["words"].to_string();
    assert!(words.contains("Odometer: with probability"), "{words}");
    assert!(
        words.contains("and the step at which a signal stopped the run,"),
        "{words}"
    );
    let left: serde_json::Value =
        serde_json::from_str(&place.ok("ledger show l.json --json")).unwrap();
    assert_eq!(left["runs"][0]["settled"], true);
    assert!(left["used"].as_f64() < left["capacity"].as_f64());
}
