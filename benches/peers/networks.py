"""Trains one perceptron by dpopt's estimator, by dpopt.torch and by Opacus, and a linear score by diffprivlib, on made-up records.

usage: networks.py [--dpopt PROGRAM] [--epsilon E,...] [--records N] [--epochs N] [--runs N] [--threads N] [--only NAME,...]

Needs dpopt (the wheel), torch, opacus and diffprivlib. The same perceptron (20 inputs, 32 units, 2 classes), records (two halves of the plane
of a made-up network, a tenth of the labels turned over), expected batch, epochs, clip and Adam for all networks, untuned. All but
diffprivlib, which has no delta, are (epsilon, 1e-5)-DP under add-remove, by dpopt's accountant as by Opacus' (PRV). Where the estimator or
PROGRAM, the command, plans, batch and steps are its own. Accuracy is on public records of the same law; seconds are of training, with
calibration, in one process after imports; the command's are of the whole program. Methods take turns.
One Markdown line for each.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time
import warnings

import numpy as np

DIM, HIDDEN, CLIP, BATCH, RATE, DELTA = 20, 32, 1.0, 256, 0.01, 1e-5
NAMES = ("torch", "opacus", "opacus-ghost", "estimator", "command", "diffprivlib")


def records(n, seed):
    """Rows in [-1, 1] and two classes by a network that is the same for all."""
    fixed = np.random.default_rng(7)
    first, second = fixed.normal(size=(DIM, 8)) / np.sqrt(DIM / 3), fixed.normal(size=8)
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, DIM)).astype(np.float32)
    scores = np.tanh(2 * x @ first) @ second
    y = (scores > 0) ^ (rng.uniform(size=n) < 0.1)
    return x, y.astype(np.int64)


def network():
    from torch import nn

    return nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))


def torch_data(x, y):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=BATCH)


def guessed(model):
    import torch

    def of(x):
        with torch.no_grad():
            return model.eval()(torch.from_numpy(x)).argmax(dim=1).numpy()

    return of


def by_torch(x, y, epsilon, epochs):
    import torch
    from dpopt.torch import make_private

    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    model, optimizer, loader = make_private(
        model, optimizer, torch_data(x, y), torch.nn.CrossEntropyLoss(), max_grad_norm=CLIP, epsilon=epsilon, delta=DELTA, epochs=epochs,
        adjacency="add-remove", public_records=len(x), threads=torch.get_num_threads(),
    )  # fmt: skip
    for _ in range(epochs):
        for _ in loader:
            optimizer.step()
    return guessed(model)


def by_opacus(x, y, epsilon, epochs, mode="hooks"):
    import torch
    from opacus import PrivacyEngine

    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    criterion = torch.nn.CrossEntropyLoss()
    made = PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model, optimizer=optimizer, data_loader=torch_data(x, y), criterion=criterion, target_epsilon=epsilon, target_delta=DELTA,
        epochs=epochs, max_grad_norm=CLIP, grad_sample_mode=mode,
    )  # fmt: skip
    model, optimizer, *criterion_too, loader = made
    criterion = criterion_too[0] if criterion_too else criterion
    for _ in range(epochs):
        for rows, labels in loader:
            optimizer.zero_grad()
            criterion(model(rows), labels).backward()
            optimizer.step()
    return guessed(model)


def by_estimator(x, y, epsilon, epochs):
    import dpopt
    import torch

    model = dpopt.PrivateClassifier(
        epsilon, DELTA, adjacency="add-remove", records=len(x), bounds=(-1, 1), classes=[0, 1], hidden=(HIDDEN,), max_steps=epochs * len(x) // BATCH,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return model.fit(x, y).predict


def by_diffprivlib(x, y, epsilon, epochs):
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=float(np.sqrt(DIM))).fit(x, y).predict


def schema():
    columns = "".join(f'[[column]]\nname = "x{i}"\nkind = "number"\nmin = -1.0\nmax = 1.0\ndefault = 0.0\ncentred = true\n' for i in range(DIM))
    label = '[label]\ncolumn = "y"\nvalues = ["0", "1"]\npositive = "1"\ndefault = "0"\n'
    return f"format = 1\nrow_norm = 1.4\nintercept = 1.0\n{label}{columns}"


def table(path, x, y):
    header = ",".join([*(f"x{i}" for i in range(DIM)), "y"])
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=header, comments="", fmt=[*(["%.6g"] * DIM), "%d"])


def by_command(program, x, y, epsilon, epochs):
    """The same plan as the estimator's, from files."""
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "schema.toml").write_text(schema())
    table(folder / "train.csv", x, y)
    started = time.perf_counter()
    subprocess.run(
        [program, "train", "--data", folder / "train.csv", "--schema", folder / "schema.toml", "--hidden", str(HIDDEN), "--epsilon", str(epsilon),
         "--delta", str(DELTA), "--adjacency", "add-remove", "--public-records", str(len(x)), "--max-steps", str(epochs * len(x) // BATCH),
         "--threads", "1", "--out", folder / "model"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    seconds = time.perf_counter() - started

    def of(x):
        table(folder / "new.csv", x, np.zeros(len(x)))
        said = subprocess.run(
            [program, "predict", folder / "model", "--data", folder / "new.csv", "--out-format", "jsonl"], check=True, capture_output=True, text=True
        )
        return np.array([int(json.loads(line)["predicted"]) for line in said.stdout.splitlines()])

    of.seconds = seconds
    return of


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--dpopt")
    asked.add_argument("--epsilon", default="1,3")
    asked.add_argument("--records", type=int, default=20_000)
    asked.add_argument("--epochs", type=int, default=10)
    asked.add_argument("--runs", type=int, default=3)
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--only", default=",".join(NAMES))
    asked = asked.parse_args()
    warnings.simplefilter("ignore")
    how = {
        "torch": by_torch,
        "opacus": by_opacus,
        "opacus-ghost": lambda *a: by_opacus(*a, mode="ghost"),
        "estimator": by_estimator,
        "command": lambda *a: by_command(asked.dpopt, *a),
        "diffprivlib": by_diffprivlib,
    }
    import dpopt.torch  # noqa: F401
    import opacus  # noqa: F401
    import torch

    torch.set_num_threads(asked.threads)
    new, truth = records(10_000, 1)
    print("| method | epsilon | accuracy | seconds, mean | least |\n| - | - | - | - | - |")
    for epsilon in map(float, asked.epsilon.split(",")):
        names = [name for name in asked.only.split(",") if name != "command" or asked.dpopt]
        right, seconds = ({name: [] for name in names} for _ in range(2))
        for run in range(asked.runs):
            x, y = records(asked.records, 100 + run)
            for name in names:
                torch.manual_seed(run)
                started = time.perf_counter()
                predict = how[name](x, y, epsilon, asked.epochs)
                seconds[name].append(getattr(predict, "seconds", time.perf_counter() - started))
                right[name].append(float((predict(new) == truth).mean()))
        for name in names:
            of, took = right[name], seconds[name]
            spread = f"{statistics.mean(of):.3f} ({min(of):.3f}–{max(of):.3f})"
            print(f"| {name} | {epsilon:g} | {spread} | {statistics.mean(took):.1f} | {min(took):.1f} |", flush=True)


if __name__ == "__main__":
    main()
