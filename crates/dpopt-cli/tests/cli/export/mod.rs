//! `dpopt export`: the files, read by code that knows nothing of dpopt, say what `dpopt predict` says.

mod flat;
mod graph;

use serde_json::Value;

use crate::support::{Place, rows, table};

const CLASSES: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";
const COLUMN: &str = "transform = \"linear\"\ndefault = 0.0";

/// Records that no schema foresees, beside ordinary ones.
const HOSTILE: [&str; 8] = [
    "11,a,yes",
    "-3,b,no",
    "nan,z,no",
    ",,",
    "\"4.5\", \"a\" ,no",
    "2.5e0,a b,maybe",
    "5",
    "1e400,c,yes",
];

/// Texts that look like numbers, and some that are.
const NUMBERS: [&str; 26] = [
    "1_000",
    " 4.5 ",
    "\t4.5",
    "\u{a0}4.5",
    "\u{b}4.5",
    "+4.5",
    "4.",
    ".5",
    "4.5e0",
    "45E-1",
    "4,5",
    "0x10",
    "-1e400",
    "inf",
    "Infinity",
    "-nan",
    "-0",
    "\u{661}",
    "\u{ff14}",
    "4.5f",
    "1e",
    ".",
    "e5",
    "5 000",
    "1e-400",
    "4.5\u{c}",
];

/// Texts that look like values of a category or dates, and some that are.
const TEXTS: [&str; 41] = [
    " a ",
    "a b",
    "a  b",
    "A",
    "a\u{a0}",
    "\u{a0}a",
    "\ta",
    "a\u{b}",
    "\"a\"",
    "a,b",
    "'a'",
    "z",
    "\u{e9}",
    "1990-01-01",
    "2030-01-01",
    "2024-02-29",
    " 2024-02-29 ",
    "2023-02-29",
    "1969/12/31",
    "2024-02/29",
    "20240229",
    "2024-W09-4",
    "2024-060",
    "2024-2-9",
    "2035-07-01T10:00:00Z",
    "2001-09-09 01:46",
    "2001-09-09t01:46:40.5+05:30",
    "2001-09-09T",
    "2001-09-09T1:46",
    "2001-09-09 1:46 PM",
    "2001-09-09T01:46 PM",
    "2001-09-09x",
    "2001-09-09T01h46",
    "0000-02-29",
    "0000-01-01",
    "9999-12-31",
    "2000-13-01",
    "2000-00-10",
    "29/02/2024",
    "\u{ff12}000-01-01",
    "tomorrow",
];

/// Their lines: each number beside an ordinary text, and each text beside an ordinary number.
fn odd() -> Vec<String> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let numbers = NUMBERS.iter().map(|x| format!("{},a,no", quoted(x)));
    let texts = TEXTS.iter().map(|c| format!("3,{},no", quoted(c)));
    numbers.chain(texts).collect()
}

/// A folder with a model in `o` and records in `new.csv` or `new.svm`; whose predictions are these.
fn trained(schema: &[(&str, &str)], label: Option<&str>, flags: &str) -> Place {
    let place = Place::new();
    let mut text = place.read("s.toml");
    for (old, new) in schema {
        assert!(text.contains(old), "{old}");
        text = text.replacen(old, new, 1);
    }
    let mut lines = rows(200);
    if let Some(label) = label {
        text = text.replace(CLASSES, label);
        if label.contains("\"mid\"") {
            let classes = ["low", "mid", "\"hi, gh\""];
            for (i, line) in lines.iter_mut().enumerate() {
                let (fields, _) = line.rsplit_once(',').unwrap();
                *line = format!("{fields},{}", classes[i % 3]);
            }
        } else {
            for line in &mut lines {
                let (fields, _) = line.rsplit_once(',').unwrap();
                *line = format!("{fields},{}00", fields.split('.').next().unwrap());
            }
        }
    }
    place.put("s.toml", &text);
    place.put("t.csv", &table(&lines));
    lines.truncate(40);
    lines.extend(HOSTILE.map(str::to_owned));
    lines.extend(odd());
    place.put("new.csv", &table(&lines));
    place.ok(&format!(
        "train t.csv --schema s.toml --epsilon 50 --delta 1e-5 --max-steps 20 --quiet --out o {flags}"
    ));
    place
}

const NUMBER: &str = "kind = \"number\"\nmin = 100.0\nmax = 90000.0\ndefault = 400.0";
/// Counts beyond 20 are clipped.
const COUNT: &str = "kind = \"number\"\nmin = 0.0\nmax = 20.0\ndefault = 1.0";
const SEVERAL: &str = "values = [\"low\", \"mid\", \"hi, gh\"]\ndefault = \"mid\"";

/// Every kind of model that is made of a table of texts.
fn models() -> Vec<(String, Place)> {
    let bins =
        "transform = \"log1p\"\ndefault = 7.0\nscale = 2.0\nbins = [2.5, 5.0, 7.5]\nlinear = true";
    let schema = [
        (COLUMN, bins),
        (
            "values = [\"a\", \"b\"]",
            "values = [\"a\", \"b\", \"c\"]\nreference = \"b\"\nscale = 0.5",
        ),
        // Below the length of most rows.
        ("row_norm = 2.0", "row_norm = 1.5"),
    ];
    let away = [(
        "values = [\"a\", \"b\"]",
        "values = [\"a\", \"b\"]\nreference = \"z\"",
    )];
    let centred = [(
        COLUMN,
        "default = 7.0\ntransform = \"log1p\"\ncentred = true\nmissing = true",
    )];
    let standard = [(
        COLUMN,
        "default = 7.0\ntransform = \"standard\"\nmean = 4.0\nsd = 1.5\nscale = 0.5",
    )];
    let mut all = vec![
        ("logistic".to_owned(), trained(&[], None, "")),
        ("buckets".to_owned(), trained(&schema, None, "")),
        ("reference".to_owned(), trained(&away, None, "")),
        ("centred".to_owned(), trained(&centred, None, "")),
        ("standard".to_owned(), trained(&standard, None, "")),
        (
            "no intercept".to_owned(),
            trained(
                &[("intercept = 1.0", "intercept = 0.0")],
                None,
                "--loss huber",
            ),
        ),
        ("softmax".to_owned(), trained(&schema, Some(SEVERAL), "")),
        ("number".to_owned(), trained(&schema, Some(NUMBER), "")),
        (
            "count".to_owned(),
            trained(&schema, Some(COUNT), "--loss poisson"),
        ),
        (
            "count by a perceptron".to_owned(),
            trained(&[], Some(COUNT), "--loss poisson --hidden 3,2"),
        ),
        (
            "quantile".to_owned(),
            trained(
                &[],
                Some(NUMBER),
                "--loss pinball:0.8 --hidden 6 --output-weights fixed",
            ),
        ),
    ];
    const CATEGORY: &str = "kind = \"category\"\nvalues = [\"a\", \"b\"]";
    let hashed = [(CATEGORY, "kind = \"hash\"\nbuckets = 16")];
    all.push(("hash".to_owned(), trained(&hashed, None, "")));
    let date = "kind = \"date\"\nmin = \"1990-01-01\"\nmax = \"2030-01-01\"\ndefault = \"2000-02-29\"\nmissing = true";
    all.push(("date".to_owned(), trained(&[(CATEGORY, date)], None, "")));
    let spaced = [("values = [\"a\", \"b\"]", "values = [\"\", \"a b\", \"a\"]")];
    all.push(("values with spaces".to_owned(), trained(&spaced, None, "")));
    for activation in ["relu", "tanh", "sigmoid", "softplus", "silu"] {
        let flags = format!(
            "--hidden 4 --output-weights fixed --activation {activation} --solver noisy-gd"
        );
        all.push((activation.to_owned(), trained(&[], None, &flags)));
        let flags = format!("--hidden 5,3 --activation {activation}");
        let perceptron = trained(&[], Some(SEVERAL), &flags);
        all.push((format!("perceptron of classes, {activation}"), perceptron));
    }
    for (flags, label) in [
        ("--hidden 3", None),
        ("--hidden 1,1,1,1 --loss hinge", None),
        ("--hidden 4,2 --activation tanh", Some(NUMBER)),
    ] {
        all.push((format!("perceptron, {flags}"), trained(&[], label, flags)));
    }
    all
}

/// A factor, and its records.
fn factor() -> Place {
    let place = Place::new();
    place.put(
        "d.toml",
        "format = 1\nrow_norm = 1.0\nintercept = 0.0\n[label]\ncolumn = \"differ\"\nvalues = [\"0\", \"1\"]\n\
         positive = \"1\"\ndefault = \"0\"\n[array]\ncolumns = 3\nscale = 0.5\n",
    );
    let line = |i: usize| {
        format!(
            "{} 1:{} 2:{} 3:{}\n",
            i % 2,
            i % 7,
            (i % 5) as f64 - 2.0,
            i % 3
        )
    };
    place.put("d.svm", &(0..200).map(line).collect::<String>());
    place.ok(
        "train d.svm --schema d.toml --loss quadratic:logistic --rank 2 --ball 3 --solver dp-sgd --epsilon 40 --delta 1e-5 \
         --max-steps 5 --quiet --out o",
    );
    place
}

/// What `dpopt predict` says of each record: the numbers of its line, and the prediction where it is a text.
fn predicted(place: &Place, data: &str) -> Vec<(Vec<f64>, String)> {
    let text = place.ok(&format!("predict --model o/model.json --data {data}"));
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').take(3).collect();
    lines
        .map(|line| {
            let quoted = line
                .strip_prefix('"')
                .and_then(|rest| rest.split_once("\","));
            let (text, numbers) = match (quoted, names[0]) {
                (Some((text, numbers)), _) => (text.to_owned(), numbers.to_owned()),
                (None, "prediction") if names.len() > 1 => {
                    let (text, numbers) = line.split_once(',').unwrap();
                    (text.to_owned(), numbers.to_owned())
                }
                (None, "prediction") => (String::new(), line.to_owned()),
                (None, _) => {
                    let (numbers, text) = line.rsplit_once(',').unwrap();
                    (text.to_owned(), numbers.to_owned())
                }
            };
            let numbers = numbers.split(',').map(|cell| cell.parse().unwrap());
            (numbers.collect(), text)
        })
        .collect()
}

/// Within 1e-5 of `unit`, half the range of a label that is a number: rows are stored in single precision, 6e-8 of the numbers here.
fn near(found: &[f64], wanted: &[f64], unit: f64, what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (a, b) in found.iter().zip(wanted) {
        let off = (a - b).abs();
        assert!(
            off <= 1e-5 * (unit + b.abs()),
            "{what}: {found:?} {wanted:?}"
        );
    }
}

fn exported(place: &Place) -> (Value, Vec<u8>) {
    place.ok("export --model o/model.json --format json --out flat.json");
    place.ok("export --model o/model.json --format onnx --out m.onnx");
    (
        place.json("flat.json"),
        std::fs::read(place.path("m.onnx")).unwrap(),
    )
}

/// Both files against `dpopt predict`, for each kind of model.
#[test]
fn exports_say_what_predict_says() {
    for (name, place) in models() {
        let (json, onnx) = exported(&place);
        let text = place.read("new.csv");
        let records: Vec<Vec<String>> = text.lines().skip(1).map(fields).collect();
        let rows: Vec<Vec<f64>> = records.iter().map(|of| flat::row(&json, of)).collect();
        if let Some(of_page) = rows_of_the_page(&place, &records) {
            for ((found, wanted), record) in of_page.iter().zip(&rows).zip(&records) {
                near(found, wanted, 1e-6, &format!("{name}, {record:?}"));
            }
        }
        check(&name, &json, &onnx, &rows, &predicted(&place, "new.csv"));
    }
    let place = factor();
    let (json, onnx) = exported(&place);
    let text = place.read("d.svm");
    let rows: Vec<Vec<f64>> = text
        .lines()
        .map(|line| {
            let entries = line.split_whitespace().skip(1);
            let entries: Vec<f64> = entries
                .map(|e| e.split_once(':').unwrap().1.parse().unwrap())
                .collect();
            flat::row_of_array(&json, &entries)
        })
        .collect();
    check("factor", &json, &onnx, &rows, &predicted(&place, "d.svm"));
}

fn check(name: &str, json: &Value, onnx: &[u8], rows: &[Vec<f64>], wanted: &[(Vec<f64>, String)]) {
    assert_eq!(rows.len(), wanted.len(), "{name}");
    let model = graph::Graph::read(onnx);
    let several = json["label"]["kind"] == "several";
    let unit = json["label"]["half"].as_f64().unwrap_or(1.0);
    for (row, (numbers, text)) in rows.iter().zip(wanted) {
        let (found, prediction) = flat::answer(json, row);
        // Of several classes the file of predictions has probabilities alone.
        let shown = &found[if several { found.len() / 2 } else { 0 }..];
        near(shown, numbers, unit, name);
        assert_eq!(prediction, *text, "{name}");
        near(&model.run(row), &found, unit, name);
    }
    for fact in ["epsilon", "features", "statement", "adjacency"] {
        assert!(model.facts.contains_key(fact), "{name}: {fact}");
    }
    assert_eq!(
        model.facts["epsilon"].parse::<f64>().ok(),
        json["privacy"]["epsilon"].as_f64()
    );
}

/// The fields of the lines above, with their white space.
fn fields(line: &str) -> Vec<String> {
    let mut quoted = false;
    let cells = line.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    cells
        .map(|cell| match cell.trim().strip_prefix('"') {
            Some(rest) => rest.strip_suffix('"').unwrap().replace("\"\"", "\""),
            None => cell.to_owned(),
        })
        .collect()
}

/// What the lines of the page make of the records of `flat.json`; nothing without a `python3`.
fn rows_of_the_page(place: &Place, records: &[Vec<String>]) -> Option<Vec<Vec<f64>>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/paperwork.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```python\n").unwrap();
    let (lines, _) = rest.split_once("```").unwrap();
    let dictionaries = records.iter().map(|record| {
        let named = ["x", "c"].into_iter().zip(record);
        named.collect::<std::collections::BTreeMap<_, _>>()
    });
    let texts = serde_json::to_string(&dictionaries.collect::<Vec<_>>()).unwrap();
    std::fs::write(place.path("records.json"), texts).unwrap();
    let script = format!(
        "{lines}\nprint(json.dumps([row(r) for r in json.load(open('records.json', encoding='utf-8'))]))\n"
    );
    let python = std::process::Command::new("python3")
        .current_dir(place.root())
        .args(["-c", &script])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&python.stderr);
    assert!(python.status.success(), "{said}");
    Some(serde_json::from_slice(&python.stdout).unwrap())
}

/// Nothing is replaced unasked.
#[test]
fn an_export_replaces_nothing_unasked() {
    let place = trained(&[], None, "");
    for format in ["json", "onnx"] {
        let line = format!("export --model o/model.json --format {format} --out f");
        place.put("f", "mine\n");
        place.fails(&line, 1, &["--out", "--force"]);
        place.ok(&format!("{line} --force"));
        std::fs::remove_file(place.path("f")).unwrap();
    }
}
