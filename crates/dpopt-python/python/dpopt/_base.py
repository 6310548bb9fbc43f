"""What the estimators share: public facts in, one charged training, a guarantee."""

import logging
import math
import sys
import warnings

import numpy as np

from . import _dpopt
from ._certify import FROM_DATA
from ._check import Checkable
from ._frames import columns_of, is_frame, schema_of, table_of
from ._plans import Plan
from ._values import converted, count, kind_of, maybe, numbers, real, warn_of_budget, warn_of_ledger, word
from .accounting import Statement
from .errors import DPUserError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: F401
    from sklearn.exceptions import DataConversionWarning, NotFittedError
except ImportError:  # The estimators work without it, outside of pipelines.

    class BaseEstimator:
        """Parameters by name."""

        @classmethod
        def _names(cls):
            code = cls.__init__.__code__
            return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

        def get_params(self, deep=True):
            return {name: getattr(self, name) for name in self._names()}

        def set_params(self, **params):
            for name, value in params.items():
                if name not in self._names():
                    raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
                setattr(self, name, value)
            return self

    class ClassifierMixin:
        """None."""

    class RegressorMixin:
        """None."""

    class DataConversionWarning(UserWarning):
        """A column as labels."""

    class NotFittedError(ValueError, AttributeError):
        """Not fitted yet."""


#: Public facts and what was released, at INFO.
_log = logging.getLogger("dpopt")


class FromDataWarning(UserWarning):
    """The guarantee does not cover bounds, classes or scales that were read off the records."""


def _flat(values):
    """Whether a list is one of values, and not of lists."""
    return hasattr(values, "__len__") and not (len(values) and isinstance(values[0], (list, tuple, np.ndarray)))


def _is_sparse(rows):
    return hasattr(rows, "tocsr")


#: Parts of scikit-learn that call fit once on records as they are.
_ONCE = ("sklearn.base", "sklearn.utils")


def _caller(estimator):
    """The part of scikit-learn that calls fit several times on the same records, or on rows or
    labels that it has made."""
    # A pipeline that names its steps is taken: they come to `rests_on_`.
    once = (*_ONCE, "sklearn.pipeline", "sklearn.callback") if hasattr(estimator, "_parent_callback_ctx") else _ONCE
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("sklearn.") and not name.startswith(once):
            return name
        frame = frame.f_back
    return None


def _steps_before(estimator):
    """Names of the steps that pipelines have fitted before this estimator. Since scikit-learn 1.9 a
    pipeline hands its tree of tasks to the steps, for callbacks."""
    names, task = [], getattr(estimator, "_parent_callback_ctx", None)
    while task is not None and task.parent is not None:
        before = [one for one in task.parent if one.parent is task.parent and one is not task]
        names = [(one.source_task_name or one.task_name).removeprefix("fit-transform-") for one in before] + names
        task = task.parent
    return names


def _of_steps(steps):
    return (
        f"rows that come out of the steps {', '.join(steps)}, which see all records: whatever one of them has {FROM_DATA} (a mean, a scale, a "
        "vocabulary), the guarantee does not cover"
    )


def names_of(rows):
    """Names of the columns of a frame, where all are words."""
    if not is_frame(rows):
        return None
    names = list(rows.columns)
    return np.array(names, dtype=object) if names and all(isinstance(name, str) for name in names) else None


def _listed(names):
    return "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if len(names) > 5 else "")


class Private(Checkable, BaseEstimator):
    """What the estimators share."""

    schema = None

    #: What a schema says in their place.
    _OF_SCHEMA = ("bounds", "row_norm", "classes", "label_bounds", "bounds_from_data")

    def _by_schema(self, y=None):
        """The schema, or none. It has everything that is public of rows and labels."""
        if self.schema is None:
            return None
        if y is not None:
            raise DPUserError("the label is the column that the schema says: fit(X) takes no y")
        twice = [name for name in self._OF_SCHEMA if getattr(self, name, None) not in (None, False)]
        if twice:
            raise DPUserError(f"the schema says what {' and '.join(twice)} would: give one of them")
        return schema_of(self.schema)

    @staticmethod
    def _placed_by(schema):
        return {"ranges": None, "row_norm": schema.row_norm, "intercept": schema.intercept or None}

    def _check_public(self):
        if self.epsilon is None or self.delta is None:
            raise DPUserError(
                "give a budget: epsilon=, and delta= well below 1 over the number of records. The guarantee is (epsilon, delta)-DP "
                f"under {self.adjacency} adjacency"
            )
        who = _caller(self)
        if who is not None and who.startswith(("sklearn.compose", "sklearn.pipeline")):
            raise DPUserError(
                f"{who} hands over rows or labels that it has made, and what it has {FROM_DATA} to make them is in no guarantee: fit on the "
                "records themselves, which bounds=, label_bounds= or a schema= scale by public numbers. Pipelines of scikit-learn 1.9 or later "
                "are taken, since they say which steps they have"
            )
        if who is not None:
            raise DPUserError(
                f"{who} trains several times on the same records, and what it chooses or scores is a release too: its cost is not that of "
                "one training. Choose privately with `dpopt tune`, or choose on public data"
            )
        if steps := _steps_before(self):
            warnings.warn(_of_steps(steps), FromDataWarning, stacklevel=3)
        if self.progress is not None and not callable(self.progress):
            raise DPUserError(f"progress is called with the step and the number of steps, and {self.progress!r} can't be")
        return {
            "records": maybe(count, "records", self.records, 1),
            "epsilon": real("epsilon", self.epsilon),
            "delta": real("delta", self.delta),
            "adjacency": word("adjacency", self.adjacency),
            "max_steps": maybe(count, "max_steps", self.max_steps, 1),
        }

    def _constant(self):
        """The value of the intercept's column, or none."""
        if not self.intercept:
            return None
        found = real("intercept", self.intercept)
        if not 0 < found <= 1e6:
            raise DPUserError(f"intercept is the value of a constant column, above 0 and at most 1e6, not {found}")
        return found

    def _shape(self, rows):
        if _is_sparse(rows):
            if rows.ndim != 2:
                raise DPUserError(f"Expected 2D array, got {rows.ndim}D array instead. Reshape your data: rows have two dimensions")
            rows = rows.tocsr()
            if rows.dtype.kind == "c":
                raise DPUserError("Complex data not supported: rows are real numbers")
            if rows.dtype.kind not in "fiub":
                raise DPUserError(f"rows of {rows.dtype} are no numbers")
        elif is_frame(rows):
            for name, column in columns_of(rows):
                if kind_of(column) not in tuple("fiub"):
                    raise DPUserError(
                        f"the column {name!r} of X is of {column.dtype}, and without a schema all columns are numbers: encode it by values that "
                        "are public, leave it out, or give a schema="
                    )
            rows = converted(rows)
        else:
            rows = numbers(rows, "rows")
        if rows.ndim != 2:
            raise DPUserError(f"Expected 2D array, got {rows.ndim}D array instead. Reshape your data: rows have one line for each record")
        if rows.shape[1] == 0:
            raise DPUserError(f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
        return rows

    def _public_ranges(self, rows):
        """Lower and upper ends of the columns, or none where the rows are taken as they are."""
        if self.bounds is not None:
            if _is_sparse(rows):
                raise DPUserError("bounds= shift columns, and sparse rows would be sparse no more; scale them, and give row_norm=")
            try:
                low, high = self.bounds
                ends = [np.broadcast_to(np.asarray(end, dtype=np.float64), (rows.shape[1],)) for end in (low, high)]
            except (TypeError, ValueError):
                raise DPUserError(
                    f"bounds=(low, high) are two numbers, or two lists of a number for each of the {rows.shape[1]} columns"
                ) from None
            return tuple(np.ascontiguousarray(end) for end in ends)
        if self.bounds_from_data and not _is_sparse(rows):
            finite = np.where(np.isfinite(rows), rows, np.nan)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                low, high = np.nanmin(finite, axis=0), np.nanmax(finite, axis=0)
            low, high = np.nan_to_num(low, nan=-1.0).astype(np.float64), np.nan_to_num(high, nan=1.0).astype(np.float64)
            flat = ~(low < high)
            low[flat], high[flat] = low[flat] - 1.0, high[flat] + 1.0
            return low, high
        if self.row_norm is None and not self.bounds_from_data:
            raise DPUserError(
                "give bounds=(low, high), public ranges of the columns (two numbers, or two of each column), or row_norm=, a public bound "
                "on the length of a row. Neither may be read off the records: a range that was found there tells of them. "
                "bounds_from_data=True does it all the same, and labels the guarantee"
            )
        return None

    def _norm(self, width, ranged, rows=None):
        constant = self._constant() or 0.0
        if self.row_norm is not None:
            return real("row_norm", self.row_norm)
        if not ranged and rows is not None and self.bounds_from_data:
            with np.errstate(all="ignore"):
                squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
            longest = squares[np.isfinite(squares)].max(initial=0.0)
            return float(np.sqrt(longest + constant**2)) or 1.0
        if not ranged:
            raise DPUserError("give row_norm=, a public bound on the length of a row")
        # As drafts of schemas: half of what rows of centred numbers have in the root mean square.
        typical = math.sqrt((1.0 if constant else 0.0) + width / 3.0)
        return math.ceil(0.5 * typical * 10.0) / 10.0

    def _placed(self, rows, from_data):
        """How rows are placed, and how long they may be; names in ``from_data`` what was read off them."""
        ranges = self._public_ranges(rows)
        if self.bounds is None and ranges is not None:
            from_data.append("bounds")
        norm = self._norm(rows.shape[1], ranges is not None, rows)
        if self.row_norm is None and ranges is None:
            from_data.append("row norm")
        return {"ranges": ranges, "row_norm": norm, "intercept": self._constant()}

    @staticmethod
    def _column(rows, y, what="labels"):
        """One value for each of so many rows."""
        if y is None:
            raise ValueError(f"requires y to be passed, but the target y is None ({what})")
        if not hasattr(y, "shape") and hasattr(y, "__array__"):
            y = np.asarray(y)
        shape = y.shape if hasattr(y, "shape") else np.shape(np.empty(len(y))) if _flat(y) else np.shape(np.asarray(y, dtype=object))
        if len(shape) == 2 and shape[1] == 1:
            warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=3)
            y = np.asarray(y)[:, 0]
            shape = y.shape
        if len(shape) != 1 or shape[0] != rows:
            raise DPUserError(f"{rows} rows and {what} of shape {tuple(shape)}: one for each row")
        return y

    @staticmethod
    def _table(rows, labels, placed):
        labels = np.ascontiguousarray(labels, dtype=np.float32)
        if _is_sparse(rows):
            with np.errstate(all="ignore"):
                values = rows.data.astype(np.float32)
            parts = (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), values)
            return _dpopt.Table.sparse(parts, rows.shape[1], labels, placed["intercept"])
        return _dpopt.Table.dense(rows, labels, placed["ranges"], placed["intercept"])

    def _task(self, public, placed, *, loss, classes=0, class_weights=None, label_bound=None):
        if not isinstance(self.hidden, (list, tuple)):
            raise DPUserError(f"hidden=(64, 32) are the units of layers, not {self.hidden!r}")
        return {
            **public,
            "loss": word("loss", loss),
            "classes": classes,
            "class_weights": class_weights,
            "hidden": [count("hidden", units, 1, 2**20) for units in self.hidden],
            "activation": word("activation", self.activation),
            "seed": count("start_seed", self.start_seed),
            "row_norm": placed["row_norm"],
            "label_bound": label_bound,
            "solver": word("solver", self.solver),
        }

    @staticmethod
    def _warn_of_budget(task, table, stacklevel):
        # Under add-remove the number of rows is secret.
        records = task["records"] if task["adjacency"] == "add-remove" else len(table)
        if records:
            warn_of_budget(task["epsilon"], task["delta"], records, stacklevel + 1)

    def _train(self, table, task, placed, from_data, **of_fit):
        self._warn_of_budget(task, table, 3)
        threads = maybe(count, "threads", self.threads, 1, 4096)
        found = _dpopt.train(table, task, threads, self.ledger, self.progress)
        return self._keep(table.width, task, placed, from_data, found, of_fit)

    def _keep(self, width, task, placed, from_data, found, of_fit):
        """What a finished training leaves: nothing is set before."""
        schema, steps = of_fit.get("schema_"), _steps_before(self)
        of_fit["feature_names_in_"] = of_fit.get("feature_names_in_") if schema is None else np.array(schema.columns, dtype=object)
        vars(self).update(of_fit)
        if self.feature_names_in_ is None:
            del self.feature_names_in_
        features = width - (placed["intercept"] is not None)
        self._fitted = {"task": task, "placed": placed, "weights": found["weights"], "schema": schema}
        self.n_features_in_ = features if schema is None else len(schema.columns)
        if schema is not None:
            self.features_ = schema.features[:features]
        self.plan_ = Plan(found["plan"], delta=task["delta"], adjacency=task["adjacency"], records=task["records"])
        self.stop_, self.steps_, self.bound_ = found["stop"], found["steps"], found["bound"]
        self.event_ = found["event"]
        self.guarantee_ = Statement(found["epsilon"], task["delta"], task["adjacency"], found["accountant"], found["event"])
        self.rests_on_ = list(found["rests_on"])
        if steps:
            self.rests_on_.append(_of_steps(steps))
        if from_data:
            self.rests_on_.append(f"{' and '.join(from_data)} that were {FROM_DATA}, which the guarantee does not cover")
            warnings.warn(self.rests_on_[-1], FromDataWarning, stacklevel=4)
        _log.info("%s: %s, %s steps, %s; %s", type(self).__name__, found["plan"]["solver"], self.steps_, self.stop_, self.guarantee_)
        if not task["hidden"]:
            weights = found["weights"].reshape(-1, width)
            self.coef_ = weights[:, :features]
            self.intercept_ = weights[:, features:].sum(axis=1) * (placed["intercept"] or 0.0)
        warn_of_ledger(found["unsettled"], 3)
        return self

    def _of_fit(self):
        if not hasattr(self, "_fitted"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' first.")
        return self._fitted

    def _fitting(self, rows):
        """Rows with the columns that were fitted."""
        self._check_names(names_of(rows))
        rows = self._shape(rows)
        if rows.shape[1] != self.n_features_in_:
            raise DPUserError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input"
            )
        return rows

    def _check_names(self, names):
        """As scikit-learn does, in its words."""
        fitted, who = getattr(self, "feature_names_in_", None), type(self).__name__
        if fitted is None and names is not None:
            warnings.warn(f"X has feature names, but {who} was fitted without feature names", stacklevel=5)
        elif fitted is not None and names is None:
            warnings.warn(f"X does not have valid feature names, but {who} was fitted with feature names", stacklevel=5)
        elif fitted is not None and list(fitted) != list(names):
            unseen, missing = sorted({*names} - {*fitted}), sorted({*fitted} - {*names})
            parts = ["The feature names should match those that were passed during fit.\n"]
            if unseen:
                parts.append(f"Feature names unseen at fit time:\n{_listed(unseen)}")
            if missing:
                parts.append(f"Feature names seen at fit time, yet now missing:\n{_listed(missing)}")
            if not (unseen or missing):
                parts.append("Feature names must be in the same order as they were in fit.\n")
            raise DPUserError("".join(parts))

    def _outputs(self, rows):
        fitted = self._of_fit()
        if fitted["schema"] is not None:
            table = table_of(rows, fitted["schema"], labels=False)
        else:
            rows = self._fitting(rows)
            table = self._table(rows, np.zeros(rows.shape[0]), fitted["placed"])
        return _dpopt.outputs(table, fitted["task"], fitted["weights"])

    def _labelled(self, rows, y):
        """The table of records like those that were fitted, and how it is placed."""
        fitted = self._of_fit()
        if fitted["schema"] is not None:
            if y is not None:
                raise DPUserError("the label is the column that the schema says: no y is taken")
            return table_of(rows, fitted["schema"], labels=True), fitted["placed"]
        rows = self._fitting(rows)
        targets = self._targets(self._column(rows.shape[0], y))
        return self._table(rows, targets, fitted["placed"]), fitted["placed"]

    def plan(self, records, features=None):
        """The :class:`Plan` of a training on so many records, from public facts alone: nothing is read and nothing is charged."""
        public = {**self._check_public(), "records": count("records", records, 1)}
        schema = self._by_schema()
        width, placed = self._planned_rows(features, schema)
        task = self._task(public, placed, **self._planned(schema))
        found = _dpopt.plan(task, width)
        warn_of_budget(task["epsilon"], task["delta"], task["records"], 2)
        return Plan(found, delta=task["delta"], adjacency=task["adjacency"], records=task["records"])

    def _planned_rows(self, features, schema):
        """Columns of rows, and how long they may be."""
        if schema is not None:
            if features is not None:
                raise DPUserError("the schema says how many features there are")
            return len(schema.features), self._placed_by(schema)
        if features is None:
            raise DPUserError("give features=, the number of columns, or a schema=")
        features = count("features", features, 1)
        norm = self._norm(features, self.bounds is not None or self.bounds_from_data)
        return features + (self._constant() is not None), {"row_norm": norm}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags
