"""Functions of torch that raise an error on some values. Of many records in one call such a value ends the call for all of them, so that the
work of a step would show which record was drawn. Here the value is replaced, and the result of its record made NaN: its row is not finite,
and counts as zero. The argument is in ``docs/privacy/interfaces.md``.
"""

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Guarded(TorchFunctionMode):
    """Meanwhile no function of :data:`GUARDS` raises an error on a value. The work depends on shapes alone."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        guard = GUARDS.get(function)
        if guard is None:
            return function(*args, **kwargs)
        named = dict(zip(guard.names, args))
        bad = guard.mend({**named, **kwargs}, place := {})
        args = tuple(place.get(name, value) for name, value in named.items()) + args[len(named) :]
        found = function(*args, **{name: place.get(name, value) for name, value in kwargs.items()})
        if bad is None or not found.is_floating_point():
            return found
        # Also backwards: a gradient through it is NaN.
        return found * torch.where(bad, torch.nan, 1.0).to(found.dtype)


def _within(index, size, place, name, but=None, least=0):
    """Replaces numbers that are not from ``least`` to ``size``, and says whether there are any."""
    bad = (index < least) | (index >= size)
    bad = bad if but is None else bad & (index != but)
    place[name] = torch.where(bad, 0, index)
    return bad.any()


class _Guard:
    """``names`` of the arguments that can stand at these positions."""

    names: tuple[str, ...] = ()

    def mend(self, given, place):
        raise NotImplementedError


class _Classes(_Guard):
    """Targets number the classes of an input."""

    def __init__(self, *names):
        self.names = ("input", "target", *names)

    def mend(self, given, place):
        of, target = given["input"], given["target"]
        if target.is_floating_point():
            return None
        ignored = given.get("ignore_index", -100) if "ignore_index" in self.names else None
        return _within(target, of.shape[min(1, of.ndim - 1)], place, "target", ignored)


class _Places(_Guard):
    """``index`` numbers the places along a dimension."""

    names = ("input", "dim", "index")

    def mend(self, given, place):
        of, index = given.get("input", given.get("self")), given.get("index", given.get("indices"))
        if not isinstance(given.get("dim"), int) or not of.ndim or not isinstance(index, torch.Tensor):
            return None
        return _within(index, of.shape[given["dim"]], place, "index" if "index" in given else "indices")


class _Items(_Guard):
    """``key`` numbers places along the first dimensions, from their ends too."""

    names = ("input", "key")

    def mend(self, given, place):
        of, key = given["input"], given["key"]
        keys = key if isinstance(key, tuple) else (key,)
        known = all(isinstance(one, (int, slice)) or isinstance(one, torch.Tensor) and not one.is_floating_point() for one in keys)
        if not known or any(isinstance(one, torch.Tensor) and one.dtype in (torch.bool, torch.uint8) for one in keys):
            return None
        found, bad = list(keys), []
        for at, one in enumerate(keys):
            if isinstance(one, torch.Tensor):
                bad.append(_within(one, of.shape[at], found, at, least=-of.shape[at]))
        if not bad:
            return None
        place["key"] = tuple(found)
        return torch.stack(bad).any()


class _Words(_Guard):
    """``input`` numbers the rows of a weight."""

    names = ("input", "weight")

    def mend(self, given, place):
        return _within(given["input"], len(given["weight"]), place, "input")


class _Shares(_Guard):
    """Both lie between 0 and 1."""

    names = ("input", "target")

    def mend(self, given, place):
        bad = [~((given[name] >= 0) & (given[name] <= 1)) for name in self.names]
        place.update({name: torch.where(of, 0.5, given[name]) for name, of in zip(self.names, bad)})
        return bad[0].any() | bad[1].any()


_ALONG = ("gather", "index_select", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_fill", "index_copy")
GUARDS = {
    functional.cross_entropy: _Classes("weight", "size_average", "ignore_index"),
    functional.nll_loss: _Classes("weight", "size_average", "ignore_index"),
    functional.multi_margin_loss: _Classes(),
    functional.embedding: _Words(),
    functional.binary_cross_entropy: _Shares(),
    torch.Tensor.__getitem__: _Items(),
    **{function: _Places() for name in _ALONG for function in (getattr(torch, name), getattr(torch.Tensor, name))},
    **{getattr(torch.Tensor, name + "_"): _Places() for name in _ALONG[2:]},
}
