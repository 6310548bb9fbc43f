//! Records in other formats than CSV: from files to a model and back.

use crate::support::{Place, stderr};

const SCHEMA: &str = "format = 1\nrow_norm = 2.0\nintercept = 1.0\n\
    [label]\ncolumn = \"digit\"\nvalues = [\"1\", \"other\"]\npositive = \"1\"\n\
    default = \"other\"\n[array]\ncolumns = 4\nscale = 0.00392156862745098\n";
const N: usize = 300;

/// Bytes in which a bright first pixel means a label of 1.
fn pixels() -> (Vec<u8>, Vec<u8>) {
    let labels: Vec<u8> = (0..N).map(|i| (i * 7 % 3) as u8).collect();
    let rows = labels.iter().enumerate().flat_map(|(i, &label)| {
        let bright = if label == 1 { 200 } else { 20 };
        [
            bright + (i % 11) as u8,
            (i * 31) as u8,
            0,
            255 - (i % 50) as u8,
        ]
    });
    (rows.collect(), labels)
}

fn put(place: &Place, name: &str, bytes: &[u8]) {
    std::fs::write(place.path(name), bytes).unwrap();
}

fn idx(sizes: &[u32], entries: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(entries);
    bytes
}

fn npy(shape: &str, entries: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(entries);
    bytes
}

fn place() -> Place {
    let place = Place::new();
    let (rows, labels) = pixels();
    put(&place, "x-idx3-ubyte", &idx(&[N as u32, 2, 2], &rows));
    put(&place, "y-idx1-ubyte", &idx(&[N as u32], &labels));
    put(&place, "x.npy", &npy(&format!("({N}, 4)"), &rows));
    put(&place, "y.npy", &npy(&format!("({N},)"), &labels));
    let lines: Vec<String> = rows
        .chunks(4)
        .zip(&labels)
        .map(|(row, label)| format!("{label} 1:{} 2:{} 4:{}\n", row[0], row[1], row[3]))
        .collect();
    place.put("t.svm", &lines.concat());
    place.put("a.toml", SCHEMA);
    place
}

const SOURCES: [&str; 3] = [
    "x-idx3-ubyte --labels y-idx1-ubyte",
    "x.npy --labels y.npy",
    "t.svm",
];

#[test]
fn every_format_trains_the_same_problem() {
    let place = place();
    for (source, test) in SOURCES.iter().zip([
        "--test y-idx1-ubyte",
        "--test x-idx3-ubyte --test-labels y-idx1-ubyte --format idx",
        "",
    ]) {
        // The first flag is a file of labels where rows are due.
        if test == "--test y-idx1-ubyte" {
            let flags = format!("train --data {source} --schema a.toml {test} --quiet");
            place.fails(&flags, 1, &["--test-labels", "y-idx1-ubyte"]);
            continue;
        }
        let flags = format!("train --data {source} --schema a.toml --json --epsilon 100");
        let json: serde_json::Value = serde_json::from_str(&place.ok(&flags)).unwrap();
        assert_eq!(json["records"], N, "{source}");
        assert_eq!(json["dim"], 5, "{source}");
    }
    let flags = format!(
        "train --data {} --schema a.toml --epsilon 100 --out o --quiet",
        SOURCES[0]
    );
    place.ok(&flags);
    let model = place.json("o/model.json");
    assert_eq!(model["weights"][0]["feature"], "x0");
    // The bright pixel decides.
    let weight = |i: usize| model["weights"][i]["weight"].as_f64().unwrap();
    assert!(weight(0) > 0.0 && weight(0) > weight(2).abs());
    // All formats hold the same numbers, so the model says the same of all; bytes and text differ
    // by rounding.
    let predict = |file: &str| place.ok(&format!("predict --model o/model.json --data {file}"));
    let first = predict("x-idx3-ubyte");
    assert_eq!(first.lines().count(), 1 + N);
    assert_eq!(first, predict("x.npy"));
    let scores = |text: &str| -> Vec<f64> {
        let lines = text.lines().skip(1);
        lines
            .map(|line| line.split(',').next().unwrap().parse().unwrap())
            .collect()
    };
    for (a, b) in scores(&first).iter().zip(scores(&predict("t.svm"))) {
        assert!((a - b).abs() < 1e-5 * (1.0 + a.abs()), "{a} {b}");
    }
}

#[test]
fn drafts_can_be_trained_with_and_say_what_they_are() {
    let place = place();
    for source in SOURCES {
        let output = place.run(&format!("schema {source}"));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("not private"));
        let draft = String::from_utf8(output.stdout).unwrap();
        assert!(draft.contains("READ FROM THE"), "{draft}");
        assert!(draft.contains("\ndraft = true\n"), "{draft}");
        place.put("d.toml", &draft);
        place.ok(&format!(
            "train --data {source} --schema d.toml --quiet --accept-draft"
        ));
        let report = place.ok(&format!("check {source} --schema d.toml"));
        // All three values are drafted.
        assert!(report.contains("300 records\n"), "{report}");
        assert!(!report.contains("unknown label"), "{report}");
    }
}

#[test]
fn what_a_record_holds_is_no_error_in_any_format() {
    let place = place();
    let flags = "train --data t.svm --schema a.toml --json";
    let normal = place.run(flags);
    let text = place.read("t.svm");
    for garbage in [
        "",
        "x",
        "1 1:nan",
        "1 2:1 1:1",
        "1 99:1",
        "#",
        "1 1:1e39",
        "1 0:0",
    ] {
        let mut lines: Vec<&str> = text.lines().collect();
        lines[17] = garbage;
        place.put("t.svm", &format!("{}\n", lines.join("\n")));
        let output = place.run(flags);
        assert!(output.status.success(), "{garbage:?}: {}", stderr(&output));
        assert_eq!(output.stderr, normal.stderr, "{garbage:?}");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so() {
    let place = place();
    place.put("t.parquet", "PAR1");
    place.fails(
        "train --data t.parquet --schema s.toml --out o",
        1,
        &["t.parquet", "--features parquet"],
    );
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_table_is_drafted_checked_trained_on_and_scored() {
    let place = place();
    let table = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../dpopt-data/tests/data/table.parquet"
    );
    std::fs::copy(table, place.path("t.parquet")).unwrap();
    assert!(place.ok("schema t.parquet").contains("6 records"));
    place.put(
        "p.toml",
        "format = 1\nrow_norm = 1.0\nintercept = 1.0\nignore_unlisted = true\n[label]\n\
         column = \"y\"\nvalues = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"\n\
         [[column]]\nname = \"x\"\nkind = \"number\"\nmin = 0.0\nmax = 10.0\ndefault = 0.0\n",
    );
    assert!(
        place
            .ok("check t.parquet --schema p.toml")
            .contains("6 records, 2 positive")
    );
    place.ok("train --data t.parquet --schema p.toml --delta 1e-2 --quiet --out o");
    let scores = place.ok("predict --model o/model.json --data t.parquet");
    assert_eq!(scores.lines().count(), 7);
    place.put("broken.parquet", "PAR1 and nothing more");
    place.fails(
        "train --data broken.parquet --schema p.toml",
        1,
        &["broken.parquet", "Parquet"],
    );
}

/// What is wrong with the lines of a file is told by the draft, on standard error, and by a check, in the same words.
#[test]
fn a_draft_tells_on_standard_error_what_a_check_counts() {
    let place = Place::new();
    let table = place.read("t.csv");
    let r = table.replace('\n', "\n7,");
    let r = r.strip_suffix("7,").unwrap();
    for (name, text) in [
        ("r.csv", r.as_bytes().to_vec()),
        ("latin.csv", [table.as_bytes(), b"1,K\xf6ln,no\n"].concat()),
        (
            "feeds.csv",
            format!("{table}1,\"two\nlines\",no\n").into_bytes(),
        ),
        ("comment.csv", format!("{table}# the end\n").into_bytes()),
    ] {
        put(&place, name, &text);
        let output = place.run(&format!("schema {name} --label y"));
        let said = stderr(&output);
        place.put("d.toml", &String::from_utf8(output.stdout).unwrap());
        let report = place.ok(&format!("check {name} --schema d.toml"));
        let warnings: Vec<&str> = said
            .lines()
            .filter_map(|line| line.strip_prefix("warning: "))
            .filter(|line| !line.contains("this draft"))
            .collect();
        assert!(!warnings.is_empty(), "{name}: {said}");
        for warning in warnings {
            assert!(
                report.lines().any(|line| line == warning),
                "{name}: {warning}\n{report}"
            );
        }
    }
}

/// Indices from 0, as scikit-learn writes them: no record and no column is lost between the draft and the predictions.
#[test]
fn sparse_rows_that_count_from_0_are_drafted_trained_on_and_predicted() {
    let place = place();
    let shifted: String = place
        .read("t.svm")
        .lines()
        .map(|line| {
            let mut words = line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            for word in &mut words[1..] {
                let (index, value) = word.split_once(':').unwrap();
                *word = format!("{}:{value}", index.parse::<u32>().unwrap() - 1);
            }
            words.join(" ") + "\n"
        })
        .collect();
    place.put("z.svm", &shifted);
    let output = place.run("schema z.svm");
    assert!(
        stderr(&output).contains("300 records have an index 0"),
        "{}",
        stderr(&output)
    );
    place.put("z.toml", &String::from_utf8(output.stdout).unwrap());
    place.put("o.toml", &place.ok("schema t.svm"));
    let weights = |file: &str, schema: &str, out: &str| {
        place.ok(&format!(
            "train --data {file} --schema {schema} --accept-draft --quiet --epsilon 100 --out {out}"
        ));
        let predicted = place.ok(&format!("predict --model {out}/model.json --data {file}"));
        (
            place.json(&format!("{out}/model.json"))["schema"]["array"]["columns"].clone(),
            predicted.lines().count(),
        )
    };
    assert_eq!(
        weights("z.svm", "z.toml", "oz"),
        weights("t.svm", "o.toml", "ot")
    );
}
