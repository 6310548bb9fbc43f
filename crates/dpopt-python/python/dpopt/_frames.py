"""Frames and files under a schema: columns by name, each value as the text that it would be in a CSV file."""

import datetime
import os
from collections.abc import Mapping
from decimal import Decimal
from numbers import Integral, Real

import numpy as np

from . import _dpopt
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
    columns = [(name, _cells(column) if name in wanted else []) for name, column in _columns(data)]
    sizes = {len(column) for name, column in columns if name in wanted}
    if len(sizes) > 1:
        raise DPUserError("the columns of the frame have different lengths")
    return (make or _dpopt.table_of_frame)(columns, schema, labels)


# Of polars, whose nulls are not in the way of a text.
WHOLE = {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}


def _columns(frame):
    """Names and columns of a frame of pandas or polars, or of a dict of arrays."""
    if isinstance(frame, Mapping):
        found = list(frame.items())
    elif hasattr(frame, "iloc") and hasattr(frame, "columns"):
        found = [(name, frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    elif hasattr(frame, "iter_columns"):
        found = [(column.name, column) for column in frame.iter_columns()]
    else:
        raise DPUserError(f"with schema= records are a frame of pandas or polars, a dict of columns, or a path, not {type(frame).__name__}")
    if odd := [name for name, _ in found if not isinstance(name, str)]:
        raise DPUserError(f"columns have words for names, and one is {odd[0]!r}")
    return found


def _cells(column):
    """A column in a form of which each value has one text, whatever the others are."""
    if hasattr(column, "null_count"):
        # Whether a value is missing must not change the text of others: numbers with a point stay of their type, with NaN for null.
        kind = str(column.dtype)
        whole = kind in WHOLE and not column.null_count()
        values = column.to_numpy() if whole or kind in ("Float32", "Float64") else column.to_list()
    elif hasattr(column, "cat") and hasattr(column.dtype, "categories"):
        texts = [text(value) for value in column.dtype.categories]
        return [texts[code] if code >= 0 else None for code in column.cat.codes.tolist()]
    elif hasattr(column, "to_numpy"):
        values = column.to_numpy() if isinstance(column.dtype, np.dtype) else column.to_numpy(dtype=object)
    else:
        values = column
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(values)
        floats = np.issubdtype(values.dtype, np.floating)
        values = values.filled(np.nan) if floats else [None if off else value for off, value in zip(hidden, values.data)]
    if not isinstance(values, np.ndarray):
        return [text(value) for value in values]
    if values.ndim != 1:
        raise DPUserError(f"a column has one value for each record, and not the shape {values.shape}")
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "fiu" and size <= 8:
        wide = {"f": np.float32 if size <= 4 else np.float64, "i": np.int64, "u": np.uint64}[kind]
        return np.require(values.astype(wide, copy=False), requirements=["A", "C"])
    if kind == "b":
        return np.ascontiguousarray(values)
    if kind == "M":
        days = np.datetime_as_string(values.astype("datetime64[D]"))
        return [None if day == "NaT" else day.encode() for day in days]
    if kind in "mcV":
        raise DPUserError(f"a column of {values.dtype} has no text that a schema reads")
    return [text(value) for value in values.tolist()] if kind != "O" else [text(value) for value in values]


def text(value):
    """One value as bytes, or none where it is missing. Nothing that it holds is an error."""
    try:
        if type(value) is str:
            return value.encode("utf-8", "surrogatepass")
        if value is None or value != value:
            return None
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        if isinstance(value, (bool, np.bool_)):
            return b"true" if value else b"false"
        if isinstance(value, Integral):
            return str(int(value)).encode()
        if isinstance(value, Decimal):
            return format(value, "f").encode()
        if isinstance(value, Real):
            return _number(value if isinstance(value, np.floating) else float(value)).encode()
        if isinstance(value, datetime.datetime):
            value = value.date()
        return (value.isoformat() if isinstance(value, datetime.date) else str(value)).encode("utf-8", "surrogatepass")
    except Exception:  # An error would tell of the record.
        return None


def _number(value):
    """The shortest text that reads back to it, as the extension writes those of whole columns."""
    if value == 0 or 1e-5 <= abs(value) < 1e17:
        return np.format_float_positional(value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1).replace("e+", "e")
