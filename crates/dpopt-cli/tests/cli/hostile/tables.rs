//! Records, schemas and models that can't be used.

use super::{Row, rows};

/// Each schema with what the message must name.
const SCHEMAS: [(&str, &[&str]); 31] = [
    ("huge.toml", &["huge.toml", "row_norm", "1e300"]),
    ("zero.toml", &["zero.toml", "row_norm"]),
    ("negative.toml", &["negative.toml", "row_norm", "-1"]),
    ("nan.toml", &["nan.toml", "row_norm"]),
    ("infinite.toml", &["infinite.toml", "row_norm"]),
    ("later.toml", &["later.toml", "format"]),
    ("intercept.toml", &["intercept.toml", "intercept"]),
    ("three.toml", &["three.toml", "label.positive", "two"]),
    ("one.toml", &["one.toml", "label.values"]),
    ("same.toml", &["same.toml", "twice"]),
    ("positive.toml", &["positive.toml", "so"]),
    ("default.toml", &["default.toml", "so"]),
    ("range.toml", &["range.toml", "min", "x"]),
    ("wide.toml", &["wide.toml", "x"]),
    ("kind.toml", &["kind.toml", "line"]),
    ("column.toml", &["t.csv, line 1", "z"]),
    ("label.toml", &["t.csv, line 1", "why"]),
    ("twice.toml", &["twice.toml", "twice"]),
    ("key.toml", &["key.toml", "minimum"]),
    ("text.toml", &["text.toml", "min", "not a number"]),
    ("bins.toml", &["bins.toml", "x"]),
    ("edge.toml", &["edge.toml", "11"]),
    ("outside.toml", &["outside.toml", "11"]),
    ("scale.toml", &["scale.toml", "scale"]),
    ("values.toml", &["values.toml", "empty"]),
    ("transform.toml", &["transform.toml", "line"]),
    ("empty.toml", &["empty.toml", "line 1"]),
    ("cut.toml", &["cut.toml"]),
    ("latin.toml", &["latin.toml", "UTF-8"]),
    ("array.toml", &["t.csv", "array"]),
    ("nope.toml", &["nope.toml", "can't read"]),
];

/// Each table with what the message must name.
const TABLES: [(&str, &[&str]); 27] = [
    ("nope.csv", &["nope.csv", "can't read"]),
    ("dir", &["dir", "directory"]),
    ("folder", &["folder", "directory"]),
    ("dangling", &["dangling", "can't read"]),
    ("loop", &["loop", "can't read"]),
    ("t.csv/t.csv", &["t.csv/t.csv"]),
    ("empty.csv", &["empty.csv", "header"]),
    ("blank.csv", &["blank.csv", "header"]),
    ("twice.csv", &["twice.csv", "twice"]),
    ("quote.csv", &["quote.csv", "quote"]),
    ("latin.csv", &["latin.csv", "UTF-8"]),
    ("more.csv", &["more.csv", "z, w"]),
    (
        "semicolon.csv",
        &["semicolon.csv", "semicolons", "delimiter = \";\""],
    ),
    ("tab.tsv", &["tab.tsv", "tabs"]),
    ("bar.csv", &["bar.csv", "bars"]),
    ("cut.csv.gz", &["cut.csv.gz", "gzip"]),
    ("stub.csv.gz", &["stub.csv.gz", "gzip"]),
    ("parquet.csv", &["parquet.csv", "Parquet"]),
    ("npy.csv", &["npy.csv", "NPY"]),
    ("sheet.csv", &["sheet.csv", "spreadsheet"]),
    ("zstd.csv", &["zstd.csv", "zstd"]),
    ("bzip.csv", &["bzip.csv", "bzip2"]),
    ("xz.csv", &["xz.csv", "xz"]),
    ("utf16.csv", &["utf16.csv", "UTF-16"]),
    ("new%0aline.csv", &["new\\nline.csv", "header"]),
    ("s.toml", &["s.toml, line 1"]),
    ("n%ff.csv", &["can't read"]),
];

/// Each file that is no model, with what the message must name.
const MODELS: [(&str, &[&str]); 14] = [
    ("nope.json", &["nope.json", "can't read"]),
    ("dir", &["dir", "directory"]),
    ("s.toml", &["s.toml", "not a model"]),
    ("m-format.json", &["m-format.json", "dpopt-model-9"]),
    ("m-feature.json", &["m-feature.json", "weights"]),
    ("m-solver.json", &["m-solver.json", "wishful"]),
    ("m-delta.json", &["m-delta.json", "delta"]),
    ("m-schema.json", &["m-schema.json"]),
    ("m-nan.json", &["m-nan.json", "not a model"]),
    ("m-cut.json", &["m-cut.json", "not a model"]),
    ("m-empty.json", &["m-empty.json", "not a model"]),
    ("m-list.json", &["m-list.json", "not a model"]),
    ("o/events.json", &["o/events.json", "not a model"]),
    ("t.dpr", &["t.dpr"]),
];

/// Every command that reads a model, with the place of its file.
const READERS: [&str; 6] = [
    "predict --data t.csv --model MODEL",
    "evaluate --data t.csv --epsilon 1 --model MODEL",
    "certify --data t.csv --epsilon 1 --model MODEL",
    "explain MODEL",
    "export --format json --out new.json --model MODEL",
    "export --format onnx --out new.onnx --model MODEL",
];

fn own(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

pub(super) fn all() -> Vec<Row> {
    let mut all = Vec::new();
    for (schema, words) in SCHEMAS {
        let line = format!("train t.csv --schema {schema} --out new");
        all.push((line, 1, own(words)));
    }
    for (table, words) in TABLES {
        let line = format!("train --data {table} --schema s.toml --out new");
        all.push((line, 1, own(words)));
        // A draft finds the delimiter of a table.
        let drafted = ["more.csv", "s.toml", "semicolon.csv", "tab.tsv", "bar.csv"];
        if !drafted.contains(&table) {
            all.push((format!("schema {table}"), 1, own(words)));
        }
    }
    for (table, words) in TABLES.into_iter().step_by(2) {
        let line = format!("check {table} --schema s.toml");
        all.push((line, 1, own(words)));
    }
    for (table, words) in TABLES.into_iter().skip(1).step_by(2) {
        let line = format!("convert {table} --schema s.toml --out new.dpr");
        all.push((line, 1, own(words)));
    }
    for (table, words) in TABLES.into_iter().step_by(3) {
        let line = format!("predict --model o/model.json --data {table} --out new.csv");
        all.push((line, 1, own(words)));
    }
    for (table, words) in TABLES.into_iter().step_by(4) {
        let line = format!("train t.csv --schema s.toml --test {table} --out new");
        all.push((line, 1, own(words)));
    }
    for (model, words) in MODELS {
        for reader in READERS {
            all.push((reader.replace("MODEL", model), 1, own(words)));
        }
    }
    all.extend(rows(include_str!("tables.tsv")));
    all
}
