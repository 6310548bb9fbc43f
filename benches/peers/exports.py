"""The exports of a model, read by others: `cargo xtask exports VENV`.

usage: exports.py DPOPT DOCS FOLDER

DPOPT is the command, DOCS the page whose lines of Python read the flat file, FOLDER an empty one for tables and models. Needs numpy,
onnx and onnxruntime. For each kind of model the graph passes onnx.checker, its outputs in onnxruntime are those of `dpopt predict`, and so
are the scores of the lines of the page.
"""

import csv
import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

DPOPT, DOCS, FOLDER = sys.argv[1:]
HEAD = 'format = 1\nrow_norm = 1.5\nintercept = 1.0\n[label]\ncolumn = "y"\n'
COLUMNS = """[[column]]
name = "x"
kind = "number"
min = 0.0
max = 10.0
transform = "log1p"
default = 7.0
bins = [2.5, 5.0]
linear = true
[[column]]
name = "c"
kind = "category"
values = ["a", "b", "c"]
reference = "b"
[[column]]
name = "d"
kind = "date"
min = "2010-01-01"
max = "2025-01-01"
default = "2012-02-29"
missing = true
[[column]]
name = "t"
kind = "hash"
buckets = 8
"""
LABELS = {
    "two": 'values = ["no", "yes"]\npositive = "yes"\ndefault = "no"\n',
    "several": 'values = ["no", "yes", "so"]\ndefault = "no"\n',
    "number": 'kind = "number"\nmin = 0.0\nmax = 2.0\ndefault = 0.0\n',
}
MODELS = [("two", ""), ("several", ""), ("number", ""), ("number", "--loss poisson"), ("two", "--loss quadratic:logistic --rank 2 --ball 3 --solver dp-sgd")] + [
    (label, f"--solver noisy-gd --hidden {units} --activation {name}")
    for label, units in [("two", "4"), ("several", "5,3")]
    for name in ["relu", "tanh", "sigmoid", "softplus", "silu"]
]


def dpopt(line):
    done = subprocess.run([DPOPT, *line.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"dpopt {line}: {done.stderr}")
    return done.stdout


def label(kind, i):
    return {"two": ["no", "yes"][i % 2], "several": ["no", "yes", "so"][i % 3], "number": f"{i % 3}"}[kind]


os.chdir(FOLDER)
lines = re.search(r"```python\n(.*?)```", open(DOCS, encoding="utf-8").read(), re.S).group(1)
for kind, flags in MODELS:
    with open("s.toml", "w", encoding="utf-8") as file:
        file.write(HEAD + LABELS[kind] + COLUMNS)
    with open("t.csv", "w", encoding="utf-8") as file:
        file.write("x,c,d,t,y\n")
        file.writelines(f"{['nan', '', i % 12][min(i % 40, 2)]},{'abcd'[i % 4]},{['', f'20{10 + i % 20}-{1 + i % 12:02}-{1 + i % 30:02}'][i % 7 > 0]},word {i % 9},{label(kind, i)}\n" for i in range(300))
    dpopt(f"train t.csv --schema s.toml --epsilon 50 --delta 1e-5 --max-steps 20 --quiet --out o --force {flags}")
    for name in ["json", "onnx"]:
        dpopt(f"export --model o/model.json --format {name} --out flat.{name} --force")
    wanted = list(csv.DictReader(dpopt("predict --model o/model.json --data t.csv").splitlines()))
    onnx.checker.check_model(onnx.load("flat.onnx"), full_check=True)
    lib = {}
    exec(lines, lib)  # the page's own lines
    flat, records = lib["m"], list(csv.DictReader(open("t.csv", encoding="utf-8")))
    rows = np.array([[lib["feature"](f, r) for f in flat["features"]] for r in records], dtype=np.float64)
    rows *= np.minimum(1.0, flat["row_norm"] / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
    session = onnxruntime.InferenceSession("flat.onnx")
    found = dict(zip([out.name for out in session.get_outputs()], session.run(None, {"row": rows})))
    apart = 0.0
    if kind == "several":
        columns = [f"p({value})" for value in flat["label"]["values"]]
        apart = np.abs(found["probability"] - np.array([[float(line[c]) for c in columns] for line in wanted])).max()
    for name in set(found) & set(wanted[0]):
        numbers = np.array([float(line[name]) for line in wanted])
        apart = max(apart, np.abs(found[name].ravel() - numbers).max())
        if name == "score" and flat["head"]["kind"] == "linear":
            apart = max(apart, np.abs(np.array([lib["score"](r)[0] for r in records]) - numbers).max())
    print(f"{kind} {flags or 'linear'}: {len(records)} records, off by {apart:.1e} at most")
    if not apart < 1e-5:
        sys.exit("that is too much")
print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, numpy {np.__version__}")
