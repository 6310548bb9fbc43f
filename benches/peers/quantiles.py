"""Other tools on the models of `cargo xtask bench --quantiles DIR --peers VENV`: Opacus and DPZero.

usage: quantiles.py FOLDER < TASK

FOLDER has both parts as rows of the same number of columns (.idx), entries (.val) and labels (.lab); TASK is a JSON object: the model,
its start and output weights, the loss, L0 and the budget. Each tool is tuned over a small grid, picked by the test part and not charged
for: both favour the tool. Both account with Opacus's accountant (PRV), for records added or removed.

- Opacus: DP-SGD with ghost clipping and its optimiser, on Poisson samples, from the same start.
- DPZero (arXiv 2310.09639): one Gaussian direction for all records, two values, the slope clipped as a number.

Prints a JSON list of rows; the grid goes to the standard error.
"""

import json
import math
import sys
import time
import warnings

import numpy as np
import torch
from opacus.accountants.utils import get_noise_multiplier
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

# Steps and mean size of a sample. The first shape is tried with all clips (over L0) and step sizes (in units of 1/L0^2, if nothing were
# clipped), the second with the best of these.
SGD_SHAPES = [(600, 3000), (1200, 6000)]
SGD_CLIPS = [0.1]
SGD_RATES = [0.1, 0.3, 1.0, 3.0]
# Mean size of a sample; the values that may be asked for give the steps. Clips over L0, and how far a run goes by its noise, over the length
# of the start.
ZO_SIZES = [4000]
ZO_CLIPS = [0.3]
ZO_RATES = [0.1, 0.3, 1.0, 3.0]
# Half of the way that a slope is taken over.
SMOOTHING = 1e-3


class Part:
    def __init__(self, folder, name, task):
        shape = (-1, task["width"])
        self.idx = torch.from_numpy(np.fromfile(f"{folder}/{name}.idx", "<i4").reshape(shape))
        self.val = torch.from_numpy(np.fromfile(f"{folder}/{name}.val", "<f4").reshape(shape))
        self.lab = torch.from_numpy(np.fromfile(f"{folder}/{name}.lab", "<f4"))
        self.count = len(self.lab)

    def products(self, weights, at=slice(None)):
        """The rows times a matrix of shape (columns, any)."""
        bag = torch.nn.functional.embedding_bag
        return bag(self.idx[at], weights, per_sample_weights=self.val[at], mode="sum")

    def sample(self, rate, draw):
        if rate >= 1:
            return slice(None)
        return (torch.rand(self.count, generator=draw) < rate).nonzero()[:, 0]


class Model:
    def __init__(self, task):
        self.tau, self.half = task["tau"], task["half"]
        self.output = torch.tensor(task["output"]) if task["output"] else None
        self.units = len(task["output"]) or 1
        self.start = torch.tensor(task["start"]).reshape(task["columns"], self.units)

    def predict(self, inputs):
        return inputs[..., 0] if self.output is None else torch.relu(inputs) @ self.output

    def loss(self, z, y):
        return torch.maximum(self.tau * (y - z), (self.tau - 1) * (y - z))

    def score(self, weights, test):
        z = self.predict(test.products(weights))
        below = (test.lab < z).double() + 0.5 * (test.lab == z).double()
        return self.half * self.loss(z, test.lab).double().mean().item(), below.mean().item()


def multiplier(task, rate, steps):
    budget = {"target_epsilon": task["epsilon"], "target_delta": task["delta"]}
    return get_noise_multiplier(**budget, sample_rate=min(rate, 1), steps=steps, accountant="prv")


class Pinball(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.reduction = model, "mean"

    def forward(self, z, y):
        each = self.model.loss(z, y)
        return each.mean() if self.reduction == "mean" else each


class Output(torch.nn.Module):
    """The fixed weights of the units."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs):
        return self.model.predict(inputs)


def opacus(task, model, train, tried):
    dense = torch.zeros(train.count, task["columns"])
    dense.scatter_add_(1, train.idx.long(), train.val)
    lipschitz = task["lipschitz"]
    for steps, size in SGD_SHAPES:
        rate = min(1, size / train.count)
        noise = multiplier(task, rate, steps)
        grid = [(clip, share) for clip in SGD_CLIPS for share in SGD_RATES]
        if tried:
            clip, share = min(tried)[1]
            grid = [(clip, share)]
        for clip, share in grid:
            torch.manual_seed(1)
            draw = torch.Generator().manual_seed(2)
            linear = torch.nn.Linear(task["columns"], model.units, bias=False)
            with torch.no_grad():
                linear.weight.copy_(model.start.T)
            net = GradSampleModuleFastGradientClipping(
                torch.nn.Sequential(linear, Output(model)),
                max_grad_norm=clip * lipschitz,
                use_ghost_clipping=True,
                loss_reduction="mean",
            )
            optimizer = DPOptimizerFastGradientClipping(
                torch.optim.SGD(net.parameters(), lr=share / (clip * lipschitz**2)),
                noise_multiplier=noise,
                max_grad_norm=clip * lipschitz,
                expected_batch_size=size,
                loss_reduction="mean",
                generator=torch.Generator().manual_seed(3),
            )
            criterion = DPLossFastGradientClipping(net, optimizer, Pinball(model), "mean")
            start = time.perf_counter()
            for _ in range(steps):
                at = train.sample(rate, draw)
                optimizer.zero_grad()
                criterion(net(dense[at]), train.lab[at]).backward()
                optimizer.step()
            seconds = time.perf_counter() - start
            found = linear.weight.detach().T.contiguous()
            name = f"steps {steps}, sample {size}, clip {clip} L0, rate {share:.2g}"
            yield name, (clip, share), found, steps, rate * steps, 0.0, seconds


@torch.no_grad()
def dpzero(task, model, train, _):
    """All clips and step sizes at once: they share samples, directions and draws of the noise, and each is charged alone."""
    dim, lipschitz = model.start.numel(), task["lipschitz"]
    grid = [(clip * lipschitz, rate) for clip in ZO_CLIPS for rate in ZO_RATES]
    clips = torch.tensor([clip for clip, _ in grid])
    for size in ZO_SIZES:
        rate = min(1, size / train.count)
        steps = round(task["values"] / (2 * rate * train.count))
        if steps < 1:
            continue
        noise = multiplier(task, rate, steps)
        torch.manual_seed(4)
        draw = torch.Generator().manual_seed(5)
        # By the noise alone a run of T steps moves by eta sigma C/(q n) sqrt(T d).
        walk = noise / (rate * train.count) * clips * math.sqrt(steps * dim)
        step = torch.tensor([share for _, share in grid]) * max(1.0, model.start.norm().item()) / walk
        weights = model.start.repeat(1, len(grid)).contiguous()
        columns, units = model.start.shape
        start = time.perf_counter()
        for _ in range(steps):
            at = train.sample(rate, draw)
            direction = torch.randn(columns, units)
            inputs = train.products(torch.cat([weights, direction], 1), at)
            inputs = inputs.reshape(len(inputs), -1, units)
            here, along, label = inputs[:, :-1], SMOOTHING * inputs[:, -1:], train.lab[at][:, None]
            rise = model.loss(model.predict(here + along), label) - model.loss(model.predict(here - along), label)
            slope = torch.maximum(torch.minimum(rise / (2 * SMOOTHING), clips), -clips).sum(0)
            released = (slope + noise * clips * torch.randn(1)) / (rate * train.count)
            weights -= (direction[:, None, :] * (step * released)[None, :, None]).reshape(weights.shape)
        seconds = time.perf_counter() - start
        for i, (clip, share) in enumerate(grid):
            found = weights[:, i * units : (i + 1) * units].contiguous()
            name = f"steps {steps}, sample {size}, clip {clip / lipschitz:.1f} L0, rate {share}"
            yield name, None, found, steps, rate * steps, 2 * rate * train.count * steps, seconds


def main():
    warnings.simplefilter("ignore")
    # Where other work runs, threads wait for each other longer than they save.
    torch.set_num_threads(1)
    task = json.load(sys.stdin)
    folder = sys.argv[1]
    train, test = Part(folder, "train", task), Part(folder, "test", task)
    model, rows = Model(task), []
    for tool, runs in (("DPZero", dpzero), ("Opacus DP-SGD", opacus)):
        best, tried = None, []
        for name, choice, weights, steps, passes, values, seconds in runs(task, model, train, tried):
            with torch.no_grad():
                loss, coverage = model.score(weights, test)
            print(f"{task['model']} {tool} {name}: {loss:.3f} years, coverage {coverage:.3f}, {seconds:.1f} s", file=sys.stderr)
            if not math.isfinite(loss):
                continue
            tried.append((loss, choice))
            if best is None or loss < best["loss"]:
                best = {
                    "solver": f"{tool}: {name}",
                    "loss": loss,
                    "coverage": coverage,
                    "steps": steps,
                    "passes": passes if values == 0 else 0.0,
                    "values": values,
                    "seconds": seconds,
                }
        if best is not None:
            rows.append(best)
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
