"""Measured exponents: of laws that are known, of steps of one's own, and of twins that must be caught."""

import dpopt
import numpy as np
import pytest
from dpopt import PrivateSteps, verify_rate
from dpopt._rates import _line, _student
from scipy import stats

AT = [100, 300, 1000, 3000, 10_000]


def power(exponent, spread=0.2):
    """An error that goes as a power, with a spread that has nothing to do with it."""
    return lambda x, seed: x**exponent * np.exp(spread * np.random.default_rng([seed, int(x)]).normal())


def test_quantiles_and_lines_are_those_of_scipy():
    for freedom in (*range(1, 12), 30, 31):
        for probability in (0.6, 0.9, 0.975, 0.999):
            assert np.isclose(_student(probability, freedom), stats.t.ppf(probability, freedom), rtol=1e-9)
    x, y = np.log(AT), np.array([1.0, 0.3, -0.2, -1.5, -1.9])
    theirs = stats.linregress(x, y)
    assert np.allclose(_line(x, y), (theirs.slope, theirs.stderr))


@pytest.mark.parametrize(("exponent", "predicted", "upper", "passes"), [
    (-0.5, -0.5, False, True),
    (-0.5, -0.6667, False, False),
    (-0.6667, -0.5, True, True),
    (-0.4, -0.5, True, False),
])
def test_an_exponent_is_confirmed_or_not(exponent, predicted, upper, passes):
    found = verify_rate(power(exponent), AT, predicted=predicted, tolerance=0.05, upper=upper)
    assert found.passes == passes and abs(found.measured - exponent) < 0.03
    assert ("passes" in str(found)) == passes
    low, high = found.interval
    assert low <= found.measured <= high and len(found.errors) == 5


def test_intervals_cover_the_exponent():
    covered = 0
    for trial in range(100):
        found = verify_rate(lambda x, seed: power(-0.5, 0.5)(x, seed + 1000 * trial), AT, predicted=-0.5, tolerance=0.2, seeds=5)
        covered += found.interval[0] <= -0.5 <= found.interval[1]
    # It covers an interval of 95 %: 95 with a standard deviation of 2.2. False alarms below 1e-6.
    assert covered >= 83


def steps(noise):
    """One private mean of n records at mu = 1, against a prediction of n^-1."""

    def run(n, seed):
        n = int(n)
        with PrivateSteps(records=n, dim=20, clip=1.0, noise_multiplier=noise(n), steps=1, adjacency="zero-out") as private:
            positions = private.draw()
            private.add(np.zeros((len(positions), 20)))
            return float(np.linalg.norm(private.release()))

    return run


def test_own_steps_have_their_rate_and_a_twin_is_caught():
    claim = dict(predicted=-1.0, tolerance=0.05, bound=lambda n: 20**0.5 * 1.3 / n)
    found = verify_rate(steps(lambda n: 1.0), AT, **claim)
    assert found.passes, str(found)
    # Noise that grows with the records: the exponent tells; noise that is twice as much: the bound does.
    assert "off by" in str(verify_rate(steps(lambda n: n**0.5), AT, **claim))
    assert "above its bound" in str(verify_rate(steps(lambda n: 2.0), AT, **claim))
    assert "below its floor" in str(verify_rate(steps(lambda n: 0.1), AT, **claim, floor=lambda n: 20**0.5 * 0.7 / n))


def test_runs_that_fail_or_say_little_confirm_nothing():
    def fails(x, seed):
        if seed == 3:
            raise RuntimeError("no memory")
        return 1.0

    for run in (fails, lambda x, seed: float("nan"), lambda x, seed: 0.0, lambda x, seed: -1.0):
        found = verify_rate(run, AT, predicted=0.0, tolerance=0.1)
        assert not found.passes and "FAILS" in str(found)
    assert "no memory" in str(verify_rate(fails, AT, predicted=0.0, tolerance=0.1))
    wild = verify_rate(power(-0.5, 3.0), AT[:3], predicted=-0.5, tolerance=0.1, seeds=3)
    assert "decides nothing" in str(wild)


@pytest.mark.parametrize("wrong", [
    dict(at=[1, 10]), dict(at=[1, 10, 10]), dict(at=[0, 1, 10]), dict(at="abc"), dict(at=3), dict(tolerance=0), dict(seeds=1),
    dict(predicted="half"), dict(width=-1.0),
])
def test_claims_that_can_not_be_measured_are_refused(wrong):
    with pytest.raises(dpopt.DPUserError):
        verify_rate(power(-0.5), **{**dict(at=AT, predicted=-0.5, tolerance=0.1), **wrong})
