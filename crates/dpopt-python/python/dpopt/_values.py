"""Numbers and labels on their way in. What becomes of one record's never depends on another's, and nothing that one holds is an error."""

import math
import warnings
from numbers import Integral, Real

import numpy as np

from . import _dpopt
from .errors import DPUserError, WeakGuaranteeWarning


def real(name, value):
    """A public number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    raise DPUserError(f"{name} is a number, not {value!r}")


def count(name, value, least=0, most=2**53):
    """A public whole number."""
    if isinstance(value, Integral) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    raise DPUserError(f"{name} is a whole number from {least} to {most}, not {value!r}")


def maybe(check, name, value, *bounds):
    """One of them, or none."""
    return None if value is None else check(name, value, *bounds)


def word(name, value):
    """A public name."""
    if isinstance(value, str):
        return value
    raise DPUserError(f"{name} is a name, not {value!r}")


def warn_of_ledger(why, stacklevel):
    """Where a ledger could not be told that a run is over: what was found stands."""
    if why is not None:
        warnings.warn(f"the ledger counts all that was set aside: {why}", RuntimeWarning, stacklevel=stacklevel + 1)


def warn_of_budget(epsilon, delta, records, stacklevel, of=""):
    """Where a budget for so many records, a public number, hides next to nothing. ``of``: what it comes from."""
    for why in _dpopt.weak(epsilon, delta, records):
        warnings.warn(of + why, WeakGuaranteeWarning, stacklevel=stacklevel + 1)


def _number(value):
    try:
        return float(value)
    except Exception:  # Anything else would tell of the record.
        return math.nan


def numbers(values, what):
    """An array of single or double precision, aligned. What is no number becomes a NaN; types that hold none are refused as such."""
    if isinstance(values, np.ma.MaskedArray):
        kind = values.dtype.kind
        values = values.astype(np.float64).filled(math.nan) if kind in "fiub" else values.data
    if not isinstance(values, np.ndarray) and hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not isinstance(values, np.ndarray):
        try:
            found = np.asarray(values)
        except (ValueError, TypeError, OverflowError):
            found = np.asarray(values, dtype=object)
        # The type of a list is that of all its elements, so it is none to go by.
        values = found.astype(np.float64) if found.dtype.kind in "fiub" else np.asarray(values, dtype=object)
    if values.dtype.kind == "O":
        values = np.array([_number(value) for value in values.ravel()], dtype=np.float64).reshape(values.shape)
    if values.dtype.kind == "c":
        raise DPUserError(f"Complex data not supported: {what} are real numbers")
    if values.dtype.kind not in "fiub":
        raise DPUserError(f"{what} of {values.dtype} are no numbers; encode them by values that are public")
    single = values.dtype.kind == "f" and values.dtype.itemsize <= 4 or values.dtype.kind != "f" and values.dtype.itemsize <= 2
    with np.errstate(all="ignore"):
        return np.require(values.astype(np.float32 if single else np.float64, copy=False), requirements=["A"])


def public_list(name, values):
    """A public list of different numbers, or of different words."""
    try:
        values = list(values)
    except TypeError:
        raise DPUserError(f"{name} is a list, not {values!r}") from None
    words = all(isinstance(value, str) for value in values)
    reals = all(isinstance(value, (Real, np.bool_)) and not math.isnan(value) for value in values)
    if not (words or reals):
        raise DPUserError(f"{name} are all words or all numbers, not {values!r}")
    if len(set(values)) != len(values):
        raise DPUserError(f"{values!r}: one stands twice in {name}")
    return values


def places(values, listed, name):
    """Where each value stands in a public list. One that is not there counts as the first."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.astype(object).filled(None)
    typed = values.dtype if isinstance(getattr(values, "dtype", None), np.dtype) else None
    if typed is not None and typed.kind in "fiub":
        if isinstance(listed[0], str):
            raise DPUserError(f"{name} of {typed} are none of the words {listed!r}")
        array = np.asarray(values)
        if typed.kind != "f" or all(float(value) == value for value in listed):
            found = np.zeros(array.shape, dtype=np.int64)
            for place, value in enumerate(listed):
                found[array == value] = place
            return found
    if typed is not None and typed.kind in "US" and not isinstance(listed[0], str):
        raise DPUserError(f"{name} of {typed} are none of the numbers {listed!r}")
    index = {value: place for place, value in enumerate(listed)}

    def place(value):
        try:
            return index.get(value, 0)
        except Exception:  # It can't be hashed or compared.
            return 0

    flat = values.ravel() if isinstance(values, np.ndarray) else values
    return np.array([place(value) for value in flat], dtype=np.int64)
