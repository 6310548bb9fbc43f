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


#: Types of polars, by NumPy's letters. Whole numbers have their size in the name.
_POLARS = {
    "Boolean": "b", "Decimal": "f", "Date": "M", "Datetime": "M", "String": "U", "Categorical": "U", "Enum": "U", "Binary": "S", "Null": "O", "Object": "O",
}  # fmt: skip


def kind_of(values):
    """The type of a whole column or array, which is public, by NumPy's letter. ``O``: each value has a
    type of its own. ``V``: a type that is not read. None: a list, of which no element is looked at."""
    dtype = getattr(values, "dtype", None)
    if dtype is None or isinstance(dtype, np.dtype):
        return None if dtype is None else dtype.kind
    name = str(dtype).split("[")[0].split("(")[0]
    if hasattr(values, "null_count"):
        numeric = {"Int": "i", "UInt": "u", "Float": "f"}.get(name.rstrip("0123456789"))
        return numeric or _POLARS.get(name, "V")
    if getattr(dtype, "categories", None) is not None:
        return kind_of(dtype.categories)
    return "U" if name in ("str", "string", "large_string") else getattr(dtype, "kind", "V")


def numbers(values, what):
    """An array of single or double precision, aligned. A value of a list that is not a number becomes
    a NaN; an array of another type than numbers is refused."""
    kind = kind_of(values)
    if kind == "c":
        raise DPUserError(f"Complex data not supported: {what} are real numbers")
    if kind is not None and kind not in "fiub":
        raise DPUserError(f"{what} of {values.dtype} are not numbers; encode them by values that are public, or convert the type")
    return converted(values)


def converted(values):
    """As :func:`numbers`, after the types. A value that is not a number becomes a NaN."""
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
    kind, words = kind_of(values), isinstance(listed[0], str)
    if kind is not None and kind not in ("UO" if words else "fiub"):
        raise DPUserError(f"{name} of {values.dtype} are none of the {'words' if words else 'numbers'} {listed!r}; convert their type")
    if isinstance(values, np.ma.MaskedArray):
        values = values.astype(object).filled(None)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        array = np.asarray(values)
        if kind != "f" or all(float(value) == value for value in listed):
            found = np.zeros(array.shape, dtype=np.int64)
            for place, value in enumerate(listed):
                found[array == value] = place
            return found
    index = {value: place for place, value in enumerate(listed)}

    def place(value):
        try:
            return index.get(value, 0)
        except Exception:  # It can't be hashed or compared.
            return 0

    flat = values.ravel() if isinstance(values, np.ndarray) else values
    return np.array([place(value) for value in flat], dtype=np.int64)
