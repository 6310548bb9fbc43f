"""Estimators in the shape of scikit-learn."""

import math
import sys
import warnings

import numpy as np

from . import _dpopt
from ._values import count, maybe, numbers, places, public_list, real, word
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


def _flat(values):
    """Whether a list is one of values, and not of lists."""
    return hasattr(values, "__len__") and not (len(values) and isinstance(values[0], (list, tuple, np.ndarray)))


def _is_sparse(rows):
    return hasattr(rows, "tocsr")


#: Parts of scikit-learn that call fit once, or whose fits are no search.
_ONCE = ("sklearn.base", "sklearn.pipeline", "sklearn.compose", "sklearn.utils")


def _repeated():
    """What of scikit-learn calls fit, where it does so several times on the same records."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("sklearn.") and not name.startswith(_ONCE):
            return name
        frame = frame.f_back
    return None


class _Private(BaseEstimator):
    """What the estimators share: public facts in, one charged training, a guarantee."""

    def _check_public(self):
        if self.epsilon is None or self.delta is None:
            raise DPUserError(
                "give a budget: epsilon=, and delta= well below 1 over the number of records. The guarantee is (epsilon, delta)-DP "
                f"under {self.adjacency} adjacency"
            )
        who = _repeated()
        if who is not None:
            raise DPUserError(
                f"{who} trains several times on the same records, and what it chooses or scores is a release too: its cost is not that of "
                "one training. Choose privately with `dpopt tune`, or choose on public data"
            )
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
        """One value for each row."""
        if y is None:
            raise ValueError(f"requires y to be passed, but the target y is None ({what})")
        if not hasattr(y, "shape") and hasattr(y, "__array__"):
            y = np.asarray(y)
        shape = y.shape if hasattr(y, "shape") else np.shape(np.empty(len(y))) if _flat(y) else np.shape(np.asarray(y, dtype=object))
        if len(shape) == 2 and shape[1] == 1:
            warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=3)
            y = np.asarray(y)[:, 0]
            shape = y.shape
        if len(shape) != 1 or shape[0] != rows.shape[0]:
            raise DPUserError(f"{rows.shape[0]} rows and {what} of shape {tuple(shape)}: one for each row")
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

    def _task(self, public, placed, *, loss, classes=0, label_bound=None):
        if not isinstance(self.hidden, (list, tuple)):
            raise DPUserError(f"hidden=(64, 32) are the units of layers, not {self.hidden!r}")
        return {
            **public,
            "loss": word("loss", loss),
            "classes": classes,
            "hidden": [count("hidden", units, 1, 2**20) for units in self.hidden],
            "activation": word("activation", self.activation),
            "seed": count("start_seed", self.start_seed),
            "row_norm": placed["row_norm"],
            "label_bound": label_bound,
            "solver": word("solver", self.solver),
        }

    def _train(self, rows, labels, task, placed, from_data, **of_fit):
        table = self._table(rows, labels, placed)
        threads = maybe(count, "threads", self.threads, 1, 4096)
        found = _dpopt.train(table, task, threads, self.ledger, self.progress)
        return self._keep(rows, task, placed, from_data, found, of_fit)

    def _keep(self, rows, task, placed, from_data, found, of_fit):
        """What a finished training leaves: nothing is set before."""
        vars(self).update(of_fit)
        self._fitted = {"task": task, "placed": placed, "weights": found["weights"]}
        self.n_features_in_ = rows.shape[1]
        self.plan_ = found["plan"]
        self.stop_, self.steps_, self.bound_ = found["stop"], found["steps"], found["bound"]
        self.event_ = found["event"]
        self.guarantee_ = Statement(found["epsilon"], task["delta"], task["adjacency"], found["accountant"], found["event"])
        self.rests_on_ = list(found["rests_on"])
        if from_data:
            self.rests_on_.append(f"{' and '.join(from_data)} that were read off the records, which the guarantee does not cover")
            warnings.warn(self.rests_on_[-1], FromDataWarning, stacklevel=4)
        if not task["hidden"]:
            weights = found["weights"].reshape(-1, rows.shape[1] + (placed["intercept"] is not None))
            self.coef_ = weights[:, : rows.shape[1]]
            self.intercept_ = weights[:, rows.shape[1] :].sum(axis=1) * (placed["intercept"] or 0.0)
        return self

    def _outputs(self, rows):
        if not hasattr(self, "_fitted"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' first.")
        rows = self._shape(rows)
        if rows.shape[1] != self.n_features_in_:
            raise DPUserError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input"
            )
        table = self._table(rows, np.zeros(rows.shape[0]), self._fitted["placed"])
        return _dpopt.outputs(table, self._fitted["task"], self._fitted["weights"])

    def plan(self, records, features):
        """The plan of a training on so many records, from public facts alone: nothing is read and nothing is charged."""
        public = {**self._check_public(), "records": count("records", records, 1)}
        features = count("features", features, 1)
        ranged = self.bounds is not None or self.bounds_from_data
        placed = {"row_norm": self._norm(features, ranged)}
        task = self._task(public, placed, **self._planned())
        return _dpopt.plan(task, features + (self._constant() is not None))

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
            raise DPUserError(f"Classifier can't train when only one class is present: {len(classes)} class in classes=")
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
        return self._of_classes(public_list("classes=", self.classes))

    def fit(self, X, y):
        """Trains once, and pays before anything is released."""
        public, from_data = self._check_public(), []
        rows = self._shape(X)
        labels = self._column(rows, y)
        if self.classes is not None:
            classes = public_list("classes=", self.classes)
        elif self.bounds_from_data:
            labels = np.asarray(labels)
            if labels.dtype.kind == "f" and np.any(labels[np.isfinite(labels)] != np.floor(labels[np.isfinite(labels)])):
                raise ValueError("Unknown label type: continuous. Labels of a classifier are classes")
            classes = list(np.unique(labels))
            from_data.append("classes")
        else:
            raise DPUserError(
                "give classes=, the public list of labels: which labels occur tells of the records. bounds_from_data=True reads them off "
                "all the same, and labels the guarantee"
            )
        of = self._of_classes(classes)
        placed = self._placed(rows, from_data)
        task = self._task(public, placed, **of)
        index = places(labels, classes, "labels")
        targets = index if of["classes"] else np.where(index == 1, 1.0, -1.0)
        return self._train(rows, targets, task, placed, from_data, classes_=np.asarray(classes))

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
        loss = self._fitted["task"]["loss"]
        if loss not in ("logistic", "softmax"):
            raise AttributeError(f"{loss} is no likelihood; use decision_function")
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
        public, from_data = self._check_public(), []
        rows = self._shape(X)
        labels = numbers(self._column(rows, y), "labels").astype(np.float64)
        if self.label_bounds is not None:
            try:
                low, high = (real("an end of label_bounds", end) for end in self.label_bounds)
            except (TypeError, ValueError):
                raise DPUserError(f"label_bounds=(low, high) are two numbers, not {self.label_bounds!r}") from None
        elif self.bounds_from_data:
            finite = labels[np.isfinite(labels)]
            low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 1.0)
            low, high = (low, high) if low < high else (low - 1.0, low + 1.0)
            from_data.append("label bounds")
        else:
            raise DPUserError(
                "give label_bounds=(low, high), a public range of the label. bounds_from_data=True reads it off the records all the same, "
                "and labels the guarantee"
            )
        if not (low < high and math.isfinite(high - low)):
            raise DPUserError(f"label_bounds are {low} and {high}; both have to be finite, and the first below the second")
        placed = self._placed(rows, from_data)
        task = self._task(public, placed, **self._planned())
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        with np.errstate(all="ignore"):
            # What is no number counts as the middle.
            targets = np.nan_to_num(np.clip((labels - middle) / half, -1.0, 1.0), nan=0.0)
        return self._train(rows, targets, task, placed, from_data, _label=(middle, half))

    def predict(self, X):
        """The number, cut to ``label_bounds``."""
        outputs = self._outputs(X)[:, 0]
        middle, half = self._label
        return middle + half * np.clip(outputs, -1.0, 1.0)


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

    def fit(self, X, y, groups=None):
        """Trains once on rows, labels and the group of each record, and pays before anything is released."""
        public = self._check_public()
        if self.groups is None or self.classes is None or self.shares is None:
            raise DPUserError(
                "give groups= and classes=, public lists, and shares=, the public share of each (group, class): none may be counted in the "
                "records"
            )
        listed, classes = public_list("groups=", self.groups), public_list("classes=", self.classes)
        if len(classes) != 2:
            raise DPUserError(f"{len(classes)} classes; groups are told apart for two, the second of which is positive")
        cells = [tuple(self._share(group, label) for label in classes) for group in listed]
        if groups is None:
            raise DPUserError("fit(X, y, groups): the group of each record")
        rows = self._shape(X)
        positive = places(self._column(rows, y), classes, "labels") == 1
        cell = 1.0 + places(self._column(rows, groups, "groups"), listed, "groups")
        placed = self._placed(rows, [])
        task = {
            **public,
            "objective": word("objective", self.objective),
            "shares": cells,
            "by_class": bool(self.by_class),
            "dual_weight": real("dual_weight", self.dual_weight),
            "row_norm": placed["row_norm"],
        }
        table = self._table(rows, np.where(positive, cell, -cell), placed)
        threads = maybe(count, "threads", self.threads, 1, 4096)
        found, weights = _dpopt.train_groups(table, task, threads, self.ledger, self.progress)
        # Scores are those of a logistic model.
        score = {"loss": "logistic", "classes": 0, "hidden": [], "activation": "relu", "seed": 0, "label_bound": None, "solver": "auto"}
        of_fit = {"classes_": np.asarray(classes), "groups_": np.asarray(listed), "group_weights_": weights}
        return self._keep(rows, {**task, **score}, placed, [], found, of_fit)

    def _share(self, group, label):
        try:
            found = [share for (of, at), share in dict(self.shares).items() if of == group and at == label]
        except (TypeError, ValueError):
            raise DPUserError("shares= is {(group, class): share}") from None
        if len(found) != 1:
            raise DPUserError(f"shares= has no share of group {group!r} and class {label!r}")
        return real("a share", found[0])

    decision_function = PrivateClassifier.decision_function
    predict = PrivateClassifier.predict
    predict_proba = PrivateClassifier.predict_proba
