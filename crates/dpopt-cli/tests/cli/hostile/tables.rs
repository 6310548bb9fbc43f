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
    ("three.toml", &["three.toml", "label.values", "two"]),
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
    ("text.toml", &["text.toml", "line"]),
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
        &["semicolon.csv", "semicolons", "sep=\";\""],
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
        if !["more.csv", "s.toml"].contains(&table) {
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
    all.extend(rows(&[
        (
            "train header.csv --schema s.toml --out new",
            1,
            &["header.csv", "no records"],
        ),
        (
            "train fewer.csv --schema s.toml --out new",
            1,
            &["fewer.csv, line 1", "y"],
        ),
        ("train t.csv --out new", 1, &["--schema", "drafts one"]),
        ("train --schema s.toml --out new", 1, &["--data"]),
        (
            "train t.csv --schema s.toml --test header.csv --out new",
            1,
            &["--test", "no records"],
        ),
        (
            "train t.csv --schema s.toml --test t.csv --out new",
            1,
            &["--test", "protected"],
        ),
        (
            "train t.csv --schema s.toml --test ./dir/../t.csv --out new",
            1,
            &["--test", "protected"],
        ),
        ("train t.csv --schema dir --out new", 1, &["dir"]),
        (
            "train t.csv --schema t.csv --out new",
            1,
            &["t.csv", "line 1"],
        ),
        // Drafts.
        (
            "train t.csv --schema draft.toml --out new",
            1,
            &["--schema", "draft"],
        ),
        (
            "train t.csv --schema draft.toml --json",
            1,
            &["--schema", "draft"],
        ),
        ("train draft.dpr --out new", 1, &["--schema", "draft"]),
        (
            "train t.csv --schema drafty.toml --out new",
            1,
            &["drafty.toml, line"],
        ),
        // Standard input.
        (
            "train t.csv --schema s.toml --test - --out new < test.csv",
            1,
            &["--test", "standard input"],
        ),
        (
            "train - --schema s.toml --test - --out new < t.csv",
            1,
            &["--test", "standard input"],
        ),
        (
            "train --data - --schema s.toml --out new < empty.csv",
            1,
            &["standard input", "header"],
        ),
        (
            "train --data - --schema s.toml --out new < cut.csv.gz",
            1,
            &["standard input", "gzip"],
        ),
        (
            "train --data - --schema s.toml --out new < semicolon.csv",
            1,
            &["standard input", "semicolons"],
        ),
        (
            "train --data - --format npy --labels y.npy --schema array.toml < x.npy",
            1,
            &["npy", "standard input"],
        ),
        (
            "train --data - --labels y.npy --schema s.toml < t.csv",
            1,
            &["--labels"],
        ),
        (
            "train --data - --schema s.toml --in-place < t.csv",
            1,
            &["--in-place", "standard input"],
        ),
        (
            "predict --model o/model.json --data - < latin.csv",
            1,
            &["standard input", "UTF-8"],
        ),
        ("schema - < tab.tsv", 1, &["standard input", "tabs"]),
        // Formats by flag or name that the content is not.
        (
            "train t.csv --format npy --labels y.npy --schema array.toml",
            1,
            &["t.csv", "NPY"],
        ),
        (
            "train t.csv --format idx --labels y.idx --schema array.toml",
            1,
            &["t.csv", "IDX"],
        ),
        ("train t.csv --format rows", 1, &["t.csv"]),
        (
            "train x.npy --format csv --schema s.toml",
            1,
            &["x.npy", "NPY"],
        ),
        ("train x.npy --schema array.toml", 1, &["--labels", "x.npy"]),
        (
            "train t.csv --labels y.npy --schema s.toml",
            1,
            &["--labels", "t.csv"],
        ),
        (
            "train t.svm --labels y.npy --schema array.toml",
            1,
            &["--labels", "t.svm"],
        ),
        (
            "train x.npy --labels nope.npy --schema array.toml",
            1,
            &["nope.npy"],
        ),
        (
            "train x.npy --labels t.csv --schema array.toml",
            1,
            &["t.csv"],
        ),
        (
            "train x.npy --labels x.npy --schema array.toml",
            1,
            &["x.npy", "one column"],
        ),
        (
            "train x.npy --labels y19.npy --schema array.toml",
            1,
            &["y19.npy", "differ in number"],
        ),
        (
            "train x.npy --labels y.npy --schema array3.toml",
            1,
            &["x.npy", "2 columns"],
        ),
        (
            "train x.npy --labels y.npy --schema array0.toml",
            1,
            &["array0.toml"],
        ),
        (
            "train x.npy --labels y.npy --schema arrays.toml",
            1,
            &["arrays.toml", "array.columns"],
        ),
        (
            "train x.npy --labels y.npy --schema s.toml",
            1,
            &["x.npy", "[array]"],
        ),
        (
            "train cut.npy --labels y.npy --schema array.toml",
            1,
            &["cut.npy", "cut short"],
        ),
        (
            "train long.npy --labels y.npy --schema array.toml",
            1,
            &["long.npy", "goes on"],
        ),
        (
            "train stub.npy --labels y.npy --schema array.toml",
            1,
            &["stub.npy"],
        ),
        (
            "train object.npy --labels y.npy --schema array.toml",
            1,
            &["object.npy", "|O"],
        ),
        (
            "train vast.npy --labels y.npy --schema array.toml",
            1,
            &["vast.npy"],
        ),
        (
            "train broad.npy --labels y.npy --schema array.toml",
            1,
            &["broad.npy", "columns"],
        ),
        (
            "train syntax.npy --labels y.npy --schema array.toml",
            1,
            &["syntax.npy", "byte"],
        ),
        (
            "train v9.npy --labels y.npy --schema array.toml",
            1,
            &["v9.npy", "version 9"],
        ),
        (
            "convert fortran.npy --labels y.npy --schema array.toml --out new.dpr",
            1,
            &["fortran.npy", "Fortran"],
        ),
        (
            "train cut.idx --labels y.idx --schema array.toml",
            1,
            &["cut.idx"],
        ),
        (
            "train magic.idx --labels y.idx --schema array.toml",
            1,
            &["magic.idx", "IDX"],
        ),
        (
            "train x.idx --labels cut.idx --schema array.toml",
            1,
            &["cut.idx"],
        ),
        (
            "train fortran.npy --labels y.npy --schema array.toml --in-place",
            1,
            &["fortran.npy"],
        ),
        (
            "train t.svm --schema array.toml --in-place",
            1,
            &["--in-place", "t.svm"],
        ),
        (
            "train t.csv --schema s.toml --in-place",
            1,
            &["--in-place", "t.csv"],
        ),
        ("train cut.dpr", 1, &["cut.dpr", "damaged"]),
        ("train stub.dpr", 1, &["stub.dpr"]),
        ("train no.dpr", 1, &["no.dpr", "not a file of rows"]),
        ("train newer.dpr", 1, &["newer.dpr", "version"]),
        (
            "train t.dpr --schema other.toml",
            1,
            &["t.dpr", "another schema"],
        ),
        ("train t.dpr --positive no", 1, &["t.dpr", "another schema"]),
        (
            "train t.dpr --solver dp-sgd-decay --project 2",
            1,
            &["--data"],
        ),
        ("check t.dpr --schema s.toml", 1, &["t.dpr"]),
        ("schema t.dpr", 1, &["t.dpr"]),
        ("convert t.dpr --schema s.toml --out new.dpr", 1, &["t.dpr"]),
        ("schema x.npy", 1, &["--labels", "x.npy"]),
        (
            "check x.npy --labels y19.npy --schema array.toml",
            1,
            &["y19.npy"],
        ),
        (
            "convert x.npy --labels y19.npy --schema array.toml --out new.dpr",
            1,
            &["y19.npy"],
        ),
        ("train t.parquet --schema s.toml", 1, &["t.parquet"]),
        ("schema t.parquet", 1, &["t.parquet"]),
        // Models.
        (
            "predict --model nope.json --data t.csv",
            1,
            &["nope.json", "can't read"],
        ),
        ("predict --model dir --data t.csv", 1, &["dir"]),
        (
            "predict --model s.toml --data t.csv",
            1,
            &["s.toml", "not a model"],
        ),
        (
            "predict --model m-format.json --data t.csv",
            1,
            &["m-format.json", "dpopt-model-9"],
        ),
        (
            "predict --model m-feature.json --data t.csv",
            1,
            &["m-feature.json", "weights"],
        ),
        (
            "predict --model m-solver.json --data t.csv",
            1,
            &["m-solver.json", "wishful"],
        ),
        (
            "predict --model m-delta.json --data t.csv",
            1,
            &["m-delta.json", "delta"],
        ),
        (
            "predict --model m-cut.json --data t.csv",
            1,
            &["m-cut.json", "not a model"],
        ),
        (
            "predict --model m-empty.json --data t.csv",
            1,
            &["m-empty.json", "not a model"],
        ),
        (
            "predict --model m-list.json --data t.csv",
            1,
            &["m-list.json", "not a model"],
        ),
        (
            "predict --model o/events.json --data t.csv",
            1,
            &["o/events.json", "not a model"],
        ),
        ("predict --model t.dpr --data t.csv", 1, &["t.dpr"]),
        ("predict --model o/model.json --data x.npy", 1, &["x.npy"]),
        (
            "predict --model o/model.json --data fewer.csv --format rows",
            1,
            &["fewer.csv"],
        ),
    ]));
    all
}
