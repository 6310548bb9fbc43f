"""Trains scores for groups with other tools and by other papers' methods, on the table of `cargo xtask groups`.

usage: groups.py --dpopt PROGRAM --schema census-income.toml --data DIR [--epsilon E] [--only NAME,...] [--runs N]

PROGRAM is this project's command: its accountant gives the noise of every method, so all epsilons are of one accountant, with
delta 1e-6 under replace-one, which is twice the sensitivity that the tools assume of a sum. Shares of groups are given to
all methods for nothing. A method has a grid of settings; the line that is printed is of the setting that is best **on
the test part**, which flatters it: its tuning costs no budget here. Prints one Markdown line for each method.

What is compared (groups: sex; with the label, four cells):
  opacus-dro       group DRO by Opacus: Poisson batches, one clip for both blocks, descent in x, projected ascent in y
  group-sampling   each cell sampled at a rate and clipped at a radius of its own, after arXiv 2602.10820; charged as if
                   all were sampled at the largest rate
  rate-constraints equal true positive rates by a Lagrangian with a noised histogram of soft predictions in each step,
                   after arXiv 2505.22703
  fairlearn-worst  no privacy: reductions of fairlearn, the largest error of a cell bounded
  fairlearn-equal  no privacy: reductions of fairlearn, true positive rates alike
The second and third are written here from the papers' descriptions, not their authors' code.
"""

import argparse
import csv
import gzip
import itertools
import json
import math
import os
import subprocess
import time
import tomllib

import numpy as np
from scipy import sparse

DELTA = 1e-6
LABEL, GROUP = "income_gt_50k", "sex"


def table(path, schema):
    """Rows as `dpopt` reads them, labels in {-1, 1} and the value of the group column."""
    columns, start = [], 0
    for column in (c for c in schema["column"] if c["kind"] in ("number", "category")):
        if column["kind"] == "category":
            values = [v for v in column["values"] if v != column.get("reference")]
            columns.append((column, {v: start + i for i, v in enumerate(values)}))
            start += len(values) + 1  # and (other)
        else:
            bins = column.get("bins", [])
            first = start
            start += (len(bins) + 1 if bins else 0) + (not bins or column.get("linear", False))
            columns.append((column, first))
    width = start + 1
    data, index, ends, labels, groups = [], [], [0], [], []
    with gzip.open(path, "rt", newline="") as file:
        for line in csv.DictReader(file):
            for column, place in columns:
                text, scale = line[column["name"]], column.get("scale", 1.0)
                if column["kind"] == "category":
                    if text == column.get("reference"):
                        continue
                    index.append(place.get(text, max(place.values()) + 1))
                    data.append(scale)
                    continue
                low, high = column["min"], column["max"]
                try:
                    x = float(text)
                except ValueError:
                    x = column["default"]
                x = min(max(x, low), high)
                bins = column.get("bins", [])
                if bins:
                    index.append(place + sum(x >= edge for edge in bins))
                    data.append(scale)
                if not bins or column.get("linear", False):
                    u = (x - low) / (high - low)
                    if column["transform"] == "log1p":
                        u = math.log1p(x - low) / math.log1p(high - low)
                    index.append(place + (len(bins) + 1 if bins else 0))
                    data.append(scale * u)
            index.append(width - 1)
            data.append(schema.get("intercept", 0.0))
            ends.append(len(index))
            labels.append(1.0 if line[LABEL] == schema["label"]["positive"] else -1.0)
            groups.append(line[GROUP])
    rows = sparse.csr_matrix((data, index, ends), shape=(len(labels), width), dtype=np.float64)
    norms = np.sqrt(rows.multiply(rows).sum(axis=1)).A1
    shrink = np.minimum(1.0, schema["row_norm"] / np.maximum(norms, 1e-300))
    names = sorted(set(groups))
    labels = np.array(labels)
    sex = np.array([names.index(g) for g in groups])
    return sparse.diags(shrink) @ rows, labels, sex, 2 * sex + (labels > 0)


def noise(program, epsilon, steps, rate):
    """Deviation of the noise of a sum, in clips."""
    words = [program, "calibrate", "--steps", str(steps), "--sampling-rate", str(rate), "--epsilon", str(epsilon)]
    words += ["--delta", str(DELTA), "--adjacency", "replace-one", "--json"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert found["noise_over"] == "clip" and found["epsilon"] <= epsilon
    return found["noise_multiplier"]


def sigmoid(z):
    return 0.5 * (1 + np.tanh(z / 2))


def auc(scores, positive):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.bincount(place, weights=ranks) / count)[place]
    p = positive.sum()
    return (ranks[positive].sum() - p * (p + 1) / 2) / (p * (len(scores) - p))


def judged(test, scores=None, chances=None):
    """As the summary of `dpopt train` has it. `chances`: of a randomised classifier, in place of scores."""
    _, labels, sex, cell = test
    positive = labels > 0
    right = np.where(positive, chances, 1 - chances) if scores is None else (scores > 0) == positive
    flagged = chances
    if scores is not None:
        flagged = scores >= np.sort(scores)[-int(positive.sum())]
    rates = [flagged[positive & (sex == g)].mean() for g in np.unique(sex)]
    return {
        "worst": min(right[cell == c].mean() for c in np.unique(cell)),
        "accuracy": right.mean(),
        "auc": float("nan") if scores is None else auc(scores, positive),
        "difference": max(rates) - min(rates),
    }


def simplex(y):
    sorted_y = np.sort(y)[::-1]
    sums = (np.cumsum(sorted_y) - 1) / np.arange(1, len(y) + 1)
    return np.maximum(y - sums[np.nonzero(sorted_y > sums)[0][-1]], 0)


def opacus_dro(train, setting, args, rng):
    import torch
    from opacus import PrivacyEngine

    rows, labels, _, cell = train
    shares = np.bincount(cell) / len(cell)
    groups, width, clip, scale = len(shares), rows.shape[1], setting["clip"], setting["scale"]
    batch, steps = 4096, setting["steps"]
    rate = batch / len(labels)
    weights = torch.tensor(1 / shares, dtype=torch.float32)

    class Joint(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x = torch.nn.Parameter(torch.zeros(width))
            self.y = torch.nn.Parameter(torch.full((groups,), 1 / groups / scale))

        def forward(self, record):
            row, label, one = record[:, :width], record[:, width], record[:, width + 1 :]
            loss = torch.nn.functional.softplus(-label * (row @ self.x))
            y = scale * self.y
            spread = one - 1 / groups  # the part of the gradient along the simplex
            factor = (spread * weights) @ y + (weights * one).sum(1) / groups
            return (factor * loss - 0.5 * setting["dual"] * ((y - 1 / groups) ** 2).sum()).unsqueeze(1)

    model = Joint()
    cells = np.eye(groups, dtype=np.float32)[cell]
    records = np.hstack([rows.toarray().astype(np.float32), labels[:, None].astype(np.float32), cells])
    data = torch.utils.data.TensorDataset(torch.from_numpy(records))
    optimizer = torch.optim.SGD(
        [
            {"params": [model.x], "lr": setting["rate"]},
            {"params": [model.y], "lr": setting["rate_y"] / scale**2, "maximize": True},
        ]
    )
    loader = torch.utils.data.DataLoader(data, batch_size=batch)
    # Opacus counts a clip as the sensitivity; the deviation in clips is what is set here.
    private, optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=noise(args.dpopt, args.epsilon, steps, rate),
        max_grad_norm=clip,
        grad_sample_mode="functorch",
    )
    done = 0
    while done < steps:
        for (record,) in loader:
            optimizer.zero_grad()
            private(record).mean().backward()
            optimizer.step()
            with torch.no_grad():
                y = simplex(scale * model.y.numpy().astype(np.float64))
                model.y.copy_(torch.from_numpy(y / scale))
            done += 1
            if done == steps:
                break
    return model.x.detach().numpy().astype(np.float64)


def clipped(rows, slopes, clip):
    """Slopes after each record's gradient, slope times row, is clipped."""
    norms = np.abs(slopes) * np.sqrt(rows.multiply(rows).sum(axis=1)).A1
    return slopes * np.minimum(1.0, clip / np.maximum(norms, 1e-300))


def group_sampling(train, setting, args, rng):
    rows, labels, _, cell = train
    counts = np.bincount(cell)
    rates = np.minimum(1.0, setting["batch"] / counts)
    steps, clips = setting["steps"], setting["clip"] * np.ones(len(counts))
    deviation = noise(args.dpopt, args.epsilon, steps, rates.max())
    x, velocity = np.zeros(rows.shape[1]), 0.0
    for _ in range(steps):
        taken = np.nonzero(rng.random(len(labels)) < rates[cell])[0]
        some = rows[taken]
        slopes = -labels[taken] * sigmoid(-labels[taken] * (some @ x))
        slopes = clipped(some, slopes, clips[cell[taken]])
        total = some.T @ slopes + deviation * clips.max() * rng.standard_normal(len(x))
        velocity = 0.9 * velocity + total / (setting["batch"] * len(counts))
        x = x - setting["rate"] * velocity
    return x


def rate_constraints(train, setting, args, rng):
    rows, labels, sex, _ = train
    positive = labels > 0
    groups = sex.max() + 1
    of = [np.mean(positive & (sex == g)) for g in range(groups)]
    batch, steps, clip = 8192, setting["steps"], setting["clip"]
    rate = batch / len(labels)
    # Two releases of one batch: a histogram (radius 1) and a gradient. 1/z^2 of both adds up to that of one.
    whole = noise(args.dpopt, args.epsilon, steps, rate)
    histogram, gradient = whole / math.sqrt(0.1), whole / math.sqrt(0.9)
    x, velocity, price = np.zeros(rows.shape[1]), 0.0, np.zeros((groups, 2))
    for _ in range(steps):
        taken = np.nonzero(rng.random(len(labels)) < rate)[0]
        some, sign = rows[taken], labels[taken]
        soft = sigmoid(some @ x)
        cells = [np.sum(soft[(sign > 0) & (sex[taken] == g)]) + histogram * rng.standard_normal() for g in range(groups)]
        rates = np.array(cells) / (batch * np.array(of))
        mean = sum(cells) / (batch * sum(of))
        for side, direction in ((0, 1), (1, -1)):
            price[:, side] += setting["rate_y"] * (direction * (rates - mean) - 0.02)
        price = np.clip(price, 0, setting["price"])
        toll = price[:, 0] - price[:, 1]
        slopes = -sign * sigmoid(-sign * (some @ x))
        own = toll[sex[taken]] / np.array(of)[sex[taken]] - toll.sum() / sum(of)
        slopes = clipped(some, slopes + (sign > 0) * own * soft * (1 - soft), clip)
        total = some.T @ slopes + gradient * clip * rng.standard_normal(len(x))
        velocity = 0.9 * velocity + total / batch
        x = x - setting["rate"] * velocity
    return x


def fairlearn_with(constraint, groups):
    def run(train, setting, args, rng):
        from fairlearn.reductions import ExponentiatedGradient
        from sklearn.linear_model import LogisticRegression

        class Sparse(LogisticRegression):
            """Reductions hand dense rows on."""

            def fit(self, rows, labels, sample_weight=None):
                return super().fit(sparse.csr_matrix(rows), labels, sample_weight)

            def predict(self, rows):
                return super().predict(sparse.csr_matrix(rows))

        rows, labels = train[0].toarray(), train[1]
        reduction = ExponentiatedGradient(
            Sparse(max_iter=100), constraint(setting), max_iter=setting["iterations"], nu=1e-3
        )
        reduction.fit(rows, (labels > 0).astype(int), sensitive_features=train[groups])
        return reduction

    return run


def worst(setting):
    from fairlearn.reductions import BoundedGroupLoss, ZeroOneLoss

    return BoundedGroupLoss(ZeroOneLoss(), upper_bound=setting["bound"])


def equal(setting):
    from fairlearn.reductions import TruePositiveRateParity

    return TruePositiveRateParity(difference_bound=0.01)


def grid(**lists):
    return [dict(zip(lists, values)) for values in itertools.product(*lists.values())]


# A name, a method, its settings, what picks the best of them.
METHODS = {
    "opacus-dro": (
        opacus_dro,
        grid(clip=[16.0, 64.0], scale=[0.02], steps=[500], rate=[0.2, 0.8], rate_y=[0.001], dual=[1.0]),
        lambda row: row["worst"],
    ),
    "group-sampling": (
        group_sampling,
        grid(clip=[1.0, 4.0], batch=[500, 2500], steps=[100, 400], rate=[0.1, 0.4]),
        lambda row: row["worst"],
    ),
    "rate-constraints": (
        rate_constraints,
        grid(clip=[1.0, 2.0, 4.0], steps=[300, 1200], rate=[0.1, 0.2], rate_y=[0.05, 0.5], price=[0.3, 1.0]),
        lambda row: -row["difference"] if row["auc"] >= 0.935 else -1 - row["difference"],
    ),
    "fairlearn-worst": (fairlearn_with(worst, 3), grid(bound=[0.15], iterations=[30]), lambda row: row["worst"]),
    "fairlearn-equal": (fairlearn_with(equal, 2), grid(iterations=[20]), lambda row: -row["difference"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dpopt", required=True)
    parser.add_argument("--schema", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--only", default=",".join(METHODS))
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with open(args.schema, "rb") as file:
        schema = tomllib.load(file)
    train, test = (table(os.path.join(args.data, f"{part}.csv.gz"), schema) for part in ("train", "test"))
    print("| method | epsilon | setting | worst accuracy | accuracy | AUC | TPR difference | seconds |", flush=True)
    print("| - | - | - | - | - | - | - | - |", flush=True)
    for name in args.only.split(","):
        method, settings, best = METHODS[name]

        def once(setting, seed):
            start = time.perf_counter()
            found = method(train, setting, args, np.random.default_rng(seed))
            seconds = time.perf_counter() - start
            if isinstance(found, np.ndarray):
                row = judged(test, scores=test[0] @ found)
            else:
                parts = zip(found.weights_, found.predictors_)
                row = judged(test, chances=sum(w * h.predict(test[0]) for w, h in parts if w > 0))
            return row | {"seconds": seconds}

        setting = settings[0]
        if len(settings) > 1:
            tried = []
            for i, one in enumerate(settings):
                row = once(one, 1)
                tried.append((best(row), i))
                words = {key: round(float(number), 4) for key, number in row.items()}
                print(f"<!-- {name} {one} {words} -->", flush=True)
            setting = settings[max(tried)[1]]
        rows = [once(setting, 2 + i) for i in range(args.runs if name.startswith(("opacus", "group", "rate")) else 1)]
        ends = lambda key, digits: "–".join(  # noqa: E731
            f"{end([row[key] for row in rows]):.{digits}f}" for end in (min, max)
        )
        epsilon = "none" if name.startswith("fairlearn") else f"{args.epsilon:g}"
        words = ", ".join(f"{k} {v:g}" for k, v in setting.items())
        print(
            f"| {name} | {epsilon} | {words} | {ends('worst', 3)} | {ends('accuracy', 3)} | {ends('auc', 4)} "
            f"| {ends('difference', 3)} | {ends('seconds', 0)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
