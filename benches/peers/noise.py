"""Noise alone in other tools: one array of so many draws; prefix noise for all steps of a period."""

import numpy as np

from problems import Problem, noise_of

SIGMA = 2.0
BAND = 4
# OpenDP draws one number at a time: so many are timed, and the time is multiplied.
FEW = 2_000


def noise(words, folder):
    kind, dim = words[0], int(words[1])
    steps = int(words[2]) if kind.startswith("prefix") else 1

    def numpy_normal():
        draw = np.random.default_rng()
        return lambda: SIGMA * draw.standard_normal(dim, dtype=np.float32)

    def torch_normal():
        import torch

        return lambda: torch.normal(0.0, SIGMA, (dim,)).numpy()

    def opacus_secure():
        import torch
        from opacus.optimizers.optimizer import _generate_noise

        reference = torch.zeros(dim)
        return lambda: _generate_noise(SIGMA, reference, secure_mode=True).numpy()

    def jax_normal():
        import jax

        draw = jax.jit(lambda key: SIGMA * jax.random.normal(key, (dim,)))
        keys = iter(jax.random.split(jax.random.key(1), 10_000))
        return lambda: np.asarray(draw(next(keys)))

    def jax_privacy():
        import jax
        import jax.numpy as jnp
        from jax_privacy import noise_addition
        from jax_privacy.matrix_factorization import toeplitz

        if kind in ("rounded", "prefix-independent"):
            privatizer = noise_addition.gaussian_privatizer(stddev=SIGMA, prng_key=1)
        else:
            coefficients = toeplitz.optimal_max_error_strategy_coefs(steps)
            if kind == "prefix-banded":
                coefficients = coefficients[:BAND]
            matrix = toeplitz.inverse_as_streaming_matrix(coefficients)
            privatizer = noise_addition.matrix_factorization_privatizer(matrix, stddev=SIGMA, prng_key=1)
        nothing = jnp.zeros(dim)
        update = jax.jit(privatizer.update)
        state = privatizer.init(nothing)
        if steps == 1:
            held = [state]

            def one():
                found, held[0] = update(nothing, held[0])
                return np.asarray(found)

            return one

        def period():
            at = state
            for step in range(steps):
                found, at = update(nothing, at)
                if step == 0:
                    first = found
            found.block_until_ready()
            # The first step has the plain noise of every strategy.
            return np.asarray(first)

        return period

    def opendp(integers):
        def build():
            import opendp.prelude as dp

            dp.enable_features("contrib")
            if integers:
                domain, metric = dp.atom_domain(T=int), dp.l2_distance(T=int)
            else:
                domain, metric = dp.atom_domain(T=float, nan=False), dp.l2_distance(T=float)
            mechanism = dp.m.make_gaussian(dp.vector_domain(domain), metric, 1000 * SIGMA)
            zeros = [0 if integers else 0.0] * min(dim, FEW)
            call = lambda: np.asarray(mechanism(zeros)) / 1000
            call.times = dim / len(zeros)
            return call

        return build

    builders = {
        "numpy": numpy_normal,
        "torch": torch_normal,
        "jax": jax_normal,
        "opacus, secure": opacus_secure,
        "jax-privacy": jax_privacy,
        "opendp": opendp(kind == "discrete"),
    }

    def check(name, calls):
        noise_of(calls["step"](), SIGMA)
        scale = getattr(calls["step"], "times", 1)
        return f"{FEW} draws, times {scale:g}" if scale != 1 else ""

    if kind.startswith("prefix"):
        names = [] if kind in ("prefix-tree", "prefix-honaker") else ["jax-privacy"]
    else:
        names = builders if kind == "rounded" else ["opendp"]
    return Problem(names, lambda name: {"step": builders[name]()}, check)


TASKS = {"noise": noise}
