"""Times the clipped step of `peer` (this project) and of other tools, alternating in one process.

usage: peers.py --threads N [--quick] -- COMMAND...

COMMAND starts our side (`benches/src/bin/peer.rs`); the task and the number of threads are appended to it.
It answers each line on its input with the seconds of one step. A package that is missing is skipped, and
the result says so. Everything, our side too, is bound to the first N processors. What is timed is one sum of clipped
gradients in single precision; our side also adds noise and rounds on its lattice. Row norms are computed before.
The answers of the tools are compared with each other; one that differs is a failure and has no time.

Prints one JSON object: rows, skipped, failed.
"""

import argparse
import gc
import importlib.metadata
import json
import os
import subprocess
import sys
import time

CLIP = 0.5
RECORDS = 60_000  # in an epoch of the perceptron
SIZES = (784, 128, 10)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("ours", nargs="+")
    return parser.parse_args()


def bind(threads):
    """Before any numerical package is imported: they read these once."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"):
        os.environ[name] = str(threads)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


class Ours:
    """Our side, which times itself."""

    def __init__(self, command, words):
        self.child = subprocess.Popen(
            command + words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answer()

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"our side ended with code {self.child.wait()}")
        return line

    def seconds(self):
        self.child.stdin.write("step\n")
        self.child.stdin.flush()
        return float(self.answer())

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def timed(step):
    def seconds():
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

    return seconds


class Task:
    """One problem: its contestants are (name, package, builder); a builder returns a step that returns the sum
    as a NumPy array in the order of the first contestant's."""

    def __init__(self, name, words, contestants, steps=1.0):
        self.name, self.words, self.contestants, self.steps = name, words, contestants, steps


def run(task, args, out):
    import numpy as np

    steps, reference = {}, None
    for name, package, build in task.contestants:
        entry = {"id": f"{task.name}/t{args.threads}/{name}"}
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            out["skipped"].append(entry | {"reason": f"{package} is not installed"})
            continue
        try:
            step = build()
            found = np.asarray(step(), dtype=np.float64).ravel()
            if reference is None:
                reference = found
            error = np.linalg.norm(found - reference) / np.linalg.norm(reference)
            if not error < 1e-3:
                raise RuntimeError(f"its sum differs by {error:.1e} of the norm")
            steps[name] = (timed(step), version)
        except Exception as error:  # a tool that can't do this must not end the others
            out["failed"].append(entry | {"reason": f"{type(error).__name__}: {error}"[:300]})
    ours = Ours(args.ours, task.words + [str(args.threads)])
    steps["dpopt"] = (ours.seconds, "this")
    times = {name: [] for name in steps}
    rounds, budget = (5, 1.0) if args.quick else (25, 3.0)
    for _ in range(rounds):
        for name, (seconds, _) in steps.items():
            if sum(times[name]) < budget or len(times[name]) < 3:
                times[name].append(seconds())
    ours.close()
    fastest = {name: min(all) for name, all in times.items()}
    median = {name: sorted(all)[len(all) // 2] for name, all in times.items()}
    for name, (_, version) in steps.items():
        out["rows"].append(
            {
                "id": f"{task.name}/t{args.threads}/{name}",
                "version": version,
                "seconds": task.steps * median[name],
                "fastest": task.steps * fastest[name],
                "ratio": median[name] / median["dpopt"],
                "ratio_fastest": fastest[name] / fastest["dpopt"],
                "repeats": len(times[name]),
            }
        )
    steps.clear()
    gc.collect()


def logistic(n, d):
    """The sum of clip(-y x / (1 + e^(y <w, x>)), CLIP)."""
    import numpy as np

    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (n, d)).astype(np.float32) * np.float32((3 / d) ** 0.5)
    y = np.where(draw.random(n) < 0.5, -1, 1).astype(np.float32)
    w = np.sin(np.arange(d)).astype(np.float32)
    norms = np.linalg.norm(x, axis=1)

    def in_numpy():
        def step():
            s = -y / (1 + np.exp(y * (x @ w)))
            return (s * np.minimum(1, CLIP / (np.abs(s) * norms + 1e-30))) @ x

        return step

    def in_torch():
        import torch

        tx, ty, tw, tn = map(torch.from_numpy, (x, y, w, norms))

        def step():
            s = -ty * torch.sigmoid(-ty * (tx @ tw))
            return ((s * torch.clamp(CLIP / (s.abs() * tn + 1e-30), max=1)) @ tx).numpy()

        return step

    def in_torch_vmap():
        import torch

        tx, ty, tw = map(torch.from_numpy, (x, y, w))

        def loss(w, x, y):
            return torch.nn.functional.softplus(-y * (x @ w))

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

        def step():
            g = each(tw, tx, ty)
            factor = torch.clamp(CLIP / (g.norm(dim=1) + 1e-30), max=1)
            return (factor @ g).numpy()

        return step

    def in_opacus(ghost):
        def build():
            import torch

            linear = torch.nn.Linear(d, 1, bias=False)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(w)[None])
            # One number per record: ghost clipping weighs a vector of losses.
            model = torch.nn.Sequential(linear, torch.nn.Flatten(0))
            positive = torch.from_numpy(y > 0).float()
            loss = torch.nn.BCEWithLogitsLoss(reduction="sum")
            return opacus_step(model, loss, torch.from_numpy(x), positive, ghost)

        return build

    def in_jax():
        import jax
        import jax.numpy as jnp

        jx, jy, jw, jn = map(jnp.asarray, (x, y, w, norms))

        @jax.jit
        def sums(w, x, y, norms):
            s = -y * jax.nn.sigmoid(-y * (x @ w))
            return (s * jnp.minimum(1, CLIP / (jnp.abs(s) * norms + 1e-30))) @ x

        return lambda: sums(jw, jx, jy, jn).block_until_ready()

    def in_jax_privacy():
        import jax
        import jax.numpy as jnp
        from jax_privacy.clipping import clipped_grad

        jx, jy, jw = map(jnp.asarray, (x, y, w))

        def loss(w, x, y):
            return jax.nn.softplus(-y * (x @ w))

        sums = jax.jit(clipped_grad(loss, l2_clip_norm=CLIP, batch_argnums=(1, 2), keep_batch_dim=False))
        return lambda: sums(jw, jx, jy).block_until_ready()

    contestants = [
        ("numpy closed form", "numpy", in_numpy),
        ("torch closed form", "torch", in_torch),
        ("jax closed form", "jax", in_jax),
        ("torch vmap", "torch", in_torch_vmap),
        ("opacus hooks", "opacus", in_opacus(False)),
        ("opacus ghost", "opacus", in_opacus(True)),
        ("jax-privacy", "jax-privacy", in_jax_privacy),
    ]
    return Task(f"logistic/{n}x{d}", ["logistic", str(n), str(d)], contestants)


def opacus_step(model, criterion, x, y, ghost):
    """One sum of clipped gradients as Opacus's optimisers form it, without noise."""
    import numpy as np
    import torch
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    settings = {"noise_multiplier": 0.0, "max_grad_norm": CLIP, "expected_batch_size": None}
    sgd = torch.optim.SGD(model.parameters(), lr=0.0)
    if ghost:
        model = GradSampleModuleFastGradientClipping(
            model, max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="sum"
        )
        optimizer = DPOptimizerFastGradientClipping(sgd, loss_reduction="sum", **settings)
        criterion = DPLossFastGradientClipping(model, optimizer, criterion, loss_reduction="sum")
    else:
        model = GradSampleModule(model, loss_reduction="sum")
        optimizer = DPOptimizer(sgd, loss_reduction="sum", **settings)

    def step():
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.pre_step()
        found = [p.grad for p in model.parameters()]
        # As a row per input, then the biases.
        parts = [(g.T if g.dim() == 2 else g).reshape(-1) for g in found]
        return torch.cat(parts).numpy() if len(parts) > 1 else np.asarray(parts[0])

    return step


def perceptron(batch):
    """Ghost clipping of 784-128-10 with ReLU and cross-entropy; times are those of an epoch."""
    import numpy as np

    m, n, k = SIZES
    draw = np.random.default_rng(2)
    x = (draw.integers(0, 256, (batch, m)) / 255).astype(np.float32)
    y = draw.integers(0, k, batch)
    one_hot = np.eye(k, dtype=np.float32)[y]
    w1 = (draw.uniform(-1, 1, (m, n)) * (6 / m) ** 0.5).astype(np.float32)
    w2 = (draw.uniform(-1, 1, (n, k)) * (6 / n) ** 0.5).astype(np.float32)
    b1, b2 = np.zeros(n, np.float32), np.zeros(k, np.float32)

    def in_torch():
        import torch

        tx, ty, t1, t2, c1, c2 = map(torch.from_numpy, (x, one_hot, w1, w2, b1, b2))
        tn = (tx * tx).sum(1) + 1

        def step():
            a = torch.relu(torch.addmm(c1, tx, t1))
            last = torch.softmax(torch.addmm(c2, a, t2), 1) - ty
            first = (last @ t2.T) * (a > 0)
            square = tn * (first * first).sum(1) + ((a * a).sum(1) + 1) * (last * last).sum(1)
            factor = torch.clamp(CLIP / (square.sqrt() + 1e-30), max=1)[:, None]
            first, last = first * factor, last * factor
            parts = (tx.T @ first, first.sum(0), a.T @ last, last.sum(0))
            return torch.cat([p.reshape(-1) for p in parts]).numpy()

        return step

    def in_jax():
        import jax
        import jax.numpy as jnp

        arrays = [jnp.asarray(v) for v in (x, one_hot, w1, w2, b1, b2)]

        @jax.jit
        def sums(x, y, w1, w2, b1, b2):
            a = jax.nn.relu(x @ w1 + b1)
            last = jax.nn.softmax(a @ w2 + b2) - y
            first = (last @ w2.T) * (a > 0)
            square = ((x * x).sum(1) + 1) * (first * first).sum(1)
            square += ((a * a).sum(1) + 1) * (last * last).sum(1)
            factor = jnp.minimum(1, CLIP / (jnp.sqrt(square) + 1e-30))[:, None]
            first, last = first * factor, last * factor
            parts = (x.T @ first, first.sum(0), a.T @ last, last.sum(0))
            return jnp.concatenate([p.reshape(-1) for p in parts])

        return lambda: sums(*arrays).block_until_ready()

    def in_opacus(ghost):
        def build():
            import torch

            first, last = torch.nn.Linear(m, n), torch.nn.Linear(n, k)
            with torch.no_grad():
                for layer, weight in ((first, w1), (last, w2)):
                    layer.weight.copy_(torch.from_numpy(weight).T)
                    layer.bias.zero_()
            model = torch.nn.Sequential(first, torch.nn.ReLU(), last)
            loss = torch.nn.CrossEntropyLoss(reduction="sum")
            return opacus_step(model, loss, torch.from_numpy(x), torch.from_numpy(y), ghost)

        return build

    contestants = [
        ("torch by hand", "torch", in_torch),
        ("jax by hand", "jax", in_jax),
        ("opacus hooks", "opacus", in_opacus(False)),
        ("opacus ghost", "opacus", in_opacus(True)),
    ]
    return Task(f"perceptron/{batch}", ["perceptron", str(batch)], contestants, RECORDS / batch)


def main():
    args = arguments()
    bind(args.threads)
    try:
        import numpy  # noqa: F401  the data are made with it
    except ImportError:
        sys.exit("numpy is not installed: the others are compared with it")
    try:
        import torch

        torch.set_num_threads(args.threads)
    except ImportError:
        pass
    out = {"rows": [], "skipped": [], "failed": []}
    shrink = 10 if args.quick else 1
    for n, d in ((100_000 // shrink, 1000), (1_000_000 // shrink, 50), (10_000, 100)):
        run(logistic(n, d), args, out)
    for batch in (256, 2048):
        run(perceptron(batch), args, out)
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
