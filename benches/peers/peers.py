"""Times the clipped step of `peer` (this project) and of other tools, alternating in one process.

usage: peers.py --threads N [--quick] -- COMMAND...

COMMAND starts our side (`benches/src/bin/peer.rs`); the task and the number of threads are appended to it.
It answers each line on its input with the seconds of one step. A package that is missing is skipped, and
the result says so. Everything, our side too, is bound to the first N processors. Two things are timed:

- sum: one sum of clipped gradients in single precision, without noise. Our side, which has no such thing, is timed for a step
  less the same number of draws by themselves, both of the same round.
- step: the same with noise: ours exact and from a cryptographic generator, theirs what their users get by default.

Row norms are computed before. The answers of the tools are compared with each other; one that differs is a failure and
has no time. A ratio is theirs over ours in the same round: the median of the rounds, and the range of all but the lowest and
the highest tenth. Where that range has 1 inside, or fewer than ten rounds were measured, there is no claim.

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
NOISE = 1.0  # times the clip
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

    def seconds(self, word):
        self.child.stdin.write(word + "\n")
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
    """One problem: its contestants are (name, package, builder); a builder takes the noise multiplier and returns a step
    that returns the sum as a NumPy array in the order of the first contestant's, with noise where the multiplier is
    above 0. `steps` is how many of them the times are of."""

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
            both = [build(noise) for noise in (0.0, NOISE)]
            found = np.asarray(both[0](), dtype=np.float64).ravel()
            if reference is None:
                reference = found
            error = np.linalg.norm(found - reference) / np.linalg.norm(reference)
            if not error < 1e-3:
                raise RuntimeError(f"its sum differs by {error:.1e} of the norm")
            added = np.asarray(both[1](), dtype=np.float64).ravel() - found
            # Of d normal numbers; the standard deviation of theirs is NOISE * CLIP within a part in sqrt(d/2).
            spread = np.sqrt(np.mean(added**2)) / (NOISE * CLIP)
            if not abs(spread - 1) < 8 / np.sqrt(2 * added.size):
                raise RuntimeError(f"its noise is {spread:.3f} times what was asked for")
            steps[name] = ([timed(step) for step in both], version)
        except Exception as error:  # a tool that can't do this must not end the others
            out["failed"].append(entry | {"reason": f"{type(error).__name__}: {error}"[:300]})
    ours = Ours(args.ours, task.words + [str(args.threads)])
    times = {(name, kind): [] for name in ["dpopt", *steps] for kind in ("sum", "step")}
    rounds, budget = (5, 1.0) if args.quick else (25, 4.0)
    for _ in range(rounds):
        step = ours.seconds("step")
        times["dpopt", "step"].append(step)
        times["dpopt", "sum"].append(step - ours.seconds("noise"))
        for name, (both, _) in steps.items():
            for kind, seconds in zip(("sum", "step"), both):
                so_far = times[name, kind]
                if sum(so_far) < budget or len(so_far) < 3:
                    so_far.append(seconds())
    ours.close()
    versions = {name: version for name, (_, version) in steps.items()} | {"dpopt": "this"}
    for (name, kind), seconds in times.items():
        # Round by round: what slows the machine down slows both. A round whose draws took longer than its step says nothing.
        pairs = [(their, our) for their, our in zip(seconds, times["dpopt", kind]) if our > 0]
        ratios = sorted(their / our for their, our in pairs) or [float("nan")]
        cut = len(ratios) // 10
        low, high = ratios[cut], ratios[-1 - cut]
        out["rows"].append(
            {
                "id": f"{task.name}/t{args.threads}/{kind}/{name}",
                "version": versions[name],
                "seconds": task.steps * sorted(seconds)[len(seconds) // 2],
                "fastest": task.steps * min(seconds),
                "ratio": ratios[len(ratios) // 2],
                "low": low,
                "high": high,
                "claim": name != "dpopt" and len(ratios) >= 10 and not low <= 1 <= high,
                "repeats": len(seconds),
            }
        )
    steps.clear()
    gc.collect()


def noisy(sums, noise, package):
    """`sums` plus the noise that users of a package without one of its own write: its default generator, single precision."""
    if not noise:
        return sums
    if package == "numpy":
        import numpy as np

        draw = np.random.default_rng()
        return lambda: (found := sums()) + np.float32(noise * CLIP) * draw.standard_normal(
            found.shape, dtype=np.float32
        )
    if package == "torch":
        import torch

        return lambda: (found := sums()) + torch.normal(0.0, noise * CLIP, found.shape)
    import jax

    add = jax.jit(lambda found, key: found + noise * CLIP * jax.random.normal(key, found.shape))
    keys = iter(jax.random.split(jax.random.key(time.time_ns() % 2**31), 10_000))
    return lambda: add(sums(), next(keys))


def in_torch(sums, noise):
    """A step of torch from the tensor of its sums."""
    step = noisy(sums, noise, "torch")
    return lambda: step().numpy()


def in_jax(sums, noise):
    """A step of JAX from the array of its sums."""
    step = noisy(sums, noise, "jax")
    return lambda: step().block_until_ready()


def scores(x, y, w, norms, name, words):
    """The sum of clip(-y x / (1 + e^(y <w, x>)), CLIP) over the rows of `x`, a matrix of NumPy or a sparse one of SciPy."""
    import numpy as np

    sparse = not isinstance(x, np.ndarray)

    def numpy_closed(noise):
        def sums():
            s = -y / (1 + np.exp(y * (x @ w)))
            return (s * np.minimum(1, CLIP / (np.abs(s) * norms + 1e-30))) @ x

        return noisy(sums, noise, "numpy")

    def torch_closed(noise):
        import torch

        ty, tw, tn = map(torch.from_numpy, (y, w, norms))
        if sparse:
            parts = (x.indptr, x.indices, x.data)
            tx = torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=x.shape)
            back = x.T.tocsr()
            parts = (back.indptr, back.indices, back.data)
            back = torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=back.shape)
        else:
            tx = torch.from_numpy(x)
            back = tx.T

        def sums():
            s = -ty * torch.sigmoid(-ty * (tx @ tw))
            return back @ (s * torch.clamp(CLIP / (s.abs() * tn + 1e-30), max=1))

        return in_torch(sums, noise)

    def torch_vmap(noise):
        import torch

        tx, ty, tw = map(torch.from_numpy, (x, y, w))

        def loss(w, x, y):
            return torch.nn.functional.softplus(-y * (x @ w))

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

        def sums():
            g = each(tw, tx, ty)
            factor = torch.clamp(CLIP / (g.norm(dim=1) + 1e-30), max=1)
            return factor @ g

        return in_torch(sums, noise)

    def opacus(ghost):
        def build(noise):
            import torch

            linear = torch.nn.Linear(x.shape[1], 1, bias=False)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(w)[None])
            # One number per record: ghost clipping weighs a vector of losses.
            model = torch.nn.Sequential(linear, torch.nn.Flatten(0))
            positive = torch.from_numpy(y > 0).float()
            loss = torch.nn.BCEWithLogitsLoss(reduction="sum")
            return opacus_step(model, loss, torch.from_numpy(x), positive, ghost, noise)

        return build

    def jax_closed(noise):
        import jax
        import jax.numpy as jnp

        jx, jy, jw, jn = map(jnp.asarray, (x, y, w, norms))

        @jax.jit
        def sums(w, x, y, norms):
            s = -y * jax.nn.sigmoid(-y * (x @ w))
            return (s * jnp.minimum(1, CLIP / (jnp.abs(s) * norms + 1e-30))) @ x

        return in_jax(lambda: sums(jw, jx, jy, jn), noise)

    def jax_privacy(noise):
        import jax
        import jax.numpy as jnp
        from jax_privacy.clipping import clipped_grad

        jx, jy, jw = map(jnp.asarray, (x, y, w))

        def loss(w, x, y):
            return jax.nn.softplus(-y * (x @ w))

        sums = jax.jit(clipped_grad(loss, l2_clip_norm=CLIP, batch_argnums=(1, 2), keep_batch_dim=False))
        return in_jax(lambda: sums(jw, jx, jy), noise)

    if sparse:
        contestants = [
            ("scipy closed form", "scipy", numpy_closed),
            ("torch closed form", "torch", torch_closed),
        ]
        return Task(name, words, contestants)
    contestants = [
        ("numpy closed form", "numpy", numpy_closed),
        ("torch closed form", "torch", torch_closed),
        ("jax closed form", "jax", jax_closed),
        ("torch vmap", "torch", torch_vmap),
        ("opacus hooks", "opacus", opacus(False)),
        ("opacus ghost", "opacus", opacus(True)),
        ("jax-privacy", "jax-privacy", jax_privacy),
    ]
    return Task(name, words, contestants)


def logistic(n, d):
    """Dense rows of about unit norm."""
    import numpy as np

    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (n, d)).astype(np.float32) * np.float32((3 / d) ** 0.5)
    y = np.where(draw.random(n) < 0.5, -1, 1).astype(np.float32)
    w = np.sin(np.arange(d)).astype(np.float32)
    norms = np.linalg.norm(x, axis=1)
    return scores(x, y, w, norms, f"logistic/{n}x{d}", ["logistic", str(n), str(d)])


def one_hot(n, d, fields):
    """One-hot rows: a one in each of `fields` ranges of columns, over sqrt(fields)."""
    import numpy as np

    try:
        import scipy.sparse
    except ImportError:
        return None
    draw = np.random.default_rng(1)
    width = d // fields
    product = np.abs(draw.uniform(-1, 1, (n, fields)) * draw.uniform(-1, 1, (n, fields)))
    columns = (product * width).astype(np.int32) + np.arange(fields, dtype=np.int32) * width
    ones = np.full(n * fields, fields**-0.5, np.float32)
    starts = np.arange(0, n * fields + 1, fields, dtype=np.int32)
    x = scipy.sparse.csr_matrix((ones, columns.ravel(), starts), shape=(n, d))
    y = np.where(draw.random(n) < 0.5, -1, 1).astype(np.float32)
    w = np.sin(np.arange(d)).astype(np.float32)
    words = ["one-hot", str(n), str(d), str(fields)]
    return scores(x, y, w, np.ones(n, np.float32), f"one-hot/{n}x{d}/{fields}", words)


def opacus_step(model, criterion, x, y, ghost, noise):
    """One sum of clipped gradients with noise as Opacus's optimisers form it."""
    import numpy as np
    import torch
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    settings = {"noise_multiplier": noise, "max_grad_norm": CLIP, "expected_batch_size": None}
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


def images(batch):
    """Made-up images of 784 pixels in [0, 1] in ten classes."""
    import numpy as np

    draw = np.random.default_rng(2)
    x = (draw.integers(0, 256, (batch, SIZES[0])) / 255).astype(np.float32)
    return x, draw.integers(0, SIZES[2], batch), draw


def softmax(batch):
    """Multinomial regression of ten classes without an intercept."""
    import numpy as np

    m, k = SIZES[0], SIZES[2]
    x, y, _ = images(batch)
    one_hot = np.eye(k, dtype=np.float32)[y]
    w = np.sin(np.arange(m * k)).astype(np.float32).reshape(m, k)

    def torch_hand(noise):
        import torch

        tx, ty, tw = map(torch.from_numpy, (x, one_hot, w))
        tn = tx.norm(dim=1)

        def sums():
            last = torch.softmax(tx @ tw, 1) - ty
            factor = torch.clamp(CLIP / (tn * last.norm(dim=1) + 1e-30), max=1)[:, None]
            return (tx.T @ (last * factor)).reshape(-1)

        return in_torch(sums, noise)

    def jax_hand(noise):
        import jax
        import jax.numpy as jnp

        arrays = [jnp.asarray(v) for v in (x, one_hot, w, np.linalg.norm(x, axis=1))]

        @jax.jit
        def sums(x, y, w, norms):
            last = jax.nn.softmax(x @ w) - y
            factor = jnp.minimum(1, CLIP / (norms * jnp.linalg.norm(last, axis=1) + 1e-30))
            return (x.T @ (last * factor[:, None])).reshape(-1)

        return in_jax(lambda: sums(*arrays), noise)

    def opacus(noise):
        import torch

        linear = torch.nn.Linear(m, k, bias=False)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(w).T)
        loss = torch.nn.CrossEntropyLoss(reduction="sum")
        return opacus_step(
            torch.nn.Sequential(linear), loss, torch.from_numpy(x), torch.from_numpy(y), True, noise
        )

    contestants = [
        ("torch by hand", "torch", torch_hand),
        ("jax by hand", "jax", jax_hand),
        ("opacus ghost", "opacus", opacus),
    ]
    return Task(f"softmax/{batch}", ["softmax", str(batch)], contestants, RECORDS / batch)


def perceptron(batch):
    """Ghost clipping of 784-128-10 with ReLU and cross-entropy; times are those of an epoch."""
    import numpy as np

    m, n, k = SIZES
    x, y, draw = images(batch)
    one_hot = np.eye(k, dtype=np.float32)[y]
    w1 = (draw.uniform(-1, 1, (m, n)) * (6 / m) ** 0.5).astype(np.float32)
    w2 = (draw.uniform(-1, 1, (n, k)) * (6 / n) ** 0.5).astype(np.float32)
    b1, b2 = np.zeros(n, np.float32), np.zeros(k, np.float32)

    def torch_hand(noise):
        import torch

        tx, ty, t1, t2, c1, c2 = map(torch.from_numpy, (x, one_hot, w1, w2, b1, b2))
        tn = (tx * tx).sum(1) + 1

        def sums():
            a = torch.relu(torch.addmm(c1, tx, t1))
            last = torch.softmax(torch.addmm(c2, a, t2), 1) - ty
            first = (last @ t2.T) * (a > 0)
            square = tn * (first * first).sum(1) + ((a * a).sum(1) + 1) * (last * last).sum(1)
            factor = torch.clamp(CLIP / (square.sqrt() + 1e-30), max=1)[:, None]
            first, last = first * factor, last * factor
            parts = (tx.T @ first, first.sum(0), a.T @ last, last.sum(0))
            return torch.cat([p.reshape(-1) for p in parts])

        return in_torch(sums, noise)

    def jax_hand(noise):
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

        return in_jax(lambda: sums(*arrays), noise)

    def opacus(ghost):
        def build(noise):
            import torch

            first, last = torch.nn.Linear(m, n), torch.nn.Linear(n, k)
            with torch.no_grad():
                for layer, weight in ((first, w1), (last, w2)):
                    layer.weight.copy_(torch.from_numpy(weight).T)
                    layer.bias.zero_()
            model = torch.nn.Sequential(first, torch.nn.ReLU(), last)
            loss = torch.nn.CrossEntropyLoss(reduction="sum")
            return opacus_step(model, loss, torch.from_numpy(x), torch.from_numpy(y), ghost, noise)

        return build

    contestants = [
        ("torch by hand", "torch", torch_hand),
        ("jax by hand", "jax", jax_hand),
        ("opacus hooks", "opacus", opacus(False)),
        ("opacus ghost", "opacus", opacus(True)),
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
    sparse = one_hot(200_000 // shrink, 500, 36)
    if sparse is None:
        out["skipped"].append({"id": f"one-hot/t{args.threads}", "reason": "scipy is not installed"})
    else:
        run(sparse, args, out)
    run(softmax(2048), args, out)
    for batch in (256, 2048):
        run(perceptron(batch), args, out)
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
