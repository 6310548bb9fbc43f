"""Accounting of DP-SGD in other tools (rate 0.01, 10,000 steps, delta 1e-5, add-remove), and the bound of an audit in one run."""

from problems import Problem, ours

RATE, STEPS, DELTA = 0.01, 10_000, 1e-5
# The error in epsilon that tools with a choice are asked for: Opacus' default. Ours keeps a thousandth.
ERROR = 1e-2


def account(words, folder):
    question, kind = words

    def event(z):
        import dp_accounting as dp

        sampled = dp.PoissonSampledDpEvent(RATE, dp.GaussianDpEvent(z))
        return dp.SelfComposedDpEvent(sampled, STEPS)

    def dp_accounting(make):
        def build():
            import dp_accounting as dp

            if question == "epsilon":
                return lambda: float(make().compose(event(1.0)).get_epsilon(DELTA))
            return lambda: float(dp.calibrate_dp_mechanism(make, event, 1.0, DELTA, tol=ERROR))

        return build

    def rdp():
        import dp_accounting as dp

        return dp.rdp.RdpAccountant()

    def pld():
        import dp_accounting as dp

        return dp.pld.PLDAccountant(value_discretization_interval=1e-4)

    def opacus(name):
        def build():
            from opacus.accountants import create_accountant
            from opacus.accountants.utils import get_noise_multiplier

            more = {"eps_error": ERROR} if name == "prv" else {}

            def epsilon():
                accountant = create_accountant(name)
                accountant.history = [(1.0, RATE, STEPS)]
                return float(accountant.get_epsilon(DELTA, **more))

            settings = {"target_epsilon": 1.0, "target_delta": DELTA, "sample_rate": RATE, "steps": STEPS}
            tolerance = {"epsilon_tolerance": ERROR}
            calibrate = lambda: float(
                get_noise_multiplier(accountant=name, **settings, **tolerance, **more)
            )
            return epsilon if question == "epsilon" else calibrate

        return build

    def prv():
        from prv_accountant.dpsgd import DPSGDAccountant, find_noise_multiplier

        def epsilon():
            accountant = DPSGDAccountant(1.0, RATE, STEPS, eps_error=ERROR, delta_error=DELTA / 1000)
            return float(accountant.compute_epsilon(DELTA, STEPS)[2])

        calibrate = lambda: float(find_noise_multiplier(RATE, STEPS, 1.0, DELTA, eps_error=ERROR))
        return epsilon if question == "epsilon" else calibrate

    builders = {
        "dp_accounting rdp": dp_accounting(rdp),
        "dp_accounting pld": dp_accounting(pld),
        "opacus rdp": opacus("rdp"),
        "opacus prv": opacus("prv"),
        "prv_accountant": prv,
    }

    (reference,) = ours(folder, "value")

    def check(name, calls):
        value = calls["step"]()
        # Bounds by Renyi divergences are a tenth above.
        if not abs(value / reference - 1) < 0.2:
            raise RuntimeError(f"its answer {value:.4g} is far from ours, {reference:.4g}")

    fits = {"rdp": lambda name: "rdp" in name, "exact": lambda name: "rdp" not in name}
    fits["pld"] = fits["exact"]
    names = filter(fits.get(kind, lambda name: False), builders)
    return Problem(names, lambda name: {"step": builders[name]()}, check)


def audit(words, folder):
    _, canaries, guesses, correct = words[0], *map(int, words[1:4])

    def build(name):
        from jax_privacy.auditing import _epsilon_one_run

        return {"step": lambda: float(_epsilon_one_run(0.0, canaries, guesses, correct, 0.05, 1e-6))}

    return Problem(["jax-privacy"], build, lambda name, calls: calls["step"]() and None)


TASKS = {"account": account, "audit": audit}
