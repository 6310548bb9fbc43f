from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._dpopt import Event, Ledger, Schema
from ._certify import Certificate
from ._check import Unforeseen
from ._plans import Plan
from .accounting import Statement

_Self = TypeVar("_Self")
#: An array, a sparse matrix, a frame, or with a schema a path.
_Records = Any
_Schema = Schema | str | PathLike[str] | None
_Bounds = tuple[ArrayLike, ArrayLike] | None
_Progress = Callable[[int, int], object] | None

class _Private:
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    features_: list[str]
    schema_: Schema
    plan_: Plan
    stop_: str
    steps_: int
    bound_: str | None
    event_: Event
    guarantee_: Statement
    rests_on_: list[str]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self: _Self, **params: Any) -> _Self: ...
    def plan(self, records: int, features: int | None = None) -> Plan: ...
    def check_not_private(self, X: _Records, y: Any = None, groups: Any = None) -> Unforeseen: ...

class _Certifiable:
    def certify(
        self,
        X: _Records,
        y: Any = None,
        *,
        epsilon: float,
        delta: float,
        gradient: float | None = None,
        curvature: float | None = None,
        failure: float = 0.05,
        ledger: Ledger | None = None,
    ) -> Certificate: ...

class PrivateClassifier(_Certifiable, _Private):
    classes_: NDArray[Any]
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        adjacency: str = "replace-one",
        bounds: _Bounds = None,
        row_norm: float | None = None,
        classes: Sequence[Any] | None = None,
        class_weights: Mapping[Any, float] | None = None,
        bounds_from_data: bool = False,
        records: int | None = None,
        loss: str | None = None,
        hidden: Sequence[int] = (),
        activation: str = "relu",
        start_seed: int = 0,
        intercept: float = 1.0,
        schema: _Schema = None,
        solver: str = "auto",
        max_steps: int | None = None,
        threads: int | None = None,
        ledger: Ledger | None = None,
        progress: _Progress = None,
    ) -> None: ...
    def fit(self: _Self, X: _Records, y: Any = None) -> _Self: ...
    def decision_function(self, X: _Records) -> NDArray[np.float64]: ...
    def predict(self, X: _Records) -> NDArray[Any]: ...
    def predict_proba(self, X: _Records) -> NDArray[np.float64]: ...

class PrivateMLPClassifier(PrivateClassifier):
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        adjacency: str = "replace-one",
        bounds: _Bounds = None,
        row_norm: float | None = None,
        classes: Sequence[Any] | None = None,
        class_weights: Mapping[Any, float] | None = None,
        bounds_from_data: bool = False,
        records: int | None = None,
        loss: str | None = None,
        hidden: Sequence[int] = (64,),
        activation: str = "relu",
        start_seed: int = 0,
        intercept: float = 1.0,
        schema: _Schema = None,
        solver: str = "auto",
        max_steps: int | None = None,
        threads: int | None = None,
        ledger: Ledger | None = None,
        progress: _Progress = None,
    ) -> None: ...

class PrivateRegressor(_Certifiable, _Private):
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        adjacency: str = "replace-one",
        bounds: _Bounds = None,
        row_norm: float | None = None,
        label_bounds: tuple[float, float] | None = None,
        bounds_from_data: bool = False,
        records: int | None = None,
        loss: str = "huber",
        hidden: Sequence[int] = (),
        activation: str = "relu",
        start_seed: int = 0,
        intercept: float = 1.0,
        schema: _Schema = None,
        solver: str = "auto",
        max_steps: int | None = None,
        threads: int | None = None,
        ledger: Ledger | None = None,
        progress: _Progress = None,
    ) -> None: ...
    def fit(self: _Self, X: _Records, y: Any = None) -> _Self: ...
    def predict(self, X: _Records) -> NDArray[np.float64]: ...

class PrivateGroupDRO(_Private):
    classes_: NDArray[Any]
    groups_: NDArray[Any]
    group_weights_: NDArray[np.float64]
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        groups: Sequence[Any] | None = None,
        shares: Mapping[tuple[Any, Any], float] | Iterable[tuple[tuple[Any, Any], float]] | None = None,
        by_class: bool = True,
        objective: Literal["group-dro", "equal-opportunity"] = "group-dro",
        dual_weight: float = 1.0,
        adjacency: str = "replace-one",
        bounds: _Bounds = None,
        row_norm: float | None = None,
        classes: Sequence[Any] | None = None,
        schema: _Schema = None,
        records: int | None = None,
        intercept: float = 1.0,
        max_steps: int | None = None,
        threads: int | None = None,
        ledger: Ledger | None = None,
        progress: _Progress = None,
    ) -> None: ...
    def fit(self: _Self, X: _Records, y: Any = None, groups: Any = None) -> _Self: ...
    def decision_function(self, X: _Records) -> NDArray[np.float64]: ...
    def predict(self, X: _Records) -> NDArray[Any]: ...
    def predict_proba(self, X: _Records) -> NDArray[np.float64]: ...

class PrivateRanker(_Private):
    classes_: NDArray[Any]
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        positive_share: float | None = None,
        adjacency: str = "replace-one",
        bounds: _Bounds = None,
        row_norm: float | None = None,
        classes: Sequence[Any] | None = None,
        schema: _Schema = None,
        records: int | None = None,
        intercept: float = 1.0,
        max_steps: int | None = None,
        threads: int | None = None,
        ledger: Ledger | None = None,
        progress: _Progress = None,
    ) -> None: ...
    def fit(self: _Self, X: _Records, y: Any = None) -> _Self: ...
    def decision_function(self, X: _Records) -> NDArray[np.float64]: ...
    def predict(self, X: _Records) -> NDArray[np.float64]: ...
