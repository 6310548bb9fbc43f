"""Other tools on the made-up tables of `cargo run -p dpopt-benches --bin tables DIR`: Opacus and diffprivlib.

usage: tables.py DIR [EPSILON ...]

Each tool is tuned over a small grid, encodings included, by the AUC on the test part, and not charged for it; then the winner is run again.
Both favour the tool.

- Opacus: DP-SGD with its optimiser on Poisson samples, accounted by its own PRV accountant, for records added or removed.
- diffprivlib: its LogisticRegression, by objective perturbation: for a replaced record, and with delta 0, which it has no other choice of.

Beside them the AUC of the fit without privacy and nearly without a penalty, which is one number for all budgets: what is above it was
found on the test part.

Prints lines of tab-separated values.
"""

import os
import sys
import warnings

import numpy as np
import torch
from diffprivlib.models import LogisticRegression
from opacus.accountants.utils import get_noise_multiplier
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from sklearn.linear_model import LogisticRegression as Unprotected
from sklearn.metrics import roc_auc_score

# Sampling rate and steps; the noise follows from the budget.
SHAPES = [(1.0, 30), (0.25, 60), (0.1, 150)]
CLIPS = [0.1, 1.0]
# Step sizes in units of one over the clip.
RATES = [1.0, 3.0, 10.0, 30.0]
MOMENTUM = 0.9
# Inverse regularisation, and the bound on a row's norm over the longest row's of the training part, which is not charged for either.
INVERSES = [0.01, 0.1, 1.0, 10.0, 100.0]
NORMS = [1.0, 0.5]


def tries(records):
    """How often each setting is run."""
    return 2 if records <= 1000 else 1


def runs(records):
    """How often the winner is run again."""
    return 30 if records <= 1000 else 10


ENCODINGS = ["from 0 to 1", "centred"]
DELTA = 1e-5


class Table:
    """Both parts in each encoding, as dense rows in single precision, and labels of -1 and 1."""

    def __init__(self, folder):
        self.train, self.test = (np.fromfile(f"{folder}/{name}.lab", "<f4") for name in ("train", "test"))

        def part(name, encoding):
            labels = self.train if name == "train" else self.test
            return np.fromfile(f"{folder}/{name}.{encoding}.val", "<f4").reshape(len(labels), -1)

        self.rows = {e: (part("train", e), part("test", e)) for e in ENCODINGS}
        self.records = len(self.train)


def opacus(table, setting, seed):
    encoding, rate, steps, multiplier, clip, step = setting
    train, test = (torch.from_numpy(rows) for rows in table.rows[encoding])
    labels = torch.from_numpy(table.train)
    draw = torch.Generator().manual_seed(seed)
    linear = torch.nn.Linear(train.shape[1], 1, bias=False)
    torch.nn.init.zeros_(linear.weight)
    model = GradSampleModule(linear, loss_reduction="sum")
    plain = torch.optim.SGD(model.parameters(), lr=step / clip * (1 - MOMENTUM), momentum=MOMENTUM)
    optimiser = DPOptimizer(
        plain,
        noise_multiplier=multiplier,
        max_grad_norm=clip,
        expected_batch_size=rate * table.records,
        loss_reduction="mean",
        generator=draw,
    )
    for _ in range(steps):
        at = torch.rand(table.records, generator=draw) < rate
        rows, of = (train, labels) if rate == 1 else (train[at], labels[at])
        optimiser.zero_grad()
        torch.nn.functional.softplus(-of * model(rows)[:, 0]).sum().backward()
        optimiser.step()
    with torch.no_grad():
        return auc(table, linear(test)[:, 0].numpy())


def objective(table, setting, seed):
    epsilon, encoding, inverse, norm = setting
    train, test = table.rows[encoding]
    longest = float(np.linalg.norm(train, axis=1).max())
    fit = LogisticRegression(
        epsilon=epsilon, data_norm=norm * longest, C=inverse, fit_intercept=False, max_iter=300, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.fit(train, table.train)
    return auc(table, fit.decision_function(test))


def unprotected(table):
    train, test = table.rows[list(table.rows)[-1]]
    fit = Unprotected(C=1e4, fit_intercept=False, max_iter=5000).fit(train, table.train)
    return auc(table, fit.decision_function(test))


def auc(table, scores):
    # A run that diverged ranks nothing.
    return roc_auc_score(table.test, scores) if np.isfinite(scores).all() else 0.5


def tuned(run, table, settings):
    """The best setting by its mean on the test part, and the mean of new runs of it."""
    mean = lambda setting, seeds: float(np.mean([run(table, setting, seed) for seed in seeds]))
    best = max(settings, key=lambda setting: mean(setting, range(tries(table.records))))
    again = runs(table.records)
    return best, mean(best, range(1000, 1000 + again)), again


def measured(name, table, epsilon):
    settings = []
    for rate, steps in SHAPES:
        multiplier = get_noise_multiplier(
            target_epsilon=epsilon, target_delta=DELTA, sample_rate=rate, steps=steps, accountant="prv"
        )
        settings += [(e, rate, steps, multiplier, c, r) for e in ENCODINGS for c in CLIPS for r in RATES]
    (encoding, rate, steps, _, clip, step), found, again = tuned(opacus, table, settings)
    words = f"{steps} steps of {rate:g}, clip {clip:g}, rate {step:g}, {encoding}"
    print(name, epsilon, "opacus", f"{found:.4f}", again, words, sep="\t", flush=True)
    settings = [(epsilon, e, c, r) for e in ENCODINGS for c in INVERSES for r in NORMS]
    (_, encoding, inverse, norm), found, again = tuned(objective, table, settings)
    words = f"C {inverse:g}, norm {norm:g}, {encoding}"
    print(name, epsilon, "diffprivlib", f"{found:.4f}", again, words, sep="\t", flush=True)


def main(folder, epsilons):
    torch.set_num_threads(1)
    print("table", "epsilon", "tool", "AUC", "runs", "settings", sep="\t")
    for name in sorted(os.listdir(folder)):
        table = Table(os.path.join(folder, name))
        print(name, "none", "no privacy", f"{unprotected(table):.4f}", 1, "", sep="\t", flush=True)
        for epsilon in epsilons:
            measured(name, table, epsilon)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(sys.argv[1], [float(x) for x in sys.argv[2:]] or [0.5, 1.0, 3.0, 8.0])
