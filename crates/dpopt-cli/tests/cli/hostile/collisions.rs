//! Paths that collide, and places that are taken.

use super::{Row, rows};

pub(super) fn all() -> Vec<Row> {
    rows(&[
        // The shared ledger where a file of the run goes.
        (
            "train t.csv --schema s.toml --ledger new/events.json --budget 1 --budget-delta 1e-5 --out new",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger new/model.json --budget 1 --budget-delta 1e-5 --out new",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger new/report.html --budget 1 --budget-delta 1e-5 --out new",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger o/events.json --out o --force",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger o/model.json --out o --force",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger new --budget 1 --budget-delta 1e-5 --out new",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger ./new/x/../events.json --budget 1 --budget-delta 1e-5 --out new",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger folder/events.json --budget 1 --budget-delta 1e-5 --out dir",
            1,
            &["--out", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger dangling --budget 1 --budget-delta 1e-5 --out nowhere",
            1,
            &["--out", "--ledger"],
        ),
        // The ledger where something is read.
        (
            "train t.csv --schema s.toml --ledger t.csv --out new",
            1,
            &["--ledger", "--data"],
        ),
        (
            "train t.csv --schema s.toml --ledger hard.csv --out new",
            1,
            &["--ledger", "--data"],
        ),
        (
            "train t.csv --schema s.toml --ledger s.toml --out new",
            1,
            &["--ledger", "--schema"],
        ),
        (
            "train t.csv --schema s.toml --ledger hard.toml --out new",
            1,
            &["--ledger", "--schema"],
        ),
        (
            "train t.csv --schema s.toml --test test.csv --ledger test.csv --out new",
            1,
            &["--ledger", "--test"],
        ),
        (
            "train x.npy --labels y.npy --schema array.toml --ledger y.npy --out new",
            1,
            &["--ledger", "--labels"],
        ),
        (
            "train t.csv --schema s.toml --ledger c.json --resume c.json --out new",
            1,
            &["--ledger", "--resume"],
        ),
        // Checkpoints on anything else.
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint l.json --out new",
            1,
            &["--checkpoint", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint soft.json --out new",
            1,
            &["--checkpoint", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger soft.json --checkpoint ./l.json --out new",
            1,
            &["--checkpoint", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint t.csv --out new",
            1,
            &["--checkpoint", "--data"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint hard.csv --out new --force",
            1,
            &["--checkpoint", "--data"],
        ),
        (
            "train --data hard.csv --schema s.toml --ledger l.json --checkpoint t.csv --out new",
            1,
            &["--checkpoint", "hard.csv"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint s.toml --out new",
            1,
            &["--checkpoint", "--schema"],
        ),
        (
            "train t.csv --schema hard.toml --ledger l.json --checkpoint s.toml --out new --force",
            1,
            &["--checkpoint", "--schema"],
        ),
        (
            "train t.csv --schema s.toml --test test.csv --ledger l.json --checkpoint test.csv --out new",
            1,
            &["--checkpoint", "--test"],
        ),
        (
            "train x.npy --labels y.npy --schema array.toml --ledger l.json --checkpoint y.npy --out new",
            1,
            &["--checkpoint", "--labels"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint new/model.json --out new",
            1,
            &["--out", "--checkpoint"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint new/events.json --out new",
            1,
            &["--out", "--checkpoint"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint new --out new",
            1,
            &["--out", "--checkpoint"],
        ),
        (
            "train t.csv --schema s.toml --ledger fresh.json --budget 1 --budget-delta 1e-5 --checkpoint fresh.json --out new",
            1,
            &["--checkpoint", "--ledger"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint notes.txt --out new",
            1,
            &["--checkpoint", "notes.txt", "--force"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint o/model.json --out new",
            1,
            &["--checkpoint", "o/model.json", "--force"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint full.json --out new",
            1,
            &["--checkpoint", "full.json", "--force"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint dir --out new",
            1,
            &["--checkpoint", "dir"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint no/k.json --out new",
            1,
            &["--checkpoint", "no/k.json"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint t.csv/k.json --out new",
            1,
            &["--checkpoint", "t.csv/k.json"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint loop --out new",
            1,
            &["--checkpoint", "loop"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --checkpoint \"\" --out new",
            1,
            &["--checkpoint"],
        ),
        // Folders for results.
        (
            "train t.csv --schema s.toml --out o",
            1,
            &["--out", "o is not empty", "--force"],
        ),
        (
            "train t.csv --schema s.toml --out ./dir/../o",
            1,
            &["--out", "--force"],
        ),
        (
            "train t.csv --schema s.toml --out full",
            1,
            &["--out", "full", "--force"],
        ),
        (
            "train t.csv --schema s.toml --out .",
            1,
            &["--out", "--force"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --out of",
            1,
            &["--out", "of", "--force"],
        ),
        (
            "train t.csv --schema s.toml --out taken",
            1,
            &["--out", "taken/model.json"],
        ),
        (
            "train t.csv --schema s.toml --out taken --force",
            1,
            &["--out", "taken/model.json", "directory"],
        ),
        (
            "train t.csv --schema s.toml --out t.csv",
            1,
            &["--out", "t.csv"],
        ),
        (
            "train t.csv --schema s.toml --out t.csv --force",
            1,
            &["--out", "--data"],
        ),
        (
            "train t.csv --schema s.toml --out notes.txt",
            1,
            &["--out", "notes.txt"],
        ),
        (
            "train t.csv --schema s.toml --out notes.txt/new --force",
            1,
            &["--out", "notes.txt/new"],
        ),
        (
            "train t.csv --schema s.toml --out dangling",
            1,
            &["--out", "dangling"],
        ),
        (
            "train t.csv --schema s.toml --out loop",
            1,
            &["--out", "loop"],
        ),
        ("train t.csv --schema s.toml --out \"\"", 1, &["--out"]),
        (
            "train --data o/model.json --schema s.toml --out o --force",
            1,
            &["--out", "--data"],
        ),
        (
            "train t.csv --schema o/report.html --out o --force",
            1,
            &["--out", "--schema"],
        ),
        (
            "train t.csv --schema s.toml --test o/events.json --out o --force",
            1,
            &["--out", "--test"],
        ),
        // A run that is paid for and leaves nothing.
        (
            "train t.csv --schema s.toml --ledger l.json",
            1,
            &["--out", "--ledger", "--json"],
        ),
        (
            "train t.csv --schema s.toml --ledger l.json --quiet",
            1,
            &["--out", "--json"],
        ),
        (
            "train t.csv --schema s.toml --ledger fresh.json --budget 1 --budget-delta 1e-5",
            1,
            &["--out", "--json"],
        ),
        (
            "train --ledger l.json --resume c.json",
            1,
            &["--out", "--json"],
        ),
        // One file converted, or scored, into itself.
        (
            "convert t.csv --schema s.toml --out t.csv",
            1,
            &["--out", "FILE"],
        ),
        (
            "convert t.csv --schema s.toml --out t.csv --force",
            1,
            &["--out", "FILE"],
        ),
        (
            "convert t.csv --schema s.toml --out hard.csv --force",
            1,
            &["--out", "t.csv"],
        ),
        (
            "convert t.csv --schema s.toml --out s.toml --force",
            1,
            &["--out", "--schema"],
        ),
        (
            "convert t.csv --schema s.toml --out hard.toml --force",
            1,
            &["--out", "--schema"],
        ),
        (
            "convert x.npy --labels y.npy --schema array.toml --out y.npy --force",
            1,
            &["--out", "--labels"],
        ),
        (
            "convert t.csv --schema s.toml --out notes.txt",
            1,
            &["--out", "notes.txt", "--force"],
        ),
        (
            "convert t.csv --schema s.toml --out t.dpr",
            1,
            &["--out", "t.dpr", "--force"],
        ),
        (
            "convert t.csv --schema s.toml --out soft.json",
            1,
            &["--out", "soft.json", "--force"],
        ),
        (
            "convert t.csv --schema s.toml --out dir",
            1,
            &["--out", "dir", "directory"],
        ),
        (
            "convert t.csv --schema s.toml --out dir --force",
            1,
            &["--out", "dir", "directory"],
        ),
        (
            "convert t.csv --schema s.toml --out no/new.dpr",
            1,
            &["--out", "no/new.dpr"],
        ),
        (
            "convert t.csv --schema s.toml --out loop",
            1,
            &["--out", "loop"],
        ),
        ("convert t.csv --schema s.toml --out \"\"", 1, &["--out"]),
        (
            "predict --model o/model.json --data t.csv --out t.csv",
            1,
            &["--out", "--data"],
        ),
        (
            "predict --model o/model.json --data t.csv --out t.csv --force",
            1,
            &["--out", "--data"],
        ),
        (
            "predict --model o/model.json --data t.csv --out ./dir/../t.csv --force",
            1,
            &["--out", "--data"],
        ),
        (
            "predict --model o/model.json --data hard.csv --out t.csv --force",
            1,
            &["--out", "hard.csv"],
        ),
        (
            "predict --model o/model.json --data t.csv --out o/model.json --force",
            1,
            &["--out", "--model"],
        ),
        (
            "predict --model o/model.json --data t.csv --out notes.txt",
            1,
            &["--out", "notes.txt", "--force"],
        ),
        (
            "predict --model o/model.json --data t.csv --out l.json",
            1,
            &["--out", "l.json", "--force"],
        ),
        (
            "predict --model o/model.json --data t.csv --out soft.json",
            1,
            &["--out", "soft.json", "--force"],
        ),
        (
            "predict --model o/model.json --data t.csv --out dir",
            1,
            &["--out", "dir", "directory"],
        ),
        (
            "predict --model o/model.json --data t.csv --out no/new.csv",
            1,
            &["--out", "no/new.csv"],
        ),
        (
            "predict --model o/model.json --data t.csv --out folder --force",
            1,
            &["--out", "folder", "directory"],
        ),
        (
            "predict --model o/model.json --data t.csv --out loop",
            1,
            &["--out", "loop"],
        ),
        (
            "predict --model o/model.json --data t.csv --out \"\"",
            1,
            &["--out"],
        ),
    ])
}
