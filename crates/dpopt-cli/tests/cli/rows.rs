//! `dpopt convert` and training on records that stay in their file.

use crate::support::Place;

/// Everything of a run that no noise is in: what was planned from the data's public side. Noise is drawn from the system, so
/// that models of two runs differ; the sums are compared in the tests of the library.
fn facts(json: &serde_json::Value) -> Vec<&serde_json::Value> {
    ["records", "dim", "solver", "steps", "noise_multiplier"]
        .iter()
        .filter_map(|key| json.get(key))
        .collect()
}

#[test]
fn a_table_is_converted_and_trained_on_without_its_schema() {
    let place = Place::new();
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let run = |flags: &str| -> serde_json::Value {
        serde_json::from_str(&place.ok(&format!("train {flags} --json"))).unwrap()
    };
    let table = run("--data t.csv --schema s.toml");
    let rows = run("--data t.dpr --threads 3");
    assert_eq!(facts(&rows), facts(&table));
    assert_eq!(facts(&run("--data t.dpr --schema s.toml")), facts(&table));
    place.ok("train --data t.dpr --epsilon 100 --out o --quiet --test test.csv");
    let scores = place.ok("predict --model o/model.json --data t.csv");
    assert_eq!(
        scores,
        place.ok("predict --model o/model.json --data t.dpr")
    );
    // Nothing of a half-made file is left.
    assert!(
        place
            .listing()
            .iter()
            .all(|path| !path.ends_with("t.dpr.part"))
    );
}

#[test]
fn what_does_not_fit_is_said_in_one_sentence() {
    let place = Place::new();
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let whole = std::fs::read(place.path("t.dpr")).unwrap();
    std::fs::write(place.path("cut.dpr"), &whole[..whole.len() - 5]).unwrap();
    std::fs::write(place.path("no.dpr"), b"x,c,y\n").unwrap();
    let old = place.read("s.toml");
    place.put(
        "other.toml",
        &old.replace("row_norm = 2.0", "row_norm = 3.0"),
    );
    for (flags, words) in [
        ("train --data cut.dpr", &["cut.dpr", "damaged"][..]),
        ("train --data no.dpr", &["no.dpr", "not a file of rows"]),
        (
            "train --data t.dpr --schema other.toml",
            &["t.dpr", "another schema"],
        ),
        (
            "train --data t.dpr --positive no",
            &["t.dpr", "another schema or label"],
        ),
        (
            "train --data t.csv --schema s.toml --in-place",
            &["--in-place", "dpopt convert"],
        ),
        (
            "train --data t.dpr --labels t.csv",
            &["--labels", "its own labels"],
        ),
        (
            "convert t.dpr --schema s.toml --out u.dpr",
            &["t.dpr", "made from"],
        ),
        (
            "convert t.csv --schema other.toml --out no/u.dpr",
            &["no/u.dpr"],
        ),
        ("convert s.toml --schema s.toml --out u.dpr", &["s.toml"]),
        ("check t.dpr --schema s.toml", &["t.dpr", "made from"]),
        ("schema t.dpr", &["t.dpr", "made from"]),
    ] {
        place.fails(flags, 1, words);
    }
}

#[test]
fn arrays_are_read_in_place_unless_their_schema_changes_them() {
    let place = Place::new();
    let rows: Vec<u8> = (0..300 * 4).map(|k| (k * 37 % 251) as u8).collect();
    let labels: Vec<u8> = (0..300).map(|i| (i % 3) as u8).collect();
    let npy = |shape: &str, entries: &[u8]| {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(entries);
        bytes
    };
    std::fs::write(place.path("x.npy"), npy("(300, 4)", &rows)).unwrap();
    std::fs::write(place.path("y.npy"), npy("(300,)", &labels)).unwrap();
    let schema = |intercept: &str| {
        format!(
            "format = 1\nrow_norm = 2.0\nintercept = {intercept}\n[label]\ncolumn = \"digit\"\n\
             values = [\"1\", \"other\"]\npositive = \"1\"\ndefault = \"other\"\n[array]\n\
             columns = 4\nscale = 0.00392156862745098\n"
        )
    };
    place.put("plain.toml", &schema("0.0"));
    place.put("one.toml", &schema("1.0"));
    let run = |flags: &str| -> serde_json::Value {
        serde_json::from_str(&place.ok(&format!("train {flags} --json"))).unwrap()
    };
    let flags = "--data x.npy --labels y.npy --schema plain.toml";
    assert_eq!(
        facts(&run(&format!("{flags} --in-place"))),
        facts(&run(flags))
    );
    let flags = "--data x.npy --labels y.npy --schema one.toml";
    place.fails(
        &format!("train {flags} --in-place"),
        1,
        &["x.npy", "intercept"],
    );
    place.ok("convert x.npy --labels y.npy --schema one.toml --out x.dpr");
    assert_eq!(facts(&run("--data x.dpr")), facts(&run(flags)));
}

/// The records of a file that only its owner may read stay so.
#[cfg(unix)]
#[test]
fn a_converted_table_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let owner = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(place.path("t.csv"), owner).unwrap();
    place.ok("convert t.csv --schema s.toml --out t.dpr");
    let made = std::fs::metadata(place.path("t.dpr")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
}
