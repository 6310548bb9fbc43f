"""What releases cost, and the noise or the steps that a budget allows.

Two conventions change the number, so neither is assumed:

- ``adjacency``: which data sets are neighbours. ``"add-remove"`` is that of Opacus, dp_accounting and most papers on DP-SGD;
  ``"replace-one"`` exchanges a record, at twice the sensitivity; ``"zero-out"`` exchanges one for a record that contributes nothing.
- what a noise multiplier is over. In an :class:`Event` it is over the sensitivity. In the functions that take one as a number it is over
  the clip radius, as in Opacus, unless ``noise_over="sensitivity"``. They differ under replace-one alone, by a factor of two.
"""

import json
from dataclasses import dataclass

import numpy as np

from . import _dpopt
from ._dpopt import Event
from .errors import DPUserError

__all__ = [
    "Statement", "account", "attacker", "delta", "epsilon", "from_dp_accounting", "noise_multiplier", "steps", "to_dp_accounting",
]  # fmt: skip

_NEIGHBOURS = {
    "replace-one": "one record is exchanged for any other",
    "add-remove": "one record is added or removed",
    "zero-out": "one record is exchanged for one that contributes nothing",
}


@dataclass(frozen=True)
class Statement:
    """An (epsilon, delta) guarantee of releases, with everything that makes it mean something."""

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    event: Event

    def __str__(self):
        # Rounded up, and delta in full: a statement may not promise more than was proven.
        shown = np.ceil(self.epsilon * 1e4) / 1e4
        return (
            f"({shown:.4f}, {self.delta!r})-DP under {self.adjacency} adjacency ({_NEIGHBOURS[self.adjacency]}), "
            f"by the {self.accountant} accountant"
        )


def account(event, *, delta, adjacency, accountant="auto"):
    """The guarantee of releases at ``delta``: by the accountant that states the least, or by a named one."""
    found, who = _dpopt.epsilon(event, delta, adjacency, accountant)
    return Statement(found, delta, adjacency, who, event)


def epsilon(event, *, delta, adjacency, accountant="auto"):
    """epsilon at ``delta``, rounded up."""
    return account(event, delta=delta, adjacency=adjacency, accountant=accountant).epsilon


def delta(event, *, epsilon, adjacency, accountant="auto"):
    """delta at one epsilon, or at an array of them, rounded up."""
    asked = np.asarray(epsilon, dtype=np.float64)
    found = _dpopt.delta(event, np.atleast_1d(asked).ravel(), adjacency, accountant).reshape(asked.shape)
    return float(found) if asked.ndim == 0 else found


def attacker(event, *, false_positive_rate, adjacency, accountant="auto"):
    """The largest true positive rate of a membership test at one false positive rate, or at an array of them."""
    asked = np.asarray(false_positive_rate, dtype=np.float64)
    if not np.all((asked >= 0) & (asked <= 1)):
        raise DPUserError("a false positive rate is between 0 and 1")
    found = _dpopt.trade_off(event, np.atleast_1d(asked).ravel(), adjacency, accountant).reshape(asked.shape)
    return float(found) if asked.ndim == 0 else found


def _over_clip(adjacency, noise_over):
    """What a multiplier over the sensitivity is times, to be the one that was asked for."""
    if noise_over not in ("clip", "sensitivity"):
        raise DPUserError(f"noise_over is 'clip' or 'sensitivity', not {noise_over!r}")
    return 2.0 if noise_over == "clip" and adjacency == "replace-one" else 1.0


def noise_multiplier(
    *, epsilon, delta, adjacency, steps, sampling_rate=1.0, noise_over="clip", accountant="auto"
):
    """The least noise multiplier with which so many steps, each on a Poisson sample, stay within a budget."""
    factor = _over_clip(adjacency, noise_over)
    return factor * _dpopt.calibrate_noise(epsilon, delta, adjacency, sampling_rate, steps, accountant)


def steps(*, epsilon, delta, adjacency, noise_multiplier, sampling_rate=1.0, noise_over="clip", accountant="auto"):
    """The most steps, each on a Poisson sample, that stay within a budget."""
    z = noise_multiplier / _over_clip(adjacency, noise_over)
    return _dpopt.calibrate_steps(epsilon, delta, adjacency, sampling_rate, z, accountant)


def from_dp_accounting(event, *, adjacency, noise_over="clip"):
    """An :class:`Event` from a ``dp_accounting.DpEvent`` that is to be accounted under ``adjacency``.

    Its multipliers are over the clip radius, which is how that package's ``PLDAccountant`` takes them under every relation; under
    replace-one an :class:`Event` has half of them. ``noise_over="sensitivity"`` takes them as they are.
    """
    factor = _over_clip(adjacency, noise_over)
    return Event.from_json(json.dumps(_scaled(_plain(event.to_named_tuple()), 1.0 / factor)))


def to_dp_accounting(event, *, adjacency, noise_over="clip"):
    """A ``dp_accounting.DpEvent`` from an :class:`Event` of kinds that package has: the way back of :func:`from_dp_accounting`."""
    import dp_accounting

    return _theirs(dp_accounting, _scaled(json.loads(event.to_json()), _over_clip(adjacency, noise_over)))


#: Whose noise is told by other fields.
_OTHER_NOISE = ("DiscreteLaplaceDpEvent", "MixtureOfGaussiansDpEvent", "RandomizedResponseDpEvent")


def _scaled(value, factor):
    """The same event with noise multipliers that are times as large."""
    if factor == 1.0:
        return value
    if isinstance(value, list):
        return [_scaled(inner, factor) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("class_name") in _OTHER_NOISE:
        raise DPUserError(
            f"{value['class_name']} says its noise by no multiplier; under replace-one scale it yourself, and say noise_over='sensitivity'"
        )
    return {name: inner * factor if name == "noise_multiplier" else _scaled(inner, factor) for name, inner in value.items()}


def _plain(value):
    if hasattr(value, "_asdict"):
        return {name: _plain(inner) for name, inner in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _theirs(module, value):
    if isinstance(value, list):
        return [_theirs(module, inner) for inner in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _theirs(module, inner) for name, inner in value.items() if name not in ("module_name", "class_name")}
    kind = getattr(module, value["class_name"], None)
    if kind is None:
        raise DPUserError(f"dp_accounting has no {value['class_name']}")
    return kind(**fields)
