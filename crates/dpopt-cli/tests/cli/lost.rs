//! What a command leaves: nothing that was there is lost, and a model that was paid for finds a place.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Place, stderr, until};

const TRAIN: &str = "train t.csv --schema s.toml --epsilon 1 --max-steps 5 --threads 1";
/// The same for half of a ledger's epsilon.
const HALF: &str = "train t.csv --schema s.toml --epsilon 0.5 --max-steps 5 --threads 1";

/// A model as `predict` reads it.
fn works(place: &Place, model: &str) {
    let scores = place.ok(&format!("predict --model {model} --data t.csv"));
    assert_eq!(scores.lines().count(), 1 + crate::support::ROWS);
}

fn drafts(place: &Place) -> Vec<String> {
    let names = place.listing().into_iter();
    let names = names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with('.') || name.ends_with(".tmp"))
        .collect()
}

#[test]
fn a_second_run_needs_force_and_leaves_what_no_run_makes() {
    let place = Place::new();
    place.ok(&format!("{TRAIN} --out o"));
    place.put("o/notes.txt", "mine");
    place.put("o/t.dpr", "mine too");
    // The events of a run of 0.1 go with its model; a shared ledger of the same name stays.
    place.put(
        "o/ledger.json",
        r#"{"format": "dpopt-ledger-1", "event": {}}"#,
    );
    let before = place.read("o/model.json");
    place.ok(&format!("{TRAIN} --out o --force --quiet"));
    assert_ne!(place.read("o/model.json"), before);
    assert_eq!(place.read("o/notes.txt"), "mine");
    assert_eq!(place.read("o/t.dpr"), "mine too");
    assert!(!place.path("o/ledger.json").exists());

    let shared = "--ledger o/ledger.json --budget 9 --budget-delta 1e-5 --delta 1e-5";
    place.ok(&format!("{TRAIN} --out o --force --quiet {shared}"));
    let ledger = place.read("o/ledger.json");
    place.ok(&format!("{TRAIN} --out o --force --quiet"));
    assert_eq!(place.read("o/ledger.json"), ledger);
    place.ok("ledger verify o/ledger.json");
    let other = "--ledger other.json --budget 9 --budget-delta 1e-5 --delta 1e-5";
    place.ok(&format!("{TRAIN} --out o --force --quiet {other}"));
    assert_eq!(place.read("o/ledger.json"), ledger);
    assert_eq!(drafts(&place), [""; 0]);
}

#[test]
fn an_empty_folder_is_as_good_as_none() {
    let place = Place::new();
    std::fs::create_dir(place.path("o")).unwrap();
    place.ok(&format!("{TRAIN} --out o"));
    works(&place, "o/model.json");
}

#[test]
fn a_checkpoint_replaces_a_checkpoint() {
    let place = Place::new();
    let ledger = "--ledger l.json --delta 1e-5 --checkpoint c.json --quiet";
    place.ok(&format!(
        "{HALF} --out a --budget 3 --budget-delta 1e-5 {ledger}"
    ));
    let first = place.read("c.json");
    place.ok(&format!("{HALF} --out b {ledger}"));
    let second = place.read("c.json");
    assert_ne!(first, second);
    // Also the one that the run started from.
    place.ok(&format!("{HALF} --out d --resume c.json {ledger}"));
    assert_ne!(place.read("c.json"), second);
    place.put("notes.txt", "mine");
    let force = ledger.replace("c.json", "notes.txt");
    place.ok(&format!("{HALF} --out e --force {force}"));
    place.ok("ledger verify l.json --checkpoint notes.txt");
}

#[test]
fn without_a_folder_json_holds_the_model() {
    let place = Place::new();
    let flags = "--ledger l.json --budget 2 --budget-delta 1e-5 --delta 1e-5";
    let json = place.train(flags);
    place.put("m.json", &json["model"].to_string());
    works(&place, "m.json");
    assert_eq!(json["model"]["privacy"]["epsilon"], json["epsilon"]);
    let json = place.train("--out o");
    assert!(json.get("model").is_none(), "it has its file");
}

/// A file that comes to the place while a long table is read is somebody's work.
#[test]
fn what_comes_to_the_place_of_predictions_meanwhile_stays() {
    let place = Place::new();
    place.ok(&format!("{TRAIN} --out o"));
    let table = place.read("t.csv");
    let (head, rest) = table.split_at(table.len() / 2);
    for (force, code) in [("", 1), ("--force", 0)] {
        let flags = format!("predict --model o/model.json --data - --out p.csv {force}");
        let mut command = place.command(&flags);
        let piped = command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(head.as_bytes()).unwrap();
        until(&mut child, || !drafts(&place).is_empty());
        place.put("p.csv", "my work");
        input.write_all(rest.as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(place.read("p.csv") == "my work", code == 1);
        assert!(code == 0 || said.contains("p.csv"), "{said}");
        assert_eq!(drafts(&place), [""; 0]);
        std::fs::remove_file(place.path("p.csv")).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_released_and_can_not_be_printed_is_kept_in_a_file() {
    let place = Place::new();
    place.ok(&format!("{TRAIN} --out o"));
    let paid = "--delta 1e-5 --ledger l.json --budget 9 --budget-delta 1e-5";
    for (command, part) in [
        ("evaluate --epsilon 0.5", "accuracy"),
        ("certify --epsilon 1", "gradient_norm"),
    ] {
        let kept = tempfile::tempdir().unwrap();
        let full = std::fs::File::options().write(true).open("/dev/full");
        let flags = format!("{command} --model o/model.json --data t.csv {paid}");
        let mut command = place.command(&flags);
        command
            .env("TMPDIR", kept.path())
            .stdout(Stdio::from(full.unwrap()));
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(5), "{said}");
        let mut files = std::fs::read_dir(kept.path()).unwrap();
        let file = files.next().unwrap().unwrap().path();
        assert!(said.contains(file.to_str().unwrap()), "{said}");
        let found: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert!(found.get(part).is_some(), "{found}");
        // With a file of its own nothing else is needed.
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = place.command(&format!("{flags} --out {part}.json"));
        command.stdout(Stdio::from(full.unwrap()));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert!(place.json(&format!("{part}.json")).get(part).is_some());
    }
}

#[test]
fn predictions_replace_nothing_unasked() {
    let place = Place::new();
    place.ok(&format!("{TRAIN} --out o"));
    let predict = "predict --model o/model.json --data t.csv";
    place.ok(&format!("{predict} --out p.csv"));
    let scores = place.read("p.csv");
    assert_eq!(scores, place.ok(predict));
    place.fails(&format!("{predict} --out p.csv"), 1, &["p.csv", "--force"]);
    place.put("p.csv", "old\n");
    place.ok(&format!("{predict} --out p.csv --force"));
    assert_eq!(place.read("p.csv"), scores);
    // A file that holds nothing is nobody's loss.
    place.put("made.csv", "");
    place.ok(&format!("{predict} --out made.csv"));
    assert_eq!(place.read("made.csv"), scores);
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    place.fails(
        "convert t.csv --schema s.toml --out t.dpr",
        1,
        &["t.dpr", "--force"],
    );
    place.ok("convert t.csv --schema s.toml --out t.dpr --force");
    assert_eq!(
        place.ok("predict --model o/model.json --data t.dpr"),
        scores
    );
}

#[test]
fn records_come_as_an_argument_or_on_standard_input() {
    let place = Place::new();
    let json = |output: Output| -> Value {
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let piped = |flags: &str, file: &str| {
        let file = std::fs::File::open(place.path(file)).unwrap();
        place.command(flags).stdin(file).output().unwrap()
    };
    let named = json(place.run("train t.csv --schema s.toml --json --max-steps 5"));
    let flags = "train --data - --schema s.toml --json --max-steps 5";
    let plain = json(piped(flags, "t.csv"));
    let packed = {
        use std::io::Write as _;
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(place.read("t.csv").as_bytes()).unwrap();
        std::fs::write(place.path("t.gz"), out.finish().unwrap()).unwrap();
        json(piped(flags, "t.gz"))
    };
    for key in ["records", "dim", "steps", "epsilon"] {
        assert_eq!(named[key], plain[key], "{key}");
        assert_eq!(named[key], packed[key], "{key}");
    }
    place.ok(&format!("{TRAIN} --out o"));
    let scores = place.ok("predict --model o/model.json --data t.csv");
    let read = piped("predict --model o/model.json --data -", "t.gz");
    assert_eq!(String::from_utf8(read.stdout).unwrap(), scores);
    let draft = piped("schema -", "t.csv");
    assert!(draft.status.success() && draft.stdout.starts_with(b"# DRAFT"));
    let read = piped("convert - --schema s.toml --out t.dpr", "t.csv");
    assert!(read.status.success(), "{}", stderr(&read));
    assert_eq!(
        place.ok("predict --model o/model.json --data t.dpr"),
        scores
    );
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A run under a limit on the size of files, in blocks of 512 or 1024 bytes.
    fn limited(place: &Place, blocks: u32, flags: &str) -> Output {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {flags}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_dpopt")]);
        shell.current_dir(place.root()).output().unwrap()
    }

    #[test]
    fn a_report_that_finds_no_room_loses_no_model() {
        let place = Place::new();
        let output = limited(&place, 8, &format!("{TRAIN} --out o"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(
            said.contains("o/report.html") && said.contains("counts as spent"),
            "{said}"
        );
        assert!(!said.contains("model.json"), "{said}");
        works(&place, "o/model.json");
        assert!(place.path("o/events.json").exists() && !place.path("o/report.html").exists());
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("model.json, events.json in o"), "{shown}");
        assert_eq!(drafts(&place), [""; 0]);
    }

    #[test]
    fn a_model_that_finds_no_room_is_printed() {
        for flags in ["", "--quiet", "--json"] {
            let place = Place::new();
            let output = limited(&place, 1, &format!("{TRAIN} --out o {flags}"));
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(5), "{said}");
            for part in ["o/model.json", "o/report.html", "standard output"] {
                assert!(said.contains(part), "{part}: {said}");
            }
            let shown = String::from_utf8(output.stdout).unwrap();
            let last: Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
            let model = if flags == "--json" {
                &last["model"]
            } else {
                &last
            };
            place.put("m.json", &model.to_string());
            works(&place, "m.json");
            assert_eq!(drafts(&place), [""; 0]);
        }
    }

    #[test]
    fn a_model_that_can_not_be_printed_is_kept_in_a_file() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let place = Place::new();
        let full = || {
            std::fs::File::options()
                .write(true)
                .open("/dev/full")
                .unwrap()
        };
        for (flags, paid) in [
            ("--json", ""),
            ("--json", "--ledger l.json --budget 2 --budget-delta 1e-5"),
        ] {
            let kept = tempfile::tempdir().unwrap();
            let mut command = place.command(&format!("{HALF} {flags} {paid}"));
            command
                .env("TMPDIR", kept.path())
                .stdout(Stdio::from(full()));
            let output = command.output().unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(5), "{said}");
            let mut files = std::fs::read_dir(kept.path()).unwrap();
            let file = files.next().unwrap().unwrap().path();
            assert!(said.contains(file.to_str().unwrap()), "{said}");
            works(&place, file.to_str().unwrap());
            assert!(files.next().is_none());
        }
        // Closed before the command starts, so that it can't be faster.
        let gone = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer
        };
        // A reader that goes away has not seen the model.
        let kept = tempfile::tempdir().unwrap();
        let mut command = place.command(&format!("{TRAIN} --json"));
        command
            .env("TMPDIR", kept.path())
            .stdout(gone())
            .stderr(Stdio::null());
        assert_eq!(command.status().unwrap().code(), Some(5));
        assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 1);
        // With its file it is safe, and a summary that nobody reads is no trouble.
        let mut command = place.command(&format!("{TRAIN} --out o"));
        assert_eq!(command.stdout(gone()).status().unwrap().code(), Some(0));
    }

    #[test]
    fn files_that_hold_records_are_the_owners() {
        let place = Place::new();
        place.ok(&format!("{TRAIN} --out o"));
        place.ok("predict --model o/model.json --data t.csv --out p.csv");
        let mode = |name: &str| {
            std::fs::metadata(place.path(name))
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode("p.csv") & 0o777, 0o600);
        std::fs::write(place.path("plain"), "").unwrap();
        assert_eq!(
            mode("o/model.json"),
            mode("plain"),
            "as the user's mask gives"
        );
    }

    #[test]
    fn devices_are_written_to_and_links_stay_links() {
        let place = Place::new();
        place.ok(&format!("{TRAIN} --out o"));
        let predict = "predict --model o/model.json --data t.csv";
        assert_eq!(
            place.ok(&format!("{predict} --out /dev/stdout")),
            place.ok(predict)
        );
        place.ok(&format!("{predict} --out /dev/null"));
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        place.put("real.csv", "old\n");
        std::os::unix::fs::symlink("real.csv", place.path("link.csv")).unwrap();
        place.ok(&format!("{predict} --out link.csv --force"));
        assert!(
            std::fs::symlink_metadata(place.path("link.csv"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(place.read("real.csv"), place.ok(predict));
        let convert = "convert t.csv --schema s.toml --out /dev/null --force";
        place.fails(convert, 1, &["--out", "not an ordinary file"]);
    }
}
