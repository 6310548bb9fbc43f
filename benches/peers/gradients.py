"""Clipped sums of gradients and other queries in other tools."""

import itertools
import os
import time

import numpy as np

import problems
from problems import CLIP, NOISE, Problem, noise_of, ours, same


def pair(words, count):
    return [int(word) for word in words[:count]]


def noisy(sums, noise, package):
    """`sums` plus the noise that users of a package without one of its own write: its default generator, single precision."""
    if not noise:
        return sums
    if package == "numpy":
        draw = np.random.default_rng()
        return lambda: (found := sums()) + np.float32(noise) * draw.standard_normal(
            found.shape, dtype=np.float32
        )
    if package == "torch":
        import torch

        return lambda: (found := sums()) + torch.normal(0.0, noise, found.shape)
    import jax

    add = jax.jit(lambda found, key: found + noise * jax.random.normal(key, found.shape))
    keys = itertools.cycle(jax.random.split(jax.random.key(time.time_ns() % 2**31), 10_000))
    return lambda: add(sums(), next(keys))


def finished(sums, noise, package):
    """A step from what adds up: an array of NumPy in the end."""
    step = noisy(sums, noise, package)
    if package == "torch":
        return lambda: step().numpy()
    if package == "jax":
        return lambda: np.asarray(step())
    return step


def compared(folder, builders, clip=CLIP, tolerance=1e-3):
    """A problem whose tools add up what ours does. A builder takes the standard deviation of the noise, 0 for none."""
    reference = ours(folder, "sum")

    def build(name):
        both = {kind: builders[name](sigma) for kind, sigma in (("sum", 0.0), ("step", NOISE * clip))}
        return {kind: call for kind, call in both.items() if call is not None}

    def check(name, calls):
        if "sum" not in calls:  # noise is all there is: it is compared as noise of our sum
            found = np.asarray(calls["step"](), dtype=np.float64).ravel()
            return noise_of(found - reference, NOISE * clip)
        found = np.asarray(calls["sum"](), dtype=np.float64).ravel()
        same(found, reference, tolerance)
        added = np.asarray(calls["step"](), dtype=np.float64).ravel() - found
        noise_of(added, NOISE * clip)

    return Problem(builders, build, check)


def opacus_step(model, criterion, x, y, ghost, noise, secure=False, by_input=True):
    """One sum of clipped gradients with noise as Opacus's optimisers form it. Its secure mode adds up four draws; its users give it a cryptographic
    generator too, a package that no longer builds: the default one is in its place, which is faster."""
    import torch
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    if secure and not noise:
        return None
    settings = {
        "noise_multiplier": noise / CLIP,
        "max_grad_norm": CLIP,
        "expected_batch_size": None,
        "secure_mode": secure,
    }
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
        # As a row per input, then the biases; of one layer as a row per class.
        parts = [(g.T if g.dim() == 2 and by_input else g).reshape(-1) for g in found]
        return torch.cat(parts).numpy() if len(parts) > 1 else np.asarray(parts[0])

    return step


def scores(x, y, w, norms, folder):
    """The sum of clip(-y x / (1 + e^(y <w, x>)), CLIP) over the rows of `x`, a matrix of NumPy or a sparse one of SciPy."""
    sparse = hasattr(x, "indptr")

    def numpy_closed(noise):
        def sums():
            s = -y / (1 + np.exp(y * (x @ w)))
            return (s * np.minimum(1, CLIP / (np.abs(s) * norms + 1e-30))) @ x

        return finished(sums, noise, "numpy")

    def torch_closed(noise):
        import torch

        ty, tw, tn = map(torch.from_numpy, (y, w, norms))
        if sparse:
            back = x.T.tocsr()

            def turned(m):
                parts = map(torch.from_numpy, (m.indptr, m.indices, m.data))
                return torch.sparse_csr_tensor(*parts, size=m.shape)

            tx, back = turned(x), turned(back)
        else:
            tx = torch.from_numpy(x)
            back = tx.T

        def sums():
            s = -ty * torch.sigmoid(-ty * (tx @ tw))
            return back @ (s * torch.clamp(CLIP / (s.abs() * tn + 1e-30), max=1))

        return finished(sums, noise, "torch")

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

        return finished(sums, noise, "torch")

    def opacus(ghost, secure=False):
        def build(noise):
            import torch

            linear = torch.nn.Linear(x.shape[1], 1, bias=False)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(w)[None])
            # One number per record: ghost clipping weighs a vector of losses.
            model = torch.nn.Sequential(linear, torch.nn.Flatten(0))
            positive = torch.from_numpy(y > 0).float()
            loss = torch.nn.BCEWithLogitsLoss(reduction="sum")
            return opacus_step(model, loss, torch.from_numpy(x), positive, ghost, noise, secure)

        return build

    def jax_closed(noise):
        import jax
        import jax.numpy as jnp

        jx, jy, jw, jn = map(jnp.asarray, (x, y, w, norms))

        @jax.jit
        def sums(w, x, y, norms):
            s = -y * jax.nn.sigmoid(-y * (x @ w))
            return (s * jnp.minimum(1, CLIP / (jnp.abs(s) * norms + 1e-30))) @ x

        return finished(lambda: sums(jw, jx, jy, jn), noise, "jax")

    def jax_privacy(noise):
        import jax
        import jax.numpy as jnp
        from jax_privacy.clipping import clipped_grad

        jx, jy, jw = map(jnp.asarray, (x, y, w))

        def loss(w, x, y):
            return jax.nn.softplus(-y * (x @ w))

        sums = jax.jit(clipped_grad(loss, l2_clip_norm=CLIP, batch_argnums=(1, 2), keep_batch_dim=False))
        return finished(lambda: sums(jw, jx, jy), noise, "jax")

    if sparse:
        return compared(folder, {"scipy closed form": numpy_closed, "torch closed form": torch_closed})
    builders = {"numpy closed form": numpy_closed, "torch closed form": torch_closed}
    if x.dtype == np.float32:
        builders |= {
            "jax closed form": jax_closed,
            "torch vmap": torch_vmap,
            "opacus hooks": opacus(False),
            "opacus ghost": opacus(True),
            "opacus ghost, secure": opacus(True, True),
            "jax-privacy": jax_privacy,
        }
    return compared(folder, builders)


def logistic(words, folder, dtype=np.float32):
    n, d = pair(words, 2)
    x, y = problems.rows(n, d, dtype)
    w = ours(folder, "point").astype(dtype)
    return scores(x, y.astype(dtype), w, np.linalg.norm(x, axis=1), folder)


def one_hot(words, folder):
    n, d, fields = pair(words, 3)
    x, y = problems.one_hot(n, d, fields)
    w = ours(folder, "point").astype(np.float32)
    return scores(x, y, w, np.ones(n, np.float32), folder)


def file(words, folder):
    """The rows of `logistic` in a file, mapped, block by block: labels and norms are in memory."""
    n, d = pair(words, 2)
    path, block = os.path.join(folder, "rows.f32"), 1 << 16
    numbers, left = problems.Numbers(1), n * d
    with open(path, "wb") as rows:
        while left:
            taken = numbers.take(min(left, 1 << 24))
            ((3 / d) ** 0.5 * taken).astype(np.float32).tofile(rows)
            left -= len(taken)
    x = np.memmap(path, np.float32, "r", shape=(n, d))
    y = problems.labels(numbers, n)
    norms = np.concatenate([np.linalg.norm(x[a : a + block], axis=1) for a in range(0, n, block)])
    w = ours(folder, "point").astype(np.float32)

    def part(a):
        x_, y_ = np.asarray(x[a : a + block]), y[a : a + block]
        s = -y_ / (1 + np.exp(y_ * (x_ @ w)))
        return (s * np.minimum(1, CLIP / (np.abs(s) * norms[a : a + block] + 1e-30))) @ x_

    def mapped(noise):
        return finished(lambda: sum(part(a) for a in range(0, n, block)), noise, "numpy")

    return compared(folder, {"numpy, mapped": mapped})


def spider(words, folder):
    """Differences of two gradients, clipped; a difference has two inner products and one slope."""
    n, d = pair(words, 2)
    x, y = problems.rows(n, d)
    norms = np.linalg.norm(x, axis=1)
    w0, w1 = (ours(folder, name).astype(np.float32) for name in ("from", "to"))
    radius = 1e-3

    def numpy_closed(noise):
        both = np.stack([w0, w1], 1)

        def sums():
            slopes = -y[:, None] / (1 + np.exp(y[:, None] * (x @ both)))
            s = slopes[:, 1] - slopes[:, 0]
            return (s * np.minimum(1, radius / (np.abs(s) * norms + 1e-30))) @ x

        return finished(sums, noise, "numpy")

    def torch_closed(noise):
        import torch

        tx, ty, tn = map(torch.from_numpy, (x, y, norms))
        both = torch.from_numpy(np.stack([w0, w1], 1))

        def sums():
            slopes = -ty[:, None] * torch.sigmoid(-ty[:, None] * (tx @ both))
            s = slopes[:, 1] - slopes[:, 0]
            return tx.T @ (s * torch.clamp(radius / (s.abs() * tn + 1e-30), max=1))

        return finished(sums, noise, "torch")

    def jax_closed(noise):
        import jax
        import jax.numpy as jnp

        arrays = [jnp.asarray(v) for v in (x, y, norms, np.stack([w0, w1], 1))]

        @jax.jit
        def sums(x, y, norms, both):
            slopes = -y[:, None] * jax.nn.sigmoid(-y[:, None] * (x @ both))
            s = slopes[:, 1] - slopes[:, 0]
            return (s * jnp.minimum(1, radius / (jnp.abs(s) * norms + 1e-30))) @ x

        return finished(lambda: sums(*arrays), noise, "jax")

    def torch_vmap(noise):
        import torch

        tx, ty, t0, t1 = map(torch.from_numpy, (x, y, w0, w1))

        def loss(w, x, y):
            return torch.nn.functional.softplus(-y * (x @ w))

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

        def sums():
            g = each(t1, tx, ty) - each(t0, tx, ty)
            return torch.clamp(radius / (g.norm(dim=1) + 1e-30), max=1) @ g

        return finished(sums, noise, "torch")

    builders = {
        "numpy closed form": numpy_closed,
        "torch closed form": torch_closed,
        "jax closed form": jax_closed,
        "torch vmap": torch_vmap,
    }
    # Theirs subtract slopes in single precision, which are a thousandth apart.
    return compared(folder, builders, radius, 1e-2)


def softmax(words, folder):
    """Multinomial regression of ten classes without an intercept."""
    (batch,) = pair(words, 1)
    x, y = problems.images(batch)
    m, k = x.shape[1], 10
    one_hot = np.eye(k, dtype=np.float32)[y]
    w = ours(folder, "point").astype(np.float32).reshape(k, m).T.copy()

    def torch_hand(noise):
        import torch

        tx, ty, tw = map(torch.from_numpy, (x, one_hot, w))
        tn = tx.norm(dim=1)

        def sums():
            last = torch.softmax(tx @ tw, 1) - ty
            factor = torch.clamp(CLIP / (tn * last.norm(dim=1) + 1e-30), max=1)[:, None]
            return ((last * factor).T @ tx).reshape(-1)

        return finished(sums, noise, "torch")

    def jax_hand(noise):
        import jax
        import jax.numpy as jnp

        arrays = [jnp.asarray(v) for v in (x, one_hot, w, np.linalg.norm(x, axis=1))]

        @jax.jit
        def sums(x, y, w, norms):
            last = jax.nn.softmax(x @ w) - y
            factor = jnp.minimum(1, CLIP / (norms * jnp.linalg.norm(last, axis=1) + 1e-30))
            return ((last * factor[:, None]).T @ x).reshape(-1)

        return finished(lambda: sums(*arrays), noise, "jax")

    def opacus(secure):
        def build(noise):
            import torch

            linear = torch.nn.Linear(m, k, bias=False)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(w).T)
            loss = torch.nn.CrossEntropyLoss(reduction="sum")
            both = torch.from_numpy(x), torch.from_numpy(y)
            return opacus_step(torch.nn.Sequential(linear), loss, *both, True, noise, secure, False)

        return build

    return compared(
        folder,
        {
            "torch by hand": torch_hand,
            "jax by hand": jax_hand,
            "opacus ghost": opacus(False),
            "opacus ghost, secure": opacus(True),
        },
    )


def perceptron(words, folder):
    """Ghost clipping of 784-128-10 with ReLU and cross-entropy."""
    (batch,) = pair(words, 1)
    m, n, k = 784, 128, 10
    x, y = problems.images(batch)
    one_hot = np.eye(k, dtype=np.float32)[y]
    parts = np.split(ours(folder, "point").astype(np.float32), np.cumsum([m * n, n, n * k]))
    w1, b1, w2, b2 = parts[0].reshape(m, n), parts[1], parts[2].reshape(n, k), parts[3]

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

        return finished(sums, noise, "torch")

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

        return finished(lambda: sums(*arrays), noise, "jax")

    def opacus(ghost, secure=False):
        def build(noise):
            import torch

            first, last = torch.nn.Linear(m, n), torch.nn.Linear(n, k)
            with torch.no_grad():
                for layer, weight, bias in ((first, w1, b1), (last, w2, b2)):
                    layer.weight.copy_(torch.from_numpy(weight).T)
                    layer.bias.copy_(torch.from_numpy(bias))
            model = torch.nn.Sequential(first, torch.nn.ReLU(), last)
            loss = torch.nn.CrossEntropyLoss(reduction="sum")
            both = torch.from_numpy(x), torch.from_numpy(y)
            return opacus_step(model, loss, *both, ghost, noise, secure)

        return build

    return compared(
        folder,
        {
            "torch by hand": torch_hand,
            "jax by hand": jax_hand,
            "opacus hooks": opacus(False),
            "opacus ghost": opacus(True),
            "opacus ghost, secure": opacus(True, True),
        },
    )


def hessian(words, folder):
    """The lower triangle of the sum of clipped Hessians s x x^T, entries off the diagonal times sqrt 2."""
    n, d = pair(words, 2)
    x, y = problems.rows(n, d)
    w = ours(folder, "point").astype(np.float32)
    norms = np.linalg.norm(x, axis=1)
    lower = np.tril_indices(d)
    weights = np.where(lower[0] == lower[1], 1, np.sqrt(2)).astype(np.float32)

    def scaled(exp=np.exp):
        s = 1 / (1 + exp(-(x @ w)))
        s = s * (1 - s)
        s = s * np.minimum(1, CLIP / (s * norms**2 + 1e-30))
        return np.sqrt(s)[:, None] * x

    def numpy_product(noise):
        def sums():
            rows = scaled()
            return (rows.T @ rows)[lower] * weights

        return finished(sums, noise, "numpy")

    def scipy_syrk(noise):
        from scipy.linalg.blas import ssyrk

        def sums():
            # Of the transposed rows, which lie as Fortran has them: the upper triangle there.
            return ssyrk(1.0, scaled().T, lower=1)[lower] * weights

        return finished(sums, noise, "numpy")

    def torch_product(noise):
        import torch

        tx, tw, tn, to = map(torch.from_numpy, (x, w, norms, weights))
        at = torch.tril_indices(d, d)

        def sums():
            s = torch.sigmoid(tx @ tw)
            s = s * (1 - s)
            s = s * torch.clamp(CLIP / (s * tn**2 + 1e-30), max=1)
            return (tx.T @ (s[:, None] * tx))[at[0], at[1]] * to

        return finished(sums, noise, "torch")

    builders = {"numpy": numpy_product, "scipy syrk": scipy_syrk, "torch": torch_product}
    return compared(folder, builders)


def slopes(words, folder):
    """Slopes of the absolute loss along a frame that all records share, in double precision."""
    n, d = pair(words, 2)
    x, y = problems.rows(n, d, np.float64)
    w = ours(folder, "point")
    frame = np.ascontiguousarray(ours(folder, "directions").reshape(d, d).T)
    a = 0.1
    # Of Frames of d directions: the least radius that the slopes of a loss of Lipschitz constant 1 don't exceed.
    radius = max(d / 2, 1 + (d - 1) * (2**0.5 - 1) ** 2) ** 0.5

    def numpy_product(noise):
        def sums():
            at, along = (x @ w - y)[:, None], a * (x @ frame)
            s = (np.abs(at + along) - np.abs(at - along)) / (2 * a)
            norms = np.sqrt(np.einsum("ij,ij->i", s, s))
            return np.minimum(1, radius / (norms + 1e-300)) @ s

        return finished(sums, noise, "numpy")

    def torch_product(noise):
        import torch

        tx, ty, tw, tf = map(torch.from_numpy, (x, y.astype(np.float64), w, frame))

        def sums():
            at, along = (tx @ tw - ty)[:, None], a * (tx @ tf)
            s = ((at + along).abs() - (at - along).abs()) / (2 * a)
            return torch.clamp(radius / (s.norm(dim=1) + 1e-300), max=1) @ s

        return finished(sums, noise, "torch")

    return compared(folder, {"numpy": numpy_product, "torch": torch_product}, radius)


TASKS = {
    "logistic": logistic,
    "logistic64": lambda words, folder: logistic(words, folder, np.float64),
    "one-hot": one_hot,
    "file": file,
    "spider": spider,
    "softmax": softmax,
    "perceptron": perceptron,
    "hessian": hessian,
    "slopes": slopes,
}
