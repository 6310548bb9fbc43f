"""Estimators in the shape of scikit-learn."""

import math

import numpy as np

from . import _dpopt
from ._base import ClassifierMixin, FromDataWarning, NotFittedError, Private, RegressorMixin, names_of  # noqa: F401
from ._certify import Certifiable
from ._frames import table_of
from ._plans import Plan
from ._values import count, maybe, numbers, places, public_list, real, warn_of_budget, word
from .errors import DPUserError


class PrivateClassifier(Certifiable, ClassifierMixin, Private):
    """A linear classifier, or a perceptron with ``hidden``, trained under differential privacy.

    ``epsilon``, ``delta``, ``adjacency``: the budget. ``bounds``: public (low, high) of the columns, to which values are cut and by which
    they are brought to [-1, 1]; or ``row_norm``: a public bound on the length of a row, the intercept's constant included. ``classes``: the
    public list of labels; another label counts as the first of them. ``class_weights``: ``{class: weight}``, public factors of records' losses
    from 1e-6 to 1e6, 1 where none is given; the clip and the noise follow the largest. ``schema``: in their place, a :class:`dpopt.Schema`, its path or its
    TOML text; X is then a frame of pandas or polars, a dict of columns, or the path of a CSV, Parquet or ``.dpr`` file. ``solver``: a name of :func:`dpopt.solvers`, or ``"auto"``.
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
        class_weights=None,
        bounds_from_data=False,
        records=None,
        loss=None,
        hidden=(),
        activation="relu",
        start_seed=0,
        intercept=1.0,
        schema=None,
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
        self.class_weights = class_weights
        self.bounds_from_data = bounds_from_data
        self.records = records
        self.loss = loss
        self.hidden = hidden
        self.activation = activation
        self.start_seed = start_seed
        self.intercept = intercept
        self.schema = schema
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
        return {"loss": loss, "classes": len(classes) if several else 0, "class_weights": self._weights_of(classes)}

    def _weights_of(self, classes):
        """A factor for each class; none where no weights are given."""
        if self.class_weights is None:
            return None
        if isinstance(self.class_weights, str):
            raise DPUserError(
                f"class_weights={self.class_weights!r}: weights that are counted from the records would tell the count, which is paid by nothing; "
                "write the weights, from shares that are public"
            )
        try:
            given = dict(self.class_weights)
            unknown = [value for value in given if value not in classes]
        except (TypeError, ValueError):
            raise DPUserError(f"class_weights={self.class_weights!r} is not {{class: weight}}") from None
        if unknown:
            more = ", ..." if len(classes) > 10 else ""
            raise DPUserError(f"class_weights has {unknown[0]!r}, which is none of the classes {', '.join(map(repr, classes[:10]))}{more}")
        return [real("a class weight", given.get(value, 1.0)) for value in classes]

    @staticmethod
    def _classes_of(schema):
        if schema.classes is None:
            raise DPUserError(f"the label {schema.label!r} of the schema is a number: take PrivateRegressor")
        return schema.classes

    def _planned(self, schema=None):
        if schema is not None:
            return self._of_classes(self._classes_of(schema))
        if self.classes is None:
            raise DPUserError("give classes=, the public list of labels")
        return self._of_classes(public_list("classes=", self.classes))

    def fit(self, X, y=None):
        """Trains once, and pays before anything is released. With ``schema`` X is a frame or a path, and has the label."""
        public, from_data = self._check_public(), []
        schema = self._by_schema(y)
        if schema is not None:
            classes, placed = self._classes_of(schema), self._placed_by(schema)
            task = self._task(public, placed, **self._of_classes(classes))
            return self._train(table_of(X, schema, labels=True), task, placed, [], classes_=np.asarray(classes), schema_=schema)
        rows = self._shape(X)
        labels = self._column(rows.shape[0], y)
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
        table = self._table(rows, self._targets(labels, classes), placed)
        return self._train(table, task, placed, from_data, classes_=np.asarray(classes), feature_names_in_=names_of(X))

    def _targets(self, labels, classes=None):
        classes = list(self.classes_) if classes is None else classes
        index = places(labels, classes, "labels")
        return index if len(classes) > 2 else np.where(index == 1, 1.0, -1.0)

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
        class_weights=None,
        bounds_from_data=False,
        records=None,
        loss=None,
        hidden=(64,),
        activation="relu",
        start_seed=0,
        intercept=1.0,
        schema=None,
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
            class_weights=class_weights,
            bounds_from_data=bounds_from_data,
            records=records,
            loss=loss,
            hidden=hidden,
            activation=activation,
            start_seed=start_seed,
            intercept=intercept,
            schema=schema,
            solver=solver,
            max_steps=max_steps,
            threads=threads,
            ledger=ledger,
            progress=progress,
        )


class PrivateRegressor(Certifiable, RegressorMixin, Private):
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
        schema=None,
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
        self.schema = schema
        self.solver = solver
        self.max_steps = max_steps
        self.threads = threads
        self.ledger = ledger
        self.progress = progress

    @staticmethod
    def _ends_of(schema):
        if schema.label_bounds is None:
            raise DPUserError(f"the label {schema.label!r} of the schema is a class: take PrivateClassifier")
        return schema.label_bounds

    def _planned(self, schema=None):
        if schema is not None:
            self._ends_of(schema)
        return {"loss": self.loss, "label_bound": 1.0}

    def fit(self, X, y=None):
        """Trains once, and pays before anything is released. With ``schema`` X is a frame or a path, and has the label."""
        public, from_data = self._check_public(), []
        schema = self._by_schema(y)
        if schema is not None:
            (low, high), placed = self._ends_of(schema), self._placed_by(schema)
            task = self._task(public, placed, **self._planned(schema))
            of_fit = {"_label": ((low + high) / 2.0, (high - low) / 2.0), "schema_": schema}
            return self._train(table_of(X, schema, labels=True), task, placed, [], **of_fit)
        rows = self._shape(X)
        column = self._column(rows.shape[0], y)
        labels = numbers(column, "labels").astype(np.float64)
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
        of = (low + high) / 2.0, (high - low) / 2.0
        table = self._table(rows, self._targets(column, of), placed)
        return self._train(table, task, placed, from_data, _label=of, feature_names_in_=names_of(X))

    def _targets(self, labels, of=None):
        middle, half = of or self._label
        with np.errstate(all="ignore"):
            # What is no number counts as the middle.
            return np.nan_to_num(np.clip((numbers(labels, "labels").astype(np.float64) - middle) / half, -1.0, 1.0), nan=0.0)

    def predict(self, X):
        """The number, cut to ``label_bounds``."""
        outputs = self._outputs(X)[:, 0]
        middle, half = self._label
        return middle + half * np.clip(outputs, -1.0, 1.0)


class _ByObjective(Private):
    """A linear score of two classes whose objective has a dual variable."""

    bounds_from_data = False

    def _two(self, schema, hint):
        """The public classes, the second of which is positive."""
        if schema is None and self.classes is None:
            raise DPUserError(hint)
        classes = public_list("classes=", self.classes) if schema is None else PrivateClassifier._classes_of(schema)
        if len(classes) != 2:
            raise DPUserError(f"{len(classes)} classes; {type(self).__name__} has two, the second of which is positive")
        return classes

    def _records(self, X, y, schema, classes):
        """Rows with 1 and -1 for the classes, and how they are placed."""
        if schema is not None:
            return table_of(X, schema, labels=True), self._placed_by(schema)
        rows = self._shape(X)
        positive = places(self._column(rows.shape[0], y), classes, "labels") == 1
        placed = self._placed(rows, [])
        return self._table(rows, np.where(positive, 1.0, -1.0), placed), placed

    def _train_by_objective(self, table, placed, task, schema, of_fit):
        """Trains on the cell of each record, and returns what the point has beside the weights."""
        of_fit = of_fit if schema is None else {**of_fit, "schema_": schema}
        task = {**task, "row_norm": placed["row_norm"]}
        self._warn_of_budget(task, table, 3)
        threads = maybe(count, "threads", self.threads, 1, 4096)
        found, beside = _dpopt.train_groups(table, task, threads, self.ledger, self.progress)
        # Scores are those of a logistic model.
        score = {"loss": "logistic", "classes": 0, "class_weights": None, "hidden": [], "activation": "relu", "seed": 0, "label_bound": None, "solver": "auto"}
        self._keep(table.width, {**task, **score}, placed, [], found, of_fit)
        return beside

    def plan(self, records, features=None):
        """As :meth:`PrivateClassifier.plan`."""
        public, schema = {**self._check_public(), "records": count("records", records, 1)}, self._by_schema()
        width, placed = self._planned_rows(features, schema)
        task = {**public, **self._objective(schema), "row_norm": placed["row_norm"]}
        found = _dpopt.plan_groups(task, width)
        warn_of_budget(task["epsilon"], task["delta"], task["records"], 2)
        return Plan(found, delta=task["delta"], adjacency=task["adjacency"], records=task["records"])

    decision_function = PrivateClassifier.decision_function


class PrivateGroupDRO(ClassifierMixin, _ByObjective):
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
        schema=None,
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
        self.schema = schema
        self.records = records
        self.intercept = intercept
        self.max_steps = max_steps
        self.threads = threads
        self.ledger = ledger
        self.progress = progress

    def _lists(self, schema):
        hint = "give groups= and classes=, public lists, and shares=, the public share of each (group, class): none may be counted in the records"
        if self.groups is None or self.shares is None:
            raise DPUserError(hint)
        return public_list("groups=", self.groups), self._two(schema, hint)

    def _objective(self, schema):
        listed, classes = self._lists(schema)
        return {
            "objective": word("objective", self.objective),
            "shares": [tuple(self._share(group, label) for label in classes) for group in listed],
            "by_class": bool(self.by_class),
            "dual_weight": real("dual_weight", self.dual_weight),
        }

    def fit(self, X, y=None, groups=None):
        """Trains once on rows, labels and the group of each record, and pays before anything is released. With ``schema`` X is a frame or a
        path, and has the label: ``fit(X, groups=...)``."""
        public, schema = self._check_public(), self._by_schema(y)
        (listed, classes), objective = self._lists(schema), self._objective(schema)
        if groups is None:
            raise DPUserError("fit(X, y, groups): the group of each record")
        table, placed = self._records(X, y, schema, classes)
        cell = 1.0 + places(self._column(len(table), groups, "groups"), listed, "groups")
        table.times(cell.astype(np.float32))
        of_fit = {"classes_": np.asarray(classes), "groups_": np.asarray(listed), "feature_names_in_": names_of(X)}
        self.group_weights_ = self._train_by_objective(table, placed, {**public, **objective}, schema, of_fit)
        return self

    def _share(self, group, label):
        try:
            found = [share for (of, at), share in dict(self.shares).items() if of == group and at == label]
        except (TypeError, ValueError):
            raise DPUserError("shares= is {(group, class): share}") from None
        if len(found) != 1:
            raise DPUserError(f"shares= has no share of group {group!r} and class {label!r}")
        return real("a share", found[0])

    predict = PrivateClassifier.predict
    predict_proba = PrivateClassifier.predict_proba


class PrivateRanker(_ByObjective):
    """A linear score that ranks: the square surrogate of the area under the ROC curve, by descent and ascent.

    ``classes``: the public (negative, positive). ``positive_share``: the public share of positives, from outside of the records; a wrong one
    costs accuracy and no privacy. No bound is stated. A score has no threshold and is no probability. The rest as for
    :class:`PrivateClassifier`.
    """

    def __init__(
        self,
        epsilon=None,
        delta=None,
        *,
        positive_share=None,
        adjacency="replace-one",
        bounds=None,
        row_norm=None,
        classes=None,
        schema=None,
        records=None,
        intercept=1.0,
        max_steps=None,
        threads=None,
        ledger=None,
        progress=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.positive_share = positive_share
        self.adjacency = adjacency
        self.bounds = bounds
        self.row_norm = row_norm
        self.classes = classes
        self.schema = schema
        self.records = records
        self.intercept = intercept
        self.max_steps = max_steps
        self.threads = threads
        self.ledger = ledger
        self.progress = progress

    def _objective(self, schema):
        hint = "give classes=(negative, positive), and positive_share=, a public number: neither may be read off the records"
        if self.positive_share is None:
            raise DPUserError(hint)
        self._two(schema, hint)
        share = real("positive_share", self.positive_share)
        if not 0 < share < 1:
            raise DPUserError(f"positive_share is {share}; it has to be above 0 and below 1")
        return {"objective": "auc", "shares": [(1.0 - share, share)], "by_class": False, "dual_weight": 1.0}

    def fit(self, X, y=None):
        """Trains once, and pays before anything is released. With ``schema`` X is a frame or a path, and has the label."""
        public, schema = self._check_public(), self._by_schema(y)
        task, classes = {**public, **self._objective(schema)}, self._two(schema, "")
        table, placed = self._records(X, y, schema, classes)
        of_fit = {"classes_": np.asarray(classes), "feature_names_in_": names_of(X)}
        self._train_by_objective(table, placed, task, schema, of_fit)
        return self

    def predict(self, X):
        """The scores, to sort by."""
        return self.decision_function(X)
