"""Frames and files under a schema: columns by name, each value as the text that it would be in a CSV file."""

import datetime
import os
from collections.abc import Mapping
from decimal import Decimal
from numbers import Integral, Real

import numpy as np

from . import _dpopt
from ._values import kind_of
from .errors import DPUserError


def schema_of(said):
    """A schema from one, from TOML text or from a path."""
    if isinstance(said, _dpopt.Schema):
        found = said
    elif isinstance(said, str) and "\n" in said:
        found = _dpopt.Schema(said)
    elif isinstance(said, (str, os.PathLike)):
        found = _dpopt.Schema.load(said)
    else:
        raise DPUserError(f"schema= is a dpopt.Schema, a path, or TOML text, not {type(said).__name__}")
    if found.is_draft:
        raise DPUserError(
            "the schema is a draft, made of what the records hold: edit it until everything in it is public, and remove `draft = true`"
        )
    return found


def table_of(data, schema, labels, make=None):
    """The records as the schema encodes them; without ``labels`` their column may be absent. ``make``: what is made of the path or of the columns
    in place of a table."""
    if isinstance(data, (str, os.PathLike)):
        return (make or _dpopt.table_of_file)(data, schema, labels)
    wanted = {*schema.columns, *([schema.label] if labels else [])}
    if not (isinstance(data, Mapping) or is_frame(data)):
        raise DPUserError(f"with schema= records are a frame of pandas or polars, a dict of columns, or a path, not {type(data).__name__}")
    found = columns_of(data)
    if odd := [name for name, _ in found if not isinstance(name, str)]:
        raise DPUserError(f"columns have words for names, and one is {odd[0]!r}")
    columns = [(name, _cells(name, column) if name in wanted else ("U", [])) for name, column in found]
    sizes = {len(cells) if isinstance(cells, np.ndarray) else len(cells[1]) for name, cells in columns if name in wanted}
    if len(sizes) > 1:
        raise DPUserError("the columns of the frame have different lengths")
    return (make or _dpopt.table_of_frame)(columns, schema, labels)


def is_frame(data):
    """Whether it is a frame of pandas or polars."""
    return hasattr(data, "columns") and (hasattr(data, "iloc") or hasattr(data, "iter_columns"))


def columns_of(frame):
    """Names and columns of a frame, or of a dict of arrays."""
    if isinstance(frame, Mapping):
        return list(frame.items())
    if hasattr(frame, "iloc"):
        return [(name, frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    return [(column.name, column) for column in frame.iter_columns()]


def _cells(name, column):
    """A column in a form of which each value has one type and one text, whatever the others are.
    Numbers and truth values, if none is missing, are an array, other values the letter of their type
    and texts, and objects their letters and texts."""
    kind = kind_of(column)
    if kind is not None and kind in "mcV":
        raise DPUserError(f"the column {name!r} is of {column.dtype}, which has no text that a schema reads")
    if hasattr(column, "null_count"):
        # Whether a value is missing must not change the text of others: numbers with a point stay of their type, with NaN for null.
        array = kind in "iub" and not column.null_count() or str(column.dtype).startswith("Float")
        values = column.to_numpy() if array else column.to_list()
    elif hasattr(column, "cat") and hasattr(column.dtype, "categories"):
        return _texts(kind, [typed(value) for value in column.dtype.categories], column.cat.codes.tolist())
    elif hasattr(column, "to_numpy"):
        if isinstance(getattr(column, "dtype", None), np.dtype):
            values = column.to_numpy()
        elif kind == "f":
            single = getattr(column.dtype, "itemsize", 8) <= 4
            values = column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        else:
            values = column.to_numpy(dtype=object)
    else:
        values = np.asarray(column) if kind is not None and not isinstance(column, np.ndarray) else column
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(values)
        values = values.filled(np.nan) if kind == "f" else [None if off else value for off, value in zip(hidden, values.data)]
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise DPUserError(f"the column {name!r} has one value for each record, and not the shape {values.shape}")
        of, size = values.dtype.kind, values.dtype.itemsize
        if of in "fiub" and size <= 8:
            wide = {"f": np.float32 if size <= 4 else np.float64, "i": np.int64, "u": np.uint64, "b": np.bool_}[of]
            return np.require(values.astype(wide, copy=False), requirements=["A", "C"])
        if of == "M":
            days = np.datetime_as_string(values.astype("datetime64[D]"))
            return "M", [None if day == "NaT" else day.encode() for day in days]
    return _texts(kind, [typed(value) for value in values])


def _texts(kind, each, codes=None):
    """Letters and texts of values, or of categories by their codes, -1 for a missing value. Values of
    one type have one letter."""
    each = each if codes is None else [each[code] if code >= 0 else ("U", None) for code in codes]
    texts = [found for _, found in each]
    if kind in (None, "O"):
        return "".join(letter for letter, _ in each).encode(), texts
    return "i" if kind == "u" else kind, texts


def typed(value):
    """The letter of a value's type, and its text as bytes, or None if it is missing. Nothing that it
    holds is an error."""
    try:
        if type(value) is str:
            return "U", value.encode("utf-8", "surrogatepass")
        if value is None or value != value:
            return "U", None
        if isinstance(value, (bytes, bytearray)):
            return "U", bytes(value)
        if isinstance(value, (bool, np.bool_)):
            return "b", b"true" if value else b"false"
        if isinstance(value, Integral):
            return "i", str(int(value)).encode()
        if isinstance(value, (Decimal, Real)):
            return "f", _number(value if isinstance(value, np.floating) else float(value)).encode()
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[D]").item()
        if isinstance(value, datetime.datetime):
            value = value.date()
        if isinstance(value, datetime.date):
            return "M", value.isoformat().encode()
        return "U", str(value).encode("utf-8", "surrogatepass")
    except Exception:  # An error would tell of the record.
        return "U", None


def _number(value):
    """The shortest text that reads back to it, as the extension writes those of whole columns."""
    if value == 0 or 1e-5 <= abs(value) < 1e17:
        return np.format_float_positional(value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1).replace("e+", "e")
