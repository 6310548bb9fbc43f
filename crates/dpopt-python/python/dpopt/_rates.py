"""Whether a solver does what its theorem says: the exponent of its error, measured."""

import math
from dataclasses import dataclass

import numpy as np

from ._values import count, real
from .errors import DPUserError

#: Of the interval.
CONFIDENCE = 0.95
#: Sets of seeds that are drawn anew from those that were run.
RESAMPLED = 2000


@dataclass(frozen=True)
class Rate:
    """A claim that an error goes as a power of ``at``, and what was measured of it."""

    predicted: float
    #: The exponent of the least-squares line through the logarithms of the mean errors.
    measured: float
    #: Covers two intervals of 95 %: that of the regression (Student's t), which shows how straight the points lie, and that of resampled seeds,
    #: which shows how lucky the runs were.
    interval: tuple[float, float]
    at: tuple[float, ...]
    #: Mean errors over seeds.
    errors: tuple[float, ...]
    #: Why the claim is not confirmed; empty, where it is.
    against: tuple[str, ...]

    @property
    def passes(self):
        """Whether the claim is confirmed."""
        return not self.against

    def __str__(self):
        low, high = self.interval
        said = f"exponent {self.measured:.3f} ({low:.3f} to {high:.3f}) where {self.predicted:g} is predicted, at {self.at[0]:g} to {self.at[-1]:g}: "
        return said + ("passes" if self.passes else "FAILS: " + "; ".join(self.against))


def verify_rate(run, at, *, predicted, tolerance, upper=False, seeds=20, width=None, bound=None, floor=None):
    """Measures how the error of a solver goes with one of its arguments, as ``cargo xtask verify-rates`` does for the solvers of the library.

    ``run(x, seed)``: one run, and its error, a number above 0. ``at``: arguments, three at least, over a decade or more. ``predicted``: the
    exponent of the theorem; ``upper=True``: it bounds the exponent from above. The :class:`Rate` passes when the exponent is within
    ``tolerance`` of it, the interval is no wider than ``width`` (twice the tolerance unless it is given), no error is above ``bound(x)`` or
    below ``floor(x)`` in the root mean square, and no run failed. Fix all of these before the first run. A measurement that can't fail shows
    nothing: measure a broken twin of the solver too, and see it fail.

    Errors are of made-up records: what a run returns here is not protected.
    """
    try:
        arguments = [float(x) for x in at]
    except (TypeError, ValueError):
        raise DPUserError(f"at= is a list of numbers, not {at!r}") from None
    if len(arguments) < 3 or not all(0 < x < math.inf for x in arguments) or len(set(arguments)) < 3:
        raise DPUserError("at= has three arguments at least, above 0 and no two the same: of fewer there is no interval")
    predicted, tolerance = real("predicted", predicted), real("tolerance", tolerance)
    width = 2.0 * tolerance if width is None else real("width", width)
    seeds = count("seeds", seeds, 2)
    if not (0 < tolerance < math.inf and width > 0):
        raise DPUserError("tolerance= and width= are above 0")
    found, against = np.full((len(arguments), seeds), np.nan), []
    for i, (x, given) in enumerate(zip(arguments, at)):
        for seed in range(seeds):
            try:
                found[i, seed] = float(run(given, seed))
            except Exception as error:
                against.append(f"a run failed at {x:g}, seed {seed}: {error}")
    odd = int((~(found > 0) | ~np.isfinite(found)).sum())
    if odd:
        against.append(f"{odd} of {found.size} errors are no numbers above 0")
        return Rate(predicted, math.nan, (-math.inf, math.inf), tuple(arguments), tuple(found.mean(axis=1)), tuple(against[-1:] + against[:3]))
    logs = np.log(arguments)
    measured, error = _line(logs, np.log(found.mean(axis=1)))
    half = _student(0.5 + CONFIDENCE / 2, len(arguments) - 2) * error
    draws = np.random.default_rng(0).integers(seeds, size=(RESAMPLED, len(arguments), seeds))
    again = np.take_along_axis(found[None], draws, axis=2).mean(axis=2)
    slopes = np.array([_line(logs, np.log(means))[0] for means in again])
    ends = np.quantile(slopes, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    low, high = min(measured - half, ends[0]), max(measured + half, ends[1])
    off = measured - predicted if upper else abs(measured - predicted)
    if off > tolerance:
        against.append(f"the exponent is off by {off:.3f}, and the tolerance is {tolerance:g}")
    if high - low > width:
        against.append(f"the interval is {high - low:.3f} wide, and decides nothing above {width:g}")
    for x, given, rms in zip(arguments, at, np.sqrt(np.square(found).mean(axis=1))):
        for limit, wrong, word in ((bound, rms.__gt__, "above its bound"), (floor, rms.__lt__, "below its floor")):
            if limit is not None and wrong(float(limit(given))):
                against.append(f"an error of {rms:.4g} at {x:g} is {word}, {float(limit(given)):.4g}")
    return Rate(predicted, measured, (float(low), float(high)), tuple(arguments), tuple(map(float, found.mean(axis=1))), tuple(against))


def _line(x, y):
    """The slope of a least-squares line, and its standard error."""
    centred = x - x.mean()
    squares = float(centred @ centred)
    slope = float(centred @ y) / squares
    rest = y - y.mean() - slope * centred
    return slope, math.sqrt(float(rest @ rest) / ((len(x) - 2) * squares))


def _student(probability, freedom):
    """The quantile of Student's t, for a whole number of degrees of freedom: the law in closed form, inverted by halving."""

    def below(t):
        angle = math.atan(t / math.sqrt(freedom))
        cos, term, total = math.cos(angle), 1.0, 1.0
        if freedom % 2 == 0:
            for k in range(1, freedom // 2):
                term *= cos * cos * (2 * k - 1) / (2 * k)
                total += term
            return 0.5 + math.sin(angle) / 2 * total
        if freedom == 1:
            return 0.5 + angle / math.pi
        for k in range(1, (freedom - 1) // 2):
            term *= cos * cos * (2 * k) / (2 * k + 1)
            total += term
        return 0.5 + (angle + math.sin(angle) * cos * total) / math.pi

    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return high
