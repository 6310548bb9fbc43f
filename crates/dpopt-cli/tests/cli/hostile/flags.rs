//! Flags: numbers that are none, names that nobody knows, combinations that make no sense.

use super::{Row, rows};

const TRAIN: &str = "train t.csv --schema s.toml --out new";
const PLAN: &str = "plan spiderboost --records 1000 --dim 5 --epsilon 1 --delta 1e-5";

/// Each flag with each value.
fn product(line: &str, flags: &[&str], values: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    for flag in flags {
        for value in values {
            rows.push((
                format!("{line} {flag} {value}"),
                1,
                vec![(*flag).to_owned()],
            ));
        }
    }
    rows
}

fn numbers() -> Vec<Row> {
    let mut all = product(
        TRAIN,
        &["--epsilon"],
        &[
            "0", "-1", "NaN", "inf", "1e999", "one", "\"\"", "1,5", "0x1",
        ],
    );
    all.extend(product(
        TRAIN,
        &["--delta"],
        &["0", "1", "1.5", "-1e-6", "nan", "%25", "1e-400"],
    ));
    all.extend(product(
        TRAIN,
        &["--max-steps", "--public-records"],
        &["0", "-5", "1.5", "ten", "99999999999999999999"],
    ));
    all.extend(product(
        TRAIN,
        &["--threads"],
        &["0", "-1", "two", "1025", "99999999999", "1.0"],
    ));
    all.extend(product(
        TRAIN,
        &["--solver", "--loss", "--adjacency", "--format"],
        &["nonsense", "\"\"", "--json"],
    ));
    all.extend(product(
        TRAIN,
        &["--radius"],
        &["0", "-1", "NaN", "inf", "wide"],
    ));
    all.extend(product(TRAIN, &["--rank"], &["0", "-1", "2.5"]));
    all.extend(product(TRAIN, &["--project"], &["0", "-1", "none", "2.5"]));
    all.extend(
        product(TRAIN, &["--project 2 --project-seed"], &["-1", "x"])
            .into_iter()
            .map(seed),
    );
    all.extend(product(
        PLAN,
        &["--row-norm", "--lipschitz", "--smoothness", "--initial-gap"],
        &["0", "-1", "nan", "inf"],
    ));
    all.extend(product(
        "plan dp-sgd --epsilon 1 --delta 1e-5 --dim 5",
        &["--records"],
        &["0", "-1", "many"],
    ));
    all.extend(product(
        "plan dp-sgd --epsilon 1 --delta 1e-5 --records 100",
        &["--dim"],
        &["0", "-1", "1.5"],
    ));
    let ledger = format!("{TRAIN} --ledger fresh.json --budget-delta 1e-5");
    all.extend(product(&ledger, &["--budget"], &["0", "-1", "nan", "all"]));
    let ledger = format!("{TRAIN} --ledger fresh.json --budget 1");
    all.extend(product(
        &ledger,
        &["--budget-delta"],
        &["0", "1", "-1", "nan"],
    ));
    all.extend(product(
        &format!("{ledger} --budget-delta 1e-5"),
        &["--budget-filter"],
        &["pld", "GDP", "\"\""],
    ));
    let checkpoint = format!("{TRAIN} --ledger l.json --checkpoint k.json");
    all.extend(product(
        &checkpoint,
        &["--checkpoint-every"],
        &["0", "-1", "x"],
    ));
    all
}

fn seed((line, code, _): Row) -> Row {
    (line, code, vec!["--project-seed".to_owned()])
}

pub(super) fn all() -> Vec<Row> {
    let mut all = numbers();
    all.extend(rows(&[
        // Commands and flags that do not exist, and what was meant.
        ("trian t.csv", 1, &["trian", "did you mean train"]),
        ("nonsense", 1, &["nonsense"]),
        ("ledger shwo l.json", 1, &["did you mean show"]),
        ("ledger destroy l.json", 1, &["destroy"]),
        (
            "train --epsilom 1",
            1,
            &["--epsilom", "did you mean --epsilon"],
        ),
        ("train --shema s.toml", 1, &["did you mean --schema"]),
        ("train --nonsense", 1, &["--nonsense"]),
        ("train -x", 1, &["-x"]),
        ("predict --modle m.json", 1, &["did you mean --model"]),
        (
            "account --noise-multiplyer 1",
            1,
            &["did you mean --noise-multiplier"],
        ),
        (
            "train t.csv --schema s.toml --solver dp-sdg",
            1,
            &["--solver", "did you mean dp-sgd"],
        ),
        (
            "train t.csv --schema s.toml --solver SpiderBoost",
            1,
            &["did you mean spiderboost"],
        ),
        (
            "train t.csv --schema s.toml --solver atuo",
            1,
            &["did you mean auto"],
        ),
        (
            "train t.csv --schema s.toml --loss logistc",
            1,
            &["--loss", "did you mean logistic"],
        ),
        (
            "train t.csv --schema s.toml --loss squared",
            1,
            &["--loss", "squared", "cauchy"],
        ),
        (
            "train t.csv --schema s.toml --loss hinge",
            1,
            &["--loss", "kinks"],
        ),
        (
            "train t.csv --schema s.toml --loss huber:0",
            1,
            &["--loss", "between 1e-100 and 1e100"],
        ),
        (
            "train t.csv --schema s.toml --loss huber:nan",
            1,
            &["--loss"],
        ),
        (
            "train t.csv --schema s.toml --loss tukey:x",
            1,
            &["--loss", "not a number"],
        ),
        (
            "train t.csv --schema s.toml --loss logistic:1",
            1,
            &["--loss", "takes no parameter"],
        ),
        (
            "train t.csv --schema s.toml --adjacency replace_one",
            1,
            &["did you mean replace-one"],
        ),
        (
            "train t.csv --schema s.toml --format parqet",
            1,
            &["--format", "did you mean parquet"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --adjacency add-remove --accountant plld",
            1,
            &["--accountant", "did you mean pld"],
        ),
        // Flags twice, without a value, or without the flag that they need.
        (
            "train t.csv --schema s.toml --epsilon 1 --epsilon 2",
            1,
            &["--epsilon"],
        ),
        ("train t.csv t.csv --schema s.toml", 1, &["t.csv"]),
        (
            "train t.csv --data t.csv --schema s.toml",
            1,
            &["--data", "FILE"],
        ),
        (
            "train t.csv --schema s.toml --schema other.toml",
            1,
            &["--schema"],
        ),
        ("train t.csv --schema s.toml --json --json", 1, &["--json"]),
        ("train t.csv --schema", 1, &["--schema"]),
        ("train --out", 1, &["--out"]),
        ("train --labels y.npy", 1, &["FILE"]),
        ("train --in-place", 1, &["FILE"]),
        ("train --test-labels y.npy", 1, &["--test"]),
        ("train --project-seed 3", 1, &["--project"]),
        ("train --budget 1", 1, &["--ledger"]),
        ("train --budget-delta 1e-5", 1, &["--ledger"]),
        ("train --budget-filter gdp", 1, &["--ledger"]),
        ("train --checkpoint k.json", 1, &["--ledger"]),
        (
            "train --checkpoint-every 5 --ledger l.json",
            1,
            &["--checkpoint"],
        ),
        ("train --resume c.json", 1, &["--ledger"]),
        (
            "train t.csv --schema s.toml --adjacency add-remove",
            1,
            &["--public-records"],
        ),
        (
            "train t.csv --schema s.toml --public-records 7",
            1,
            &["7 records declared", "t.csv"],
        ),
        (
            "predict --model o/model.json --data t.csv --force",
            1,
            &["--out"],
        ),
        ("predict --data t.csv", 1, &["--model"]),
        ("predict --model o/model.json", 1, &["--data"]),
        ("convert t.csv --schema s.toml", 1, &["--out"]),
        ("convert --schema s.toml --out new.dpr", 1, &["FILE"]),
        ("schema --format csv", 1, &["FILE"]),
        ("check t.csv", 1, &["--schema"]),
        ("ledger show", 1, &["FILE"]),
        ("ledger verify --checkpoint c.json", 1, &["FILE"]),
        ("plan", 1, &["SOLVER"]),
        (
            "plan spiderboost --dim 5 --epsilon 1 --delta 1e-5",
            1,
            &["--records"],
        ),
        (
            "plan spiderboost --records 1000 --dim 5 --epsilon 1",
            1,
            &["--delta"],
        ),
        (
            "plan sgd --records 1000 --dim 5 --epsilon 1 --delta 1e-5",
            1,
            &["sgd", "auto"],
        ),
        (
            "plan auto --records 1000 --dim 5 --epsilon 1 --delta 1e-5 --convex",
            1,
            &["--lipschitz"],
        ),
        (
            "plan auto --records 1000 --dim 5 --epsilon 1 --delta 1e-5 --adjacency friends",
            1,
            &["--adjacency"],
        ),
        // Flags that a solver has no use for, and plans that say nothing.
        (
            "train t.csv --schema s.toml --solver dp-sgd --radius 3",
            1,
            &["--radius", "dp-sgd"],
        ),
        (
            "train t.csv --schema s.toml --radius 3",
            1,
            &["--radius", "recursive-gd"],
        ),
        (
            "train t.csv --schema s.toml --solver dp-sgd --rank 3",
            1,
            &["--rank", "dp-sgd"],
        ),
        (
            "train t.csv --schema s.toml --solver recursive-sgd",
            1,
            &["--radius"],
        ),
        (
            "train t.csv --schema s.toml --solver recursive-gd --radius 3 --loss sigmoid",
            1,
            &["--loss"],
        ),
        (
            "train t.csv --schema s.toml --solver recursive-gd --radius 3 --project 2",
            1,
            &["--project"],
        ),
        (
            "train t.csv --schema s.toml --project 5",
            1,
            &["--project", "5 features"],
        ),
        (
            "train t.csv --schema s.toml --project 99999999999",
            1,
            &["--project"],
        ),
        ("train t.csv --schema s.toml --project rank", 1, &["--rank"]),
        (
            "train t.csv --schema s.toml --solver tree-spider --project auto",
            1,
            &["--project", "tree-spider"],
        ),
        (
            "train t.csv --schema s.toml --epsilon 0.01 --solver spiderboost --out new",
            1,
            &["spiderboost", "no useful plan"],
        ),
        (
            "train t.csv --schema s.toml --epsilon 0.01 --solver noisy-gd-theory --json",
            1,
            &["noisy-gd-theory"],
        ),
        (
            "train t.csv --schema s.toml --rank 99999999999999999999",
            1,
            &["--rank"],
        ),
        // Labels.
        (
            "train t.csv --schema s.toml --label nope",
            1,
            &["--label", "nope"],
        ),
        (
            "train t.csv --schema s.toml --label x",
            1,
            &["--label", "x", "number"],
        ),
        ("train t.csv --schema s.toml --label \"\"", 1, &["--label"]),
        (
            "train t.csv --schema s.toml --positive maybe",
            1,
            &["--positive", "maybe"],
        ),
        (
            "train t.csv --schema s.toml --label c --positive yes",
            1,
            &["--positive", "yes"],
        ),
        ("train t.csv --schema s.toml --label x%ff", 1, &["UTF-8"]),
        (
            "train x.npy --labels y.npy --schema array.toml --label x0 --positive 2",
            1,
            &["--positive"],
        ),
    ]));
    all
}
