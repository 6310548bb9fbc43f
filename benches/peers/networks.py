"""Trains one network by dpopt.torch and by Opacus, and by dpopt's estimator, its command and diffprivlib where these can.

usage: networks.py [--on PROBLEM] [--data DIR] [--dpopt PROGRAM] [--epsilon E,...] [--records N] [--epochs N] [--runs N] [--threads N]
                   [--only NAME,...]

Needs dpopt (the wheel), torch, opacus, and diffprivlib for records that are made up. PROBLEM is one of
- made-up: a perceptron of 20 inputs, 32 units and 2 classes, on two halves of the plane of a made-up network, a tenth of the labels turned over;
- perceptron: 784 inputs, 128 units and 10 classes, on the MNIST images of DIR;
- convolution: the network of Opacus' example on the same images (26,010 weights).
The same records, expected batch, epochs, clip and optimiser for all networks, untuned. All but diffprivlib, which has no delta, are
(epsilon, 1e-5)-DP under add-remove, by dpopt's accountant as by Opacus' (PRV). Where the estimator or PROGRAM, the command, plans, batch and
steps are its own. Accuracy is on the test images, or on public records of the same law; seconds are of training, with calibration, in one
process after imports, and those of an epoch without; the command's are of the whole program. Methods take turns.
One Markdown line for each.
"""

import argparse
import dataclasses
import gzip
import json
import pathlib
import statistics
import subprocess
import tempfile
import time
import warnings

import numpy as np

DIM, HIDDEN, CLIP, DELTA = 20, 32, 1.0, 1e-5
NAMES = ("torch", "opacus", "opacus-ghost", "estimator", "command", "diffprivlib")
NETWORKS = ("torch", "opacus", "opacus-ghost")


def records(n, seed):
    """Rows in [-1, 1] and two classes by a network that is the same for all."""
    fixed = np.random.default_rng(7)
    first, second = fixed.normal(size=(DIM, 8)) / np.sqrt(DIM / 3), fixed.normal(size=8)
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, DIM)).astype(np.float32)
    scores = np.tanh(2 * x @ first) @ second
    y = (scores > 0) ^ (rng.uniform(size=n) < 0.1)
    return x, y.astype(np.int64)


def made_up(asked):
    new = records(10_000, 1)
    return lambda run: (records(asked.records or 20_000, 100 + run), new)


def images(asked):
    """The first records of MNIST, scaled to [0, 1]."""

    def read(name, skipped):
        with gzip.open(pathlib.Path(asked.data) / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skipped)

    def part(name, count):
        x = read(f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)[:count]
        return x.astype(np.float32) / 255, read(f"{name}-labels-idx1-ubyte.gz", 8)[:count].astype(np.int64)

    train, test = part("train", asked.records), part("t10k", None)
    return lambda run: (train, test)


def perceptron():
    from torch import nn

    return nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))


def larger_perceptron():
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def convolutions():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def adam(parameters):
    import torch

    return torch.optim.Adam(parameters, lr=0.01)


def momentum(parameters):
    import torch

    return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)


@dataclasses.dataclass
class Problem:
    data: callable
    network: callable
    optimizer: callable
    batch: int
    epochs: int


PROBLEMS = {
    "made-up": Problem(made_up, perceptron, adam, 256, 10),
    "perceptron": Problem(images, larger_perceptron, momentum, 1024, 8),
    "convolution": Problem(images, convolutions, momentum, 1024, 8),
}


def torch_data(problem, x, y):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=problem.batch)


def guessed(model, epoch):
    import torch

    def of(x):
        with torch.no_grad():
            return model.eval()(torch.from_numpy(x)).argmax(dim=1).numpy()

    of.epoch = epoch
    return of


def timed(epochs, one):
    """Runs epochs; the seconds of one in the mean."""
    started = time.perf_counter()
    for _ in range(epochs):
        one()
    return (time.perf_counter() - started) / epochs


def by_torch(problem, x, y, epsilon, epochs):
    import torch
    from dpopt.torch import make_private

    model = problem.network()
    model, optimizer, loader = make_private(
        model, problem.optimizer(model.parameters()), torch_data(problem, x, y), torch.nn.CrossEntropyLoss(), max_grad_norm=CLIP, epsilon=epsilon,
        delta=DELTA, epochs=epochs, adjacency="add-remove", public_records=len(x), threads=torch.get_num_threads(),
    )  # fmt: skip

    def epoch():
        for _ in loader:
            optimizer.step()

    return guessed(model, timed(epochs, epoch))


def by_opacus(problem, x, y, epsilon, epochs, mode="hooks"):
    import torch
    from opacus import PrivacyEngine

    model = problem.network()
    criterion = torch.nn.CrossEntropyLoss()
    made = PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model, optimizer=problem.optimizer(model.parameters()), data_loader=torch_data(problem, x, y), criterion=criterion,
        target_epsilon=epsilon, target_delta=DELTA, epochs=epochs, max_grad_norm=CLIP, grad_sample_mode=mode,
    )  # fmt: skip
    model, optimizer, *criterion_too, loader = made
    criterion = criterion_too[0] if criterion_too else criterion

    def epoch():
        for rows, labels in loader:
            optimizer.zero_grad()
            criterion(model(rows), labels).backward()
            optimizer.step()

    return guessed(model, timed(epochs, epoch))


def by_estimator(problem, x, y, epsilon, epochs):
    import dpopt
    import torch

    model = dpopt.PrivateClassifier(
        epsilon, DELTA, adjacency="add-remove", records=len(x), bounds=(-1, 1), classes=[0, 1], hidden=(HIDDEN,), max_steps=epochs * len(x) // problem.batch,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return model.fit(x, y).predict


def by_diffprivlib(problem, x, y, epsilon, epochs):
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=float(np.sqrt(DIM))).fit(x, y).predict


def schema():
    columns = "".join(f'[[column]]\nname = "x{i}"\nkind = "number"\nmin = -1.0\nmax = 1.0\ndefault = 0.0\ncentred = true\n' for i in range(DIM))
    label = '[label]\ncolumn = "y"\nvalues = ["0", "1"]\npositive = "1"\ndefault = "0"\n'
    return f"format = 1\nrow_norm = 1.4\nintercept = 1.0\n{label}{columns}"


def table(path, x, y):
    header = ",".join([*(f"x{i}" for i in range(DIM)), "y"])
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=header, comments="", fmt=[*(["%.6g"] * DIM), "%d"])


def by_command(program, problem, x, y, epsilon, epochs):
    """The same plan as the estimator's, from files."""
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "schema.toml").write_text(schema())
    table(folder / "train.csv", x, y)
    started = time.perf_counter()
    subprocess.run(
        [program, "train", "--data", folder / "train.csv", "--schema", folder / "schema.toml", "--hidden", str(HIDDEN), "--epsilon", str(epsilon),
         "--delta", str(DELTA), "--adjacency", "add-remove", "--public-records", str(len(x)), "--max-steps", str(epochs * len(x) // problem.batch),
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
    asked.add_argument("--on", choices=PROBLEMS, default="made-up")
    asked.add_argument("--data")
    asked.add_argument("--dpopt")
    asked.add_argument("--epsilon", default="1,3")
    asked.add_argument("--records", type=int)
    asked.add_argument("--epochs", type=int)
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
    problem = PROBLEMS[asked.on]
    of_run, epochs = problem.data(asked), asked.epochs or problem.epochs
    of_all = asked.on == "made-up"
    print("| method | epsilon | accuracy | seconds, mean | least | of an epoch, least |\n| - | - | - | - | - | - |")
    for epsilon in map(float, asked.epsilon.split(",")):
        names = [name for name in asked.only.split(",") if (name != "command" or asked.dpopt) and (of_all or name in NETWORKS)]
        right, seconds, of_epoch = ({name: [] for name in names} for _ in range(3))
        for run in range(asked.runs):
            (x, y), (new, truth) = of_run(run)
            for name in names:
                torch.manual_seed(run)
                started = time.perf_counter()
                predict = how[name](problem, x, y, epsilon, epochs)
                seconds[name].append(getattr(predict, "seconds", time.perf_counter() - started))
                of_epoch[name].append(getattr(predict, "epoch", None))
                right[name].append(float((predict(new) == truth).mean()))
        for name in names:
            of, took, epoch = right[name], seconds[name], of_epoch[name]
            epoch = "" if None in epoch else f"{min(epoch):.2f}"
            spread = f"{statistics.mean(of):.3f} ({min(of):.3f}–{max(of):.3f})"
            print(f"| {name} | {epsilon:g} | {spread} | {statistics.mean(took):.1f} | {min(took):.1f} | {epoch} |", flush=True)


if __name__ == "__main__":
    main()
