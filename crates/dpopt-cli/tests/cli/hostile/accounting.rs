//! `account`, `calibrate` and `plan`: they read numbers or files of events and write nothing.

use super::{Row, rows};

pub(super) fn all() -> Vec<Row> {
    rows(&[
        ("account", 1, &["--noise-multiplier"]),
        ("account --delta 1e-5", 1, &["--noise-multiplier"]),
        (
            "account --noise-multiplier 1 --adjacency add-remove",
            1,
            &["--delta"],
        ),
        (
            "account --noise-multiplier 0 --delta 1e-5 --adjacency add-remove",
            1,
            &["--noise-multiplier"],
        ),
        (
            "account --noise-multiplier -1 --delta 1e-5 --adjacency add-remove",
            1,
            &["--noise-multiplier"],
        ),
        (
            "account --noise-multiplier nan --delta 1e-5 --adjacency add-remove",
            1,
            &["--noise-multiplier"],
        ),
        (
            "account --noise-multiplier inf --delta 1e-5 --adjacency add-remove",
            1,
            &["--noise-multiplier"],
        ),
        (
            "account --noise-multiplier 1 --delta 2 --adjacency add-remove",
            1,
            &["--delta"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --sampling-rate 0 --adjacency add-remove",
            1,
            &["--sampling-rate"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --sampling-rate 1.5 --adjacency add-remove",
            1,
            &["--sampling-rate"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --sampling-rate -0.1 --adjacency add-remove",
            1,
            &["--sampling-rate"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --steps 0 --adjacency add-remove",
            1,
            &["--steps"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --steps -3 --adjacency add-remove",
            1,
            &["--steps"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --adjacency friends",
            1,
            &["--adjacency"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --adjacency add-remove --accountant moments",
            1,
            &["--accountant", "moments"],
        ),
        (
            "account --noise-multiplier 1 --events e.json --delta 1e-5",
            1,
            &["--events"],
        ),
        (
            "account --events e.json --sampling-rate 0.1 --delta 1e-5",
            1,
            &["--sampling-rate"],
        ),
        (
            "account --events e.json --steps 3 --delta 1e-5",
            1,
            &["--steps"],
        ),
        ("account --events nope.json --delta 1e-5", 1, &["nope.json"]),
        ("account --events dir --delta 1e-5", 1, &["dir"]),
        ("account --events t.csv --delta 1e-5", 1, &["t.csv"]),
        ("account --events l.json --delta 1e-5", 1, &["l.json"]),
        (
            "account --events o/model.json --delta 1e-5",
            1,
            &["o/model.json"],
        ),
        (
            "account --events binary.json --delta 1e-5",
            1,
            &["binary.json"],
        ),
        (
            "account --events e-cut.json --delta 1e-5",
            1,
            &["e-cut.json"],
        ),
        (
            "account --events e-unknown.json --delta 1e-5 --adjacency add-remove",
            1,
            &["WishfulDpEvent"],
        ),
        (
            "account --events e-negative.json --delta 1e-5",
            1,
            &["e-negative.json", "-1"],
        ),
        (
            "account --events e-text.json --delta 1e-5",
            1,
            &["e-text.json"],
        ),
        (
            "account --events e-missing.json --delta 1e-5",
            1,
            &["e-missing.json", "noise_multiplier"],
        ),
        (
            "account --events e-number.json --delta 1e-5",
            1,
            &["e-number.json"],
        ),
        (
            "account --events e-object.json --delta 1e-5",
            1,
            &["e-object.json"],
        ),
        (
            "account --events e-empty.json --delta 1e-5",
            1,
            &["e-empty.json"],
        ),
        (
            "account --events e-count.json --delta 1e-5",
            1,
            &["e-count.json"],
        ),
        (
            "account --events e-rate.json --delta 1e-5",
            1,
            &["e-rate.json"],
        ),
        (
            "account --events e-delta.json",
            1,
            &["e-delta.json", "delta"],
        ),
        (
            "account --events e-adjacency.json",
            1,
            &["e-adjacency.json", "adjacency"],
        ),
        (
            "account --events e-under.json --adjacency replace-one",
            1,
            &["--adjacency", "add-remove"],
        ),
        (
            "account --events e.json --adjacency add-remove",
            1,
            &["--delta"],
        ),
        (
            "account --events o/events.json --adjacency add-remove",
            1,
            &["--adjacency", "replace-one"],
        ),
        (
            "account --noise-multiplier 1 --sampling-rate 0.1 --delta 1e-5 --adjacency add-remove --accountant gdp",
            1,
            &["gdp"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --adjacency add-remove --accountant pure",
            1,
            &["pure"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5",
            1,
            &["--adjacency", "add-remove", "replace-one", "zero-out"],
        ),
        (
            "account --noise-multiplier 1 --delta 1e-5 --adjacency add-remove --noise-over radius",
            1,
            &["--noise-over"],
        ),
        ("account --events e.json --delta 1e-5", 1, &["--adjacency"]),
        (
            "account --events e.json --delta 1e-5 --adjacency replace-one --noise-over clip",
            1,
            &["--noise-over"],
        ),
        (
            "account --events e-both.json --delta 1e-5 --adjacency add-remove",
            1,
            &["e-both.json"],
        ),
        (
            "account --events e-twice.json --delta 1e-5 --adjacency add-remove",
            1,
            &["e-twice.json", "noise_multiplier"],
        ),
        (
            "account --events e-list.json --delta 1e-5 --adjacency add-remove",
            1,
            &["e-list.json", "1"],
        ),
        (
            "calibrate --epsilon 1 --delta 1e-5 --steps 10 --sampling-rate 1",
            1,
            &["--adjacency"],
        ),
        (
            "calibrate --epsilon 1 --delta 1e-5 --steps 10 --sampling-rate 1 --adjacency add-remove --noise-over \"\"",
            1,
            &["--noise-over"],
        ),
        ("calibrate", 1, &["--epsilon"]),
        (
            "calibrate --epsilon 1 --delta 1e-5 --adjacency add-remove",
            1,
            &["--noise-multiplier"],
        ),
        (
            "calibrate --epsilon 1 --delta 1e-5 --adjacency add-remove --steps 10",
            1,
            &["two of them"],
        ),
        (
            "calibrate --epsilon 1 --delta 1e-5 --adjacency add-remove --steps 10 --noise-multiplier 1 --sampling-rate 0.1",
            1,
            &["all three"],
        ),
        (
            "calibrate --epsilon 0 --delta 1e-5 --adjacency add-remove --steps 10 --sampling-rate 1",
            1,
            &["--epsilon"],
        ),
        (
            "calibrate --epsilon 1 --delta 0 --adjacency add-remove --steps 10 --sampling-rate 1",
            1,
            &["--delta"],
        ),
        (
            "calibrate --epsilon 1 --delta 1e-5 --adjacency add-remove --steps 0 --sampling-rate 1",
            1,
            &["--steps"],
        ),
        (
            "calibrate --epsilon 1 --delta 1e-5 --adjacency add-remove --steps 10 --sampling-rate 7",
            1,
            &["--sampling-rate"],
        ),
        (
            "calibrate --epsilon 1 --delta 1e-5 --adjacency add-remove --steps ten --sampling-rate 1",
            1,
            &["--steps"],
        ),
        (
            "calibrate --epsilon 1e-9 --delta 1e-9 --adjacency add-remove --noise-multiplier 0.1 --sampling-rate 1",
            1,
            &["epsilon"],
        ),
        (
            "plan spiderboost --records 10 --dim 1000 --epsilon 0.01 --delta 1e-5",
            1,
            &["spiderboost", "no useful plan"],
        ),
        (
            "plan recursive-sgd --records 1000 --dim 5 --epsilon 1 --delta 1e-5",
            1,
            &["--radius"],
        ),
        (
            "plan spiderboost --records 1000 --dim 5 --epsilon 1 --delta 1e-5 --convex --loss logistic",
            1,
            &["--convex"],
        ),
        (
            "plan auto --records 1000 --dim 5 --epsilon 1 --delta 1e-5 --project 5",
            1,
            &["--project", "5 features"],
        ),
        (
            "plan auto --records 99999999999999999999 --dim 5 --epsilon 1 --delta 1e-5",
            1,
            &["--records"],
        ),
    ])
}
