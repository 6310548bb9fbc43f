"""What records hold that public facts do not foresee: for the eyes of those who may see the records."""

import os
from collections import Counter
from dataclasses import dataclass

import numpy as np

from . import _dpopt
from ._frames import table_of
from ._values import numbers, places, public_list

#: Examples that are shown of what was found in one place.
SHOWN = 5


@dataclass(frozen=True)
class Unforeseen:
    """What records hold that public facts do not foresee, and what becomes of it. **NOT PRIVATE**: it counts and shows records."""

    records: int
    #: Of them, those whose rows are longer than ``row_norm`` and are shortened, which is by design.
    shortened: int
    #: How many records, by what is odd and where: ``{("unknown label, default used", "late"): 12}``.
    counts: dict[tuple[str, str], int]
    #: A few of the values, by the same.
    examples: dict[tuple[str, str], list[str]]

    def __str__(self):
        lines = [f"{self.records} records (NOT PRIVATE: this report counts and shows them)"]
        for (what, where), count in self.counts.items():
            shown = ", ".join(self.examples.get((what, where), []))
            lines.append(f"{where + ': ' if where else ''}{what}: {count}" + (f", such as {shown}" if shown else ""))
        if not self.counts:
            lines.append("the public facts foresee every value")
        if self.shortened:
            lines.append(f"{self.shortened / self.records:.1%} of the rows are longer than row_norm and are shortened, which is by design")
        return "\n".join(lines)


class Checkable:
    """Estimators whose public facts can be compared with records, outside of any guarantee."""

    def check_not_private(self, X, y=None, groups=None):
        """What the records hold that the public facts do not foresee, as an :class:`Unforeseen`: labels of no class, values out of bounds or
        that are no numbers, rows that are too long. **NOT PRIVATE**: it counts and shows records, for the eyes of those who may see them; a
        public fact that is changed after a look at it is no public fact. Nothing is trained or charged. ``fit`` is silent about all of this."""
        schema = self._by_schema(y)
        if schema is not None:
            return Unforeseen(*table_of(X, schema, labels=True, make=_in_schema))
        rows = self._shape(X)
        shortened, found = self._odd_rows(rows)
        found += self._odd_labels(self._column(rows.shape[0], y))
        if groups is not None:
            found += _odd_places(self._column(rows.shape[0], groups, "groups"), public_list("groups=", self.groups), "group")
        counts = {(what, where): count for what, where, count, _ in found if count}
        return Unforeseen(rows.shape[0], shortened, counts, {(what, where): shown for what, where, count, shown in found if count})

    def _odd_rows(self, rows):
        dense = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        dense, found = dense.astype(np.float64), []
        with np.errstate(all="ignore"):
            ranges = None if self.bounds is None else self._public_ranges(rows)
            if ranges is None:
                finite = np.isfinite(dense.astype(np.float32)).all(axis=1)
                found.append(("not finite, counts as zeros", "rows", int((~finite).sum()), []))
                placed = np.where(finite[:, None], dense, 0.0)
            else:
                low, high = ranges
                for at, column in enumerate(dense.T):
                    outside = (column < low[at]) | (column > high[at])
                    found.append(("out of bounds, cut", f"column {at}", int(outside.sum()), _some(column[outside])))
                    found.append(("not a number, counts as the middle", f"column {at}", int(np.isnan(column).sum()), []))
                middle, half = low + (high - low) / 2.0, (high - low) / 2.0
                placed = np.nan_to_num(np.clip((dense - middle) / half, -1.0, 1.0), nan=0.0)
            if self.bounds_from_data and self.row_norm is None and ranges is None:
                return 0, found
            lengths = np.sqrt((placed**2).sum(axis=1) + (self._constant() or 0.0) ** 2)
        return int((lengths > self._norm(rows.shape[1], ranges is not None)).sum()), found

    def _odd_labels(self, labels):
        if hasattr(self, "label_bounds"):
            if self.label_bounds is None:
                return []
            found, (low, high) = numbers(labels, "labels").astype(np.float64), self.label_bounds
            outside = (found < low) | (found > high)
            return [
                ("out of label_bounds, cut", "labels", int(outside.sum()), _some(found[outside])),
                ("not a number, counts as the middle", "labels", int(np.isnan(found).sum()), []),
            ]
        return [] if self.classes is None else _odd_places(labels, public_list("classes=", self.classes), "class")


def _odd_places(values, listed, what):
    # Before all of the list there is one that no value is.
    nothing = "\0no value\0" if isinstance(listed[0], str) else float("nan")
    odd = places(values, [nothing, *listed], what) == 0
    texts = [value for value, is_odd in zip(np.asarray(values, dtype=object).ravel(), odd) if is_odd]
    where = "labels" if what == "class" else "groups"
    return [(f"of no {what} in the list, counts as {listed[0]!r}", where, int(odd.sum()), _some(texts))]


def _some(values):
    return [f"{value} ({count})" for value, count in Counter(map(repr, values)).most_common(SHOWN)]


def _in_schema(data, schema, _labels):
    check = _dpopt.check_file if isinstance(data, (str, os.PathLike)) else _dpopt.check_frame
    records, shortened, odd = check(data, schema)
    return records, shortened, {(what, where): count for what, where, count, _ in odd}, {(what, where): shown for what, where, _, shown in odd}
