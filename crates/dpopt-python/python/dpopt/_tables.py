"""Estimators in the shape of scikit-learn."""

import math
import sys
import warnings

import numpy as np

from . import _dpopt
from .accounting import Statement
from .errors import DPUserError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
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


class FromDataWarning(UserWarning):
    """Bounds or classes were read off the records, which the guarantee does not cover."""


def _is_sparse(rows):
    return hasattr(rows, "tocsr")


def _searched():
    """Whether a search or a cross-validation of scikit-learn is what calls fit."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_globals.get("__name__", "").startswith("sklearn."):
            return True
        frame = frame.f_back
    return False


def _places(values, listed):
    """Where each value stands in a public list. One that is not there counts as the first: an error would tell of its record."""
    order = np.argsort(listed, kind="stable")
    place = np.searchsorted(listed, values, sorter=order)
    place = order[np.minimum(place, len(listed) - 1)]
    return np.where(listed[place] == values, place, 0)


class _Private(BaseEstimator):
    """What the estimators share: public facts in, one charged training, a guarantee."""

    def _check_public(self):
        if self.epsilon is None or self.delta is None:
            raise DPUserError(
                "give a budget: epsilon=, and delta= well below 1 over the number of records. The guarantee is (epsilon, delta)-DP "
                f"under {self.adjacency} adjacency"
            )
        if _searched():
            raise DPUserError(
                "a search over settings trains on the records once for each setting and fold, and the best score is a release too: its "
                "cost is not that of one training. Choose privately with `dpopt tune`, or choose on public data"
            )

    def _shape(self, rows):
        if _is_sparse(rows):
            rows = rows.tocsr()
            if rows.dtype.kind not in "fiub":
                raise DPUserError(f"rows of {rows.dtype} are no numbers")
            return rows
        if hasattr(rows, "to_numpy"):
            rows = rows.to_numpy()
        rows = np.asarray(rows)
        if rows.dtype.kind in "iub" or rows.dtype == np.float16:
            rows = rows.astype(np.float32 if rows.dtype.itemsize <= 2 else np.float64)
        elif rows.dtype.kind == "O":
            try:
                rows = rows.astype(np.float64)
            except TypeError as error:
                raise TypeError(f"argument must be a string or a number: {error}") from None
            except ValueError:
                raise DPUserError(
                    "rows of objects are no numbers; encode categories by values that are public (a schema, for the command `dpopt`)"
                ) from None
        elif rows.dtype.kind == "c":
            raise ValueError("Complex data not supported: rows are real numbers")
        elif rows.dtype not in (np.float32, np.float64):
            raise DPUserError(f"rows of {rows.dtype} are no numbers")
        if rows.ndim != 2:
            raise ValueError(f"Expected 2D array, got {rows.ndim}D array instead. Reshape your data: rows have one line for each record")
        if rows.shape[1] == 0:
            raise ValueError(f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
        return rows

    def _public_ranges(self, rows):
        """Lower and upper ends of the columns, or none where the rows are taken as they are."""
        if self.bounds is not None:
            if _is_sparse(rows):
                raise DPUserError("bounds= shift columns, and sparse rows would be sparse no more; scale them, and give row_norm=")
            low, high = self.bounds
            return tuple(
                np.ascontiguousarray(np.broadcast_to(np.asarray(end, dtype=np.float64), (rows.shape[1],))) for end in (low, high)
            )
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
        if self.row_norm is not None:
            return float(self.row_norm)
        if not ranged and rows is not None and self.bounds_from_data:
            squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
            longest = squares[np.isfinite(squares)].max(initial=0.0)
            self._read_off_data.append("row norm")
            return float(np.sqrt(longest + float(self.intercept or 0.0) ** 2)) or 1.0
        if not ranged:
            raise DPUserError("give row_norm=, a public bound on the length of a row")
        # As drafts of schemas: half of what rows of centred numbers have in the root mean square.
        typical = math.sqrt((1.0 if self.intercept else 0.0) + width / 3.0)
        return math.ceil(0.5 * typical * 10.0) / 10.0

    def _public(self, rows):
        """Sets how rows are placed and how long they may be."""
        self._ranges = self._public_ranges(rows)
        if self.bounds is None and self._ranges is not None:
            self._read_off_data.append("bounds")
        self._row_norm = self._norm(rows.shape[1], self._ranges is not None, rows)

    @staticmethod
    def _labels(rows, y, **of):
        """One label for each row."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        labels = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, **of)
        if labels.ndim == 2 and labels.shape[1] == 1:
            warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=3)
            labels = labels[:, 0]
        if labels.ndim != 1 or len(labels) != rows.shape[0]:
            raise ValueError(f"{rows.shape[0]} rows and labels of shape {labels.shape}: one label for each row")
        return labels

    def _table(self, rows, labels):
        intercept = float(self.intercept) if self.intercept else None
        if _is_sparse(rows):
            rows = rows.sorted_indices() if not rows.has_sorted_indices else rows
            if not rows.has_canonical_format:
                rows = rows.copy()
                rows.sum_duplicates()
            parts = (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32))
            return _dpopt.Table.sparse(parts, rows.shape[1], labels, intercept)
        return _dpopt.Table.dense(rows, labels, self._ranges, intercept)

    def _task(self, **of):
        task = {
            "loss": of["loss"],
            "classes": of.get("classes", 0),
            "hidden": [int(units) for units in self.hidden],
            "activation": self.activation,
            "seed": int(self.start_seed),
            "row_norm": self._row_norm,
            "label_bound": of.get("label_bound"),
            "records": self.records,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "adjacency": self.adjacency,
            "solver": self.solver,
            "max_steps": self.max_steps,
        }
        return task

    def _train(self, rows, labels, task):
        table = self._table(rows, np.ascontiguousarray(labels, dtype=np.float32))
        found = _dpopt.train(table, task, self.threads, self.ledger, self.progress)
        return self._keep(rows, task, found)

    def _keep(self, rows, task, found):
        self._fitted = task
        self._weights = found["weights"]
        self.n_features_in_ = rows.shape[1]
        self.plan_ = found["plan"]
        self.stop_, self.steps_, self.bound_ = found["stop"], found["steps"], found["bound"]
        self.event_ = found["event"]
        self.guarantee_ = Statement(found["epsilon"], task["delta"], task["adjacency"], found["accountant"], found["event"])
        self.rests_on_ = list(found["rests_on"])
        if self._read_off_data:
            self.rests_on_.append(f"{' and '.join(self._read_off_data)} that were read off the records, which the guarantee does not cover")
            warnings.warn(self.rests_on_[-1], FromDataWarning, stacklevel=4)
        if not self.hidden and self.intercept:
            weights = self._weights.reshape(-1, rows.shape[1] + 1)
            self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1] * float(self.intercept)
        elif not self.hidden:
            self.coef_ = self._weights.reshape(-1, rows.shape[1])
            self.intercept_ = np.zeros(len(self.coef_))
        return self

    def _outputs(self, rows):
        if not hasattr(self, "_weights"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' first.")
        rows = self._shape(rows)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input"
            )
        table = self._table(rows, np.zeros(rows.shape[0], dtype=np.float32))
        return _dpopt.outputs(table, self._fitted, self._weights)

    def plan(self, records, features):
        """The plan of a training on so many records, from public facts alone: nothing is read and nothing is charged."""
        self._check_public()
        ranged = self.bounds is not None or self.bounds_from_data
        self._row_norm = self._norm(features, ranged)
        task = self._task(**self._planned())
        task["records"] = int(records)
        return _dpopt.plan(task, features + (1 if self.intercept else 0))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


class PrivateClassifier(ClassifierMixin, _Private):
    """A linear classifier, or a perceptron with ``hidden``, trained under differential privacy.

    ``epsilon``, ``delta``, ``adjacency``: the budget. ``bounds``: public (low, high) of the columns, to which values are cut and by which
    they are brought to [-1, 1]; or ``row_norm``: a public bound on the length of a row, the intercept's constant included. ``classes``: the
    public list of labels; another label counts as the first of them. ``solver``: a name of :func:`dpopt.solvers`, or ``"auto"``.
    ``ledger``: a :class:`dpopt.Ledger` that pays. Noise is drawn from the operating system's entropy, so there is no ``random_state``.

    After ``fit``: ``guarantee_``, ``plan_``, ``event_``, ``rests_on_``, ``coef_`` and ``intercept_`` (in the units of scaled columns).
    A NaN counts as the middle of its column; without ``bounds`` its record counts as zeros.
    """

    def __init__(
        self,
        epsilon=None,
        delta=None,
        *,
        adjacency="replace-one",
        bounds=None,
        row_norm=None,
        classes=None,
        bounds_from_data=False,
        records=None,
        loss=None,
        hidden=(),
        activation="relu",
        start_seed=0,
        intercept=1.0,
        solver="auto",
        max_steps=None,
        threads=None,
        ledger=None,
        progress=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.row_norm = row_norm
        self.classes = classes
        self.bounds_from_data = bounds_from_data
        self.records = records
        self.loss = loss
        self.hidden = hidden
        self.activation = activation
        self.start_seed = start_seed
        self.intercept = intercept
        self.solver = solver
        self.max_steps = max_steps
        self.threads = threads
        self.ledger = ledger
        self.progress = progress

    def _of_classes(self, classes):
        if len(classes) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {len(classes)} class in classes=")
        several = len(classes) > 2
        loss = self.loss or ("softmax" if several else "logistic")
        if several and loss != "softmax":
            raise DPUserError(f"{loss} is a loss of two classes, and there are {len(classes)}; take softmax")
        if not several and loss == "softmax":
            raise DPUserError("softmax is a loss of three classes or more; take logistic, which is the same model with half of the weights")
        return {"loss": loss, "classes": len(classes) if several else 0}

    def _planned(self):
        if self.classes is None:
            raise DPUserError("give classes=, the public list of labels")
        return self._of_classes(list(self.classes))

    def fit(self, X, y):
        """Trains once, and pays before anything is released."""
        self._check_public()
        self._read_off_data = []
        rows = self._shape(X)
        labels = self._labels(rows, y)
        if self.classes is not None:
            classes = np.asarray(list(self.classes))
            if len(np.unique(classes)) != len(classes):
                raise DPUserError("a class stands twice in classes=")
        elif self.bounds_from_data:
            if labels.dtype.kind == "f" and np.any(labels[np.isfinite(labels)] != np.floor(labels[np.isfinite(labels)])):
                raise ValueError("Unknown label type: continuous. Labels of a classifier are classes")
            classes = np.unique(labels)
            self._read_off_data.append("classes")
        else:
            raise DPUserError(
                "give classes=, the public list of labels: which labels occur tells of the records. bounds_from_data=True reads them off "
                "all the same, and labels the guarantee"
            )
        of = self._of_classes(classes)
        self._public(rows)
        index = _places(labels, classes)
        self.classes_ = classes
        numbers = index if of["classes"] else np.where(index == 1, 1.0, -1.0)
        return self._train(rows, numbers, self._task(**of))

    def decision_function(self, X):
        """Scores: of two classes one, above 0 for the second; of several one for each."""
        outputs = self._outputs(X)
        return outputs if outputs.shape[1] > 1 else outputs[:, 0]

    def predict(self, X):
        """The class of the largest score."""
        scores = self.decision_function(X)
        index = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        return self.classes_[index]

    def predict_proba(self, X):
        """Probabilities of the classes, of the losses that are likelihoods (logistic, softmax)."""
        scores = self.decision_function(X)
        if self._fitted["loss"] not in ("logistic", "softmax"):
            raise AttributeError(f"{self._fitted['loss']} is no likelihood; use decision_function")
        scores = np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)


class PrivateMLPClassifier(PrivateClassifier):
    """A :class:`PrivateClassifier` with hidden layers. No bound is proven of it, and none is stated."""

    def __init__(
        self,
        epsilon=None,
        delta=None,
        *,
        adjacency="replace-one",
        bounds=None,
        row_norm=None,
        classes=None,
        bounds_from_data=False,
        records=None,
        loss=None,
        hidden=(64,),
        activation="relu",
        start_seed=0,
        intercept=1.0,
        solver="auto",
        max_steps=None,
        threads=None,
        ledger=None,
        progress=None,
    ):
        super().__init__(
            epsilon,
            delta,
            adjacency=adjacency,
            bounds=bounds,
            row_norm=row_norm,
            classes=classes,
            bounds_from_data=bounds_from_data,
            records=records,
            loss=loss,
            hidden=hidden,
            activation=activation,
            start_seed=start_seed,
            intercept=intercept,
            solver=solver,
            max_steps=max_steps,
            threads=threads,
            ledger=ledger,
            progress=progress,
        )


class PrivateRegressor(RegressorMixin, _Private):
    """A linear model of a number, or a perceptron with ``hidden``, trained under differential privacy.

    ``label_bounds``: public (low, high) of the label, to which it is cut. The rest as for :class:`PrivateClassifier`.
    """

    def __init__(
        self,
        epsilon=None,
        delta=None,
        *,
        adjacency="replace-one",
        bounds=None,
        row_norm=None,
        label_bounds=None,
        bounds_from_data=False,
        records=None,
        loss="huber",
        hidden=(),
        activation="relu",
        start_seed=0,
        intercept=1.0,
        solver="auto",
        max_steps=None,
        threads=None,
        ledger=None,
        progress=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.row_norm = row_norm
        self.label_bounds = label_bounds
        self.bounds_from_data = bounds_from_data
        self.records = records
        self.loss = loss
        self.hidden = hidden
        self.activation = activation
        self.start_seed = start_seed
        self.intercept = intercept
        self.solver = solver
        self.max_steps = max_steps
        self.threads = threads
        self.ledger = ledger
        self.progress = progress

    def _planned(self):
        return {"loss": self.loss, "label_bound": 1.0}

    def fit(self, X, y):
        """Trains once, and pays before anything is released."""
        self._check_public()
        self._read_off_data = []
        rows = self._shape(X)
        labels = self._labels(rows, y, dtype=np.float64)
        if self.label_bounds is not None:
            low, high = (float(end) for end in self.label_bounds)
        elif self.bounds_from_data:
            finite = labels[np.isfinite(labels)]
            low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 1.0)
            low, high = (low, high) if low < high else (low - 1.0, low + 1.0)
            self._read_off_data.append("label bounds")
        else:
            raise DPUserError(
                "give label_bounds=(low, high), a public range of the label. bounds_from_data=True reads it off the records all the same, "
                "and labels the guarantee"
            )
        if not (low < high and math.isfinite(high - low)):
            raise DPUserError(f"label_bounds are {low} and {high}; both have to be finite, and the first below the second")
        self._public(rows)
        self._label = ((low + high) / 2.0, (high - low) / 2.0)
        middle, half = self._label
        # What is no number counts as the middle.
        numbers = np.nan_to_num(np.clip((labels - middle) / half, -1.0, 1.0), nan=0.0)
        return self._train(rows, numbers, self._task(**self._planned()))

    def predict(self, X):
        """The number, cut to ``label_bounds``."""
        middle, half = self._label if hasattr(self, "_label") else (0.0, 1.0)
        return middle + half * np.clip(self._outputs(X)[:, 0], -1.0, 1.0)


class PrivateGroupDRO(ClassifierMixin, _Private):
    """A linear score of two classes for the group that is served worst: the largest loss of a group is minimised, by descent and ascent.

    ``groups``: the public list of groups. ``shares``: their public shares, ``{(group, class): share}`` for both classes of each, from outside of
    the records. ``by_class``: a group and a class count as a group. ``objective="equal-opportunity"`` minimises the loss under equal mean
    losses of the positives of all groups. ``dual_weight``: of the regulariser of the groups' weights; small ones look at the worst group
    alone. No bound is stated. The rest as for :class:`PrivateClassifier`, whose objective is the mean.

    After ``fit``: ``group_weights_``, the dual variable.
    """

    def __init__(
        self,
        epsilon=None,
        delta=None,
        *,
        groups=None,
        shares=None,
        by_class=True,
        objective="group-dro",
        dual_weight=1.0,
        adjacency="replace-one",
        bounds=None,
        row_norm=None,
        classes=None,
        records=None,
        intercept=1.0,
        max_steps=None,
        threads=None,
        ledger=None,
        progress=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.groups = groups
        self.shares = shares
        self.by_class = by_class
        self.objective = objective
        self.dual_weight = dual_weight
        self.adjacency = adjacency
        self.bounds = bounds
        self.row_norm = row_norm
        self.classes = classes
        self.records = records
        self.intercept = intercept
        self.max_steps = max_steps
        self.threads = threads
        self.ledger = ledger
        self.progress = progress

    bounds_from_data = False
    hidden = ()

    def fit(self, X, y, groups=None):
        """Trains once on rows, labels and the group of each record, and pays before anything is released."""
        self._check_public()
        self._read_off_data = []
        if self.groups is None or self.classes is None or self.shares is None:
            raise DPUserError(
                "give groups= and classes=, public lists, and shares=, the public share of each (group, class): none may be counted in the "
                "records"
            )
        listed, classes = np.asarray(list(self.groups)), np.asarray(list(self.classes))
        if len(classes) != 2 or len(np.unique(classes)) != 2:
            raise DPUserError(f"{len(classes)} classes; groups are told apart for two, the second of which is positive")
        if len(np.unique(listed)) != len(listed):
            raise DPUserError("a group stands twice in groups=")
        cells = [tuple(self._share(group, label) for label in classes) for group in listed]
        if groups is None:
            raise DPUserError("fit(X, y, groups): the group of each record")
        rows = self._shape(X)
        labels, own = self._labels(rows, y), self._labels(rows, groups)
        self._public(rows)
        positive = _places(labels, classes) == 1
        cell = 1.0 + _places(own, listed)
        task = {
            "objective": self.objective,
            "shares": cells,
            "by_class": bool(self.by_class),
            "dual_weight": float(self.dual_weight),
            "row_norm": self._row_norm,
            "records": self.records,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "adjacency": self.adjacency,
            "max_steps": self.max_steps,
        }
        table = self._table(rows, np.where(positive, cell, -cell).astype(np.float32))
        found, self.group_weights_ = _dpopt.train_groups(table, task, self.threads, self.ledger, self.progress)
        self.classes_, self.groups_ = classes, listed
        # Scores are those of a logistic model.
        fitted = {**task, "loss": "logistic", "classes": 0, "hidden": [], "activation": "relu", "seed": 0, "label_bound": None}
        return self._keep(rows, {**fitted, "solver": "auto"}, found)

    def _share(self, group, label):
        found = [share for (of, at), share in dict(self.shares).items() if of == group and at == label]
        if len(found) != 1:
            raise DPUserError(f"shares= has no share of group {group!r} and class {label!r}")
        return float(found[0])

    decision_function = PrivateClassifier.decision_function
    predict = PrivateClassifier.predict
    predict_proba = PrivateClassifier.predict_proba
